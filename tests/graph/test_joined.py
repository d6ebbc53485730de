"""Parts of a concatenation are read by vectors where these lie within a part or outside it, and numbers once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor
from fireiron.graph.kept_schedule import KeptSchedule
from fireiron.graph.trace import trace_graph


def text_of(graph: Any) -> str:
    """Return the CUDA of a plan's one kernel."""
    (launch,) = graph.plan("sm_90a").launches
    source = launch.kernel.source
    return (source.schedule if isinstance(source, KeptSchedule) else source).cuda("sm_90a")


PARTS = [((128, 64), 2), ((127, 65), 0), ((64, 64, 128), 3), ((128, 63, 65), 1), ((66, 128, 62), 0)]
OFTEN = [*PARTS[:2], PARTS[3]]  # of those beside an array: all parts by vectors, none, and one of them


@pytest.mark.parametrize(
    ("beside", "widths", "vectors"),
    [
        pytest.param(beside, *parts, marks=pytest.mark.exhaustive if beside and parts not in OFTEN else ())
        for beside in (False, True)
        for parts in PARTS
    ],
)
def test_parts_are_read_by_vectors(widths: tuple[int, ...], vectors: int, beside: bool) -> None:
    """Beside an array of the result's shape, warps have its elements, and those of the parts at the same points."""

    def joined(*parts: Any) -> Any:
        made = np.concatenate([parts[0], *(p * 2 for p in parts[1 : len(widths)])], axis=1)
        return made + parts[-1] if beside else made

    rng, shapes = np.random.default_rng(0), [(2048, n) for n in widths] + [(2048, sum(widths))] * beside
    arrays = [rng.integers(-8, 8, shape).astype("float16") for shape in shapes]
    graph = trace_graph(joined, *(tensor(*shape, dtype="f16", name=f"x{n}") for n, shape in enumerate(shapes)))
    text = text_of(graph)
    assert sum(f"// load x{n} to x{n}_rf" in text for n in range(len(widths))) == vectors
    np.testing.assert_array_equal(graph.plan("sm_90a")(*arrays), joined(*arrays))


def test_a_number_beside_rows_is_read_once() -> None:
    def scaled(x: Any, s: Any) -> Any:
        return nn.softmax(x) * (1 / s)

    graph = trace_graph(scaled, tensor(64, 256, dtype="f32", name="x"), tensor(1, dtype="f32", name="s"))
    text = text_of(graph)
    assert "to x1_rf" in text
    assert "x1[0]" not in text.replace("&x1[0]", "")
    x, s = np.random.default_rng(0).random((64, 256), dtype=np.float32), np.full(1, 4.0, np.float32)
    wanted = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(graph.plan("sm_90a")(x, s), wanted / wanted.sum(1, keepdims=True) / 4, rtol=1e-5)
