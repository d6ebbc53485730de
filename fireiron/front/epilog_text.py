"""Epilogs as text: how operators of torch and XLA carry a Python function from where it is traced to where it runs.

The text counts operands: tensors are `x0`, `x1`, ..., and numbers `n0`, `n1`, ... in their order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fireiron.algebra.dtypes import default_accumulator
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import Arg, Parameter, Scalar, children, parts, substituted, with_children
from fireiron.algebra.written import read, write
from fireiron.base.errors import CallError
from fireiron.front.fused import expressions_of
from fireiron.language.pointwise import Value, merged, renamed
from fireiron.language.tensor import Tensor

OPERAND, NUMBER = "x", "n"  # begin the names of an operator's operands


def text_of(epilog: Callable[..., Any], tensors: tuple[str, ...], numbers: tuple[str, ...], kind: str) -> str:
    """Write an epilog: argument 0 is the accumulator, the others are its tensors in their order.

    Args:
        epilog: the function.
        tensors: names of the operands that are tensors.
        numbers: of those that are numbers.
        kind: the element type of the product's operands.

    Raises:
        CallError: `bad-epilog`.
    """
    acc = default_accumulator(find_dtype(kind))
    known = {name: f"{NUMBER}{i}" for i, name in enumerate(numbers)}
    places = {name: Tensor(f"{OPERAND}{i}", (1,), acc, (0,)) for i, name in enumerate(tensors)}
    values = expressions_of(epilog, acc, places, numbers, known)
    order = tuple(places.values())
    trees = tuple(renamed(value, order) for value in values)
    read_ = {part.index for tree in trees for part in parts(tree) if isinstance(part, Arg)}
    read_names = {part.name for tree in trees for part in parts(tree) if isinstance(part, Parameter)}
    unread = [name for i, name in enumerate(tensors, 1) if i not in read_]
    unread += [name for name in numbers if known[name] not in read_names]
    if unread:
        raise CallError(
            "bad-epilog", f"the epilog does not read {unread[0]}", fix=f"drop {unread[0]}=..., or compute with it"
        )
    return write(trees)


@functools.lru_cache(maxsize=1024)
def function_of(text: str) -> Callable[..., Any]:
    """Make the function of an epilog's text."""

    def epilog(acc: Value, **given: Value) -> tuple[Value, ...]:
        return values_of(text, acc, given)

    return epilog


def values_of(text: str, acc: Value, given: Mapping[str, Value]) -> tuple[Value, ...]:
    """Compute an epilog's expressions of the accumulator's and its operands'."""
    tensors = [given[name] for name in given if name.startswith(OPERAND)]
    arguments, read_ = merged((acc, *tensors))
    scalars = {name: value.tree for name, value in given.items() if name.startswith(NUMBER)}
    return tuple(Value(_named(substituted(tree, arguments), scalars), read_) for tree in read(text))


def _named(tree: Scalar, scalars: Mapping[str, Scalar]) -> Scalar:
    if isinstance(tree, Parameter):
        return scalars.get(tree.name, tree)
    return with_children(tree, tuple(_named(x, scalars) for x in children(tree)))


def operands_of(operands: Sequence[Any], numbers: Sequence[float]) -> dict[str, Any]:
    """Name operands as an epilog's text does."""
    named = {f"{OPERAND}{i}": x for i, x in enumerate(operands)}
    return named | {f"{NUMBER}{i}": x for i, x in enumerate(numbers)}
