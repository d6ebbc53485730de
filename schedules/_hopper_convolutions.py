"""What `conv.wgmma` chooses for a program: tiles, chunks, stages, and the arrays that are read beside the products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from fireiron import (
    SH,
    SRC,
    FireironError,
    MoveChain,
    ProgramChain,
    Schedule,
    Strategy,
    Tensor,
    Warpgroup,
    conform,
    fuse,
    stmatrix,
    through_shared,
    tma,
    vector,
)
from fireiron.schedules._pixel_clocks import (
    MOST_BESIDE,
    Tiles,
    pad_of,
    ranked,
    share_pixels,
    span_of,
    swizzled,
)
from fireiron.schedules._pixels import (
    MOST_DIMS,
    RUN,
    WARPGROUP,
    Window,
    box_of,
    bulk_takes,
    copied_span,
    least_side,
    part_of,
    refuse_cut,
    spread_lines,
    window_of,
)

ROWS = 64  # of an instruction
SPANS = (32, 64, 128)  # bytes of a row in shared memory that bulk copies swizzle
FEW_CHUNKS = 8  # of a 1x1 convolution whose residual is copied: 1.31, 1.23, 1.18, 1.00 and 1.08 with 1, 2, 4, 8 and 8
LINE_ALIGN = 16  # bytes by which lines and rows of bulk stores are aligned
ROWS_OF_MATRIX = 16  # of stmatrix
MOST_REGISTERS, QUAD = 255, 4  # of a thread; lanes that share the rows of a fragment


@attrs.frozen
class Choice:
    """Hold what is chosen for a program.

    Args:
        spec: the program, whose pixels are one dim if tiles are runs of pixels.
        w: its product.
        plan: the tiles.
        box: extents of a block's pixels.
        span: bytes of a chunk's rows of channels.
        stages: number of chunks in shared memory.
        copied: names of arrays whose tiles bulk copies load to shared memory.
        early: names of arrays that threads load before the products.
    """

    spec: ProgramChain
    w: Window
    plan: Tiles
    box: dict[str, int]
    span: int
    stages: int
    copied: tuple[str, ...]
    early: tuple[str, ...]

    @property
    def depth(self) -> int:
        """Return the number of channels of a chunk."""
        return self.span // self.w.nbytes

    @property
    def copying(self) -> bool:
        """Say whether threads copy images or filters."""
        return not _by_bulk(self.spec, self.w)

    @property
    def tile(self) -> dict[str, int]:
        """Return the extents of a block's tile."""
        return {**dict.fromkeys(self.w.batch, 1), **self.box, self.w.column: self.plan.channels}

    @property
    def cluster(self) -> dict[str, int]:
        """Return the extents of a cluster's tile: its blocks share pixels, or filters where one block has all."""
        shared = share_pixels(self.spec.residual.extents[self.w.column], self.plan.channels, self.plan.cluster)
        along = self.w.column if shared else _longest(self.spec, self.box)
        return {d: n * self.plan.cluster if d == along else n for d, n in self.tile.items()}

    @property
    def registers(self) -> tuple[int, int] | None:
        """Return the register limits of a loading and of a computing thread."""
        return _registers(self.plan.groups, self.copying)

    @property
    def store(self) -> Strategy:
        """Return the strategy that stores results."""
        columns = _panel(self.spec, self.plan, self.span, self.w, self.copied)
        by_panels = _by_panels(self.w, columns, self.plan.channels)
        part = {**dict.fromkeys(self.w.batch, 1), **part_of(self.box, self.plan.groups), self.w.column: columns}
        # Blocks of one tile store no faster by bulk stores. Where a warpgroup has the 64 rows of one instruction, ptxas
        # serialises the products of some kernels (C7514).
        apart = self.plan.persistent and self.plan.pixels // self.plan.groups > ROWS
        return _by_warpgroups(part, by_panels) if apart else by_panels

    def row(self, role: str, span: int) -> int:
        """Return the bytes of a buffer's rows: along the folded channels, or along columns if these are contiguous.

        Args:
            role: the array.
            span: bytes of a row along the folded channels.
        """
        held = self.spec.residual.operand(role)
        assert held is not None
        return min(SPANS[-1], held.dtype.nbytes * self.plan.channels) if held.dims[-1] == self.w.column else span


