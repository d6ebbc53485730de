"""Divide a row among lanes, warps and blocks, by the registers and shared memory of an SM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd, log2, prod

import attrs

from fireiron import DType, FireironError, ProgramChain, Tensor
from fireiron import arch as target

LANES = 32
VECTOR_NBYTES = 16
MOST_OF_A_WARP = 2048  # bytes of a row that one warp keeps
MOST_IN_REGISTERS = 32 << 10  # bytes of a row that is read once; wider ones go through registers in chunks
MOST_WARPS = 32
MOST_OF_PARTS = 384 << 10  # bytes of all blocks' sums that one block reads
IN_FLIGHT_OF_SUMS = 32 << 10  # bytes that a block reads ahead while it sums over rows
BYTES_OF_A_LANE = 64  # of a row, where few warps are enough for that
FEW_WARPS = 8  # of a block, three of which share an SM while a lane has 1.5 times as many bytes; in larger ones, twice
REGISTERS = 65536  # of a block
MOST_REGISTERS = 128  # of a thread
OTHERS = 16  # of a thread: addresses, folds
GUARDS = 4  # of a thread, for each further input
GUARD_NBYTES = 4  # of a thread, for each element that is loaded alone: its guard, and more values at once
RING = 8  # of a thread, for the places of a ring's rows
MOST_THREADS = 1024  # of an SM, with the registers that a row takes
IN_LOOPS = 3 / 4  # of a thread's registers hold columns where chunks are loaded in loops
MOST_STAGES = 4
WARPS = 16  # of an SM that has one block: of fewer, too many wait at once
FEWEST_WARPS = 4  # of blocks that read a row once
AHEAD = 8  # vectors that a lane loads at once of rows whose folds rank points
ALONE_AHEAD = 32  # of vectors of fewer bytes, at most as many columns
OF_CHUNKS = 3  # a third of a warp's chunks are read ahead at most
RANKED_AHEAD = 120 << 10  # bytes that an SM reads ahead of such rows, whose first chunks take long
CHUNKS_AHEAD = 4  # of such rows, in shared memory, at most: while one is folded, the next ones are on their way
RANKING_WARPS = 24  # of an SM: 80 registers of a thread
BUSY = 4  # warps of an SM that have rows whose folds rank points
MOST_WARPS_TOGETHER = 48  # of an SM, whose lanes hold rows that they read once
MOST_WITH_MORE_ARRAYS = 40  # where lanes load several arrays
MOST_OF_FOLDING = 80  # bytes of a lane, of rows that are folded alone
FOLDS_OF_A_WARP = 3  # vectors of a warp that take as long as its folds
OF_L2 = 4  # vectors of a lane at most, where gains or biases are read from the L2 cache
MOST_TOGETHER = 52 << 10  # bytes of a row's part where three blocks of clusters of 8 share an SM
WIDE = 0.23  # of an SM's shared memory: rows of more bytes leave two blocks of an SM too few registers
SMS = 132  # of an H200
CLUSTERS = [1, 2, 4, 8]  # blocks
WITH_LARGEST = (90, 100, 103)  # architectures whose clusters have up to 16 blocks
LARGEST = 16  # blocks of a cluster that keeps a row in registers
MOST_OF_ONE_SM = 64 << 10  # bytes of a row in all arrays: of wider rows, several share an SM, by blocks of clusters
IDLE = {1: 0.3, 2: 0.1, 3: 0.0}  # cost, by the number of blocks of an SM: what waits for other blocks
UNUSED = 0.3  # cost of clusters of 16 blocks, for which 20 of 132 SMs of an H200 have no room
ONE_PLACE = 0.05  # cost of blocks that have no place for the next row while they read one
BALANCE = 0.1  # cost of twice or half of WARPS warps of an SM
FOR_A_WARP = 4  # bytes of each lane that cost as much as the folds of a warp
LEAST_OF_A_LANE = 48  # bytes of an array
MOST_OF_A_LANE = 128
MOST_OF_A_THREAD = 152  # registers
LEAST_ON_THE_WAY = 32 << 10  # bytes of an SM's rows
FEWEST_OF_AN_SM = 8  # warps
MOST_OF_AN_SM = 24
LOOPED = 1 / 3  # of an SM's shared memory: larger parts of rows are kept in registers, not read in a loop
SQUEEZED = 4 / 3  # columns per estimated column that the compiler fits into a thread's registers at most
FOLDS = 12 << 10  # bytes of an SM's shared memory that folds and the system take
IN_FLIGHT = 40 << 10  # bytes that an SM reads ahead: 2.1 us of its share of the memory's rate


@attrs.frozen
class Row:
    """Hold the facts of a program's rows.

    Args:
        column: the innermost folded dim.
        lines: the dims that count rows; no step folds them together with columns. () where all arrays are one row.
        folded: by dim, the extents of the columns and of the dims that steps fold together with them.
        summed: dims of `lines` that other steps fold for each column: for gradients of gain and bias.
        width: number of columns of a row. A column has `deep` values, along the other folded dims.
        lane: number of columns of a vector.
        inputs, vectors: by role, bytes of an element: of arrays that have rows, and of arrays with one value per
            column.
        dtypes: by role, element types of these arrays.
        registers: most registers that a column needs at once.
        live: registers that a column needs between folds.
        states: registers of a thread to combine two states of a fold, and hold the result.
        arch: number of the program's architecture; Hopper's if the program names none.
        running: whether a step is a running fold along the columns, so that one block has a row and folds it in order.
        copied: whether arrays with rows, and arrays with one value per column, can be copied to shared memory while
            threads compute.
        count: number of rows, 0 if unknown.
        counts: extents of `lines`, 0 if unknown.
        ranked: whether a fold ranks columns (top-k), and keeps few of them.
        several: number of columns that a fold takes at once (top-k of few columns), 0 for one after another.
        apart: inputs that are not read in vectors, where others are: their columns lie apart, or rows between vectors.
        across: where the columns of all inputs lie apart, the dim of `lines` along which they lie together; else "".
    """

    column: str
    lines: tuple[str, ...]
    folded: dict[str, int]
    summed: tuple[str, ...]
    width: int
    deep: int
    lane: int
    inputs: dict[str, int]
    vectors: dict[str, int]
    dtypes: dict[str, DType]
    registers: float
    live: float
    states: int
    arch: int
    copied: bool
    running: bool = False
    count: int = 0
    counts: tuple[int, ...] = ()
    ranked: bool = False
    several: int = 0
    apart: tuple[str, ...] = ()
    across: str = ""

    @property
    def shared(self) -> int:
        """Return the bytes of a multiprocessor's shared memory that rows may take."""
        return target(self.arch).shared_per_sm - FOLDS

    def vector(self, role: str) -> int:
        """Return the bytes of a lane's vector of an array."""
        return self.dtypes[role].nbytes_of(self.lane)

    def tile(self, rows: int) -> dict[str, int]:
        """Return the extents of a tile of some rows; of the whole row where there is one.

        Neighbouring rows are along the last dim. Where it has fewer of them, so are those of the dim before: at most an
        eighth of the threads are idle.
        """
        if not self.lines:
            return self.folded
        made, left = dict[str, int](), rows
        for line, extent in reversed(list(zip(self.lines, self.counts, strict=True))):
            whole, first = 1 << max(0, extent - 1).bit_length(), line == self.lines[0]
            short = 0 < extent < left and not first
            fits = 8 * extent >= 7 * whole and left % whole == 0
            made[line] = left if not short else whole if fits else gcd(extent, left)
            left //= made[line]
        return {line: made[line] for line in self.lines}

    def times(self, rows: int) -> Row:
        """Return the facts of several rows taken together as one."""
        changed = {name: getattr(self, name) * rows for name in ("deep", "registers", "live")}
        return attrs.evolve(self, **changed)

    @property
    def nbytes(self) -> int:
        """Return the bytes of a row in its widest array."""
        return self.width * self.deep * max(self.inputs.values())


