"""Pointwise ops on a register tensor: each thread computes with the elements that it owns.

Operands in memory are read at these elements' coordinates: by vectors where a thread's elements are contiguous, else
one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import gcd
from types import MappingProxyType

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Var, affine, and_, as_expr, as_int, free, lt, proves, simplest, substitute
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Cast, Scalar, located, number, parameters, prints
from fireiron.algebra.simplify import share
from fireiron.atoms.table import matching
from fireiron.base.link import Link
from fireiron.kernel.analysis.ownership import Ownership
from fireiron.kernel.ir.statements import Call, Compute, For, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of, memory_view
from fireiron.kernel.lower.registers import VECTOR_NBYTES, temporary
from fireiron.kernel.lower.storage import fresh_window, register_storage, tensor_window
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.language.decompositions import Output
from fireiron.language.folds import Dim
from fireiron.language.levels import GL, RF, SH, Thread
from fireiron.language.steps import Ref, Step
from fireiron.language.tensor import Tensor
from fireiron.language.value_steps import dims_of, exchanged, held, step_of

STACK = Var("l", None)  # the dim of layers that are computed by one loop


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
    """Describe loops over the elements that a thread owns.

    Args:
        coordinates: the current element's coordinates in the whole tensor.
        place: the element's coordinates in the tile.
        register: the number of the current element's register.
        condition: the condition that the current element exists.
        loops: the loops, outermost first.
        inner: the variable of the innermost loop, whose elements are neighbours along axis `along`.
        width: extent of the innermost loop, 1 where there is none.
        renamed: the owner's loop variables -> the variables of these loops.
        index: index of the element in one trip of the owner's loops.
        along_axis: for each axis, the condition that the element exists.
        guard: the condition that the thread has any element.
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
        """Return the condition that a tensor has a value for the element, given the element's place along some axes."""
        return and_(*(self.along_axis[i] for i in sorted(axes)), self.guard)

    def first(self, e: Expr) -> Expr:
        """Return an expression's value at the first of the neighbours."""
        return e if self.inner is None else substitute(e, {self.inner: as_expr(0)})

    def around(self, body: Body) -> Body:
        """Put the loops around the code for an element."""
        for var, extent in reversed(self.loops):
            body = (For(var, as_expr(extent), body, unroll=True),)
        return body


