"""Shared memory: the offset of each buffer; buffers may reuse the memory of others that are no longer needed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from fireiron.algebra.expr import as_int
from fireiron.base.records import evolve
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Ask,
    Buffer,
    Call,
    Compute,
    CountIn,
    Draw,
    Fetch,
    FindGroup,
    For,
    If,
    Lower,
    Meet,
    Micro,
    Raise,
    Region,
    Roles,
    Statement,
    View,
    Vote,
    Wait,
)
from fireiron.kernel.lower.window import Storage
from fireiron.language.levels import SH

ALIGN = 128


def allocate(storages: tuple[Storage, ...], body: tuple[Statement, ...]) -> tuple[dict[str, Buffer], int]:
    """Compute every buffer's size, and every shared buffer's offset; return buffers by name, and the bytes of all.

    A buffer marked `reuse` starts at the lowest offset above which no buffer is still needed at its first access.
    """
    lives = _lives(body)
    buffers: dict[str, Buffer] = {}
    end = 0
    for storage in sorted(storages, key=lambda s: s.reuse):
        nbytes = 0 if storage.memory.registers else _nbytes(storage)
        offset = 0
        if storage.memory == SH:
            offset = _overlay(storage, buffers, lives) if storage.reuse else end
            align = max(ALIGN, storage.align)
            offset = -(-offset // align) * align
            end = max(end, offset + nbytes)
        buffers[storage.name] = Buffer(
            storage.name, storage.memory, storage.dtype, storage.size, storage.slots, storage.unit, offset, nbytes,
            guarded=storage.guarded, follows=storage.follows,
        )  # fmt: skip
    return buffers, end


def _nbytes(storage: Storage) -> int:
    size = as_int(storage.size)
    assert size is not None
    return storage.dtype.nbytes_of(size) * storage.slots * storage.copies


def _overlay(storage: Storage, placed: Mapping[str, Buffer], lives: Mapping[str, tuple[int, int]]) -> int:
    """Find the lowest offset above which no placed buffer is accessed between this buffer's first access and its last.

    Buffers that mbarriers guard count as always in use, since other roles access them too.
    """
    born, dies = lives.get(storage.name, (0, 0))
    alive = [
        b
        for b in placed.values()
        if b.memory == SH
        and (b.guarded or not (lives.get(b.name, (0, -1))[1] < born or lives.get(b.name, (0, 0))[0] > dies))
    ]
    return max((b.offset + b.nbytes for b in alive), default=0)


def _lives(body: tuple[Statement, ...]) -> dict[str, tuple[int, int]]:
    """Return the first and last access of each buffer in program order.

    All accesses in a loop count as one moment: their buffers are in use during the whole loop.
    """
    lives: dict[str, tuple[int, int]] = {}
    clock = 0

    def note(view: View, at: int) -> None:
        first, last = lives.get(view.buffer.name, (at, at))
        lives[view.buffer.name] = (min(first, at), max(last, at))

    def visit(statements: tuple[Statement, ...], point: int | None) -> None:
        nonlocal clock
        for statement in statements:
            clock += 1
            at = clock if point is None else point
            match statement:
                case For(body=inner):
                    visit(inner, at)
                case If(body=inner) | Region(body=inner):
                    visit(inner, point)
                case Roles(roles=roles):  # they run at the same time: no buffer of one is dead while another runs
                    for role in roles:
                        visit(role.body, at)
                case _:
                    for view in views_of(statement):
                        note(view, at)

    visit(body, None)
    return lives


def views_of(statement: Statement) -> tuple[View, ...]:
    """List the views that one simple statement touches."""
    match statement:
        case Call(views=views) | Micro(views=views):
            return views
        case Compute(dst, _, inputs):
            return (dst, *inputs)
        case Draw(place=place):
            return (place,)
        case _:
            return ()


def rebind(body: tuple[Statement, ...], buffers: Mapping[str, Buffer]) -> tuple[Statement, ...]:
    """Replace provisional buffers by the final ones of the same name, and number the statements from 1."""
    ids = count(1)

    def final(view: View) -> View:
        # Constructed directly: evolve takes twice as long.
        buffer = buffers[view.buffer.name]
        return View(buffer, view.offset, view.layout, view.slot, view.origin, view.swizzle, view.peer)

    def statement(s: Statement) -> Statement:
        match s:
            case Region(title, inner, path, link, kind, buffer):
                return Region(title, inner, path, link, kind, buffer, next(ids))
            case Call(views=views, map=described):
                if described is not None:
                    described = evolve(described, buffer=buffers[described.buffer.name])
                return evolve(s, views=tuple(final(v) for v in views), map=described, id=next(ids))
            case Micro(views=views):
                return evolve(s, views=tuple(final(v) for v in views), id=next(ids))
            case Compute(dst, _, inputs):
                return evolve(s, dst=final(dst), inputs=tuple(final(v) for v in inputs), id=next(ids))
            case CountIn(counter=counter) | Meet(counter=counter):
                return evolve(s, counter=final(counter), id=next(ids))
            case Ask(view=view):
                return evolve(s, view=final(view))
            case FindGroup(ends=ends):
                return evolve(s, ends=final(ends))
            case Fetch(view=view):
                return evolve(s, view=final(view))
            case Draw(counter=counter, place=place):
                return evolve(s, counter=final(counter), place=final(place))
            case Vote(flag=flag):
                return evolve(s, flag=final(flag))
            case Wait(holds=holds) if holds is not None:
                return evolve(s, holds=buffers[holds.name])
            case Raise(flag=flag) | Lower(flag=flag):
                return evolve(s, flag=final(flag))
            case _:
                return s

    return rewrite(body, statement)
