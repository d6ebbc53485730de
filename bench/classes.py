"""Time drawn products of every class against their peers, and print one table: sizes, layouts, element types, epilogs.

`python -m bench classes [CLASS...] [--commit HASH] [--budget S]`. The sizes of a class are drawn by a seed that follows
from the hash of a commit, so that nobody looks at them before the code is frozen. Results are written case by case; a
command that ran out of time goes on where it stopped when it is given again. Each result is checked against f64 first.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import attrs

from .ahead import compilers, ready, submit
from .cases import Case
from .measure import Lab, Options, here, measure, why_not_timed
from .results import Result, by_case, ratio, read, replace
from .subjects import subject
from .suites import drawn
from .tables import UNTIMED, geomean, problems

RESULTS = Path(__file__).resolve().parent / "results" / "classes"
OURS = "best"
FASTEST = "the fastest"
CASE_S = 0.4  # seconds of sampling, for each way of timing
ROUNDS = 31


@attrs.frozen
class Class:
    """Describe a class of products.

    Args:
        about: the class in words, for the table.
        suite: the suite whose draw has its cases.
        goals: by peer, the geometric mean of ratios to reach; `the fastest` stands for the fastest peer of each case.
        least: the ratio to reach in each case, over the first peer of `goals`.
        dtype: element types of the cases that belong to the class; "" for all of the suite.
        peers: subjects to time beside `best`.
    """

    about: str
    suite: str
    goals: tuple[tuple[str, float], ...]
    least: float
    dtype: str = ""
    peers: tuple[str, ...] = ("torch", "cublaslt")

    def cases(self, seed: int, count: int | None = None) -> tuple[Case, ...]:
        """Draw the class' cases."""
        return tuple(each for each in drawn(self.suite, seed) if self.dtype in ("", each.dtype))[:count]


def _over(torch: float, cublaslt: float | None = None) -> tuple[tuple[str, float], ...]:
    return ("torch", torch), ("cublaslt", torch if cublaslt is None else cublaslt)


CLASSES = {
    "ragged": Class("multiples of 8, four layouts, f16 and bf16", "ragged-random", _over(1.06, 1.04), 0.98),
    "whole": Class("multiples of 128, TN", "gemm-random100", _over(1.10, 1.08), 1.00),
    "layouts": Class("multiples of 128 in NN, NT and TT", "layouts-random", _over(1.08, 1.06), 0.99),
    "odd": Class("arbitrary sizes, four layouts", "odd-random", _over(1.7), 1.0),
    "tf32": Class("tf32, four layouts", "dtypes-random", _over(1.03), 0.97, "tf32"),
    "e4m3": Class("e4m3 to bf16, TN", "dtypes-random", _over(1.03), 0.97, "e4m3:f32:bf16"),
    "i8": Class("i8, TN", "dtypes-random", _over(1.6), 0.97, "i8"),
    "f32": Class("f32, four layouts", "dtypes-random", _over(1.00), 0.96, "f32"),
    "f64": Class("f64, four layouts", "dtypes-random", _over(1.00), 0.96, "f64"),
    "fused": Class(
        "bias, gelu, silu or relu, and a residual",
        "fused-random",
        ((FASTEST, 1.15),),
        1.00,
        peers=("torch", "cublaslt", "torch.compile"),
    ),
    "deep": Class("deep K, few tiles", "deep-random", _over(1.05, 1.02), 0.98),
}


def seed_of(commit: str, name: str) -> int:
    """Return the seed of a class' draw: it follows from a commit's hash, and differs from class to class.

    Example:
        >>> seed_of("0123abcd", "ragged") != seed_of("0123abcd", "odd")
        True
    """
    return int.from_bytes(hashlib.sha256(f"{commit} {name}".encode()).digest()[:4], "big")


def over(group: Sequence[Result], peer: str) -> float | None:
    """Return a peer's time over ours for one case, None where one of both was not timed."""
    mine = next((r for r in group if r.subject == OURS), None)
    found = [
        value
        for other in group
        if mine is not None and not other.ours and peer in (FASTEST, other.subject)
        if (value := ratio(mine, other)) is not None
    ]
    return min(found, default=None)


