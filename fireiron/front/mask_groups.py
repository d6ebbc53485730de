"""Masks of groups: whether a mask may hold for any of 64 queries and 64 keys, derived by interval arithmetic.

Indices of a group lie between its first and its last; array elements lie between the smallest and the largest of the
group. Each condition becomes two: `must` implies that it holds at all points of two groups, and is implied by none;
`may` holds wherever it holds at any point. What the arithmetic does not bound may hold.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import attrs

from fireiron.algebra.expr import (
    FALSE,
    TRUE,
    Compare,
    Const,
    Expr,
    Extremum,
    FloorDiv,
    Logic,
    Mod,
    Select,
    Sum,
    Symbol,
    Var,
    and_,
    as_expr,
    as_int,
    eq,
    free,
    le,
    lt,
    not_,
    or_,
    substitute,
)
from fireiron.algebra.expr import maximum as larger
from fireiron.algebra.expr import minimum as smaller
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Coordinate, Scalar, parts
from fireiron.algebra.scalar import Select as Choice
from fireiron.algebra.written import index_of, read
from fireiron.front.attention_lengths import TOGETHER
from fireiron.front.score_text import INDICES, array_of, condition_text, indices
from fireiron.language.functions import maximum, minimum
from fireiron.language.pointwise import Value

Condition: TypeAlias = Value | bool
Truth: TypeAlias = tuple[Condition, Condition]  # must hold, may hold
ANY: Truth = (False, True)
MOST_SUMMED = 2**29  # arrays with larger elements are not bounded in sums, which may overflow i32
MOST = 2**31
MOST_PARTS = 200  # parts of a derived expression; longer ones are dropped
MOST_INDEX = 2**24  # indices are below this number
PAIRED = ("i", "j")  # indices whose points are in groups


@attrs.frozen
class Extremes:
    """Name the smallest and the largest elements of an array's groups.

    Args:
        array: name of the array.
        dim: position of the dim in groups of 64.
        index: the index that is this dim's subscript: `i` or `j`.
    """

    array: str
    dim: int
    index: str

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of the two arrays."""
        return f"{self.array}_lowest_{self.dim}", f"{self.array}_highest_{self.dim}"


@attrs.frozen
class Grouped:
    """Hold a mask of groups.

    Args:
        text: the condition that a query of a group may see a key of a group, as text; its indices `i` and `j` count
            groups.
        whole: likewise the condition that all queries of a group see all keys of a group; "" where it never holds, or
            is not known.
        extremes: arrays that it reads for groups.
        others: arrays that it reads as they are.
        used: names of the indices that it depends on, in the order b h i j.
    """

    text: str
    whole: str
    extremes: tuple[Extremes, ...]
    others: tuple[str, ...]
    used: tuple[str, ...]


@attrs.frozen
class _Range:
    """Hold bounds of a value.

    Args:
        low, high: the bounds, where the conditions `within` hold; without them the value may be any.
        most: a bound of the value's magnitude.
        within: conditions.
    """

    low: Value
    high: Value
    most: int
    within: tuple[Value, ...] = ()


@functools.lru_cache(maxsize=1024)
def grouped_mask(text: str, causal: bool, kinds: tuple[tuple[str, int, str], ...]) -> Grouped | None:
    """Derive the mask of groups from a mask.

    Args:
        text: mask as text (`score_text.text_of`).
        causal: whether `j <= i` must hold too.
        kinds: name, number of dims and element type of each array.

    Returns:
        The mask; None where it bounds no more than comparisons of indices do.
    """
    record = json.loads(text).get("mask") if text else None
    if record is None or not any("i" in names or "j" in names for names in map(_indices_in, record["reads"])):
        return None
    groups = _Groups(record["reads"], {name: (rank, kind) for name, rank, kind in kinds})
    must, may = groups.truth(read(record["tree"])[0])
    if isinstance(may, bool) or not any(_indices_in(each) & set(PAIRED) for each in _reads(condition_text(may))):
        return None
    if causal:
        whole, any_below = _index_truth(le(_symbol("j"), _symbol("i")))
        must, may = _and(must, Value(Coordinate(whole))), may & Value(Coordinate(any_below))
    conditions = (may,) if isinstance(must, bool) else (may, must)
    texts = [condition_text(x) for x in conditions]
    reads = [each for text in texts for each in _reads(text)]
    names = dict.fromkeys(name for name, _ in reads)
    extremes = tuple(x for x in dict.fromkeys(groups.extremes) if not names.keys().isdisjoint(x.names))
    made = {name for x in extremes for name in x.names}
    others = tuple(name for name in names if name not in made)
    return Grouped(texts[0], (*texts[1:], "")[0], extremes, others, _used(*conditions))


