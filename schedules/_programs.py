"""Shared by the presets of fused programs: schedules of several products, and of layers, for each path.

Several products have an accumulator each in a block's registers. Layers keep activations in registers: the rounded
accumulators of one layer are the fragments of the next.
"""

from __future__ import annotations

from typing import Literal, cast

import attrs

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    Cluster,
    ColMajor,
    FireironError,
    Grouped,
    LayerChain,
    LayersChain,
    ProductsChain,
    QuadPair,
    RowMajor,
    Schedule,
    Strategy,
    Strided,
    Swizzle,
    Tensor,
    Thread,
    Warp,
    Warpgroup,
    by_cluster,
    conform,
    cp_async,
    f16,
    in_order,
    ldmatrix,
    matmul,
    staged,
    stmatrix,
    through_shared,
    tma,
)
from fireiron.schedules._plan import MOST_STAGES, ROWS, SMS, SPAN, Plan
from fireiron.schedules._plans import plans
from fireiron.schedules._product import size_of
from fireiron.schedules._quad_pairs import store
from fireiron.schedules._stores import bulk

Path = Literal["auto", "simt", "volta", "turing", "ampere", "hopper"]
LayersPath = Literal["auto", "simt", "ampere", "hopper"]
SHARED = 226 * 1024  # bytes of a block on Hopper, less those of barriers
COLUMNS = 256  # most columns of all accumulators of a block together
HELD = 128  # most registers for the sums of several products, so that some are left to combine the sums
VOLTA_COLUMNS = 128  # the same for a block of 64 rows and four warps: 64 registers of a thread
GUARDS = 8  # registers that guards of the last columns take: without them lstm_cell of 264 columns spilled
CHUNK = 32  # elements of K in a chunk for mma.sync: 64 bytes


def schedule(program: ProductsChain, path: Path = "auto") -> Schedule:
    """Schedule several products of one shape.

    Args:
        program: the products.
        path: `simt` takes all types, `volta` and `turing` f16, `ampere` and `hopper` f16 and bf16. `auto` chooses
            `hopper` for 16-bit operands whose lines start at multiples of 16 bytes, unless the spec names an older
            architecture, or the tiles of its loops differ in layout and so cannot share a ring.
    """
    if path == "auto":
        path = _newest(program.program.arch, (*_operands(program), *program.products.outs))
        if path == "hopper":
            try:
                return hopper(program)
            except FireironError as error:
                if error.code != "role-ring":
                    raise
            path = "ampere"
    return {"simt": simt, "volta": volta, "turing": turing, "ampere": ampere, "hopper": hopper}[path](program)


