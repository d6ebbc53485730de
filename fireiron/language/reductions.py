"""Folds of traced functions: sum, max, cumsum, argmax, topk, ..., and folds by a monoid that the caller writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

from fireiron.algebra.dtypes import DType
from fireiron.algebra.scalar import Arg, Constant, Scalar, Select, renumbered
from fireiron.base.contract import asked, checks, shown
from fireiron.base.errors import SpecError
from fireiron.base.text import count
from fireiron.language.folds import (
    Dim,
    Fold,
    add_of,
    arg_of,
    compensated_add_of,
    max_of,
    min_of,
    mul_of,
    top_of,
)
from fireiron.language.keys import few, top_of_few
from fireiron.language.levels import RF
from fireiron.language.pointwise import (
    Operand,
    Value,
    cast_to,
    lifted,
    simplified_together,
)
from fireiron.language.pointwise import binary as apply
from fireiron.language.pointwise import where as choose
from fireiron.language.steps import Ref
from fireiron.language.subscripts import dim
from fireiron.language.trace import dims_of_value, of_reads, refs_of, step_of

Over = str | Sequence[str]


MOST_OF_TOP = 8


def dims_over(value: Value, over: Over, what: str) -> tuple[Dim, ...]:
    """Find the dims of an expression that a fold names.

    Args:
        value: the expression.
        over: names of dims.
        what: the fold's name in errors.

    Raises:
        SpecError: `fold-over`.
    """
    names = over.split() if isinstance(over, str) else list(over)
    mine = {d.name: d for d in dims_of_value(value)}
    missing = [n for n in names if n not in mine]
    if missing or not names:
        raise SpecError(
            "fold-over",
            f"{what} cannot fold over {missing[0]}: the expression has the dims {', '.join(mine) or '(none)'}"
            if missing
            else f"{what} folds over nothing",
            fix=f'write over="{next(iter(mine), "n")}", or other dims of the expression',
        )
    return tuple(mine[n] for n in dict.fromkeys(names))


@checks(locate=True)
def fold(
    value: Operand,
    over: Over,
    make: Callable[[DType], Fold],
    name: str,
    where: Operand | None = None,
    running: bool = False,
) -> tuple[Value, ...]:
    """Fold an expression over dims.

    Args:
        value: an expression of arrays.
        over: names of dims: a string with spaces between, or a sequence.
        make: a function from the expression's element type to the fold.
        name: name of the step.
        where: a condition on points; points where the condition is 0 are not folded.
        running: whether the result keeps the dim: at each point it is the fold of all points up to there (a cumulative
            sum). `over` is then one dim.

    Raises:
        SpecError: `fold-over`, `bad-operand`.
    """
    (value,) = lifted(value)
    given = (value,) if where is None else (value, condition_of(where))
    trees, tensors = simplified_together(given)
    body, kept_where = of_reads(trees[0]), of_reads(trees[1]) if where is not None else None
    if isinstance(kept_where, Constant) and kept_where.value:
        kept_where = None
    # The condition's dims count too: a mask may have dims that the value does not have.
    whole = Value(trees[0] if kept_where is None else Select(trees[1], trees[0], trees[0]), tensors)
    dims = dims_over(whole, over, name)
    if running and len(dims) > 1:
        names = " and ".join(d.name for d in dims)
        raise SpecError("fold-over", f"running results over {names} have no single order", fix="fold over one dim")
    kept = [d for d in dims_of_value(whole) if running or d not in dims]
    made = make(value.dtype)
    kinds = tuple(x.dtype for x in made.finish)
    return step_of(name, refs_of(whole), body, made, dims, kept, kinds, kept_where, running)


def condition_of(where: Operand) -> Value:
    """Convert a condition on points to an expression."""
    return where if isinstance(where, Value) else lifted(where)[0]


@checks(locate=True)
def sum(value: Operand, over: Over, where: Operand | None = None, compensated: bool = False) -> Value:
    """Sum over dims.

    Args:
        value: an expression of arrays.
        over: names of dims.
        where: a condition on points.
        compensated: whether the rounding errors are summed separately and added at the end (Kahan, Neumaier): nearly as
            accurate as a sum of twice the precision. Each point costs six more additions; sums of infinities are NaN.

    Raises:
        SpecError: `fold-over`, `bad-operand`; `bad-op` for compensated sums of integers, which are exact anyway.
    """
    if not compensated:
        return fold(value, over, add_of, "sum", where)[0]
    (value,) = lifted(value)
    if value.dtype.kind == "int":
        raise SpecError("bad-op", f"a sum of {value.dtype} has no rounding errors", fix="leave compensated out")
    return fold(value, over, compensated_add_of, "sum", where)[0]


@checks(locate=True)
def max(value: Operand, over: Over, where: Operand | None = None) -> Value:
    """Take the largest value over dims among points where `where` holds; without any, -inf or the lowest integer."""
    return fold(value, over, max_of, "largest", where)[0]


@checks(locate=True)
def min(value: Operand, over: Over, where: Operand | None = None) -> Value:
    """Take the smallest value over dims among points where `where` holds; without any, inf or the highest integer."""
    return fold(value, over, min_of, "smallest", where)[0]


@checks(locate=True)
def prod(value: Operand, over: Over, where: Operand | None = None) -> Value:
    """Multiply over dims the points where `where` holds; without any, 1."""
    return fold(value, over, mul_of, "prod", where)[0]


@checks(locate=True)
def cumsum(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Compute the cumulative sum along a dim: at each point the sum of all values up to it, as NumPy's `cumsum`.

    Args:
        value: an expression of arrays.
        over: one dim.
        where: a condition on points: points where it is 0 add nothing.

    Raises:
        SpecError: `fold-over`, `bad-operand`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> from fireiron.language.traced import traced
        >>> def sums(x): return cumsum(x, "n")
        >>> print(traced(sums, {"x": "m n"}, {"x": Matrix(64, 32, name="x")}, {}, "sums").steps[0])
        y[m, n] = running add over n of x[m, n]
    """
    return fold(value, over, add_of, "cumsum", where, running=True)[0]


