"""The cost model: a lower bound of a kernel's time, from the instructions it issues and the bytes it moves.

Clocks of one block on one SM, for each resource alone:

- issue: every warp instruction takes a slot of one of the schedulers, a MatMul atom `atom.clocks` of them, a function
  (`erf`) as many as it has instructions;
- shared memory: one wavefront a clock;
- L2: 64 bytes of sectors a clock, the width of an SM's port.

The slowest resource gives the block's throughput. The critical path adds, for each iteration of an outer loop, a
barrier, and the part of a load's latency that loads ahead do not hide. A wave of b blocks for each SM takes b times the
block's clocks, or the critical path where that is longer; the last wave has the remaining blocks. DRAM must deliver
every tensor once, or, where the tensors do not fit in L2, the distinct parts that the blocks of each wave read. The
kernel's time is the larger of the SMs' time and the DRAM's time, plus the launch. Persistent blocks compute one tile
after another, and wait only for the first chunk; a loading role runs ahead by its ring, without barriers between.
Address computations, instruction latencies and power limits are left out. Clocks of atoms are those of compute
capability 9.0, except for fp32, which follows the number of lanes of the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.arch import Arch
from fireiron.algebra.expr import evaluate
from fireiron.algebra.machine import Machine
from fireiron.algebra.occupancy import occupancy
from fireiron.algebra.scalar import Unary, parts
from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.errors import CheckError
from fireiron.base.text import count
from fireiron.estimate.registers import ADDRESSING, least_registers, register_cap, roles_of
from fireiron.kernel.analysis.access import AccessRow, accesses
from fireiron.kernel.analysis.sampling import Sample, Site, reads_and_writes, sample, sites, symbols, typical_sizes
from fireiron.kernel.analysis.traffic import SECTOR, WARP
from fireiron.kernel.ir.statements import BLOCK, BLOCKS, RANK, THREAD, Call, Compute, Kernel, Micro, Pointer, Workspace

OVERLAP = 4.0  # exponent of the norm that combines the times of resources
MOST_BASES = 4096  # most blocks of a wave that are evaluated


@attrs.frozen
class Term:
    """Hold the time of one resource alone."""

    name: str
    us: float


@attrs.frozen
class Estimate:
    """Hold a modelled time; nothing in it is measured.

    Args:
        arch: the architecture's name.
        gpu: the GPU whose rates are used.
        time_us: a lower bound of the time in microseconds, launch included.
        bound: the resource with the longest time: an atom's issue, `shared memory`, `l2`, `latency`, `dram`, `launch`.
        flops: number of operations issued, those on the padding of partial tiles included.
        dram_nbytes: bytes that DRAM moves.
        gl_nbytes: bytes of the sectors that SMs load from and store to L2.
        grid: number of blocks.
        blocks_per_sm: number of blocks resident on an SM at a time.
        waves: number of waves of blocks; a partial last wave counts as one.
        terms: the time of each resource alone, slowest first.
        flight_us: time of loads at the latency of a busy memory. It is no bound, since that latency varies.
        sizes: values of the symbols.
        assumed: symbols that were given typical values.
    """

    arch: str
    gpu: str
    time_us: float
    bound: str
    flops: float
    dram_nbytes: float
    gl_nbytes: float
    grid: int
    blocks_per_sm: int
    waves: int
    terms: tuple[Term, ...]
    flight_us: float = 0.0
    sizes: tuple[tuple[str, int], ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def likely_us(self) -> float:
        """Estimate the time itself, for ranking schedules; unlike `time_us` it is no bound.

        Resources overlap, but not completely. Where one resource takes most of the time, the others add little; where
        two take equal times, the result is 1.2 of either. Schedules with equal `time_us`, bounded by one resource,
        differ here by their use of the other resources.
        """
        named = {term.name: term.us for term in self.terms}
        apart = {name: us for name, us in named.items() if name not in ("latency", "launch")}
        busy = sum(us**OVERLAP for us in (*apart.values(), self.flight_us)) ** (1 / OVERLAP)
        return named["launch"] + named["latency"] + busy

    @property
    def tflops(self) -> float:
        """Return the modelled rate in 1e12 operations a second."""
        return self.flops / self.time_us * 1e-6

    @property
    def gbps(self) -> float:
        """Return the modelled rate in 1e9 DRAM bytes a second."""
        return self.dram_nbytes / self.time_us * 1e-3

    def __repr__(self) -> str:
        return f"<Estimate of {_plain(self.time_us)} us on {self.gpu}, bound by {self.bound}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        lines = [
            f"modelled: at least {_plain(self.time_us)} us on {self.gpu} ({self.arch}), bound by {self.bound}: "
            f"{_plain(self.tflops, 3)} TFLOP/s, {_plain(self.gbps)} GB/s",
            f"{count(self.grid, 'block')}, {self.blocks_per_sm} an SM: {count(self.waves, 'wave')}",
            *(f"{term.name}: {_plain(term.us)} us" for term in self.terms),
        ]
        if self.assumed:
            known = dict(self.sizes)
            lines.append("assumed: " + ", ".join(f"{name}={known[name]}" for name in self.assumed))
        return "\n".join(lines)


def _plain(value: float, digits: int = 4) -> str:
    """Print a number with `digits` significant digits, but always all digits before its point.

    Example:
        >>> _plain(148.93), _plain(10860.4), _plain(1034.0, 3)
        ('148.9', '10860', '1034')
    """
    return f"{value:.0f}" if value >= 10**digits else f"{value:.{digits}g}"


@attrs.frozen
class _Work:
    """Count the instructions of an average block.

    Args:
        math: issue clocks of MatMul atoms, by name, of all warps.
        slots: number of warp instructions of any kind.
        flops: number of operations.
    """

    math: Mapping[str, float]
    slots: float
    flops: float


def estimate(
    kernel: Kernel,
    arch: Arch,
    sizes: Mapping[str, int] | None = None,
    registers: int | None = None,
    rows: tuple[AccessRow, ...] | None = None,
) -> Estimate:
    """Model a kernel's time.

    Args:
        kernel: the kernel.
        arch: the architecture; its `gpu` gives the rates.
        sizes: values of the symbols; a symbol without one has its typical value.
        registers: registers of a thread, as compiled; None: estimated from the register tensors.
        rows: the result of `accesses(kernel, sizes)`, if it is known already.

    Raises:
        CheckError: `does-not-fit` where an SM cannot hold one block.
    """
    gpu, values = arch.gpu, typical_sizes(kernel, sizes)
    rows = accesses(kernel, values) if rows is None else rows
    everything = sites(kernel.body)
    guess = min(least_registers(kernel) + ADDRESSING, register_cap(arch, kernel.threads, kernel.minimum_blocks))
    found = occupancy(arch, kernel.threads, guess if registers is None else registers, kernel.shared_nbytes)
    if not found.blocks:
        raise CheckError(
            "does-not-fit", f"an SM of {arch} cannot hold one block: {found.limit}", fix="check() names the resource"
        )
    grid = max(1, int(evaluate(kernel.grid, values)))  # pyright: ignore[reportArgumentType]
    sms = gpu.sms_of_clusters(kernel.cluster)
    each = -(-grid // sms)
    resident = min(found.blocks, each)
    work = _work(kernel, everything, values, arch)
    # A warp stays with one scheduler: fewer resident warps than schedulers leave some of them without work.
    issued, warps = max(sum(work.math.values()), work.slots), -(-kernel.threads // WARP)
    issue = issued / min(arch.partitions, resident * warps)
    atom = max(work.math, key=lambda name: work.math[name], default="")
    mostly = atom if work.math and 2 * sum(work.math.values()) >= work.slots else "instruction"
    shared = sum(row.units for row in rows if row.memory == "SH")
    sectors = sum(row.units for row in rows if row.memory == "GL") * SECTOR
    clocks = {f"{mostly} issue": issue, "shared memory": shared, "l2": sectors / gpu.l2_nbytes_per_clock}
    slowest = max(clocks, key=lambda name: clocks[name])
    even = bool(roles_of(kernel))  # computing warps are assumed to be spread evenly over schedulers

    def alone(blocks: int) -> float:
        """Return the clocks of an SM that executes `blocks` blocks at once, and no others.

        If the number of warps is no multiple of the number of schedulers, some schedulers have more warps.
        """
        most = 0.0 if even else -(-blocks * warps // arch.partitions) * issued / warps
        return max(blocks * clocks[slowest], most)

    rounds = _rounds(everything, kernel, values)
    critical = _critical(rounds, alone(1), gpu)
    slots = resident * sms
    waves, rest = divmod(grid, slots)
    last = -(-rest // sms)
    if kernel.persistent:  # persistent blocks fill their rings across tiles, so only the first chunk's wait counts
        total = each * clocks[slowest] + max(0.0, critical - clocks[slowest])
    else:
        total = waves * max(alone(resident), critical)
        total += max(alone(last), critical) if last else 0
    busy = each * clocks[slowest]
    dram = _dram(kernel, everything, rows, values, slots, grid, gpu.l2_nbytes)
    terms = {name: each * count / gpu.clock_mhz for name, count in clocks.items()}
    terms |= {"latency": (total - busy) / gpu.clock_mhz, "dram": dram / gpu.dram_gbps * 1e-3, "launch": gpu.launch_us}
    sm_us = total / gpu.clock_mhz
    time_us = gpu.launch_us + max(sm_us, terms["dram"])
    if time_us <= 2 * gpu.launch_us:
        bound = "launch"
    elif terms["dram"] >= sm_us:
        bound = "dram"
    else:
        bound = slowest if busy >= total / 2 else "latency"
    return Estimate(
        arch=arch.name,
        gpu=gpu.name,
        time_us=time_us,
        bound=bound,
        flops=work.flops * grid,
        dram_nbytes=dram,
        gl_nbytes=sectors * grid,
        grid=grid,
        blocks_per_sm=resident,
        waves=waves + bool(rest),
        terms=tuple(Term(name, us) for name, us in sorted(terms.items(), key=lambda item: -item[1])),
        flight_us=each * _flight(rounds, gpu) / resident / gpu.clock_mhz,
        sizes=tuple(values.items()),
        assumed=tuple(s.name for s in symbols(kernel) if s.name not in (sizes or {})),
    )


def _work(kernel: Kernel, everything: tuple[Site, ...], values: Mapping[str, int], arch: Arch) -> _Work:
    math: dict[str, float] = {}
    slots, flops = 0.0, 0.0
    for site in everything:
        statement = site.statement
        bindings = tuple(b.value for b in statement.bindings) if isinstance(statement, Micro) else ()
        known = sample(site, kernel, values, (*site.guards, *bindings))
        warps = known.warps(known.mask(*site.guards))
        match statement:
            case Call(atom=atom) if atom.kind == "MatMul":
                math[atom.name] = math.get(atom.name, 0.0) + warps * atom.issue_clocks(arch)
                flops += 2.0 * float(np.prod(atom.shape)) * warps * WARP / (atom.unit.size or 1)
                slots += warps
            case Micro(name=name, level=level):
                # A microkernel is assumed to issue one multiply-add for each product of its residual spec.
                products = warps * WARP / (level.size or kernel.threads) * _volume(known, bindings)
                math[name] = math.get(name, 0.0) + products / WARP
                flops += 2.0 * products
                slots += products / WARP
            case Compute(inputs=inputs, expr=expr):
                flops += warps * WARP if inputs else 0.0
                slots += warps * (1 + sum(FUNCTIONS[p.op].slots - 1 for p in parts(expr) if isinstance(p, Unary)))
            case _:
                slots += warps
    return _Work(math, slots, flops)


def _volume(known: Sample, bindings: tuple[object, ...]) -> float:
    total = 1.0
    for binding in bindings:
        total *= max(0.0, float(known.of(binding).max()))  # pyright: ignore[reportArgumentType]
    return total


@attrs.frozen
class _Round:
    """Describe the iterations of an outer loop that load from global memory.

    Args:
        rolled: whether there is a loop; loads outside of loops count as one iteration.
        trips: number of iterations.
        ahead: how many iterations ahead loads run.
        free: whether a separate role loads, which waits only for a full ring.
    """

    rolled: bool
    trips: float
    ahead: int
    free: bool


def _rounds(everything: tuple[Site, ...], kernel: Kernel, values: Mapping[str, int]) -> list[_Round]:
    rounds: dict[str, float] = {}
    ahead: dict[str, int] = {}
    free: set[str] = set()
    staged: set[str] = set()
    for site in everything:
        rolled = [loop for loop in site.loops if not loop.unroll]
        outer = rolled[0].var.name if rolled else ""
        touched = reads_and_writes(site.statement)
        for view, direction in touched:
            if view.buffer.memory.name == "GL" and direction == "read":
                if any(other.buffer.memory.registers for other, way in touched if way == "write"):
                    staged.add(outer)
                zeros = _zeros(site, kernel, values)
                trips = [int(evaluate(loop.extent, zeros)) for loop in rolled]  # pyright: ignore[reportArgumentType]
                rounds[outer] = max(rounds.get(outer, 0.0), float(np.prod(trips)) if trips else 1.0)
                if isinstance(site.statement, Call) and site.statement.signal is not None:
                    free.add(outer)
            if view.buffer.memory.name == "SH":
                ahead[outer] = max(ahead.get(outer, 0), view.buffer.slots - 1)
    # Elements that wait in registers for their store to shared memory are in flight for one trip.
    ahead |= {outer: min(1, ahead[outer]) for outer in staged if outer in ahead}
    return [_Round(bool(outer), trips, ahead.get(outer, 0), outer in free) for outer, trips in rounds.items() if trips]


def _critical(rounds: list[_Round], throughput: float, gpu: Machine) -> float:
    """Return the clocks of one block alone on its SM."""
    total = throughput
    for each in rounds:
        if each.free:
            covered = (each.ahead + 1) * throughput / each.trips
            total += gpu.latency + each.trips * max(0.0, gpu.latency - covered)
            continue
        covered = each.ahead * throughput / each.trips if each.rolled else 0.0
        total += each.trips * (max(0.0, gpu.latency - covered) + gpu.round_clocks)
    return total


def _flight(rounds: list[_Round], gpu: Machine) -> float:
    """Return the clocks of a block's loads in sequence, with as many in flight as its stages allow."""
    return sum(each.trips * gpu.busy_latency / max(1, each.ahead + each.free) for each in rounds if each.rolled)


