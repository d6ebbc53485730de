"""Schedules for Hopper: one role of warps issues bulk copies, the other wgmma; persistent blocks loop over tiles.

Two instructions load a whole chunk of K; products of 64 rows and up to 256 columns follow each other without a gap;
results are stored through swizzled panels while the next tile is loaded.
"""

from __future__ import annotations

import attrs

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    Cluster,
    ColMajor,
    DType,
    Grouped,
    MatMulChain,
    MoveChain,
    Role,
    RowMajor,
    Schedule,
    Strategy,
    Swizzle,
    Warp,
    Warpgroup,
    by_cluster,
    conform,
    in_order,
    preset,
    space,
    staged,
    through_shared,
    tma,
    vector,
)
from fireiron import (
    stream_k as shares_of_k,
)
from fireiron.schedules import ada, ampere, simt
from fireiron.schedules._clocks import clocks
from fireiron.schedules._plan import (
    PAD,
    ROWS,
    SMS,
    SPAN,
    Plan,
    arrivals,
    copied,
    early,
    oriented,
    span_beside,
    span_within,
)
from fireiron.schedules._plans import plans
from fireiron.schedules._product import EIGHT_BITS, Product
from fireiron.schedules._stores import bulk, into_panel

__all__ = [
    "Plan", "clocks", "cooperative", "gemm", "pingpong", "plans", "scaled_gemm", "skinny", "split_k", "stream_k",
]  # fmt: skip

DTYPE, SHAPE = "bf16", (256, 256, 512)  # default element type on the command line
CUDA_CORES = ("f32", "i32")  # that no tensor core does


@preset
def cooperative(spec: MatMulChain, plan: Plan = Plan()) -> Schedule:
    """Schedule a product whose consumers share each tile.

    Element types are f16, bf16, tf32, e4m3, e5m2, i8 and u8, in all layouts. An operand whose K is not contiguous, and
    whose elements are not 16-bit, is transposed: `Plan.transposed` says how.

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, attrs.evolve(plan, pingpong=False))


@preset
def pingpong(spec: MatMulChain, plan: Plan = Plan(n=192)) -> Schedule:
    """Schedule a product whose two consumer warpgroups take tiles in turn: one stores while the other multiplies.

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, attrs.evolve(plan, pingpong=True, consumers=2))


