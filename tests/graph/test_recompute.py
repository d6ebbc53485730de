"""Values that folds over rows compute again, instead of reading them from memory, and folds that share a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import tensor
from fireiron.graph.plan import plan
from fireiron.graph.recompute import recompute
from fireiron.graph.trace import trace_graph

ROWS, COLUMNS = 48, 64
GIVEN = [tensor(ROWS, COLUMNS, dtype="f16")] * 2 + [tensor(ROWS, 1, dtype="f32")] * 2 + [tensor(COLUMNS, dtype="f16")]


def gradients(dy: Any, x: Any, mean: Any, scale: Any, gain: Any) -> tuple[Any, ...]:
    """Compute the gradients of a layer norm."""
    wide, normed = dy.astype("float32"), (x.astype("float32") - mean) * scale
    g = wide * gain.astype("float32")
    dx = (g - g.mean(1, keepdims=True) - normed * (g * normed).mean(1, keepdims=True)) * scale
    return (wide * normed).sum(0).astype("float16"), wide.sum(0).astype("float16"), dx.astype("float16")


def after_sum(dy: Any, more: Any, x: Any, mean: Any, scale: Any, gain: Any) -> tuple[Any, ...]:
    """Compute the gradients of a layer norm behind a sum."""
    return gradients(dy + more, x, mean, scale, gain)


def arrays() -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    rows = [draw.standard_normal((ROWS, COLUMNS)).astype("f2") for _ in range(2)]
    columns = [draw.standard_normal((ROWS, 1)).astype("f4") for _ in range(2)]
    return [*rows, *columns, draw.standard_normal(COLUMNS).astype("f2")]


def test_gradients_of_a_norm_are_one_kernel() -> None:
    made = plan(trace_graph(gradients, *GIVEN))
    assert [launch.part.kind for launch in made.launches] == ["rows"]
    assert "over the rows that it has: sums" in made.explain()
    assert made.memory.nbytes == 0
    given = arrays()
    wanted = gradients(*(x.astype("f8") for x in given))
    for found, right in zip(made(*given), wanted, strict=True):
        assert np.abs(found - right.astype("f8")).max() < 4e-3 * np.abs(right).max()


def test_a_value_of_16_bits_is_stored_once_for_both() -> None:
    made = plan(trace_graph(after_sum, GIVEN[0], *GIVEN))
    assert [launch.part.kind for launch in made.launches] == ["rows"]
    assert {made.graph.nodes[n].dtype.bits for n in made.launches[0].part.outputs} == {16}
    given = arrays()
    wanted = after_sum(*(x.astype("f8") for x in (given[0], *given)))
    for found, right in zip(made(given[0], *given), wanted, strict=True):
        assert np.abs(found - right.astype("f8")).max() < 8e-3 * np.abs(right).max()


def test_the_pass_is_told() -> None:
    assert "recompute for folds      +5 operations" in trace_graph(gradients, *GIVEN).passes().explain()


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x, y: ((x.astype("float32") * 2).sum(0), y), "f16"),  # the fold alone reads it
        (
            lambda x, y: (x.astype("float32").sum(1), (x.astype("float32") * y).astype("float16")),
            "f16",
        ),  # over columns
        (lambda x, y: ((x * y).sum(0), x * y + 1), "f32"),  # as much traffic as before
        (lambda x, y: (x.astype("float32").sum(0), x.astype("float32")), "f16"),  # the caller reads it
        (lambda x, y: (np.exp(x.astype("float32")).sum(0), np.exp(x.astype("float32")) * y), "f16"),  # a slow function
    ],
)
def test_other_folds_read_what_is_stored(function: Any, dtype: str) -> None:
    graph = trace_graph(function, *[tensor(ROWS, COLUMNS, dtype=dtype)] * 2).optimised()
    assert recompute(graph) == graph


@pytest.mark.parametrize(("rows", "apart"), [(ROWS, False), (2100, True)])
def test_long_columns_whose_folds_depend_on_each_other_stay_apart(rows: int, apart: bool) -> None:
    """A thread has a short column; many blocks share the long ones of few columns."""

    def twice(x: Any) -> Any:
        wide = x.astype("float32")
        return (wide - wide.mean(0)).max(0)

    made = plan(trace_graph(twice, tensor(rows, COLUMNS, dtype="f16")))
    assert (len(made.kernels) > 1) == apart
    x = np.random.default_rng(2).normal(size=(rows, COLUMNS)).astype(np.float16)
    assert np.abs(made(x) - (x.astype("f8") - x.astype("f8").mean(0)).max(0)).max() < 1e-2


def test_at_most_four_folds_share_a_kernel() -> None:
    def moments(x: Any, y: Any) -> tuple[Any, ...]:
        return tuple(((x + n) * y).sum(0) for n in range(6))

    made = plan(trace_graph(moments, *[tensor(ROWS, COLUMNS, dtype="f32")] * 2))
    counts = sorted(sum(made.graph.nodes[n].kind == "fold" for n in x.part.nodes) for x in made.launches)
    assert sum(counts) == 6
    assert max(counts) <= 4
