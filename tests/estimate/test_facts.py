"""Facts of unfinished schedules: what is known after each link, and what is not."""

from __future__ import annotations

import time
from typing import Any

import attrs
import pytest

from fireiron import RF, SH, A, B, Block, Swizzle, Thread, Warp, matmul, symbol, vector
from fireiron.algebra.arch import ARCHS, arch
from fireiron.base.errors import UsageError
from fireiron.estimate.facts import Facts, facts
from fireiron.schedules import simt

HOPPER = arch(90)


def prefixes(schedule: Any) -> list[Any]:
    return [
        attrs.evolve(schedule, links=schedule.links[:i], trail=schedule._trail[:i])
        for i in range(len(schedule.links) + 1)
    ]


def places(found: Facts) -> list[tuple[str, str, float]]:
    return [(r.title.split(":")[0], r.memory, r.degree) for r in found.rows]


LOADS = [
    ("load A to a_sh", "GL", 1.0),
    ("load A to a_sh", "SH", 1.0),
    ("load B to b_sh", "GL", 1.0),
    ("load B to b_sh", "SH", 1.0),
]
FRAGMENTS = [("load a_sh to a_rf", "SH", 8.0), ("load b_sh to b_rf", "SH", 1.0)]
STORE = [("store C", "GL", 2.0)]


def test_each_prefix_of_listing2() -> None:
    steps = [facts(p, HOPPER) for p in prefixes(simt.listing2(matmul(512, 512, 512)))]
    assert [f.threads for f in steps] == [None] * 6 + [256] * 7
    assert [f.shared_nbytes for f in steps] == [0] * 4 + [4096] + [8192] * 8
    assert [f.registers for f in steps] == [None] * 6 + [64] * 3 + [72] + [80] * 3
    assert [f.complete for f in steps] == [False] * 12 + [True]
    assert [places(f) for f in steps] == [
        [], [], [], [], LOADS[:2], LOADS, LOADS, LOADS + STORE, LOADS + STORE,
        LOADS + FRAGMENTS[:1] + STORE, *[LOADS + FRAGMENTS + STORE] * 3,
    ]  # fmt: skip
    assert [len(f.buffers) for f in steps] == [0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 5]
    assert all((f.occupancy is None) == (f.threads is None) for f in steps)
    conflicts = [[c.link.underlined for c in f.findings if c.code == "bank-conflicts" and c.link] for f in steps]
    assert conflicts == [[]] * 9 + [["load(A, RF)"]] * 4


def test_what_is_not_known_is_said() -> None:
    chain = matmul(512, 512, 512)
    assert facts(chain, HOPPER).unknown == (
        "blocks, threads, shared memory and registers: set by a later link, which tiles to Block",
    )
    loaded = facts(chain.tile(128, 128).to(Block).epilog().split(8).load(A, SH), HOPPER)
    assert loaded.unknown == (
        "threads: set by a later link; Moves are measured with 256",
        "which thread holds which element of acc: set by a later link, so their Moves are not measured",
    )
    assert [(b.name, b.memory, b.nbytes, b.scope) for b in loaded.buffers] == [
        ("acc", "RF", 65536, "block"),
        ("a_sh", "SH", 4096, "block"),
    ]
    assert "threads: set by a later link" in str(loaded)


def test_a_prefix_reports_the_load_that_does_not_fit() -> None:
    chain = matmul(4096, 4096, 4096).tile(128, 128).to(Block).epilog().split(64).pipeline(2).load(A, SH)
    assert not facts(chain, arch(86)).errors
    (found,) = facts(chain.load(B, SH), arch(86)).errors
    assert (found.code, found.link is not None and found.link.underlined) == ("shared-memory", "load(B, SH)")


def test_an_accumulator_that_no_block_can_hold() -> None:
    (found,) = facts(matmul(4096, 4096, 64).tile(512, 256).to(Block).epilog(), HOPPER).errors
    assert found.code == "registers"
    assert found.message.startswith("a block's register tensors take 512 KiB, an SM of sm_90 has 256 KiB")
    assert found.link is not None
    assert found.link.underlined == "epilog()"


