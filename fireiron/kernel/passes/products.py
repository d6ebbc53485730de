"""Products in flight: derives the fences before them, the commits after them, and the waits for them.

Statements are walked in program order with the list of groups in flight, the newest last. A register fence is inserted
before products whose registers other instructions have accessed since the last fence, and after each loop that spins. A
group is committed after its last product; products whose sums are used sooner than those behind them are a group. The
wait for a group stands as late as possible: before threads access the group's registers, or registers that a trip
copies into them, and before an arrival that releases its ring slot. A loop is walked repeatedly, each time from the
state at its end, until the inserted statements stay the same.

Why registers that are copied count: in the machine code (SASS) of attention with speculation, ptxas had used one set of
registers for a product's A and for the registers that the loop copied into A, because nothing else read both. A later
trip's values were then written while the product still read them, and an H200 gave NaN. That ptxas merges registers in
this way is inferred from such code; no documentation states it.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from fireiron.algebra.expr import Expr, Var, as_int, evaluate, free
from fireiron.algebra.scalar import Arg
from fireiron.base.errors import DecompositionError
from fireiron.base.records import Itself
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import (
    THREAD,
    Advance,
    Arrive,
    Await,
    Buffer,
    Call,
    Commit,
    Compute,
    Cursor,
    Fence,
    For,
    If,
    Let,
    Micro,
    Region,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    Wait,
    walk,
)

Body = tuple[Statement, ...]
MOST_WALKS = 8  # most walks of a loop until its statements stay the same
WORD = 32  # bits of a register; only whole registers can be held


@attrs.frozen
class Flight:
    """Hold a group of products in flight.

    Args:
        name: name of the group.
        registers: the registers that the products read and write, and registers that are copied into these.
        sums: the registers that the products write.
        slots: the variables of the ring slots that the products read.
        passed: by how many slots each ring has advanced since the group began.
    """

    name: str
    registers: frozenset[str]
    sums: tuple[Buffer, ...]
    slots: frozenset[Expr]
    passed: tuple[Expr, ...] = ()


def await_products(body: Body) -> Body:
    """Insert the fences, commits and waits that a kernel's products need.

    Args:
        body: the kernel's statements, without fences, commits and waits of products.

    Raises:
        DecompositionError: `products-differ` where the products in flight differ between trips of a loop.
    """
    if not any(starts(s, "products") for s in walk(body)):
        return body
    whole = _Pass((), ()) if not any(isinstance(s, Roles) for s in body) else None
    if whole is not None:
        return whole.run(body)
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Roles):
            s = Roles(tuple(_role(role) for role in s.roles))
        out.append(s)
    return tuple(out)


def _role(role: Role) -> Role:
    if not any(starts(s, "products") for s in walk(role.body)):
        return role
    return attrs.evolve(role, body=_Pass(role.cursors, ()).run(role.body))


@attrs.frozen
class _Facts:
    """Hold facts about a statement and all statements in it.

    Args:
        products: the products that the statements start.
        marks: the statements that wait, arrive, advance a cursor or define a name.
        touched: registers that threads access.
        copies: pairs of registers (destination, source) that threads copy.
    """

    products: tuple[Call, ...] = ()
    marks: Body = ()
    touched: frozenset[str] = frozenset()
    copies: frozenset[tuple[str, str]] = frozenset()


_NOTHING = _Facts()


@attrs.define
class _Pass:
    """Hold the state of the walk at a place.

    Args:
        cursors: cursors of the role's rings.
        flights: groups in flight, the newest last.
        touched: registers that other instructions than products have accessed since the last fence.
        fenced: whether a fence follows the last loop that spins.
        varying: variables that depend on the thread.
        copies: registers that threads copy in the loop or branch around the place.
        known, runs: caches of the facts of statements, and of `is_run`.
        lags: a cache of how many slots a slot lies behind a ring's cursor.
    """

    cursors: tuple[Cursor, ...]
    flights: tuple[Flight, ...] = ()
    touched: set[str] = attrs.field(factory=set[str])
    fenced: bool = False
    varying: set[str] = attrs.field(factory=lambda: {THREAD})
    copies: frozenset[tuple[str, str]] = frozenset()
    known: dict[Itself, _Facts] = attrs.field(factory=dict[Itself, _Facts])
    runs: dict[Itself, bool] = attrs.field(factory=dict[Itself, bool])
    lags: dict[tuple[Cursor, Expr], int | None] = attrs.field(factory=dict[tuple[Cursor, Expr], "int | None"])

    def facts(self, s: Statement) -> _Facts:
        """Return the facts of a statement of the body."""
        found = self.known.get(Itself(s))
        if found is None:
            found = self.known[Itself(s)] = self.found(s)
        return found

    def found(self, s: Statement) -> _Facts:
        match s:
            case For(body=body) | If(body=body) | Region(body=body):
                parts = [facts for x in body if (facts := self.facts(x)) is not _NOTHING]
                if not parts:
                    return _NOTHING
                return _Facts(
                    tuple(c for part in parts for c in part.products),
                    tuple(x for part in parts for x in part.marks),
                    frozenset[str]().union(*(part.touched for part in parts)),
                    frozenset[tuple[str, str]]().union(*(part.copies for part in parts)),
                )
            case Call() | Compute() | Micro():
                if starts(s, "products"):
                    assert isinstance(s, Call)
                    return _Facts(products=(s,))
                touched = frozenset(b.name for b in _touches(s))
                return _Facts(touched=touched, copies=_copied(s)) if touched else _NOTHING
            case Await() | Arrive() | Advance() | Turn() | Sync() | Let():
                return _Facts(marks=(s,))
            case _:
                return _NOTHING

    def is_run(self, s: Statement) -> bool:
        """Say whether a statement starts products, and contains nothing that waits or must wait for them."""
        found = self.runs.get(Itself(s))
        if found is None:
            found = self.runs[Itself(s)] = self.closed(s)
        return found

    def closed(self, s: Statement) -> bool:
        facts = self.facts(s)
        if not facts.products or any(not isinstance(x, Let) for x in facts.marks):
            return False
        if not facts.touched & {b.name for c in facts.products for b in _registers(c)}:
            return True
        taken: list[tuple[str, int, int]] = []
        for flies, name, first, last in _spans((s,), {}):
            if flies:
                taken.append((name, first, last))
            elif any(name == other and first < b and a < last for other, a, b in taken):
                return False
        return True

    def run(self, body: Body) -> Body:
        """Walk a body whose statements follow each other."""
        out: list[Statement] = []
        starts = any(self.is_run(s) for s in body)
        open_: list[Statement] = []
        for i, s in enumerate(body):
            if self.is_run(s):
                out += self.fences((s,))
                open_.append(s)
                if i + 1 == len(body) or not self.is_run(body[i + 1]) or self.sooner(open_, body[i + 1 :]):
                    out.append(self.close(tuple(open_)))
                    open_ = []
                continue
            if isinstance(s, For) and self.facts(s).products:
                out += self.loop(s)
                continue
            if isinstance(s, If | Region) and self.facts(s).products:
                out.append(attrs.evolve(s, body=self.inside(s)))
                continue
            pending = self.pending(s)
            if pending is not None:
                done = self.flights[: len(self.flights) - pending]
                held = self.held(done, body[i:]) if starts else None
                out.append(Wait(done[-1].name, pending, holds=held))
                self.flights = self.flights[len(done) :]
            self.passes(s)
            out.append(s)
        return tuple(out)

    def sooner(self, started: list[Statement], rest: Body) -> bool:
        """Say whether sums of products are used before registers of the products that follow them directly."""
        after = next((i for i, s in enumerate(rest) if not self.is_run(s)), len(rest))
        sums = {b.name for s in started for c in self.facts(s).products for b in _sums(c)}
        others = {b.name for s in rest[:after] for c in self.facts(s).products for b in _registers(c)}
        used = next((t for s in rest[after:] if (t := self.facts(s).touched) & (sums | others)), frozenset[str]())
        return bool(used & sums) and not used & others

    def close(self, started: Body) -> Commit:
        """Commit the products started since the last commit as a group."""
        calls = [c for s in started for c in self.facts(s).products]
        views = [v for c in calls for v in c.views]
        slots = {c.slot for c in self.cursors for v in views if v.slot is not None and c.slot in free(v.slot)}
        sums = {b.name: b for c in calls for b in _sums(c)}
        held = frozenset(b.name for c in calls for b in _registers(c))
        held |= {source for copy, source in self.copies if copy in held - sums.keys()}
        name = calls[0].atom.completion
        self.flights = (*self.flights, Flight(name, held, tuple(sums.values()), frozenset(slots)))
        return Commit(name)

    def inside(self, s: For | If | Region) -> Body:
        """Walk a body; only copies in the body itself count as `copies`."""
        around = self.copies
        self.copies = self.facts(s).copies
        body = self.run(s.body)
        self.copies = around
        return body

    def loop(self, loop: For) -> Body:
        """Walk a loop until the inserted statements stay the same."""
        body: Body = ()
        last: Body | None = None
        for _ in range(MOST_WALKS):
            body = self.inside(loop)
            if body == last:
                break
            last = body
        else:
            raise DecompositionError(
                "products-differ",
                f"the products in flight differ between the trips of the loop over {loop.var.name}",
                fix="use pipeline(n) without inflight",
            )
        calls = self.facts(loop).products
        sums = [b for c in calls for b in _sums(c)]
        touched = self.facts(loop).touched
        varies = any(isinstance(x, Var) and x.name in self.varying for x in free(loop.extent))
        if not varies or touched & {b.name for b in sums}:
            return (attrs.evolve(loop, body=body),)
        # Units without a trip keep what the registers held before: nothing may be copied out of them ahead of this.
        self.flights = ()
        wait = Wait(calls[0].atom.completion, 0, holds=_word(sums))
        return (attrs.evolve(loop, body=body), wait)

    def pending(self, s: Statement) -> int | None:
        """Return how many groups may stay in flight before a statement; None where it needs no group to be complete."""
        needed: list[int] = []
        facts = self.facts(s)
        touched = facts.touched
        for i, flight in enumerate(self.flights):
            newer = len(self.flights) - 1 - i
            if touched & flight.registers:
                needed.append(newer)
            for arrive in (x for x in facts.marks if isinstance(x, Arrive)):
                if any(self.behind(c, arrive.slot) == flight.passed.count(c.slot) % c.slots for c in self.of(flight)):
                    needed.append(newer)
        return min(needed, default=None)

    def of(self, flight: Flight) -> Iterator[Cursor]:
        return (c for c in self.cursors if c.slot in flight.slots)

    def behind(self, cursor: Cursor, slot: Expr) -> int | None:
        """Return how many slots a slot lies behind a ring's cursor; None for slots of other rings."""
        key = (cursor, slot)
        if key not in self.lags:
            self.lags[key] = self.lag(cursor, slot)
        return self.lags[key]

    def lag(self, cursor: Cursor, slot: Expr) -> int | None:
        if list(free(slot)) != [cursor.slot]:
            return None
        found = {(at - _at(slot, cursor, at)) % cursor.slots for at in range(cursor.slots)}
        return found.pop() if len(found) == 1 else None

    def held(self, done: tuple[Flight, ...], rest: Body) -> Buffer | None:
        """Return the sums of complete products that statements after the wait read, in the products' own loop."""
        touched = frozenset[str]().union(*(self.facts(s).touched for s in rest))
        return _word([b for flight in done for b in flight.sums if b.name in touched])

    def passes(self, s: Statement) -> None:
        """Update the state by a statement without products: its accesses, waits, names and advances."""
        facts = self.facts(s)
        for x in facts.marks:
            match x:
                case Await() | Turn() | Sync():
                    self.fenced = False
                case Advance(cursor=cursor, by=by):
                    steps = (cursor.slot,) * (as_int(by) or 0)
                    self.flights = tuple(attrs.evolve(f, passed=f.passed + steps) for f in self.flights)
                case Let(var=var, value=value):
                    if any(isinstance(y, Var) and y.name in self.varying for y in free(value)):
                        self.varying.add(var.name)
                case _:
                    pass
        self.touched |= facts.touched

    def fences(self, body: Body, inside: bool = False) -> Body:
        """Insert a fence before products, outside loops and regions that access none of their registers."""
        out: list[Statement] = []
        for s in body:
            if not self.facts(s).products:
                self.passes(s)
                out.append(s)
                continue
            facts = self.facts(s)
            held = {b.name for c in facts.products for b in _registers(c)}
            clean = not held & facts.touched
            if not clean and isinstance(s, For | If | Region):
                out.append(attrs.evolve(s, body=self.fences(s.body, inside or isinstance(s, For))))
                continue
            if not self.fenced or self.touched & held:
                out.append(Fence("registers", _reason(facts.products, inside)))
                self.fenced = True
                self.touched.clear()
            out.append(s)
        return tuple(out)


