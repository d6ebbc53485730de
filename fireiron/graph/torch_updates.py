"""Inputs that a graph of torch writes: lines of a cache in place; other new values are copied to them behind the plan.

A step of a language model writes keys and values of one word to its cache. As an operator without side effects, this
gives a whole new cache.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fireiron.graph.torch_nodes import name_of

torch: Any = import_module("torch")

IN_PLACE = "fireiron_in_place"  # the mark of calls whose result may take the memory of an input


def results_for_inputs(module: Any) -> tuple[int, ...]:
    """Make the values that a graph writes to its inputs further results, and mark those that may be written in place.

    In place are lines that replace others in an input, if no other call reads the input: calls then read the new value.

    Args:
        module: torch's graph, which changes.

    Returns:
        The position of the input for each further result.
    """
    graph = module.graph
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    (output,) = (n for n in graph.nodes if n.op == "output")
    found: list[tuple[Any, Any]] = []
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target is torch.ops.aten.copy_.default]:
        target, value = node.args[:2]
        if target not in inputs or any(u is not output for u in node.users):
            continue
        if _replaces_lines(target, value, node):
            value.meta[IN_PLACE] = True
        node.replace_all_uses_with(value)
        graph.erase_node(node)
        found.append((target, value))
    if found:
        output.args = ((*output.args[0], *(value for _, value in found)),)
        module.recompile()
    return tuple(inputs.index(target) for target, _ in found)


def _replaces_lines(target: Any, value: Any, write: Any) -> bool:
    """Say whether a value is an input with some lines replaced, and no other call reads the input."""
    called = isinstance(value, torch.fx.Node) and name_of(value) == "index_put"
    if not called or value.args[0] is not target or set(target.users) != {value, write}:
        return False
    readers = [u for u in value.users if u is not write]
    adds = len(value.args) > 3 and value.args[3]
    return bool(readers) and all(u.op != "output" for u in readers) and not adds and target.meta["val"].is_contiguous()


def copied(inputs: Sequence[Any], values: Sequence[Any]) -> None:
    """Copy values to the inputs of a call; None stands for a value that was written in place."""
    for target, value in zip(inputs, values, strict=True):
        if value is not None:
            target.copy_(value)
