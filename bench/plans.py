"""Time the first plans of `hopper.gemm` against a peer: the first plan, and the fastest of the first N.

`python -m bench plans [SUITE] [--seed N] [--plans N] [--vs PEER] [-o FILE.jsonl]`. Launches are timed one by one with
the L2 flushed, each checked against f64 before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress

import attrs

from fireiron.base.errors import FireironError
from fireiron.schedules import hopper

from .ahead import compilers
from .cases import Case, with_options
from .measure import Lab, Options, TorchLab, here, measure, why_not_timed
from .results import Result, ratio, write
from .subjects import Scheduled, subject
from .suites import SUITES, drawn
from .tables import UNTIMED, geomean, problems

ROUNDS, BUDGET_S = 15, 2.0
NEAR = 32  # columns of a tile
PARTS = 3  # of a case's plans, compiled by as many processes
SHOWN = 5  # number of listed cases whose first plan is slowest


@attrs.frozen
class Choice:
    """Hold the ratios of a case's plans.

    Args:
        case: the problem.
        first: the peer's time divided by that of the model's first plan.
        best: the peer's time divided by that of the fastest plan.
        place: the fastest plan's place in the model's order, from 1.
    """

    case: Case
    first: float
    best: float
    place: int

    def __str__(self) -> str:
        return f"{self.case}: {self.first:.3f}, plan {self.place} {self.best:.3f}"


def scheduled(case: Case, count: int, arch: str | None, apart: bool = False) -> list[Scheduled]:
    """List the subjects of a case: `hopper.gemm` by each of its first plans, none where it takes no plan.

    Args:
        case: the problem.
        count: number of plans.
        arch: the target.
        apart: whether to leave out plans that are similar to an earlier one.
    """
    found = list(hopper.plans(case.spec()))
    first = (_apart(found) if apart else found)[:count]
    return [Scheduled("hopper.gemm", {"plan": plan}, arch) for plan in first]


def _apart(plans: Sequence[hopper.Plan]) -> list[hopper.Plan]:
    """Keep plans that differ from all kept ones by more than some columns of the tile."""
    kept: list[hopper.Plan] = []
    for plan in plans:
        alike = (attrs.evolve(plan, n=other.n, group=other.group, keep=other.keep) == other for other in kept)
        if not any(same and abs(plan.n - other.n) < NEAR for same, other in zip(alike, kept, strict=True)):
            kept.append(plan)
    return kept


def compiled(case: Case, count: int, arch: str | None, apart: bool = False, part: int = 0) -> None:
    """Compile one of PARTS parts of a case's plans into the disk cache."""
    for each in scheduled(case, count, arch, apart)[part::PARTS]:
        with suppress(FireironError):  # the process that measures the case reports the error
            hopper.gemm(case.spec(), each.values["plan"]).compile(arch)


def chosen(results: Sequence[Result], peer: str) -> Choice | None:
    """Compare a case's plans, in the model's order, with the peer."""
    other = next((r for r in results if r.subject == peer), None)
    ours = [r for r in results if r.ours]
    over = [] if other is None else [ratio(r, other) for r in ours]
    timed = [(value, -i) for i, value in enumerate(over) if value is not None]
    if not over or over[0] is None:
        return None
    best, place = max(timed)
    return Choice(results[0].case, over[0], best, 1 - place)


def said(choices: Sequence[Choice], count: int, peer: str) -> list[str]:
    """Describe all cases: geometric means, and the cases with the slowest first plans."""
    if not choices:
        return []
    first, best = _spread([c.first for c in choices]), _spread([c.best for c in choices])
    lines = [f"{len(choices)} cases over {peer}: the first plan {first}, the fastest of {count} {best}"]
    return lines + [f"  {choice}" for choice in sorted(choices, key=lambda c: c.first)[:SHOWN]]


def _spread(values: Sequence[float]) -> str:
    return f"{geomean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def run(
    words: Sequence[str],
    command: str = "",
    *,
    lab: Lab | None = None,
    executor: Executor | None = None,
    tell: Callable[[str], None] = print,
) -> int:
    """Run the command line.

    Args:
        words: arguments of the command.
        command: name of the command in results.
        lab: the place of the measurement; the GPU where None.
        executor: runs compilations; None for new processes.
        tell: function that is called with lines for the user.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    o = _parsed(words)
    cases = with_options(drawn(o.suite, o.seed, o.count), o.dtype, None)
    why = "" if lab is not None else why_not_timed()
    where = TorchLab() if lab is None and not why else lab
    peer = subject(o.vs)
    machine, results, choices = here(), list[Result](), list[Choice]()
    with compilers(executor) as workers:
        tasks = [
            [workers.submit(compiled, case, o.plans, o.arch, o.apart, part) for part in range(PARTS)] for case in cases
        ]
        for case, parts in zip(cases, tasks, strict=True):
            for task in parts:
                with suppress(Exception):  # a process ended: the process that measures compiles
                    task.result()
            plans = scheduled(case, o.plans, o.arch, o.apart)
            if not plans:
                tell(f"{case}: hopper.gemm has no plan for it, and hands it to another preset")
                continue
            options = Options(ROUNDS, BUDGET_S, arch=o.arch, graphs=False, exact=o.exact)
            found = measure([case], [*plans, *(() if why else (peer,))], options, suite=o.suite, lab=where)
            results += found
            choice = chosen(found, peer.name)
            choices += [] if choice is None else [choice]
            if o.output:
                when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                write(o.output, [result.to_json(machine, command, when) for result in found])
    for line in (*said(choices, o.plans, peer.name), *problems(results)):
        tell(line)
    if why:
        tell(f"{len(cases)} cases, {sum(r.registers is not None for r in results)} plans compiled")
        tell(UNTIMED.format(why=why))
    return int(any(r.ours and r.wrong for r in results))


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench plans", description="Time the first plans of hopper.gemm.", allow_abbrev=False
    )
    parser.add_argument("suite", nargs="?", default="gemm-random100", choices=list(SUITES))
    parser.add_argument("--seed", type=int, default=0, help="seed of random sizes (0)")
    parser.add_argument("--count", type=int, metavar="N", help="only the first N cases")
    parser.add_argument(
        "--plans", type=int, default=10, metavar="N", help="number of plans of each case, in the model's order (10)"
    )
    parser.add_argument(
        "--apart", action="store_true", help="leave out plans that are like an earlier one: `bench fit` learns more"
    )
    parser.add_argument(
        "--no-exact",
        action="store_false",
        dest="exact",
        help="check results against f64 alone, not on whole numbers too",
    )
    parser.add_argument("--dtype", help="element types, in[:acc[:out]], instead of the suite's")
    parser.add_argument("--vs", default="torch", metavar="PEER", help="torch, cublas, cublaslt (torch)")
    parser.add_argument("--arch", help="target where there is no GPU (sm_90a)")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    o = parser.parse_args(list(words))
    if o.plans < 1:
        parser.error(f"--plans {o.plans}: time one plan at least")
    return o
