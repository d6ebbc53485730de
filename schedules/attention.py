"""Schedules for attention: scores, softmax and the product with the values in one kernel, scores on chip.

The program is the formula. A loop over the keys with `online()` keeps the largest score so far, and what was summed
under an older one is corrected. Scores are in units of log2, so that their exponentials are powers of 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, log, prod

from fireiron import (
    FR,
    SH,
    Block,
    ColMajor,
    FireironError,
    ProgramChain,
    Schedule,
    StepChain,
    Tensor,
    Thread,
    Value,
    Warp,
    Warpgroup,
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
from fireiron.schedules._heads import (
    GROUP_ROWS,
    HOPPER_SHARED,
    ROWS,
    SHARED,
    VECTOR_NBYTES,
    WIDE,
    beside,
    heads,
    longest_first,
    tile_to_shared,
)
from fireiron.schedules._scores import SINKS, V_SCALE, Function, Scores, columns, draws, grouped

EXTENTS = {"paged": {"s": 64}}  # that the command line takes by default: lines of a page, whole tiles of keys
SHORT = 1024  # queries or keys: below, what stands around the loop over keys takes a part of the time
SPAN_NBYTES = 128  # of a row, of which bulk copies of swizzled tiles take whole numbers
SLACK = 40.0  # powers of 2 that weights of bf16 may grow to: 2**40 of them are summed in f32 without overflow
AT_ONCE = 2 * machine("sm_90a").sms  # blocks of few queries, whose shared memory lets two run on a multiprocessor
MOST_WAYS = 32  # blocks that share keys: each warp of the last one reads a quarter of their sums, one after another
STEP_NBYTES = 32  # of a row that an instruction takes at once
MOST_COLUMNS = 256  # of values, whose sums registers of a warp hold
LIFT = 8.0  # powers of 2 by which weights of 8 bits are larger: up to 256 of the 448 that e4m3 holds
LEAST_CHUNKS = 2  # of a warp, so that one is on its way while another is computed
WIDEST = 128  # columns of heads: above, registers do not hold the weights of two chunks beside the sums
CACHED = 32 * 1024**2  # bytes of keys and values that stay in Hopper's L2 cache beside the rest


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
    """Take softmax(q k' * scale) v of each head.

    Args:
        q, k, v: queries, keys and values. `attention.on(q="b h g i d")` takes queries of g heads that share one of keys
            and values.
        scale: of the scores, 1 / sqrt(d) by default.
        causal: whether a query sees only keys up to its own place; the last query sees the last key.
        mask: says which keys a query sees: a function of indices (`b`, `h`, `i`, `j`) and of arrays by name. Example:
            `lambda i, j: j <= i`.
        score: makes another score of one, `s`, which is scaled: a function of it, of indices and of arrays by name.
            Example: `lambda s, h, i, j, slope: s - slope[h] * (i - j)`.
        lse: whether the logarithm of each row's sum of exponentials is a second output; -inf where a query sees no key.
        dropout: the part of the weights that is dropped at random. `seed`, three of i32, is an array beside then: two
            are Philox's key, and the third is part of its counter.
        arrays: what the functions read, by subscripts. `sinks` (h) are scores of each head that no value belongs to.
            `q_scale`, `k_scale` and `v_scale` (h of queries, of keys, of values), in f32, are what a head's numbers of
            8 bits are worth: weights are rounded to v's type then, and results have the type that `out=` says.

    Raises:
        FireironError: `attention-scale`; `attention-dropout`; `attention-function` for a function that reads what is
            not there.
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
    """Take attention of one cache of keys, whose first columns are the values: of 576 columns, 512.

    Args:
        q: queries. `latent.on(q="b h g i d")` takes queries of g heads that share one cache.
        k: the cache.
        width: number of its columns that are the values.
        scale, causal, mask, score, lse, dropout, arrays: as `attention` takes them.

    Raises:
        FireironError: as `attention` does; `attention-values` where the cache has no such columns beside others.
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
    """Take attention of keys and values that lie in pages: key j of batch b is line j % s of page `pages[b, j // s]`.

    Args:
        q: queries. `paged.on(q="b h g i d")` takes queries of g heads that share one of keys and values.
        k, v: pages of keys and values, of s lines each.
        pages: the pages of each batch, in i32; each entry is the number of a page, also behind the keys that a mask of
            lengths leaves. The simulator and debug builds refuse others (`gather-range`).
        scale, causal, mask, score, lse, dropout, arrays: as `attention` takes them. Keys that are not there are masked:
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
    """Weigh values by the softmax of scores."""
    rows, seen = scores.rows, scores.seen()
    value = scores.logarithms(scores.products(q, k))
    top = largest(value, "j", where=seen).named("top")
    lift = LIFT if v.dtype.bits == 8 else 0.0
    part = exp2(value - top + lift if lift else value - top)
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
    """Schedule attention on CUDA cores, for every architecture: a thread has a query.

    Args:
        spec: `attention` of four-dimensional arrays.
        rows: queries of a block.
        keys: that are in shared memory at a time.
    """
    chain = spec.tile(**heads(spec), i=rows).to(Block).epilog(memory=FR).split(j=_in_a_page(spec, keys)).online()
    chain = chain.load("k", SH, vector())
    chain = chain.load("v", SH, vector()) if _given_values(spec).name == "v" else chain
    return chain.tile(i=1).to(Thread).done()


@preset
def mma(
    spec: ProgramChain, warps: int | None = None, keys: int | None = None, stages: int = 2, step: int | None = None
) -> Schedule:
    """Schedule attention for tensor cores by mma.sync, from sm_80 on: a warp has 16 queries.

    Keys and values of later chunks are on their way by asynchronous copies. The scores stay in the registers where the
    first product leaves them, and are an operand of the second one there: of 8-bit floats, from sm_89 on, by the form
    of the instruction that counts keys as these registers do, with values that threads transpose on their way.

    Args:
        spec: `attention` of four-dimensional arrays of floats of 16 or 8 bits.
        warps: of a block, 4 or 8 as shared memory allows by default; 4 of 8-bit floats, beside whose copies registers
            are few.
        keys: of a chunk; 64 by default; 32 of 8-bit floats, except where heads have 128 columns: others
            spill with longer chunks.
        stages: chunks of keys and values in shared memory.
        step: of d and of j that an instruction takes at once: 16, or 32 of 8-bit floats.
    """
    depth, width = columns(spec)
    nbytes = spec.computed.inputs[0].dtype.nbytes
    step = step or STEP_NBYTES // nbytes
    keys = _in_a_page(spec, keys or (64 if nbytes > 1 or depth == width == WIDEST else 32))
    ring = stages * keys * (depth + width) * nbytes
    warps = warps or (8 if nbytes > 1 and ring + 8 * ROWS * depth * nbytes <= SHARED else 4)
    chain = spec.tile(**heads(spec), i=warps * ROWS, **_parts(width)).to(Block).epilog(memory=FR)
    chain = tile_to_shared(chain, "q", depth, nbytes).split(j=keys).online().pipeline(stages)
    chain = tile_to_shared(chain, "k", depth, nbytes)
    if _given_values(spec).name == "v" and nbytes == 1:
        chain = chain.load("v", SH, staged(along="j", across=4)).storage_layout(ColMajor).pad(VECTOR_NBYTES)
    elif _given_values(spec).name == "v":
        chain = tile_to_shared(chain, "v", width, nbytes)

    def scores(s: StepChain) -> Schedule:
        s = s.split(d=step).unroll().load("q", FR, ldmatrix()).load("k", FR, ldmatrix())
        return s.tile(i=ROWS, j=8).unroll().done()

    def values(o: StepChain) -> Schedule:
        return _weighed(spec, o.split(j=step).unroll())

    return chain.tile(i=ROWS).to(Warp).each(s=scores, o=values)


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
    """Schedule attention for Hopper: bulk copies by a role of their own, wgmma in warpgroups of 64 queries each.

    The scores stay in registers, and are an operand of the second product there. The next chunk's scores are computed
    while a warpgroup weighs this one's.

    Args:
        spec: `attention` of four-dimensional arrays of 16-bit floats.
        groups: warpgroups that compute, 64 queries each; by default 2. By default 3 for heads of at most 64 columns
            and few keys, or many keys that are speculated on, but not where few queries would leave much of such tiles
            empty.
        keys: of a chunk; 128 by default, 96 for three warpgroups, fewer where registers or shared memory hold no more.
        stages: chunks of keys and values in shared memory; 2 to 4 by default, as many as it holds.
        persistent: whether blocks loop over tiles; by default where shared memory holds the next tile's queries, but
            not under masks where values have more than 64 columns and chunks are not speculated on.
        draw: whether persistent blocks draw their tiles; by default under masks, where tiles take unequal times.
        bulk_store: whether results leave through shared memory by bulk copies; by default where shared memory holds
            them, and values have more than 64 columns or keys are few.
        slack: powers of 2 that weights may grow to before sums are rescaled, at most what their type holds; 40 by
            default where chunks are speculated on, else 0.
        speculate: whether the largest score is looked for only in chunks whose weights outgrow the slack. Weights
            of two chunks are held in turn then. Weights stand up to 60 powers of 2 below 1, so that elements of v above
            2**75 may overflow f32, and those below 2**-42 lose precision. By default where weights are
            bf16 and heads have 65 to 128 columns, or 33 to 64 columns for three warpgroups.

    Raises:
        FireironError: `attention-dtypes` for values of 8 bits.
    """
    depth, width = columns(spec)
    values_given = _given_values(spec)
    if values_given.dtype.bits == 8:
        raise FireironError(
            "attention-dtypes",
            f"wgmma takes 8-bit values with the keys of a column together, which {values_given.name} has not",
            fix="attention.mma takes them, from sm_89 on",
        )
    extents = spec.residual.extents
    queries = extents["i"]
    assert queries is not None
    nbytes = spec.computed.inputs[0].dtype.nbytes
    spans = [gcd(n * nbytes, SPAN_NBYTES) for n in (depth, width)]
    masked = any(step.where is not None for step in spec.computed.steps)
    grows = values_given.dtype.limits[1] >= 2.0**SLACK and slack != 0
    few = isinstance(extents["j"], int) and extents["j"] <= SHORT
    narrow = WIDE // 2 < max(depth, width) <= WIDE
    if groups is None:
        empty = isinstance(queries, int) and queries < SHORT and queries % (3 * GROUP_ROWS) != 0
        many = narrow and grows and not draws(spec) and speculate is not False and isinstance(extents["j"], int)
        groups = 3 if max(depth, width) <= WIDE and (few or many) and not empty else 2
    if speculate is None:
        fits = WIDE < max(depth, width) <= WIDEST  # two chunks' weights, in registers
        speculate = grows and not draws(spec) and (fits or (narrow and groups > 2))
    rows = groups * GROUP_ROWS
    ragged = extents["j"] is None or (extents["j"] % 128) != 0  # two masks a score: fewer scores at a time
    if keys is None:
        keys = 96 if groups > 2 else 112 if masked and ragged and width > WIDE else 128
        if width > WIDE and draws(spec):
            keys = min(keys, 96)  # random bits need registers too
        if masked and width > WIDEST:
            keys = min(keys, 80)
        if _reads_by_score(spec):
            keys = min(keys, 96)  # what a function reads for each score needs registers beside two chunks of weights
        if width > 192 or ((masked or draws(spec)) and groups > 2 and not speculate):
            keys = 64  # registers hold the sums, and masks or random bits beside few scores
        most = (HOPPER_SHARED - rows * depth * nbytes) // (2 * (depth + width) * nbytes)
        keys = _in_a_page(spec, min(keys, max(ROWS, most // ROWS * ROWS)))
    if slack is None:
        slack = SLACK if speculate else 0.0
    chunk, tile = keys * (depth + width) * nbytes, rows * depth * nbytes
    stored = rows * width * nbytes
    if bulk_store is None:
        wanted = width > WIDE or (few and width * nbytes % SPAN_NBYTES == 0)
        bulk_store = wanted and tile + stored + 2 * chunk <= HOPPER_SHARED
    taken = tile + (stored if bulk_store else 0)
    if persistent is None:
        held = speculate or not masked or width <= WIDE  # else a drawn tile's numbers take registers that there are not
        persistent = held and taken + tile + 2 * chunk <= HOPPER_SHARED
    taken += tile if persistent else 0
    stages = stages or max(2, min(4, (HOPPER_SHARED - taken) // chunk))
    tiles = -(-queries // rows)
    keyed = extents["j"]
    held = keyed * (depth + width) * nbytes if isinstance(keyed, int) else CACHED
    together = beside(spec, CACHED // held) if masked else 1
    chain = spec.tile(**heads(spec), i=rows).to(Block).permute(lambda t: longest_first(t, tiles, together))
    chain = chain.persistent(share=drawn() if (masked and draw is not False) or draw else None) if persistent else chain
    result = spec.computed.outputs[0].name
    chain = chain.epilog(memory=FR, store={result: through_shared(stmatrix(), tma(spans[1]))} if bulk_store else None)
    chain = chain.load("q", SH, tma(spans[0])).split(j=keys).online(slack, speculate).pipeline(stages)
    chain = chain.specialize(registers=(24, 240) if groups <= 2 else (32, 160)).skew("s")
    chain = chain.load("k", SH, tma(spans[0]))
    chain = chain.load("v", SH, tma(spans[1])) if values_given.name == "v" else chain

    def scores(s: StepChain) -> Schedule:
        return s.split(d=16).unroll().done("wgmma")

    def values(o: StepChain) -> Schedule:
        return o.split(j=16).unroll().done("wgmma")

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

    Blocks have a part of the keys each, and warps a part of these, by copies and loops of their own. Each warp has a
    largest score, sums and results; these meet once, in order: in the last block of a tile to arrive. Queries of heads
    that share keys fill the rows of an instruction together.

    Args:
        spec: `attention` of floats of 16 or 8 bits.
        ways: blocks that share the keys of a tile; by default as many as run at once on an H200, at most 32, each with
            some chunks a warp.
        warps: of a block; 4 by default, 2 where heads have more than 128 columns.
        keys: of a warp's chunk; 32 by default, 16 where heads have more than 64 columns. A chunk lies
            in one page.
        stages: chunks of a warp's keys and values in shared memory; 2 to 4 by default, as many as it holds.
        rows: of a tile, a multiple of 16: queries times heads that share keys.
        step: of d and of j that an instruction takes at once: 16, or 32 of 8-bit floats.
    """
    depth, width = columns(spec)
    nbytes = spec.computed.inputs[0].dtype.nbytes
    step = step or STEP_NBYTES // nbytes
    keys = keys or max(32 if depth + width <= 2 * WIDE else 16, step)
    keys = _in_a_page(spec, keys)
    warps = warps or (4 if depth + width <= 4 * WIDE else 2)
    own = rows * depth * nbytes
    chunk = keys * (depth + (width if _given_values(spec).name == "v" else 0)) * nbytes
    stages = stages or max(2, min(4, (SHARED // warps - own) // chunk))
    tile = heads(spec) | _packed(spec, rows) | _parts(width)
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
    if _given_values(spec).name == "v":
        chain = tile_to_shared(chain, "v", width, nbytes)

    def scores(s: StepChain) -> Schedule:
        s = s.split(d=step).unroll().load("q", FR, ldmatrix()).load("k", FR, ldmatrix())
        return s.tile(ROWS, 8).unroll().done()

    def values(o: StepChain) -> Schedule:
        return _weighed(spec, o.split(j=step).unroll())

    return chain.each(s=scores, o=values)


def _weighed(spec: ProgramChain, o: StepChain) -> Schedule:
    """Weigh values by mma.sync.

    Weights stand where a product of scores left them. That is where 16-bit factors stand; those of 8 bits stand there
    for the instruction's form whose keys are counted as columns of sums.
    """
    given = _given_values(spec)
    name, kind = given.name, given.dtype
    if kind.bits == 8:
        return o.load(name, FR).tile(ROWS, 8).unroll().done(f"mma.m16n8k32.f32.{kind}.of_sums")
    return o.load(name, FR, ldmatrix()).tile(ROWS, 8).unroll().done()


def _reads_by_score(spec: ProgramChain) -> bool:
    """Say whether a mask reads arrays along queries or keys, or a score function reads floats."""
    own = {"q", "k", "v", SINKS}
    refs = {ref for step in spec.computed.steps for ref in step.reads}
    read = {ref for ref in refs if ref.name in {t.name for t in spec.computed.inputs if t.name not in own}}
    return any(ref.dtype.kind == "float" or {d.name for d in ref.dims} & {"i", "j"} for ref in read)


def _given_values(spec: ProgramChain) -> Tensor:
    """Give the array that holds the values: that of the keys where there is no other."""
    arrays = {tensor.name: tensor for tensor in spec.computed.inputs}
    return arrays.get("v", arrays.get("k", spec.computed.inputs[0]))


def _parts(width: int) -> dict[str, int]:
    """Tile the columns of wide values: registers hold the sums of so many. Each block computes scores for its own."""
    return {"e": MOST_COLUMNS} if width > MOST_COLUMNS else {}


def _in_a_page(spec: ProgramChain, keys: int) -> int:
    """Give how many keys a chunk has that lies in one page, where keys lie in pages."""
    lines = spec.computed.inputs[1].shape[-2] if spec.computed.gathers else 0
    return gcd(keys, lines) if isinstance(lines, int) else keys


def _packed(spec: ProgramChain, rows: int) -> dict[str, int]:
    """Tile queries, and heads that share keys, to the rows of an instruction."""
    sharing = spec.residual.extents.get("g", 1)
    if "g" not in spec.residual.extents or not isinstance(sharing, int):
        return {"i": rows} | ({"g": 1} if "g" in spec.residual.extents else {})
    together = min(rows, 1 << (sharing - 1).bit_length())
    return {"g": together, "i": rows // together}


def _ways(spec: ProgramChain, tile: Mapping[str, int], together: int) -> int:
    """Choose how many blocks share a tile's keys: they fill a device once, with some chunks each."""
    extents = spec.residual.extents
    sizes = [size for size in (extents[name] for name in (*tile, "j")) if isinstance(size, int)]
    if len(sizes) <= len(tile):  # some are known when the kernel runs
        return 1
    *counts, keyed = sizes
    tiles = prod(-(-count // size) for count, size in zip(counts, tile.values(), strict=True))
    return max(1, min(AT_ONCE // tiles, MOST_WAYS, keyed // (LEAST_CHUNKS * together)))
