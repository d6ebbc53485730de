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
    Tensor,
    Warpgroup,
    conform,
    stmatrix,
    through_shared,
    tma,
)
from fireiron.schedules import ampere

ROWS = 64  # of one wgmma
SPAN = 128  # bytes of a swizzled row
SHARED = 227 * 1024  # bytes of a block
RESERVED = 1024  # bytes kept for barriers
SMS = 132
MOST_STAGES = 16

# What `clocks` was fitted to.
LATENCY = 2700.0  # clocks from asking for a chunk to having it
STORE_RATE = 28.0  # bytes of C a clock
SMALL_TILE = 0.03  # of its products that a tile of 128x128 loses to power, in the long run
CLUSTER = 340.0  # clocks


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

    def panel(self, nbytes: int) -> tuple[int, int]:
        """Size the staging panels: one bulk store each."""
        if self.swapped:
            return ROWS, next(self.n // i for i in range(1, self.n) if self.n % i == 0 and self.n // i <= 128)
        width = SPAN // nbytes
        return ROWS, next(w for w in (width, width // 2, width // 4, self.n) if self.n % w == 0)

    def staging(self, nbytes: int) -> int:
        """Count the bytes through which the consumers store."""
        rows, width = self.panel(nbytes)
        return self.consumers * self.ring(nbytes) * rows * width * nbytes

    def ring(self, nbytes: int) -> int:
        """Count the staging slots of a consumer."""
        panels = self.n // self.panel(nbytes)[1] * (self.m // ROWS // (1 if self.pingpong else self.consumers))
        return min(2, panels)

    def depth(self, nbytes: int, out_nbytes: int) -> int:
        """Count the chunks that fit beside the staging buffers, or take the given number."""
        chunk = (self.m + self.n) * SPAN * self.panels
        return self.stages or min(MOST_STAGES, (SHARED - RESERVED - self.staging(out_nbytes)) // chunk)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Give the budgets of a thread that loads and of one that computes."""
        return {1: None, 2: (24, 240), 3: (32, 160)}[self.consumers]


def cooperative(spec: MatMulChain, plan: Plan = Plan()) -> MatMulChain:
    """Schedule a product whose consumers share each tile.

    Element types f16 and bf16 in all layouts, i8 and u8 with K contiguous.

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


def _gemm(spec: MatMulChain, plan: Plan) -> MatMulChain:
    a, c = spec.matmul.A, spec.matmul.C
    m, n, k = plan.m, plan.n, SPAN // a.dtype.nbytes * plan.panels
    chain = spec.swap() if plan.swapped else spec
    if plan.cluster == (1, 1):
        tiled = chain.tile(m, n).to(Block).persistent(Grouped(plan.group))
    else:
        rows, cols = plan.cluster
        tiled = chain.tile(rows * m, cols * n).to(Cluster).persistent(Grouped(plan.group)).tile(m, n).to(Block)
    chain = (
        tiled.epilog(memory=FR, store=_store(plan, c, chain.matmul.C))
        .split(k)
        .pipeline(plan.depth(a.dtype.nbytes, c.dtype.nbytes), inflight=1)
        .specialize(producers=1, registers=plan.registers)
        .load(A, SH, tma(SPAN))
        .load(B, SH, tma(SPAN))
    )
    chain = (
        chain.tile(m, n).to(Warpgroup).staggered(2)
        if plan.pingpong
        else chain.tile(m // plan.consumers, n).to(Warpgroup)
    )
    chain = chain.split(32 // a.dtype.nbytes).unroll()
    rows = m if plan.pingpong else m // plan.consumers
    return (chain.tile(ROWS, n).unroll() if rows > ROWS else chain).done()


def _store(plan: Plan, given: Tensor, stored: Tensor):
    """Choose how C leaves: through panels in shared memory, by bulk stores."""
    nbytes = given.dtype.nbytes
    rows, width = plan.panel(nbytes)
    put = stmatrix(trans=stored.order is ColMajor) if nbytes == 2 else conform()
    contiguous = (rows if stored.order is ColMajor else width) * nbytes
    return through_shared(put, tma(min(SPAN, contiguous)), panel=(rows, width), at=Warpgroup, ring=plan.ring(nbytes))


def gemm(spec: MatMulChain, plan: Plan | None = None) -> MatMulChain:
    """Schedule a product as the model finds fastest for its sizes.

    Operands whose lines do not start at multiples of 16 bytes, which tensor maps demand, take `ampere.gemm`.

    Args:
        plan: the degrees of freedom, None for the best of `plans`.
    """
    tensors = (spec.matmul.A, spec.matmul.B, spec.matmul.C)
    if not all(tensor.aligned(16 // tensor.dtype.nbytes) for tensor in tensors):
        return ampere.gemm(spec)
    if plan is None:
        plan = plans(spec)[0]
    return _gemm(spec, plan)


def plans(spec: MatMulChain) -> tuple[Plan, ...]:
    """List the plans that fit a product, the one that should be fastest first."""
    ranked = sorted((clocks(plan, spec), i, plan) for i, plan in enumerate(_candidates(spec)))
    return tuple(plan for _, _, plan in ranked)


def _candidates(spec: MatMulChain) -> Iterator[Plan]:
    nbytes, out = spec.matmul.A.dtype.nbytes, spec.matmul.C.dtype.nbytes
    k_major = spec.matmul.A.order is RowMajor and spec.matmul.B.order is ColMajor
    step = 16 if nbytes == 2 and k_major else 64 if nbytes == 2 else 32
    for swapped in (False, True) if out == 2 else (False,):
        for m, consumers, turns in ((64, 1, False), (128, 2, False), (256, 2, False), (192, 3, False), (128, 2, True)):
            for n in range(step, 257, step):
                most = 128 if m == 256 else 192 if m == 192 else 208 if turns else 256
                if n > most or (not swapped and n % 32):
                    continue
                for cluster in ((1, 1), (2, 1)):
                    if cluster != (1, 1) and n % 16:
                        continue
                    plan = Plan(m, n, consumers, turns, swapped, cluster)
                    if plan.depth(nbytes, out) >= 3:
                        yield plan


def clocks(plan: Plan, spec: MatMulChain) -> float:
    """Estimate the clocks of a product on an H100 or H200; its constants were fitted to 800 timings of 31 sizes.

    A chunk takes what its products take (m * n / 32 clocks for 128 bytes of K), or, where too few chunks are in
    flight, its share of the latency; a tile adds its store, unless another tile's products hide it.
    """
    sizes = dict(spec.matmul.sizes)
    rows, cols, depth = (_size(sizes[dim]) for dim in ("M", "N", "K"))
    if plan.swapped:
        rows, cols = cols, rows
    nbytes, out = spec.matmul.A.dtype.nbytes, spec.matmul.C.dtype.nbytes
    chunks = -(-depth * nbytes // (SPAN * plan.panels))
    blocks = plan.cluster[0] * plan.cluster[1]
    tiles = -(-rows // (plan.m * plan.cluster[0])) * -(-cols // (plan.n * plan.cluster[1])) * blocks
    waves = -(-tiles // (SMS // blocks * blocks))
    math = plan.m * max(plan.n / 32, (16 + plan.n / 4) / 16) * plan.panels
    math *= 1 + SMALL_TILE * min(1, waves / 8) * (128 * 256 / (plan.m * plan.n) - 1)
    chunk = max(math, LATENCY / plan.depth(nbytes, out))
    store = plan.m * plan.n * out / STORE_RATE
    if plan.pingpong:
        return waves * max(chunks * chunk, (chunks * chunk + store) / 2) + store + (CLUSTER if blocks > 1 else 0)
    return waves * (chunks * chunk + store) + (CLUSTER if blocks > 1 else 0)


def _size(extent: object) -> int:
    return extent if isinstance(extent, int) else 4096
