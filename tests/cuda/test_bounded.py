"""Kernels that are compiled to find hangs: every wait on an mbarrier ends, and says whose it was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma
from fireiron.cuda.printer import source
from fireiron.cuda.statements import quoted
from fireiron.kernel.ir.statements import Await, walk
from fireiron.schedules import hopper, simt
from fireiron.schedules.hopper import Plan

LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


def plain() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN").tile(128, 128).to(Block).epilog(memory=FR)
        .split(64).pipeline(4, inflight=1)
        .specialize(registers=(24, 240))
        .load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip


def test_each_wait_names_its_barrier_and_its_link() -> None:
    kernel = plain().lowered("sm_90a")
    text = source(kernel, bounded=True)
    waits = re.findall(r'mbarrier_wait_bounded\(&(\w+)\[.*?\], .*?, "(.*?)", "(.*?)", (\d+), "(.*?)"\);', text)
    assert len(waits) == sum(isinstance(s, Await) for s in walk(kernel.body)) == 2
    line = next(i for i, x in enumerate(LINES, 1) if x.strip().startswith(".specialize("))
    assert [w[0] for w in waits] == ["empty", "full"]
    assert [w[1] for w in waits] == [
        "mbarrier empty, 4 slots, 2 arrivals a phase: its phase completes",
        "mbarrier full, 4 slots, 1 arrival a phase: its phase completes",
    ]
    for _, _, file, number, method in waits:
        assert (file, int(number), method) == (__file__, line, "specialize(registers=(24, 240))")


def test_only_waits_and_budgets_differ() -> None:
    kernel = plain().lowered("sm_90a")
    bounded = re.sub(
        r'mbarrier_wait_bounded\((&\w+\[\w+\], .*?), "mbarrier.*\);',
        r"mbarrier_wait(\1);",
        source(kernel, bounded=True),
    )
    main = '\nextern "C" __global__'
    # An assertion needs more registers than a producer keeps: it traps without a word where they were given away.
    text = source(kernel)
    assert len(re.findall(budget := r"\n *registers_(?:de|in)crease<\d+>\(\);", text)) == 2
    assert bounded[bounded.index(main) :] == re.sub(budget, "", text)[re.sub(budget, "", text).index(main) :]
    assert "__assertfail" not in text


def test_a_preset_names_its_caller_too() -> None:
    schedule = hopper.gemm(matmul(512, 512, 512, "f16", layout="TN"))
    hopper.gemm(matmul(512, 512, 512, "f16", layout="TN")).lowered("sm_90a")  # an equal one, of another line
    text = schedule.compile("sm_90a", debug=True).source
    assert "specialize(producers=1, registers=plan.registers(copying), prefetch=prefetch), called from " in text
    line = next(i for i, x in enumerate(LINES, 1) if x.strip().startswith("schedule = hopper.gemm("))
    assert f"test_bounded.py:{line}:" in text


@pytest.mark.parametrize("plan", [Plan(cluster=(2, 1)), Plan(128, 192, pingpong=True, swapped=True), Plan(192, 192, 3)])
def test_they_compile_and_trap(plan: Plan, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    kernel = hopper.gemm(matmul(4096, 4096, 4096, "bf16", layout="TN"), plan).compile("sm_90a", debug=True)
    assert "mbarrier_wait(" not in kernel.source
    assert "__assertfail" in kernel.ptx
    assert not list(tmp_path.iterdir())  # lines of links may move where nothing else does


def test_kernels_without_such_waits_are_as_ever() -> None:
    kernel = simt.listing2(matmul(512, 512, 512)).lowered("sm_90a")
    assert source(kernel, bounded=True) == source(kernel)


def test_texts_survive_as_c_strings() -> None:
    assert quoted('a "b" \\ ??/ é\n') == '"a \\042b\\042 \\134 \\077\\077/ \\303\\251\\012"'
