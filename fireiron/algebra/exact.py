"""Test operands of a product for which every correct kernel gives the same bits, in any order of summation.

The terms of an element of C are whole numbers that cancel in pairs; the two terms of a pair lie at random places of K.
The sum is one number of the row plus one of the column. So all terms may differ from 0, and yet C and every partial sum
are small enough for 8-bit floats and f16 sums. A term that is lost, added twice, or taken from another row, column or
place of K changes C by at least 1.

A lost chunk of K changes C too, since few pairs have both terms in the chunk.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, b1

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

SIGMAS = 10.0  # a sum of terms with random signs deviates by so many sigmas with a probability below 1e-21
PLANNED = 12.0  # sigmas that plans leave room for: drawn numbers may have more large terms than on average
ROOM = 5 / 8  # fraction of the result type's range that C may use, so that ops which add small numbers stay exact
BASES = (16, 8, 4, 2)
MOST_DIGITS = 3
BYTE = 255  # largest integer that is drawn, for wider types too
DISTINCT = 4093  # number of different lines: a prime, so that equal lines are never in the same places of tiles
SHORT = 8  # sums of fewer terms have no pairs
# Sizes of terms' factors, largest first.
SIZES = (((1, 2, 4), (1, 2, 4)), ((1, 2), (1, 2)), ((1, 2), (1,)), ((1,), (1,)))


def whole_numbers(dtype: DType) -> float:
    """Return the largest n such that a type holds all whole numbers up to n.

    Example:
        >>> from fireiron.algebra.dtypes import bf16, e4m3, i8
        >>> whole_numbers(bf16), whole_numbers(e4m3), whole_numbers(i8)
        (256.0, 16.0, 127)
    """
    return 2.0 ** (dtype.mantissa + 1) if dtype.kind == "float" else dtype.limits[1]


@attrs.frozen(eq=False)
class Side:
    """Describe how one operand is made from random numbers drawn for each of its lines: rows of A, columns of B.

    Element k of a line is drawn[index[k]] * factor[k].

    Args:
        index: for each k, the index of the line's drawn number.
        factor: for each k, the factor of that number.
        free: the numbers from which the first `frees` numbers of a line are chosen.
        frees: how many numbers of a line are drawn from `free`.
        base: the next `digits` drawn numbers are 1 to `base`.
        digits: how many numbers are drawn from 1 to `base`. After them comes a number that is always 1.
        density: fraction of the free numbers that are not replaced by 0.
    """

    index: Array
    factor: Array
    free: tuple[int, ...]
    frees: int
    base: int
    digits: int
    density: float = 1.0

    def draw(self, rng: np.random.Generator, *lines: int) -> tuple[Array, Array]:
        """Draw lines; return the numbers (lines, K), and the number that each line adds to all of the line's sums.

        Lines repeat after `DISTINCT` lines.
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
        """Return the number that a line's digits add to each of the line's sums (arrays of NumPy or torch)."""
        total = digits[..., :1].sum(-1) * 0
        for i in range(self.digits):
            total = total + digits[..., i] * self.base**i
        return total


@attrs.frozen(eq=False)
class Product:
    """Hold how the operands of a product are drawn.

    Args:
        left, right: the sides of A (rows) and of B (columns).
        closed: whether an element of C is `share` of its row plus `share` of its column plus `rest`; if not, C must be
            computed.
        rest: a number that is added to all elements of C.
        certain: whether partial sums are exact in any order; if not, each is exact with a probability of more than
            1 - 1e-20, in any order that does not depend on the data.
    """

    left: Side
    right: Side
    closed: bool
    rest: int
    certain: bool


def product(k: int, a: DType, b: DType, sums: float, out: float, seed: int = 0, kind: str = "mul") -> Product:
    """Plan the operands of a product of depth k.

    Operands of the same k and seed fit each other, whatever else differs: several A may be multiplied by one B.

    Args:
        k: number of terms of a sum.
        a, b: element types of the operands.
        sums: the largest n such that the type of the sums holds all whole numbers up to n.
        out: the same for the result's type.
        seed: of the random places of pairs.
        kind: `mul`, or for bits `xor` or `and`.

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
    """Choose as many digits as the result's type distinguishes, and the sizes of terms for which the sums have room."""
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
    """List bases and numbers of digits, those with the most values first, with largest sums and sums of squares."""
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
    """Draw all numbers independently, for unsigned integers, and where K is too short for pairs."""
    if a.kind == b.kind == "int":
        return _independent(k, _signed(_all(a), a), _signed(_all(b), b))
    room = ROOM * min(out, sums)
    lefts, rights = next((x for x in SIZES if k * x[0][-1] * x[1][-1] <= room), SIZES[-1])
    return _independent(k, _signed(lefts, a), _signed(rights, b))


def _bits(k: int, kind: str) -> Product:
    """Draw bits such that three of four terms are 1."""
    ones, zeros = (0, *([1] * 7)), (1, *([0] * 7))
    return _independent(k, ones, zeros if kind == "xor" else ones)


def _independent(k: int, lefts: tuple[int, ...], rights: tuple[int, ...]) -> Product:
    import numpy as np

    left, right = (Side(np.arange(k), np.ones(k, np.int16), free, k, 1, 0) for free in (lefts, rights))
    return Product(left, right, False, 0, True)
