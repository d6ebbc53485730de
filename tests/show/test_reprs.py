"""What a user sees who evaluates a result: one short line in a terminal, all of it in a notebook."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import matmul
from fireiron.schedules import simt

schedule = simt.listing2(matmul(256, 256, 64))
SHOWN = {
    "estimate": (lambda: schedule.estimate("sm_90"), "<Estimate of "),
    "facts": (lambda: schedule.facts("sm_90"), "<Facts of MatMul(1, 1, 1)(RF, RF, RF)(Thread) on sm_90, "),
    "finding": (lambda: schedule.check("sm_90")[0], "<warning bank-conflicts: copy.4B.SH.RF reads a_sh with bank"),
    "explanation": (schedule.explain, "<Explanation of MatMul(256, 256, 64)(GL, GL, GL)(Kernel), "),
    "diff": (lambda: schedule.diff(simt.listing2(matmul(256, 256, 64), k=16)), "<Diff of "),
    "simulation": (lambda: simt.listing2(matmul(64, 64, 16), 32, 32).simulate(), "<Simulation of 4 of 4 blocks, "),
}


class Printer:
    """Stand in for IPython's printer."""

    said = ""

    def text(self, text: str) -> None:
        self.said += text


@pytest.mark.parametrize("name", SHOWN)
def test_reprs_are_short(name: str) -> None:
    make, begin = SHOWN[name]
    found: Any = make()
    assert repr(found).startswith(begin)
    assert len(repr(found)) < 240
    assert "\n" not in repr(found)


@pytest.mark.parametrize("name", ["estimate", "facts", "finding"])
def test_notebooks_print_all_of_it(name: str) -> None:
    found: Any = SHOWN[name][0]()
    printer = Printer()
    found._repr_pretty_(printer, False)
    assert printer.said == str(found)
