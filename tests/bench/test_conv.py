"""The bench of convolutions, on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from bench import conv
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


class Simulated:
    """Stand for a compiled kernel: simulate it on tensors in host memory, times a factor."""

    resources = SimpleNamespace(registers=1)

    def __init__(self, schedule: Any, factor: float) -> None:
        self.schedule, self.factor = schedule, factor

    def __call__(self, *inputs: Any, out: Any) -> None:
        made = out.numpy()
        self.schedule.simulate(*(x.numpy() for x in inputs), out=made)
        made *= self.factor


def stand_in(factor: float = 1.0) -> conv.Laboratory:
    def compared(launches: Mapping[str, Callable[[], object]], rounds: int, budget_s: float) -> dict[str, Any]:
        for launch in launches.values():
            launch()
        return {"times": {name: {"median_us": 2.0} for name in launches}, "ratios": {"cudnn": 1.0}}

    return conv.Laboratory("cpu", lambda schedule: Simulated(schedule, factor), compared)


@pytest.mark.parametrize("preset", ["mma", "wgmma"])
def test_results_and_gradients_are_held_against_torch(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="results are held against torch's")
    words = ["--shape", "2x9x16x16x3x2x1", "2x5x16x16x1x2x0", "--of", "forward", "data", "filters", "--preset", preset]
    assert conv.run(words, laboratory=stand_in()) == 0
    assert capsys.readouterr().out.count("us, ") == 6
    assert conv.run([*words[:2], "--fused", "--preset", preset], laboratory=stand_in()) == 0
    assert conv.run(["--shape", "2x9x3x16x3x2x1", "--fused", "--preset", "packed"], laboratory=stand_in()) == 0


def test_wrong_results_are_not_timed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="results are held against torch's")
    words = ["--shape", "2x9x16x16x3x2x1", "--of", "forward", "data", "filters", "--preset", "mma"]
    assert conv.run(words, laboratory=stand_in(1.01)) == 1
    assert capsys.readouterr().out.count("wrong: an element differs by 0.0") == 3


def test_presets_without_gradients_of_filters_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conv", "--shape", "2x9x16x16x3x1x1", "--of", "filters", "--preset", "simt"]) == 1
    assert "simt folds no pixels" in capsys.readouterr().out
