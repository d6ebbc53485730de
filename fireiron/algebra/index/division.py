"""Division that rounds down, in one canonical form for each quotient and remainder.

A numerator is written so that it is never negative, where that is possible: C's `/` and `%` then give the same.
"""

from __future__ import annotations

from math import gcd

from fireiron.algebra.index import prove
from fireiron.algebra.index.nodes import Const, Expr, FloorDiv, Mod, Product, Sum, Term, const
from fireiron.algebra.index.sums import add, build, divide_term, multiply, scale, subtract, terms_of

WORTH_SHIFTING = 1 << 20
"""The largest constant that is added to make a numerator non-negative."""


def floordiv(a: Expr, b: Expr) -> Expr:
    """Return a // b, rounded down.

    Raises:
        ZeroDivisionError: if b is the constant 0.
    """
    if type(b) is Const:
        return _quotient(a, b.value)
    whole, rest = _extract_symbolic(a, b)
    if whole is not None:
        return add(whole, floordiv(rest, b))
    if prove.non_negative(a) and prove.negative(subtract(a, b)):
        return const(0)
    low, _ = b.range
    if type(a) is FloorDiv and type(a.denominator) is Const and low is not None and low >= 0:
        return floordiv(a.numerator, scale(b, a.denominator.value))
    return FloorDiv(a, b)


def modulo(a: Expr, b: Expr) -> Expr:
    """Return a - b * (a // b), never negative for a positive b.

    Raises:
        ZeroDivisionError: if b is the constant 0.
    """
    if type(b) is Const:
        return _remainder(a, b.value)
    whole, rest = _extract_symbolic(a, b)
    if whole is not None:
        return modulo(rest, b)
    if prove.non_negative(a) and prove.negative(subtract(a, b)):
        return a
    return Mod(a, b)


def ceil_div(a: Expr, b: Expr) -> Expr:
    """Return a / b rounded up."""
    return floordiv(subtract(add(a, b), const(1)), b)


