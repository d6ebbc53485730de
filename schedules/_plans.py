"""Plans for Hopper: the degrees of freedom of a schedule, which of them a product can take, a model of their clocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Literal

import attrs

from fireiron import ColMajor, DType, FireironError, MatMulChain, RowMajor, Rows, Save, Tensor

ROWS = 64  # of one wgmma
SPAN = 128  # bytes of a swizzled row
LEAST_SPAN = 32
NARROW = 32  # columns of a panel below which its store's fixed time counts for more than its bytes
WIDE = 128  # columns of a panel above which it has one slot of staging, so that chunks have room
SHARED = 227 * 1024  # bytes of a block
RESERVED = 1024  # bytes kept for barriers
PAD = 16  # bytes behind each line of a padded panel
SMS = 132
MOST_STAGES = 16
LIGHT = 80  # columns of 64 rows up to which chunks of two panels pay: 64x40 took 0.86 of its time at 384x768x3584
HELD = 192  # registers of sums and fragments beside which 240 leave room for a prolog
EARLY = 208  # of sums and operands that come before the products
EARLY_CUT = 176  # the same where columns end within a tile: what says which exist is held too
EARLY_OF_THREE = 104  # the same of a thread whose budget is 160
MAP_UNIT = 16  # bytes by which tensor maps count strides
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8")  # that wgmma multiplies
EIGHT_BITS = ("e4m3", "e5m2")

# What `clocks` was fitted to.
LATENCY = 2510.0  # clocks from asking for a chunk to having it
EMPTYING = 1.16  # of the chunks in a ring, those that are not yet asked for again
STORE_RATE = 13.3  # bytes of C a clock
PARTS = 1.68  # what stores cost of rows that end between the multiples of 32 bytes
VECTORS_RATE = 2.2  # where rows of groups are stored by vectors, each under a predicate
SMALL_TILE = 0.117  # of its products that a tile half as large as 128x256 loses, in the long run
SMALLER = 1.44  # with which power of the missing part that loss grows
MOST_MISSING = 9.0  # as of a tenth of 128x256
LONG_RUN = 9  # waves after which all of it is lost: the chip's power is
ROWS_COST = {64: 1.04, 192: 1.06, 256: 1.114}  # what products of so many rows are taken to cost
TURNS = 120.0  # clocks of staggered warpgroups' turns
CLUSTER = 2700.0  # clocks
DRAM_RATE = 6580.0  # bytes of A and B a clock, all SMs together
GPC_RATE = 1295.0  # bytes a clock that the SMs of a GPC are sent, what several of them ask for counted once
REPEATED_RATE = 11900.0  # bytes a clock that blocks are sent again, from the L2 cache, beside them
TORN = 2.8  # what bytes cost in lines that start between the multiples of 128 bytes; scaled with the rate above
MEETING = 1600.0  # clocks in which blocks count in at a tile; set by hand, as NEAR is: few of the timings have sums
HANDING = 1000.0  # clocks in which a block learns that another has left its sum; not fitted
SUMS_RATE = 21.7  # bytes of partial sums a clock
NEAR = 2400.0  # clocks in which the blocks of a cluster wait for each other's sums, before and behind
NEAR_RATE = 8.5  # bytes of sums a clock that a block reads of the others
HANDLING = 130.0  # clocks of a chunk beside those of its panels, whatever they hold
PANEL = 130.0
OUTSIDE = 0.02  # clocks of a row of 128 bytes outside a tensor, where tiles are small and all edges are in one wave
FRAGMENTS = 260.0  # clocks in which a unit takes 64 rows of a chunk through a prolog, and as many before: 8 timings
PROMOTION = 200.0  # clocks from a chunk's last product to the first of its sums' additions; a guess, not fitted

STREAM = 1.2  # what shares of K are taken to cost beside what is counted: a caution, not fitted

GPC = 16  # SMs, on which neighbours in the order of tiles run
GROUPS = (4, 2, 8, 12, 16)
MOST_WAVES = 4  # of tiles whose order is looked at
FEW_WAVES = 3
STREAMED = range(16 << 20, 256 << 20)  # bytes of an operand that few tiles read; 470 MB lost 8 % by hints
FEW = 8  # tiles that read it, where all run at once: 384x3456x3840 took 20.7 us, 18.5 with hints

MOST_WAYS = 16
MOST_NEAR = 8  # blocks of a cluster
PAIRED = 120  # blocks in clusters of two that run at once: a cluster lies within one GPC
TOGETHER = 96  # of three and more
LEAST_CHUNKS = 4  # of a way


@attrs.frozen
class Plan:
    """Choose the degrees of freedom of a schedule.

    Args:
        m, n: tile of a block; m is a multiple of 64, n of 8.
        consumers: warpgroups that compute.
        pingpong: each of two consumers owns a tile, and their main loops take turns; else they share one.
        swapped: compute the transpose of C, so that n, the finer width, runs along M.
        cluster: blocks along m and n that share their loads.
        panels: 128-byte panels of K in a chunk.
        stages: chunks in flight, 0 for as many as fit.
        group: tile rows that blocks at work together cover.
        ways: blocks that share each tile of C, each with a part of K.
        through: how their sums meet: in global memory, where the last block to end adds them; or in the shared memory
            of a cluster of at most 8 blocks, of which each finishes a part of the tile.
        dependent: begin while the launch before in the stream ends, and let the one behind begin early.
        stream: blocks take equal shares of all tiles' chunks of K.
        promote: sum each chunk of K on its own, and add the sums to others, with what prologs multiply by.
        early: load whole operands of ops before the products, where registers hold them.
        keep: the operand of the product as it is scheduled (behind swap(), if any) that the L2 cache is asked to keep,
            `evict_last`, while the other passes through it, `evict_first`; "" asks nothing.
        prefetch: chunks, a block's first ones, that the threads that compute ask the L2 cache for. Of 0 to 3, one was
            fastest with cold operands; the README has the times.

    Raises:
        FireironError: `plan-keep`.
    """

    m: int = 128
    n: int = 256
    consumers: int = 2
    pingpong: bool = False
    swapped: bool = False
    cluster: tuple[int, int] = (1, 1)
    panels: int = 1
    stages: int = 0
    group: int = 8
    ways: int = 1
    stream: bool = False
    through: Literal["memory", "cluster"] = "memory"
    dependent: bool = False
    promote: bool = False
    keep: Literal["", "left", "right"] = ""
    early: bool = False
    prefetch: int = 1

    def __attrs_post_init__(self) -> None:
        """Refuse operands that a product does not have: the others would pass without a word."""
        if self.keep not in ("", "left", "right"):
            raise FireironError(
                "plan-keep",
                f"Plan(keep={self.keep!r}): a product has a left and a right operand",
                fix='use keep="left" or keep="right", as they are behind swap(), or "" for no hints',
            )

    def hint(self, operand: Literal["left", "right"]) -> Literal["evict_first", "evict_last"] | None:
        """Give the hint with which an operand is loaded."""
        return None if not self.keep else "evict_last" if self.keep == operand else "evict_first"

    def shares(self, nbytes: int) -> int:
        """Count the blocks that finish a part of each tile: columns for whole rows of 32 bytes, 8 of a transpose."""
        if self.ways == 1 or self.through == "memory":
            return 1
        unit = 8 if self.swapped else max(8, LEAST_SPAN // nbytes)
        return max(s for s in range(1, self.ways + 1) if s == 1 or self.n % (s * unit) == 0)

    def panel(self, nbytes: int) -> tuple[int, int]:
        """Size the staging panels: one bulk store each."""
        n = self.n // self.shares(nbytes)
        if self.swapped:
            fits = (n // i for i in range(1, n + 1) if n % i == 0)
            width = next(width for width in fits if width <= WIDE and width % 8 == 0)
            return ROWS, width if width >= NARROW else n
        width = SPAN // nbytes
        if n % 32 == 0 or nbytes != 2:
            return ROWS, next(w for w in (width, width // 2, width // 4, n) if n % w == 0)
        # Plain rows. Two panels that meet within 32 bytes of a line write those twice: 3840 x 3840 x 256 took 18.9 us
        # in panels of 88, 16.9 of 176. Where a tile's own ends lie so, narrower panels leave room for chunks.
        if n % 16 == 0:
            return ROWS, n
        return ROWS, next((n // i for i in (1, 3, 5, 7) if n % i == 0 and NARROW <= n // i <= WIDE), n)

    def staging(self, nbytes: int, padded: bool = False) -> int:
        """Count the bytes through which the consumers store: swizzled panels, or padded ones for stores by vectors."""
        rows, width = self.panel(nbytes)
        if padded:
            lines, line = (width, rows) if self.swapped else (rows, width)
            return self.consumers * lines * (line * nbytes + PAD)
        return self.consumers * self.ring(nbytes) * rows * width * nbytes

    def ring(self, nbytes: int) -> int:
        """Count the staging slots of a consumer."""
        rows = self.m // ROWS // (1 if self.pingpong else self.consumers)
        width = self.panel(nbytes)[1]
        return 1 if width > WIDE else min(2, self.n // self.shares(nbytes) // width * rows)

    def depth(self, nbytes: int, out_nbytes: int, padded: bool = False, saved: int = 0, folded: int = 0) -> int:
        """Count the chunks that fit beside what the epilogue takes, or take the given number.

        Args:
            nbytes: of an element of A.
            out_nbytes: of one of C.
            padded: whether rows of what is staged are padded.
            saved: tensors that are stored beside C.
            folded: tensors of sums or maxima of rows, four threads' values of f32 for each.
        """
        chunk = (self.m + self.n) * SPAN * self.panels
        sums = 0 if self.ways == 1 or self.through == "memory" else self.m * self.n * 4 * (2 if self.pingpong else 1)
        taken = sums + (1 + saved) * self.staging(out_nbytes, padded) + folded * self.m * 16 * self.consumers
        return self.stages or min(MOST_STAGES, (SHARED - RESERVED - taken) // chunk)

    @property
    def held(self) -> int:
        """Count the registers of a thread that hold sums: those of a chunk too, or fragments of an A with a prolog."""
        rows = self.m // (1 if self.pingpong else self.consumers)
        return 2 * self.sums if self.promote else self.sums + rows * self.panels // 4

    @property
    def sums(self) -> int:
        """Count the registers of a thread that hold a tile's sums."""
        return self.m * self.n // 128 // (1 if self.pingpong else self.consumers)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Give the budgets of a thread that loads and of one that computes."""
        return {1: None, 2: (24, 240), 3: (32, 160)}[self.consumers]


