"""Programs of rows (softmax, norms, top-k, ...) and their schedules, which keep a row in registers.

The width of a row decides which threads compute it: some lanes of a warp, a warp, the warps of a block, or a cluster.
Blocks that compute one row at a time are persistent: they load the next rows to shared memory while they fold a row,
and keep arrays that all rows read (gain, bias) there. Wider rows are read in chunks, once for each fold that needs an
earlier one. Where neighbouring rows lie side by side, as channels of pixels do, a thread has a row, or a part of it.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from fireiron import (
    RF,
    SH,
    Block,
    FireironError,
    Group,
    Level,
    ProgramChain,
    Schedule,
    Thread,
    Value,
    Warp,
    by_cluster,
    conform,
    cp_async,
    dropout,
    equal,
    in_order,
    index,
    logsumexp,
    maximum,
    mean,
    mean_and_variance,
    preset,
    program,
    rsqrt,
    topk,
    vector,
    where,
)
from fireiron import (
    cumsum as _cumsum,
)
from fireiron import (
    log_softmax as _log_softmax,
)
from fireiron import (
    max as _max,
)
from fireiron import (
    softmax as _softmax,
)
from fireiron import (
    sum as _sum,
)
from fireiron.schedules._beside_sums import in_two_levels, stages_of, units_of
from fireiron.schedules._narrow_rows import lanes_of
from fireiron.schedules._rows import (
    LANES,
    MOST_IN_REGISTERS,
    MOST_OF_A_WARP,
    OTHERS,
    SMS,
    Row,
    alone,
    once,
    part_of,
    power,
    ranked,
    row_of,
    wanted_of,
)

COLUMNS = 32  # of a row that a thread has, where neighbouring rows lie side by side
MOST_WAYS = 16  # warps that share such rows
MOST_ACROSS = 2048  # columns of such rows, where they are too few to keep the GPU busy


@program(x="m n")
def softmax(x: Value) -> Value:
    """Compute exp(x) / sum(exp(x)) of each row."""
    return _softmax(x, "n")


@program(x="m n")
def log_softmax(x: Value) -> Value:
    """Compute log(softmax(x)) of each row."""
    return _log_softmax(x, "n")


@program(x="m n", gain="n", bias="n")
def layernorm(x: Value, gain: Value | None = None, bias: Value | None = None, eps: float = 1e-5) -> Value:
    """Compute (x - mean) / sqrt(variance + eps) * gain + bias of each row."""
    middle, variance = mean_and_variance(x, "n")
    y = (x - middle) * rsqrt(variance + eps).named("deviation")
    y = y if gain is None else y * gain
    return y if bias is None else y + bias


@program(x="m n", gain="n")
def rms_norm(x: Value, gain: Value | None = None, eps: float = 1e-6) -> Value:
    """Compute x / sqrt(mean(x * x) + eps) * gain of each row."""
    y = x * rsqrt(mean(x * x, "n") + eps).named("deviation")
    return y if gain is None else y * gain


@program(x="m n", residual="m n", gain="n")
def add_rms_norm(x: Value, residual: Value, gain: Value, eps: float = 1e-6) -> tuple[Value, Value]:
    """Add a residual; return the RMS norm of the sum, and the sum."""
    total = (x + residual).named("total")
    return total * rsqrt(mean(total * total, "n") + eps).named("deviation") * gain, total


@program(x="m n", residual="m n", gain="n", bias="n")
def add_layernorm(x: Value, residual: Value, gain: Value, bias: Value, eps: float = 1e-5) -> tuple[Value, Value]:
    """Add a residual; return the layer norm of the sum, and the sum."""
    total = (x + residual).named("total")
    middle, variance = mean_and_variance(total, "n")
    return (total - middle) * rsqrt(variance + eps).named("deviation") * gain + bias, total


@program(x="b g c s", gain="g c", bias="g c")
def group_norm(x: Value, gain: Value, bias: Value, eps: float = 1e-5) -> Value:
    """Compute (x - mean) / sqrt(variance + eps) * gain + bias of each group of c channels with s values each."""
    middle, variance = mean_and_variance(x, "c s")
    return (x - middle) * rsqrt(variance + eps).named("deviation") * gain + bias


@program(x="m n", residual="m n", gain="n", bias="n", mask="m n")
def dropped_add_layernorm(
    x: Value, residual: Value, gain: Value, bias: Value, mask: Value, keep: float = 0.9, eps: float = 1e-5
) -> tuple[Value, Value]:
    """Drop elements where a mask is 0, add a residual; return the layer norm of the sum, and the sum."""
    total = (dropout(mask, keep)(x) + residual).named("total")
    middle, variance = mean_and_variance(total, "n")
    return (total - middle) * rsqrt(variance + eps).named("deviation") * gain + bias, total


@program(x="m n", gain="n")
def quantised_rms_norm(x: Value, gain: Value, eps: float = 1e-6, most: float = 127.0) -> tuple[Value, Value]:
    """Compute the RMS norm as multiples of one scale for each row, at most `most`; return multiples and scales."""
    y = (x * rsqrt(mean(x * x, "n") + eps).named("deviation") * gain).named("normed")
    scale = (_max(maximum(y, -y), "n") * (1 / most)).named("scale")
    return y * where(equal(scale, 0.0), 0.0, 1.0 / scale).named("inverse_scale"), scale


@program(y="m n", dy="m n")
def softmax_backward(y: Value, dy: Value) -> Value:
    """Compute the gradient of a softmax's input from the softmax's output y and the gradient dy of y."""
    return y * (dy - _sum(y * dy, "n"))


@program(x="m n", dy="m n", gain="n", deviation="m", more="m n")
def rms_norm_backward(
    x: Value, dy: Value, gain: Value, deviation: Value | None = None, more: Value | None = None, eps: float = 1e-6,
    statistics: bool = False,
) -> Value | tuple[Value, Value]:  # fmt: skip
    """Compute the gradient of an RMS norm's input; without the forward pass's deviations, they are computed again.

    Another gradient of the input, `more`, is added: where the input is a sum that has other readers. With `statistics`
    the deviations are a second result, for `rms_norm_by_gain`.

    The deviation, a factor of all terms, is multiplied with the sum of g * x, so that one pass over the row sums both.
    """
    by_x, deviation = _of_rms_norm(x, dy * gain, deviation, eps)
    return (_with(by_x, more), deviation.named("deviations")) if statistics else _with(by_x, more)


@program(x="m n", dy="m n", gain="n", middle="m", deviation="m", more="m n")
def layernorm_backward(
    x: Value, dy: Value, gain: Value, middle: Value | None = None, deviation: Value | None = None,
    more: Value | None = None, eps: float = 1e-5, statistics: bool = False,
) -> Value | tuple[Value, Value, Value]:  # fmt: skip
    """Compute the gradient of a layer norm's input; without the forward pass's statistics, they are computed again.

    Another gradient of the input, `more`, is added: where the input is a sum that has other readers. With `statistics`
    the means and deviations are further results, for `layernorm_by_weights`.

    Each of two passes over the row then has two sums: of x and g, then of the squared distances and of g times the
    distance. With the statistics there is one pass.
    """
    by_x, _, middle, deviation = _of_layernorm(x, dy * gain, middle, deviation, eps)
    by_x = _with(by_x, more)
    return (by_x, middle.named("middles"), deviation.named("deviations")) if statistics else by_x


@program(x="m n", dy="m n", gain="n", deviation="m", more="m n")
def rms_norm_gradients(
    x: Value, dy: Value, gain: Value, deviation: Value | None = None, more: Value | None = None, eps: float = 1e-6
) -> tuple[Value, Value]:
    """Compute the gradients of an RMS norm's input and gain; the gradient of the gain is a sum over rows.

    Another gradient of the input, `more`, is added: where the input is a sum that has other readers.
    """
    by_x, deviation = _of_rms_norm(x, dy * gain, deviation, eps)
    return _with(by_x, more), _sum(dy * (x * deviation), "m").named("by_gain")


@program(x="m n", dy="m n", gain="n", middle="m", deviation="m", more="m n")
def layernorm_gradients(
    x: Value, dy: Value, gain: Value, middle: Value | None = None, deviation: Value | None = None,
    more: Value | None = None, eps: float = 1e-5,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """Compute the gradients of a layer norm's input, gain and bias; those of gain and bias are sums over rows.

    Another gradient of the input, `more`, is added: where the input is a sum that has other readers.
    """
    by_x, away, _, deviation = _of_layernorm(x, dy * gain, middle, deviation, eps)
    return _with(by_x, more), _sum(dy * (away * deviation), "m").named("by_gain"), _sum(dy, "m").named("by_bias")


@program(x="m n", dy="m n", deviation="m")
def rms_norm_by_gain(x: Value, dy: Value, deviation: Value) -> Value:
    """Compute the gradient of an RMS norm's gain: a sum over rows, scheduled by `reductions.reduction`.

    For rows that are too wide for `rms_norm_gradients`.
    """
    return _sum(dy * (x * deviation), "m").named("by_gain")


@program(x="m n", dy="m n", middle="m", deviation="m")
def layernorm_by_weights(x: Value, dy: Value, middle: Value, deviation: Value) -> tuple[Value, Value]:
    """Compute the gradients of a layer norm's gain and bias: sums over rows, scheduled by `reductions.reduction`.

    For rows that are too wide for `layernorm_gradients`.
    """
    return _sum(dy * ((x - middle) * deviation), "m").named("by_gain"), _sum(dy, "m").named("by_bias")


def _with(gradient: Value, more: Value | None) -> Value:
    return gradient if more is None else gradient + more


def _of_rms_norm(x: Value, g: Value, deviation: Value | None, eps: float) -> tuple[Value, Value]:
    """Return the gradient of an RMS norm's input, where g is that of x over the root mean square; and the deviation."""
    deviation = rsqrt(mean(x * x, "n") + eps).named("deviation") if deviation is None else deviation
    g = g.named("g")
    slope = (mean(g * x, "n") * deviation * deviation).named("slope")
    return (g - x * slope) * deviation, deviation