def visit(
    ownership: Ownership, output: Window, context: Context, widths: Callable[[int, int, Expr], int] | None = None
) -> Visit:
    """Make loops over the elements of a register tensor.

    Args:
        ownership: the tensor's ownership.
        output: the window of the tile in the whole tensor.
        context: the kernel's context; it makes the variables' names.
        widths: a function that chooses the width of a vector, from the axis, the number of neighbours along the axis
            that a thread holds in one run, and the coordinate of the first neighbour.
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
    """Return how many neighbours a vector from `first` on may have in a strided tile; 0 if the tile sets no limit."""
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
    """Say whether swap() exchanged the product's operands; rows of the ops' tensors are then columns of C."""
    return context.spec.swapped


def value_steps(
    outputs: Sequence[Output], sums: Mapping[str, DType], output: Window, state: State, context: Context
) -> tuple[Step, ...]:
    """Make a step for each store; it reads the sums of several products, or the value of the store before it.

    Args:
        outputs: the stores, first to last.
        sums: element types of the sums, by name.
        output: the window of the tile in the tensor whose elements the sums are.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
    """
    dims = dims_of(output.storage.shape)
    # Tensors that a stack of layers reads are batches with one entry per layer.
    stack = () if state.number is None else (STACK,)
    whole = (*stack, *(exchanged(dims) if swapped(context) else dims))
    refs = {name: held(name, dtype, dims) for name, dtype in sums.items()}
    last = next(iter(refs.values()))
    made: list[Step] = []
    for one in outputs:
        name = last.name if len(sums) == 1 else one.tensor.name
        step = step_of(one.value, last, held(name, one.value.dtype, dims), whole, refs)
        made.append(step)
        last = last if one.apart or len(sums) > 1 else step.outs[0]
    return tuple(made)


def element_of(ref: Ref, places: Mapping[Expr, Expr], state: State, context: Context) -> View:
    """Return the view of the element that a read names, at the given coordinates of its dims."""
    shared: list[Expr] = []
    total = as_expr(0)
    for e, extent, stride in zip(ref.index, ref.shape, ref.strides, strict=True):
        at = as_expr(0) if extent == 1 else as_expr(substitute(e, places))
        shared.append(at)
        total = total + at * stride
    buffer = buffer_of(tensor_window(ref.tensor, state, context).storage)
    return View(buffer, total, origin=tuple(shared))


def _width(ref: Ref, dim: Dim, count: int, first: Expr) -> int:
    """Return how many elements of a tensor one aligned access takes along a dim of the output; at least 1."""
    place = next((i for i, e in enumerate(ref.index) if e == dim), None)
    if place is None or ref.shape[place] == 1 or simplest(ref.strides[place]) != 1:
        return 1
    others = [as_expr(s) for i, s in enumerate(ref.strides) if i != place and ref.shape[i] != 1]
    width = 1
    while (
        count % (2 * width) == 0
        and ref.start % (2 * width) == 0
        and 2 * width * ref.dtype.nbytes <= VECTOR_NBYTES
        and all(e.divisor % (2 * width) == 0 for e in (first, as_expr(ref.shape[place]), *others))
    ):
        width *= 2
    return width


def widths(
    refs: Sequence[Ref], output: Window, near: Mapping[str, Storage | Window] = MappingProxyType({})
) -> Callable[[int, int, Expr], int]:
    """Choose how many neighbours a visit takes at once: as many as one access of every tensor in memory loads."""
    dims = dims_of(output.storage.shape)

    def most(axis: int, count: int, first: Expr) -> int:
        found: list[int] = []
        for ref in refs:
            loaded = near.get(ref.name)
            if loaded is None:
                found.append(_width(ref, dims[axis], count, first))
            elif isinstance(loaded, Window):
                found.append(_shared_width(loaded, axis - len(output.axes), count, first))
        return min((w for w in found if w > 1), default=1)

    return most


def _shared_width(window: Window, axis: int, count: int, first: Expr) -> int:
    """Return how many elements of a tile in shared memory one aligned access takes along an axis."""
    strides, swizzle, nbytes = window.storage.strides, window.storage.swizzle, window.storage.dtype.nbytes
    if axis < -len(window.axes):
        return 1
    if isinstance(strides, Layout):
        run, step = strides[axis].leaves[0]
    else:
        run, step = window.axes[axis].size, strides[axis]
    if step != 1 or not isinstance(run, int):
        return 1
    most = gcd(count, run, VECTOR_NBYTES // nbytes, 0 if swizzle is None else swizzle.contiguous)
    return gcd(most, first.divisor) if first.divisor else most


def _shared_element(window: Window, walk: Visit, width: int = 1) -> View:
    """Return the view of a visit's element, or of its neighbours, in a tile in shared memory."""
    skipped = len(walk.place) - len(window.axes)
    axes = tuple(
        Axis(axis.dim, width if i == walk.along else 1, walk.first(place) if width > 1 else place)
        for i, (axis, place) in enumerate(zip(window.axes, walk.place[skipped:], strict=True), skipped)
    )
    return memory_view(attrs.evolve(window, axes=axes))


def _load_shared(window: Window, into: View, walk: Visit, context: Context, link: Link | None) -> Call:
    """Load a visit's neighbours from a tile in shared memory, which has zeros for elements outside the tensor."""
    kind = window.storage.dtype
    atom = matching("Move", (walk.width,), (kind, kind), (SH, RF), Thread, context.arch)[0]
    return Call(atom, (_shared_element(window, walk, walk.width), into), link=link)