def _at(slot: Expr, cursor: Cursor, at: int) -> int:
    return int(evaluate(slot, {cursor.slot.name: at}))  # pyright: ignore[reportArgumentType]


def _spans(body: Body, env: dict[str, int]) -> Iterator[tuple[bool, str, int, int]]:
    """List the registers that statements access, in the order of execution, each with whether a product does."""
    for s in body:
        match s:
            case For(var=var, extent=extent, body=inner):
                for trip in range(as_int(extent) or 1):
                    yield from _spans(inner, {**env, var.name: trip})
            case If(condition=condition, body=inner):
                known = {x.name for x in free(condition)} <= set(env)
                if not known or evaluate(condition, env):
                    yield from _spans(inner, env)
            case Region(body=inner):
                yield from _spans(inner, env)
            case Call() | Compute() | Micro():
                for view, _ in reads_and_writes(s):
                    if not view.buffer.memory.registers:
                        continue
                    size = as_int(view.layout.cosize)
                    known = {x.name for x in free(view.offset)} <= set(env)
                    if size is None or not known:
                        yield starts(s, "products"), view.buffer.name, 0, 1 << 30
                        continue
                    first = int(evaluate(view.offset, env))  # pyright: ignore[reportArgumentType]
                    yield starts(s, "products"), view.buffer.name, first, first + size
            case _:
                pass


