"""Torch's operators of points, and those that move and repeat elements, through `torch.compile`: values as torch's."""
# pyright: reportMissingImports=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_compared import compared  # noqa: E402

from fireiron.graph import torch_backend  # noqa: E402

F = torch.nn.functional
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 6.0, 7.0, math.inf, -math.inf, math.nan)


POINTS: dict[str, Callable[..., Any]] = {
    "elu": F.elu, "selu": F.selu, "leaky relu": lambda x: F.leaky_relu(x, 0.2), "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2.0), "softshrink": F.softshrink, "softsign": F.softsign,
    "abs": torch.abs, "sign": lambda x: x * torch.sign(x), "trunc": lambda x: x * torch.trunc(x),
    "nan to num": lambda x: torch.nan_to_num(x, 1.5), "either": lambda x: torch.where((x > 2) | (x < -1), x, 3 * x),
}  # fmt: skip


@pytest.mark.parametrize("name", POINTS)
def test_functions_of_points(name: str) -> None:
    torch.manual_seed(0)
    odd = ("elu", "selu", "softsign", "trunc", "sign", "relu6", "hardtanh")  # torch's own functions differ at these
    finite = SPECIAL[:-3] if name in odd else SPECIAL
    x = torch.cat([torch.tensor(finite), 3 * torch.randn(64 - len(finite))]).reshape(4, 16)
    plans = compared(POINTS[name], x)
    assert not any(plan.foreign for plan in plans), [plan.explain() for plan in plans]


def test_a_condition_may_choose_among_two_numbers() -> None:
    forward, _ = compared(lambda x: x * torch.where(x > 1, 2.0, -0.5), torch.linspace(-2, 3, 64).reshape(4, 16))
    assert not forward.foreign


def test_bounds_may_be_arrays() -> None:
    torch.manual_seed(0)
    x, low, high = torch.randn(4, 16), torch.randn(4, 16), torch.randn(16)
    for function in (
        torch.clamp,
        lambda x, a, b: torch.clamp(x, min=a) + torch.clamp(x, max=b),
        lambda x, a, b: torch.clamp_max(torch.clamp_min(x, a), b) + torch.clamp_max(x, 0.25),
    ):
        assert not any(plan.foreign for plan in compared(function, x, low, high))
    assert not any(plan.foreign for plan in compared(lambda x, y: F.cosine_similarity(x, y, -1), x, low))


def test_the_gradient_of_a_maximum_is_divided_among_equals() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0]])
    assert not any(plan.foreign for plan in compared(lambda x: x.amax(-1), x))