def element(ref: Ref, walk: Visit, output: Window, state: State, context: Context) -> View:
    """Return the view of a tensor's value for the element of a visit."""
    places: dict[Expr, Expr] = dict(zip(dims_of(output.storage.shape), walk.coordinates, strict=True))
    if state.number is not None:
        places[STACK] = state.number
    return element_of(ref, places, state, context)


def wide(ref: Ref, walk: Visit, output: Window, loaded: Window | None = None) -> bool:
    """Say whether one access loads a tensor's values for all neighbours of a visit."""
    if walk.inner is None:
        return False
    base = walk.first(walk.coordinates[walk.along])
    if loaded is not None:
        return _shared_width(loaded, walk.along - len(output.axes), walk.width, base) == walk.width
    return _width(ref, dims_of(output.storage.shape)[walk.along], walk.width, base) == walk.width


def load_vector(
    ref: Ref, source: View, into: View, walk: Visit, output: Window, context: Context, link: Link | None
) -> Call:
    """Load a tensor's values for a visit's neighbours by one instruction, where they exist.

    A dim of extent 1 is broadcast, unless the output also has extent 1 along it; then only index 0 is read.
    """
    axes = [i for i, dim in enumerate(dims_of(output.storage.shape)) if any(dim in free(e) for e in ref.index)]
    exists = walk.condition_of(axes)
    atom = matching("Move", (walk.width,), (ref.dtype, ref.dtype), (GL, RF), Thread, context.arch)[0]
    source = attrs.evolve(
        source,
        offset=walk.first(source.offset),
        layout=Layout(walk.width, 1),
        origin=tuple(map(walk.first, source.origin)),
    )
    present = simplest(walk.first(exists))
    guard = None if proves(exists) or as_int(as_expr(present)) == 1 else as_expr(present)
    return Call(atom, (source, into), guard, link=link)


def agree(storage: Storage, tensors: Sequence[Tensor]) -> None:
    """Raise an error for register tensors whose elements have no known owner."""
    assert storage.ownership is not None
    named = ", ".join(dict.fromkeys(tensor.name for tensor in tensors))
    storage.ownership.agree("", storage.name, f"an op that reads {named}")


