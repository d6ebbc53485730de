"""Parts as programs: rows, points, attention, and products whose rows are folded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from math import e as EULER
from math import inf, log2, prod
from typing import TYPE_CHECKING, Literal, cast

import attrs

from fireiron.algebra.dtypes import f32
from fireiron.base.errors import FireironError
from fireiron.front.best import best
from fireiron.front.chain import FoldChain, ProgramChain
from fireiron.graph.areas import Part
from fireiron.graph.dims import Dims, dims_of, free_nodes
from fireiron.graph.lowered import Lowered, Misfit, Operand, computed, described, pointwise
from fireiron.graph.motion import widens
from fireiron.graph.nodes import Graph, Node
from fireiron.graph.one_hot import chosen_of
from fireiron.graph.operations import PLACES
from fireiron.graph.views import VECTOR_NBYTES, View, has_padding, lies, room
from fireiron.language import einsum, reductions, steps, subscripts, trace, traced
from fireiron.language.pointwise import Value, cast_to, unary, where
from fireiron.language.residual import start
from fireiron.language.specs import task_of
from fireiron.language.statistics import exponential_of_difference
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.graph.sizes import Samples

_FOLDS: Mapping[str, Callable[..., Value]] = {
    "sum": reductions.sum,
    "max": reductions.max,
    "min": reductions.min,
    "prod": reductions.prod,
}
_PLACES: Mapping[str, Callable[..., Value]] = {"argmax": reductions.argmax, "argmin": reductions.argmin}
COSTLY = frozenset({"exp", "exp2", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "tanh", "erf", "div", "pow"})
# Each element of a concatenation compares its place with those of the parts. On an H200 a GELU behind 2, 3 and 4 parts
# took 0.47 to 0.87 of the time of two launches, behind 6 parts 0.98 to 1.3, behind 8 up to 1.5.
MOST_PARTS = 4
# Of concatenations alone: 2 parts take 0.95 to 0.99 of the library's time, 3 and 4 parts up to 1.2.
LARGE_NBYTES = 4 << 20
ONE = "one"  # the dim of a result without axes
LOG2E = log2(EULER)


class PartProgram:
    """Write a part as a program."""

    def __init__(self, graph: Graph, part: Part, views: Mapping[int, View], samples: Samples | None) -> None:
        self.samples = samples
        self.free = free_nodes(graph)
        lines = part.kind in ("rows", "reduction")
        found = dims_of(graph, part.nodes, self.free, twice=part.kind == "attention", alike=lines)
        if found is None:
            raise Misfit("two axes of one array are one dim")
        self.graph, self.part, self.views = graph, part, views
        self.inside = set(part.nodes)
        self.dims: Dims = found
        self.tensors: dict[str, Tensor] = {}
        self.spoken: dict[str, str] = {}
        self.operands: dict[str, Operand] = {}
        self.targets: dict[int, Operand] = {}  # by node, the arrays of which elements are written
        self.scalars: set[str] = set()
        self.known: dict[tuple[int, tuple[str | None, ...]], Value | float] = {}
        self.tops: dict[int, tuple[Value | None, Value, Value]] = {}  # see _top
        self.labels: dict[tuple[int, tuple[str | None, ...]], str] = {}
        self.roles: dict[tuple[int, str | None], str] = {}  # by node and its last dim
        self.alone: Mapping[str, tuple[str, ...]] = {}  # by role: the dims of extent 1
        self.rename: dict[str, str] = {}
        self.summed: set[int] = set()  # what is computed of a product, ahead of the folds of its rows
        self.merged: dict[str, str] = {}  # an outer dim, and the dim that counts the lines of both
        if part.kind == "attention":
            self._attention()
        if part.kind == "product rows":
            self.summed = self._ahead_of_folds()
            (product,) = (n for n in part.nodes if graph.nodes[n].op == "matmul")
            lines = [d for d in self.dims.names[product][:-1] if d is not None]
            for outer, inner in reversed(list(pairwise(lines))):
                if not self._one_line(outer, inner):
                    break
                self.merged[outer] = lines[-1]
        if part.kind == "pointwise" and {graph.nodes[n].op for n in part.nodes} == {"copy"}:
            # A copy moves axes: those that keep their neighbours are one, so that matrices are transposed.
            lines = [d for d in self.dims.names[part.outputs[0]] if d is not None]
            for outer, inner in reversed(list(pairwise(lines))):
                if self._one_line(outer, inner):
                    self.merged[outer] = self.merged.get(inner, inner)
        self.wide = {} if self.merged else self._widened()
        self.chosen: set[int] | None = set()  # sums that read the one place which they choose; None if none may

    def _widened(self) -> dict[str, int]:
        """Choose wider extents for dims of odd extent whose lines are padded in all arrays: whole vectors are read.

        Folds leave the padding out; what is written there has no reader.
        """
        graph, part, names = self.graph, self.part, self.dims.names
        kinds = {graph.nodes[n].kind for n in part.nodes if graph.nodes[n].op != "copy"}
        if part.kind not in ("rows", "reduction", "pointwise") or self.samples is not None:
            return {}
        found: dict[str, int] = {}
        for dim, extent in self.dims.extents.items() if kinds <= {"pointwise", "fold", "view"} else ():
            arrays = [i for i in (*part.inputs, *part.outputs) if dim in names.get(i, ())]
            sizes = {i: graph.nodes[i].dtype.nbytes for i in arrays}
            lane = VECTOR_NBYTES // min(sizes.values(), default=VECTOR_NBYTES)
            wide = -(-extent // lane) * lane
            rooms = (self._room(i, names[i].index(dim), VECTOR_NBYTES // sizes[i]) for i in arrays)
            if wide > extent and arrays and min(rooms) >= wide:
                found[dim] = wide
        return found

    def _room(self, number: int, axis: int, vector: int) -> int:
        """Count the elements of a line's memory that kernels may read or, of a result, write."""
        view = self.views[number]
        beside = number in self.part.outputs and view.node != number  # another kernel's results lie in the gaps
        return room(view, axis, vector) if has_padding(self.graph, view) and not beside else 0

    def _attention(self) -> None:
        """Name dims and arrays as the presets of attention do."""
        products = [n for n in self.part.nodes if self.graph.nodes[n].op == "matmul"]
        last, scores = products[-1], products[0]
        names = self.dims.names
        letters = {3: "h", 4: "bh", 5: "bhg"}.get(len(names[last]))
        if letters is None:
            raise Misfit("attention takes heads, batches of heads, or of groups of them")
        q, k = self.graph.nodes[scores].inputs
        (v,) = (i for i in self.graph.nodes[last].inputs if i not in self.inside)
        self.roles = {(q, "d"): "q", (k, "j"): "k", (v, "e"): "v", (scores, "j"): "s", (last, "e"): "o"}
        axes = dict(zip((*letters, "i"), names[last][:-1], strict=True))
        # A batch, a head or a query that is alone has no dim in the part; the presets give it one of one point.
        rows = tuple(to for to in "bhi" if axes.get(to) is None)
        self.alone = {"q": rows, "s": rows, "o": rows} | dict.fromkeys("kv", tuple(to for to in rows if to != "i"))
        wanted = {d: to for to, d in axes.items() if d is not None}
        wanted |= {names[last][-1]: "e", names[q][-1]: "d", names[scores][-1]: "j"}
        if None in wanted or len(wanted) + len(rows) != len({*letters, *"bhijde"}):
            raise Misfit("attention takes groups of heads, keys and columns of more than one")
        self.rename = {d: to for d, to in wanted.items() if d is not None}

    def _role(self, number: int, dims: tuple[str | None, ...]) -> str:
        """Return the name that the presets of attention have for a node's array; empty for other arrays."""
        return self.roles.get((number, dims[-1] if dims else None), "")

    def _ahead_of_folds(self) -> set[int]:
        """List the pointwise operations that depend on a product but on no fold of its rows."""
        found, folded = set[int](), set[int]()
        for number in self.part.nodes:
            node = self.graph.nodes[number]
            if node.kind == "fold" or not folded.isdisjoint(node.inputs):
                folded.add(number)
            elif node.kind == "pointwise":
                found.add(number)
        return found

    def _one_line(self, outer: str, inner: str) -> bool:
        """Say whether two dims lie side by side, as one, in everything that the kernel reads and writes."""
        for number, dims in self.dims.names.items():
            if (outer in dims) != (inner in dims):
                return False
            lies = number in self.part.inputs or number in self.part.outputs
            if outer in dims and lies:
                strides, at, then = self.views[number].strides, dims.index(outer), dims.index(inner)
                if strides[at] != strides[then] * self.dims.extents[inner]:
                    return False
        return True

    def _in_order(self) -> bool:
        """Say whether all that the kernel reads and writes lies densely in the order of its axes."""
        views = [self.views[n] for n in (*self.part.inputs, *self.part.outputs)]
        return all(map(lies, views))

    def lowered(self, arch: str | None) -> Lowered:
        """Trace the program, and choose a schedule."""
        operations = [n for n in map(self.graph.nodes.__getitem__, self.part.nodes) if n.kind != "view"]
        large = sum(n.nbytes for n in operations) > LARGE_NBYTES
        if large and all(n.op == "concatenate" for n in operations) and self._in_order():
            raise Misfit("the library concatenates large arrays by vectors")
        self._collect()
        try:
            return self._scheduled(arch)
        except FireironError:
            if not self.chosen:
                raise
            self.chosen = None  # some presets take no program that reads an array at two places
            return self._scheduled(arch)

    def _scheduled(self, arch: str | None) -> Lowered:
        kinds = tuple(self.graph.nodes[n].dtype for n in self.part.outputs)
        program = self._traced(kinds)
        # The dims of a result come in the order of what it reads; its array has the same axes at its own strides.
        orders = [next(o.dims for s in program.steps for o in s.outs if o.name == t.name) for t in program.outputs]
        pairs = [
            (t, self.targets[n]) if n in self.targets else self._output(n, t, o)
            for n, t, o in zip(self.part.outputs, program.outputs, orders, strict=True)
        ]
        if any(given.strides != t.strides for (given, _), t in zip(pairs, program.outputs, strict=True)):
            program = self._traced(tuple(given for given, _ in pairs))
        chain: ProgramChain = FoldChain(task_of(program, arch), (), start(program))
        return Lowered(best(chain, arch), self.operands, tuple(operand for _, operand in pairs))

    def _traced(self, out: tuple[object, ...]) -> steps.Program:
        return traced.traced(self._function, self.spoken, self.tensors, {}, self.name, out)

    @property
    def name(self) -> str:
        """Name the kernel by its operations."""
        if self.part.kind == "attention":
            return "attention"
        ops = [self.graph.nodes[n].op for n in self.part.nodes if self.graph.nodes[n].kind != "view"]
        return "_".join(dict.fromkeys(op for op in ops if op != "cast"))[:40].rstrip("_") or "copy"

    def _dims(self, number: int) -> tuple[str | None, ...]:
        named = self.dims.names[number]
        return tuple(None if d is None or d in self.merged else self.rename.get(d, d) for d in named)

    @property
    def _pointless(self) -> bool:
        """Say whether an output has no dims. All arrays then get a dim of extent 1."""
        return any(all(d is None for d in self._dims(n)) for n in self.part.outputs)

    def _output(self, number: int, like: Tensor, order: Sequence[steps.Dim]) -> tuple[Tensor, Operand]:
        """Describe an array that the kernel writes, with its axes in the program's order."""
        node, view = self.graph.nodes[number], self.views[number]
        strides = {d: s for s, d in zip(view.strides, self._dims(number), strict=True) if d is not None}
        pairs = zip(view.shape, self._dims(number), strict=True)
        extents = {d: self._extent(d, n) for n, d in pairs if d is not None}
        steps_ = tuple(strides.get(d.name, max(1, prod(view.shape))) for d in order)
        shape = tuple(extents.get(d.name, 1) for d in order)
        return described(view, like.name, node.dtype, shape, steps_, self.samples)

    def _collect(self) -> None:
        """Walk the expressions once before the trace, to collect the arrays that they read."""
        seen: set[tuple[int, tuple[str | None, ...]]] = set()
        for number in self.part.outputs:
            self._reads(number, self._dims(number), seen)

    def _reads(self, number: int, dims: tuple[str | None, ...], seen: set[tuple[int, tuple[str | None, ...]]]) -> None:
        node = self.graph.nodes[number]
        if (number, dims) in seen or node.op in ("constant", "iota"):
            return
        seen.add((number, dims))
        if number not in self.inside and number not in self.free:
            self._tensor(number, dims)
            return
        if node.kind == "scatter":
            self._target(number)
        for i, mine in zip(_read_by(node), self._of_inputs(number, dims), strict=True):
            self._reads(i, mine, seen)

    def _tensor(self, number: int, dims: tuple[str | None, ...]) -> str:
        """Describe an array that the kernel reads."""
        if (number, dims) in self.labels:
            return self.labels[number, dims]
        node, view = self.graph.nodes[number], self.views[number]
        kept = [(self._extent(d, n), s, d) for n, s, d in zip(view.shape, view.strides, dims, strict=True) if d]
        # Axes of small strides come last, axes of stride 0 first; axes of equal strides keep their order.
        kept.sort(key=lambda each: (each[1] != 0, -each[1]))
        if self._pointless:
            kept = [(1, max(1, prod(n for n, _, _ in kept)), ONE), *kept]
        whole = max(1, prod(n for n, _, _ in kept))
        role = self._role(number, dims)
        kept = [*((1, whole, d) for d in self.alone.get(role, ())), *kept]
        name = role or f"x{len(self.tensors)}"
        if name in self.tensors:
            name = f"x{len(self.tensors)}"
        self.labels[number, dims] = name
        shape, strides = tuple(n for n, _, _ in kept) or (1,), tuple(s for _, s, _ in kept) or (1,)
        self.tensors[name], self.operands[name] = described(view, name, node.dtype, shape, strides, self.samples)
        self.spoken[name] = " ".join(str(d) for _, _, d in kept) or f"{name}_one"
        if not kept:
            self.scalars.add(name)
        return name

    def _target(self, number: int) -> None:
        """Describe the array of which a kernel writes elements, or to which it adds: zeros at first."""
        if self.samples is not None:
            raise Misfit("elements at numbers are written, and sizes are symbols")
        operand = self.operands.pop(self._tensor(number, self._dims(number)))
        self.targets[number] = attrs.evolve(operand, cleared=self.graph.nodes[number].op != "scatter")

    def _extent(self, dim: str, extent: int) -> int:
        """Return the extent of a dim, including dims that are merged into it, and padding."""
        if extent > 1 and dim in self.wide:
            return self.wide[dim]
        return extent * prod(self.dims.extents[outer] for outer, to in self.merged.items() if to == dim)

    def _of_inputs(self, number: int, dims: tuple[str | None, ...]) -> list[tuple[str | None, ...]]:
        """Return, for each input of a node, the dims at which it is read when the node is computed at some dims."""
        node = self.graph.nodes[number]
        shapes = [self.graph.nodes[i].shape for i in node.inputs]
        if node.op == "reshape":
            rest = iter(d for d, n in zip(dims, node.shape, strict=True) if n != 1)
            return [tuple(None if n == 1 else next(rest) for n in shapes[0])]
        if node.kind == "fold":
            if node.inputs[0] not in self.dims.names:
                raise Misfit("a fold of numbers alone")
            mine, place, made = self._dims(node.inputs[0]), 0, list[str | None]()
            for axis, n in enumerate(shapes[0]):
                if axis in node["axes"]:
                    made.append(mine[axis])
                    place += bool(node["keepdims"])
                else:
                    made.append(dims[place] if n != 1 else None)
                    place += 1
            return [tuple(made)]
        if node.op == "matmul":
            inner = self._dims(node.inputs[0])[-1]
            lead = [
                tuple(None if n == 1 else d for n, d in zip(s[:-2], dims[len(dims) - len(s) : -2], strict=True))
                for s in shapes
            ]
            return [(*lead[0], dims[-2], inner), (*lead[1], inner, dims[-1])]
        if node.op == "gather":
            ids = len(shapes[1])
            return [(self._dims(node.inputs[0])[0], *dims[ids:]), dims[:ids]]
        if node.op == "take_along_axis":
            axis, along = int(node["axis"]), self._dims(node.inputs[0])
            read = [(*dims[:axis], along[axis], *dims[axis + 1 :]), dims]
            return [
                tuple(None if n == 1 else d for n, d in zip(shape, each, strict=True))
                for shape, each in zip(shapes, read, strict=True)
            ]
        if node.kind == "scatter":
            values = self._dims(node.inputs[0])
            return [values, tuple(None if n == 1 else d for n, d in zip(shapes[1], values, strict=True))]
        if node.op == "concatenate":  # each part has a dim of its own along the axis, which is read at a shifted index
            axis = int(node["axis"])
            return [
                tuple(f"part{number}_{place}" if a == axis else None if n == 1 else dims[a] for a, n in enumerate(s))
                for place, s in enumerate(shapes)
            ]
        return [tuple(None if n == 1 else dims[len(dims) - len(s) + a] for a, n in enumerate(s)) for s in shapes]

    def _function(self, **arrays: Value) -> tuple[Value, ...]:
        """Compute the outputs' expressions; this is the function that is traced."""
        self.known.clear()
        self.tops.clear()
        self.arrays = arrays
        if self._pointless and not any(ONE in spoken.split() for spoken in self.spoken.values()):
            raise Misfit("the result has no dim")
        made: list[Value] = []
        for number in self.part.outputs:
            value = self._value(number, self._dims(number))
            if number in self.targets and isinstance(value, Value):
                made.append(value)
                continue
            if not isinstance(value, Value):
                raise Misfit("a result that is a number")
            if not {d for d in self._dims(number) if d is not None} <= {d.name for d in trace.dims_of_value(value)}:
                raise Misfit("a result that repeats along a dim of no array")
            made.append(value)
        return tuple(made)

    def _value(self, number: int, dims: tuple[str | None, ...]) -> Value | float:
        if self._guards(number):
            number, dims = self.graph.nodes[number].inputs[1], self._of_inputs(number, dims)[1]
        key = number, dims
        if key not in self.known:
            made = self._made(number, dims)
            if isinstance(made, Value) and self._kept(number) and trace.dims_of_value(made):
                made = trace.step_named(made, self.graph.nodes[number].op)
            self.known[key] = made
        return self.known[key]

    def _kept(self, number: int) -> bool:
        """Say whether a value becomes a step of its own: a function with two readers, or with one value per row."""
        node = self.graph.nodes[number]
        direct, users = [u for u in self.graph.users[number] if u in self.inside], self.graph.users
        readers = [r for u in direct for r in (users[u] if self._guards(u) else (u,)) if r in self.inside]
        if number in self.summed and len(readers) > 1:  # the row that its folds and its results read
            return True
        if number not in self.inside or node.op not in COSTLY or not self.dims.folded:
            return False
        points = sum(d is not None for d in self.dims.names[number])
        return len(readers) > 1 or any(sum(d is not None for d in self.dims.names[r]) > points for r in readers)

    def _made(self, number: int, dims: tuple[str | None, ...]) -> Value | float:
        node = self.graph.nodes[number]
        if node.op == "constant":
            return node["value"]
        if node.op == "iota":
            dim = dims[int(node["axis"])]
            if dim is None:
                return 0
            extent = self.wide.get(dim, self.dims.extents.get(dim))  # masks have dims of attention's program
            return subscripts.index(dim) if extent is None else subscripts.dim(dim, extent)
        if number not in self.inside and number not in self.free:
            name = self.labels[number, dims]
            value = self.arrays[name]
            return value[0] if name in self.scalars else value
        places = self._of_inputs(number, dims)
        if node.kind == "gather":
            return self._line(node, places)
        if self.part.kind == "attention" and self._is_top(number):
            return self._top(number, dims)[2] * (1 / LOG2E)
        if node.kind == "fold" and self.chosen is not None:
            point = self._at_place(node, places[0])
            if point is not None:
                self.chosen.add(number)
                return point
        inputs = [self._value(i, mine) for i, mine in zip(_read_by(node), places, strict=True)]
        if node.kind == "scatter":
            return self._written(number, node, inputs)
        if node.kind == "view":
            return inputs[0]
        if node.op == "concatenate":
            return self._joined(node, inputs, places, dims)
        if node.op == "matmul":
            return self._einsum(number, inputs, places, dims)
        if node.kind == "scan":
            along = places[0][int(node["axis"])]
            if not isinstance(inputs[0], Value) or along is None:
                raise Misfit("a running sum of one element")
            return reductions.cumsum(computed(inputs[0]), along)
        if node.kind == "fold":
            value = inputs[0]
            if not isinstance(value, Value):
                raise Misfit("a fold of a number")
            over = [d for d in (places[0][a] for a in _axes(node)) if d is not None]
            if node.op in PLACES:
                if len(over) != 1:
                    raise Misfit("an index along an axis of one element")
                return _PLACES[node.op](value, over[0], self._of_points(over))
            return _FOLDS[node.op](value, over, self._of_points(over)) if over else value
        if self.part.kind == "attention" and node.op in ("exp", "exp2"):
            based = self._in_base_2(number, node, dims)
            if based is not None:
                return based
        if node.op == "exp" and self._is_below_top(node.inputs[0]):
            (away,), below = inputs, self.graph.nodes[node.inputs[0]]
            whole = self._value(below.inputs[0], self._of_inputs(node.inputs[0], places[0])[0])
            if isinstance(away, Value) and isinstance(whole, Value):
                return exponential_of_difference(whole, away)
        return pointwise(node.op, inputs, node)

    def _at_place(self, node: Node, dims: tuple[str | None, ...]) -> Value | None:
        """Read the one point of an array that a sum chooses; None for other folds.

        Args:
            node: a fold.
            dims: the dims of its operand.
        """
        graph, found = self.graph, chosen_of(self.graph.nodes, node)
        along = None if found is None else dims[found.axis]
        if found is None or along is None:
            return None
        source = found.value
        while widens(graph.nodes, source):
            (source,) = graph.nodes[source].inputs
        if found.select not in self.inside or source in self.inside or source in self.free:
            return None

        def lies(number: int) -> tuple[str | None, ...]:
            shape = graph.nodes[number].shape
            return tuple(None if n == 1 else d for n, d in zip(shape, dims[len(dims) - len(shape) :], strict=True))

        def read(number: int) -> Value | float:
            return self._value(number, lies(number))

        known = self.inside | self.free
        if any(n not in known and (n, lies(n)) not in self.labels for n in (found.place, source, *found.conditions)):
            return None  # another kernel computes the value or its condition
        at, array = read(found.place), read(source)
        if not isinstance(at, Value) or not isinstance(array, Value):
            return None
        inside = [at >= 0, at < self.dims.extents[along], *map(read, found.conditions)]
        names = (d.name for d in trace.dims_of_value(array))
        # Without a value outside the array, places would have to lie inside.
        try:
            point = subscripts.outside(array, 1.0)[tuple(at if name == along else slice(None) for name in names)]
        except FireironError:  # the kernel computes the place, and arrays alone are indices
            return None
        wide = cast_to(point, node.dtype if node.dtype.bits > 16 else f32)
        return reduce(lambda value, one: where(one, value, 0.0), inside, wide)

    def _of_points(self, over: Sequence[str]) -> Value | None:
        """Return the condition that leaves the padding of dims out of folds; None where there is none."""
        inside = [subscripts.index(d) < self.dims.extents[d] for d in over if d in self.wide]
        return reduce(lambda all_, one: all_ & one, inside) if inside else None

    def _line(self, node: Node, places: list[tuple[str | None, ...]]) -> Value:
        """Read the lines of a table that an array says; the axis of lines may be any of its array's dims."""
        (table, ids), row = node.inputs, places[0][int(dict(node.attributes).get("axis", 0))]
        lines, chosen = self._value(table, places[0]), self._value(ids, places[1])
        if row is None or not isinstance(lines, Value):
            raise Misfit("a table of one line")
        names = [d.name for d in trace.dims_of_value(lines)]
        return lines[tuple(chosen if name == row else slice(None) for name in names)]

    def _written(self, number: int, node: Node, inputs: list[Value | float]) -> Value:
        """Write values to elements of an array, or add them, where one coordinate is a number in another array."""
        (values, ids), total = inputs, self.arrays[self.targets[number].name]
        row = self._dims(number)[int(node["axis"])]
        if row is None or not isinstance(ids, Value):
            raise Misfit("elements of an array of one line")
        names = [d.name for d in trace.dims_of_value(total)]
        elements = total.at[tuple(ids if name == row else slice(None) for name in names)]
        return elements.add(values) if node.op == "scatter_add" else elements.set(values)

    def _joined(
        self,
        node: Node,
        inputs: list[Value | float],
        places: list[tuple[str | None, ...]],
        dims: tuple[str | None, ...],
    ) -> Value:
        """Choose an input of a concatenation by the coordinate along its axis."""
        axis = int(node["axis"])
        along = dims[axis]
        if len(inputs) > MOST_PARTS:
            raise Misfit(f"each element would ask which of {len(inputs)} parts it is in")
        if along is None:
            raise Misfit("parts of one element")
        if self.samples is not None and not all(isinstance(n, int) for n in map(self.samples.expression, node.shape)):
            raise Misfit("parts along a dim, where another one is a symbol")
        at, start, made = subscripts.dim(along, node.shape[axis]), 0, inputs[0]
        for i, value, place in zip(node.inputs, inputs, places, strict=True):
            names = [d.name for d in trace.dims_of_value(value)] if isinstance(value, Value) else []
            moved = value  # a part that repeats along the axis, or has one element there
            if isinstance(value, Value) and place[axis] in names:
                moved = value[tuple(at - start if name == place[axis] else slice(None) for name in names)]
            made = where(at < start, made, moved) if start else moved
            start += self.graph.nodes[i].shape[axis]
        if not isinstance(made, Value):
            raise Misfit("parts that are numbers")
        return made

    def _einsum(
        self,
        number: int,
        inputs: list[Value | float],
        places: list[tuple[str | None, ...]],
        dims: tuple[str | None, ...],
    ) -> Value:
        node = self.graph.nodes[number]
        kinds = [self.graph.nodes[i].dtype for i in node.inputs]
        given: list[Value] = []
        for value, kind in zip(inputs, kinds, strict=True):
            assert isinstance(value, Value)
            given.append(value if isinstance(trace.bare(value), steps.Ref) else value.cast(kind))
        role = self._role(number, dims)
        alone = self.alone.get(role, ())
        words = [" ".join([*alone, *(d for d in place if d is not None)]) for place in (*places, dims)]
        for side, value in enumerate(given):
            ref = trace.bare(value)
            if ref is not None:  # the dims of an array have the order of its memory
                words[side] = " ".join(d.name for d in ref.dims)
        return einsum.einsum(f"{words[0]}, {words[1]} -> {words[2]}", *given, name=role or einsum.PRODUCT)

    def _in_base_2(self, number: int, node: Node, dims: tuple[str | None, ...]) -> Value | None:
        """Write exp(x - max(x)) as a power of 2: a factor of x is multiplied by log2(e), which costs nothing more."""
        away = self.graph.nodes[node.inputs[0]]
        if node.op != "exp" or away.op != "sub" or not self._is_top(away.inputs[1]):
            return None
        top = away.inputs[1]
        if self.graph.nodes[top].inputs != away.inputs[:1]:
            return None
        seen, scaled, most = self._top(top, self._of_inputs(node.inputs[0], self._of_inputs(number, dims)[0])[1])
        part = unary("exp2", scaled - most)
        return part if seen is None else where(seen, part, 0.0)

    def _guards(self, number: int) -> Literal["", "mask", "scores"]:
        """Say whether a node selects zeros in place of the exponentials of hidden scores, and by which condition.

        The select needs no code: exponentials of masked scores are written with the condition, and loops over keys take
        a maximum of -inf for 0, from which scores of -inf have the exponential 0.

        Returns:
            `mask` for the condition that hides scores, `scores` where these are compared with -inf, "" for other nodes.
        """
        nodes = self.graph.nodes
        node = nodes[number]
        if self.part.kind != "attention" or node.op != "select":
            return ""
        condition, part, other = node.inputs
        if nodes[part].op != "exp" or part not in self.inside or dict(nodes[other].attributes).get("value") != 0:
            return ""
        away = nodes[nodes[part].inputs[0]]
        if away.op != "sub" or not self._is_top(away.inputs[1]):
            return ""
        score = away.inputs[0]
        if nodes[score].op == "select" and nodes[score].inputs[0] == condition:
            return "mask"
        return "scores" if nodes[condition].op == "lt" and nodes[condition].inputs[1] == score else ""

    def _is_top(self, number: int) -> bool:
        """Say whether a node is a maximum of each row that is subtracted from the row before an exponential."""
        nodes, node = self.graph.nodes, self.graph.nodes[number]
        if node.op != "max" or number not in self.inside:
            return False
        away = [
            u for u in self.graph.users[number] if nodes[u].op == "sub" and nodes[u].inputs == (*node.inputs, number)
        ]
        return any(nodes[e].op == "exp" and e in self.inside for u in away for e in self.graph.users[u])

    def _is_below_top(self, number: int) -> bool:
        """Say whether a node is the difference of a value and the value's maximum along some dims."""
        away, nodes = self.graph.nodes[number], self.graph.nodes
        if away.op != "sub" or not self.inside.issuperset((number, away.inputs[1])):
            return False
        top = nodes[away.inputs[1]]
        return top.op == "max" and top.inputs[0] == away.inputs[0]

    def _top(self, number: int, dims: tuple[str | None, ...]) -> tuple[Value | None, Value, Value]:
        """Return a maximum's condition (None for all points), its operand and its result, both times log2(e)."""
        if number not in self.tops:
            fold = self.graph.nodes[number]
            (place,), (x,) = self._of_inputs(number, dims), fold.inputs
            over = [d for d in (place[a] for a in _axes(fold)) if d is not None]
            masked = self._masked(x, place)
            if masked is not None:  # folds leave masked points out, and loops skip chunks without points
                seen, scaled = masked
                self.tops[number] = seen, scaled, reductions.max(scaled, over, seen)
            else:
                scaled = self._scaled(x, place, LOG2E)
                self.tops[number] = None, scaled, reductions.max(scaled, over)
        return self.tops[number]

    def _masked(self, number: int, dims: tuple[str | None, ...]) -> tuple[Value, Value] | None:
        """Split `where(condition, scores, -inf)` into the condition and the scores."""
        node = self.graph.nodes[number]
        if number not in self.inside or node.op != "select":
            return None
        condition, score, other = node.inputs
        nothing = self.graph.nodes[other]
        if nothing.op != "constant" or nothing["value"] != -inf or score not in self.inside:
            return None
        places = self._of_inputs(number, dims)
        return cast(Value, self._value(condition, places[0])), self._scaled(score, places[1], LOG2E)

    def _scaled(self, number: int, dims: tuple[str | None, ...], factor: float) -> Value:
        """Multiply a value by a number; two constant factors are merged."""
        node = self.graph.nodes[number]
        inputs = self._of_inputs(number, dims) if number in self.inside else []
        if number in self.inside and node.op == "mul" and self.graph.nodes[node.inputs[1]].op == "constant":
            factor *= self.graph.nodes[node.inputs[1]]["value"]
            return self._scaled(node.inputs[0], inputs[0], factor)
        if number in self.inside and node.op == "cast":
            return self._scaled(node.inputs[0], inputs[0], factor)
        if number in self.inside and node.op == "add":
            parts = [self._scaled(i, mine, factor) for i, mine in zip(node.inputs, inputs, strict=True)]
            return parts[0] + parts[1]
        if number in self.inside and node.op == "select":
            seen = self._value(node.inputs[0], inputs[0])
            first, second = (
                self.graph.nodes[i]["value"] * factor
                if self.graph.nodes[i].op == "constant"
                else self._scaled(i, mine, factor)
                for i, mine in zip(node.inputs[1:], inputs[1:], strict=True)
            )
            return where(seen, first, second)
        value = self._value(number, dims)
        return cast(Value, value * factor)


def _read_by(node: Node) -> tuple[int, ...]:
    """List what an operation reads: not the array of which it writes elements."""
    return node.inputs[:2] if node.kind == "scatter" else node.inputs


def _axes(node: Node) -> tuple[int, ...]:
    return tuple(node["axes"])
