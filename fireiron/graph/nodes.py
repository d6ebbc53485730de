"""Graphs of tensor operations: immutable nodes in order; a node names its inputs by their numbers.

A pass makes a new graph without nodes that no output needs. Shapes are numbers, so each set of shapes has its own
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.base.text import count
from fireiron.graph.operations import Operation, Shape, operations, promoted

if TYPE_CHECKING:
    from fireiron.graph.passes import Passed
    from fireiron.graph.plan import Plan


BUNDLE = "bundle"  # the attribute of a foreign call that returns several arrays, which further calls select


@attrs.frozen(repr=False)
class Data:
    """Hold the elements of a constant array; equality compares the elements.

    Args:
        content: the elements' bytes.
        shape: the extents.
        dtype: element type.
    """

    content: bytes
    shape: Shape
    dtype: DType

    @classmethod
    def of(cls, array: Any, dtype: DType) -> Data:
        """Make the data of a constant from a copy of an array."""
        import numpy as np

        return cls(np.ascontiguousarray(array, dtype.numpy).tobytes(), tuple(array.shape), dtype)

    @property
    def array(self) -> Any:
        """View the elements as an array."""
        import numpy as np

        return np.frombuffer(self.content, self.dtype.numpy).reshape(self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@attrs.frozen(cache_hash=True)
class Node:
    """Hold one operation of a graph.

    Args:
        op: name of the operation in `fireiron.graph.operations`.
        inputs: numbers of earlier nodes.
        attributes: pairs of a name and a value, sorted by name. Example: (("axis", -1),).
        shape: shape of the result.
        dtype: element type of the result.
        name: the user's name for the node; "" without one.
    """

    op: str
    inputs: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...]
    shape: Shape
    dtype: DType
    name: str = attrs.field(default="", eq=False)

    @property
    def operation(self) -> Operation:
        """Return the record of the operation."""
        return operations()[self.op]

    @cached_property
    def kind(self) -> str:
        """Return the kind of the operation."""
        return operations()[self.op].kind

    @property
    def size(self) -> int:
        """Return the number of elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of the elements."""
        return self.dtype.nbytes_of(self.size)

    def __getitem__(self, name: str) -> Any:
        """Return an attribute.

        Raises:
            KeyError: for an unknown name.
        """
        return dict(self.attributes)[name]


@attrs.frozen
class Graph:
    """Hold a graph: nodes that compute outputs from inputs.

    Args:
        name: name of the graph in plans and prints.
        nodes: the nodes, in an order in which each comes after its inputs.
        inputs: numbers of the input nodes, in the order of a call's arrays.
        outputs: numbers of the output nodes.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """List, for each node, the nodes that read it, each once."""
        found: list[dict[int, None]] = [{} for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for i in node.inputs:
                found[i][number] = None
        return tuple(tuple(each) for each in found)

    @cached_property
    def returned(self) -> frozenset[int]:
        """Return the set of outputs."""
        return frozenset(self.outputs)

    @property
    def ops(self) -> int:
        """Return the number of operations: nodes that are neither inputs nor constants."""
        return sum(node.kind != "source" for node in self.nodes)

    def evaluate(self, *arrays: Any, rounded: bool = False) -> Any:
        """Compute the outputs in NumPy, with floats in f64, as the reference for plans.

        Args:
            arrays: one for each input.
            rounded: whether to round each node's result to its type, as separate operators do.

        Raises:
            CallError: `graph-inputs`.
        """
        from fireiron.graph.evaluate import evaluate

        try:
            return evaluate(self, arrays, rounded)
        except FireironError as error:
            raise error.located(here()) from None

    def optimised(self, **rules: bool) -> Graph:
        """Return the graph after the passes that `plan` runs first; see `passes`."""
        return self.passes(**rules).graph

    def passes(self, **rules: bool) -> Passed:
        """Run the passes; the result records what each did.

        Args:
            rules: kinds of simplification that are off by default, by name: `rounding=True` allows those that change
                roundings, `range=True` those that also change overflow, NaN, or values outside a function's domain.

        Raises:
            UsageError: `graph-rules`.
        """
        from fireiron.graph.passes import run

        try:
            return run(self, rules)
        except FireironError as error:
            raise error.located(here()) from None

    def plan(self, arch: str | None = None, strict: bool = False, dependent: bool = False, **rules: bool) -> Plan:
        """Make a plan of kernels for the graph; a call with arrays computes the outputs.

        Args:
            arch: the target; the GPU's where None.
            strict: whether an operation that no kernel computes is an error.
            dependent: whether a kernel begins while the kernel before it ends (programmatic dependent launch), from
                sm_90 on.
            rules: see `passes`.

        Raises:
            UsageError: `graph-strict`, `graph-rules`.

        Example:
            >>> import numpy as np
            >>> from fireiron.graph.trace import trace_graph
            >>> plan = trace_graph(lambda x, y: np.exp(x + y), (8, 64), (64,), name="sum").plan()
            >>> plan
            <plan of sum for sm_89: 1 kernel>
        """
        from fireiron.graph.plan import plan

        try:
            return plan(self, arch, strict, dependent, (), None, (), **rules)
        except FireironError as error:
            raise error.located(here()) from None

    def __str__(self) -> str:
        from fireiron.graph.words import graph_in_words

        return graph_in_words(self)


class Builder:
    """Collect the nodes of a new graph; each operation is added after its inputs, and its shape and type are computed.

    With `shared`, equal nodes are merged.

    Args:
        shared: whether adding a node that equals an earlier one returns the earlier one.
    """

    def __init__(self, shared: bool = False) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self._known: dict[Node, int] | None = {} if shared else None

    def input(
        self, name: str, shape: Shape, dtype: DType, fixed: bool = False, order: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None, padded: bool = False,
    ) -> int:  # fmt: skip
        """Add an input.

        Args:
            name: of the input.
            shape: its extents.
            dtype: element type.
            fixed: whether the input seldom changes. Operations on fixed inputs alone run once, and again after these
                change.
            order: its axes in the order of its memory, the contiguous axis last; None for the shape's order.
            strides: strides in elements, for an array with gaps, such as a slice; 0 for axes of extent 1.
            padded: whether the gaps behind lines, the last one too, are memory that kernels may read.
        """
        attributes = (
            ("dtype", dtype), *((("fixed", True),) if fixed else ()), ("number", len(self.inputs)),
            *(() if order is None else (("order", order),)), *((("padded", True),) if padded else ()), ("shape", shape),
            *(() if strides is None else (("strides", strides),)),
        )  # fmt: skip
        self.inputs.append(self._push(Node("input", (), attributes, shape, dtype, name)))
        return self.inputs[-1]

    def constant(self, value: float, dtype: DType) -> int:
        """Add a number."""
        number = float(value) if dtype.kind == "float" else int(value)
        exact = float(number).hex()  # tells 0 from -0
        return self._push(Node("constant", (), (("dtype", dtype), ("exact", exact), ("value", number)), (), dtype))

    def array(self, data: Data) -> int:
        """Add an array of known elements."""
        return self._push(Node("array", (), (("data", data),), data.shape, data.dtype))

    def add(self, op: str, *inputs: int, name: str = "", **attributes: Any) -> int:
        """Add an operation.

        Raises:
            SpecError: `graph-shape` where the inputs' shapes do not fit the operation; `graph-axis`; `graph-arity`.
        """
        known = operations()[op]
        if not known.least <= len(inputs) <= known.most:
            raise SpecError(
                "graph-arity", f"{op} is given {count(len(inputs), 'array')}", fix=f"give {known.least} to {known.most}"
            )
        if known.kind == "fold" and not attributes["axes"]:  # over no axes, as of an array of one number without axes
            return inputs[0]
        given = [self.nodes[i] for i in inputs]
        shape = known.shape([n.shape for n in given], attributes)
        kinds = [n.dtype for n in given]
        dtype = promoted(kinds) if known.dtype is None else known.dtype(kinds, attributes)
        ordered = tuple(sorted((k, _frozen(v)) for k, v in attributes.items()))
        return self._push(Node(op, inputs, ordered, shape, dtype, name))

    def copy(self, node: Node, inputs: tuple[int, ...]) -> int:
        """Add a node of another graph with inputs of this one."""
        if node.op == "input":
            self.inputs.append(self._push(node))
            return self.inputs[-1]
        return self._push(_reading(node, inputs))

    def _push(self, node: Node) -> int:
        if self._known is not None and node.kind != "foreign":
            found = self._known.get(node)
            if found is not None:
                return found
            self._known[node] = len(self.nodes)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def graph(self, name: str, outputs: Sequence[int]) -> Graph:
        """Return the finished graph, without nodes that no output needs; inputs are kept."""
        needed = {*self.inputs, *outputs}
        for number in range(len(self.nodes) - 1, -1, -1):
            if number in needed:
                needed.update(self.nodes[number].inputs)
        kept = [i for i in range(len(self.nodes)) if i in needed]
        new = {old: at for at, old in enumerate(kept)}
        nodes = tuple(_reading(self.nodes[i], tuple(new[j] for j in self.nodes[i].inputs)) for i in kept)
        return Graph(name, nodes, tuple(new[i] for i in self.inputs), tuple(new[i] for i in outputs))


def _reading(node: Node, inputs: tuple[int, ...]) -> Node:
    """Return a node with other inputs; the node itself, whose hash is known, where they are equal."""
    if inputs == node.inputs:
        return node
    return Node(node.op, inputs, node.attributes, node.shape, node.dtype, node.name)


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


Rewrite = Callable[[Builder, Node, tuple[int, ...]], "int | None"]


def rewritten(graph: Graph, change: Rewrite, shared: bool = False) -> Graph:
    """Make a new graph by visiting the nodes of another.

    Args:
        graph: the other graph.
        change: called with each node, whose inputs are numbers in the new graph; returns the number of a replacement,
            or None to keep the node.
        shared: whether equal nodes are merged.
    """
    b, new = Builder(shared), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        inputs = tuple(new[i] for i in node.inputs)
        found = change(b, node, inputs)
        new[number] = b.copy(node, inputs) if found is None else found
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def scalars(graph: Graph) -> Mapping[int, float]:
    """Return the values of the nodes that are numbers, by node."""
    return {i: node["value"] for i, node in enumerate(graph.nodes) if node.op == "constant"}
