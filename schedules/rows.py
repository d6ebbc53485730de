"""Schedules for rows: softmax and the norms, read once and written once, a row kept in registers.

A row goes to some lanes of a warp, to a warp, to the warps of a block or of a cluster, by its width. Blocks with a row
each are persistent: the next rows are on their way to shared memory while a row is folded, and what is read for every
row (gain, bias) stays there. Wider rows go through registers chunk by chunk, once for each fold that needs another.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import attrs

from fireiron import (
    RF,
    SH,
    Block,
    FireironError,
    Group,
    ProgramChain,
    Thread,
    Value,
    Warp,
    by_cluster,
    cp_async,
    mean,
    mean_and_variance,
    preset,
    program,
    rsqrt,
    vector,
)
from fireiron import (
    log_softmax as _log_softmax,
)
from fireiron import (
    softmax as _softmax,
)

LANES = 32
VECTOR_NBYTES = 16
MOST_OF_A_WARP = 2048  # bytes of a row that one warp keeps
MOST_WARPS = 32
BYTES_OF_A_LANE = 64  # of a row, where warps enough for that are at hand
REGISTERS = 65536  # of a block
MOST_REGISTERS = 128  # of a thread
OTHERS = 16  # of a thread: addresses, folds
MOST_THREADS = 1024  # of an SM, with the registers that a row takes
MOST_STAGES = 4
FOLDS = 12 << 10  # bytes of an SM's shared memory that folds and the system take
SHARED = {80: 164 << 10, 87: 164 << 10, 90: 228 << 10, 100: 228 << 10, 103: 228 << 10, 110: 228 << 10}  # bytes of an SM
IN_FLIGHT = 40 << 10  # bytes that an SM reads ahead: 2.1 us of its share of the memory's rate


@program(x="m n")
def softmax(x: Value) -> Value:
    """Take exp(x) / sum(exp(x)) of each row."""
    return _softmax(x, "n")


@program(x="m n")
def log_softmax(x: Value) -> Value:
    """Take log(softmax(x)) of each row."""
    return _log_softmax(x, "n")


@program(x="m n", gain="n", bias="n")
def layernorm(x: Value, gain: Value | None = None, bias: Value | None = None, eps: float = 1e-5) -> Value:
    """Take (x - mean) / sqrt(variance + eps) * gain + bias of each row."""
    middle, variance = mean_and_variance(x, "n")
    y = (x - middle) * rsqrt(variance + eps).named("deviation")
    y = y if gain is None else y * gain
    return y if bias is None else y + bias


@program(x="m n", gain="n")
def rms_norm(x: Value, gain: Value | None = None, eps: float = 1e-6) -> Value:
    """Take x / sqrt(mean(x * x) + eps) * gain of each row."""
    y = x * rsqrt(mean(x * x, "n") + eps).named("deviation")
    return y if gain is None else y * gain


@program(x="m n", residual="m n", gain="n")
def add_rms_norm(x: Value, residual: Value, gain: Value, eps: float = 1e-6) -> tuple[Value, Value]:
    """Add a residual, and take the sum's RMS norm; gives the norm and the sum."""
    total = (x + residual).named("total")
    return total * rsqrt(mean(total * total, "n") + eps).named("deviation") * gain, total


@program(x="m n", residual="m n", gain="n", bias="n")
def add_layernorm(x: Value, residual: Value, gain: Value, bias: Value, eps: float = 1e-5) -> tuple[Value, Value]:
    """Add a residual, and take the sum's layer norm; gives the norm and the sum."""
    total = (x + residual).named("total")
    middle, variance = mean_and_variance(total, "n")
    return (total - middle) * rsqrt(variance + eps).named("deviation") * gain + bias, total


