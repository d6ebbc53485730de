"""Parts as products of matrices with prologs and an epilog, or as several products of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING

import attrs

from fireiron.algebra.dtypes import default_accumulator
from fireiron.front.best import best
from fireiron.front.cli.find import PRESETS
from fireiron.front.products import products as several
from fireiron.front.spec import MatMul
from fireiron.graph.areas import Part
from fireiron.graph.lowered import Lowered, Misfit, Operand, described, pointwise
from fireiron.graph.nodes import Graph
from fireiron.graph.views import View, batch_of, dense, matrix_strides, reshaped
from fireiron.language.ops import Known, save
from fireiron.language.pointwise import Op, Value, accumulator, cast_to, read
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.graph.sizes import Samples


class PartProducts:
    """Write a part as a product of matrices or batches, or as several products of one shape, with an epilog."""

    def __init__(self, graph: Graph, part: Part, views: Mapping[int, View], samples: Samples | None) -> None:
        self.graph, self.part, self.views, self.samples = graph, part, views, samples
        self.products = [n for n in part.nodes if graph.nodes[n].op == "matmul"]
        node = graph.nodes[self.products[0]]
        sides = [graph.nodes[i] for n in self.products for i in graph.nodes[n].inputs]
        kinds = {side.dtype for side in sides}
        if len(kinds) > 1:
            raise Misfit(f"the operands are of {' and '.join(sorted(map(str, kinds)))}")
        (self.kind,) = kinds
        self.outer = batch_of(graph, self.products[0])
        *lead, rows, self.columns = node.shape
        self.rows = rows if self.outer else rows * prod(lead)
        self.shape = node.shape
        self.operands: dict[str, Operand] = {}
        self.described: dict[tuple[int, tuple[int, ...]], Tensor] = {}
        self.acc = default_accumulator(self.kind)
        self.known: dict[int, Value | float] = {}

    @property
    def result(self) -> tuple[int, ...]:
        """Return the shape of the product."""
        return (*self.outer, self.rows, self.columns)

    def tensor(self, number: int, name: str, shape: tuple[int, ...]) -> Tensor:
        """Describe an operand as a tensor; each node is described once."""
        if (number, shape) in self.described:
            return self.described[number, shape]
        view = self.views[number]
        if view.shape and prod(view.shape[:-2]) == 1 < prod(shape[:-2]) and view.shape[-2:] == shape[-2:]:
            lead = shape[:-2]  # one matrix for a whole batch
            view = attrs.evolve(view, shape=shape, strides=(*[0] * len(lead), *view.strides[-2:]))
        strides = matrix_strides(view, shape)
        if strides is None:
            raise Misfit(f"{name} does not lie as a matrix")
        kind = self.graph.nodes[view.node].dtype
        found, self.operands[name] = described(view, name, kind, shape, strides, self.samples)
        self.described[number, shape] = found
        return found

    def pair(self, number: int, place: int) -> tuple[Tensor, Tensor]:
        """Describe the operands of a product."""
        a, b = self.graph.nodes[number].inputs
        depth = self.graph.nodes[a].shape[-1]
        mark = str(place) if place else ""
        left = self.tensor(self._source(a), f"a{mark}", (*self.outer, self.rows, depth))
        return left, self.tensor(self._source(b), f"b{mark}", (*self.outer, depth, self.columns))

    def _source(self, operand: int) -> int:
        """Return the array from which a prolog computes an operand, or the operand itself."""
        node = self.graph.nodes[operand]
        if operand not in self.part.nodes:
            return operand
        left, found = [operand], set[int]()
        while left:
            for i in self.graph.nodes[left.pop()].inputs:
                if i in self.part.nodes:
                    left.append(i)
                elif self.graph.nodes[i].shape == node.shape:
                    found.add(i)
        if len(found) != 1:
            raise Misfit("a prolog reads two arrays of the operand's shape")
        return found.pop()

    def prolog(self, operand: int, tensor: Tensor) -> Op | None:
        """Return the prolog of an operand, or None."""
        if operand not in self.part.nodes:
            return None
        source, shape = self._source(operand), self.graph.nodes[operand].shape
        (whole,) = (flat for (_, flat), known in self.described.items() if known is tensor)

        def op(x: Value) -> Value:
            known: dict[int, Value | float] = {source: x}

            def value(i: int) -> Value | float:
                if i not in known:
                    one = self.graph.nodes[i]
                    if one.op == "constant":
                        known[i] = one["value"]
                    elif i in self.part.nodes:
                        known[i] = pointwise(one.op, [value(j) for j in one.inputs], one)
                    else:
                        flat = _epilog_shape(one.shape, shape, whole)
                        known[i] = read(self.tensor(i, f"x{len(self.operands)}", flat))
                return known[i]

            return cast_to(value(operand), tensor.dtype)

        return op

    def value(self, number: int) -> Value | float:
        """Write a node as an expression of accumulators and arrays."""
        if number not in self.known:
            self.known[number] = self._made(number)
        return self.known[number]

    def _made(self, number: int) -> Value | float:
        one = self.graph.nodes[number]
        if one.op == "constant":
            return one["value"]
        if number in self.part.nodes:
            return pointwise(one.op, [self.value(j) for j in one.inputs], one)
        if one.op == "iota":
            raise Misfit("an epilog reads coordinates")
        shape = _epilog_shape(one.shape, self.shape, self.result)
        return read(self.tensor(number, f"x{len(self.operands)}", shape))

    def outputs(self) -> tuple[list[Tensor], list[Operand]]:
        """Describe the arrays that the kernel writes."""
        outs: list[Tensor] = []
        results: list[Operand] = []
        for place, number in enumerate(self.part.outputs):
            view, kind = self.views[number], self.graph.nodes[number].dtype
            strides = reshaped(view.shape, view.strides, self.result)
            if strides is None:
                raise Misfit("the result does not lie as a matrix")
            *lines, width = self.result
            pitch = strides[-2] if lines and lines[-1] > 1 else width
            rows = dense((*lines, max(pitch, width)))
            if any(n != 1 and s != t for n, s, t in zip(self.result, strides, rows, strict=True)):
                raise Misfit("the result does not lie in rows")
            tensor, operand = described(view, f"out{place or ''}", kind, self.result, rows, self.samples)
            outs.append(tensor)
            results.append(operand)
        return outs, results

    def values(self) -> list[Value]:
        """Return the expressions of the results, in the accumulators' type."""
        found = [self.value(i) for i in self.part.outputs]
        return [v if v.dtype == self.acc else cast_to(v, self.acc) for v in found if isinstance(v, Value)]

    def lowered(self, arch: str) -> Lowered:
        """Choose a schedule."""
        if len(self.products) > 1:
            return self._several(arch)
        left, right = self.pair(self.products[0], 0)
        self.known[self.products[0]] = accumulator(self.acc)
        outs, results = self.outputs()
        spec = MatMul(left, right, outs[0])
        for operand, tensor in zip(self.graph.nodes[self.products[0]].inputs, (left, right), strict=True):
            op = self.prolog(operand, tensor)
            spec = spec if op is None else spec.prolog(tensor, op)
        if self.part.outputs != tuple(self.products):
            first, *others = (Known(v, self.acc) for v in self.values())
            spec = spec.then(*(save(t, of=op) for t, op in zip(outs[1:], others, strict=True)), first)
        return Lowered(best(spec, arch), self.operands, tuple(results))

    def _several(self, arch: str) -> Lowered:
        outs, results = self.outputs()
        pairs = [self.pair(number, place) for place, number in enumerate(self.products)]

        def op(*sums: Value) -> tuple[Value, ...]:
            self.known |= dict(zip(self.products, sums, strict=True))
            return tuple(self.values())

        spec = several(tuple(outs), *pairs, op=op, arch=arch)
        schedule = import_module(f"{PRESETS}._programs").schedule(spec)
        return Lowered(schedule, self.operands, tuple(results))


def _epilog_shape(shape: tuple[int, ...], whole: tuple[int, ...], flat: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in which an epilog reads an array that broadcasts over the rows of a flattened product."""
    full = (1,) * (len(whole) - len(shape)) + shape
    if full == whole:
        return flat
    *lines, last = full
    if all(n == 1 for n in lines):
        return (last,)
    if last == 1 and full[:-1] == whole[:-1]:
        return (*flat[:-1], 1)
    if len(flat) == 3 and full[:-2] == whole[:-2]:
        return (flat[0], *full[-2:])
    if len(flat) == 3 and all(n == 1 for n in full[:-2]):
        return full[-2:]
    raise Misfit(f"an epilog reads {shape} over {whole}")
