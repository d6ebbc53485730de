"""The backend of torch.compile gives torch's values where arrays have no dims or elements, repeat, or hold integers."""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import trace_graph

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

import fireiron.torch

F: Any = torch.nn.functional
INT8, INT32, UINT8 = torch.int8, torch.int32, torch.uint8


def same(function: Callable[..., Any], *inputs: Any) -> None:
    torch._dynamo.reset()
    got, want = torch.compile(function, backend=fireiron.torch.backend)(*inputs), function(*inputs)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for one, other in pairs:
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert torch.allclose(one.double(), other.double(), atol=1e-5, equal_nan=True)


def drawn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(0) + 1,
    "mean": lambda x: x.mean(-1, keepdim=True) * 2,
    "amax": lambda x: x.amax(()),
    "var": lambda x: x.var(0, correction=0),
    "var of one": lambda x: x.var(),
    "softmax": lambda x: torch.softmax(x * 2, 0),
    "log_softmax": lambda x: torch.log_softmax(x, -1) + x,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_folds_of_a_number(name: str) -> None:
    same(NUMBERS[name], drawn())


REPEATED: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: (x * 2).expand(8, 4) + 1,
    "softmax": lambda x: torch.softmax(x, 1).expand(8, 4) + 1,
    "functions": lambda x: torch.exp(x).expand(8, 4).tanh() * 3,
    "parts": lambda x: torch.cat([torch.zeros(1, 4), x], 1).expand(8, 8) / 8,
    "a new axis": lambda x: torch.cat([x * 2, x], 1)[None].expand(3, 1, 8) + 1,
    "beside": lambda x: (torch.exp(x).expand(8, 4) - 1, x + 1),
}


@pytest.mark.parametrize("name", REPEATED)
def test_every_line_of_a_repeated_result_is_written(name: str) -> None:
    same(REPEATED[name], drawn(1, 4))


def test_a_gradient_that_is_repeated() -> None:
    x = drawn(8, 8).requires_grad_()
    torch._dynamo.reset()
    made = torch.compile(lambda x: x.mean(0, keepdim=True).chunk(2, 1)[-1], backend=fireiron.torch.backend)(x)
    (by_x,) = torch.autograd.grad(made, x, torch.ones(1, 4))
    assert torch.equal(by_x, torch.cat([torch.zeros(8, 4), torch.full((8, 4), 0.125)], 1))


BYTES: dict[str, Callable[[Any], Any]] = {
    "sums": lambda x: x + x,
    "products": lambda x: x * 3 - 100,
    "negatives": lambda x: -x,
    "powers": lambda x: x.pow(2),
    "narrowed": lambda x: (x.int() * 300).to(INT8),
    "other signs": lambda x: (x.to(UINT8), x.to(INT8)),
    "sums of bytes": lambda x: x.sum(0, dtype=INT8),
}


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("kind", [INT8, UINT8])
def test_bytes_wrap(name: str, kind: Any) -> None:
    same(BYTES[name], torch.arange(-128, 128).to(kind).reshape(64, 4))


def test_elements_are_converted_before_they_are_added() -> None:
    same(lambda x: x.sum(0, dtype=INT32), drawn(40, 3) * 4)


def test_numbers_become_true() -> None:
    x = drawn(3, 4) > 0
    same(lambda x: F.pad(x, (0, 1), value=3).float() * 2, x)
    same(lambda x: torch.full_like(x, 2).float() + x, x)
    same(lambda x: x.masked_fill(x, 2).float() + 1, x)


def test_folds_of_repeated_numbers() -> None:
    same(lambda x: torch.full_like(x, 3.0).amin(1), drawn(3, 1))
    same(lambda x: torch.full_like(x, 3.0).sum(0) + x, drawn(3, 5))
    same(lambda x: torch.full_like(x, 2.0).prod(1, keepdim=True) + x, drawn(3, 5))


def test_calls_that_read_no_input() -> None:
    def written(x: Any) -> Any:
        y = x.clone()
        y[...] = 1
        return y.all() / 2

    same(written, drawn())


def test_views_without_elements() -> None:
    same(lambda x: x[5:].reshape(-1)[..., -1:], drawn(3, 4))


def test_variances_of_few_elements_in_numpy() -> None:
    graph = trace_graph(lambda x: np.var(x, axis=0, ddof=1), (1, 8))
    assert np.isnan(graph.plan()(np.ones((1, 8), np.float32))).all()
