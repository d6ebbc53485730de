"""Torch's operators that read lines of an array, or elements of them, by their numbers, and those that add them up."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fireiron.algebra.dtypes import DType, f32, i32
from fireiron.graph.nodes import Data
from fireiron.graph.torch_nodes import Stays, name_of
from fireiron.graph.torch_updates import IN_PLACE

if TYPE_CHECKING:
    from fireiron.graph.from_torch import Importer

torch: Any = import_module("torch")

MOST_ROWS = 8  # of a table whose gradient is summed by reading all lines for each row
MOST_NUMBER = (1 << 31) - 1
# Elements of a table up to which zeros, additions in f32 and a conversion take less time than sorting the numbers of
# the lines, which takes 70 us, and less than 32 MiB of memory.
MOST_ADDED = 1 << 23
MOST_PICKED = 8  # elements of a line


def cut(i: Importer, x: int, axis: int, start: int, stop: int, step: int = 1) -> int:
    """Slice an array along one axis, as `x[start:stop:step]` does; all of it stays the array itself.

    Raises:
        Stays: where nothing is left.
    """
    shape = i.ops.shape(x)
    axis %= len(shape)
    bounds = slice(start, stop, step).indices(shape[axis])
    if not len(range(*bounds)):
        raise Stays("nothing is left")
    at = [bounds if a == axis else (0, n, 1) for a, n in enumerate(shape)]
    if all((a, b, c) == (0, n, 1) for (a, b, c), n in zip(at, shape, strict=True)):
        return x
    starts, stops, steps = zip(*at, strict=True)
    return i.ops.slice(x, starts=starts, stops=stops, steps=steps)


def _embedding(i: Importer, node: Any, table: int, ids: int, *_: Any, **__: Any) -> int:
    return i.ops.gather(table, ids)


def _embedding_gradient(
    i: Importer, node: Any, gradient: int, ids: int, rows: int, padding: int, by_frequency: bool
) -> int:
    """Add up the lines of each row of a table.

    For a few rows these are sums in f32 over the lines whose number is the row's, in the same order in each call. Else
    torch adds lines in any order, as its compiler does, or, where algorithms must be deterministic, sorts the numbers;
    of 32 bits they take half the time of 64.
    """
    o = i.ops
    count, width, kind = math.prod(o.shape(ids)), o.shape(gradient)[-1], o.dtype(gradient)
    narrow = o.cast(ids, dtype=i32)
    if rows > MOST_NUMBER:
        raise Stays("numbers of 64 bits")
    if by_frequency or not count or kind.kind != "float" or (rows > MOST_ROWS and not _adds(rows * width)):

        def run(*given: Any) -> Any:
            return node.target(*given, rows, padding, by_frequency)

        return i.by_torch("embedding_dense_backward", (gradient, narrow), run, node.meta["val"], pure=True)
    if rows > MOST_ROWS:
        total = _added(i, gradient, ids, 0, rows)
    else:
        mine = o.eq(_columns(i, (rows, 1, 1), 0), o.reshape(narrow, shape=(1, count, 1)))
        picked = o.select(mine, o.reshape(gradient, shape=(1, count, width)), i.builder.constant(0.0, kind))
        total = o.sum(o.wide(picked), axes=(1,), keepdims=False)
    if padding >= 0:
        total = o.select(o.eq(_columns(i, (rows, 1), 0), float(padding)), i.builder.constant(0.0, f32), total)
    return o.like(total, kind)


def _adds(elements: int, kind: DType = f32) -> bool:
    """Say whether the lines of a table are added in any order; sums of integers are the same in each."""
    if kind.kind == "int":
        return elements <= MOST_ADDED and kind.bits >= 32
    return elements <= MOST_ADDED and not torch.are_deterministic_algorithms_enabled()


def _added(i: Importer, values: int, ids: int, axis: int, size: int) -> int:
    """Add values to zeros, floats in f32: along the axes of `ids`, from an axis on, the number stands for the place."""
    numbers = _along(i, ids, values, axis)
    return i.ops.scatter_add(i.ops.wide(values), numbers, axis=axis, count=len(i.ops.shape(ids)), size=size)


def _along(i: Importer, ids: int, values: int, axis: int) -> int:
    """Give the numbers of lines as many axes as the values have, those of the lines from an axis on."""
    stop = axis + len(i.ops.shape(ids))
    return i.ops.reshape(ids, shape=tuple(n if axis <= a < stop else 1 for a, n in enumerate(i.ops.shape(values))))


def _chosen(i: Importer, node: Any, indices: Sequence[int | None]) -> tuple[int, int, tuple[int, ...]]:
    """Return the axis that is indexed by one array, the numbers of lines, none below 0, and the array's shape."""
    o, found = i.ops, [(k, ids) for k, ids in enumerate(indices) if ids is not None]
    if len(found) != 1 or node.args[1][found[0][0]].meta["val"].dtype not in (torch.int32, torch.int64):
        raise Stays("several arrays of numbers, or a mask")
    ((axis, ids),) = found
    size = node.args[0].meta["val"].shape[axis]
    if size > MOST_NUMBER:
        raise Stays("numbers of 64 bits")
    from_behind = o.add(ids, i.constant(size, ids))
    return axis, o.select(o.lt(ids, i.constant(0, ids)), from_behind, ids), o.shape(ids)


