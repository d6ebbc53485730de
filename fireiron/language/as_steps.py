"""Convert specs and chains to programs of steps, so that one form describes every computation.

A chain completes its spec: prologs, an epilog's ops, `save`, row sums and the conversions of loads become steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import assert_never

import attrs

from fireiron.algebra.dtypes import DType, default_accumulator, f64
from fireiron.algebra.expr import Index, Var, as_expr, as_int, ceil_div, simplest
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, as_type, renumbered, substituted
from fireiron.language.atom import summand
from fireiron.language.decompositions import Decomposition, Done, Epilog, Load, Output, Prolog
from fireiron.language.folds import Dim, Fold, add_of
from fireiron.language.levels import RF
from fireiron.language.ops import Rows, apart, scaled, stages
from fireiron.language.pointwise import Value, accumulator
from fireiron.language.programs import Layers, Products
from fireiron.language.residual import after, named_reads, roles
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Spec, tensors_of
from fireiron.language.steps import For, Program, Ragged, Ref, Step
from fireiron.language.tensor import Tensor
from fireiron.language.value_steps import dims_of, exchanged, held, pointwise, repeated

Links = tuple[Decomposition, ...]


def steps_of(spec: Spec, links: Links = ()) -> Program:
    """Express a spec, or a chain of it, as a program of steps.

    Args:
        spec: the spec.
        links: the links of a chain of the spec. Links that compute (prologs, epilog ops, ...) become steps; others are
            ignored.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> a, b, c = Matrix(64, 32, "f16", name="A"), Matrix(32, 16, "f16", name="B"), Matrix(64, 16, "f16", name="C")
        >>> print(steps_of(MatMul(a, b, c)))
        matmul(A[64, 32].f16.GL, B[32, 16].f16.GL) over m 64, n 16, k 32
          acc[m, n] = add over k of A[m, k] * B[k, n]
          C[m, n]   = f16(acc[m, n])
    """
    match spec:
        case Program():
            return _of_program(spec, links)
        case MatMul():
            return _Product(spec, links).program
        case Products():
            return _of_products(spec, links)
        case Layers():
            return _of_layers(spec)
        case Move(src, dst):
            dims = dims_of(dst.shape)
            made = _Steps([src, dst])
            tree = _converted(Arg(0, src.dtype), links, "src")
            made.pointwise(dst.name, made.at(dst, dims), [made.at(src, dims)], as_type(tree, dst.dtype))
            return made.program("move", (src,), (dst,))
        case Init(dst, value):
            made = _Steps([dst])
            made.pointwise(dst.name, made.at(dst, dims_of(dst.shape)), [], as_type(Constant(value, f64), dst.dtype))
            return made.program("init", (), (dst,))
        case Pointwise(op, ins, out):
            dims = dims_of(out.shape)
            made = _Steps([*ins, out])
            tree = renumbered(op, {i: i - 1 for i in range(1, len(ins) + 1)})
            made.pointwise(out.name, made.at(out, dims), [made.at(t, dims) for t in ins], tree)
            return made.program("pointwise", ins, (out,))
        case _ as never:
            assert_never(never)


def _wider(tree: Scalar, kind: DType) -> Scalar:
    """Convert a factor to the type of the sum, where that type holds all values of the factor's type."""
    mine = tree.dtype
    return (
        tree if mine.kind != kind.kind or (mine.bits, mine.mantissa) >= (kind.bits, kind.mantissa) else Cast(tree, kind)
    )


def _converted(tree: Scalar, links: Iterable[Decomposition], role: str) -> Scalar:
    """Convert an operand to the element types of the buffers that a chain's loads copy it to, one after another."""
    for link in links:
        if isinstance(link, Load) and link.role == role:
            tree = _converted(tree, link.move, "src")
            tree = tree if link.dtype is None else as_type(tree, link.dtype)
    return tree


