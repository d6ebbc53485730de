"""Leaves: a residual spec becomes an atom's call, or a microkernel."""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import FALSE, Expr, and_, as_expr, gt, minimum, proves, substitute
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Cast, Constant, number
from fireiron.atoms.table import Near, chosen_from, matching, nearest
from fireiron.base.errors import DecompositionError
from fireiron.base.text import count as in_words
from fireiron.kernel.ir.statements import Binding, Buffer, Call, Compute, For, If, Micro, Region, View
from fireiron.kernel.lower.bulk import lower_bulk
from fireiron.kernel.lower.choose import preferred, require_converged
from fireiron.kernel.lower.collective import lower_collective
from fireiron.kernel.lower.context import Body, Context, State, buffer_of, elements, memory_view, register_view
from fireiron.kernel.lower.descriptor import descriptor_view
from fireiron.kernel.lower.fragment import fragment_view
from fireiron.kernel.lower.prolog import transform
from fireiron.kernel.lower.regroup import regroup
from fireiron.kernel.lower.storage import tensor_window
from fireiron.kernel.lower.window import Window, line
from fireiron.kernel.passes.packing import packed_access
from fireiron.language.as_steps import steps_of
from fireiron.language.atom import Atom, Operand
from fireiron.language.decompositions import Done, Microkernel
from fireiron.language.levels import FR, RF, Thread, Warp
from fireiron.language.residual import Operand as Placed


def lower_done(link: Done, state: State, context: Context) -> Body:
    """Lower the end of a chain.

    Raises:
        DecompositionError: `no-atom` where no instruction executes the residual spec.
    """
    if isinstance(link.atom, Microkernel):
        return _micro(link.atom, state, context)
    if state.residual.kind == "MatMul":
        return _matmul(link.atom, state, context)
    bulk = _bulk(link.atom, state)
    if bulk is not None:
        return lower_bulk(bulk, state, context)
    if state.residual.kind == "Move" and state.level.name == Warp.name:
        return lower_collective(link.atom, state, context)
    if state.level.name != Thread.name:
        raise _no_atom(
            state, link.atom, f"it is at level {state.level}, and atoms of its kind execute one Thread's part"
        )
    if state.residual.kind == "Move":
        return _move(link.atom, state, context)
    return _elementwise(state, context)


def _bulk(chosen: Atom | str | None, state: State) -> Atom | None:
    """Find the bulk copy of a Move, by its rank."""
    if chosen is None:
        return None
    rows = [atom for atom in chosen_from(chosen) if atom.rank]
    rank = len(state.residual.sizes)
    return next((atom for atom in rows if atom.rank == rank), rows[0] if rows else None)


def _no_atom(
    state: State,
    chosen: Atom | str | None,
    why: str,
    fix: str = "tile to Thread, then to an atom's shape, before done()",
) -> DecompositionError:
    what = "no atom executes" if chosen is None else f"{getattr(chosen, 'name', chosen)} does not execute"
    return DecompositionError("no-atom", f"{what} {state.residual}: {why}", fix=fix)


def _nearest(chosen: Atom | str | None, found: tuple[Near, ...]) -> str:
    """Name the atoms that differ in the fewest facts, with these facts."""
    least = [near for near in found if len(near.differs) == len(found[0].differs)]
    if chosen is not None:
        return "; ".join(least[0].differs)
    return "nearest: " + "; ".join(f"{near.atom.name} ({', '.join(near.differs)})" for near in least)


