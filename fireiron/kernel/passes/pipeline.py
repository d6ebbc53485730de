"""Pipelines: with n ring slots, copies of later chunks run n - 1 chunks ahead of the compute.

Lowering puts the copies of a chunk into regions of kind `start` and `finish`, ahead of the compute that reads them; a
region of kind `first` marks where the first slots are filled. With n slots, trip k starts the copies of chunk
k + n - 1, computes chunk k, and finishes the copies.

Where a chunk of an outer pipeline is computed only by the loop of an inner pipeline of registers, the inner pipeline
continues from chunk to chunk. The inner pipeline fetches d = slots - 1 steps ahead. While step i of chunk k computes,
step i + d is fetched, of chunk k or of chunk k + 1: the first fragments of a chunk are fetched during the compute of
the previous chunk. When the fetches reach a new chunk q, the outer pipeline, of n slots, waits until q has landed, and
starts chunk q + n - 1 in the slot of q - 1. The last chunks, during which nothing is fetched, stand after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, as_int, ge, lt, maximum, proves, simplest, substitute
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.rewrite import masked, replaced
from fireiron.kernel.ir.statements import Call, Compute, For, If, Micro, Region, Statement, walk

Body = tuple[Statement, ...]


@attrs.frozen
class Pipe:
    """Describe the pipeline of a loop over chunks.

    Args:
        stages: number of slots.
        chunk: the variable in the copies that stands for the number of the copied chunk.
        number: the number of the chunk that a trip computes. Example: `layer * 4 + k` where a pipeline continues over
            layers of 4 chunks.
        every: number of chunks.
        slot: the variable in copies and compute that stands for a chunk's slot of registers; None without registers.
        flows: whether the loop may be merged with the loop of a pipeline around it, or inside it.
    """

    stages: int
    chunk: Var
    number: Expr
    every: Expr
    slot: Var | None
    flows: bool


def run_ahead(body: Body, pipes: Mapping[str, Pipe]) -> Body:
    """Move the copies of each pipeline ahead of the compute.

    Args:
        body: the kernel's statements.
        pipes: the pipelines, by the names of their copies' regions.
    """
    return _Pass(pipes, body).run(body) if pipes else body


@attrs.frozen
class _Piped:
    """Hold a pipeline, and for each operand the statements that start a chunk's copy and those that finish it."""

    pipe: Pipe
    copies: tuple[tuple[Body, Body], ...]

    @property
    def start(self) -> Body:
        return tuple(s for start, _ in self.copies for s in start)

    @property
    def finish(self) -> Body:
        return tuple(s for _, finish in self.copies for s in finish)

    def at(self, body: Body, chunk: Expr) -> Body:
        """Return the copies of a chunk, under the condition that it exists."""
        there = lt(chunk, self.pipe.every)
        if not body or there == as_expr(0):
            return ()
        body = replaced(body, {self.pipe.chunk: chunk, **self.slot(chunk)})
        return body if proves(there) else (If(there, body),)

    def slot(self, chunk: Expr) -> dict[Var, Expr]:
        """Return the slot of a chunk."""
        if self.pipe.slot is None:
            return {}
        return {self.pipe.slot: substitute(self.pipe.chunk % self.pipe.stages, {self.pipe.chunk: chunk})}

    def first(self) -> Body:
        """Return the statements that fill the first slots, operand by operand in each slot."""
        filled = tuple(s for start, finish in self.copies for s in (*start, *finish))
        return tuple(s for d in range(self.pipe.stages - 1) for s in self.at(filled, as_expr(d)))


