"""Epilog: C accumulates in registers; then pointwise ops run on it, and a Move stores it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from fireiron.algebra.addends import without_addends
from fireiron.algebra.expr import Expr, Index, Var, and_, as_expr, as_int, proves
from fireiron.algebra.scalar import Cast, number
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Call, Compute, For, Region, View, walk
from fireiron.kernel.lower.context import Body, Context, Recur, State, buffer_of
from fireiron.kernel.lower.epilog_copies import lower_copied
from fireiron.kernel.lower.epilog_operands import lower_early
from fireiron.kernel.lower.folds.bulk import added_in_bulk
from fireiron.kernel.lower.folds.grid import share
from fireiron.kernel.lower.folds.meeting import meet
from fireiron.kernel.lower.folds.rows import lower_rows
from fireiron.kernel.lower.folds.shared import gather
from fireiron.kernel.lower.parallel import of_tile
from fireiron.kernel.lower.pointwise import lower_ops, value_steps
from fireiron.kernel.lower.products import lower_loops
from fireiron.kernel.lower.registers import add_constant, fill
from fireiron.kernel.lower.storage import fresh_window, register_storage, tensor_window
from fireiron.kernel.lower.stream import hand_on
from fireiron.kernel.lower.tree import Tree, tree
from fireiron.kernel.lower.window import Storage, Window
from fireiron.kernel.passes.bounds_after_rounding import round_first
from fireiron.language.decompositions import ByTma, Epilog, Output
from fireiron.language.pointwise import Value
from fireiron.language.residual import apply, store_of
from fireiron.language.steps import Step


def lower_epilog(link: Epilog, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower everything that happens to the accumulators: Init, the rest of the chain, pointwise ops, stores.

    The compute atom at the end of the chain decides which thread owns which element, so the rest is lowered first.
    """
    outputs = tuple(state.windows[o.role] for o in state.residual.playing("C"))
    output = outputs[0]
    inside = evolve(state, residual=apply(link, state.residual)).under("epilog", link.link)
    sums = inside.residual.playing("C")
    held: dict[str, Window] = {}
    names = frozenset(context.names)
    taken = {t.name for t in link.tensors}
    free = next(name for n in itertools.count(1) if (name := f"acc{n if n > 1 else ''}") not in taken)
    for operand in sums:
        name = operand.tensor.name if state.residual.sums else free
        storage = register_storage(name, output, link.memory, link.dtype, state, context, link.link)
        storage.seeded = link.init != 0 or link.addends
        held[name] = fresh_window(storage, output)
    inside = inside.with_windows({o.role: window for o, window in zip(sums, held.values(), strict=True)})
    main = lower_loops(rest, evolve(inside, output=output), context, recur)
    lost = next((w.storage for w in held.values() if w.storage.ownership is None), None)
    if lost is not None:
        raise DecompositionError(
            "ownership-unknown",
            f"nothing below epilog computes with {lost.name if state.residual.sums else 'the accumulator'}",
            fix="close the chain by an atom on C",
        )
    (name, window), *others = held.items()
    storage = window.storage
    parts = [of_tile(part, state.loops) for part in storage.partials]
    partial = bool(parts) or context.stream is not None
    begin = tuple(
        Region(
            f"Init({link.init:g})({link.memory})({state.level})",
            (fill(w.storage, 0 if partial else link.init, context),),
            inside.path,
            link.link,
            "init",
            w.storage.name,
        )
        for w in held.values()
    )
    added: Body = ()
    if link.addends:
        link, added = _begun(link, held, output, inside, context)
        begin = begin if any(s.write is not None for s in walk(added) if isinstance(s, Compute)) else ()
    window, gathered = gather(window, inside, context)
    steps = _steps(link, held, output, state, context) if link.early else ()
    early, ahead = lower_early(link, steps, storage, output, inside, context)
    copied, copies, passing = lower_copied(link, rest.asked.filled, storage, output, main, names, state, context, recur)
    bulk = next((p for p in parts if isinstance(p.reduce, ByTma)), None)
    if bulk is not None:
        value, stores = added_in_bulk(link, output, bulk)
        link = evolve(link, value=value, store=stores)
    meeting = meet((window, *(w for _, w in others)), parts, outputs, inside, state, link, context)
    inside, (window, *_), outputs = meeting.inside, meeting.windows, meeting.outputs
    held = dict(zip(held, meeting.windows, strict=True))
    finish: Body = (add_constant(window.storage, link.init, context),) if partial and link.init != 0 else ()
    finish += _finished(link, held, outputs, inside, meeting.state, {**early, **copied}, passing, context, recur)
    kept = _carried(main, held, context)
    begin = (*(one for one in begin if one.buffer not in context.zeroed or one.buffer in kept), *added)
    if context.stream is not None:
        return (*begin, *ahead, *main, *gathered, *hand_on(window, context.stream, finish, link.link, context))
    finish = meeting.around(share(meeting.windows, parts, finish, inside, context))
    return (*begin, *ahead, *main, *copies, *gathered, *finish)


