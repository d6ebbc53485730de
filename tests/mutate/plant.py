"""Plant bugs in kernel IR: each statement kind, each field that has a meaning.

A mutant differs from its kernel in one place: a statement is dropped, doubled, exchanged with the next, or taken out of
what surrounds it; an index is one off or lacks a variable; a predicate is dropped, lacks a part, or is one off; a
parity is the other; a count or a number is one off; a level is narrower; an order is weaker; a flag is the other.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, assert_never

import attrs

from fireiron.algebra.expr import Compare, Expr, Logic, Var, and_, as_expr, as_int, free, or_, substitute
from fireiron.algebra.scalar import Binary, Constant, children, with_children
from fireiron.kernel.ir.declarations import Barrier, Buffer, View
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Ask,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Kernel,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Prefetch,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    Vote,
    Wait,
)
from fireiron.language.levels import SH, Block, Cluster, Level, Warp, Warpgroup

Body = tuple[Statement, ...]
Place = tuple[int, ...]  # positions from the kernel's body inwards; of a Roles, first the role's, then its statement's
Change = tuple[str, str, tuple[Statement, ...]]  # the field, what is changed, and what stands there instead

# Between these, the order of what stands around them is the kernel's meaning.
ORDERING = (
    Sync,
    Wait,
    Await,
    Arrive,
    Fence,
    Commit,
    Advance,
    Turn,
    InitBarriers,
    CountIn,
    Meet,
    Draw,
    Leave,
    Raise,
    Lower,
)


@attrs.frozen
class Mutant:
    """Hold a kernel with a bug.

    Args:
        kind: the statement's class, or `Kernel`.
        number: which of them, in program order.
        field: what was changed.
        change: how.
        before: the statement as it was, None for what the kernel declares.
        after: what it was exchanged with, None where it was not.
        kernel: with the bug.
    """

    kind: str
    number: int
    field: str
    change: str
    before: Statement | None
    kernel: Kernel
    after: Statement | None = None

    @property
    def key(self) -> str:
        """Name the mutant among those of its kernel."""
        return f"{self.kind}[{self.number}].{self.field}: {self.change}"


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """List all mutants of a kernel, in program order; of changes with the same words, later ones are numbered."""
    said: Counter[str] = Counter()
    for mutant in _planted(kernel):
        said[mutant.key] += 1
        again = said[mutant.key]
        yield mutant if again == 1 else attrs.evolve(mutant, change=f"{mutant.change} ({again})")


def _planted(kernel: Kernel) -> Iterator[Mutant]:
    counts: Counter[str] = Counter()
    for place, statement in places(kernel.body):
        kind = type(statement).__name__
        number = counts[kind]
        counts[kind] += 1
        for field, change, new in changes(statement):
            body = replaced(kernel.body, place, new)
            yield Mutant(kind, number, field, change, statement, attrs.evolve(kernel, body=body))
        for change, body, after in moved(kernel.body, place, statement):
            yield Mutant(kind, number, "place", change, statement, attrs.evolve(kernel, body=body), after)
    yield from declared(kernel)


def places(body: Body, at: Place = ()) -> Iterator[tuple[Place, Statement]]:
    """List statements with their places, outer ones first."""
    for i, statement in enumerate(body):
        here = (*at, i)
        yield here, statement
        match statement:
            case For(body=inner) | If(body=inner) | Region(body=inner):
                yield from places(inner, here)
            case Roles(roles=roles):
                for j, role in enumerate(roles):
                    yield from places(role.body, (*here, j))
            case _:
                pass


def replaced(body: Body, place: Place, new: Body, width: int = 1) -> Body:
    """Put other statements in the place of one, or of a few from there on."""
    i, *inner = place
    if not inner:
        return (*body[:i], *new, *body[i + width :])
    statement = body[i]
    match statement:
        case For() | If() | Region():
            changed: Statement = attrs.evolve(statement, body=replaced(statement.body, tuple(inner), new, width))
        case Roles(roles=roles):
            j, *rest = inner
            role = attrs.evolve(roles[j], body=replaced(roles[j].body, tuple(rest), new, width))
            changed = Roles((*roles[:j], role, *roles[j + 1 :]))
        case _:
            raise AssertionError(statement)
    return (*body[:i], changed, *body[i + 1 :])


def siblings(body: Body, place: Place) -> Body:
    """Give the statements among which one stands."""
    i, *inner = place
    if not inner:
        return body
    match body[i]:
        case For(body=within) | If(body=within) | Region(body=within):
            return siblings(within, tuple(inner))
        case Roles(roles=roles):
            return siblings(roles[inner[0]].body, tuple(inner[1:]))
        case _:
            raise AssertionError(body[i])


def moved(body: Body, place: Place, statement: Statement) -> Iterator[tuple[str, Body, Statement | None]]:
    """Drop a statement, double it, exchange it with the next one, or take it out of what surrounds it."""
    if not isinstance(statement, Region):
        yield "dropped", replaced(body, place, ()), None
    if _counts(statement):
        yield "doubled", replaced(body, place, (statement, statement)), None
    around = siblings(body, place)
    here = place[-1]
    if here + 1 < len(around):
        following = around[here + 1]
        if _ordered(statement, following):
            swapped = replaced(body, place, (following, statement), 2)
            yield f"exchanged with {type(following).__name__}", swapped, following
    if isinstance(statement, If):
        yield "body without its condition", replaced(body, place, statement.body), None


def _counts(statement: Statement) -> bool:
    """Say whether doing something twice is more than doing it once."""
    match statement:
        case Call(atom=atom):
            return any(o.access == "update" for o in atom.operands) or atom.completion == "mbarrier"
        case Compute(dst=dst, inputs=inputs):
            return any(view.buffer == dst.buffer for view in inputs)
        case For(body=body) | If(body=body):
            return any(_counts(inner) for inner in body)
        case Draw(reads=reads):
            return not reads
        case _:
            return isinstance(statement, Arrive | Advance | CountIn | Meet | Raise | Lower | Turn)


def _ordered(first: Statement, second: Statement) -> bool:
    """Say whether the order of two statements that follow each other may matter."""
    if isinstance(first, Let | Ask | Prefetch) or isinstance(second, Let | Ask | Prefetch):
        return False
    return isinstance(first, ORDERING) or isinstance(second, ORDERING)


def changes(statement: Statement) -> Iterator[Change]:
    """List what may be wrong within one statement."""

    def evolved(field: str, change: str, value: Any) -> Change:
        return field, change, (attrs.evolve(statement, **{field: value}),)

    match statement:
        case Let(value=value):
            yield from (evolved("value", how, new) for how, new in indices(value))
        case Fetch(view=view, present=present):
            yield from (evolved("view", how, new[0]) for how, new in views((view,)))
            yield from (evolved("present", how, new) for how, new in conditions(present))
        case Vote(flag=flag, present=present):
            yield from (evolved("flag", how, new[0]) for how, new in views((flag,)))
            yield from (evolved("present", how, new) for how, new in conditions(present))
            if statement.found != "any":
                yield evolved("found", "any", "any")
        case Draw(first=first, units=units, items=items, counter=counter, place=place, reads=reads):
            yield from (evolved("place", how, new[0]) for how, new in views((place,)))
            yield evolved("reads", str(not reads), not reads)
            if not reads:
                yield from (evolved("first", how, new) for how, new in indices(first))
                yield from (evolved("units", how, new) for how, new in indices(units))
                yield evolved("items", "+ 1", items + 1)
                yield evolved("items", "- 1", items - 1)
                yield from (evolved("counter", how, new[0]) for how, new in views((counter,)))
        case Leave(condition=condition):
            yield from (evolved("condition", how, new) for how, new in conditions(condition))
        case FindGroup(groups=groups, item=item):
            yield from (evolved("item", how, new) for how, new in indices(item))
            yield evolved("groups", "rows of a tile + 1", attrs.evolve(groups, size=groups.size + 1))
        case For(extent=extent):
            yield evolved("extent", "+ 1", extent + 1)
            yield evolved("extent", "- 1", extent - 1)
        case If(condition=condition):
            yield from (evolved("condition", how, new) for how, new in conditions(condition))
        case Call():
            for field in ("read", "write", "accumulate"):
                condition = getattr(statement, field)
                if condition is not None:
                    yield evolved(field, "dropped", None)
                    yield from (evolved(field, how, new) for how, new in conditions(condition))
            yield from (evolved("views", how, new) for how, new in views(statement.views))
            if statement.lane is not None:
                yield from (evolved("lane", how, new) for how, new in indices(statement.lane))
            if statement.signal is not None:
                barrier, slot = statement.signal
                yield evolved("signal", "dropped", None)
                yield from (evolved("signal", f"slot {how}", (barrier, new)) for how, new in indices(slot))
            if statement.peers is not None:
                yield evolved("peers", "dropped", None)
                yield evolved("peers", "one", as_expr(1))
        case Compute(expr=expr, dst=dst, inputs=inputs, write=write):
            if write is not None:
                yield evolved("write", "dropped", None)
                yield from (evolved("write", how, new) for how, new in conditions(write))
            yield from (evolved("dst", how, new[0]) for how, new in views((dst,)))
            yield from (evolved("inputs", how, new) for how, new in views(inputs))
            yield from (evolved("expr", how, new) for how, new in scalars(expr))
        case Sync(level=level, relaxed=relaxed):
            yield from (evolved("level", str(one), one) for one in narrower(level))
            yield evolved("relaxed", str(not relaxed), not relaxed)
        case CountIn(count=count, order=order, level=level):
            yield evolved("count", "+ 1", count + 1)
            yield evolved("count", "- 1", count - 1)
            weaker = {"acq_rel": ("release", "acquire", "relaxed")}.get(
                order, ("relaxed",) if order != "relaxed" else ()
            )
            yield from (evolved("order", one, one) for one in weaker)
            yield from (evolved("level", str(one), one) for one in narrower(level))
            yield from (evolved("counter", how, new[0]) for how, new in views((statement.counter,)))
        case Meet(counter=counter, count=count, level=level):
            yield evolved("count", "+ 1", count + 1)
            yield evolved("count", "- 1", count - 1)
            yield from (evolved("level", str(one), one) for one in narrower(level))
            yield from (evolved("counter", how, new[0]) for how, new in views((counter,)))
        case Raise(flag=flag, level=level) | Lower(flag=flag, level=level):
            yield from (evolved("flag", how, new[0]) for how, new in views((flag,)))
            yield from (evolved("level", str(one), one) for one in narrower(level))
        case Wait(pending=pending, reads_only=reads_only):
            yield evolved("pending", "+ 1", pending + 1)
            if not reads_only and statement.group == "bulk":
                yield evolved("reads_only", "True", True)
        case InitBarriers(barriers=barriers):
            yield from (
                evolved("barriers", f"without {barrier.name}", tuple(b for b in barriers if b != barrier))
                for barrier in barriers
            )
        case Await(slot=slot, parity=parity, wide=wide):
            yield from (evolved("slot", how, new) for how, new in indices(slot))
            yield evolved("parity", "the other", 1 - parity)
            if wide:
                yield evolved("wide", "False", False)
        case Arrive(slot=slot, nbytes=nbytes, peer=peer, wide=wide):
            yield from (evolved("slot", how, new) for how, new in indices(slot))
            if nbytes:
                yield evolved("nbytes", "+ 16", nbytes + 16)
                yield evolved("nbytes", "- 16", nbytes - 16)
            if peer is not None:
                yield evolved("peer", "dropped", None)
                yield from (evolved("peer", how, new) for how, new in indices(peer))
            if wide:
                yield evolved("wide", "False", False)
        case Advance(by=by):
            yield evolved("by", "+ 1", by + 1)
            yield evolved("by", "- 1", by - 1)
        case Fence(kind=kind):
            if kind != "grid.launch":
                yield evolved("kind", "another", "wgmma" if kind != "wgmma" else "proxy.async")
        case Turn(number=number, threads=threads, waits=waits):
            yield evolved("number", "+ 1", number + 1)
            yield evolved("threads", "- 32", threads - 32)
            yield evolved("waits", str(not waits), not waits)
        case Roles(roles=roles):
            for j, role in enumerate(roles):
                others = (*roles[:j], *roles[j + 1 :])
                yield evolved("roles", f"without {role.name}", others)
                lesser = attrs.evolve(role, first=role.first, threads=role.threads - 32)
                yield evolved("roles", f"{role.name} of a warp less", (*roles[:j], lesser, *roles[j + 1 :]))
        case Micro(write=write):
            if write is not None:
                yield evolved("write", "dropped", None)
                yield from (evolved("write", how, new) for how, new in conditions(write))
            yield from (evolved("views", how, new) for how, new in views(statement.views))
        case Commit() | Prefetch() | Ask() | Region():
            pass
        case _ as never:
            assert_never(never)


def indices(e: Expr) -> Iterator[tuple[str, Expr]]:
    """Put an index one off, and leave each of its variables out that may be more than 0."""
    yield "+ 1", e + 1
    for leaf in sorted((leaf for leaf in free(e) if isinstance(leaf, Var)), key=str):
        if leaf.extent is not None and as_int(leaf.extent) == 1:
            continue
        with contextlib.suppress(ZeroDivisionError):
            without = substitute(e, {leaf: as_expr(0)})
            if without != e:
                yield f"without {leaf}", without


def conditions(e: Expr) -> Iterator[tuple[str, Expr]]:
    """Leave a part of a condition out, and put its comparisons one off."""
    match e:
        case Logic(op, parts):
            join = and_ if op == "&&" else or_
            for i, part in enumerate(parts):
                yield f"without {part}", join(*parts[:i], *parts[i + 1 :])
                for how, new in conditions(part):
                    yield how, join(*parts[:i], new, *parts[i + 1 :])
        case Compare("<", left, right):
            yield f"{e} one more", Compare("<", left, right + 1)
            yield f"{e} one less", Compare("<", left, right - 1)
        case Compare(_, left, right):
            yield f"{e} one off", Compare(e.op, left, right + 1)
        case _:
            pass


def views(found: tuple[View, ...]) -> Iterator[tuple[str, tuple[View, ...]]]:
    """Put the place of one of several views one off, leave its variables out, or take another block's."""
    for i, view in enumerate(found):
        name = view.buffer.name

        def changed(i: int = i, view: View = view, **new: Any) -> tuple[View, ...]:
            return (*found[:i], attrs.evolve(view, **new), *found[i + 1 :])

        if as_int(view.buffer.size) != 1:
            for how, offset in indices(view.offset):
                yield f"{name} at {how}", changed(offset=offset)
        for j, coordinate in enumerate(view.origin if view.layout.size != 1 else ()):
            for how, new in indices(coordinate):
                yield f"{name} from {j} {how}", changed(origin=(*view.origin[:j], new, *view.origin[j + 1 :]))
        if view.peer is not None:
            yield f"{name} of this block", changed(peer=None)


