"""Strategies: functions from a Move to a finished Move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import cast

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import as_int
from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.contract import asked, checked, checks, refused
from fireiron.base.errors import DecompositionError
from fireiron.base.link import here
from fireiron.front.chain import Chain, MoveChain, Strategy, Tiled
from fireiron.front.roles import SRC
from fireiron.front.verbs import Schedule
from fireiron.language.atom import LOAD_POLICIES, POLICIES, SPANS, LoadPolicy, Policy
from fireiron.language.levels import FR, GL, RF, SH, Level, Thread, Warp
from fireiron.language.specs import BATCH, Move
from fireiron.language.tensor import Order, RowMajor

MOST_BOX = 256  # elements of a tensor map's box along one dimension
MOST_UNITS = 1024  # threads of a block
UNKNOWN = 1 << 62  # a stride that is known at run time alone


def require_move(name: str, move: object) -> None:
    """Refuse a strategy that is used as another function, such as an op or a permutation.

    Args:
        name: the call that made the strategy.
        move: what the strategy is called with.

    Raises:
        SpecError: `argument-kind`.
    """
    if not isinstance(move, Chain) or len(cast(MoveChain, move).residual.operands) != 2:
        raise refused(f"the strategy of {name}", ("a Move", "it to load() or to epilog(store=)"), cast(object, move))


def _check_policy(code: str, said: str, cache: str, policy: object, known: Sequence[str]) -> None:
    """Raise an error for a policy that a cache does not have; None is no hint."""
    if policy is not None and policy not in known:
        raise DecompositionError(
            code,
            f"{said}: the {cache} cache has no such policy",
            fix=f"use {', '.join(known)}, or None for no hint",
            link=here(),
        )


@checks("nbytes", "l1")
def vector(nbytes: int | None = None, *, l1: LoadPolicy | None = None) -> Strategy:
    """Move by vectors, which all threads take in turn.

    Args:
        nbytes: bytes of a vector; None for the widest that fits.
        l1: hint to the L1 cache of loads from global memory to registers, None for no hint. `no_allocate` keeps no
            lines there (data used once, by kernels that write little), `evict_first` drops the lines before others,
            `evict_last` keeps the lines longest, and `evict_unchanged` keeps their old priority.

    Raises:
        DecompositionError: `load-policy`.

    Source: PTX ISA, ld: .level1::eviction_priority; Cache Eviction Priority Hints.
    """
    _check_policy("load-policy", f"vector({nbytes}, l1={l1!r})", "L1", l1, LOAD_POLICIES)

    def strategy(move: MoveChain) -> Schedule:
        require_move("vector()", move)
        return move.vectors(nbytes).to(Thread).unroll().done(None if l1 is None else f"ld.global.{l1}")

    return strategy


@checks("nbytes")
def conform(nbytes: int | None = None) -> Strategy:
    """Let each thread move the elements that it holds on the register side, by the widest vectors that they form.

    Args:
        nbytes: bytes of a vector; None for the widest that fits.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("conform()", move)
        return move.own(Thread).vectors(nbytes).unroll().done()

    return strategy


def ldmatrix() -> Strategy:
    """Load fragments from shared memory by ldmatrix, which distributes elements among the lanes of a warp.

    A warp loads 16 rows of 32 bytes along K at once, or fewer where the operand is smaller; and 8 along N where N is 8
    more than a multiple of 16, since a bound must not cut rows that run along N.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("ldmatrix()", move)
        kind = move.residual.operands[0].dtype
        most = [(kind.count_in(32) if dim == "K" else 16, dim, size) for dim, size in move.residual.sizes[-2:]]
        sizes = [
            n if not isinstance(size, int) else 8 if dim == "N" and size % 16 == 8 else min(n, size)
            for n, dim, size in most
        ]
        return move.tile(*sizes).unroll().done("ldmatrix")

    return strategy


@checked
def movmatrix(load: Strategy | None = None) -> Strategy:
    """Load fragments that lie transposed in memory, and transpose them between the registers of a warp.

    Use movmatrix for 16-bit elements that are loaded straight from global memory: from shared memory, ldmatrix
    transposes them.

    Args:
        load: strategy that loads the transposed fragment to registers, conform() by default.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("movmatrix()", move)
        return move.load(SRC, FR, load or conform()).tile(8, 8).unroll().done("movmatrix")

    return strategy


