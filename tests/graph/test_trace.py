"""Functions that are written for NumPy, traced: the graph computes what the function does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import FireironError, nn, trace_graph

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "operators": lambda x, y: (2 - x) * y / 3 + (-x) ** 2 - abs(y) + 1 / (x * x + 1),
    "ufuncs": lambda x, y: (
        np.exp(-np.abs(x)) + np.tanh(y) + np.maximum(x, y) + np.sqrt(np.square(x)) + np.reciprocal(y)
    ),
    "comparisons": lambda x, y: np.where(((x > y) & (y >= 0)) | ~(x < 0), x, np.where(x != y, y, 0.5)),
    "folds": lambda x, y: (
        np.sum(x, axis=0) + y.mean(axis=-1).max() + np.max(x, axis=(0, 1)) + x.var(axis=0).min(axis=0)
    ),
    "ufuncs that fold": lambda x, y: np.add.reduce(x, axis=1) + np.maximum.reduce(y, axis=0)[:6],
    "products": lambda x, y: (x @ y.T) @ x + (x.swapaxes(0, 1) @ y[:, 0]).reshape(1, -1),
    "views": lambda x, y: np.concatenate([x[2:5, ::2], y[None, 1:4, 1::2][0]], axis=1)[..., -3:],
    "shapes": lambda x, y: (
        np.stack([x, y]).transpose(2, 0, 1).reshape(4, -1, 12) + np.stack([y, x], 1).reshape(4, 2, 12)
    ),
    "splits": lambda x, y: np.split(x, 2, axis=1)[1] * y[:, :4] + np.expand_dims(np.squeeze(x[:1]), 0)[:, :4],
    "clip": lambda x, y: np.clip(x, -0.5, 0.5) + np.broadcast_to(y[:1], (6, 8)),
    "what no operation is for": lambda x, y: np.cumsum(x, axis=1) + np.sort(y, axis=0),
    "several": lambda x, y: (x + y, np.sum(x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_graph_computes_what_its_function_does(name: str) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((6, 8)), rng.standard_normal((6, 8)) + 3
    graph = trace_graph(FUNCTIONS[name], x, y, name="function")
    made, wanted = graph.evaluate(x, y), FUNCTIONS[name](x, y)
    for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (made, wanted)), strict=True):
        assert one.shape == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-12)
    for other in (graph.optimised(), graph.optimised(rounding=True, range=True)):
        again = other.evaluate(x, y)
        for one, last in zip(*(v if isinstance(v, tuple) else (v,) for v in (again, wanted)), strict=True):
            np.testing.assert_allclose(one, last, rtol=1e-9)


def test_what_no_operation_is_for_is_kept_as_a_call() -> None:
    graph = trace_graph(lambda x: np.cumsum(x, axis=0) * 2, (4, 8), name="sums")
    assert [node.op for node in graph.nodes if node.kind == "foreign"] == ["foreign"]
    assert "%1 = cumsum(x)" in str(graph)


def test_an_embedding_reads_lines() -> None:
    ids, table = np.array([[3, 0], [1, 3]]), np.arange(20.0).reshape(4, 5)
    graph = trace_graph(lambda i, t: nn.embedding(i, t), ids, table)
    np.testing.assert_array_equal(graph.evaluate(ids, table), table[ids])


def test_graphs_print_as_one_writes_them() -> None:
    def layer(x: Any, w: Any, gain: Any) -> Any:
        return nn.rms_norm(nn.gelu(x @ w), gain)[:, 0:4].T

    graph = trace_graph(layer, fi.tensor(8, 16, dtype="f16"), fi.tensor(16, 8, dtype="f16"), (8,))
    assert (
        str(graph)
        == """\