class _Pass:
    def __init__(self, pipes: Mapping[str, Pipe], body: Body) -> None:
        loops = {name: s for s in walk(body) if isinstance(s, For) and (name := _name(s))}
        self.piped = {name: _Piped(pipe, _copies(loops[name])) for name, pipe in pipes.items() if name in loops}
        self.flows = {
            name: inner for name, loop in loops.items() if (inner := self.inner(loop, self.piped[name])) is not None
        }

    def run(self, body: Body) -> Body:
        out: list[Statement] = []
        for s in body:
            match s:
                case Region(kind="first", buffer=name):
                    out += () if name in self.flows else self.piped[name].first()
                case For() if name := _name(s):
                    out += self.flowing(s, name) if name in self.flows else (self.staged(s, self.piped[name]),)
                case For(body=inner) | If(body=inner) | Region(body=inner):
                    now = self.run(inner)
                    same = len(now) == len(inner) and all(a is b for a, b in zip(now, inner, strict=True))
                    out.append(s if same else attrs.evolve(s, body=now))
                case _:
                    out.append(s)
        return tuple(out)

    def staged(self, loop: For, piped: _Piped) -> For:
        """Start the copies of a later chunk at the beginning of a trip, and finish them at its end."""
        pipe = piped.pipe
        ahead = pipe.number + (pipe.stages - 1)
        compute = self.run(_compute(loop))
        compute = compute if pipe.slot is None else replaced(compute, piped.slot(pipe.number))
        body = (*piped.at(piped.start, ahead), *compute, *piped.at(piped.finish, ahead))
        return attrs.evolve(loop, body=body)

    def inner(self, loop: For, outer: _Piped) -> For | None:
        """Find the pipeline whose loop computes a whole chunk of this loop, and may continue from chunk to chunk."""
        if not outer.pipe.flows or outer.pipe.slot is not None:
            return None
        body = _compute(loop)
        while len(body) == 1 and isinstance(body[0], Region):
            body = _without_marks(body[0].body)
        found = body[0] if len(body) == 1 else None
        if not isinstance(found, For) or not (name := _name(found)):
            return None
        pipe = self.piped[name].pipe
        if not pipe.flows or pipe.slot is None:
            return None
        filled = _touched((*outer.start, *outer.finish), "write")
        return None if filled & _touched(_compute(found), "read") else found

    def flowing(self, loop: For, name: str) -> Body:
        """Replace two nested loops by one, inside the regions between them."""
        inner = self.flows[name]
        made = _flowing(loop, self.piped[name], inner, self.piped[_name(inner)], self.run(_compute(inner)))

        def around(body: Body) -> Body:
            (s,) = _without_marks(body)
            return made if s is inner or not isinstance(s, Region) else (attrs.evolve(s, body=around(s.body)),)

        return around(_compute(loop))


def _name(loop: For) -> str:
    """Return the name of a loop's pipeline, "" where it has none."""
    return next((s.buffer for s in loop.body if isinstance(s, Region) and s.kind == "start"), "")


def _copies(loop: For) -> tuple[tuple[Body, Body], ...]:
    """List the copies of a chunk."""
    starts = [s.body for s in loop.body if isinstance(s, Region) and s.kind == "start"]
    finishes = [s.body for s in loop.body if isinstance(s, Region) and s.kind == "finish"]
    return tuple(zip(starts, finishes, strict=True))


def _compute(loop: For) -> Body:
    """Return the body of a loop over chunks without its copies."""
    return tuple(s for s in loop.body if not (isinstance(s, Region) and s.kind in ("start", "finish")))


def _without_marks(body: Body) -> Body:
    return tuple(s for s in body if not (isinstance(s, Region) and s.kind == "first"))


def _touched(body: Body, way: str) -> set[str]:
    """List the names of the buffers that statements read, or write."""
    return {
        view.buffer.name
        for s in walk(body)
        if isinstance(s, Call | Compute | Micro)
        for view, how in reads_and_writes(s)
        if how == way
    }


