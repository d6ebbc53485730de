"""Losses of classes through `torch.compile`: values as torch's, and no matrix beside the scores."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from fireiron.graph import torch_backend  # noqa: E402

F = torch.nn.functional


def compared(loss: Any, *arrays: Any, within: float = 1e-5) -> Any:
    """Hold a compiled loss and its gradients against torch's, and return the plans."""
    torch._dynamo.reset()
    count = len(torch_backend.plans())
    fast = torch.compile(loss, backend=torch_backend.backend, fullgraph=True, options={"arch": "sm_90a"})
    exact, made = ([x.clone().requires_grad_(x.is_floating_point()) for x in arrays] for _ in range(2))
    want, found = loss(*exact), fast(*made)
    assert found.dtype == want.dtype
    torch.testing.assert_close(found, want, atol=within, rtol=within, equal_nan=True)
    slope = torch.linspace(0.5, 1.5, want.numel(), dtype=want.dtype).reshape(want.shape)
    want.backward(slope)
    found.backward(slope)
    for one, other in zip(made, exact, strict=True):
        if one.is_floating_point():
            torch.testing.assert_close(one.grad, other.grad, atol=within, rtol=within, equal_nan=True)
    return torch_backend.plans()[count:]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(24, 40), (40,), (2, 16, 4, 8)])
def test_a_loss_of_classes(shape: tuple[int, ...], reduction: str) -> None:
    torch.manual_seed(0)
    scores = 3 * torch.randn(shape)
    target = torch.randint(0, scores.shape[1 if len(shape) > 1 else 0], shape[:1] + shape[2:] if len(shape) > 1 else ())
    if target.dim():
        target.view(-1)[::5] = -100  # rows that do not count
    plans = compared(lambda x, y: F.cross_entropy(x, y, reduction=reduction), scores, target)
    assert not any(plan.foreign for plan in plans), [plan.explain() for plan in plans]


def test_scores_alone_are_stored() -> None:
    """Forward gives two numbers of each row, with which the backward pass computes the rest of the scores again."""
    torch.manual_seed(0)
    x, w, y = torch.randn(32, 16).half(), torch.randn(64, 16).half(), torch.randint(0, 64, (32,))

    def head(x: Any, w: Any, y: Any) -> Any:
        return F.cross_entropy((x @ w.T).float(), y)

    forward, backward = compared(head, x, w, y, within=4e-3)
    for plan in (forward, backward):
        assert not plan.foreign
        made = [plan.graph.nodes[n] for launch in plan.launches for n in launch.part.outputs]
        assert {node.dtype.name for node in made if node.size == 32 * 64} <= {"f16"}
    assert len(forward.kernels) == len(backward.kernels) == 3


@pytest.mark.parametrize(
    "options", [{"ignore_index": 3}, {"label_smoothing": 0.1}, {"weight": torch.linspace(0.1, 2, 40)}]
)
def test_options_of_losses(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    scores, target = torch.randn(24, 40), torch.randint(0, 40, (24,))
    target[4:8] = options.get("ignore_index", -100)
    compared(lambda x, y: F.cross_entropy(x, y, **options), scores, target)


def test_a_loss_without_rows_is_not_a_number() -> None:
    scores, target = torch.randn(6, 40), torch.full((6,), -100)
    compared(lambda x, y: F.cross_entropy(x, y), scores, target)


def test_classes_that_no_number_selects() -> None:
    """Scores of other classes may be infinite."""
    scores, target = torch.randn(6, 40), torch.arange(6)
    scores[:, 20:] = -float("inf")
    compared(lambda x, y: F.cross_entropy(x, y), scores, target)


def test_a_bfloat16_loss() -> None:
    torch.manual_seed(0)
    scores, target = torch.randn(24, 40).bfloat16(), torch.randint(0, 40, (24,))
    compared(lambda x, y: F.cross_entropy(x, y), scores, target, within=2.0**-6)
