"""Gradients of epilogs: derivatives of their expressions, computed by functions of torch or JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fireiron.algebra.derivative import derivative, is_zero
from fireiron.algebra.dtypes import DType, default_accumulator, default_result
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
    parts,
)
from fireiron.algebra.written import read, write


class Library(Protocol):
    """The functions of an array library that gradients need."""

    def function(self, op: str) -> Callable[..., Any]:
        """Return the function of one or two arrays for the name of an operation (`exp`, `mul`)."""
        ...

    def constant(self, value: float, dtype: DType, like: Any) -> Any:
        """Make a number an array without dims, on the device of `like`."""
        ...

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Choose elements of x where a condition holds, else of y."""
        ...

    def cast(self, x: Any, dtype: DType) -> Any:
        """Convert an array to an element type."""
        ...

    def summed(self, x: Any, shape: Sequence[int]) -> Any:
        """Sum x over the dims along which an array of this shape was broadcast to x's shape."""
        ...


def reads_product(text: str, operands: int) -> bool:
    """Say whether an epilog's gradients read the product before the epilog.

    Args:
        text: the epilog, as `text_of` writes it.
        operands: number of the epilog's operands that are arrays.
    """
    slopes = (derivative(tree, i) for tree in read(text) for i in range(operands + 1))
    return any(isinstance(part, Arg) and part.index == 0 for slope in slopes for part in parts(slope))


def keeping(text: str) -> str:
    """Add the product before the epilog to an epilog's outputs."""
    trees = read(text)
    acc = next(part.dtype for tree in trees for part in parts(tree) if isinstance(part, Arg) and part.index == 0)
    return write((*trees, Arg(0, acc)))


def keeps(text: str) -> bool:
    """Say whether the last output of an epilog is the product before it."""
    last = read(text)[-1] if text else None
    return isinstance(last, Arg) and last.index == 0


def results(text: str, kind: DType) -> list[DType]:
    """List the outputs' element types, as `fireiron.gemm` chooses them.

    Args:
        text: the epilog; empty where there is none.
        kind: the element type of the product's operands.
    """
    usual, acc = default_result(kind), default_accumulator(kind)
    trees = read(text) if text else ()
    return [tree.dtype if tree.dtype != acc else usual for tree in trees] or [usual]


def gradients(
    text: str,
    kind: DType,
    library: Library,
    product: Any,
    operands: Sequence[Any],
    numbers: Mapping[str, float],
    cotangents: Sequence[Any],
    wanted: Sequence[bool],
) -> tuple[Any, list[Any]]:
    """Return the gradients of the product and of each operand, in the accumulator's type; None stands for 0.

    Args:
        text: the epilog; empty where there is none.
        kind: the element type of the product's operands.
        library: functions for the arrays.
        product: the product before the epilog; None where `reads_product` is False.
        operands: the epilog's arrays.
        numbers: the epilog's numbers by name.
        cotangents: the gradient of each output; None where it is 0.
        wanted: for each operand, whether its gradient is needed.
    """
    acc = default_accumulator(kind)
    arguments = [None if product is None else library.cast(product, acc), *(library.cast(x, acc) for x in operands)]
    trees = read(text) if text else (Arg(0, acc),)
    found: list[Any] = [None] * len(arguments)
    for tree, cotangent in zip(trees, cotangents, strict=True):
        if cotangent is None:
            continue
        for i in range(len(arguments)):
            if i and not wanted[i - 1]:
                continue
            slope = derivative(tree, i)
            if is_zero(slope):
                continue
            part = library.cast(cotangent, acc)
            if slope != Constant(1.0, slope.dtype):
                part = part * _computed(slope, library, arguments, numbers, part)
            part = library.summed(part, operands[i - 1].shape) if i else part
            found[i] = part if found[i] is None else found[i] + part
    return found[0], found[1:]


def _computed(tree: Scalar, library: Library, arguments: Sequence[Any], numbers: Mapping[str, float], like: Any) -> Any:
    """Compute an expression by the library's functions."""

    def value(x: Scalar) -> Any:
        return _computed(x, library, arguments, numbers, like)

    match tree:
        case Arg(index):
            return arguments[index]
        case Constant(number):
            return library.constant(number, tree.dtype, like)
        case Parameter(name):
            return library.constant(numbers[name], tree.dtype, like)
        case Unary(op, x):
            return library.function(op)(value(x))
        case Binary(op, x, y):
            found = library.function(op)(value(x), value(y))
            return library.cast(found, tree.dtype) if op in ("lt", "le", "eq") else found
        case Select(condition, x, y):
            return library.where(value(condition) != 0, value(x), value(y))
        case Cast(x, dtype):
            return library.cast(value(x), dtype)
        case Debug(x=x):
            return value(x)
        case Custom() | Coordinate() | MultiplyAdd():
            raise AssertionError(tree)
