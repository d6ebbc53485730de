"""Follow registers, fences and cursors through a kernel, as far as they say that a mutant changes nothing.

Statements are read in program order. A statement in a loop also follows what stands behind it there, so each question
about what lies ahead asks the loops around as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fireiron.algebra.expr import Expr, Var, as_int, free
from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar, Select, children, with_children
from fireiron.kernel.ir.declarations import Buffer, View
from fireiron.kernel.ir.rewrite import mentions
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Await,
    Call,
    Commit,
    Compute,
    Draw,
    Fence,
    Fetch,
    For,
    If,
    Kernel,
    Let,
    Region,
    Roles,
    Statement,
    Vote,
    walk,
)
from tests.mutate.plant import Mutant, Place, places

Placed = tuple[Place, Statement]


class Flow:
    """Answer what stands ahead of a mutant's statement, and behind it.

    Args:
        kernel: without the bug.
        mutant: with it.
    """

    def __init__(self, kernel: Kernel, mutant: Mutant) -> None:
        self.all: list[Placed] = list(places(kernel.body))
        alike = [(place, s) for place, s in self.all if type(s).__name__ == mutant.kind]
        self.place, self.statement = alike[mutant.number]
        self.by_place = dict(self.all)

    def scales_zeros(self) -> bool:
        """Say whether the statement does nothing but multiply registers that are still 0."""
        inside = [(p, s) for p, s in self.all if p[: len(self.place)] == self.place and not _frame(s)]
        return bool(inside) and all(self._scales(p, s) for p, s in inside)

    def feeds_zeros(self) -> bool:
        """Say whether what the statement computes is only multiplied by registers that are still 0."""
        return isinstance(self.statement, Compute) and self._feeds(self.place, self.statement.dst.buffer, 4)

    def _feeds(self, place: Place, buffer: Buffer, deep: int) -> bool:
        for p, s in self._behind(place):
            if _frame(s):
                continue
            if buffer in _reads(s) and not self._scales(p, s):
                if not (deep and isinstance(s, Compute) and s.dst.buffer != buffer):
                    return False
                if not self._feeds(p, s.dst.buffer, deep - 1):
                    return False
            if buffer in _writes(s) and buffer not in _reads(s) and not self._beside(place, p):
                return True
        return True

    def unread(self) -> bool:
        """Say whether what the statement writes into registers is read by nobody before it is written again."""
        inside = [s for p, s in self.all if p[: len(self.place)] == self.place and not _frame(s)]
        if not inside or not all(isinstance(s, Compute) and s.dst.buffer.memory.registers for s in inside):
            return False
        buffers = set().union(*(_writes(s) for s in inside)) - set().union(*(_reads(s) for s in inside))
        if buffers != set().union(*(_writes(s) for s in inside)):
            return False
        again: list[tuple[Buffer, Place]] = []
        for p, s in self._behind(self.place):
            if _frame(s):
                continue
            for buffer in buffers & _reads(s):
                if not any(written == buffer and self._follows(ahead, p) for written, ahead in again):
                    return False
            if not (isinstance(s, Compute) and s.write is not None):
                again += [(buffer, p) for buffer in buffers & _writes(s)]
        return True

    def _follows(self, first: Place, second: Place) -> bool:
        """Say whether a statement runs only where the first one ran: the conditions around that one are around it."""
        around = [first[:n] for n in range(1, len(first)) if not _runs(self.by_place.get(first[:n]))]
        return all(second[: len(place)] == place for place in around)

    def below(self, condition: str) -> bool:
        """Say whether the statement stands below a condition that a pattern matches."""
        around = (self.by_place.get(self.place[:n]) for n in range(1, len(self.place)))
        return any(isinstance(s, If) and re.fullmatch(condition, str(s.condition)) for s in around)

    def raises(self) -> bool:
        """Say whether the statement only raises an old maximum by what a chunk's sums tell, or leaves it as it is."""
        inside = [s for p, s in self.all if p[: len(self.place)] == self.place and not _frame(s)]
        raised = [s.dst for _, s in self.all if isinstance(s, Compute) and _raise(s)]
        return self.below(r"far\d* == 0") and bool(inside and raised) and all(
            isinstance(s, Compute)
            and (_raise(s) or (_maximum(s) and s.dst.buffer != raised[0].buffer and raised[0].buffer in _reads(s)))
            for s in inside
        )  # fmt: skip

    def last_arrival(self) -> bool:
        """Say whether the statement is an arrival for loads behind the last wait of its role, in no loop.

        All loads began before that wait ended.
        """
        inside = [s for s in walk((self.statement,)) if not isinstance(s, If)]
        role = self.place[:2]
        looped = any(isinstance(self.by_place.get(self.place[:n]), For) for n in range(len(role), len(self.place)))
        behind = [s for p, s in self.all if p[:2] == role and p > self.place]
        frees = bool(inside) and all(
            isinstance(s, Arrive) and s.barrier.name.endswith("_empty") and s.peer is None for s in inside
        )
        return (
            frees
            and isinstance(self.by_place[self.place[:1]], Roles)
            and not looped
            and not any(isinstance(s, Await) for s in behind)
        )

    def _beside(self, one: Place, other: Place) -> bool:
        """Say whether two statements stand in one loop of one statement's elements."""
        around = one[:-1]
        return bool(around) and isinstance(self.by_place.get(around), For) and other[: len(around)] == around

    def _behind(self, place: Place) -> Iterator[Placed]:
        """List what may follow a place: what stands behind it, then from the begin of the loops around it."""
        yield from ((p, s) for p, s in self.all if p > place and p[: len(place)] != place)
        for n in range(len(place) - 1, 0, -1):
            if isinstance(self.by_place.get(place[:n]), For):
                yield from ((p, s) for p, s in self.all if p[:n] == place[:n] and p < place)

    def _scales(self, place: Place, statement: Statement) -> bool:
        """Say whether a statement multiplies a register that is still 0, in its own place."""
        match statement:
            case Compute(dst=dst, inputs=inputs, expr=Binary("mul", x, y)):
                read = [inputs[arm.index].buffer for arm in (x, y) if isinstance(arm, Arg)]
                return dst.buffer in read and self._zero(place, dst.buffer)
            case _:
                return False

    def _zero(self, place: Place, buffer: Buffer) -> bool:
        """Say whether a register holds nothing but 0 there: it was begun, and only multiplied since."""
        for p, s in reversed([(p, s) for p, s in self.all if p < place and buffer in _writes(s)]):
            if _multiplied(s):
                continue
            if not (isinstance(s, Compute) and isinstance(s.expr, Constant) and s.expr.value == 0):
                return False
            shared = next(n for n in range(len(p) + 1) if p[: n + 1] != place[: n + 1])
            begun = all(isinstance(self.by_place.get(p[:n]), For | Region) for n in range(shared + 1, len(p)))
            loops = [place[:n] for n in range(shared + 1, len(place)) if isinstance(self.by_place.get(place[:n]), For)]
            again = [t for loop in loops for q, t in self.all if q[: len(loop)] == loop and buffer in _writes(t)]
            return begun and all(_multiplied(t) for t in again)
        return False

    def fenced_before(self) -> bool:
        """Say whether the fence of registers ahead of this one still holds: since then nothing but products began."""
        around, here = self.place[:-1], self.place[-1]
        for at in range(here - 1, -1, -1):
            s = self.by_place[(*around, at)]
            if isinstance(s, Fence) and s.kind == "registers":
                return True
            inside = [t for t in walk((s,)) if not _frame(t)]
            if not all(
                isinstance(t, Commit | Await | Arrive | Advance | Let)
                or (isinstance(t, Call) and t.atom.completion == "wgmma")
                for t in inside
            ):
                return False
        return False

    def first_slot(self, name: str) -> bool:
        """Say whether a variable is the slot of a cursor, and still 0 where the statement stands."""

        def moves(s: Statement) -> bool:
            return isinstance(s, Advance) and str(s.cursor.slot) == name

        role = self.place[:2]  # a Roles statement, then the role's number
        ahead = [s for p, s in self.all if p[:2] == role and p < self.place]
        loops = [
            self.place[:n] for n in range(3, len(self.place)) if isinstance(self.by_place.get(self.place[:n]), For)
        ]
        again = [s for loop in loops for p, s in self.all if p[: len(loop)] == loop]
        return name.endswith("_slot") and not any(moves(s) for s in (*ahead, *again))

    def last_of_cursor(self) -> bool:
        """Say whether nothing behind a cursor's move asks for its slot or parity."""
        if not isinstance(self.statement, Advance):
            return False
        cursor, role = self.statement.cursor, self.place[:2]
        behind = [s for p, s in self._behind(self.place) if p[:2] == role and not _frame(s)]
        return not any(mentions(s, part) for s in behind for part in (cursor.slot, cursor.parity))


