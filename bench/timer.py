"""Time launches on a GPU through torch: rounds interleaved, L2 flushed or buffers rotated, graphs for short kernels."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from fireiron.jit.workspace import owned_capture

from .arrays import torch_module

Launch = Callable[[], object]

SHORT_US = 20.0  # below this time, events also measure the launch itself
FLUSH_NBYTES = 256 << 20  # several times the largest L2 of a GPU
WARM_ROUNDS = 3
GRAPH_LAUNCHES = 20  # least launches in one graph


@attrs.frozen
class Times:
    """Hold the times of one subject.

    Args:
        median_us: median of the samples in microseconds.
        p20: 20th percentile in microseconds.
        p80: 80th percentile in microseconds.
        samples: number of samples.
        method: the way of timing, in words.
    """

    median_us: float
    p20: float
    p80: float
    samples: int
    method: str

    @property
    def spread(self) -> float:
        """Return half the distance between the percentiles, divided by the median."""
        return (self.p80 - self.p20) / 2 / self.median_us


def summary(times_us: Sequence[float], method: str) -> Times:
    """Compute median and percentiles of samples.

    Example:
        >>> summary([3.0, 1.0, 2.0, 5.0, 4.0, 6.0], "events").median_us
        3.5
    """
    ordered = sorted(times_us)
    last = len(ordered) - 1
    return Times(
        statistics.median(ordered), ordered[round(0.2 * last)], ordered[round(0.8 * last)], len(ordered), method
    )


class TorchTimer:
    """Time on the current CUDA device, on torch's current stream."""

    def __init__(self) -> None:
        self._torch = torch_module()
        self._flush = self._torch.empty(FLUSH_NBYTES, dtype=torch_int8(), device="cuda")
        self._settle = self._torch.zeros(1, device="cuda")
        self.l2_nbytes = int(getattr(self._torch.cuda.get_device_properties(), "L2_cache_size", 0)) or 64 << 20

    def burst(self, launches: Mapping[str, Launch], rounds: int, budget_s: float) -> dict[str, Times]:
        """Time each launch once per round, after a flush of the L2, in a random order.

        Args:
            launches: the launches by name.
            rounds: the largest number of rounds; at least five are run.
            budget_s: seconds after which no further round starts.
        """
        cuda = self._torch.cuda
        names = list(launches)
        events = {name: (cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for name in names}
        found: dict[str, list[float]] = {name: [] for name in names}
        end = time.perf_counter() + budget_s
        for turn in range(WARM_ROUNDS + rounds):
            if turn >= WARM_ROUNDS + 5 and time.perf_counter() > end:
                break
            # Some launches, at times every fourth, take 0.8 us more; a random order spreads them over all names.
            for name in random.Random(turn).sample(names, len(names)):
                self._once(launches[name], *events[name])
            cuda.synchronize()
            if turn >= WARM_ROUNDS:
                for name, (begin, finish) in events.items():
                    found[name].append(begin.elapsed_time(finish) * 1e3)
        return {name: summary(times, "events, L2 flushed") for name, times in found.items()}

    def _once(self, launch: Launch, begin: Any, finish: Any) -> None:
        """Launch once between two events, after a flush of the L2.

        The launch is enqueued while the flush runs, which hides the host's time; where one flush is too short, two,
        four or eight run. After other launches, or directly after a memset, the same kernel takes up to 0.7 us more
        in some rounds. So the stream holds no other work, and a small kernel runs between flush and launch.
        """
        for flushes in (1, 2, 4, 8):
            self._torch.cuda.synchronize()
            for _ in range(flushes):
                self._flush.zero_()
            self._settle.add_(1)
            begin.record()
            launch()
            finish.record()
            if not begin.query():
                return

    def graphs(
        self, launches: Mapping[str, Sequence[Launch]], rounds: int, budget_s: float
    ) -> tuple[dict[str, Times], dict[str, str]]:
        """Time CUDA graphs that launch on each of several sets of buffers in turn, too many to stay in the L2.

        Args:
            launches: one launch a set, by name.
            rounds: replays of each graph at most.
            budget_s: seconds after which no further round starts.

        Returns:
            The times, and for launches that cannot be captured the reason.
        """
        cuda = self._torch.cuda
        graphs: dict[str, Any] = {}
        counts: dict[str, int] = {}
        refused: dict[str, str] = {}
        for name, each in launches.items():
            repeats = -(-GRAPH_LAUNCHES // len(each))
            graph = cuda.CUDAGraph()
            try:
                for launch in each:
                    launch()
                cuda.synchronize()
                with owned_capture(), cuda.graph(graph):
                    for _ in range(repeats):
                        for launch in each:
                            launch()
            except RuntimeError as error:
                refused[name] = f"no CUDA graph of it: {str(error).splitlines()[0]}"
                cuda.synchronize()
                continue
            graphs[name], counts[name] = graph, repeats * len(each)
        found: dict[str, list[float]] = {name: [] for name in graphs}
        names = list(graphs)
        begin, finish = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        end = time.perf_counter() + budget_s
        for turn in range(WARM_ROUNDS + rounds):
            if turn >= WARM_ROUNDS + 5 and time.perf_counter() > end:
                break
            for i in range(len(names)):
                name = names[(i + turn) % len(names)]
                begin.record()
                graphs[name].replay()
                finish.record()
                finish.synchronize()
                if turn >= WARM_ROUNDS:
                    found[name].append(begin.elapsed_time(finish) * 1e3 / counts[name])
        method = "CUDA graph, buffers rotated"
        return {name: summary(times, method) for name, times in found.items()}, refused

    def sustained(self, launch: Launch, each_us: float, seconds: float, watch: Callable[[], None]) -> float:
        """Launch back to back for some seconds; give the microseconds of one launch.

        Args:
            launch: the launch to repeat.
            each_us: approximate microseconds of one launch.
            seconds: duration of the run.
            watch: called while the GPU is busy, after half of the launches.
        """
        cuda = self._torch.cuda
        count = max(10, min(200_000, int(seconds * 1e6 / each_us)))
        begin, finish = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        middle = cuda.Event()
        begin.record()
        for i in range(count):
            launch()
            if i == count // 2:
                middle.record()
        finish.record()
        middle.synchronize()
        watch()
        finish.synchronize()
        return float(begin.elapsed_time(finish)) * 1e3 / count

    def quick(self, launches: Sequence[Launch], samples: int = 5) -> list[float]:
        """Return a rough median of each launch with a flushed L2; infinity for a launch that fails."""
        rough: list[float] = []
        for launch in launches:
            try:
                rough.append(self.burst({"": launch}, samples, 0.05)[""].median_us)
            except RuntimeError:
                rough.append(float("inf"))
        return rough


def torch_int8() -> Any:
    """Give torch's int8."""
    return torch_module().int8
