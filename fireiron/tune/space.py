"""Search spaces: the keywords of a preset with the values that each may have, stored on the preset as plain data.

In place of values, a space may have a function that lists the values for a spec, the one expected to be fastest first.
With such a function a preset ranks its candidates by its own cost model.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import attrs

from fireiron.base.errors import FireironError, UsageError
from fireiron.base.text import by

if TYPE_CHECKING:
    from fireiron.estimate.tiling import Tiling

Plain: TypeAlias = "int | float | str | bool | tuple[Plain, ...] | Made | None"
Ranking: TypeAlias = Callable[[Any], Iterable[Any]]
"""List the values of a keyword for one spec, the one expected to be fastest first."""
Sizing: TypeAlias = "Callable[[Any, Mapping[str, Any]], Tiling | None]"
"""Return the tile sizes for the quick model, given a spec and a point's keywords; None for unsupported specs.
"""
Function = TypeVar("Function", bound=Callable[..., Any])
CLASS = "class"  # key of a `Made` in JSON
JUDGED = 4  # points of a quick model's order that the cost model judges


@attrs.frozen(repr=False)
class Made:
    """Stand for an object of a class of attrs, as plain data.

    Args:
        name: name of the class in the preset's file.
        fields: names and values of the fields that differ from their defaults.

    Example:
        >>> Made("Plan", (("m", 128), ("cluster", (2, 1))))
        Plan(m=128, cluster=(2, 1))
    """

    name: str
    fields: tuple[tuple[str, Plain], ...] = ()

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.fields)})"


def arguments(function: Callable[..., Any], point: Point) -> dict[str, Any]:
    """Return the keywords of a call of a preset; each `Made` of the point is replaced by its object.

    Raises:
        UsageError: `unknown-class` where the preset's file has no such class.
    """
    known = getattr(inspect.unwrap(function), "__globals__", {})

    def real(value: Plain) -> Any:
        match value:
            case tuple():
                return tuple(real(each) for each in value)
            case Made(name, fields):
                made = known.get(name)
                if not (isinstance(made, type) and attrs.has(made)):
                    raise UsageError("unknown-class", f"{value} cannot be made: {name} is not known", fix="tune again")
                return made(**{field: real(each) for field, each in fields})
            case _:
                return value

    return {name: real(value) for name, value in point.values}


@attrs.frozen
class Point:
    """Choose a value for some keywords of a preset.

    Args:
        values: names and values, sorted by name.

    Example:
        >>> str(Point((("m", 128), ("warp", (64, 32)))))
        'm=128, warp=(64, 32)'
    """

    values: tuple[tuple[str, Plain], ...] = ()

    @property
    def keywords(self) -> dict[str, Any]:
        """Return the values by name. For the arguments of a call see `arguments`."""
        return dict(self.values)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data, which `point` reads."""
        return {name: _json(value) for name, value in self.values}

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.values)


def _json(value: Plain) -> Any:
    match value:
        case tuple():
            return [_json(each) for each in value]
        case Made(name, fields):
            return {CLASS: name, **{field: _json(each) for field, each in fields}}
        case _:
            return value


def point(keywords: Mapping[str, Any]) -> Point:
    """Make a point; lists become tuples, and JSON objects and attrs objects become `Made`.

    Raises:
        UsageError: `bad-space` for a value that is not plain data.
    """
    return Point(tuple(sorted((name, _plain(name, value)) for name, value in keywords.items())))


@attrs.frozen
class Space:
    """Hold the values that each keyword may take for one problem.

    Args:
        axes: pairs of a keyword and its values, ordered so that neighbouring values are similar.
        ranked: whether the points come in the preset's own ranking.
    """

    axes: tuple[tuple[str, tuple[Plain, ...]], ...]
    ranked: bool = False

    @property
    def size(self) -> int:
        """Count the points."""
        total = 1
        for _, values in self.axes:
            total *= len(values)
        return total

    def points(self, most: int | None = None, seed: int = 0) -> Iterator[Point]:
        """List points, each once: all, or `most` of them (of a ranked space the first, of others at random).

        Args:
            most: the largest number of points; all where None.
            seed: seed of the random choice.
        """
        if self.ranked or most is None or self.size <= most:
            names = [name for name, _ in self.axes]
            for chosen in itertools.islice(itertools.product(*(values for _, values in self.axes)), most):
                yield point(dict(zip(names, chosen, strict=True)))
            return
        import random

        for index in random.Random(seed).sample(range(self.size), most):
            yield self._at(index)

    def _at(self, index: int) -> Point:
        chosen: dict[str, Plain] = {}
        for name, values in self.axes:
            index, digit = divmod(index, len(values))
            chosen[name] = values[digit]
        return point(chosen)

    def neighbours(self, of: Point) -> Iterator[Point]:
        """List the points that differ in one keyword, by one place in its values."""
        keywords = of.keywords
        for name, values in self.axes:
            if keywords.get(name) not in values:
                continue
            at = values.index(keywords[name])
            for near in (at - 1, at + 1):
                if 0 <= near < len(values):
                    yield point({**keywords, name: values[near]})

    def __str__(self) -> str:
        return " ".join(f"{name}={','.join(by(v) for v in values)}" for name, values in self.axes)


