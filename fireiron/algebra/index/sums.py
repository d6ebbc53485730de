"""Addition and multiplication into canonical sums of terms; quotients and remainders are folded back where possible."""

from __future__ import annotations

from math import gcd

from fireiron.algebra.index.nodes import Const, Expr, FloorDiv, Mod, Product, Sum, Term, const


def terms_of(e: Expr) -> tuple[tuple[Term, ...], int]:
    """Return an expression as its terms (monomial, coefficient) and its constant."""
    if type(e) is Sum:
        return e.terms, e.constant
    if type(e) is Const:
        return (), e.value
    return ((e, 1),), 0


def add(a: Expr, b: Expr) -> Expr:
    """Return a + b."""
    if type(b) is Const:
        return plus(a, b.value)
    if type(a) is Const:
        return plus(b, a.value)
    terms, constant = terms_of(a)
    more, offset = terms_of(b)
    found = dict(terms)
    for monomial, coefficient in more:
        found[monomial] = found.get(monomial, 0) + coefficient
    return build(found, constant + offset)


def plus(a: Expr, value: int) -> Expr:
    """Return an expression plus an integer."""
    if value == 0:
        return a
    terms, constant = terms_of(a)
    return _close(terms, constant + value)


def subtract(a: Expr, b: Expr) -> Expr:
    """Return a - b."""
    if type(b) is Const:
        return plus(a, -b.value)
    terms, constant = terms_of(a)
    more, offset = terms_of(b)
    found = dict(terms)
    for monomial, coefficient in more:
        found[monomial] = found.get(monomial, 0) - coefficient
    return build(found, constant - offset)


def scale(e: Expr, factor: int) -> Expr:
    """Return an expression times an integer."""
    if factor == 1:
        return e
    if type(e) is Const:
        return const(e.value * factor)
    if factor == 0:
        return const(0)
    terms, constant = terms_of(e)
    scaled = tuple([(monomial, coefficient * factor) for monomial, coefficient in terms])
    for monomial, _ in scaled:
        if _has_exact(monomial):
            return build(dict(scaled), constant * factor)
    return _close(scaled, constant * factor)


def multiply(a: Expr, b: Expr) -> Expr:
    """Return a * b, distributed over sums."""
    if type(b) is Const:
        return scale(a, b.value)
    if type(a) is Const:
        return scale(b, a.value)
    left, left_constant = terms_of(a)
    right, right_constant = terms_of(b)
    found: dict[Expr, int] = {}
    for first, times in left:
        factors = first.factors if type(first) is Product else (first,)
        for second, by in right:
            product = Product(factors + (second.factors if type(second) is Product else (second,)))
            found[product] = found.get(product, 0) + times * by
    if right_constant:
        for first, times in left:
            found[first] = found.get(first, 0) + times * right_constant
    if left_constant:
        for second, by in right:
            found[second] = found.get(second, 0) + by * left_constant
    return build(found, left_constant * right_constant)


def build(found: dict[Expr, int], constant: int) -> Expr:
    """Return the canonical sum of monomials with coefficients (some may be 0) and a constant."""
    divided = exact = False
    for monomial in found:
        kind = type(monomial)
        if kind is Mod or kind is FloorDiv:
            divided = True
            exact = exact or _has_exact(monomial)
        elif kind is Product:
            exact = exact or _has_exact(monomial)
    if exact:
        found = _cancel_exact(found)
    terms = tuple([term for term in found.items() if term[1]])
    if divided and len(terms) > 1:
        return _recombine(terms, constant)
    return _close(terms, constant)


def _close(terms: tuple[Term, ...], constant: int) -> Expr:
    if not terms:
        return const(constant)
    if constant == 0 and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return Sum(terms, constant)


def _has_exact(monomial: Expr) -> bool:
    if type(monomial) is FloorDiv:
        return monomial.exact
    return type(monomial) is Product and any(type(f) is FloorDiv and f.exact for f in monomial.factors)