def _flowing(loop: For, outer: _Piped, inner: For, fetched: _Piped, compute: Body) -> Body:
    """Write two nested pipelines, and the loop of the outer one, as one loop.

    Slots of registers must have constant numbers: where the number of steps of a chunk is no multiple of the slots, a
    trip of the loop computes several chunks.

    Args:
        loop: the loop over the chunks of the outer pipeline.
        outer: the outer pipeline and its copies.
        inner: the loop over the steps of a chunk.
        fetched: the inner pipeline and its copies.
        compute: the statements that compute a step.
    """
    steps, slots = as_int(inner.extent), fetched.pipe.stages
    assert steps is not None
    ahead = slots - 1
    i, slot = inner.var, fetched.pipe.slot
    assert slot is not None

    def slot_of(k: Expr, step: Expr) -> dict[Var, Expr]:
        return {slot: (k * steps + step) % slots}

    def present(body: Body, chunk: Expr, values: dict[Var, Expr]) -> Body:
        """Put the condition that a chunk exists around statements."""
        there = lt(chunk, outer.pipe.every)
        if not body or there == as_expr(0):
            return ()
        body = replaced(body, values)
        if proves(there):
            return body
        return masked(body, there, lambda call: bool(call.atom.masked_call)) or (If(there, body),)

    def copied(body: Body, chunk: Expr) -> Body:
        return present(body, chunk, {outer.pipe.chunk: chunk})

    def fetch(k: Expr, step: Expr) -> Body:
        values = {loop.var: k, fetched.pipe.chunk: step, **slot_of(k, step)}
        return present((*fetched.start, *fetched.finish), k, values)

    def run(count: int, first: int, k: Expr, source: Expr, begin: int) -> Body:
        """Compute steps of chunk k from `first` on, while steps of another chunk are fetched from `begin` on."""

        def step(n: Expr) -> Body:
            at = n + first
            return (*fetch(source, n + begin), *replaced(compute, {loop.var: k, i: at, **slot_of(k, at)}))

        return _unrolled(i, count, step)

    def acquire(chunk: Expr) -> Body:
        """Finish the oldest copy in flight, and start the next one in the slot of the previous chunk."""
        last = chunk + (outer.pipe.stages - 2)
        finish = () if as_int(chunk) == 0 else copied(outer.finish, last)
        return (*finish, *copied(outer.start, last + 1))

    # The fetches of one chunk's computes reach one new chunk, `far` chunks on, at step `turn`.
    far = -(-ahead // steps)
    turn = far * steps - ahead

    def trip(k: Expr) -> Body:
        """Compute one chunk."""
        new = k + far
        return (
            *run(turn, 0, k, new - 1, steps - turn if far else 0),
            *_where(lt(new, outer.pipe.every), acquire(new)),
            *run(steps - turn, turn, k, new, 0),
        )

    first: Body = ()
    for d in range(outer.pipe.stages - 1):
        first += copied((*outer.start, *outer.finish), as_expr(d))
    for c in range(far):
        now = as_expr(c)
        first += _where(lt(now, outer.pipe.every), acquire(now))
        first += _unrolled(i, min(steps, ahead - c * steps), lambda step, now=now: fetch(now, step))
    return (*first, *_loop(loop, outer.pipe.every, slots // gcd(steps, slots), far, trip))


def _unrolled(var: Var, count: int, body: Callable[[Expr], Body]) -> Body:
    """Repeat a body for the first steps."""
    if count < 2:
        return body(as_expr(0)) if count else ()
    step = Var(var.name, count)
    return (For(step, as_expr(count), body(step), unroll=True, kind="chunks"),)


def _loop(loop: For, trips: Expr, together: int, far: int, trip: Callable[[Expr], Body]) -> Body:
    """Make the loop over chunks, with several chunks in a trip.

    The last chunks, during which nothing is fetched, stand after the loop, or under conditions in it where their slots
    are not known.
    """

    def over(k: Var, body: Body) -> For:
        """Make the loop; `together` is the number of chunks in its body."""
        assert k.extent is not None
        return For(k, as_expr(k.extent), body, loop.unroll, max(1, loop.together // together), kind="chunks")

    static = as_int(trips)
    if together > 1 and static is None:
        # The last chunk's slot is not known, so each chunk has a condition that it exists.
        k = Var(loop.var.name, simplest(-(-trips // together)))
        body: Body = ()
        for c in range(together):
            chunk = k * together + c
            body += _where(lt(chunk, trips), trip(chunk))
        return (over(k, body),)
    whole = maximum(trips - far, 0)
    rounds = whole if together == 1 else whole // together
    k = Var(loop.var.name, simplest(rounds))
    out: Body = ()
    if as_int(rounds) != 0:
        out = (over(k, tuple(s for c in range(together) for s in trip(k * together + c))),)
    left: list[Expr] = [rounds * together + c for c in range(as_int(whole - rounds * together) or 0)]
    for chunk in (*left, *(trips - far + p for p in range(far))):
        out += _where(ge(chunk, 0), trip(chunk))
    return out


def _where(condition: Expr, body: Body) -> Body:
    if proves(condition):
        return body
    return () if condition == as_expr(0) or not body else (If(condition, body),)
