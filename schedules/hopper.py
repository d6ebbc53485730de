"""Schedules for Hopper: bulk copies by one role's warps, wgmma by the other's, tiles taken by persistent blocks.

The ideas are those that win on an H100 or H200: a whole chunk of K arrives by two instructions; products of 64 rows
and up to 256 columns follow each other without a gap; stores leave through swizzled panels while the next tile loads.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    Cluster,
    ColMajor,
    Grouped,
    MatMulChain,
    RowMajor,
    Strategy,
    Tensor,
    Warpgroup,
    conform,
    space,
    stmatrix,
    through_shared,
    tma,
    vector,
)
from fireiron import (
    stream_k as shares_of_k,
)
from fireiron.algebra.expr import as_expr
from fireiron.schedules import ada, ampere, simt

DTYPE = "bf16"  # of the command line's products where it says none
ROWS = 64  # of one wgmma
SPAN = 128  # bytes of a swizzled row
SHARED = 227 * 1024  # bytes of a block
RESERVED = 1024  # bytes kept for barriers
PAD = 16  # bytes behind each line of a padded panel
SMS = 132
MOST_STAGES = 16
MAP_UNIT = 16  # bytes by which tensor maps count strides
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8")  # that wgmma multiplies
CUDA_CORES = ("f32", "i32")  # that no tensor core does

# What `clocks` was fitted to.
LATENCY = 2700.0  # clocks from asking for a chunk to having it
STORE_RATE = 28.0  # bytes of C a clock
SMALL_TILE = 0.03  # of its products that a tile of 128x128 loses to power, in the long run
CLUSTER = 340.0  # clocks
DRAM_RATE = 2100.0  # bytes of A and B a clock, all SMs together
SM_RATE = 24.0  # of them, one SM
REPEATED_RATE = 32000.0  # bytes a clock that blocks are sent again, from the L2 cache, beside them
MEETING = 2000.0  # clocks in which blocks count in at a tile, and the last of them begins to add
HANDING = 1000.0  # clocks in which a block learns that another has left its sum
SUMS_RATE = 28.0  # bytes of partial sums a clock

MOST_WAYS = 16
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
        stream: blocks take equal shares of all tiles' chunks of K.
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

    def panel(self, nbytes: int) -> tuple[int, int]:
        """Size the staging panels: one bulk store each."""
        if self.swapped:
            fits = (self.n // i for i in range(1, self.n + 1) if self.n % i == 0)
            return ROWS, next(width for width in fits if width <= 128 and width % 8 == 0)
        width = SPAN // nbytes
        return ROWS, next(w for w in (width, width // 2, width // 4, self.n) if self.n % w == 0)

    def staging(self, nbytes: int, padded: bool = False) -> int:
        """Count the bytes through which the consumers store: swizzled panels, or padded ones for stores by vectors."""
        rows, width = self.panel(nbytes)
        if padded:
            lines, line = (width, rows) if self.swapped else (rows, width)
            return self.consumers * lines * (line * nbytes + PAD)
        return self.consumers * self.ring(nbytes) * rows * width * nbytes

    def ring(self, nbytes: int) -> int:
        """Count the staging slots of a consumer."""
        panels = self.n // self.panel(nbytes)[1] * (self.m // ROWS // (1 if self.pingpong else self.consumers))
        return min(2, panels)

    def depth(self, nbytes: int, out_nbytes: int, padded: bool = False) -> int:
        """Count the chunks that fit beside the staging buffers, or take the given number."""
        chunk = (self.m + self.n) * SPAN * self.panels
        return self.stages or min(MOST_STAGES, (SHARED - RESERVED - self.staging(out_nbytes, padded)) // chunk)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Give the budgets of a thread that loads and of one that computes; narrow products need none.

        ptxas ignores budgets where a product takes few registers, whatever the kernel takes in all.
        """
        if self.consumers == 1 or self.n < {2: 112, 3: 80}[self.consumers]:
            return None
        return {2: (24, 240), 3: (32, 160)}[self.consumers]


