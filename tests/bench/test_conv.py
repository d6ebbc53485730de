"""The bench of convolutions, on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from bench import conv, conv_plans, conv_table
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


def test_layers_are_drawn_by_a_seed_over_the_whole_class() -> None:
    layers = conv_plans.drawn("a1e71b1", 300)
    assert layers == conv_plans.drawn("a1e71b1", 300)
    assert layers != conv_plans.drawn("a1e71b2", 300)
    assert {layer.taps for layer in layers} == {1, 3, 5, 7}
    assert {layer.stride for layer in layers} == {1, 2, 3}
    assert {layer.pad > 0 for layer in layers} == {True, False}
    assert all(0.3 <= layer.flops * 1e-9 <= 60 and layer.c % 8 == layer.k % 8 == 0 for layer in layers)
    for name in ("n", "side", "c", "k"):
        sizes = [getattr(layer, name) for layer in layers]
        assert max(sizes) > 8 * min(sizes), name


def test_plans_compile_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conv-plans", "--seed", "a1e71b1", "--count", "1", "--plans", "2"]) == 0
    out = capsys.readouterr().out
    assert ": 2 plans compiled" in out
    assert "nothing was timed" in out
    assert main(["conv-plans", "--seed", "0", "--plans", "0"]) == 2


SMALL = conv_plans.Layer(3, 7, 16, 24, 3, 2, 1)


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_plans_are_held_against_torch(
    factor: float, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="results are held against torch's")

    def compared(launches: Mapping[str, Callable[[], object]], rounds: int, budget_s: float) -> dict[str, Any]:
        return {"times": {name: {"median_us": 1.0 if name == "plan 2" else 2.0} for name in launches}}

    monkeypatch.setattr(conv_plans, "drawn", lambda seed, count: [SMALL])
    laboratory = conv.Laboratory("cpu", lambda schedule: Simulated(schedule, factor), compared)
    words = ["--seed", "0", "--count", "1", "--plans", "3"]
    assert conv_plans.run(words, laboratory=laboratory) == int(factor != 1)
    out = capsys.readouterr().out
    assert ("over cuDNN 1.000; plan 2 2.000" in out) == (factor == 1)
    assert ("wrong: an element differs by 0.0" in out) == (factor != 1)


class Idle:
    """Stand for an executor that compiles nothing."""

    def submit(self, *_: Any) -> Future[int]:
        done: Future[int] = Future()
        done.set_result(0)
        return done


EXAMPLES = [
    conv_table.Work(form, conv_table.square(2, 9, channels, 16, 3, 2, 1), form)
    for channels in (16, 3)
    for form in ("forward", "data", "filters")
] + [
    conv_table.Work("epilog", conv_table.square(1, 6, 16, 16, 3, 1, 1), beside=beside, activation="relu")
    for beside in (("bias",), ("bias", "residual"))
]
EXAMPLES += [conv_table.Work("depthwise", conv_table.square(1, 6, 16, 16, 3, 1, 1, 16))]
EXAMPLES += [conv_table.Work("volumes", conv_table.square(1, 4, 16, 16, 3, 1, 1, rank=3))]


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_lines_of_the_table_are_held_against_torch(factor: float, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="results are held against torch's")
    some = EXAMPLES if factor == 1 else EXAMPLES[:3]
    executor: Any = Idle()
    assert conv_table.run([], laboratory=stand_in(factor), executor=executor, works=some) == int(factor != 1)
    printed = capsys.readouterr().out
    assert printed.count("wrong: an element differs" if factor != 1 else " us, ") == len(some)


def test_lines_of_the_table_are_compiled_where_nothing_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(1) as executor:
        assert conv_table.run([], executor=executor, works=EXAMPLES[:1]) == 0
        assert "forward 2x9x9x16x16 3x3/2: " in capsys.readouterr().out
        assert conv_table.run(["--seconds", "0"], executor=executor, works=EXAMPLES[:1]) == 0
        assert "0 s are over: forward 2x9x9x16x16 3x3/2 and what follows are left out" in capsys.readouterr().out


def test_the_table_has_every_row_and_what_a_seed_draws() -> None:
    lines = conv_table.table()
    assert len({str(line) for line in lines}) == len(lines)
    assert {line.form for line in lines} == {"forward", "data", "filters"}
    assert main(["conv-table", "--rows", "5x5", "--seconds", "0"]) == 0
