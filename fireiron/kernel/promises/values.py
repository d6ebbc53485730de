"""Values: whether two bodies store the same values, found by executing both with fingerprints instead of numbers.

One thread executes a body. Each value is a fingerprint of the instruction or expression that computes it, and of the
fingerprints that it reads. Two bodies store the same values if they leave the same fingerprints in global memory. So
statements may be moved, repeated and split; a statement that reads a slot too early, or too late, is found.

In shared memory the thread only sees its own writes, slot by slot; other threads do the same with their elements. Here
a ring between roles has as many slots as chunks, and the statements that fill it have a separate cursor: the waits of
roles are verified elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from fireiron.algebra.expr import Expr, evaluate
from fireiron.algebra.scalar import Arg, Constant, Coordinate, Scalar, children, parts, with_children
from fireiron.algebra.simplify import simplify
from fireiron.base.records import Itself
from fireiron.kernel.ir.statements import (
    Advance,
    Call,
    Compute,
    CountIn,
    Cursor,
    Draw,
    Fetch,
    FindGroup,
    For,
    If,
    Let,
    Micro,
    Region,
    Statement,
    View,
    Vote,
    walk,
)
from fireiron.kernel.passes.pipeline import Pipe
from fireiron.language.levels import GL, SH

Body = tuple[Statement, ...]
Stored = Mapping[tuple[object, ...], int]
MOST = 30_000  # most statements that a run executes
FEW = 5  # values of elements of index arrays are below this


class TooLong(Exception):
    """Report a body that executes more statements than a run allows."""


class Unset(Exception):
    """Report a body that uses a name that nothing has set."""


def stored(body: Body, env: Mapping[str, int], pipes: Mapping[str, Pipe] | None = None) -> Stored:
    """Return the fingerprints of the values that one thread stores, by buffer and place.

    Args:
        body: the statements, without roles.
        env: values of the thread's and block's index, and of sizes.
        pipes: the pipelines whose copies still stand directly before their compute, in regions of kind `start` and
            `finish`, as lowering leaves them; None where the copies already run ahead.

    Raises:
        TooLong: where the body executes more than MOST statements.
        Unset: where it uses a name that nothing has set.
    """
    run = Run(Values(env), pipes or {})
    run.begin(body)
    return run.stored


class Values(dict[str, Any]):
    """Hold the values of variables; a missing name is an array of subscripts, whose elements are fixed hashes."""

    def __missing__(self, name: str) -> _Array:
        return _Array(name)


@attrs.frozen
class _Array:
    name: str

    def __getitem__(self, index: tuple[int, ...]) -> int:
        return hash((self.name, index)) % FEW


@attrs.define
class Run:
    """Hold the memory of one thread while it executes a body.

    Args:
        env: values of variables.
        pipes: the pipelines whose copies are executed where they stand.
        memory: fingerprints, by buffer and element for registers, and by buffer and slot for shared memory.
        stored: fingerprints in global memory.
        cursors: the cursors' variables of the statements that fill rings.
        trees: a cache of expressions with numbers for coordinates, by the expression's `id` and these numbers.
        truths: for fingerprints of constants, whether the constant is 0 or 1, which decides votes; other votes are
            random.
        left: number of statements that may still be executed.
    """

    env: Values
    pipes: Mapping[str, Pipe]
    memory: dict[tuple[object, ...], int] = attrs.field(factory=dict[tuple[object, ...], int])
    stored: dict[tuple[object, ...], int] = attrs.field(factory=dict[tuple[object, ...], int])
    cursors: dict[str, int] = attrs.field(factory=dict[str, int])
    trees: dict[tuple[Itself, tuple[int, ...]], tuple[Scalar, int]] = attrs.field(
        factory=dict[tuple[Itself, tuple[int, ...]], tuple[Scalar, int]]
    )
    truths: dict[int, int] = attrs.field(factory=dict[int, int])
    left: int = MOST

    def begin(self, body: Body) -> None:
        """Run a body from its beginning, with all rings at their first slot."""
        for cursor in {s.cursor for s in walk(body) if isinstance(s, Advance)}:
            self.cursors[cursor.slot.name] = self.cursors[cursor.parity.name] = 0
        self.env.update(self.cursors)
        self.body(body)

    def body(self, body: Body) -> None:
        """Run statements."""
        for s in body:
            self.left -= 1
            if self.left < 0:
                raise TooLong
            match s:
                case For():
                    self.loop(s)
                case If(condition=condition, body=inner):
                    if self.of(condition):
                        self.body(inner)
                case Region(kind="fill", body=inner):
                    mine = {name: self.env[name] for name in self.cursors}
                    self.env.update(self.cursors)
                    self.body(inner)
                    self.cursors = {name: self.env[name] for name in mine}
                    self.env.update(mine)
                case Region(kind=kind, body=inner):
                    if kind != "first" or not self.pipes:
                        self.body(inner)
                case Let(var=var, value=value):
                    self.env[var.name] = self.of(value)
                case Draw(var=var):
                    self.env[var.name] = self.of(s.expected)
                case Fetch():
                    self.fetch(s)
                case Vote(var=var, flag=flag, present=present):
                    known = self.read(flag)
                    yes = self.truths.get(known, known % 2)
                    self.env[var.name] = (s.taken if yes else s.refused) if self.of(present) else 1
                case FindGroup(groups=groups, item=item):
                    found = self.of(item)
                    names = (groups.group, groups.first, groups.begin, groups.length)
                    self.env.update(zip((v.name for v in names), (0, 0, 0, found + 1), strict=True))
                case CountIn(var=var):
                    self.env[var.name] = 1
                case Advance(cursor=cursor, by=by):
                    self.advance(cursor, self.of(by))
                case Compute():
                    self.compute(s)
                case Call():
                    self.call(s)
                case Micro():
                    self.micro(s)
                case _:
                    pass

    def fetch(self, s: Fetch) -> None:
        """Set a variable to an element of an integer array: the same number that `of` returns for the element."""
        self.env[s.var.name] = self.env[s.view.buffer.name][tuple(map(self.of, s.view.origin))]

    def of(self, e: Expr) -> int:
        """Evaluate an expression."""
        try:
            return int(evaluate(e, self.env))
        except TypeError:
            raise Unset(f"nothing sets a name in {e}") from None

    def loop(self, s: For) -> None:
        """Run all trips; in a pipeline whose copies do not run ahead yet, each trip copies its own chunk."""
        name = next((x.buffer for x in s.body if isinstance(x, Region) and x.kind == "start"), "")
        pipe = self.pipes.get(name)
        step = 2 if s.pairs else 1
        for trip in range(0, self.of(s.extent), step):
            self.env[s.var.name] = trip
            if pipe is not None:
                number = self.of(pipe.number)
                self.env[pipe.chunk.name] = number
                if pipe.slot is not None:
                    self.env[pipe.slot.name] = number % pipe.stages
            if step == 1:
                self.body(s.body)
                continue
            (one,) = s.body  # both trips are read before either is written
            assert isinstance(one, Compute)
            both: list[tuple[View, int, int]] = []
            for now in (trip, trip + 1):
                self.env[s.var.name] = now
                both.append((one.dst, now, self.value(one)))
            for view, now, value in both:
                self.env[s.var.name] = now
                self.write(view, value)

    def advance(self, cursor: Cursor, by: int) -> None:
        """Advance a cursor; the ring does not wrap."""
        at = self.env[cursor.slot.name] + by
        self.env[cursor.slot.name], self.env[cursor.parity.name] = at, at // cursor.slots % 2

    def read(self, view: View) -> int:
        """Return the fingerprint of a view's elements."""
        if view.buffer.memory.registers:
            found = [self.memory.get(key, hash(key)) for key in self.elements(view)]
            return found[0] if len(found) == 1 else hash(tuple(found))
        key = self.place(view)
        known = self.stored if view.buffer.memory == GL else self.memory
        return hash((*self.lies(view), known.get(key, hash(key))))

    def write(self, view: View, value: int) -> None:
        """Set the fingerprint of a view's elements; in shared and global memory it also depends on earlier writes."""
        if view.buffer.memory.registers:
            places = self.elements(view)
            for i, key in enumerate(places):
                self.memory[key] = value if len(places) == 1 else hash((value, i))
            return
        key = self.place(view)
        known = self.stored if view.buffer.memory == GL else self.memory
        known[key] = hash((known.get(key, 0), *self.lies(view), value))

    def elements(self, view: View) -> Sequence[tuple[object, ...]]:
        """List the registers of a view."""
        first, name = self.of(view.offset), view.buffer.name
        if view.layout.size == 1:
            return ((name, first),)
        return tuple((name, first + int(view.layout(i))) for i in range(view.layout.size))

    def lies(self, view: View) -> tuple[object, ...]:
        """Return the place of a view in its slot, or its tensor."""
        if view.slot is not None and view.buffer.guarded:
            return (tuple(map(self.of, view.origin)),)
        return (self.of(view.offset), tuple(map(self.of, view.origin)) if view.buffer.memory == GL else ())

    def place(self, view: View) -> tuple[object, ...]:
        """Return the key of a view's history: the slot of a buffer, or the elements of a tensor."""
        peer = None if view.peer is None else self.of(view.peer)
        if view.buffer.memory == SH:
            slot = 0 if view.slot is None else self.of(view.slot)
            return (view.buffer.name, slot if view.buffer.guarded else slot % view.buffer.slots, peer)
        return (view.buffer.name, *self.lies(view))

    def value(self, s: Compute) -> int:
        """Return the fingerprint of a statement's result; for a copy, its source's fingerprint."""
        tree, mark = self.tree(s.expr)
        if isinstance(tree, Arg):
            return self.read(s.inputs[tree.index])
        if isinstance(tree, Constant):
            self.truths[mark] = int(tree.value != 0)
            return mark
        return hash((mark, tuple(map(self.read, s.inputs))))

    def compute(self, s: Compute) -> None:
        """Run a statement that computes."""
        if s.write is None or self.of(s.write):
            self.write(s.dst, self.value(s))

    def tree(self, tree: Scalar) -> tuple[Scalar, int]:
        """Return an expression with coordinates replaced by numbers, and its fingerprint."""
        found = tuple(self.of(x.value) for x in parts(tree) if isinstance(x, Coordinate))
        key = (Itself(tree), found)
        if key not in self.trees:
            plain = simplify(self.placed(tree) if found else tree)
            self.trees[key] = (plain, hash(plain))
        return self.trees[key]

    def placed(self, tree: Scalar) -> Scalar:
        """Replace coordinates by their numbers."""
        if isinstance(tree, Coordinate):
            return Constant(self.of(tree.value), tree.dtype)
        return with_children(tree, tuple(map(self.placed, children(tree))))

    def call(self, s: Call) -> None:
        """Run an instruction."""
        if s.write is not None and not self.of(s.write):
            return
        present = s.read is None or bool(self.of(s.read))
        summed = s.accumulate is None or bool(self.of(s.accumulate))
        more = [e for e in (s.lane, s.peers) if e is not None]
        seen: list[object] = [s.atom.name, present, *map(self.of, more), *(self.of(b.value) for b in s.bindings)]
        for operand, view in zip(s.atom.operands, s.views, strict=True):
            if {"read": present, "update": summed, "write": False}[operand.access]:
                seen.append(self.read(view))
        value = hash(tuple(seen))
        for operand, view in zip(s.atom.operands, s.views, strict=True):
            if operand.access != "read":
                self.write(view, value)

    def micro(self, s: Micro) -> None:
        """Run a microkernel."""
        if s.write is not None and not self.of(s.write):
            return
        value = hash((s.name, tuple(map(self.read, s.views)), tuple(self.of(b.value) for b in s.bindings)))
        for role, view in zip(s.roles, s.views, strict=True):
            if role in s.written:
                self.write(view, value)
