"""Indices of largest and smallest elements through `torch.compile`, against torch."""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_compared import compared  # noqa: E402

from fireiron.graph import torch_backend  # noqa: E402


def plan(function: Callable[..., Any], *arrays: Any) -> Any:
    """Hold all results against torch's, with their types; return the plan."""
    torch._dynamo.reset()
    count = len(torch_backend.plans())
    made = torch.compile(function, backend=torch_backend.backend, fullgraph=True, options={"arch": "sm_90a"})
    with torch.no_grad():
        found, want = made(*arrays), function(*arrays)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, want)), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        torch.testing.assert_close(one, other)
    (plan,) = torch_backend.plans()[count:]
    return plan


def foreign(plan: Any) -> list[str]:
    """Name the operators that torch runs."""
    return [node["label"] for node in plan.graph.nodes if node.op == "foreign"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.argmax(-1),
        lambda x: x.argmin(0, keepdim=True),
        lambda x: (x * 2).argmax(),
        lambda x: x.reshape(6, -1).argmax(1),
        lambda x: x.reshape(-1, 11).argmin(1).reshape(6, 7),
        lambda x: x.half().max(1),
        lambda x: x.min(0, keepdim=True),
        lambda x: x.max(),
        lambda x: x.max(2).indices,
        lambda x: (10 * x).int().max(2),
        lambda x: x.new_ones(x.shape).argmax(1),
    ],
)
def test_indices(function: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    assert not foreign(plan(function, torch.randn(6, 7, 11)))


def test_the_first_of_equal_elements_and_nan() -> None:
    x = torch.zeros(4, 40)
    x[1, 7] = x[1, 9] = 2.0
    x[2, 5] = x[2, 8] = float("nan")
    assert not foreign(plan(lambda x: (x.argmax(1), x.argmin(1)), x))


def test_the_largest_weight_and_its_index_are_one_kernel() -> None:
    """As routers of experts ask for them."""
    made = plan(lambda x: x.softmax(-1).max(-1), torch.randn(50, 64))
    assert len(made.kernels) == 1
    assert not foreign(made)


def test_lines_at_indices_that_kernels_find() -> None:
    assert not foreign(plan(lambda x, t: t[(x * 3).argmax(-1)] * 2, torch.randn(50, 30), torch.randn(30, 8)))


def test_one_element_stays_with_torch() -> None:
    assert "argmax" in foreign(plan(lambda x: x[:, :1].argmax(1), torch.randn(4, 8)))


def test_indices_are_numbers() -> None:
    assert not foreign(plan(lambda x: x.argmax(1), torch.randint(0, 9, (4, 8))))
    assert not foreign(plan(lambda x: x.argmax(1) + 1, torch.randn(4, 8)))


def test_gradients_of_the_largest() -> None:
    torch.manual_seed(0)
    plans = compared(lambda x: (x * 2).max(1).values + (x * 3).min(1).values, torch.randn(12, 40))
    assert not [label for plan in plans for label in foreign(plan)]
