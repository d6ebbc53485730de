"""Bounds of attention's loops under masks that read arrays along queries or keys, such as numbers of documents.

A first program takes the extremes of each 64 elements of the arrays. A second one finds, for each 64 queries, the first
and the last key that the mask of groups (`mask_groups`) does not exclude, and the first keys that all these queries
see; and for each 64 keys such queries. They join the mask as comparisons, from which lowering derives where loops start
and end, and which chunks are computed without masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import as_expr
from fireiron.algebra.scalar import Coordinate
from fireiron.front.attention_lengths import TOGETHER
from fireiron.front.best_program import best_program
from fireiron.front.fallback import ready
from fireiron.front.host import arch_of
from fireiron.front.mask_groups import MOST_INDEX, PAIRED, Grouped, grouped_mask
from fireiron.front.program import program
from fireiron.front.score_text import INDICES, Change, array_name, functions_of, with_mask
from fireiron.jit.arrays import describe
from fireiron.jit.kernel import as_tuple
from fireiron.language.functions import implied, minimum
from fireiron.language.levels import RF, Block, Thread, Warp
from fireiron.language.pointwise import Value, simplified_together, where
from fireiron.language.reductions import max as largest
from fireiron.language.reductions import min as smallest
from fireiron.language.reductions import sum as total
from fireiron.language.subscripts import dim
from fireiron.language.tensor import tensor
from fireiron.language.trace import dims_of_value

Named: TypeAlias = tuple[tuple[str, int, str], ...]
LEAST_KEYS = 1024  # of fewer keys little can be left out beside the two programs' launches; not measured
FEW_QUERIES = 16  # most queries of a head that are few: the rows of one instruction; they read little of the arrays
OF_QUERIES = ("first_of_64", "last_of_64", "first_whole_of_64", "last_whole_of_64")
OF_KEYS = ("first_query", "last_query", "first_whole_query", "last_whole_query")
WARPS = 8  # results of a block, a warp for each
LANES = 32
CHUNK = 256  # groups that a warp reads at a time
MOST_KERNELS = 1024


class Bounded(NamedTuple):  # torch.compile traces named tuples of plain values
    """Hold how the loops of a mask are bounded.

    Args:
        text: mask and score function as text, with the bounds joined.
        names: names of the arrays of bounds.
        reads: names of the arrays from which bounds are found.
        along: for each dim that a mask reads by `i` or `j`: the array's name, the position of the dim, and the index.
    """

    text: str
    names: tuple[str, ...]
    reads: tuple[str, ...]
    along: tuple[tuple[str, int, str], ...]


def pays(queries: int, keys: int) -> bool:
    """Say whether attention takes longer than finding the bounds of its loops."""
    return LEAST_KEYS <= keys < MOST_INDEX and FEW_QUERIES < queries < MOST_INDEX


def fits(plan: Bounded, arrays: Mapping[str, Any], queries: int, keys: int) -> bool:
    """Say whether arrays have an element for each query or key where the mask reads them by such indices."""
    return all(arrays[name].shape[n] == (queries if index == "i" else keys) for name, n, index in plan.along)


@lru_cache(MOST_KERNELS)
def bounded(text: str, causal: bool, named: Named, gradients: bool) -> Bounded | None:
    """Join the bounds of loops with a mask.

    Args:
        text: mask and score function as text.
        causal: whether query i sees keys 0 to i only.
        named: name, number of dims and element type of each array that the functions read.
        gradients: whether the gradients of keys and values are computed too.

    Returns:
        The joined text, and the arrays; None where the mask gives no such bounds, or an array has the name of one.
    """
    grouped = grouped_mask(text, causal, named)
    if grouped is None or any(name in (*OF_QUERIES, *OF_KEYS) for name, _, _ in named):
        return None
    of_queries, of_keys = OF_QUERIES[: count_of(grouped)], OF_KEYS[: count_of(grouped)] if gradients else ()
    over_keys, over_queries = kept(grouped, "j"), kept(grouped, "i")
    known = (*named, *((name, max(1, len(over_keys)), "i32") for name in of_queries))
    known += tuple((name, max(1, len(over_queries)), "i32") for name in of_keys)
    by_keys = _within(of_keys, over_queries, "i") if gradients else None
    made = with_mask(text, _within(of_queries, over_keys, "j"), by_keys, known)
    read = functions_of(text).reads["mask"]
    integers = tuple(name for name, _, kind in named if name in read and find_dtype(kind).kind == "int")
    along = tuple((x.array, x.dim, x.index) for x in grouped.extremes)
    return Bounded(made, (*of_queries, *of_keys), integers, along)


def count_of(grouped: Grouped) -> int:
    """Count the bounds of a loop: two, and two more where points are known that the mask leaves whole."""
    return 4 if grouped.whole else 2


def kept(grouped: Grouped, over: str) -> tuple[str, ...]:
    """Name the dims of the bounds of loops over keys (`j`) or over queries (`i`)."""
    return tuple(name for name in grouped.used if name != over)


def _within(names: Sequence[str], dims: Sequence[str], over: str) -> Change:
    """Change a mask: it holds nowhere outside the bounds of a loop, and everywhere inside those of whole chunks.

    Args:
        names: names of the arrays of bounds.
        dims: indices of the bounds.
        over: the index of the loop.
    """

    def changed(mask: Value, known: Mapping[str, Value]) -> Value:
        at = tuple(known[name] // TOGETHER if name in PAIRED else known[name] for name in dims) or (0,)
        first, last, *whole = (known[name][at] for name in names)
        place = known[over]
        inside = where(implied((place >= whole[0]) & (place < whole[1])), 1, mask) if whole else mask
        return implied((place >= first) & (place < last)) & inside

    return changed


def shape_of(grouped: Grouped, over: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of the bounds of loops over keys (`j`) or over queries (`i`).

    Args:
        grouped: the mask of groups.
        over: the index of the loops.
        sizes: by index, the numbers of batches, heads, queries and keys.
    """
    count = {name: n if name in ("b", "h") else groups(n) for name, n in sizes.items()}
    return tuple(count[name] for name in kept(grouped, over)) or (1,)


