"""The bench of convolutions, on a machine without a GPU."""

from __future__ import annotations

import pytest

from bench.main import main


def test_kernels_are_compiled_where_nothing_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["conv", "--shape", "2x9x64x64x3x2x1", "--of", "forward", "data", "filters"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert all(f"{form} 2x9x64x64x3x2x1: " in printed for form in ("forward", "data", "filters"))
    assert "problem" not in printed
    assert "nothing was timed" in printed


def test_ops_and_plans() -> None:
    assert main(["conv", "--shape", "2x8x64x64x1x1x0", "--fused", "--preset", "mma", "--plan", "stages=2"]) == 0


def test_shapes_have_seven_sizes() -> None:
    assert main(["conv", "--shape", "64x64"]) == 2
