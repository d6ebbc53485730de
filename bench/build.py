"""Measure the authoring loop: building and checking a chain, lowering and printing, compiling cold and warm.

Needs no GPU.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable

from fireiron import MatMulChain, matmul
from fireiron.schedules import simt


def run() -> int:
    """Print the medians in milliseconds, and of what this process does the least time of the processor.

    The least time is nearly the same on a busy machine as on a quiet one.
    """
    import os

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
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FIREIRON_CACHE_DIR"] = folder
        schedules = [simt.sgemm(fresh()) for _ in range(6)]
        schedules.pop().compile("sm_90a")
        times = [_ms(lambda s=s: s.compile("sm_90a"), 1)[0] for s in schedules]
        print(f"simt.sgemm, compiled cold for sm_90a: {statistics.median(times):.0f} ms")
        again = schedules[0]
        print(f"simt.sgemm, from the disk cache: {_ms(lambda: again.compile('sm_90a'), 20)[0]:.2f} ms")
    return 0


def _ms(work: Callable[[], object], times: int) -> tuple[float, float]:
    """Give the median of the wall clock, and the least time of the processor."""
    found: list[float] = []
    busy: list[float] = []
    for _ in range(times):
        begin, spent = time.perf_counter(), time.process_time()
        work()
        busy.append((time.process_time() - spent) * 1e3)
        found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(found), min(busy)
