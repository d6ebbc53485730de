"""Run a kernel in NumPy, block after block, and report its counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from fireiron.algebra.expr import evaluate
from fireiron.base.errors import SimulationError
from fireiron.kernel.analysis.traffic import Traffic
from fireiron.kernel.ir.statements import Kernel, Number, Pointer, Size, Workspace
from fireiron.simulate.machine import Coroutine, run
from fireiron.simulate.memory import Storage, pointer, uncovered, workspace
from fireiron.simulate.order import Array, some
from fireiron.simulate.program import Compiler
from fireiron.simulate.report import Report
from fireiron.simulate.state import DIRECTIONS, Machine, State
from fireiron.simulate.steps import Step
from fireiron.simulate.teams import finish, members, order_of, team_of, together
from fireiron.simulate.waits import steps_of
from fireiron.simulate.watch import Stopped, Watch


def simulate(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
    numbers: Mapping[str, float] | None = None,
    blocks: int | Sequence[int] | None = None,
    track: bool = True,
    launched: int | None = None,
    each: Callable[[int, int], None] | None = None,
    overflow: Literal["wrap", "error"] = "wrap",
    watch: Watch | None = None,
) -> Report:
    """Run a kernel on host arrays, writing its outputs in place.

    Args:
        kernel: the kernel.
        arrays: arrays by buffer name, with the shapes and element strides of the kernel's pointers.
        sizes: values of the symbols.
        numbers: values of the scalar parameters; parameters with a default may be omitted.
        blocks: the number of blocks to simulate, or their numbers (with the other blocks of their clusters); None for
            all.
        track: whether to look for races; all other checks are always made.
        launched: number of blocks of a persistent kernel, which share all work. None: two clusters, or, where blocks
            are chosen, one block for each tile.
        each: called after each cluster with the number of simulated blocks, and the number to simulate.
        overflow: for integer sums that exceed 32 bits: `wrap`, as on every GPU, or `error`.
        watch: keeps tiles at one moment, and may end the simulation there; `blocks` of the report then counts the
            blocks of clusters that ended.

    Raises:
        UsageError: `no-such-moment` where the watched block never reaches the moment.
        SimulationError: `out-of-bounds`, `misaligned`, `uninitialised-read`, `race`, `divergent-barrier`, `deadlock`;
            `divergent-call`, `inactive-lane`, `write-to-input`, `move-dtype`, `move-size`, `compute-dtype`,
            `atom-numpy`, `atom-zeroes`, `microkernel-numpy`; `not-arrived`, `source-in-flight`, `missing-proxy-fence`,
            `missing-wgmma-fence`, `uninitialised-barrier`, `barrier-in-use`, `too-many-arrivals`, `transaction-bytes`,
            `phase-ahead`, `bad-peers`, `bulk-views`, `operand-size`, `divergent-cursor`, `role-registers`,
            `unfinished-flight`, `peer-exited`, `narrow-barrier`, `launch-not-awaited`, `variable-range`;
            `uncovered-output` where all blocks run; `launched`, `cluster-grid`, `precondition`, `no-such-block`,
            `size-missing`, `number-missing`, `array-missing`, `array-dtype`, `array-shape`, `array-strides`,
            `workspace-left`, `cooperative-grid`, `counted-twice`, `flag-raised`, `flag-not-raised`; `integer-overflow`
            where asked for.
    """
    began = time.perf_counter()
    machine = prepare(kernel, arrays, dict(sizes or {}), dict(numbers or {}), track)
    machine.exact = overflow == "error"
    grid = _grid(kernel, machine.sizes)
    machine.blocks = launched_blocks(kernel, grid, blocks is not None, launched)
    chosen = _chosen(machine, blocks)
    everything = len(set(chosen)) == machine.blocks
    with np.errstate(all="ignore"):
        machine.members = list(members(machine, machine.sizes))
        programs = [
            (Compiler if watch is None else watch.compiler)(
                team_of(machine, member, kernel.body, kernel.threads)
            ).program()
            for member in machine.members
        ]
        stopped, ran = False, 0
        for first in chosen[:: machine.together]:
            try:
                _watched(machine, programs, first, watch)
            except Stopped:
                stopped = True
                break
            ran += machine.together
            if each is not None:
                each(ran, len(chosen))
    if watch is not None:
        watch.close(chosen)
    if everything and not stopped:
        _covered(machine)
        _restored(machine)
    totals = [Traffic() for _ in DIRECTIONS]
    for place in machine.places:
        for total, key in zip(totals, DIRECTIONS, strict=True):
            total.add(place.traffic.get(key, Traffic()))
    return Report(
        ran,
        machine.blocks,
        *totals,
        barriers=machine.barriers,
        flops=machine.flops,
        sites=tuple(place.site() for place in machine.places if not place.silent),
        elapsed_s=time.perf_counter() - began,
    )


def prepare(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    sizes: dict[str, int],
    numbers: dict[str, float],
    track: bool,
    blocks: int | None = None,
) -> Machine:
    """Make the state that all blocks share: bind parameters, and check preconditions.

    Args:
        kernel: the kernel.
        arrays: the arrays by buffer name.
        sizes: values of the symbols.
        numbers: values of the scalar parameters.
        track: whether to look for races.
        blocks: number of blocks that run at once. None: a cluster, or the grid where blocks wait for each other.

    Raises:
        SimulationError: `size-missing`, `precondition`, `array-missing`, `array-dtype`, `array-shape`, `array-strides`,
            `cooperative-grid`.
    """
    for parameter in kernel.parameters:
        if isinstance(parameter, Size) and parameter.symbol.name not in sizes:
            name = parameter.symbol.name
            raise SimulationError(
                "size-missing", f"no value was given for the size {name}", fix=f"pass sizes={{{name!r}: ...}}"
            )
        if isinstance(parameter, Number) and parameter.default is not None:
            numbers.setdefault(parameter.name, parameter.default)
    for precondition in kernel.preconditions:
        if not evaluate(precondition.condition, sizes):
            raise SimulationError("precondition", precondition.message, fix=precondition.fix)
    blocks = together(kernel, sizes) if blocks is None else blocks
    order = order_of(kernel, blocks)
    found = [
        pointer(parameter, arrays.get(parameter.buffer.name), sizes, order, track)
        for parameter in kernel.parameters
        if isinstance(parameter, Pointer)
    ]
    found += [workspace(p, sizes, order, track) for p in kernel.parameters if isinstance(p, Workspace)]
    made = Machine(kernel, sizes, numbers, order, track, {storage.buffer.name: storage for storage in found})
    made.together = blocks
    return made


def launched_blocks(kernel: Kernel, grid: int, chosen: bool, launched: int | None) -> int:
    """Return how many blocks a simulation launches.

    Args:
        kernel: the kernel.
        grid: number of blocks that have work.
        chosen: whether only some of the blocks are simulated.
        launched: the number that the caller asks for, or None.

    Raises:
        SimulationError: `launched`, `cluster-grid`.
    """
    each = kernel.cluster
    if grid % each:
        raise SimulationError(
            "cluster-grid", f"clusters of {each} blocks do not divide a grid of {grid}", fix="round the grid up"
        )
    if not kernel.persistent:
        if launched is not None:
            raise SimulationError(
                "launched",
                "only a persistent kernel is launched with a number of blocks of its own",
                fix="leave launched out, or choose blocks=...",
            )
        return grid
    count = (grid if chosen else min(2 * each, grid)) if launched is None else launched
    if not 0 <= count <= grid or count % each or (grid and not count):
        raise SimulationError(
            "launched",
            f"{count} blocks in clusters of {each} cannot be launched for {grid} that have work",
            fix=f"launch a multiple of {each}, at most {grid}",
        )
    return count


def _chosen(machine: Machine, blocks: int | Sequence[int] | None) -> list[int]:
    """List the blocks to simulate, whole clusters in sequence.

    Raises:
        SimulationError: `no-such-block`.
    """
    each, launched = machine.together, machine.blocks
    wanted = range(launched) if blocks is None else range(min(blocks, launched)) if isinstance(blocks, int) else blocks
    for block in wanted:
        if not 0 <= block < launched:
            raise SimulationError(
                "no-such-block",
                f"block {block} was asked for, the grid has {launched}",
                fix="choose blocks of the grid",
            )
    if each == 1:
        return list(dict.fromkeys(wanted))  # a launch executes each block once
    clusters = dict.fromkeys(block // each for block in wanted)
    return [cluster * each + rank for cluster in clusters for rank in range(each)]


def _grid(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    grid = evaluate(kernel.grid, sizes)
    assert isinstance(grid, int)
    return grid


def run_cluster(machine: Machine, programs: list[Step], first: int) -> None:
    """Run the blocks of one cluster."""
    machine.order.begin_block(first // machine.together)
    machine.gates.clear()
    for rank, member in enumerate(machine.members):
        member.begin(first + rank)
    if len(programs) == 1 and programs[0].run is not None:
        team = machine.members[0].teams[0]
        programs[0].run(State(team, team.environment()), None)
    else:
        coroutines: list[Coroutine] = []
        for member, program in zip(machine.members, programs, strict=True):
            team = member.teams[0]
            everyone = np.zeros(machine.order.threads, bool)
            everyone[team.ids(None)] = True
            label = team.label if machine.order.proxies else ""
            coroutines.append(Coroutine(everyone, steps_of(program, State(team, team.environment())), label))
        run(machine, coroutines)
    finish(machine)


def _watched(machine: Machine, programs: list[Step], first: int, watch: Watch | None) -> None:
    """Run the blocks of one cluster; the watch observes the watched block."""
    if watch is None or not first <= watch.block < first + machine.together:
        run_cluster(machine, programs, first)
        return
    watch.begin()
    run_cluster(machine, programs, first)
    watch.finish(machine.members[watch.block - first].teams[0])


def _restored(machine: Machine) -> None:
    """Check that a launch leaves the workspace as the next launch needs it."""
    for parameter in machine.kernel.parameters:
        if isinstance(parameter, Workspace) and parameter.zero:
            left = machine.storages[parameter.buffer.name].data
            if some(left):
                name = f"{parameter.buffer.name}[{int(np.flatnonzero(left)[0])}]"
                raise SimulationError(
                    "workspace-left",
                    f"the launch leaves {left.flat[int(np.flatnonzero(left)[0])]} in {name}, "
                    "which must be 0 for the next one",
                    fix="make the last block of each tile set the counter back to 0",
                )


def _covered(machine: Machine) -> None:
    """Check that every element of every output was written, except rows after the last group's end."""
    pointers = [p for p in machine.kernel.parameters if isinstance(p, Pointer)]
    ends = next((machine.storages[p.buffer.name] for p in pointers if p.shares is not None), None)
    for output in pointers:
        storage = machine.storages[output.buffer.name]
        if not storage.must_write:
            continue
        groups = None if ends is None or output.ragged is None else (output.ragged, _last(ends))
        count, first = uncovered(storage, groups)
        if count:
            raise SimulationError(
                "uncovered-output",
                f"no thread writes {count} elements of the output {storage.buffer.name}, the first of them {first}",
                fix="make the tiles cover it, or check the predicates",
            )


def _last(ends: Storage) -> int:
    """Return the end row of the last group: 0 without groups."""
    return int(ends.data[ends.size - 1]) if ends.size else 0
