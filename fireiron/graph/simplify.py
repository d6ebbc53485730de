"""The pass that applies the table of simplifications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from fireiron.graph.composites import Ops
from fireiron.graph.evaluate import value_of
from fireiron.graph.nodes import Builder, Graph, Node
from fireiron.graph.operations import COMMUTATIVE
from fireiron.graph.rules import FOLDS, RULES, Rule, Term, term

MOST_ROUNDS = 64


@attrs.frozen
class Match:
    """Hold a match of a rule's left side in a graph.

    Args:
        rule: the rule.
        bound: by variable, its node.
        inner: nodes of the match between its root and its leaves.
        axes: the axes that the match's folds fold, in the numbering of their operand, and whether the folded axes are
            kept with extent 1.
    """

    rule: Rule
    bound: dict[str, int]
    inner: tuple[int, ...] = ()
    axes: tuple[tuple[int, ...], bool] | None = None


def simplify(
    graph: Graph, rules: Sequence[Rule] = tuple(r for r in RULES if r.changes in ("", "nearer"))
) -> tuple[Graph, list[Rule]]:
    """Apply rules, from the outputs backwards, until no rule matches; return the graph and the applied rules.

    A rule that adds an operation is not applied where other nodes read a node inside the match.

    Example:
        >>> from fireiron.graph.trace import trace_graph
        >>> graph, applied = simplify(trace_graph(lambda x: -(-(x + 0)) * 1, (8,), name="g"))
        >>> print(graph, *applied, sep=chr(10))
        g(x[8].f32)
          return x
        A * 1 = A
        -(-A) = A
        A + 0 = A
    """
    applied: list[Rule] = []
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        by_op.setdefault(term(rule.left).op, []).append(rule)
    for _ in range(MOST_ROUNDS):
        found = _matches(graph, by_op)
        if not found:
            break
        applied += [match.rule for match in found.values()]
        graph = _replaced(graph, found)
    return graph, applied


def _matches(graph: Graph, by_op: dict[str, list[Rule]]) -> dict[int, Match]:
    """Find matches that do not overlap; later nodes come first."""
    found: dict[int, Match] = {}
    taken: set[int] = set()
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        if number in taken or node.dtype.kind != "float":
            continue
        for rule in by_op.get(node.op, ()):
            match = _matched(graph, number, rule)
            if match is not None and not taken & set(match.inner):
                found[number] = match
                taken |= {number, *match.inner}
                break
    return found


def _matched(graph: Graph, number: int, rule: Rule) -> Match | None:
    right = term(rule.right)
    for match in _at(graph, number, term(rule.left), Match(rule, {}), root=True):
        new = right.op not in ("any", "value")
        outside = any(len(graph.users[i]) > 1 or i in graph.returned for i in match.inner)
        if new and outside:
            continue
        return match
    return None


def _at(graph: Graph, number: int, pattern: Term, so_far: Match, root: bool = False) -> Iterator[Match]:
    """Yield the matches of a term at a node, with commutative operands in each order."""
    node = graph.nodes[number]
    if pattern.op == "any":
        if so_far.bound.get(pattern.name, number) == number:
            yield attrs.evolve(so_far, bound={**so_far.bound, pattern.name: number})
        return
    if pattern.op in ("number", "value"):
        if node.op != "constant":
            return
        if pattern.op == "number":
            yield attrs.evolve(so_far, bound={**so_far.bound, pattern.name: number})
        elif node["value"] == pattern.value:
            yield so_far
        return
    if node.op != pattern.op:
        return
    if not root:
        so_far = attrs.evolve(so_far, inner=(*so_far.inner, number))
    if pattern.op in FOLDS:
        joined = _axes(node, so_far)
        if joined is None or (so_far.axes is not None and _reads_folds(graph, number)):
            return
        so_far = attrs.evolve(so_far, axes=joined)
    orders = [node.inputs]
    if node.op in COMMUTATIVE:
        orders.append(node.inputs[::-1])
    for inputs in orders:
        yield from _parts(graph, list(zip(inputs, pattern.parts, strict=True)), so_far)


def _reads_folds(graph: Graph, fold: int) -> bool:
    """Say whether a fold reads points that depend on folds of the same rows, which belong to one kernel with it.

    Example:
        >>> from fireiron import nn
        >>> from fireiron.graph.trace import trace_graph
        >>> for f in (lambda x: (x + 1).sum(1).sum(), lambda x: (nn.softmax(x) * x).sum(1).sum()):
        ...     print(sum(node.kind == "fold" for node in trace_graph(f, (4, 8)).optimised().nodes))
        1
        4
    """
    left, seen = list(graph.nodes[fold].inputs), set[int]()
    while left and len(seen) < MOST_ROUNDS:
        n = left.pop()
        if n in seen:
            continue
        seen.add(n)
        node = graph.nodes[n]
        if node.kind == "fold" and node["axes"] == graph.nodes[fold]["axes"]:
            return True
        left += node.inputs if node.kind in ("pointwise", "view") else ()
    return False


def _parts(graph: Graph, pairs: list[tuple[int, Term]], so_far: Match) -> Iterator[Match]:
    if not pairs:
        yield so_far
        return
    (number, pattern), *rest = pairs
    for match in _at(graph, number, pattern, so_far):
        yield from _parts(graph, rest, match)


def _axes(node: Node, so_far: Match) -> tuple[tuple[int, ...], bool] | None:
    """Combine the axes of a fold with those of the fold that reads it, in the numbering of the inner fold's operand."""
    mine, keep = tuple(node["axes"]), bool(node["keepdims"])
    if so_far.axes is None:
        return mine, keep
    outer, outer_keep = so_far.axes
    if keep != outer_keep:
        return None
    rank = len(node.shape) + (0 if keep else len(mine))
    left = [a for a in range(rank) if keep or a not in mine]
    return tuple(sorted({*mine, *(left[a] for a in outer)})), keep


def _replaced(graph: Graph, found: dict[int, Match]) -> Graph:
    b, new = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        match = found.get(number)
        if match is None:
            new[number] = b.copy(node, tuple(new[i] for i in node.inputs))
            continue
        made = _built(b, term(match.rule.right), {name: new[i] for name, i in match.bound.items()}, match, node)
        new[number] = fitted(b, made, node)
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _built(b: Builder, t: Term, bound: dict[str, int], match: Match, root: Node) -> int:
    """Add the nodes of a rule's right side to a graph."""
    if t.op in ("any", "number"):
        return bound[t.name]
    if t.op == "value":
        return b.constant(t.value, root.dtype)
    inputs = [_built(b, part, bound, match, root) for part in t.parts]
    if t.op in FOLDS:
        assert match.axes is not None
        axes, keepdims = match.axes
        return b.add(t.op, *inputs, axes=axes, keepdims=keepdims)
    number = b.add(t.op, *inputs)
    if all(b.nodes[i].op == "constant" for i in inputs):  # a number of numbers
        made: Any = value_of(b.nodes[number], [value_of(b.nodes[i], ()) for i in inputs])
        return b.constant(made.item(), b.nodes[number].dtype)
    return number


def fitted(b: Builder, number: int, like: Node) -> int:
    """Convert a replacement to the type and shape of the replaced node; a number is broadcast."""
    o = Ops(b)
    made = o.like(number, like.dtype)
    return made if o.shape(made) == like.shape else o.broadcast(made, shape=like.shape)
