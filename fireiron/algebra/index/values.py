"""Values of expressions: each node becomes a Python function of its leaves' values, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import eq, itemgetter, lt, mod, ne
from operator import mul as times
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never, cast

from fireiron.algebra.index.nodes import (
    Bitwise,
    Compare,
    Const,
    Element,
    Expr,
    Extremum,
    FloorDiv,
    Index,
    Logic,
    Mod,
    Product,
    Select,
    Shift,
    Sum,
    Symbol,
    Var,
    as_expr,
    closed,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Value: TypeAlias = int | NDArray[np.integer[Any]]

Give: TypeAlias = Callable[[Mapping[str, Any]], Any]

BITWISE: dict[str, Callable[[Any, Any], Any]] = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_SHIFT: dict[str, Callable[[Any, Any], Any]] = {"<<": lambda a, b: a << b, ">>": lambda a, b: a >> b}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "==": eq, "!=": ne}


def evaluate(value: Index, env: Mapping[str, Value]) -> Value:
    """Compute an expression from its leaves' values by name, integers or integer arrays; conditions give 0 or 1.

    An element is read from the value of its array's name.

    Raises:
        KeyError: if a leaf has no value.

    Example:
        >>> i = Var("i", 32)
        >>> evaluate(i // 4 * 16 + i % 4, {"i": 9})
        33
    """
    return giver(as_expr(value))(env)


def giver(e: Expr) -> Give:
    """Return the function of an expression; the expression keeps it."""
    try:
        return e.give
    except AttributeError:
        found = _made(e)
        object.__setattr__(e, "give", found)
        return found


def _made(e: Expr) -> Give:
    match closed(e):
        case Const(value=value):
            return lambda env: value
        case Var(name=name) | Symbol(name=name):
            return itemgetter(name)
        case Sum(terms=terms, constant=constant):
            return _sum(tuple([(giver(monomial), coefficient) for monomial, coefficient in terms]), constant)
        case Product(factors=factors):
            return _joined(times, factors)
        case FloorDiv(numerator=a, denominator=b):
            return _pair(_quotient, a, b)
        case Mod(numerator=a, denominator=b):
            return _pair(mod, a, b)
        case Bitwise(op=op, operands=found):
            return _joined(BITWISE[op], found)
        case Shift(op=op, value=a, amount=b):
            return _pair(_SHIFT[op], a, b)
        case Extremum(op=op, operands=found):
            return _extremum(op, tuple(map(giver, found)))
        case Compare(op=op, left=left, right=right):
            truth = _pair(_COMPARE[op], left, right)
            return lambda env: truth(env) * 1
        case Logic(op=op, operands=found):
            return _logic(BITWISE["&" if op == "&&" else "|"], tuple(map(giver, found)))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return _select(giver(condition), giver(then), giver(otherwise))
        case Element(array=array, index=found):
            places = tuple(map(giver, found))
            return lambda env: env[array][tuple([place(env) for place in places])]
        case _ as never:
            assert_never(never)


def _quotient(a: Any, b: Any) -> Any:
    return a // b


def _sum(terms: tuple[tuple[Give, int], ...], constant: int) -> Give:
    if len(terms) == 1:
        ((only, by),) = terms
        return lambda env: constant + by * only(env)

    def give(env: Mapping[str, Any]) -> Any:
        total: Any = constant
        for term, coefficient in terms:
            total = total + coefficient * term(env)
        return total

    return give


def _pair(op: Callable[[Any, Any], Any], a: Expr, b: Expr) -> Give:
    left = giver(a)
    if isinstance(b, Const):
        known = b.value
        return lambda env: op(left(env), known)
    right = giver(b)
    return lambda env: op(left(env), right(env))


def _joined(op: Callable[[Any, Any], Any], found: tuple[Expr, ...]) -> Give:
    if len(found) == 2:
        return _pair(op, *found)
    parts = tuple(map(giver, found))
    return lambda env: reduce(op, [part(env) for part in parts])


def _logic(op: Callable[[Any, Any], Any], parts: tuple[Give, ...]) -> Give:
    return lambda env: reduce(op, [part(env) != 0 for part in parts]) * 1


def _extremum(op: str, parts: tuple[Give, ...]) -> Give:
    def give(env: Mapping[str, Any]) -> Any:
        values: list[Any] = [part(env) for part in parts]
        if all(isinstance(value, int) for value in values):
            return min(values) if op == "min" else max(values)
        import numpy as np

        choose: Callable[[Any, Any], Any] = np.minimum if op == "min" else np.maximum
        return reduce(choose, values)

    return give


def _select(condition: Give, then: Give, otherwise: Give) -> Give:
    def give(env: Mapping[str, Any]) -> Any:
        chosen: Any = condition(env)
        if isinstance(chosen, int):
            return (then if chosen else otherwise)(env)
        import numpy as np

        where = cast("Callable[[Any, Any, Any], Any]", np.where)
        return where(chosen != 0, then(env), otherwise(env))

    return give
