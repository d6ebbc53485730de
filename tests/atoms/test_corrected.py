"""An instruction's row that is corrected in a live process: nothing that was made with the old one stays."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from fireiron import gemm, matmul
from fireiron.atoms import table
from fireiron.front.digest import digest
from fireiron.schedules import simt


@pytest.fixture
def corrected(monkeypatch: pytest.MonkeyPatch) -> object:
    """Replace the table by one whose fma subtracts."""
    row = table.find("fma.f32")
    assert row is not None
    other = attrs.evolve(row, call="{C} = fmaf(-{A}, {B}, {C});", numpy=lambda a, b, c: c - a * b)

    def correct() -> None:
        monkeypatch.setattr(table, "TABLE", tuple(other if one is row else one for one in table.TABLE))

    return correct


def test_a_corrected_row_takes_effect_at_once(corrected: object) -> None:
    schedule = simt.sgemm(matmul(8, 8, 8))
    a, b = np.ones((8, 8), np.float32), np.full((8, 8), 2, np.float32)
    name = lambda: digest(schedule.program, schedule.links, schedule.name)  # noqa: E731
    text, before, kept = schedule.cuda("sm_80"), name(), gemm(a, b)
    assert "fmaf(-" not in text
    assert (kept == 16).all()
    corrected()  # type: ignore[operator]
    assert "fmaf(-" in schedule.cuda("sm_80")
    assert name() != before
    assert (schedule.simulate(a, b).out == -16).all()
    assert (gemm(a, b) == -16).all()


def test_rows_are_equal_to_the_same_table_alone() -> None:
    assert table.rows() == table.rows()
    assert table.rows() != table.Rows((*table.TABLE,)[:-1])
    assert table.content() == ""