def _newest(arch: str | None, tensors: tuple[Tensor, ...]) -> Literal["simt", "volta", "turing", "ampere", "hopper"]:
    """Choose the newest path for an architecture that takes the tensors."""
    if any(tensor.dtype.bits != 16 for tensor in tensors[:2]):
        return "simt"
    number = 90 if arch is None else int("".join(c for c in arch if c.isdigit()))
    if number < 80:
        newest = "turing" if number >= 75 else "volta"
        return newest if all(tensor.dtype == f16 for tensor in tensors[:2]) else "simt"
    aligned = all(t.aligned(16 // t.dtype.nbytes) for t in tensors)
    return "hopper" if number // 10 == 9 and aligned else "ampere"


def _operands(program: ProductsChain) -> tuple[Tensor, ...]:
    return (*program.products.lefts, *program.products.rights)


def _columns(program: ProductsChain, most: int) -> int:
    """Return the columns of each accumulator, a power of two, so that registers hold all accumulators."""
    sums = len(program.products.sums)
    return max(16, 1 << ((most // sums).bit_length() - 1))


def simt(program: ProductsChain) -> Schedule:
    """Schedule several products for CUDA cores: tiles of 64 rows, one chunk of K at a time in registers.

    Args:
        program: the products, of any element type that CUDA cores multiply.
    """
    n = _columns(program, 64)
    chain: ProductsChain = program.tile(64, n, batch=program.batch).to(Block).epilog(memory=RF).split(16)
    for tensor in _operands(program):
        chain = chain.load(tensor, SH, staged())
    chain = chain.tile(32, n // 2).to(Warp).tile(4, n // 16).to(Thread).split(1).unroll()
    for tensor in _operands(program):
        chain = chain.load(tensor, RF)
    return chain.tile(1, 1).unroll().done()


def volta(program: ProductsChain) -> Schedule:
    """Schedule several products for the quad-pairs of sm_70: tiles of 64 rows, four warps, copies through registers.

    Args:
        program: the products, of f16, in all layouts.
    """
    n = _columns(program, VOLTA_COLUMNS)
    put = store(32, n, program.products.outs[0].dtype, program.products.accumulator)
    chain: ProductsChain = (
        program.tile(64, n, batch=program.batch).to(Block).epilog(memory=FR, store=put).split(CHUNK).pipeline(2)
    )
    lefts, rights = program.products.lefts, program.products.rights
    for tensor in (*lefts, *rights):
        chain = _to_shared(chain, tensor, left=tensor in lefts, lines=64 if tensor in lefts else n, apart=True)
    chain = chain.tile(32, n // 2).to(Warp).split(8).unroll()
    for tensor in (*lefts, *rights):
        chain = chain.load(tensor, FR, conform())
    # Four rows of every eight: the quad-pairs of a warp then read different banks.
    pairs = chain.tile(16, 16).unroll().tile(Strided((4, 8), (4, 8))).to(QuadPair).layout(ColMajor)
    return pairs.split(4).unroll().done()


def turing(program: ProductsChain) -> Schedule:
    """Schedule several products for sm_75 as `ampere` does, by copies through registers and mma.sync of half the K.

    Args:
        program: the products, of f16, in all layouts.
    """
    return ampere(program, stages=2, slots=1, depth=8, apart=True)


def ampere(
    program: ProductsChain, m: int = 128, stages: int = 4, slots: int = 2, depth: int = 16, apart: bool = False
) -> Schedule:
    """Schedule several products for tensor cores by mma.sync: sm_80 and every later architecture.

    Args:
        program: the products, of f16 or bf16, in all layouts.
        m: rows of a block's tile, a power of two; a warp takes 64 rows, or all.
        stages: number of ring slots of the shared buffers.
        slots: number of slots of fragments, which are loaded during the products of the step before.
        depth: K of an instruction.
        apart: whether copies go through registers, where there are no asynchronous ones.
    """
    n = _columns(program, COLUMNS)
    chain: ProductsChain = (
        program.tile(m, n, batch=program.batch).to(Block).layout(Grouped(8)).epilog(memory=FR)
        .split(CHUNK).pipeline(stages)
    )  # fmt: skip
    lefts, rights = program.products.lefts, program.products.rights
    for tensor in (*lefts, *rights):
        chain = _to_shared(chain, tensor, left=tensor in lefts, lines=m if tensor in lefts else n, apart=apart)
    chain = chain.tile(min(m, 64), max(16, n // 4)).to(Warp).split(16).unroll().pipeline(slots)
    for tensor in (*lefts, *rights):
        chain = chain.load(tensor, FR, ldmatrix())
    chain = chain.tile(16, 8).unroll()
    return (chain if depth == 16 else chain.split(depth).unroll()).done()


def _to_shared(chain: ProductsChain, tensor: Tensor, left: bool, lines: int, apart: bool = False) -> ProductsChain:
    """Load an operand to shared memory, swizzled so that copies and loads of fragments meet no bank conflicts.

    Args:
        chain: the chain that gets the load.
        tensor: the operand.
        left: whether the operand is the left one of its product.
        lines: rows of a left operand's tile, or columns of a right operand's.
        apart: whether the copy goes through registers.
    """
    copy: Strategy = cp_async() if tensor.aligned(2) and not apart else staged()
    loaded = chain.load(tensor, SH, copy)
    along_k = (tensor.order is RowMajor) == left
    # Vectors of 16 bytes: four along K, or those of a line across it.
    pieces = 2 if along_k else lines.bit_length() - 4
    return loaded.storage_layout(tensor.order).swizzle(Swizzle(min(3, pieces), 3, max(3, pieces)))


def hopper(program: ProductsChain, plan: Plan | None = None) -> Schedule:
    """Schedule several products for Hopper: one role issues bulk copies, the others wgmma; all loops share a ring.

    Args:
        program: the products, of f16 or bf16, whose lines start at multiples of 16 bytes.
        plan: tile of each sum, warpgroups, `pingpong`, cluster, stages and order of tiles; None for the best plan.
    """
    spec = program.products
    plan = (plan or _plan(program)).fits()
    m, n, nbytes = plan.m, plan.n, spec.lefts[0].dtype.nbytes
    rows, cols = plan.cluster
    alone = plan.cluster == (1, 1)
    staging = sum(plan.staging(out.dtype.nbytes) for out in spec.outs)
    if plan.through == "cluster":
        staging += m * n * len(spec.sums) * 4 * (2 if plan.pingpong else 1)
    chunk = max(sum(_lines(t, phase, m, n) for t in _operands(program)) for phase in spec.phases) * SPAN * plan.panels
    stages = plan.stages or min(MOST_STAGES, (SHARED - staging) // chunk)
    tiled: ProductsChain = program.tile(rows * m, cols * n, batch=program.batch).to(Block if alone else Cluster)
    tiled = tiled.persistent(Grouped(plan.group))
    tiled = tiled if alone else tiled.tile(m, n).to(Block)
    depth = SPAN // nbytes * plan.panels
    chain: ProductsChain = tiled.epilog(
        memory=FR, store=lambda move: bulk(plan, move.residual.operands[1].tensor)(move)
    )
    if plan.ways > 1:
        near = by_cluster(min(plan.shares(out.dtype.nbytes) for out in spec.outs))
        reduce = near if plan.through == "cluster" else in_order()
        chain = chain.split(ways=plan.ways, multiple_of=depth).parallel(Block, reduce=reduce)
    chain = chain.split(depth).pipeline(stages, inflight=1)
    chain = chain.specialize(producers=1, registers=plan.registers(), prefetch=plan.prefetch)
    for tensor in _operands(program):
        chain = chain.load(tensor, SH, tma(SPAN))
    high = m if plan.pingpong else m // plan.consumers
    chain = chain.tile(high, n).to(Warpgroup)
    chain = chain.staggered(2) if plan.pingpong else chain
    chain = (chain.split(SPAN // nbytes).unroll() if plan.panels > 1 else chain).split(32 // nbytes).unroll()
    return (chain.tile(ROWS, n).unroll() if high > ROWS else chain).done()


def _plan(program: ProductsChain) -> Plan:
    """Choose the plan for one product with the columns of all sums together, and the K of all loops together."""
    spec = program.products
    sums, kind = len(spec.sums), spec.lefts[0].dtype
    *batch, rows, columns = map(size_of, spec.outs[0].shape)
    k_major = all(t.order is RowMajor for t in spec.lefts) and all(t.order is ColMajor for t in spec.rights)
    depth = sum(size_of(left.shape[-1]) for left, _, _ in spec.pairs) // sums
    # Of several sums each has whole sectors of 32 bytes; blocks of a cluster load equal parts, of multiples of 8 rows.
    layout, unit = ("TN", 8 if sums == 1 else 16) if k_major else ("NN", SPAN // kind.nbytes)
    whole = matmul(rows, columns * sums, depth, kind.name, layout=layout, batch=batch[0] if batch else None)
    names = {held.name for held in spec.held}
    meet = any(len(names.intersection(t.name for t in value.tensors)) > 1 for value in spec.values)
    found = (
        plan
        for plan in plans(whole)
        if plan.n % (sums * unit) == 0
        and plan.n // sums % (8 * plan.cluster[0]) == 0
        and _serves(plan, sums, meet, bool(columns * sums % plan.n))
        and (plan.ways == 1 or _ways_fit(plan, program))
    )
    best = next(found, Plan(128, _columns(program, COLUMNS) * sums, group=4))
    return attrs.evolve(best, n=best.n // sums)


def _serves(plan: Plan, sums: int, meet: bool, torn: bool) -> bool:
    """Say whether a program can use a plan for one product: whole tiles, and registers to combine sums.

    Where columns end inside the last tile, guards of reads and stores need registers too.
    """
    whole = not plan.stream and not plan.swapped
    most = HELD - GUARDS if torn else HELD
    return whole and (sums == 1 or not meet or (plan.sums <= most and plan.consumers < 3))


def _ways_fit(plan: Plan, program: ProductsChain) -> bool:
    """Say whether several blocks can each take a part of every product's K, and of the outputs."""
    spec = program.products
    depths = {left.shape[-1] for left in spec.lefts}
    chunks = -(-size_of(spec.lefts[0].shape[-1]) * spec.lefts[0].dtype.nbytes // (SPAN * plan.panels))
    all_busy = -(-chunks // plan.ways) * (plan.ways - 1) < chunks
    return plan.through != "grid" and len(depths) == len({out.dtype for out in spec.outs}) == 1 and all_busy


def _lines(tensor: Tensor, phase: tuple[tuple[Tensor, Tensor, str], ...], m: int, n: int) -> int:
    """Return the rows or columns of an operand's tile in the loop that loads it."""
    lefts, rights = {a.name for a, _, _ in phase}, {b.name for _, b, _ in phase}
    return m * (tensor.name in lefts) + n * (tensor.name in rights)


def layers_schedule(program: LayersChain, path: LayersPath = "auto", m: int = 0) -> Schedule:
    """Schedule layers whose activations stay on chip.

    Args:
        program: the layers.
        path: `simt` takes all types and widths; `ampere` and `hopper` take f16 and bf16, and widths that are multiples
            of 16. `auto` chooses the newest path that fits the layers and the spec's architecture.
        m: rows of a block; 0 for the most that fit and still give each multiprocessor a block.

    Raises:
        FireironError: `path-width`.
    """
    spec = program.layers
    widths = (spec.X.shape[-1], *(layer.width for layer in spec.layers))
    tensors = (spec.X, *(layer.weights for layer in spec.layers), spec.Y)
    if path == "auto":
        newest = _newest(program.program.arch, tensors)
        path = "simt" if newest in ("volta", "turing") else newest
        if any(cast(int, width) % 16 or cast(int, width) > COLUMNS for width in widths):
            path = "simt"
    odd = [width for width in widths if cast(int, width) % 16]
    if path != "simt" and odd:
        raise FireironError(
            "path-width",
            f"layers of {odd[0]} columns have no schedule for tensor cores, which take multiples of 16",
            fix='use path="simt", or make each width a multiple of 16',
        )
    return {"simt": simt_layers, "ampere": ampere_layers, "hopper": hopper_layers}[path](program, m)


def _rows(program: LayersChain, m: int, most: int, least: int) -> int:
    """Choose the rows of a block: the most that still give each multiprocessor a block."""
    rows = program.layers.X.shape[0]
    if m:
        return m
    while most > least and isinstance(rows, int) and rows < most * SMS:
        most //= 2
    return most


def simt_layers(program: LayersChain, m: int = 0) -> Schedule:
    """Schedule layers for CUDA cores: activations in shared memory."""

    def layer(one: LayerChain) -> Schedule:
        chain: LayerChain = one.epilog().split(16).load(B, SH, staged()).storage_layout(RowMajor).pad(8)
        n = min(32, one.sizes[1])
        chain = chain.tile(16, n).to(Warp).tile(4, -(-n // 8)).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
        return chain.tile(1, 1).unroll().done()

    return program.tile(_rows(program, m, 32, 16)).to(Block).load(A, SH).pad(8).each(layer)


def ampere_layers(program: LayersChain, m: int = 0, stages: int = 4) -> Schedule:
    """Schedule layers for mma.sync: a warp has 16 or 32 whole rows, and asynchronous copies load weights.

    Args:
        program: the layers, of f16 or bf16, of widths that are multiples of 16.
        m: rows of a block, 0 for a choice.
        stages: ring slots of the weights.
    """
    widest = max(max(x.width, x.depth) for x in program.layers.layers)
    rows = _rows(program, m, 256 if widest <= 128 else 128, 64)
    warp = 32 if widest <= 128 and rows >= 128 else 16

    def layer(one: LayerChain) -> Schedule:
        _, n, k = one.sizes
        chunk = CHUNK if k % CHUNK == 0 else 16
        along_k = one.weights.order is ColMajor
        pieces = chunk // 16 if along_k else 0 if n & (n - 1) else n.bit_length() - 4
        chain: LayerChain = one.epilog().split(chunk).unroll().pipeline(stages)
        loaded = chain.load(B, SH, cp_async()).storage_layout(one.weights.order)
        chain = loaded.swizzle(Swizzle(min(3, pieces), 3, max(3, pieces))) if pieces else loaded.pad(8)
        part = next(width for width in (64, 48, 32, 16) if n % width == 0)
        chain = chain.tile(warp, n).to(Warp).split(16).unroll().tile(warp, part).unroll()
        return chain.load(B, FR, ldmatrix()).tile(16, 8).unroll().done()

    return program.tile(rows).to(Block).load(A, FR).each(layer)


def hopper_layers(program: LayersChain, m: int = 0) -> Schedule:
    """Schedule layers for Hopper: one role loads weights by bulk copies; wgmma reads activations from registers.

    Args:
        program: the layers, of f16 or bf16, of widths that are multiples of 16.
        m: rows of a block, 64, 128, or 256 where layers are of at most 128 columns; 0 for a choice.
    """
    widest = max(max(x.width, x.depth) for x in program.layers.layers)
    stack = len(program.layers.layers) == 1
    # Activations of several widths are registers of their own, beside which a thread has room for half as many rows.
    rows = _rows(program, m, (256 if widest <= 128 else 128) // (1 if stack else 2), ROWS)
    part, y = ROWS if rows < 256 else 128, program.layers.Y
    # stmatrix writes a stack's result; bulk stores copy it where its lines are whole panels of 128 bytes.
    width = SPAN // y.dtype.nbytes
    lines = stack and y.order is RowMajor and y.shape[1] % width == 0 and y.starts_lines_at(16)
    store = through_shared(stmatrix(), tma(SPAN), panel=(ROWS, width), at=Warpgroup, ring=2) if lines else None
    staging = rows // part * 2 * ROWS * SPAN if lines else 0
    # Layers of one shape go through one ring.
    rings = len({(x.weights.shape[-2:], x.weights.order) for x in program.layers.layers})

    def layer(one: LayerChain) -> Schedule:
        _, n, k = one.sizes
        chunk = next(c for c in (64, 32, 16) if k % c == 0)
        span = chunk * one.weights.dtype.nbytes
        if one.weights.order is RowMajor:
            span = next(s for s in (SPAN, 64, 32) if n * one.weights.dtype.nbytes % s == 0)
        slots = min(8, (SHARED - 2048 - staging) // rings // (chunk * n * one.weights.dtype.nbytes))
        chain: LayerChain = (
            one.epilog().split(chunk).unroll().pipeline(slots, inflight=1)
            .specialize(producers=1, registers=(24, 240) if rows > ROWS else None).load(B, SH, tma(span))
            .tile(part, n).to(Warpgroup).split(16).unroll()
        )  # fmt: skip
        return (chain.tile(ROWS, n).unroll() if part > ROWS else chain).done()

    high = program.layers.X.shape[0]
    again = not isinstance(high, int) or high > rows * SMS  # blocks have another tile, whose rows they can ask for
    return program.tile(rows).to(Block).persistent().load(A, FR).each(layer, store, prefetch=again)
