"""Mean, variance and softmax, written in the language itself, as users could write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import Index, as_expr, as_int, simplest
from fireiron.algebra.scalar import Constant
from fireiron.base.contract import checks
from fireiron.base.errors import SpecError
from fireiron.language.folds import Dim
from fireiron.language.pointwise import Operand, Value, lifted, unary
from fireiron.language.pointwise import binary as apply
from fireiron.language.pointwise import where as choose
from fireiron.language.reductions import Over, condition_of, dims_over, fold_by
from fireiron.language.reductions import max as largest_of
from fireiron.language.reductions import sum as sum_of
from fireiron.language.trace import refs_of, step_named

SHORT = 16  # bits
LOG2_OF_E = 1 / math.log(2)


def points(dims: Sequence[Dim]) -> Value:
    """Count the points of some dims, as an f32."""
    total: Index = 1
    for one in dims:
        assert one.extent is not None
        total = simplest(as_expr(total) * one.extent)
    known = as_int(as_expr(total))
    if known is None:
        raise SpecError(
            "symbolic-mean",
            f"a mean over {', '.join(d.name for d in dims)} divides by {total}, which is not known",
            fix="give these dims numbers, or divide a sum by a scalar of the call",
        )
    return Value(Constant(float(known), f32))


@checks(locate=True)
def mean(value: Operand, over: Over) -> Value:
    """Take the mean over dims.

    Raises:
        SpecError: `fold-over`; `symbolic-mean` where a dim's extent is not a number.
    """
    (value,) = lifted(value)
    (inverse,) = [1.0 / _constant(points(dims_over(value, over, "mean")))]
    return step_named(sum_of(value, over), "mean_sum") * inverse


def _constant(value: Value) -> float:
    assert isinstance(value.tree, Constant)
    return float(value.tree.value)


@checks(locate=True)
def mean_and_variance(value: Operand, over: Over, once: bool = False) -> tuple[Value, Value]:
    """Take the mean over dims, and the mean of the squared distances from it.

    The squared distances are summed in a second step; E[x²] - E[x]² would lose digits by cancellation.

    Args:
        value: an expression of arrays.
        over: names of dims.
        once: whether one fold computes both results, by a state of a count, a mean and a sum of squared distances.
            Values that do not fit on chip are then read once instead of twice; each value costs one more division. Dims
            may be symbols.

    Raises:
        SpecError: `fold-over`, `symbolic-mean`.

    Source: Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    """
    (value,) = lifted(value)
    if once:
        nothing = (0.0, 0.0, 0.0)
        made = fold_by(value, over, nothing, _joined_moments, _moments_of, _mean_of_moments, "moments")
        assert isinstance(made, tuple)
        return made[0], made[1]
    middle = step_named(mean(value, over), "mean")
    away = value - middle
    inverse = 1.0 / _constant(points(dims_over(value, over, "variance")))
    return middle, step_named(sum_of(away * away, over), "square_sum") * inverse


@checks(locate=True)
def logsumexp(value: Operand, over: Over, where: Operand | None = None, once: bool = False) -> Value:
    """Take log(sum(exp(x))) over dims, without overflow; -inf where no point counts.

    Args:
        value: an expression of arrays.
        over: names of dims.
        where: a condition on points: points where it is 0 do not count.
        once: whether one fold computes the result, by a state of the largest value m and the sum of exp(x - m). Values
            that do not fit on chip are then read once instead of twice; each value costs one more exponential.

    Raises:
        SpecError: `fold-over`, `bad-operand`.
    """
    (value,) = lifted(value)
    if once:
        nothing = (-math.inf, 0.0)
        made = fold_by(value, over, nothing, _joined_sums, _sum_of, _log_of_sum, "logsumexp", where)
        assert isinstance(made, Value)
        return made
    top = step_named(largest_of(value, over, where), "top")
    return unary("log", step_named(sum_of(_exponential(value, top, where), over), "total")) + top


def _joined_sums(top: Value, total: Value, top2: Value, total2: Value) -> tuple[Value, Value]:
    """Add two sums of exponentials, exp(x - m1) and exp(x - m2), rescaled to the larger of m1 and m2."""
    largest = apply("max", top, top2)
    under = _finite(largest)
    return largest, total * unary("exp", top - under) + total2 * unary("exp", top2 - under)


def _sum_of(x: Value) -> tuple[Value, float]:
    return x, 1.0


def _log_of_sum(top: Value, total: Value) -> Value:
    return unary("log", total) + _finite(top)


def _moments_of(x: Value) -> tuple[float, Value, float]:
    return 1.0, x, 0.0


def _mean_of_moments(n: Value, m: Value, s: Value) -> tuple[Value, Value]:
    return m, s / n


def _finite(top: Value) -> Value:
    """Replace infinities by 0, because inf - inf is NaN."""
    return choose(apply("eq", unary("abs", top), math.inf), 0.0, top)


def _joined_moments(n: Value, m: Value, s: Value, n2: Value, m2: Value, s2: Value) -> tuple[Value, Value, Value]:
    """Combine the counts, means and sums of squared distances of two sets of points."""
    total, away = n + n2, m2 - m
    part = choose(apply("eq", total, 0.0), 0.0, n2 / total)
    return total, m + away * part, s + s2 + away * away * (n * part)


def exponential_of_difference(value: Value, away: Value) -> Value:
    """Compute exp(away) as exp2(away * log2(e)) where the values have 16 bits or fewer, else as exp(away).

    exp2 is one instruction. Rounding the product changes exp(-d) by up to d roundings of f32, relatively at most
    2^-17.5, which is less than one rounding of a 16-bit type.

    Args:
        value: the expression x; the formula depends on the element types that it reads.
        away: x - m.
    """
    if all(ref.dtype.bits <= SHORT for ref in refs_of(value)):
        return unary("exp2", away * LOG2_OF_E)
    return unary("exp", away)


def _exponential(value: Value, top: Value, where: Operand | None) -> Value:
    """Compute exp(x - max), 0 where a condition does not hold."""
    part = exponential_of_difference(value, value - top)
    return part if where is None else choose(condition_of(where), part, 0.0)


@checks(locate=True)
def softmax(value: Operand, over: Over, where: Operand | None = None, lse: Value | None = None) -> Value:
    """Take exp(x) / sum(exp(x)) over dims, without overflow: the largest value is subtracted first.

    Each exponential is multiplied by the inverse of the sum, which is computed once.

    Args:
        value: an expression of arrays.
        over: names of dims.
        where: a condition on points; points where the condition is 0 are not summed, and their results are 0.
        lse: the `logsumexp` of the values, if the program has computed it; the softmax is then exp(x - lse).
    """
    (value,) = lifted(value)
    if lse is not None:
        return _exponential(value, lse, where)
    top = step_named(largest_of(value, over, where), "top")
    part = step_named(_exponential(value, top, where), "part")
    total = step_named(sum_of(part, over), "total")
    inverse = 1.0 / total
    return part * step_named(inverse if where is None else choose(apply("eq", total, 0.0), 0.0, inverse), "inverse")


@checks(locate=True)
def log_softmax(value: Operand, over: Over, where: Operand | None = None) -> Value:
    """Take log(softmax(x)) over dims; -inf where a condition does not hold."""
    (value,) = lifted(value)
    top = step_named(largest_of(value, over, where), "top")
    result = value - top - unary("log", step_named(sum_of(_exponential(value, top, where), over), "total"))
    return result if where is None else choose(condition_of(where), result, -math.inf)
