"""Verification of a product on the host: by random vectors, so that a large result costs a pass over it and no product.

Source: Freivalds, "Probabilistic machines can use less running time", 1977.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType

Array: TypeAlias = np.ndarray[Any, Any]

VECTORS = 2
CHUNK = 1 << 24  # elements that are converted to f64 at a time
BYTE_SUMS = 2.0**-13  # rounding of sums of 8-bit floats, of which some tensor cores keep no more bits
BYTE_TERMS = 32  # that they sum at a time
SLACK = 8.0  # standard deviations of the rounding that a row's sum may be off


@attrs.frozen
class Rounding:
    """Hold how a product rounds.

    Args:
        inside: element type of the inputs.
        acc: of the accumulator.
        outside: of the result.
    """

    inside: DType
    acc: DType
    outside: DType

    def of_sums(self, k: int) -> float:
        """Give how far sums of k products of numbers near 1 may be off, several times what is usual.

        A sum of k such products is about sqrt(k), and each of its k additions rounds it.
        """
        narrow = self.inside.kind == "float" and self.inside.bits == 8
        return 16 * k * max(self.acc.epsilon, BYTE_SUMS / BYTE_TERMS if narrow else 0.0)


def as_products(a: Array, b: Array, product: str) -> tuple[Array, Array]:
    """Write what is summed of bits as a product of numbers: a xor b is a (1 - b) + (1 - a) b.

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


def wrong_product(a: Array, b: Array, c: Array, rounding: Rounding, seed: int = 0) -> str:
    """Say what is wrong with c = a @ b, "" where nothing is found.

    A wrong element escapes where it differs by less than the rounding of its whole row, or hides from both vectors.

    Args:
        a, b, c: matrices in mathematical order, or batches of them.
        rounding: how the product rounds.
        seed: of the vectors.
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
    """Multiply in f64, some rows at a time; gives the sums of squares of the rows too."""
    rows = max(1, CHUNK // max(1, matrix.shape[1]))
    sums: list[Array] = []
    products: list[Array] = []
    for start in range(0, matrix.shape[0], rows):
        part = matrix[start : start + rows].astype(np.float64)
        products.append(part @ x)
        sums.append(np.einsum("ij,ij->i", part, part))
    return np.concatenate(products), np.concatenate(sums)
