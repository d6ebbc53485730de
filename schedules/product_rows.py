"""Schedules for products with folds of their rows: product, bias, residual and norm in one kernel.

A cluster of blocks has all columns of some rows; each block has as many columns as its registers hold. Folds of a row
are combined through the cluster's shared memory, so that rows are normed before they are stored.
"""

from __future__ import annotations

from math import prod

import attrs

from fireiron import (
    FR,
    SH,
    Block,
    FireironError,
    ProgramChain,
    Schedule,
    StepChain,
    Value,
    Warp,
    Warpgroup,
    by_cluster,
    einsum,
    ldmatrix,
    machine,
    mean_and_variance,
    preset,
    program,
    rsqrt,
    softmax,
    tma,
)
from fireiron.schedules._heads import GROUP_ROWS, HOPPER_SHARED, ROWS, SHARED, tile_to_shared

DTYPE = "f16"  # default element type on the command line
# Default extents on the command line: whole tiles.
EXTENTS = {name: {"m": 64, "k": 64, "n": 256} for name in ("add_layernorm", "linear_softmax")}
MOST_BLOCKS = 8  # most blocks of a cluster that every GPU with clusters takes
CLUSTERS = (1, 2, 3, 4, 6, 8)  # numbers of blocks of a cluster
# By the number of a block's warpgroups: most columns of 64 rows for which registers hold sums, operands and results;
# registers of a thread that loads, and of a thread that computes.
MOST_COLUMNS = {1: 192, 2: 192, 3: 128}
REGISTERS = {1: None, 2: (24, 240), 3: (32, 160)}
BANKS_NBYTES = 128  # bytes that shared memory reads in a clock
BEHIND = 4000  # clocks of a tile after its product: folds over the cluster, and stores
MANY = 4096  # rows that the model assumes where their number is a symbol
MOST_OF_A_WARP = 128  # most columns of a warp that has 16 rows
CHUNK = 64  # elements of K in a chunk: rows of 128 bytes, which wgmma reads without bank conflicts
SHORT_CHUNK = 32
MOST_STAGES = 4
MOST_WARPS = 16


@program(x="m k", w="n k", bias="n", residual="m n", gain="n", shift="n")
def add_layernorm(
    x: Value, w: Value, bias: Value, residual: Value, gain: Value, shift: Value, eps: float = 1e-5
) -> Value:
    """Compute the layer norm of x w' + bias + residual, by rows."""
    z = (einsum("mk,nk->mn", x, w, name="product") + bias + residual).named("z")
    mean, variance = mean_and_variance(z, over="n")
    return (z - mean) * rsqrt(variance + eps) * gain + shift


@program(x="m k", w="n k", bias="n")
def linear_softmax(x: Value, w: Value, bias: Value | None = None, scale: float = 1.0) -> Value:
    """Compute softmax(x w' * scale + bias) by rows: for weights of experts, attention over few keys, classes.

    Args:
        x: rows.
        w: weights, with a row for each column of the product.
        bias: a value for each column, which is added.
        scale: factor of the product, applied before the bias.
    """
    z = einsum("mk,nk->mn", x, w, name="product")
    z = z if scale == 1.0 else z * scale
    return softmax(z if bias is None else z + bias, over="n")


@attrs.frozen
class Parts:
    """Hold the facts of a program of one product and folds of its rows.

    Args:
        step: name of the product's step.
        left: the operand that has rows.
        right: the operand that has columns.
        row: the innermost dim of rows.
        lines: the other dims of rows.
        column: the dim of columns, which folds after the product fold.
        columns: number of columns.
        depth: the dim that the product folds.
        along: by operand's name, whether `depth` is its contiguous dim.
        nbytes: bytes of an element of the operands.
    """

    step: str
    left: str
    right: str
    row: str
    lines: tuple[str, ...]
    column: str
    columns: int
    depth: str
    along: dict[str, bool]
    nbytes: int

    def tile(self, rows: int) -> dict[str, int]:
        """Return a block's tile of rows."""
        return {**dict.fromkeys(self.lines, 1), self.row: rows}