def _steps_to(
    chosen: Atom | str | None,
    found: tuple[Near, ...],
    state: State,
    operands: tuple[Placed, ...],
    shape: tuple[int, ...],
) -> str:
    """Name links that would lead from a MatMul to the nearest atom, for an error's fix."""
    atom = found[0].atom
    steps: list[str] = []
    if state.level != atom.unit:
        steps.append(f"tile to {atom.unit}")
    if shape[:2] != atom.shape[:2]:
        steps.append(f"tile({atom.shape[0]}, {atom.shape[1]})")
    if shape[2] != atom.shape[2]:
        steps.append(f"split({atom.shape[2]})")
    steps += [
        f"load {wanted.role} to {wanted.memory}" if wanted.role != "C" else "accumulate C by epilog(memory=RF)"
        for wanted, o in zip(atom.operands, operands, strict=True)
        if not o.memory.registers and o.memory != wanted.memory
    ]
    if any(o.dtype != wanted.dtype for wanted, o in zip(atom.operands, operands, strict=True)):
        types = dict.fromkeys(
            near.atom.operand("A").dtype for near in found if len(near.differs) == len(found[0].differs)
        )
        *most, last = map(str, types)
        known = f"{', '.join(most)} or {last}" if most else last
        other = "choose an atom of these element types" if chosen is not None else f"state the product in {known}"
        steps.append(f"{other}, or convert by load(..., dtype=...)")
    return ", ".join(steps) or f"compile for sm_{atom.arch}" + ("a" if atom.last == atom.arch else " or later")


def _matmul(chosen: Atom | str | None, state: State, context: Context) -> Body:
    return tuple(call for parts in state.products for call in _product(chosen, parts, state, context))


def _product(chosen: Atom | str | None, parts: tuple[str, str, str], state: State, context: Context) -> Body:
    """Execute one product by an atom; `parts` names its operands."""
    found_of = [state.residual.operand(part) for part in parts]
    operands = tuple(o for o in found_of if o is not None)
    shape = tuple(
        size if isinstance(size, int) else 0
        for dim, size in state.residual.sizes
        if dim in ("M", "N", "K") or size != 1
    )
    held = RF if state.level.size == 1 else FR
    memories = tuple(held if o.memory.registers else o.memory for o in operands)
    asked = ("MatMul", shape, tuple(o.dtype for o in operands), memories, state.level, context.arch)
    product = context.spec.product
    table = None if chosen is None else chosen_from(chosen, shape)
    matches = matching(*asked, table=table, product=product)
    if not matches and state.level.size == 1:
        brought = (*asked[:3], (RF,) * len(operands), *asked[4:])
        matches = matching(*brought, table=table, product=product)
    if not matches:
        near = nearest(*asked, table=chosen_from(chosen, shape), product=product)
        if not near:
            raise _no_atom(state, chosen, "it computes no product", "name an instruction of products, or none")
        raise _no_atom(state, chosen, _nearest(chosen, near), _steps_to(chosen, near, state, operands, shape))
    windows = {role: state.windows[part] for role, part in zip(("A", "B", "C"), parts, strict=True)}
    found = preferred(matches, windows)
    require_converged(found, state, context)
    views: list[View] = []
    before: Body = ()
    behind: Body = ()
    for role, window in windows.items():
        operand = found.operand(role)
        if operand.memory == RF and not window.storage.memory.registers:
            put, view, stored = _by_registers(operand, window, parts[2] in state.accumulated, state, context)
            views.append(view)
            before, behind = before + put, behind + stored
            continue
        if operand.span:
            views.append(descriptor_view(operand, window, f"{found.name} (done)"))
            continue
        if found.unit.size != 1:
            views.append(fragment_view(operand, window, state, context, f"{found.name} (done)"))
            regroup(operand, window, state, context, found.name)
            continue
        view = register_view(context, window, state, f"{found.name} (done)")
        count = view.layout.size
        if view.layout != line(count, 1) and count > 1:
            raise DecompositionError(
                "fragment-order",
                f"{found.name} needs its {count} elements of {role} in consecutive registers",
                fix="load it by conform()",
            )
        views.append(view)
    accumulate = None
    sums = state.windows[parts[2]].storage
    if found.zeroes and not sums.seeded:
        accumulate = None if parts[2] in state.accumulated else state.begun
        context.zeroed.add(sums.name)
    return (*before, Call(found, tuple(views), accumulate=accumulate, link=state.link), *behind)