def test_a_swizzled_and_a_pipelined_prefix() -> None:
    chain = matmul(512, 512, 512).tile(64, 64).to(Block).epilog().split(32).pipeline(3)
    assert facts(chain, HOPPER).shared_nbytes == 0
    chain = chain.load(A, SH).swizzle(Swizzle(3, 2, 3))
    found = facts(chain, HOPPER)
    assert found.shared_nbytes == 3 * 64 * 32 * 4
    assert [(b.slots, b.nbytes) for b in found.buffers if b.name == "a_sh"] == [(3, 24576)]


def test_threads_that_tile_straight_to_thread() -> None:
    chain = matmul(512, 512, 512).tile(64, 64).to(Block).epilog().tile(8, 4).to(Thread)
    assert (facts(chain, HOPPER).threads, facts(chain, HOPPER).registers) == (128, 32)


def test_errors_of_links_become_findings() -> None:
    chain = matmul(1024, 1024, 511).tile(128, 128).to(Block).epilog().split(8).load(A, SH, vector(16))
    found = facts(chain.load(B, SH), HOPPER)
    assert [f.code for f in found.errors] == ["vector-alignment"]
    assert found.errors[0].link is not None
    assert found.errors[0].link.underlined == "load(A, SH, vector(16))"
    assert (found.shared_nbytes, [b.name for b in found.buffers]) == (0, ["acc"])


@pytest.mark.product
@pytest.mark.parametrize("preset", ["listing1", "listing4", "sgemm"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_every_prefix_of_every_preset(preset: str, dtype: str) -> None:
    schedule = getattr(simt, preset)(matmul(symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=8), dtype))
    for prefix in prefixes(schedule):
        found = facts(prefix, HOPPER)
        assert not found.errors, str(found)
        assert not any("not measured yet" in u for u in found.unknown), str(found)


@pytest.mark.parametrize("target", ARCHS, ids=str)
def test_any_architecture(target: Any) -> None:
    found = facts(simt.listing2(matmul(512, 512, 512)), target)
    assert found.arch == target.name
    assert found.occupancy is not None
    assert found.occupancy.blocks >= 1


def test_occupancy_numbers() -> None:
    found = facts(simt.listing2(matmul(512, 512, 512)), HOPPER).occupancy
    assert found is not None
    assert (found.blocks, found.warps, found.limit, found.fraction) == (3, 24, "registers", 0.375)


def test_chains_inside_others_are_refused() -> None:
    kept: list[Any] = []

    def strategy(move: Any) -> Any:
        kept.append(move)
        return move.vectors().to(Thread).unroll().done()

    matmul(512, 512, 512).tile(128, 128).to(Block).load(A, SH, strategy)
    with pytest.raises(UsageError, match="nested-chain"):
        facts(kept[0], HOPPER)


def test_a_prefix_takes_little_time() -> None:
    schedule = simt.listing2(matmul(512, 512, 512))
    facts(schedule, HOPPER)
    began = time.perf_counter()
    facts(schedule, HOPPER)
    assert time.perf_counter() - began < 0.5


def test_the_finished_kernel_may_be_given() -> None:
    schedule = simt.listing2(matmul(512, 512, 512))
    assert facts(schedule, HOPPER, schedule.lowered()) == facts(schedule, HOPPER)


def test_registers_loaded_by_warps_stay_open() -> None:
    chain = matmul(512, 512, 512).tile(64, 64).to(Block).epilog().split(8).load(A, SH).load(B, SH)
    found = facts(chain.tile(32, 32).to(Warp).load(A, RF), HOPPER)
    assert found.threads == 128
    assert not found.errors
    assert found.registers == 32 + 8
    assert [(b.name, b.nbytes) for b in found.buffers if b.scope == "thread"] == [("acc", 128), ("a_rf", 32)]
    assert found.unknown == (
        "which thread holds which element of a_rf, acc: set by a later link, so their Moves are not measured",
    )
