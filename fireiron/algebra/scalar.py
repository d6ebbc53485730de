"""Scalar expressions: what is computed on one element, apart from where the element lives.

One tree serves the pointwise language of epilogues, the CUDA printer and the simulator. Leaves are numbered arguments
(`Arg`), so a tree never mentions a buffer; the statement that owns it says which view each argument reads.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType

UnaryOp = Literal["neg", "abs", "exp", "log", "tanh", "sqrt", "rsqrt", "erf"]
BinaryOp = Literal["add", "sub", "mul", "div", "max", "min", "lt", "le", "eq"]

UNARY: tuple[UnaryOp, ...] = ("neg", "abs", "exp", "log", "tanh", "sqrt", "rsqrt", "erf")
BINARY: tuple[BinaryOp, ...] = ("add", "sub", "mul", "div", "max", "min", "lt", "le", "eq")


@attrs.frozen
class Arg:
    """Read the statement's argument number `index`, of element type `dtype`."""

    index: int
    dtype: DType


@attrs.frozen
class Constant:
    """Hold a number."""

    value: float | int
    dtype: DType


@attrs.frozen
class Parameter:
    """Read a scalar kernel parameter (`alpha`), given by keyword at the call."""

    name: str
    dtype: DType


@attrs.frozen
class Unary:
    """Apply a function of one value; the result has the operand's dtype."""

    op: UnaryOp
    x: Scalar

    @property
    def dtype(self) -> DType:
        """Give the operand's dtype."""
        return self.x.dtype


@attrs.frozen
class Binary:
    """Apply a function of two values of one dtype; comparisons give 1 or 0 in that dtype."""

    op: BinaryOp
    x: Scalar
    y: Scalar

    @property
    def dtype(self) -> DType:
        """Give the operands' dtype."""
        return self.x.dtype


@attrs.frozen
class Select:
    """Give `x` where `condition` is not zero, else `y`."""

    condition: Scalar
    x: Scalar
    y: Scalar

    @property
    def dtype(self) -> DType:
        """Give the dtype of both alternatives."""
        return self.x.dtype


@attrs.frozen
class Cast:
    """Convert to another dtype, rounding to nearest even; integers saturate."""

    x: Scalar
    dtype: DType


Scalar: TypeAlias = Arg | Constant | Parameter | Unary | Binary | Select | Cast


def parameters(tree: Scalar) -> tuple[Parameter, ...]:
    """List the scalar parameters that an expression reads.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> parameters(Binary("mul", Arg(0, f32), Parameter("alpha", f32)))[0].name
        'alpha'
    """
    match tree:
        case Parameter():
            return (tree,)
        case Unary(_, x) | Cast(x, _):
            return parameters(x)
        case Binary(_, x, y):
            return (*parameters(x), *parameters(y))
        case Select(condition, x, y):
            return (*parameters(condition), *parameters(x), *parameters(y))
        case Arg() | Constant():
            return ()
