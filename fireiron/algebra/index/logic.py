"""Comparisons, logical operations, and selections; those that ranges decide become constants."""

from __future__ import annotations

from math import gcd
from typing import Literal

from fireiron.algebra.index import prove
from fireiron.algebra.index.division import ceil_div as _ceil_div
from fireiron.algebra.index.nodes import (
    FALSE,
    TRUE,
    Compare,
    Const,
    Expr,
    Extremum,
    Index,
    Logic,
    Select,
    as_expr,
    const,
)
from fireiron.algebra.index.sums import build, subtract, terms_of


def ceil_div(a: Index, b: Index) -> Expr:
    """Return a / b rounded up, exact where b is known to divide a."""
    return _ceil_div(as_expr(a), as_expr(b))


def lt(a: Index, b: Index) -> Expr:
    """Return the condition a < b."""
    return _below_zero(subtract(as_expr(a), as_expr(b)))


def le(a: Index, b: Index) -> Expr:
    """Return the condition a <= b."""
    return _below_zero(subtract(subtract(as_expr(a), as_expr(b)), const(1)))


def gt(a: Index, b: Index) -> Expr:
    """Return the condition a > b."""
    return lt(b, a)


def ge(a: Index, b: Index) -> Expr:
    """Return the condition a >= b."""
    return le(b, a)


def _below_zero(difference: Expr) -> Expr:
    low, high = difference.range
    if high is not None and high < 0:
        return TRUE
    if low is not None and low >= 0:
        return FALSE
    terms, constant = terms_of(difference)
    common = gcd(*(coefficient for _, coefficient in terms))
    if common > 1:  # g * x < -c holds for the integers x < ceil(-c / g)
        terms = tuple((monomial, coefficient // common) for monomial, coefficient in terms)
        constant = constant // common
        difference = build(dict(terms), constant)
    if prove.worthwhile(difference):
        if prove.negative(difference):
            return TRUE
        if prove.non_negative(difference):
            return FALSE
    left, right = _sides(difference)
    return Compare("<", left, right)


def _sides(difference: Expr) -> tuple[Expr, Expr]:
    """Split a difference into two sides whose coefficients are all positive."""
    terms, constant = terms_of(difference)
    left = {monomial: coefficient for monomial, coefficient in terms if coefficient > 0}
    right = {monomial: -coefficient for monomial, coefficient in terms if coefficient < 0}
    return build(left, max(constant, 0)), build(right, max(-constant, 0))


def eq(a: Index, b: Index) -> Expr:
    """Return the condition a == b."""
    return _equal(as_expr(a), as_expr(b))


def ne(a: Index, b: Index) -> Expr:
    """Return the condition a != b."""
    return not_(eq(a, b))


def _equal(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Compare | Logic) and isinstance(b, Const):
        return a if b.value == 1 else not_(a) if b.value == 0 else FALSE
    if isinstance(b, Compare | Logic) and isinstance(a, Const):
        return _equal(b, a)
    difference = subtract(a, b)
    low, high = difference.range
    if low == 0 and high == 0:
        return TRUE
    if (low is not None and low > 0) or (high is not None and high < 0):
        return FALSE
    terms, constant = terms_of(difference)
    known = gcd(*(coefficient * monomial.divisor for monomial, coefficient in terms))
    if constant % known:
        return FALSE
    common = gcd(*(coefficient for _, coefficient in terms))
    sign = common if terms[0][1] > 0 else -common
    difference = build({monomial: coefficient // sign for monomial, coefficient in terms}, constant // sign)
    if len(terms) > 1 and (prove.negative(difference) or prove.negative(subtract(const(0), difference))):
        return FALSE
    left, right = _sides(difference)
    return Compare("==", left, right)


def not_(condition: Index) -> Expr:
    """Return the negation of a condition."""
    e = as_expr(condition)
    match e:
        case Const(value=value):
            return FALSE if value else TRUE
        case Compare(op="<", left=left, right=right):
            return le(right, left)
        case Compare(op="==", left=left, right=right):
            return Compare("!=", left, right)
        case Compare(op="!=", left=left, right=right):
            return Compare("==", left, right)
        case Logic(op="&&", operands=operands):
            return or_(*(not_(operand) for operand in operands))
        case Logic(op="||", operands=operands):
            return and_(*(not_(operand) for operand in operands))
        case _:
            return eq(e, 0)


def and_(*conditions: Index) -> Expr:
    """Return the condition that all conditions hold; TRUE for no conditions."""
    return _combine("&&", conditions)


def or_(*conditions: Index) -> Expr:
    """Return the condition that any condition holds; FALSE for no conditions."""
    return _combine("||", conditions)


def _combine(op: Literal["&&", "||"], conditions: tuple[Index, ...]) -> Expr:
    decisive = FALSE if op == "&&" else TRUE
    found: dict[Expr, None] = {}
    for condition in conditions:
        e = as_expr(condition)
        for part in e.operands if isinstance(e, Logic) and e.op == op else (e,):
            truth = as_condition(part)
            if not isinstance(truth, Const):
                found[truth] = None
            elif truth == decisive:
                return decisive
    if not found:
        return TRUE if op == "&&" else FALSE
    if len(found) == 1:
        return next(iter(found))
    for part in found:
        if isinstance(part, Compare) and not_(part) in found:
            return decisive
    return Logic(op, tuple(found))


def as_condition(e: Expr) -> Expr:
    """Return a condition for an expression: itself where it is 0 or 1, else whether it is not 0."""
    if isinstance(e, Compare | Logic):
        return e
    if isinstance(e, Const):
        return TRUE if e.value else FALSE
    return e if e.range == (0, 1) else ne(e, 0)


def select(condition: Index, then: Index, otherwise: Index) -> Expr:
    """Return `then` where the condition holds, else `otherwise`."""
    truth, a, b = as_condition(as_expr(condition)), as_expr(then), as_expr(otherwise)
    if isinstance(truth, Const):
        return a if truth.value else b
    if a == b:
        return a
    if a == TRUE and b == FALSE:
        return truth
    if a == FALSE and b == TRUE:
        return not_(truth)
    return Select(truth, a, b)


def minimum(*values: Index) -> Expr:
    """Return the smallest of one or more values."""
    return _extremum("min", values)


def maximum(*values: Index) -> Expr:
    """Return the largest of one or more values."""
    return _extremum("max", values)


def _extremum(op: Literal["min", "max"], values: tuple[Index, ...]) -> Expr:
    kept: list[Expr] = []
    for value in values:
        e = as_expr(value)
        for candidate in e.operands if isinstance(e, Extremum) and e.op == op else (e,):
            if any(_covers(op, other, candidate) for other in kept):
                continue
            kept = [other for other in kept if not _covers(op, candidate, other)]
            kept.append(candidate)
    return kept[0] if len(kept) == 1 else Extremum(op, tuple(kept))


def _covers(op: str, a: Expr, b: Expr) -> bool:
    """Tell whether a decides an extremum of a and b, for all values."""
    return proves(le(a, b) if op == "min" else le(b, a))


def proves(condition: Index) -> bool:
    """Tell whether a condition is known to hold for all values of its variables."""
    e = as_expr(condition)
    return isinstance(e, Const) and e.value != 0


def prove_lt(a: Index, b: Index) -> bool:
    """Tell whether a < b is known for all values of their variables."""
    return prove.negative(subtract(as_expr(a), as_expr(b)))