@checked
def wmma(rows: int = 16, cols: int = 16) -> Strategy:
    """Move between memory and fragments of wmma, a whole warp at once; the hardware chooses the fragment's layout.

    Args:
        rows, cols: size of the fragment.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("wmma()", move)
        return move.tile(rows, cols).unroll().done("wmma")

    return strategy


@checks("nbytes")
def cp_async(nbytes: int | None = None) -> Strategy:
    """Move from global to shared memory by asynchronous copies, which all threads take in turn.

    In a pipeline, copies run while earlier chunks are computed.

    Args:
        nbytes: bytes of a copy: 4, 8 or 16; None for the widest that fits.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("cp_async()", move)
        return move.vectors(nbytes).to(Thread).unroll().done("cp.async")

    return strategy


@checks("l2")
def tma(span: int = 128, *, l2: Policy | None = None) -> Strategy:
    """Move whole boxes between global and shared memory by bulk copies, which one thread starts.

    The buffer gets the layout that bulk copies need: swizzled rows of `span` bytes of the contiguous dimension. A tile
    of a product's operand may end within a row along M or N: the last box then also loads elements of the next tile.

    Args:
        span: 128, 64 or 32 bytes; 0 for rows without a swizzle.
        l2: hint to the L2 cache for the lines that are touched, None for no hint. `evict_first` drops the lines before
            others (data used once), `evict_last` keeps the lines longest (data that all blocks read again),
            `evict_normal` is the default of the hardware, and `evict_unchanged` keeps the lines' old priority.

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
    _check_policy("bulk-policy", f"tma({span}, l2={l2!r})", "L2", l2, POLICIES)

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
    """Return the rows and columns of a Move, which the strategy must know.

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
    """Name the instruction that moves a box.

    The import stands in this function, because a strategy that imports has no fingerprint.

    Raises:
        DecompositionError: `bulk-rank` where the Move has more dimensions than any instruction.
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
    """Return the largest divisor of an extent that a box can have."""
    return next(size for size in range(min(extent, MOST_BOX), 0, -1) if extent % size == 0)


@checked
def stmatrix(trans: bool = False) -> Strategy:
    """Store fragments to shared memory by stmatrix, rounded to 16 bits.

    In a Move of more than two dims, all dims but the last count as rows together. Example: 2x8x64 has 16 rows.

    Args:
        trans: whether the columns of the fragment become rows in memory.

    Raises:
        DecompositionError: `move-extents` from the strategy.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("stmatrix()", move)
        _, cols = _known(move, "stmatrix()")
        wide = 16 if cols % 16 == 0 else 8
        own = _rows_apart(move, cols).to(Warp) if move.residual.level.name != Warp.name else move
        name = f"stmatrix.x{4 if wide == 16 else 2}{'.trans' if trans else ''}"
        return _rows_apart(own, wide).unroll().done(name)

    return strategy


def _rows_apart(move: MoveChain, cols: int) -> Tiled[Move]:
    """Cut a Move into matrices of 16 rows and `cols` columns, where several dims may be the rows together."""
    *before, (inner, _), (columns, _) = move.residual.sizes
    if all(extent == 1 or dim.startswith(BATCH) for dim, extent in before):
        return move.tile(16, cols)
    sizes, left = {columns: cols}, 16
    for dim, extent in reversed(move.residual.sizes[:-1]):
        if dim == inner or extent != 1:
            sizes[dim] = gcd(left, extent) if isinstance(extent, int) else 1
            left //= sizes[dim]
    return move.tile(**dict(reversed(sizes.items())))