def _reads(text: str) -> Sequence[Any]:
    return json.loads(text)["mask"]["reads"]


def _indices_in(each: Any) -> set[str]:
    """Name the indices in the subscripts of a written read."""
    names: set[str] = set()
    pending = list(each[1])
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, str) and part in INDICES:
            names.add(part)
    return names


def _used(*conditions: Value) -> tuple[str, ...]:
    places = (part.value for x in conditions for part in parts(x.tree) if isinstance(part, Coordinate))
    found = {leaf.name for place in places for leaf in free(place)}
    reads = (each for x in conditions for each in _reads(condition_text(x)))
    found |= {name for each in reads for name in _indices_in(each)}
    return tuple(name for name in INDICES if name in found)


def _symbol(name: str) -> Expr:
    place = indices()[name].tree
    assert isinstance(place, Coordinate)
    return place.value


class _Groups:
    """Derive conditions of groups from conditions of points.

    Args:
        reads: the written reads of the mask's arguments.
        kinds: for each array, the number of dims and the element type.
    """

    def __init__(self, reads: Sequence[Any], kinds: Mapping[str, tuple[int, str]]) -> None:
        self.reads, self.kinds = reads, kinds
        self.extremes: list[Extremes] = []

    def truth(self, tree: Scalar) -> Truth:
        """Return when a condition must hold for all points of two groups, and when it may hold for any."""
        must, may = self._truth(tree)
        return must if _is_short(must) else False, may if _is_short(may) else True

    def range(self, tree: Scalar) -> _Range | None:
        """Return bounds of an expression in a group of queries and a group of keys; None where it has none."""
        found = self._range(tree)
        short = found is not None and all(map(_is_short, (found.low, found.high, *found.within)))
        return found if short else None

    def _truth(self, tree: Scalar) -> Truth:
        match tree:
            case Coordinate(value):
                must, may = _index_truth(value)
                return _of_index(must), _of_index(may)
            case Constant(value):
                return bool(value), bool(value)
            case Binary("eq", x, Constant(value=0)) | Binary("eq", Constant(value=0), x) if _is_condition(x):
                must, may = self.truth(x)
                return _not(may), _not(must)
            case Binary("lt" | "le" | "eq" as op, x, y):
                return _compared(op, self.range(x), self.range(y))
            case Choice(condition, x, y):
                (must, may), (first, first_may), (last, last_may) = map(self.truth, (condition, x, y))
                if first is True:  # either
                    return _or(must, last), _or(may, last_may)
                chosen = _or(_and(must, first), _and(_not(may), last), _and(first, last))
                return chosen, _or(_and(may, first_may), _and(_not(must), last_may))
            case Cast(x, wraps=False) if x.dtype.kind == "int":
                return self.truth(x)
            case _:
                known = self.range(tree)
                if known is None:
                    return ANY
                other = _or(_value(known.low > 0), _value(known.high < 0))
                may = _or(_value(known.low < 0), _value(known.high > 0))
                return _and(other, *known.within), _or(may, _not(_and(*known.within)))

    def _range(self, tree: Scalar) -> _Range | None:
        match tree:
            case Coordinate(value):
                return _of_places(value)
            case Constant(value, dtype) if dtype.kind == "int" and abs(value) <= MOST:
                place = Value(Coordinate(as_expr(int(value))))
                return _Range(place, place, abs(int(value)))
            case Cast(x, dtype, wraps=False) if dtype.name in ("i32", "i64") and x.dtype.kind == "int":
                return self.range(x)
            case Arg(index, dtype) if dtype.kind == "int" and not dtype.packed and dtype.bits <= 32:
                return self._read(index, MOST if dtype.bits > 16 else 2**dtype.bits)
            case Binary("add" | "sub" as op, x, y):
                left, right = self._limited(x), self._limited(y)
                if left is None or right is None or left.most + right.most >= MOST:
                    return None
                within = left.within + right.within
                if op == "add":
                    return _Range(left.low + right.low, left.high + right.high, left.most + right.most, within)
                return _Range(left.low - right.high, left.high - right.low, left.most + right.most, within)
            case Binary("max" | "min" as op, x, y):
                left, right = self.range(x), self.range(y)
                if left is None or right is None:
                    return None
                of = maximum if op == "max" else minimum
                most, within = max(left.most, right.most), left.within + right.within
                return _Range(of(left.low, right.low), of(left.high, right.high), most, within)
            case Choice(_, x, y) if not _is_condition(tree):
                left, right = self.range(x), self.range(y)
                if left is None or right is None:
                    return None
                most, within = max(left.most, right.most), left.within + right.within
                return _Range(minimum(left.low, right.low), maximum(left.high, right.high), most, within)
            case _ if _is_condition(tree):
                must, may = map(_as_value, self.truth(tree))
                return _Range(must, may, 1)
            case _:
                return None

    def _limited(self, tree: Scalar) -> _Range | None:
        """Return bounds of an operand of a sum; those of arrays hold where elements are far from overflow."""
        found = self.range(tree)
        if found is None or found.most < MOST:
            return found
        near = found.low >= -MOST_SUMMED, found.high <= MOST_SUMMED
        return _Range(found.low, found.high, MOST_SUMMED, (*found.within, *near))

    def _read(self, argument: int, most: int) -> _Range | None:
        """Return bounds of array elements: read as they are, or by the extremes of groups along one dim."""
        name, subscripts = self.reads[argument - 1]
        rank, kind = self.kinds[name]
        places: list[Any] = []
        along: list[tuple[int, str]] = []
        for n, subscript in enumerate(subscripts):
            if subscript in PAIRED:
                along.append((n, subscript))
                places.append(indices()[subscript])
                continue
            place = _same_in_group(subscript)
            if place is None:
                return None
            places.append(place)
        if not along:
            read = array_of(name, rank, kind)[tuple(places)]
            return _Range(read, read, most)
        if len(along) > 1:
            return None
        extremes = Extremes(name, *along[0])
        self.extremes.append(extremes)
        low, high = (array_of(each, rank, "i32")[tuple(places)] for each in extremes.names)
        return _Range(low, high, most)


