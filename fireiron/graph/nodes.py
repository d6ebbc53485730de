"""Graphs of tensor operations: immutable nodes in order, each of which names its inputs by their numbers.

A pass makes another graph, without nodes that no output needs. Shapes are numbers: each set of shapes has a
graph of its own.
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
    """Hold the elements of a constant array: compared by value.

    Args:
        content: the bytes.
        shape: the extents.
        dtype: element type.
    """

    content: bytes
    shape: Shape
    dtype: DType

    @classmethod
    def of(cls, array: Any, dtype: DType) -> Data:
        """Copy an array."""
        import numpy as np

        return cls(np.ascontiguousarray(array, dtype.numpy).tobytes(), tuple(array.shape), dtype)

    @property
    def array(self) -> Any:
        """View the elements as an array."""
        import numpy as np

        return np.frombuffer(self.content, self.dtype.numpy).reshape(self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@attrs.frozen
class Node:
    """Hold one operation of a graph.

    Args:
        op: its name among `fireiron.graph.operations`.
        inputs: numbers of earlier nodes.
        attributes: names and values, in order of the names.
        shape: of the result.
        dtype: of the result.
        name: the user's name for it; "" if there is none.
    """

    op: str
    inputs: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...]
    shape: Shape
    dtype: DType
    name: str = attrs.field(default="", eq=False)

    @property
    def operation(self) -> Operation:
        """Give the operation's record."""
        return operations()[self.op]

    @property
    def kind(self) -> str:
        """Give the operation's kind."""
        return self.operation.kind

    @property
    def size(self) -> int:
        """Count the elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def nbytes(self) -> int:
        """Count the bytes of the elements."""
        return self.dtype.nbytes_of(self.size)

    def __getitem__(self, name: str) -> Any:
        """Give an attribute.

        Raises:
            KeyError: where there is none of the name.
        """
        return dict(self.attributes)[name]


@attrs.frozen
class Graph:
    """Compute outputs from inputs by operations.

    Args:
        name: its name in plans and prints.
        nodes: in an order in which each follows its inputs.
        inputs: numbers of the nodes that a call gives, in its order.
        outputs: numbers of the nodes that a call returns.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """List for each node the nodes that read it, each once."""
        found: list[dict[int, None]] = [{} for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for i in node.inputs:
                found[i][number] = None
        return tuple(tuple(each) for each in found)

    @property
    def ops(self) -> int:
        """Count the nodes that are operations: no inputs and no constants."""
        return sum(node.kind != "source" for node in self.nodes)

    def evaluate(self, *arrays: Any, rounded: bool = False) -> Any:
        """Compute the outputs in NumPy, floats in f64: what plans are compared with.

        Args:
            arrays: one for each input.
            rounded: whether each node's result is rounded to its type, as operators that run one by one do.

        Raises:
            CallError: `graph-inputs`.
        """
        from fireiron.graph.evaluate import evaluate

        try:
            return evaluate(self, arrays, rounded)
        except FireironError as error:
            raise error.located(here()) from None

    def optimised(self, **rules: bool) -> Graph:
        """Expand composites and simplify, as `plan` does first; see `passes`."""
        return self.passes(**rules).graph

    def passes(self, **rules: bool) -> Passed:
        """Run the passes, and keep what each did.

        Args:
            rules: kinds of simplification that are off by default, by name: `rounding`, `range`.

        Raises:
            UsageError: `graph-rules`.
        """
        from fireiron.graph.passes import run

        try:
            return run(self, rules)
        except FireironError as error:
            raise error.located(here()) from None

    def plan(self, arch: str | None = None, strict: bool = False, dependent: bool = False, **rules: bool) -> Plan:
        """Make a plan of kernels that computes the graph; it is called with arrays.

        Args:
            arch: the target; the GPU's where None.
            strict: whether an operation that no kernel computes is an error.
            dependent: whether a kernel begins while the one before it ends (programmatic dependent launch), from
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
            return plan(self, arch, strict, dependent, (), None, **rules)
        except FireironError as error:
            raise error.located(here()) from None

    def __str__(self) -> str:
        from fireiron.graph.words import graph_in_words

        return graph_in_words(self)


class Builder:
    """Collect nodes: each operation is added after its inputs, and its shape and type are computed.

    Equal nodes are kept once where `shared` says so.

    Args:
        shared: whether an equal node is added again.
    """

    def __init__(self, shared: bool = False) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self._known: dict[Node, int] | None = {} if shared else None

    def input(
        self, name: str, shape: Shape, dtype: DType, fixed: bool = False, order: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> int:  # fmt: skip
        """Add an input.

        Args:
            name: of the input.
            shape: its extents.
            dtype: element type.
            fixed: whether operations on it and on other fixed inputs alone run once, until their elements change.
            order: its axes in the order of its memory, the last one contiguous; as in the shape where None.
            strides: in elements, where they lie apart, as parts of a wider array do; 0 for axes of one element.
        """
        attributes = (
            ("dtype", dtype), *((("fixed", True),) if fixed else ()), ("number", len(self.inputs)),
            *(() if order is None else (("order", order),)), ("shape", shape),
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
            SpecError: `graph-shape` where inputs do not fit it; `graph-axis`; `graph-arity`.
        """
        known = operations()[op]
        if not known.least <= len(inputs) <= known.most:
            raise SpecError(
                "graph-arity", f"{op} of {count(len(inputs), 'array')}", fix=f"give {known.least} to {known.most}"
            )
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
        return self._push(attrs.evolve(node, inputs=inputs))

    def _push(self, node: Node) -> int:
        if self._known is not None and node.kind != "foreign":
            found = self._known.get(node)
            if found is not None:
                return found
            self._known[node] = len(self.nodes)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def graph(self, name: str, outputs: Sequence[int]) -> Graph:
        """Finish a graph; nodes that no output needs are left out, inputs are kept."""
        needed = {*self.inputs, *outputs}
        for number in range(len(self.nodes) - 1, -1, -1):
            if number in needed:
                needed.update(self.nodes[number].inputs)
        kept = [i for i in range(len(self.nodes)) if i in needed]
        new = {old: at for at, old in enumerate(kept)}
        nodes = tuple(attrs.evolve(self.nodes[i], inputs=tuple(new[j] for j in self.nodes[i].inputs)) for i in kept)
        return Graph(name, nodes, tuple(new[i] for i in self.inputs), tuple(new[i] for i in outputs))


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


Rewrite = Callable[[Builder, Node, tuple[int, ...]], "int | None"]


def rewritten(graph: Graph, change: Rewrite, shared: bool = False) -> Graph:
    """Make a graph node by node.

    Args:
        graph: the one before.
        change: gives the number of what replaces a node whose inputs are replaced already; None keeps the node.
        shared: whether equal nodes are kept once.
    """
    b, new = Builder(shared), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        inputs = tuple(new[i] for i in node.inputs)
        found = change(b, node, inputs)
        new[number] = b.copy(node, inputs) if found is None else found
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def scalars(graph: Graph) -> Mapping[int, float]:
    """Give the numbers of the nodes that are constants."""
    return {i: node["value"] for i, node in enumerate(graph.nodes) if node.op == "constant"}
