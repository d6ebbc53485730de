"""Layers in one kernel: each layer's MatMul reads its A from shared memory or registers, and its epilog writes there.

A stack of equal layers is a loop. The pipeline of the weights does not stop between two layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import FALSE, as_expr
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import For, Region
from fireiron.kernel.lower.context import Body, Context, Layered, Recur, State
from fireiron.kernel.lower.storage import make_storage, register_storage, tensor_window
from fireiron.kernel.lower.tree import tree
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.kernel.passes.prefetch import next_lines
from fireiron.language.decompositions import Each
from fireiron.language.levels import SH
from fireiron.language.programs import BATCH, Layer
from fireiron.language.residual import layer_of, result_of


def lower_each(link: Each, state: State, context: Context, recur: Recur) -> Body:
    """Lower the layers in sequence, and the Move that stores the last layer's result."""
    spec = context.spec
    for layer in spec.layers:  # parameters come in the layers' order
        for tensor in layer.value.tensors:
            tensor_window(tensor, state, context)
    places = _places(link, spec.layers, state, context)
    bodies: list[Body] = []
    # The reader of registers determines their ownership, so the last layer is lowered first.
    for number in reversed(range(len(spec.layers))):
        known = set(context.storages)
        bodies.append(_layer(link, number, spec.layers[number], places, state, context, recur))
        if len(bodies) > 1:  # weights of consecutive layers share the memory of their buffers
            for name, storage in context.storages.items():
                storage.reuse = storage.reuse or (name not in known and storage.memory == SH and not storage.guarded)
    body = tuple(statement for one in reversed(bodies) for statement in one)
    move = result_of(state.residual)
    windows = {"src": _at(places[-1], state, "N", spec.layers[-1].width), "dst": state.windows["C"]}
    below = attrs.evolve(state, residual=move, windows=windows).under("store", link.link)
    name = spec.outputs[0].name
    store = recur(tree(link.store), below, context)
    asked = next_lines(link, state.windows["C"].axes[0], context)
    return (*body, *asked, Region(f"store {name}: {move}", store, state.path, link.link, "store", name))


def _places(link: Each, layers: Sequence[Layer], state: State, context: Context) -> tuple[Storage, ...]:
    """Choose the buffers of X and of each layer's result: the layer's input buffer, where both have the same width.

    A shared buffer that is no longer read is used again for a tensor of the same width. Registers have the layout that
    their only reader needs.
    """
    first = state.windows["A"].storage
    places = [first]
    for layer in layers:
        now = places[-1]
        alike = [s for s in places if s.shape[-1] == layer.width]
        free = [now] if layer.width == layer.depth else [] if first.memory.registers else alike
        if free:
            places.append(free[-1])
        else:
            places.append(_place(link, layer.width, first, state, context))
    return tuple(places)


def _place(link: Each, width: int, like: Storage, state: State, context: Context) -> Storage:
    window = _at(like, state, "K", width)
    if like.memory.registers:
        name = like.name.rstrip("0123456789")
        return register_storage(name, window, like.memory, like.dtype, state, context, like.link)
    return make_storage(link.hold, window, None, state, context, 1)


def _at(storage: Storage, state: State, dim: str, width: int) -> Window:
    """Make the window of activations of a width."""
    rows = state.windows["A"].axes[0]
    return Window(storage, (Axis(rows.dim, rows.size, as_expr(0)), Axis(dim, width, as_expr(0))))


def _layer(
    link: Each, number: int, layer: Layer, places: tuple[Storage, ...], state: State, context: Context, recur: Recur
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
    held, result = _at(places[number], state, "K", layer.depth), _at(places[number + 1], state, "N", layer.width)
    windows = {"A": held, "B": Window(weights.storage, axes), "C": result}
    inside = attrs.evolve(
        state, residual=layer_of(layer.weights, state.residual), windows=windows, loops=loops, begun=FALSE,
        around=around, number=place,
    ).under(layer.weights.name, link.link)  # fmt: skip
    inner = recur(tree(link.chains[number]), inside, context)
    inner = (Region(str(inside.residual), inner, inside.path, link.link),)
    if around is None:
        return inner
    return (*around.before, For(around.var, as_expr(around.trips), inner, kind="layers"))