@attrs.frozen
class Part:
    """Hold how a row is divided, and where it is kept.

    Args:
        blocks: number of blocks in the cluster that has the row.
        warps: number of warps of each block.
        stages: number of rows in a block's ring; 1 for a single row in shared memory, 0 for none.
        persistent: whether a block with a single row takes one row after another: it loads the next row once the row is
            in registers. A block with a ring always does.
        chunk: number of columns in a block's registers at a time, 0 for its whole part.
        inner: number of columns in a warp's registers at a time, 0 for its whole part. The row stays in shared memory,
            and arrays that no fold reads are loaded after the folds.
        vectors: arrays with one value per column that stay in shared memory beside the ring; others are read from the
            L2 cache.
        at_once: whether all warps of a cluster meet at one barrier for each fold.
        resident: number of blocks of an SM for which the compiler limits registers; 0 lets the compiler choose, which
            may spill registers to fit more blocks.
        wanted: a larger number of blocks of an SM, which the compiler takes if registers then do not spill; 0 for none.
        ahead: chunks of a row in a ring of shared memory, 0 where chunks go to registers at once.
    """

    blocks: int
    warps: int
    stages: int
    chunk: int = 0
    inner: int = 0
    vectors: int = 0
    resident: int = 0
    at_once: bool = False
    ahead: int = 0
    persistent: bool = False
    wanted: int = 0