def scalars(e: Any) -> Iterator[tuple[str, Any]]:
    """Change an expression of elements: another number, operands exchanged, an operation left out."""
    match e:
        case Constant(value, dtype):
            yield f"a number + 1 ({value:g})", Constant(value + 1, dtype)
        case Binary(op, x, y):
            if op in ("sub", "div", "lt", "le") and x != y:
                yield f"{op} exchanged", Binary(op, y, x)
            if x.dtype == e.dtype:
                yield f"{op} left out", x
        case _:
            pass
    parts = children(e)
    for i, part in enumerate(parts):
        for how, new in scalars(part):
            yield how, with_children(e, (*parts[:i], new, *parts[i + 1 :]))


def narrower(level: Level) -> tuple[Level, ...]:
    """List levels whose barrier is narrower than one's."""
    order = (Cluster, Block, Warpgroup, Warp)
    names = [one.name for one in order]
    return order[names.index(level.name) + 1 :] if level.name in names else (Warp,) if level.size != 32 else ()


def declared(kernel: Kernel) -> Iterator[Mutant]:
    """Change what a kernel declares: the grid, where buffers lie, how many arrivals complete a phase."""

    def mutant(field: str, change: str, made: Kernel) -> Mutant:
        return Mutant("Kernel", 0, field, change, None, made)

    yield mutant("grid", f"- {kernel.cluster}", attrs.evolve(kernel, grid=kernel.grid - kernel.cluster))
    yield mutant("shared_nbytes", "- 16", attrs.evolve(kernel, shared_nbytes=kernel.shared_nbytes - 16))
    for buffer in kernel.buffers:
        if buffer.memory != SH:
            continue
        others = [b for b in kernel.buffers if b.memory == SH and b.offset < buffer.offset]
        if others:
            moved_up = attrs.evolve(buffer, offset=buffer.offset - 16)
            yield mutant("buffers", f"{buffer.name} over the one before", _everywhere(kernel, buffer, moved_up))
        if buffer.slots > 1:
            fewer = attrs.evolve(buffer, slots=buffer.slots - 1)
            yield mutant("buffers", f"{buffer.name} of a slot less", _everywhere(kernel, buffer, fewer))
    for barrier in kernel.barriers:
        for by in (1, -1):
            counted = attrs.evolve(barrier, count=barrier.count + by)
            yield mutant("barriers", f"{barrier.name} of {by:+} arrivals", _everywhere(kernel, barrier, counted))


def _everywhere(kernel: Kernel, old: Buffer | Barrier, new: Buffer | Barrier) -> Kernel:
    """Put one declaration in the place of another, wherever it is named."""

    def one(x: Any) -> Any:
        if x == old and type(x) is type(old):
            return new
        if isinstance(x, tuple):
            return tuple(one(part) for part in x)
        if isinstance(x, (*STATEMENTS, View, Kernel)) or type(x).__name__ == "Role":
            return attrs.evolve(x, **{f.name: one(getattr(x, f.name)) for f in attrs.fields(type(x))})
        return x

    return one(kernel)


STATEMENTS = (
    Let, Draw, Leave, Fetch, Vote, FindGroup, For, If, Call, Compute, Sync, CountIn, Meet, Raise, Lower, Commit, Wait,
    Micro, Region, InitBarriers, Await, Arrive, Advance, Fence, Prefetch, Ask, Turn, Roles,
)  # fmt: skip
