"""Dims and subscripts of traced functions: `extent`, `index` and `dim`, and reads such as `x[2 * p + r - 1]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import attrs

from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import (
    Element,
    Expr,
    Index,
    Product,
    Var,
    and_,
    as_expr,
    as_int,
    ceil_div,
    free,
    ge,
    lt,
    operands,
    proves,
    select,
    simplest,
    substitute,
    terms_of,
)
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Coordinate, Scalar, Select, placed
from fireiron.base.contract import checks, shown
from fireiron.base.errors import SpecError
from fireiron.base.text import count
from fireiron.language.folds import Dim
from fireiron.language.pointwise import (
    Value,
    check_whole,
    integer,
)
from fireiron.language.pointwise import where as choose
from fireiron.language.reach import BEYOND
from fireiron.language.steps import Ref
from fireiron.language.tensor import Tensor
from fireiron.language.trace import active_trace, bare, declared, dims_of_value, known_dim


@checks(locate=True)
def extent(dim: str) -> int | Value:
    """Return the extent of a dim: a number, or an index expression of symbols.

    Raises:
        SpecError: `unknown-dim`, `outside-program`.
    """
    found = known_dim(dim).extent
    assert found is not None
    known = as_int(found)
    return Value(Coordinate(found)) if known is None else known


@checks(locate=True)
def index(dim: str) -> Value:
    """Return the coordinate of the current point along a dim, an i32.

    Sums of indices and whole numbers, and `//` and `%` by a number, are indices too. Indices may be used in
    comparisons, in arithmetic, and in subscripts.

    Raises:
        SpecError: `unknown-dim`, `outside-program`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> from fireiron.language.statistics import softmax
        >>> from fireiron.language.traced import traced
        >>> def causal(x): return softmax(x, "j", where=index("j") <= index("i"))
        >>> print(traced(causal, {"x": "i j"}, {"x": Matrix(64, 64, name="x")}, {}, "causal").steps[0])
        top[i] = max over j where j <= i of x[i, j]
    """
    return Value(Coordinate(known_dim(dim)))


@checks(locate=True)
def dim(name: str, size: Index | Value) -> Value:
    """Declare a new dim with a given extent, and return its index.

    Raises:
        SpecError: `dim-extents`, `dim-name`, `bad-extent`, `outside-program`.
    """
    trace = active_trace()
    extent: object = size
    if isinstance(size, Value) and isinstance(size.tree, Coordinate) and not dims_of_value(size):
        extent = simplest(size.tree.value)
    if isinstance(extent, bool) or not isinstance(extent, int | Expr) or not _positive(extent):
        raise SpecError(
            "bad-extent", f"dim {name} has the extent {shown(size)}", fix="give a whole number of 1 or more, or symbols"
        )
    return Value(Coordinate(declared(name, extent, trace)))


def _positive(extent: Index) -> bool:
    _, high = as_expr(extent).range
    return high is None or high >= 1


@checks(locate=True)
def subscripted(value: Value, subscripts: object) -> Value:
    """Read an expression at other points: `x[..., 2 * p + r - 1, :]`.

    Args:
        value: an array, or an expression of arrays; subscripts count the dims in the expression's order.
        subscripts: one for each dimension: `:` keeps the dimension, `...` keeps all dimensions that are not given. A
            number counts from the end if negative. An index is affine in dims, with `//` and `%` by numbers; elements
            outside the array read as 0, or as `outside` says. An integer array of the call is an index too (a gather);
            its elements must lie inside the dimension, which the simulator and debug builds check, unless `outside`
            gives the array a number other than 0: they may then have any value. Numbers that count from the end are
            written `where(ids < 0, ids + n, ids)`, and may lie outside as well: 0 is read there.

    Raises:
        SpecError: `subscript-rank`, `affine-subscript`, `gather-step`, `outside-program`.

    Example:
        >>> from fireiron.language.tensor import Matrix, Vector
        >>> arrays = {"ids": Vector(64, "i32", name="ids"), "table": Matrix(1000, 32, name="table")}
        >>> from fireiron.language.traced import traced
        >>> def embedding(ids, table): return table[ids, :]
        >>> print(traced(embedding, {"ids": "m", "table": "v n"}, arrays, {}, "embedding").steps[0])
        y[m, n] = table[ids[m], n]
    """
    ref = bare(value)
    dims = dims_of_value(value)
    index = ref.index if ref is not None else tuple(dims)
    shape = ref.shape if ref is not None else tuple(cast(Expr, d.extent) for d in dims)
    given = cast("tuple[object, ...]", subscripts if isinstance(subscripts, tuple) else (subscripts,))
    gaps = [i for i, x in enumerate(given) if x is Ellipsis]
    if len(gaps) > 1 or len(given) - len(gaps) > len(index):
        raise SpecError(
            "subscript-rank",
            f"{count(len(given) - len(gaps), 'subscript')} for {count(len(index), 'dimension')}"
            if len(gaps) < 2
            else "two ... in a subscript",
            fix="give one subscript for each dimension; one ... stands for those that are kept",
        )
    whole: list[object] = [slice(None)] * (len(index) - len(given) + len(gaps))
    at = gaps[0] if gaps else len(given)
    places = [
        _place(x, old, n, ref is not None and ref.outside != 0)
        for x, old, n in zip((*given[:at], *whole, *given[at + 1 :]), index, shape, strict=True)
    ]
    if ref is not None:
        read = attrs.evolve(ref, index=tuple(places))
        return Value(value.tree, tuple(read if t == ref else t for t in value.tensors))
    return _moved(value, dict(zip(dims, places, strict=True)))


def _place(subscript: object, old: Expr, extent: Index, anywhere: bool) -> Expr:
    """Return the index expression of a subscript.

    Args:
        subscript: what the caller wrote.
        old: the index that `:` keeps.
        extent: of the dimension.
        anywhere: whether elements of integer arrays may lie outside the dimension.
    """
    if _is_all(subscript):
        return old
    if isinstance(subscript, int) and not isinstance(subscript, bool):
        return as_expr(extent) + subscript if subscript < 0 else as_expr(subscript)
    place = _index_of(subscript.tree, subscript.tensors) if isinstance(subscript, Value) else None
    if place is None or not _is_affine(place):
        said = shown(subscript) if not isinstance(subscript, Value) else _in_words(subscript)
        raise SpecError(
            "affine-subscript",
            f"the subscript {said} is not affine in dims",
            fix='use sums of index("i") times a number, with // and % by numbers; `:` keeps a dimension',
        )
    return _unbounded(place) if anywhere else _bounded(place, extent)


def _is_all(subscript: object) -> bool:
    """Say whether a subscript is `:`, without `==`, which arrays compare element by element."""
    return isinstance(subscript, slice) and subscript == slice(None)


def _index_of(tree: Scalar, tensors: Sequence[Tensor], anywhere: bool = False) -> Expr | None:
    """Convert a subscript of indices, numbers and elements of integer arrays to an index expression.

    Args:
        tree: the subscript.
        tensors: what it reads, from `Arg(1)` on.
        anywhere: whether elements of arrays may have any value, as those that a condition compares.

    Raises:
        SpecError: `gather-step` for integers that a step computes.
    """
    match tree:
        case Cast(x=x, dtype=dtype, wraps=wraps) if dtype.kind == "int" and x.dtype.kind == "int":
            # Indices are low words; other low bits of a number, and those that are compared, are another number.
            return None if wraps and (anywhere or dtype != i32) else _index_of(x, tensors, anywhere)
        case Arg(index=number, dtype=dtype) if dtype.kind == "int" and not dtype.packed and number > 0:
            ref = tensors[number - 1]
            if not isinstance(ref, Ref):
                return None
            if ref.made is not None:
                raise SpecError(
                    "gather-step",
                    f"the subscript {ref} is computed by step {ref.made.name}",
                    fix="compute the indices in a separate kernel, and pass them as an array",
                )
            active_trace().indices.add(ref.name)
            element = Element(ref.name, ref.index, ref.shape)
            return _unbounded(element) if anywhere else element
        case Binary(op=op, x=x, y=y) if op in ("add", "sub", "mul"):
            left, right = _index_of(x, tensors, anywhere), _index_of(y, tensors, anywhere)
            if left is None or right is None:
                return None
            return left + right if op == "add" else left - right if op == "sub" else left * right
        case Constant(value=value, dtype=dtype) if dtype.kind == "int" and abs(value) < BEYOND:
            return as_expr(int(value))
        case Select(condition=Binary(op="lt", x=x, y=y), x=one, y=other):
            parts = [_index_of(part, tensors, anywhere=True) for part in (x, y, one, other)]
            low, high, then, otherwise = parts
            if low is None or high is None or then is None or otherwise is None:
                return None
            return select(lt(low, high), then, otherwise)
        case _:
            return integer(tree)


def _bounded(place: Expr, extent: Index) -> Expr:
    """Bound the array elements in an index, so that the index stays below an extent."""
    found: dict[Expr, Expr] = {}
    for term, factor in terms_of(place)[0]:
        if isinstance(term, Element) and factor > 0:
            found[term] = attrs.evolve(term, extent=simplest(ceil_div(as_expr(extent), factor)))
    return substitute(place, found) if found else place


def _unbounded(place: Expr) -> Expr:
    """Let the array elements in an index have any value."""
    found: dict[Expr, Expr] = {
        term: attrs.evolve(term, extent=as_expr(BEYOND), lower=-BEYOND)
        for term, _ in terms_of(place)[0]
        if isinstance(term, Element)
    }
    return substitute(place, found) if found else place


def _in_words(value: Value) -> str:
    from fireiron.language.words import scalar_in_words

    return scalar_in_words(value.tree, ["", *map(str, value.tensors)])


def _is_affine(e: Expr) -> bool:
    factors = e.factors if isinstance(e, Product) else ()
    return sum(bool([x for x in free(f) if isinstance(x, Var)]) for f in factors) < 2 and all(
        map(_is_affine, operands(e))
    )


def _moved(value: Value, places: Mapping[Dim, Expr]) -> Value:
    """Replace dims by index expressions; at points outside the dims' extents the value is 0."""
    values: dict[Expr, Expr] = {dim: place for dim, place in places.items() if place != dim}
    tensors = tuple(
        attrs.evolve(t, index=tuple(substitute(e, values) for e in t.index)) if isinstance(t, Ref) else t
        for t in value.tensors
    )
    moved = Value(placed(value.tree, values), tensors)
    inside = and_(*(and_(ge(e, 0), lt(e, cast(Expr, d.extent))) for d, e in places.items() if d in values))
    return moved if proves(inside) else choose(Value(Coordinate(inside)), moved, 0)


@checks(locate=True)
def outside(value: Value, number: float) -> Value:
    """Set the value of reads whose subscripts lie outside an array (0 by default).

    Args:
        value: an array of the function.
        number: the value, of the array's type. Example: `-inf` for the maximum of a window.

    Raises:
        SpecError: `outside-computed` for an expression; `fraction-of-integer`, `constant-range`.
    """
    ref = bare(value)
    if ref is None:
        raise SpecError(
            "outside-computed",
            "outside() takes an array, and this is an expression",
            fix="use where(condition, expression, number)",
        )
    if ref.dtype.kind == "int":
        check_whole(number, ref.dtype)
    read = attrs.evolve(ref, outside=float(number))
    return Value(value.tree, tuple(read if t == ref else t for t in value.tensors))