def _cancel_exact(found: dict[Expr, int]) -> dict[Expr, int]:
    """Cancel coefficients against exact quotients: 8 * (M // 8) is M, 2 * (M // 8) is M // 4."""
    result: dict[Expr, int] = {}
    for monomial, coefficient in found.items():
        if coefficient and _has_exact(monomial):
            factors: list[Expr] = []
            for factor in monomial.factors if type(monomial) is Product else (monomial,):
                if type(factor) is FloorDiv and factor.exact:
                    size = factor.denominator.divisor
                    common = gcd(coefficient, size)
                    coefficient //= common
                    factors.append(_exact_quotient(factor.numerator, size // common))
                else:
                    factors.append(factor)
            monomial = factors[0] if len(factors) == 1 else Product(tuple(factors))
        result[monomial] = result.get(monomial, 0) + coefficient
    return result


def _exact_quotient(atom: Expr, size: int) -> Expr:
    if size == 1:
        return atom
    if type(atom) is FloorDiv and atom.exact:
        return FloorDiv(atom.numerator, const(atom.denominator.divisor * size), exact=True)
    return FloorDiv(atom, const(size), exact=True)


def divide_term(monomial: Expr, coefficient: int, size: int) -> Term | None:
    """Divide a term by a positive integer; None where the integer is not known to divide the term."""
    common = gcd(coefficient, size)
    coefficient //= common
    size //= common
    if size == 1:
        return monomial, coefficient
    if monomial.divisor % size:
        return None
    if type(monomial) is not Product:
        return _exact_quotient(monomial, size), coefficient
    factors: list[Expr] = []
    for factor in monomial.factors:
        common = gcd(factor.divisor, size)
        size //= common
        factors.append(_exact_quotient(factor, common))
    return Product(tuple(factors)), coefficient


def _quotient_of(remainder: Mod) -> Expr:
    """Return the quotient that belongs to a remainder, in the form that division gives."""
    inner, size = remainder.numerator, remainder.denominator
    if type(inner) is FloorDiv and type(inner.denominator) is Const and type(size) is Const:
        return FloorDiv(inner.numerator, const(inner.denominator.value * size.value))
    return FloorDiv(inner, size)


def _recombine(terms: tuple[Term, ...], constant: int) -> Expr:
    """Fold d * (e // d) + e % d to e, and three similar sums."""
    found = dict(terms)
    coefficients = set(found.values())
    for monomial, coefficient in terms:
        if type(monomial) is Mod and type(monomial.denominator) is Const:
            size = monomial.denominator.value
            if coefficient * size not in coefficients and -coefficient not in coefficients:
                continue
            folded = _fold_remainder(found, monomial, coefficient, size)
        elif type(monomial) is FloorDiv and type(monomial.denominator) is Const:
            folded = _fold_quotient(found, monomial, coefficient, monomial.denominator.value)
        else:
            folded = None
        if folded is not None:
            replacement, factor, gone = folded
            return _replace(terms, constant, gone, scale(replacement, factor))
    return _close(terms, constant)


def _fold_remainder(
    found: dict[Expr, int], monomial: Mod, coefficient: int, size: int
) -> tuple[Expr, int, tuple[Expr, ...]] | None:
    whole = monomial.numerator
    quotient = _quotient_of(monomial)
    if found.get(quotient) == coefficient * size:  # d * (e // d) + e % d -> e
        return whole, coefficient, (quotient, monomial)
    if found.get(whole) == -coefficient:  # e - e % d -> d * (e // d)
        return quotient, -coefficient * size, (whole, monomial)
    for other, times in found.items():  # d * (e // d % n) + e % d -> e % (d * n)
        if (
            times == coefficient * size
            and type(other) is Mod
            and type(other.denominator) is Const
            and other.numerator == quotient
        ):
            return Mod(whole, const(size * other.denominator.value)), coefficient, (other, monomial)
    return None


def _fold_quotient(
    found: dict[Expr, int], monomial: FloorDiv, coefficient: int, size: int
) -> tuple[Expr, int, tuple[Expr, ...]] | None:
    whole = monomial.numerator
    if coefficient % size == 0 and found.get(whole) == -coefficient // size:  # e - d * (e // d) -> e % d
        return Mod(whole, monomial.denominator), -coefficient // size, (whole, monomial)
    return None


def _replace(terms: tuple[Term, ...], constant: int, gone: tuple[Expr, ...], replacement: Expr) -> Expr:
    """Replace the folded terms, at the place of the first one, and fold again."""
    more, offset = terms_of(replacement)
    found: dict[Expr, int] = {}
    placed = False
    for monomial, coefficient in terms:
        if monomial in gone:
            if not placed:
                placed = True
                for new, times in more:
                    found[new] = found.get(new, 0) + times
            continue
        found[monomial] = found.get(monomial, 0) + coefficient
    return build(found, constant + offset)
