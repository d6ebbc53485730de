"""Captured passes of training on the CPU, where a graph of launches is made up: it reads and writes fixed addresses."""
# pyright: reportMissingImports=false

from __future__ import annotations

import ctypes
import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch
from torch import nn

import fireiron.torch
from fireiron.graph import captured_training, torch_backend, torch_library
from fireiron.graph.captured_training import Shared

functional: Any = nn.functional


def at_the_same_place(x: Any) -> Any:
    """See a tensor's elements by their address, without a reference to the tensor."""
    count = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    memory = (ctypes.c_uint8 * (count * x.element_size())).from_address(x.data_ptr())
    return torch.frombuffer(memory, dtype=x.dtype, count=count).as_strided(x.shape, x.stride())


class Launches:
    """Be a CUDA graph: replays of a call on the addresses of its tensors."""

    made: ClassVar[list[Launches]] = []
    replays: ClassVar[list[Launches]] = []

    def __init__(self, call: Any, given: Sequence[Any], results: Sequence[Any]) -> None:
        self.call, self.given, self.results = call, [at_the_same_place(x) for x in given], results
        Launches.made.append(self)

    def replay(self) -> None:
        Launches.replays.append(self)
        made = self.call(list(self.given))
        for x, y in zip(self.results, made if isinstance(made, tuple) else (made,), strict=True):
            x.copy_(y)


def recorded(call: Any, given: Sequence[Any], device: Any, stream: Any, pool: Any) -> tuple[Any, tuple[Any, ...]]:
    if "refused" in pool:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")
    made = call(list(given))
    kept = tuple(x.clone() for x in (made if isinstance(made, tuple) else (made,)))
    return Launches(call, given, [at_the_same_place(x) for x in kept]), kept


class Stream:
    """Note which streams one waits for."""

    waits: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def wait_stream(self, other: Stream) -> None:
        Stream.waits.append((self.name, other.name))


