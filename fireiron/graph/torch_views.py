"""Results of torch's graphs that view an input: they are the caller's memory, and no kernel copies them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import attrs

from fireiron.graph.torch_nodes import name_of
from fireiron.graph.torch_operators import KNOWN, VIEWS

torch: Any = import_module("torch")


def base_of(node: Any) -> Any:
    """Return the node whose memory a view shows, or the node itself if it is no view."""
    while node.op == "call_function" and len(node.all_input_nodes) == 1:
        source = node.args[0]
        part = node.target is operator.getitem and name_of(source).startswith("split")
        name = name_of(source if part else node)
        if not part and KNOWN.get(name) not in VIEWS and name not in ("alias", "detach"):
            break
        node = source.args[0] if part else source
    return node


def input_of(node: Any) -> Any:
    """Return the input of the graph that a node is, or is a view of; None for results of operations."""
    base = base_of(node)
    return base if base.op == "placeholder" else None


@attrs.frozen
class Seen:
    """Make a result of the graph that is a view of an input.

    Args:
        place: position of the input.
        steps: torch's view operators, with their arguments after the tensor.
        sized: whether these arguments depend on the inputs' shapes.
    """

    place: int
    steps: tuple[tuple[Any, Sequence[Any], Mapping[str, Any]], ...]
    sized: bool

    def __call__(self, given: Sequence[Any]) -> Any:
        """Return the view of a call's input."""
        found = given[self.place]
        for target, args, named in self.steps:
            found = target(found, *args, **named)
        return found


def seen_by(node: Any, inputs: Sequence[Any], known: Mapping[Any, Any]) -> Seen:
    """Describe a node that is a view of an input."""
    base, chain, sized = input_of(node), list[Any](), False
    while node is not base:
        args, named = torch.fx.node.map_arg((node.args[1:], node.kwargs), lambda n: known[n])
        sized |= len(node.all_input_nodes) > 1
        chain.append((node.target, args, named))
        node = node.args[0]
    return Seen(inputs.index(base), tuple(reversed(chain)), sized)
