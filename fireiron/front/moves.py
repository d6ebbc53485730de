"""Strategies: functions from a Move to a finished Move."""

from __future__ import annotations

from math import prod
from typing import cast

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import as_int
from fireiron.algebra.layout import Layout
from fireiron.base.contract import asked, checked, checks, refused
from fireiron.base.errors import DecompositionError
from fireiron.base.link import here
from fireiron.front.chain import Chain, MoveChain, Strategy
from fireiron.front.roles import SRC
from fireiron.front.verbs import Schedule
from fireiron.language.atom import POLICIES, SPANS, Policy
from fireiron.language.levels import FR, GL, RF, SH, Level, Thread, Warp
from fireiron.language.specs import BATCH
from fireiron.language.tensor import Order, RowMajor

MOST_BOX = 256  # elements of a tensor map's box along one dimension
MOST_UNITS = 1024  # threads of a block
UNKNOWN = 1 << 62  # a stride that is known at run time alone


def require_move(name: str, move: object) -> None:
    """Refuse a strategy in the place of another function: of an op, or of a permutation.

    Args:
        name: the call that made the strategy.
        move: what the strategy is called with.

    Raises:
        SpecError: `argument-kind`.
    """
    if not isinstance(move, Chain) or len(cast(MoveChain, move).residual.operands) != 2:
        raise refused(f"the strategy of {name}", ("a Move", "it to load() or to epilog(store=)"), cast(object, move))


@checks("nbytes")
def vector(nbytes: int | None = None) -> Strategy:
    """Move by vectors, dealt out to all threads in turn.

    Args:
        nbytes: bytes of a vector, None for the widest that fits.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("vector()", move)
        return move.vectors(nbytes).to(Thread).unroll().done()

    return strategy


@checks("nbytes")
def conform(nbytes: int | None = None) -> Strategy:
    """Move each thread's own elements of the register side, by the widest vectors that they form.

    Args:
        nbytes: bytes of a vector, None for the widest that fits.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("conform()", move)
        return move.own(Thread).vectors(nbytes).unroll().done()

    return strategy


def ldmatrix() -> Strategy:
    """Load fragments from shared memory by the instruction that deals them out.

    Tiles are of 16 by 32 bytes of K, or what there is of these, a whole warp at once.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("ldmatrix()", move)
        kind = move.residual.operands[0].dtype
        most = [(kind.count_in(32) if dim == "K" else 16, size) for dim, size in move.residual.sizes[-2:]]
        sizes = [min(n, size) if isinstance(size, int) else n for n, size in most]
        return move.tile(*sizes).unroll().done("ldmatrix")

    return strategy


@checked
def movmatrix(load: Strategy | None = None) -> Strategy:
    """Load fragments across the direction in which an instruction takes them, and transpose them between registers.

    For 16-bit elements whose neighbours in memory lie apart in the fragment, where ldmatrix cannot transpose them on
    the way: straight from global memory.

    Args:
        load: brings the transposed fragment into registers, conform() by default.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("movmatrix()", move)
        return move.load(SRC, FR, load or conform()).tile(8, 8).unroll().done("movmatrix")

    return strategy


@checked
def wmma(rows: int = 16, cols: int = 16) -> Strategy:
    """Move between memory and fragments of wmma, whose layout is the hardware's own, a whole warp at once.

    Args:
        rows, cols: of the fragment.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("wmma()", move)
        return move.tile(rows, cols).unroll().done("wmma")

    return strategy


@checks("nbytes")
def cp_async(nbytes: int | None = None) -> Strategy:
    """Move from global to shared memory by asynchronous copies, dealt out to all threads in turn.

    In a pipeline they are in flight while earlier chunks are computed with.

    Args:
        nbytes: 4, 8 or 16 bytes of a copy, None for the widest that fits.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("cp_async()", move)
        return move.vectors(nbytes).to(Thread).unroll().done("cp.async")

    return strategy