def _by_registers(
    operand: Operand, window: Window, accumulated: bool, state: State, context: Context
) -> tuple[Body, View, Body]:
    """Add Moves to and from registers for an operand in memory, where a thread's atom takes registers.

    Returns:
        The Move to registers, the registers, and the Move back where the atom writes the operand.

    Raises:
        DecompositionError: `no-atom` where the operand's elements are not contiguous; `accumulator-dtype` where sums
            would be rounded to C's type.
    """
    spec, kind, count = context.spec, window.storage.dtype, elements(window).size
    updated = operand.access != "read"
    if updated and spec.accumulator not in (None, kind):
        raise DecompositionError(
            "accumulator-dtype",
            f"products are summed in {spec.accumulator}, and {window.storage.name} in {window.storage.memory}, where "
            f"they would be summed, holds {kind}",
            fix=f'sum in registers by .epilog(memory=RF), or state the product with acc="{kind}"',
        )
    if elements(window) != line(count, 1) and count > 1:
        raise _no_atom(
            state, None, f"its {count} elements of {window.storage.name} do not lie together", "load it by conform()"
        )
    _check_alignment(window, count)
    memory, exists = memory_view(window), window.condition()
    held = _temporary(f"{window.storage.name.lower()}_rf", kind, count, context)
    title = f"{window.storage.name} to {held.buffer.name}"
    put: Body = (Call(_copy(None, memory, held, count, state, context), (memory, held), exists, link=state.link),)
    if updated and state.begun == FALSE and not accumulated:
        zero = number(0, kind)
        put = tuple(Compute(_element(held, as_expr(e)), zero, link=state.link) for e in range(count))
    stored: Body = ()
    if updated:
        back = Call(_copy(None, held, memory, count, state, context), (held, memory), None, exists, link=state.link)
        stored = (Region(f"store {held.buffer.name} to {window.storage.name}", (back,), state.path, state.link),)
    return (Region(f"load {title}", put, state.path, state.link),), held, stored


def _view(window: Window, state: State, context: Context) -> View:
    if window.storage.memory.registers:
        return register_view(context, window, state, f"{state.residual}")
    return memory_view(window)


def _move(chosen: Atom | str | None, state: State, context: Context) -> Body:
    src, dst = state.windows["src"], state.windows["dst"]
    count = 1
    for _, size in state.residual.sizes:
        assert isinstance(size, int)
        count *= size
    for window in (src, dst):
        kind = window.storage.dtype
        if count % kind.pack:
            raise packed_access(window.storage.name, kind, f"it moves {in_words(count, 'element')} at once")
        if count > 1 and not window.storage.memory.registers and elements(window) != line(count, 1):
            raise _no_atom(
                state,
                chosen,
                f"its {count} elements do not lie together in {window.storage.name}",
                "tile along the contiguous dimension, or tile(1, 1)",
            )
        _check_alignment(window, count)
    source, target = _view(src, state, context), _view(dst, state, context)
    # All registers are moved: elements beyond a tile's end are neither read nor stored by the other side.
    read, write = (None if w.storage.memory.registers else w.condition() for w in (src, dst))
    same = src.storage.dtype == dst.storage.dtype and state.ops is None
    straight = same and all(_packed(v, count) for v in (source, target))
    if straight:
        return (
            Call(_copy(chosen, source, target, count, state, context), (source, target), read, write, link=state.link),
        )
    body: Body = ()
    if not src.storage.memory.registers:
        held = _temporary(f"{src.storage.name}_vec", src.storage.dtype, count, context)
        body += (Call(_copy(chosen, source, held, count, state, context), (source, held), read, link=state.link),)
        source = held
    into = target
    if not dst.storage.memory.registers:
        into = _temporary(f"{dst.storage.name}_vec", dst.storage.dtype, count, context)
    body += (
        _computed(source, into, count, state, context)
        if state.ops is not None
        else _cast(source, into, count, state, context)
    )
    if into is not target:
        body += (
            Call(_copy(chosen, into, target, count, state, context), (into, target), None, write, link=state.link),
        )
    elif write is not None:
        body = (If(write, body),)
    return body


def _cast(source: View, into: View, count: int, state: State, context: Context) -> Body:
    """Convert element by element."""
    kinds = source.buffer.dtype, into.buffer.dtype
    value = Arg(0, kinds[0]) if kinds[0] == kinds[1] else Cast(Arg(0, kinds[0]), kinds[1])
    if count == 1:
        return (Compute(_element(into, as_expr(0)), value, (_element(source, as_expr(0)),), link=state.link),)
    e = context.variable("e", count)
    one = Compute(_element(into, e), value, (_element(source, e),), link=state.link)
    return (For(e, as_expr(count), (one,), unroll=True),)


