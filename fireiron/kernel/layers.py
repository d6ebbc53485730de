"""Layers in one kernel: each one's MatMul finds its A on chip, and its epilog leaves the result there for the next.

A stack of equal layers is a loop, through which the pipeline of its weights runs on.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import FALSE, as_expr
from fireiron.kernel.context import Body, Context, Layered, Recur, State
from fireiron.kernel.ir import For, Region
from fireiron.kernel.ownership import RegisterLoop
from fireiron.kernel.storage import make_storage, register_storage, tensor_window
from fireiron.kernel.window import Axis, Storage, Window
from fireiron.language.decompositions import Each
from fireiron.language.levels import SH
from fireiron.language.residual import layer_of, result_of
from fireiron.language.specs import BATCH, Layer, Layers


def lower_each(link: Each, state: State, context: Context, recur: Recur) -> Body:
    """Lower the layers one after another, and the Move that stores the last one's result."""
    spec = context.spec
    assert isinstance(spec, Layers)
    held = state.windows["A"]
    body: Body = ()
    for number, layer in enumerate(spec.layers):
        known = set(context.storages)
        target = _target(link, layer, held, state, context)
        made = set(context.storages)
        body += _layer(link, number, layer, held, target, state, context, recur)
        if number:  # weights of one layer after another: their buffers lie over each other
            for name, storage in context.storages.items():
                if name not in known | {target.name} and name not in made and storage.memory == SH:
                    storage.reuse = storage.reuse or not storage.guarded
        held = Window(target, (held.axes[0], Axis("K", layer.width, as_expr(0))))
    if context.role != "math":
        return body
    move = result_of(spec, state.residual)
    windows = {"src": _as_result(held.storage, held, spec.layers[-1].width), "dst": state.windows["C"]}
    below = attrs.evolve(state, residual=move, windows=windows).under("store", link.link)
    store = recur(link.store, below, context)
    return (*body, Region(f"store {spec.Y.name}: {move}", store, state.path, link.link))


def _layer(
    link: Each, number: int, layer: Layer, held: Window, target: Storage, state: State, context: Context, recur: Recur
) -> Body:
    weights = tensor_window(layer.weights, state, context)
    axes = (Axis("K", layer.depth, as_expr(0)), Axis("N", layer.width, as_expr(0)))
    loops, around, place = state.loops, None, None
    if len(layer.weights.shape) == 3:
        place = as_expr(0)
        if layer.count > 1:
            var = context.variable("layer", layer.count)
            place, around = var, Layered(var, layer.count)
            loops = (*loops, RegisterLoop(var, as_expr(layer.count), False, link.link))
        axes = (Axis(BATCH, 1, place), *axes)
    result = _as_result(target, held, layer.width)
    windows = {"A": held, "B": Window(weights.storage, axes), "C": result}
    inside = attrs.evolve(
        state, residual=layer_of(layer, state.residual), windows=windows, loops=loops, begun=FALSE, around=around,
        number=place,
    ).under(layer.weights.name, link.link)  # fmt: skip
    inner = recur(link.chains[number], inside, context)
    inner = (Region(str(inside.residual), inner, inside.path, link.link),)
    if around is None:
        return inner
    return (*around.before, For(around.var, as_expr(around.trips), inner))


def _as_result(storage: Storage, held: Window, width: int) -> Window:
    return Window(storage, (held.axes[0], Axis("N", width, as_expr(0))))


def _target(link: Each, layer: Layer, held: Window, state: State, context: Context) -> Storage:
    """Choose where a layer's result lies: over what it reads, where both are of one width."""
    if context.role != "math" or layer.width == layer.depth:
        return held.storage
    like = Window(held.storage, (held.axes[0], Axis("K", layer.width, as_expr(0))))
    storage = held.storage
    if storage.memory.registers:
        return register_storage(storage.name, like, storage.memory, storage.dtype, state, context, storage.link)
    return make_storage(link.hold, like, None, state, context, 1)