def cooperative(spec: MatMulChain, plan: Plan = Plan()) -> MatMulChain:
    """Schedule a product whose consumers share each tile.

    Element types f16 and bf16 in all layouts; tf32, e4m3, e5m2, i8 and u8 with K contiguous, layout TN.

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, attrs.evolve(plan, pingpong=False))


def pingpong(spec: MatMulChain, plan: Plan = Plan(n=192)) -> MatMulChain:
    """Schedule a product whose two consumers own tiles in turn: one stores under the other's math.

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, attrs.evolve(plan, pingpong=True, consumers=2))


def split_k(spec: MatMulChain, plan: Plan = Plan(ways=4)) -> MatMulChain:
    """Schedule a product of few tiles and a long K: blocks share each tile, and the last one to end adds their sums.

    The sums lie in a workspace, and are added in the order of K: the same bits in every run.

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, plan)


def stream_k(spec: MatMulChain, plan: Plan = Plan(stream=True)) -> MatMulChain:
    """Schedule a product whose tiles fill no whole number of waves: blocks take equal parts of all chunks (stream-K).

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, attrs.evolve(plan, stream=True, pingpong=False))


def skinny(spec: MatMulChain, plan: Plan | None = None) -> MatMulChain:
    """Schedule a product of few rows, which is bound by the bytes of its other operand, the weights.

    Operands are swapped: rows of weights fill the 64 of an instruction, and the few rows of A are its width. A deep
    ring of small chunks, and K cut where tiles are too few, keep every SM asking for weights.

    Args:
        plan: the degrees of freedom, None for the best of `plans` that are swapped.
    """
    if plan is None:
        plan = next(p for p in plans(spec) if p.swapped)
    return _gemm(spec, attrs.evolve(plan, swapped=True))


