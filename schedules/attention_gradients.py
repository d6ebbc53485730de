"""Gradients of attention: of queries by a loop over keys, of keys and values by a loop over queries, or all at once.

All compute the weights again from the logarithms that attention stored (`lse=True`). In `of_queries` and `of_keys`
blocks share no sums, so results are the same in every run; together they compute seven products, or eight where heads
are so wide that keys and values have kernels of their own (`of_keys_alone`, `of_values`). `of_all` computes five: each
block adds its keys' part of the gradient of queries to memory, in the order of arrival, so that last bits may differ
between runs. `delta` is the sum of result times gradient for each query, which the others read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import gcd
from typing import TypeVar

from fireiron import (
    FR,
    RF,
    SH,
    Block,
    Layout,
    ProgramChain,
    Schedule,
    StepChain,
    Swizzle,
    Thread,
    Value,
    Warp,
    Warpgroup,
    by_tma,
    conform,
    drawn,
    einsum,
    inplace,
    ldmatrix,
    machine,
    preset,
    program,
    stmatrix,
    through_shared,
    tma,
    vector,
)
from fireiron import sum as summed
from fireiron.schedules._heads import (
    GROUP_ROWS,
    HOPPER_SHARED,
    PAIR,
    ROWS,
    SHARED,
    VECTOR_NBYTES,
    WIDE,
    array,
    blocks,
    few_blocks,
    heads,
    line_nbytes,
    reads_both,
    tile_to_shared,
    two_share,
)
from fireiron.schedules._scores import Function, Scores, columns, draws, grouped, needs_registers, reads_points

T = TypeVar("T")
LINE_NBYTES = 128  # bytes of a line of a swizzled buffer
# What the command line takes by default: `of_all` replaces sums, and is scheduled by wgmma alone.
EXTENTS = {"of_all": {"b": 1, "h": 1, "i": 128, "j": 128, "d": 64, "e": 64}}
DTYPES = {"of_all": "f16"}
OUTS = {"of_all": ("f16", "f16", inplace("sums"))}
F32_NBYTES = 4
SLOT_NBYTES = 1024  # most bytes of shared memory that numbers of a chunk's queries take
MOST_OF_PAIRS = 96  # most columns of heads for which registers hold the gradients of 32 queries of a warp
PANELS = (64, 32, 16)  # columns of results that are stored at once where shared memory does not hold all
MOST_STORED = 200  # registers that sums and results may take
LONG = 2048  # most keys or queries of a loop for which the code around it counts, in heads of more than 64 columns
BETWEEN = 18  # time between chunks, in keys
SMS = machine("sm_90a").sms
MOST_SUMS = 176  # registers of a thread that sums of wgmma may take beside addresses and operands


@program(o="b h i e", dy="b h i e")
def delta(o: Value, dy: Value) -> Value:
    """Sum the products of attention's result and its gradient, for each query.

    Args:
        o: the result of attention.
        dy: the gradient of the result.
    """
    return summed(o * dy, "e")


@program(q="b h i d", k="b h j d", v="b h j e", dy="b h i e", lse="b h i", delta="b h i")
def of_queries(
    q: Value,
    k: Value,
    v: Value,
    dy: Value,
    lse: Value,
    delta: Value,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    dropout: float = 0.0,
    **arrays: Value,
) -> Value:
    """Compute the gradient of attention's queries.

    Args:
        q, k, v: as attention takes them.
        dy: the gradient of attention's result.
        lse: attention's second output, in f32.
        delta: result of `delta`, minus the gradient of `lse` if there is one, in f32.
        scale, causal, mask, score, dropout: as attention takes them.
        arrays: arrays that the functions read, and `seed`.

    Raises:
        FireironError: as attention does.
    """
    scores = Scores(scale, causal, mask, score, grouped(q), arrays, dropout)
    rows = scores.rows
    products = scores.products(q, k)
    weight = scores.counted(scores.weights(products, lse))
    by_weight = scores.dropped(einsum(f"{rows}e,bhje->{rows}j", dy, v, name="dp"), "kept_dp")
    by_product = (weight * (by_weight - delta) * scores.slopes(products)).named("ds")
    return einsum(f"{rows}j,bhjd->{rows}d", by_product.cast(k.dtype), k, name="dq") * scores.factor


@program(q="b h i d", k="b h j d", v="b h j e", dy="b h i e", lse="b h i", delta="b h i")
def of_keys(
    q: Value,
    k: Value,
    v: Value,
    dy: Value,
    lse: Value,
    delta: Value,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    dropout: float = 0.0,
    **arrays: Value,
) -> tuple[Value, Value]:
    """Compute the gradients of attention's keys and values, summed over heads of queries that share them.

    Args:
        q, k, v, dy, lse, delta, scale, causal, mask, score, dropout, arrays: as `of_queries` takes them.

    Raises:
        FireironError: as attention does.
    """
    scores = Scores(scale, causal, mask, score, grouped(q), arrays, dropout)
    products, weight = _turned(scores, q, k, lse)
    weight, left = (weight, scores.dropped(weight, "p")) if dropout else (weight.named("p"),) * 2
    by_keys = _by_keys(scores, products, weight, q, v, dy, delta)
    return by_keys, _by_values(scores, left, dy)


@program(q="b h i d", k="b h j d", v="b h j e", dy="b h i e", lse="b h i", delta="b h i")
def of_keys_alone(
    q: Value,
    k: Value,
    v: Value,
    dy: Value,
    lse: Value,
    delta: Value,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    dropout: float = 0.0,
    **arrays: Value,
) -> Value:
    """Compute the gradient of attention's keys, for heads so wide that registers do not hold that of values too.

    Args:
        q, k, v, dy, lse, delta, scale, causal, mask, score, dropout, arrays: as `of_queries` takes them.

    Raises:
        FireironError: as attention does.
    """
    scores = Scores(scale, causal, mask, score, grouped(q), arrays, dropout)
    products, weight = _turned(scores, q, k, lse)
    return _by_keys(scores, products, weight, q, v, dy, delta)


@program(q="b h i d", k="b h j d", dy="b h i e", lse="b h i")
def of_values(
    q: Value,
    k: Value,
    dy: Value,
    lse: Value,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    dropout: float = 0.0,
    **arrays: Value,
) -> Value:
    """Compute the gradient of attention's values, beside `of_keys_alone`.

    Args:
        q, k, dy, lse, scale, causal, mask, score, dropout, arrays: as `of_queries` takes them.

    Raises:
        FireironError: as attention does.
    """
    scores = Scores(scale, causal, mask, score, grouped(q), arrays, dropout)
    _, weight = _turned(scores, q, k, lse)
    return _by_values(scores, scores.dropped(weight, "p") if dropout else weight.named("p"), dy)


@program(q="b h i d", k="b h j d", v="b h j e", dy="b h i e", lse="b h i", delta="b h i", sums="b h i d")
def of_all(
    q: Value,
    k: Value,
    v: Value,
    dy: Value,
    lse: Value,
    delta: Value,
    sums: Value,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    dropout: float = 0.0,
    **arrays: Value,
) -> tuple[Value, Value, Value]:
    """Compute the gradients of attention's keys and values, and add the gradient of queries to `sums`.

    Args:
        q, k, v, dy, lse, delta, scale, causal, mask, score, dropout, arrays: as `of_queries` takes them.
        sums: zeros of f32, to which the gradients of queries are added before `scaled` multiplies them. The third
            output replaces it: `out=("bf16", "bf16", inplace("sums"))`.

    Raises:
        FireironError: as attention does.
    """
    scores = Scores(scale, causal, mask, score, grouped(q), arrays, dropout)
    rows = scores.rows
    columns = f"{rows[:-1]}ji"
    products, weight = _turned(scores, q, k, lse)
    left = scores.dropped(weight, "kept_p").cast(dy.dtype)
    weight = left if not dropout else weight.cast(dy.dtype)  # half the registers
    weight = weight.named("p")
    by_weight = scores.dropped(einsum(f"bhje,{rows}e->{columns}", v, dy, name="dp"), "kept_dp")
    by_product = ((by_weight - delta) * weight * scores.slopes(products)).named("ds")
    held = by_product.cast(q.dtype).named("held_ds")
    keys = einsum(f"{columns},{rows}d->bhjd", held, q, name="dk") * scores.factor
    values = einsum(f"{columns},{rows}e->bhje", weight if not dropout else left, dy, name="dv")
    # Products of keys take it from registers, those of queries from shared memory.
    shared = by_product.cast(k.dtype).named("shared_ds")
    return keys, values, sums + einsum(f"{columns},bhjd->{rows}d", shared, k, name="dq")


@program(sums="b h i d")
def scaled(sums: Value, scale: float = 1.0) -> Value:
    """Multiply the sums of `of_all` by attention's scale, and round them."""
    return sums * scale