@attrs.frozen
class Declared:
    """Hold the space of a preset for all problems.

    Args:
        axes: pairs of a keyword and its values, or the function that lists the values for a spec.
        since: the architecture that the preset is for; later architectures may have a better preset. "" for all.
        tiling: function that returns the tile sizes of a point; None where the preset has none.
        judged: number of points that the cost model judges: those that the quick model finds fastest.
    """

    axes: tuple[tuple[str, tuple[Plain, ...] | Ranking], ...]
    since: str = ""
    tiling: Sizing | None = attrs.field(default=None, eq=False)
    judged: int = JUDGED

    @property
    def ranked(self) -> bool:
        """Say whether the preset ranks its points itself."""
        return any(callable(values) for _, values in self.axes)

    def of(self, spec: Any = None, most: int | None = None) -> Space:
        """Return the space for one problem.

        Args:
            spec: the empty schedule.
            most: largest number of values of each keyword whose values a function ranks; all values where None.

        Raises:
            UsageError: `no-candidates` where a function lists no value for the spec, `bad-space`.
        """
        found: list[tuple[str, tuple[Plain, ...]]] = []
        for name, values in sorted(self.axes, key=lambda axis: not callable(axis[1])):  # what is ranked varies slowest
            listed = _listed(name, values, spec, most) if callable(values) else values
            found.append((name, listed))
        return Space(tuple(found), self.ranked)


def _listed(name: str, ranking: Ranking, spec: Any, most: int | None) -> tuple[Plain, ...]:
    try:
        listed = tuple(dict.fromkeys(_plain(name, value) for value in itertools.islice(ranking(spec), most)))
    except FireironError:
        raise
    except Exception as error:  # a user's function, or one that was not made for such a problem
        said = f"the function that lists {name} fails with {type(error).__name__}: {error}"
        raise UsageError("no-candidates", said, fix="use a preset for this problem") from error
    if not listed:
        raise UsageError(
            "no-candidates", f"the preset lists no {name} for this problem", fix="use a preset for this problem"
        )
    return listed


def space(
    since: str = "", tiling: Sizing | None = None, judged: int = JUDGED, /, **values: Any
) -> Callable[[Function], Function]:
    """Declare the values of a preset's keywords, among which the tuner searches and `best` chooses.

    Args:
        since: the architecture that the preset is for (`sm_80`): where several presets support a problem and there are
            no records, `best` uses the preset for the newest architecture. "" for any.
        tiling: function from a spec and keywords to a `Tiling`. With the quick model of this tiling, `best` builds and
            judges only a few points; without a tiling, dozens.
        judged: number of points, the first in the quick model's order, that the cost model judges beside the defaults.
            1 if the quick model's order is better; its first point is then used.
        values: for each keyword a sequence of values, or a function that lists the values for a spec, the one expected
            to be fastest first. Values are numbers, texts, booleans, None, tuples of these, or objects of frozen attrs
            classes.

    Example:
        >>> @space(m=(64, 128), stages=(2, 3, 4))
        ... def gemm(spec, m=128, stages=3): ...
        >>> space_of(gemm).of().size
        6

    Raises:
        UsageError: `empty-space`, `unknown-parameter`, `bad-space`.
    """

    def mark(function: Function) -> Function:
        cast(Any, function).space = checked(function, values, since, tiling, judged)
        return function

    return mark


def space_of(function: Callable[..., Any]) -> Declared | None:
    """Return the space of a preset; None for a function without a space."""
    found = getattr(function, "space", None)
    if found is None or isinstance(found, Declared):
        return found
    return checked(function, found)


