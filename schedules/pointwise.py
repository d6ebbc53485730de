"""Schedules for programs without folds, and for Moves in global memory: vectors of 16 bytes on both sides.

Each lane has enough vectors in flight to hide the latency. If inputs and outputs are contiguous along different dims, a
tile goes through swizzled shared memory, without bank conflicts on either side.
"""

from __future__ import annotations

from math import ceil, prod

from fireiron import (
    RF,
    SH,
    SRC,
    Block,
    ColMajor,
    FireironError,
    Group,
    MoveChain,
    ProgramChain,
    RowMajor,
    Schedule,
    Swizzle,
    Tensor,
    Thread,
    Warp,
    preset,
    vector,
)
from fireiron.schedules._dealt import dealt_alike
from fireiron.schedules._rows import LANES, VECTOR_NBYTES, power

WARPS = 8  # warps of a block
VECTORS = 4  # vectors of a lane, in all inputs together
BLOCKS = 264  # number of blocks that fill an H200
MANY = 1 << 20  # points along a dim of unknown extent
LINE = 128  # bytes of a line of a tile that goes through shared memory
LONG_LINE = 256  # the same for Moves with many tiles: 0.96 of a copy's rate on an H200; lines of 128 bytes reach 0.91
LONG_WARPS = 16  # warps of a block with such a tile
TILE = 32 << 10  # most bytes of such a tile