@preset
def simt(spec: ProgramChain, rows: int = 64, chunk: int = 8) -> Schedule:
    """Schedule a gradient of attention on CUDA cores, for all architectures: each thread has a query, or a key.

    Args:
        spec: `of_queries` or `of_keys` of four-dimensional arrays.
        rows: number of queries or keys of a block.
        chunk: number of keys or queries in shared memory at a time.
    """
    row, other, _, moving = _sides(spec)
    chain = spec.tile(**_whole(spec, row), **{row: rows}).to(Block).epilog(memory=FR)
    chain = _over_heads(chain, other).split(**{other: chunk})
    for name in moving:
        chain = chain.load(name, SH, vector())
    return chain.tile(**{row: 1}).to(Thread).done()


@preset
def squares(
    spec: ProgramChain, rows: int | None = None, chunk: int | None = None, piece: int | None = None
) -> Schedule:
    """Schedule a gradient of f32 attention on CUDA cores, for all architectures: a thread has squares of products.

    Weights and their gradients go through shared memory to the threads of the other products.

    Args:
        spec: `of_queries` or `of_keys` of four-dimensional arrays of f32.
        rows: number of queries or keys of a block; by default 64, or 32 or 16 for wide heads.
        chunk: number of keys or queries in shared memory at a time; by default 32, or 16 where it does not suffice.
        piece: rows and columns of a thread's square; by default 4, or 2 where more threads must hold the sums.
    """
    row, other, held, moving = _sides(spec)
    depth, width = columns(spec)
    rows = rows or (64 if depth + width <= 2 * WIDE else 32 if depth + width <= 4 * WIDE else 16)
    piece = piece or (4 if depth + width <= 4 * WIDE else 2)
    pad = VECTOR_NBYTES // F32_NBYTES  # rows that threads read together lie in other banks
    taken = (depth + width + 2 * pad) * F32_NBYTES
    chunk = chunk or (32 if (rows + 32) * taken + 2 * rows * 32 * F32_NBYTES <= SHARED else 16)
    chain: ProgramChain = spec.tile(**_whole(spec, row), **{row: rows}).to(Block).epilog(memory=RF)
    for name in held:
        chain = chain.load(name, SH, vector()).pad(pad)
    chain = _over_heads(chain, other).split(**{other: chunk})
    for name in moving:
        chain = chain.load(name, SH, vector()).pad(pad)
    results = _of_program(spec, {"dq": "ds", "dk": "ds", "dv": "p"})
    for name in sorted({*results.values()}):
        chain = chain.load(name, SH)

    def product(left: str, right: str, column: str, over: str) -> Callable[[StepChain], Schedule]:
        def made(s: StepChain) -> Schedule:
            s = s.tile(**{row: piece, column: piece}).to(Thread).split(**{over: 1}).load(left, RF).load(right, RF)
            return s.tile(**{row: 1, column: 1}).unroll().done()

        return made

    products = {
        "s": product(held[0], moving[0], other, "d"),
        "dp": product(held[-1], moving[1], other, "e"),
        "dq": product("ds", "k", "d", "j"),
        "dk": product("ds", "q", "d", "i"),
        "dv": product("p", "dy", "e", "i"),
    }
    return chain.each(**_of_program(spec, products))


