"""Ops of an epilog that store the value computed so far (`save`, `row_sum`, `row_max`), and the stages between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.base.contract import checked, checked_fields
from fireiron.base.errors import SpecError
from fireiron.language.folds import Fold, add_of, max_of
from fireiron.language.pointwise import (
    Op,
    Value,
    accumulator,
    cast_to,
    expression,
    parameter,
    read,
    simplified,
    substituted,
)
from fireiron.language.specs import Coefficient, MatMul
from fireiron.language.tensor import Tensor

# A function from a Move to a finished Move; chains check what it gives.
Strategy: TypeAlias = Callable[[Any], Any]


@attrs.frozen(field_transformer=checked_fields)
class Save:
    """Store the value so far; later ops continue with the same value. See `save`.

    Args:
        tensor: the tensor to store to.
        store: the strategy of the store, None for the default of `save`.
        of: an op whose result is stored instead of the value, None for none.
    """

    tensor: Tensor
    store: Strategy | None = None
    of: Op | None = None


@checked
def save(tensor: Tensor, store: Strategy | None = None, of: Op | None = None) -> Save:
    """Make the op that stores the value so far to a tensor beside C; later ops continue with the same value.

    Args:
        tensor: a tensor of C's shape; conversion to its element type saturates.
        store: the chain of the store. None: C's, where both have the same type and order, else conform().
        of: an op; its result is stored instead of the value, and later ops still continue with the value.

    Example:
        >>> from fireiron import Matrix, relu
        >>> ops = (save(Matrix(64, 64, name="before")), relu)
        >>> signs = save(Matrix(64, 64, "i8", name="signs"), of=lambda x: x > 0)
    """
    return Save(tensor, store, of)


@attrs.frozen(field_transformer=checked_fields)
class Rows:
    """Store a fold of each row of the value so far; later ops continue with the value. See `row_sum` and `row_max`.

    Args:
        tensor: the tensor of results, with a column for each block along a row.
        op: the fold, `add` or `max`.
    """

    tensor: Tensor
    op: Literal["add", "max"]

    def fold(self, dtype: DType) -> Fold:
        """Return the fold for values of an element type."""
        return (max_of if self.op == "max" else add_of)(dtype)


@checked
def row_sum(tensor: Tensor) -> Rows:
    """Make the op that stores the sum of each row of the value so far; later ops continue with the value.

    Sums have the accumulator's type, and the same bits in every run.

    Args:
        tensor: a tensor with C's rows, and one column for each block along a row, which holds the block's part of the
            row sum. Where one block holds whole rows, there is one column.

    Example:
        >>> from fireiron import ColMajor, Vector, exp
        >>> ops = (exp, row_sum(Vector(64, name="total", along=ColMajor)))
    """
    return Rows(tensor, "add")


@checked
def row_max(tensor: Tensor) -> Rows:
    """Make the op that stores the largest value of each row of the value so far. See `row_sum`."""
    return Rows(tensor, "max")


@attrs.frozen
class Known:
    """Replace an op by the expression that the op makes of the accumulator, since an expression can be pickled."""

    value: Value
    dtype: DType

    def __call__(self, x: Value) -> Value:
        """Put an expression in place of the accumulator.

        Raises:
            SpecError: `dtype-mismatch`.
        """
        if x.dtype != self.dtype:
            raise SpecError(
                "dtype-mismatch",
                f"these ops were made for an accumulator of {self.dtype}, and this one has {x.dtype}",
                fix="write the ops as functions of a module",
            )
        return substituted(self.value, x)


Beside: TypeAlias = Save | Rows


def apart(op: Beside) -> bool:
    """Say whether an op stores another value than the one that later ops continue with (`save(tensor, of=op)`)."""
    return isinstance(op, Save) and op.of is not None


def stages(ops: Iterable[Op | Beside], value: Value) -> tuple[tuple[tuple[Value, Beside], ...], Value]:
    """Split ops after each `save`. Each expression reads the value of the one before it; the last is stored to C.

    After `save(tensor, of=op)` the next expression reads the value before `op`.

    Raises:
        SpecError: as the ops do.
    """
    found: list[tuple[Value, Beside]] = []
    for op in ops:
        if isinstance(op, Save) and op.of is not None:
            found.append((simplified(expression((op.of,), value)), op))
        elif isinstance(op, Save | Rows):
            value = simplified(value)
            found.append((value, op))
            value = accumulator(value.dtype)
        else:
            value = expression((op,), value)
    return tuple(found), simplified(value)


def settled(ops: Iterable[Op | Beside], kind: DType) -> tuple[Op | Beside, ...]:
    """Apply ops to an accumulator of an element type, and return ops that stand for the resulting expressions."""
    saved, last = stages(ops, accumulator(kind))
    made: list[Op | Beside] = []
    for value, op in saved:
        if apart(op):
            made.append(attrs.evolve(op, of=Known(value, kind)))
            continue
        made += [Known(value, kind), op]
        kind = value.dtype
    return (*made, Known(last, kind))


def scaled(spec: MatMul, kind: DType) -> Value:
    """Return the start of a product's epilog: alpha * accumulator + beta * old C."""
    value = accumulator(kind)
    if not spec.alpha.is_one:
        value = value * _coefficient(spec.alpha, kind)
    if not spec.beta.is_zero:
        old = cast_to(read(spec.C.transposed if spec.swapped else spec.C), kind)
        value = value + (old if spec.beta.is_one else old * _coefficient(spec.beta, kind))
    return value


def _coefficient(c: Coefficient, kind: DType) -> Value | float:
    return parameter(c.name, kind) if c.name else c.value