def _of_layernorm(
    x: Value, g: Value, middle: Value | None, deviation: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """Return the gradient of a layer norm's input, where g is that of the normed x; x - mean; mean; and deviation."""
    if middle is None or deviation is None:
        middle, variance = mean_and_variance(x, "n")
        deviation = rsqrt(variance + eps).named("deviation")
    g, away = g.named("g"), (x - middle).named("away")
    slope = (mean(g * away, "n") * deviation * deviation * -deviation).named("slope")
    return g * deviation + (away * slope + (mean(g, "n") * -deviation).named("shift")), away, middle, deviation


@program(x="m n", target="m")
def cross_entropy(x: Value, target: Value) -> Value:
    """Compute -log(softmax(x)[target]) of each row; a target is a column's index, and must be valid."""
    chosen = x[:, target].named("chosen")
    return logsumexp(x, "n") - chosen


@program(x="m n", target="m")
def cross_entropy_with_gradient(x: Value, target: Value, scale: float = 1.0) -> tuple[Value, Value]:
    """Compute -log(softmax(x)[target]) of each row, and its gradient by x times a scale (1 / rows for a mean)."""
    every, chosen = logsumexp(x, "n").named("every"), x[:, target].named("chosen")
    return every - chosen, (_softmax(x, "n", lse=every) - where(equal(index("n"), target), 1.0, 0.0)) * scale


@program(x="m n")
def cumsum(x: Value) -> Value:
    """Compute the running sums of each row."""
    return _cumsum(x, "n")


@program(x="m n")
def top(x: Value, k: int = 8) -> tuple[Value, Value]:
    """Find the k largest values of each row and their columns, largest first; equal values keep their order."""
    return topk(x, "n", k)


@program(ids="m", table="v n")
def embedding(ids: Value, table: Value) -> Value:
    """Look up rows of a table: `table[ids]`; scheduled by `pointwise.pointwise`."""
    return table[ids, :]


@program(a="b n h p", b="b n h p", cos="n p", sin="n p")
def rotary(a: Value, b: Value, cos: Value, sin: Value) -> tuple[Value, Value]:
    """Rotate pairs of a head's halves, x[..., :p] and x[..., p:], by angles that depend on the position.

    `pointwise.pointwise` schedules it.

    Source: Su et al., RoFormer: Enhanced transformer with rotary position embedding, 2021, section 3.4.2.
    """
    return a * cos - b * sin, b * cos + a * sin


@program(x="b n h d", cos="n p", sin="n p")
def rotary_pairs(x: Value, cos: Value, sin: Value) -> Value:
    """Rotate neighbours of a head, x[..., 2p] and x[..., 2p + 1], by angles that depend on the position."""
    d = index("d")
    other, p = x[..., d + 1 - 2 * (d % 2)], d // 2
    return x * cos[:, p] + where(equal(d % 2, 0), -other, other) * sin[:, p]


@preset
def row(
    spec: ProgramChain, warps: int = 0, blocks: int = 0, rows: int = 0, resident: int = 0, stages: int = 0,
    at_once: bool = False, two_levels: bool = False, persistent: bool = False,
) -> Schedule:  # fmt: skip
    """Schedule a program that folds the columns of rows: a row stays in registers between its folds.

    A program may also fold the rows, for each column (gradients of gain and bias). Each block then takes some rows, one
    after another, and keeps its sums in registers; the last block adds the sums of all blocks.

    Args:
        spec: a program that folds its columns.
        warps: number of warps of a block that has a row, or 32 rows whose columns lie apart; 0 to choose by the width.
        blocks: number of blocks of the cluster that has a row; 0 to choose by the width. For a program that folds rows,
            number of blocks that share the rows; 0 for as many as run at once.
        rows: number of rows of a block. If warps have rows of their own, 0 stands for the rows of four warps. If warps
            of a block or cluster share each row, 0 stands for one; several rows then share barriers. If rows are
            folded, 0 stands for the number that a model of the SM's time chooses, which also decides how many lanes or
            warps have a row.
        resident: number of blocks of an SM for which the compiler limits registers; 0 to choose.
        stages: number of rows in shared memory of a persistent block, which loads the next rows ahead; 1 for blocks
            that are not persistent, 0 to choose by the bytes in flight.
        at_once: whether all warps of a cluster that has a row meet at one barrier for each fold.
        two_levels: whether groups of blocks combine their sums over rows first, `in_order(two_levels=True)`; by default
            if one block would read 384 KiB or more.
        persistent: whether blocks with `stages=1` are persistent too: they load the next row once the row is in
            registers.
    """
    given = row_of(spec)
    plain = not (given.summed or given.ranked or given.running or given.several) and given.deep == 1
    if given.across and plain and not (blocks or rows or resident or stages or at_once or two_levels or persistent):
        return _across(spec, given, warps)
    if given.summed:
        return _with_sums(spec, given, warps, blocks, rows, resident, stages, two_levels)
    column, single = given.column, given.tile(1)
    chain: ProgramChain
    if given.lines and not warps and not blocks and (given.nbytes <= MOST_OF_A_WARP or given.several):
        lanes = lanes_of(given)
        count = rows or 4 * LANES // lanes
        wanted = wanted_of(given, count * lanes, ceil(given.width / (lanes * given.lane)) * given.lane, True)
        fits = resident or ((0, wanted) if wanted else 0)
        chain = spec.tile(**given.tile(count)).to(Block, resident=fits).tile(**single).to(_lanes(lanes))
    else:
        together = given.tile(rows or 1)
        part = part_of(given.times(rows or 1), warps, blocks)
        if not (warps or blocks or stages) and _reads_once(spec, given):
            wide = given.nbytes > MOST_IN_REGISTERS
            part = ranked(given) if given.ranked else once(given) if wide else alone(given.times(rows or 1))
        persistent = (stages or part.stages) > 1 or persistent or (part.persistent and not stages)
        stages, unit = stages or part.stages, given.lane * LANES  # lanes are idle in one warp alone
        fits = (part.resident, part.wanted) if part.wanted else part.resident
        chain = spec.tile(**together).to(Block, resident=resident or fits)
        if persistent:
            chain = chain.persistent().pipeline(stages or 1)
        if part.blocks > 1:
            chain = chain.split(column, ways=part.blocks, multiple_of=unit).parallel(
                Block, reduce=by_cluster(at_once=at_once or part.at_once)
            )
        if part.chunk:
            for name in given.inputs if part.stages else ():
                chain = chain.load(name, SH, cp_async())
            chain = _in_chunks(chain, column, part.chunk, kept=part.stages > 0)
        if part.ahead:
            chain = chain.pipeline(part.ahead)
            for name in given.inputs:
                chain = chain.load(name, SH, cp_async())
        chain = chain.split(column, ways=part.warps, multiple_of=unit).parallel(Warp)
        for name in (*given.inputs, *list(given.vectors)[: part.vectors]) if persistent and not part.chunk else ():
            chain = chain.load(name, SH, cp_async())
        if part.inner:
            chain = _in_chunks(chain, column, part.inner, kept=persistent)
    for name in _numbers(spec, given):
        chain = chain.load(name, RF)
    return _to_registers(chain, given).epilog(memory=RF).done()


def _to_registers(chain: ProgramChain, given: Row) -> ProgramChain:
    """Load the inputs, of which a lane has the same columns: vectors, and where columns lie apart single elements."""
    for name in given.inputs:
        if name not in given.apart:
            chain = chain.load(name, RF, vector(given.vector(name)))
    for name in given.apart:
        chain = chain.load(name, RF, conform())
    return chain


def _across(spec: ProgramChain, given: Row, warps: int) -> Schedule:
    """Give each thread a row, or each of several warps a part of it, where neighbouring rows lie side by side.

    Lanes read elements that lie together, of one column and 32 rows.

    Args:
        spec: the program.
        given: facts of its rows.
        warps: number of warps that share rows; 0 to choose by the width.

    Raises:
        FireironError: `row-columns` for few rows of many columns, which leave most of a GPU idle.
    """
    if not warps and given.count and given.count < SMS * LANES and given.width > MOST_ACROSS:
        raise FireironError(
            "row-columns",
            f"columns of {spec.computed.name} lie apart, and few blocks share {given.count} rows of {given.width}",
            fix="compute the folds by kernels of their own, by reductions.reduction, or give warps=16 to these blocks",
        )
    ways = warps or power(ceil(given.width / COLUMNS), MOST_WAYS)
    chain: ProgramChain = spec.tile(**given.tile(1) | {given.across: LANES}).to(Block)
    if ways > 1:
        chain = chain.split(given.column, ways=ways).parallel(Warp)
    chain = chain.tile(**given.tile(1)).to(Thread)
    if given.width > 2 * COLUMNS * ways:
        chain = _in_chunks(chain, given.column, COLUMNS, kept=False)
    for name in given.inputs:
        chain = chain.load(name, RF)
    return chain.epilog(memory=RF).done()


def _lanes(count: int) -> Level:
    """Name the level of so many lanes."""
    return Group(Thread, count) if count > 1 else Thread


def _reads_once(spec: ProgramChain, given: Row) -> bool:
    """Say whether a program can read each column once: outputs have no columns, and folds can be corrected later."""
    outputs = {t.name for t in spec.computed.outputs}
    made = [out for step in spec.computed.steps for out in step.outs if out.name in outputs]
    if (given.states > OTHERS and not given.ranked) or any(d.name == given.column for out in made for d in out.dims):
        return False
    sizes: dict[str, Any] = {given.column: given.lane * LANES}
    try:
        spec.tile(**dict.fromkeys(given.lines, 1)).to(Block).split(**sizes).online()
    except FireironError:
        return False
    return True


def _in_chunks(chain: ProgramChain, column: str, chunk: int, kept: bool) -> ProgramChain:
    """Split a row into chunks; folds share one loop if they can be corrected and shared memory does not keep the row.

    Args:
        chain: the chain, down to the units that have the row.
        column: the dim to split.
        chunk: number of columns of all units together.
        kept: whether the row stays in shared memory.
    """
    size: dict[str, Any] = {column: chunk}
    split = chain.split(**size)
    if kept:
        return split
    try:
        return split.online()
    except FireironError:  # a fold that needs another reads the row again
        return split


def _with_sums(
    spec: ProgramChain, given: Row, warps: int, blocks: int, rows: int, resident: int, stages: int, two_levels: bool
) -> Schedule:
    """Give each block some rows, several at once, and sums for each column.

    Lanes have whole vectors of a row that is padded to them, so that only the end of a row is guarded, point by point.

    Raises:
        FireironError: `row-columns` where a block's registers do not hold a row and the sums.
    """
    column, line = given.column, given.summed[0]
    extent = spec.residual.extents[line]
    added = [step for step in spec.computed.steps if any(d.name == line for d in step.over)]
    lines = extent if isinstance(extent, int) else None
    found = units_of(given, lines, len(added), warps, rows)
    if len(given.lines) > 1 or found is None:
        many = f"{given.width} columns are more than a block's registers hold"
        raise FireironError(
            "row-columns",
            f"rows.row keeps {spec.computed.name}'s sums over {line} beside a row, and "
            + ("rows have more dims" if len(given.lines) > 1 else many),
            fix="compute the sums by a kernel of their own: reductions.reduction",
        )
    if given.across:
        raise FireironError(
            "row-columns",
            f"rows.row keeps {spec.computed.name}'s sums over {line} beside a row, and columns lie apart",
            fix="compute the sums by a kernel of their own: reductions.reduction",
        )
    units, together, unit = found.units, LANES // found.lanes, given.lane * found.lanes
    ways = blocks or (found.blocks * SMS if lines is None else min(found.blocks * SMS, -(-lines // found.rows)))
    chain: ProgramChain = spec.tile(**{column: given.width}).to(Block, resident=resident)
    two_levels = two_levels or in_two_levels(given, ways, len(added))
    chain = chain.split(line, ways=ways).parallel(Block, in_order(two_levels=two_levels))
    if found.warps == 1:
        chain = chain.split(column, ways=1, multiple_of=unit).parallel(Group(Warp, units))
        chain = chain.split(line, ways=units, multiple_of=together).parallel(Warp) if units > 1 else chain
    else:
        chain = chain.split(line, ways=units).parallel(Group(Warp, found.warps)) if units > 1 else chain
        chain = chain.split(column, ways=found.warps, multiple_of=unit).parallel(Warp)
    vectors = given.vectors
    for name in vectors if together == 1 else ():
        chain = chain.load(name, RF, vector(given.vector(name)))
    for name in _numbers(spec, given):
        chain = chain.load(name, RF)
    some: dict[str, Any] = {line: together}
    chain = chain.split(**some)
    stages = stages or (1 if given.apart else stages_of(given, found, len(added)))
    if stages > 1:
        chain = chain.pipeline(stages)
        for name in (*given.inputs, *_of_lines(spec, line)):
            chain = chain.load(name, SH, cp_async())
    if together > 1:
        chain = chain.split(line, ways=together).parallel(_lanes(found.lanes))
    for name in vectors if together > 1 else ():
        chain = chain.load(name, RF, vector(given.vector(name)))
    return _to_registers(chain, given).epilog(memory=RF).done()


def _numbers(spec: ProgramChain, given: Row) -> list[str]:
    """List the inputs beside the rows that are one number: without registers, it is read again behind each store."""
    others = {o.role for o in spec.residual.operands} - {*given.inputs, *given.vectors}  # arrays of indices are none
    return [t.name for t in spec.computed.inputs if t.name in others and all(n == 1 for n in t.shape)]


def _of_lines(spec: ProgramChain, line: str) -> list[str]:
    """List the inputs with one value for each row, which asynchronous copies can load ahead: of 4 bytes and more."""
    names = {t.name for t in spec.computed.inputs}
    given = [o for o in spec.residual.operands if o.role in names and o.dims == (line,)]
    return [o.role for o in given if o.dtype.nbytes >= 4]
