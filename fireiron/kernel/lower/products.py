"""Several products in one kernel: their loops over K follow each other, and one epilog computes the outputs.

Products that share an operand go through one loop, which loads it once. Each loop is the same chain, projected to the
operands that it has; accumulators live through all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, as_expr, proves, substitute
from fireiron.algebra.scalar import Arg
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Compute, Region, Statement, View
from fireiron.kernel.lower.context import Body, Context, Recur, State, buffer_of
from fireiron.kernel.lower.pointwise import compute, operand_view, temporary, visit
from fireiron.kernel.lower.reduce import fill
from fireiron.kernel.lower.storage import fresh_window, register_storage
from fireiron.kernel.lower.window import Storage, Window
from fireiron.kernel.passes.bounds_after_rounding import round_first
from fireiron.language.decompositions import Decomposition, Epilog, Load, Output
from fireiron.language.levels import SH
from fireiron.language.pointwise import read
from fireiron.language.programs import Products
from fireiron.language.residual import Residual, apply, store_of


def lower_products(link: Epilog, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur) -> Body:
    """Lower the accumulators' life: Init, the products' loops one after another, pointwise ops, the stores."""
    spec = _spec(context)
    below = attrs.evolve(state, residual=apply(link, state.residual)).under("epilog", link.link)
    outputs = tuple(state.windows[o.role] for o in state.residual.playing("C"))
    if context.role != "math":  # it has no part in the accumulators' life
        below = attrs.evolve(
            below, windows={**below.windows, **{o.role: outputs[0] for o in below.residual.playing("C")}}
        )
        return _loops(spec, rest, below, context, recur)
    held: dict[str, Storage] = {}
    for operand in below.residual.playing("C"):
        name = operand.tensor.name
        held[name] = register_storage(name, outputs[0], link.memory, link.dtype, state, context, link.link)
        below = below.with_window(operand.role, fresh_window(held[name], outputs[0]))
    main = _loops(spec, rest, below, context, recur)
    lost = next((s for s in held.values() if s.ownership is None), None)
    if lost is not None:
        raise DecompositionError(
            "ownership-unknown",
            f"nothing below epilog computes with {lost.name}",
            fix="close the chain by an atom on C",
        )
    begin: Body = tuple(
        Region(f"Init(0)({link.memory})({state.level})", (fill(s, 0, context),), below.path, link.link, "init", s.name)
        for s in held.values()
        if s.name not in context.zeroed
    )
    stores = (*link.outputs, Output(link.value, spec.outs[-1], link.store))
    results, ops = _ops(stores, outputs[0], held, state, context, link)
    put: list[Statement] = []
    for i, (one, storage) in enumerate(zip(stores, results, strict=True)):
        move = store_of(state.residual, link.memory, storage.dtype, number=i)
        windows = {"src": fresh_window(storage, outputs[0]), "dst": outputs[i]}
        inner = attrs.evolve(
            state,
            residual=move,
            windows=windows,
            path=f"{below.path} > store",
            link=link.link,
        )
        store = Region(
            f"store {one.tensor.name}: {move}",
            recur(one.store, inner, context),
            below.path,
            link.link,
            "store",
            one.tensor.name,
        )
        ops, store = round_first(ops, store, buffer_of(storage), context.arch)
        put.append(store)
    return (*begin, *main, *ops, *put)


def _spec(context: Context) -> Products:
    assert isinstance(context.spec, Products)
    return context.spec


def _loops(spec: Products, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur) -> Body:
    """Lower the chain for each group of products; shared buffers of a later loop lie over those of the ones before."""
    roles = {o.tensor.name: o.role for o in state.residual.operands}
    body: Body = ()
    begun: frozenset[str] = frozenset()
    for number, phase in enumerate(spec.phases):
        named = tuple((roles[a.name], roles[b.name], roles[c]) for a, b, c in phase)
        mine = {role for triple in named for role in triple}
        chain = [x for x in rest if not isinstance(x, Load) or x.role in mine]
        known = set(context.storages)
        inside = _phase(state, named, phase[0][0].shape[-1], begun)
        inside = attrs.evolve(inside, loop=(number, len(spec.phases)))
        body += recur(chain, inside, context)
        if number:
            for name, storage in context.storages.items():
                if name not in known and storage.memory == SH and not storage.guarded:
                    storage.reuse = True
        begun |= {c for _, _, c in named}
    return body


def _phase(state: State, named: tuple[tuple[str, str, str], ...], depth: object, begun: frozenset[str]) -> State:
    """Project the products to those of one loop."""
    mine = {role for triple in named for role in triple}
    assert isinstance(depth, int | Expr)
    sizes = tuple((dim, depth if dim == "K" else size) for dim, size in state.residual.sizes)
    operands = tuple(o for o in state.residual.operands if o.role in mine)
    residual: Residual = attrs.evolve(state.residual, sizes=sizes, operands=operands, depths=())
    windows = {role: window for role, window in state.windows.items() if role in mine}
    windows.setdefault("C", windows[named[0][2]])
    return attrs.evolve(state, residual=residual, windows=windows, products=named, accumulated=begun)


def _ops(
    stores: tuple[Output, ...], output: Window, sums: dict[str, Storage], state: State, context: Context, link: Epilog
) -> tuple[tuple[Storage, ...], Body]:
    """Compute each element of the outputs; gives the register tensors that hold them, the sums' own where they do."""
    first, *_ = sums.values()
    assert first.ownership is not None
    if len(stores) == 1 and stores[0].value == read(_spec(context).held[0]):
        return (first,), ()
    if any(not t.memory.registers for one in stores for t in one.value.tensors):
        named = ", ".join(dict.fromkeys(t.name for one in stores for t in one.value.tensors if not t.memory.registers))
        for name, storage in sums.items():
            assert storage.ownership is not None
            storage.ownership.agree("", name, f"an op that reads {named}")
    walk = visit(first.ownership, output, context)
    mask = None if proves(walk.condition) else walk.condition
    held: dict[str, View] = {}
    for name, storage in sums.items():
        assert storage.ownership is not None
        offset, steps = storage.ownership.resolve(first.ownership.access, name, "epilog")
        register = substitute(offset, walk.renamed) + (steps(walk.index) if steps.size > 1 else 0)
        held[name] = View(buffer_of(storage), register, origin=walk.coordinates)
    results, targets = list(sums.values())[: len(stores)], list(held.values())[: len(stores)]
    while len(results) < len(stores):
        made = register_storage("out", output, link.memory, link.dtype, state, context, link.link)
        made.ownership, made.size = first.ownership, first.size
        results.append(made)
        targets.append(View(buffer_of(made), walk.register, origin=walk.coordinates))
    body: Body = ()
    late: Body = ()
    for one, target in zip(stores, targets, strict=True):
        inputs = [next(iter(held.values()))]  # the tree's argument 0, which ops of sums do not name
        for tensor in one.value.tensors:
            where = walk.coordinates
            inputs.append(
                held[tensor.name]
                if tensor.memory.registers
                else operand_view(tensor, where, output.storage.shape, state, context)
            )
        there = mask if any(not t.memory.registers for t in one.value.tensors) else None
        if len(stores) == 1:
            body += compute(target, one.value.tree, tuple(inputs), there, context, link.link)
            continue
        # Every output is computed from the sums before one of them is overwritten.
        buffer = temporary(f"{one.tensor.name}_value", one.value.dtype, 1, context)
        value = View(buffer, as_expr(0), origin=walk.coordinates)
        body += compute(value, one.value.tree, tuple(inputs), there, context, link.link)
        late += (Compute(target, Arg(0, one.value.dtype), (value,), there, link.link),)
    title = f"Pointwise({link.memory})({state.level})"
    return tuple(results), (Region(title, walk.around((*body, *late)), f"{state.path} > epilog", link.link, "compute"),)
