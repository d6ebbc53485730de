"""Bulk copies: one thread copies a whole box by a tensor map, which also handles the tensor's ends."""

from __future__ import annotations

from math import prod

import attrs

from fireiron.algebra.expr import Expr, as_expr, as_int
from fireiron.algebra.index.ranges import divisor
from fireiron.algebra.layout import Layout
from fireiron.atoms.table import BOX_RANKS, box_move, like
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Call, TensorMap, View
from fireiron.kernel.lower.bulk_windows import lower_windows
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.map_axes import MapAxes, map_axes
from fireiron.kernel.lower.span import BOX_ALIGN, swizzle_of
from fireiron.kernel.lower.window import Axis, Window, line
from fireiron.language.atom import Atom
from fireiron.language.levels import GL, Thread
from fireiron.language.specs import MatMul
from fireiron.language.tensor import Tensor

MOST_BOX = 256  # elements along one dimension of a box
MOST_STEP = 8  # largest step between a box's elements
MAP_ALIGN = 16  # alignment in bytes of a tensor map's strides
PATTERN_ROWS = 8  # rows after which a swizzle repeats


def lower_bulk(atom: Atom, state: State, context: Context) -> Body:
    """Lower a Move by a bulk copy.

    Raises:
        DecompositionError: `bulk-level`, `bulk-role`, `bulk-box`, `bulk-storage`, `bulk-dtype`, `bulk-stride`,
            `bulk-start`, `bulk-alignment`, `bulk-fused`, `no-atom`.
    """
    if state.level.name != Thread.name:
        raise DecompositionError(
            "bulk-level",
            f"one thread starts a bulk copy, and {state.residual.short} is at level {state.level}",
            fix="to(Thread, units=1) before done(), as tma() does",
        )
    windows = state.windows
    far_role = "src" if windows["src"].storage.memory == GL else "dst"
    far, near = windows[far_role], windows["dst" if far_role == "src" else "src"]
    tensor = far.storage.tensor
    if tensor is None or near.storage.memory.registers or atom.operand(far_role).memory != GL:
        raise DecompositionError(
            "no-atom",
            f"{atom.name} does not execute {state.residual}: it moves between a tensor in GL and a buffer in SH",
            fix="load by tma(), store by through_shared(..., tma())",
        )
    if far_role == "src" and context.signal is None:
        raise DecompositionError(
            "bulk-role",
            f"an mbarrier counts the bytes of {atom.name} as they land, and no role of this block waits for one",
            fix="give the loads a role of their own: split(k).pipeline(n).specialize() right above them",
        )
    if far.storage.dtype != near.storage.dtype:
        raise DecompositionError(
            "bulk-dtype",
            f"{atom.name} does not convert {windows['src'].storage.dtype} to {windows['dst'].storage.dtype}",
            fix="convert where registers hold the values",
        )
    _check_strides(tensor, far, atom)
    reading = far.storage.reading
    if reading is not None and far_role == "src":
        inner = reading.index[tensor.storage[-1]]
        places = [i for i, d in enumerate(reading.dims) if d != inner]
        _check_near(near, atom)
        shared = _shared_among_peers(far, near, (0, *reversed(places)), context)
        return lower_windows(atom, state, context, shared)
    order = _mapped(tensor, far)
    atom = _without(atom, far_role == "src", len(tensor.shape) - len(order))
    far, near, mask = _shared_among_peers(far, near, order, context)
    # Elements loaded from beyond a tile's end along M or N only enter sums that are not stored.
    product = isinstance(context.spec, MatMul) and far_role == "src"
    box = tuple(_extent(far.axes[d], tensor, d, atom, product and far.axes[d].dim != "K") for d in order)
    taken = tuple(_step(far.axes[d]) for d in order)
    span = max(o.span for o in atom.operands)
    steps = _steps(near, order, span, atom)
    mapped = map_axes(tensor, atom, context)
    described = _map(tensor, far, order, box, span, taken if max(taken) > 1 else (), mapped, context)
    if mask is not None:
        wide = like(atom, multicast=True)
        assert wide is not None
        atom = wide
    coordinates = mapped.origin(far.origin)
    _check_start(far, order[0], atom)
    _check_near(near, atom)
    strides = tuple(tensor.strides[d] * step for d, step in zip(order, taken, strict=True))
    far_view = View(
        buffer_of(far.storage), far.base() + far.linear(), Layout(box, strides), far.slot, origin=coordinates
    )
    near_view = View(
        buffer_of(near.storage), near.base() + near.linear(), steps, near.slot, swizzle=near.storage.swizzle
    )
    views = (far_view, near_view) if far_role == "src" else (near_view, far_view)
    signal = context.signal if far_role == "src" else None
    return (Call(atom, views, map=described, signal=signal, peers=mask, link=state.link),)


