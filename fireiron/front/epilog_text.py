"""Epilogs as text: operators of torch and XLA take an epilog as text when they are traced, and run it later.

In the text, operands are numbered: tensors are `x0`, `x1`, ..., and numbers `n0`, `n1`, ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fireiron.algebra.dtypes import default_accumulator
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import Arg, Parameter, Scalar, children, parts, substituted, with_children
from fireiron.algebra.written import read, write
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.fused import beside, expressions_of
from fireiron.language.pointwise import Value, merged, renamed
from fireiron.language.tensor import Tensor

OPERAND, NUMBER = "x", "n"  # begin the names of an operator's operands


def text_of(
    epilog: Callable[..., Any], tensors: tuple[tuple[str, str], ...], numbers: tuple[tuple[str, type], ...], kind: str
) -> str:
    """Write an epilog as text: argument 0 is the accumulator, the others are tensors in their order.

    Args:
        epilog: the function.
        tensors: names of operands that are tensors, each with the name of its element type.
        numbers: names of operands that are numbers, each with its Python type.
        kind: the element type of the product's operands.

    Raises:
        CallError: `bad-epilog`.
    """
    try:
        return _text_of(epilog, tensors, numbers, kind)
    except FireironError as error:
        raise error.located(here()) from None


def _text_of(
    epilog: Callable[..., Any], tensors: tuple[tuple[str, str], ...], numbers: tuple[tuple[str, type], ...], kind: str
) -> str:
    acc = default_accumulator(find_dtype(kind))
    known = {name: f"{NUMBER}{i}" for i, (name, _) in enumerate(numbers)}
    read_as = {name: beside(acc, find_dtype("uint8" if one == "bool" else one)) for name, one in tensors}
    places = {name: Tensor(f"{OPERAND}{i}", (1,), one, (0,)) for i, (name, one) in enumerate(read_as.items())}
    values = expressions_of(epilog, acc, places, dict(numbers), known)
    order = tuple(places.values())
    trees = tuple(renamed(value, order) for value in values)
    read_ = {part.index for tree in trees for part in parts(tree) if isinstance(part, Arg)}
    read_names = {part.name for tree in trees for part in parts(tree) if isinstance(part, Parameter)}
    unread = [name for i, name in enumerate(places, 1) if i not in read_]
    unread += [name for name in known if known[name] not in read_names]
    if unread:
        raise CallError(
            "bad-epilog", f"the epilog does not read {unread[0]}", fix=f"drop {unread[0]}=..., or compute with it"
        )
    return write(trees)


@functools.lru_cache(maxsize=1024)
def function_of(text: str) -> Callable[..., Any]:
    """Make a function of an epilog's text."""

    def epilog(acc: Value, **given: Value) -> tuple[Value, ...]:
        return values_of(text, acc, given)

    return epilog


def values_of(text: str, acc: Value, given: Mapping[str, Value]) -> tuple[Value, ...]:
    """Return an epilog's output expressions, from expressions of the accumulator and the operands."""
    tensors = [given[name] for name in given if name.startswith(OPERAND)]
    arguments, read_ = merged((acc, *tensors))
    scalars = {name: value.tree for name, value in given.items() if name.startswith(NUMBER)}
    return tuple(Value(_named(substituted(tree, arguments), scalars), read_) for tree in read(text))


def _named(tree: Scalar, scalars: Mapping[str, Scalar]) -> Scalar:
    if isinstance(tree, Parameter):
        return scalars.get(tree.name, tree)
    return with_children(tree, tuple(_named(x, scalars) for x in children(tree)))


def operands_of(text: str, operands: Sequence[Any], numbers: Sequence[float]) -> dict[str, Any]:
    """Name operands as an epilog's text does, and convert numbers that it reads as integers to int."""
    trees = read(text) if text else ()
    whole = {p.name for tree in trees for p in parts(tree) if isinstance(p, Parameter) and p.dtype.kind == "int"}
    named: dict[str, Any] = {f"{OPERAND}{i}": x for i, x in enumerate(operands)}
    for i, x in enumerate(numbers):
        name = f"{NUMBER}{i}"
        named[name] = int(x) if name in whole else x
    return named
