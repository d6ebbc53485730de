"""Run a kernel in NumPy, block after block, and say what it did."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from fireiron.algebra.expr import evaluate
from fireiron.base.errors import Finding, SimulationError
from fireiron.kernel.ir import Kernel, Number, Pointer, Size, Workspace
from fireiron.kernel.traffic import Traffic
from fireiron.simulate.machine import Coroutine, run
from fireiron.simulate.memory import pointer, registers, shared, uncovered, workspace
from fireiron.simulate.order import Array, Order
from fireiron.simulate.program import Compiler, Step, has_partial_barriers
from fireiron.simulate.report import Report
from fireiron.simulate.state import DIRECTIONS, Machine, State


def simulate(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
    numbers: Mapping[str, float] | None = None,
    blocks: int | Sequence[int] | None = None,
    track: bool = True,
) -> Report:
    """Run a kernel on host arrays, writing its outputs in place.

    Args:
        kernel: what to run.
        arrays: by buffer name, with the shape and element strides that the kernel's pointers say.
        sizes: values of the symbols.
        numbers: values of the scalar parameters; those with a default may be left out.
        blocks: how many blocks to run, or which; None runs all.
        track: whether to look for races; all other checks are always made.

    Raises:
        SimulationError: `out-of-bounds`, `misaligned`, `uninitialised-read`, `race`, `divergent-barrier`, `deadlock`;
            `divergent-call`, `inactive-lane`, `write-to-input`, `move-dtype`, `move-size`, `compute-dtype`,
            `atom-numpy`, `microkernel-numpy`; `precondition`, `no-such-block`, `size-missing`, `number-missing`,
            `array-missing`, `array-dtype`, `array-shape`, `array-strides`, `workspace-left`.
    """
    began = time.perf_counter()
    machine = prepare(kernel, arrays, dict(sizes or {}), dict(numbers or {}), track)
    grid = _grid(kernel, machine.sizes)
    chosen = range(grid) if blocks is None else range(min(blocks, grid)) if isinstance(blocks, int) else blocks
    with np.errstate(all="ignore"):
        program = Compiler(machine).program()
        for block in chosen:
            if not 0 <= block < grid:
                raise SimulationError("no-such-block", f"block {block} was asked for, the grid has {grid}")
            run_block(machine, program, block)
    missing = _uncovered(machine) if len(set(chosen)) == grid else ()
    if len(set(chosen)) == grid:
        _restored(machine)
    totals = [Traffic() for _ in DIRECTIONS]
    for place in machine.places:
        for total, key in zip(totals, DIRECTIONS, strict=True):
            total.add(place.traffic.get(key, Traffic()))
    return Report(
        len(chosen),
        grid,
        *totals,
        barriers=machine.barriers,
        flops=machine.flops,
        sites=tuple(place.site() for place in machine.places),
        uncovered=tuple((name, count) for name, count, _ in missing),
        findings=tuple(
            Finding(
                "uncovered-output",
                f"nobody writes {count} elements of the output {name}, the first of them {first}",
                "warning",
                fix="make the tiles cover it, or check the predicates",
            )
            for name, count, first in missing
        ),
        elapsed_s=time.perf_counter() - began,
    )


def prepare(
    kernel: Kernel, arrays: Mapping[str, Array], sizes: dict[str, int], numbers: dict[str, float], track: bool
) -> Machine:
    """Make the memories and the clock that a kernel's blocks run on.

    Raises:
        SimulationError: `size-missing`, `precondition`, and what is wrong with an array.
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
    order = Order(kernel.threads, has_partial_barriers(kernel.body, kernel.threads))
    found = [
        pointer(parameter, arrays.get(parameter.buffer.name), sizes, order, track)
        for parameter in kernel.parameters
        if isinstance(parameter, Pointer)
    ]
    found += [workspace(p, sizes, order, track) for p in kernel.parameters if isinstance(p, Workspace)]
    found += shared(kernel, sizes, order, track)
    found += [registers(b, sizes, kernel.threads) for b in kernel.buffers if b.memory.registers]
    return Machine(kernel, sizes, numbers, order, track, {storage.buffer.name: storage for storage in found})


def _grid(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    grid = evaluate(kernel.grid, sizes)
    assert isinstance(grid, int)
    return grid


def run_block(machine: Machine, program: Step, block: int) -> None:
    """Run one block, from a fresh environment."""
    machine.order.begin_block(block)
    machine.flights.begin(machine)
    for storage in machine.storages.values():
        if storage.initialised is not None:
            storage.initialised[:] = False
    state = State(machine, machine.environment(block))
    if program.run is not None:
        program.run(state, None)
    elif program.walk is not None:
        everyone = np.ones(machine.threads, bool)
        run(machine, [Coroutine(everyone, program.walk(state, None))])


def _restored(machine: Machine) -> None:
    """Make sure that the next launch finds what this one found."""
    for parameter in machine.kernel.parameters:
        if isinstance(parameter, Workspace) and parameter.zero:
            left = machine.storages[parameter.buffer.name].data
            if left.any():
                name = f"{parameter.buffer.name}[{int(np.flatnonzero(left)[0])}]"
                raise SimulationError(
                    "workspace-left",
                    f"the launch leaves {left.flat[int(np.flatnonzero(left)[0])]} in {name}, "
                    "which must be 0 for the next one",
                    fix="let the last block of each tile set it back",
                )


def _uncovered(machine: Machine) -> tuple[tuple[str, int, str], ...]:
    found: list[tuple[str, int, str]] = []
    for storage in machine.storages.values():
        if storage.kind == "GL" and storage.must_write:
            count, first = uncovered(storage)
            if count:
                found.append((storage.buffer.name, count, first))
    return tuple(found)
