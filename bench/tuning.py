"""Tune some cases of a suite within a budget: the fastest become records to ship; report the model's error."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import attrs

from fireiron.base.errors import FireironError
from fireiron.front.best import forget, suited
from fireiron.tune import records as files
from fireiron.tune.effort import EFFORTS
from fireiron.tune.measurer import Measurer
from fireiron.tune.record import Record
from fireiron.tune.search import Tuned, tune

from .ahead import compilers
from .cases import Case
from .tables import geomean

KEPT = 3  # records kept for each problem; a later one serves where an earlier one is refused
LEAST_S = 5.0  # shortest useful search, in seconds


@attrs.frozen
class Outcome:
    """Hold the results of the searches for one case.

    Args:
        case: the problem.
        quick: result of the quick effort, None where it failed.
        full: result of the full effort, None where it was not run or failed.
        problem: the reason of a failure.
    """

    case: Case
    quick: Tuned | None = None
    full: Tuned | None = None
    problem: str = ""

    @property
    def best_us(self) -> float | None:
        """Return the best time of both efforts."""
        found = [t.best.us for t in (self.quick, self.full) if t is not None and t.best is not None and t.best.us]
        return min(found, default=None)

    def reached(self, what: Callable[[Tuned], float | None]) -> float | None:
        """Return the best time divided by a time of the quick search."""
        us = None if self.quick is None else what(self.quick)
        return self.best_us / us if us and self.best_us else None

    def __str__(self) -> str:
        if self.quick is None or self.quick.best is None:
            return f"{self.case}: {self.problem or 'nothing was measured'}"
        words = f"{self.case}: {self.quick.best.schedule} {self.quick.best.us:.2f} us in {self.quick.elapsed_s:.0f} s"
        if self.full is not None and self.full.best is not None:
            words += f"; full {self.full.best.schedule} {self.full.best.us:.2f} us in {self.full.elapsed_s:.0f} s"
        return words


def spread(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """Select a number of cases, evenly spread over the numbers of their operations."""
    ordered = sorted(cases, key=lambda case: case.flops)
    if count >= len(ordered):
        return tuple(ordered)
    return tuple(ordered[round(i * (len(ordered) - 1) / max(1, count - 1))] for i in range(count))


def run(
    cases: Sequence[Case],
    budget_s: float,
    records: Path,
    *,
    full_s: float = 0.0,
    executor: Executor | None = None,
    measurer: Callable[[Any], Measurer] | None = None,
    tell: Callable[[str], None] = print,
) -> list[Outcome]:
    """Tune cases one after another, and add the fastest schedules to a file of records.

    Args:
        cases: the cases to tune; when time is up, the remaining ones are left out.
        budget_s: seconds for all of them.
        records: the file to ship; other measurements are kept in a second file until the function returns.
        full_s: seconds per case for the full effort; 0 leaves the full effort out.
        executor: runs compilations; None for new processes.
        measurer: function that measures a spec; the GPU where None.
        tell: function that is called with lines for the user.

    Raises:
        CallError: `no-gpu`.
    """
    end = time.perf_counter() + budget_s
    outcomes: list[Outcome] = []
    with compilers(executor) as workers, tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(cases):
            left = end - time.perf_counter()
            if left < LEAST_S:
                tell(f"{len(cases) - i} of {len(cases)} cases were not tuned: time was up")
                break
            aside = Path(folder) / f"{i}.jsonl"
            common: dict[str, Any] = {"executor": workers, "records": aside}
            common |= {"measurer": measurer(case.spec())} if measurer is not None else {}
            outcome = _one(case, left, full_s, common)
            outcomes.append(outcome)
            tell(str(outcome))
            if aside.is_file():
                keep(records, files.read(aside).records)
    forget()
    for line in summary(outcomes):
        tell(line)
    return outcomes


def _one(case: Case, left_s: float, full_s: float, common: dict[str, Any]) -> Outcome:
    spec = case.spec()
    try:
        functions = suited(spec)
        chosen = [p.function for p in functions]
        common = {**common, "names": [p.name for p in functions]}
        quick = tune(spec, chosen, effort="quick", budget_s=min(left_s, EFFORTS["quick"].budget_s), **common)
        full = None
        if full_s:
            full = tune(spec, chosen, effort="full", budget_s=min(full_s, left_s), **common)
    except FireironError as error:
        if error.code == "no-gpu":
            raise
        return Outcome(case, problem=f"{error.code}: {error.message}")
    return Outcome(case, quick, full)


def keep(path: Path, found: Sequence[Record]) -> None:
    """Add the fastest records of each problem and device to a file, and remove slower ones."""
    known = files.read(path) if path.is_file() else files.Read(())
    best = files.fastest([*known.records, *found], KEPT)
    files.replace(path, best, (*known.newer, *known.broken))


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Report the errors of the model and of the quick search, as geometric means over the cases."""
    if not outcomes:
        return ["nothing was tuned"]
    lines = [f"{sum(o.best_us is not None for o in outcomes)} of {len(outcomes)} cases tuned"]
    shares = {
        "the model's first choice": lambda t: t.first_us,
        "the quick search": lambda t: None if t.best is None else t.best.us,
    }
    basis = "the full search" if any(o.full is not None for o in outcomes) else "the quick search"
    for name, what in shares.items():
        values = [v for o in outcomes if (v := o.reached(what)) is not None]
        if values and name != basis:
            lines.append(f"{name} reaches {geomean(values):.3f} of what {basis} found ({min(values):.3f} at worst)")
    ranks = [o.quick.correlation for o in outcomes if o.quick is not None and o.quick.correlation is not None]
    if ranks:
        lines.append(f"rank correlation of modelled and measured times: mean {sum(ranks) / len(ranks):.2f}")
    return lines
