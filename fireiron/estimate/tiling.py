"""A quick model of products: an estimate of the time from tile sizes only, before anything is lowered.

It ranks thousands of candidates in milliseconds. The cost model of `estimate/model.py`, which needs a lowered kernel,
is then computed only for the few best ones. The terms are the same: issue, shared memory, L2 cache, latency and DRAM.
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
VECTOR = 16  # bytes that a lane copies or loads at once
REACH = 8  # rows of tiles that concurrent blocks cover


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

    @property
    def threads(self) -> int:
        """Count the threads of a block."""
        (m, n), (rows, columns) = self.block, self.warp
        return -(-m // rows) * -(-n // columns) * self.ways * WARP


def quick_us(tiling: Tiling, matmul: MatMul, bits: int, arch: Arch) -> float:
    """Estimate a product's time in microseconds; infinity where an SM cannot hold a block.

    Args:
        tiling: the schedule's sizes.
        matmul: the spec; a symbolic size counts as the size that plans are chosen for (`Expr.planned`).
        bits: bits of an element of the operands as they are multiplied.
        arch: the architecture.
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
    fragments = tiling.slots * held * tiling.step * bits
    registers = ADDRESSING + math.ceil((turns * lanes * sums + fragments) / (WARP * 8 * REGISTER_NBYTES))
    registers += math.ceil((m + n) * chunk / tiling.threads * tiling.staged)
    if tiling.resident:
        registers = min(registers, register_cap(arch, tiling.threads, tiling.resident))
    ring = tiling.stages * (m + n) * chunk * bits // 8
    resident = occupancy(arch, tiling.threads, registers, ring).blocks
    if not resident:
        return math.inf
    tiles = -(-sizes["M"] // m) * -(-sizes["N"] // n) * sizes.get("batch", 1)
    depth = -(-sizes["K"] // tiling.split_k)
    grid, trips = tiles * tiling.split_k, -(-depth // chunk)
    each = -(-grid // gpu.sms)
    resident = min(resident, each)
    warps = tiling.threads // WARP
    # For a warp's trip: multiply-adds; vectors that are copied in, and fragments that are loaded; shared memory moves a
    # line per clock.
    multiplied = turns * lanes * chunk / tiling.ways / tiling.rate
    copied = (m + n) * chunk * bits / 8
    loaded = warps / tiling.ways * (rows + columns) * chunk * bits / 8
    loads = turns * held * chunk / tiling.ways * bits / 8 / (VECTOR * WARP)
    slots = 2 * copied / VECTOR / WARP / warps + loads
    shared = (copied + loaded) / LINE
    stored = m * n * out / 8
    store = 2 * stored / LINE + (tiling.ways - 1) * 2 * m * n * sums / 8 / LINE
    meeting = tiling.split_k if tiling.split_k > 1 else 0  # partial sums that the last block of a tile adds up
    sent = trips * copied + stored + (1 + meeting) * (m * n * sums / 8 if meeting else 0)
    issue = trips * (multiplied + slots if tiling.thread else max(multiplied, slots)) + m * n / WARP / warps
    rates = {"issue": issue / arch.partitions * warps, "shared": trips * shared + store}
    rates["l2"] = sent / gpu.l2_nbytes_per_clock
    slowest = max(rates.values())

    def clocks(blocks: int) -> float:
        """Return the clocks in which an SM finishes `blocks` blocks that it executes at once."""
        return max(blocks * slowest, -(-blocks * warps // arch.partitions) * issue)

    # Elements that wait in registers for their store to shared memory are in flight for one trip.
    ahead = min(tiling.stages - 1, 1) if tiling.staged else tiling.stages - 1
    alone = clocks(1)
    critical = alone + trips * (max(0.0, gpu.latency - ahead * alone / max(1, trips)) + gpu.round_clocks)
    critical += gpu.latency + meeting * (gpu.latency + gpu.round_clocks)
    at_once = resident * gpu.sms
    waves, rest = divmod(grid, at_once)
    summed = 2 * m * n * sums / 8 if meeting else 0.0

    def wave(blocks: int) -> float:
        """Return the clocks of blocks that begin together: all wait for their first chunk, and all store at the end."""
        ends = blocks * ((stored + summed) / gpu.l2_nbytes_per_clock + store)
        return max(clocks(blocks) + gpu.latency + ends, critical)

    total = waves * wave(resident) + (wave(-(-rest // gpu.sms)) if rest else 0)
    busy = each * slowest
    terms = [each * x / gpu.clock_mhz for x in rates.values()]
    left = 2 * meeting * tiles * m * n * sums / 8  # partial sums, written and read
    terms.append(_dram(tiling, sizes, bits, out, min(at_once, grid), gpu.l2_nbytes, left) / gpu.dram_gbps * 1e-3)
    terms.append(each * (trips / max(1, ahead) + meeting) * gpu.busy_latency / resident / gpu.clock_mhz)
    return (total - busy) / gpu.clock_mhz + sum(x**OVERLAP for x in terms) ** (1 / OVERLAP)


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