@checks("nbytes", "across")
def staged(nbytes: int | None = None, along: str | None = None, across: int | None = None) -> Strategy:
    """Move in two hops: vectors from the source to registers, then from there to the destination.

    In a pipeline, the first hop loads a chunk before an earlier chunk is computed, and the second hop stores it after.
    Below `specialize`, the loading role starts the first hop while it waits for a free slot.

    With `along`, the move transposes: the buffer is contiguous along `along`, and the source along another dim.
    Neighbouring threads read neighbouring elements of the source. A thread reads the elements of a vector along `along`
    one by one, and writes the vector at once. With `across`, a thread instead reads that many bytes at once along the
    source's contiguous dim, and writes one vector for each element read; elements of one byte are exchanged within the
    thread's registers. Threads that write together then take several vectors along `along`, to avoid bank conflicts in
    swizzled rows.

    Args:
        nbytes: bytes of a vector of the first hop; None for the widest that fits. With `along`, bytes that a thread
            writes at once, 16 by default.
        along: the dim along which the buffer is contiguous, where the source is contiguous along another. Example: "c".
        across: with `along`, bytes that a thread reads at once, None for one element.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("staged()", move)
        first = vector(nbytes) if along is None else _columns(along, nbytes or 16, across)
        return conform()(move.load(SRC, RF, first))

    return strategy


PHASE = 8  # threads whose vectors of 16 bytes are written together, to as many swizzled rows


def _columns(along: str, nbytes: int, across: int | None) -> Strategy:
    """Read vectors along `along` element by element; neighbouring threads read along the source's contiguous dim."""

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
    """Return the largest divisor of an extent that is at most `most`."""
    most = max(1, most)
    return next(n for n in range(min(most, extent), 0, -1) if extent % n == 0) if isinstance(extent, int) else most


def _nearest(move: MoveChain) -> list[str] | None:
    """List the dims of a Move by the source's strides, smallest first; None where extents are unknown.

    A stride that is known only at run time counts as the largest: the contiguous dim has stride 1.
    """
    names = [name for name, extent in move.residual.sizes if isinstance(extent, int)]
    strides = [as_int(stride) for stride in move.residual.operands[0].tensor.strides]
    if not len(names) == len(strides) == len(move.residual.sizes):
        return None
    return sorted(names, key=lambda name: UNKNOWN if (step := strides[names.index(name)]) is None else step)


def _order(counts: dict[str, int], nearest: list[str], along: str, wide: int) -> Layout:
    """Order the tiles of a transposing Move among threads: first along the source's contiguous dim.

    Of tiles that are `wide` elements wide, threads take the same number along another dim next.

    Args:
        counts: tiles along each dim, in the Move's order.
        nearest: the dims by the source's strides, smallest first.
        along: the dim along which vectors are written.
        wide: elements of a tile along the first of `nearest`.
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
    panel: tuple[int, int] | Mapping[str, int] | None = None,
    pad: int = 0,
    order: Order | Layout | None = None,
    reuse: bool = False,
    at: Level | None = None,
    ring: int = 1,
    dtype: object = None,
    swizzle: Swizzle | None = None,
) -> Strategy:
    """Move through shared memory, where threads exchange elements so that they can store whole lines.

    Args:
        put: strategy for the move into shared memory, conform() by default.
        take: strategy for the move out of shared memory, vector() by default.
        panel: rows and columns that are in shared memory at once, or extents by the names of dims; None for the whole
            tile.
        pad: elements added to the leading stride of the buffer in shared memory.
        order: storage order or layout of the buffer, None for the destination's order.
        reuse: whether the buffer uses the memory of the operands' buffers, which are no longer read then.
        at: the level whose units each have a buffer of their own for the elements that they hold; None for one buffer
            of the block.
        ring: number of slots of the buffer, which panels use in turn.
        dtype: element type in the buffer, the destination's by default.
        swizzle: permutation of the buffer's elements, None for none.
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("through_shared()", move)
        own = move if at is None else move.own(at)
        start = own
        if panel is not None:
            panels = (own.tile(**panel) if isinstance(panel, Mapping) else own.tile(*panel)).unroll()
            start = panels if ring == 1 else panels.pipeline(ring)
        src, dst = move.residual.operands
        kind = dst.dtype if dtype is None else find_dtype(dtype)
        staging = start.load(SRC, SH, put or conform(), dtype=None if src.dtype == kind else kind)
        staging = staging.pad(pad) if pad else staging
        staging = staging if order is None else staging.storage_layout(order)
        staging = staging if swizzle is None else staging.swizzle(swizzle)
        return asked(take or vector(), staging.reuse_buffer() if reuse else staging, said="a strategy")

    return strategy
