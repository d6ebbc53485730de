"""Measure the host time of a call beyond a bare cuda.core launch of the same kernel.

All calls run in the steady state with torch tensors. Without a GPU, stand-ins for the tensors and the driver measure
the host's part alone, without the work of the driver and of PyTorch's own methods.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from fireiron import gemm, matmul, relu
from fireiron.schedules import simt

CALLS, ROUNDS = 2000, 15
SHAPES = ((64, 16), (16, 64), (64, 64), (64,))
BATCHES = ((2, 3, 64, 16), (16, 64), (2, 3, 64, 64), (64,))
SETS = 64  # sets of tensors that gemm is called with in turn
BARE = "cuda.core launch"


def run() -> int:
    """Print each time, and its difference to a bare launch."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return _without_gpu("torch is not installed")
    if not torch.cuda.is_available():
        return _without_gpu("torch sees no GPU")
    core: Any = import_module("cuda.core")
    make: Callable[..., Any] = lambda *shape: torch.randn(shape, device="cuda")  # noqa: E731
    kernel = simt.sgemm(matmul(64, 64, 16)).compile()
    a, b, c, _ = tensors = tuple(make(*s) for s in SHAPES)
    device = core.Device()
    device.set_current()
    bare = core.ObjectCode.from_cubin(kernel.cubin).get_kernel(kernel.name)
    interface = kernel.interface
    config = core.LaunchConfig(grid=1, block=interface.threads, shmem_size=interface.shared_nbytes)
    stream = device.create_stream(torch.cuda.current_stream())
    pointers = (a.data_ptr(), b.data_ptr(), c.data_ptr())
    launch = core.launch
    times: dict[str, Callable[[], object]] = {BARE: lambda: launch(stream, config, bare, *pointers)}
    found = _measured({**times, **_calls(kernel, make, tensors)}, torch.cuda.synchronize)
    for name, us in found.items():
        print(f"{name}: {us:.2f} us")
    for name in list(found)[1:]:
        print(f"{name}, over a bare launch: {found[name] - found[BARE]:.2f} us")
    return 0


def _without_gpu(why: str) -> int:
    """Print the host's part of each call."""
    for name, us in host_part().items():
        print(f"{name}, host part only: {us:.2f} us")
    print(f"no launch was timed: {why}")
    return 0


def host_part(rounds: int = ROUNDS) -> dict[str, float]:
    """Measure a call's processor time on the host before and after the driver, in microseconds."""
    import numpy as np

    from .standin import Tensor, stand_in

    rng = np.random.default_rng(0)
    make: Callable[..., Any] = lambda *shape: Tensor(rng.standard_normal(shape).astype(np.float32))  # noqa: E731
    with stand_in():
        kernel = simt.sgemm(matmul(64, 64, 16)).compile("sm_80")
        calls = _calls(kernel, make, tuple(make(*s) for s in SHAPES))
        return _measured(calls, lambda: None, rounds, time.process_time)  # no call waits


def _calls(kernel: Any, make: Callable[..., Any], tensors: tuple[Any, ...]) -> dict[str, Callable[[], object]]:
    """Name the measured calls; each call of gemm gets tensors at other addresses than the call before."""
    a, b, c, _ = tensors
    turns = itertools.cycle([tuple(make(*s) for s in SHAPES) for _ in range(SETS)])
    batches = itertools.cycle([tuple(make(*s) for s in BATCHES) for _ in range(SETS)])

    def plain() -> None:
        x, y, out, _ = next(turns)
        gemm(x, y, out=out)

    def epilog() -> None:
        x, y, out, bias = next(turns)
        gemm(x, y, epilog=lambda acc, bias: relu(acc + bias), bias=bias, out=out)

    def scaled() -> None:
        x, y, out, bias = next(turns)
        gemm(x, y, epilog=lambda acc, bias, alpha: relu(acc * alpha + bias), bias=bias, alpha=0.5, out=out)

    def batched() -> None:
        x, y, out, bias = next(batches)
        gemm(x, y, epilog=lambda acc, bias: relu(acc + bias), bias=bias, out=out)

    return {
        "fireiron call": lambda: kernel(a, b, out=c),
        "fireiron.gemm, fresh addresses": plain,
        "the same, with an epilog": epilog,
        "the same, with an epilog and a number": scaled,
        "the same, with an epilog and leading dimensions": batched,
    }


def _measured(
    calls: Mapping[str, Callable[[], object]],
    settle: Callable[[], object],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    for once in calls.values():
        once()
    found = [{name: _host_us(once, settle, clock) for name, once in calls.items()} for _ in range(rounds)]
    return {name: statistics.median(each[name] for each in found) for name in calls}


def _host_us(once: Callable[[], object], settle: Callable[[], object], clock: Callable[[], float]) -> float:
    settle()
    begin = clock()
    for _ in range(CALLS):
        once()
    spent = clock() - begin
    settle()
    return spent / CALLS * 1e6
