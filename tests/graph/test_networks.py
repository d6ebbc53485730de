"""Networks of the bench at small sizes: what the backend makes of them computes what torch does in f32."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

from bench import models  # noqa: E402
from tests.graph.test_torch_backend import Encoder, compiled, drawn, forms, plans  # noqa: E402

DECODER = [
    "rows", "product", "products", "pointwise", "pointwise", "attention", "product rows", "products",
    "product",
]  # fmt: skip
VIT = [
    "pointwise", "product", "pointwise", "rows", "product", "attention", "product rows", "product",
    "product rows", "product",
]  # fmt: skip
NETWORKS: dict[str, tuple[Callable[[], Any], list[Any], list[str]]] = {
    "decoder": (lambda: models.Decoder(1, 64, 4, 2, 96, 16), [drawn(2, 16, 64)], DECODER),
    "vit": (lambda: models.ViT(1, 32, 2, 64, 16, 4, 8), [drawn(2, 3, 16, 16)], VIT),
    "lstm": (lambda: models.LSTM(32), [drawn(16, 2, 32)], ["product", "product", "pointwise"] * 2),
    "dlrm": (
        lambda: models.DLRM(16, 4, 10, 16, (32,), (32, 16)),
        [drawn(16, 16), torch.arange(64).reshape(16, 4) % 10],
        [
            "product", "product", "pointwise", "pointwise", "pointwise", "product", "pointwise", "pointwise", "product",
            "product rows",
        ],
    ),
}  # fmt: skip


def held(model: Any, inputs: list[Any], **options: Any) -> None:
    """Hold the error of the compiled model in f16 to that of torch's."""
    short = [x.half() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        exact = model(*inputs)
        half = copy.deepcopy(model).half()
        eager = half(*short).float()
        made = compiled(half, **options)(*short).float()
    error, theirs = (made - exact).abs().max(), (eager - exact).abs().max()
    assert error <= 1.5 * theirs + 1e-3, (error, theirs)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network(name: str) -> None:
    make, inputs, wanted = NETWORKS[name]
    torch.manual_seed(0)
    held(make().eval(), inputs)
    assert forms() == wanted, plans()[-1].explain()


def test_a_frozen_layer_of_llama_is_eight_kernels() -> None:
    torch.manual_seed(0)
    held(models.Decoder(1, 64, 4, 2, 96, 16).eval(), [drawn(2, 16, 64)], freeze=True)
    assert len(plans()[-1].kernels) == 8


def left() -> set[str]:
    """Name the operators that torch runs."""
    return {plans()[-1].graph.nodes[x.part.nodes[-1]]["label"] for x in plans()[-1].foreign}


@pytest.mark.parametrize("freeze", [False, True])
def test_a_resnet_is_kernels_alone(freeze: bool) -> None:
    torch.manual_seed(0)
    held(models.ResNet((1,), 8, 8).eval(), [drawn(2, 3, 32, 32)], freeze=freeze)
    assert not plans()[-1].foreign, plans()[-1].explain()
    assert [form for form in forms() if form != "pointwise"] == [
        "convolution", "pooling", *["convolution"] * 4, "reduction", "product",
    ]  # fmt: skip
    # Copies of images and of two filters, and the factors of batch norms, which read buffers.
    assert forms().count("pointwise") == (3 if freeze else 5)


def test_convolutions_of_f32_stay_with_torch() -> None:
    torch.manual_seed(0)
    model, x = models.ResNet((1,), 8, 8).eval(), drawn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-4)
    assert left() == {"convolution", "max_pool2d_with_indices", "item"}


def test_pooling_and_transposed_convolutions() -> None:
    torch.manual_seed(0)
    up, mean, parts = nn.ConvTranspose2d(16, 8, 2, 2), nn.AvgPool2d(3, 1, 1), nn.AdaptiveAvgPool2d(2)
    model = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True), up, mean, parts)
    held(model.eval(), [drawn(2, 8, 8, 8)])
    assert left() == {"convolution"}
    assert [form for form in forms() if form != "pointwise"] == [
        "convolution", "pooling", "left over", "pooling", "pooling",
    ]  # fmt: skip


