"""Search spaces: a preset's keywords with the values that each may take, plain data that stands on the preset.

Values may depend on the problem: a function that stands for them lists those of one spec, the one that should be
fastest first. That is how a preset that has a cost model of its own ranks its candidates.
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

if TYPE_CHECKING:
    from fireiron.estimate.tiling import Tiling

Plain: TypeAlias = "int | float | str | bool | tuple[Plain, ...] | Made | None"
Ranking: TypeAlias = Callable[[Any], Iterable[Any]]
"""List the values of a keyword for one spec, the one that should be fastest first."""
Sizing: TypeAlias = "Callable[[Any, Mapping[str, Any]], Tiling | None]"
"""Give the sizes of a point's tiles, for the quick model: of a spec and keywords; None of a spec that it is not for."""
Function = TypeVar("Function", bound=Callable[..., Any])
CLASS = "class"  # key of a `Made` in JSON
JUDGED = 4  # points of a quick model's order that the cost model judges


@attrs.frozen(repr=False)
class Made:
    """Stand for an object of a class of attrs, as plain data.

    Args:
        name: of the class, as the preset's file knows it.
        fields: what differs from the defaults.

    Example:
        >>> Made("Plan", (("m", 128), ("cluster", (2, 1))))
        Plan(m=128, cluster=(2, 1))
    """

    name: str
    fields: tuple[tuple[str, Plain], ...] = ()

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.fields)})"


def arguments(function: Callable[..., Any], point: Point) -> dict[str, Any]:
    """Give what a preset is called with: where a point holds a `Made`, the object that it stands for.

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
        """Give the values by name; `arguments` gives what the preset is called with."""
        return dict(self.values)

    def to_json(self) -> dict[str, Any]:
        """Give plain data, which `point` reads again."""
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
    """Make a point; lists and objects, as JSON has them, become tuples and `Made`, and so do objects of attrs.

    Raises:
        UsageError: `bad-space` for a value that is no plain data.
    """
    return Point(tuple(sorted((name, _plain(name, value)) for name, value in keywords.items())))


@attrs.frozen
class Space:
    """Hold the values that each keyword may take for one problem.

    Args:
        axes: names and values; values in an order in which neighbours are alike.
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
        """List the points, or so many of them, each once: of a ranked space the first, of others a random draw.

        Args:
            most: how many at most; all where None.
            seed: of the draw.
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
        return " ".join(f"{name}={','.join(_word(v) for v in values)}" for name, values in self.axes)


@attrs.frozen
class Declared:
    """Hold the space that stands on a preset, before it is known for which problem.

    Args:
        axes: names, and values or the function that lists them for a spec.
        since: the architecture that the preset is for, which later ones have a better preset than; "" for all.
        tiling: gives the tiles of a point, None where the preset does not say.
        judged: number of points, of those that the quick model of tiles finds fastest, that the cost model judges.
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
        """Give the space for one problem.

        Args:
            spec: what `matmul(...)` gives.
            most: number of values, at most, of each keyword whose values a function ranks; all where None.

        Raises:
            UsageError: `no-candidates` where a function lists none for it, `bad-space`.
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
    """Say on a preset which values its keywords may take: the tuner searches among them, and `best` chooses from them.

    Args:
        since: the architecture that the preset is for (`sm_80`): where several presets take a problem, `best` without
            records uses that for the newest architecture; "" for any.
        tiling: from a spec and keywords to a `Tiling`; by a quick model of it `best` finds the few points that it
            builds and judges, where else it builds dozens.
        judged: number of points of the quick model's order that the cost model judges, beside the defaults; 1 where
            the order of the quick model is better, which is then taken as it is.
        values: a sequence of values for each keyword, or a function that lists them for a spec, the one that should
            be fastest first; numbers, texts, booleans, None, tuples of them, and objects of frozen classes of attrs.

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
    """Give the space that stands on a preset, None where there is none."""
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
    """Make a space for a function, and check that the function takes its keywords.

    Args:
        function: the preset.
        values: a sequence of values for each keyword, or a function that lists them.
        since: the architecture that the preset is for.
        tiling: gives the tiles of a point.
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
    """Give the point of a preset's own defaults; of a ranked space the first."""
    if space.ranked:
        return next(space.points(1))
    parameters = inspect.signature(function).parameters
    names = [name for name, _ in space.axes if name in parameters]
    return point({n: parameters[n].default for n in names if parameters[n].default is not inspect.Parameter.empty})


def values_of(text: str) -> tuple[str, tuple[Plain, ...]]:
    """Read `NAME=VALUE,VALUE`; a tuple is written `64x32`.

    Raises:
        ValueError: where it is something else.

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


def _word(value: Plain) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


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
    """Write down an object of attrs; fields that hold their default are left out."""
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
    """List the fields of a class of attrs: name, name as an argument, and the default as it is and as plain data.

    A default that is made anew each time is no plain data: what is held then is always written.
    """
    found: list[tuple[str, str, tuple[Any, Plain] | None]] = []
    for field in attrs.fields(kind):
        usual: Any = field.default
        known = usual is None or isinstance(usual, int | float | str | tuple) or attrs.has(usual.__class__)
        default = (cast("Any", usual), _plain(field.name, usual)) if known else None
        found.append((field.name, field.alias or field.name, default))
    return tuple(found)
