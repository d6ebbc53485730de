"""Folds: monoids that steps fold over dims, as states of a few scalars and expressions that update them."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Var
from fireiron.algebra.scalar import Arg, Binary, BinaryOp, Cast, Constant, Coordinate, Scalar, Select

COMPENSATED = "compensated add"  # the fold that `compensated_add_of` gives

# A dim of a program: a name, and an extent that is an int or a symbol.
Dim: TypeAlias = Var


@attrs.frozen
class Ranking:
    """Say which points a fold keeps (topk): the `count` that rank first, by their values and their places.

    A point's value is the step's body, its place is its index along the one folded dim. The state's scalars are the
    kept points' values, the first in rank first, followed by their places. A state without points has the lowest value
    and the highest i32 as place.

    Args:
        count: how many points the fold keeps, a power of two.
        before: an expression that is not 0 where a point ranks before another: of the first point's value and place,
            followed by the other's. No two points of different places rank alike.
    """

    count: int
    before: Scalar


@attrs.frozen
class Several:
    """Say how a fold takes several points at once: it sorts them into a state, which `combine` adds to the fold's.

    A state has `count` points: their first scalars, then their second ones, and so on. `lift` puts a point first in
    such a state; of several points, point i takes place i.

    Args:
        count: the number of points.
        stages: expressions of the points' scalars, applied in sequence; each stage gives all scalars.
    """

    count: int
    stages: tuple[tuple[Scalar, ...], ...]


@attrs.frozen
class Fold:
    """Describe a fold as a monoid: the state of a few scalars, and the expressions that update it.

    Args:
        name: `add`, `max`, ...
        dtypes: the state's element types.
        identity: the state without points.
        lift: the state of one point: expressions of the step's body (`Arg(0)`).
        combine: one state of two: expressions of the first state's scalars (`Arg(0)` ...), followed by the second
            state's.
        finish: the step's outputs, expressions of the state's scalars.
        insert: the state after one more point, expressions of the state's scalars followed by the step's body, where
            this is cheaper than lift and combine; else empty.
        settle: expressions of the whole state that follow each combine, applied in sequence; each gives all scalars.
        ranking: the points that the fold may skip; None where the fold needs all points.
        several: how it takes several points at once, where this is cheaper than one after another; else None.
    """

    name: str
    dtypes: tuple[DType, ...]
    identity: tuple[float, ...]
    lift: tuple[Scalar, ...]
    combine: tuple[Scalar, ...]
    finish: tuple[Scalar, ...]
    insert: tuple[Scalar, ...] = ()
    settle: tuple[tuple[Scalar, ...], ...] = ()
    ranking: Ranking | None = None
    several: Several | None = None

    @property
    def plain(self) -> BinaryOp | None:
        """Return the operation (`add`) of a fold that combines one scalar by one operation; None for other folds."""
        match self.lift, self.combine, self.finish:
            case (Arg(0),), (Binary(op, Arg(0), Arg(1)),), (Arg(0),):
                return op
            case _:
                return None


def simple_fold(name: str, op: BinaryOp, dtype: DType, identity: float) -> Fold:
    """Make the fold whose state is one scalar, combined by one operation.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> simple_fold("add", "add", f32, 0.0).plain
        'add'
    """
    x, y = Arg(0, dtype), Arg(1, dtype)
    return Fold(name, (dtype,), (identity,), (x,), (Binary(op, x, y),), (x,))


def add_of(dtype: DType) -> Fold:
    """Return the fold that sums."""
    return simple_fold("add", "add", dtype, 0.0)


def compensated_add_of(dtype: DType) -> Fold:
    """Return the fold that sums, and sums the rounding errors beside the sum.

    Source: Knuth, The Art of Computer Programming, volume 2, section 4.2.2, theorem B; Neumaier, 1974.
    """
    first, lost, second, lost2 = (Arg(i, dtype) for i in range(4))
    total = Binary("add", first, second)
    taken = Binary("sub", total, first)  # the part of the second that the sum holds
    rest = Binary("add", Binary("sub", first, Binary("sub", total, taken)), Binary("sub", second, taken))
    both = Binary("add", Binary("add", lost, lost2), rest)
    nothing = Constant(0.0, dtype)
    end = Binary("add", first, lost)
    return Fold(COMPENSATED, (dtype, dtype), (0.0, 0.0), (Arg(0, dtype), nothing), (total, both), (end,))


def max_of(dtype: DType) -> Fold:
    """Return the fold that takes the largest value; without values, -inf or the type's lowest integer."""
    return simple_fold("max", "max", dtype, -float("inf") if dtype.kind == "float" else dtype.limits[0])


def min_of(dtype: DType) -> Fold:
    """Return the fold that takes the smallest value; without values, inf or the type's highest integer."""
    return simple_fold("min", "min", dtype, float("inf") if dtype.kind == "float" else dtype.limits[1])


def mul_of(dtype: DType) -> Fold:
    """Return the fold that multiplies."""
    return simple_fold("mul", "mul", dtype, 1.0)