def _computed(source: View, into: View, count: int, state: State, context: Context) -> Body:
    """Apply a prolog's ops to a vector."""
    pack = source.buffer.dtype.pack

    def local(number: Expr) -> tuple[Expr, ...]:
        found: list[Expr] = []
        for _, size in state.residual.sizes:
            assert isinstance(size, int)
            found.append(number % size)
            number = number // size
        return tuple(found)

    def held(number: Expr) -> View:
        one = _element(source, number)
        return one if pack == 1 else attrs.evolve(one, layout=line(pack, 1))

    return transform(count, lambda number: _element(into, number), held, local, state, context)


def _check_alignment(window: Window, count: int) -> None:
    """Raise an error for a vector that may start at a misaligned address, or of which a bound may exclude a part."""
    storage = window.storage
    if count == 1 or storage.memory.registers:
        return
    places = (
        ("starts at", window.linear()),
        ("lies in slots at", window.base()),
        ("belongs to a tensor that starts at", as_expr(storage.start)),
    )
    for what, e in places:
        if e.divisor % count:
            raise DecompositionError(
                "vector-alignment",
                f"a vector of {count} elements of {storage.name} {what} {e}, which {count} does not divide",
                fix="use narrower tiles, or declare sizes by symbol(name, multiple_of=n)",
            )
    for axis in window.axes:
        for bound in axis.bounds if axis.size != 1 else ():
            size = as_expr(axis.size).divisor
            if bound.limit.divisor % size or bound.offset.divisor % size:
                raise DecompositionError(
                    "vector-alignment",
                    f"the end of {axis.dim} ({bound.limit}) may cut a vector of {size} elements of {storage.name}",
                    fix="use narrower tiles, or declare sizes by symbol(name, multiple_of=n)",
                )


def _packed(view: View, count: int) -> bool:
    """Say whether a view's elements are contiguous and aligned, as one access needs them."""
    if count == 1:
        return True
    if view.layout != line(count, 1):
        return False
    return not view.buffer.memory.registers or view.offset.divisor % count == 0


def _element(view: View, e: Expr) -> View:
    return attrs.evolve(view, offset=view.offset + (view.layout(e) if view.layout.size > 1 else 0), layout=line(1, 0))


def _temporary(name: str, dtype: DType, count: int, context: Context) -> View:
    name = context.name(name)
    buffer = Buffer(name, RF, dtype, as_expr(count), unit=Thread)
    context.temporaries.append(buffer)
    return View(buffer, as_expr(0), line(count, 1) if count > 1 else line(1, 0))


def _copy(chosen: Atom | str | None, src: View, dst: View, count: int, state: State, context: Context) -> Atom:
    for view in (src, dst):
        if not _packed(view, count):
            raise _no_atom(state, chosen, f"its {count} elements do not lie together in {view.buffer.name}")
    memories = tuple(RF if v.buffer.memory.registers else v.buffer.memory for v in (src, dst))
    dtypes = (src.buffer.dtype, dst.buffer.dtype)
    kind = "Add" if state.residual.adds else "Move"
    asked = (kind, (count,), dtypes, memories, Thread, context.arch)
    found = matching(*asked, table=None if chosen is None else chosen_from(chosen))
    if not found:
        raise _no_atom(state, chosen, "; ".join(map(str, nearest(*asked, table=chosen_from(chosen)))))
    return found[0]


