"""Matrix products of references: in f64, with a bound on the error of a sum in the kernel's type.

There are three bounds; the smallest one that applies counts:

- 0 where every partial sum is a whole multiple of one power of two that the accumulator holds exactly.
- For data drawn at random: the sum of the roundings of partial sums, whose size is that of sums of terms with random
  signs. Additions may cut instead of rounding to nearest, as tensor cores do in each instruction.
- Worst case: K u |a| |b|, in any order.
"""

from __future__ import annotations

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.exact import SIGMAS, whole_numbers
from fireiron.language import atom
from fireiron.verify.bounded import Array, Bounded, smallest, unit, wrapped

EXACT_F64 = 2**53
FINEST = 24  # binary places that are looked for in numbers of a common step
SOME = 256  # numbers that are looked at first
STRAY = 8.0  # standard deviations of a sum of roundings that are independent
CUT = 0.5  # of K roundings, that instructions add which cut: each adds several terms, and errs by one unit at most
FEW = 256  # terms, of which the worst case may be the smaller bound
CUT_OF_BYTES = 4.0  # standard deviations of a partial sum that the largest addend of an instruction has


@attrs.frozen
class Rounding:
    """Say how a schedule rounds the sums of one step, beside the rounding to the sums' type.

    Args:
        cut: K of an instruction that cuts its sums, and the bits of the mantissa that it keeps.
        chunk: number of terms in each partial sum, and the type of partial sums; None for one sum of all terms.
        parts: number of partial sums that are rounded to another type before they are added, and that type; None for
            none.
        together: earlier steps whose sums this step adds; one accumulator sums all of them.
        underflow: number below which an exponential may become 0, 0.0 for none but those below the type's smallest.
    """

    cut: tuple[int, int] | None = None
    chunk: tuple[int, DType] | None = None
    parts: tuple[int, DType] | None = None
    together: tuple[str, ...] = ()
    underflow: float = 0.0


@attrs.frozen
class Summing:
    """Say how a kernel sums products.

    Args:
        kind: type of the sum.
        product: for elements of one bit, the operation that replaces multiplication (`xor`, `and`).
        cut: K of an instruction that cuts its sums, and the bits of the mantissa that it keeps.
        chunk: number of terms in each partial sum, and the type of partial sums; None for one sum of all terms.
        parts: number of partial sums that are rounded to another type before they are added, and that type; None for
            none.
        drawn: whether the operands are drawn at random, one of them with both signs. Bounds may then be statistical,
            and hold for each element with a probability of more than 1 - 1e-13.
    """

    kind: DType
    product: atom.Product = "mul"
    cut: tuple[int, int] | None = None
    chunk: tuple[int, DType] | None = None
    parts: tuple[int, DType] | None = None
    drawn: bool = False

    @classmethod
    def of(cls, kind: DType, rounding: Rounding, drawn: bool, product: atom.Product = "mul") -> Summing:
        """Say how a step of a schedule sums."""
        chunk = rounding.chunk
        if chunk is not None and rounding.cut is None and chunk[1].mantissa >= kind.mantissa:
            chunk = None  # of no other rounding
        return cls(kind, product, rounding.cut, chunk, rounding.parts, drawn)

    def together(self, depth: int) -> int:
        """Return the number of terms in each partial sum of a sum of `depth` terms."""
        return depth if self.chunk is None else min(depth, self.chunk[0])

    @property
    def whole(self) -> float:
        """Return the number up to which whole partial sums are exact."""
        most = min(float(EXACT_F64), whole_numbers(self.kind))
        if self.cut is not None:
            most = min(most, 2.0 ** self.cut[1])
        if self.chunk is not None:
            most = min(most, whole_numbers(self.chunk[1]))
        return most if self.parts is None else min(most, whole_numbers(self.parts[1]))


def product(a: Bounded, b: Bounded, how: Summing) -> Bounded:
    """Multiply two matrices, with an error bound.

    Args:
        a, b: the operands.
        how: how the kernel sums.
    """
    kind = how.kind
    if how.product == "xor":  # bits that differ: those of both, without the common ones on either side
        common = _integer_product(a.value, b.value, kind)
        ones = a.value.sum(-1, keepdims=True) + b.value.sum(-2, keepdims=True)
        return Bounded(ones - 2 * common.value, common.error)
    if kind.kind == "int":
        return _integer_product(a.value, b.value, kind)
    value = np.matmul(a.value, b.value)
    if (held := _held(a, b, value, how)) is not None and held.all():
        return Bounded(value, np.zeros(value.shape))
    error = _drawn_error(a, b, how) if how.drawn else _worst_error(a, b, how)
    if how.drawn and a.value.shape[-1] <= FEW:
        error = np.minimum(error, _worst_error(a, b, how))
    # A sum of nothing but exact zeros is 0 in every order.
    empty = _zeros(a, -1)[..., :, None] | _zeros(b, -2)[..., None, :]
    error = np.where(empty, 0.0, error)
    if any(np.isinf(part).any() for x in (a, b) for part in (x.value, x.error)):
        error = np.where(np.isnan(error), np.inf, error)  # infinities met, or a zero met one
    return Bounded(value, error if held is None else np.where(held, 0.0, error))