def checked(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    since: str = "",
    tiling: Sizing | None = None,
    judged: int = JUDGED,
) -> Declared:
    """Make a space for a function, and check that the space's keywords are parameters of the function.

    Args:
        function: the preset.
        values: for each keyword a sequence of values, or a function that lists the values.
        since: the architecture that the preset is for.
        tiling: function that returns the tile sizes of a point.
        judged: see `space`.

    Raises:
        UsageError: `empty-space`, `unknown-parameter`, `bad-space`.
    """
    name = getattr(function, "__name__", str(function))
    parameters = list(inspect.signature(function).parameters.values())[1:]
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    axes: list[tuple[str, tuple[Plain, ...] | Ranking]] = []
    for key, listed in values.items():
        if key not in known and not takes_all:
            raise UsageError(
                "unknown-parameter", f"{name} takes no {key}", fix=f"it takes {', '.join(known) or 'nothing'}"
            )
        if callable(listed):
            axes.append((key, cast(Ranking, listed)))
            continue
        if isinstance(listed, str) or not hasattr(listed, "__iter__"):
            raise UsageError(
                "bad-space", f"{key} of {name} lists no values: {listed!r}", fix=f"write {key}=({listed!r},)"
            )
        axes.append((key, tuple(dict.fromkeys(_plain(key, value) for value in listed))))
    empty = [key for key, listed in axes if not listed]
    if empty or not axes:
        what = f"{empty[0]} of {name} has no values" if empty else f"the space of {name} names no keyword"
        raise UsageError(
            "empty-space", what, fix="give each keyword at least one value: @space(m=(64, 128)), or --space m=64,128"
        )
    return Declared(tuple(axes), since, tiling, judged)


def default_point(function: Callable[..., Any], space: Space) -> Point:
    """Return the point of a preset's defaults; for a ranked space, the first point."""
    if space.ranked:
        return next(space.points(1))
    parameters = inspect.signature(function).parameters
    names = [name for name, _ in space.axes if name in parameters]
    return point({n: parameters[n].default for n in names if parameters[n].default is not inspect.Parameter.empty})


def values_of(text: str) -> tuple[str, tuple[Plain, ...]]:
    """Read `NAME=VALUE,VALUE`; a tuple is written `64x32`.

    Raises:
        ValueError: for other texts.

    Example:
        >>> values_of("m=64,128"), values_of("warp=64x32,32x32")
        (('m', (64, 128)), ('warp', ((64, 32), (32, 32))))
    """
    name, equals, listed = text.partition("=")
    if not name.isidentifier() or not equals:
        raise ValueError(f"{text!r} is not NAME=VALUE,VALUE")
    return name, tuple(_read(word) for word in listed.split(",") if word)


def _read(word: str) -> Plain:
    parts = word.split("x")
    if len(parts) > 1 and all(part.isdigit() for part in parts):
        return tuple(int(part) for part in parts)
    try:
        return _plain(word, ast.literal_eval(word))
    except (ValueError, SyntaxError):
        return word


def _plain(name: str, value: Any) -> Plain:
    if isinstance(value, list | tuple):
        return tuple(_plain(name, each) for each in cast("tuple[Any, ...]", value))
    if value is None or isinstance(value, int | float | str | Made):
        return value
    facts = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if isinstance(facts.get(CLASS), str):
        return Made(facts[CLASS], tuple((key, _plain(key, each)) for key, each in facts.items() if key != CLASS))
    kind: Any = type(cast(object, value))
    if attrs.has(kind):
        return _made(name, value, kind)
    raise UsageError(
        "bad-space",
        f"{name} may be {value!r}, which is no plain data: a record could not hold it",
        fix="use numbers, texts, booleans, None, tuples of them, and objects of frozen classes of attrs",
    )


def _made(name: str, value: Any, kind: Any) -> Made:
    """Convert an attrs object to a `Made`; fields with their default are left out."""
    fields: list[tuple[str, Plain]] = []
    for field, written, usual in _fields(kind):
        held = getattr(value, field)
        if usual is not None and held is usual[0]:
            continue
        plain = _plain(f"{name}.{field}", held)
        if usual is None or plain != usual[1]:
            fields.append((written, plain))
    return Made(kind.__name__, tuple(fields))


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, tuple[Any, Plain] | None], ...]:
    """List the fields of an attrs class: name, name as an argument, default, and default as plain data.

    A default made by a factory has no plain data, so such fields are always written.
    """
    found: list[tuple[str, str, tuple[Any, Plain] | None]] = []
    for field in attrs.fields(kind):
        usual: Any = field.default
        known = usual is None or isinstance(usual, int | float | str | tuple) or attrs.has(usual.__class__)
        default = (cast("Any", usual), _plain(field.name, usual)) if known else None
        found.append((field.name, field.alias or field.name, default))
    return tuple(found)
