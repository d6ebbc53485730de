"""Slices that start between vectors: kernels that read vectors get a copy, pointwise ones read shorter vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import nn, tensor
from fireiron.base.errors import SpecError
from fireiron.graph.trace import trace_graph
from fireiron.jit.interface import Interface


def shifted(x: Any) -> Any:
    """Add columns that lie one and two places apart."""
    one = np.concatenate([x[:, 2:3], x[:, 3:66]], axis=1)
    return x[:, 1:65] + one + np.concatenate([x[:, 1:4], x[:, 5:66]], axis=1)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = {
    "points": (lambda x: x[:, 1:63] * 2, ((64, 64),), 0),
    "points of the next line": (lambda x: x[1:, :] * 2, ((9, 36),), 0),
    "points at shifted places": (shifted, ((64, 66),), 0),
    "points of a line": (lambda x, y: y * x[1:65], ((66,), (4096, 64)), 0),
    "a fold": (lambda x: x[:, :, 3:35].astype("float32").sum(2), ((8, 64, 64),), 1),
    "a fold beside a column": (
        lambda x: (x.astype("float32") - x[:, 3:4].astype("float32")).sum(1),
        ((64, 64),),
        0,
    ),
    "rows": (lambda x: nn.softmax(x[:, 1:33].astype("float32")).astype("float16"), ((64, 64),), 1),
    "a product": (lambda x, y: (x[:, 2:66] @ y).astype("float16"), ((64, 128), (64, 32)), 1),
    "a product of odd lines": (lambda x, y: (x[:, 1:34] @ y).astype("float16"), ((64, 67), (33, 32)), 0),
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_no_vector_starts_between_vectors(name: str, arch: str) -> None:
    function, shapes, copies = CASES[name]
    graph = trace_graph(function, *(tensor(*s, dtype="f16") for s in shapes))
    made = graph.plan(arch)
    assert not made.foreign
    assert sum(node.op == "copy" for node in made.graph.nodes) == copies
    for kernel in made.kernels:
        for given in Interface.of(kernel.schedule.lowered()).inputs:
            operand = kernel.inputs[given.name]
            assert operand.dtype.nbytes_of(operand.view.offset) % given.align == 0
    if arch == "sm_80":
        draw = np.random.default_rng(0)
        arrays = [draw.standard_normal(s).astype(np.float16) for s in shapes]
        found, wanted = made(*arrays), graph.evaluate(*(x.astype(np.float64) for x in arrays))
        np.testing.assert_allclose(found.astype(np.float64), wanted, atol=4e-3, rtol=4e-3)


def test_a_start_before_the_memory_is_refused() -> None:
    with pytest.raises(SpecError, match="x has the start -1") as caught:
        attrs.evolve(tensor(8, 8, name="x"), start=-1)
    assert caught.value.code == "bad-extent"