def _gemm(spec: MatMulChain, plan: Plan) -> MatMulChain:
    a, c = spec.matmul.A, spec.matmul.C
    m, n, k = plan.m, plan.n, SPAN // a.dtype.nbytes * plan.panels
    chain = spec.swap() if plan.swapped else spec
    rows, cols = plan.cluster
    share = shares_of_k(SMS // (rows * cols)) if plan.stream else None
    if plan.cluster == (1, 1):
        tiled = chain.tile(m, n, batch=spec.batch).to(Block).persistent(Grouped(plan.group), share)
    else:
        tiled = (
            chain.tile(rows * m, cols * n, batch=spec.batch)
            .to(Cluster)
            .persistent(Grouped(plan.group), share)
            .tile(m, n)
            .to(Block)
        )
    chain = tiled.epilog(memory=FR, store=_store(plan, chain))
    if plan.ways > 1:
        chain = chain.split(ways=plan.ways, multiple_of=k).parallel(Block)
    chain = (
        chain.split(k)
        .pipeline(plan.depth(a.dtype.nbytes, c.dtype.nbytes, spec.matmul.groups is not None), inflight=1)
        .specialize(producers=1, registers=plan.registers)
        .load(A, SH, tma(SPAN))
        .load(B, SH, tma(SPAN))
    )
    chain = (
        chain.tile(m, n).to(Warpgroup).staggered(2)
        if plan.pingpong
        else chain.tile(m // plan.consumers, n).to(Warpgroup)
    )
    if plan.panels > 1:
        chain = chain.split(SPAN // a.dtype.nbytes).unroll()
    chain = chain.split(32 // a.dtype.nbytes).unroll()
    rows = m if plan.pingpong else m // plan.consumers
    return (chain.tile(ROWS, n).unroll() if rows > ROWS else chain).done()


def _store(plan: Plan, spec: MatMulChain) -> Strategy:
    """Choose how C leaves: through panels in shared memory, by bulk stores.

    Those end where a tensor ends. Groups end before it: their rows are stored by vectors, each under a predicate.
    """
    stored = spec.matmul.C
    nbytes = stored.dtype.nbytes
    rows, width = plan.panel(nbytes)
    put = stmatrix(trans=stored.order is ColMajor) if nbytes == 2 else conform()
    if spec.matmul.groups is not None:
        return through_shared(put, vector(), panel=(rows, width), pad=PAD // nbytes, at=Warpgroup)
    contiguous = (rows if stored.order is ColMajor else width) * nbytes
    return through_shared(put, tma(min(SPAN, contiguous)), panel=(rows, width), at=Warpgroup, ring=plan.ring(nbytes))


def plans(spec: MatMulChain) -> tuple[Plan, ...]:
    """List the plans that fit a product, the one that should be fastest first."""
    ranked = sorted((clocks(plan, spec), i, plan) for i, plan in enumerate(_candidates(spec)))
    return tuple(plan for _, _, plan in ranked)


def _candidates(spec: MatMulChain) -> Iterator[Plan]:
    nbytes, out = spec.matmul.A.dtype.nbytes, spec.matmul.C.dtype.nbytes
    k_major = spec.matmul.A.order is RowMajor and spec.matmul.B.order is ColMajor
    grouped = spec.matmul.groups is not None
    step = 16 if nbytes == 2 and k_major else 64 if nbytes == 2 else 32
    for swapped in (False, True) if out == 2 else (False,):
        few = _work(Plan(swapped=swapped), spec)[1]
        widths = set(range(step, 257, step))
        if k_major and nbytes == 2 and not grouped:
            widths.add(max(8, -(-few // 8) * 8))
        for m, consumers, turns in ((64, 1, False), (128, 2, False), (256, 2, False), (192, 3, False), (128, 2, True)):
            for n in sorted(widths):
                # Groups' addresses take registers that bulk stores leave to accumulators.
                turn = 208 if not grouped else 176 if swapped else 192
                most = 128 if m == 256 else 192 if m == 192 else turn if turns else 256
                if n > most or (not swapped and n % 32):
                    continue
                for cluster in ((1, 1), (2, 1)):
                    if cluster != (1, 1) and n % 16:
                        continue
                    plan = Plan(m, n, consumers, turns, swapped, cluster)
                    if plan.depth(nbytes, out, grouped) >= 3:
                        yield from _shared_out(plan, spec)


def _shared_out(plan: Plan, spec: MatMulChain) -> Iterator[Plan]:
    """Give a plan, and those that share out K too: by ways while all blocks run at once, by streams to fill waves."""
    yield plan
    if spec.matmul.groups is not None:  # only the kernel knows how many tiles they have
        return
    tiles, _, chunks = _work(plan, spec)
    at_once = SMS // (plan.cluster[0] * plan.cluster[1]) * plan.cluster[0] * plan.cluster[1]
    if tiles % at_once and tiles * chunks >= at_once * LEAST_CHUNKS and not plan.pingpong:
        yield attrs.evolve(plan, stream=True)
    for ways in range(2, MOST_WAYS + 1):
        if tiles * ways <= SMS and chunks >= ways * LEAST_CHUNKS:
            yield attrs.evolve(plan, ways=ways)


def clocks(plan: Plan, spec: MatMulChain) -> float:
    """Estimate the clocks of a product on an H100 or H200; its constants were fitted to 800 timings of 31 sizes.

    A chunk takes what its products take (m * n / 32 clocks for 128 bytes of K), or, where too few chunks are in
    flight, its share of the latency; a tile adds its store, unless another tile's products hide it.
    """
    rows, cols, depth, count = _sizes(plan, spec)
    nbytes, out = spec.matmul.A.dtype.nbytes, spec.matmul.C.dtype.nbytes
    tiles, _, chunks = _work(plan, spec)
    blocks = plan.cluster[0] * plan.cluster[1]
    items, chunks = tiles * plan.ways, -(-chunks // plan.ways)
    at_once = SMS // blocks * blocks
    waves = items / at_once if plan.stream else -(-items // at_once)
    math = _busy(plan, spec) * plan.m * max(plan.n / 32, (16 + plan.n / 4) / 16) * plan.panels
    math *= 1 + SMALL_TILE * min(1, waves / 8) * (128 * 256 / (plan.m * plan.n) - 1)
    chunk = max(math, LATENCY / plan.depth(nbytes, out, spec.matmul.groups is not None))
    store, sums = plan.m * plan.n * out / STORE_RATE, plan.m * plan.n * 4 / SUMS_RATE
    if plan.ways > 1:
        store += MEETING + (1 + plan.ways) * sums
    meeting = CLUSTER if blocks > 1 else 0.0
    if plan.stream:  # one sum is left, those of one tile are taken
        meeting += sums + -(-at_once // items) * (sums + HANDING) + (-(-items // at_once) - waves) * store
    shared, own = (0, rows + cols) if spec.matmul.groups is None else (cols, rows) if plan.swapped else (rows, cols)
    once = (shared + own * count) * depth * nbytes
    sent = items * chunks * (plan.m / plan.cluster[1] + plan.n / plan.cluster[0]) * SPAN * plan.panels
    busy = at_once if plan.stream else min(items, at_once)
    arriving = once / min(DRAM_RATE, SM_RATE * busy) + max(0, sent - once) / REPEATED_RATE
    if plan.pingpong:
        main = waves * max(chunks * chunk, (chunks * chunk + store) / 2)
        return max(main, arriving) + store + meeting
    return max(waves * chunks * chunk, arriving) + waves * store + meeting


def _sizes(plan: Plan, spec: MatMulChain) -> tuple[int, int, int, int]:
    """Give the extents along the plan's m and n and along K, and the number of batches or groups."""
    sizes = dict(spec.matmul.sizes)
    rows, cols, depth, count = (_size(sizes.get(dim, 1)) for dim in ("M", "N", "K", "batch"))
    return (cols, rows, depth, count) if plan.swapped else (rows, cols, depth, count)


def _work(plan: Plan, spec: MatMulChain) -> tuple[float, int, int]:
    """Count the tiles of blocks, the rows or columns along the plan's n, and the chunks of K."""
    rows, cols, depth, count = _sizes(plan, spec)
    chunks = -(-depth * spec.matmul.A.dtype.nbytes // (SPAN * plan.panels))
    high, wide = plan.m * plan.cluster[0], plan.n * plan.cluster[1]
    if spec.matmul.groups is None:
        tiles = -(-rows // high) * -(-cols // wide) * count
    elif plan.swapped:
        tiles = -(-rows // high) * _ragged(cols, wide, count)
    else:
        tiles = _ragged(rows, high, count) * -(-cols // wide)
    return tiles * plan.cluster[0] * plan.cluster[1], cols, chunks


def _busy(plan: Plan, spec: MatMulChain) -> float:
    """Give the share of warpgroups that have rows of their group: the others leave the tensor cores to these."""
    if spec.matmul.groups is None or plan.swapped or plan.pingpong:
        return 1.0
    rows, _, _, count = _sizes(plan, spec)
    high, unit = plan.m * plan.cluster[0], plan.m // plan.consumers
    return _ragged(rows, unit, count) * unit / (_ragged(rows, high, count) * high)


def _ragged(rows: int, tile: int, groups: int) -> float:
    """Count the tiles that groups of so many rows in all take on average: the last one of each is half full."""
    return groups * max(1.0, rows / (groups * tile) + 0.5)


def _size(extent: object) -> int:
    return extent if isinstance(extent, int) else 4096


@space("sm_90", plan=plans)
def gemm(spec: MatMulChain, plan: Plan | None = None) -> MatMulChain:
    """Schedule a product as the model finds fastest for its sizes.

    Batches and groups are counted through by the same persistent blocks.

    What wgmma or tensor maps do not take goes by `ampere.gemm` and its kin, as `check()` says: lines that do not start
    at multiples of 16 bytes; K that is not contiguous, of elements that are not 16-bit; other element types.

    Args:
        plan: the degrees of freedom, None for the best of `plans`.
    """
    if not _takes(spec):
        kind = spec.matmul.A.dtype.name
        return (simt.sgemm if kind in CUDA_CORES else ada.gemm if kind in ("e4m3", "e5m2") else ampere.gemm)(spec)
    if plan is None:
        plan = plans(spec)[0]
    return _gemm(spec, plan)


def _takes(spec: MatMulChain) -> bool:
    """Say whether bulk copies and wgmma take a product as it is stored."""
    a, b, c = spec.matmul.A, spec.matmul.B, spec.matmul.C
    if a.dtype.name not in TYPES:
        return False
    k_major = a.order is RowMajor and b.order is ColMajor
    return (k_major or a.dtype.nbytes == 2) and all(_strides_fit(t) for t in (a, b, c))


def _strides_fit(tensor: Tensor) -> bool:
    """Say whether lines start where tensor maps want them; these mind by themselves where a line ends."""
    return all(as_expr(s).divisor * tensor.dtype.nbytes % MAP_UNIT == 0 for s in tensor.strides if s != 1)
