"""Operands of a product that every right kernel computes to the same bits, in any order of summation.

The terms of an element of C are whole numbers that cancel in pairs, and each pair lies at two random places of K. What
is left is one number of the row plus one of the column. So all terms may differ from 0 while C and every partial sum
stay small enough for 8-bit floats and f16 sums. A term that is lost, added twice, or taken from another row, column or
place of K changes C by at least 1.

A chunk of K that is lost does not cancel either: it holds both places of few pairs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, b1

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

SIGMAS = 10.0  # a sum of terms of random signs strays so far with a probability below 1e-21
PLANNED = 12.0  # that plans leave room for: drawn numbers may have a few more large terms than they have on average
ROOM = 5 / 8  # of the numbers that a result's type holds: ops that add small numbers stay exact
BASES = (16, 8, 4, 2)
MOST_DIGITS = 3
BYTE = 255  # largest integer that is drawn, of wider types too
DISTINCT = 4093  # lines that are drawn by themselves: a prime, so that no tile brings equal ones together
SHORT = 8  # products of fewer terms have no pairs
# Sizes of terms' factors, largest first.
SIZES = (((1, 2, 4), (1, 2, 4)), ((1, 2), (1, 2)), ((1, 2), (1,)), ((1,), (1,)))


def whole_numbers(dtype: DType) -> float:
    """Give the number up to which a type holds all whole ones.

    Example:
        >>> from fireiron.algebra.dtypes import bf16, e4m3, i8
        >>> whole_numbers(bf16), whole_numbers(e4m3), whole_numbers(i8)
        (256.0, 16.0, 127)
    """
    return 2.0 ** (dtype.mantissa + 1) if dtype.kind == "float" else dtype.limits[1]


@attrs.frozen(eq=False)
class Side:
    """Say how one operand is made of numbers drawn for each of its rows (A) or columns (B).

    Element k of a line is drawn[index[k]] * factor[k].

    Args:
        index: for each k, which of the line's drawn numbers it takes.
        factor: for each k, what that is multiplied by.
        free: numbers that the first `frees` drawn ones are chosen from.
        frees: how many those are.
        base: the next `digits` drawn numbers are 1 to `base`.
        digits: how many those are. One number more is 1.
        density: share of the free numbers that are not replaced by 0.
    """

    index: Array
    factor: Array
    free: tuple[int, ...]
    frees: int
    base: int
    digits: int
    density: float = 1.0

    def draw(self, rng: np.random.Generator, *lines: int) -> tuple[Array, Array]:
        """Draw so many lines; gives (lines, K) numbers, and for each line what it adds to all of its sums.

        Of very many, those that are `DISTINCT` apart are equal.
        """
        import numpy as np

        if lines[-1] > DISTINCT:
            numbers, shares = self.draw(rng, *lines[:-1], DISTINCT)
            repeated = np.arange(lines[-1]) % DISTINCT
            return numbers[..., repeated, :], shares[..., repeated]
        free = rng.choice(np.array(self.free, np.int16), (*lines, self.frees))
        if self.density < 1:
            free *= rng.random(free.shape, np.float32) < self.density
        digits = rng.integers(1, self.base + 1, (*lines, self.digits), np.int16)
        drawn = np.concatenate([free, digits, np.ones((*lines, 1), np.int16)], axis=-1)
        return drawn[..., self.index] * self.factor, self.share(digits)

    def share(self, digits: Any) -> Any:
        """Give what a line's digits add to each sum that the line takes part in (arrays of NumPy or torch)."""
        total = digits[..., :1].sum(-1) * 0
        for i in range(self.digits):
            total = total + digits[..., i] * self.base**i
        return total


@attrs.frozen(eq=False)
class Product:
    """Hold how the operands of a product are drawn.

    Args:
        left, right: of A's rows, and of B's columns.
        closed: whether an element of C is the share of its row plus that of its column plus `rest`; else only the
            product itself says what it is.
        rest: what is added to all elements of C.
        certain: whether partial sums are exact in any order; else in any order that does not depend on the data, with
            a probability of more than 1 - 1e-20 each.
    """

    left: Side
    right: Side
    closed: bool
    rest: int
    certain: bool


