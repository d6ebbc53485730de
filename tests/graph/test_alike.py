"""Parts that are alike are planned once, and what the model decided is kept on disk."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fireiron import nn, trace_graph
from fireiron.graph import plan as planning
from fireiron.graph import row_parts
from fireiron.graph.alike import form_of
from fireiron.graph.dims import free_nodes
from fireiron.graph.nodes import Graph
from fireiron.graph.partition import partition
from fireiron.graph.views import materialised, outputs_apart, views_of
from tests.graph.test_plan import ARCH, close, half, kinds


def layers(x: Any, g: Any, *matrices: Any) -> Any:
    for matrix in matrices:
        x = nn.layer_norm(nn.relu(x @ matrix.T), g)
    return x


def network(count: int = 3) -> Graph:
    return trace_graph(layers, half(16, 64), half(64), *[half(64, 64)] * count)


def test_equal_layers_are_lowered_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    calls: list[str] = []
    lowered = planning.lowered

    def counted(graph: Graph, part: Any, *rest: Any) -> Any:
        calls.append(part.kind)
        return lowered(graph, part, *rest)

    monkeypatch.setattr(planning, "lowered", counted)
    graph = network()
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["product rows"] * 3
    assert calls.count("product rows") == 2  # the last layer's result is an output of the graph
    close(plan, graph, 3e-3)
    calls.clear()
    assert kinds(graph.plan(ARCH)) == ["product rows"] * 3
    assert not calls  # the disk holds the launches


@pytest.mark.parametrize("count", [3, 12])
def test_further_layers_cost_nothing(count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each distinct part is lowered once, however many layers there are."""
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    calls: list[tuple[str, int]] = []
    lowered = planning.lowered

    def counted(graph: Graph, part: Any, *rest: Any) -> Any:
        calls.append((part.kind, len(part.nodes)))
        return lowered(graph, part, *rest)

    monkeypatch.setattr(planning, "lowered", counted)
    plan = network(count).plan(ARCH)
    assert len(plan.kernels) == count
    assert len(calls) == 6  # for the last layer and the others: one kernel, or a product and a norm


def test_a_set_of_operations_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[frozenset[int]] = []
    real = row_parts._are_rows

    def counted(areas: Any, inside: set[int]) -> bool:
        judged.append(frozenset(inside))
        return real(areas, inside)

    monkeypatch.setattr(row_parts, "_are_rows", counted)
    partition(network(12).optimised())
    assert len(judged) == len(set(judged)) > 12


def test_a_kept_decision_says_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    graph = trace_graph(lambda x, w, u: (x @ w.T, x @ u.T), half(12288, 768), half(768, 768), half(768, 768))
    first = graph.plan(ARCH)

    def never(*_: object) -> Any:
        raise AssertionError("the model decides again")

    monkeypatch.setattr(planning, "_faster", never)
    again = graph.plan(ARCH)
    assert kinds(again) == kinds(first) == ["product", "product"]
    assert again.explain() == first.explain()


def test_what_differs_is_not_alike() -> None:
    def four(x: Any, w: Any, u: Any, v: Any) -> Any:
        a, b, c = x @ w, active(x @ u), x.swapaxes(0, 1) @ v
        return a, b, c, active(x)

    def active(x: Any) -> Any:
        return nn.silu(x)

    made, orders = materialised(outputs_apart(trace_graph(four, *[half(32, 32)] * 4).optimised()))
    views = {i: view for i, view in views_of(made, orders).items() if view is not None}
    forms = [form_of(made, part, views, free_nodes(made)).key for part in partition(made)]
    assert len(set(forms)) == len(forms) > 2