def arg_of(dtype: DType, dim: Dim, op: BinaryOp) -> Fold:
    """Return the fold that finds the index of the largest (`max`) or smallest value along a dim; ties go to the first.

    The state is the value and the value's index; without points the index is the highest i32. A NaN wins over all
    numbers.
    """
    start = (max_of if op == "max" else min_of)(dtype).identity[0]
    mine, theirs = (Arg(0, dtype), Arg(1, i32)), (Arg(2, dtype), Arg(3, i32))
    better = _before(theirs, mine, op, ordered=True)
    return Fold(
        f"arg{op}",
        (dtype, i32),
        (start, float(i32.limits[1])),
        (Arg(0, dtype), Coordinate(dim)),
        tuple(Select(better, other, own) for own, other in zip(mine, theirs, strict=True)),
        (mine[1],),
    )


def top_of(dtype: DType, dim: Dim, k: int) -> Fold:
    """Return the fold that finds the k largest values along a dim and their indices, largest first.

    The state is the values, then their indices. Equal values keep their order; a NaN counts as the largest. With fewer
    points than k, the remaining results are the type's lowest value with the highest i32 as index.

    Args:
        dtype: element type of the values.
        dim: the dim to search along.
        k: a power of two.
    """
    nothing = max_of(dtype).identity[0], float(i32.limits[1])
    mine = [(Arg(i, dtype), Arg(k + i, i32)) for i in range(k)]
    theirs = [(Arg(2 * k + i, dtype), Arg(3 * k + i, i32)) for i in range(k)]
    # A bitonic merge: the larger of one's i-th and the other's i-th from the end are the k largest, falling, then
    # rising.
    merged = [larger(x, y) for x, y in zip(mine, reversed(theirs), strict=True)]
    stages: list[tuple[Scalar, ...]] = []
    step = k // 2
    while step:
        sorted_ = [larger(mine[i & ~step], mine[i | step], smaller=bool(i & step)) for i in range(k)]
        stages.append(tuple(x for x, _ in sorted_) + tuple(i for _, i in sorted_))
        step //= 2
    point: tuple[Scalar, Scalar] = Arg(2 * k, dtype), Coordinate(dim)
    behind = [_before(point, x) for x in mine]
    inserted = [
        tuple(
            Select(behind[i], p if i == 0 else Select(behind[i - 1], mine[i - 1][part], p), mine[i][part])
            for part, p in enumerate(point)
        )
        for i in range(k)
    ]
    ends = tuple(x for x, _ in mine) + tuple(i for _, i in mine)
    return Fold(
        "top",
        (dtype,) * k + (i32,) * k,
        (nothing[0],) * k + (nothing[1],) * k,
        (Arg(0, dtype), *(Constant(nothing[0], dtype) for _ in range(k - 1)), Coordinate(dim),
         *(Constant(int(nothing[1]), i32) for _ in range(k - 1))),
        tuple(x for x, _ in merged) + tuple(i for _, i in merged),
        ends,
        tuple(x for x, _ in inserted) + tuple(i for _, i in inserted),
        tuple(stages),
        Ranking(k, _before((Arg(0, dtype), Arg(1, i32)), (Arg(2, dtype), Arg(3, i32)), ordered=True)),
    )  # fmt: skip


def _before(x: tuple[Scalar, Scalar], y: tuple[Scalar, Scalar], op: BinaryOp = "max", ordered: bool = False) -> Scalar:
    """Say whether a value with its index ranks before another: larger (`min`: smaller), or equal with a lower index.

    A NaN ranks before all numbers, as in torch and NumPy.

    Args:
        x, y: values with their indices.
        op: `max` or `min`.
        ordered: whether of two NaNs the one with the lower index ranks before the other; False: neither does.
    """
    dtype = x[0].dtype
    ahead = Binary("lt", x[1], y[1])
    tie = Cast(ahead, dtype) if ahead.dtype != dtype else ahead
    high, low = (x[0], y[0]) if op == "max" else (y[0], x[0])
    same = Binary("eq", x[0], y[0])
    if dtype.kind == "int":
        return _either(Binary("lt", low, high), _both(same, tie))
    missing = _both(_not(Binary("eq", x[0], x[0])), _not(Binary("eq", y[0], y[0])))
    beyond = _both(_not(Binary("le", high, low)), Binary("eq", y[0], y[0]))
    return _either(beyond, _both(_either(same, missing) if ordered else same, tie))


def _both(a: Scalar, b: Scalar) -> Scalar:
    return Select(a, b, Constant(0, a.dtype))


def _either(a: Scalar, b: Scalar) -> Scalar:
    return Select(a, Constant(1, a.dtype), b)


def _not(a: Scalar) -> Scalar:
    return Binary("eq", a, Constant(0, a.dtype))


def larger(x: tuple[Scalar, Scalar], y: tuple[Scalar, Scalar], smaller: bool = False) -> tuple[Scalar, Scalar]:
    """Return one of two values with their indices: the one that ranks first, or the other one (`smaller`)."""
    first, (one, other) = _before(y, x), (x, y) if smaller else (y, x)
    return Select(first, one[0], other[0]), Select(first, one[1], other[1])


def identity_of(fold: Fold) -> tuple[Constant, ...]:
    """Return a fold's state without points, as constants."""
    return tuple(Constant(value, dtype) for value, dtype in zip(fold.identity, fold.dtypes, strict=True))
