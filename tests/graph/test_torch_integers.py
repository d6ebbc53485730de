"""Integers of 64 bits under `torch.compile`: every bit is torch's, and kernels of ours compute them."""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from integer_functions import FUNCTIONS, divisors, integers  # noqa: E402

from fireiron.graph import torch_backend  # noqa: E402


def run(function: Callable[..., Any], *arrays: Any) -> set[str]:
    """Hold the results of a compiled function against torch's, bit by bit, and name what torch computed."""
    torch._dynamo.reset()
    count = len(torch_backend.plans())
    found = torch.compile(function, backend=torch_backend.backend, fullgraph=True, options={"arch": "sm_90a"})(*arrays)
    wanted = function(*arrays)
    several = isinstance(wanted, tuple)
    for one, other in zip(found if several else (found,), wanted if several else (wanted,), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert torch.equal(one, other), (one, other)
    plans = torch_backend.plans()[count:]
    nodes = [plan.graph.nodes[i] for plan in plans for launch in plan.foreign for i in launch.part.nodes]
    return {str(dict(node.attributes).get("label", node.op)) for node in nodes}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_compute_integers(name: str) -> None:
    assert not run(FUNCTIONS[name], integers(), divisors())


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "i32 beside i64": lambda x, y: (x + y, x * y - 1, x < y, torch.where(x > 0, x, y)),
    "sums of i32": lambda x, y: (y.sum(), y.sum(1), y.sum(0, dtype=torch.int64)),
    "sums of bytes": lambda x, y: (
        y.to(torch.uint8).sum(1),
        y.to(torch.int8).sum(),
        y.to(torch.uint8).to(torch.int8).sum(),
    ),
    "lines at low words": lambda x, y: x[(x[:, 1] % 12).to(torch.int32)],
}


@pytest.mark.parametrize("name", MIXED)
def test_integers_of_other_types(name: str) -> None:
    assert not run(MIXED[name], integers(), integers(torch.int32))


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_floats_beside_integers(kind: Any) -> None:
    """Torch converts the integers to the floats' type first."""
    x = torch.randint(-3000, 3000, (12, 40))
    y = torch.randn(12, 40).to(kind)
    assert not run(lambda x, y: (x + y, y * x, x.to(kind), torch.maximum(x, y) - 1), x, y)
    assert not run(lambda x, y: (x / 3, x / 7 + y.float(), x * 0.5, x > 2.5), x, y)


def test_floats_become_integers() -> None:
    """Towards zero."""
    x = torch.randn(12, 40) * 1e6
    assert not run(lambda x: (x.long(), (x * 2).to(torch.int64) + 1), x)


def test_quotients_of_conditions_and_floats_stay_with_torch() -> None:
    x = torch.rand(4, 8) + 1
    assert run(lambda x: (x + 0.5) // 0.25, x)
    assert run(lambda x: (x * 2) % 0.75, x)


def test_a_number_of_torchs_functions() -> None:
    """Of a table, and by numbers that count from behind."""
    table, ids = integers(rows=30), torch.tensor([3, -1, 29, -30, 0])
    assert not run(lambda t, i: t[i] + 1, table, ids)
    assert not run(lambda t, i: t.index_select(1, i.abs()) * 2, table, ids)


def test_routed_tokens() -> None:
    """Switch's places of tokens: nothing of their arithmetic stays with torch."""

    def routed(scores: Any) -> Any:
        chosen = scores.softmax(-1).max(-1).indices
        mine = torch.nn.functional.one_hot(chosen, 8).float()
        place, room = ((mine.cumsum(0) - 1) * mine).sum(-1).long(), 16
        return torch.where(place < room, chosen * room + place, 128)

    torch.manual_seed(0)
    assert not run(routed, torch.randn(64, 8))