def _index(i: Importer, node: Any, x: int, indices: Sequence[int | None]) -> int:
    """Read the lines of an array at the numbers in another."""
    if not node.meta["val"].numel():
        raise Stays("nothing")
    axis, ids, _ = _chosen(i, node, indices)
    return _read(i, x, axis, ids)


def _index_select(i: Importer, node: Any, x: int, dim: int, ids: int) -> int:
    """Read lines at numbers none of which is below 0."""
    shape = i.ops.shape(x)
    if not shape or not node.meta["val"].numel():
        raise Stays("a number, or nothing")
    return _read(i, x, dim % len(shape), ids)


def _read(i: Importer, x: int, axis: int, ids: int) -> int:
    """Read the lines along an axis at the numbers in an array, whose axes take the place of this one."""
    o, rank, count = i.ops, len(i.ops.shape(x)), len(i.ops.shape(ids))
    first = (axis, *(k for k in range(rank) if k != axis))
    read = o.gather(o.transpose(x, axes=first) if axis else x, ids)
    back = (*range(count, count + axis), *range(count), *range(count + axis, count + rank - 1))
    return o.transpose(read, axes=back) if axis else read


def _index_put(
    i: Importer, node: Any, x: int, indices: Sequence[int | None], values: int, accumulate: bool = False
) -> int:
    """Add lines to an array at the numbers in another, as the gradient of reading them does, or replace its lines.

    Lines are replaced in zeros, or in an input in place.
    """
    o, kind = i.ops, i.ops.dtype(x)
    if node.meta.get(IN_PLACE) and not accumulate:
        return _replaced(i, node, x, indices, values)
    into_zeros = not accumulate and _is_zeros(node.args[0]) and o.dtype(values) == kind
    if not _adds(0, kind) or not (accumulate or into_zeros):
        raise Stays("lines that are replaced, or whose sums must be deterministic")
    axis, ids, shape = _chosen(i, node, indices)
    whole = o.shape(x)
    lines = o.broadcast(values, shape=(*whole[:axis], *shape, *whole[axis + 1 :]))
    if into_zeros:
        if not math.prod(o.shape(lines)) or not math.prod(whole):
            raise Stays("nothing")
        return o.scatter_set(lines, _along(i, ids, lines, axis), axis=axis, count=len(shape), size=whole[axis])
    total = _added(i, lines, ids, axis, whole[axis])
    return o.like(total if _is_zeros(node.args[0]) else o.add(o.wide(x), total), kind)


def _replaced(i: Importer, node: Any, x: int, indices: Sequence[int | None], values: int) -> int:
    """Write lines of an input in place."""
    o = i.ops
    axis, ids, shape = _chosen(i, node, indices)
    if o.dtype(x) != o.dtype(values) or not math.prod(shape):
        raise Stays("values of another type, or none")
    whole, count = o.shape(x), len(shape)
    lines = o.broadcast(values, shape=(*whole[:axis], *shape, *whole[axis + 1 :]))
    made = o.scatter(lines, _along(i, ids, lines, axis), x, axis=axis, count=count)
    i.in_place.add(node)
    return made


def _picked(i: Importer, node: Any, x: int, dim: int, ids: int, **_: Any) -> int:
    """Read an element at each number: from memory, or a few elements of each line in the kernel that computes it.

    There they are sums over the line, of which all other elements are 0.
    """
    o, kind = i.ops, i.ops.dtype(x)
    axis, width = dim % max(1, len(o.shape(x))), o.shape(ids)[dim] if o.shape(ids) else 0
    if not o.shape(x) or not math.prod(o.shape(ids)):
        raise Stays("a number, or nothing")
    if _whole(i, x) or not _by_columns(i, x, ids, axis):
        for a, n in enumerate(o.shape(ids)):
            x = cut(i, x, a, 0, n) if a != axis else x
        return o.broadcast(o.take_along_axis(x, _without_repeats(i, ids), axis=axis), shape=o.shape(ids))
    zero, columns = i.builder.constant(0.0, kind), _columns(i, o.shape(x), axis)
    parts = [
        o.sum(o.wide(o.select(o.eq(columns, at), x, zero)), axes=(axis,), keepdims=True)
        for at in (_column(i, ids, axis, k) for k in range(width))
    ]
    return o.like(parts[0] if width == 1 else o.concatenate(*parts, axis=axis), kind)


