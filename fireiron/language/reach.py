"""Reach: the points of a dim that the folds of a loop can need, derived from their masks.

A fold with `where=` needs no point where the condition fails. A sum needs no point where a factor of its summand is 0.
The loop visits the points that some fold needs. At a point that is not visited, 0 times an infinity counts as 0; it
would be NaN if the point were visited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fireiron.algebra.expr import Compare, Expr, Logic
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Coordinate, Scalar, Select, Unary
from fireiron.language.steps import Step


def common_conditions(folds: Sequence[Step], makers: Mapping[str, Step]) -> tuple[Compare, ...]:
    """List the comparisons of dims that hold wherever one of some folds needs a point.

    Args:
        folds: those of a loop.
        makers: the step of each result.
    """
    found: list[list[Compare]] = []
    for step in folds:
        mine = [] if step.where is None else _parts(step.where)
        if step.fold is not None and step.fold.name == "add":
            mine += _factors(step.body, step, makers)
        found.append(mine)
    first, *others = found or [[]]
    return tuple(dict.fromkeys(c for c in first if all(c in other for other in others)))


def _parts(condition: Scalar) -> list[Compare]:
    """List the comparisons that a condition needs, all of them; `&` of a comparison of values is a choice."""
    match condition:
        case Coordinate(value):
            return _conjuncts(value)
        case Select(first, second, Constant(0)):
            return [*_parts(first), *_parts(second)]
        case _:
            return []


def _conjuncts(e: Expr) -> list[Compare]:
    if isinstance(e, Compare):
        return [e] if e.op == "<" else []
    if isinstance(e, Logic) and e.op == "&&":
        return [c for operand in e.operands for c in _conjuncts(operand)]
    return []


def _factors(tree: Scalar, step: Step, makers: Mapping[str, Step]) -> list[Compare]:
    """List the comparisons without which an expression is 0."""
    match tree:
        case Select(condition, x, Constant(0)):
            return [*_parts(condition), *_factors(x, step, makers)]
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
