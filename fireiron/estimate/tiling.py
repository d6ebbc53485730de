"""A quick model of products: an estimate of the time from tile sizes only, before anything is lowered.

It ranks hundreds of candidates in milliseconds. A trip of the blocks of an SM takes as long as the slowest of these:
the instructions of its schedulers, one block alone, the latency of loads, and what the L2 cache and shared memory move.
Waves of blocks follow one another; with stream-K, all blocks take equal parts. The constants are fitted to timings on
an H200: `python -m bench tiles` takes them (`bench/results/tiles`), `python -m bench fit-tiles` fits them.
"""

from __future__ import annotations

import math

import attrs

from fireiron.algebra.arch import Arch
from fireiron.algebra.occupancy import occupancy
from fireiron.estimate.model import OVERLAP
from fireiron.estimate.registers import ADDRESSING, register_cap
from fireiron.language.specs import MatMul

LINE = 128  # bytes of shared memory per clock
WARP = 32
REGISTER_NBYTES = 4
BESIDE = 16  # registers that a thread needs beside its tensors at least: 20 suffice, 0 do not (NVRTC 13.0)
VECTOR = 16  # bytes that a lane copies or loads at once
REACH = 8  # rows of tiles that concurrent blocks cover
ATOM = 16 * 8  # elements of C of an mma
PARTIAL = 0.3  # the most of a partial wave that runs beside the full wave before it
SLOWEST = 5.0  # exponent of the norm that finds the slowest of several resources, where they hinder one another


@attrs.frozen
class TileClocks:
    """Hold what the quick model takes from timings, in clocks unless another unit is named.

    Args:
        multiply: a multiply-add of threads, in issue slots: operands in one bank of registers take two.
        mma: an mma, as a part of the clocks that its multiply-adds take at the full rate.
        issue: an mma of 16x8 elements, whatever its K, beside its multiply-adds.
        slot: an instruction that copies or loads, in issue slots.
        trip: a trip of the main loop, beside its instructions.
        latency: from the start of a chunk's load to the first instruction that needs it, in latencies of the machine.
        moved: the part of the L2 cache's rate at which blocks store results and partial sums.
        tile: before a tile's first chunk and behind its last.
        meeting: blocks that share K count in and wait for their sums.
        share: a block of stream-K, beside its chunks: the division of the work, and its flags.
        sum: a partial sum that another block has left.
        visits: tiles that a block of stream-K begins or ends beside whole ones.
        blend: the part of a partial wave that runs beside the full wave before it.
        whole: factor of the time of waves of tiles whose threads multiply.
        parted: factor of the time of blocks of stream-K whose warps multiply.
        timings: what the constants are fitted to.
    """

    multiply: float = 1.18
    mma: float = 0.91
    issue: float = 0.34
    slot: float = 3.39
    trip: float = 10.8
    latency: float = 2.33
    moved: float = 0.58
    tile: float = 462.0
    meeting: float = 1690.0
    share: float = 2350.0
    sum: float = 1370.0
    visits: float = 2.34
    blend: float = 0.56
    whole: float = 1.02
    parted: float = 1.10
    timings: str = "1208 timings of f32 and f64, 54 of f16"


FIT = TileClocks()


