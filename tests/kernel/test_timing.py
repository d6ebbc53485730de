"""How long a chain takes to build, to lower and to print; the bounds leave room for a slow, shared machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul
from fireiron.schedules import simt


def best_ms(f: Callable[[], Any], times: int = 5) -> float:
    took: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        f()
        took.append((time.perf_counter() - start) * 1e3)
    return min(took)


def chain(m: int) -> Any:
    """Write twelve links, and check each; the last one elaborates, and is left to the next test."""
    return (
        matmul(m, 512, 512).tile(128, 128).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(64, 32).to(Warp).tile(8, 8).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll()
    )  # fmt: skip


def test_a_chain_of_twelve_links() -> None:
    took = best_ms(lambda: chain(512))
    print(f"12 links, checked: {took:.2f} ms")
    assert took < 50


def test_lowering_and_printing() -> None:
    sizes = iter(range(512, 5120, 128))  # a new size each time: lowering is kept

    def listing2() -> None:
        simt.listing2(matmul(next(sizes), 512, 512)).cuda(90)

    def sgemm() -> None:
        simt.sgemm(matmul(next(sizes), 512, 512)).cuda(90)

    for name, f in (("listing2", listing2), ("sgemm", sgemm)):
        took = best_ms(f)
        print(f"{name}, chain, lowering and printing: {took:.1f} ms")
        assert took < 200


def test_simulating_listing4() -> None:
    schedule = simt.listing4(matmul(128, 128, 64, layout="TT"))
    took = best_ms(schedule.simulate, 2)
    print(f"listing4 at 128x128x64 on the simulator: {took:.0f} ms")
    assert took < 2000
