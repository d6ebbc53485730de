"""Verbs that run a schedule on random inputs, and verify: simulate, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from fireiron.base.errors import UsageError
from fireiron.base.text import count, nbytes
from fireiron.front.bounded import Array
from fireiron.front.cli.limit import default_sizes, duration, refuse_long
from fireiron.front.cli.options import Command, architecture
from fireiron.front.cli.output import Answer, columns, pairs, plain, progress, row
from fireiron.front.reference import Comparison, bound_in_words, compare, mathematical, references
from fireiron.front.simulation import random_arrays, scaled, simulate_schedule
from fireiron.front.verbs import Verbs
from fireiron.jit.interface import Interface, NumberParameter
from fireiron.kernel.ir.statements import Kernel
from fireiron.language.decompositions import Epilog
from fireiron.language.specs import written_by
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.simulate import Report

NUMBER = 1.5  # of scalars that are not given: every float type holds it
# A NaN that no operation makes, by bytes of the element: what still holds it was not written.
MARKS = {8: 0x7FF5_5555_5555_5555, 4: 0x7FE5_5555, 2: 0x7FD5, 1: 0x55}


@attrs.frozen(eq=False)
class Run:
    """Hold a schedule with all that one run of it needs.

    Args:
        schedule: what runs.
        kernel: its lowered form.
        interface: how it is launched.
        sizes: symbols by name.
        numbers: scalars by name.
        arrays: by name; inputs are random, outputs marked.
        before: the outputs as they were.
    """

    schedule: Verbs
    kernel: Kernel
    interface: Interface
    sizes: dict[str, int]
    numbers: dict[str, float | int]
    arrays: dict[str, Array]
    before: dict[str, Array]

    @property
    def inputs(self) -> list[Array]:
        """List the arrays that a call takes by position."""
        return [self.arrays[p.name] for p in self.interface.inputs]

    @property
    def out(self) -> Any:
        """Give what a call takes as `out`."""
        outs = tuple(self.arrays[p.name] for p in self.interface.outputs)
        return outs[0] if len(outs) == 1 else outs

    @property
    def scalars(self) -> dict[str, Any]:
        """Give a call's keywords."""
        return {**self.sizes, **self.numbers}

    @property
    def described(self) -> dict[str, str]:
        """Say what ran, for people."""
        facts = {"schedule": f"{self.kernel.name}: {self.schedule.origin}"}
        if self.scalars:
            facts["with"] = ", ".join(f"{name} = {value}" for name, value in self.scalars.items())
        return facts

    def verify(self, partial: bool) -> Comparison:
        """Compare the outputs with the reference; of several gives the first that is wrong, else the spec's own.

        Args:
            partial: whether only elements that were written count.
        """
        found: dict[str, Comparison] = {}
        with progress("verifying against NumPy in f64"):
            expected = references(self.schedule, {**self.arrays, **self.before}, self.numbers)
            for tensor in _outputs(self.schedule):
                result = self.arrays[tensor.name]
                written = mathematical(tensor, _differs(result, self.before[tensor.name])) if partial else None
                wanted = expected[tensor.name]
                found[tensor.name] = compare(tensor.name, mathematical(tensor, result), wanted, tensor.dtype, written)
        return next((x for x in found.values() if not x.right), next(iter(found.values())))


def prepare(command: Command, schedule: Verbs) -> Run:
    """Choose sizes and numbers, and make the arrays.

    Raises:
        UsageError: `unknown-argument` for a --set of something that the kernel does not take.
    """
    kernel = schedule.lowered(architecture(command.options.arch))
    interface = Interface.of(kernel)
    given = dict(command.options.settings)
    numbers = {p.name: given.pop(p.name, _default(p)) for p in interface.numbers}
    multiples = {symbol.name: symbol.multiple_of for symbol in interface.symbols}
    unknown = [name for name in given if name not in multiples or not isinstance(given[name], int)]
    if unknown:
        known = ", ".join((*multiples, *numbers)) or "none"
        raise UsageError("unknown-argument", f"{kernel.name} takes no {unknown[0]}", fix=f"--set takes: {known}")
    sizes = default_sizes(command.request, schedule, multiples, given)
    return Run(schedule, kernel, interface, sizes, numbers, {}, {})


def filled(run: Run, seed: int) -> Run:
    """Make a run's arrays."""
    arrays = scaled(run.schedule.program, random_arrays(run.interface, run.sizes, seed))
    for pointer in run.interface.outputs:
        if pointer.role == "output":
            bits = arrays[pointer.name].view(f"u{arrays[pointer.name].itemsize}")
            bits[...] = MARKS[bits.itemsize]
    before = {pointer.name: arrays[pointer.name].copy() for pointer in run.interface.outputs}
    return attrs.evolve(run, arrays=arrays, before=before)


