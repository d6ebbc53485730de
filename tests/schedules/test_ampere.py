"""What the compiler makes of `ampere.gemm`: a main loop of tensor instructions, with the loads between them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fireiron import matmul
from fireiron.schedules import ampere

WORK = ("HMMA", "IMMA", "LDSM", "LDGSTS")


def main_loop(sass: str, math: str = "HMMA") -> list[str]:
    """List the opcodes of the loop with the most instructions of a kind."""
    labels: dict[str, int] = {}
    opcodes: list[str] = []
    best: list[str] = []
    for line in sass.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(opcodes)
        elif code := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\w+)(.*?);", line):
            opcodes.append(code[1])
            target = re.search(r"\.L_x_\d+", code[2]) if code[1] == "BRA" else None
            start = labels.get(target[0]) if target else None
            if start is not None and opcodes[start:].count(math) > best.count(math):
                best = opcodes[start:]
    return best


@pytest.mark.parametrize(("more", "share"), [({}, 0.65), ({"n": 128}, 0.65), ({"ring": 4}, 0.75)])
def test_the_main_loop_is_math_and_loads(more: dict[str, Any], share: float) -> None:
    for arch in ("sm_80", "sm_90a"):
        schedule = ampere.gemm(matmul(4096, 4096, 4096, "f16", layout="TN"), **more)
        kernel = schedule.compile(arch, cache=False)
        assert (kernel.resources.spill_stores, kernel.resources.stack) == (0, 0)
        loop = main_loop(kernel.sass)
        assert loop.count("HMMA") == 128 * more.get("ring", 1)
        assert sum(loop.count(x) for x in WORK) >= share * len(loop)
        # No fragment is waited for: before each run of loads stands math that hides them.
        first = loop.index("LDSM")
        assert loop[:first].count("HMMA") + loop[-20:].count("HMMA") > 0
        assert max(len(run) for run in re.findall(r"L+", "".join("L" if x == "LDSM" else "." for x in loop))) <= 6


def test_without_an_inner_pipeline_loads_stand_together() -> None:
    """What the test above looks for is not there by chance."""
    schedule = ampere.gemm(matmul(4096, 4096, 4096, "f16", layout="TN"), n=128, slots=1, ring=1)
    loop = main_loop(schedule.compile("sm_90a", cache=False).sass)
    assert loop.index("LDSM") < loop.index("HMMA")
    assert loop[: loop.index("HMMA")].count("LDSM") > 8
