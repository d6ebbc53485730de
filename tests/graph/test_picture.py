"""The picture of a plan shows each launch, each operation, and each array between them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import nn
from fireiron.graph.flow import flow
from fireiron.graph.words import described, names_of
from tests.show.test_legible import complaints


def perceptron(x: Any, w1: Any, w2: Any, gain: Any, shift: Any) -> Any:
    hidden = nn.gelu(x @ w1)
    return nn.layer_norm(hidden @ w2 + x, gain, shift), nn.softmax(hidden)


def heads(q: Any, k: Any, v: Any) -> Any:
    return nn.attention(q, k, v)


def left_over(x: Any) -> Any:
    return np.cumsum(np.tanh(x), axis=1) + x.T, x


def block(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, gain: Any, up: Any, down: Any) -> Any:
    def split(w: Any) -> Any:
        return (x @ w).reshape(2, 16, 2, -1).transpose(0, 2, 1, 3)

    seen = nn.attention(split(wq), split(wk), split(wv))
    y = x + seen.transpose(0, 2, 1, 3).reshape(x.shape) @ wo
    return y + nn.gelu(nn.rms_norm(y, gain) @ up) @ down


GRAPHS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "perceptron": (perceptron, ((64, 32), (32, 64), (64, 32), (32,), (32,))),
    "attention": (heads, ((2, 2, 32, 64),) * 3),
    "a layer of a transformer": (block, ((2, 16, 32), *[(32, 32)] * 4, (32,), (32, 64), (64, 32))),
    "left to the library": (left_over, ((32, 32),)),
}


def planned(name: str) -> Any:
    function, shapes = GRAPHS[name]
    return fi.trace_graph(function, *shapes).plan("sm_80")


@pytest.mark.parametrize("name", GRAPHS)
def test_it_can_be_read_in_both_themes(name: str) -> None:
    assert complaints(planned(name).picture()) == []


@pytest.mark.parametrize("name", GRAPHS)
def test_each_launch_operation_and_array_is_there(name: str) -> None:
    plan = planned(name)
    names, nodes = names_of(plan.graph), plan.graph.nodes
    root = ElementTree.fromstring(plan.picture().svg("light"))
    written = [each.text or "" for each in root.iter() if each.tag.endswith("text")]
    tips = [each.text or "" for each in root.iter() if each.tag.endswith("title")]
    for number, launch in enumerate(plan.launches):
        assert sum(text.startswith(f"{number} ") for text in written) == 1
        for i in launch.part.nodes:
            assert sum(tip.startswith(f"{names[i]} = ") for tip in tips) == 1
        for i in launch.part.outputs:
            assert f"{names[i]}{described(nodes[i])}" in written
    for i in plan.graph.inputs:
        assert f"{names[i]}{described(nodes[i])}" in written
    assert sum(text.startswith("returned: ") for text in written) == len(plan.graph.outputs)
    assert str(plan.picture()) == plan.explain()


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_are_those_of_the_graph(name: str) -> None:
    """Along the edges, over the places that only pass an array on, each operation is reached from what it reads."""
    plan = planned(name)
    for launch in plan.launches:
        found = flow(plan.graph, launch.part)
        inside = set(launch.part.nodes)
        came: dict[int, set[int]] = {}
        for (row, place), (below, target) in found.edges:
            assert below == row + 1
            upper, lower = found.rows[row][place], found.rows[below][target]
            if lower.passed:
                assert upper.node == lower.node
            else:
                came.setdefault(lower.node, set()).add(upper.node)
        for n in launch.part.nodes:
            direct = {i for i in plan.graph.nodes[n].inputs if i in inside or plan.graph.nodes[i].op == "input"}
            assert direct <= came.get(n, set())
        assert {place.node for place in found.rows[-1]} >= set(launch.part.outputs)
