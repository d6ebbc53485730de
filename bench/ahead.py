"""Choose and compile schedules in other processes, so that the GPU does not wait for the compiler."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager, suppress

import attrs

from fireiron.base.errors import FireironError
from fireiron.front.best import Choice, choose, remember
from fireiron.jit.process import Processes

from .cases import Case

LIMIT_S = 120.0  # seconds of one choice with its compilation
FREE_CORES = 2  # cores that are left to the process that measures


def chosen(case: Case, arch: str | None) -> Choice | None:
    """Choose a schedule, and compile it into the disk cache; None where no preset takes the case."""
    try:
        found = choose(case.spec(), arch)
        found.schedule.compile(arch)
    except (FireironError, TypeError):  # the process that measures the case reports the error
        return None
    return found


@contextmanager
def compilers(executor: Executor | None = None) -> Iterator[Executor]:
    """Return the given executor, or one with a process for each core but two."""
    made = executor or Processes(max(1, (os.cpu_count() or 1) - FREE_CORES), LIMIT_S)
    try:
        yield made
    finally:
        if executor is None:
            made.shutdown(wait=False, cancel_futures=True)


def compiled(tasks: Sequence[Callable[[], None]], jobs: int | None = None) -> None:
    """Run tasks that compile kernels into the disk cache, in other processes, and wait for all of them.

    Args:
        tasks: functions that can be pickled: partial functions of modules.
        jobs: number of processes, None for one for each core but two; 0 leaves the tasks out.
    """
    if jobs == 0 or len(tasks) < 2:
        return
    cores = max(1, (os.cpu_count() or 1) - FREE_CORES)
    with compilers(Processes(min(jobs or cores, len(tasks)), LIMIT_S)) as executor:
        for one in [executor.submit(task) for task in tasks]:
            with suppress(Exception):  # the process that measures the case reports the error
                one.result()
        executor.shutdown(wait=False, cancel_futures=True)


def submit(executor: Executor, cases: Sequence[Case], arch: str | None) -> dict[Case, Future[Choice | None]]:
    """Submit all cases, in order."""
    return {case: executor.submit(chosen, case, arch) for case in dict.fromkeys(cases)}


def ready(
    cases: Sequence[Case], tasks: Mapping[Case, Future[Choice | None]], arch: str | None, end: float
) -> Iterator[Case]:
    """Yield each case once its schedule is chosen, until time is up; later cases are left out.

    Args:
        cases: in the order in which they are measured.
        tasks: the result of `submit`.
        arch: the argument of `submit`.
        end: the time of `time.perf_counter()` after which no case is yielded.
    """
    for case in cases:
        left = end - time.perf_counter()
        if left <= 0:
            return
        try:
            found = tasks[case].result(timeout=left)
        except TooLate:
            return
        except Exception:  # a process ended: the process that measures chooses
            found = None
        if found is not None:
            # A schedule is built again from its keywords: the other process sent copies of the atoms.
            spec = case.spec()
            schedule = found.candidate.preset.build(spec, found.candidate.point)
            remember(spec, arch, attrs.evolve(found, schedule=schedule))
        if time.perf_counter() < end:
            yield case
