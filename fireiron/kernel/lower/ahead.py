"""Loads ahead of tiles: in a loop over tiles, loads to shared memory start trips ahead of the compute that reads them.

With n ring slots, trip t starts the loads of tile t + n - 1, computes tile t, and finishes the loads. The loads of the
first n - 1 tiles stand before the loop. With one slot, the loads of tile t + 1 start after trip t's last read of the
slot, and the loads of the first tile stand before the loop. Operands that all tiles share are loaded once, with the
first tile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import attrs

from fireiron.algebra.expr import Expr, Leaf, Var, as_expr, free, lt, proves, simplest, substitute
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.rewrite import replaced
from fireiron.kernel.ir.statements import Call, Compute, If, Let, Micro, Region, Statement, View, walk
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.move import Copy, box_of, lower_copy, open_load
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import Window, substituted
from fireiron.language.decompositions import Load
from fireiron.language.levels import SH


@attrs.define(eq=False)
class Ahead:
    """Hold a loop over tiles whose loads run ahead.

    Args:
        stages: ring slots.
        trip: number of the current tile among this unit's tiles.
        trips: number of this unit's tiles.
        link: the link of the tile.
        lets: the statements in the loop that define the variables of the tile's place.
        before: statements before the loop that fill the first slots.
        used: whether any load runs ahead.
    """

    stages: int
    trip: Var
    trips: Expr
    link: Link | None
    lets: list[Let] = attrs.field(factory=list[Let])
    before: list[Statement] = attrs.field(factory=list[Statement])
    used: bool = False

    def moved(self, trip: Expr) -> dict[Var, Expr]:
        """Return the values that the loop's names have in another trip."""
        found = {self.trip: trip}
        for let in self.lets:
            found[let.var] = substitute(let.value, found)
        return found

    def at(self, trip: Expr, state: State) -> State:
        """Return a state as it is in another trip."""
        moved = self.moved(trip)
        return evolve(state, windows={role: substituted(window, moved) for role, window in state.windows.items()})

    def around(self, loop: Statement) -> Body:
        """Put the statements that fill the first slots before the loop.

        Raises:
            DecompositionError: `pipeline-empty`.
        """
        if not self.used:
            raise DecompositionError(
                "pipeline-empty",
                f"pipeline({self.stages}) has no load below it to run ahead",
                fix='load an input to SH below the tile, above loops: load("x", SH, cp_async())',
                link=self.link,
            )
        return (*self.before, loop)


def lower_ahead(link: Load, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower consecutive loads to shared memory, each some trips ahead of its tile, and then the links below them."""
    ahead, progress = state.ahead, state.progress
    assert ahead is not None and progress is not None
    loads = [x for x in (link, *rest.asked.loads) if x.memory == SH and state.residual.operand(x.role) is not None]
    rest = rest.loads_where(lambda x: x not in loads)
    loads = [x for x in loads if progress.reads(x.role)]
    boxes = {x: box_of(x.role, state) for x in loads}
    # Windows do not move along a dim with a single tile; a loop over a single tile still has a ring.
    moving = [x for x in loads if _moves(boxes[x], ahead)] or [x for x in loads if _mentions(boxes[x], ahead)]
    state = evolve(state, ahead=None)
    inner = state
    for load in loads:
        slots, slot = (ahead.stages, ahead.trip) if load in moving else (1, None)
        inner = open_load(load, inner, context, slots, slot)
    body = recur(rest, inner, context)
    if not moving:
        return (*_once(loads, state, inner, context, recur), *body)
    ahead.used = True

    other = Var("any trip", simplest(ahead.trips))
    there = ahead.at(other, state)
    made = [lower_copy(x, there, inner.windows[x.role].storage, other, context, recur) for x in moving]
    started, finished = tuple(s for c in made for s in c.start), tuple(s for c in made for s in c.finish)

    def copies(trip: Expr) -> tuple[Body, Body]:
        start, finish = replaced(started, {other: trip}), replaced(finished, {other: trip})
        return _guarded(lt(trip, ahead.trips), start), _guarded(lt(trip, ahead.trips), finish)

    first = max(1, ahead.stages - 1)  # number of tiles that are loaded before the loop
    start, finish = copies(ahead.trip + first)
    still = [x for x in loads if x not in moving]
    kept = [
        lower_copy(x, ahead.at(as_expr(0), state), inner.windows[x.role].storage, None, context, recur) for x in still
    ]
    ahead.before += [s for c in kept for s in (*c.start, *c.finish)]
    for d in range(first):
        early = copies(as_expr(d))
        ahead.before += [*early[0], *early[1]]
    if ahead.stages > 1:
        return (*start, *body, *finish)
    return _behind_reads(body, {inner.windows[x.role].storage.name for x in moving}, (*start, *finish))


def _behind_reads(body: Body, names: Collection[str], more: Body) -> Body:
    """Insert statements after the last statement that reads some buffers."""
    reads = [any(v.buffer.name in names and way == "read" for v, way in _accesses(s)) for s in body]
    last = max((i for i, found in enumerate(reads) if found), default=-1)
    s = body[last]
    if isinstance(s, Region) and sum(reads) == 1:
        inner = _behind_reads(s.body, names, more)
        return (*body[:last], evolve(s, body=inner), *body[last + 1 :])
    return (*body[: last + 1], *more, *body[last + 1 :])


def _accesses(s: Statement) -> Iterator[tuple[View, str]]:
    for x in walk((s,)):
        if isinstance(x, Call | Compute | Micro):
            yield from reads_and_writes(x)


def _once(loads: Sequence[Load], state: State, inner: State, context: Context, recur: Recur) -> Body:
    """Lower loads that all tiles share in every trip, where no other load runs ahead."""
    made: list[Copy] = [lower_copy(x, state, inner.windows[x.role].storage, None, context, recur) for x in loads]
    start, finish = tuple(s for c in made for s in c.start), tuple(s for c in made for s in c.finish)
    return (*start, *finish)


def _moves(window: Window, ahead: Ahead) -> bool:
    """Say whether a window's place differs from trip to trip."""
    moved = ahead.moved(ahead.trip)
    return any(ahead.trip in free(substitute(axis.offset, moved)) for axis in window.axes)


def _mentions(window: Window, ahead: Ahead) -> bool:
    """Say whether a window's place depends on the tile's number."""
    places = frozenset[Leaf](ahead.moved(ahead.trip))
    return any(places & free(axis.offset) for axis in window.axes)


def _guarded(condition: Expr, body: Body) -> Body:
    if condition == as_expr(0) or not body:
        return ()
    return body if proves(condition) else (If(condition, body),)
