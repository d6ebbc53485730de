"""Reach: the points of a dim that a loop must visit, derived from the masks of its folds.

A fold with `where=` needs no point where the condition fails. A sum needs no point where a factor of its terms is 0.
The loop visits the points that some fold needs. At a point that is not visited, a term 0 * inf counts as 0; it
would be NaN if the point were visited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fireiron.algebra.dtypes import i64
from fireiron.algebra.expr import Compare, Element, Expr, Logic, and_, as_expr
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Scalar,
    Select,
    Unary,
    children,
    with_children,
)
from fireiron.language.pointwise import OF_COORDINATES, integer
from fireiron.language.steps import Ref, Step

BEYOND = 2**30  # larger than any index: numbers beyond it are replaced by it


def common_conditions(folds: Sequence[Step], makers: Mapping[str, Step]) -> tuple[Compare, ...]:
    """List the comparisons of dims that hold at every point that one of the folds needs.

    Args:
        folds: the folds of one loop.
        makers: for each result of a step, that step.
    """
    found: list[list[Compare]] = []
    for step in folds:
        mine = [] if step.where is None else _parts(step.where, step, makers)
        if step.fold is not None and step.fold.name == "add":
            mine += _factors(step.body, step, makers)
        found.append(mine)
    first, *others = found or [[]]
    return tuple(dict.fromkeys(c for c in first if all(c in other for other in others)))


def by_elements(tree: Scalar, reads: Sequence[Ref], taken: Callable[[Ref], bool]) -> Scalar:
    """Write comparisons of indices with values read from integer arrays as comparisons of index expressions.

    Args:
        tree: a condition, or an expression with conditions.
        reads: the elements that the expression's arguments read.
        taken: whether a read may become an element of an index expression.
    """
    match tree:
        case Binary("lt" | "le" | "eq" as op, x, y):
            left, right = (_with_elements(side, reads, taken) for side in (x, y))
            return tree if left is None or right is None else Coordinate(OF_COORDINATES[op](left, right))
        case Select(x, y, z):
            first, second, last = (by_elements(part, reads, taken) for part in (x, y, z))
            if isinstance(first, Coordinate) and isinstance(second, Coordinate) and last == Constant(0, last.dtype):
                return Coordinate(and_(first.value, second.value))
            return Select(first, second, last)
        case _:
            return with_children(tree, tuple(by_elements(part, reads, taken) for part in children(tree)))


def _with_elements(tree: Scalar, reads: Sequence[Ref], taken: Callable[[Ref], bool]) -> Expr | None:
    match tree:
        case Cast(x, dtype, wraps=False) if dtype.kind == "int" and x.dtype.kind == "int":
            return _with_elements(x, reads, taken)
        case Constant(value, dtype) if dtype == i64:
            return as_expr(int(value)) if abs(value) < BEYOND else None
        case Arg(index, dtype):
            ref = reads[index]
            if dtype.kind != "int" or dtype.packed or not taken(ref):
                return None
            return Element(ref.name, ref.index, ref.shape, as_expr(BEYOND), lower=-BEYOND)
        case Binary("add" | "sub" as op, x, y):
            left, right = (_with_elements(side, reads, taken) for side in (x, y))
            if left is None or right is None or (integer(x) is None and integer(y) is None):
                return None
            return OF_COORDINATES[op](left, right)
        case _:
            return integer(tree)


def _parts(condition: Scalar, step: Step, makers: Mapping[str, Step]) -> list[Compare]:
    """List comparisons of indices that must all hold for a condition to hold."""
    condition = by_elements(condition, step.reads, lambda ref: ref.name not in makers)
    return _compared(condition)


def _compared(condition: Scalar) -> list[Compare]:
    match condition:
        case Coordinate(value):
            return _conjuncts(value)
        case Select(first, second, Constant(0)):
            return [*_compared(first), *_compared(second)]
        case Unary("implied", x):
            return _compared(x)
        case _:
            return []


def _conjuncts(e: Expr) -> list[Compare]:
    if isinstance(e, Compare):
        return [e] if e.op == "<" else []
    if isinstance(e, Logic) and e.op == "&&":
        return [c for operand in e.operands for c in _conjuncts(operand)]
    return []


def _factors(tree: Scalar, step: Step, makers: Mapping[str, Step]) -> list[Compare]:
    """List comparisons of indices that must all hold for an expression to differ from 0."""
    match tree:
        case Select(condition, x, Constant(0)):
            return [*_parts(condition, step, makers), *_factors(x, step, makers)]
        case Binary("mul", x, y):
            return [*_factors(x, step, makers), *_factors(y, step, makers)]
        case Binary("div", x, _) | Cast(x) | Unary("neg", x):
            return _factors(x, step, makers)
        case Binary("add" | "sub", x, y):
            right = _factors(y, step, makers)
            return [c for c in _factors(x, step, makers) if c in right]
        case Arg(index):
            ref = step.reads[index]
            maker = makers.get(ref.name)
            plain = maker is not None and maker.fold is None and maker.outs[0].index == ref.index
            return _factors(maker.body, maker, makers) if maker is not None and plain else []
        case _:
            return []
