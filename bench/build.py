"""Measure the authoring loop: building and checking a chain, lowering and printing, compiling cold and warm.

`python -m bench build` measures two presets. `python -m bench build SUITE...` measures first calls: the choice, the
rest of the host's work, and NVRTC for drawn cases of suites, in a process whose cache is empty; then the same products
in a process that finds the kernels on disk. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from unittest.mock import patch

from fireiron import MatMulChain, matmul
from fireiron.schedules import simt

from .cases import Case
from .suites import SUITES, drawn

if TYPE_CHECKING:
    from fireiron.front.verbs import Schedule
    from fireiron.jit.kernel import CompiledKernel

WARM = Case(384, 384, 384, "f16", "TN")  # the first product of a process, whose time is that of imports
COUNT = 8
ONCE = "import sys; from fireiron.bench.build import report; report(sys.argv[1:])"
ARGUMENTS = ("arch", "seed", "count")


def run(words: Sequence[str] = ()) -> int:
    """Print the medians in milliseconds, and the time of the processor, nearly the same on a busy and a quiet machine.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser("python -m bench build", allow_abbrev=False)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="suites whose first calls are measured")
    parser.add_argument("--count", type=int, default=COUNT, help=f"cases of each suite, spread over it ({COUNT})")
    parser.add_argument("--seed", type=int, default=0, help="of suites whose cases are drawn (0)")
    parser.add_argument("--arch", default="sm_90a", help="the target (sm_90a)")
    asked = parser.parse_args(list(words))
    for name in asked.suites:
        drawn(name)  # refuses unknown names before anything runs
    if asked.suites:
        _first_calls(asked)
    else:
        _authoring()
    return 0


def _authoring() -> None:
    sizes = iter(range(1, 10_000))
    fresh: Callable[[], MatMulChain] = lambda: matmul(128 * next(sizes), 512, 256)  # noqa: E731
    authored: dict[str, Callable[[], object]] = {
        "simt.listing2, twelve links, built, checked and elaborated": lambda: simt.listing2(fresh()),
        "simt.sgemm, built, checked and elaborated": lambda: simt.sgemm(fresh()),
        "simt.sgemm, elaborated and printed as CUDA": lambda: simt.sgemm(fresh()).cuda("sm_90a"),
    }
    for what, work in authored.items():
        median, least = _ms(work, 60)
        print(f"{what}: {median:.2f} ms, {least:.2f} ms of the processor at least")
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, FIREIRON_CACHE_DIR=folder):
        schedules = [simt.sgemm(fresh()) for _ in range(6)]
        schedules.pop().compile("sm_90a")
        times = [_ms(lambda s=s: s.compile("sm_90a"), 1)[0] for s in schedules]
        print(f"simt.sgemm, compiled cold for sm_90a: {statistics.median(times):.0f} ms")
        again = schedules[0]
        print(f"simt.sgemm, from the disk cache: {_ms(lambda: again.compile('sm_90a'), 20)[0]:.2f} ms")


def _ms(work: Callable[[], object], times: int) -> tuple[float, float]:
    """Return the median time by the wall clock, and the least processor time."""
    found: list[float] = []
    busy: list[float] = []
    for _ in range(times):
        begin, spent = time.perf_counter(), time.process_time()
        work()
        busy.append((time.process_time() - spent) * 1e3)
        found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(found), min(busy)


def _first_calls(asked: argparse.Namespace) -> None:
    """Print a line for each suite, and one for all."""
    everything: list[tuple[dict[str, float], dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FIREIRON_CACHE_DIR": folder}
        for name in asked.suites:
            given = [sys.executable, "-c", ONCE, name, *(str(getattr(asked, each)) for each in ARGUMENTS)]
            made, read = (_lines(given, environment) for _ in range(2))
            found = list(zip(made, read, strict=True))
            everything += found
            print(f"{name}: {_words(found)}")
    if len(asked.suites) > 1:
        print(f"all: {_words(everything)}")


def _lines(command: Sequence[str], environment: dict[str, str]) -> list[dict[str, float]]:
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _words(found: Sequence[tuple[dict[str, float], dict[str, float]]]) -> str:
    made, read = [first for first, _ in found], [second["all"] for _, second in found]
    middle = {name: statistics.median(each[name] for each in made) for name in made[0]}
    most = max(each["all"] for each in made)
    return (
        f"{len(found)} first calls, {middle['all']:.0f} ms of the processor at the median "
        f"(choice {middle['choice']:.0f}, NVRTC {middle['compiler']:.0f}), {most:.0f} at most; "
        f"{middle['clock']:.0f} by the clock; "
        f"from disk {statistics.median(read):.1f} ms, {max(read):.1f} at most"
    )


def report(words: Sequence[str]) -> None:
    """Print a line of JSON for each case of a suite: its first call's milliseconds of the processor, by part.

    Args:
        words: the suite, the target, the seed and the number of cases.
    """
    name, arch, seed, count = words
    first_call(WARM, arch)
    cases = drawn(name, int(seed)) if SUITES[name].draw is not None else drawn(name)
    for each in cases[:: max(1, len(cases) // int(count))][: int(count)]:
        print(json.dumps(first_call(each, arch)), flush=True)


def first_call(case: Case, arch: str) -> dict[str, float]:
    """Choose schedules for a case and compile them, or take all from disk, as the first call of `gemm` does.

    Returns:
        Milliseconds of the processor: `all`, of these `choice` and `compiler`; the other part lowers and prints.
        `clock`: milliseconds by the clock, in which threads compile several launches at once.
    """
    from fireiron.front.best import best, kept_kernel
    from fireiron.front.realigned import may_copy
    from fireiron.front.several import launches
    from fireiron.jit import build

    spec, spent = case.spec(), {"all": 0.0, "choice": 0.0, "compiler": 0.0, "clock": 0.0}
    compiling = build.compile_source

    def timed(*args: object, **named: object) -> object:
        begin = time.thread_time()
        try:
            return compiling(*args, **named)  # pyright: ignore[reportArgumentType]
        finally:
            spent["compiler"] += time.thread_time() - begin

    with patch.object(build, "compile_source", timed):
        begin, clock = time.process_time(), time.perf_counter()

        def compiled(schedule: Schedule) -> CompiledKernel:
            spent["choice"] = spent["choice"] or time.process_time() - begin
            return schedule.compile(arch)

        several = launches(spec, arch, compiled, lambda: compiled(best(spec, arch))) if may_copy(spec) else None
        if several is None and kept_kernel(spec, arch) is None:
            compiled(best(spec, arch))
        spent["all"], spent["clock"] = time.process_time() - begin, time.perf_counter() - clock
    return {part: seconds * 1e3 for part, seconds in spent.items()}
