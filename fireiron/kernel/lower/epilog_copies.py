"""Copied operands: the loading role copies the tiles that an epilog's ops will read to shared memory.

The copies start after those of the tile's last chunk, and run while the products run. Threads then read shared memory
instead of waiting for global memory. `passes/rings.py` orders the two roles.
"""

from __future__ import annotations

from collections.abc import Mapping

from fireiron.algebra.expr import Expr, as_expr
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Advance, Barrier, Cursor
from fireiron.kernel.lower.bulk_once import fill_once
from fireiron.kernel.lower.context import Body, Context, Recur, Ring, State
from fireiron.kernel.lower.move import open_load
from fireiron.kernel.lower.roles import is_bulk, peers, readers_of
from fireiron.kernel.lower.storage import tensor_window
from fireiron.kernel.lower.window import Storage, Window
from fireiron.language.decompositions import Epilog, Load, Split
from fireiron.language.levels import Level
from fireiron.language.residual import beside
from fireiron.language.tensor import Tensor


def lower_copied(
    link: Epilog,
    split: Split | None,
    held: Storage,
    output: Window,
    main: Body,
    names: frozenset[str],
    state: State,
    context: Context,
    recur: Recur,
) -> tuple[Mapping[str, Window], Body, Body]:
    """Lower the loads of an epilog.

    Args:
        link: the epilog.
        split: the split whose loads belong to another role, None without roles.
        held: the accumulators.
        output: the window of the accumulators' tile in C.
        main: the loops of products.
        names: the names that are taken where both roles begin.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        recur: a function that lowers the Moves.

    Returns:
        The places of the elements for the ops, by the tensors' names; the copies, which stand after the products; and
        the statements after the ops that release the slots.

    Raises:
        DecompositionError: `epilog-load`.
    """
    if not link.loads:
        return {}, (), ()
    _refuse(link, split, held, context)
    assert split is not None
    level = readers_of(main)
    for tensor in link.tensors:  # parameters keep the order of the ops
        tensor_window(tensor, state, context)
    found: dict[str, Window] = {}
    copies: Body = ()
    passing: Body = ()
    for load in link.loads:
        tensor = next(t for t in link.tensors if t.name == load.role)
        around = _with_operand(load, tensor, output, state, context)
        window, copied, passed = _copied(load, link.slots, split, level, names, around, context, recur)
        found[tensor.name] = window
        copies += copied
        passing += passed
    return found, copies, passing


def _refuse(link: Epilog, split: Split | None, held: Storage, context: Context) -> None:
    """Raise an error for loads that another role cannot execute, or whose readers are not the ring's units."""
    named = ", ".join(load.role for load in link.loads)
    if split is None:
        raise DecompositionError(
            "epilog-load",
            f"load= brings {named} to shared memory while the products run, and no role of this block loads",
            fix="give the loads of the products a role of their own: split(k).pipeline(n).specialize()",
        )
    if held.partials or context.stream is not None:
        raise DecompositionError(
            "epilog-load",
            f"load= brings {named} to the block of each tile, but only some of the units that share a tile's sums "
            "run the ops",
            fix="drop load=, or let one unit compute each tile: without parallel(...) and stream_k()",
        )
    if link.slots % context.staggered:
        raise DecompositionError(
            "epilog-load",
            f"slots={link.slots} for tiles of {named} that {context.staggered} units compute in turn: each unit would "
            "skip phases of a slot's mbarriers",
            fix=f"slots={context.staggered}: one for each unit, or let the units share a tile",
        )
    for load in link.loads:
        if not is_bulk(load):
            raise DecompositionError(
                "epilog-load",
                f"load= copies {load.role} by threads, and the role that loads starts bulk copies alone",
                fix=f"load={{{load.role}: tma()}}, or early={load.role}, which threads load to registers",
            )


def _with_operand(load: Load, tensor: Tensor, output: Window, state: State, context: Context) -> State:
    """Return the state in which the loaded tensor is an operand, with the tile that corresponds to C's."""
    lies = tensor.transposed if context.spec.swapped else tensor
    storage = tensor_window(tensor, state, context).storage
    storage = evolve(storage, tensor=lies, shape=lies.shape, strides=lies.strides)
    window = Window(storage, output.axes[-len(lies.shape) :])
    known = evolve(state, residual=beside(state.residual, lies, load.role))
    return known.with_window(load.role, window)


def _copied(
    load: Load,
    slots: int,
    split: Split,
    level: Level,
    names: frozenset[str],
    state: State,
    context: Context,
    recur: Recur,
) -> tuple[Window, Body, Body]:
    """Lower one load: in a loop over tiles through a ring of slots, else to a buffer that is filled once."""
    name = load.role.lower()
    cursor = Cursor(context.name(f"{name}_ring"), slots) if context.persistent else None
    slot: Expr | None = None if cursor is None else cursor.slot
    inner = open_load(load, state, context, slots if cursor is not None else 1, slot)
    window = inner.windows[load.role]
    storage = window.storage
    storage.guarded = True
    full = Barrier(context.name(f"{storage.name}_full"), 1 if cursor is None else slots, 1)
    passing: Body = ()
    if cursor is None:
        context.barriers.append(full)
    else:
        assert context.threads is not None and level.size is not None
        units = context.threads // level.size // context.staggered * len(peers(context))
        empty = Barrier(context.name(f"{storage.name}_empty"), slots, units)
        context.rings.append(Ring(split, cursor, full, empty, level, {load.role: storage}, []))
        passing = (Advance(cursor, as_expr(1)),)
        if context.staggered > 1:  # each unit skips the tiles of the others
            unit = context.define("warpgroup", context.thread // level.size, context.staggered)
            context.prologue.append(Advance(cursor, unit * 1))
            passing = (*passing, Advance(cursor, as_expr(context.staggered - 1)))
    context.once[load.role] = (storage, full, cursor)
    with context.role(names):
        return window, (fill_once(load, state, storage, full, cursor, context, recur),), passing
