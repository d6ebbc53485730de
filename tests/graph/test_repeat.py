"""Repeated calls of a plan: launches by address give what the calls before gave, and hold no memory too long."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
import pytest

import fireiron.graph.run as running
from fireiron import nn
from fireiron.graph.repeat import Repeat
from fireiron.graph.trace import trace_graph

STREAM = 7


def at(address: int, like: np.ndarray) -> np.ndarray:
    """View memory at an address with the shape, strides and type of an array."""
    nbytes = 1 + sum((n - 1) * s for n, s in zip(like.shape, like.strides, strict=True)) + like.itemsize
    memory = np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)[
        : nbytes // like.itemsize * like.itemsize
    ]
    return np.lib.stride_tricks.as_strided(memory.view(like.dtype), like.shape, like.strides)


class ByAddress(running.NumPy):
    """NumPy's library with a stream; operations without a kernel are NumPy's."""

    blocks: list[int]

    def queue(self, like: Any) -> tuple[int, int] | None:
        return 0, STREAM

    def empty(self, nbytes: int, like: Any) -> Any:
        made = np.zeros(nbytes + 1024, np.uint8)
        self.blocks.append(nbytes)
        return made[-made.ctypes.data % 256 :][: max(1, nbytes)]


class Kernel:
    """Simulate a kernel, given arrays or addresses."""

    align_mask = 15

    def __init__(self, made: Any) -> None:
        self.made, self.interface = made, made.interface
        self.like: list[Any] = []
        self.calls = self.runs = 0

    def __call__(self, *inputs: Any, out: Any) -> None:
        self.calls += 1
        self.like = [*inputs, *out]
        self.made(*inputs, out=out if len(out) > 1 else out[0])

    def planned(self, arrays: Any) -> Any:
        return self

    def encoded(self, scalars: Any) -> tuple[int, ...]:
        return ()

    def suspicious(self, addresses: list[int]) -> bool:
        return any(a & self.align_mask for a in addresses)

    def run(self, addresses: list[int], numbers: Any, stream: int) -> None:
        assert stream == STREAM
        self.runs += 1
        arrays = [at(a, x) for a, x in zip(addresses, self.like, strict=True)]
        count = len(self.interface.inputs)
        out = tuple(arrays[count:])
        self.made(*arrays[:count], out=out if len(out) > 1 else out[0])


class Runs:
    """Run a plan as on a GPU, and count how kernels were launched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, graph: Any) -> None:
        self.plan = graph.plan("sm_89")
        self.runner = running.Runner(self.plan)
        self.kernels: list[Kernel] = []
        self.blocks: list[int] = []
        make, library = self.runner._callable, ByAddress()
        library.blocks = self.blocks

        def kernel(launch: Any) -> Kernel:
            self.kernels.append(Kernel(make(launch)))
            return self.kernels[-1]

        monkeypatch.setattr(self.runner, "_callable", kernel)
        monkeypatch.setattr(running, "library_of", lambda arrays: library)

    def __call__(self, arrays: list[Any], spend: bool = False) -> Any:
        return self.runner(list(arrays), spend=spend)

    @property
    def counts(self) -> tuple[int, int]:
        """Count launches with arrays, and by address."""
        return sum(k.calls for k in self.kernels), sum(k.runs for k in self.kernels)


def aligned(array: np.ndarray, behind: int = 0) -> np.ndarray:
    """Copy an array to an address some bytes behind a multiple of 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    made = memory[-memory.ctypes.data % 64 + behind :][: array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def drawn(graph: Any, seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [aligned(draw.standard_normal(graph.nodes[i].shape).astype("f")) for i in graph.inputs]


def layers(x: Any, w: Any) -> Any:
    """Compute two products, a softmax, a fold and what no kernel computes."""
    y = nn.softmax(x[8:] @ w)
    z = np.cumsum(y + np.arange(32, dtype="f"), axis=0)
    return (z + 1.0)[:, 16:] @ w[16:], y.sum(1), x[:8]


@pytest.mark.parametrize("spend", [False, True])
def test_repeated_calls_give_what_the_first_gives(monkeypatch: pytest.MonkeyPatch, spend: bool) -> None:
    graph = trace_graph(layers, (24, 32), (32, 32))
    run = Runs(monkeypatch, graph)
    wanted = {seed: graph.plan("sm_89")(*drawn(graph, seed)) for seed in (0, 1)}
    count = len(run.plan.kernels)
    assert run.plan.foreign
    assert count > 2
    for turn, seed in enumerate((0, 1, 0)):
        made = run(drawn(graph, seed), spend)
        assert run.counts == (count, turn * count)
        for found, right in zip(made, wanted[seed], strict=True):
            np.testing.assert_array_equal(found, right)
    assert isinstance(run.runner.repeats[0, spend], Repeat)


def test_other_forms_and_alignments_take_the_first_way(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = trace_graph(lambda x, y: np.exp(x) + y, (16, 32), (16, 32))
    run, arrays = Runs(monkeypatch, graph), drawn(graph)
    wanted = run(arrays)
    odd = aligned(arrays[0], 4)
    apart = np.asfortranarray(arrays[1])
    for given, counts in (
        (arrays, (1, 1)),
        ([odd, arrays[1]], (2, 1)),
        (arrays, (2, 2)),
        ([arrays[0], apart], (2, 3)),  # copied before the launch
        (arrays, (2, 4)),
    ):
        np.testing.assert_array_equal(run(given), wanted)
        assert run.counts == counts


def test_small_results_share_a_block_and_large_ones_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(x: Any, w: Any) -> Any:
        large = x @ w
        other = (large / (1 + large.sum(0))) @ w
        return other @ w - other.sum(0)

    graph = trace_graph(steps, (512, 64), (64, 64))
    run = Runs(monkeypatch, graph)
    assert len(run.plan.kernels) > 3
    wanted = run(drawn(graph), spend=True)
    run.blocks.clear()
    np.testing.assert_array_equal(run(drawn(graph), spend=True), wanted)
    small, *own = run.blocks
    outputs = {run.plan.views[i].node for i in graph.outputs}
    sizes = [run.plan.graph.nodes[i].nbytes for launch in run.plan.launches for i in launch.part.outputs]
    assert 0 < small < 64 << 10
    assert sorted(own) == sorted(n for n in sizes if n > 64 << 10)
    assert len(outputs) == 1

    arrays = drawn(graph)
    seen = weakref.ref(arrays[0])
    alive: list[bool] = []
    last = run.kernels[-1]
    plain = last.run

    def watched(addresses: list[int], numbers: Any, stream: int) -> None:
        alive.append(seen() is not None)
        plain(addresses, numbers, stream)

    monkeypatch.setattr(last, "run", watched)
    run.runner(arrays, spend=True)
    assert arrays == []
    assert alive == [False]


def test_kept_results_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = trace_graph(lambda x, w: x @ (w * 2 + w), (16, 32), (32, 32), fixed=("w",))
    run, arrays = Runs(monkeypatch, graph), drawn(graph)
    assert run.runner.once
    monkeypatch.setattr(ByAddress, "state", lambda self, array: array.ctypes.data)
    wanted = run(arrays)
    np.testing.assert_array_equal(run(arrays), wanted)
    changed = [arrays[0], arrays[1].copy() * 2]
    np.testing.assert_allclose(run(changed), 2 * wanted, rtol=1e-5)
    assert run.counts == (1, 2)
