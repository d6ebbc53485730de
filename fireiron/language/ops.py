"""Ops of a product that do more than to compute: they store what the ops before them made; stages end there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.base.contract import checked, checked_fields
from fireiron.base.errors import SpecError
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
from fireiron.language.steps import Fold, add_of, max_of
from fireiron.language.tensor import Tensor

# A function from a Move to a finished Move; chains check what it gives.
Strategy: TypeAlias = Callable[[Any], Any]


@attrs.frozen(field_transformer=checked_fields)
class Save:
    """Store the value so far, and go on with it; see `save`."""

    tensor: Tensor
    store: Strategy | None = None
    of: Op | None = None


@checked
def save(tensor: Tensor, store: Strategy | None = None, of: Op | None = None) -> Save:
    """Make the op that stores the value so far to a tensor beside C; the ops behind it go on with the same value.

    Args:
        tensor: of C's shape; conversion to its type saturates as C's does.
        store: how it goes there; as C does where they are of one type and order, else conform().
        of: what is stored instead, an op of what is handed on.

    Example:
        >>> from fireiron import Matrix, relu
        >>> ops = (save(Matrix(64, 64, name="before")), relu)
        >>> signs = save(Matrix(64, 64, "i8", name="signs"), of=lambda x: x > 0)
    """
    return Save(tensor, store, of)


@attrs.frozen(field_transformer=checked_fields)
class Rows:
    """Fold the rows of the value so far, and go on with it; see `row_sum` and `row_max`."""

    tensor: Tensor
    op: Literal["add", "max"]

    def fold(self, dtype: DType) -> Fold:
        """Give the fold of a step that folds values of a type."""
        return (max_of if self.op == "max" else add_of)(dtype)


@checked
def row_sum(tensor: Tensor) -> Rows:
    """Make the op that stores the sum of each row of the value so far; the ops behind it go on with the value.

    Sums are of the accumulator's type, and equal in every run.

    Args:
        tensor: of C's rows, and as many columns as blocks share a row: each gets the sum of its block's columns, so
            that one column of all rows is their whole sum.

    Example:
        >>> from fireiron import ColMajor, Vector, exp
        >>> ops = (exp, row_sum(Vector(64, name="total", along=ColMajor)))
    """
    return Rows(tensor, "add")


@checked
def row_max(tensor: Tensor) -> Rows:
    """Make the op that also stores the largest value of each row, as `row_sum` does sums."""
    return Rows(tensor, "max")


@attrs.frozen
class Known:
    """Be an op by the expression that one made of the accumulator: it pickles where functions do not."""

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
    """Say whether an op stores what ops behind it do not see."""
    return isinstance(op, Save) and op.of is not None


def stages(ops: Iterable[Op | Beside], value: Value) -> tuple[tuple[tuple[Value, Beside], ...], Value]:
    """Part ops behind each `save`: each expression reads the value of the one before it; the last is stored to C.

    An expression that is stored apart (`save(tensor, of=op)`) does not change the value that the next one reads.

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
    """Call ops for an accumulator of one type, and give ops that are what they made."""
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
    """Start the expression of a product's epilog: alpha times the accumulator, and beta times the old C."""
    value = accumulator(kind)
    if not spec.alpha.is_one:
        value = value * _coefficient(spec.alpha, kind)
    if not spec.beta.is_zero:
        old = cast_to(read(spec.C.transposed if spec.swapped else spec.C), kind)
        value = value + (old if spec.beta.is_one else old * _coefficient(spec.beta, kind))
    return value


def _coefficient(c: Coefficient, kind: DType) -> Value | float:
    return parameter(c.name, kind) if c.name else c.value
