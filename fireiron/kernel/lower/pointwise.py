"""Pointwise ops on a register tensor: each thread computes with the elements that it owns.

Operands in memory are read at the coordinates of these elements: by vectors where a thread's neighbours lie together,
else one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import gcd
from types import MappingProxyType

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, Var, affine, and_, as_expr, as_int, lt, proves, simplest, substitute
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Scalar, located, number, parameters, prints
from fireiron.algebra.simplify import share
from fireiron.atoms.table import matching
from fireiron.base.link import Link
from fireiron.kernel.analysis.ownership import Ownership
from fireiron.kernel.ir.statements import Call, Compute, For, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.registers import VECTOR_NBYTES, temporary
from fireiron.kernel.lower.storage import fresh_window, register_storage, tensor_window
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.language.levels import GL, RF, Thread
from fireiron.language.pointwise import Value, cast_to
from fireiron.language.tensor import Tensor


def compute(
    dst: View, tree: Scalar, inputs: tuple[View, ...], mask: Expr | None, context: Context, link: Link | None
) -> Body:
    """Compute an element; common subexpressions are computed once."""
    context.numbers.update((p.name, p.dtype) for p in parameters(tree))
    if prints(tree):
        at = dst.origin or next((view.origin for view in inputs if view.origin), ())
        tree = located(tree, (*at[:-2], *at[:-3:-1]) if swapped(context) else at)
    definitions, rest = share(tree, len(inputs))
    body: Body = ()
    for part in definitions:
        buffer = temporary("part", part.dtype, 1, context)
        body += (Compute(View(buffer, as_expr(0)), part, inputs, mask, link),)
        inputs = (*inputs, View(buffer, as_expr(0)))
    return (*body, Compute(dst, rest, inputs, mask, link))


@attrs.frozen
class Visit:
    """Describe one pass over the elements that a thread owns.

    Args:
        coordinates: of an element in the whole tensor.
        place: its coordinates in the tile.
        register: where it is.
        condition: whether it exists.
        loops: around it, outermost first.
        inner: the variable of the innermost loop, whose elements are neighbours along axis `along`.
        width: its extent, 1 where there is none.
        renamed: the owner's loop variables -> the variables of this pass.
        index: of the element among those of one visit of the owner.
        along_axis: for each axis, the condition under which the element exists.
        guard: the condition under which the thread has any element.
    """

    coordinates: tuple[Expr, ...]
    place: tuple[Expr, ...]
    register: Expr
    condition: Expr
    loops: tuple[tuple[Var, int], ...]
    inner: Var | None = None
    along: int = 0
    width: int = 1
    renamed: Mapping[Expr, Expr] = attrs.field(factory=dict[Expr, Expr])
    index: Expr = attrs.field(factory=lambda: as_expr(0))
    along_axis: tuple[Expr, ...] = ()
    guard: Expr = attrs.field(factory=lambda: as_expr(1))

    def condition_of(self, axes: Collection[int]) -> Expr:
        """Give the condition under which a tensor has a value for the element, whose place along some axes is given."""
        return and_(*(self.along_axis[i] for i in sorted(axes)), self.guard)

    def first(self, e: Expr) -> Expr:
        """Give an expression's value at the first of the neighbours."""
        return e if self.inner is None else substitute(e, {self.inner: as_expr(0)})

    def around(self, body: Body) -> Body:
        """Put the loops around the code for an element."""
        for var, extent in reversed(self.loops):
            body = (For(var, as_expr(extent), body, unroll=True),)
        return body


