"""Schedules for folds over any dims: rows, columns, all dims, and dims in the middle.

Folded dims are divided, in this order, among blocks, the warps of a block, the trips of a loop, and the vectors of
lanes. Kept dims are divided among blocks, the innermost one among lanes.
"""

from __future__ import annotations

from math import ceil, prod, sqrt
from typing import Any

from fireiron import (
    RF,
    Block,
    FireironError,
    ProgramChain,
    Schedule,
    Tensor,
    Thread,
    Warp,
    by_atomics,
    in_order,
    preset,
    vector,
)
from fireiron.schedules import rows
from fireiron.schedules._dealt import dealt_alike
from fireiron.schedules._rows import (
    LANES,
    MOST_OF_A_WARP,
    MOST_WARPS,
    OTHERS,
    REGISTERS,
    VECTOR_NBYTES,
    lacking,
    power,
)

BLOCKS = 264  # number of blocks that fill an H200: 2 on each SM
WARPS = 16  # most warps of a block
VECTORS = 8  # number of vectors that a lane loads at once
LEAST = 2  # fewest vectors of a lane for which a further block is faster
COLUMNS = 1  # vectors of a lane's columns that a warp reads side by side: 512 bytes
FEW = 16  # most points of a result that one thread folds
THREADS = 256  # of a block whose threads have results of their own
HELD = 64  # most registers of a thread for such results