def groups(n: int) -> int:
    """Count the groups of some queries or keys; the last one may be short."""
    return (n + TOGETHER - 1) // TOGETHER


@attrs.frozen
class Calls:
    """Hold the functions of an array library that finding bounds needs.

    Args:
        filled: lengthens an array along a dim by its last elements: `filled(x, dim, length)` is dense.
        kind: names an array's element type.
        run: calls a kernel with arrays, and returns results of given shapes, of i32: `run(kernel, arrays, shapes)`.
    """

    filled: Callable[[Any, int, int], Any]
    kind: Callable[[Any], str]
    run: Callable[[Any, Sequence[Any], Sequence[tuple[int, ...]]], tuple[Any, ...]]


def found(
    text: str, causal: bool, arrays: Mapping[str, Any], sizes: Mapping[str, int], gradients: bool, host: bool,
    calls: Calls,
) -> tuple[Any, ...]:  # fmt: skip
    """Compute the bounds of loops: arrays of i32 in the order of the bounds' names.

    Args:
        text: mask as text, without bounds.
        causal: whether query i sees keys 0 to i only.
        arrays: by name, the integer arrays that the mask reads, dense.
        sizes: by index, the numbers of batches, heads, queries and keys.
        gradients: whether the bounds of the gradients of keys and values are computed too.
        host: whether arrays lie in host memory.
        calls: functions of the array library.
    """
    grouped = _grouped(text, causal, arrays, calls.kind)
    read: dict[str, Any] = {name: arrays[name] for name in grouped.others}
    types = {name: calls.kind(arrays[name]) for name in grouped.others}
    for each in {x.names: x for x in grouped.extremes}.values():
        shape = tuple(arrays[each.array].shape)
        count, inner = groups(shape[each.dim]), prod(shape[each.dim + 1 :])
        whole = (prod(shape[: each.dim]) * count, TOGETHER, *((inner,) if inner > 1 else ()))
        made = (*shape[: each.dim], count, *shape[each.dim + 1 :])
        kernel = extremes(whole, calls.kind(arrays[each.array]), host)
        lines = calls.filled(arrays[each.array], each.dim, count * TOGETHER).reshape(whole)
        of_groups = calls.run(kernel, (lines,), (whole[:1] + whole[2:],) * 2)
        read |= {name: x.reshape(made) for name, x in zip(each.names, of_groups, strict=True)}
        types |= dict.fromkeys(each.names, "i32")
    described = tuple((name, tuple(x.shape), types[name]) for name, x in read.items())
    results: list[Any] = []
    for over in ("j", "i") if gradients else ("j",):
        shape = shape_of(grouped, over, sizes)
        kernel = bounds(grouped, over, tuple(sizes.items()), described, host)
        results += calls.run(kernel, tuple(read.values()), (shape,) * count_of(grouped))
    return tuple(results)


def _grouped(text: str, causal: bool, arrays: Mapping[str, Any], kind: Callable[[Any], str]) -> Grouped:
    found = grouped_mask(text, causal, tuple((name, len(x.shape), kind(x)) for name, x in arrays.items()))
    assert found is not None
    return found


def shapes(
    text: str, causal: bool, arrays: Mapping[str, Any], sizes: Mapping[str, int], gradients: bool,
    kind: Callable[[Any], str],
) -> list[tuple[int, ...]]:  # fmt: skip
    """Return the shapes of the results of `found`."""
    grouped = _grouped(text, causal, arrays, kind)
    return [shape_of(grouped, over, sizes) for over in ("ji" if gradients else "j") for _ in range(count_of(grouped))]


@lru_cache(MOST_KERNELS)
def extremes(shape: tuple[int, ...], kind: str, host: bool) -> Any:
    """Return the kernel that takes the smallest and the largest of each 64 elements.

    Args:
        shape: groups, 64, and elements behind the dim of groups if there are several.
        kind: element type.
        host: whether arrays lie in host memory.
    """

    def extremes_of_64(x: Value) -> tuple[Value, Value]:
        return smallest(x, "n"), largest(x, "n")

    spec = program(x="m n c" if len(shape) > 2 else "m n")(extremes_of_64)(
        tensor(*shape, dtype=kind, name="x"), out=("i32", "i32"), arch=arch_of(host)
    )
    return ready(best_program(spec), host)