def product(k: int, a: DType, b: DType, sums: float, out: float, seed: int = 0, kind: str = "mul") -> Product:
    """Plan the operands of a product of depth k.

    Operands of one k and seed belong together, whatever else differs: several A may meet one B.

    Args:
        k: terms of a sum.
        a, b: element types of the operands.
        sums: number up to which the type of the sums holds all whole ones.
        out: the same of the result's type.
        seed: of the places of pairs.
        kind: `mul`; `xor` or `and` of bits.

    Example:
        >>> import numpy as np
        >>> from fireiron.algebra.dtypes import e4m3
        >>> made = product(256, e4m3, e4m3, 2**13, 256)
        >>> rng = np.random.default_rng(0)
        >>> (a, f), (b, g) = made.left.draw(rng, 8), made.right.draw(rng, 4)
        >>> bool((a != 0).all()), bool((a @ b.T == f[:, None] + g + made.rest).all())
        (True, True)
    """
    import numpy as np

    if b1 in (a, b):
        return _bits(k, kind)
    if not (a.signed or b.signed) or k < SHORT:
        return _alone(k, a, b, sums, out)
    base, digits, lefts, rights, density, certain = _sizes(k, a, b, sums, out)
    order = np.random.default_rng([seed, k]).permutation(k)
    rows, cols, rest = order[:digits], order[digits : 2 * digits], order[2 * digits :]
    frees, odd = divmod(len(rest), 2)
    sides: list[Side] = []
    # One operand changes its sign within pairs.
    for mine, other, dtype, free, turns in ((rows, cols, a, lefts, a.signed), (cols, rows, b, rights, not a.signed)):
        index, factor = np.empty(k, np.int64), np.ones(k, np.int16)
        index[rest] = np.arange(len(rest)) % frees
        if turns:
            factor[rest[frees:]] = -1
        if odd:
            index[rest[-1]], factor[rest[-1]] = frees + digits, 1
        index[mine], index[other] = frees + np.arange(digits), frees + digits
        factor[other] = base ** np.arange(digits)
        sides.append(Side(index, factor, _signed(free, dtype), frees, base, digits, 1.0 if sides else density))
    return Product(sides[0], sides[1], True, odd, certain)


def _sizes(
    k: int, a: DType, b: DType, sums: float, out: float
) -> tuple[int, int, tuple[int, ...], tuple[int, ...], float, bool]:
    """Choose digits, as many as the result's type tells apart, and the sizes of terms that the sums have room for."""
    if a.kind == "int" and b.kind == "int":  # sums of integers are exact always
        most = min(a.limits[1], b.limits[1])
        base, digits, *_ = _digits(k, most, min(2.0**20, ROOM * out))[0]
        return base, digits, _all(a), _all(b), 1.0, True
    found = _digits(k, min(a.limits[1], b.limits[1]), ROOM * out, min(whole_numbers(a), whole_numbers(b)))
    for base, digits, total, squares in found:
        for lefts, rights in SIZES:
            largest = k * lefts[-1] * rights[-1] + total
            spread = math.sqrt(k * _square(lefts) * _square(rights) + squares)
            if largest <= sums or total + PLANNED * spread <= sums:
                return base, digits, lefts, rights, 1.0, largest <= sums
    # Not even terms of 1 fit: some of them are 0, so that digits take a third of the room at most.
    rooms = [(((sums - total) / PLANNED) ** 2, squares) for _, _, total, squares in found]
    chosen = next((i for i, (room, squares) in enumerate(rooms) if 3 * squares <= room), len(found) - 1)
    (base, digits, *_), (room, squares) = found[chosen], rooms[chosen]
    return base, digits, (1,), (1,), max(0.0, room - squares) / k, False


def _digits(k: int, largest: float, room: float, digit: float = 16) -> list[tuple[int, int, int, int]]:
    """List bases and numbers of digits, those with most values first: with their largest sum, and that of squares."""
    found: list[tuple[int, int, int, int]] = []
    for base in BASES:
        for digits in range(1, MOST_DIGITS + 1):
            total = 2 * sum(base ** (i + 1) for i in range(digits))
            squares = 2 * sum(base ** (2 * i + 2) for i in range(digits))
            fits = total <= room and base <= min(digit, largest) and base ** (digits - 1) <= largest
            if fits and 2 * digits <= k // 2:
                found.append((base, digits, total, squares))
    found.sort(key=lambda x: (-(x[0] ** x[1]), x[2]))
    return found or [(1, 1, 2, 2)]


def _square(sizes: tuple[int, ...]) -> float:
    return sum(x * x for x in sizes) / len(sizes)


def _signed(sizes: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    return (*(-x for x in sizes), *sizes) if dtype.signed else sizes


def _all(dtype: DType) -> tuple[int, ...]:
    return tuple(range(1, min(int(dtype.limits[1]), BYTE) + 1))


def _alone(k: int, a: DType, b: DType, sums: float, out: float) -> Product:
    """Draw all numbers by themselves: of integers without a sign, and where K is too short for pairs."""
    if a.kind == b.kind == "int":
        return _independent(k, _signed(_all(a), a), _signed(_all(b), b))
    room = ROOM * min(out, sums)
    lefts, rights = next((x for x in SIZES if k * x[0][-1] * x[1][-1] <= room), SIZES[-1])
    return _independent(k, _signed(lefts, a), _signed(rights, b))


def _bits(k: int, kind: str) -> Product:
    """Draw bits of which three of four make a term of 1."""
    ones, zeros = (0, *([1] * 7)), (1, *([0] * 7))
    return _independent(k, ones, zeros if kind == "xor" else ones)


def _independent(k: int, lefts: tuple[int, ...], rights: tuple[int, ...]) -> Product:
    import numpy as np

    left, right = (Side(np.arange(k), np.ones(k, np.int16), free, k, 1, 0) for free in (lefts, rights))
    return Product(left, right, False, 0, True)
