"""What committed notebooks show: the clocks of rungs in the order that was measured, and pictures of fusion."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def shown(name: str) -> list[tuple[str, dict[str, Any]]]:
    """List each cell's source with the data that it shows."""
    cells = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))["cells"]
    return [
        ("".join(cell["source"]), out["data"]) for cell in cells for out in cell.get("outputs", []) if "data" in out
    ]


def clocks(rung: str) -> tuple[float, float]:
    """Give the whole kernel's clocks in the title of a rung's timeline: by the model, and as measured."""
    (words,) = (
        "".join(data["text/plain"]) for said, data in shown("04_hopper_ladder.ipynb") if f"timeline({rung}" in said
    )
    found = re.match(r"the whole kernel: ([\d,]+) clocks by the model, ([\d,]+) measured", words)
    assert found is not None
    model, measured = (float(number.replace(",", "")) for number in found.groups())
    return model, measured


def test_the_first_rung_is_shown_as_the_slowest() -> None:
    naive, cores = clocks("naive"), clocks("tensor_cores")
    assert naive[1] / cores[1] == pytest.approx(426, abs=1)  # as measured
    assert naive[0] / cores[0] > 100  # by the model


def test_fusion_has_pictures() -> None:
    drawn = [data for _, data in shown("05_fusion.ipynb") if "image/svg+xml" in data]
    assert len(drawn) >= 4
    assert any("the whole kernel" in "".join(data["text/plain"]) for data in drawn)