def _scattered(
    i: Importer, node: Any, x: int, dim: int, ids: int, given: Any, adds: bool = False, **named: Any
) -> int:  # fmt: skip
    """Replace a few elements of each line, or add to them: each element asks whether it is one of them."""
    o, kind = i.ops, i.ops.dtype(x)
    shape, axis = o.shape(x), dim % max(1, len(o.shape(x)))
    tensor = isinstance(node.args[3], torch.fx.Node)
    if named or not _by_columns(i, x, ids, axis) or (tensor and o.shape(given) != o.shape(ids)):
        raise Stays("many elements of a line")
    columns, made = _columns(i, shape, axis), o.wide(x) if adds else x
    for k in range(o.shape(ids)[axis]):
        value = cut(i, given, axis, k, k + 1) if tensor else i.constant(given, x)
        value = o.like(value, kind)
        mine = o.eq(columns, _column(i, ids, axis, k))
        if not adds:
            made = o.select(mine, value, made)
        elif k == 0 and _is_zeros(node.args[0]):
            made = o.wide(o.select(mine, value, i.builder.constant(0.0, kind)))
        else:
            made = o.add(made, o.wide(o.select(mine, value, i.builder.constant(0.0, kind))))
    return o.like(made, kind)


def _scattered_sums(i: Importer, node: Any, x: int, dim: int, ids: int, given: int) -> int:
    """Add elements to those of an array at the numbers in another, which has one for each."""
    o, kind = i.ops, i.ops.dtype(x)
    axis, numbers = dim % max(1, len(o.shape(x))), o.shape(ids)
    if _by_columns(i, x, ids, axis) and o.shape(given) == numbers:
        return _scattered(i, node, x, dim, ids, given, adds=True)
    alike = len(numbers) == len(o.shape(x)) and numbers[:axis] == o.shape(x)[:axis]
    fits = alike and numbers[axis + 1 :] == o.shape(x)[axis + 1 :]
    if not numbers or not fits or not _adds(math.prod(o.shape(x)), kind) or not math.prod(numbers):
        raise Stays("numbers that not all lines have, or sums that must be deterministic")
    for a, n in enumerate(numbers):
        given = cut(i, given, a, 0, n)
    size = o.shape(x)[axis]
    total = o.scatter_add(o.wide(given), _without_repeats(i, ids), axis=axis, count=1, size=size)
    return o.like(total if _is_zeros(node.args[0]) else o.add(o.wide(x), total), kind)


def _without_repeats(i: Importer, x: int) -> int:
    """Return an array without its repeats: where it repeats along an axis, it has one element there."""
    nodes = i.builder.nodes
    while nodes[x].op == "broadcast" and len(nodes[nodes[x].inputs[0]].shape) == len(nodes[x].shape):
        (x,) = nodes[x].inputs
    return x


def _whole(i: Importer, x: int) -> bool:
    """Say whether an array is in memory anyway: what the caller, the library or a product gives, or a view of it."""
    node = i.builder.nodes[x]
    while node.kind == "view":
        node = i.builder.nodes[node.inputs[0]]
    return node.kind in ("source", "foreign", "product")


def _by_columns(i: Importer, x: int, ids: int, axis: int) -> bool:
    """Say whether elements of a line are few, and the lines those of the numbers."""
    shape, numbers = list(i.ops.shape(x)), list(i.ops.shape(ids))
    if not shape or len(shape) != len(numbers) or i.ops.dtype(x).kind != "float":
        return False
    few = 0 < numbers[axis] <= MOST_PICKED and shape[axis] <= MOST_NUMBER
    return few and shape[:axis] + shape[axis + 1 :] == numbers[:axis] + numbers[axis + 1 :]


def _columns(i: Importer, shape: tuple[int, ...], axis: int) -> int:
    """Add the numbers of an axis, beside which the other axes have one element."""
    every = i.builder.array(Data.of(np.arange(shape[axis], dtype=np.int32), i32))
    return i.ops.reshape(every, shape=tuple(n if k == axis else 1 for k, n in enumerate(shape)))


def _column(i: Importer, ids: int, axis: int, at: int) -> int:
    return cut(i, ids, axis, at, at + 1)


def _flipped(i: Importer, node: Any, x: int, dims: Sequence[int]) -> int:
    """Read lines in the opposite order."""
    o, shape = i.ops, i.ops.shape(x)
    axis = dims[0] % max(1, len(shape)) if len(dims) == 1 else len(shape) - 1
    if axis == len(shape) - 1 or o.dtype(x).kind != "float" or not math.prod(shape):
        raise Stays("elements of a line, or several dims")
    order = i.builder.array(Data.of(np.arange(shape[axis] - 1, -1, -1, dtype=np.int32), i32))
    return _read(i, x, axis, order)


def _is_zeros(node: Any) -> bool:
    """Say whether a node of torch's graph makes zeros."""
    place = {"full": 1, "full_like": 1, "new_full": 2}.get(name_of(node), len(node.args))
    return name_of(node) in ("zeros", "zeros_like", "new_zeros") or node.args[place : place + 1] == (0,)


LINES: dict[str, Callable[..., Any]] = {
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_gradient,
    "index": _index,
    "index_select": _index_select,
    "index_put": _index_put,
    "gather": _picked,
    "scatter": _scattered,
    "scatter_add": _scattered_sums,
    "flip": _flipped,
}
