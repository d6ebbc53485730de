"""Bulk loads above a ring: the load role starts them once per tile, before the loads of the ring.

An mbarrier counts the bytes of these loads; `passes/rings.py` announces and awaits them. A block of one tile writes
the buffer once, so no reader signals that it is free. Blocks that loop over tiles use a ring of two slots: the next
tile's box lands while this tile's box is read.
"""

from __future__ import annotations

from fireiron.algebra.expr import as_expr
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Advance, Barrier, Cursor, Region
from fireiron.kernel.lower.context import Body, Context, Recur, Ring, State
from fireiron.kernel.lower.move import lower_copy, open_load
from fireiron.kernel.lower.roles import filled, peers, readers_of
from fireiron.kernel.lower.storage import holds_boxes
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import Storage
from fireiron.language.decompositions import Load
from fireiron.language.levels import SH, Block

SLOTS = 2  # slots in a block that loops over tiles: one for this tile, one for the next


def loads_once(link: Load, rest: Tree, state: State) -> bool:
    """Say whether the load role fills a buffer once per tile: by a bulk copy above a specialised split."""
    return rest.asked.filled is not None and link.memory == SH and holds_boxes(link) and state.level == Block


def lower_load_once(link: Load, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower a bulk load above a specialised split, and the links below it."""
    if context.persistent:
        return _ringed(link, rest, state, context, recur)
    names = frozenset(context.names)
    inner = open_load(link, state, context)
    storage = inner.windows[link.role].storage
    storage.guarded = True
    barrier = Barrier(context.name(f"{storage.name}_full"), 1, 1)
    context.barriers.append(barrier)
    context.once[link.role] = (storage, barrier, None)
    body = recur(rest, inner, context)
    with context.role(names):
        return (fill_once(link, state, storage, barrier, None, context, recur), *body)


def _ringed(link: Load, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower a load for each tile of a loop through a ring of slots, as a split loads its chunks."""
    split = rest.asked.filled
    assert split is not None
    names = frozenset(context.names)
    cursor = Cursor(context.name(f"{link.role}_ring"), SLOTS)
    inner = open_load(link, state, context, SLOTS, cursor.slot)
    storage = inner.windows[link.role].storage
    storage.guarded = True
    body = recur(rest, inner, context)
    level = readers_of(body)
    assert context.threads is not None and level.size is not None
    full = Barrier(context.name(f"{storage.name}_full"), SLOTS, 1)
    units = context.threads // level.size * len(peers(context))
    empty = Barrier(context.name(f"{storage.name}_empty"), SLOTS, units)
    context.rings.append(Ring(split, cursor, full, empty, level, {link.role: storage}, []))
    context.once[link.role] = (storage, full, cursor)
    passing = Advance(cursor, as_expr(1))
    with context.role(names):
        return (fill_once(link, state, storage, full, cursor, context, recur), *body, passing)


def fill_once(
    link: Load, state: State, storage: Storage, full: Barrier, cursor: Cursor | None, context: Context, recur: Recur
) -> Region:
    """Make the region that starts the copies."""
    slot = None if cursor is None else cursor.slot
    context.signal = (full, as_expr(0) if slot is None else slot)
    alone = evolve(state, position=as_expr(0), width=1)  # one thread starts every bulk copy
    copy = lower_copy(link, alone, storage, slot, context, recur)
    context.signal = None
    passing = () if cursor is None else (Advance(cursor, as_expr(1)),)
    return filled((*copy.start, *copy.finish, *passing), link.link)
