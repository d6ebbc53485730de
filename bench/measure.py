"""Measure cases with subjects: checked against f64 first, then timed in interleaved rounds of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from fireiron.base.errors import FireironError, UsageError
from fireiron.jit.driver import probe
from fireiron.tune.machine import Board, Machine, State, machine

from . import arrays as device_arrays
from .arrays import Arrays, Errors
from .cases import Case
from .results import Result
from .subjects import Launch, Prepared, Subject, as_subject
from .timer import SHORT_US, Times

MOST_SETS = 256  # sets of buffers that graphs rotate through, at most


@attrs.frozen
class Options:
    """Choose how to measure.

    Args:
        rounds: the most samples of each subject.
        budget_s: seconds a case may take for each way of timing.
        sustained_s: seconds that each subject runs back to back; 0 leaves it out.
        seed: seed of the random operands.
        arch: the target where there is no GPU.
        graphs: whether short kernels are timed by CUDA graphs too; results then take these times.
        exact: whether kernels of this project run on whole numbers too, where each bit is known.
    """

    rounds: int = 41
    budget_s: float = 1.0
    sustained_s: float = 0.0
    seed: int = 0
    arch: str | None = None
    graphs: bool = True
    exact: bool = True


class Timer(Protocol):
    """An object that times launches; see `TorchTimer`."""

    l2_nbytes: int

    def burst(self, launches: Mapping[str, Launch], rounds: int, budget_s: float) -> dict[str, Times]:
        """Time launches with a flushed L2."""
        ...

    def graphs(
        self, launches: Mapping[str, Sequence[Launch]], rounds: int, budget_s: float
    ) -> tuple[dict[str, Times], dict[str, str]]:
        """Time CUDA graphs."""
        ...

    def sustained(self, launch: Launch, each_us: float, seconds: float, watch: Callable[[], None]) -> float:
        """Time launches back to back."""
        ...

    def quick(self, launches: Sequence[Launch], samples: int = 5) -> list[float]:
        """Time launches roughly."""
        ...


class Lab(Protocol):
    """The place of a measurement: a GPU, or its stand-in in tests."""

    timer: Timer

    def make(self, case: Case, seed: int) -> Arrays:
        """Make operands."""
        ...

    def compare(self, case: Case, arrays: Arrays, outs: dict[str, Any]) -> dict[str, Errors]:
        """Compare results with f64."""
        ...

    def exact(self, case: Case, seed: int) -> tuple[Arrays, Any] | None:
        """Make operands of whole numbers, and the result of all right kernels; None where no such operands exist."""
        ...

    def differing(self, wanted: Any, outs: dict[str, Any]) -> dict[str, int]:
        """Count the elements of results that differ from what is wanted."""
        ...

    def settle(self) -> None:
        """Wait for the device, and raise the errors of its launches."""
        ...

    def state(self) -> State:
        """Read the board's clocks, power and temperature."""
        ...