layer(x[8, 16].f16, w[16, 8].f16, gain[8].f32)
  %1 = x @ w                                                 [8, 8].f16
  %2 = gelu(%1, approximate='none')                          [8, 8].f16
  %3 = rms_norm(%2, gain, dims=1, eps=1e-06)                 [8, 8].f16
  %4 = slice(%3, starts=(0, 0), steps=(1, 1), stops=(8, 4))  [8, 4].f16
  %5 = transpose(%4, axes=(1, 0))                            [4, 8].f16
  return %5"""
    )


def test_functions_of_networks_compute_with_plain_arrays_too() -> None:
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    made = nn.softmax(x)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made.sum(-1), 1, rtol=1e-6)


def test_a_graph_refuses_other_arrays() -> None:
    graph = trace_graph(lambda x: x + 1, (4, 8), name="one")
    with pytest.raises(FireironError, match="takes 1 array, and 2 are given"):
        graph.evaluate(np.ones((4, 8)), np.ones(3))


NUMBERS = np.arange(24, dtype=np.int32).reshape(4, 6) - 10
ARGUMENTS: dict[str, Callable[..., Any]] = {
    "numbers beyond 32 bits": lambda x, i: i * np.array([3000000000] * 6) // 7 % 1000,
    "take along an axis": lambda x, i: np.take(x, [3, 0, 1], axis=1),
    "take": lambda x, i: np.take(x, np.array([7, 20])),
    "rows": lambda x, i: sum(row * n for n, row in enumerate(x)),
    "order": lambda x, i: x.reshape(6, 4, order="F") + np.reshape(x, (6, 4), order="F"),
    "where of a sum": lambda x, i: np.sum(x, axis=1, where=NUMBERS > 0) + x.sum(axis=1, initial=5),
    "initial": lambda x, i: np.max(x, initial=3.0, axis=0) + np.maximum.reduce(x, axis=0, initial=4.0),
    "types": lambda x, i: np.sum(x, 0, np.float32) + x.mean(axis=0, dtype=np.float32),
    "clip": lambda x, i: np.clip(x, a_min=-1, a_max=2),
    "axes": lambda x, i: x[True] + np.expand_dims(x, (0, 2))[:, :, 0],
    "bits": lambda x, i: (i & 2) + (i | 1) + (~i) + (i ^ 3),
    "quotients of integers": lambda x, i: i / 2 + i.mean(axis=0) + i.var() + i.std() + np.divide(i, 4),
    "a share": lambda x, i: (x > 0).mean(axis=1) + x.std(axis=1),
    "fractions": lambda x, i: (x * 0.7).astype(np.int32) + x.astype(bool),
    "one axis": lambda x, i: np.concatenate([x, x], axis=None) + np.ravel(np.stack([x, x])),
    "remainders": lambda x, i: x % 3 + x // 3 + 2.0 ** (x * 0.1) + 3 % (x + 0.5) + 3 // (x + 0.5),
    "arguments by their places": lambda x, i: (
        x.sum(0, np.float32) + np.sum(x, 0, None, None, True)[0] + x.max(0, None, True)[0] + x.var(0, None, None, 1)
    ),
    "orders by their places": lambda x, i: np.reshape(x, (6, 4), "F") + x.flatten("F").reshape(6, 4),
    "options at their defaults": lambda x, i: np.sum(x, axis=np.int64(0), dtype=None, out=None) + x.clip(-1, 2)[0],
    "take with a mode": lambda x, i: np.take(x, [7, -1], 0, None, "wrap") + np.take(x, [-1, 0], axis=0),
    "bits on the right": lambda x, i: (2 & i) + (1 | i) + (3 ^ i),
    "bytes": lambda x, i: np.logical_and(i.astype(np.uint8), 6) * (i.astype(np.uint8) & 6) + ~i.astype(np.uint8),
    "bytes are no conditions": lambda x, i: i.astype(np.uint8).astype(bool) * (i.astype(np.uint8) & i.astype(np.uint8)),
    "conditions": lambda x, i: (True & (x > 0)) * 1 + np.invert(x > 0) * 2 + np.logical_or(x > 3, x < 1) * 4,
    "arrays of conditions": lambda x, i: np.where((NUMBERS > 0) & (x < 5) | ~(NUMBERS > 3), x, 0),
    "conditions add up": lambda x, i: ((x > 0) + (x < 1)) * 3 + ((x > 0) - 1) + (x > 0) * i.astype(np.int8),
    "counts": lambda x, i: np.stack([x > -100] * 20).sum() + np.abs(i).astype(np.uint8).sum(),
    "products of conditions": lambda x, i: (x > 0) @ (x > 0).T,
    "functions of integers": lambda x, i: np.exp(i * 0 + 1) + np.sqrt(i * i) + np.tanh(i),
    "integers and fractions": lambda x, i: i + np.float32(0.5) + np.array(0.25) * i,
    "bytes of both signs": lambda x, i: np.abs(i).astype(np.uint8) + i.astype(np.int8),
    "shifts": lambda x, i: (i << 1) + (i >> 1) + (1 << (i & 3)) + (64 >> (i & 3)) + np.left_shift(i, 2),
    "quotients and remainders": lambda x, i: sum(divmod(i, 3)) + sum(divmod(7, i + 50)) + sum(np.divmod(x, 2)),
    "extremes' places": lambda x, i: x.argmax(1) + x.argmin(axis=1) + i.argmax(1, keepdims=True)[:, 0],
    "any and all": lambda x, i: (x > 3).any(axis=0) + i.all(0) * 2 + np.any(x, axis=0) * 4 + np.all(x > -9, 0) * 8,
    "methods of functions": lambda x, i: (
        x.copy().cumsum(0) + x.take([0] * 6, axis=1) + x[:, :1].squeeze().repeat(6).reshape(4, 6)
    ),
    "products of methods": lambda x, i: x.dot(x.T) + np.dot(x, x.T) + x.round(1)[:, :4],
    "fractions and wholes": lambda x, i: np.modf(x * 0.7)[0] + np.modf(x * 0.7)[1],
    "unequal parts": lambda x, i: np.array_split(x, 3)[0] + np.array_split(x, 3)[2],
    "several new axes": lambda x, i: np.expand_dims(x, (0, -1))[0, :, :, 0] + np.expand_dims(x, np.int64(1))[:, 0],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_mean_what_they_mean_in_numpy(name: str) -> None:
    x = NUMBERS.astype(np.float32)
    wanted = ARGUMENTS[name](x, NUMBERS)
    found = trace_graph(ARGUMENTS[name], x, NUMBERS, name="function").evaluate(x, NUMBERS)
    found = found[0] if isinstance(found, tuple) else found
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda x, i: x[4], "graph-shape"),
        (lambda x, i: x[-5], "graph-shape"),
        (lambda x, i: x[x > 0], "graph-value"),
        (lambda x, i: np.where(x > 0), "graph-value"),
        (lambda x, i: np.add(x, x, where=x > 0), "graph-value"),
        (lambda x, i: np.add(x, x, where=NUMBERS > 0), "graph-value"),
        (lambda x, i: np.add(x, x, out=x), "graph-value"),
        (lambda x, i: np.take(x, [9, 0], axis=0), "graph-shape"),
        (lambda x, i: x[[9, 0]], "graph-value"),
        (lambda x, i: x[x], "graph-value"),
        (lambda x, i: (x > 0) - (x < 1), "graph-value"),
        (lambda x, i: i**-1, "graph-value"),
        (lambda x, i: np.stack([x, x.T]), "graph-shape"),
        (lambda x, i: np.split(x, 0)[0], "graph-shape"),
        (lambda x, i: np.expand_dims(x, (0, 0)), "graph-axis"),
        (lambda x, i: np.sum(x, axis=(0, -2)), "graph-axis"),
        (lambda x, i: np.max(x, axis=1.0), "graph-axis"),
        (lambda x, i: np.concatenate([x, x], axis=5), "graph-axis"),
        (lambda x, i: np.stack([x, x], axis=-4), "graph-axis"),
        (lambda x, i: np.expand_dims(x, 5), "graph-axis"),
        (lambda x, i: x.swapaxes(0, 3), "graph-axis"),
        (lambda x, i: x << 1, "graph-value"),
        (lambda x, i: x.tolist(), "graph-value"),
        (lambda x, i: x.sort(), "graph-value"),
        (lambda x, i: x.__setitem__(0, 1), "graph-value"),
        (lambda x, i: np.unique(x), "graph-value"),
        (lambda x, i: np.nonzero(x), "graph-value"),
        (lambda x, i: i * 3000000000, "graph-value"),
        (lambda x, i: i * np.int64(3000000000), "graph-value"),
    ],
)
def test_arguments_that_no_graph_holds(function: Callable[..., Any], code: str) -> None:
    with pytest.raises(FireironError) as caught:
        trace_graph(function, NUMBERS.astype(np.float32), NUMBERS, name="function")
    assert caught.value.code == code


def test_truths_that_are_given_are_conditions() -> None:
    x, bytes_, mask = NUMBERS.astype(np.float32), NUMBERS.astype(np.uint8), NUMBERS > 0

    def function(x: Any, m: Any, b: Any) -> Any:
        return np.where(~m | (m & (x > 3)), x, 0) + (b & b) + np.logical_not(b)

    found = trace_graph(function, x, mask, bytes_).evaluate(x, mask, bytes_)
    assert np.array_equal(found, function(x, mask, bytes_))


CHOICES: dict[str, tuple[Callable[..., Any], str]] = {  # and the type, of 32 bits where NumPy's has 64
    "integers": (lambda x, i: np.where(x > 0, 0, 1), "int32"),
    "floats": (lambda x, i: np.where(x > 0, 0.5, 1), "float32"),
    "truths": (lambda x, i: np.where(x > 0, True, False) & (x < 5), "uint8"),
    "a truth and an integer": (lambda x, i: np.where(x > 0, True, 3), "int32"),
    "a condition and an integer": (lambda x, i: np.where(x > 0, x > 1, 3), "int32"),
    "numbers of NumPy": (lambda x, i: np.where(x > 0, np.float16(0.5), np.float16(1)), "float16"),
    "an array and an integer": (lambda x, i: np.where(x > 0, np.arange(6), 7), "int32"),
    "integers and a fraction": (lambda x, i: np.where(x > 0, i, 0.5), "float32"),
    "places": (lambda x, i: x[np.where(x[:, 0] > 0, 0, 1)], "float32"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_of_numbers_has_numpys_type(name: str) -> None:
    function, kind = CHOICES[name]
    x = NUMBERS.astype(np.float32)
    plan = trace_graph(function, x, NUMBERS, name="function").plan("sm_90a")
    made = plan(x, NUMBERS)
    assert made.dtype.name == kind
    np.testing.assert_allclose(made, function(x, NUMBERS))


def test_attributes_that_traced_arrays_lack() -> None:
    def function(x: Any) -> Any:
        assert not hasattr(x, "device")
        return x.sort()

    with pytest.raises(
        AttributeError, match=r"traced arrays have no \.sort.*\n.*\n.*\n.*\nfix: use .* as np\.sort"
    ) as caught:
        trace_graph(function, (4, 8))
    assert isinstance(caught.value, FireironError)