def _quotient(a: Expr, size: int) -> Expr:
    if size <= 1:
        if size == 0:
            raise ZeroDivisionError(f"{a} // 0")
        return a if size == 1 else _quotient(scale(a, -1), -size)
    if type(a) is Const:
        return const(a.value // size)
    low, high = a.range
    if low is not None and high is not None and low // size == high // size:
        return const(low // size)
    whole, rest = _extract(a, size)
    if whole is not None:
        return add(whole, _quotient(rest, size))
    # A single variable is not split: M // 32 rather than M // 8 // 4, though 8 divides M.
    coarse = _coarsen(a, size) if type(a) is Sum or type(a) is Product else None
    if coarse is not None:
        grain, multiple, _ = coarse
        return _quotient(multiple, size // grain)
    if type(a) is FloorDiv and type(a.denominator) is Const:
        return _quotient(a.numerator, a.denominator.value * size)
    if type(a) is Mod and type(a.denominator) is Const and a.denominator.value % size == 0:
        return _remainder(_quotient(a.numerator, size), a.denominator.value // size)
    return FloorDiv(a, const(size))


def _remainder(a: Expr, size: int) -> Expr:
    if size <= 1:
        if size == 0:
            raise ZeroDivisionError(f"{a} % 0")
        return const(0) if size == 1 else scale(_remainder(scale(a, -1), -size), -1)
    if type(a) is Const:
        return const(a.value % size)
    low, high = a.range
    if low is not None and high is not None and low // size == high // size:
        return subtract(a, const(low // size * size))
    whole, rest = _extract(a, size)
    if whole is not None:
        return _remainder(rest, size)
    coarse = _coarsen(a, size)
    if coarse is not None:
        grain, multiple, fine = coarse
        return add(scale(_remainder(multiple, size // grain), grain), fine)
    flat = _without_inner_remainders(a, size)
    if flat is not None:
        return _remainder(flat, size)
    return Mod(a, const(size))


def _extract(a: Expr, size: int) -> tuple[Expr | None, Expr]:
    """Write a as size * whole + rest, with a small rest that is never negative if possible; None if whole is 0."""
    terms, constant = terms_of(a)
    whole: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for monomial, coefficient in terms:
        divided = divide_term(monomial, coefficient, size)
        if divided is not None:
            whole[divided[0]] = whole.get(divided[0], 0) + divided[1]
            continue
        count = coefficient // size if coefficient > 0 else -(-coefficient // size)
        if count:
            whole[monomial] = whole.get(monomial, 0) + count
        rest[monomial] = coefficient - count * size
    offset = constant % size
    if not whole and offset == constant and len(terms) == 1 and terms[0][1] > 0:
        return None, a
    changing = build(rest, 0)
    low = changing.range[0]
    if low is None or low + offset < 0:
        if low is not None and -low <= WORTH_SHIFTING:
            offset += -(-(-low - offset) // size) * size
        elif not prove.non_negative(add(changing, const(offset))) and prove.non_negative(a):
            return None, a
    if not whole and offset == constant:
        return None, a
    return build(whole, (constant - offset) // size), add(changing, const(offset))


def _coarsen(a: Expr, size: int) -> tuple[int, Expr, Expr] | None:
    """Write a as grain * multiple + fine with 0 <= fine < grain, for the largest grain > 1 that divides size."""
    terms, constant = terms_of(a)
    if len(terms) == 1 and not constant and terms[0][1] == 1 and terms[0][0].divisor == 1:
        return None
    grains = {gcd(coefficient * monomial.divisor, size) for monomial, coefficient in terms}
    for grain in sorted(grains, reverse=True):
        if grain == 1:
            break
        coarse: dict[Expr, int] = {}
        fine: list[Term] = []
        for monomial, coefficient in terms:
            divided = divide_term(monomial, coefficient, grain)
            if divided is None:
                fine.append((monomial, coefficient))
            else:
                coarse[divided[0]] = coarse.get(divided[0], 0) + divided[1]
        small = build(dict(fine), constant % grain)
        low, high = small.range
        if low is not None and low >= 0 and high is not None and high < grain:
            return grain, build(coarse, constant // grain), small
    return None


def _without_inner_remainders(a: Expr, size: int) -> Expr | None:
    """Drop remainders inside a remainder that divides theirs: (x % 64 + y) % 8 is (x + y) % 8."""
    terms, constant = terms_of(a)
    found: Expr = const(constant)
    changed = False
    for monomial, coefficient in terms:
        if (
            type(monomial) is Mod
            and type(monomial.denominator) is Const
            and coefficient > 0
            and coefficient * monomial.denominator.value % size == 0
            and (monomial.numerator.range[0] or 0) >= 0
            and monomial.numerator.range[0] is not None
        ):
            changed = True
            found = add(found, scale(monomial.numerator, coefficient))
        else:
            found = add(found, build({monomial: coefficient}, 0))
    return found if changed else None


def _extract_symbolic(a: Expr, b: Expr) -> tuple[Expr | None, Expr]:
    """Take multiples of b out of a, term by term, while that leaves fewer terms."""
    lead, times = terms_of(b)[0][0]
    whole: Expr = const(0)
    rest = a
    progress = True
    while progress:
        progress = False
        terms, constant = terms_of(rest)
        for monomial, coefficient in terms:
            quotient = _monomial_quotient(monomial, lead)
            if quotient is None or coefficient % times:
                continue
            count = scale(quotient, coefficient // times)
            smaller = subtract(rest, multiply(count, b))
            if _size(smaller) < len(terms) + (constant != 0):
                whole, rest, progress = add(whole, count), smaller, True
                break
    if rest is a or (not prove.non_negative(rest) and prove.non_negative(a)):
        return None, a
    return whole, rest


def _size(e: Expr) -> int:
    terms, constant = terms_of(e)
    return len(terms) + (constant != 0)


def _monomial_quotient(monomial: Expr, by: Expr) -> Expr | None:
    """Divide one monomial by another; None where it does not divide it."""
    left = list(monomial.factors) if type(monomial) is Product else [monomial]
    for factor in by.factors if type(by) is Product else (by,):
        if factor not in left:
            return None
        left.remove(factor)
    if not left:
        return const(1)
    return left[0] if len(left) == 1 else Product(tuple(left))