def _zeros(site: Site, kernel: Kernel, values: Mapping[str, int]) -> dict[str, Any]:
    """Return values of variables: 0 for all loops, and for the blocks of a grid with one tile for each block."""
    zeros: dict[str, Any] = {THREAD: 0, BLOCK: 0, RANK: 0, **{loop.var.name: 0 for loop in site.loops}, **values}
    for cursor in site.role.cursors if site.role else ():
        zeros |= {cursor.slot.name: 0, cursor.parity.name: 0}
    zeros[BLOCKS] = int(evaluate(kernel.grid, values))  # pyright: ignore[reportArgumentType]
    for let in site.lets:
        try:
            zeros[let.var.name] = int(evaluate(let.value, zeros))  # pyright: ignore[reportArgumentType]
        except (ZeroDivisionError, KeyError):  # for a group without rows, or for values that only the kernel computes
            zeros[let.var.name] = 0
    return zeros


def _dram(
    kernel: Kernel,
    everything: tuple[Site, ...],
    rows: tuple[AccessRow, ...],
    values: Mapping[str, int],
    slots: int,
    grid: int,
    l2_nbytes: int,
) -> float:
    """Return the bytes that DRAM moves: each tensor once, or once for each wave that needs it again."""
    pointers = {p.buffer.name: p for p in kernel.parameters if isinstance(p, Pointer)}
    whole = {name: _tensor_nbytes(p, values) for name, p in pointers.items()}
    for p in kernel.parameters:
        if isinstance(p, Workspace):
            whole[p.buffer.name] = float(evaluate(p.buffer.size, values)) * p.buffer.dtype.nbytes  # pyright: ignore[reportArgumentType]
    fits = sum(whole.values()) <= l2_nbytes
    asked: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.memory == "GL":
            key = (row.buffer, row.direction)
            asked[key] = asked.get(key, 0.0) + row.ideal * SECTOR
    wave = min(slots, grid)
    distinct = _distinct(kernel, everything, values, wave, grid)
    total = 0.0
    for (name, direction), nbytes in asked.items():
        once = min(whole[name], nbytes * grid)
        if direction == "write" or fits:
            total += once
            continue
        share = min(whole[name], nbytes * distinct.get(name, wave))
        total += max(once, min(share * -(-grid // wave), nbytes * grid))
    return total


def _tensor_nbytes(pointer: Pointer, values: Mapping[str, int]) -> float:
    total = float(pointer.buffer.dtype.nbytes)
    for extent, stride in zip(pointer.shape, pointer.strides, strict=True):
        total *= float(evaluate(extent, values)) if evaluate(stride, values) != 0 else 1.0  # pyright: ignore[reportArgumentType]
    return total


def _distinct(
    kernel: Kernel, everything: tuple[Site, ...], values: Mapping[str, int], wave: int, grid: int
) -> dict[str, float]:
    """Return how many different parts of each tensor the blocks of one wave read, in the first iteration of loops."""
    looked = min(wave, MOST_BASES)
    found: dict[str, float] = {}
    for site in everything:
        for view, direction in reads_and_writes(site.statement):
            if view.buffer.memory.name != "GL" or direction != "read" or view.buffer.name in found:
                continue
            env = {**_zeros(site, kernel, values), BLOCK: np.arange(looked)}
            for let in site.lets:
                env[let.var.name] = evaluate(let.value, env)
            env[RANK] = env[BLOCK] % kernel.cluster
            bases = np.broadcast_to(np.asarray(evaluate(view.offset, env)), (looked,))
            found[view.buffer.name] = len(np.unique(bases)) * wave / looked
    return found
