"""Storages: the memory, strides and number of copies of a load's or an epilog's buffer."""

from __future__ import annotations

from math import prod
from typing import Literal

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, as_expr, simplest
from fireiron.algebra.layout import Layout
from fireiron.atoms.table import chosen_from
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.lower.context import Context, State
from fireiron.kernel.lower.span import BOX_ALIGN, PANEL_ALIGN, SWIZZLED_ROWS, swizzle_of
from fireiron.kernel.lower.tree import done_of
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.language.atom import SPANS
from fireiron.language.decompositions import Done, Load, Microkernel
from fireiron.language.levels import SH, Block, Memory, Warp
from fireiron.language.tensor import ColMajor, Order, RowMajor, Tensor


def fresh_window(storage: Storage, like: Window, slot: Expr | None = None) -> Window:
    """Return the window of a whole new buffer."""
    return Window(storage, tuple(Axis(a.dim, a.size, as_expr(0)) for a in like.axes), slot)


def tensor_window(tensor: Tensor, state: State, context: Context) -> Window:
    """Return the window of a whole global tensor; a tensor named twice is one buffer."""
    storage = context.storages.get(tensor.name)
    if storage is None:
        size = as_expr(1)
        for extent, stride in zip(tensor.shape, tensor.strides, strict=True):
            size = size + (extent - 1) * as_expr(stride)
        context.names.add(tensor.name)
        storage = Storage(
            tensor.name, tensor.memory, tensor.dtype, tensor.shape, tensor.strides, size, state.level, tensor=tensor
        )
        context.storages[tensor.name] = storage
    return Window(storage, ())


def _static(window: Window, what: str) -> tuple[int, ...]:
    shape: list[int] = []
    for axis in window.axes:
        if not isinstance(axis.size, int):
            raise DecompositionError(
                "symbolic-buffer",
                f"a buffer for {what} would hold {axis.size} elements along {axis.dim}: its size is not known",
                fix=f"{'split' if axis.dim == 'K' else 'tile'} {axis.dim} above this link",
            )
        shape.append(axis.size)
    return tuple(shape)


def register_storage(
    name: str,
    like: Window,
    memory: Memory,
    dtype: DType,
    state: State,
    context: Context,
    link: Link | None,
    slots: int = 1,
) -> Storage:
    """Make a register tensor; the atom or schedule that uses the tensor defines its ownership and size."""
    if not memory.registers:
        raise DecompositionError("epilog-memory", f"C cannot accumulate in {memory}", fix="use memory=RF")
    shape = _static(like, name)
    name = context.name(name)
    storage = Storage(name, memory, dtype, shape, (), as_expr(0), state.level, slots=slots, link=link)
    context.storages[name] = storage
    return storage


def order_of(window: Window) -> Order | None:
    """Return which of a window's last two dimensions is contiguous in memory.

    None for registers and vectors, and for elements that points read at computed places.
    """
    storage = window.storage
    if storage.memory.registers or storage.reading is not None or len(window.axes) < 2:
        return None
    strides = storage.strides
    rows, cols = (strides[-2].leaves[0][1], strides[-1].leaves[0][1]) if isinstance(strides, Layout) else strides[-2:]
    return ColMajor if simplest(rows) == 1 and simplest(cols) != 1 else RowMajor


