"""Commands that run a schedule on random inputs and verify the results: simulate, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.base.errors import UsageError
from fireiron.base.text import count, nbytes
from fireiron.front.cli.limit import default_sizes, refuse_long
from fireiron.front.cli.options import Command, architecture
from fireiron.front.cli.output import Answer, columns, pairs, plain, progress, row
from fireiron.front.host import duration
from fireiron.front.simulation import simulate_schedule
from fireiron.front.verbs import Schedule
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Kernel, Micro, walk
from fireiron.show.scheduled import origin_of
from fireiron.verify.comparison import Comparison
from fireiron.verify.reference import bound_in_words
from fireiron.verify.verification import KINDS, Data, Kind, Verdict, expected, held, make

if TYPE_CHECKING:
    from fireiron.simulate import Report

CHEAP_S = 2.0  # most seconds of a simulation that runs twice, though one run would be enough


@attrs.frozen(eq=False)
class Run:
    """Hold a schedule and all that a run needs.

    Args:
        schedule: the schedule.
        kernel: the lowered schedule.
        interface: the arguments and the grid of a launch.
        sizes: symbols by name.
        numbers: the given scalars by name.
        seed: seed of the data.
    """

    schedule: Schedule
    kernel: Kernel
    interface: Interface
    sizes: dict[str, int]
    numbers: dict[str, float | int]
    seed: int

    def make(self, kind: Kind) -> Data:
        """Make the data of one run."""
        return make(kind, self.schedule, self.interface, self.sizes, self.numbers, self.seed)

    def described(self, data: Data) -> dict[str, str]:
        """Describe a run: shapes, data and seed, for the printed answer."""
        facts = {"schedule": f"{self.kernel.name}: {origin_of(self.schedule)}"}
        if scalars := _scalars(data):
            facts["with"] = ", ".join(f"{name} = {value}" for name, value in scalars.items())
        return facts


def prepare(command: Command, schedule: Schedule) -> Run:
    """Choose sizes and numbers, and make the arrays.

    Raises:
        UsageError: `unknown-argument` for a name in --set that the kernel does not take.
    """
    kernel = schedule.lowered(architecture(command.options.arch))
    interface = Interface.of(kernel)
    given = dict(command.options.settings)
    known_numbers = tuple(p.name for p in interface.numbers)
    numbers = {name: given.pop(name) for name in known_numbers if name in given}
    multiples = {symbol.name: symbol.multiple_of for symbol in interface.symbols}
    unknown = [name for name in given if name not in multiples or not isinstance(given[name], int)]
    if unknown:
        known = ", ".join((*multiples, *known_numbers)) or "none"
        raise UsageError("unknown-argument", f"{kernel.name} takes no {unknown[0]}", fix=f"--set takes: {known}")
    sizes = default_sizes(command.request, schedule, multiples, given)
    return Run(schedule, kernel, interface, sizes, numbers, command.options.seed)


def simulate(command: Command) -> Answer:
    """Run on the simulator, count its traffic, and verify."""
    made = prepare(command, command.schedule)
    found, data, report = _simulated(command, made, track=not command.options.no_track)
    told = {**_data(made, data, found), "where": "simulator", "report": plain(report)}
    facts = {**made.described(data), **_counted(report, made.schedule.lowered()), **_verified(made, found)}
    parts = [pairs(facts), *_sites(report)]
    return Answer(told, tuple(parts), int(not found.passed))


def run(command: Command) -> Answer:
    """Run on the GPU if there is one, else on the simulator, and verify; a run on the GPU is also timed."""
    from fireiron.jit.driver import probe

    schedule = command.schedule
    made = prepare(command, schedule)
    if probe().problem or command.options.blocks is not None:
        return _run_simulated(command, made)
    with progress(f"compiling {schedule.name}"):
        kernel = schedule.compile(architecture(command.options.arch))
    comparisons: dict[Kind, Comparison] = {}
    data: Data | None = None
    for kind in KINDS:
        data = made.make(kind)
        with progress("running on the GPU"):
            kernel(*data.inputs, out=data.out, **_scalars(data))
        with progress("verifying against NumPy in f64"):
            comparisons[kind] = held(schedule, data, expected(schedule, data))
    assert data is not None
    found = Verdict(comparisons.get("exact"), comparisons.get("random"))
    where = f"GPU {_gpu_name()}"
    facts = {"ran on": where, **made.described(data), **_verified(made, found)}
    told = {**_data(made, data, found), "where": where}
    if found.passed:  # the time of a wrong kernel means nothing
        with progress("timing"):
            timing = kernel.time(flops=schedule.flops(**made.sizes), **_scalars(data))
        facts["time"] = str(timing)
        told["timing"] = attrs.asdict(timing)
    return Answer(told, (pairs(facts),), int(not found.passed))


def _run_simulated(command: Command, made: Run) -> Answer:
    from fireiron.jit.driver import probe

    found, data, report = _simulated(command, made, track=True)
    why = "there is no GPU, see fireiron doctor" if probe().problem else "--blocks asks for it"
    facts = {"ran on": f"simulator ({why})", **made.described(data), **_verified(made, found)}
    told = {**_data(made, data, found), "where": "simulator", "blocks": report.blocks, "grid": report.grid}
    parts = [pairs(facts)]
    return Answer(told, tuple(parts), int(not found.passed))


def _simulated(command: Command, made: Run, track: bool) -> tuple[Verdict, Data, Report]:
    """Run on whole numbers, then on random ones; skip the second run if runs are long and the first one decides.

    Data and report are those of the first run; the report's counts do not depend on the numbers.
    """
    options = command.options
    seconds = refuse_long(command.request, made.schedule, made.kernel, made.sizes, options.blocks, options.arch)
    first: tuple[Data, Report] | None = None
    comparisons: dict[Kind, Comparison] = {}
    for kind in KINDS:
        if first is not None and seconds > CHEAP_S and comparisons["exact"].word in ("right", "wrong"):
            break
        data = made.make(kind)
        with progress(f"simulating {made.kernel.name}, about {duration(max(seconds, 1))}"):
            report = simulate_schedule(
                made.kernel, data.inputs, data.out, options.blocks, track and first is None, _scalars(data)
            ).report
        with progress("verifying against NumPy in f64"):
            partial = report.blocks < report.grid
            comparisons[kind] = held(made.schedule, data, expected(made.schedule, data), partial)
        first = first or (data, report)
    assert first is not None
    return Verdict(comparisons.get("exact"), comparisons.get("random")), *first


def _scalars(data: Data) -> dict[str, Any]:
    """Return the keywords of a call: sizes and scalars."""
    return {**data.sizes, **data.numbers}


def _gpu_name() -> str:
    from fireiron.jit.doctor import facts

    return next((fact.value for fact in facts() if fact.what == "GPU"), "")


def _data(run: Run, data: Data, found: Verdict) -> dict[str, Any]:
    return {
        "right": found.passed,
        "verdict": found.word,
        "kernel": run.kernel.name,
        "spec": str(origin_of(run.schedule)),
        "scalars": _scalars(data),
        "comparison": attrs.asdict(found.decisive),
        "exact": None if found.exact is None else attrs.asdict(found.exact),
        "random": None if found.random is None else attrs.asdict(found.random),
        "bound": bound_in_words(run.schedule),
    }


def _verified(run: Run, found: Verdict) -> dict[str, str]:
    """Describe the verdict: one word for both runs, then the result of each."""
    told = [f"{what}: {x}" for what, x in (("whole numbers", found.exact), ("random numbers", found.random)) if x]
    return {found.word: "\n".join(told), "bound": bound_in_words(run.schedule)}


def _counted(report: Report, kernel: Kernel) -> Mapping[str, str]:
    def traffic(name: str) -> str:
        read, write = getattr(report, f"{name}_read"), getattr(report, f"{name}_write")
        return f"{nbytes(read.nbytes)} read, {nbytes(write.nbytes)} written"

    micro = any(isinstance(statement, Micro) for statement in walk(kernel.body))
    apart = ", without those of microkernels" if micro else ""
    return {
        "simulated": f"{report.blocks} of {count(report.grid, 'block')} in {report.elapsed_s:.2f} s",
        "global": traffic("gl"),
        "shared": traffic("sh"),
        "barriers": str(report.barriers),
        "operations": f"{report.flops}{apart}",
    }


def _sites(report: Report) -> Sequence[Any]:
    """Draw the accesses whose memory traffic could be smaller."""
    found = [site for site in report.sites if site.conflict_degree > 1 or site.sector_ratio > 1]
    if not found:
        return ()
    table = columns("where", "atom", "conflicts", "sectors", right=(2, 3))
    for site in found:
        row(table, site.title or site.path, site.atom, f"{site.conflict_degree:.2f}", f"{site.sector_ratio:.2f}")
    return (table,)