def parts_of(spec: ProgramChain) -> Parts:
    """Return the facts of a program's product.

    Raises:
        FireironError: `product-rows` for another program, or columns whose number is a symbol.
    """
    steps = spec.computed.steps
    products = [step for step in steps if step.is_product]
    folded = {d.name for step in steps if step not in products for d in step.over}
    kept = {d.name for step in products for d in step.kept}
    found = [step for step in products if len(step.over) == 1 and len(step.reads) == 2]
    if len(products) == len(found) == 1 and len(folded & kept) == 1 and folded <= kept:
        (step,), (column,) = found, folded
        left, right = sorted(step.reads, key=lambda read: column in {d.name for d in read.dims})
        width = spec.residual.extents[column]
        lines = [d.name for d in step.kept if d.name != column]
        if {d.name for d in right.dims} == {column, step.over[0].name} and lines and isinstance(width, int):
            dense = {read.name: list(zip(read.strides, read.dims, strict=True)) for read in (left, right)}
            along = {name: [d for n, d in dims if n == 1][-1] == step.over[0] for name, dims in dense.items()}
            return Parts(
                step.name, left.name, right.name, lines[-1], tuple(lines[:-1]), column, width, step.over[0].name, along,
                left.dtype.nbytes,
            )  # fmt: skip
    raise FireironError(
        "product-rows",
        f"{spec.computed.name} is no product of two arrays whose columns, of a known number, other steps fold",
        fix="give a program such as product_rows.add_layernorm(x, w, bias, residual, gain, shift)",
    )