@checks("l2")
def tma(span: int = 128, *, l2: Policy | None = None) -> Strategy:
    """Move whole boxes between global and shared memory by bulk copies, which one thread starts.

    The buffer is laid out as they demand: rows of `span` bytes of the contiguous dimension, swizzled.

    Args:
        span: 128, 64 or 32 bytes, or 0 for plain rows.
        l2: what the L2 cache should do with the lines that are touched, None to leave it to the cache: `evict_first`,
            drop them before others (data used once); `evict_last`, keep them longest (data that all blocks read again);
            `evict_normal`; `evict_unchanged`, leave their turn as it is. A hint: the result is the same.

    Raises:
        DecompositionError: `bulk-span`, `bulk-policy`; `move-extents` and `bulk-rank` from the strategy.

    Source: PTX ISA, cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: .level::cache_hint; createpolicy; Cache
        Eviction Priority Hints.
    """
    if span not in SPANS:
        raise DecompositionError(
            "bulk-span",
            f"tma({span}): no bulk copy swizzles rows of {span} bytes",
            fix="use rows of 128, 64 or 32 bytes, or 0 for plain ones",
            link=here(),
        )
    if l2 is not None and not (isinstance(l2, str) and l2 in POLICIES):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DecompositionError(
            "bulk-policy",
            f"tma({span}, l2={l2!r}): the L2 cache has no such policy",
            fix=f"use {', '.join(POLICIES)}, or None for no hint",
            link=here(),
        )

    def strategy(move: MoveChain) -> Schedule:
        require_move("tma()", move)
        src, dst = move.residual.operands
        load = src.memory == GL
        tensor = src.tensor
        width = span // (dst if load else src).dtype.nbytes
        sizes: list[int] = []
        unknown = span and all(extent is None for _, extent in move.residual.sizes[-2:])
        extents = (width, width) if unknown else _known(move, f"tma({span})")
        for i, whole in enumerate(extents):
            contiguous = (i == 1) == (tensor.order is RowMajor)
            sizes.append(min(whole, width) if contiguous and span else _part(whole))
        batch = 1 if any(dim == BATCH for dim, _ in move.residual.sizes) else None
        name = _box_name(move, load, span, l2)
        return move.tile(*sizes, batch=batch).unroll().tile(*sizes, batch=batch).to(Thread, units=1).done(name)

    return strategy


def _known(move: MoveChain, said: str) -> tuple[int, int]:
    """Give the rows and columns of a Move, which a strategy cuts to instructions.

    Raises:
        DecompositionError: `move-extents` where one is not known yet.
    """
    found: list[int] = []
    for dim, extent in move.residual.sizes[-2:]:
        if not isinstance(extent, int):
            raise DecompositionError(
                "move-extents",
                f"{said} cuts {move.residual.short} by its extents, and that along {dim} is not known here",
                fix="tile or split above it; where units stage what they hold, by through_shared(..., panel=(m, n))",
                link=here(),
                path=move.where,
            )
        found.append(extent)
    return found[0], found[-1]


def _box_name(move: MoveChain, load: bool, span: int, policy: Policy | None) -> str:
    """Name the instruction that moves a box; the import stands here, since strategies that import have no fingerprint.

    Raises:
        DecompositionError: `bulk-rank` where there is none of so many dimensions.
    """
    from fireiron.atoms.table import box_move

    rank = len(move.residual.sizes)
    row = box_move(load, rank, span, policy or "")
    if row is None:
        src, dst = move.residual.operands
        name = (src if load else dst).tensor.name
        raise DecompositionError(
            "bulk-rank",
            f"tma() copies boxes of at most 5 dimensions, and {name} has {rank}",
            fix="load by cp_async(), or describe dimensions that lie together in memory as one",
            link=here(),
            path=move.where,
        )
    return row.name


def _part(extent: int) -> int:
    """Give the largest equal part of an extent that a box takes."""
    return next(size for size in range(min(extent, MOST_BOX), 0, -1) if extent % size == 0)


@checked
def stmatrix(trans: bool = False) -> Strategy:
    """Store fragments to shared memory by the instruction that collects them, rounded to 16 bits.

    Args:
        trans: rows in memory run down the fragment's columns.

    Raises:
        DecompositionError: `move-extents` from the strategy.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("stmatrix()", move)
        _, cols = _known(move, "stmatrix()")
        wide = 16 if cols % 16 == 0 else 8
        own = move.tile(16, cols).to(Warp) if move.residual.level.name != Warp.name else move
        name = f"stmatrix.x{4 if wide == 16 else 2}{'.trans' if trans else ''}"
        return own.tile(16, wide).unroll().done(name)

    return strategy


@checks("nbytes", "across")
def staged(nbytes: int | None = None, along: str | None = None, across: int | None = None) -> Strategy:
    """Move by way of registers: vectors from the source, then what forms on the other side.

    In a pipeline the first hop starts a chunk, and the second finishes it after the compute. Below `specialize` the
    threads of the role that loads start a chunk while they wait for its slot.

    With `along`, the move transposes: the source is contiguous along another dim than the buffer. Neighbouring threads
    read neighbouring elements of the source, each thread a vector of elements along `along`, one by one, and writes
    the vector at once. With `across` it reads so many bytes at once along the source's contiguous dim, and writes a
    vector for each of their elements: elements of one byte are exchanged within the thread's registers. Then threads
    that write together take several vectors along `along`, so that those to swizzled rows meet no bank conflict.

    Args:
        nbytes: bytes of a vector of the first hop, None for the widest that fits; with `along`, bytes that a thread
            writes at once, 16 by default.
        along: the dim along which the buffer is contiguous, where that of the source is another: "c".
        across: with `along`, bytes that a thread reads at once, None for one element.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("staged()", move)
        first = vector(nbytes) if along is None else _columns(along, nbytes or 16, across)
        return conform()(move.load(SRC, RF, first))

    return strategy


