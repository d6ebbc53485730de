"""The table of simplifications: each rule holds on drawn inputs, and is applied where its pattern lies."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fireiron import nn, trace_graph
from fireiron.algebra.dtypes import f32
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.operations import operations
from fireiron.graph.plan import plan
from fireiron.graph.rules import FOLDS, RULES, Rule, Term, term
from fireiron.graph.simplify import simplify

SHAPE = (3, 4, 5)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3e38, 1e-38, 2.0], np.float32)


def built(rule: Rule, numbers: dict[str, float]) -> Graph:
    """Make the graph of a rule's left side; folds fold axis 1, then what is axis 0."""
    b, inputs = Builder(), dict[str, int]()
    names = sorted({*re.findall(r"\b[A-D]\b", rule.left)})
    for name in names:
        inputs[name] = b.input(name, SHAPE, f32)

    def add(t: Term) -> int:
        if t.op == "any":
            return inputs[t.name]
        if t.op in ("number", "value"):
            return b.constant(numbers[t.name] if t.name else t.value, f32)
        parts = [add(p) for p in t.parts]
        if t.op in FOLDS:
            inner = t.parts[0].op not in FOLDS
            return b.add(t.op, *parts, axes=(1,) if inner else (0,), keepdims=False)
        return b.add(t.op, *parts)

    return b.graph("rule", [add(term(rule.left))])


def drawn(rule: Rule, seed: int) -> tuple[dict[str, float], list[Any]]:
    """Draw numbers and arrays: for exact rules special values too, for others what lies inside all domains."""
    rng = np.random.default_rng(seed)
    names = sorted({*re.findall(r"\b[A-D]\b", rule.left)})
    if rule.changes in ("", "nearer"):
        arrays = [
            np.where(rng.random(SHAPE) < 0.5, rng.choice(SPECIAL, SHAPE), rng.standard_normal(SHAPE)) for _ in names
        ]
    elif rule.changes == "rounding" and not re.search("log|sqrt", rule.left):
        arrays = [rng.standard_normal(SHAPE) for _ in names]
    else:
        arrays = [rng.uniform(0.5, 2, SHAPE) for _ in names]
    return {"c": float(rng.choice([-2.0, 0.75, 3.0])), "d": float(rng.choice([-0.5, 1.25]))}, arrays


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_holds(rule: Rule) -> None:
    for seed in range(3):
        numbers, arrays = drawn(rule, seed)
        graph = built(rule, numbers)
        changed, applied = simplify(graph, [rule])
        assert applied[0] == rule
        with np.errstate(all="ignore"):
            before, after = graph.evaluate(*arrays), changed.evaluate(*arrays)
        assert before.shape == after.shape
        if rule.changes or "sum" in rule.left:
            np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)
        else:
            np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("rule", [r for r in RULES if not r.changes and "**" not in r.left], ids=str)
def test_exact_rules_are_exact_in_f32(rule: Rule) -> None:
    numbers, arrays = drawn(rule, 7)
    graph = built(rule, numbers)
    changed, _ = simplify(graph, [rule])
    short = [a.astype(np.float32) for a in arrays]
    finite = [np.where(np.isfinite(a), a, 1) for a in short] if "sum" in rule.left else short

    def run(g: Graph) -> Any:
        values: list[Any] = []
        given = dict(zip(g.inputs, finite, strict=True))
        for number, node in enumerate(g.nodes):
            attributes = dict(node.attributes)
            made = (
                given[number]
                if number in given
                else operations()[node.op].numpy(*(values[i] for i in node.inputs), **attributes)
            )
            values.append(np.asarray(made, np.float32))
        return values[g.outputs[0]]

    with np.errstate(all="ignore"):
        before, after = run(graph), run(changed)
    if "sum" in rule.left:
        np.testing.assert_allclose(after, before, rtol=1e-4)
    else:
        np.testing.assert_array_equal(after, before)


def test_a_wrong_rule_is_found() -> None:
    with pytest.raises(AssertionError):
        test_a_rule_holds(Rule("A - c", "A + c"))
    with pytest.raises(AssertionError):
        test_a_rule_holds(Rule("A * 0", "0"))  # it is said to keep every bit, and NaN * 0 is NaN


def test_rules_of_the_table_are_written_once() -> None:
    assert len({rule.left for rule in RULES}) == len(RULES)
    assert len(RULES) >= 64


def test_what_others_read_is_not_replaced_by_a_new_operation() -> None:
    graph = trace_graph(lambda x: ((x + 1) + 2, x + 1), (8,), name="g")
    from fireiron.graph.common import share

    shared = share(graph)
    assert simplify(shared, [r for r in RULES if r.left == "(A + c) + d"])[1] == []
    # What becomes one of the pattern's leaves needs no new operation.
    twice = share(trace_graph(lambda x: (np.negative(-x), -x), (8,), name="g"))
    assert len(simplify(twice)[1]) == 1


def test_rules_that_change_something_are_off_by_default() -> None:
    graph = trace_graph(lambda x: np.exp(x) * np.exp(x + 1) / 3, (8,), name="g")
    assert graph.optimised() == graph.passes().graph
    assert [n.op for n in graph.optimised().nodes].count("exp") == 2
    assert [n.op for n in graph.optimised(range=True, rounding=True).nodes].count("exp") == 1


def test_a_number_that_replaces_an_array_is_broadcast() -> None:
    graph = trace_graph(lambda x: x - x, (8, 4), name="g").optimised(range=True)
    assert [n.op for n in graph.nodes if n.kind != "source"] == ["broadcast"]
    np.testing.assert_array_equal(graph.evaluate(np.ones((8, 4))), np.zeros((8, 4)))


OF_NUMBERS: dict[str, Any] = {
    "sum": lambda x: (x - x).sum(0), "of all": lambda x: (x - x).sum(), "min": lambda x: (x * 0 + 2).min(1),
    "mean": lambda x: (x * 0 + 2).mean(1), "beside": lambda x: x + (x - x).max(1, keepdims=True),
    "choice": lambda x: np.where(x - x > 0, x, 1.0).sum(0), "softmax": lambda x: nn.softmax(x - x),
}  # fmt: skip


@pytest.mark.parametrize("function", OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_folds_of_a_number_that_replaces_an_array_are_numbers(function: Any) -> None:
    graph, x = trace_graph(function, (8, 4), name="g"), np.arange(32, dtype="f4").reshape(8, 4)
    plan = graph.plan("sm_90a", range=True)
    assert len(plan.launches) == 1
    np.testing.assert_allclose(plan(x), graph.evaluate(x), rtol=1e-6)


def test_gelu_by_tanh_does_not_cancel() -> None:
    def gelu(x: Any) -> Any:
        return x * 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    graph = trace_graph(gelu, (64,)).optimised()
    assert not [node for node in graph.nodes if node.op == "tanh"]
    x = np.linspace(-6, -4, 64)
    wanted = x / (1 + np.exp(-2 * 0.7978845608 * (x + 0.044715 * x**3)))
    found = plan(graph)(x.astype(np.float32))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    short = x.astype(np.float32)
    assert np.abs(gelu(short) / wanted - 1).max() > 0.1  # as written, in f32
