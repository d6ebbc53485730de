"""Compute a graph in NumPy: in f64, or with each result rounded to its type, as separate operators do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fireiron.base.errors import CallError
from fireiron.base.text import count
from fireiron.graph.nodes import Graph, Node


def evaluate(graph: Graph, arrays: Sequence[Any], rounded: bool = False) -> Any:
    """Compute a graph's outputs: one array, or a tuple of arrays.

    Raises:
        CallError: `graph-inputs` where the number, shapes or types of arrays differ from the graph's inputs.
    """
    check_inputs(graph, arrays)
    values: list[Any] = []
    given = {number: array for number, array in zip(graph.inputs, arrays, strict=True)}
    for number, node in enumerate(graph.nodes):
        values.append(value_of(node, [given[number]] if number in given else [values[i] for i in node.inputs], rounded))
    made = tuple(values[i] for i in graph.outputs)
    return made if len(made) != 1 else made[0]


def value_of(node: Node, inputs: Sequence[Any], rounded: bool = False) -> Any:
    """Compute one node from the values of its inputs."""
    import numpy as np

    if node.op == "input":
        made = np.asarray(inputs[0])
    elif node.kind == "foreign":  # takes arrays of the types that the nodes have
        made = np.asarray(node.operation.numpy(*inputs, **dict(node.attributes)))
    else:
        made = np.asarray(node.operation.numpy(*inputs, **dict(node.attributes)))
    if node.dtype.kind == "float":
        return made.astype(node.dtype.numpy).astype("float64") if rounded else made.astype("float64")
    return made.astype(node.dtype.numpy)


def check_inputs(graph: Graph, arrays: Sequence[Any]) -> None:
    """Refuse arrays whose number, shapes or types differ from the graph's inputs.

    Raises:
        CallError: `graph-inputs`.
    """
    if len(arrays) != len(graph.inputs):
        raise CallError(
            "graph-inputs",
            f"{graph.name} takes {count(len(graph.inputs), 'array')}, and {len(arrays)} are given",
            fix="give an array for each: " + ", ".join(graph.nodes[i].name for i in graph.inputs),
        )
    for number, array in zip(graph.inputs, arrays, strict=True):
        node = graph.nodes[number]
        if tuple(array.shape) != node.shape:
            raise CallError(
                "graph-inputs",
                f"{node.name} has the shape {tuple(array.shape)}, and {graph.name} was traced with {node.shape}",
                fix="trace a graph for each shape",
            )