def _registers(call: Call) -> Iterator[Buffer]:
    return (v.buffer for v in call.views if v.buffer.memory.registers)


def _sums(call: Call) -> Iterator[Buffer]:
    return (
        v.buffer
        for o, v in zip(call.atom.operands, call.views, strict=True)
        if o.access != "read" and v.buffer.memory.registers
    )


def _copied(s: Call | Compute | Micro) -> frozenset[tuple[str, str]]:
    """List the registers that a statement copies, as pairs of destination and source."""
    match s:
        case Compute(dst=dst, expr=Arg(), inputs=(source,)) if source.buffer.memory.registers:
            return frozenset({(dst.buffer.name, source.buffer.name)})
        case _:
            return frozenset()


def _touches(s: Statement) -> Iterator[Buffer]:
    """List the registers that an access touches."""
    if isinstance(s, Call | Compute | Micro):
        yield from (v.buffer for v, _ in reads_and_writes(s) if v.buffer.memory.registers)


def _word(sums: list[Buffer]) -> Buffer | None:
    return next((b for b in sums if b.dtype.bits == WORD), None)


def _reason(products: tuple[Call, ...], inside: bool) -> str:
    if not any(c.views[0].buffer.memory.registers for c in products):
        return "accumulators are registers"
    return "A is registers, written just now" if inside else "sums and A are registers, written before"