def make_storage(
    link: Load,
    source: Window,
    target: Window | None,
    state: State,
    context: Context,
    slots: int,
    done: Done | None = None,
) -> Storage:
    """Make the buffer that a load fills, with the schedule's layout, or else the layout that an atom needs.

    Raises:
        DecompositionError: `symbolic-buffer`, `storage-shape`.
    """
    name = f"{source.storage.name.split('_')[0].lower()}_{str(link.memory).lower()}"
    dtype = link.dtype or source.storage.dtype
    if link.memory.registers:
        storage = register_storage(name, source, link.memory, dtype, state, context, link.link, slots)
        storage.order = source.storage.order if source.storage.memory.registers else order_of(source)
        return storage
    shape = _static(source, name)
    order = order_of(source) or (order_of(target) if target else None) or RowMajor
    span = demanded_span(link, done_of(link.move), "dst") or demanded_span(link, done, "src")
    if span:
        inner = source.axes[-1 if order is RowMajor else -2].dim
        one = context.spec.accumulator is not None and not context.spec.phases  # a product, not several
        cut = one and link.role in ("A", "B") and inner != "K"
        return _panels(link, name, shape, dtype, order, span, cut, state, context, slots)
    strides, size = _strides(link, shape, order)
    vector = max(1, dtype.count_in(BOX_ALIGN if holds_boxes(link, done) else 16))
    size = -(-size // vector) * vector
    if link.swizzle is not None:
        size = -(-size // link.swizzle.period) * link.swizzle.period
    name = context.name(name)
    storage = Storage(
        name, link.memory, dtype, shape, strides, as_expr(size), state.level,
        swizzle=link.swizzle, slots=slots, reuse=link.reuse, no_sync=link.no_sync, link=link.link,
        claimed=link.claimed,
    )  # fmt: skip
    _per_unit(storage, state, context)
    context.storages[name] = storage
    return storage


def _per_unit(storage: Storage, state: State, context: Context) -> None:
    """Give each unit inside the block a separate copy of a buffer.

    Raises:
        DecompositionError: `shared-unit`.
    """
    if state.level.name != Block.name and state.level.is_inside(Block):
        assert context.threads is not None and state.width is not None
        width = state.width
        if width % (Warp.size or 32) and width != Warp.size:
            raise DecompositionError(
                "shared-unit",
                f"a shared buffer for each {state.level} cannot be synchronised",
                fix="load above to(Thread)",
            )
        storage.copies = context.threads // width
        storage.copy = context.thread // width


def demanded_span(link: Load, done: Done | None, role: Literal["src", "dst"]) -> int:
    """Return the width in bytes of swizzled rows that a Move's atom needs on one side; 0 where schedules decide."""
    atom = None if done is None else done.atom
    if (
        atom is None
        or isinstance(atom, Microkernel)
        or link.storage is not None
        or link.pad
        or link.swizzle is not None
    ):
        return 0
    row = chosen_from(atom)[0]
    return 0 if row.kind != "Move" or row.operand(role).memory != SH else row.operand(role).span


def holds_boxes(link: Load, done: Done | None = None) -> bool:
    """Say whether a bulk copy fills the buffer or stores from it; its slots are then aligned like boxes."""
    for end in (done_of(link.move), done):
        atom = None if end is None else end.atom
        if atom is not None and not isinstance(atom, Microkernel) and chosen_from(atom)[0].rank:
            return True
    return False


def _panels(
    link: Load,
    name: str,
    shape: tuple[int, ...],
    dtype: DType,
    order: Order,
    span: int,
    cut: bool,
    state: State,
    context: Context,
    slots: int,
) -> Storage:
    """Make a buffer of panels: each panel has `span` bytes of the contiguous dimension of every row, swizzled.

    Dimensions before the last two count as rows too: a panel has the rows of all matrices.

    Args:
        cut: whether the tile may end within the last of several panels. Bulk copies fill the whole panel, with elements
            beyond the tile's end, and products read the tile's elements alone.

    Raises:
        DecompositionError: `bulk-storage` where a row is no whole number of spans, and may not end within one.
    """
    *outer, rows, cols = shape
    inner, lines = (cols, rows) if order is RowMajor else (rows, cols)
    width = span // dtype.nbytes
    if inner % width and (not cut or inner < width):
        fits = next((s for s in SPANS if s < span and s and inner % (s // dtype.nbytes) == 0), None)
        raise DecompositionError(
            "bulk-storage",
            f"rows of {inner} elements of {dtype} are no whole number of {span}-byte spans",
            fix=f"use a multiple of {width} elements" + (f", or a narrower span: tma({fits})" if fits else ""),
        )
    every, panels = lines * prod(outer), -(-inner // width)
    line = Layout(inner, 1) if inner == width else Layout((width, panels), (1, every * width))
    step = Layout(lines, width)
    pair = (step, line) if order is RowMajor else (line, step)
    above = zip(outer, _outer_strides(tuple(outer), lines * width), strict=True)
    modes = (*(Layout(extent, stride) for extent, stride in above), *pair)
    strides = Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))
    aligned = dtype.count_in(max(BOX_ALIGN, SWIZZLED_ROWS * span))  # swizzled: a slot begins with a pattern
    total = -(-panels * width * every // aligned) * aligned
    name = context.name(name)
    storage = Storage(
        name, link.memory, dtype, shape, strides, as_expr(total), state.level,
        swizzle=swizzle_of(span, dtype.nbytes), slots=slots, reuse=link.reuse, no_sync=link.no_sync, link=link.link,
        claimed=link.claimed,
        align=PANEL_ALIGN,
    )  # fmt: skip
    _per_unit(storage, state, context)
    context.storages[name] = storage
    return storage


def _strides(link: Load, shape: tuple[int, ...], order: Order) -> tuple[tuple[Index, ...] | Layout, int]:
    if isinstance(link.storage, Layout):
        layout = link.storage
        extents = tuple(mode.size for mode in layout.modes)
        if extents != shape[-len(extents) :] or len(extents) < min(2, len(shape)):
            raise DecompositionError(
                "storage-shape",
                f"storage layout {layout} holds {'x'.join(map(str, extents))} elements, "
                f"the tile is {'x'.join(map(str, shape))}",
                fix="give a layout with one mode a dimension of the tile",
            )
        if len(shape) > len(extents):
            assert isinstance(layout.shape, tuple) and isinstance(layout.stride, tuple)
            outer = shape[: -len(extents)]
            layout = Layout((*outer, *layout.shape), (*_outer_strides(outer, layout.cosize), *layout.stride))
        return layout, layout.cosize
    order = link.storage or order
    rows, cols = (1, *shape)[-2:]
    inner, lines = (cols, rows) if order is RowMajor else (rows, cols)
    pitch = inner + link.pad
    matrix: tuple[Index, ...] = (pitch, 1) if order is RowMajor else (1, pitch)
    size = pitch * lines
    outer = shape[:-2]
    return (*_outer_strides(outer, size), *matrix[-len(shape) :]), size * prod(outer)


def _outer_strides(extents: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the strides of outer dimensions for matrices of a size without gaps; the last dimension is fastest."""
    return tuple(size * prod(extents[i + 1 :]) for i in range(len(extents)))