def _elementwise(state: State, context: Context) -> Body:
    """Lower a spec of one pointwise step, for one thread's part."""
    (step,) = steps_of(context.spec).steps
    (target,) = state.residual.operands
    window = state.windows[target.role]
    loops: list[tuple[Expr, int]] = []
    shifts: list[Expr] = []
    conditions: list[Expr] = []
    for axis in window.axes:
        assert isinstance(axis.size, int)
        var = as_expr(0) if axis.size == 1 else context.variable(axis.dim.lower(), axis.size)
        if axis.size > 1:
            loops.append((var, axis.size))
        shift = as_expr(axis.layout(var))
        shifts.append(axis.offset + shift)
        conditions += [b.condition(b.steps(var) if b.steps else var) for b in axis.bounds]
    dst = View(buffer_of(window.storage), window.storage.address(tuple(shifts)), origin=tuple(shifts))
    condition = and_(*conditions) if conditions else as_expr(1)
    mask = None if proves(condition) else condition
    places: dict[Expr, Expr] = dict(zip(step.outs[0].index, shifts, strict=True))
    inputs: list[View] = []
    for ref in step.reads:
        source = tensor_window(ref.tensor, state, context)
        at = tuple(as_expr(substitute(e, places)) for e in ref.index)
        inputs.append(View(buffer_of(source.storage), source.storage.address(at), origin=at))
    tree = step.body
    if isinstance(tree, Cast) and isinstance(tree.x, Constant):
        tree = number(tree.x.value, tree.dtype)  # rounded here, and not by each thread
    one = Compute(dst, tree, tuple(inputs), mask, state.link)
    body: Body = (one,)
    for var, extent in reversed(loops):
        body = (For(var, as_expr(extent), body, unroll=True),)  # pyright: ignore[reportArgumentType]
    return body


def _micro(micro: Microkernel, state: State, context: Context) -> Body:
    views: list[View] = []
    bindings: dict[str, Expr] = {dim: as_expr(size) for dim, size in state.residual.sizes if size is not None}
    present: list[Expr] = []
    for window in state.windows.values():
        storage = window.storage
        for axis in window.axes[:-2]:
            if axis.size != 1:
                raise DecompositionError(
                    "microkernel-batch",
                    f"microkernel {micro.name} takes rows and columns, and its part of {storage.name} has {axis.size} "
                    f"along {axis.dim}",
                    fix="tile(m, n, batch=1) above it",
                )
        if storage.memory.registers:
            view = register_view(context, window, state, f"microkernel {micro.name}")
            rows = window.axes[-2:][0].size
            assert isinstance(rows, int)
            modes = [
                (rows, view.layout(1) if rows > 1 else 0),
                (view.layout.size // rows, view.layout(rows) if view.layout.size > rows else 0),
            ]
        else:
            modes = [(a.size, s) for i, a in enumerate(window.axes) for s in (_stride(window, i, micro),)][-2:]
            view = attrs.evolve(_origin(window))
        for axis in window.axes:
            for bound in axis.bounds:
                inside = bound.limit - bound.offset
                bindings[axis.dim] = minimum(bindings[axis.dim], inside)
                present.append(gt(inside, 0))
        layout = Layout(tuple(n for n, _ in modes), tuple(s for _, s in modes))  # pyright: ignore[reportArgumentType]
        views.append(attrs.evolve(view, layout=layout))
    roles = tuple(state.windows)
    call = Micro(
        micro.name, micro.source, micro.numpy, roles, tuple(views),
        tuple(Binding(dim, value) for dim, value in bindings.items()), (roles[-1],), state.level, None, state.link,
    )  # fmt: skip
    condition = and_(*present) if present else as_expr(1)
    body: Body = (call,) if proves(condition) else (If(condition, (call,)),)
    return (Region(f"{state.residual} by {micro.name}", body, state.path, state.link),)


def _origin(window: Window) -> View:
    return View(buffer_of(window.storage), window.base() + window.linear(), slot=window.slot, origin=window.origin)


def _stride(window: Window, index: int, micro: Microkernel) -> object:
    axis, strides = window.axes[index], window.storage.strides
    if (
        (axis.steps is not None and axis.steps.stride != 1)
        or isinstance(strides, Layout)
        or window.storage.swizzle is not None
    ):
        raise DecompositionError(
            "microkernel-strides",
            f"microkernel {micro.name} would see {window.storage.name} at irregular places along {axis.dim}",
            fix="microkernels take plainly strided tiles: no Strided tile, swizzle or hierarchical storage above them",
        )
    return strides[index]
