"""Early operands: before the products begin, each thread loads the elements that the epilog's ops will read.

The loads run while the products run. The loaded elements stay in registers, with the accumulators' ownership. Without
early operands, each tile would wait for global memory after its last product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fireiron.algebra.expr import as_expr, proves
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, number
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Compute, For, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.pointwise import agree, element, load_vector, visit, wide, widths
from fireiron.kernel.lower.storage import fresh_window, register_storage, tensor_window
from fireiron.kernel.lower.window import Storage, Window
from fireiron.language.decompositions import Epilog
from fireiron.language.steps import Ref, Step


def lower_early(
    link: Epilog, steps: Sequence[Step], held: Storage, output: Window, state: State, context: Context
) -> tuple[Mapping[str, Storage], Body]:
    """Load the operands in an epilog's `early=`; return the registers of each, and the code before the products.

    Args:
        link: the epilog.
        steps: the epilog's steps on the sums.
        held: the accumulators, whose ownership is known.
        output: the window of the accumulators' tile in C.
        state: the lowering state.
        context: the kernel's facts.

    Raises:
        DecompositionError: `epilog-early` where another unit than the one that starts a tile may run the ops.
    """
    if not link.early:
        return {}, ()
    named = ", ".join(tensor.name for tensor in link.early)
    if held.partials or context.stream is not None:
        raise DecompositionError(
            "epilog-early",
            f"early= loads {named} before the products, but only some of the units that share a tile's sums "
            "run the ops",
            fix="drop early=, or let one unit compute each tile: without parallel(...) and stream_k()",
        )
    for tensor in link.tensors:  # parameters keep the order of the ops, early or not
        tensor_window(tensor, state, context)
    agree(held, link.early)
    reads = {ref.name: ref for step in steps for ref in step.reads}
    storages: dict[str, Storage] = {}
    body: Body = ()
    for tensor in link.early:
        if tensor.name not in reads:
            continue  # the sums began with it
        name = f"{tensor.name}_{str(link.memory).lower()}"
        window = fresh_window(held, output)
        result = register_storage(name, window, link.memory, tensor.dtype, state, context, link.link)
        result.ownership, result.size = held.ownership, held.size
        storages[tensor.name] = result
        load = _load(reads[tensor.name], result, output, state, context)
        body += (
            Region(
                f"load {tensor.name} to {result.name}, before the products",
                load,
                state.path,
                link.link,
                "load",
                result.name,
            ),
        )
    return storages, body


def _load(ref: Ref, into: Storage, output: Window, state: State, context: Context) -> Body:
    """Load a tensor's values for a thread's elements into registers, by vectors where they are contiguous."""
    assert into.ownership is not None
    walk = visit(into.ownership, output, context, widths([ref], output))
    view = element(ref, walk, output, state, context)
    if wide(ref, walk, output):
        place = View(buffer_of(into), walk.first(walk.register), Layout(walk.width, 1), origin=walk.coordinates)
        return walk.around((load_vector(ref, view, place, walk, output, context, into.link),))
    place = View(buffer_of(into), walk.register, origin=walk.coordinates)
    mask = None if proves(walk.condition) else walk.condition
    body: Body = (Compute(place, Arg(0, ref.dtype), (view,), mask, into.link),)
    if mask is not None:  # ops compute with every register
        zero = number(0, ref.dtype)
        body = (Compute(place, zero, link=into.link), *body)
    if walk.inner is not None:
        body = (For(walk.inner, as_expr(walk.width), body, unroll=True),)
    return walk.around(body)
