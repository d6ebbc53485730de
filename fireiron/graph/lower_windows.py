"""Parts as convolutions with what follows them, and as pooling, by the programs of `fireiron.schedules.conv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fireiron.front.best import best
from fireiron.front.chain import FoldChain, ProgramChain
from fireiron.front.convolutions import Convolution, formula_of
from fireiron.front.pooling import Pool, specified
from fireiron.graph.areas import Part
from fireiron.graph.dims import free_nodes
from fireiron.graph.lowered import Lowered, Misfit, Operand, described, pointwise
from fireiron.graph.nodes import Graph
from fireiron.graph.operations import COMMUTATIVE, Shape
from fireiron.graph.views import View, channels_last, dense, reshaped
from fireiron.language.pointwise import Value
from fireiron.language.residual import start
from fireiron.language.specs import task_of
from fireiron.language.tensor import Tensor
from fireiron.language.traced import traced

if TYPE_CHECKING:
    from fireiron.graph.sizes import Samples


class PartWindows:
    """Write a part as a convolution with an epilog, or as a pooling; arrays have channels last."""

    def __init__(self, graph: Graph, part: Part, views: Mapping[int, View], samples: Samples | None) -> None:
        self.graph, self.part, self.views, self.samples = graph, part, views, samples
        self.free = free_nodes(graph)
        self.first = next(n for n in part.nodes if graph.nodes[n].kind == "windows")
        self.node = graph.nodes[self.first]
        self.shape = self.node.shape
        self.tensors: dict[str, Tensor] = {}
        self.operands: dict[str, Operand] = {}
        self.spoken: dict[str, str] = {}
        self.labels: dict[int, str] = {}
        self.arrays: Mapping[str, Value] = {}
        self.known: dict[int, Value | float] = {}
        self.dims: tuple[str, ...] = ()
        self.parts: Shape = ()
        self.result: Shape = ()
        self.behind = {self.first}  # what depends on the convolution
        for number in part.nodes:
            if not self.behind.isdisjoint(graph.nodes[number].inputs):
                self.behind.add(number)

    def tensor(self, number: int, name: str, shape: Shape) -> Tensor:
        """Describe an array that has all axes, whose channels lie last, in the shape that a program reads or writes."""
        view = self.views[number]
        order = channels_last(len(view.shape))
        found = reshaped(tuple(view.shape[a] for a in order), [view.strides[a] for a in order], shape)
        if found is None or view.offset * self._kind(number).nbytes % 16:
            raise Misfit("an array does not lie with channels last, from a multiple of 16 bytes on")
        strides = tuple(p if n == 1 else s for n, s, p in zip(shape, found, dense(shape), strict=True))
        made, self.operands[name] = described(view, name, self._kind(number), shape, strides, self.samples)
        return made

    def _kind(self, number: int) -> Any:
        return self.graph.nodes[self.views[number].node].dtype

    def lowered(self, arch: str) -> Lowered:
        """Choose a schedule."""
        return self._convolution(arch) if self.node.op == "conv" else self._pooling(arch)

    def _pooling(self, arch: str) -> Lowered:
        (images,) = self.node.inputs
        n, channels, *sides = self.graph.nodes[images].shape
        a = dict(self.node.attributes)
        most = self.node.op == "max_pool"
        apart = a["dilation"] if most else (1,) * len(sides)
        what = Pool("max" if most else "average", a["window"], a["stride"], a["pads"], apart, a.get("count_pad", True))
        x = self.tensor(images, "x", (n, *sides, channels))
        out = self.tensor(self.first, "y", self.last)
        result = self.operands.pop("y")
        return Lowered(best(specified(what, x, arch, out), arch), self.operands, (result,))

    @property
    def last(self) -> Shape:
        """Return the shape of the result, channels last."""
        return tuple(self.shape[a] for a in channels_last(len(self.shape)))

    def _convolution(self, arch: str) -> Lowered:
        images, filters = self.node.inputs
        kinds = {self._kind(images), self._kind(filters)}
        if len(kinds) > 1:
            raise Misfit(f"images and filters are of {' and '.join(sorted(map(str, kinds)))}")
        what = self._described(kinds.pop().name)
        formula = formula_of(what)
        dims = formula.program.dims
        self.dims, self.parts = tuple(dims["residual"].split()), what.filter_parts()
        self.result = (what.images, *what.outer, *self.parts)
        for number, name, shape in ((images, "x", formula.images), (filters, "f", formula.filters)):
            self.tensors[name], self.spoken[name] = self.tensor(number, name, shape), dims[name]
        for number in self.part.outputs:  # once before the trace, to collect the arrays that are read
            self._collect(number)
        operands = dict(self.operands)
        outs = tuple(self.tensor(i, f"out{i}", self.result) for i in self.part.outputs)
        results = tuple(self.operands[f"out{i}"] for i in self.part.outputs)

        def function(**arrays: Value) -> tuple[Value, ...]:
            self.arrays = arrays
            convolved = formula.program.function(arrays["x"], arrays["f"], **formula.options)
            self.known = {self.first: convolved}
            return tuple(self._result(i) for i in self.part.outputs)

        program = traced(function, self.spoken, self.tensors, {}, formula.program.name, outs)
        written = (out for step in program.steps for out in step.outs if out.memory == outs[0].memory)
        if any(tuple(d.name for d in out.dims) != self.dims for out in written):
            raise Misfit("an operation behind the convolution reads other values first")
        chain: ProgramChain = FoldChain(task_of(program, arch), (), start(program))
        return Lowered(best(chain, arch), operands, results)

    def _described(self, kind: str) -> Convolution:
        images, filters = (self.graph.nodes[i].shape for i in self.node.inputs)
        n, channels, *sides = images
        a = dict(self.node.attributes)
        return Convolution(
            kind, n, tuple(sides), channels, filters[0], filters[2:], a["stride"], a["pads"], a["dilation"], a["groups"]
        )

    def _result(self, number: int) -> Value:
        value = self._value(number)
        if not isinstance(value, Value):
            raise Misfit("a result that is a number")
        return value

    def _value(self, number: int) -> Value | float:
        """Write a node as an expression of the convolution and of arrays."""
        if number not in self.known:
            self.known[number] = self._made(number)
        return self.known[number]

    def _made(self, number: int) -> Value | float:
        node = self.graph.nodes[number]
        if node.op == "constant":
            return node["value"]
        if self._read(number):
            value = self.arrays[self.labels[number]]
            return value if self.spoken[self.labels[number]] != self._alone(number) else value[0]
        inputs = node.inputs
        if node.op in COMMUTATIVE:  # dims of the result have the order of the first value that is read
            inputs = tuple(sorted(inputs, key=lambda i: i not in self.behind))
        values = [self._value(i) for i in inputs]
        return values[0] if node.kind == "view" else pointwise(node.op, values, node)

    def _read(self, number: int) -> bool:
        """Say whether a node is an array that the kernel reads."""
        return number not in self.part.nodes and number not in self.free

    def _collect(self, number: int) -> None:
        node = self.graph.nodes[number]
        if number == self.first or number in self.labels or node.op == "constant":
            return
        if node.op == "iota":
            raise Misfit("an operation behind the convolution reads coordinates")
        if self._read(number):
            self._array(number)
            return
        for i in node.inputs:
            self._collect(i)

    def _alone(self, number: int) -> str:
        return f"{self.labels[number]}_one"

    def _array(self, number: int) -> None:
        """Describe an array that the epilog reads: of all points, or of those that it depends on."""
        view, name = self.views[number], f"x{len(self.tensors)}"
        self.labels[number] = name
        if view.shape == self.shape and 0 not in view.strides:
            self.tensors[name], self.spoken[name] = self.tensor(number, name, self.result), " ".join(self.dims)
            return
        lead = len(self.shape) - len(view.shape)
        order = channels_last(len(self.shape))
        shape = ((1,) * lead + view.shape, (0,) * lead + view.strides)
        extents, strides = (tuple(each[a] for a in order) for each in shape)
        kept: list[tuple[int, int, str]] = []
        for n, s, d in zip(extents[:-1], strides[:-1], self.dims, strict=False):
            kept += [(n, s, d)] if n != 1 and s != 0 else []
        if extents[-1] != 1 and strides[-1] != 0:
            names = self.dims[len(order) - 1 :]
            steps_ = dense(self.parts)
            kept += [(n, p * strides[-1], d) for n, p, d in zip(self.parts, steps_, names, strict=True)]
        self.spoken[name] = " ".join(d for _, _, d in kept) or self._alone(number)
        sizes, steps_ = tuple(n for n, _, _ in kept) or (1,), tuple(s for _, s, _ in kept) or (1,)
        self.tensors[name], self.operands[name] = described(
            view, name, self._kind(number), sizes, steps_, self.samples
        )  # fmt: skip
