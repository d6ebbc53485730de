"""Scalar expressions as text, for places that can only keep text, such as the graphs of torch.compile."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, cast

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import (
    Bitwise,
    Compare,
    Const,
    Element,
    Expr,
    Extremum,
    FloorDiv,
    Logic,
    Mod,
    Product,
    Shift,
    Sum,
    Symbol,
    Var,
    and_,
    as_expr,
    closed,
    eq,
    free,
    lt,
    maximum,
    minimum,
    ne,
    or_,
    select,
    symbol,
)
from fireiron.algebra.expr import Select as IndexSelect
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


class _Symbols(dict[str, Expr]):
    """Make the symbol of a name."""

    def __missing__(self, name: str) -> Expr:
        return symbol(name, minimum=0)


_known: dict[tuple[str, str], Callable[..., Any]] = {}  # NumPy functions of this process, by name and source


def write(trees: tuple[Scalar, ...]) -> str:
    """Write expressions.

    Raises:
        SpecError: `bad-op` for index expressions over dims, which belong to a program; index expressions over symbols
            are written.

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
    """Read expressions from the text of `write`."""
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
        case Cast(wraps=wraps):
            return ["wrap" if wraps else "cast", kind, *inside]
        case Custom(name, source, parameters, numpy=numpy):
            _known[name, source] = numpy
            return ["custom", kind, name, source, list(parameters), *inside]
        case Debug(name, only=only):
            return ["debug", kind, name, only, *inside]
        case Coordinate(value) if all(isinstance(leaf, Symbol) for leaf in free(value)):
            return ["index", kind, written_index(value)]
        case Coordinate():
            raise SpecError("bad-op", "an index belongs to a program, and this is an epilog", fix="write a program")


def written_index(e: Expr) -> list[Any] | int | str:
    """Write an index expression over symbols as lists, numbers and names.

    Raises:
        SpecError: `bad-op` for an element of an array.

    Example:
        >>> from fireiron.algebra.expr import symbol
        >>> written_index(symbol("i") // 16 * 2 - symbol("j"))
        ['+', 0, [2, ['//', 'i', 16]], [-1, 'j']]
    """
    match closed(e):
        case Const(value):
            return value
        case Symbol(name) | Var(name):
            return name
        case Sum(terms, constant):
            return ["+", constant, *([factor, written_index(x)] for x, factor in terms)]
        case Product(factors):
            return ["*", *map(written_index, factors)]
        case FloorDiv(x, y):
            return ["//", written_index(x), written_index(y)]
        case Mod(x, y):
            return ["%", written_index(x), written_index(y)]
        case Compare(op, x, y):
            return [op, written_index(x), written_index(y)]
        case Logic(op, operands) | Extremum(op, operands):
            return [op, *map(written_index, operands)]
        case IndexSelect(condition, x, y):
            return ["?", written_index(condition), written_index(x), written_index(y)]
        case Bitwise() | Shift() | Element():
            raise SpecError(
                "bad-op", f"{e} cannot be kept as text", fix="use +, -, *, //, % and comparisons of indices"
            )


def index_of(record: list[Any] | int | str, names: Mapping[str, Expr]) -> Expr:
    """Read an index expression from the lists of `written_index`, with expressions for the names."""
    if isinstance(record, int):
        return as_expr(record)
    if isinstance(record, str):
        return names[record]
    op, *rest = record
    if op == "+":
        total = as_expr(rest[0])
        for factor, x in rest[1:]:
            total = total + index_of(x, names) * factor
        return total
    return _BUILT[op](*(index_of(x, names) for x in rest))


def _divided(x: Expr, y: Expr) -> Expr:
    return x // y


def _remainder(x: Expr, y: Expr) -> Expr:
    return x % y


def _multiplied(*factors: Expr) -> Expr:
    return prod(factors, start=as_expr(1))


_BUILT: Mapping[str, Callable[..., Expr]] = {
    "*": _multiplied, "//": _divided, "%": _remainder, "<": lt, "==": eq, "!=": ne, "&&": and_, "||": or_,
    "min": minimum, "max": maximum, "?": select,
}  # fmt: skip


def _tree(record: list[Any]) -> Scalar:
    what, kind, rest = record[0], find_dtype(record[1]), record[2:]
    match what:
        case "index":
            return Coordinate(index_of(rest[0], _Symbols()))
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
        case "cast" | "wrap":
            return Cast(_tree(rest[0]), kind, what == "wrap")
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