@pytest.mark.parametrize("last", [False, True])
def test_results_of_convolutions_have_the_memory_of_torchs(last: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 1), nn.ReLU()).eval().half()
    x = drawn(2, 16, 8, 8).half()
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted, made = model(x), compiled(model)(x)
    torch.testing.assert_close(made, wanted, rtol=2e-3, atol=2e-3)
    assert made.stride() == wanted.stride()
    copies = ["pointwise"] * (not last)
    assert forms() == [*copies, *copies, "convolution", "convolution", *copies]


def test_convolutions_of_training_stay_with_torch() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).half()
    compiled(model)(drawn(2, 8, 6, 6).half()).float().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert "convolution_backward" in left()


def test_autocast() -> None:
    torch.manual_seed(0)
    model, x = models.Decoder(1, 64, 4, 2, 96, 16).eval(), drawn(2, 16, 64)
    with torch.no_grad():
        exact = model(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            eager, made = model(x), compiled(model)(x)
    assert made.dtype == eager.dtype
    assert (made - exact).abs().max() <= 1.5 * (eager - exact).abs().max() + 1e-3


def test_gradients_of_a_layer_of_llama() -> None:
    torch.manual_seed(0)
    model, x = models.Decoder(1, 32, 2, 1, 48, 8), drawn(2, 8, 32)
    model(x).square().mean().backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled(model)(x).square().mean().backward()
    for p, w in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, w, rtol=2e-3, atol=2e-5)


class Cached(nn.Module):
    """Be attention of groups of heads that keeps keys and values from call to call.

    Args:
        length: tokens of the cache.
    """

    def __init__(self, length: int = 32) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.k, self.v = nn.Linear(64, 32, bias=False), nn.Linear(64, 32, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, length, 16))

    def forward(self, x: Any, at: Any) -> Any:
        q = self.q(x).view(1, len(at), 4, 16).transpose(1, 2)
        k, v = (f(x).view(1, len(at), 2, 16).transpose(1, 2) for f in (self.k, self.v))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        seen = torch.arange(self.keys.shape[2]) <= at[:, None]
        y = torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values, seen, enable_gqa=True)
        return x + self.o(y.transpose(1, 2).reshape(x.shape))


def test_decoding_with_a_cache() -> None:
    torch.manual_seed(0)
    model = Cached().eval().half()
    exact = copy.deepcopy(model).float()
    run, before = compiled(model), len(plans())
    with torch.no_grad():
        for start, count in ((0, 8), (8, 1), (9, 1), (10, 1)):
            x, at = drawn(1, count, 64) * 0.5, torch.arange(start, start + count)
            torch.testing.assert_close(run(x.half(), at).float(), exact(x, at), rtol=3e-3, atol=3e-3)
    torch.testing.assert_close(model.keys.float(), exact.keys, rtol=2e-3, atol=2e-3)
    assert len(plans()) == before + 2  # for the prompt, and for all further tokens
    assert forms().count("attention") == 1


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_steps_of_training(name: str) -> None:
    torch.manual_seed(0)
    model = Encoder(False) if name == "bert" else models.Decoder(1, 32, 2, 1, 48, 16)
    inputs = (drawn(2, 16, 32), torch.zeros(2, 1, 1, 16))[: 2 if name == "bert" else 1]
    wanted = copy.deepcopy(model)
    run = compiled(model)
    losses: list[list[float]] = []
    for net, call in ((model, run), (wanted, wanted)):
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses.append([])
        for _ in range(3):
            optimiser.zero_grad()
            loss = (call(*inputs) - inputs[0]).square().mean()
            loss.backward()
            optimiser.step()
            losses[-1].append(float(loss.detach()))
    assert losses[0][2] < losses[0][0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for p, w in zip(model.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(p, w, rtol=2e-3, atol=2e-5)


def test_steps_of_adamw_are_a_few_kernels() -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 24), nn.Linear(24, 16)) for _ in "ab"]
    model = nn.Sequential(*layers)
    exact = copy.deepcopy(model)
    ours, theirs = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, exact))
    run = compiled(ours.step)
    for _ in range(3):
        for p, q in zip(model.parameters(), exact.parameters(), strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        run()
        theirs.step()
    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    assert not plans()[-1].foreign
    # Of 16 parameters: scalars, vectors of 16 and of 24 elements, matrices of two shapes.
    assert len(plans()[-1].kernels) <= 12, plans()[-1].explain()
