"""Search spaces: a preset's keywords with the values that each may take, plain data that stands on the preset."""

from __future__ import annotations

import ast
import inspect
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast

import attrs

from fireiron.base.errors import UsageError

Plain: TypeAlias = "int | float | str | bool | tuple[Plain, ...] | None"
Function = TypeVar("Function", bound=Callable[..., Any])


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
        """Give what the preset is called with."""
        return dict(self.values)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.values)


def point(keywords: Mapping[str, Any]) -> Point:
    """Make a point; lists, as JSON has them, become tuples.

    Raises:
        UsageError: `bad-space` for a value that is no plain data.
    """
    return Point(tuple(sorted((name, _plain(name, value)) for name, value in keywords.items())))


@attrs.frozen
class Space:
    """Hold the values that each keyword may take.

    Args:
        axes: names and values, in the order of the signature; values in an order in which neighbours are alike.
    """

    axes: tuple[tuple[str, tuple[Plain, ...]], ...]

    @property
    def size(self) -> int:
        """Count the points."""
        total = 1
        for _, values in self.axes:
            total *= len(values)
        return total

    def points(self, most: int | None = None, seed: int = 0) -> Iterator[Point]:
        """List the points, or so many of them drawn at random, each once.

        Args:
            most: how many at most; all where None.
            seed: of the draw.
        """
        if most is None or self.size <= most:
            names = [name for name, _ in self.axes]
            for chosen in itertools.product(*(values for _, values in self.axes)):
                yield point(dict(zip(names, chosen, strict=True)))
            return
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


def space(**values: Any) -> Callable[[Function], Function]:
    """Say on a preset which values its keywords may take: the tuner searches among them.

    Example:
        >>> @space(m=(64, 128), stages=(2, 3, 4))
        ... def gemm(spec, m=128, stages=3): ...
        >>> space_of(gemm).size
        6

    Raises:
        UsageError: `empty-space`, `unknown-parameter`, `bad-space`.
    """

    def mark(function: Function) -> Function:
        cast(Any, function).space = checked(function, values)
        return function

    return mark


def space_of(function: Callable[..., Any]) -> Space | None:
    """Give the space that stands on a preset, None where there is none."""
    found = getattr(function, "space", None)
    if found is None or isinstance(found, Space):
        return found
    return checked(function, found)


def checked(function: Callable[..., Any], values: Mapping[str, Any]) -> Space:
    """Make a space for a function, and check that the function takes its keywords.

    Args:
        function: the preset.
        values: a sequence of values for each keyword.

    Raises:
        UsageError: `empty-space`, `unknown-parameter`, `bad-space`.
    """
    name = getattr(function, "__name__", str(function))
    parameters = list(inspect.signature(function).parameters.values())[1:]
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    axes: list[tuple[str, tuple[Plain, ...]]] = []
    for key, listed in values.items():
        if key not in known and not takes_all:
            raise UsageError(
                "unknown-parameter", f"{name} takes no {key}", fix=f"it takes {', '.join(known) or 'nothing'}"
            )
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
    return Space(tuple(axes))


def default_point(function: Callable[..., Any], space: Space) -> Point:
    """Give the point of a preset's own defaults."""
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
    if value is None or isinstance(value, int | float | str):
        return value
    raise UsageError(
        "bad-space",
        f"{name} may be {value!r}, which is no plain data: a record could not hold it",
        fix="use numbers, texts, booleans, None and tuples of them",
    )
