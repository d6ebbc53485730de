"""Schedules for rows: softmax and the norms, read once and written once, a row kept in registers.

A row goes to some lanes of a warp, to a warp, or to the warps of a block, by its width; wider rows go through registers
chunk by chunk, and are read again for each fold that needs the one before it.
"""

from __future__ import annotations

from math import gcd

from fireiron import (
    RF,
    Block,
    FireironError,
    Group,
    ProgramChain,
    Thread,
    Value,
    Warp,
    by_cluster,
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
MOST_BLOCKS = 8  # of a cluster
MOST_WARPS = 16
BYTES_OF_A_LANE = 64  # of a row, where warps enough for that are at hand
MOST_OF_A_LANE = 128  # bytes of a row that one lane keeps where a block has the row
REGISTERS = 112  # of a thread, for tensors


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
def row(spec: ProgramChain, warps: int = 0, blocks: int = 0, rows: int = 0, resident: int = 0) -> ProgramChain:
    """Schedule a program that folds the columns of rows: a row stays in registers between its folds.

    Args:
        spec: a program whose folds are over one dim, its columns.
        warps: of a block that has a row, 0 for what the row's width asks for.
        blocks: of a cluster that has a row, 0 for what its width asks for.
        rows: of a block whose warps have rows of their own, 0 for as many as four warps take.
        resident: blocks of an SM that the compiler's register budget should allow, 0 where it is free.
    """
    column, lines = _dims(spec)
    width = spec.residual.extents[column]
    inputs = [o for o in spec.residual.operands if column in o.dims and len(o.dims) > 1 and o.role in _inputs(spec)]
    nbytes = max(o.dtype.nbytes for o in inputs)
    assert isinstance(width, int)
    lane = gcd(width, VECTOR_NBYTES // nbytes)
    single = dict.fromkeys(lines, 1)
    if not warps and not blocks and width * nbytes <= MOST_OF_A_WARP:
        lanes = _lanes(width // lane)
        of_block = {**single, lines[-1]: rows or 4 * LANES // lanes}
        chain = spec.tile(**of_block).to(Block, resident=resident).tile(**single).to(Group(Thread, lanes))
    else:
        most = MOST_WARPS * LANES * _of_a_lane(spec, column)  # bytes of a row's part that a block keeps
        cluster = blocks or (_power(-(-width * nbytes // most), MOST_BLOCKS) if _has_clusters(spec) else 1)
        part = -(-width // cluster) * nbytes
        ways = warps or (MOST_WARPS if part > most else _power(-(-part // (LANES * BYTES_OF_A_LANE)), MOST_WARPS))
        chain = spec.tile(**single).to(Block, resident=resident)
        if cluster > 1:
            chain = chain.split(column, ways=cluster, multiple_of=lane).parallel(Block, reduce=by_cluster())
        if part > most:
            chain = chain.split(**{column: most * ways // MOST_WARPS // nbytes})
        chain = chain.split(column, ways=max(2, ways), multiple_of=lane).parallel(Warp)
    for operand in inputs:
        chain = chain.load(operand.role, RF, vector())
    return chain.epilog(memory=RF).done()


def _power(wanted: int, most: int) -> int:
    """Give the power of two that is at least so much, and at most so much."""
    return min(most, 1 << max(0, wanted - 1).bit_length())


def _lanes(vectors: int) -> int:
    """Choose how many lanes share a row: as many as leave the fewest idle, each with 4 vectors at most."""
    fits = [n for n in (32, 16, 8, 4, 2) if -(-vectors // n) <= 4] or [LANES]
    return min(fits, key=lambda n: -(-vectors // n) * n)


def _has_clusters(spec: ProgramChain) -> bool:
    """Say whether blocks may be a cluster, as far as the program says for which architecture it is."""
    arch = spec.program.arch
    return arch is None or int("".join(c for c in arch if c.isdigit())) >= 90


def _of_a_lane(spec: ProgramChain, column: str) -> int:
    """Give the bytes of one tensor that a lane of the largest block keeps, so that all tensors fit into its registers.

    An element takes a register of each tensor: threads compute in f32.
    """
    made = {out.name for step in spec.computed.steps for out in step.outs if any(d.name == column for d in out.dims)}
    tensors = made | {o.role for o in spec.residual.operands if column in o.dims}
    nbytes = max(o.dtype.nbytes for o in spec.residual.operands)
    kept = MOST_OF_A_LANE
    while kept > VECTOR_NBYTES and len(tensors) * (kept // nbytes) > REGISTERS:
        kept //= 2
    return kept


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