@preset
def mma(
    spec: ProgramChain,
    warps: int | None = None,
    chunk: int | None = None,
    stages: int = 2,
    step: int = 16,
    rows: int | None = None,
) -> Schedule:
    """Schedule a gradient of attention for tensor cores by mma.sync, from sm_80 on.

    Weights and their gradients stay in the registers where the first products leave them.

    Args:
        spec: `of_queries` or `of_keys` of four-dimensional arrays of 16-bit floats.
        warps: number of warps of a block; by default 4 where two such blocks share a multiprocessor, else 8, or 4 where
            shared memory does not suffice.
        chunk: number of keys or queries of a chunk; by default 64 or 32, fewer where heads are wide or rows many.
        stages: number of chunks in shared memory.
        step: K of an instruction.
        rows: number of queries or keys of a warp, 16 or 32; it reads chunks from shared memory once for all of them. By
            default 32 where registers hold the sums and two such blocks share a multiprocessor, else 16.
    """
    row, other, held, moving = _sides(spec)
    depth, width = columns(spec)
    nbytes = array(spec, "q").dtype.nbytes
    sizes = {"q": depth, "k": depth, "v": width, "dy": width}
    lines = {name: line_nbytes(size, nbytes) for name, size in sizes.items()}
    own = sum(lines[name] for name in held)  # bytes of a row of what the block keeps
    row_nbytes = stages * sum(lines[name] for name in moving)  # of a row of a chunk
    narrow = depth + width <= 2 * WIDE
    if rows is None and warps is None:
        plain, wide = _plain(spec), max(depth, width) > MOST_OF_PAIRS
        pairs = (narrow and (row == "i" or plain)) or (row == "i" and plain and not wide)  # registers hold the sums
        pairs = pairs and not few_blocks(spec, _whole(spec, row) | {row: 4 * PAIR})
        longer = 64 if row == "i" else 48 if plain and not wide else 32
        for n, length in [*[(PAIR, 32)] * pairs, (ROWS, longer), (ROWS, 32)]:
            if chunk in (None, length) and two_share(spec, 4 * n * own + length * row_nbytes):
                warps, rows, chunk = 4, n, length
                break
    rows = rows or ROWS
    chunk = chunk or (64 if narrow else 32 if 4 * rows * own + 32 * row_nbytes <= SHARED else 16)
    warps = warps or (8 if 8 * rows * own + chunk * row_nbytes <= SHARED else 4)
    chain = spec.tile(**_whole(spec, row), **{row: warps * rows}).to(Block).epilog(memory=FR)
    for name in held:
        chain = tile_to_shared(chain, name, sizes[name], nbytes)
    chain = _over_heads(chain, other).split(**{other: chunk}).pipeline(stages)
    for name in moving:
        chain = tile_to_shared(chain, name, sizes[name], nbytes)

    def scores(dim: str, left: str, right: str) -> Callable[[StepChain], Schedule]:
        def made(s: StepChain) -> Schedule:
            s = s.split(**{dim: gcd(step, sizes[left])}).unroll().load(left, FR, ldmatrix()).load(right, FR, ldmatrix())
            return s.tile(**{row: ROWS, other: 8}).unroll().done()

        return made

    def sums(dim: str, operand: str) -> Callable[[StepChain], Schedule]:
        def made(s: StepChain) -> Schedule:
            s = s.split(**{other: step}).unroll().load(operand, FR, ldmatrix())
            return s.tile(**{row: ROWS, dim: 8}).unroll().done()

        return made

    products = {
        "s": scores("d", held[0], moving[0]),
        "dp": scores("e", held[-1], moving[1]),
        "dq": sums("d", "k"),
        "dk": sums("d", "q"),
        "dv": sums("e", "dy"),
    }
    return chain.tile(**{row: rows}).to(Warp).each(**_of_program(spec, products))