@preset
def row(
    spec: ProgramChain, warps: int = 0, blocks: int = 0, rows: int = 0, resident: int = 0, stages: int = 0
) -> ProgramChain:
    """Schedule a program that folds the columns of rows: a row stays in registers between its folds.

    Args:
        spec: a program whose folds are over one dim, its columns.
        warps: of a block that has a row, 0 for what the row's width asks for.
        blocks: of a cluster that has a row, 0 for what its width asks for.
        rows: of a block whose warps have rows of their own, 0 for as many as four warps take.
        resident: blocks of an SM that the compiler's register budget should allow, 0 where it is free.
        stages: rows that a persistent block has in shared memory, the next ones on their way; 1 for blocks of one row
            each, 0 for what the bytes in flight ask for.
    """
    column, lines = _dims(spec)
    width = spec.residual.extents[column]
    read = [o for o in spec.residual.operands if column in o.dims and o.role in _inputs(spec)]
    inputs = [o for o in read if len(o.dims) > 1]
    nbytes = max(o.dtype.nbytes for o in inputs)
    assert isinstance(width, int)
    lane = gcd(width, VECTOR_NBYTES // nbytes)
    single = dict.fromkeys(lines, 1)
    if not warps and not blocks and width * nbytes <= MOST_OF_A_WARP:
        lanes = _lanes(width // lane)
        of_block = {**single, lines[-1]: rows or 4 * LANES // lanes}
        chain = spec.tile(**of_block).to(Block, resident=resident).tile(**single).to(Group(Thread, lanes))
    else:
        sizes = [o.dtype.nbytes for o in inputs], [o.dtype.nbytes for o in read if len(o.dims) == 1]
        copied = _since(spec, 80) and all(o.tensor.aligned(max(1, 4 // o.dtype.nbytes)) for o in read)
        part = _part(spec, column, lane, sizes if copied else ([], []), warps, blocks)
        stages = stages or part.stages
        chain = spec.tile(**single).to(Block, resident=resident)
        if stages > 1:
            chain = chain.persistent().pipeline(stages)
        if part.blocks > 1:
            chain = chain.split(column, ways=part.blocks, multiple_of=lane).parallel(Block, reduce=by_cluster())
        if part.chunk:
            for operand in inputs if part.stages else ():
                chain = chain.load(operand.role, SH, cp_async())
            chunk: dict[str, Any] = {column: part.chunk}
            chain = chain.split(**chunk)
        chain = chain.split(column, ways=part.warps, multiple_of=lane).parallel(Warp)
        for operand in read if stages > 1 and not part.chunk else ():
            chain = chain.load(operand.role, SH, cp_async())
    for operand in inputs:
        chain = chain.load(operand.role, RF, vector())
    return chain.epilog(memory=RF).done()


@attrs.frozen
class Part:
    """Say how a row is cut, and where it waits.

    Args:
        blocks: of the cluster that has the row.
        warps: of each of them.
        stages: rows of a block's ring; 1 for one row in shared memory at most, 0 for none there.
        chunk: columns that a block's registers take at a time, 0 for all of its part.
    """

    blocks: int
    warps: int
    stages: int
    chunk: int = 0


def _part(
    spec: ProgramChain, column: str, lane: int, sizes: tuple[list[int], list[int]], warps: int, blocks: int
) -> Part:
    """Cut a row: as few blocks as keep it in registers, and warps enough to fill an SM.

    Args:
        spec: the program.
        column: the dim of a row.
        lane: elements of a vector.
        sizes: bytes of an element of the inputs with rows, and of those of a value a column, as far as both can be
            copied to shared memory.
        warps, blocks: what the author wants, or 0.
    """
    width = spec.residual.extents[column]
    assert isinstance(width, int)
    cost, (rows, columns) = _registers(spec, column), sizes
    shared = SHARED.get(_number(spec), 100 << 10) - FOLDS
    clusters = [n for n in (1, 2, 4, 8) if n == 1 or _since(spec, 90)]
    part = Part(1, 1, 0)
    for count in [blocks] if blocks else clusters:
        of_block = -(-width // (count * lane)) * lane
        each, kept = of_block * sum(rows), of_block * sum(columns)
        wanted = warps or max(2, _power(-(-of_block * max(rows or [4]) // (LANES * BYTES_OF_A_LANE)), MOST_WARPS))
        stages = _stages(shared, wanted, each, kept) if rows else 0
        while not warps and wanted < MOST_WARPS and stages > 1 and shared // (2 * each + kept) * wanted < MOST_WARPS:
            wanted *= 2
        registers = min(MOST_REGISTERS, REGISTERS // (wanted * LANES)) - OTHERS
        held = int(registers / cost) // lane * lane  # elements of a lane
        if of_block <= held * wanted * LANES:
            return Part(count, wanted, stages)
        kept_whole = stages or (1 if rows and each <= shared else 0)
        part = Part(count, wanted, kept_whole, max(held, lane) * wanted * LANES)
    return part


def _stages(shared: int, warps: int, each: int, kept: int) -> int:
    """Count the rows of a block's ring: an SM's blocks together have as many bytes on their way as hide the latency.

    Args:
        shared: bytes of an SM.
        warps: of a block.
        each: bytes of a row in its part.
        kept: bytes there that are read for every row. Without room for two rows beside them there is no ring.
    """
    for blocks in range(MOST_THREADS // (warps * LANES), 0, -1):
        stages = min(MOST_STAGES, 1 + -(-IN_FLIGHT // (blocks * each)))
        if blocks * (stages * each + kept) <= shared:
            return stages
    return 2 if 2 * each + kept <= shared else 0


def _registers(spec: ProgramChain, column: str) -> float:
    """Give the registers that one column takes of its thread where most of its values are held at once.

    Arrays are packed; results that several steps read are f32.
    """
    steps, outputs = spec.computed.steps, {t.name for t in spec.computed.outputs}
    read = {o.role: o for o in spec.residual.operands if column in o.dims and o.role in _inputs(spec)}
    rows = sum(o.dtype.nbytes for o in read.values() if len(o.dims) > 1) / 4
    columns = sum(o.dtype.nbytes for o in read.values() if len(o.dims) == 1) / 4
    made = [out for step in steps for out in step.outs if any(d.name == column for d in out.dims)]
    readers = {out.name: [s for s in steps if any(r.name == out.name for r in s.reads)] for out in made}
    stored = sum(out.dtype.nbytes for out in made if out.name in outputs and not readers[out.name]) / 4
    between = (
        sum(
            out.dtype.nbytes
            for out in made
            if readers[out.name] and (out.name in outputs or len(readers[out.name]) > 1)
        )
        / 4
    )
    last = [s for s in steps if any(out.name in outputs and not readers[out.name] for out in s.outs if out in made)]
    again = any(r.name in {o.tensor.name for o in read.values() if len(o.dims) > 1} for s in last for r in s.reads)
    return max(rows + between, between + columns + stored + (rows if again else 0), 0.5)


def _power(wanted: int, most: int) -> int:
    """Give the power of two that is at least so much, and at most so much."""
    return min(most, 1 << max(0, wanted - 1).bit_length())


def _lanes(vectors: int) -> int:
    """Choose how many lanes share a row: as many as leave the fewest idle, each with 4 vectors at most."""
    fits = [n for n in (32, 16, 8, 4, 2) if -(-vectors // n) <= 4] or [LANES]
    return min(fits, key=lambda n: -(-vectors // n) * n)


def _number(spec: ProgramChain) -> int:
    """Give the number of the architecture that the program is for; Hopper's where it leaves that open."""
    return int("".join(c for c in spec.program.arch or "90" if c.isdigit()))


def _since(spec: ProgramChain, number: int) -> bool:
    return _number(spec) >= number


def _inputs(spec: ProgramChain) -> set[str]:
    return {t.name for t in spec.computed.inputs}


def _dims(spec: ProgramChain) -> tuple[str, list[str]]:
    """Name the dim of the columns, and those of the rows."""
    folded = sorted({d.name for step in spec.computed.steps for d in step.over})
    if len(folded) != 1 or not isinstance(spec.residual.extents[folded[0]], int):
        said = (
            f"folds {', '.join(folded) or 'no dim'}" if len(folded) != 1 else f"does not say how many {folded[0]} are"
        )
        raise FireironError(
            "row-columns",
            f"rows.row keeps rows of one known width, and {spec.computed.name} {said}",
            fix="write the chain: tile(...).to(Block), split(...), load(..., RF, vector()), epilog(), done()",
        )
    (column,) = folded
    return column, [d.name for d in spec.computed.dims if d.name != column]
