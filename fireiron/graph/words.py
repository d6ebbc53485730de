"""Print a graph: a line for each node, as it would be written in NumPy."""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

from fireiron.algebra.dtypes import DType
from fireiron.graph.nodes import Graph, Node

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**", "floor_divide": "//", "remainder": "%",
    "lt": "<", "le": "<=", "eq": "==",
}  # fmt: skip


def names_of(graph: Graph) -> tuple[str, ...]:
    """Name each node: inputs by the user's names, numbers by their values, other nodes by their positions."""
    found: list[str] = []
    taken: set[str] = set()
    place = 0
    for node in graph.nodes:
        if node.op == "constant":
            found.append(f"{node['value']:g}" if node.dtype.kind == "float" else str(node["value"]))
            continue
        name = node.name
        if not name or name in taken:
            place += 1
            name = f"%{place}"
        taken.add(name)
        found.append(name)
    return tuple(found)


def expression(node: Node, names: tuple[str, ...]) -> str:
    """Write a node as an expression of its inputs."""
    given = [names[i] for i in node.inputs]
    if node.op in SIGNS:
        return f"{given[0]} {SIGNS[node.op]} {given[1]}"
    op, left = node.op, dict(node.attributes)
    if op == "foreign":
        op = str(left.pop("label"))
    rest = [f"{k}={_value(v)}" for k, v in left.items() if op != "input" and not k.startswith("call")]
    hidden = {"foreign": ("call", "shape", "dtype", "pure", "order")}.get(node.op, ())
    rest = [text for text in rest if text.split("=")[0] not in hidden]
    return f"{op}({', '.join([*given, *rest])})"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))}{',' if len(value) == 1 else ''})"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(value) if isinstance(value, DType) else f"{value:g}" if isinstance(value, float) else repr(value)


def described(node: Node) -> str:
    """Write a node's shape and element type."""
    return f"[{', '.join(map(str, node.shape))}].{node.dtype}"


def graph_in_words(graph: Graph) -> str:
    """Print a graph: its inputs, a line for each node, and its outputs."""
    names = names_of(graph)
    inputs = ", ".join(f"{names[i]}{described(graph.nodes[i])}" for i in graph.inputs)
    lines: list[tuple[str, str, str]] = []
    for number, node in enumerate(graph.nodes):
        if node.op not in ("input", "constant"):
            lines.append((names[number], expression(node, names), described(node)))
    wide = max((len(name) for name, _, _ in lines), default=0)
    long = max((len(text) for _, text, _ in lines), default=0)
    body = [f"  {name:<{wide}} = {text:<{long}}  {shape}" for name, text, shape in lines]
    return "\n".join([f"{graph.name}({inputs})", *body, f"  return {', '.join(names[i] for i in graph.outputs)}"])