@attrs.define
class _Steps:
    """Collect the steps of a program.

    Args:
        tensors: the caller's tensors, as refs name them. A transposed tensor is read with its indices exchanged.
        values: expressions whose tensors steps will read; new tensors get other names.
        steps: the steps collected so far.
    """

    tensors: list[Tensor]
    values: tuple[Value, ...] = ()
    steps: list[Step] = attrs.field(factory=list[Step])

    def at(self, tensor: Tensor, dims: Sequence[Dim], outside: float = 0.0) -> Ref:
        """Read a tensor that repeats over dims: one element for all points, or for each group of neighbours."""
        known = next((t for t in self.tensors if t.name == tensor.name), None)
        if known is None:
            self.tensors.append(tensor)
        elif known != tensor and known == tensor.transposed:
            return repeated(known, exchanged(dims), outside)
        return repeated(tensor, dims, outside)

    def held(self, name: str, dtype: DType, dims: Sequence[Dim]) -> Ref:
        """Make the tensor that holds a result between two steps."""
        taken = {t.name for t in self.tensors} | {out.name for step in self.steps for out in step.outs}
        taken |= {t.name for value in self.values for t in value.tensors if not t.memory.registers}
        title, number = name, 1
        while title in taken:
            number += 1
            title = f"{name}{number}"
        return held(title, dtype, dims)

    def pointwise(self, name: str, out: Ref, reads: Sequence[Ref], body: Scalar) -> Ref:
        """Add a step without a fold; reads that the body does not use are left out."""
        self.steps.append(pointwise(name, out, reads, body))
        return out

    def fold(self, out: Ref, reads: Sequence[Ref], body: Scalar, fold: Fold, over: Dim) -> Ref:
        """Add a step that folds one dim."""
        self.steps.append(Step(out.name, (out,), tuple(reads), body, fold, (over,)))
        return out

    def program(
        self, name: str, first: Sequence[Tensor], outputs: tuple[Tensor, ...], loops: tuple[For, ...] = ()
    ) -> Program:
        """Return the program; inputs are the tensors that steps read and no step makes, in the order of the call."""
        made = {out.name for step in self.steps for out in step.outs}
        used = {r.name for step in self.steps for r in step.reads}
        old = {t.name for t in outputs if _read_first(self.steps, t.name)}
        known = dict.fromkeys((*first, *(t for t in self.tensors if t.name in used)))
        inputs = tuple(t for t in known if t.name not in made or t.name in old)
        return Program(name, inputs, tuple(self.steps), outputs, loops)


def _read_first(steps: Sequence[Step], name: str) -> bool:
    """Say whether a tensor is read before or where it is written."""
    for step in steps:
        if any(r.name == name for r in step.reads):
            return True
        if any(out.name == name for out in step.outs):
            return False
    return False


