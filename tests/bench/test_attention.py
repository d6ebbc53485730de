"""The bench of attention, on a machine without a GPU."""

from __future__ import annotations

import pytest

from bench.attention import schedule
from bench.main import main


def test_kernels_are_compiled_where_nothing_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attention", "--shape", "1x2x256x64", "--plan", "warps=4", "keys=32"]) == 0
    printed = capsys.readouterr().out
    assert "attention 1x2x256x64: " in printed
    assert "nothing was timed" in printed


def test_shapes_have_four_sizes() -> None:
    assert main(["attention", "--shape", "64x64"]) == 2


def test_programs_are_the_presets() -> None:
    assert schedule((1, 1, 64, 64), "f16", True, "simt", {"rows": 32}).computed.name == "attention"


@pytest.mark.parametrize(
    ("suite", "shape"),
    [
        (["attention-decode"], "2x2x4x1x256x64"),
        (["attention-decode", "--pages", "64"], "2x2x4x1x256x64"),
        (["attention-bwd", "--preset", "mma", "--causal"], "1x2x256x64"),
    ],
)
def test_other_suites_compile_their_kernels(suite: list[str], shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*suite, "--shape", shape]) == 0
    printed = capsys.readouterr().out
    assert f"{suite[0]} {shape}: " in printed
    assert "nothing was timed" in printed


def test_pages_divide_the_keys() -> None:
    assert main(["attention-decode", "--pages", "48", "--shape", "2x2x4x1x256x64"]) == 2
