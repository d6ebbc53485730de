"""Workspaces: zeroed once, kept for each stream, grown where a call needs more, also while a graph is captured."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul, symbol
from fireiron.jit.arrays import ArrayFacts
from fireiron.jit.bind import bind
from fireiron.jit.driver import Loaded
from fireiron.jit.interface import Interface
from fireiron.jit.launch import plan
from fireiron.jit.workspace import PER_THREAD, Workspaces, owned_capture


class Calls:
    """Stand for the bindings: give out addresses, note what is called."""

    class CUstreamCaptureMode:
        CU_STREAM_CAPTURE_MODE_RELAXED = "relaxed"

    class CUstream_flags:
        CU_STREAM_NON_BLOCKING = 1

    def __init__(self):
        self.next, self.events = 1 << 20, []

    def cuMemAlloc(self, nbytes):
        self.next += 1 << 20
        self.events.append(("alloc", nbytes))
        return 0, self.next

    def cuMemFree(self, address):
        self.events.append(("free", address))
        return (0,)

    def cuMemsetD8Async(self, address, value, nbytes, stream):
        self.events.append(("zero", value, nbytes, stream))
        return (0,)

    def cuStreamCreate(self, flags):
        return 0, f"aside {flags}"

    def cuStreamSynchronize(self, stream):
        self.events.append(("wait", stream))
        return (0,)

    def cuStreamDestroy(self, stream):
        return (0,)

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.events.append(("mode", mode))
        return 0, "global"


class FakeDriver:
    def __init__(self):
        self.cu, self.launches, self.captured = Calls(), [], set()

    def capturing(self, stream):
        return stream in self.captured

    def call(self, answer):
        return answer[1] if len(answer) == 2 else answer[1:]

    def context(self, device):
        return 7

    def push(self, context):
        pass

    def pop(self):
        pass

    def current_context(self, pointer):
        pointer._obj.value = 7
        return 0

    def current_device(self):
        return 0

    def launch(self, handle, gx, gy, gz, bx, by, bz, shared, stream, table, extra):
        import ctypes

        count = self.count
        self.launches.append((gx, [ctypes.c_uint64.from_address(table[i]).value for i in range(count)]))
        return 0


def allocations(driver):
    return [nbytes for what, nbytes, *_ in driver.cu.events if what == "alloc"]


def test_memory_is_zeroed_on_a_stream_of_its_own():
    driver = FakeDriver()
    kept = Workspaces(driver, 0)
    kept.addresses([64, 16], 5)
    assert driver.cu.events == [
        ("mode", "relaxed"),
        ("alloc", 64),
        ("alloc", 16),
        ("zero", 0, 64, "aside 1"),
        ("zero", 0, 16, "aside 1"),
        ("wait", "aside 1"),
        ("mode", "global"),
    ]


def test_a_stream_keeps_its_memory_until_it_needs_more():
    driver = FakeDriver()
    kept = Workspaces(driver, 0)
    first = kept.addresses([64, 16], 5)
    assert kept.addresses([64, 16], 5) == kept.addresses([8, 4], 5) == first
    larger = kept.addresses([65, 16], 5)
    assert set(larger).isdisjoint(first)
    assert allocations(driver) == [64, 16, 128, 32]
    assert not [e for e in driver.cu.events if e[0] == "free"]  # a launch of before may still run


def test_memory_of_captured_launches_outlives_the_kernel():
    driver = FakeDriver()
    kept = Workspaces(driver, 0)
    kept.addresses([64], 5)
    driver.captured = {6, 7}
    (graphs,) = kept.addresses([64], 6)
    driver.captured = set()
    (usual,) = kept.addresses([64], 7)
    driver.captured = {8}
    with owned_capture():
        (owned,) = kept.addresses([64], 8)
    del kept
    gc.collect()
    freed = {address for what, address, *_ in driver.cu.events if what == "free"}
    assert {usual, owned} <= freed
    assert graphs not in freed


def test_streams_share_nothing():
    driver = FakeDriver()
    kept = Workspaces(driver, 0)
    assert set(kept.addresses([64], 5)).isdisjoint(kept.addresses([64], 6))
    mine, theirs = kept.addresses([64], PER_THREAD), []
    other = threading.Thread(target=lambda: theirs.extend(kept.addresses([64], PER_THREAD)))
    other.start()
    other.join()
    assert set(mine).isdisjoint(theirs)
    assert kept.addresses([64], PER_THREAD) == mine


@pytest.mark.parametrize("sizes", [(64, 64, 64), ("M", "N", "K")])
def test_a_launch_passes_workspaces_last(sizes):
    spec = matmul(*(symbol(s) if isinstance(s, str) else s for s in sizes))
    schedule = (
        spec.tile(32, 32).to(Block).epilog(memory=RF).split(ways=3).parallel(Block).split(8).load(A, SH).load(B, SH)
        .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    interface = Interface.of(schedule.lowered())
    facts = {name: ArrayFacts(4096 * (i + 1), (64, 64), (64, 1), "float32", 0, "other") for i, name in enumerate("ABC")}
    driver = FakeDriver()
    driver.count = len(interface.parameters)
    kept = Workspaces(driver, 0)
    made = plan(interface, bind(interface, facts, {}), driver, Loaded(99, 0, 7), kept)
    made.run([1, 2, 3], [], 13)
    made.run([1, 2, 3], [], 13)
    assert allocations(driver) == [4 * 3 * 32 * 32 * 4, 4 * 4]  # sums of three ways for each of four tiles, counters
    (grid, values), second = driver.launches
    assert grid == 12
    assert values[:3] == [1, 2, 3]
    assert tuple(values[-2:]) == kept.addresses([1, 1], 13)
    assert second == (grid, values)


def test_a_call_without_a_gpu_needs_no_workspace():
    schedule = (
        matmul(32, 32, 40).tile(32, 32).to(Block).epilog(memory=RF).split(ways=3).parallel(Block)
        .split(8).load(A, SH).load(B, SH).tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    a = np.ones((32, 40), "f4")
    report = schedule.simulate(a, a.T.copy())
    assert (report.out == 40).all()
