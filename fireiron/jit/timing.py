"""Times of kernels: medians with quantiles, after clocks have settled, with the L2 cache flushed before each run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError
from fireiron.jit import bind
from fireiron.jit.arrays import describe, random_ends
from fireiron.jit.driver import Driver, driver, probe, require
from fireiron.jit.expression import evaluate
from fireiron.jit.streams import stream_handle
from fireiron.jit.workspace import owned_capture

if TYPE_CHECKING:
    from fireiron.jit.kernel import CompiledKernel

SHORT_US = 20.0  # under this, events around a launch measure the launch too
GRAPH_LAUNCHES = 50


@attrs.frozen
class Timing:
    """Hold the times of a kernel.

    Args:
        median_us: median time of the runs with a flushed L2, in microseconds.
        p20: time that a fifth of the runs stays under, in microseconds.
        p80: time that four fifths stay under, in microseconds.
        samples: number of runs.
        tflops: operations divided by the median, in 1e12 per second; 0 where the operations are not known.
        gbps: bytes of all arrays divided by the median, in 1e9 per second; 0 where the bytes are not known.
        method: how it was measured, in words.
        graph_us: microseconds of one launch in a CUDA graph of equal launches, with a warm L2; only for short kernels.
    """

    median_us: float
    p20: float
    p80: float
    samples: int
    tflops: float
    gbps: float
    method: str
    graph_us: float | None = None

    def __str__(self) -> str:
        rates = [f"{self.tflops:.1f} TFLOP/s"] if self.tflops else []
        rates += [f"{self.gbps:.0f} GB/s"] if self.gbps else []
        graph = [f"{self.graph_us:.2f} us in a graph"] if self.graph_us is not None else []
        return " · ".join([f"{self.median_us:.2f} us ({self.p20:.2f} to {self.p80:.2f})", *rates, *graph, self.method])


def summarise(
    times_us: Sequence[float], method: str, *, flops: float = 0.0, nbytes: float = 0.0, graph_us: float | None = None
) -> Timing:
    """Compute the median and the quantiles of samples.

    Example:
        >>> summarise([10.0, 11.0, 12.0, 13.0, 14.0], "events", flops=12e6).tflops
        1.0
    """
    ordered = sorted(times_us)
    median = statistics.median(ordered)
    last = len(ordered) - 1
    return Timing(
        median_us=median,
        p20=ordered[round(0.2 * last)],
        p80=ordered[round(0.8 * last)],
        samples=len(ordered),
        tflops=flops / median * 1e-6,
        gbps=nbytes / median * 1e-3,
        method=method,
        graph_us=graph_us,
    )


def time_kernel(
    launch: Callable[[int], object],
    *,
    stream: Any = None,
    device: int = 0,
    flops: float = 0.0,
    nbytes: float = 0.0,
    samples: int = 100,
    budget_s: float = 2.0,
) -> Timing:
    """Time a launch on a GPU.

    Args:
        launch: launches once on the stream whose handle it is given.
        stream: the stream, as `stream_handle` takes it; a new one where None.
        device: the GPU's ordinal.
        flops: operations of one launch.
        nbytes: bytes that one launch reads and writes.
        samples: runs at most.
        budget_s: seconds after which no further run starts, warm-up apart.

    Raises:
        CallError: `driver`.
    """
    used = driver()
    with _current(used, device), _stream(used, stream) as queue, _flusher(used, device, queue) as flush:
        events = tuple(used.call(used.cu.cuEventCreate(0)) for _ in range(2))
        try:

            def once() -> float:
                flush()
                return _between(used, events, queue, lambda: launch(queue))

            _warm_up(once)
            times: list[float] = []
            end = time.perf_counter() + budget_s
            while len(times) < samples and (time.perf_counter() < end or len(times) < 5):
                times.append(once())
            graph_us = None
            if statistics.median(times) < SHORT_US:
                graph_us = _in_graph(used, events, queue, launch)
        finally:
            for event in events:
                used.cu.cuEventDestroy(event)
    return summarise(times, "events, L2 flushed", flops=flops, nbytes=nbytes, graph_us=graph_us)


def time_call(
    kernel: CompiledKernel, inputs: Sequence[Any], out: Any, flops: float, scalars: Mapping[str, Any]
) -> Timing:
    """Time a compiled kernel on arrays, random ones where none are given.

    Raises:
        CallError: as a call does, and `unknown-size` where neither arrays nor keywords give every size.
    """
    from fireiron.jit.kernel import as_tuple

    require(kernel.binary, probe())
    interface = kernel.interface
    given, numbers = bind.split_scalars(interface, scalars)
    owned: list[Any] = []
    try:
        if not inputs:
            sizes = bind.solve(interface, {}, given)
            owned = [random_array(driver(), kernel, p.name, sizes) for p in (*interface.inputs, *interface.outputs)]
            inputs, made = owned[: len(interface.inputs)], owned[len(interface.inputs) :]
            out = made[0] if len(made) == 1 else tuple(made)
        # The first call checks everything and allocates what is missing.
        out = kernel(*inputs, out=out, **scalars)
        outs = as_tuple(out)
        facts = {
            p.name: describe(a, p.name)
            for p, a in zip((*interface.inputs, *interface.outputs), (*inputs, *outs), strict=True)
        }
        nbytes = sum(
            find_dtype(p.dtype).nbytes * _elements(facts[p.name].shape) * (2 if p.role == "update" else 1)
            for p in interface.pointers
        )
        binding = bind.bind(interface, facts, given)
        if binding.device is None:
            raise CallError(
                "wrong-device",
                "time needs arrays on the GPU, and these lie in host memory",
                fix="pass torch or CuPy arrays, or none: random ones are then made",
            )
        # A checked call would take longer than the flush, and its own time would show.
        launch = kernel.prepare(facts, binding, numbers)
        return time_kernel(
            launch,
            device=binding.device,
            flops=flops,
            nbytes=nbytes,
        )
    finally:
        for array in owned:
            array.free()


def random_array(used: Driver, kernel: CompiledKernel, name: str, sizes: Mapping[str, int], seed: int = 0) -> Any:
    """Make an array of random numbers on the GPU for one parameter; zeros would take less power, and run too fast."""
    import numpy as np

    from fireiron.jit.memory import DeviceArray

    pointer = next(p for p in kernel.interface.pointers if p.name == name)
    shape, strides = bind.concrete(pointer.shape, sizes), bind.concrete(pointer.strides, sizes)
    dtype = find_dtype(pointer.dtype)
    array = DeviceArray(used, shape, dtype.numpy, strides=strides)
    rng = np.random.default_rng([seed, *name.encode()])
    # A few million numbers, repeated: enough for the power that data draws, and quickly made.
    count = min(_elements(shape), 1 << 22)
    some = (
        random_ends(rng, count, evaluate(pointer.shares, sizes))
        if pointer.shares
        else rng.integers(0, 256, count)
        if dtype.packed
        else rng.integers(-8, 8, count)
        if dtype.kind == "int"
        else rng.standard_normal(count, dtype=np.float32)
    )
    array.upload(np.resize(some.astype(dtype.numpy), shape))
    return array


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _warm_up(once: Callable[[], float], limit_s: float = 1.0) -> None:
    """Run until two groups of runs agree within 2 %: clocks have then settled."""
    end = time.perf_counter() + limit_s
    before = statistics.median(once() for _ in range(5))
    while time.perf_counter() < end:
        now = statistics.median(once() for _ in range(5))
        if abs(now - before) <= 0.02 * before:
            return
        before = now


def _between(used: Driver, events: Sequence[Any], queue: int, work: Callable[[], object]) -> float:
    """Measure work on a stream in microseconds."""
    cu = used.cu
    used.call(cu.cuEventRecord(events[0], cu.CUstream(queue)))
    work()
    used.call(cu.cuEventRecord(events[1], cu.CUstream(queue)))
    used.call(cu.cuEventSynchronize(events[1]))
    return 1e3 * float(used.call(cu.cuEventElapsedTime(events[0], events[1])))


def _in_graph(used: Driver, events: Sequence[Any], queue: int, launch: Callable[[int], object]) -> float | None:
    """Measure a launch's share of a replayed graph, None where the stream cannot be captured."""
    cu = used.cu
    if queue in (0, 1):  # the legacy default stream
        return None
    stream = cu.CUstream(queue)
    used.call(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    try:
        with owned_capture():
            for _ in range(GRAPH_LAUNCHES):
                launch(queue)
    finally:
        graph = used.call(cu.cuStreamEndCapture(stream))
    made = used.call(cu.cuGraphInstantiate(graph, 0))
    try:

        def replay() -> object:
            return used.call(cu.cuGraphLaunch(made, stream))

        replay()
        return statistics.median(_between(used, events, queue, replay) for _ in range(10)) / GRAPH_LAUNCHES
    finally:
        cu.cuGraphExecDestroy(made)
        cu.cuGraphDestroy(graph)


@contextmanager
def _current(used: Driver, device: int) -> Generator[None]:
    used.push(used.context(device))
    try:
        yield
    finally:
        used.pop()


@contextmanager
def _stream(used: Driver, stream: Any) -> Generator[int]:
    if stream is not None:
        yield stream_handle(stream)
        return
    # Blocking with respect to the default stream: arrays filled there are ready.
    made = used.call(used.cu.cuStreamCreate(0))
    try:
        yield int(made)
    finally:
        used.cu.cuStreamDestroy(made)


@contextmanager
def _flusher(used: Driver, device: int, queue: int) -> Generator[Callable[[], None]]:
    """Return a function that flushes the L2 cache on the stream, by writing a buffer of twice its size.

    The launch to be timed is enqueued while the buffer is written.
    """
    cu = used.cu
    size = 2 * max(used.attribute(cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device), 1 << 24)
    buffer = used.call(cu.cuMemAlloc(size))
    try:
        yield lambda: used.call(cu.cuMemsetD32Async(buffer, 0, size // 4, cu.CUstream(queue)))
    finally:
        used.cu.cuStreamSynchronize(cu.CUstream(queue))
        used.cu.cuMemFree(buffer)
