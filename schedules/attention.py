"""Attention as programs, with schedules: scores, softmax and the product with the values in one kernel.

Scores stay on chip. A loop over the keys with `online()` keeps the largest score so far, and rescales sums when the
largest score grows. Scores are multiplied by log2(e), so that exponentials are powers of 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, gcd, log
from math import log2 as log2_of

from fireiron import (
    FR,
    SH,
    Block,
    ColMajor,
    FireironError,
    ProgramChain,
    QuadPair,
    Schedule,
    StepChain,
    Thread,
    Value,
    Warp,
    Warpgroup,
    conform,
    dim,
    drawn,
    einsum,
    exp2,
    extent,
    index,
    ldmatrix,
    log2,
    machine,
    maximum,
    preset,
    program,
    staged,
    stmatrix,
    through_shared,
    tma,
    vector,
    where,
)
from fireiron import max as largest
from fireiron import sum as summed
from fireiron.schedules._attention_clocks import is_masked, microseconds
from fireiron.schedules._heads import (
    GROUP_ROWS,
    HOPPER_SHARED,
    PAIR,
    ROWS,
    SHARED,
    VECTOR_NBYTES,
    WIDE,
    array,
    beside,
    blocks,
    few_blocks,
    heads,
    line_nbytes,
    longest_first,
    reads_both,
    swizzled,
    tile_to_shared,
    two_share,
)
from fireiron.schedules._scores import (
    V_SCALE,
    Function,
    Scores,
    columns,
    draws,
    grouped,
    has_many_values,
    joins,
    needs_registers,
)

EXTENTS = {"paged": {"s": 64}}  # default extents on the command line: lines of a page, which are whole tiles of keys
SHORT = 1024  # number of queries or keys below which the code around the loop over keys counts
SPAN_NBYTES = 128  # bytes of a swizzled row; bulk copies take whole rows
SLACK = 40.0  # bf16 weights may grow to 2**40; f32 sums of 2**40 such weights do not overflow
SMS = machine("sm_90a").sms
AT_ONCE = 2 * SMS  # number of blocks of few queries that run at once: two on each SM
MOST_WAYS = 32  # most blocks that share keys: each warp of the last block reads a quarter of all sums in sequence
STEP_NBYTES = 32  # bytes of a row that one instruction reads
MOST_COLUMNS = 256  # most columns of values whose sums the registers of a warp hold
LIFT = 8.0  # 8-bit weights are multiplied by 2**8: they are at most 256, and e4m3 holds 448
CHUNKS = (64, 48, 32)  # numbers of keys of a chunk, for warps of 32 queries
LAG = 24  # weights of warps of 32 queries, and of heads of more than 128 columns, may grow to 2**24
QUADS = 32  # queries of a warp, 8 for each of its quad-pairs
LEAST_CHUNKS = 2  # fewest chunks of a warp, so that one loads while another is computed
WIDEST = 128  # most columns of heads for which registers hold the weights of two chunks beside the sums
THREE_WIDEST = 80  # most columns for which the registers of three warpgroups hold the weights of two chunks
KEYS = (112, 96, 80, 64)  # numbers of keys of a chunk, if the most for registers leaves much of the last chunk empty
CACHED = 32 * 1024**2  # most bytes of keys and values that stay in Hopper's L2 cache


@program(q="b h i d", k="b h j d", v="b h j e")
def attention(
    q: Value,
    k: Value,
    v: Value,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    lse: bool = False,
    dropout: float = 0.0,
    **arrays: Value,
) -> Value | tuple[Value, Value]:
    """Compute softmax(q k' * scale) v of each head.

    Args:
        q, k, v: queries, keys and values. `attention.on(q="b h g i d")` takes queries of which g heads share a head of
            keys and values.
        scale: factor of the scores, 1 / sqrt(d) by default.
        causal: whether the last query sees all keys, and each query before sees one key less.
        mask: the condition under which a query sees a key: a function of indices (`b`, `h`, `i`, `j`) and of arrays by
            name. Example: `lambda i, j: j <= i`.
        score: a function from a scaled score `s`, indices and arrays by name to another score. Example: `lambda s, h,
            i, j, slope: s - slope[h] * (i - j)`.
        lse: whether the logarithm of each row's sum of exponentials is a second output; -inf where a query sees no key.
        dropout: the fraction of the weights that is set to 0 at random. The program then has an array `seed` of three
            i32: two are Philox's key, and the third is a part of the counter.
        arrays: arrays that the functions read by subscripts. `sinks` (h) holds for each head a score without a key,
            which only adds to the sum of exponentials. `q_scale`, `k_scale` and `v_scale` (h), in f32, hold for each
            head the factor of 8-bit queries, keys and values; weights are then rounded to v's type, and `out=` gives
            the type of results. Where the product of `q_scale` and `k_scale` is below 0, results are NaN.

    Raises:
        FireironError: `attention-scale`; `attention-dropout`; `attention-function` for a function with an unknown
            parameter.
    """
    return _attended(Scores(scale, causal, mask, score, grouped(q), arrays, dropout), q, k, v, lse)


@program(q="b h i d", k="b h j d")
def latent(
    q: Value,
    k: Value,
    width: int,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    lse: bool = False,
    dropout: float = 0.0,
    **arrays: Value,
) -> Value | tuple[Value, Value]:
    """Compute attention with a cache of keys whose first columns are the values (512 of 576 columns).

    Args:
        q: queries. `latent.on(q="b h g i d")` takes queries of which g heads share a cache.
        k: the cache.
        width: number of the cache's columns that are the values.
        scale, causal, mask, score, lse, dropout, arrays: as `attention` takes them.

    Raises:
        FireironError: as `attention` does; `attention-values` for a width that is not below the cache's columns.
    """
    depth = extent("d")
    if isinstance(depth, int) and not 0 < width < depth:
        raise FireironError(
            "attention-values",
            f"keys of {depth} columns, {width} of which are the values",
            fix=f"give width= from 1 to {depth - 1}, or attention(q, k, k)",
        )
    values = k[index("b"), index("h"), index("j"), dim("e", width)]
    return _attended(Scores(scale, causal, mask, score, grouped(q), arrays, dropout), q, k, values, lse)


@program(q="b h i d", k="p h s d", v="p h s e", pages="b n")
def paged(
    q: Value,
    k: Value,
    v: Value,
    pages: Value,
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    lse: bool = False,
    dropout: float = 0.0,
    **arrays: Value,
) -> Value | tuple[Value, Value]:
    """Compute attention with keys and values in pages: key j of batch b is line j % s of page `pages[b, j // s]`.

    Args:
        q: queries. `paged.on(q="b h g i d")` takes queries of which g heads share a head of keys and values.
        k, v: pages of keys and values, of s lines each.
        pages: page numbers of each batch, in i32. All entries must be numbers of pages, also those of keys that a mask
            hides. The simulator and debug builds refuse others (`gather-range`).
        scale, causal, mask, score, lse, dropout, arrays: as `attention` takes them. Mask keys beyond a batch's length:
            `lambda b, j, lengths: j < lengths[b]`.

    Raises:
        FireironError: as `attention` does; `attention-pages` where pages have no number of lines.
    """
    lines = extent("s")
    if not isinstance(lines, int):
        raise FireironError("attention-pages", f"pages of {lines} lines", fix="give pages of a number of lines")
    j, head = dim("j", extent("n") * lines), index("h")
    page, line = pages[index("b"), j // lines], j % lines
    scores = Scores(scale, causal, mask, score, grouped(q), arrays, dropout)
    return _attended(scores, q, k[page, head, line, index("d")], v[page, head, line, index("e")], lse)


def _attended(scores: Scores, q: Value, k: Value, v: Value, lse: bool) -> Value | tuple[Value, Value]:
    """Compute the values' sums, weighted by the softmax of scores."""
    rows, seen = scores.rows, scores.seen()
    value = scores.logarithms(scores.products(q, k))
    top = largest(value, "j", where=seen).named("top")
    lift = LIFT if v.dtype.bits == 8 else 0.0
    part = exp2(value - (top - lift) if lift else value - top)
    part = (part if seen is None else where(seen, part, 0.0)).named("part")
    total = summed(part, "j").named("total")
    sink, sums = scores.sink(), top + log2(total)
    sums = sums - lift if lift else sums
    if sink is None:
        inverse = 1.0 / total
    else:  # the logarithm of two sums, the smaller of which is in proportion to the larger
        sums = where(total <= 0.0, sink, maximum(sums, sink) + log2(1.0 + exp2(-abs(sums - sink)))).named("sums")
        inverse = exp2(top - sums - lift if lift else top - sums)
    # A query that sees no key has zeros.
    weight = scores.dropped(part, "kept") * where(total <= 0.0, 0.0, inverse).named("inverse")
    result = einsum(f"{rows}j,bhje->{rows}e", weight.cast(v.dtype), v, name="o")
    result = result * scores.arrays[V_SCALE][index("h")] if V_SCALE in scores.arrays else result
    return (result, (sums * log(2)).named("lse")) if lse else result


@preset
def simt(spec: ProgramChain, rows: int = 64, keys: int = 8) -> Schedule:
    """Schedule attention on CUDA cores, for all architectures: each thread computes up to 128 columns of a query.

    Args:
        spec: `attention` of four-dimensional arrays.
        rows: number of queries of a block.
        keys: number of keys in shared memory at a time.
    """
    chain = spec.tile(**heads(spec), i=rows, **_parts(columns(spec)[1], WIDEST)).to(Block).epilog(memory=FR)
    chain = chain.split(j=_in_a_page(spec, keys)).online()
    chain = chain.load("k", SH, vector())
    chain = chain.load("v", SH, vector()) if array(spec, "v", "k").name == "v" else chain
    return chain.tile(i=1).to(Thread).done()


@preset
def mma(
    spec: ProgramChain,
    warps: int | None = None,
    keys: int | None = None,
    stages: int | None = None,
    step: int | None = None,
    rows: int | None = None,
    slack: float | None = None,
) -> Schedule:
    """Schedule attention for tensor cores by mma.sync, from sm_80 on: each warp computes 32 queries, or 16.

    Asynchronous copies load keys and values of later chunks. The second product reads the weights in the registers
    where the first product leaves the scores. For 8-bit floats, from sm_89 on, the second product uses a form of the
    instruction whose order of keys is that of the registers, and threads transpose the values.

    Args:
        spec: `attention` of four-dimensional arrays of floats of 16 or 8 bits.
        warps: number of warps of a block; by default 4 of 32 queries, or 8 of 16; 4 of these where there are few blocks
            or shared memory does not suffice, and for 8-bit floats, whose copies need registers.
        keys: number of keys of a chunk; by default 64, fewer where two blocks of 32 queries a warp would not share a
            multiprocessor otherwise, and for 8-bit floats 32 unless heads have 128 columns, since registers spill with
            longer chunks.
        stages: number of chunks of keys and values in shared memory; by default 2, or 3 for heads of at most 64 columns
            and 32 queries a warp.
        step: K of an instruction, along d and along j: 16, or 32 for 8-bit floats.
        rows: number of queries of a warp, a multiple of 16; it reads keys and values from shared memory once for all of
            them. By default 32 for 16-bit heads of at most 128 columns, where two such blocks share a multiprocessor
            and blocks are as many as multiprocessors, else 16.
        slack: weights may grow to 2**slack before sums are rescaled; their type must hold this number. By default up to
            24 for 32 queries a warp and heads of more than 64 columns, else 0.
    """
    depth, width = columns(spec)
    values_given = array(spec, "v", "k")
    nbytes = array(spec, "q").dtype.nbytes
    step = step or STEP_NBYTES // nbytes
    lines = line_nbytes(depth, nbytes) + line_nbytes(width, nbytes)
    narrow = max(depth, width) <= WIDE

    def taken(queries: int, keys: int, stages: int) -> int:
        """Return the bytes of shared memory of a block."""
        return queries * line_nbytes(depth, nbytes) + stages * keys * lines

    if rows is None and warps is None and nbytes > 1 and max(depth, width) <= WIDEST:
        lengths = (keys,) if keys else CHUNKS[-1:] if needs_registers(spec) or draws(spec) else CHUNKS
        shared = [n for n in lengths if two_share(spec, taken(4 * PAIR, n, stages or 2))]
        few = few_blocks(spec, heads(spec) | {"i": 4 * PAIR})
        rows, warps = (ROWS, 4) if few else (PAIR, 4) if shared else (ROWS, None)
        keys = shared[0] if rows > ROWS else keys
    rows = rows or ROWS
    if rows > ROWS:
        keys, warps = keys or CHUNKS[-1], warps or 4
        stages = stages or (3 if narrow and two_share(spec, taken(warps * rows, keys, 3)) else 2)
        slack = (0.0 if narrow else min(LAG, floor(log2_of(values_given.dtype.limits[1])))) if slack is None else slack
    keys, stages = _in_a_page(spec, keys or (64 if nbytes > 1 or depth == width == WIDEST else 32)), stages or 2
    warps = warps or (8 if nbytes > 1 and taken(8 * ROWS, keys, stages) <= SHARED else 4)
    queries = spec.residual.extents["i"]
    assert queries is not None
    tiles, together, parts = -(-queries // (warps * rows)), _together(spec), _parts(width)
    chain = spec.tile(**heads(spec), i=warps * rows, **parts).to(Block)
    chain = chain if parts or not is_masked(spec) else chain.permute(lambda t: longest_first(t, tiles, together))
    chain = chain.epilog(memory=FR)
    chain = tile_to_shared(chain, "q", depth, nbytes).split(j=keys).online(slack or 0.0).pipeline(stages)
    chain = tile_to_shared(chain, "k", depth, nbytes)
    if values_given.name == "v" and nbytes == 1:
        chain = chain.load("v", SH, staged(along="j", across=4)).storage_layout(ColMajor).pad(VECTOR_NBYTES)
    elif values_given.name == "v":
        chain = tile_to_shared(chain, "v", width, nbytes)

    def scores(s: StepChain) -> Schedule:
        s = s.split(d=gcd(step, depth)).unroll().load("q", FR, ldmatrix()).load("k", FR, ldmatrix())
        return s.tile(i=ROWS, j=8).unroll().done()

    def values(o: StepChain) -> Schedule:
        return _weighed(spec, o.split(j=step).unroll())

    return chain.tile(i=rows).to(Warp).each(s=scores, o=values)


@preset
def volta(spec: ProgramChain, warps: int | None = None, keys: int | None = None, stages: int = 2) -> Schedule:
    """Schedule attention for the first tensor cores, sm_70, by mma.m8n8k4: each quad-pair computes 8 queries.

    Quad-pairs of a warp have rows of their own and all keys, so a row's sums lie in two threads. A thread's weights are
    columns of two rows; before the second product, two threads exchange them by a shuffle for each register of a factor
    (`shfl.regroup.b16`). Copies through registers load keys and values of later chunks.

    Args:
        spec: `attention` of four-dimensional arrays of f16.
        warps: number of warps of a block, with 32 queries each; by default 4, or 2 where shared memory does not
            suffice.
        keys: number of keys of a chunk; by default 32, or 16 for more than 128 columns.
        stages: number of chunks of keys and values in shared memory.

    Raises:
        FireironError: `attention-dtypes` for other types than f16.
    """
    depth, width = columns(spec)
    queries = array(spec, "q")
    dtype = queries.dtype
    if dtype.name != "f16":
        raise FireironError(
            "attention-dtypes",
            f"quad-pairs multiply f16, and {queries.name} is {dtype}",
            fix="attention.simt takes all floats; attention.mma takes bf16 from sm_80 on",
        )
    nbytes = dtype.nbytes
    keys = _in_a_page(spec, keys or (32 if depth <= WIDEST else ROWS))
    parts = _parts(width, WIDEST)
    width = parts.get("e", width)
    ring = stages * keys * (depth + width) * nbytes
    warps = warps or (4 if ring + 4 * QUADS * depth * nbytes <= SHARED else 2)
    chain = spec.tile(**heads(spec), i=warps * QUADS, **parts).to(Block).epilog(memory=FR)
    chain = swizzled(chain.load("q", SH, vector()), depth, nbytes).split(j=keys).online().pipeline(stages)
    chain = swizzled(chain.load("k", SH, staged()), depth, nbytes)
    if array(spec, "v", "k").name == "v":
        chain = swizzled(chain.load("v", SH, staged()), width, nbytes)

    def scores(s: StepChain) -> Schedule:
        s = s.split(d=VECTOR_NBYTES // nbytes).unroll().load("q", FR, conform()).load("k", FR, conform())
        return s.tile(i=8, j=8).unroll().split(d=4).unroll().done()

    def values(o: StepChain) -> Schedule:
        return o.split(j=4).unroll().load(array(spec, "v", "k").name, FR, conform()).tile(i=8, e=8).unroll().done()

    return chain.tile(i=QUADS).to(Warp).tile(i=8).to(QuadPair).each(s=scores, o=values)


@preset
def wgmma(
    spec: ProgramChain,
    groups: int | None = None,
    keys: int | None = None,
    stages: int | None = None,
    persistent: bool | None = None,
    draw: bool | None = None,
    bulk_store: bool | None = None,
    slack: float | None = None,
    speculate: bool | None = None,
) -> Schedule:
    """Schedule attention for Hopper: one role issues bulk copies; warpgroups of 64 queries compute by wgmma.

    The second product reads the weights from registers. A warpgroup computes the next chunk's scores while it computes
    this chunk's weights. Weights of 8 bits are exchanged between four lanes, and their values are those whose keys have
    stride 1: `tensor(b, h, j, e, strides=(h * e * j, e * j, 1, j))`.

    Args:
        spec: `attention` of four-dimensional arrays of floats of 16 or 8 bits.
        groups: number of warpgroups that compute, with 64 queries each. By default 2, or 3 for heads of at most 80
            columns if a model of times finds them faster, as where few queries do not leave much of such tiles empty;
            and fewer where blocks of fewer warpgroups are at most as many as multiprocessors, or under masks twice as
            many.
        keys: number of keys of a chunk. By default the number from 64 to 128 that the model finds fastest, as one that
            leaves little of the last chunk empty; fewer where registers or shared memory do not suffice.
        stages: number of chunks of keys and values in shared memory; by default as many as fit, 2 to 4.
        persistent: whether blocks loop over tiles; by default where shared memory holds the next tile's queries, except
            where all blocks run at once without a mask, and under masks where values have more than 64 columns and
            there is no slack, or heads have more than 128.
        draw: whether persistent blocks draw their tiles from a counter; by default under masks, where tiles take
            unequal times.
        bulk_store: whether results are stored through shared memory by bulk copies; by default where shared memory
            holds them, and rows of values have more than 64 columns or are whole swizzled rows of 128 bytes. Each
            warpgroup stores its own results.
        slack: weights may grow to 2**slack before sums are rescaled; their type must hold this number. By default 40
            with speculation, else 24 (at most 15 for f16, and 0 where random bits or functions need many registers).
        speculate: whether to fold the largest score only in chunks whose weights exceed the slack. Registers then hold
            the weights of two chunks in turn. Weights of bf16 may be up to 60 powers of 2 below 1, so that elements of
            v above 2**75 may overflow f32, and those below 2**-42 lose precision. By default for 16-bit weights and
            heads of at most 128 columns, unless a mask joins comparisons.

    Raises:
        FireironError: `attention-dtypes` for values of 8 bits whose keys do not have stride 1.
    """
    depth, width = columns(spec)
    values_given = array(spec, "v", "k")
    eight = values_given.dtype.bits == 8
    if eight and values_given.strides[-2] != 1:
        raise FireironError(
            "attention-dtypes",
            f"wgmma takes 8-bit values with the keys of a column together, which {values_given.name} has not",
            fix="attention.mma takes them, from sm_89 on; or give values with stride 1 along keys",
        )
    extents = spec.residual.extents
    queries = extents["i"]
    assert queries is not None
    nbytes = array(spec, "q").dtype.nbytes
    step = STEP_NBYTES // nbytes
    spans = [gcd(n * nbytes, SPAN_NBYTES) for n in (depth, width)]
    masked = is_masked(spec)
    most = 0.0 if eight else floor(log2_of(values_given.dtype.limits[1]))
    wide, few_values = max(depth, width) > WIDEST, not (draws(spec) or has_many_values(spec))
    if speculate is None:  # registers hold two chunks' weights beside the sums
        speculate = most > 0 and slack != 0 and not (wide or joins(spec))
    if slack is None:
        lags = (wide or joins(spec)) and few_values
        slack = min(SLACK, most) if speculate else min(LAG, most) if lags else 0.0
    forms = _forms(spec, groups, keys, speculate, slack)
    groups, keys = min(forms, key=lambda form: microseconds(spec, *form)) if len(forms) > 1 else forms[0]
    rows = groups * GROUP_ROWS
    chunk, tile = keys * (depth + width) * nbytes, rows * depth * nbytes
    stored = rows * width * spec.computed.outputs[0].dtype.nbytes
    if bulk_store is None:
        wanted = width > WIDE or width * nbytes % SPAN_NBYTES == 0
        bulk_store = wanted and tile + stored + 2 * chunk <= HOPPER_SHARED
    taken = tile + (stored if bulk_store else 0)
    if persistent is None:
        # For others registers hold no drawn tile's numbers beside the sums.
        held = width <= WIDE or (slack > 0 and not wide) if masked else not _run_at_once(spec, groups)
        persistent = held and taken + tile + 2 * chunk <= HOPPER_SHARED
    taken += tile if persistent else 0
    stages = stages or max(2, min(4, (HOPPER_SHARED - taken) // chunk))
    tiles = -(-queries // rows)
    together = _together(spec)
    chain = spec.tile(**heads(spec), i=rows).to(Block).permute(lambda t: longest_first(t, tiles, together))
    draw = masked if draw is None else draw
    chain = chain.persistent(share=drawn() if draw else None) if persistent else chain
    result = spec.computed.outputs[0].name
    store = through_shared(stmatrix(), tma(spans[1]), (GROUP_ROWS, width), at=Warpgroup)
    chain = chain.epilog(memory=FR, store={result: store} if bulk_store else None)
    chain = chain.load("q", SH, tma(spans[0])).split(j=keys).online(slack, speculate).pipeline(stages)
    chain = chain.specialize(registers=(24, 240) if groups <= 2 else (32, 160)).skew("s")
    chain = chain.load("k", SH, tma(spans[0]))
    line = gcd(keys, SPAN_NBYTES) if eight else spans[1]  # for 8-bit values, a line has the keys of a column
    chain = chain.load("v", SH, tma(line)) if values_given.name == "v" else chain

    def scores(s: StepChain) -> Schedule:
        return s.split(d=step).unroll().done("wgmma")

    def values(o: StepChain) -> Schedule:
        return o.split(j=step).unroll().done("wgmma")

    return chain.tile(i=GROUP_ROWS).to(Warpgroup).each(s=scores, o=values)


@preset
def decode(
    spec: ProgramChain,
    ways: int | None = None,
    warps: int | None = None,
    keys: int | None = None,
    stages: int | None = None,
    rows: int = ROWS,
    step: int | None = None,
) -> Schedule:
    """Schedule attention of few queries and many keys for tensor cores by mma.sync, from sm_80 on.

    Each block has a part of the keys, and each warp a part of these, with copies and loops of its own. Each warp has a
    largest score, sums and results; the last block of a tile to finish combines them in order. Queries of heads that
    share keys fill the rows of an instruction together.

    Args:
        spec: `attention` of floats of 16 or 8 bits.
        ways: number of blocks that share the keys of a tile; by default as many as run at once on an H200, at most 32,
            if each warp has some chunks.
        warps: number of warps of a block; by default 4, or 2 where heads have more than 128 columns.
        keys: number of keys of a warp's chunk; by default 32, or 16 where heads have more than 64 columns. A chunk lies
            in one page.
        stages: number of chunks of a warp's keys and values in shared memory; by default as many as fit, 2 to 4.
        rows: number of rows of a tile, a multiple of 16: queries times heads that share keys.
        step: K of an instruction, along d and along j: 16, or 32 for 8-bit floats.
    """
    depth, width = columns(spec)
    nbytes = array(spec, "q").dtype.nbytes
    step = step or STEP_NBYTES // nbytes
    tile = heads(spec) | _packed(spec, rows) | _parts(width)
    keys = _in_a_page(spec, keys or max(32 if depth + width <= 2 * WIDE else 16, step))
    warps = warps or (4 if depth + width <= 4 * WIDE else 2)
    own = rows * depth * nbytes
    chunk = keys * (depth + (width if array(spec, "v", "k").name == "v" else 0)) * nbytes
    stages = stages or max(2, min(4, (SHARED // warps - own) // chunk))
    ways = ways or _ways(spec, tile, warps * keys)
    chain: ProgramChain = spec.tile(**tile).to(Block)
    if ways > 1:
        chain = chain.split("j", ways=ways, multiple_of=warps * keys).parallel(Block)
    chain = chain.epilog(memory=FR)
    if warps > 1:
        chain = chain.split("j", ways=warps, multiple_of=keys).parallel(Warp)
    else:
        chain = chain.tile(**{name: size for name, size in tile.items() if name in "gi"}).to(Warp)
    chain = tile_to_shared(chain, "q", depth, nbytes).split(j=keys).online().pipeline(stages)
    chain = tile_to_shared(chain, "k", depth, nbytes)
    if array(spec, "v", "k").name == "v":  # for 8-bit values, keys may have stride 1
        chain = tile_to_shared(chain, "v", keys if array(spec, "v", "k").strides[-2] == 1 else width, nbytes)

    def scores(s: StepChain) -> Schedule:
        s = s.split(d=gcd(step, depth)).unroll().load("q", FR, ldmatrix()).load("k", FR, ldmatrix())
        return s.tile(ROWS, 8).unroll().done()

    def values(o: StepChain) -> Schedule:
        return _weighed(spec, o.split(j=step).unroll())

    return chain.each(s=scores, o=values)


def _weighed(spec: ProgramChain, o: StepChain) -> Schedule:
    """Compute the product of weights and values by mma.sync.

    Weights are in the registers where the product of scores left them, which is the layout of 16-bit operands. For
    8-bit weights, a form of the instruction is used whose order of keys is that of columns of sums.
    """
    given = array(spec, "v", "k")
    name, kind = given.name, given.dtype
    if kind.bits == 8:
        return o.load(name, FR).tile(ROWS, 8).unroll().done(f"mma.m16n8k32.f32.{kind}.of_sums")
    return o.load(name, FR, ldmatrix()).tile(ROWS, 8).unroll().done()


def _forms(
    spec: ProgramChain, groups: int | None, keys: int | None, speculate: bool, slack: float
) -> list[tuple[int, int]]:
    """List numbers of warpgroups and of keys of a chunk for which registers and shared memory suffice.

    There are several for known extents with speculation, which the model of times knows. Given numbers are kept.
    """
    depth, width = columns(spec)
    widest, extents = max(depth, width), spec.residual.extents
    masked, nbytes = is_masked(spec), array(spec, "q").dtype.nbytes
    step = ROWS if nbytes > 1 else STEP_NBYTES  # lines of 8-bit values have at least 32 keys
    queries, length = extents["i"], extents["j"]
    known = all(isinstance(n, int) for n in extents.values())
    ragged = length is None or length % 128 != 0  # two masks a score: fewer scores at a time

    def most(groups: int) -> int:
        """Return the most keys of a chunk."""
        bounded = any(step.compares_elements for step in spec.computed.steps)  # bounds need registers
        size = 128 if groups < 3 else 64 if widest > WIDE else 80 if bounded else 96
        if masked and width > WIDE and (ragged or groups < 2 or joins(spec)) and (speculate or not slack):
            size = min(size, 128 - step)
        if draws(spec):  # random bits need registers too
            size = min(size, 96 if width <= WIDEST and not speculate else 64)
        if masked and width > WIDEST:
            size = min(size, 64 if needs_registers(spec) else 80)
        if has_many_values(spec):  # what functions read or compute needs registers too
            joined = joins(spec) or (masked and widest > WIDEST)
            free = widest <= WIDE and not masked
            size = min(size, 64 if _bounds(spec) else 80 if joined else 112 if free else 96)
        if width > 192 or ((masked or draws(spec)) and groups > 2 and not speculate):
            # Registers hold the sums, and masks or random bits beside few scores.
            size = 48 if width > 192 and masked and needs_registers(spec) else 64
        shared = (HOPPER_SHARED - groups * GROUP_ROWS * depth * nbytes) // (2 * (depth + width) * nbytes)
        size = min(size, max(ROWS, shared // ROWS * ROWS))
        single = length == 2 * size and size > step and not speculate  # registers spill in a loop of one trip
        return size - step if single else size

    if groups:
        counts: tuple[int, ...] = (groups,)
    elif speculate:
        three = known and widest <= THREE_WIDEST and not needs_registers(spec)
        counts = (3, 2) if three else (2,)
    else:
        few = isinstance(length, int) and length <= SHORT
        empty = isinstance(queries, int) and queries < SHORT and queries % (3 * GROUP_ROWS) != 0
        counts = (3,) if few and widest <= WIDE and not empty else (2,)
    counts = counts if groups else tuple(_spread(spec, n) for n in counts)
    found: list[tuple[int, int]] = []
    for n in counts:
        fewer = (size for size in KEYS if size < most(n) and size % step == 0)
        sizes = (keys,) if keys else (most(n), *fewer) if known and speculate else (most(n),)
        found += [(n, _in_a_page(spec, size)) for size in sizes]
    return list(dict.fromkeys(found))


def _together(spec: ProgramChain) -> int:
    """Choose the number of heads whose tiles are visited together: under masks, those whose keys stay in the cache."""
    keys, nbytes = spec.residual.extents["j"], array(spec, "q").dtype.nbytes
    held = keys * sum(columns(spec)) * nbytes if isinstance(keys, int) else CACHED
    return beside(spec, CACHED // held) if is_masked(spec) else 1


def _bounds(spec: ProgramChain) -> bool:
    """Say whether a mask reads integers along queries and along keys, and elements bound the loop, in groups of 64."""
    return reads_both(spec) and any(step.compares_elements for step in spec.computed.steps)


def _parts(width: int, most: int = MOST_COLUMNS) -> dict[str, int]:
    """Tile the columns of wide values, whose sums registers do not hold; each block computes the scores again."""
    return {"e": most} if width > most else {}


def _in_a_page(spec: ProgramChain, keys: int) -> int:
    """Return the number of keys of a chunk, reduced so that a chunk lies in one page."""
    lines = array(spec, "k").shape[-2] if spec.computed.gathers else 0
    return gcd(keys, lines) if isinstance(lines, int) else keys


def _packed(spec: ProgramChain, rows: int) -> dict[str, int]:
    """Return a tile of queries and of heads that share keys, which together fill `rows` rows of an instruction."""
    sharing = spec.residual.extents.get("g", 1)
    if "g" not in spec.residual.extents or not isinstance(sharing, int):
        return {"i": rows} | ({"g": 1} if "g" in spec.residual.extents else {})
    together = min(rows, 1 << (sharing - 1).bit_length())
    return {"g": together, "i": rows // together}


def _spread(spec: ProgramChain, groups: int) -> int:
    """Reduce the warpgroups of blocks while blocks of fewer would all run at once."""
    while groups > 1 and _run_at_once(spec, groups - 1):
        groups -= 1
    return groups


def _run_at_once(spec: ProgramChain, groups: int) -> bool:
    """Say whether blocks are no more than multiprocessors, or twice as many under masks: tiles take unequal times."""
    count = blocks(spec, heads(spec) | {"i": groups * GROUP_ROWS})
    return count is not None and count <= (2 * SMS if is_masked(spec) else SMS)


def _ways(spec: ProgramChain, tile: Mapping[str, int], together: int) -> int:
    """Choose the number of blocks that share a tile's keys, to fill the device once, with some chunks each."""
    tiles, keyed = blocks(spec, tile), spec.residual.extents["j"]
    if tiles is None or not isinstance(keyed, int):  # some are known when the kernel runs
        return 1
    return max(1, min(AT_ONCE // tiles, MOST_WAYS, keyed // (LEAST_CHUNKS * together)))