def lower_ops(
    steps: Sequence[Step],
    sums: Mapping[str, Window],
    output: Window,
    state: State,
    context: Context,
    link: Link | None,
    title: str,
    near: Mapping[str, Storage | Window] = MappingProxyType({}),
    apart: bool = False,
) -> tuple[tuple[Window, ...], Body]:
    """Compute steps for every element that a thread owns: in place of the sums, or in new registers.

    Args:
        steps: the steps to compute together; each reads sums by name, and elements of tensors.
        sums: windows of the register tensors, by name; all have the same ownership.
        output: the window of the sums' tile in the whole tensor.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        link: the link that has the ops.
        title: comment above the code.
        near: what was loaded before, by the tensors' names: registers that hold a thread's elements, or the window of a
            tile in shared memory.
        apart: whether the sums keep their elements, and the results go to new registers.

    Returns:
        A window for the result of each step, and the code.
    """
    first, *_ = sums
    sources = [w.storage for w in sums.values()]
    mine = sources[0]
    if len(steps) == 1 and _is_sum(steps[0], first, mine.dtype):
        return (sums[first],), ()
    ownership = mine.ownership
    assert ownership is not None
    outside = list(dict.fromkeys(ref for step in steps for ref in step.reads if ref.name not in sums))
    for storage in sources if outside else ():
        agree(storage, [ref.tensor for ref in outside])
    if ownership.opaque:  # the instruction that stores it knows one element type
        steps = [_of_type(step, mine.dtype) for step in steps]
    walk = visit(ownership, output, context, widths(outside, output, near))
    read: dict[str, View] = {
        name: View(buffer_of(w.storage), _register(w.storage, ownership, walk), origin=walk.coordinates)
        for name, w in sums.items()
    }
    mask = None if proves(walk.condition) else walk.condition
    loads: Body = ()
    for ref in outside:
        loaded = near.get(ref.name)
        if isinstance(loaded, Storage):
            read[ref.name] = View(buffer_of(loaded), walk.register, origin=walk.coordinates)
            continue
        if loaded is not None:
            read[ref.name] = _shared_element(loaded, walk)
        else:
            read[ref.name] = element(ref, walk, output, state, context)
        if wide(ref, walk, output, loaded):
            vec = temporary(f"{ref.name}_vec", ref.dtype, walk.width, context)
            into = View(vec, as_expr(0), Layout(walk.width, 1))
            loads += (
                load_vector(ref, read[ref.name], into, walk, output, context, link)
                if loaded is None
                else _load_shared(loaded, into, walk, context, link),
            )
            assert walk.inner is not None
            read[ref.name] = View(vec, walk.inner)
    zeroed: Body = ()
    body: Body = ()
    late: Body = ()
    results: list[Window] = []
    for i, step in enumerate(steps):
        source = list(sums)[min(i, len(sums) - 1)]
        after, storage, dtype = sums[source], sums[source].storage, step.body.dtype
        fresh = apart or i >= len(sums) or dtype != storage.dtype
        if fresh:
            storage = _converted(mine, after, dtype, state, context)
            storage.follows = storage.follows if len(steps) == 1 else ""
            after = fresh_window(storage, after)
        results.append(after)
        dst = read[source] if not fresh else View(buffer_of(storage), walk.register, origin=walk.coordinates)
        inputs = tuple(read[ref.name] for ref in step.reads)
        # Elements beyond the tensor print nothing and are not read.
        held = all(view.buffer.memory != GL for view in inputs)
        there = None if held and not prints(step.body) else mask
        if there is not None and fresh:  # stores convert every register, though not all are written
            zeroed += (Compute(dst, number(0, dtype), link=link),)
        if len(steps) == 1:
            body += compute(dst, step.body, inputs, there, context, link)
            continue
        # All results are computed from the sums before any sum is overwritten.
        buffer = temporary(f"{step.name}_value", dtype, 1, context)
        part = View(buffer, as_expr(0), origin=walk.coordinates)
        body += compute(part, step.body, inputs, there, context, link)
        late += (Compute(dst, Arg(0, dtype), (part,), there, link),)
    body = (*zeroed, *body, *late)
    if walk.inner is not None:
        body = (For(walk.inner, as_expr(walk.width), body, unroll=True),)
    return tuple(results), (Region(title, walk.around((*loads, *body)), state.path, link, "compute"),)


def _is_sum(step: Step, name: str, dtype: DType) -> bool:
    """Say whether a step only copies a sum's element."""
    return step.body == Arg(0, dtype) and step.reads[0].name == name


def _of_type(step: Step, dtype: DType) -> Step:
    """Convert a step's result to a type."""
    return step if step.body.dtype == dtype else attrs.evolve(step, body=Cast(step.body, dtype))


def _register(storage: Storage, ownership: Ownership, walk: Visit) -> Expr:
    """Return the register of a tensor that holds the element of a visit of another tensor of the same tile."""
    assert storage.ownership is not None
    if storage.ownership is ownership:
        return walk.register
    offset, steps = storage.ownership.resolve(ownership.access, storage.name, "epilog")
    return substitute(offset, walk.renamed) + (steps(walk.index) if steps.size > 1 else 0)


def _converted(mine: Storage, window: Window, dtype: DType, state: State, context: Context) -> Storage:
    """Make a register tensor of another type whose threads own the same elements."""
    result = register_storage("value", window, mine.memory, dtype, state, context, mine.link)
    result.ownership, result.size, result.follows = mine.ownership, mine.size, mine.name
    return result