def _mapped(tensor: Tensor, far: Window) -> tuple[int, ...]:
    """Return the tensor's dimensions that its map has, the contiguous one first.

    Tensor maps have no stride of 0. Where one element of a dimension is copied, and all have one address, as in a
    matrix that all products of a batch share, the map does without the dimension.
    """
    order = tuple(reversed(tensor.storage))
    repeated = [d for d in order[1:] if as_int(as_expr(tensor.strides[d])) == 0 and far.axes[d].size == 1]
    left_out = repeated[: len(order) - BOX_RANKS[0]]
    return tuple(d for d in order if d not in left_out)


def _without(atom: Atom, load: bool, count: int) -> Atom:
    """Return the bulk copy that is like `atom`, for boxes with `count` dimensions less."""
    if not count:
        return atom
    span = max(o.span for o in atom.operands)
    found = box_move(load, atom.rank - count, span, atom.hint, atom.multicast, bool(atom.adding))
    assert found is not None
    return found


def _check_strides(tensor: Tensor, far: Window, atom: Atom) -> None:
    """Raise an error for lines whose distance is known and 0 or no multiple of the alignment that tensor maps need."""
    nbytes = tensor.dtype.nbytes
    for d, stride in enumerate(tensor.strides):
        step = as_int(as_expr(stride))
        lines = far.axes[d].size if far.storage.reading is None else tensor.shape[d]
        if step == 0 and lines != 1:
            raise DecompositionError(
                "bulk-stride",
                f"lines of {tensor} are one line that is repeated, and {atom.name} takes lines at a distance above 0",
                fix="load by cp_async(), or copy the tensor first",
            )
        if step is not None and step != 1 and step * nbytes % MAP_ALIGN:
            raise DecompositionError(
                "bulk-stride",
                f"lines of {tensor} lie {step * nbytes} bytes apart, and {atom.name} takes multiples of {MAP_ALIGN}",
                fix=f"pad lines to multiples of {MAP_ALIGN // nbytes} elements (ld=), or load by cp_async()",
            )


def _check_start(far: Window, near_dim: int, atom: Atom) -> None:
    """Raise an error for boxes whose lines may not start at a multiple of 16 bytes: the hardware traps there.

    Source: measured with elements of 1, 2 and 4 bytes, loads and stores, on an H200: any other start is an illegal
    instruction.
    """
    axis = far.axes[near_dim]
    if divisor(axis.offset) * far.storage.dtype.nbytes % MAP_ALIGN:
        raise DecompositionError(
            "bulk-start",
            f"lines of a box of {far.storage.name} start at {axis.dim} = {axis.offset}, and {atom.name} starts at "
            f"multiples of {MAP_ALIGN} bytes",
            fix=f"tile {axis.dim} by multiples of {MAP_ALIGN // far.storage.dtype.nbytes} elements, or load by "
            "cp_async(): what groups or windows cut starts anywhere",
        )


def _check_near(near: Window, atom: Atom) -> None:
    """Raise an error for boxes whose address in shared memory is not aligned to 128 bytes.

    Source: PTX ISA, cp.async.bulk.tensor: the shared memory address is aligned to 128 bytes.
    """
    first = near.base() + near.linear()
    if divisor(first) * near.storage.dtype.nbytes % BOX_ALIGN:
        raise DecompositionError(
            "bulk-alignment",
            f"a box of {near.storage.name} starts at element {first}, and {atom.name} starts at multiples of "
            f"{BOX_ALIGN} bytes of shared memory",
            fix=f"let boxes hold multiples of {BOX_ALIGN} bytes, or at most {MOST_BOX} elements along each dimension",
        )


def _extent(axis: Axis, tensor: Tensor, dim: int, atom: Atom, loose: bool) -> int:
    """Return the extent of a box along a dimension. Unless `loose`, the tensor's ends must be the box's only bounds.

    A box may start before its tensor and end after it; elements outside the tensor are loaded as zeros.
    """
    end = as_expr(tensor.shape[dim])
    bounded = loose or all(
        b.steps == axis.steps and b.offset == axis.offset and b.limit == (as_expr(0) if b.lower else end)
        for b in axis.bounds
    )
    step = _step(axis)
    if not step:
        raise DecompositionError(
            "bulk-box",
            f"{atom.name} copies every n-th element along a dimension for n up to {MOST_STEP}, not {axis.steps.stride}"
            if axis.steps is not None and isinstance(axis.steps.stride, int)
            else f"{atom.name} takes elements at one distance along a dimension, not {axis.steps}",
            fix="load by cp_async()",
        )
    if not bounded and axis.reads:
        raise DecompositionError(
            "bulk-box",
            f"{atom.name} copies {axis.size} elements along {axis.dim} out of {tensor}, and {', '.join(axis.reads)} "
            "may end among them: a box ends only where the tensor ends",
            fix="split the dim by a number that divides it, or load by cp_async()",
        )
    if not isinstance(axis.size, int) or not bounded or (axis.size - 1) * step >= MOST_BOX:
        raise DecompositionError(
            "bulk-box",
            f"{atom.name} cannot cut {axis.size} elements along {axis.dim} out of {tensor}: a box has at most "
            f"{MOST_BOX} neighbours along each dimension, and ends only where the tensor ends",
            fix="tile to boxes of plain extents, as tma() does",
        )
    return axis.size