def test_integers_beside_floats() -> None:
    """Kernels convert integers to the floats' type; counts of booleans have torch's type."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randint(-3, 4, (8, 16))
    y[0, 0] = 2**40 + 1  # beyond what 32 bits hold
    forward, _ = compared(lambda x, y: (x * y + y / x).sum(), x, y)
    assert not forward.foreign
    forward, _ = compared(lambda x: (x * (x > 0)).sum() / (x > 0).sum(), x)
    assert not forward.foreign
    count = torch.compile(lambda x: (x > 0).sum(-1), backend=torch_backend.backend, options={"arch": "sm_90a"})(x)
    assert count.dtype == torch.int64
    assert torch.equal(count, (x > 0).sum(-1))


def test_results_may_be_booleans() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randn(8, 16)
    found = torch.compile(lambda x, y: (x > y, x * 2), backend=torch_backend.backend)(x, y)[0]
    assert found.dtype == torch.bool
    assert torch.equal(found, x > y)


MOVES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "roll": (lambda x: torch.roll(x, 3, 1) * 2, (4, 16)),
    "roll of two dims": (lambda x: torch.roll(x, (-1, 5), (0, 1)) * 2, (4, 16)),
    "roll by whole turns": (lambda x: torch.roll(x, (4, 0), (0, 1)) * 2, (4, 16)),
    "reflect a line": (lambda x: F.pad(x, (2, 1), mode="reflect") * 2, (2, 3, 9)),
    "reflect": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect") * 2, (2, 3, 6, 5)),
    "reflect on one side": (lambda x: F.pad(x, (0, 3, 2, 0), mode="reflect") * 2, (2, 3, 6, 5)),
    "replicate": (lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate") * 2, (2, 3, 6, 5)),
    "replicate one pixel": (lambda x: F.pad(x, (1, 2, 1, 1), mode="replicate") * 2, (2, 3, 6, 1)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2.0) * 2, (2, 3, 4, 5)),
    "nearest of sizes": (lambda x: F.interpolate(x, size=(8, 15), mode="nearest") * 2, (2, 3, 4, 5)),
    "nearest of a line": (lambda x: F.interpolate(x, scale_factor=3) * 2, (2, 3, 5)),
    "linear": (lambda x: F.interpolate(x, scale_factor=4, mode="linear") * 2, (2, 3, 5)),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear") * 2, (2, 3, 4, 5)),
    "bilinear along one side": (lambda x: F.interpolate(x, size=(12, 5), mode="bilinear") * 2, (2, 3, 4, 5)),
    "bilinear of one line": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear") * 2, (2, 3, 1, 5)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=(2, 1, 3), mode="trilinear") * 2, (2, 3, 4, 3, 2)),
    "remove and add": (lambda x: F.pad(x, (-1, 2, 1, -2)) * 2, (2, 3, 6, 5)),
}


@pytest.mark.parametrize("name", MOVES)
def test_elements_that_move(name: str) -> None:
    torch.manual_seed(0)
    function, shape = MOVES[name]
    plans = compared(function, torch.randn(shape))
    left = {str(dict(plan.graph.nodes[i].attributes).get("label", plan.graph.nodes[i].op))
            for plan in plans for launch in plan.foreign for i in launch.part.nodes}  # fmt: skip
    assert left <= {"concatenate"}  # of more parts than a kernel asks each element for


def test_running_sums_are_along_the_last_dim_of_a_copy() -> None:
    """Along another dim, torch adds line by line; the gradient is a running sum too."""
    for plan in compared(lambda x: (x * 2).cumsum(0) * 2, torch.randn(6, 5)):
        assert [n.shape for n in plan.graph.nodes if n.op == "cumsum"] == [(5, 6)]


def test_other_ways_to_scale_images_are_torchs() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 6)
    for how in (
        {"scale_factor": 1.5},
        {"scale_factor": 0.5},
        {"scale_factor": 1.5, "mode": "bilinear"},
        {"scale_factor": 2.0, "mode": "bilinear", "align_corners": True},
        {"scale_factor": 2.0, "mode": "bicubic"},
        {"size": (7, 6)},
    ):
        compared(lambda x, how=how: F.interpolate(x, **how) * 2, x)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_scaled_images_keep_the_order_of_channels(mode: str) -> None:
    x = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last).to(torch.bfloat16)
    fast = torch.compile(lambda x: F.interpolate(x, scale_factor=2.0, mode=mode), backend=torch_backend.backend)
    assert fast(x).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(fast(x), F.interpolate(x, scale_factor=2.0, mode=mode))


def test_joined_images_lie_as_their_parts_do() -> None:
    """A convolution reads them; torch would copy them if their channels lay first."""
    x, y, w = (
        torch.randn(s).to(memory_format=torch.channels_last) for s in ((2, 8, 6, 6), (2, 4, 6, 6), (8, 12, 3, 3))
    )
    plan = compared(lambda x, y, w: F.conv2d(torch.cat((x * 2, y), 1), w), x, y, w, within=1e-4)[0]
    (joined,) = (i for i, n in enumerate(plan.graph.nodes) if n.op == "concatenate")
    view = plan.views[joined]
    assert view is not None
    assert view.strides == (432, 1, 72, 12)


@pytest.mark.parametrize("last", [False, True])
def test_biases_of_convolutions_and_means_in_training(last: bool) -> None:
    """Torch computes convolutions and their gradients; the bias, its gradient and the means join what stands around."""
    torch.manual_seed(0)
    form = torch.channels_last if last else torch.contiguous_format

    def block(x: Any, w: Any, b: Any) -> Any:
        return F.avg_pool2d(F.silu(F.conv2d(x, w, b, padding=1)), 2)

    x, w = (torch.randn(s).to(memory_format=form) for s in ((2, 8, 6, 6), (16, 8, 3, 3)))
    for plan in compared(block, x, w, torch.randn(16), within=1e-4):
        left = {dict(plan.graph.nodes[i].attributes)["label"] for launch in plan.foreign for i in launch.part.nodes}
        assert left <= {"convolution", "convolution_backward", "item"}
    compared(lambda x: F.avg_pool2d(x, 3, 2, 1) * 2, x)  # windows that overlap are torch's
    compared(lambda x: F.avg_pool2d(x, (3, 2)) * 2, x)