@attrs.frozen
class Tiling:
    """Hold the sizes of a blocked product's schedule.

    Args:
        block: rows and columns of a block's tile.
        chunk: elements of K that a block computes in a trip of its main loop, all ways together.
        warp: rows and columns of a warp's tile.
        step: elements of K that a warp loads at once.
        rate: multiply-adds that one scheduler of an SM issues in a clock.
        stages: number of chunks in shared memory.
        slots: number of steps in registers.
        ways: number of groups of warps that each compute a part of a chunk.
        split_k: number of blocks that share a tile.
        staged: registers for each element of the next chunk while it waits for its store to shared memory; 0 where
            copies are asynchronous.
        thread: rows and columns of a thread's part of the warp's tile, where each thread loads its own operands; None
            for tensor cores, whose fragments lanes hold together.
        resident: number of blocks that an SM should hold at once, which limits registers; 0: no limit.
        stream: number of blocks on each SM that take equal shares of the chunks of all tiles; 0: whole tiles.
        pad: elements that are added to each line of a chunk in shared memory.
        pieces: copies to shared memory for each 16 bytes of operands, on average.
    """

    block: tuple[int, int]
    chunk: int
    warp: tuple[int, int]
    step: int
    rate: float
    stages: int = 2
    slots: int = 1
    ways: int = 1
    split_k: int = 1
    staged: float = 0.0
    thread: tuple[int, int] | None = None
    resident: int = 0
    stream: int = 0
    pad: int = 0
    pieces: float = 1.0

    @property
    def threads(self) -> int:
        """Count the threads of a block."""
        (m, n), (rows, columns) = self.block, self.warp
        return -(-m // rows) * -(-n // columns) * self.ways * WARP


def quick_us(tiling: Tiling, matmul: MatMul, bits: int, arch: Arch, fit: TileClocks = FIT) -> float:
    """Estimate a product's time in microseconds; infinity where an SM cannot hold a block.

    Args:
        tiling: the schedule's sizes.
        matmul: the spec; a symbolic size counts as the size that plans are chosen for (`Expr.planned`).
        bits: bits of an element of the operands as they are multiplied.
        arch: the architecture.
        fit: the model's constants.
    """
    sums, out = matmul.accumulator.bits, matmul.C.dtype.bits
    gpu, (m, n), (rows, columns), chunk = arch.gpu, tiling.block, tiling.warp, tiling.chunk
    sizes = {name: extent if isinstance(extent, int) else extent.planned for name, extent in matmul.sizes}
    if rows > m or columns > n:
        return math.inf
    # Lanes take their parts of a warp's tile one after another; where there are fewer parts than lanes, some idle.
    lanes = WARP * math.prod(tiling.thread) if tiling.thread else rows * columns
    turns = -(-rows * columns // lanes)
    held = WARP * sum(tiling.thread) if tiling.thread else rows + columns  # elements that lanes load for a step of K
    resident = _resident(tiling, turns * lanes * sums, tiling.slots * held * tiling.step * bits, bits, arch)
    if not resident or resident < tiling.stream:
        return math.inf
    tiles = -(-sizes["M"] // m) * -(-sizes["N"] // n) * sizes.get("batch", 1)
    chunks, warps = -(-sizes["K"] // chunk), tiling.threads // WARP
    copied = (m + n) * chunk * bits / 8
    # A warp's trip: multiply-adds, then vectors that are copied in, and fragments that are loaded.
    multiplied = turns * lanes * chunk / tiling.ways / tiling.rate
    if tiling.thread:
        trip = multiplied * fit.multiply
    else:
        atoms = chunk // tiling.step / tiling.ways * rows * columns / ATOM
        trip = multiplied * fit.mma + atoms * fit.issue
    loads = turns * held * chunk / tiling.ways * bits / 8 / (VECTOR * WARP)
    trip += fit.slot * ((1 + tiling.pieces) * copied / VECTOR / WARP / warps + loads) + fit.trip
    loaded = warps / tiling.ways * (rows + columns) * chunk * bits / 8
    shared = (copied + loaded) / LINE  # a line per clock
    stored, part = m * n * out / 8, m * n * sums / 8
    moved = gpu.l2_nbytes_per_clock * fit.moved
    # Elements that wait in registers for their store to shared memory are in flight for one trip.
    ahead = max(1, min(tiling.stages - 1, 1) if tiling.staged else tiling.stages - 1)
    alone = max(trip * -(-warps // arch.partitions), fit.latency * gpu.latency / ahead)
    store = (tiling.ways - 1) * 2 * part / LINE

    def clocks(blocks: int) -> float:
        """Return the clocks of a trip of `blocks` blocks that an SM executes at once."""
        issued = -(-blocks * warps // arch.partitions) * trip
        terms = (issued, alone, blocks * copied / gpu.l2_nbytes_per_clock, blocks * shared)
        return sum(x**SLOWEST for x in terms) ** (1 / SLOWEST)

    def ends(blocks: int) -> float:
        """Return the clocks before the first chunk of these blocks' tiles, and behind the last."""
        return fit.tile + blocks * (stored / moved + store)

    if tiling.stream:
        units = min(tiling.stream * gpu.sms, tiles * chunks)
        blocks = -(-units // gpu.sms)
        total = -(-tiles * chunks // units) * clocks(blocks) + (tiles / units + fit.visits) * ends(blocks)
        total += fit.share + max(1.0, units / tiles) * (part / moved + fit.sum)
        total *= 1.0 if tiling.thread else fit.parted
        left = 2 * min(units, tiles) * part
    else:
        depth, grid = -(-chunks // tiling.split_k), tiles * tiling.split_k
        several = tiling.split_k > 1

        def wave(blocks: int) -> float:
            met = blocks * part / moved + fit.meeting if several else 0.0
            return depth * clocks(blocks) + ends(blocks) + met

        waves, rest = divmod(grid, resident * gpu.sms)
        read = resident * part / moved if several else 0.0  # by the last blocks of the tiles of a full wave
        total = full = waves * (wave(resident) + read)
        if rest:
            blocks = -(-rest // gpu.sms)
            total += wave(blocks) - fit.blend * min(full, PARTIAL * depth * clocks(blocks))
        total += tiling.split_k * part / moved if several else 0.0
        total *= fit.whole if tiling.thread else 1.0
        left = 2 * grid * part if several else 0.0  # partial sums, written and read
    at_once = min(resident * gpu.sms, tiles * tiling.split_k)
    dram = _dram(tiling, sizes, bits, out, at_once, gpu.l2_nbytes, left) / gpu.dram_gbps * 1e-3
    return gpu.launch_us + ((total / gpu.clock_mhz) ** OVERLAP + dram**OVERLAP) ** (1 / OVERLAP)


def _resident(tiling: Tiling, sums: int, fragments: int, bits: int, arch: Arch) -> int:
    """Return the number of blocks that an SM holds at once; of stream-K, at most as many as there are.

    The number is 0 where the registers that these leave a thread do not hold its sums and fragments.

    Args:
        sums: bits of a warp's sums.
        fragments: bits of a warp's fragments.
    """
    (m, n), chunk = tiling.block, tiling.chunk
    tensors = math.ceil((sums + fragments) / (WARP * 8 * REGISTER_NBYTES))
    registers = ADDRESSING + tensors + math.ceil((m + n) * chunk / tiling.threads * tiling.staged)
    if tiling.resident or tiling.stream:
        cap = register_cap(arch, tiling.threads, tiling.stream or tiling.resident)
        if cap < tensors + BESIDE:
            return 0
        registers = min(registers, cap)
    ring = tiling.stages * (m + n) * (chunk + tiling.pad) * bits // 8
    return occupancy(arch, tiling.threads, registers, ring).blocks


def _dram(tiling: Tiling, sizes: dict[str, int], bits: int, out: int, wave: int, cache: int, left: float) -> float:
    """Return the bytes that DRAM moves: each tensor and `left` once, or in each wave the wave's part of an operand."""
    m, n = tiling.block
    count = sizes.get("batch", 1)
    a, b = (count * sizes[dim] * sizes["K"] * bits / 8 for dim in "MN")
    c = count * sizes["M"] * sizes["N"] * out / 8
    if a + b + c + left / 2 <= cache:
        return a + b + c + left
    high, wide = -(-sizes["M"] // m), -(-sizes["N"] // n)
    tiles = max(1, wave // tiling.split_k)
    rows = min(high, REACH, tiles)
    columns = min(wide, -(-tiles // rows))
    waves = -(-high * wide * count // tiles)
    again = waves * sizes["K"] * bits / 8
    return c + left + max(a, min(again * rows * m, a * wide)) + max(b, min(again * columns * n, b * high))