def _step(axis: Axis) -> int:
    """Return the distance of a box's elements along a dimension; 0 where tensor maps do not support it."""
    if axis.steps is None:
        return 1
    step = axis.steps.stride
    return step if isinstance(step, int) and 1 <= step <= MOST_STEP else 0


def _steps(near: Window, order: tuple[int, ...], span: int, atom: Atom) -> Layout:
    """Return the steps of a box's elements in shared memory; check that rows are consecutive, as copies write them."""
    nbytes = near.storage.dtype.nbytes
    steps: list[tuple[int, int]] = []
    for d in order:
        layout = near.steps_along(d)
        size = near.axes[d].size
        assert isinstance(size, int)
        stride = None if layout is None else (as_int(layout.stride) if not isinstance(layout.stride, tuple) else None)
        if size == 1:
            stride = 0
        if stride is None:
            raise _wrong_storage(near, span, atom)
        steps.append((size, stride))
    pitch = span // nbytes if span else steps[0][0]
    wanted = 1
    for i, (size, stride) in enumerate(steps):
        if size != 1 and stride != wanted:
            raise _wrong_storage(near, span, atom)
        wanted = pitch if i == 0 else wanted * size
    if near.storage.swizzle != swizzle_of(span, nbytes) or (span and steps[0][0] * nbytes > span):
        raise _wrong_storage(near, span, atom)
    return Layout(tuple(n for n, _ in steps), tuple(s for _, s in steps))


def _wrong_storage(near: Window, span: int, atom: Atom) -> DecompositionError:
    return DecompositionError(
        "bulk-storage",
        f"{atom.name} writes rows of {span or 'all their'} bytes one after another, and {near.storage.name} has "
        f"another layout",
        fix="let tma() choose the buffer's layout: no pad, swizzle or storage_layout on this load",
    )


def _shared_among_peers(
    far: Window, near: Window, order: tuple[int, ...], context: Context
) -> tuple[Window, Window, Expr | None]:
    """Divide a load among blocks of a cluster that need the same box: each multicasts one part to all of them.

    Blocks that differ only along dimensions that the operand does not have need the same box. Parts are slices of the
    slowest dimension, so each part is a box without gaps in shared memory.
    """
    if context.signal is None:
        return far, near, None
    dims = {dim for axis in far.axes for dim in (axis.reads or (axis.dim,))}
    sharing = [(dim, n) for dim, (n, _) in context.ranks.items() if dim not in dims and n > 1]
    if not sharing:
        return far, near, None
    (dim, count), *more = sharing
    row = next((d for d in reversed(order[1:]) if far.axes[d].size != 1), order[1])
    size = far.axes[row].size
    assert isinstance(size, int)
    lines = prod(n for d in order[1:] if isinstance(n := far.axes[d].size, int))
    if size % count or lines % (count * PATTERN_ROWS) or more:
        raise DecompositionError(
            "bulk-box",
            f"{count} blocks of a cluster cannot share {size} rows of {far.storage.name}: "
            f"each takes a multiple of {PATTERN_ROWS}"
            if not more
            else f"blocks of a cluster differ along {dim} and {more[0][0]}, which {far.storage.name} both lacks",
            fix="use tiles whose rows divide so, or smaller clusters" + (", along one dim" if more else ""),
        )
    part, number = size // count, context.ranks[dim][1]
    slices = [
        attrs.evolve(window, axes=tuple(_slice(a, part, number) if i == row else a for i, a in enumerate(window.axes)))
        for window in (far, near)
    ]
    # Ranks count the cluster's blocks row by row: those that share differ along one dimension.
    weights: dict[str, int] = {}
    weight = 1
    for name, (n, _) in reversed(list(context.ranks.items())):
        weights[name] = weight
        weight *= n
    pattern = sum(1 << (i * weights[dim]) for i in range(count))
    shift = as_expr(0)
    for name, (_, own) in context.ranks.items():
        if name != dim:
            shift = shift + own * weights[name]
    return slices[0], slices[1], as_expr(pattern) << shift


def _slice(axis: Axis, part: int, number: Expr) -> Axis:
    """Return one part of an axis: a number of elements at a constant distance."""
    first = number * (part * _step(axis))
    steps = None if axis.steps is None else line(part, _step(axis))
    bounds = tuple(
        attrs.evolve(b, offset=b.offset + first, steps=None if b.steps is None else steps) for b in axis.bounds
    )
    return attrs.evolve(axis, size=part, offset=axis.offset + first, steps=steps, bounds=bounds)


def _map(
    tensor: Tensor,
    far: Window,
    order: tuple[int, ...],
    box: tuple[int, ...],
    span: int,
    steps: tuple[int, ...],
    mapped: MapAxes,
    context: Context,
) -> TensorMap:
    key = (tensor.name, box, span, steps, order)
    if key not in context.maps:
        axes = tuple(mapped.axes[d] for d in order)
        name, merged = context.name(f"{tensor.name}_map"), mapped.merged(order)
        context.maps[key] = TensorMap(name, buffer_of(far.storage), axes, box, span, steps, merged=merged)
    return context.maps[key]