def visit(
    ownership: Ownership, output: Window, context: Context, widths: Callable[[int, int, Expr], int] | None = None
) -> Visit:
    """Walk over the elements of a register tensor.

    Args:
        ownership: the tensor's.
        output: the window of the tile in the whole tensor.
        context: names variables.
        widths: a function that chooses the width of a vector, from the axis, the number of neighbours along the axis
            that a thread holds in one run, and the coordinate of the first of them.
    """
    access, written = ownership.access, ownership.written
    fresh: dict[Expr, Expr] = {}
    loops: list[tuple[Var, int]] = []
    for loop, extent in zip(access.loops, access.extents, strict=True):
        var = context.variable(loop.var.name, extent)
        fresh[loop.var] = var
        loops.append((var, extent))
    element, weight = as_expr(0), access.count
    for layout in reversed(access.elements):  # the first axis is the fastest
        weight //= layout.size
        if layout.size > 1:
            var = context.variable("e", layout.size)
            element = element + var * weight
            loops.append((var, layout.size))

    def at(replace: dict[Expr, Expr]) -> Visit:
        known = {k: substitute(v, replace) for k, v in fresh.items()}
        index = substitute(element, replace)
        place: list[Expr] = []
        locals_: list[Expr] = []
        along: list[Expr] = []
        rest = index
        for coordinate, steps, axis in zip(written.coordinates, access.elements, output.axes, strict=True):
            local = rest % steps.size
            rest = rest // steps.size
            locals_.append(local)
            one = substitute(coordinate, known) + steps(local)
            place.append(one)
            assert isinstance(axis.size, int)
            along.append(and_(lt(one, axis.size), *(b.holds(one) for b in axis.bounds)))
        limits = [lt(substitute(x.offset, known) + x.steps(locals_[x.axis]), x.limit) for x in written.limits]
        guards = [substitute(g, known) for g in written.guards]
        whole = tuple(axis.at(x) for axis, x in zip(output.axes, place, strict=True))
        each = tuple(
            and_(one, *(y for x, y in zip(written.limits, limits, strict=True) if x.axis == i))
            for i, one in enumerate(along)
        )
        register = substitute(ownership.register(), known) + index
        condition = and_(*along, *limits, *guards)
        return Visit(
            whole, tuple(place), register, condition, (), renamed=known, index=index, along_axis=each,
            guard=and_(*guards),
        )  # fmt: skip

    plain = attrs.evolve(at({}), loops=tuple(loops))
    if not loops or widths is None:
        return plain
    last, extent = loops[-1]
    run = _run(plain, last, extent, access.elements if access.count > 1 else None)
    if run is None:
        return plain
    along, count = run
    start = {last: as_expr(0)}
    chunk = _chunk(output.axes[along], substitute(plain.place[along], start))
    width = widths(along, gcd(count, chunk), substitute(plain.coordinates[along], start))
    if width == 1:
        return plain
    inner = context.variable(f"{last.name}_in", width)
    outer = None if extent == width else context.variable(f"{last.name}_out", extent // width)
    around = (*loops[:-1], *(() if outer is None else ((outer, extent // width),)))
    by_width = at({last: inner if outer is None else outer * width + inner})
    return attrs.evolve(by_width, loops=around, inner=inner, along=along, width=width)


def _chunk(axis: Axis, first: Expr) -> int:
    """Count the contiguous neighbours from a place on in a tile that may be in chunks; 0 for no limit."""
    if axis.steps is None:
        return 0
    run, stride = axis.steps.leaves[0]
    return gcd(run, first.divisor) if stride == 1 and isinstance(run, int) else 1


def _run(plain: Visit, last: Var, extent: int, elements: tuple[Layout, ...] | None) -> tuple[int, int] | None:
    """Find the axis along which consecutive registers hold neighbours, and how many there are in a run."""
    if elements is not None:
        axis = next(i for i, layout in enumerate(elements) if layout.size > 1)  # the last loop's
        n, s = elements[axis].leaves[0]
        return (axis, n) if s == 1 and isinstance(n, int) else None
    for i, coordinate in enumerate(plain.coordinates):
        split = affine(coordinate, [last])
        step = None if split is None else split[0].get(last, 0)
        if step == 1:
            return i, extent
        if step != 0:
            return None
    return None


def swapped(context: Context) -> bool:
    """Say whether the product's operands were exchanged by swap(): rows of the ops' tensors are then its columns."""
    return context.spec.swapped


def operand_view(
    tensor: Tensor, coordinates: tuple[Expr, ...], shape: tuple[Index, ...], state: State, context: Context
) -> View:
    """View the element of a broadcast tensor that belongs to an element of another one.

    Tensors of ops have the author's rows and columns, which a swapped product exchanges. Where a tensor has fewer
    values than the other has elements, each value is used for a group of neighbours.

    Args:
        tensor: which is read.
        coordinates: of the other's element.
        shape: the other's extents.
        state: the place in the tree.
        context: the kernel's.
    """
    if swapped(context):
        coordinates, shape = (*coordinates[:-2], *coordinates[:-3:-1]), (*shape[:-2], *shape[:-3:-1])
    skipped = len(shape) - len(tensor.shape)
    shared: list[Expr] = []
    total = as_expr(0)
    for c, full, extent, stride in zip(
        coordinates[skipped:], shape[skipped:], tensor.shape, tensor.strides, strict=True
    ):
        at = as_expr(0) if extent == 1 else c
        if extent not in (1, full):
            assert isinstance(full, int) and isinstance(extent, int), "groups are checked at the link"
            at = c // (full // extent)
        shared.append(at)
        total = total + at * stride
    buffer = buffer_of(tensor_window(tensor, state, context).storage)
    return View(buffer, total, origin=tuple(shared))


def _exchanged(axis: int, rank: int) -> int:
    """Exchange rows and columns."""
    return {rank - 1: rank - 2, rank - 2: rank - 1}.get(axis, axis)


def _width(tensor: Tensor, rank: int, axis: int, count: int, first: Expr, exchanged: bool) -> int:
    """Count the elements of a tensor that one aligned access takes along an axis of the output; 1 where none."""
    axis = _exchanged(axis, rank) if exchanged else axis
    dim = axis - (rank - len(tensor.shape))
    if dim < 0 or tensor.shape[dim] == 1 or simplest(tensor.strides[dim]) != 1:
        return 1
    others = [as_expr(s) for i, s in enumerate(tensor.strides) if i != dim and tensor.shape[i] != 1]
    width = 1
    while (
        count % (2 * width) == 0
        and 2 * width * tensor.dtype.nbytes <= VECTOR_NBYTES
        and all(e.divisor % (2 * width) == 0 for e in (first, as_expr(tensor.shape[dim]), *others))
    ):
        width *= 2
    return width


def widths(tensors: Sequence[Tensor], output: Window, context: Context) -> Callable[[int, int, Expr], int]:
    """Choose how many neighbours a visit takes at once: as many as one access of each such tensor loads."""
    rank, exchanged = len(output.axes), swapped(context)

    def most(axis: int, count: int, first: Expr) -> int:
        found = [_width(t, rank, axis, count, first, exchanged) for t in tensors]
        return min((w for w in found if w > 1), default=1)

    return most


def element(tensor: Tensor, walk: Visit, output: Window, state: State, context: Context) -> View:
    """View a tensor's value for the element of a visit."""
    # Tensors that a stack of layers reads are batches with one entry per layer.
    number = () if state.number is None else (state.number,)
    shape = (*tensor.shape[:-2][: len(number)], *output.storage.shape)
    return operand_view(tensor, (*number, *walk.coordinates)[-len(shape) :], shape, state, context)


def wide(tensor: Tensor, walk: Visit, output: Window, context: Context) -> bool:
    """Say whether one access loads a tensor's values for all neighbours of a visit."""
    if walk.inner is None:
        return False
    base = walk.first(walk.coordinates[walk.along])
    return _width(tensor, len(output.axes), walk.along, walk.width, base, swapped(context)) == walk.width


def load_vector(
    tensor: Tensor, source: View, into: View, walk: Visit, output: Window, context: Context, link: Link | None
) -> Call:
    """Load what a tensor has for a visit's neighbours by one instruction, where they exist.

    A dim of extent 1 is broadcast, unless the output also has extent 1: rows after a single row read nothing.
    """
    dtype, rank = tensor.dtype, len(walk.coordinates)
    dims = {i + rank - len(tensor.shape): extent for i, extent in enumerate(tensor.shape)}
    whole = output.storage.shape[-rank:]
    exchanged = {dim: _exchanged(dim, rank) if swapped(context) else dim for dim in dims}
    axes = [axis for dim, axis in exchanged.items() if axis >= 0 and (dims[dim] != 1 or whole[axis] == 1)]
    exists = walk.condition_of(axes)
    atom = matching("Move", (walk.width,), (dtype, dtype), (GL, RF), Thread, context.arch)[0]
    source = attrs.evolve(
        source,
        offset=walk.first(source.offset),
        layout=Layout(walk.width, 1),
        origin=tuple(map(walk.first, source.origin)),
    )
    present = simplest(walk.first(exists))
    guard = None if proves(exists) or as_int(as_expr(present)) == 1 else as_expr(present)
    return Call(atom, (source, into), guard, link=link)


def agree(held: Storage, tensors: Sequence[Tensor]) -> None:
    """Refuse register tensors whose elements have no known owner."""
    assert held.ownership is not None
    named = ", ".join(dict.fromkeys(tensor.name for tensor in tensors))
    held.ownership.agree("", held.name, f"an op that reads {named}")


def lower_ops(
    values: Mapping[str, Value],
    sums: Mapping[str, Window],
    output: Window,
    state: State,
    context: Context,
    link: Link | None,
    title: str,
    early: Mapping[Tensor, Storage] = MappingProxyType({}),
    apart: bool = False,
) -> tuple[tuple[Window, ...], Body]:
    """Compute expressions for every element that a thread owns: in place of the sums, or in new registers.

    Args:
        values: expressions by the name of their result; `Arg(0)` is the first sum's element, tensors in registers are
        sums.
        sums: windows of the register tensors, by name; all hold the same elements.
        output: the window of the tile that they stand for.
        state: the place in the tree.
        context: the kernel's.
        link: the link that has the ops.
        title: comment above the code.
        early: registers that hold what tensors have for the thread's elements.
        apart: whether the sums keep their elements, and the results go to new registers.

    Returns:
        A window for each expression, and the code.
    """
    first, *_ = sums
    (held, *others), made = [w.storage for w in sums.values()], [*values.values()]
    if len(made) == 1 and _is_sum(made[0], first, held.dtype):
        return (sums[first],), ()
    ownership = held.ownership
    assert ownership is not None
    outside = [t for value in made for t in value.tensors if not t.memory.registers]
    for storage in (held, *others) if outside else ():
        agree(storage, outside)
    if ownership.opaque:  # the instruction that stores it knows one element type
        made = [cast_to(value, held.dtype) for value in made]
    walk = visit(ownership, output, context, widths([t for t in outside if t not in early], output, context))
    elements = {
        name: View(buffer_of(w.storage), _register(w.storage, ownership, walk), origin=walk.coordinates)
        for name, w in sums.items()
    }
    mask = None if proves(walk.condition) else walk.condition
    read: dict[Tensor, View] = {}
    loads: Body = ()
    for tensor in dict.fromkeys(outside):
        if tensor in early:
            read[tensor] = View(buffer_of(early[tensor]), walk.register, origin=walk.coordinates)
            continue
        read[tensor] = element(tensor, walk, output, state, context)
        if wide(tensor, walk, output, context):
            vec = temporary(f"{tensor.name}_vec", tensor.dtype, walk.width, context)
            into = View(vec, as_expr(0), Layout(walk.width, 1))
            loads += (load_vector(tensor, read[tensor], into, walk, output, context, link),)
            assert walk.inner is not None
            read[tensor] = View(vec, walk.inner)
    zeroed: Body = ()
    body: Body = ()
    late: Body = ()
    results: list[Window] = []
    for i, (name, value) in enumerate(zip(values, made, strict=True)):
        source = list(sums)[min(i, len(sums) - 1)]
        after, storage = sums[source], sums[source].storage
        fresh = apart or i >= len(sums) or value.dtype != storage.dtype
        if fresh:
            storage = _converted(held, after, value.dtype, state, context)
            storage.follows = storage.follows if len(made) == 1 else ""
            after = fresh_window(storage, after)
        results.append(after)
        dst = elements[source] if not fresh else View(buffer_of(storage), walk.register, origin=walk.coordinates)
        inputs = (elements[first], *(elements[t.name] if t.memory.registers else read[t] for t in value.tensors))
        # Elements beyond the tensor print nothing and are not read.
        near = all(t.memory.registers or read[t].buffer.memory.registers for t in value.tensors)
        there = None if near and not prints(value.tree) else mask
        if there is not None and fresh:  # stores convert every register, though not all are written
            zero = number(0, value.dtype)
            zeroed += (Compute(dst, zero, link=link),)
        if len(made) == 1:
            body += compute(dst, value.tree, inputs, there, context, link)
            continue
        # All results are computed from the sums before any sum is overwritten.
        buffer = temporary(f"{name}_value", value.dtype, 1, context)
        part = View(buffer, as_expr(0), origin=walk.coordinates)
        body += compute(part, value.tree, inputs, there, context, link)
        late += (Compute(dst, Arg(0, value.dtype), (part,), there, link),)
    body = (*zeroed, *body, *late)
    if walk.inner is not None:
        body = (For(walk.inner, as_expr(walk.width), body, unroll=True),)
    return tuple(results), (Region(title, walk.around((*loads, *body)), state.path, link, "compute"),)


def _is_sum(value: Value, name: str, dtype: DType) -> bool:
    """Say whether an expression is nothing but a sum's element."""
    named = value.tensors[:1] and value.tensors[0].memory.registers and value.tensors[0].name == name
    return value.tree == Arg(1 if named else 0, dtype)


def _register(storage: Storage, ownership: Ownership, walk: Visit) -> Expr:
    """Give the register of a tensor that holds the element of a visit of another tensor of the same tile."""
    assert storage.ownership is not None
    if storage.ownership is ownership:
        return walk.register
    offset, steps = storage.ownership.resolve(ownership.access, storage.name, "epilog")
    return substitute(offset, walk.renamed) + (steps(walk.index) if steps.size > 1 else 0)


def _converted(held: Storage, window: Window, dtype: DType, state: State, context: Context) -> Storage:
    """Make a register tensor of another type whose threads own the same elements."""
    result = register_storage("value", window, held.memory, dtype, state, context, held.link)
    result.ownership, result.size, result.follows = held.ownership, held.size, held.name
    return result