def is_grouped(spec: MatMulChain) -> bool:
    """Say whether products share the rows of A and C."""
    return spec.matmul.groups is not None


def beside(spec: MatMulChain) -> tuple[bool, int, int]:
    """Say whether staged rows are padded, and count the tensors that are stored beside C: whole ones, those of rows."""
    ops = spec.matmul.ops
    return is_grouped(spec), sum(isinstance(op, Save) for op in ops), sum(isinstance(op, Rows) for op in ops)


def early(plan: Plan, spec: MatMulChain) -> tuple[Tensor, ...]:
    """List the operands of ops that a thread has registers to load before the products: those that lie as its sums do.

    That is for a plan to ask: a residual took 2 % less so at 2048 x 2048 x 2048, and 3 % more at 4096 x 4096 x 4096,
    where 64 loads stand before a thread's first product. A prefetch to the L2 cache gained no more.
    """
    prologs = any(operand.ops is not None for operand in spec.residual.operands[:2])
    if not plan.early or prologs or plan.promote or plan.ways > 1 or plan.stream:
        return ()
    order = ColMajor if plan.swapped else RowMajor
    found = tuple(t for t in spec.whole_operands if t.order is order and t.starts_lines_at(2 * t.dtype.nbytes))
    taken = plan.sums + sum(plan.sums * t.dtype.nbytes // 4 for t in found)
    return found if taken <= _room(plan, spec) else ()


def _room(plan: Plan, spec: MatMulChain) -> int:
    """Count the registers for sums and operands beside them: fewer where columns end within a tile."""
    cols = dict(spec.matmul.sizes)["M" if plan.swapped else "N"]
    whole = isinstance(cols, int) and cols % plan.n == 0 and not is_grouped(spec)
    return EARLY_OF_THREE if plan.consumers == 3 else EARLY if whole else EARLY_CUT


def plans(spec: MatMulChain) -> tuple[Plan, ...]:
    """List the plans that fit a product, the one that should be fastest first; none where wgmma does not take it."""
    if not takes(spec):
        return ()
    found = tuple(_candidates(spec))
    fit = tuple(plan for plan in found if _folds(plan, spec)) or found
    ranked = sorted((clocks(plan, spec), i, plan) for i, plan in enumerate(fit))
    return tuple(plan for _, _, plan in ranked)


def _folds(plan: Plan, spec: MatMulChain) -> bool:
    """Say whether tensors of rows have one column for each tile along N."""
    cols = size_of(dict(spec.matmul.sizes)["N"])
    wanted = {size_of(op.tensor.shape[-1]) for op in spec.matmul.ops if isinstance(op, Rows)}
    return wanted <= {-(-cols // plan.n)}


def _candidates(spec: MatMulChain) -> Iterator[Plan]:
    nbytes, out, promote = multiplied(spec).nbytes, spec.matmul.C.dtype.nbytes, is_scaled(spec)
    held = [operand.ops is not None and not promote for operand in spec.residual.operands[:2]]
    k_major = spec.matmul.A.order is RowMajor and spec.matmul.B.order is ColMajor
    step = 8 if nbytes == 2 and k_major else 64 if nbytes == 2 else 32
    # What has a prolog is A, behind swap() if need be.
    # Rows are folded cheaply where a few threads hold each: those of C, not of its transpose.
    # Scales of A's rows are few registers where a thread has few rows: those of C too.
    # Whole operands of ops are read by pairs of neighbours along a row of the tile: with those of C's transpose, apart.
    along = size_of(dict(spec.matmul.sizes)["M"]) >= 2 * ROWS and any(
        t.order is RowMajor and t.dtype.nbytes == 2 for t in spec.whole_operands
    )
    either = out == 2 and not beside(spec)[2] and not promote and not along
    orders = (held[1],) if any(held) else (False, True) if either else (False,)
    for swapped in orders:
        few = _few(swapped, spec)
        widths = set(range(step, 257, step))
        if k_major and nbytes == 2:
            widths.add(max(8, -(-few // 8) * 8))
        for m, consumers, turns in ((64, 1, False), (128, 2, False), (256, 2, False), (192, 3, False), (128, 2, True)):
            for n in sorted(widths):
                # Addresses take registers that else are accumulators', those of groups more of them.
                turn = 176 if is_grouped(spec) and swapped else 192
                most = 128 if m == 256 else 192 if m == 192 else turn if turns else 256
                if n > most or (not swapped and n % 32 and (out != 2 or is_grouped(spec))):
                    continue
                if any(held) and m == 192:
                    continue  # three warpgroups and a prolog took nearly twice what is counted: 319 us for 175
                for cluster, panels in (((1, 1), 1), ((2, 1), 1), ((1, 1), 2)):
                    # Clusters of tiles that groups cut short wait for each other: 9 % slower in 64 ragged groups.
                    if cluster != (1, 1) and (n % 16 or is_grouped(spec)):
                        continue
                    if panels > 1 and (m != ROWS or n > LIGHT or any(held) or promote):
                        continue
                    plan = _placed(Plan(m, n, consumers, turns, swapped, cluster, panels, promote=promote), spec)
                    if along and plan.sums * 3 // 2 > _room(plan, spec):
                        continue
                    if (any(held) or promote) and plan.held > (HELD if consumers < 3 else HELD // 2):
                        continue
                    if plan.depth(nbytes, out, *beside(spec)) >= 3:
                        yield from _shared_out(plan, spec)


def _placed(plan: Plan, spec: MatMulChain) -> Plan:
    """Choose the order of tiles, and what the L2 cache keeps where few tiles read an operand."""
    spread = _together if is_grouped(spec) else _unshared  # bands of many rows would reach into other groups
    plan = attrs.evolve(plan, group=min(GROUPS, key=lambda group: spread(plan, spec, group)))
    if is_grouped(spec) or spec.batch is not None:
        return plan
    high, wide = _tiles(plan, spec)
    left, right = (spec.right, spec.left) if plan.swapped else (spec.left, spec.right)
    few = FEW if high * wide * plan.cluster[0] * plan.cluster[1] <= SMS else 2
    for streamed, others, kept in ((left, wide, "right"), (right, high, "left")):
        if others <= few < max(high, wide) and _nbytes(streamed) in STREAMED:
            return attrs.evolve(plan, keep=kept)
    return plan


def _tiles(plan: Plan, spec: MatMulChain) -> tuple[int, int]:
    """Count tiles of clusters along the rows and the columns of the product as it is scheduled."""
    sizes = dict(spec.matmul.sizes)
    rows, cols = (size_of(sizes[dim]) for dim in ("MN" if not plan.swapped else "NM"))
    return -(-rows // (plan.m * plan.cluster[0])), -(-cols // (plan.n * plan.cluster[1]))


def _nbytes(tensor: Tensor) -> int:
    return math.prod(map(size_of, tensor.shape)) * tensor.dtype.bits // 8


def _together(plan: Plan, spec: MatMulChain, group: int) -> float:
    """Count the rows and columns of A and B that the SMs of a GPC ask for with each chunk, each once."""
    blocks = plan.cluster[0] * plan.cluster[1] * plan.ways
    each = min(plan.ways, GPC // (plan.cluster[0] * plan.cluster[1]))
    return _distinct(plan, spec, group, max(1, round(GPC / blocks)), max(1, SMS // blocks)) * each


def _unshared(plan: Plan, spec: MatMulChain, group: int) -> float:
    """Weigh those against the ones that all SMs ask for at once, which each wave reads anew."""
    at_once = max(1, SMS // (plan.cluster[0] * plan.cluster[1] * plan.ways))
    return _together(plan, spec, group) / 2 + _distinct(plan, spec, group, at_once, MOST_WAVES * at_once)


def _distinct(plan: Plan, spec: MatMulChain, group: int, window: int, count: int) -> float:
    high, wide = _spread(*_tiles(plan, spec), group, window, count)
    return high * plan.m * plan.cluster[0] + wide * plan.n * plan.cluster[1]


@cache
def _spread(high: int, wide: int, group: int, window: int, count: int) -> tuple[float, float]:
    """Count the rows and the columns of tiles among neighbours in the order of tiles, on average.

    Args:
        high, wide: tiles.
        group: rows of them that are taken together.
        window: neighbours.
        count: tiles at work at once.
    """
    count = min(count, high * wide)
    seen = [0, 0]
    for first in range(0, count, window):
        rows: set[int] = set()
        cols: set[int] = set()
        for item in range(first, min(count, first + window)):
            band, place = divmod(item, group * wide)
            here = min(group, high - band * group)
            rows.add(band * group + place % here)
            cols.add(place // here)
        seen[0] += len(rows)
        seen[1] += len(cols)
    return seen[0] * window / count, seen[1] * window / count


def _shared_out(plan: Plan, spec: MatMulChain) -> Iterator[Plan]:
    """Give a plan, and those that share out K too: by ways while all blocks run at once, by streams to fill waves."""
    yield plan
    tiles, chunks = _work(plan, spec)
    at_once = SMS // (plan.cluster[0] * plan.cluster[1]) * plan.cluster[0] * plan.cluster[1]
    if tiles % at_once and tiles * chunks >= at_once * LEAST_CHUNKS and not plan.pingpong and not is_grouped(spec):
        yield attrs.evolve(plan, stream=True)
    for ways in range(2, MOST_WAYS + 1):
        if tiles * ways <= SMS and chunks >= ways * LEAST_CHUNKS:
            yield attrs.evolve(plan, ways=ways)
            if tiles * ways <= (PAIRED if ways == 2 else TOGETHER) and _meet_near(plan, ways, chunks, spec):
                yield attrs.evolve(plan, ways=ways, through="cluster")


def _meet_near(plan: Plan, ways: int, chunks: int, spec: MatMulChain) -> bool:
    """Say whether the sums of so many blocks can meet in a cluster: each has some of K, and shared memory for them."""
    near = attrs.evolve(plan, ways=ways, through="cluster")
    nbytes, out = multiplied(spec).nbytes, spec.matmul.C.dtype.nbytes
    share = -(-chunks // ways)
    fits = near.depth(nbytes, out, *beside(spec)) >= 3
    return (
        ways <= MOST_NEAR and plan.cluster == (1, 1) and not is_grouped(spec) and share * (ways - 1) < chunks and fits
    )


def clocks(plan: Plan, spec: MatMulChain) -> float:
    """Estimate the clocks of a product; its constants were fitted to 36504 timings of 747 sizes on an H200.

    A chunk takes what its products take (m * n / 32 clocks for 128 bytes of K) and what its bytes for the SMs of a GPC
    take, or, where too few chunks are in flight, its share of the latency; a tile adds its store, unless another
    tile's products hide it.
    """
    sizes = dict(spec.matmul.sizes)
    rows, cols, depth, count = (size_of(sizes.get(dim, 1)) for dim in ("M", "N", "K", "batch"))
    nbytes, out = multiplied(spec).nbytes, spec.matmul.C.dtype.nbytes
    tiles, chunks = _work(plan, spec)
    blocks = plan.cluster[0] * plan.cluster[1]
    items, chunks = tiles * plan.ways, -(-chunks // plan.ways)
    at_once = SMS // blocks * blocks
    waves = items / at_once if plan.stream else -(-items // at_once)
    products = plan.m * max(plan.n / 32, (16 + plan.n / 4) / 16) * plan.panels
    missing = min(max(0.0, 128 * 256 / (plan.m * plan.n) - 1), MOST_MISSING)
    products *= 1 + SMALL_TILE * min(1, waves / LONG_RUN) * missing**SMALLER
    products *= ROWS_COST.get(plan.m, 1.0)
    alone = 1 if plan.pingpong else plan.consumers
    if plan.promote:  # a unit adds its sums behind its products, while the others' are running
        products = max(products, products / alone + plan.held / 2 + PROMOTION)
    elif any(operand.ops is not None for operand in spec.residual.operands[:2]):  # and applies prologs before them
        products = max(products, products / alone + FRAGMENTS * (1 + plan.m / alone / ROWS))
    asked = least = min(_together(plan, spec, group) for group in GROUPS)
    if waves <= FEW_WAVES:  # what a band asks for beside that is half hidden, in longer runs wholly
        asked = (least + _together(plan, spec, plan.group)) / 2
    asked *= SPAN * plan.panels / GPC_RATE
    waiting = LATENCY / (plan.depth(nbytes, out, *beside(spec)) - EMPTYING)
    chunk = max(products + asked, waiting, HANDLING + PANEL * plan.panels)
    rate = VECTORS_RATE if is_grouped(spec) else STORE_RATE
    parts = PARTS if plan.n * out % 32 and not plan.swapped else 1.0
    store, sums = plan.m * plan.n * out / rate * parts, plan.m * plan.n * 4 / SUMS_RATE
    if plan.through == "cluster":
        store += NEAR + plan.m * plan.n * 4 / NEAR_RATE
    elif plan.ways > 1:
        store += MEETING + (1 + plan.ways) * sums
    meeting = CLUSTER if blocks > 1 else 0.0
    if plan.stream:  # one sum is left, those of one tile are taken
        meeting += sums + -(-at_once // items) * (sums + HANDING) + (-(-items // at_once) - waves) * store
    torn = TORN if _torn(spec) else 1.0
    once = (rows * (1 if is_grouped(spec) else count) + cols * count) * depth * nbytes * torn
    sent = items * chunks * (plan.m / plan.cluster[1] + plan.n / plan.cluster[0]) * SPAN * plan.panels * torn
    arriving = once / DRAM_RATE + max(0, sent - once) / REPEATED_RATE
    meeting += OUTSIDE * _outside(plan, spec) * chunks * plan.ways * plan.panels / waves * min(1.0, missing)
    if plan.pingpong:
        main = waves * max(chunks * chunk, (chunks * chunk + store) / 2)
        return max(main, arriving) + store + meeting + TURNS
    return (max(waves * chunks * chunk, arriving) + waves * store + meeting) * (STREAM if plan.stream else 1)


def _outside(plan: Plan, spec: MatMulChain) -> int:
    """Count the rows and columns that tiles have outside of A and B, all tiles together."""
    if is_grouped(spec):
        return 0
    sizes = dict(spec.matmul.sizes)
    rows, cols = (size_of(sizes[dim]) for dim in ("MN" if not plan.swapped else "NM"))
    high, wide = _tiles(plan, spec)
    below, beyond = high * plan.m * plan.cluster[0] - rows, wide * plan.n * plan.cluster[1] - cols
    return (below * wide + beyond * high) * size_of(sizes.get("batch", 1))


def _torn(spec: MatMulChain) -> bool:
    """Say whether lines of an operand start between the multiples of 128 bytes: a row of a box is then two pieces."""
    return any(
        isinstance(stride, int) and stride != 1 and stride * tensor.dtype.nbytes % SPAN
        for tensor in (spec.left, spec.right)
        for stride in tensor.strides
    )


def _work(plan: Plan, spec: MatMulChain) -> tuple[int, int]:
    """Count the tiles of blocks and the chunks of K."""
    sizes = dict(spec.matmul.sizes)
    rows, cols, depth, count = (size_of(sizes.get(dim, 1)) for dim in ("M", "N", "K", "batch"))
    chunks = -(-depth * multiplied(spec).nbytes // (SPAN * plan.panels))
    high, wide = plan.m * plan.cluster[0], plan.n * plan.cluster[1]
    blocks = plan.cluster[0] * plan.cluster[1]
    if not is_grouped(spec):
        return math.prod(_tiles(plan, spec)) * count * blocks, chunks
    if plan.swapped:
        return -(-cols // high) * math.ceil(_ragged(rows, wide, count)) * blocks, chunks
    return math.ceil(_ragged(rows, high, count)) * -(-cols // wide) * blocks, chunks


def _ragged(rows: int, tile: int, groups: int) -> float:
    """Count the tiles that groups of so many rows in all take on average: the last one of each is half full."""
    return groups * max(1.0, rows / (groups * tile) + 0.5)


def is_scaled(spec: MatMulChain) -> bool:
    """Say whether prologs scale 8-bit floats by what holds for a chunk."""
    served = spec.served_along_k
    eight_bits = spec.matmul.A.dtype.name in EIGHT_BITS and spec.matmul.B.dtype.name in EIGHT_BITS
    return eight_bits and served is not None and served % SPAN == 0


def multiplied(spec: MatMulChain) -> DType:
    """Give the element type that products take: what a prolog leaves, unless sums are scaled in its place."""
    return spec.matmul.A.dtype if is_scaled(spec) else spec.left.dtype


def _few(swapped: bool, spec: MatMulChain) -> int:
    """Count the rows or columns along a plan's n, of groups those of one on average."""
    sizes = dict(spec.matmul.sizes)
    if not swapped:
        return size_of(sizes["N"])
    return -(-size_of(sizes["M"]) // (size_of(sizes["batch"]) if is_grouped(spec) else 1))


def size_of(extent: object) -> int:
    """Give an extent, 4096 for one that is known at run time alone."""
    return extent if isinstance(extent, int) else 4096


def takes(spec: MatMulChain) -> bool:
    """Say whether bulk copies and wgmma take a product as it is stored, and at most one operand with a prolog."""
    a, b, c = spec.matmul.A, spec.matmul.B, spec.matmul.C
    both = all(operand.ops is not None for operand in spec.residual.operands[:2]) and not is_scaled(spec)
    kind = multiplied(spec)
    if both or kind.name not in TYPES or any(t.dtype.packed for t in (a, b)):
        return False
    k_major = a.order is RowMajor and b.order is ColMajor
    if is_grouped(spec) and a.order is ColMajor:
        return False  # groups start anywhere along M, and boxes at multiples of 16 bytes of a line
    # Tensor maps mind by themselves where a line ends.
    return (k_major or kind.nbytes == 2) and all(t.starts_lines_at(MAP_UNIT) for t in (a, b, c))
