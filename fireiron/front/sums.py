"""Products of references: in f64, with a bound on what a sum in the kernel's type may differ by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.front.bounded import Array, Bounded, cast, smallest, unit
from fireiron.language.atom import Product
from fireiron.language.decompositions import Decomposition, Load

EXACT_F64 = 2**53


def product(
    a: Bounded,
    b: Bounded,
    kind: DType,
    product: Product,
    cut: tuple[int, int] | None = None,
    chunk: int | None = None,
) -> Bounded:
    """Multiply, and sum in a type of its own.

    Args:
        a, b: the operands.
        kind: in which products are summed.
        product: what stands for multiplying bits.
        cut: depth of an instruction whose sum is cut, and the bits of its mantissa that are kept.
        chunk: terms that are summed on their own, and then added to the others' sum; None for all.
    """
    depth = a.value.shape[-1]
    if product == "xor":  # bits that differ: those of both, without the common ones on either side
        common = _integer_product(a.value, b.value, kind)
        ones = a.value.sum(-1, keepdims=True) + b.value.sum(-2, keepdims=True)
        return Bounded(ones - 2 * common.value, common.error)
    if kind.kind == "int":
        return _integer_product(a.value, b.value, kind)
    sizes = np.matmul(a.size, b.size)
    error = (depth + 2) * (unit(kind) * sizes + smallest(kind))
    if cut is not None:
        # A sum is cut as often as the chunk has instructions, each time by a part of the chunk's own size.
        error = error - (-min(depth, chunk or depth) // cut[0]) * 2.0 ** -cut[1] * sizes
    for x, y in ((a.error, b.size), (a.size, b.error)):
        if x.any() and y.any():
            error = error + np.matmul(x, y)
    return Bounded(np.matmul(a.value, b.value), error)


def _integer_product(a: Array, b: Array, kind: DType) -> Bounded:
    """Multiply integers exactly, wrapped to the accumulator's width."""
    most = float(np.abs(a).max(initial=0) * np.abs(b).max(initial=0)) * a.shape[-1]
    if most < EXACT_F64:  # then f64 is exact, and much faster than NumPy's integer product
        value = np.matmul(a, b)
    else:
        value = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(kind.numpy).astype(np.float64)
    half = 2.0 ** (kind.bits - 1)
    value = np.mod(value + half, 2 * half) - half
    return Bounded(value, np.zeros(value.shape))


def converted(x: Bounded, dtype: DType, links: Sequence[Decomposition], role: str) -> Bounded:
    """Let an operand pass through the element types that the loads of a chain give it."""
    for link in links:
        if isinstance(link, Load) and link.role == role:
            x = converted(x, dtype, link.move, "src")
            if link.dtype is not None and link.dtype != dtype:
                x, dtype = cast(x, link.dtype, dtype), link.dtype
    return x
