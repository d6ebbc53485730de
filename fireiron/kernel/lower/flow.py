"""Flowing pipelines: the inner of two nested pipelines continues across the chunks of the outer one.

Let the inner pipeline fetch d = slots - 1 steps ahead. While step i of chunk k computes, step i + d is fetched, of
chunk k or of chunk k + 1: the first fragments of a chunk are fetched during the math of the chunk before. When the
fetches reach a new chunk q, the outer pipeline, of n slots, waits until q has landed, and starts to load chunk q + n -
1 into the slot of q - 1. The last chunks, which start no loads, follow the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, as_int, ge, lt, maximum, proves, simplest
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.rewrite import masked, replaced
from fireiron.kernel.ir.statements import For, If
from fireiron.kernel.lower.chunks import numbers_of, parts_of, trips_of
from fireiron.kernel.lower.context import Body, Context, Recur, State, descend
from fireiron.kernel.lower.move import Copy, lower_copy, open_load
from fireiron.language.decompositions import Decomposition, Load, Split


def leading_loads(rest: Sequence[Decomposition]) -> list[Load]:
    """List the loads that stand right below a split: those that its pipeline covers.

    Where an operand is loaded twice, to shared memory and then to registers, the second load is part of the trip.
    """
    found: list[Load] = []
    for link in rest:
        if not isinstance(link, Load) or link.role in {x.role for x in found}:
            break
        found.append(link)
    return found


@attrs.frozen(eq=False)
class Flow:
    """Hold an outer pipeline whose loop may be merged with the loop of the pipeline below it.

    Args:
        k: the number of a chunk.
        trips: how many chunks there are.
        link: its split.
        copies: lowers the loads of chunk k; called when the number of threads is known.
        around: puts loop and copies around the compute of one chunk, where the two loops are not merged.
    """

    k: Var
    trips: Expr
    link: Split
    copies: Callable[[], list[Copy]]
    around: Callable[[Body], Body]


@attrs.frozen(eq=False)
class _Ring:
    """Write the outer pipeline's code for given chunks."""

    flow: Flow
    start: Body
    finish: Body

    def present(self, chunk: Expr, body: Body) -> Body:
        """Run a body only where the chunk exists."""
        there = lt(chunk, self.flow.trips)
        if not body or there == as_expr(0):
            return ()
        if proves(there):
            return body
        return masked(body, there, lambda call: bool(call.atom.masked_call)) or (If(there, body),)

    def _at(self, body: Body, chunk: Expr) -> Body:
        return self.present(chunk, replaced(body, {self.flow.k: chunk}))

    def head(self) -> Body:
        """Copy the first chunks: one fewer than there are slots."""
        out: Body = ()
        for d in range(self.flow.link.stages - 1):
            chunk = as_expr(d)
            out += self._at((*self.start, *self.finish), chunk)
        return out

    def acquire(self, chunk: Expr) -> Body:
        """Finish the last copy that was started, and start the next one in the slot of the chunk before this one."""
        last = chunk + (self.flow.link.stages - 2)
        finish = () if as_int(chunk) == 0 else self._at(self.finish, last)
        return (*finish, *self._at(self.start, last + 1))


