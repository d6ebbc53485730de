"""Comparisons of integers of 64 bits, such as classes, in kernels: both of their words count."""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_compared import compared  # noqa: E402

F = torch.nn.functional


def left(plans: Any) -> set[str]:
    """Name what no kernel computes."""
    nodes = [plan.graph.nodes[i] for plan in plans for launch in plan.foreign for i in launch.part.nodes]
    return {str(dict(node.attributes).get("label", node.op)) for node in nodes}


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "classes": lambda x, y: (F.one_hot(y, 5).to(x.dtype) * x).sum(-1),
    "a number": lambda x, y: torch.where(y == 3, 1.0, x[:, 0]) * 2,
    "another number": lambda x, y: torch.where(y != -100, x[:, 0], 0.0) * 2,
    "numbers in a column": lambda x, y: (torch.arange(12)[:, None] == y).to(x.dtype) @ x,
    "a number beyond 32 bits": lambda x, y: torch.where(y == (1 << 32) + 3, 1.0, x[:, 0]) * 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_comparisons_with_known_numbers(name: str) -> None:
    torch.manual_seed(0)
    y = torch.randint(0, 5, (12,))
    if name != "classes":  # of which torch refuses such numbers
        y[:4] = torch.tensor([3, (1 << 32) + 3, -100, -(1 << 32) + 3])
    plans = compared(FUNCTIONS[name], torch.randn(12, 5), y)
    assert not left(plans)


def test_classes_of_pixels() -> None:
    """The numbers of the classes lie along a dim of no array."""

    def overlap(scores: Any, classes: Any) -> Any:
        found = scores.softmax(1)
        return (F.one_hot(classes, 21).permute(0, 3, 1, 2).to(found.dtype) * found).sum((0, 2, 3))

    plans = compared(overlap, torch.randn(2, 21, 8, 8), torch.randint(0, 21, (2, 8, 8)), within=1e-4)
    assert not left(plans)


def test_comparisons_of_unknown_numbers() -> None:
    def equal(x: Any, y: Any, z: Any) -> Any:
        return torch.where(y == z, x, 0.0) * 2

    y = torch.tensor([1, (1 << 32) + 1, 5, 7])
    assert not left(compared(equal, torch.randn(4), y, torch.tensor([1, 1, 5, 8])))


def test_counts_become_floats() -> None:
    def counted(x: Any, y: Any) -> Any:
        return x * (y == 2).long().sum().to(x.dtype) + (y == 1).long()

    assert not left(compared(counted, torch.randn(6), torch.arange(6)))


def test_comparisons_with_sizes_stay_with_torch() -> None:
    def equal(x: Any, y: Any) -> Any:
        return x * (y == x.shape[0])

    torch._dynamo.reset()
    fast = torch.compile(equal, backend="fireiron", dynamic=True, options={"arch": "sm_90a"})
    y = torch.tensor([4, 6, 1])
    for size in (4, 6):
        x = torch.randn(size, 3)
        torch.testing.assert_close(fast(x, y), equal(x, y), rtol=0, atol=0)


def test_small_integers_become_those_of_64_bits() -> None:
    def results(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        return (y == 2).long(), z.long() * 1, z.long() + y, (x > 0).long().sum(), torch.where(y == 1, y, 0)

    torch._dynamo.reset()
    given = torch.randn(5), torch.arange(5), torch.arange(5, dtype=torch.int32) - 2
    made = torch.compile(results, backend="fireiron", options={"arch": "sm_90a"})(*given)
    for found, wanted in zip(made, results(*given), strict=True):
        assert found.dtype == wanted.dtype
        assert torch.equal(found, wanted)