def table(found: Sequence[tuple[str, Sequence[Result]]]) -> list[str]:
    """Write the table: for each class and peer how far the goals are, and how many cases lack the peer."""
    heads = ("class", "cases", "over", "geomean", "goal", "least", "goal", "below its goal", "without")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, results in found:
        which, groups = CLASSES[name], list(by_case(results).values())
        for place, (peer, goal) in enumerate(which.goals):
            values = [value for group in groups if (value := over(group, peer)) is not None]
            least = f"{which.least:.2f}" if place == 0 else ""
            cells = [which.about if place == 0 else "", str(len(groups)), peer]
            if values:
                below = sum(value < which.least for value in values)
                cells += [f"{geomean(values):.3f}", f"{goal:.2f}", f"{min(values):.3f}", least, str(below)]
            else:
                cells += ["-", f"{goal:.2f}", "-", least, "-"]
            lines.append(f"| {' | '.join((*cells, str(len(groups) - len(values))))} |")
    return lines


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
        words: its arguments.
        command: as results shall name it.
        lab: where cases are measured; the GPU where None.
        executor: chooses and compiles; processes of its own where None.
        tell: is given lines for the user.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    o = _parsed(words)
    end = time.perf_counter() + o.budget
    timed = lab is not None or not why_not_timed()
    machine, found, wrong = here(), list[tuple[str, list[Result]]](), False
    tell(f"seeds from {o.commit}")
    waiting = {name: _waiting(name, o.commit, o.count, o.results, again=not timed) for name in o.classes}
    with compilers(executor) as workers:
        tasks = submit(workers, [case for _, cases in waiting.values() for case in cases], o.arch)
        for name, (done, cases) in waiting.items():
            which, path = CLASSES[name], o.results / f"{name}.jsonl"

            def keep(results: list[Result], path: Path = path) -> None:
                if any(r.times for r in results):
                    replace(path, results, machine, command, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

            results = measure(
                ready(cases, tasks, o.arch, end),
                [subject(name, o.arch) for name in (OURS, *(which.peers if timed else ()))],
                Options(ROUNDS, CASE_S, seed=seed_of(o.commit, name), arch=o.arch, exact=o.exact),
                suite=name,
                lab=lab,
                on_case=keep,
            )
            wrong = wrong or any(r.ours and r.wrong for r in results)
            count = len({r.case for r in results})
            tell(f"{name}: {count} measured, {len(by_case(done))} before, {len(cases) - count} left")
            for line in problems(results):
                tell(f"  {line}")
            found.append((name, [*done, *results]))
        for task in tasks.values():
            task.cancel()
    for line in table(found) if timed else (UNTIMED.format(why=why_not_timed()),):
        tell(line)
    return int(wrong)


def _waiting(name: str, commit: str, count: int | None, folder: Path, again: bool) -> tuple[list[Result], list[Case]]:
    """Return the results that a file has of a class' cases, and the cases that it lacks."""
    cases, path = CLASSES[name].cases(seed_of(commit, name), count), folder / f"{name}.jsonl"
    known = [] if again or not path.is_file() else read(str(path))[0]
    done = [result for result in known if result.case in cases]
    measured = {result.case for result in done}
    return done, [case for case in cases if case not in measured]


def _head() -> str:
    """Return the hash of the commit that is checked out."""
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    listed = "\n".join(f"  {name:8}{each.about}" for name, each in CLASSES.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench classes",
        description="Time drawn products of every class against their peers, and print the table.",
        epilog=f"classes:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="classes, the most important first (all)")
    parser.add_argument("--commit", metavar="HASH", help="the seeds follow from it (the commit that is checked out)")
    parser.add_argument("--budget", type=float, default=540.0, metavar="S", help="seconds (540)")
    parser.add_argument("--count", type=int, metavar="N", help="only the first N cases of each class")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="folder of the results")
    parser.add_argument("--arch", help="target where there is no GPU (sm_90a)")
    parser.add_argument(
        "--no-exact",
        action="store_false",
        dest="exact",
        help="check results against f64 alone, not on whole numbers too",
    )
    o = parser.parse_args(list(words))
    unknown = [name for name in o.classes if name not in CLASSES]
    if unknown:
        parser.error(f"there is no class {unknown[0]}: use one of {', '.join(CLASSES)}")
    o.classes = list(dict.fromkeys(o.classes)) or list(CLASSES)
    o.commit = o.commit or _head()
    return o