def never_chosen(mutant: Mutant) -> bool:
    """Say whether only an alternative differs whose condition is a number that refuses it."""
    alike = [s for s in walk(mutant.kernel.body) if type(s).__name__ == mutant.kind]
    after = alike[mutant.number]
    before = mutant.before
    return isinstance(before, Compute) and isinstance(after, Compute) and _folded(before.expr) == _folded(after.expr)


def _folded(expr: Scalar) -> Scalar:
    """Put the alternative that a number chooses in the place of the choice."""
    match expr:
        case Select(condition=Constant(value=value), x=x, y=y):
            return _folded(x if value else y)
        case _:
            return with_children(expr, tuple(_folded(part) for part in children(expr)))


def forced(condition: Expr | None, name: str) -> bool:
    """Say whether a predicate leaves a variable, which is never below 0, no value but 0."""
    return condition is not None and f"{name} < 1" in str(condition).split(" && ") and "||" not in str(condition)


def _frame(statement: Statement) -> bool:
    return isinstance(statement, For | If | Region) or type(statement).__name__ == "Roles"


def _runs(statement: Statement | None) -> bool:
    """Say whether what stands inside a statement runs at least once."""
    trips = as_int(statement.extent) if isinstance(statement, For) else None
    return isinstance(statement, Region) or (trips is not None and trips > 0)