class Layer(nn.Module):
    """Be a layer of BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.norm, self.last = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x: Any) -> Any:
        q, k, v = (f(x).view(*x.shape[:2], 2, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
        seen = functional.scaled_dot_product_attention(q, k, v)
        y = self.norm(self.o(seen.transpose(1, 2).reshape(x.shape)) + x)
        return self.last(self.down(functional.gelu(self.up(y))) + y)


class Pair:
    """Run a network by torch and by captured passes, side by side."""

    def __init__(self, dynamic: bool = False, **options: Any) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.exact, self.made = Layer(), Layer()
        self.made.load_state_dict(self.exact.state_dict())
        options |= {"arch": "sm_90a"}
        self.fast: Any = torch.compile(self.made, backend=fireiron.torch.backend, options=options, dynamic=dynamic)

    def step(self, x: Any, zero: bool | None = True) -> tuple[Any, Any]:
        """Add gradients; say the results. Gradients are dropped before, or set to 0, or kept where None."""
        y, z = self.fast(x), self.exact(x)
        if zero is not None:
            for model in (self.exact, self.made):
                model.zero_grad(set_to_none=zero)
        for result in (y, z):
            result.square().mean().backward()
        torch.testing.assert_close(y, z, rtol=1e-3, atol=1e-4)
        self.agree()
        return y, z

    def agree(self) -> None:
        for p, q in zip(self.made.parameters(), self.exact.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    here = torch.device("cpu")
    runner = torch_backend.Compiled._runner
    monkeypatch.setattr(
        torch_backend.Compiled,
        "_runner",
        lambda self, made, places, _: runner(self, made, places, here if self.capture else None),
    )
    monkeypatch.setattr(captured_training, "recorded", recorded)
    monkeypatch.setattr(Shared, "on", classmethod(lambda cls, device: cls("", "pool")))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: now[0])
    monkeypatch.setattr(torch_library.Torch, "patience_s", 0.0)  # the simulator keeps its last arrays
    for noted in (Launches.made, Launches.replays, Stream.waits):
        noted.clear()
    now[:] = [Stream("usual")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield Pair()


now: list[Stream] = []


def counted(steps: int = 1) -> int:
    """Count the replays since the last count, of so many steps."""
    found = len(Launches.replays)
    Launches.replays.clear()
    return found // steps


def test_both_passes_are_replays_from_the_second_step_on(pair: Pair) -> None:
    fixed = torch.randn(2, 16, 32)
    pair.step(fixed)
    assert counted() == 0
    for _ in range(2):
        pair.step(fixed)
        assert counted() == 2
    assert len(Launches.made) == 2
    results = [pair.step(torch.randn(2, 16, 32)) for _ in range(3)]  # inputs elsewhere: they are copied
    assert counted(3) == 2
    assert len(Launches.made) == 4
    for y, z in results:  # a result is the caller's, and no later call writes to it
        torch.testing.assert_close(y, z, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("zero", [None, False])
def test_gradients_add_up_in_the_caller_s_memory(pair: Pair, zero: bool | None) -> None:
    places: list[list[int]] = []
    for turn in range(4):
        pair.step(torch.randn(2, 16, 32), True if turn < 2 else zero)
        places.append([p.grad.data_ptr() for p in pair.made.parameters()])
    assert counted() == 6
    assert places[1] == places[2] == places[3]
    kept = {x.data_ptr() for graph in Launches.made for x in graph.results}
    assert kept.isdisjoint(places[3])


def test_weights_change_in_place(pair: Pair) -> None:
    steps = [torch.optim.SGD(model.parameters(), 0.1) for model in (pair.made, pair.exact)]
    for _ in range(4):
        pair.step(torch.randn(2, 16, 32))
        for step in steps:
            step.step()
    assert counted() == 6


def test_a_second_forward_pass_leaves_what_the_first_kept(pair: Pair) -> None:
    for _ in range(2):
        pair.step(torch.randn(2, 16, 32))
    counted()
    for model in (pair.made, pair.exact):
        model.zero_grad()
    given = torch.randn(2, 16, 32), torch.randn(2, 16, 32)
    for model in (pair.fast, pair.exact):
        one, two = (model(x) for x in given)
        (one.square().mean() + 2 * two.square().mean()).backward()
        del one, two
    pair.agree()
    assert counted() == 2  # the first forward pass, and its backward pass
    pair.step(given[0])
    assert counted() == 2


def test_another_batch_has_graphs_of_its_own(pair: Pair) -> None:
    for batch in (2, 3):
        for _ in range(3):
            pair.step(torch.randn(batch, 16, 32))
    counted()
    for batch in (2, 3, 2):
        pair.step(torch.randn(batch, 16, 32))
    assert counted() == 6


@pytest.mark.parametrize(("options", "replays"), [({}, 0), ({"capture": True}, 2)])
def test_sizes_that_are_symbols_are_captured_on_request(pair: Pair, options: dict[str, bool], replays: int) -> None:
    pair = Pair(dynamic=True, **options)
    for _ in range(3):
        pair.step(torch.randn(5, 16, 32))
    counted()
    pair.step(torch.randn(5, 16, 32))
    assert counted() == replays


def test_nothing_is_captured_where_that_is_asked(pair: Pair) -> None:
    pair = Pair(capture=False)
    for _ in range(3):
        pair.step(torch.randn(2, 16, 32))
    assert counted() == 0


def test_another_stream_waits_for_the_last(pair: Pair) -> None:
    for _ in range(2):
        pair.step(torch.randn(2, 16, 32))
    assert not Stream.waits
    now[:] = [Stream("other")]
    pair.step(torch.randn(2, 16, 32))
    assert Stream.waits == [("other", "usual")]


def test_what_cannot_be_captured_is_launched_and_said(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shared, "on", classmethod(lambda cls, device: cls("", "refused")))
    pair.step(torch.randn(2, 16, 32))
    with pytest.warns(UserWarning, match=r"without a CUDA graph: operation not permitted when stream is capturing$"):
        pair.step(torch.randn(2, 16, 32))
    pair.step(torch.randn(2, 16, 32))
    assert counted() == 0
