"""Lowered parts: a schedule with the arrays of its call, and pointwise operations in the language of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import number
from fireiron.front.verbs import Schedule
from fireiron.graph.kept_schedule import KeptSchedule
from fireiron.graph.nodes import Node
from fireiron.graph.views import VECTOR_NBYTES, View
from fireiron.language.levels import GL
from fireiron.language.pointwise import Value, binary, cast_to, integer, power, unary, where
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.graph.sizes import Samples

_BINARY = {"maximum": "max", "minimum": "min"}


@attrs.frozen(eq=False)
class Operand:
    """Hold the array for one parameter of a kernel.

    Args:
        view: where its elements lie in memory.
        dtype: element type that the kernel reads or writes.
        name: name of the parameter.
        cleared: whether the array is filled with zeros before each launch, which adds to them.
    """

    view: View
    dtype: Any
    name: str
    cleared: bool = False


@attrs.frozen(eq=False)
class Lowered:
    """Hold the schedule of a part, and the arrays of its call.

    Args:
        source: the finished schedule, or its digest where another process chose it; equal for equal kernels.
        inputs: arrays that the kernel reads, in the order of its parameters.
        outputs: arrays that the kernel writes, in the order of the part's outputs.
    """

    source: Schedule | KeptSchedule
    inputs: Mapping[str, Operand]
    outputs: tuple[Operand, ...]

    @property
    def schedule(self) -> Schedule:
        """Return the finished schedule; one that another process chose is built at the first access."""
        return self.source.schedule if isinstance(self.source, KeptSchedule) else self.source


class Misfit(Exception):
    """Say why a part cannot become a kernel of this form."""


def described(
    view: View, name: str, kind: Any, shape: Sequence[int], strides: Sequence[int], samples: Samples | None
) -> tuple[Tensor, Operand]:
    """Return the tensor for a kernel's program, and the array for the kernel's call.

    For a matrix with contiguous columns, the tensor is its transpose.

    Args:
        view: where the elements lie in memory.
        name: name of the parameter.
        kind: element type.
        shape: extents, as numbers.
        strides: strides in elements, as numbers.
        samples: numbers that become symbols in the tensor; None for a graph without symbols.
    """
    turned = Tensor(name, tuple(shape), kind, tuple(strides), GL).storage
    found = attrs.evolve(view, shape=tuple(shape[t] for t in turned), strides=tuple(strides[t] for t in turned))
    start = view.offset % (8 * VECTOR_NBYTES // kind.bits)
    if samples is not None:
        shape, strides = (tuple(map(samples.expression, each)) for each in (shape, strides))  # pyright: ignore
    return Tensor(name, tuple(shape), kind, tuple(strides), GL, start=start), Operand(found, kind, name)


def pointwise(op: str, inputs: Sequence[Value | float], node: Node) -> Value:
    """Write a pointwise operation as an expression of programs."""
    if op == "select":
        first, other = map(computed, inputs[1:])
        if not isinstance(first, Value) and not isinstance(other, Value):  # two numbers, of the result's type
            first = Value(number(first, node.dtype if node.dtype.kind == "int" else f32))
        return where(inputs[0], first, other)
    if op == "copy":
        return cast(Value, inputs[0])
    if op == "cast":
        value = cast(Value, inputs[0])
        short = node.dtype.kind == "float" and value.dtype.kind == "float"
        return value if short else cast_to(value, node.dtype, wraps=True)
    inputs = [computed(v) for v in inputs]
    if len(inputs) == 1:
        return unary(op, inputs[0])
    kinds = {v.dtype.kind for v in inputs if isinstance(v, Value)}
    if len(kinds) > 1 or any(isinstance(v, float) for v in inputs):
        inputs = [cast_to(v, f32) if isinstance(v, Value) and v.dtype.kind == "int" else v for v in inputs]
    if op in ("floor_divide", "remainder"):
        return _divided(op, *inputs)
    if op == "pow":  # powers by whole numbers are products
        return power(*inputs)
    return binary(cast(Any, _BINARY.get(op, op)), *inputs)


def _divided(op: str, x: Value | float, y: Value | float) -> Value:
    """Divide integers, rounding down: C rounds towards zero, and its remainder has the sign of x.

    Raises:
        Misfit: for floats.
    """
    if any(isinstance(v, float) or (isinstance(v, Value) and v.dtype.kind == "float") for v in (x, y)):
        raise Misfit(f"{op} of floats")
    if isinstance(x, Value) and integer(x.tree) is not None and isinstance(y, int) and y > 0:  # an index
        return x // y if op == "floor_divide" else x % y
    quotient = binary("div", x, y)
    rest = binary("sub", x, quotient * y)
    if isinstance(y, Value):
        away = where(binary("lt", rest, 0), binary("lt", 0, y), binary("lt", y, 0) & binary("lt", 0, rest))
    else:
        away = binary("lt", rest, 0) if y > 0 else binary("lt", 0, rest)
    return quotient - away if op == "floor_divide" else where(away, rest + y, rest)


def computed(value: Value | float) -> Value | float:
    """Convert 16-bit and 8-bit floats to f32."""
    short = isinstance(value, Value) and value.dtype.kind == "float" and value.dtype.bits < 32
    return cast_to(value, f32) if short else value
