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
    """Print the medians in milliseconds."""
    import os

    sizes = iter(range(1, 10_000))
    fresh: Callable[[], MatMulChain] = lambda: matmul(128 * next(sizes), 512, 256)  # noqa: E731
    listing2 = _ms(lambda: simt.listing2(fresh()), 30)
    print(f"simt.listing2, twelve links, built, checked and elaborated: {listing2:.2f} ms")
    print(f"simt.sgemm, built, checked and elaborated: {_ms(lambda: simt.sgemm(fresh()), 30):.2f} ms")
    print(f"simt.sgemm, elaborated and printed as CUDA: {_ms(lambda: simt.sgemm(fresh()).cuda('sm_90a'), 30):.2f} ms")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FIREIRON_CACHE_DIR"] = folder
        schedules = [simt.sgemm(fresh()) for _ in range(6)]
        schedules.pop().compile("sm_90a")
        times = [_ms(lambda s=s: s.compile("sm_90a"), 1) for s in schedules]
        print(f"simt.sgemm, compiled cold for sm_90a: {statistics.median(times):.0f} ms")
        again = schedules[0]
        print(f"simt.sgemm, from the disk cache: {_ms(lambda: again.compile('sm_90a'), 20):.2f} ms")
    return 0


def _ms(work: Callable[[], object], times: int) -> float:
    found: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(found)