@preset
def reduction(spec: ProgramChain, ways: int = 0, atomics: bool = False) -> Schedule:
    """Schedule a program that folds dims and whose outputs do not have these dims.

    Args:
        spec: a program; its largest input gives the order of dims in memory.
        ways: number of blocks that share each result, 0 for as many as fill the GPU.
        atomics: whether blocks combine their parts by atomics, in the order of arrival. Otherwise parts are combined in
            the order of blocks, and results are the same in every run.

    Raises:
        FireironError: `reduction-dims` where no dim is folded, an output has a folded dim, an extent is unknown, or an
            input is read by windows.
    """
    folded, source = _dims(spec)
    extents = {dim: int(extent) for dim, extent in spec.residual.sizes if isinstance(extent, int)}
    order = [dim for dim in _order(spec, source) if extents[dim] > 1 or dim in folded]
    nbytes = max(t.dtype.nbytes for t, _ in _read(spec))
    inner, lane = order[-1], VECTOR_NBYTES // nbytes
    while extents[inner] % lane:
        lane //= 2
    of_result = prod(extents[dim] for dim in folded)
    results = prod(extents.values()) // of_result
    if inner in folded and of_result * nbytes <= MOST_OF_A_WARP and results >= LANES:
        return rows.row(spec)
    if inner not in folded and of_result <= FEW and not ways and results >= BLOCKS * THREADS * lane:
        return _by_threads(spec, extents, order, folded, lane)
    # Columns are a power of two of vectors, so that lanes of one column differ in whole bits of their numbers.
    columns = 1 if inner in folded else lane * power(ceil(extents[inner] / lane), LANES * COLUMNS)
    tile = {dim: 1 for dim in extents if dim not in folded} | ({} if inner in folded else {inner: columns})
    tiles = results if inner in folded else results // extents[inner] * ceil(extents[inner] / columns)
    left = {dim: extents[dim] for dim in order if dim in folded and extents[dim] > 1} or {order[-1]: 1}
    lanes = LANES * lane * LEAST
    most = max(1, of_result * columns // (WARPS * lanes))
    if columns > lane:  # the last block reads as many states of its columns as there are ways, the others their rows
        most = min(most, ceil(sqrt(of_result)))
    ways = ways or max(1, min(BLOCKS // tiles, most))
    outer, pieces = _shared(left, inner, lane, ways)
    ways = min(ways, pieces)
    narrow = [dim for dim in order if dim not in folded and extents[dim] >= WARPS][-1:] if inner in folded else []
    # A warp has a result of its own, where not all warps of a block would have enough to read.
    alone = ways == 1 and bool(narrow) and results >= BLOCKS * WARPS and of_result < WARPS * lanes
    if ways > 1:
        left[outer] = _part(left[outer], ways, lane if outer == inner else 1)
    warps, dim = WARPS, inner
    if not alone:
        warps = min(WARPS, power(ceil(prod(left.values()) * columns / lanes), WARPS))
        dim, pieces = _shared(left, inner, lane, warps)
        most_warps = max(pieces, left[dim] // (lane if dim == inner else 1)) if pieces < 2 else pieces
        warps = min(warps, 1 << (most_warps.bit_length() - 1))
    resident = _resident(spec, warps, 1 if inner in folded else lane)
    of_block = tile | dict.fromkeys(narrow if alone else [], WARPS)
    chain: ProgramChain = spec.tile(**of_block).to(Block, resident=resident)
    if ways > 1:
        chain = chain.split(outer, ways=ways, multiple_of=lane if outer == inner else 1).parallel(
            Block, by_atomics() if atomics else in_order()
        )
    if alone:
        chain = chain.tile(**tile).to(Warp)
    else:
        unit = lane if dim == inner else 1
        chain = chain.split(dim, ways=warps, multiple_of=unit).parallel(Warp)
        left[dim] = _part(left[dim], warps, unit)
    for dim in left:  # outermost dim first
        unit = lane if dim == inner else 1
        over = prod(left.values()) * columns / (LANES * lane * VECTORS)
        if over > 1 and left[dim] > unit:
            chunk = max(unit, int(left[dim] / over) // unit * unit)
            sizes: dict[str, Any] = {dim: chunk}
            chain, left[dim] = chain.split(**sizes), chunk
    return _loaded(chain, spec, order, extents, lane)


def _by_threads(spec: ProgramChain, extents: dict[str, int], order: list[str], folded: set[str], lane: int) -> Schedule:
    """Give each thread the results of a vector of columns, or of several, so that it loads enough vectors at once."""
    inner, of_result = order[-1], prod(extents[dim] for dim in folded)
    others = [dim for dim in order[:-1] if dim not in folded]
    outer = max(others, key=lambda dim: extents[dim], default=inner)
    states = max(len(step.fold.dtypes) for step in spec.computed.steps if step.fold is not None)
    most = max(1, min(VECTORS // of_result, HELD // (lane * states)))
    each = 1 if outer == inner else min(extents[outer], most)
    columns = min(ceil(extents[inner] / lane), THREADS)
    single = dict.fromkeys((dim for dim in extents if dim not in folded), 1)
    tile = single | {outer: each * max(1, THREADS // columns), inner: columns * lane}
    chain = spec.tile(**tile).to(Block, resident=_resident(spec, THREADS // LANES, each * lane))
    chain = chain.tile(**single | {outer: each, inner: lane}).to(Thread)
    return _loaded(chain, spec, order, extents, lane)


def _resident(spec: ProgramChain, warps: int, results: int) -> tuple[int, int]:
    """Return the range of blocks of an SM whose threads hold the vectors that they load at once, beside their results.

    Without such a number, NVRTC takes so few registers that a thread has two or three vectors on their way. On an H200,
    sums of 64M elements in bf16 took 0.90 to 0.93 of the time, with loads that leave the L1 cache alone.

    Args:
        spec: the program.
        warps: number of warps of a block.
        results: number of results of a thread.
    """
    states = sum(len(step.fold.dtypes) for step in spec.computed.steps if step.fold is not None)
    held = OTHERS + VECTORS * VECTOR_NBYTES // 4 * len(_read(spec)) + states * results
    return 1, next((n for n in range(MOST_WARPS // warps, 1, -1) if REGISTERS // (n * warps * LANES) >= held), 1)


def _loaded(chain: ProgramChain, spec: ProgramChain, order: list[str], extents: dict[str, int], lane: int) -> Schedule:
    """Load the inputs that have all dims, in vectors that no thread reads again, and close the chain."""
    whole = [t for t, dims in _read(spec) if set(dims) == set(order) | {d for d in dims if extents[d] == 1}]
    for tensor in dealt_alike(chain, whole, order):
        chain = chain.load(tensor.name, RF, vector(tensor.dtype.nbytes_of(lane), l1="no_allocate"))
    return chain.epilog(memory=RF).done()


def _shared(left: dict[str, int], inner: str, lane: int, ways: int) -> tuple[str, int]:
    """Choose the dim to divide among units: the dim of which most units get a piece; of equal dims the outermost.

    A piece of the innermost dim is the part that the lanes of a warp read at once.

    Returns:
        The dim, and the number of units that have a piece.
    """
    pieces = {dim: max(1, extent // (LANES * lane) if dim == inner else extent) for dim, extent in left.items()}
    busy = {dim: ceil(n / ceil(n / ways)) for dim, n in pieces.items()}
    dim = max(busy, key=lambda d: busy[d])
    return dim, busy[dim]


def _part(extent: int, ways: int, unit: int) -> int:
    return ceil(extent / (ways * unit)) * unit


def _order(spec: ProgramChain, tensor: Tensor) -> list[str]:
    """List a tensor's dims by their strides, largest first."""
    dims = dict(_read(spec))[tensor]
    return [dims[i] for i in tensor.by_strides]


def _read(spec: ProgramChain) -> list[tuple[Tensor, tuple[str, ...]]]:
    """List the inputs that steps read, with their dims; a function may ignore some of its inputs."""
    inputs = spec.computed.inputs
    return [(o.tensor, o.dims) for o in spec.residual.operands if o.tensor in inputs]


def _dims(spec: ProgramChain) -> tuple[set[str], Tensor]:
    """Return the folded dims and the largest input."""
    program = spec.computed
    folded = {d.name for step in program.steps for d in step.over}
    outputs = {t.name for t in program.outputs}
    kept = {d.name for step in program.steps for out in step.outs if out.name in outputs for d in out.dims}
    unknown = [dim for dim, extent in spec.residual.sizes if not isinstance(extent, int)]
    said = "folds no dim" if not folded else ""
    said = said or (f"keeps {min(folded & kept)}" if folded & kept else "")
    said = said or (f"does not say how many {unknown[0]} are" if unknown else "")
    sizes = {dim for dim, _ in spec.residual.sizes}
    placed = [t.name for t, dims in _read(spec) if not sizes.issuperset(dims)]
    said = said or (f"reads windows of {placed[0]}" if placed else "") or lacking(spec)
    if said:
        raise FireironError(
            "reduction-dims",
            f"reductions.reduction folds dims that no output has, and {program.name} {said}",
            fix="use rows.row for rows, or write the chain: tile(...).to(Block), split(...), load(...), done()",
        )
    return folded, max((t for t, _ in _read(spec)), key=lambda t: (len(t.shape), t.dtype.nbytes))