@preset
def split_k(spec: MatMulChain, plan: Plan = Plan(ways=4)) -> Schedule:
    """Schedule a product of few tiles and a long K: several blocks share each tile, and their sums are added.

    The sums go through a workspace in global memory, or a cluster's shared memory, and are always added in the same
    order, so that results are the same in every run.

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, plan)


@preset
def stream_k(spec: MatMulChain, plan: Plan = Plan(stream=True)) -> Schedule:
    """Schedule a product whose tiles fill waves badly: blocks take equal shares of all tiles' K chunks (stream-K).

    Args:
        plan: the degrees of freedom.
    """
    return _gemm(spec, attrs.evolve(plan, stream=True, pingpong=False))


@preset
def scaled_gemm(spec: MatMulChain, plan: Plan = Plan(n=128, promote=True)) -> Schedule:
    """Schedule a product whose prologs scale blocks of operands: each chunk's sum is scaled, and added to the total.

    Operands of 8-bit floats are loaded unscaled, and each chunk's sum is added in f32. Also without scales this keeps
    bits that tensor cores lose in long sums of 8-bit floats.

    Args:
        plan: the degrees of freedom; a thread holds two sets of accumulators.

    Source: DeepSeek-V3 technical report, 3.3.2: scales of 1x128 and 128x128 elements, sums promoted every 128 of K.
    """
    return _gemm(spec, attrs.evolve(plan, promote=True))


@preset
def skinny(spec: MatMulChain, plan: Plan | None = None) -> Schedule:
    """Schedule a product of few rows, which takes as long as the loads of its weights.

    Operands are swapped: the weights give the 64 rows of an instruction, and the few rows of A its columns. A ring of
    many small chunks, and a division of K among blocks if tiles are few, let every SM load weights all the time.

    Args:
        plan: the degrees of freedom; None for the first of `plans` that is swapped.
    """
    if plan is None:
        plan = next((p for p in plans(spec) if p.swapped), Plan(64, 64, 1))
    return _gemm(spec, attrs.evolve(plan, swapped=True))


def _gemm(spec: MatMulChain, plan: Plan) -> Schedule:
    c, product = spec.matmul.C, Product(spec)
    plan = oriented(attrs.evolve(plan, promote=plan.promote or product.scaled), product)
    chain = spec.swap() if plan.swapped else spec
    left, right = chain.residual.operands[:2]
    kind = left.dtype if plan.promote else left.computed
    first, second = arrivals(plan, product)
    held, copying = first == "registers", "threads" in (first, second)
    plan = attrs.evolve(plan, panels=1) if held or copying else plan
    m, n, k = plan.fits().m, plan.n, SPAN // kind.nbytes * plan.panels
    rows, cols = plan.cluster
    share = shares_of_k(SMS // (rows * cols)) if plan.stream else None
    alone = plan.cluster == (1, 1)
    tiled = chain.tile(rows * m, cols * n, batch=spec.batch).to(Block if alone else Cluster)
    at_once = plan.ways > 1 and plan.through == "grid"
    tiled = tiled if at_once else tiled.persistent(Grouped(plan.group), share)
    tiled = tiled.dependent() if plan.dependent else tiled
    tiled = tiled if alone else tiled.tile(m, n).to(Block)
    loaded = copied(plan, product)
    chain = tiled.epilog(
        memory=FR,
        store=_store(plan, chain),
        early=early(plan, product),
        addends=plan.addends,
        load={tensor: tma(span_beside(plan, tensor)) for tensor in loaded},
        slots=plan.copied if loaded else 1,
    )
    if plan.ways > 1:
        reduce = by_cluster(plan.shares(c.dtype.nbytes)) if plan.through == "cluster" else in_order(shared=at_once)
        chain = chain.split(ways=plan.ways, multiple_of=k).parallel(Block, reduce=reduce)
    chunks = chain.split(k).promote() if plan.promote else chain.split(k)
    waits = held or plan.promote
    prefetch = 0 if product.grouped or copying else plan.prefetch
    deep = plan.depth(product, sum(t.dtype.nbytes for t in loaded))
    chunks = chunks.pipeline(deep, inflight=0 if waits else 1)
    chain = chunks.specialize(producers=1, registers=plan.registers(copying), prefetch=prefetch)
    lines = left.tensor.order is RowMajor, right.tensor.order is ColMajor  # whether K is contiguous
    spans = [
        SPAN if along_k or kind.nbytes != 2 else span_within(width * kind.nbytes)
        for along_k, width in zip(lines, (m, n), strict=True)
    ]
    span = min(spans[0], k * left.dtype.nbytes) if held else spans[0]
    chain = _turned(chain, A, kind) if first == "threads" else chain.load(A, SH, tma(span, l2=plan.hint("left")))
    chain = _turned(chain, B, kind) if second == "threads" else chain.load(B, SH, tma(spans[1], l2=plan.hint("right")))
    chain = (
        chain.tile(m, n).to(Warpgroup).staggered(2)
        if plan.pingpong
        else chain.tile(m // plan.consumers, n).to(Warpgroup)
    )
    step = 32 // kind.nbytes
    lies_along = kind.nbytes < 4 or left.tensor.order is RowMajor
    fragments = _fragments(step) if lies_along and left.dtype == kind else conform()
    if plan.panels > 1:
        chain = chain.split(SPAN // kind.nbytes).unroll()
    chain = chain.split(step).unroll()
    if held:  # products read a chunk's fragments while they run: each step has registers of its own
        chain = chain.pipeline(k // step).load(A, FR, fragments)
    rows = m if plan.pingpong else m // plan.consumers
    return (chain.tile(ROWS, n).unroll() if rows > ROWS else chain).done()


def _turned(chain: MatMulChain, role: Role, kind: DType) -> MatMulChain:
    """Load an operand whose K is not contiguous; threads transpose it to the layout that bulk copies give to others."""
    stored = chain.residual.operands[0 if role is A else 1].tensor
    copy = staged(along="K", across=4 if kind.nbytes == 1 and stored.aligned(4) else None)
    lines = RowMajor if role is A else ColMajor
    loaded = chain.load(role, SH, copy).storage_layout(lines)
    return loaded.swizzle(Swizzle(3, kind.count_in(16).bit_length() - 1, 3))


def _fragments(step: int) -> Strategy:
    """Load a warpgroup's rows from shared memory by ldmatrix: 16 rows of 32 bytes of K for each warp.

    Args:
        step: number of elements of K.
    """

    def strategy(move: MoveChain) -> Schedule:
        return move.tile(ROWS, step).unroll().tile(16, step).to(Warp).unroll().done()

    return strategy


def _store(plan: Plan, spec: MatMulChain) -> Strategy:
    """Choose how C is stored: by bulk stores, which skip rows and columns outside the tensor.

    With groups, a tile may hold rows of the next group, and lines of C may start where bulk stores take none; threads
    then store rows by vectors, under predicates.
    """
    stored = spec.matmul.C
    if not Product(spec).by_vectors:
        return bulk(plan, stored)
    nbytes = stored.dtype.nbytes
    return through_shared(into_panel(stored), vector(), plan.panel(nbytes), pad=PAD // nbytes, at=Warpgroup)


@preset
@space("sm_90", plan=plans)
def gemm(spec: MatMulChain, plan: Plan | None = None) -> Schedule:
    """Schedule a product by the plan that the model finds fastest for its sizes.

    Persistent blocks loop over the products of batches and groups. Products that wgmma or tensor maps cannot compute
    are scheduled by `ampere.gemm`, `ada.gemm` or `simt.sgemm`: those with lines of A or B that do not start at
    multiples of 16 bytes, with other element types, with prologs of both operands, or with a prolog of 8-bit elements
    whose K is not contiguous. `check()` reports `slower-path` where another type or layout would be faster. Threads
    store C where its lines start elsewhere. An operand with a prolog, or of tf32 with K not contiguous, is read from
    registers, as A, for which the product may be swapped. Threads transpose other operands whose K is not contiguous,
    unless elements are 16-bit. Prologs that scale 8-bit floats by blocks scale sums, as in `scaled_gemm`. For folds of
    rows, tiles along N are as many as the folds' tensor has columns.

    Args:
        plan: the degrees of freedom; None for the first of `plans`.
    """
    if not Product(spec).taken:
        kind = spec.left.dtype.name
        return (simt.sgemm if kind in CUDA_CORES else ada.gemm if kind in EIGHT_BITS else ampere.gemm)(spec)
    if plan is None:
        plan = plans(spec)[0]
    return _gemm(spec, plan)
