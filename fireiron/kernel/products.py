"""Several products in one kernel: their loops over K follow each other, and one epilog computes the outputs.

Products that share an operand go through one loop, which loads it once. Each loop is the same chain, projected to the
operands that it has; accumulators live through all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, as_expr, substitute
from fireiron.algebra.scalar import Arg, parameters
from fireiron.base.errors import DecompositionError
from fireiron.kernel.context import Body, Context, Recur, State, buffer_of
from fireiron.kernel.epilog import Owned, owned, repeated
from fireiron.kernel.ir import Buffer, Compute, Region, Statement, View
from fireiron.kernel.reduce import fill
from fireiron.kernel.storage import fresh_window, register_storage, tensor_window
from fireiron.kernel.window import Storage, Window
from fireiron.language.decompositions import Decomposition, Epilog, Load, Output
from fireiron.language.levels import RF, SH, Thread
from fireiron.language.pointwise import read
from fireiron.language.residual import Residual, apply, store_of
from fireiron.language.specs import Products
from fireiron.language.tensor import Tensor


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
        Region(f"Init(0)({link.memory})({state.level})", (fill(s, 0, context),), below.path, link.link)
        for s in held.values()
        if s.name not in context.zeroed
    )
    stores = (*link.outputs, Output(link.value, spec.outs[-1], link.store))
    results, ops = _ops(stores, outputs[0], held, state, context, link)
    put: list[Statement] = []
    for i, (one, storage) in enumerate(zip(stores, results, strict=True)):
        move = store_of(state.residual, link.memory, storage.dtype, i)
        windows = {"src": fresh_window(storage, outputs[0]), "dst": outputs[i]}
        inner = attrs.evolve(state, residual=move, windows=windows, path=f"{below.path} > store", link=link.link)
        put.append(Region(f"store {one.tensor.name}: {move}", recur(one.store, inner, context), below.path, link.link))
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
    extra = [t for one in stores for t in one.value.tensors if not t.memory.registers]
    place = owned(first, output, extra, context)
    held: dict[str, View] = {}
    for name, storage in sums.items():
        assert storage.ownership is not None
        offset, steps = storage.ownership.resolve(first.ownership.access, name, "epilog")
        register = substitute(offset, place.loops) + (steps(place.index) if steps.size > 1 else 0)
        held[name] = View(buffer_of(storage), register, origin=place.coordinates)
    results, targets = list(sums.values())[: len(stores)], list(held.values())[: len(stores)]
    while len(results) < len(stores):
        made = register_storage("out", output, link.memory, link.dtype, state, context, link.link)
        made.ownership, made.size = first.ownership, first.size
        results.append(made)
        targets.append(View(buffer_of(made), place.register, origin=place.coordinates))
    body: Body = ()
    late: Body = ()
    for one, target in zip(stores, targets, strict=True):
        inputs = [next(iter(held.values()))]  # the tree's argument 0, which ops of sums do not name
        for tensor in one.value.tensors:
            inputs.append(held[tensor.name] if tensor.memory.registers else _read(tensor, place, state, context))
        context.numbers.update((p.name, p.dtype) for p in parameters(one.value.tree))
        mask = place.mask if any(not t.memory.registers for t in one.value.tensors) else None
        if len(stores) == 1:
            body += (Compute(target, one.value.tree, tuple(inputs), mask, link.link),)
            continue
        # Every output is computed from the sums before one of them is overwritten.
        buffer = Buffer(context.name(f"{one.tensor.name}_value"), RF, one.value.dtype, as_expr(1), unit=Thread)
        context.temporaries.append(buffer)
        value = View(buffer, as_expr(0), origin=place.coordinates)
        body += (Compute(value, one.value.tree, tuple(inputs), mask, link.link),)
        late += (Compute(target, Arg(0, one.value.dtype), (value,), mask, link.link),)
    title = f"Pointwise({link.memory})({state.level})"
    made_body = repeated((*body, *late), place)
    return tuple(results), (Region(title, made_body, f"{state.path} > epilog", link.link),)


def _read(tensor: Tensor, place: Owned, state: State, context: Context) -> View:
    """View the element of a tensor that belongs to an output's, broadcast where its extents are 1."""
    source = tensor_window(tensor, state, context)
    picked = place.coordinates[len(place.coordinates) - len(tensor.shape) :]
    shared = tuple(as_expr(0) if extent == 1 else c for c, extent in zip(picked, tensor.shape, strict=True))
    return View(buffer_of(source.storage), source.storage.address(shared), origin=shared)