@preset
def wgmma(
    spec: ProgramChain,
    groups: int | None = None,
    chunk: int | None = None,
    stages: int | None = None,
    bulk_rows: bool | None = None,
    persistent: bool | None = None,
    bulk_store: bool | None = None,
) -> Schedule:
    """Schedule a gradient of attention for Hopper: one role issues bulk copies; warpgroups of 64 rows use wgmma.

    Weights and their gradients stay in the registers where the first products leave them, from which the other products
    read them.

    Args:
        spec: `of_queries` or `of_keys` of four-dimensional arrays of 16-bit floats.
        groups: number of warpgroups that compute, with 64 queries or keys each; by default 3 for queries if registers
            hold their gradients and blocks have one tile each, else 2.
        chunk: number of keys or queries of a chunk. By default 64, or for queries' gradients of at most 64 columns 128
            if that leaves little of the last chunk empty; fewer where registers do not suffice.
        stages: number of chunks in shared memory; by default as many as fit, 2 to 4.
        bulk_rows: whether bulk copies load `lse` and `delta` of a chunk's queries to shared memory; by default where
            their lines allow it.
        persistent: whether blocks loop over tiles, which they draw from a counter under masks. By default where shared
            memory holds the next tile's arrays, unless loops are so long that more warpgroups are faster, or registers
            hold elements of arrays along queries or keys, or random bits beside the gradients of keys.
        bulk_store: whether results are stored through shared memory by bulk copies, those of each warpgroup on its own;
            by default where lines of results allow it.
    """
    row, other, held, moving = _sides(spec)
    depth, width = columns(spec)
    nbytes = array(spec, "q").dtype.nbytes
    narrow, masked = depth + width <= 2 * WIDE, any(step.compares_indices for step in spec.computed.steps)
    bounded = any(step.compares_elements for step in spec.computed.steps)  # bounds need registers
    alone = not (draws(spec) or needs_registers(spec) or _slopes_vary(spec))
    folded = spec.residual.extents[other]
    if persistent is None:
        short = isinstance(folded, int) and (narrow or (row == "i" and masked and alone) or folded <= LONG)
        free = not (bounded or reads_points(spec) or (row == "j" and draws(spec)))
        persistent = short and free and not _one_wave(spec, row, groups or 2)
        persistent = persistent and _next_fits(spec, groups or 2, chunk or 64)
    if groups is None:
        most = 2 * WIDE if draws(spec) or _slopes_vary(spec) else 4 * WIDE
        groups = 3 if row == "i" and not persistent and not bounded and depth + width <= most else 2
    bulk_rows = _in_bulk(spec) if bulk_rows is None else bulk_rows
    sizes = {"q": depth, "k": depth, "v": width, "dy": width}
    spans = {name: gcd(size * nbytes, LINE_NBYTES) for name, size in sizes.items()}
    by_bulk = _read(spec, "lse", "delta") if bulk_rows and row == "j" else ()
    own = _held_nbytes(spec, groups) * (2 if persistent else 1)

    def taken(chunk: int) -> int:
        """Return the bytes of shared memory of a chunk."""
        return chunk * (depth + width) * nbytes + len(by_bulk) * SLOT_NBYTES

    if chunk is None:
        crowded = draws(spec) or (masked and _slopes_vary(spec))
        chunk = 64 if not _crowded(spec, row) else 32 if row == "j" else 48 if groups > 2 else 64
        if depth + width > 4 * WIDE:  # sums take most registers, and held tiles most of shared memory
            fitting = (32,) if draws(spec) else (64, 32) if by_bulk else (64, 48, 32)
            free = HOPPER_SHARED - own
            chunk = next((n for n in fitting if 2 * taken(n) <= free and _registers(spec, n) <= MOST_SUMS), 32)
        elif row == "i" and narrow and persistent and not crowded and isinstance(folded, int):
            chunk = min((128, 64), key=lambda n: -(-folded // n) * (n + BETWEEN))
    panels = _panels(spec, groups, HOPPER_SHARED - own - 2 * taken(chunk)) if bulk_store is not False else None
    own += 0 if panels is None else sum(groups * GROUP_ROWS * n * nbytes for n in panels)
    stages = stages or max(2, min(4, (HOPPER_SHARED - own) // taken(chunk)))
    # The tiles that masks leave most chunks come first: of causal ones the last queries' and the first keys'.
    rows = spec.residual.extents[row]
    assert rows is not None
    tiles = -(-rows // (groups * GROUP_ROWS))
    chain: ProgramChain = spec.tile(**_whole(spec, row), **{row: groups * GROUP_ROWS}).to(Block)
    if row == "i":
        chain = chain.permute(lambda t: t - t % tiles + (tiles - 1 - t % tiles))
    chain = chain.persistent(share=drawn() if masked else None) if persistent else chain
    stores = {
        out.name: through_shared(stmatrix(), tma(gcd(n * nbytes, LINE_NBYTES)), (GROUP_ROWS, n), at=Warpgroup)
        for out, n in zip(spec.computed.outputs, panels or (), strict=panels is not None)
    }
    chain = chain.epilog(memory=FR, store=stores or None)
    for name in held:
        chain = chain.load(name, SH, tma(spans[name]))
    chain = _over_heads(chain, other).split(**{other: chunk}).pipeline(stages)
    chain = chain.specialize(registers=(24, 240) if groups <= 2 else (32, 160))
    for name in moving:
        chain = chain.load(name, SH, tma(spans[name]))
    for name in by_bulk:
        chain = chain.load(name, SH, tma())

    def scores(dim: str) -> Callable[[StepChain], Schedule]:
        return lambda s: s.split(**{dim: ROWS}).unroll().done("wgmma")

    def sums(s: StepChain) -> Schedule:
        return s.split(**{other: ROWS}).unroll().done("wgmma")

    products = {"s": scores("d"), "dp": scores("e"), "dq": sums, "dk": sums, "dv": sums}
    return chain.tile(**{row: GROUP_ROWS}).to(Warpgroup).each(**_of_program(spec, products))


@preset
def at_once(
    spec: ProgramChain,
    groups: int = 2,
    chunk: int = 64,
    stages: int = 2,
    bulk_rows: bool | None = None,
    order: tuple[str, ...] = ("s", "p", "dp", "ds", "shared_ds", "held_ds", "dv", "dq", "dk"),
    slots: int = 2,
    span: int = 128,
    staged: int | None = None,
    skew: tuple[str, str] | None = None,
) -> Schedule:
    """Schedule all gradients of attention in one kernel for Hopper: a block has a tile of keys and values.

    A block loops over chunks of queries. The gradients of keys and values read weights and their gradients from
    registers. For the gradient of queries, weights and their gradients go through shared memory, and bulk copies add
    the block's part to memory.

    Args:
        spec: `of_all` of four-dimensional arrays of 16-bit floats.
        groups: number of warpgroups that compute, with 64 keys each.
        chunk: number of queries of a chunk.
        stages: number of chunks of queries in shared memory.
        bulk_rows: whether bulk copies load `lse` and `delta` of a chunk's queries to shared memory; by default where
            their lines allow it.
        order: names of the steps of a chunk, in the order of their computation.
        slots: number of slots of shared memory from which each warpgroup's sums are added to memory.
        span: bytes of a row that one bulk copy adds.
        staged: number of columns of sums in a slot; by default those of a span.
        skew: a product and a later one: the steps up to the product of the next chunk are issued before the later one.
            Example: ("dp", "dk"), with an order in which scores and dp stand first.
    """
    depth, _ = columns(spec)
    dtype = array(spec, "q").dtype
    bulk_rows = _in_bulk(spec) if bulk_rows is None else bulk_rows
    tile = groups * GROUP_ROWS
    # The part of a tile that a warpgroup has.
    part = {"d": depth // groups} if chunk == GROUP_ROWS else {"i": chunk // groups}
    sums = spec.computed.outputs[2]
    span = min(span, part.get("d", depth) * sums.dtype.nbytes)
    panel = part.get("i", chunk), staged or span // sums.dtype.nbytes
    add = through_shared(conform(), tma(span), panel, at=Warpgroup, ring=slots)
    chain: ProgramChain = spec.tile(**_whole(spec, "j")).to(Block).split(j=tile).parallel(Block, reduce=by_tma())
    chain = chain.epilog(memory=FR, store={sums.name: add})
    for name in ("k", "v"):
        chain = chain.load(name, SH, tma())
    chain = _over_heads(chain, "i").split(i=chunk).pipeline(stages).order(*order)
    chain = chain.specialize(registers=(24, 240) if groups <= 2 else (32, 160))
    if skew:
        chain = chain.skew(*skew)
    for name in ("q", "dy", *(("lse", "delta") if bulk_rows else ())):
        chain = chain.load(name, SH, tma())
    line = LINE_NBYTES // dtype.nbytes
    chain = chain.load("shared_ds", SH, stmatrix())
    if chunk > line:  # panels of lines, as products read them
        chain = chain.storage_layout(Layout((tile, (line, chunk // line)), (line, (1, tile * line))))
    chain = chain.swizzle(Swizzle(3, (VECTOR_NBYTES // dtype.nbytes).bit_length() - 1, 3))

    def of_keys(dim: str) -> Callable[[StepChain], Schedule]:
        return lambda s: s.tile(j=GROUP_ROWS).to(Warpgroup).split(**{dim: ROWS}).unroll().done("wgmma")

    def of_queries(s: StepChain) -> Schedule:
        return s.tile(**part).to(Warpgroup).split(j=ROWS).unroll().done("wgmma")

    return chain.each(s=of_keys("d"), dp=of_keys("e"), dk=of_keys("i"), dv=of_keys("i"), dq=of_queries)


def _turned(scores: Scores, q: Value, k: Value, lse: Value) -> tuple[Value, Value]:
    """Compute products and weights with a row for each key."""
    products = scores.products(q, k, turned=True)
    return products, scores.counted(scores.weights(products, lse))


def _by_keys(scores: Scores, products: Value, weight: Value, q: Value, v: Value, dy: Value, delta: Value) -> Value:
    """Compute the gradient of keys from weights with a row for each key."""
    columns = f"{scores.rows[:-1]}ji"
    by_weight = scores.dropped(einsum(f"bhje,{scores.rows}e->{columns}", v, dy, name="dp"), "kept_dp")
    by_product = (weight * (by_weight - delta) * scores.slopes(products)).named("ds")
    return einsum(f"{columns},{scores.rows}d->bhjd", by_product.cast(q.dtype), q, name="dk") * scores.factor


def _by_values(scores: Scores, weight: Value, dy: Value) -> Value:
    """Compute the gradient of values from weights with a row for each key."""
    return einsum(f"{scores.rows[:-1]}ji,{scores.rows}e->bhje", weight.cast(dy.dtype), dy, name="dv")


def _sides(spec: ProgramChain) -> tuple[str, str, tuple[str, ...], tuple[str, str]]:
    """Return the dim of the results, the folded dim, and the names of the arrays along each of the two."""
    if any(step.name == "dq" for step in spec.computed.steps):
        return "i", "j", ("q", "dy"), ("k", "v")
    return "j", "i", _read(spec, "k", "v"), ("q", "dy")


def _read(spec: ProgramChain, *names: str) -> tuple[str, ...]:
    """Return those of the named arrays that the program reads."""
    inputs = {tensor.name for tensor in spec.computed.inputs}
    return tuple(name for name in names if name in inputs)


def _of_program(spec: ProgramChain, by_step: Mapping[str, T]) -> dict[str, T]:
    """Return the entries whose names are those of the program's steps."""
    steps = {step.name for step in spec.computed.steps}
    return {name: of for name, of in by_step.items() if name in steps}


def _registers(spec: ProgramChain, chunk: int) -> int:
    """Count the registers of a thread for a warpgroup's sums: 128 threads have 64 rows."""
    depth, width = columns(spec)
    sizes = {"s": chunk, "dp": chunk, "dq": depth, "dk": depth, "dv": width}
    return sum(_of_program(spec, sizes).values()) // 2


def _slopes_vary(spec: ProgramChain) -> bool:
    """Say whether the derivative of the score function depends on the score."""
    # The program reads s for the weights, and again if the derivative needs s.
    return len(re.findall(r"\bs\[", str(spec.computed))) > 2


def _crowded(spec: ProgramChain, row: str) -> bool:
    """Say whether random bits, or what functions and masks of wide heads read and compute, take registers of sums."""
    wide, sizes = sum(columns(spec)) > 2 * WIDE, [spec.residual.extents[name] for name in "ij"]
    ragged = any(not isinstance(n, int) or n % WIDE for n in sizes)
    inputs = {tensor.name for tensor in spec.computed.inputs}
    reads = (ref for step in spec.computed.steps for ref in step.reads if ref.name in inputs)
    points = any({"i", "j"} <= {d.name for d in ref.dims} for ref in reads)
    if row == "i":
        return draws(spec) or (wide and (points or reads_both(spec)))
    return draws(spec) or (wide and (points or _slopes_vary(spec) or (reads_points(spec) and ragged)))


def _one_wave(spec: ProgramChain, row: str, groups: int) -> bool:
    """Say whether all blocks run at once, or some extent is a symbol: blocks that loop over tiles gain nothing then."""
    count = blocks(spec, {**_whole(spec, row), row: groups * GROUP_ROWS})
    return count is None or count <= SMS


def _held_nbytes(spec: ProgramChain, groups: int) -> int:
    """Return the bytes of shared memory of the arrays that a block keeps for a tile."""
    depth, width = columns(spec)
    sizes = {"q": depth, "k": depth, "v": width, "dy": width}
    _, _, held, _ = _sides(spec)
    return groups * GROUP_ROWS * sum(sizes[name] for name in held) * array(spec, "q").dtype.nbytes


def _next_fits(spec: ProgramChain, groups: int, chunk: int) -> bool:
    """Say whether shared memory holds the arrays of two tiles, two chunks, and narrow panels of results."""
    nbytes = array(spec, "q").dtype.nbytes
    chunks = 2 * (chunk * sum(columns(spec)) * nbytes + 2 * SLOT_NBYTES)
    panels = len(spec.computed.outputs) * groups * GROUP_ROWS * PANELS[-1] * nbytes
    return 2 * _held_nbytes(spec, groups) + chunks + panels <= HOPPER_SHARED


def _panels(spec: ProgramChain, groups: int, free: int) -> list[int] | None:
    """Choose how many columns of each result bulk copies store at once; None where they cannot.

    Args:
        spec: the program.
        groups: number of warpgroups that compute.
        free: bytes of shared memory beside arrays and chunks.
    """
    outputs = spec.computed.outputs
    widths = [n for out in outputs if isinstance(n := out.shape[-1], int)]
    steps = [n if isinstance(n, int) else n.divisor for out in outputs for n in out.strides[:-1]]
    nbytes = outputs[0].dtype.nbytes
    even = all(out.dtype.nbytes == 2 and out.strides[-1] == 1 for out in outputs)
    crowded = sum(3 * n // 4 for n in widths) > MOST_STORED  # registers hold sums, and results of 16 bits beside them
    if not even or crowded or any(n * nbytes % VECTOR_NBYTES for n in steps):
        return None
    for most in (max(widths), *PANELS):
        found = [next((n for n in (w, *PANELS) if n <= most and w % n == 0), 0) for w in widths]
        if all(found) and groups * GROUP_ROWS * sum(found) * nbytes <= free:
            return found
    return None


def _plain(spec: ProgramChain) -> bool:
    """Say whether nothing but products needs registers: no masks, functions, arrays, random bits or ragged chunks."""
    steps, sizes = spec.computed.steps, [spec.residual.extents[name] for name in "ij"]
    even = all(isinstance(n, int) and n % WIDE == 0 for n in sizes)
    taken = draws(spec) or needs_registers(spec) or _slopes_vary(spec)
    return even and not taken and not any(step.compares_indices for step in steps)


def _in_bulk(spec: ProgramChain) -> bool:
    """Say whether bulk copies can load arrays of one f32 per query: their lines start at multiples of 16 bytes."""
    return all(array(spec, name).starts_lines_at(VECTOR_NBYTES) for name in _read(spec, "lse", "delta"))


def _whole(spec: ProgramChain, row: str) -> dict[str, int]:
    """Return a tile of one head; for gradients of queries, of one head of queries."""
    return {name: size for name, size in heads(spec).items() if name != "g" or row == "i"}


def _over_heads(chain: ProgramChain, other: str) -> ProgramChain:
    """Loop over heads of queries that share keys, around the loop over queries."""
    return chain.split(g=1) if other == "i" and "g" in chain.residual.extents else chain
