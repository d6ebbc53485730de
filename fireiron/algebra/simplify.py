"""Simplification of scalar expressions without changing a bit of any result, and sharing of common subexpressions."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

from fireiron.algebra.dtypes import DType, tf32
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
    children,
    number,
    parts,
    tells,
    with_children,
)


def simplify(tree: Scalar) -> Scalar:
    """Fold constants, and remove operations that return their operand, such as x * 1.

    `x + 0` stays for floats, since -0 + 0 is 0.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> x = Arg(0, f32)
        >>> simplify(Binary("mul", x, Binary("sub", Constant(3.0, f32), Constant(2.0, f32)))) == x
        True
    """
    tree = with_children(tree, tuple(simplify(x) for x in children(tree)))
    match tree:
        case Unary("neg", Unary("neg", x)):
            return x
        case Unary("abs", Unary("neg" | "abs", x)):
            return simplify(Unary("abs", x))
        case Unary("implied" | "rounded", Constant() as x):
            return x
        case Unary("neg" | "abs" as op, Constant(value, dtype)) if dtype.kind == "float":
            return Constant(-value if op == "neg" else abs(value), dtype)
        case Binary(_, Constant() as x, Constant() as y):
            return _folded(tree, x, y)
        case Binary():
            return _binary(tree)
        case Select(Constant(value), x, y):
            return x if value else y
        case Select(_, x, y) if x == y:
            return x
        case Cast():
            return _cast(tree)
        case Unary() | MultiplyAdd() | Select() | Arg() | Constant() | Coordinate() | Parameter() | Custom() | Debug():
            return tree


def _binary(tree: Binary) -> Scalar:
    match tree:
        case Binary("mul", x, Constant(1)) | Binary("mul", Constant(1), x) | Binary("div", x, Constant(1)):
            return x
        case Binary("sub", x, Constant(0) as zero) if not _negative(zero):
            return x
        case Binary("add", x, Constant(0) as zero) | Binary("add", Constant(0) as zero, x):
            return x if tree.dtype.kind == "int" or _negative(zero) else tree
        case Binary("div", x, Constant(value, dtype)) if dtype.kind == "float" and _inverts(float(value), dtype):
            return Binary("mul", x, Constant(1 / value, dtype))
        case Binary("max" | "min" as op, Binary(inner, x, Constant() as low), Constant() as high) if op == inner:
            return _binary(Binary(op, x, Constant((max if op == "max" else min)(low.value, high.value), tree.dtype)))
        case Binary("max" | "min", x, y) if x == y:
            return x
        case _:
            return tree


def _negative(zero: Constant) -> bool:
    return str(zero.value).startswith("-")


def _inverts(value: float, dtype: DType) -> bool:
    """Say whether multiplying by the inverse gives the bits of dividing: both are powers of two that the type holds."""
    fraction, exponent = math.frexp(abs(value)) if math.isfinite(value) else (0.0, 0)
    return fraction == 0.5 and abs(exponent - 1) < dtype.bias


def _folded(tree: Binary, x: Constant, y: Constant) -> Scalar:
    """Compute an operation of two constants as the hardware does; operations with unspecified results stay."""
    import numpy as np

    dtype = tree.dtype
    if dtype.bits < 16 or dtype == tf32 or (dtype.kind == "int" and tree.op == "div") or tree.op == "pow":
        return tree
    wide = np.float32 if dtype.kind == "float" and dtype.bits == 16 else dtype.numpy
    a, b = (np.asarray(c.value).astype(dtype.numpy).astype(wide) for c in (x, y))
    with np.errstate(all="ignore"):
        result: Any = _OPERATIONS[tree.op](a, b)
    value = np.asarray(result).astype(dtype.numpy).item()
    return number(value, dtype)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: a / b,
    "max": lambda a, b: a + b if a != a or b != b else max(a, b),
    "min": lambda a, b: a + b if a != a or b != b else min(a, b),
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
}


def _cast(tree: Cast) -> Scalar:
    x, dtype = tree.x, tree.dtype
    if x.dtype == dtype:
        return x
    if isinstance(x, Cast) and x.x.dtype == dtype and x.dtype.holds(dtype):
        return x.x
    if isinstance(x, Cast) and x.dtype.kind == x.x.dtype.kind == "int" and x.dtype.holds(x.x.dtype):
        wraps = tree.wraps and not dtype.holds(x.x.dtype)  # a wider integer in between changes nothing
        return _cast(Cast(x.x, dtype, wraps))
    return tree


def peeled(tree: Scalar) -> Scalar:
    """Remove outer conversions that lose nothing.

    Example:
        >>> from fireiron.algebra.dtypes import f16, f32
        >>> peeled(Cast(Arg(0, f16), f32)) == Arg(0, f16), peeled(Cast(Arg(0, f32), f16)).dtype == f16
        (True, True)
    """
    while isinstance(tree, Cast) and tree.dtype.holds(tree.x.dtype):
        tree = tree.x
    return tree


def share(tree: Scalar, first: int) -> tuple[tuple[Scalar, ...], Scalar]:
    """Replace subexpressions that occur several times by arguments.

    Args:
        tree: the expression.
        first: a number above those of the expression's arguments.

    Returns:
        Definitions of arguments `first`, `first + 1`, ..., each of which may read the arguments before it, and the
        remaining expression.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> twice = Unary("exp", Arg(0, f32))
        >>> definitions, rest = share(Binary("mul", twice, twice), 1)
        >>> definitions == (twice,), rest == Binary("mul", Arg(1, f32), Arg(1, f32))
        (True, True)
    """
    uses: Counter[Scalar] = Counter()
    visited: set[Scalar] = set()
    for part in parts(tree):
        if part not in visited:
            visited.add(part)
            uses.update(children(part))
    several = (part for part in dict.fromkeys(parts(tree)) if uses[part] > 1 and children(part))
    # Comparisons of available values stay conditions; a register would convert them to numbers.
    again = [part for part in several if not (tells(part) and all(_at_hand(x) for x in children(part)))]
    names: dict[Scalar, Arg] = {part: Arg(first + i, part.dtype) for i, part in enumerate(again)}

    def named(part: Scalar) -> Scalar:
        return names[part] if part in names else with_children(part, tuple(named(x) for x in children(part)))

    definitions = tuple(with_children(part, tuple(named(x) for x in children(part))) for part in again)
    return definitions, named(tree)


def _at_hand(tree: Scalar) -> bool:
    return not children(tree) or (isinstance(tree, Cast) and not children(tree.x))