@attrs.frozen
class _Dims:
    """Hold the dims of a product by the names before swap(); `of` returns the dims of the spec's operands."""

    swapped: bool
    batch: tuple[Dim, ...]
    groups: tuple[Dim, ...]
    m: Dim
    n: Dim
    k: Dim

    def of(self, role: str, tensor: Tensor) -> tuple[Dim, ...]:
        """Return the dims of an operand of the spec."""
        first, second = (self.n, self.m) if self.swapped else (self.m, self.n)
        leading = (self.groups or self.batch) if len(tensor.shape) == 3 else ()
        return (*leading, *{"A": (first, self.k), "B": (self.k, second), "C": (first, second)}[role])

    def given(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Return the dims of an operand as the product's author wrote it, before swap()."""
        return exchanged(dims) if self.swapped else dims

    @property
    def whole(self) -> tuple[Dim, ...]:
        """Return the dims of the result as its author wrote it, before swap()."""
        return (*self.batch, self.m, self.n)


def _dims_of(spec: MatMul) -> _Dims:
    rows, cols = (spec.C.shape[-1], spec.C.shape[-2]) if spec.swapped else spec.C.shape[-2:]
    batch = tuple(Var("b", as_expr(n)) for n in spec.C.shape[:-2])
    m, groups = Var("m", as_expr(rows)), ()
    if spec.groups is not None:
        groups = (Var("g", as_expr(spec.groups.shape[0])),)
        m = Ragged("m", as_expr(rows), of=groups[0], ends=spec.groups)
    return _Dims(spec.swapped, batch, groups, m, Var("n", as_expr(cols)), Var("k", as_expr(spec.A.shape[-1])))


@attrs.frozen
class _Product:
    """Express a MatMul as steps: prologs, the sum over K, and the epilog."""

    spec: MatMul
    links: Links

    @property
    def program(self) -> Program:
        """Return the steps."""
        spec, dims = self.spec, _dims_of(self.spec)
        made = _Steps([spec.A, spec.B, spec.C])
        made.tensors.extend(() if spec.groups is None else (spec.groups,))
        made.values = self._values
        reads: list[Ref] = []
        trees: list[Scalar] = []
        for i, (role, tensor) in enumerate((("A", spec.A), ("B", spec.B))):
            ref = self._operand(made, role, tensor, dims)
            reads.append(ref)
            trees.append(_converted(Arg(i, ref.dtype), self.links, role))
        epilog = next((link for link in self.links if isinstance(link, Epilog)), None)
        kind = self._kind(epilog, reads[0])
        body = summand(spec.product, *(_wider(tree, kind) for tree in trees))
        out = made.at(spec.C, dims.of("C", spec.C))
        epilog = self._epilog(kind) if epilog is None else epilog
        made.values += epilog.values
        made.tensors.extend(o.tensor for o in epilog.outputs)
        plain = not epilog.outputs and epilog.init == 0 and not epilog.store
        if plain and spec.C.dtype == kind and epilog.value == accumulator(kind):
            made.fold(out, reads, body, add_of(kind), dims.k)
            return made.program("matmul", spec.inputs, (spec.C,))
        acc = made.fold(made.held("acc", kind, out.dims), reads, body, add_of(kind), dims.k)
        if epilog.init:
            start = Binary("add", Arg(0, kind), Constant(epilog.init, kind))
            acc = made.pointwise(f"{acc.name}_start", made.held("acc", kind, out.dims), [acc], start)
        self._results(made, dims, acc, epilog)
        return made.program("matmul", spec.inputs, (spec.C, *(o.tensor for o in epilog.outputs)))

    def _kind(self, epilog: Epilog | None, left: Ref) -> DType:
        """Return the type in which products are summed: the epilog's, or C's type in a closed chain without an epilog.

        Where C has an integer type, products are summed in the accumulator's type, and C's store converts the sum.
        """
        if epilog is not None:
            return epilog.dtype
        if any(isinstance(link, Done) for link in self.links) and self.spec.C.dtype.kind != "int":
            return self.spec.C.dtype
        return self.spec.acc or default_accumulator(left.dtype)

    @property
    def _values(self) -> tuple[Value, ...]:
        """List the expressions of prologs."""
        found = (_prolog(self.links, role) for role in "AB")
        return tuple(value for value in found if value is not None)

    def _epilog(self, kind: DType) -> Epilog:
        """Return the epilog that a schedule will have: alpha, beta, and the ops that `then` added."""
        spec = self.spec
        saved, value = stages(spec.ops, scaled(spec, kind))
        outputs = tuple(
            Output(part, op.tensor, (), op.fold(part.dtype))
            if isinstance(op, Rows)
            else Output(part, op.tensor.transposed if spec.swapped else op.tensor, (), apart=apart(op))
            for part, op in saved
        )
        return Epilog(value, RF, kind, 0.0, (), outputs)

    def _operand(self, made: _Steps, role: str, tensor: Tensor, dims: _Dims) -> Ref:
        """Return an operand's element with its prolog applied."""
        mine = dims.of(role, tensor)
        ref, value = made.at(tensor, mine), _prolog(self.links, role)
        if value is None:
            return ref
        reads = [ref, *(made.at(t, dims.given(mine)) for t in value.tensors)]
        out = made.held(f"{tensor.name}_prolog", value.dtype, mine)
        return made.pointwise(out.name, out, reads, value.tree)

    def _results(self, made: _Steps, dims: _Dims, acc: Ref, epilog: Epilog) -> None:
        """Add the steps of an epilog, one group for each tensor that it stores to."""
        spec = self.spec
        targets = (*epilog.outputs, Output(epilog.value, spec.C, epilog.store))
        for target in targets:
            value, last = target.value, target is targets[-1]
            reads = [acc, *(made.at(t, dims.whole) for t in value.tensors)]
            stored = as_type(_converted(value.tree, target.store, "src"), target.tensor.dtype)
            if target.apart:
                out = made.at(target.tensor, dims.of("C", target.tensor))
                made.pointwise(out.name, out, reads, stored)
                continue
            if target.fold is None and (last or stored == value.tree):
                acc = made.pointwise(
                    target.tensor.name, made.at(target.tensor, dims.of("C", target.tensor)), reads, stored
                )
                continue
            if value.tree != Arg(0, acc.dtype):
                between = made.held("acc", value.dtype, acc.dims)
                acc = made.pointwise(between.name, between, reads, value.tree)
            if target.fold is None:
                tree = as_type(_converted(Arg(0, acc.dtype), target.store, "src"), target.tensor.dtype)
                made.pointwise(target.tensor.name, made.at(target.tensor, dims.of("C", target.tensor)), [acc], tree)
            else:
                self._rows(made, dims, acc, target, target.fold)

    def _rows(self, made: _Steps, dims: _Dims, acc: Ref, target: Output, fold: Fold) -> None:
        """Fold whole rows, or the part of each row that one block's columns cover."""
        tensor = target.tensor
        tiles, across = tensor.shape[-1], dims.n
        if as_int(as_expr(tiles)) == 1:
            out = made.at(tensor, (*dims.batch, dims.m, dims.n))
            made.fold(out, [acc], Arg(0, acc.dtype), fold, across)
            return
        width = self._width(tiles)
        tile, column = Var("t", as_expr(tiles)), Var("c", as_expr(width))
        at = tuple(tile * width + column if e == across else e for e in acc.index)
        part = attrs.evolve(acc, index=at, outside=fold.identity[0])
        made.fold(made.at(tensor, (*dims.batch, dims.m, tile)), [part], Arg(0, acc.dtype), fold, column)

    def _width(self, tiles: Index) -> Index:
        """Return the number of columns of a block's tile."""
        spec = self.spec
        dim, whole = ("M", spec.C.shape[-2]) if spec.swapped else ("N", spec.C.shape[-1])
        above = next((i for i, link in enumerate(self.links) if isinstance(link, Epilog)), None)
        found = None if above is None else after(spec, self.links[:above]).extents[dim]
        return simplest(ceil_div(whole, tiles)) if found is None else found


def _prolog(links: Links, role: str) -> Value | None:
    """Return the ops on an operand's elements: those of its load, else those of its prolog; None without either."""
    loaded = (link.ops for link in links if isinstance(link, Load) and link.role == role and link.ops is not None)
    written = (link.value for link in reversed(links) if isinstance(link, Prolog) and link.role == role)
    return next(chain(loaded, written), None)


def _of_products(spec: Products, links: Links) -> Program:
    *batch, m, n = dims_of(spec.outs[0].shape)
    whole = (*batch, m, n)
    depths = list(dict.fromkeys(a.shape[-1] for a, _, _ in spec.pairs))
    inner = {size: Var("k" if len(depths) == 1 else f"k{i}", as_expr(size)) for i, size in enumerate(depths)}
    places = {t.name: role for letter, ts in (("A", spec.lefts), ("B", spec.rights)) for role, t in roles(letter, ts)}
    made, kind, sums = _Steps([*tensors_of(spec)], spec.values), spec.accumulator, dict[str, Ref]()
    for one in spec.sums:
        terms: list[Ref] = []
        for i, (a, b) in enumerate(one.products):
            k = inner[a.shape[-1]]
            reads = [made.at(a, (*batch, m, k)), made.at(b, (*batch, k, n))]
            trees = [_converted(Arg(j, t.dtype), links, places[t.name]) for j, t in enumerate((a, b))]
            body = summand("mul", *(_wider(tree, kind) for tree in trees))
            title = one.name if len(one.products) == 1 else f"{one.name}_{i}"
            terms.append(made.fold(made.held(title, kind, whole), reads, body, add_of(kind), k))
        sums[one.name] = terms[0]
        if len(terms) > 1:
            total: Scalar = Arg(0, kind)
            for i in range(1, len(terms)):
                total = Binary("add", total, Arg(i, kind))
            out = made.held(one.name, kind, whole)
            sums[one.name] = made.pointwise(out.name, out, terms, total)
    stores = next(((*(o.store for o in x.outputs), x.store) for x in links if isinstance(x, Epilog)), ())
    for i, (value, out) in enumerate(zip(spec.values, spec.outs, strict=True)):
        reads = [sums[t.name] if t.memory.registers else made.at(t, whole) for t in value.tensors]
        tree = renumbered(value.tree, {j: j - 1 for j in range(1, len(reads) + 1)})
        tree = as_type(_converted(tree, stores[i] if stores else (), "src"), out.dtype)
        made.pointwise(out.name, made.at(out, whole), reads, tree)
    return made.program("products", spec.inputs, spec.outs)


def _of_layers(spec: Layers) -> Program:
    values = tuple(layer.value for layer in spec.layers)
    made, loops, kind = _Steps([*tensors_of(spec)], values), list[For](), spec.accumulator
    m = Var("m", as_expr(spec.X.shape[0]))
    last = made.at(spec.X, (m, Var("d0", as_expr(spec.X.shape[1]))))
    for number, layer in enumerate(spec.layers):
        before, behind = (Var(f"d{number + i}", as_expr(n)) for i, n in enumerate((layer.depth, layer.width)))
        stack = (Var(f"l{number}", as_expr(layer.count)),) if len(layer.weights.shape) == 3 else ()
        final = number == len(spec.layers) - 1
        out = made.held("h", spec.X.dtype, (m, behind))
        given = attrs.evolve(out if stack else last, index=(m, before))
        acc = made.held("acc", kind, (m, behind))
        terms = [_wider(Arg(i, t.dtype), kind) for i, t in enumerate((spec.X, layer.weights))]
        made.fold(
            acc, [given, made.at(layer.weights, (*stack, before, behind))], summand("mul", *terms), add_of(kind), before
        )
        tree = as_type(layer.value.tree, spec.X.dtype)
        title = out.name
        if final and not stack:
            out, tree = made.at(spec.Y, (m, behind)), as_type(tree, spec.Y.dtype)
            title = out.name
        reads = [acc, *(made.at(t, (*stack, m, behind)) for t in layer.value.tensors)]
        made.pointwise(title, out, reads, tree)
        if stack:
            loops.append(For(stack[0], (acc.name, title), ((out.name, last.name),)))
        if final and stack:
            made.pointwise(spec.Y.name, made.at(spec.Y, (m, behind)), [out], as_type(Arg(0, out.dtype), spec.Y.dtype))
        last = out
    return made.program("layers", spec.inputs, spec.outputs, tuple(loops))


def _of_program(spec: Program, links: Links) -> Program:
    """Convert a program's reads to the element types of the buffers that loads copy them to."""
    if not any(isinstance(link, Load) and link.dtype is not None for link in links):
        return spec
    return attrs.evolve(spec, steps=tuple(_read_through(spec, step, links) for step in spec.steps))


def _read_through(spec: Program, step: Step, links: Links) -> Step:
    places = zip(step.reads, named_reads(spec, step), strict=True)
    trees = [as_type(_converted(Arg(i, ref.dtype), links, role), ref.dtype) for i, (ref, role) in enumerate(places)]
    return attrs.evolve(step, body=substituted(step.body, trees))


def products_of(program: Program) -> tuple[tuple[Index, ...], ...]:
    """List (M, N, K) of each product that a program computes, once for each trip of the loops around it.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> products_of(steps_of(MatMul(Matrix(64, 32, name="A"), Matrix(32, 16, name="B"), Matrix(64, 16, name="C"))))
        ((64, 16, 32),)
    """
    found: list[tuple[Index, ...]] = []
    for step in program.steps:
        if step.is_product:
            around = (loop.dim for loop in program.loops if step.name in loop.steps)
            dims = (*around, *step.dims)
            found.append(tuple(simplest(d.extent) for d in dims if d.extent is not None))
    return tuple(found)