def _carried(main: Body, held: Mapping[str, Window], context: Context) -> frozenset[str]:
    """List the sums of several products that must start from zeros, though their first product ignores old values.

    Without zeros, the registers still hold the previous trip's values. In SASS of stream-K, whose sums are also stored
    and added to, ptxas then kept one product's sums in other registers between trips, and copied them before the wait
    for the product: half of C was wrong on an H200. ptxas never copied sums of a single product.
    """
    if context.stream is None:
        return frozenset()
    sizes = {w.storage.name: as_int(w.storage.size) for w in held.values()}
    views = (v for s in walk(main) if isinstance(s, Call) and s.atom.zeroes for v in s.views)
    return frozenset(
        v.buffer.name for v in views if v.buffer.name in sizes and as_int(v.layout.cosize) != sizes[v.buffer.name]
    )


def _begun(
    link: Epilog, held: Mapping[str, Window], output: Window, inside: State, context: Context
) -> tuple[Epilog, Body]:
    """Start the sums from the tensors that ops add first; return the epilog without these ops, and the code.

    Raises:
        DecompositionError: `epilog-addends` where several units hold partial sums of one tile.
    """
    (window,) = held.values()
    if window.storage.partials or context.stream is not None:
        raise DecompositionError(
            "epilog-addends",
            "addends= starts a tile's sums, and several units hold parts of these sums",
            fix="drop addends=, or let one unit compute each tile: without parallel(...) and stream_k()",
        )
    for tensor in link.tensors:  # parameters keep the order of the ops
        tensor_window(tensor, inside, context)
    rest, added = without_addends(link.value.tree)
    assert added is not None
    begin = evolve(link, value=evolve(link.value, tree=added))
    title = f"Init by what ops add first({link.memory})({inside.level})"
    steps = _steps(begin, held, output, inside, context)
    _, body = lower_ops(steps, held, output, inside, context, link.link, title)
    return evolve(link, value=evolve(link.value, tree=rest)), body


def _finished(
    link: Epilog,
    held: Mapping[str, Window],
    outputs: Sequence[Window],
    inside: State,
    state: State,
    near: Mapping[str, Storage | Window],
    passing: Body,
    context: Context,
    recur: Recur,
) -> Body:
    """Compute the values that an epilog stores, and store them.

    Outputs of several sums are computed together. Otherwise each expression reads the value of the one before it.

    Args:
        link: the epilog.
        held: windows of the sums, by name.
        outputs: the tile's window in each output of the residual spec.
        inside: the lowering state below the epilog; `state` is that above it.
        near: by tensor, the elements that were loaded before the ops: a thread's registers, or a tile in shared memory.
        passing: statements that follow the last reads of tiles in shared memory.
        context: the kernel's facts.
        recur: a function that lowers the links of stores.
    """
    if link.behind:
        return _behind(link, held, outputs, inside, state, context, recur)
    title = f"Pointwise({link.memory})({state.level})"
    several = bool(state.residual.sums)
    stores = _stores(link, state)
    steps = _steps(link, held, outputs[0], state, context)
    body: Body = ()
    for group, part in (
        ((stores, steps),) if several else (((one,), (s,)) for one, s in zip(stores, steps, strict=True))
    ):
        made, ops = lower_ops(part, held, outputs[0], inside, context, link.link, title, near, apart=group[0].apart)
        if group[0].fold is not None:
            held = dict.fromkeys(held, made[0])
            body += (
                *ops,
                *(passing if group[-1] is stores[-1] else ()),
                lower_rows(group[0], made[0], outputs[0], inside, context, link.link),
            )
            continue
        put: Body = ()
        for i, (one, window) in enumerate(zip(group, made, strict=True)):
            number = i if several else None if one is not stores[-1] else 0
            store = _store(one, number, window, outputs, link, inside, state, context, recur)
            if group[-1] is stores[-1]:
                ops, store = round_first(ops, store, buffer_of(window.storage), context.arch)
            put += (store,)
        held = held if several or group[0].apart else dict.fromkeys(held, made[0])
        body += (*ops, *(passing if group[-1] is stores[-1] else ()), *put)
    return body