def _is_short(condition: Condition) -> bool:
    """Say whether an expression is short; each step of the arithmetic may double it."""
    return isinstance(condition, bool) or next(islice(parts(condition.tree), MOST_PARTS, None), None) is None


def _is_condition(tree: Scalar) -> bool:
    match tree:
        case Coordinate(value):
            return isinstance(value, Compare | Logic)
        case Constant(value):
            return value in (0, 1)
        case Cast(x, dtype):
            return dtype.kind == "int" and _is_condition(x)
        case Choice(_, x, y):
            return _is_condition(x) and _is_condition(y)
        case _:
            return isinstance(tree, Binary) and tree.op in ("lt", "le", "eq")


def _compared(op: str, x: _Range | None, y: _Range | None) -> Truth:
    if x is None or y is None:
        return ANY
    within = (*x.within, *y.within)
    if op == "eq":
        may = _and(_value(x.low <= y.high), _value(y.low <= x.high))
        must = _and(_value(x.high <= y.low), _value(y.high <= x.low))
    elif op == "lt":
        must, may = _value(x.high < y.low), _value(x.low < y.high)
    else:
        must, may = _value(x.high <= y.low), _value(x.low <= y.high)
    return _and(must, *within), _or(may, _not(_and(*within)))


def _same_in_group(subscript: Any) -> Any:
    """Return a subscript by groups where it is the same for all points of a group; None where it is not."""
    if isinstance(subscript, int):
        return subscript
    known = {name: _symbol(name) for name in INDICES}
    found = _ends(index_of(subscript, known))
    return Value(Coordinate(found[0])) if found is not None and found[0] == found[1] else None


