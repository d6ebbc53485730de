"""Proofs of an expression's sign, from ranges, and by replacing variables by their symbolic bounds."""

from __future__ import annotations

from fireiron.algebra.index.nodes import Const, Element, Expr, Extremum, FloorDiv, Mod, Product, Sum, Term, Var, const
from fireiron.algebra.index.sums import add, build, multiply, scale, subtract

MOST_STEPS = 12
"""The largest number of bounds that one proof puts in; index arithmetic needs far fewer."""


def worthwhile(e: Expr) -> bool:
    """Tell whether a sum has anything that a symbolic bound may replace; if not, its range decides."""
    if type(e) is not Sum:
        return False
    for monomial, _ in e.terms:
        for factor in _factors(monomial):
            kind = type(factor)
            if kind is FloorDiv or kind is Mod or kind is Extremum:
                return True
            if _far(factor):
                return True
    return False


def _far(e: Expr) -> bool:
    """Tell whether an extent depends on symbols."""
    if type(e) is Var or type(e) is Element:
        return e.extent is not None and type(e.extent) is not Const
    return False


def negative(e: Expr) -> bool:
    """Tell whether every value is proved to be below 0."""
    return _negative(e, MOST_STEPS)


def non_negative(e: Expr) -> bool:
    """Tell whether every value is proved to be at least 0."""
    low, _ = e.range
    if low is not None and low >= 0:
        return True
    return type(e) is Sum and _negative(subtract(const(-1), e), MOST_STEPS)


def _negative(e: Expr, steps: int) -> bool:
    low, high = e.range
    if high is not None and high < 0:
        return True
    if type(e) is not Sum or steps == 0 or (low is not None and low >= 0):
        return False
    if len(e.terms) == 1 and high is not None and type(e.terms[0][0]) is not Product:
        return False
    choices = _relaxed(e, Extremum)  # first, since an extremum may cancel against the variables in it
    if choices:
        return any(_negative(above, steps - 1) for above in choices)
    variable = _outermost(e)
    if variable is not None:
        return _negative(_bound_variable(e, variable), steps - 1)
    return any(_negative(above, steps - 1) for above in _relaxed(e, FloorDiv, Mod))


def _factors(monomial: Expr) -> tuple[Expr, ...]:
    return monomial.factors if type(monomial) is Product else (monomial,)


def _outermost(e: Sum) -> Var | Element | None:
    """Find a variable with a symbolic extent on which no other such variable's extent depends."""
    found: list[Var | Element] = []
    for monomial, _ in e.terms:
        for factor in _factors(monomial):
            if isinstance(factor, Var | Element) and _far(factor):
                found.append(factor)
    for variable in found:
        if not any(other.extent is not None and _mentions(other.extent, variable) for other in found):
            return variable
    return None


def _mentions(e: Expr, variable: Var | Element) -> bool:
    from fireiron.algebra.index.walk import free

    return variable in free(e)


def _bound_variable(e: Sum, variable: Var | Element) -> Expr:
    """Return an upper bound of a sum that no longer mentions the variable outside nested operations."""
    assert variable.extent is not None
    slope: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for monomial, coefficient in e.terms:
        factors = _factors(monomial)
        if factors.count(variable) == 1:
            left = tuple(factor for factor in factors if factor != variable)
            key = const(1) if not left else left[0] if len(left) == 1 else Product(left)
            slope[key] = slope.get(key, 0) + coefficient
        elif variable in factors:
            return _bound_term(e, monomial, coefficient)
        else:
            rest[monomial] = coefficient
    times: Expr = const(slope.pop(const(1), 0))
    times = add(times, build(slope, 0))
    low, high = times.range
    if low is not None and low >= 0:
        end: Expr = subtract(variable.extent, const(1))
    elif high is not None and high <= 0:
        end = const(variable.lower)
    else:
        return _bound_apart(e, variable)
    return add(build(rest, e.constant), multiply(times, end))


def _bound_apart(e: Sum, variable: Var | Element) -> Expr:
    """Bound each term with the variable separately, where the sign of the variable's slope is not known."""
    found: Expr = const(e.constant)
    for monomial, coefficient in e.terms:
        term = build({monomial: coefficient}, 0)
        if variable in _factors(monomial):
            term = _bound_variable(Sum(((monomial, coefficient),), 0), variable) if _has_sign(monomial) else _top(term)
        found = add(found, term)
    return found


def _has_sign(monomial: Expr) -> bool:
    return all((low := factor.range[0]) is not None and low >= 0 for factor in _factors(monomial))


def _top(term: Expr) -> Expr:
    """Replace a term by its upper bound, or by an unbounded variable where it has none."""
    high = term.range[1]
    return Var("unbounded", None, -(2**63)) if high is None else const(high)


def _bound_term(e: Sum, monomial: Expr, coefficient: int) -> Expr:
    rest = build({m: c for m, c in e.terms if m != monomial}, e.constant)
    return add(rest, _top(build({monomial: coefficient}, 0)))


def _relaxed(e: Sum, *kinds: type[Expr]) -> list[Expr]:
    """List upper bounds of a sum, in which the first boundable node of the given kinds is replaced by its bounds."""
    for monomial, coefficient in e.terms:
        for factor in _factors(monomial):
            bounds = _bounds(factor, coefficient) if type(factor) in kinds else ()
            if bounds and _others_positive(monomial, factor):
                return [_swap(e, (monomial, coefficient), factor, bound) for bound in bounds]
    return []


def _others_positive(monomial: Expr, factor: Expr) -> bool:
    return (
        all(other == factor or ((low := other.range[0]) is not None and low >= 0) for other in _factors(monomial))
        and _factors(monomial).count(factor) == 1
    )


def _bounds(factor: Expr, coefficient: int) -> tuple[tuple[Expr, int], ...]:
    """List pairs (bound, size): bound / size bounds the factor from above, or from below for a negative coefficient."""
    if type(factor) is FloorDiv and type(factor.denominator) is Const and not factor.exact:
        size = factor.denominator.value
        if coefficient % size == 0:
            above = factor.numerator if coefficient > 0 else subtract(factor.numerator, const(size - 1))
            return ((above, size),)
    if type(factor) is Mod and type(factor.denominator) is not Const and coefficient > 0:
        low = factor.numerator.range[0]
        end = (subtract(factor.denominator, const(1)), 1)
        return (end, (factor.numerator, 1)) if low is not None and low >= 0 else (end,)
    if type(factor) is Extremum and (factor.op == "min") == (coefficient > 0):
        return tuple((operand, 1) for operand in factor.operands)
    return ()


def _swap(e: Sum, term: Term, factor: Expr, bound: tuple[Expr, int]) -> Expr:
    monomial, coefficient = term
    value, size = bound
    rest = build({m: c for m, c in e.terms if m != monomial}, e.constant)
    others: Expr = const(1)
    for other in _factors(monomial):
        if other != factor:
            others = multiply(others, other)
    return add(rest, multiply(scale(others, coefficient // size), value))
