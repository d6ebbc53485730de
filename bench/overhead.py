"""Measure what a call costs the host beyond a bare cuda.core launch of the same kernel.

Both run in the steady state with torch tensors.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fireiron import gemm, matmul
from fireiron.schedules import simt

CALLS, ROUNDS = 2000, 15
SHAPES = ((64, 16), (16, 64), (64, 64))
SETS = 64  # of tensors that gemm is called with in turn


def run() -> int:
    """Print both times and their difference."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        print("nothing was timed: this benchmark needs torch and a GPU")
        return 1
    if not torch.cuda.is_available():
        print("nothing was timed: torch sees no GPU")
        return 1
    core: Any = import_module("cuda.core")
    kernel = simt.sgemm(matmul(64, 64, 16)).compile()
    a, b, c = (torch.randn(s, device="cuda") for s in SHAPES)
    kernel(a, b, out=c)
    device = core.Device()
    device.set_current()
    bare = core.ObjectCode.from_cubin(kernel.cubin).get_kernel(kernel.name)
    interface = kernel.interface
    config = core.LaunchConfig(grid=1, block=interface.threads, shmem_size=interface.shared_nbytes)
    stream = device.create_stream(torch.cuda.current_stream())
    pointers = (a.data_ptr(), b.data_ptr(), c.data_ptr())
    launch = core.launch
    direct: Callable[[], object] = lambda: launch(stream, config, bare, *pointers)  # noqa: E731
    call: Callable[[], object] = lambda: kernel(a, b, out=c)  # noqa: E731
    # Every call of gemm meets tensors at addresses that it has not seen last.
    turns = itertools.cycle([tuple(torch.randn(s, device="cuda") for s in SHAPES) for _ in range(SETS)])
    gemm(a, b, out=c)

    def dispatch() -> None:
        x, y, out = next(turns)
        gemm(x, y, out=out)

    times = {"cuda.core launch": direct, "fireiron call": call, "fireiron.gemm, fresh addresses": dispatch}
    rounds = [{name: _host_us(once, torch.cuda.synchronize) for name, once in times.items()} for _ in range(ROUNDS)]
    found = {name: statistics.median(each[name] for each in rounds) for name in times}
    for name, us in found.items():
        print(f"{name}: {us:.2f} us")
    for name in list(found)[1:]:
        print(f"{name}, over a bare launch: {found[name] - found['cuda.core launch']:.2f} us")
    return 0


def _host_us(once: Callable[[], object], settle: Callable[[], object]) -> float:
    settle()
    begin = time.perf_counter()
    for _ in range(CALLS):
        once()
    spent = time.perf_counter() - begin
    settle()
    return spent / CALLS * 1e6