def lower_flowing(link: Split, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur) -> Body:
    """Lower two nested pipelines, and the loop of the outer one, as one loop.

    Slots of registers have no run-time number: where the steps of a chunk are no multiple of the slots, several chunks
    stand in a trip of the loop.

    Raises:
        DecompositionError: `register-loop`.
    """
    flow = state.flow
    assert flow is not None
    if not link.unrolled:
        raise DecompositionError(
            "register-loop", "a pipeline of registers has no run-time slot", fix="refine the split by .unroll() too"
        )
    parts = parts_of(link, state.residual.extents)
    steps, slots, ahead = simplest(trips_of(parts)), link.stages, link.stages - 1
    assert isinstance(steps, int)
    i, slot = context.variable(link.dim.lower(), steps), Var("any slot", slots)
    looped = RegisterLoop(i, as_expr(steps), unrolled=True, link=link.link)
    below = attrs.evolve(state.under(link.words, link.link), loops=(*state.loops, looped), flow=None)
    chunk = descend(below, parts, numbers_of(parts, i))
    loads, inner = leading_loads(rest), chunk
    for load in loads:
        inner = open_load(load, inner, context, slots, slot)
    compute_ = recur(rest[len(loads) :], inner, context)
    copies = [lower_copy(x, chunk, inner.windows[x.role].storage, slot, context, recur) for x in loads]
    fetch_: Body = tuple(s for c in copies for s in (*c.start, *c.finish))
    outer = flow.copies()
    ring = _Ring(flow, tuple(s for c in outer for s in c.start), tuple(s for c in outer for s in c.finish))

    def put(body: Body, k: Expr, step: Expr) -> Body:
        return replaced(body, {flow.k: k, i: step, slot: (k * steps + step) % slots})

    def fetch(k: Expr, step: Expr) -> Body:
        return ring.present(k, put(fetch_, k, step))

    def run(count: int, first: int, k: Expr, source: Expr, begin: int) -> Body:
        """Compute the steps of chunk k from `first` on, interleaved with the fetches of a source from `begin` on."""
        return _unrolled(i, count, lambda step: (*fetch(source, step + begin), *put(compute_, k, step + first)))

    # The fetches of one chunk's computes reach one new chunk, `far` chunks on, at step `turn`.
    far = -(-ahead // steps)
    turn = far * steps - ahead

    def trip(k: Expr) -> Body:
        """Compute with one chunk."""
        new = k + far
        return (
            *run(turn, 0, k, new - 1, steps - turn if far else 0),
            *_where(lt(new, flow.trips), ring.acquire(new)),
            *run(steps - turn, turn, k, new, 0),
        )

    first: Body = ring.head()
    for c in range(far):
        now = as_expr(c)
        first += _where(lt(now, flow.trips), ring.acquire(now))
        first += _unrolled(i, min(steps, ahead - c * steps), lambda step, now=now: fetch(now, step))
    return (*first, *_loop(flow, slots // gcd(steps, slots), far, trip))


def _unrolled(var: Var, count: int, body: Callable[[Expr], Body]) -> Body:
    """Repeat a body for the first steps."""
    if count < 2:
        return body(as_expr(0)) if count else ()
    step = Var(var.name, count)
    return (For(step, as_expr(count), body(step), unroll=True, kind="chunks"),)


def _loop(flow: Flow, together: int, far: int, trip: Callable[[Expr], Body]) -> Body:
    """Loop over the chunks, several in a trip.

    The last chunks, which fetch nothing, follow the loop; where their slots are not known, they stay in the loop under
    conditions.
    """
    static = as_int(flow.trips)
    if together > 1 and static is None:
        # The slot of the last chunk is not known, so each chunk has a condition.
        k = Var(flow.k.name, simplest(-(-flow.trips // together)))
        body: Body = ()
        for c in range(together):
            chunk = k * together + c
            body += _where(lt(chunk, flow.trips), trip(chunk))
        return (_for(flow, k, body, together),)
    whole = maximum(flow.trips - far, 0)
    rounds = whole if together == 1 else whole // together
    k = Var(flow.k.name, simplest(rounds))
    out: Body = ()
    if as_int(rounds) != 0:
        body = tuple(s for c in range(together) for s in trip(k * together + c))
        out = (_for(flow, k, body, together),)
    left: list[Expr] = [rounds * together + c for c in range(as_int(whole - rounds * together) or 0)]
    for chunk in (*left, *(flow.trips - far + p for p in range(far))):
        out += _where(ge(chunk, 0), trip(chunk))
    return out


def _for(flow: Flow, k: Var, body: Body, together: int) -> For:
    """Write the loop; `together` is the number of chunks that its body already computes."""
    assert k.extent is not None
    return For(k, k.extent, body, flow.link.unrolled, max(1, flow.link.together // together), kind="chunks")


def _where(condition: Expr, body: Body) -> Body:
    if proves(condition):
        return body
    return () if condition == as_expr(0) or not body else (If(condition, body),)
