"""Products of rows that are normed first, in the same kernel.

A block keeps its rows of x in shared memory. A first loop over chunks computes the rows' statistics; a second loop
norms and multiplies chunk by chunk. So x is read once, and the normed x is not stored to global memory. Each tile of
columns of w computes the statistics again.
"""

from __future__ import annotations

from math import gcd

from fireiron import (
    FR,
    RF,
    SH,
    Block,
    FireironError,
    ProgramChain,
    Schedule,
    Value,
    Warp,
    cp_async,
    einsum,
    mean,
    mean_and_variance,
    preset,
    program,
    rsqrt,
    through_shared,
    vector,
)
from fireiron.schedules._tensor_cores import by_fragments

DTYPE = "f16"  # default element type on the command line
ROWS = 16  # rows of a warp: those of one instruction
SHARED = {
    80: 163 << 10,
    87: 163 << 10,
    90: 227 << 10,
    100: 227 << 10,
    103: 227 << 10,
    110: 227 << 10,
}  # bytes of a block
PAD = 8  # elements after each line in shared memory, so that ldmatrix has no bank conflicts
NORMED = "normed"  # the step whose value the product multiplies


@program(x="m k", gain="k", w="n k")
def rms_norm_matmul(x: Value, gain: Value, w: Value, eps: float = 1e-6) -> Value:
    """Multiply x / sqrt(mean(x * x) + eps) * gain, row by row, by the transpose of w."""
    y = x * rsqrt(mean(x * x, "k") + eps).named("deviation") * gain
    return einsum("mk,nk->mn", y.cast(w.dtype).named(NORMED), w, name="product")


@program(x="m k", gain="k", bias="k", w="n k")
def layernorm_matmul(x: Value, gain: Value, bias: Value, w: Value, eps: float = 1e-5) -> Value:
    """Multiply (x - mean) / sqrt(variance + eps) * gain + bias, row by row, by the transpose of w."""
    middle, variance = mean_and_variance(x, "k")
    y = (x - middle) * rsqrt(variance + eps).named("deviation") * gain + bias
    return einsum("mk,nk->mn", y.cast(w.dtype).named(NORMED), w, name="product")


@preset
def mma(spec: ProgramChain, rows: int = 0, columns: int = 128, depth: int = 64, stages: int = 2) -> Schedule:
    """Schedule a product of rows that are normed first for tensor cores by mma.sync, from sm_80 on.

    Args:
        spec: a program of this module, or another whose product's left factor is a step named `normed`, in 16 bits.
        rows: number of rows of a block's tile, a multiple of 16; 0 for the largest of 128, 64, 32 and 16 that shared
            memory holds.
        columns: number of columns of a block's tile.
        depth: number of elements of K in a chunk, a multiple of 16.
        stages: number of chunks of w in shared memory.

    Raises:
        FireironError: `normed-rows` for another program, and for rows that shared memory does not hold.
    """
    steps = {step.name: step for step in spec.computed.steps}
    product = next((s for s in spec.computed.steps if s.is_product), None)
    normed = steps.get(NORMED)
    if product is None or normed is None or NORMED not in {ref.name for ref in product.reads}:
        raise FireironError(
            "normed-rows",
            f"normed_products.mma multiplies a step named {NORMED}, and {spec.computed.name} has no product of one",
            fix=f'name the factor: einsum("mk,nk->mn", y.cast(w.dtype).named("{NORMED}"), w)',
        )
    (w,) = (ref for ref in product.reads if ref.name != NORMED)
    x = next(ref for ref in normed.reads if ref.name in {t.name for t in spec.computed.inputs} and len(ref.dims) > 1)
    line, column = normed.outs[0].dims[0].name, next(d.name for d in w.dims if d.name in {k.name for k in product.kept})
    (k,) = (d.name for d in product.over)
    extents = spec.residual.extents
    arch = int("".join(c for c in spec.program.arch or "90" if c.isdigit()))
    kept, whole = SHARED.get(arch, 99 << 10), extents[k]
    lane = gcd(whole, 16 // x.dtype.nbytes) if isinstance(whole, int) else 1

    def taken(count: int) -> int:
        """Return the bytes of shared memory for `count` rows."""
        assert isinstance(whole, int)
        chunks = (stages * columns + count) * (depth + PAD) * w.dtype.nbytes
        return count * (whole + PAD) * x.dtype.nbytes + chunks

    fitting = [n for n in ([rows] if rows else [128, 64, 32, 16]) if isinstance(whole, int) and taken(n) <= kept]
    if not fitting:
        raise FireironError(
            "normed-rows",
            f"{rows or ROWS} rows of {whole} {x.dtype} and chunks of {w.name} are more than the {kept >> 10} KiB of "
            "shared memory that a block has",
            fix="norm the rows by another kernel: rows.row(rows.rms_norm(x, gain))",
        )
    rows = fitting[0]
    chain = spec.tile(**{line: rows, column: columns}).to(Block)
    chain = chain.epilog(memory=FR, store=through_shared(pad=8, reuse=True))
    chain = chain.load(x.name, SH, cp_async()).pad(PAD).split(**{k: depth}).pipeline(stages)  # pyright: ignore[reportArgumentType]
    chain = chain.load(w.name, SH, cp_async()).pad(PAD).allocate(NORMED, SH).pad(PAD)

    warps = chain.tile(**{line: ROWS}).to(Warp).load(x.name, RF, vector(lane * x.dtype.nbytes))
    return warps.each(**{product.name: by_fragments})