@preset
def mma(
    spec: ProgramChain, rows: int = 64, blocks: int | None = None, warps: int | None = None, stages: int = 3
) -> Schedule:
    """Schedule a product and folds of its rows for tensor cores by mma.sync, from sm_80 on.

    Args:
        spec: a program of one product of 16-bit floats, whose columns other steps fold.
        rows: number of rows of a block, a multiple of 16.
        blocks: number of blocks of the cluster that has whole rows, from sm_90 on; by default the fewest whose
            registers hold them.
        warps: number of warps that share a row in a block; by default as its columns need.
        stages: number of chunks of K in shared memory.
    """
    given = parts_of(spec)
    clusters = spec.program.arch is None or int("".join(c for c in spec.program.arch if c.isdigit())) >= 90
    fits = SHARED // (stages * SHORT_CHUNK * given.nbytes) - rows
    most = min(fits, MOST_OF_A_WARP * (MOST_WARPS // (rows // ROWS)))
    known = [blocks] if blocks else list(CLUSTERS) if clusters else [1]
    fitting = [n for n in known if given.columns % (ROWS * n) == 0 and given.columns // n <= most]
    if not fitting:
        raise _no_room(given, ROWS, most, clusters)
    blocks = fitting[0]
    columns = given.columns // blocks
    high = rows // ROWS  # pieces of 16 rows; warps that share a row compute all pieces, one after another

    def fits(n: int) -> bool:
        return columns % (ROWS * n) == 0 and columns // n * (high if n > 1 else 1) <= MOST_OF_A_WARP

    warps = warps or next(filter(fits, range(1, MOST_WARPS)), MOST_WARPS)
    chain: ProgramChain = spec.tile(**given.tile(rows)).to(Block)
    if blocks > 1:
        chain = chain.split(given.column, ways=blocks).parallel(Block, by_cluster())
    chain = chain.epilog(memory=FR).split(**{given.depth: SHORT_CHUNK}).pipeline(stages)
    for name, lines in ((given.left, rows), (given.right, columns)):
        chain = tile_to_shared(chain, name, SHORT_CHUNK if given.along[name] else lines, given.nbytes)
    if warps > 1:
        chain = chain.split(given.column, ways=warps).parallel(Warp)

    def product(s: StepChain) -> Schedule:
        s = s.split(**{given.depth: 16}).unroll().load(given.left, FR, ldmatrix()).load(given.right, FR, ldmatrix())
        return s.tile(**{given.row: ROWS, given.column: 8}).unroll().done()

    return chain.tile(**{given.row: ROWS}).to(Warp).each(**{given.step: product})


@preset
def wgmma(
    spec: ProgramChain, groups: int | None = None, blocks: int | None = None, stages: int | None = None
) -> Schedule:
    """Schedule a product and folds of its rows for Hopper: one role issues bulk copies, warpgroups use wgmma.

    Each block of a cluster loads a part of the rows of x for all blocks of the cluster.

    Args:
        spec: a program of one product of 16-bit floats, whose columns other steps fold.
        groups: number of warpgroups of a block that compute, at most 3, with 64 rows each.
        blocks: number of blocks of the cluster that has whole rows. By default `groups` and `blocks` are those with the
            least modelled time.
        stages: number of chunks of K in shared memory; by default as many as fit, at most 4.
    """
    given = parts_of(spec)
    # What lies along columns is read in whole swizzled lines.
    unit = 8 if given.along[given.right] else CHUNK
    known = [(g, b) for g in (2, 3, 1) for b in CLUSTERS if given.columns % (unit * b) == 0 and _fits(given, g, b)]
    fitting = [(g, b) for g, b in known if groups in (None, g) and blocks in (None, b)]
    if not fitting:
        raise _no_room(given, unit, max(MOST_COLUMNS.values()), True)
    groups, blocks = min(fitting, key=lambda shape: _clocks(spec, given, *shape))
    columns, rows = given.columns // blocks, groups * GROUP_ROWS
    chunk = (rows + columns) * CHUNK * given.nbytes
    stages = stages or max(2, min(MOST_STAGES, HOPPER_SHARED // chunk))
    chain: ProgramChain = spec.tile(**given.tile(rows)).to(Block)
    if blocks > 1:
        chain = chain.split(given.column, ways=blocks).parallel(Block, by_cluster())
    chain = chain.epilog(memory=FR).split(**{given.depth: CHUNK}).pipeline(stages, inflight=1)
    chain = chain.specialize(registers=REGISTERS[groups]).load(given.left, SH, tma()).load(given.right, SH, tma())

    def product(s: StepChain) -> Schedule:
        return s.split(**{given.depth: 16}).unroll().done("wgmma")

    return chain.tile(**{given.row: GROUP_ROWS}).to(Warpgroup).each(**{given.step: product})


def _fits(given: Parts, groups: int, blocks: int) -> bool:
    """Say whether registers hold a block's columns, and its rows divide among the blocks that load them."""
    shared = blocks == 1 or (groups * GROUP_ROWS) % (8 * blocks) == 0
    return shared and given.columns // blocks <= MOST_COLUMNS[groups]


def _clocks(spec: ProgramChain, given: Parts, groups: int, blocks: int) -> float:
    """Estimate the clocks of all waves by the reads of shared memory: a wgmma reads 64 rows and all columns."""
    extents, columns = spec.residual.extents, given.columns // blocks
    sizes = [extents[name] for name in (*given.lines, given.row)]
    *outer, inner = [n if isinstance(n, int) else MANY for n in sizes]
    depth = extents[given.depth]
    tiles = prod(outer) * -(-inner // (groups * GROUP_ROWS))
    waves = -(-tiles // (machine("sm_90a").sms_of_clusters(blocks) // blocks))
    read, written = groups * (GROUP_ROWS + columns), groups * GROUP_ROWS + columns
    chunks = (depth if isinstance(depth, int) else MANY) / CHUNK
    return waves * (chunks * (read + written) * CHUNK * given.nbytes / BANKS_NBYTES + BEHIND)


def _no_room(given: Parts, unit: int, most: int, clusters: bool) -> FireironError:
    room = f"{most} columns a block" + (f", {MOST_BLOCKS} blocks of a cluster" if clusters else "")
    return FireironError(
        "product-columns",
        f"no {'cluster' if clusters else 'block'} holds rows of {given.columns} columns in tiles of {unit}: {room}",
        fix="norm the rows by another kernel, or give a number of columns that such tiles divide",
    )
