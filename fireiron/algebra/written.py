"""Scalar expressions as text, for places that keep text alone, such as the graphs of torch.compile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    Elsewhere,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
    children,
)
from fireiron.base.errors import SpecError

_known: dict[tuple[str, str], Callable[..., Any]] = {}  # NumPy functions of this process, by name and source


def write(trees: tuple[Scalar, ...]) -> str:
    """Write expressions.

    Raises:
        SpecError: `bad-op` for index expressions, which belong to a program.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> text = write((Binary("add", Arg(0, f32), Constant(1.5, f32)),))
        >>> text
        '[["add","f32",["arg","f32",0],["number","f32",1.5]]]'
        >>> read(text)[0].y.value
        1.5
    """
    return json.dumps([_written(tree) for tree in trees], separators=(",", ":"))


def read(text: str) -> tuple[Scalar, ...]:
    """Read what `write` wrote."""
    return tuple(_tree(cast("list[Any]", x)) for x in json.loads(text))


def _written(tree: Scalar) -> list[Any]:
    kind, inside = tree.dtype.name, [_written(x) for x in children(tree)]
    match tree:
        case Arg(index):
            return ["arg", kind, index]
        case Constant(value):
            return ["number", kind, value]
        case Parameter(name):
            return ["parameter", kind, name]
        case Unary(op) | Binary(op):
            return [op, kind, *inside]
        case MultiplyAdd():
            return ["multiply_add", kind, *inside]
        case Select():
            return ["select", kind, *inside]
        case Cast():
            return ["cast", kind, *inside]
        case Custom(name, source, parameters, numpy=numpy):
            _known[name, source] = numpy
            return ["custom", kind, name, source, list(parameters), *inside]
        case Debug(name, only=only):
            return ["debug", kind, name, only, *inside]
        case Coordinate():
            raise SpecError("bad-op", "an index belongs to a program, and this is an epilog", fix="write a program")


def _tree(record: list[Any]) -> Scalar:
    what, kind, rest = record[0], find_dtype(record[1]), record[2:]
    match what:
        case "arg":
            return Arg(rest[0], kind)
        case "number":
            return Constant(rest[0], kind)
        case "parameter":
            return Parameter(rest[0], kind)
        case "select":
            condition, x, y = map(_tree, rest)
            return Select(condition, x, y)
        case "multiply_add":
            return MultiplyAdd(*map(_tree, rest))
        case "cast":
            return Cast(_tree(rest[0]), kind)
        case "custom":
            name, source, parameters, *args = rest
            numpy = _known.get((name, source), Elsewhere(name))
            return Custom(name, source, tuple(parameters), tuple(map(_tree, args)), kind, numpy)
        case "debug":
            name, only, x = rest
            return Debug(name, _tree(x), only=None if only is None else tuple(only))
        case _ if len(rest) == 1:
            return Unary(what, _tree(rest[0]))
        case _:
            return Binary(what, _tree(rest[0]), _tree(rest[1]))
