"""One session on a GPU: tune, then measure the suites, within a budget of seconds.

Results are written case by case, so that a session that is cut off keeps them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from fireiron.front.best import forget
from fireiron.tune.machine import Machine, machine

from . import tuning
from .ahead import compilers, ready, submit
from .cases import Case
from .measure import Lab, Options, measure, why_not_timed
from .plot import write as write_plot
from .results import Result, replace
from .suites import SUITES, drawn, suite
from .tables import UNTIMED, problems, summaries

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
SHIPPED = ROOT / "fireiron" / "tune" / "shipped" / "nvidia-h200.jsonl"
PEERS = ("torch", "cublaslt")
# The most important suites come first: the last ones are left out where time is short.
ORDER = (
    "gemm-square", "gemm-random100", "dtypes", "fused-random100", "fused", "skinny", "gemm-llm", "layouts", "batched",
    "deep", "ragged", "sgemm",
)  # fmt: skip
CASE_S = 0.4  # seconds of sampling, for each way of timing
ROUNDS = 31


@attrs.frozen
class Plan:
    """Describe a session.

    Args:
        budget_s: seconds for all of it.
        suites: by name, the most important first.
        peers: other subjects that are timed, for comparison.
        tuned: cases of gemm-random100 that are tuned first.
        tune_share: the largest part of the budget for tuning.
        full_s: seconds per tuned case for the full effort; 0 leaves the full effort out.
        results: the folder of the results' files.
        records: the file of records to ship.
        arch: the target where there is no GPU.
        ours: subjects of this project that are timed against the peers.
        seed: seed of suites with drawn cases.
        share: fraction of drawn cases that are measured, evenly spread.
        exact: whether kernels are also checked bit by bit, on whole numbers (0.3 s of the host at 4096 x 4096).
    """

    budget_s: float = 540.0
    suites: tuple[str, ...] = ORDER
    peers: tuple[object, ...] = PEERS
    tuned: int = 12
    tune_share: float = 0.4
    full_s: float = 0.0
    results: Path = RESULTS
    records: Path = SHIPPED
    arch: str | None = None
    ours: tuple[object, ...] = ("best",)
    seed: int = 0
    share: float = 1.0
    exact: bool = True

    def cases(self, name: str) -> tuple[Case, ...]:
        """List the cases of a suite that are measured."""
        found = drawn(name, self.seed)
        if suite(name).draw is None or self.share >= 1:
            return found
        count = max(1, round(len(found) * self.share))
        return tuple(found[i * len(found) // count] for i in range(count))


def run(
    plan: Plan,
    command: str = "",
    *,
    lab: Lab | None = None,
    where: Machine | None = None,
    executor: Any = None,
    tell: Callable[[str], None] = print,
) -> int:
    """Run a session.

    Args:
        plan: the session.
        command: name of the command in results.
        lab: the place of the measurement; the GPU where None.
        where: the machine; None for this machine.
        executor: chooses schedules and compiles; None for new processes.
        tell: function that is called with lines for the user.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    start = time.perf_counter()
    end = start + plan.budget_s
    why = "" if lab is not None else why_not_timed()
    chosen = [plan.cases(name) for name in plan.suites]  # refuses unknown names before anything runs
    found = where or machine()
    tell(f"{found}; {plan.budget_s:.0f} s")
    with compilers(executor) as workers:
        if plan.tuned and not why and lab is None:
            os.environ["FIREIRON_RECORDS"] = str(plan.records)  # `best` chooses the tuned schedules below
            cases = tuning.spread(SUITES["gemm-random100"].cases, plan.tuned)
            share = plan.tune_share * plan.budget_s
            tuning.run(cases, share, plan.records, full_s=plan.full_s, executor=workers, tell=tell)
            forget()
        tasks = submit(workers, [case for each in chosen for case in each], plan.arch)
        wrong = False
        for name, each in zip(plan.suites, chosen, strict=True):
            results = _suite(plan, name, each, tasks, end, command, found, lab, tell)
            wrong = wrong or any(r.ours and r.wrong for r in results)
        for task in tasks.values():
            task.cancel()
    tell(f"{time.perf_counter() - start:.0f} s of {plan.budget_s:.0f}")
    if why:
        tell(UNTIMED.format(why=why))
    return int(wrong)


def _suite(
    plan: Plan,
    name: str,
    cases: Sequence[Case],
    tasks: Any,
    end: float,
    command: str,
    where: Machine,
    lab: Lab | None,
    tell: Callable[[str], None],
) -> list[Result]:
    """Measure one suite until time is up."""
    path = plan.results / f"{name}.jsonl"
    begin = time.perf_counter()

    def on_case(found: list[Result]) -> None:
        if any(r.times for r in found):
            replace(path, found, where, command, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    timed = lab is not None or not why_not_timed()
    results = measure(
        ready(cases, tasks, plan.arch, end),
        [*plan.ours, *(plan.peers if timed else ())],
        Options(ROUNDS, CASE_S, seed=plan.seed, arch=plan.arch, exact=plan.exact),
        suite=name,
        lab=lab,
        on_case=on_case,
    )
    done = len({r.case for r in results})
    tell(f"{name}: {done} of {len(cases)} cases in {time.perf_counter() - begin:.0f} s")
    for line in (*summaries(results), *problems(results)):
        tell(f"  {line}")
    if done and timed and name == "gemm-random100":
        write_plot(str(plan.results / f"{name}.svg"), results, f"{name} on {where.device}", where.device)
    return results


def parsed(words: Sequence[str]) -> Plan:
    """Read the options of `python -m bench session`."""
    parser = argparse.ArgumentParser(
        prog="python -m bench session", description="Tune and measure on a GPU within a budget.", allow_abbrev=False
    )
    usual = Plan()
    parser.add_argument(
        "--budget", type=float, default=usual.budget_s, metavar="S", help="seconds of the session (540)"
    )
    parser.add_argument(
        "--suites", nargs="+", default=list(ORDER), metavar="SUITE", help="suites, the most important first"
    )
    parser.add_argument("--vs", nargs="*", default=list(PEERS), metavar="PEER", help="peers (torch cublaslt)")
    parser.add_argument(
        "--tune", type=int, default=usual.tuned, metavar="N", help="number of cases of random100 to tune (12)"
    )
    parser.add_argument(
        "--tune-share", type=float, default=usual.tune_share, help="largest share of the budget for tuning (0.4)"
    )
    parser.add_argument(
        "--full", type=float, default=0.0, metavar="S", help="seconds per tuned case for a search of effort full too"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="folder of the results")
    parser.add_argument("--records", type=Path, default=SHIPPED, metavar="FILE", help="file of the records")
    parser.add_argument("--arch", help="target where there is no GPU (sm_90a)")
    parser.add_argument("--seed", type=int, default=0, help="of the suites whose cases are drawn (0)")
    parser.add_argument("--share", type=float, default=1.0, help="of their cases that are measured (1)")
    parser.add_argument(
        "--no-exact",
        action="store_false",
        dest="exact",
        help="check results against f64 alone, not on whole numbers too",
    )
    o = parser.parse_args(words)
    return Plan(
        o.budget, tuple(o.suites), tuple(o.vs), o.tune, o.tune_share, o.full, o.results, o.records, o.arch,
        seed=o.seed, share=o.share, exact=o.exact,
    )  # fmt: skip