def chosen(
    spec: ProgramChain, plan: Tiles | None, given: Mapping[str, Any], stages: int | None,
    early: str | Sequence[str] | None, copied: str | Sequence[str] | None,
) -> Choice:  # fmt: skip
    """Choose what `conv.wgmma` was not given.

    Args:
        spec, plan, stages, early, copied: as `conv.wgmma` takes them.
        given: fields of the tiles that the caller gave.

    Raises:
        FireironError: as `conv.wgmma` does.
    """
    w = window_of(spec)
    wanted = _beside_few(spec, w) if copied is None and early is None else _named(copied)
    plan = attrs.evolve(plan or _plan(spec, w, given, wanted), **given)
    plan = attrs.evolve(plan, persistent=plan.persistent and plan.ways == 1)
    if copied is None and not (plan.persistent and _has_room(spec, w, wanted, plan)):
        wanted = ()
    if plan.runs:
        spec = fuse(spec, **{RUN: " ".join(w.pixels)})
        w = window_of(spec)
    _refuse_many(spec, w, plan)
    box = box_of(spec, w.pixels, plan.pixels, plan.groups, least_side(spec, w))
    span = _spread_span(plan.span or min(span_of(spec, w, plan.ways), copied_span(spec, w, plan.pixels, plan.channels)))
    refuse_cut(spec, w, span // w.nbytes)
    ahead = _early(spec, w, span // w.nbytes) if early is None and plan.ways == 1 else _named(early)
    deep = stages or max(2, plan.stages(span, w.stored, _kept_beside(spec, wanted, plan)))
    return Choice(spec, w, plan, box, span, deep, wanted, tuple(name for name in ahead if name not in wanted))


def _named(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _by_bulk(spec: ProgramChain, w: Window) -> bool:
    """Say whether bulk copies load images and filters."""
    return all(bulk_takes(spec, role) for role in (w.images, w.filters))


def _refuse_many(spec: ProgramChain, w: Window, plan: Tiles) -> None:
    """Refuse tiles for whose sums computing threads have no registers beside threads that copy."""
    points = plan.pixels * plan.channels
    if not _by_bulk(spec, w) and points > plan.groups * MOST_BESIDE * WARPGROUP:
        raise FireironError(
            "conv-tile",
            f"tiles of {plan.pixels}x{plan.channels} give a thread {points // (plan.groups * WARPGROUP)} sums, and "
            f"beside threads that copy it has registers for {MOST_BESIDE}",
            fix="use smaller tiles, or arrays that bulk copies take: channels last, lines at multiples of 16 bytes",
        )


def _spread_span(span: int) -> int:
    """Return the bytes of a chunk's rows, which bulk copies spread over banks."""
    if span not in SPANS:
        raise FireironError(
            "conv-tile",
            f"span={span} is no number of bytes that bulk copies spread over banks",
            fix=f"give {', '.join(map(str, SPANS))}, or leave span out",
        )
    return span


def _panel(spec: ProgramChain, plan: Tiles, span: int, w: Window, copied: Sequence[str]) -> int:
    """Return the number of columns that are stored at once."""
    return plan.panel(span, w.stored, _kept_beside(spec, copied, plan))


def _registers(groups: int, copying: bool) -> tuple[int, int] | None:
    """Return the register limits of a loading thread, which may hold copied data, and of a computing thread."""
    if copying:
        return {1: (80, 200), 2: (88, 168)}.get(groups)
    return {2: (24, 240), 3: (32, 160)}.get(groups)


def _most_registers(groups: int) -> int:
    """Return the registers of a computing thread."""
    limits = _registers(groups, copying=False)
    return MOST_REGISTERS if limits is None else limits[1]


def _held_at_once(spec: ProgramChain, w: Window, plan: Tiles) -> int:
    """Return the registers of a thread for its sums and for what is read after the products."""
    sums = plan.pixels * plan.channels // (plan.groups * WARPGROUP)
    folded = {ref.name for step in spec.computed.steps if step.fold is not None for ref in step.reads}
    given = {t.name for t in spec.computed.inputs} - folded
    total = sums
    for ref in {ref.name: ref for step in spec.computed.steps for ref in step.reads if ref.name in given}.values():
        dims = {d.name for d in ref.dims}
        # A quad of lanes shares the columns of a vector; what is loaded after the products, each of two rows has.
        columns = plan.channels // (QUAD if plan.ways == 1 else QUAD // 2) if w.column in dims else 1
        total += (sums if dims.intersection(w.pixels) else columns) * ref.dtype.nbytes // 4
    return total


def _early(spec: ProgramChain, w: Window, depth: int) -> tuple[str, ...]:
    """Choose the arrays to load before the products: vectors, and residuals if a tile has several chunks."""
    folded = {ref.name for step in spec.computed.steps if step.fold is not None for ref in step.reads}
    read = [ref for step in spec.computed.steps if step.fold is None for ref in step.reads]
    given = {t.name for t in spec.computed.inputs} - folded
    whole = spec.residual.extents[w.depth]
    short = isinstance(whole, int) and whole <= depth and all(spec.residual.extents[d] == 1 for d in w.taps)
    pixels = set(w.pixels)
    return tuple(
        dict.fromkeys(
            ref.name for ref in read if ref.name in given and not (short and pixels & {d.name for d in ref.dims})
        )
    )


def _by_warpgroups(part: Mapping[str, int], others: Strategy) -> Strategy:
    """Let each warpgroup store its part of a tile by bulk stores, without a barrier of the block.

    Args:
        part: extents of a panel, the part of a warpgroup's results that is stored at once; the columns last.
        others: the strategy for results that bulk stores do not take.
    """
    *_, (column, columns) = part.items()

    def store(move: MoveChain) -> Schedule:
        stored, dims = move.residual.operands[1].tensor, [dim for dim, _ in move.residual.sizes]
        if dims[-1] != column or {*dims} != {*part} or not _is_stored_by_bulk(stored, columns):
            return others(move)
        put = stmatrix() if _are_matrices([part[dim] for dim in dims[:-1]]) else conform()
        span = next((n for n in reversed(SPANS) if columns * stored.dtype.nbytes % n == 0), 0)
        return through_shared(put, tma(span), part, at=Warpgroup)(move)

    return store


def _are_matrices(pixels: Sequence[int]) -> bool:
    """Say whether stmatrix can store boxes: 16 pixels after each other are a box too."""
    left = ROWS_OF_MATRIX
    for n in reversed(pixels):
        if n % left == 0:
            return True
        if left % n:
            break
        left //= n
    return False


def _is_stored_by_bulk(stored: Tensor, columns: int) -> bool:
    """Say whether bulk stores take `columns` columns of a tensor: 16-bit elements, lines at multiples of 16 bytes."""
    lines = stored.strides[-1] == 1 and stored.starts_lines_at(LINE_ALIGN)
    few = len(stored.shape) <= MOST_DIMS
    return few and lines and stored.dtype.nbytes == 2 and columns * stored.dtype.nbytes % LINE_ALIGN == 0


def _by_panels(w: Window, columns: int, channels: int) -> Strategy:
    """Store `columns` columns of a tile at once, as whole lines through shared memory."""
    pad = 0 if w.across else pad_of(w.stored, columns)  # lines of pixels are as many as a tile has channels
    if columns == channels:
        return through_shared(pad=pad)

    def store(move: MoveChain) -> Schedule:
        staged = move.tile(**{w.column: columns}).unroll().load(SRC, SH, conform())
        if swizzled(columns, channels, w.stored) and not w.across:
            return vector()(staged.swizzle(spread_lines(columns)))
        return vector()(staged.pad(pad))

    return store


def _plan(spec: ProgramChain, w: Window, given: Mapping[str, Any], copied: Sequence[str]) -> Tiles:
    """Choose the fastest tiles that agree with the given numbers and leave room for copied arrays, else usual sizes.

    Tiles with whose sums registers hold all that is read after the products come first.
    """
    found = ranked(spec, w)
    known = {name: x for name, x in given.items() if name != "span"}
    fits = [tiles for tiles in found if all(getattr(tiles, name) == x for name, x in known.items())]
    fits = [tiles for tiles in fits if _held_at_once(spec, w, tiles) <= _most_registers(tiles.groups)] or fits
    roomy = (tiles for tiles in fits if copied and _has_room(spec, w, copied, tiles))
    return next(roomy, next(iter(fits), Tiles()))


def _beside_few(spec: ProgramChain, w: Window) -> tuple[str, ...]:
    """List the residuals of a 1x1 convolution, if channels are so few that products do not hide their loads."""
    whole = spec.residual.extents[w.depth]
    few = isinstance(whole, int) and whole * w.nbytes <= FEW_CHUNKS * SPANS[-1]
    if not few or w.across or any(spec.residual.extents[d] != 1 for d in w.taps):
        return ()
    dims = {*w.pixels, w.column}
    read = [ref for step in spec.computed.steps if step.fold is None for ref in step.reads if ref.dims]
    given = {t.name for t in spec.computed.inputs}
    found = [ref.name for ref in read if ref.name in given and {d.name for d in ref.dims} >= dims]
    return tuple(name for name in dict.fromkeys(found) if bulk_takes(spec, name))


def _has_room(spec: ProgramChain, w: Window, copied: Sequence[str], tiles: Tiles) -> bool:
    """Say whether shared memory of a block has room for copied tiles of arrays, beside two chunks."""
    if tiles.runs or tiles.ways > 1:
        return False
    span = tiles.span or span_of(spec, w)
    return tiles.stages(span, w.stored, _kept_beside(spec, copied, tiles)) > 1


def _kept_beside(spec: ProgramChain, names: Sequence[str], plan: Tiles) -> int:
    """Return the bytes of shared memory for copied tiles of arrays: two of each if blocks loop over tiles."""
    found = (spec.residual.operand(name) for name in names)
    points = plan.pixels * plan.channels * (2 if plan.persistent else 1)
    return sum(points * held.dtype.nbytes for held in found if held is not None)


def _longest(spec: ProgramChain, box: dict[str, int]) -> str:
    """Return the dim of pixels with the most tiles."""
    extents = spec.residual.extents
    return max(box, key=lambda d: n // box[d] if isinstance(n := extents[d], int) else 0)