class TorchLab:
    """Measure on the current CUDA device through torch."""

    def __init__(self) -> None:
        from .timer import TorchTimer

        self._torch = device_arrays.torch_module()
        self.timer: Timer = TorchTimer()
        self._board = Board(self._torch.cuda.current_device())

    def make(self, case: Case, seed: int) -> Arrays:
        """Make operands."""
        return device_arrays.make(case, seed=seed)

    def compare(self, case: Case, arrays: Arrays, outs: dict[str, Any]) -> dict[str, Errors]:
        """Compare results with f64."""
        return device_arrays.compare(case, arrays, outs)

    def exact(self, case: Case, seed: int) -> tuple[Arrays, Any] | None:
        """Make operands of whole numbers, and their product."""
        return device_arrays.exact(case, seed=seed)

    def differing(self, wanted: Any, outs: dict[str, Any]) -> dict[str, int]:
        """Count the elements of results that differ from what is wanted."""
        return device_arrays.differing(wanted, outs)

    def settle(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize()

    def state(self) -> State:
        """Read the board's clocks, power and temperature."""
        return self._board.state()


def why_not_timed() -> str:
    """Return the reason why nothing can be timed here; "" where timing is possible."""
    if probe().problem:
        return "there is no GPU (fireiron doctor says why)"
    try:
        torch = device_arrays.torch_module()
    except ImportError:
        return "torch is not installed (pip install 'fireiron[bench]')"
    return "" if torch.cuda.is_available() else "torch sees no GPU"


def measure(
    cases: Iterable[Case],
    subjects: Iterable[object],
    options: Options | None = None,
    *,
    suite: str = "",
    lab: Lab | None = None,
    on_case: Callable[[list[Result]], None] | None = None,
) -> list[Result]:
    """Measure every subject on every case.

    Args:
        cases: the problems.
        subjects: words as `--vs` takes them, preset functions, functions of (a, b, out), or subjects.
        options: how to measure.
        suite: a name for the results.
        lab: the place of the measurement; the GPU where None. Without a GPU, schedules are compiled and estimated, and
            nothing is timed.
        on_case: function that is called with the results of each finished case.

    Raises:
        UsageError: `unknown-peer`, `no-subject`.

    Example:
        >>> from fireiron.bench import Case, measure
        >>> [result] = measure([Case(256, 256, 64)], ["simt.sgemm"])
        >>> result.registers > 0 and result.modelled_us > 0
        True
    """
    options = options or Options()
    chosen = _named([as_subject(each, options.arch) for each in subjects])
    if not chosen:
        raise UsageError("no-subject", "there is nothing to measure", fix="name a preset, or peers by --vs")
    if lab is None and not why_not_timed():
        lab = TorchLab()
    everything: list[Result] = []
    for case in cases:
        found = _measure(case, chosen, options, suite, lab)
        everything += found
        if on_case is not None:
            on_case(found)
    return everything


def _named(subjects: Sequence[Subject]) -> dict[str, Subject]:
    """Give each subject a different name; timing one subject twice tests the bench."""
    named: dict[str, Subject] = {}
    for subject in subjects:
        name, turn = subject.name, 2
        while name in named:
            name, turn = f"{subject.name} #{turn}", turn + 1
        named[name] = subject
    return named


def _measure(
    case: Case, subjects: Mapping[str, Subject], options: Options, suite: str, lab: Lab | None
) -> list[Result]:
    results = {name: Result(suite, case, name, subject.ours) for name, subject in subjects.items()}
    prepared: dict[str, Prepared] = {}
    arrays = None if lab is None else lab.make(case, options.seed)
    for name, subject in subjects.items():
        try:
            made = subject.prepare(case, arrays, None if lab is None else lab.timer.quick)
        except Exception as error:  # whatever a peer or a user's function raises loses that subject alone
            results[name] = attrs.evolve(results[name], problem=_words(error))
            continue
        results[name] = attrs.evolve(
            results[name], detail=made.detail, modelled_us=made.modelled_us, registers=made.registers
        )
        prepared[name] = made
    if lab is None or arrays is None:
        return list(results.values())
    own = {name: arrays.fresh_out() for name in prepared}
    launches: dict[str, Launch] = {}
    for name, made in prepared.items():
        try:
            launch = made.launch(own[name])
            launch()
            lab.settle()
        except Exception as error:  # whatever a peer or a user's function raises loses that subject alone
            results[name] = attrs.evolve(results[name], problem=_words(error))
            continue
        launches[name] = launch
    for name, errors in lab.compare(case, arrays, {name: own[name].out for name in launches}).items():
        results[name] = attrs.evolve(results[name], errors=errors)
        if not errors.right:  # a wrong result is not timed
            what = (
                f"{errors.nans} elements are NaN" if errors.nans else f"{errors.share:.3g} times what rounding allows"
            )
            results[name] = attrs.evolve(results[name], problem=f"wrong: {what}")
            del launches[name]
    _exactly(case, options, lab, {name: prepared[name] for name in launches if subjects[name].ours}, launches, results)
    _time(case, options, lab, arrays, prepared, launches, results)
    return list(results.values())


def _exactly(
    case: Case,
    options: Options,
    lab: Lab,
    ours: Mapping[str, Prepared],
    launches: dict[str, Launch],
    results: dict[str, Result],
) -> None:
    """Run schedules of this project on whole numbers, and compare each bit; peers may round partial sums."""
    made = lab.exact(case, options.seed) if ours and options.exact else None
    if made is None:
        return
    arrays, wanted = made
    own = {name: arrays.fresh_out() for name in ours}
    for name, each in ours.items():
        each.launch(own[name])()
    lab.settle()
    for name, count in lab.differing(wanted, {name: each.out for name, each in own.items()}).items():
        if count:
            problem = f"wrong: {count} elements of a run on whole numbers differ from the exact product"
            results[name] = attrs.evolve(results[name], problem=problem)
            del launches[name]


def _time(
    case: Case,
    options: Options,
    lab: Lab,
    arrays: Arrays,
    prepared: Mapping[str, Prepared],
    launches: dict[str, Launch],
    results: dict[str, Result],
) -> None:
    if not launches:
        return
    timer = lab.timer
    for name, times in timer.burst(launches, options.rounds, options.budget_s).items():
        results[name] = attrs.evolve(results[name], times=times, state=lab.state())
    # One way of timing for all subjects of a case, so that ratios compare kernels alone.
    if options.graphs and min(results[name].times.median_us for name in launches) < SHORT_US:  # pyright: ignore[reportOptionalMemberAccess]
        sets = max(2, min(MOST_SETS, -(-2 * timer.l2_nbytes // int(case.nbytes))))
        copies = [lab.make(case, options.seed + 1 + i) for i in range(sets)]
        rotated = {name: [prepared[name].launch(each.fresh_out()) for each in copies] for name in launches}
        graphs, refused = timer.graphs(rotated, options.rounds, options.budget_s)
        for name, times in graphs.items():
            results[name] = attrs.evolve(results[name], events=results[name].times, times=times)
        for name, problem in refused.items():
            results[name] = attrs.evolve(results[name], events=results[name].times, times=None, problem=problem)
    if options.sustained_s:
        for name, launch in launches.items():
            times = results[name].times
            if times is None:
                continue
            states: list[State] = []
            us = timer.sustained(launch, times.median_us, options.sustained_s, lambda: states.append(lab.state()))  # noqa: B023
            results[name] = attrs.evolve(results[name], sustained_us=us, state=states[0] if states else State())


def _words(error: Exception) -> str:
    """Give an error's first line."""
    if isinstance(error, FireironError):
        return f"{error.code}: {error.message}"
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def here() -> Machine:
    """Describe the machine that measures."""
    return machine()