PHASE = 8  # threads whose vectors of 16 bytes are written together, to as many swizzled rows


def _columns(along: str, nbytes: int, across: int | None) -> Strategy:
    """Read vectors along a dim element by element, neighbouring threads along the dim that is contiguous."""

    def strategy(move: MoveChain) -> Schedule:
        kind, extents = move.residual.operands[0].dtype, dict(move.residual.sizes)
        nearest = _nearest(move)
        single = dict.fromkeys(extents, 1)
        read = dict(single)
        if across is not None and nearest is not None and nearest[0] != along:
            read[nearest[0]] = _dividing(extents[nearest[0]], kind.count_in(across))
        taken = {**read, along: _dividing(extents[along], kind.count_in(nbytes)) if along in extents else 1}
        counts = [-(-n // taken[name]) for name, n in extents.items() if isinstance(n, int)]
        known = nearest is not None and len(counts) == len(extents)
        dealt = move.tile(**taken).to(Thread, units=MOST_UNITS if known and prod(counts) > MOST_UNITS else None)
        if nearest is not None and known:
            dealt = dealt.layout(_order(dict(zip(extents, counts, strict=True)), nearest, along, read[nearest[0]]))
        return dealt.unroll().tile(**read).unroll().done()

    return strategy


def _dividing(extent: object, most: int) -> int:
    """Give the largest number of elements, at most so many, that an extent divides by."""
    most = max(1, most)
    return next(n for n in range(min(most, extent), 0, -1) if extent % n == 0) if isinstance(extent, int) else most


def _nearest(move: MoveChain) -> list[str] | None:
    """List the dims of a Move, those of the source's smallest strides first; None where extents are unknown.

    A stride that is known at run time alone counts as larger than any other: a tensor's contiguous dim has stride 1.
    """
    names = [name for name, extent in move.residual.sizes if isinstance(extent, int)]
    strides = [as_int(stride) for stride in move.residual.operands[0].tensor.strides]
    if not len(names) == len(strides) == len(move.residual.sizes):
        return None
    return sorted(names, key=lambda name: UNKNOWN if (step := strides[names.index(name)]) is None else step)


def _order(counts: dict[str, int], nearest: list[str], along: str, wide: int) -> Layout:
    """Count tiles along the nearest dim first; of tiles that are several elements wide, as many along another dim.

    Args:
        counts: tiles along each dim, in the Move's order.
        nearest: the dims, that of the source's smallest stride first.
        along: the dim along which vectors are written.
        wide: elements of a tile along the nearest dim.
    """
    names = list(counts)
    steps = {name: prod([counts[x] for x in names[:i]]) for i, name in enumerate(names)}
    first, near = nearest[0], PHASE // wide
    if wide == 1 or near < 1 or PHASE % wide or counts[first] % near or counts[along] % wide:
        return Layout(tuple(counts[x] for x in nearest), tuple(steps[x] for x in nearest))
    rest = [x for x in nearest if x not in (first, along)]
    return Layout(
        (near, wide, counts[first] // near, counts[along] // wide, *(counts[x] for x in rest)),
        (steps[first], steps[along], near * steps[first], wide * steps[along], *(steps[x] for x in rest)),
    )


@checked
def through_shared(
    put: Strategy | None = None,
    take: Strategy | None = None,
    panel: tuple[int, int] | None = None,
    pad: int = 0,
    order: Order | None = None,
    reuse: bool = False,
    at: Level | None = None,
    ring: int = 1,
    dtype: object = None,
) -> Strategy:
    """Move by way of shared memory, so that threads exchange elements and store whole lines.

    Args:
        put: into shared memory, conform() by default.
        take: out of it, vector() by default.
        panel: rows and columns that are staged at once; None stages the whole tile.
        pad: elements added to the staging buffer's leading stride.
        order: the staging buffer's order, None for the destination's.
        reuse: overlay the operands' buffers, which are dead by then.
        at: the level whose units each stage what they hold, in buffers of their own; None stages for the whole block.
        ring: slots of the staging buffer, which panels take in turn.
        dtype: what is staged, the destination's element type by default.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("through_shared()", move)
        own = move if at is None else move.own(at)
        start = own if panel is None else own.tile(*panel).unroll().pipeline(ring)
        src, dst = move.residual.operands
        kind = dst.dtype if dtype is None else find_dtype(dtype)
        staging = start.load(SRC, SH, put or conform(), dtype=None if src.dtype == kind else kind).pad(pad)
        staging = staging if order is None else staging.storage_layout(order)
        return asked(take or vector(), staging.reuse_buffer() if reuse else staging, said="a strategy")

    return strategy
