"""Verification of a product on the host: by random vectors, so that a large result costs a pass over it and no product.

Where rounding is coarse, error bounds let wrong elements pass. Products of whole numbers, whose exact result is known
without a product, find such elements: see `algebra/exact.py`.

Source: Freivalds, "Probabilistic machines can use less running time", 1977.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.elements import pack
from fireiron.algebra.exact import product as planned
from fireiron.algebra.exact import whole_numbers
from fireiron.language.specs import MatMul
from fireiron.language.tensor import Tensor

Array: TypeAlias = np.ndarray[Any, Any]

VECTORS = 2
CHUNK = 1 << 24  # elements that are converted to f64 at a time
BYTE_SUMS = 2.0**-13  # rounding of sums of 8-bit floats, of which some tensor cores keep no more bits
BYTE_TERMS = 32  # that they sum at a time
BYTE_WHOLE = 2.0**13  # number up to which all tensor cores hold all whole ones in sums of 8-bit floats
SLACK = 8.0  # standard deviations of the rounding that a row's sum may be off


@attrs.frozen
class Rounding:
    """Hold the types that a product rounds to.

    Args:
        inside: element type of the inputs.
        acc: element type of the accumulator.
        outside: element type of the result.
    """

    inside: DType
    acc: DType
    outside: DType

    def of_sums(self, k: int) -> float:
        """Bound the error of sums of k products of numbers near 1; the bound is several times the usual error.

        A sum of k such products is about sqrt(k), and each of the k additions rounds.
        """
        narrow = self.inside.kind == "float" and self.inside.bits == 8
        return 16 * k * max(self.acc.epsilon, BYTE_SUMS / BYTE_TERMS if narrow else 0.0)


def as_products(a: Array, b: Array, product: str) -> tuple[Array, Array]:
    """Write the operands of a sum over bits as operands of a product: a xor b is a (1 - b) + (1 - a) b.

    Args:
        a, b: matrices in mathematical order, or batches of them.
        product: `mul`, `and` or `xor`.

    Example:
        >>> a, b = as_products(np.array([[0, 1, 1]]), np.array([[1], [1], [0]]), "xor")
        >>> (a @ b).item()
        2
    """
    if product != "xor":
        return a, b
    return np.concatenate([a, 1 - a], axis=-1), np.concatenate([1 - b, b], axis=-2)


def exact_product(spec: MatMul, sums: float, seed: int = 0) -> dict[str, Array] | None:
    """Make operands of whole numbers and the exact result: by name, in the order in which arrays store elements.

    Args:
        spec: a product of known extents, without groups.
        sums: number up to which a kernel's sums of whole numbers are exact.
        seed: of the numbers.

    Returns:
        The arrays; None for bits, for unsigned integers and where K is too short.
    """
    *batch, rows, depth = (int(n) for n in spec.A.shape)  # pyright: ignore[reportArgumentType]
    columns = int(spec.B.shape[-1])  # pyright: ignore[reportArgumentType]
    if spec.A.dtype.kind == "float" and spec.A.dtype.bits == 8:
        sums = min(sums, BYTE_WHOLE)
    plan = planned(depth, spec.A.dtype, spec.B.dtype, sums, whole_numbers(spec.C.dtype))
    if not plan.closed or spec.groups is not None:
        return None
    rng = np.random.default_rng([seed, 2])
    (a, of_rows), (b, of_columns) = plan.left.draw(rng, *batch, rows), plan.right.draw(rng, *batch, columns)
    c = of_rows[..., :, None] + of_columns[..., None, :] + plan.rest
    values = ((spec.A, a), (spec.B, b.swapaxes(-1, -2)), (spec.C, c))
    return {tensor.name: _stored(tensor, x) for tensor, x in values}


def _stored(tensor: Tensor, values: Array) -> Array:
    kind, turned = tensor.dtype, values.transpose(tensor.storage)
    return pack(turned, kind) if kind.packed else turned.astype(kind.numpy)


def wrong_product(a: Array, b: Array, c: Array, rounding: Rounding, seed: int = 0) -> str:
    """Describe an error in c = a @ b; "" where none is found.

    A wrong element is not found if its error is below the rounding of its whole row, or cancels in both vectors' sums.

    Args:
        a, b, c: matrices in mathematical order, or batches of them.
        rounding: how the product rounds.
        seed: seed of the random vectors.
    """
    if a.ndim == 3:
        words = (wrong_product(a[i], b[i], c[i], rounding, seed + i) for i in range(a.shape[0]))
        return next((f"batch {i}: {said}" for i, said in enumerate(words) if said), "")
    rng = np.random.default_rng(seed)
    k, n = b.shape
    x = rng.choice([-1.0, 1.0], (n, VECTORS))
    exact = _times(a, _times(b, x)[0])[0]
    got, squares = _times(c, x)
    nans = int(np.isnan(squares).sum())
    if nans:
        return f"{nans} of {len(squares)} rows hold NaN: not written, or not a number"
    difference = np.abs(got - exact).max(axis=1)
    if rounding.acc.kind == "int":
        rows = np.flatnonzero(difference)
        return f"row {rows[0]} and {len(rows) - 1} more are wrong" if len(rows) else ""
    # Sums of a row's n roundings: those of the result's type, and those of its sums, taken for independent.
    narrow = rounding.inside.epsilon if rounding.inside.mantissa < 11 and rounding.inside.nbytes == 4 else 0.0
    sums = rounding.of_sums(k) + 4 * narrow * k**0.5
    allowed = SLACK * (rounding.outside.epsilon * np.sqrt(squares) + sums * n**0.5) + 1e-12 * np.sqrt(squares * n)
    worst = int(np.argmax(difference / allowed))
    if difference[worst] <= allowed[worst]:
        return ""
    rows = int((difference > allowed).sum())
    return (
        f"{rows} of {len(squares)} rows are wrong: a random sum over row {worst} is off by {difference[worst]:.3g}, "
        f"{allowed[worst]:.3g} is allowed"
    )


def _times(matrix: Array, x: Array) -> tuple[Array, Array]:
    """Multiply in f64, some rows at a time; return also the sum of squares of each row."""
    rows = max(1, CHUNK // max(1, matrix.shape[1]))
    sums: list[Array] = []
    products: list[Array] = []
    for start in range(0, matrix.shape[0], rows):
        part = matrix[start : start + rows].astype(np.float64)
        products.append(part @ x)
        sums.append(np.einsum("ij,ij->i", part, part))
    return np.concatenate(products), np.concatenate(sums)