def _simplified(x: Value) -> Value:
    (tree,), tensors = simplified_together((x,))
    return Value(tree, tensors)


def _varies_by(x: Value, dims: Sequence[str]) -> bool:
    """Say whether an expression has all of some dims."""
    return set(dims) <= {d.name for d in dims_of_value(x)}


@lru_cache(MOST_KERNELS)
def bounds(
    grouped: Grouped, over: str, sizes: tuple[tuple[str, int], ...],
    arrays: tuple[tuple[str, tuple[int, ...], str], ...], host: bool,
) -> Any:  # fmt: skip
    """Return the kernel that finds the bounds of loops over keys (`j`) or over queries (`i`).

    Args:
        grouped: the mask of groups.
        over: the index of the loops.
        sizes: by index, the numbers of batches, heads, queries and keys.
        arrays: name, shape and element type of each array that the mask of groups reads.
        host: whether arrays lie in host memory.
    """
    may_see, left, extents = functions_of(grouped.text).mask, kept(grouped, over), dict(sizes)
    must_see = functions_of(grouped.whole).mask
    assert may_see is not None
    count = {name: n if name in ("b", "h") else groups(n) for name, n in sizes}

    def loop_bounds(**given: Value) -> tuple[Value, ...]:
        place: dict[str, Value] = {name: dim(name, count[name]) for name in (*left, over)}
        places = {name: place.get(name, place[over]) for name in INDICES}
        at, most = place[over], Value(Coordinate(as_expr(count[over])))

        def run(condition: Value) -> tuple[Value, Value]:
            holds = where(condition, at, most)
            if not _varies_by(holds, over):  # by the extents, the condition never holds
                return most, at - at
            return smallest(holds, over), largest(where(condition, at, -1), over) + 1

        found = run(_simplified(may_see(**places, **given)))
        if must_see is not None:
            must = _simplified(must_see(**places, **given))
            first, behind = run(must)
            if _varies_by(must, over):  # there may be gaps: only the first group is whole then
                behind = where(total(where(must, 1, 0), over) < behind - first, first + 1, behind)
            found += first, behind
        behind_all = largest(sum((place[name] for name in left), at), over) + extents[over]
        ends = (minimum(x * TOGETHER, extents[over]) for x in found)
        return tuple(x if _varies_by(x, left) else minimum(x, behind_all) for x in ends)

    given = {array_name(name): tensor(*shape, dtype=kind, name=array_name(name)) for name, shape, kind in arrays}
    spec = program()(loop_bounds)(**given, out=("i32",) * count_of(grouped), arch=arch_of(host))
    rows = [x.name for x in spec.computed.dims if x.name != over]  # one of extent 1 where the bounds have no dims
    one = dict.fromkeys(rows, 1)
    chain: Any = spec.tile(**(one | ({left[-1]: WARPS} if left else {}))).to(Block)
    chain = chain.epilog(memory=RF).tile(**one).to(Warp)
    chain = chain.split(**{over: CHUNK}) if count[over] > CHUNK else chain
    return ready(chain.split(over, ways=LANES).parallel(Thread).done(), host)


def of_arrays(
    text: str, causal: bool, q: Sequence[int], keys: int, arrays: Mapping[str, Any], named: Named, host: bool
) -> tuple[str, dict[str, Any]]:
    """Bound the loops of attention of arrays of NumPy, CuPy and similar libraries.

    Args:
        text: mask and score function as text.
        causal: whether query i sees keys 0 to i only.
        q: shape of queries (B, H, I, D).
        keys: number of keys.
        arrays: by name, inputs of the programs beside queries, keys and values.
        named: name, number of dims and element type of the arrays that the functions read.
        host: whether arrays lie in host memory.

    Returns:
        The text and the arrays, with bounds where these pay.
    """
    plan = bounded(text, causal, named, False) if pays(q[2], keys) else None
    if plan is None or not fits(plan, arrays, q[2], keys):
        return text, dict(arrays)

    def filled(x: Any, dim: int, length: int) -> Any:
        over = length - x.shape[dim]
        return x if not over else x.take([*range(x.shape[dim]), *[x.shape[dim] - 1] * over], axis=dim)

    def run(kernel: Any, given: Sequence[Any], made: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
        return tuple(x.reshape(shape) for x, shape in zip(as_tuple(kernel(*given)), made, strict=True))

    dense = {name: x if x.flags.c_contiguous else x.copy(order="C") for name, x in arrays.items() if name in plan.reads}
    sizes = {"b": q[0], "h": q[1], "i": q[2], "j": keys}
    calls = Calls(filled, lambda x: find_dtype(describe(x, "").dtype).name, run)
    made = found(text, causal, dense, sizes, False, host, calls)
    return plan.text, {**arrays, **dict(zip(plan.names, made, strict=True))}