def _behind(
    link: Epilog,
    held: Mapping[str, Window],
    outputs: Sequence[Window],
    inside: State,
    state: State,
    context: Context,
    recur: Recur,
) -> Body:
    """Store the sums; the Move behind the exchange computes the ops, as a Move of an operand computes a prolog's."""
    (window,) = held.values()
    c = outputs[0].storage.dtype
    value = link.value if link.value.dtype == c else evolve(link.value, tree=Cast(link.value.tree, c))
    one = Output(value, state.residual.playing("C")[-1].tensor, link.store)
    return (_store(one, 0, window, outputs, link, inside, state, context, recur, value),)


def _stores(link: Epilog, state: State) -> tuple[Output, ...]:
    """List the stores of an epilog, C's last."""
    return (*link.outputs, Output(link.value, state.residual.playing("C")[-1].tensor, link.store))


def _steps(
    link: Epilog, held: Mapping[str, Window], output: Window, state: State, context: Context
) -> tuple[Step, ...]:
    """Express an epilog as steps on the sums, one for each store."""
    sums = {name: window.storage.dtype for name, window in held.items()}
    return value_steps(_stores(link, state), sums, output, state, context)


def _store(
    one: Output,
    number: int | None,
    window: Window,
    outputs: Sequence[Window],
    link: Epilog,
    inside: State,
    state: State,
    context: Context,
    recur: Recur,
    ops: Value | None = None,
) -> Region:
    """Lower the Move that stores one result: to an output of the spec (by number), or to a tensor of `save`.

    The Move computes `ops` where it reads registers last.
    """
    name, path = one.tensor.name, f"{inside.path} > store"
    if number is None:
        path = f"{path} {name}"
        output = evolve(outputs[0], storage=tensor_window(one.tensor, state, context).storage)
        move = store_of(state.residual, link.memory, window.storage.dtype, one.tensor)
    else:
        output = outputs[number]
        name = name if state.residual.sums else "C"
        move = store_of(state.residual, link.memory, window.storage.dtype, number=number)
    windows = {"src": window, "dst": output}
    whole: dict[str, Window] = {} if ops is None else {"src": output}
    inner = evolve(state, residual=move, windows=windows, ops=ops, whole=whole, path=path, link=link.link)
    title = f"store {name}: {move}" + ("" if ops is None else ", ops behind the exchange")
    return Region(title, recur(tree(one.store), inner, context), inside.path, link.link, "store", name)


def initialise(state: State, context: Context) -> Body:
    """Set C to zero before the loop over K, where C accumulates in memory."""
    window = state.windows["C"]
    if state.level.size != 1:
        raise DecompositionError(
            "init-level",
            f"C accumulates in {window.storage.memory} over a split at level {state.level}: no thread holds its zeros",
            fix="accumulate in registers by .epilog(...) above the split, or split below .to(Thread)",
        )
    body: Body = ()
    offset = window.linear()
    loops: list[tuple[Var, Index]] = []
    condition: Expr | None = None
    for i, axis in enumerate(window.axes):
        steps = window.steps_along(i)
        assert steps is not None
        var: Expr = as_expr(0)
        if axis.size != 1:
            var = context.variable("i", axis.size)
            loops.append((var, axis.size))
        offset = offset + steps(var)
        for bound in axis.bounds:
            one = bound.condition(axis.layout(var))
            condition = one if condition is None else and_(condition, one)
    zero = number(0, window.storage.dtype)
    mask = None if condition is None or proves(condition) else condition
    body = (Compute(View(buffer_of(window.storage), offset, origin=window.origin), zero, write=mask),)
    for var, extent in reversed(loops):
        body = (For(var, as_expr(extent), body, unroll=True),)
    return (
        Region(f"Init(0)({window.storage.memory})(Thread)", body, state.path, state.link, "init", window.storage.name),
    )