@preset
def pointwise(spec: ProgramChain, vectors: int = 0) -> Schedule:
    """Schedule a program without folds, of any rank, with several inputs and outputs.

    A warp takes vectors along the outputs' contiguous dim, and several neighbouring lines if this dim is short. If an
    array holds the indices of lines to read (a gather), each line of a warp goes to a group of lanes. Where no input
    has all dims, as in concatenations, or each element has an index of its own, threads read elements one by one.

    Args:
        spec: a program.
        vectors: number of vectors of a lane for each input; 0 for as many as registers allow.

    Raises:
        FireironError: `pointwise-dims` where a dim is folded.
    """
    dims, full, across = _dims(spec)
    extents = {dim: spec.residual.extents[dim] for dim in dims}
    each = dims[-1] in {d.name for d in spec.computed.gathered}  # elements of a line have numbers of their own
    if each or (not full and not across):
        return _by_elements(spec, {dim: n if isinstance(n, int) else MANY for dim, n in extents.items()})
    nbytes = max(t.dtype.nbytes for t in (*full, *spec.computed.outputs))
    inner, lane = dims[-1], VECTOR_NBYTES // nbytes
    while not all(t.aligned(lane) for t in (*full, *spec.computed.outputs)):
        lane //= 2
    vectors = vectors or max(1, VECTORS // max(1, len(full)))
    known = [extent if isinstance(extent, int) else MANY for extent in extents.values()]
    while vectors > 1 and prod(known) < BLOCKS * WARPS * LANES * lane * vectors:
        vectors //= 2
    # Few points: narrower vectors, where whole warps then divide them, and no point needs a test.
    small = len(dims) == 1 and prod(known) < BLOCKS * LANES * lane
    if small and known[0] % LANES == 0:
        while known[0] % (LANES * lane):
            lane //= 2
    of_warp: dict[str, int] = {}
    of_block: dict[str, int] = {}
    gathered = {d.name for d in spec.computed.gathered}
    alone = prod(extent for dim, extent in zip(dims, known, strict=True) if dim not in gathered)
    lanes = max(2, power(ceil(alone / lane), LANES)) if gathered else LANES
    vectors = min(vectors, power(ceil(alone / (lane * lanes)), vectors))
    left, warps = lanes * lane * vectors, WARPS * LANES // lanes
    for dim, extent in reversed(list(zip(dims, known, strict=True))):
        unit = lane if dim == inner else 1
        size = 1 if dim in gathered else min(left, unit * power(ceil(extent / unit), left))
        beside = min(warps, power(ceil(extent / size), warps))
        if small and extent % size == 0:
            beside = max(n for n in range(1, warps + 1) if extent // size % n == 0)
        of_warp[dim], of_block[dim] = size, size * beside
        left, warps = max(1, left // size), warps // beside
    side = LINE // nbytes
    if across and not full:
        line = across[0][1]
        sizes = _oblong(extents[line], extents[inner], side)
        return _gathered(spec, across, dict.fromkeys(dims, 1) | dict(zip((line, inner), sizes, strict=True)), lane)
    if across:
        square = {inner: side, across[0][1]: side}
        of_block = {dim: square.get(dim, 1) for dim in dims}
        of_warp = {**of_block, across[0][1]: max(1, side // WARPS)}
    chain: ProgramChain = spec.tile(**of_block).to(Block)
    for tensor, _ in across:
        chain = chain.load(tensor.name, SH, vector()).swizzle(_swizzle(tensor.dtype.nbytes, side))
    chain = chain.tile(**of_warp).to(Warp if lanes == LANES else Group(Thread, lanes))
    tile = chain.residual.extents
    wanted = [dim for dim in dims if tile[dim] != 1]
    parts = [
        tensor
        for tensor, named in _by_vectors(spec, inner, lane)
        if tensor not in full
        and tensor.dtype.nbytes_of(lane) <= VECTOR_NBYTES
        and [named[i] for i in tensor.by_strides if tile[named[i]] != 1] == wanted
    ]
    dealt = dealt_alike(chain, full, dims)
    for tensor in [*dealt, *parts] if dealt else full[:1]:
        chain = chain.load(tensor.name, RF, vector(tensor.dtype.nbytes_of(lane)))
    return chain.epilog(memory=RF).done()


def _gathered(spec: ProgramChain, across: list[tuple[Tensor, str]], block: dict[str, int], lane: int) -> Schedule:
    """Schedule a program whose inputs are all contiguous along another dim than its outputs.

    Threads gather the elements of their vectors from a tile in shared memory.

    Args:
        spec: the program.
        across: the inputs, each with its contiguous dim.
        block: extents of a tile, the outputs' contiguous dim last.
        lane: elements of a vector of the outputs.
    """
    *_, inner = block
    chain: ProgramChain = spec.tile(**block).to(Block).epilog(memory=RF)
    for tensor, line in across:
        chain = chain.load(tensor.name, SH, vector())
        short = block[line] * tensor.dtype.nbytes < LINE  # columns of short lines lie in few banks
        chain = chain.pad(1) if short else chain.swizzle(_swizzle(tensor.dtype.nbytes, block[line]))
    vectors = dict.fromkeys(block, 1) | {inner: min(lane, block[inner])}
    threads = min(WARPS * LANES, prod(block.values()) // vectors[inner])
    chain = chain.tile(**vectors).to(Thread, threads).unroll()
    lines, (*_, last) = prod(block[line] for line in {line for _, line in across}), spec.computed.dims
    if last.name != inner and lines < threads:  # neighbouring threads store neighbouring vectors
        beside = threads // lines
        chain = chain.permute(lambda t: t % beside * lines + t // beside)
    for tensor, _ in across:
        chain = chain.load(tensor.name, RF)
    return chain.done()


def _by_elements(spec: ProgramChain, extents: dict[str, int]) -> Schedule:
    """Schedule a program without an input that has all dims: threads store vectors, and read vectors where they can.

    Args:
        spec: the program.
        extents: of its dims, the outputs' contiguous one last.
    """
    *_, inner = extents
    outputs = spec.computed.outputs
    lane = VECTOR_NBYTES // max(t.dtype.nbytes for t in outputs)
    points = prod(extents.values())
    while lane > 1 and (not all(t.aligned(lane) for t in outputs) or points < BLOCKS * WARPS * LANES * lane):
        lane //= 2
    of_thread = dict.fromkeys(extents, 1) | {inner: lane}
    of_block, left = dict[str, int](), WARPS * LANES
    for dim, extent in reversed(extents.items()):
        beside = min(left, power(ceil(extent / of_thread[dim]), left))
        of_block[dim], left = of_thread[dim] * beside, left // beside
    chain: ProgramChain = spec.tile(**{dim: of_block[dim] for dim in extents}).to(Block).epilog(memory=RF)
    chain = chain.tile(**of_thread).to(Thread, WARPS * LANES // left).unroll()
    for tensor, _ in _by_vectors(spec, inner, lane):
        chain = chain.load(tensor.name, RF, vector(min(VECTOR_NBYTES, tensor.dtype.nbytes_of(lane))))
    return chain.done()


def _by_vectors(spec: ProgramChain, inner: str, lane: int) -> list[tuple[Tensor, tuple[str, ...]]]:
    """List the inputs of which a vector exists or not, as parts of a concatenation, and their dims in the program.

    Args:
        spec: the program.
        inner: the outputs' contiguous dim.
        lane: elements of a vector.
    """
    found: list[tuple[Tensor, tuple[str, ...]]] = []
    for t in spec.computed.inputs if lane > 1 else ():
        shifts = {ref.shifts for step in spec.computed.steps for ref in step.reads if ref.name == t.name}
        places = shifts.pop() if len(shifts) == 1 else None
        if places is None:
            continue
        last = t.by_strides[-1]
        dim, shift = places[last]
        whole = t.strides[last] == 1 and isinstance(t.shape[last], int) and t.shape[last] % lane == 0
        if dim == inner and whole and shift % lane == 0 and t.aligned(lane):
            found.append((t, tuple(name for name, _ in places)))
    return found


def _oblong(line: object, inner: object, side: int) -> tuple[int, int]:
    """Choose the sides of a tile of side * side points, powers of two: where one dim is short, the other side is long.

    Args:
        line, inner: extents of the inputs' and of the outputs' contiguous dim.
        side: of a square tile.
    """
    most = [power(n, side * side) if isinstance(n, int) else side * side for n in (line, inner)]
    one, other = (min(n, side) for n in most)
    return (min(most[0], side * side // other), other) if other < side else (one, min(most[1], side * side // one))


@preset
def move(spec: MoveChain) -> Schedule:
    """Schedule a Move between matrices, or batches of matrices, in global memory: a copy or a transpose.

    Args:
        spec: the result of `Move(src, dst)`.
    """
    src, dst = (operand.tensor for operand in spec.residual.operands)
    nbytes = max(src.dtype.nbytes, dst.dtype.nbytes)
    batch = 1 if len(dst.shape) > 2 else None
    lane = VECTOR_NBYTES // nbytes
    if src.order is dst.order:
        lines = (WARPS, LANES * lane) if dst.order is RowMajor else (LANES * lane, WARPS)
        return spec.tile(*lines, batch=batch).to(Block).vectors().to(Thread, WARPS * LANES).unroll().done()
    side, warps = _side(dst, nbytes)
    while not dst.aligned(lane):
        lane //= 2
    vectors = (1, lane) if dst.order is RowMajor else (lane, 1)
    threads = min(warps * LANES, side * side // lane)
    chain = spec.tile(side, side, batch=batch).to(Block).load(SRC, SH, vector()).swizzle(_swizzle(nbytes, side))
    tiles = chain.tile(*vectors, batch=batch).to(Thread, threads).unroll()
    tiles = tiles if dst.order is RowMajor else tiles.layout(ColMajor)
    return tiles.load(SRC, RF).done()


def _side(dst: Tensor, nbytes: int) -> tuple[int, int]:
    """Return the side of a Move's square tile, and the number of warps: long sides if they fit and tiles are many.

    Args:
        dst: the array that is written.
        nbytes: bytes of the wider element type.
    """
    side, elements = LONG_LINE // nbytes, prod(n if isinstance(n, int) else 1 << 20 for n in dst.shape)
    fits = side * side * nbytes <= TILE and elements >= BLOCKS * side * side
    return (side, LONG_WARPS) if fits else (LINE // nbytes, WARPS)


def _swizzle(nbytes: int, side: int) -> Swizzle:
    """Return a swizzle that spreads the columns of a square over the banks, by the number of the line.

    Neither eight threads that write vectors of a line, nor eight threads that read a column, have bank conflicts.

    Args:
        nbytes: bytes of an element.
        side: number of elements of a line.
    """
    lane = VECTOR_NBYTES // nbytes
    return Swizzle(min(3, (side // lane).bit_length() - 1), lane.bit_length() - 1, side.bit_length() - 1)


def _dims(spec: ProgramChain) -> tuple[list[str], list[Tensor], list[tuple[Tensor, str]]]:
    """List the dims by the outputs' strides, largest first, and the inputs that have all dims.

    Inputs that are contiguous along another dim are listed separately, with this dim; none are listed where there are
    several such dims.
    """
    program = spec.computed
    folded = sorted({d.name for step in program.steps for d in step.over})
    every_ref = [ref for step in program.steps for ref in (*step.reads, *step.outs)]
    # An array may be read at other places too: by its plain read threads have its elements.
    names = {d.name for d in program.dims}
    refs = {ref.name: ref for ref in sorted(every_ref, key=lambda ref: names.issuperset(map(str, ref.index)))}
    every = {d.name for d in program.dims}
    # What is read at shifted places (`x[i - 8]`) is loaded there; lines that an array says (`x[ids[i]]`) count.
    plain = {n for n, ref in refs.items() if all(str(e) in names or "[" in str(e) for e in ref.index)}
    sizes = spec.residual.extents

    def full_sized(t: Tensor) -> bool:  # the first part of a concatenation is read plainly too
        return all(str(e) not in names or n == sizes[str(e)] for e, n in zip(refs[t.name].index, t.shape, strict=True))

    whole = [t for t in program.inputs if t.name in plain and {d.name for d in refs[t.name].dims} == every]
    # An array that repeats along a dim has no element of its own for each point.
    whole = [t for t in whole if all(s != 0 or n == 1 for s, n in zip(t.strides, t.shape, strict=True))]
    # Where single elements lie apart, or an array says which are read, threads read them one by one.
    whole = [t for t in whole if full_sized(t) and (t.strides[t.by_strides[-1]] == 1 or t.shape[t.by_strides[-1]] == 1)]
    whole = [t for t in whole if str(refs[t.name].index[t.by_strides[-1]]) in names]
    (first, *_) = program.outputs

    def named(t: Tensor, order: tuple[int, ...]) -> list[str]:
        return list(dict.fromkeys(d.name for i in order for d in refs[t.name].dims_along(i)))

    # Additions may go to any element: their points lie as those of an input do.
    like = next((t for t in whole if refs[first.name].dims != refs[first.name].index), first)
    inner = named(like, like.by_strides)[-1]
    # Lines of inputs that lie apart cost more than those of outputs: points are taken as most inputs have them.
    orders = [found for t in whole if (found := named(t, t.by_strides))[-1] == inner]
    usual = [dim for dim in named(like, like.storage) if dim != inner] + [inner]
    dims = max(orders, key=lambda found: (orders.count(found), found == named(like, like.by_strides)), default=usual)
    lines = [(t, str(refs[t.name].index[t.by_strides[-1]])) for t in whole]
    full = [t for t, line in lines if line == dims[-1]]
    # A buffer's lines are along the last dim of a shape, or of a matrix by columns the dim before.
    across = [(t, line) for t, line in lines if line != dims[-1] and t.storage[-1] == t.by_strides[-1]]
    several = sorted({line for _, line in across})
    if folded:
        raise FireironError(
            "pointwise-dims",
            f"pointwise.pointwise schedules programs without folds, and {program.name} folds {', '.join(folded)}",
            fix="use rows.row or reductions.reduction, or write the chain: tile(...).to(Block), load(...), done()",
        )
    return (dims, [], []) if len(several) > 1 else (dims, full, across)