def _raise(statement: Compute) -> bool:
    """Say whether a statement adds one of some numbers, by what a sum exceeds."""
    match statement.expr:
        case Binary("add", Arg(), Select(Binary("le"), Constant(), _)):
            return True
        case _:
            return False


def _maximum(statement: Compute) -> bool:
    """Say whether a statement takes a maximum in its place."""
    return isinstance(statement.expr, Binary) and statement.expr.op == "max" and statement.dst in statement.inputs


def _multiplied(statement: Statement) -> bool:
    """Say whether a statement multiplies a register in its place, which leaves 0 what is 0."""
    return (
        isinstance(statement, Compute)
        and isinstance(statement.expr, Binary)
        and statement.expr.op == "mul"
        and any(isinstance(x, Arg) and statement.inputs[x.index].buffer == statement.dst.buffer
                for x in (statement.expr.x, statement.expr.y))
    )  # fmt: skip


def _views(statement: Statement) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """List the views that a statement reads, and those that it writes."""
    match statement:
        case Compute(dst=dst, inputs=inputs):
            return inputs, (dst,)
        case Call(views=views, atom=atom):
            updates = any(o.access == "update" for o in atom.operands)
            return (views if updates else views[:-1]), views[-1:]
        case Fetch(view=view) | Vote(flag=view):
            return (view,), ()
        case Draw(place=place, reads=reads):
            return ((place,), ()) if reads else ((), (place,))
        case _:
            found: tuple[Any, ...] = tuple(getattr(statement, "views", ()))
            return found, found


def _reads(statement: Statement) -> set[Buffer]:
    return {view.buffer for view in _views(statement)[0]}


def _writes(statement: Statement) -> set[Buffer]:
    return {view.buffer for view in _views(statement)[1]}


def named(mutant: Mutant) -> str:
    """Name a mutant with what its statement writes, or the barrier that it uses: `Compute[3].expr: ... @ total`."""
    match mutant.before:
        case Compute(dst=dst):
            what = dst.buffer.name
        case Call(views=views):
            what = views[-1].buffer.name
        case Await(barrier=barrier) | Arrive(barrier=barrier):
            what = barrier.name
        case Let(var=var):
            what = str(var)
        case Advance(cursor=cursor):
            what = str(cursor.slot).removesuffix("_slot")
        case If(condition=condition):
            what = str(condition)
        case For() | Region():
            inside = [view.buffer.name for s in walk((mutant.before,)) if not _frame(s) for view in _views(s)[1]]
            what = ", ".join(dict.fromkeys(inside))
        case _:
            what = ""
    return f"{mutant.key} @ {what}" if what else mutant.key


def variables(condition: Expr) -> set[str]:
    """List the names in a condition."""
    return {leaf.name for leaf in free(condition) if isinstance(leaf, Var)}
