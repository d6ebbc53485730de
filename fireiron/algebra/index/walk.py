"""Walks over expressions: substitution, leaves, and affine forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul as times
from typing import Any, assert_never

from fireiron.algebra.index import logic
from fireiron.algebra.index.nodes import (
    Bitwise,
    Compare,
    Const,
    Element,
    Expr,
    Extremum,
    FloorDiv,
    Index,
    Leaf,
    Logic,
    Mod,
    Product,
    Select,
    Shift,
    Sum,
    Symbol,
    Term,
    Var,
    as_expr,
    closed,
    const,
    operands,
    simplest,
)
from fireiron.algebra.index.sums import build, terms_of
from fireiron.algebra.index.values import BITWISE

_NO_LEAVES: frozenset[Leaf] = frozenset()
_LEAVES = (Var, Symbol)  # tuples are made once, `Var | Symbol` at each call
_PLAIN = (Const, *_LEAVES)


def free(value: Index) -> frozenset[Leaf]:
    """Return the variables and symbols of an expression, without those of their extents."""
    return _free(as_expr(value))


def _free(e: Expr) -> frozenset[Leaf]:
    try:
        return e.leaves
    except AttributeError:
        pass
    if isinstance(e, _LEAVES):
        found = frozenset((e,))
    else:
        below = [_free(x) for x in operands(e)]
        found = below[0] if len(below) == 1 else _NO_LEAVES.union(*below)
    object.__setattr__(e, "leaves", found)
    return found


def substitute(value: Index, by: Mapping[Any, Index]) -> Expr:
    """Replace variables, symbols or whole subexpressions, and simplify; extents of variables stay.

    Args:
        value: the expression.
        by: the replacements; all are made at once.
    """
    known: dict[Expr, Expr] = {key: as_expr(to) for key, to in by.items()}
    return _substitute(as_expr(value), known)


class Substitution:
    """Replace variables like `substitute`, in many expressions; common parts are replaced once.

    Example:
        >>> i, j = Var("i", 8), Var("j", 4)
        >>> put = Substitution()
        >>> put.add(i, j * 2)
        >>> print(put(i + 1), put(i // 2))
        j * 2 + 1 j
    """

    def __init__(self) -> None:
        self._known: dict[Expr, Expr] = {}

    def add(self, old: Expr, new: Expr) -> None:
        """Add a variable to replace; no expression replaced so far may contain it."""
        self._known[old] = new

    def __call__(self, value: Expr) -> Expr:
        """Replace the added variables in an expression."""
        return _substitute(value, self._known)


def _substitute(e: Expr, known: dict[Expr, Expr]) -> Expr:
    found = known.get(e)
    if found is None:
        found = _rebuild(e, known)
        known[e] = found
    return found


def _rebuild(e: Expr, known: dict[Expr, Expr]) -> Expr:
    node = closed(e)
    if isinstance(node, _PLAIN):
        return node
    old = operands(node)
    new = [_substitute(operand, known) for operand in old]
    if all(a is b for a, b in zip(old, new, strict=True)):
        return node
    match node:
        case Sum(terms=terms, constant=constant):
            return _summed(new, terms, constant)
        case Product():
            return reduce(times, new)
        case FloorDiv():
            return new[0] // new[1]
        case Mod():
            return new[0] % new[1]
        case Bitwise(op=op):
            return reduce(BITWISE[op], new)
        case Shift(op=op):
            return new[0] << new[1] if op == "<<" else new[0] >> new[1]
        case Extremum(op=op):
            return logic.minimum(*new) if op == "min" else logic.maximum(*new)
        case Compare(op=op):
            make = {"<": logic.lt, "==": logic.eq, "!=": logic.ne}[op]
            return make(new[0], new[1])
        case Logic(op=op):
            return logic.and_(*new) if op == "&&" else logic.or_(*new)
        case Select():
            return logic.select(new[0], new[1], new[2])
        case Element(array=array, shape=shape, extent=extent, lower=lower):
            return Element(array, tuple(new), shape, extent, lower)
        case _ as never:
            assert_never(never)


def _summed(new: Sequence[Expr], old: Sequence[Term], constant: int) -> Expr:
    """Add the replaced terms.

    Where a variable of a term became a sum, a stride alone (N of (k + 1) * N) follows all multiples of the stride, as
    if coordinates had been added before the multiplication: ptxas then shares more of these sums.
    """
    found: dict[Expr, int] = {}
    waiting: list[Term] = []
    for operand, (monomial, coefficient) in zip(new, old, strict=True):
        for stride, by in tuple(waiting):
            if not _multiple(monomial, stride):
                found[stride] = found.get(stride, 0) + by
                waiting.remove((stride, by))
        more, offset = terms_of(operand)
        constant += coefficient * offset
        for made, by in more:
            if len(more) > 1 and made is not more[0][0] and _multiple(monomial, made):
                waiting.append((made, coefficient * by))
            else:
                found[made] = found.get(made, 0) + coefficient * by
    for stride, by in waiting:
        found[stride] = found.get(stride, 0) + by
    return build(found, constant)


def _multiple(e: Expr, stride: Expr) -> bool:
    """Say whether a product has a stride among its factors."""
    return type(e) is Product and (stride in e.factors or e.factors[-len(operands(stride)) :] == operands(stride))


def terms(value: Index) -> tuple[Expr, ...]:
    """List the terms of a sum, the constant last.

    Example:
        >>> from fireiron.algebra.index.nodes import Var
        >>> [str(term) for term in terms(Var("i", 4) * 8 + 3)]
        ['i * 8', '3']
    """
    found, constant = terms_of(as_expr(value))
    parts = tuple(build({monomial: coefficient}, 0) for monomial, coefficient in found)
    return (*parts, const(constant)) if constant or not parts else parts


def affine(value: Index, variables: Sequence[Var]) -> tuple[dict[Var, Index], Expr] | None:
    """Split an expression into a sum of coefficient * variable, and a rest without these variables.

    Returns:
        The coefficients (an int where constant, 0 where a variable does not occur) and the rest; None if not affine.
    """
    wanted = set(variables)
    slopes: dict[Var, Expr] = {variable: const(0) for variable in variables}
    terms, constant = terms_of(as_expr(value))
    rest: Expr = const(constant)
    for monomial, coefficient in terms:
        if wanted.isdisjoint(free(monomial)):
            rest = rest + build({monomial: coefficient}, 0)
            continue
        variable: Var | None = None
        others: Expr = const(coefficient)
        for factor in monomial.factors if isinstance(monomial, Product) else (monomial,):
            if isinstance(factor, Var) and factor in wanted and variable is None:
                variable = factor
            elif wanted.isdisjoint(free(factor)):
                others = others * factor
            else:
                return None
        if variable is None:
            return None
        slopes[variable] = slopes[variable] + others
    return {variable: simplest(slope) for variable, slope in slopes.items()}, rest
