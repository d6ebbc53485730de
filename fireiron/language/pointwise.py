"""The pointwise language of epilogues: ordinary Python expressions that build an immutable tree.

An op is a function from the accumulator's expression to a new one. Tensors take part by `operand(tensor)`, or
directly in arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import DType, f32
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import Arg, Binary, BinaryOp, Cast, Constant, Parameter, Scalar, Select, Unary, UnaryOp
from fireiron.base.errors import SpecError
from fireiron.language.tensor import Tensor


@attrs.frozen
class Value:
    """Hold an expression under construction: its scalar tree, and the tensors that its arguments read.

    `Arg(0)` is the accumulator; `Arg(i)` reads `tensors[i - 1]`.
    """

    tree: Scalar
    tensors: tuple[Tensor, ...] = ()

    @property
    def dtype(self) -> DType:
        """Give the element type of the result."""
        return self.tree.dtype

    def __add__(self, other: Operand) -> Value:
        return _binary("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _binary("add", _lift(other, self.dtype), self)

    def __sub__(self, other: Operand) -> Value:
        return _binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _binary("sub", _lift(other, self.dtype), self)

    def __mul__(self, other: Operand) -> Value:
        return _binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _binary("mul", _lift(other, self.dtype), self)

    def __truediv__(self, other: Operand) -> Value:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _binary("div", _lift(other, self.dtype), self)

    def __neg__(self) -> Value:
        return unary("neg", self)


Operand: TypeAlias = Value | Tensor | float | int
Op: TypeAlias = Callable[[Value], Value]


def accumulator(dtype: DType) -> Value:
    """Start an expression at the accumulator."""
    return Value(Arg(0, dtype))


def parameter(name: str, dtype: DType) -> Value:
    """Read a scalar kernel parameter."""
    return Value(Parameter(name, dtype))


def _lift(x: object, dtype: DType) -> Value:
    if isinstance(x, Value):
        return x
    if isinstance(x, Tensor):
        read: Scalar = Arg(1, x.dtype)
        return Value(read if x.dtype == dtype else Cast(read, dtype), (x,))
    if isinstance(x, int | float):
        if dtype.kind == "int" and x != int(x):
            raise SpecError(
                "fraction-of-integer", f"{x!r} is no {dtype}", fix="use scale(number), or saturate('f32') before it"
            )
        return Value(Constant(x, dtype))
    raise SpecError(
        "bad-operand", f"{x!r} cannot take part in a pointwise expression", fix="use numbers, tensors and expressions"
    )


def _merge(x: Value, y: Value) -> tuple[Scalar, Scalar, tuple[Tensor, ...]]:
    tensors = list(x.tensors)
    renumber = {0: 0}
    for i, tensor in enumerate(y.tensors, start=1):
        if tensor not in tensors:
            tensors.append(tensor)
        renumber[i] = tensors.index(tensor) + 1
    return x.tree, _renumbered(y.tree, renumber), tuple(tensors)


def _renumbered(tree: Scalar, to: dict[int, int]) -> Scalar:
    match tree:
        case Arg(index, dtype):
            return Arg(to[index], dtype)
        case Constant() | Parameter():
            return tree
        case Unary(op, x):
            return Unary(op, _renumbered(x, to))
        case Binary(op, x, y):
            return Binary(op, _renumbered(x, to), _renumbered(y, to))
        case Select(c, x, y):
            return Select(_renumbered(c, to), _renumbered(x, to), _renumbered(y, to))
        case Cast(x, dtype):
            return Cast(_renumbered(x, to), dtype)


def _binary(op: BinaryOp, x: Value, y: Operand) -> Value:
    a, b, tensors = _merge(x, _lift(y, x.dtype))
    if a.dtype != b.dtype:
        raise SpecError("dtype-mismatch", f"{op} of {a.dtype} and {b.dtype}", fix="cast one side")
    return Value(Binary(op, a, b), tensors)


def unary(op: UnaryOp, x: Value) -> Value:
    """Apply a function of one value."""
    return Value(Unary(op, x.tree), x.tensors)


def maximum(x: Value, y: Operand) -> Value:
    """Take the larger value."""
    return _binary("max", x, y)


def minimum(x: Value, y: Operand) -> Value:
    """Take the smaller value."""
    return _binary("min", x, y)


def relu(x: Value) -> Value:
    """Replace negative values by zero."""
    return maximum(x, 0)


def tanh(x: Value) -> Value:
    """Take the hyperbolic tangent."""
    return unary("tanh", x)


def exp(x: Value) -> Value:
    """Take the exponential."""
    return unary("exp", x)


def add(tensor: Operand) -> Op:
    """Make the op that adds a tensor, broadcast over the output, or a number."""
    return lambda acc: acc + tensor


def scale(factor: Operand) -> Op:
    """Make the op that multiplies by a tensor, broadcast over the output, or a number.

    An integer accumulator is multiplied by a fraction in f32; what is stored is rounded to nearest even, and saturated.
    """
    fraction = isinstance(factor, float) or (isinstance(factor, Value | Tensor) and factor.dtype.kind == "float")
    return lambda acc: (cast_to(acc, f32) if fraction and acc.dtype.kind == "int" else acc) * factor


def saturate(kind: object) -> Op:
    """Make the op that converts to an element type, rounding to nearest even; integers saturate, NaN becomes 0 in them.

    Raises:
        SpecError: `unknown-dtype`.
    """
    to = find_dtype(kind)
    return lambda acc: cast_to(acc, to)


def cast_to(x: Value, kind: DType) -> Value:
    """Convert a value to an element type."""
    return x if x.dtype == kind else Value(Cast(x.tree, kind), x.tensors)


def expression(ops: tuple[Op, ...], value: Value) -> Value:
    """Apply ops to an expression, first to last.

    Raises:
        SpecError: `bad-op` where an op does not return an expression.
    """
    for op in ops:
        # An op is a user's function: nothing but this check holds it to its type.
        result = cast(object, op(value))
        if not isinstance(result, Value):
            name = getattr(op, "__name__", repr(op))
            raise SpecError(
                "bad-op", f"epilog op {name} returned {result!r}", fix="return an expression of the accumulator"
            )
        value = result
    return value


def read(tensor: Tensor) -> Value:
    """Start an expression at a tensor's element."""
    return Value(Arg(1, tensor.dtype), (tensor,))