def _of_places(e: Expr) -> _Range | None:
    if isinstance(e, Compare | Logic):
        must, may = _index_truth(e)
        return _Range(Value(Coordinate(must)), Value(Coordinate(may)), 1)
    limits: dict[Expr, Expr] = {_symbol(name): Var(name, MOST_INDEX) for name in INDICES}
    found, (low, high) = _ends(e), substitute(e, limits).range
    if found is None or low is None or high is None:
        return None
    return _Range(Value(Coordinate(found[0])), Value(Coordinate(found[1])), max(abs(low), abs(high)))


def _ends(e: Expr) -> tuple[Expr, Expr] | None:
    """Return bounds of an index expression in a group of queries and a group of keys."""
    match e:
        case Const():
            return e, e
        case Symbol(name):
            return (e * TOGETHER, e * TOGETHER + (TOGETHER - 1)) if name in PAIRED else (e, e)
        case Sum(terms, constant):
            low = high = as_expr(constant)
            for x, factor in terms:
                found = _ends(x)
                if found is None:
                    return None
                least, most = found if factor > 0 else found[::-1]
                low, high = low + least * factor, high + most * factor
            return low, high
        case FloorDiv(x, y) if (by := as_int(y)) is not None and by > 0:
            found = _ends(x)
            return None if found is None else (found[0] // by, found[1] // by)
        case Mod(x, y) if (by := as_int(y)) is not None and by > 0:
            found = _ends(x)
            if found is not None and found[0] // by == found[1] // by:
                return found[0] % by, found[1] % by
            return as_expr(0), as_expr(by - 1)
        case Extremum(op, operands):
            bounds = [_ends(x) for x in operands]
            known = [x for x in bounds if x is not None]
            of = larger if op == "max" else smaller
            if len(known) < len(bounds):
                return None
            return functools.reduce(of, (x[0] for x in known)), functools.reduce(of, (x[1] for x in known))
        case Select(_, x, y):
            first, last = _ends(x), _ends(y)
            if first is None or last is None:
                return None
            return smaller(first[0], last[0]), larger(first[1], last[1])
        case _:
            return None


def _index_truth(e: Expr) -> tuple[Expr, Expr]:
    """Return when a condition of indices must hold for all points of two groups, and when it may hold for any."""
    match e:
        case Const(value):
            return (TRUE, TRUE) if value else (FALSE, FALSE)
        case Logic(op, operands):
            found = [_index_truth(x) for x in operands]
            of = and_ if op == "&&" else or_
            return of(*(x[0] for x in found)), of(*(x[1] for x in found))
        case Compare(op, x, y):
            difference = _ends(as_expr(y) - x)
            if difference is None:
                return FALSE, TRUE
            low, high = difference
            if op == "<":
                return lt(0, low), lt(0, high)
            same = and_(eq(low, 0), eq(high, 0)), and_(le(low, 0), le(0, high))
            return same if op == "==" else (not_(same[1]), not_(same[0]))
        case _:
            return FALSE, TRUE


def _of_index(e: Expr) -> Condition:
    known = as_int(e)
    return Value(Coordinate(e)) if known is None else known != 0


def _value(condition: Value) -> Condition:
    known = condition.number
    return condition if known is None else known != 0


def _as_value(condition: Condition) -> Value:
    return condition if isinstance(condition, Value) else Value(Coordinate(as_expr(int(condition))))


def _and(*conditions: Condition) -> Condition:
    return _joined(conditions, True, lambda x, y: x & y)


def _or(*conditions: Condition) -> Condition:
    return _joined(conditions, False, lambda x, y: x | y)


def _joined(conditions: Sequence[Condition], neutral: bool, join: Callable[[Value, Value], Value]) -> Condition:
    left = [x for x in conditions if x is not neutral]
    if any(x is not neutral and isinstance(x, bool) for x in left):
        return not neutral
    values = [x for x in left if isinstance(x, Value)]
    return functools.reduce(join, dict.fromkeys(values)) if values else neutral


def _not(condition: Condition) -> Condition:
    return ~condition if isinstance(condition, Value) else not condition