@checks(locate=True)
def cumprod(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Compute the cumulative product along a dim: at each point the product of all values up to it. See `cumsum`."""
    return fold(value, over, mul_of, "cumprod", where, running=True)[0]


@checks(locate=True)
def argmax(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Return the index (i32) of the largest value along a dim: the first of equal values; a NaN counts as largest.

    Args:
        value: an expression of arrays.
        over: one dim.
        where: a condition on points; if the condition holds for no point, the result is the highest i32.

    Raises:
        SpecError: `fold-over`, `bad-operand`.
    """
    return _where_along(value, over, "max", where)


@checks(locate=True)
def argmin(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Return the index of the smallest value along a dim; see `argmax`. A NaN counts as the smallest."""
    return _where_along(value, over, "min", where)


def _where_along(value: Operand, over: str, op: Literal["max", "min"], where: Operand | None) -> Value:
    (value,) = lifted(value)
    dims = dims_over(value, over, f"arg{op}")
    if len(dims) != 1:
        raise SpecError(
            "fold-over",
            f"arg{op} finds an index along one dim, not {' and '.join(d.name for d in dims)}",
            fix="fold over one dim",
        )
    return fold(value, over, lambda dtype: arg_of(dtype, dims[0], op), f"arg{op}", where)[0]


@checks(locate=True)
def topk(value: Operand, over: Over, k: int, into: str = "k") -> tuple[Value, Value]:
    """Find the k largest values along a dim and their indices (i32), largest first, along a new dim.

    Equal values keep their order; a NaN counts as the largest, as in torch. With fewer points than k, the remaining
    results are -inf (or the lowest integer) with the highest i32 as index.

    Args:
        value: an expression of arrays.
        over: the name of a dim.
        k: 2 to 8; `max` and `argmax` find one.
        into: the name of the new dim.

    Raises:
        SpecError: `topk-size`; `fold-over` over several dims, `dim-extents`, `dim-name`, `bad-operand`.
    """
    (value,) = lifted(value)
    dims = dims_over(value, over, "topk")
    if not 2 <= k <= MOST_OF_TOP:
        raise SpecError(
            "topk-size", f"topk keeps {k} values in registers", fix=f"take 2 to {MOST_OF_TOP}; argmax and max find one"
        )
    if len(dims) != 1:
        names = " and ".join(d.name for d in dims)
        raise SpecError("fold-over", f"topk finds indices along one dim, not {names}", fix="fold over one dim")
    size = 1 << (k - 1).bit_length()
    tree, (axis,) = value.tree, dims

    def make(dtype: DType) -> Fold:
        return top_of_few(tree, axis, size) if few(axis) else top_of(dtype, axis, size)

    found = fold(value, over, make, "top")
    place = dim(into, k)
    return _along(found[:k], place), _along(found[size : size + k], place)


def _along(values: Sequence[Value], place: Value) -> Value:
    """Stack values along a new dim."""
    made = values[-1]
    for i, x in reversed(list(enumerate(values[:-1]))):
        made = choose(apply("eq", place, i), x, made)
    return made


@checks(locate=True)
def fold_by(
    value: Operand,
    over: Over,
    identity: float | tuple[float, ...],
    combine: Callable[..., object],
    lift: Callable[..., object] | None = None,
    finish: Callable[..., object] | None = None,
    name: str = "fold",
    where: Operand | None = None,
    running: bool = False,
) -> Value | tuple[Value, ...]:
    """Fold an expression over dims by a monoid of the caller's: `combine` must be associative.

    Args:
        value: an expression of arrays.
        over: names of dims.
        identity: the state without points: a number, or one number for each scalar of the state.
        combine: a function that makes one state of two: its arguments are the scalars of the first state, then those of
            the second. Functions that make several scalars return a tuple.
        lift: a function that makes a point's state from the point's value; by default each scalar is the value.
        finish: a function that makes the results from the state's scalars; by default the results are these scalars.
        name: name of the step.
        where: a condition on points.
        running: whether the result keeps the dim, as with `cumsum`. `combine` then gets points in order.

    Raises:
        SpecError: `fold-state` where a function gives another number of scalars; `fold-over`, `bad-operand`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> from fireiron.language.pointwise import unary
        >>> from fireiron.language.traced import traced
        >>> def norm(x): return fold_by(abs(x), "n", 0.0, lambda a, b: a + b, finish=lambda s: unary("sqrt", s))
        >>> print(traced(norm, {"x": "m n"}, {"x": Matrix(64, 32, name="x")}, {}, "norm").steps[0])
        y[m] = fold over n of abs(x[m, n])
    """
    (value,) = lifted(value)
    states = identity if isinstance(identity, tuple) else (identity,)

    def make(dtype: DType) -> Fold:
        count_ = len(states)
        point, first, second = (_slots(dtype, i, n) for i, n in ((0, 1), (0, count_), (count_, count_)))
        lifts = (Arg(0, dtype),) * count_ if lift is None else _state(lift, point, count_, "lift")
        ends = tuple(Arg(i, dtype) for i in range(count_)) if finish is None else _state(finish, first, None, "finish")
        return Fold(name, (dtype,) * count_, states, lifts, _state(combine, (*first, *second), count_, "combine"), ends)

    made = fold(value, over, make, name, where, running)
    return made[0] if len(made) == 1 else made


def _slots(dtype: DType, first: int, number: int) -> tuple[Value, ...]:
    """Make expressions for the scalars of a fold's states: `Arg(i)` for scalar i."""
    refs = [Ref(f"state_{i}", (1,), dtype, (1,), RF) for i in range(first + number)]
    return tuple(Value(Arg(i + 1, dtype), tuple(refs)) for i in range(first, first + number))


def _state(
    function: Callable[..., object], given: tuple[Value, ...], wanted: int | None, what: str
) -> tuple[Scalar, ...]:
    """Call a function of a fold's scalars, and return its results as trees."""
    result = asked(function, *given, said=f"{what} of fold_by")
    found = cast("tuple[object, ...]", result if isinstance(result, tuple) else (result,))
    if (wanted is not None and len(found) != wanted) or any(not isinstance(x, Value | int | float) for x in found):
        raise SpecError(
            "fold-state",
            f"{what} gives {len(found)} of the state's {count(wanted, 'scalar')}"
            if wanted is not None and len(found) != wanted
            else f"{what} gave {shown(cast(object, result))}",
            fix=f"return {'expressions' if wanted is None else count(wanted, 'expression')} of its arguments",
        )
    trees: list[Scalar] = []
    for x in found:
        one = cast_to(x if isinstance(x, Value) else lifted(cast(float, x), given[0])[0], given[0].dtype)
        numbers = {i: int(t.name.removeprefix("state_")) for i, t in enumerate(one.tensors, start=1)}
        trees.append(renumbered(one.tree, numbers))
    return tuple(trees)