def simulate(command: Command) -> Answer:
    """Run on the simulator, count its traffic, and verify."""
    schedule = command.schedule
    made = prepare(command, schedule)
    run, report = _simulated(command, made, track=not command.options.no_track)
    found = run.verify(partial=report.blocks < report.grid)
    data = {**_data(run, found), "where": "simulator", "report": plain(report)}
    facts = {**run.described, **_counted(report), **_verified(run, found)}
    parts = [pairs(facts), *_sites(report)]
    return Answer(data, tuple(parts), int(not found.right))


def run(command: Command) -> Answer:
    """Run on the GPU if there is one, else on the simulator, and verify; the time is told where it is real."""
    from fireiron.jit.driver import probe

    schedule = command.schedule
    made = prepare(command, schedule)
    if probe().problem or command.options.blocks is not None:
        return _run_simulated(command, made)
    made = filled(made, command.options.seed)
    with progress(f"compiling {schedule.name}"):
        kernel = schedule.compile(architecture(command.options.arch))
    with progress("running on the GPU"):
        kernel(*made.inputs, out=made.out, **made.scalars)
    found = made.verify(partial=False)
    where = f"GPU {_gpu_name()}"
    facts = {"ran on": where, **made.described, **_verified(made, found)}
    data = {**_data(made, found), "where": where}
    if found.right:  # the time of a wrong kernel means nothing
        with progress("timing"):
            timing = kernel.time(flops=schedule.flops(**made.sizes), **made.scalars)
        facts["time"] = str(timing)
        data["timing"] = attrs.asdict(timing)
    return Answer(data, (pairs(facts),), int(not found.right))


def _run_simulated(command: Command, made: Run) -> Answer:
    from fireiron.jit.driver import probe

    run, report = _simulated(command, made, track=True)
    found = run.verify(partial=report.blocks < report.grid)
    why = "there is no GPU, see fireiron doctor" if probe().problem else "--blocks asks for it"
    facts = {"ran on": f"simulator ({why})", **run.described, **_verified(run, found)}
    data = {**_data(run, found), "where": "simulator", "blocks": report.blocks, "grid": report.grid}
    parts = [pairs(facts)]
    return Answer(data, tuple(parts), int(not found.right))


def _simulated(command: Command, made: Run, track: bool) -> tuple[Run, Report]:
    options = command.options
    seconds = refuse_long(command.request, made.schedule, made.kernel, made.sizes, options.blocks, options.arch)
    made = filled(made, options.seed)
    with progress(f"simulating {made.kernel.name}, about {duration(max(seconds, 1))}"):
        found = simulate_schedule(made.kernel, made.inputs, made.out, options.blocks, track, made.scalars)
    return made, found.report


def _default(parameter: NumberParameter) -> float | int:
    from fireiron.algebra.dtypes import dtype

    if parameter.default is not None:
        return parameter.default
    return NUMBER if dtype(parameter.dtype).kind == "float" else 2


def _outputs(schedule: Verbs) -> tuple[Tensor, ...]:
    """List what a schedule writes: the spec's own outputs, then what its epilog stores beside them."""
    beside = [o.tensor for link in schedule.links if isinstance(link, Epilog) for o in link.outputs]
    return tuple(dict.fromkeys((*written_by(schedule.program.spec), *beside)))


def _differs(array: Array, before: Array) -> Array:
    """Say of each element whether a bit of it changed."""
    kind = f"u{array.itemsize}"
    return np.asarray(array.view(kind) != before.view(kind))


def _gpu_name() -> str:
    from fireiron.jit.doctor import facts

    return next((fact.value for fact in facts() if fact.what == "GPU"), "")


def _data(run: Run, found: Comparison) -> dict[str, Any]:
    return {
        "right": found.right,
        "kernel": run.kernel.name,
        "spec": str(run.schedule.origin),
        "scalars": run.scalars,
        "comparison": attrs.asdict(found),
        "bound": bound_in_words(run.schedule),
    }


def _verified(run: Run, found: Comparison) -> dict[str, str]:
    return {"right" if found.right else "wrong": str(found), "bound": bound_in_words(run.schedule)}


def _counted(report: Report) -> Mapping[str, str]:
    def traffic(name: str) -> str:
        read, write = getattr(report, f"{name}_read"), getattr(report, f"{name}_write")
        return f"{nbytes(read.nbytes)} read, {nbytes(write.nbytes)} written"

    return {
        "simulated": f"{report.blocks} of {count(report.grid, 'block')} in {report.elapsed_s:.2f} s",
        "global": traffic("gl"),
        "shared": traffic("sh"),
        "barriers": str(report.barriers),
        "operations": str(report.flops),
    }


def _sites(report: Report) -> Sequence[Any]:
    """Draw where memory traffic is worse than it could be."""
    found = [site for site in report.sites if site.conflict_degree > 1 or site.sector_ratio > 1]
    if not found:
        return ()
    table = columns("where", "atom", "conflicts", "sectors", right=(2, 3))
    for site in found:
        row(table, site.title or site.path, site.atom, f"{site.conflict_degree:.2f}", f"{site.sector_ratio:.2f}")
    return (table,)
