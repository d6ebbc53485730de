"""The bench of networks, on a machine without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.main import main
from bench.networks import BLOCKS, MODELS, NETWORKS, given, network, said, timed


def test_it_says_that_nothing_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["networks", "--network", "bert-base"]) == 0
    assert "nothing was timed" in capsys.readouterr().out


def test_networks_that_are_not_there_are_refused() -> None:
    assert main(["networks", "--network", "alexnet"]) == 2


def test_heads_have_64_columns() -> None:
    assert all(width == 64 * heads for _, _, width, heads, _, _ in NETWORKS.values())


@pytest.mark.parametrize("name", MODELS)
def test_other_networks_take_what_they_are_given(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    assert main(["networks", "--network", name]) == 0
    with torch.device("meta"):
        result = network(name, "sdpa", layers=1)(*given(name, 2, 4096 if name == "llama" else 3))
    assert len(result) == 2


def test_only_attention_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    import fireiron.torch

    calls: list[Any] = []
    usual, ours = torch.nn.functional.scaled_dot_product_attention, fireiron.torch.scaled_dot_product_attention
    monkeypatch.setattr(
        fireiron.torch, "scaled_dot_product_attention", lambda *a, **k: (calls.append(a), ours(*a, **k))[1]
    )
    monkeypatch.setattr("bench.networks.given", lambda *_: (torch.randn(1, 16, 32),))

    class Attention(torch.nn.Linear):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            q = super().forward(x).view(1, 16, 2, 16).transpose(1, 2)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    monkeypatch.setattr("bench.networks.network", lambda *_: (torch.manual_seed(0), Attention(32, 32))[1])
    line = timed("bert-base", 1, 16, "f16", (), replaced=True, device="cpu")
    assert "problem" not in line
    assert line["program"] == "bert-base 1x16 f16, attention"
    assert line["kernels"] == 0
    assert len(calls) == 3
    assert torch.nn.functional.scaled_dot_product_attention is usual
    assert said({**line, "problem": "slow"}).startswith("bert-base 1x16 f16, attention: compiled in ")


def test_the_mean_of_all_ratios(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("bench.networks.why_not_timed", lambda: "")

    def line(name: str, batch: int, length: int, *_: Any, **__: Any) -> dict[str, Any]:
        found = {"program": f"{name} {batch}", "kernels": 9, "left": [], "compiled_s": 1.0, "error": 0.0}
        found |= {"error of eager": 0.0, "times": {"fireiron": {"median_us": 1e3}}}
        return found | {"ratios": {"sdpa": 2.0 * batch}, "fastest": "sdpa"}

    monkeypatch.setattr("bench.networks.timed", line)
    assert main(["networks", "--batch", "1", "4", "--length", "128"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "over the fastest peer: 4.000 in the geometric mean, 2.000 at the least"
    )


@pytest.mark.parametrize("train", [False, True])
def test_a_network_is_held_against_f32(train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    from bench import models

    monkeypatch.setattr(models, "DLRM", lambda: models.perceptron(16, 32, 8))
    monkeypatch.setattr("bench.networks.given", lambda *_: (torch.randn(16, 16),))
    torch._dynamo.reset()
    line = timed("dlrm", 16, 1, "bf16", (), train=train, device="cpu")
    assert "problem" not in line
    assert line["program"] == "dlrm 16 bf16" + (" training" if train else "")
    assert line["kernels"] >= 2


def test_a_line_in_words() -> None:
    line = {"program": "bert-base 32x384 f16", "kernels": 108, "left": ["arange"], "compiled_s": 9.0, "error": 0.01,
            "error of eager": 0.02}  # fmt: skip
    head = "bert-base 32x384 f16: 108 kernels, 1 operators left to torch, compiled in 9.0 s, error 0.01 (eager 0.02)"
    assert said({**line, "problem": "wrong"}) == f"{head}; wrong"
    times = {"fireiron": {"median_us": 4000.0}}
    line |= {"times": times, "ratios": {"eager": 2.0}}
    assert said(line) == f"{head}; 4.000 ms; over eager 2.000"
    memory = {"fireiron": 36.4, "eager": 339.0}
    assert said({**line, "peak_mib": memory}).endswith("over eager 2.000; MiB at the peak: fireiron 36, eager 339")


def test_the_slowest_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    from bench.networks import slowest

    cuda, host = torch.autograd.DeviceType.CUDA, torch.autograd.DeviceType.CPU
    events = [("gemm", 3.0, cuda), ("norm", 1.0, cuda), ("gemm", 5.0, cuda), ("launch", 90.0, host)]

    class Profile:
        def __init__(self, activities: Any) -> None:
            assert activities == [torch.profiler.ProfilerActivity.CUDA]

        def __enter__(self) -> Profile:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def events(self) -> list[Any]:
            return [SimpleNamespace(name=n, device_time=t, device_type=d) for n, t, d in events]

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert slowest(lambda: None, most=1, calls=2) == {"all kernels": 4.5, "gemm x1": 4.0}


def test_blocks_are_steps_of_training_with_inputs_as_parameters() -> None:
    torch = pytest.importorskip("torch")
    from bench import blocks

    assert tuple(blocks.BLOCKS) == BLOCKS
    (word,) = blocks.numbers("head-32000")
    assert word.shape == (4096,)
    assert blocks.numbers("unet-last") == ()
    small = (
        (blocks.Step(blocks.Residual(32, 8), blocks.drawn(2, 32, 8, 8), blocks.drawn(2, 8), last=True), ()),
        (blocks.Step(blocks.NeXt(8), blocks.drawn(2, 8, 8, 8)), ()),
        (blocks.Step(blocks.Normed(8), blocks.drawn(2, 8, 8, 8)), ()),
        (blocks.Step(blocks.Squeezed(8), blocks.drawn(2, 8, 8, 8)), ()),
        (blocks.Step(blocks.Mixer(6, 8), blocks.drawn(2, 6, 8)), ()),
        (blocks.Step(blocks.T5Layer(8, 2), blocks.drawn(2, 6, 8), blocks.drawn(1, 2, 6, 6)), ()),
        (blocks.Step(blocks.Contrastive(), blocks.drawn(4, 8), blocks.drawn(4, 8)), ()),
        (blocks.Step(blocks.Head(8, 13), blocks.drawn(4, 8)), (torch.tensor([1, 12, 0, 3]),)),
        (blocks.Step(blocks.Variational(8, 6, 4), blocks.drawn(3, 8), blocks.drawn(3, 4)), ()),
        (blocks.Step(blocks.Gated(8), blocks.drawn(2, 20, 8)), ()),
    )
    for step, numbers in small:
        torch._dynamo.reset()
        torch.compile(step, backend="eager", fullgraph=True)(*numbers).square().mean().backward()
        assert step.given0.grad is not None
    assert small[0][0].given0.is_contiguous(memory_format=torch.channels_last)