def _zeros(x: Bounded, axis: int) -> Array:
    """Say which lines along an axis hold nothing but exact zeros."""
    return np.asarray(((x.value == 0) & (x.error == 0)).all(axis))


def _held(a: Bounded, b: Bounded, value: Array, how: Summing) -> Array | None:
    """Say which sums have exact partial sums only; None where the terms are no multiples of one power of two."""
    if a.error.any() or b.error.any():
        return None
    places = _places(a.value), _places(b.value)
    if None in places:
        return None
    if how.chunk is not None and how.chunk[0] < a.value.shape[-1]:
        return _held_by_chunks(a, b, value, how, how.chunk)
    most = how.whole * 2.0 ** -sum(x for x in places if x is not None)
    left, right = np.abs(a.value), np.abs(b.value)
    if left.max(initial=0) * right.max(initial=0) * a.value.shape[-1] <= most:
        return np.ones(value.shape, bool)
    held = np.matmul(left, right) <= most
    if how.drawn and not held.all():
        held |= np.abs(value) + SIGMAS * spread(a.value, b.value) <= most
    return held


def _held_by_chunks(a: Bounded, b: Bounded, value: Array, how: Summing, chunk: tuple[int, DType]) -> Array | None:
    """Say which sums are exact in all chunks, where instructions cut, and when the chunks are added, without cuts."""
    size, kind = chunk
    held = _held(a, b, value, attrs.evolve(how, cut=None, chunk=None))
    for begin in range(0, a.value.shape[-1], size):
        if held is None:
            return None
        part = slice(begin, begin + size)
        x, y = (Bounded(v, np.zeros(v.shape)) for v in (a.value[..., part], b.value[..., part, :]))
        now = _held(x, y, np.matmul(x.value, y.value), attrs.evolve(how, kind=kind, chunk=None))
        held = None if now is None else held & now
    return held


def _places(x: Array) -> int | None:
    """Return the number of binary places after the point that all numbers need, None for a large number."""
    flat = x.reshape(-1)
    for part in (flat[:SOME], flat):
        for places in range(FINEST + 1):
            scaled = part * 2.0**places
            if (scaled == np.rint(scaled)).all():
                break
        else:
            return None
    return places


def spread(a: Array, b: Array) -> Array:
    """Return the standard deviation of sums of products whose terms have random signs."""
    return np.sqrt(np.matmul(a**2, b**2))


def _drawn_error(a: Bounded, b: Bounded, how: Summing) -> Array:
    depth, size = a.value.shape[-1], spread(a.size, b.size)
    error = (STRAY * (depth + 2) ** 0.5 + CUT * depth) * unit(how.kind) * size + (depth + 2) * smallest(how.kind)
    if how.chunk is not None:
        terms, other = how.together(depth), how.chunk[1]
        error = error + (STRAY * (terms + 2) ** 0.5 + CUT * terms) * unit(other) * size + depth * smallest(other)
    if how.cut is not None:
        steps = -(-how.together(depth) // how.cut[0]) + 2
        error = error + CUT_OF_BYTES * steps * 2.0 ** -how.cut[1] * size
    if how.parts is not None:
        number, kind = how.parts
        error = error + STRAY * (2 * number) ** 0.5 * unit(kind) * size + number * smallest(kind)
    for x, y in ((a.error, b.size), (a.size, b.error)):
        if x.any() and y.any():
            error = error + STRAY * spread(x, y)
    return error


def _worst_error(a: Bounded, b: Bounded, how: Summing) -> Array:
    depth, kind = a.value.shape[-1], how.kind
    sizes = np.matmul(a.size, b.size)
    error = (depth + 2) * (unit(kind) * sizes + smallest(kind))
    if how.chunk is not None:
        terms, other = how.together(depth), how.chunk[1]
        error = error + (terms + 2) * unit(other) * sizes + depth * smallest(other)
    if how.cut is not None:
        # A sum is cut as often as the chunk has instructions, each time by a part of the chunk's own size.
        error = error - (-how.together(depth) // how.cut[0]) * 2.0 ** -how.cut[1] * sizes
    if how.parts is not None:
        number, other = how.parts
        error = error + 2 * number * (unit(other) * sizes + smallest(other))
    for x, y in ((a.error, b.size), (a.size, b.error)):
        if x.any() and y.any():
            error = error + np.matmul(x, y)
    return error


def _integer_product(a: Array, b: Array, kind: DType) -> Bounded:
    """Multiply integers exactly, wrapped to the accumulator's width."""
    most = float(np.abs(a).max(initial=0) * np.abs(b).max(initial=0)) * a.shape[-1]
    if most < EXACT_F64:  # then f64 is exact, and much faster than NumPy's integer product
        value = np.matmul(a, b)
    else:
        value = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(kind.numpy).astype(np.float64)
    return wrapped(value, np.zeros(value.shape), kind)
