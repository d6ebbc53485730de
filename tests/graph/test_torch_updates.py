"""Inputs that a compiled function writes: lines of a cache in place, and what is copied, against torch."""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from fireiron.graph import torch_backend  # noqa: E402


def steps(function: Callable[..., Any], calls: int, *arrays: Any) -> Any:
    """Call a compiled function several times with the same arrays, hold results and arrays against torch's."""
    torch._dynamo.reset()
    count = len(torch_backend.plans())
    fast = torch.compile(function, backend=torch_backend.backend, fullgraph=True, options={"arch": "sm_90a"})
    mine, theirs = ([x.clone() for x in arrays] for _ in range(2))
    with torch.no_grad():
        for _ in range(calls):
            found, want = fast(*mine), function(*theirs)
            within = 1e-4 if found.dtype == torch.float32 else 4e-2  # torch rounds more often
            torch.testing.assert_close(found, want, atol=within, rtol=within)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other)
    (plan,) = torch_backend.plans()[count:]
    return plan


def foreign(plan: Any) -> list[str]:
    """Name the operators that torch runs."""
    return [node["label"] for node in plan.graph.nodes if node.op == "foreign"]


def of_cache(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    cache[:, :, place] = lines * 2
    return torch.softmax(q @ cache.mT, -1) @ cache


def copied(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    cache.index_copy_(2, place, lines)
    return q @ cache.mT


CACHE = torch.randn(2, 3, 32, 16, generator=torch.Generator().manual_seed(0))
QUERY = torch.randn(2, 3, 1, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("places", [[7], [31], [-1], [3, 9, 4]])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
@pytest.mark.parametrize("function", [of_cache, copied])
def test_lines_of_a_cache_are_written_in_place(function: Callable[..., Any], kind: Any, places: list[int]) -> None:
    if function is copied and places == [-1]:
        places = [0]  # torch's own counts from the start
    lines = torch.randn(2, 3, len(places), 16)
    plan = steps(function, 2, *(x.to(kind) if x.is_floating_point() else x for x in
                                (CACHE, torch.tensor(places), lines, QUERY)))  # fmt: skip
    assert len(plan.written) == 1
    assert not foreign(plan)
    assert plan.memory.nbytes < CACHE.nbytes  # no second cache


def test_a_caller_sees_the_lines_before_the_next_call() -> None:
    cache, seen = torch.zeros(1, 1, 8, 4), list[float]()
    fast = torch.compile(of_cache, backend=torch_backend.backend, options={"arch": "sm_90a"})
    torch._dynamo.reset()
    with torch.no_grad():
        for place in range(3):
            fast(cache, torch.tensor([place]), torch.full((1, 1, 1, 4), place + 1.0), torch.ones(1, 1, 1, 4))
            seen.append(float(cache.sum()))
            cache[0, 0, 7] += 1  # by torch, between two calls
    assert seen == [8, 28, 56]


def read_before(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    old = cache.sum(2, keepdim=True)
    cache[:, :, place] = lines
    return old + q @ cache.mT @ cache


def returned(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    cache[:, :, place] = lines
    return cache


def unread(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    cache[:, :, place] = lines
    return q * 2


def twice(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    cache[:, :, place] = lines
    first = q @ cache.mT
    cache[:, :, place + 1] = lines * 2
    return first + q @ cache.mT


def of_a_slice(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    cache[:, :, :1] = lines
    return q @ cache.mT


def other_inputs(cache: Any, place: Any, lines: Any, q: Any) -> Any:
    place += 1
    lines.mul_(0.5)
    cache[:, :, place] = lines
    return q @ cache.mT


@pytest.mark.parametrize("function", [read_before, returned, unread, twice, of_a_slice, other_inputs])
def test_other_writes_reach_the_inputs(function: Callable[..., Any]) -> None:
    steps(function, 2, CACHE, torch.tensor([7]), torch.randn(2, 3, 1, 16), QUERY)


def test_a_cache_that_lies_otherwise_is_copied() -> None:
    plan = steps(of_cache, 2, CACHE.transpose(0, 1).contiguous().transpose(0, 1), torch.tensor([7]),
                 torch.randn(2, 3, 1, 16), QUERY)  # fmt: skip
    assert not plan.written


def test_a_cache_that_learns_is_not_written_in_place() -> None:
    torch._dynamo.reset()
    fast = torch.compile(of_cache, backend=torch_backend.backend, options={"arch": "sm_90a"})
    lines = [torch.ones(2, 3, 1, 16, requires_grad=True) for _ in range(2)]
    made = [f(CACHE.clone(), torch.tensor([7]), x, QUERY) for f, x in zip((fast, of_cache), lines, strict=True)]
    for one in made:
        one.sum().backward()
    torch.testing.assert_close(*made)
    torch.testing.assert_close(lines[0].grad, lines[1].grad)
