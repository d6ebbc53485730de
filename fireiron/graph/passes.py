"""The passes over a graph in their order, and a record of each."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.base.errors import UsageError
from fireiron.graph.common import share
from fireiron.graph.constants import fold_constants
from fireiron.graph.expand import expand
from fireiron.graph.motion import move, raise_reshapes, raise_views, stack
from fireiron.graph.nodes import Graph
from fireiron.graph.one_hot import one_hots
from fireiron.graph.one_shape import in_one_shape
from fireiron.graph.pack import pack
from fireiron.graph.recompute import recompute
from fireiron.graph.rules import RULES, Rule
from fireiron.graph.simplify import simplify
from fireiron.graph.slices import raise_slices
from fireiron.graph.turned import by_rows, turn

MOST_ROUNDS = 16
KINDS = ("rounding", "range")


@attrs.frozen
class Pass:
    """Record what one pass did in all its rounds.

    Args:
        name: name of the pass.
        change: number of operations after the pass minus the number before.
        rules: the simplifications that it applied.
    """

    name: str
    change: int
    rules: tuple[Rule, ...] = ()


@attrs.frozen
class Passed:
    """Hold a graph before and after the passes.

    Args:
        given: the traced graph.
        graph: the graph after the passes.
        passes: records of the passes, in order.
    """

    given: Graph
    graph: Graph
    passes: tuple[Pass, ...]

    def explain(self) -> str:
        """Describe what each pass did, with the graph before and after."""
        lines = [str(self.given), ""]
        for each in self.passes:
            counted = {str(rule): each.rules.count(rule) for rule in each.rules}
            said = ", ".join(f"{text}{f' ({n} times)' if n > 1 else ''}" for text, n in counted.items())
            lines.append(f"{each.name:<22} {each.change:>+4} operations  {said}".rstrip())
        return "\n".join([*lines, "", str(self.graph)])


def run(graph: Graph, switched: Mapping[str, bool]) -> Passed:
    """Expand composites; move views, fold constants, simplify, share and pack until nothing changes; then recompute.

    Args:
        graph: the traced graph.
        switched: further kinds of rules, which may change bits of results: `rounding=True`, `range=True`.

    Raises:
        UsageError: `graph-rules`.
    """
    unknown = [name for name in switched if name not in KINDS]
    if unknown:
        raise UsageError(
            "graph-rules", f"no kind of rules is called {unknown[0]!r}", fix="use rounding=True or range=True"
        )
    allowed = ("", "nearer", *(kind for kind in KINDS if switched.get(kind)))
    rules = tuple(rule for rule in RULES if rule.changes in allowed)
    given, done = graph, dict[str, Pass]()

    def note(name: str, before: Graph, after: Graph, applied: tuple[Rule, ...] = ()) -> Graph:
        known = done.get(name)
        rules_before, change = (known.rules, known.change) if known is not None else ((), 0)
        done[name] = Pass(name, change + after.ops - before.ops, (*rules_before, *applied))
        return after

    graph = note("expand composites", graph, expand(graph))
    for _ in range(MOST_ROUNDS):
        before = graph
        graph = note("move views and casts", graph, turn(move(stack(graph))))
        graph = note("fold constants", graph, fold_constants(graph))
        made, applied = simplify(graph, rules)
        graph = note("simplify", graph, made, tuple(applied))
        graph = note("sums of one place", graph, one_hots(graph))
        graph = note("share", graph, share(graph))
        if graph == before:  # packing products needs the simplified operations after them
            graph = note("pack products", graph, pack(graph))
            if graph == before:
                break
    graph = note("move views and casts", graph, move(by_rows(graph)))
    graph = note("move views and casts", graph, share(raise_slices(raise_views(raise_reshapes(graph)))))
    if (made := in_one_shape(graph)) != graph:
        graph = note("rows in one shape", graph, share(made))
        graph = note("sums of one place", graph, share(one_hots(graph)))
    if (made := recompute(graph)) != graph:
        graph = note("recompute for folds", graph, made)
    return Passed(given, graph, tuple(done.values()))