def row_of(spec: ProgramChain) -> Row:
    """Return the facts of a program's rows.

    Raises:
        FireironError: `row-columns`.
    """
    folded = {d.name for step in spec.computed.steps for d in step.over}
    read = [o for o in spec.residual.operands if o.role in {t.name for t in spec.computed.inputs}]
    ordered = [dim for o in read for dim in o.dims if dim in folded]
    alone = all(len(o.dims) < 2 for o in read)  # one row, and what others call vectors are its arrays
    first = next((o for o in read if any(dim in folded for dim in o.dims) and (len(o.dims) > 1 or alone)), None)
    columns = [dim for dim in first.dims if dim in folded][-1:] if first is not None else ordered[-1:]
    beside = {d.name for s in spec.computed.steps for d in s.over if any(x.name in columns for x in s.over)}
    extents = {dim: spec.residual.extents[dim] for dim in beside}
    unknown = [dim for dim, extent in extents.items() if not isinstance(extent, int)]
    if first is None or not columns or unknown:
        said = f"does not say how many {unknown[0]} are" if unknown else "folds no dim"
        raise FireironError(
            "row-columns",
            f"rows.row keeps rows of one known width, and {spec.computed.name} {said}",
            fix="write the chain: tile(...).to(Block), split(...), load(..., RF, vector()), epilog(), done()",
        )
    (column,) = columns
    known = {dim: extent for dim, extent in extents.items() if isinstance(extent, int)}
    width = known[column]
    deep = prod(known.values()) // width
    inputs = {o.role: o for o in read if column in o.dims and (len(o.dims) > 1 or alone)}
    vectors = {o.role: o for o in read if o.dims == (column,) and not alone}
    sizes, of_vectors = ({role: o.dtype.nbytes for role, o in some.items()} for some in (inputs, vectors))
    arch = int("".join(c for c in spec.program.arch or "90" if c.isdigit()))
    aligned = (o.tensor.aligned(max(1, 4 // o.dtype.nbytes)) for o in (*inputs.values(), *vectors.values()))
    given = {t.name for t in spec.computed.inputs}
    dims = {d.name for s in spec.computed.steps for ref in s.reads if ref.name in given for d in ref.dims}
    lines = tuple(d.name for d in spec.computed.dims if d.name in dims - beside)
    one = all({d.name for d in step.over} in (set(), beside) for step in spec.computed.steps)
    said = lacking(spec, stored=True) or ("" if lines or one else "folds every dim")
    if said:
        raise FireironError(
            "row-columns",
            f"rows.row folds the columns of each row, and {spec.computed.name} {said}",
            fix="compute such folds by kernels of their own: reductions.reduction",
        )
    summed = tuple(x for x in lines if x in folded)
    loaded = (*inputs.values(), *vectors.values()) if summed else inputs.values()  # beside sums, registers hold all
    lane = gcd(width, 8 * VECTOR_NBYTES // max(o.dtype.bits for o in loaded))
    lane, apart, across = _lying({role: (o.tensor, o.dims) for role, o in inputs.items()}, column, lines, lane)
    registers, live = (deep * n for n in _registers(spec, column, sizes, of_vectors, 4 // lane))
    copied = arch >= 80 and all(aligned) and not apart
    states, running = _states(spec), any(step.running for step in spec.computed.steps)
    dtypes = {role: o.dtype for role, o in (*inputs.items(), *vectors.items())}
    arrays, taken = (sizes, of_vectors, dtypes), (registers, live, states)
    counts = tuple(n if isinstance(n, int) else 0 for n in (spec.residual.extents[line] for line in lines))
    count = prod(counts)
    folds = [step.fold for step in spec.computed.steps if step.fold is not None]
    ranked, at_once = any(f.ranking for f in folds), [f.several.count for f in folds if f.several is not None]
    several = max(at_once, default=0)
    return Row(
        column, lines, known, summed, width, deep, lane, *arrays, *taken, arch, copied, running, count, counts, ranked,
        several, apart, across,
    )  # fmt: skip


def _lying(
    inputs: Mapping[str, tuple[Tensor, tuple[str, ...]]], column: str, lines: Sequence[str], lane: int
) -> tuple[int, tuple[str, ...], str]:
    """Find inputs that are not read in vectors of columns: their columns lie apart, or rows start between vectors.

    Args:
        inputs: by role, the arrays that have rows, and their dims.
        column, lines: as in `Row`.
        lane: most columns of a vector.

    Returns:
        The columns of a vector, the roles of such inputs, and "". Where columns of all inputs lie apart there are no
        roles, but the dim of `lines` along which elements lie together, if there is one.
    """
    steps = {role: dict(zip(dims, t.strides, strict=True)) for role, (t, dims) in inputs.items()}
    alone = {role for role, (t, dims) in inputs.items() if t.shape[dims.index(column)] == 1}
    whole = {role: step for role, step in steps.items() if step[column] == 1 or role in alone}
    if not whole:
        across = next((line for step in steps.values() for line in lines if step.get(line) == 1), "")
        return lane if across else 1, (), across  # with nothing side by side, lanes read single elements

    def in_vectors(role: str) -> bool:
        others = [s for dim, s in whole[role].items() if dim != column]
        return all((s if isinstance(s, int) else s.divisor) % lane == 0 for s in others)

    while not any(map(in_vectors, whole)):
        lane //= 2
    return lane, tuple(role for role in inputs if role not in whole or not in_vectors(role)), ""


def lacking(spec: ProgramChain, stored: bool = False) -> str:
    """Say which fold of a program lacks a dim of another fold: threads along this dim would fold the same points.

    Args:
        spec: the program.
        stored: whether folds count only if their results are outputs, which several threads would write.

    Returns:
        Words for an error; empty where all folds have the same dims.
    """
    outputs = {t.name for t in spec.computed.outputs}
    folds = [step for step in spec.computed.steps if step.fold is not None]
    dims = {d.name for step in folds for d in step.dims if spec.residual.extents[d.name] != 1}
    for step in folds:
        missing = sorted(dims - {d.name for d in step.dims})
        if missing and (not stored or any(out.name in outputs for out in step.outs)):
            return f"has fold {step.name} without {missing[0]}"
    return ""


def _states(spec: ProgramChain) -> int:
    return 3 * max(len(step.fold.dtypes) for step in spec.computed.steps if step.fold is not None)


def _registers(
    spec: ProgramChain, column: str, inputs: dict[str, int], vectors: dict[str, int], least: int
) -> tuple[float, ...]:
    """Estimate the registers that one column needs: arrays are packed, and results that several steps read are f32.

    The first number is the maximum; the second is the number between folds.

    Arrays that are not loaded in vectors of four bytes need `least` bytes per element.

    The conditions of folds, with the indices that they compare, count as one register. Inputs that are read again after
    the folds, or by a fold with a large state, are held twice: packed, and as the folds read them.
    """
    steps, outputs = spec.computed.steps, {t.name for t in spec.computed.outputs}
    made = [out for step in steps for out in step.outs if any(d.name == column for d in out.dims)]
    readers = {out.name: [s for s in steps if any(r.name == out.name for r in s.reads)] for out in made}
    last = [out for out in made if out.name in outputs and not readers[out.name]]
    folds = {out.name for step in steps if step.fold is not None for out in step.outs}
    last = [out for out in last if out.name not in folds]
    between = [out for out in made if readers[out.name] and (out.name in outputs or len(readers[out.name]) > 1)]
    again = any(ref.name in inputs for step in steps if set(step.outs) & set(last) for ref in step.reads)
    of_inputs, of_vectors = (sum(max(least, nbytes) for nbytes in some.values()) for some in (inputs, vectors))
    widened = sum(4 for nbytes in inputs.values() if max(least, nbytes) < 4)  # the folds read them so
    stored, kept = (sum(max(most, out.dtype.nbytes) for out in some) for some, most in ((last, least), (between, 4)))
    sums = 4 * sum(out in made for step in steps if step.fold is not None for out in step.outs)
    conditions = sums + (4 if any(step.where is not None for step in steps) else 0)
    # The compiler computes all exponentials of a fold before it adds them up.
    waiting = 4 * any(step.functions for step in steps if step.over)
    read = {ref.name for step in steps if step.over for ref in step.reads}
    beside = sum(max(least, nbytes) for role, nbytes in vectors.items() if role in read)  # that folds read
    folding = of_inputs + beside + max(kept, waiting + (widened if again or _states(spec) > OTHERS else 0))
    behind = kept + (of_inputs if again else 0)
    most = max(folding, behind + of_vectors + stored)
    if any(step.running for step in steps):  # every column has a sum of its own
        most = max(most, of_inputs + kept + stored)
    live = max(of_inputs, kept + (max(of_inputs, widened) if again else 0))
    live += beside + 4 * max(0, len(between) - 1)  # folds of several of them read further ones
    live += least if least == 4 else 0  # of elements that are loaded alone, the guards are held too
    most += GUARD_NBYTES if least == 4 else 0
    return tuple((nbytes + conditions) / 4 for nbytes in (most, live))


def part_of(row: Row, warps: int = 0, blocks: int = 0) -> Part:
    """Divide a row: among the fewest blocks whose registers hold it, with enough warps to fill an SM.

    Args:
        row: facts of the program's rows.
        warps, blocks: numbers that the caller gives, or 0.
    """
    shared = row.shared
    if not warps and not blocks and (few := _several(row, shared)):
        return attrs.evolve(part_of(row, FEW_WARPS, few), at_once=few > 1)
    if not warps and _is_wide(row) and (found := _in_clusters(row, shared, blocks)):
        return found
    clusters = [blocks] if blocks else CLUSTERS if row.arch >= 90 and not row.running else [1]
    part = Part(1, 1, 0)
    for count in clusters:
        unit = LANES * row.lane  # columns that a warp reads at once
        width = ceil(row.width / (count * unit)) * unit
        each = width * row.deep * sum(row.inputs.values())
        sizes = [width * nbytes for nbytes in row.vectors.values()]
        # Two rows need room first: what they leave is for the vectors.
        vectors = next((n for n in range(len(sizes), 0, -1) if 2 * each + sum(sizes[:n]) <= shared), 0)
        kept = sum(sizes[:vectors])
        wanted = warps or _warps(row.nbytes // count)
        stages = _stages(shared, wanted, each, kept) if row.copied else 0
        while not warps and wanted < WARPS and stages > 1 and shared // (2 * each + kept) * wanted < WARPS:
            wanted *= 2
        while (
            not warps and wanted < MOST_WARPS
            and width > _held(row, wanted, _others(row, wanted, count, width)) * wanted * LANES
        ):  # fmt: skip
            wanted *= 2
            stages = _stages(shared, wanted, each, kept) if row.copied else 0
        while not warps and row.states > OTHERS and wanted * LANES * (2 * row.states + OTHERS) > REGISTERS:
            wanted //= 2
        vectors_each = ceil(width / unit / wanted)
        if not warps:  # as few as have equally many vectors a lane
            wanted = ceil(width / unit / vectors_each)
        over = wanted * vectors_each * unit / width  # warps have whole vectors of their lanes
        while stages > 1 and vectors and (2 * each + kept) * over > shared:
            vectors -= 1
            kept = sum(sizes[:vectors])
        if not warps and count == 1 and stages > 1 and vectors < len(sizes) and vectors_each > OF_L2:
            # The L2 cache has the others: with more warps, more of their vectors are on the way.
            wanted = ceil(width / unit / OF_L2)
            over = wanted * OF_L2 * unit / width
        stages = min(stages, _stages(shared, wanted, ceil(each * over), ceil(kept * over))) if row.copied else 0
        others = _others(row, wanted, count, width)
        registers, held = _registers_of(wanted, others), _held(row, wanted, others)
        if not warps and stages == 1 and width > held * wanted * LANES and 2 * each + kept <= shared:
            stages = 2  # a row that registers do not hold stays in shared memory
        if width <= held * wanted * LANES:
            each_lane = ceil(width / (wanted * LANES * row.lane)) * row.lane
            beside = 2 * others + (RING if stages > 1 else 0)
            taken = ceil(max(each_lane * row.live + beside, each_lane * row.registers) / 8) * 8
            threads = ceil(wanted / 4) * 4 * LANES  # registers are given to four warps at a time
            resident = max(1, REGISTERS // (threads * taken)) if MOST_THREADS * taken >= REGISTERS else 0
            much = count > 1 or len(row.inputs) > 1  # of a block with one array, a single row is as fast
            if not warps and resident == stages == 1 and much and 2 * each + kept <= shared:
                stages = 2  # registers leave no room for a second block, which would load while this one folds
            most = wanted_of(row, wanted * LANES, each_lane) if count == 1 and stages <= 1 else 0
            more = most if most > resident else 0
            return Part(count, wanted, stages, vectors=vectors, resident=resident, wanted=more)
        last = stages > 1 or count == clusters[-1]  # more blocks would not be tried
        looped = row.running or not row.copied or (each <= LOOPED * shared and count < CLUSTERS[-1])
        if last and not warps and not looped and (found := _in_clusters(row, shared, blocks)):
            return found
        lane = LANES * row.lane
        few = max(1, int(registers * IN_LOOPS / row.registers) // row.lane) * lane  # columns of a warp at a time
        if count == CLUSTERS[-1] and not warps and not row.running and (stages > 1) == (len(row.inputs) == 1):
            return _widest(row, count)
        if stages > 1 and not row.running:  # else chunks stand above the warps, which take them in order
            of_warp = ceil(width / wanted)
            inner = ceil(of_warp / ceil(of_warp / few) / lane) * lane  # chunks of one size, as few as there can be
            return Part(count, wanted, stages, 0, inner, vectors, 1)
        stays = stages or (1 if row.copied and each <= shared else 0)
        part = Part(count, wanted, stays, few * wanted, resident=1)
    return part


def alone(row: Row) -> Part:
    """Divide a row that a block keeps in registers and does not write: among few warps.

    Such kernels move half of the bytes that others do in the time of as many instructions. The warps are those with the
    fewest vectors, idle lanes included, where a warp's folds count as three vectors. On an H200, cross entropy of 1160,
    2544, 3408 and 5000 columns went from 0.76, 0.80, 0.84 and 0.81 of a copy's speed to 0.86, 0.90, 0.88 and 0.88.
    """
    units, of_vector = ceil(row.width / (LANES * row.lane)), row.lane * sum(row.inputs.values())
    fits = [n for n in range(1, MOST_WARPS + 1) if ceil(units / n) * of_vector <= MOST_OF_FOLDING]
    fits = [n for n in fits if not row.count or n * row.count >= SMS * WARPS]  # fewer rows need more warps each
    return part_of(row, min(fits, key=lambda n: n * (FOLDS_OF_A_WARP + ceil(units / n)), default=0))


def once(row: Row) -> Part:
    """Divide a row that is read once, in chunks whose folds are corrected later, by many small blocks.

    Measured on an H200 at 128,256 columns (cross entropy, GB/s divided by a copy's): 0.96 with 4 warps, 0.92 with 8,
    0.62 with 16, and 0.69 at most in clusters that keep the row.
    """
    registers = _registers_of(FEWEST_WARPS, max(OTHERS, row.states)) * IN_LOOPS
    vectors = max(1, int(registers / row.registers) // row.lane)
    return Part(1, FEWEST_WARPS, 0, FEWEST_WARPS * vectors * row.lane * LANES, resident=1)


def ranked(row: Row) -> Part:
    """Divide a row for top-k: among the fewest warps that fill the SMs, each of which loops over chunks.

    In a warp's first chunk, about k columns exceed the value of rank k, and in chunk c about k / c do. So with fewer
    warps per row, and wider chunks, fewer columns are inserted. If there are fewer rows than SMs, a cluster has each
    row.

    First chunks take much computation, last chunks little. With a ring of chunks, loads continue during the
    computation. Rows that asynchronous copies cannot load have no ring; more columns of a lane are then loaded at once.

    Measured on an H200 (times in us, for the 8 largest of 4096x32000, 32768x4000 and 1024x128256 in bf16, and of
    4096x32000 in f32): 83, 123, 75 and 133. With a state in each lane instead of a list for each warp these took 96,
    196, 86 and 137.
    """
    nbytes = max(row.vector(role) for role in row.inputs)
    few = 0 < row.count < SMS
    vectors = AHEAD // 2 if few else AHEAD
    vectors = max(vectors, min(vectors * VECTOR_NBYTES // nbytes, ALONE_AHEAD // row.lane))
    chunk = vectors * row.lane * LANES
    warps, wanted = 1, SMS * (WARPS if few else BUSY)
    # Without a ring, more warps keep as many bytes on their way.
    wanted, most = (wanted, WARPS) if row.copied else (2 * wanted, MOST_WARPS)
    while 0 < row.count * warps < wanted and warps < most and row.width > 2 * warps * chunk:
        warps *= 2
    fits = [n for n in CLUSTERS if row.arch >= 90 and row.count * n <= SMS and 2 * row.width > n * warps * chunk]
    blocks = max(fits, default=1) if row.count else 1
    of_sm = min(RANKING_WARPS, max(warps, row.count * blocks * warps // SMS)) if row.count else RANKING_WARPS
    of_warp, room = vectors * nbytes * LANES, row.shared
    ahead = min(1 + ceil(RANKED_AHEAD / (of_sm * of_warp)), room // (warps * of_warp))
    chunks = ceil(row.width / (blocks * warps * chunk))
    ahead = min(CHUNKS_AHEAD, ahead, max(2, ceil(chunks / OF_CHUNKS)), chunks) if row.copied else 0
    resident = max(1, RANKING_WARPS // warps)
    return Part(blocks, warps, 0, warps * chunk, resident=resident, ahead=ahead if ahead > 1 else 0)


def _is_wide(row: Row) -> bool:
    """Say whether clusters that share SMs are faster for a row than one block, or one cluster that has its SMs alone.

    In rows of one array without gain or bias, such as softmax's, a thread loops over its part (`_several`).
    """
    whole = row.vector(max(row.inputs, key=lambda role: row.inputs[role])) == VECTOR_NBYTES
    several = len(row.inputs) > 1 or bool(row.vectors)
    kept = row.arch >= 90 and row.copied and not row.running and row.states <= OTHERS
    return kept and whole and several and row.width * row.deep * sum(row.inputs.values()) > MOST_OF_ONE_SM


def _in_clusters(row: Row, shared: int, blocks: int) -> Part | None:
    """Divide a row among blocks of a cluster that keep it in registers; up to three such blocks share an SM.

    While the blocks of one row wait for each other, blocks of other rows compute. Gains and biases stay in shared
    memory beside two rows, or beside one, whose place the next row takes while this one is folded in registers.

    Of all divisions that fit into registers and shared memory, the one with the lowest cost is chosen. The cost is the
    number of vectors that all lanes have, idle lanes included, divided by those of the row, where a warp's folds count
    as a quarter of a vector of each lane; to this a number is added for each resource that lies idle. The numbers
    follow from forms of 26 programs, timed on an H200. Shares of a copy's speed before, with one block on an SM, and
    so: layer norm's gradient of 20,480 columns 0.79 and 0.96, of 58,840 0.79 and 0.91, of 108,016 0.84 and 0.94, of
    180,384 0.76 and 0.95; layer norm of 58,840 columns 0.77 and 0.86, of 108,016 0.59 and 0.90; RMS norm of 58,840
    columns 0.84 and 0.93. Layer norm's gradient of 32,928 columns lost: 0.95 and 0.86.

    Returns:
        None if no cluster keeps the row.
    """
    clusters = [*CLUSTERS, LARGEST] if row.arch in WITH_LARGEST else CLUSTERS if row.arch >= 90 else [1]
    unit, of_column = LANES * row.lane, row.deep * sum(row.inputs.values())
    of_vector = row.lane * row.deep * max(row.inputs.values())  # bytes of a lane
    found: list[tuple[float, Part]] = []
    for count in [blocks] if blocks else clusters:
        units = ceil(row.width / (count * unit))
        for vectors in range(ceil(LEAST_OF_A_LANE / of_vector), MOST_OF_A_LANE // of_vector + 1):
            warps = ceil(units / vectors)
            whole = warps * vectors * unit
            held = row.registers * row.lane * vectors / SQUEEZED + _others(row, warps, count, units * unit)
            each, beside = whole * of_column, whole * sum(row.vectors.values())
            lanes = count * warps * (FOR_A_WARP / of_vector + vectors) * unit / row.width
            for resident in IDLE if warps <= WARPS else ():
                threads = ceil(warps / 4) * 4 * LANES * resident  # registers are given to four warps at a time
                stages = next((n for n in (2, 1) if resident * (n * each + beside) <= shared), 0)
                together = resident * warps
                on_the_way = resident * units * unit * of_column
                if not stages or held > min(MOST_OF_A_THREAD, REGISTERS // threads) or on_the_way < LEAST_ON_THE_WAY:
                    continue
                if not FEWEST_OF_AN_SM <= together <= MOST_OF_AN_SM:
                    continue
                idle = IDLE[resident] + UNUSED * (count == LARGEST) + ONE_PLACE * (stages == 1)
                cost = lanes + idle + BALANCE * abs(log2(together / WARPS))
                part = Part(count, warps, stages, vectors=len(row.vectors), resident=resident, persistent=True)
                found.append((cost, part))
    return min(found, key=lambda one: one[0])[1] if found else None


def _widest(row: Row, count: int) -> Part:
    """Divide a row that no cluster keeps in registers among blocks of few warps, several on each SM.

    While the blocks of one row wait for each other, blocks of other rows compute. If the program reads one array, its
    rows are read again from the L2 cache, which holds the rows of all clusters; rows of several arrays stay in shared
    memory. Measured on an H200 at 320x231712, which clusters of 8 and 16 blocks keep since (GB/s divided by a copy's):
    layer norm 0.51, and its gradient 0.36; with one block per SM, 0.42 (a ring of rows) and 0.30 (rows in shared
    memory).
    """
    if len(row.inputs) > 1:
        return attrs.evolve(part_of(row, WARPS, count), at_once=True)
    return attrs.evolve(part_of(row, FEW_WARPS, count), stages=1, vectors=0, at_once=True)


def _several(row: Row, shared: int) -> int:
    """Return the blocks of a cluster with which three clusters share the SMs, each with a row in shared memory.

    A thread loops over its part in chunks. While one row's warps wait for each other, warps of other rows compute. On
    an H200, softmax of 49,304, 65,536 and 204,808 columns reached 0.78, 0.79 and 0.71 of a copy's speed, and cross
    entropy with gradient of 128,256 columns 0.81; with one row per SM they reached 0.68, 0.71, 0.54 and 0.51. With
    arrays of one value per column (gain, bias) nothing was gained.

    Later, softmax of 32,928, 65,536 and 98,304 columns reached 0.96, 0.95 and 0.94, of 180,384 columns (45 KiB in each
    of 8 blocks) 0.84, and of 231,712 and 262,144 (57 and 64 KiB) 0.73 and 0.80; with one row per SM, in registers,
    these reached 0.79, 0.91, 0.91, 0.81, 0.83 and 0.88.

    Returns:
        The number; 0 for narrower rows, for rows of several arrays, and where clusters do not keep rows.
    """
    if row.vectors or len(row.inputs) > 1 or row.arch < 90 or row.running or not row.copied or row.states > OTHERS:
        return 0
    nbytes = row.width * row.deep * sum(row.inputs.values())
    if nbytes <= WIDE * shared:
        return 0
    count = next((count for count in CLUSTERS if 3 * nbytes <= count * shared), 0)
    return 0 if count == CLUSTERS[-1] and nbytes > count * MOST_TOGETHER else count


def _others(row: Row, warps: int, blocks: int, width: int) -> int:
    """Estimate a thread's registers that hold no columns: addresses, folds, guards of a cluster's ragged rows."""
    ragged = blocks > 1 and width % (warps * LANES * row.lane) > 0
    return max(OTHERS, row.states) + (GUARDS * (len(row.inputs) - 1) if ragged else 0)


def wanted_of(row: Row, threads: int, columns: int, narrow: bool = False) -> int:
    """Return the number of blocks of an SM whose registers can just hold rows that a kernel reads once.

    The compiler then keeps columns as they were loaded, and converts them again; more rows are on their way. On an
    H200, cross entropy with its gradient of 176, 368, 3912 and 7000 columns went from 0.86, 0.88, 0.94 and 0.89 of a
    copy's speed to 0.96, 0.99, 1.02 and 0.96, softmax of 11,376 columns from 0.86 to 0.97. Rows of two inputs that
    several warps share lost up to 0.05; of narrower ones those with 32 to 40 warps of an SM were the fastest.

    Args:
        row: facts of the program's rows.
        threads: of a block.
        columns: of a lane.
        narrow: whether a warp has one row, or several.

    Returns:
        The number, 0 where the compiler decides.
    """
    several = len(row.inputs) > 1
    if (several and not narrow) or row.states > OTHERS or row.running or row.ranked or row.several:
        return 0
    held = sum(row.inputs.values()) / 4 if several else row.live  # registers of a column, at the least
    each = ceil((OTHERS + columns * held) / 8) * 8
    warps = MOST_WITH_MORE_ARRAYS if row.vectors or several else MOST_WARPS_TOGETHER
    return min(warps * LANES // threads, REGISTERS // (threads * each))


def _registers_of(warps: int, others: int) -> int:
    """Return the registers of a thread that can hold columns, in a block of `warps` warps."""
    return min(MOST_REGISTERS, REGISTERS // (warps * LANES)) - others


def _held(row: Row, warps: int, others: int) -> int:
    """Return the number of columns that the registers of a lane hold, in whole vectors."""
    return int(_registers_of(warps, others) / row.registers) // row.lane * row.lane


def _warps(nbytes: int) -> int:
    """Return the number of warps for a block that has `nbytes` bytes of a row.

    All warps of a block wait at its barriers, so fewer warps with more bytes per lane can be faster. On an H200 at
    10240 columns, softmax, layer norm and RMS norm went from 0.81, 0.91 and 0.95 of a copy's speed to 0.97, 0.94 and
    1.00; from 65536 columns on the gains were 0.02 to 0.05.
    """
    each = nbytes / (LANES * BYTES_OF_A_LANE)
    few = each <= 1.5 * FEW_WARPS
    return max(2, power(ceil(min(each, FEW_WARPS) if few else max(each / 2, 2 * FEW_WARPS)), MOST_WARPS))


def _stages(shared: int, warps: int, each: int, kept: int) -> int:
    """Return the number of rows in a block's ring, so that an SM has enough bytes in flight to hide the latency.

    If an SM has room for more than two blocks, one row is enough: while one block folds, others load (softmax of 8192
    and 24,576 columns on an H200: 0.97 and 0.95 of a copy's speed, with a ring 0.91 and 0.90). But a ring keeps arrays
    such as gain in shared memory, which matters if these fill a quarter of it (layer norm of 11,600 columns: 0.93 with
    a ring, 0.84 without).

    Args:
        shared: bytes of shared memory of an SM.
        warps: number of warps of a block.
        each: bytes of a row's part in a block.
        kept: bytes of shared memory for arrays that all rows read. Without room for two rows beside these arrays there
            is no ring.
    """
    most = MOST_THREADS // (warps * LANES)
    if most > 1 and (4 if kept else 3) * (each + kept) <= shared:
        return 1
    for blocks in range(most, 0, -1):
        stages = min(MOST_STAGES, 1 + -(-IN_FLIGHT // (blocks * each)))
        if blocks * (stages * each + kept) <= shared:
            return stages
    return 2 if 2 * each + kept <= shared else 0


def power(wanted: int, most: int) -> int:
    """Return the smallest power of two that is at least `wanted`, but at most `most`."""
    return min(most, 1 << max(0, wanted - 1).bit_length())
