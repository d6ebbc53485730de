"""Copies of tiles at one moment: values, whether they were written, and the thread and register of each element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import attrs
import numpy as np

from fireiron.algebra.expr import as_expr, as_int, evaluate
from fireiron.kernel.ir.elements import PLACE, REGISTER, Elements
from fireiron.kernel.ir.statements import THREAD, Buffer, Kernel
from fireiron.language.levels import Block, Level
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import Array, spread
from fireiron.simulate.state import Member, Team
from fireiron.simulate.units import unit_threads


@attrs.frozen
class Holder:
    """Hold the thread and the register that hold an element.

    Args:
        thread: the thread's number in the block.
        register: the register's number among the thread's registers of this tile, ring slots included.
        value: the register's value.
    """

    thread: int
    register: int
    value: float


@attrs.frozen(eq=False, repr=False)
class Kept:
    """Hold a tile of shared memory or registers as it was at one moment.

    Args:
        name: of the buffer, as in the CUDA.
        memory: SH, RF or FR.
        dtype: element type.
        values: the elements. Dimensions: `outer`, then the tile's. Where several threads hold an element, the first
            one's value.
        written: which of the elements were written.
        outer: names of the dimensions before the tile's: `Warp` (or another level) where each unit has a tile, and
            `slot` where the buffer is a ring.
        threads: for registers, the first thread of the block that holds each element, -1 where none does; None for
            shared memory, and for fragments whose layout is not documented.
        registers: for registers, the number of the register in that thread.
        table: for registers, all held elements: rows of place in `values`, thread and register.
    """

    name: str
    memory: str
    dtype: str
    values: Array
    written: Array
    outer: tuple[str, ...] = ()
    threads: Array | None = None
    registers: Array | None = None
    table: Array | None = None
    held: Array | None = None

    def holders(self, *at: int) -> tuple[Holder, ...]:
        """List the threads that hold an element, with each one's register and value.

        Args:
            at: the element's place in `values`.
        """
        if self.table is None or self.held is None:
            return ()
        flat = int(np.ravel_multi_index(at, self.values.shape))
        mine = self.table[self.table[:, 0] == flat]
        values = self.held[self.table[:, 0] == flat]
        return tuple(Holder(int(t), int(r), float(v)) for (_, t, r), v in zip(mine, values, strict=True))

    @property
    def title(self) -> str:
        """Return a title: the tile's name, extents, and memory."""
        inner = "x".join(map(str, self.values.shape[len(self.outer) :]))
        outer = "".join(
            f", {extent} {name}s" for name, extent in zip(self.outer, self.values.shape, strict=False) if extent > 1
        )
        lacking = int(self.written.size - self.written.sum())
        unwritten = f", {lacking} of {self.written.size} elements not written yet" if lacking else ""
        return f"{self.name}: {inner} {self.dtype} in {self.memory}{outer}{unwritten}"

    def __str__(self) -> str:
        shown = np.where(self.written, self.values.astype(np.float64), np.nan)
        with np.printoptions(threshold=200, edgeitems=3, linewidth=110, precision=4, suppress=True, nanstr="-"):
            lines = [self.title, str(shown)]
            if self.threads is not None:
                lines += [f"threads that hold {self.name}", str(self.threads)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Kept {self.title}>"


def names_of(kernel: Kernel) -> tuple[str, ...]:
    """List the names of a kernel's tiles, as `keep` takes them."""
    return tuple(b.name for b in kernel.buffers if str(b.memory) != "GL")


def kept(member: Member, names: tuple[str, ...], sizes: Mapping[str, int]) -> dict[str, Kept]:
    """Copy tiles of a block as they are now.

    Args:
        member: the block.
        names: names of the tiles.
        sizes: values of the symbols.
    """
    kernel = member.teams[0].machine.kernel
    known = {found.buffer: found for found in kernel.elements}
    made: dict[str, Kept] = {}
    for buffer in kernel.buffers:
        if buffer.name not in names:
            continue
        found = known.get(buffer.name)
        if buffer.memory.registers:
            teams = [t for t in _teams(member) if buffer.name in t.storages]
            if teams:
                made[buffer.name] = _registers(buffer, found, teams)
        else:
            made[buffer.name] = _shared(buffer, found, member.shared[buffer.name], kernel.threads)
    return made


def _teams(member: Member) -> Iterator[Team]:
    """List the teams of a block in the order of their first threads."""
    yield from sorted(member.teams, key=lambda team: team.first)


def _shared(buffer: Buffer, found: Elements | None, storage: Storage, threads: int) -> Kept:
    size = as_int(as_expr(buffer.size))
    each = storage.size if found is None or size is None else size
    copies = max(1, storage.size // max(1, each * buffer.slots)) if found is not None else 1
    slots = buffer.slots if found is not None else 1
    starts = (np.arange(copies) * slots)[:, None] + np.arange(slots)
    shape = (each,) if found is None else found.shape
    if found is None or found.offset is None:
        inner = np.arange(each)
    else:
        places = np.indices(shape).reshape(len(shape), -1)
        inner = np.asarray(evaluate(found.offset, {PLACE.format(i): at for i, at in enumerate(places)}))
    index = starts.reshape(-1, 1) * each + spread(inner, (prod(shape),))
    tracker = storage.tracker
    written = np.ones(index.shape, bool)
    if tracker is not None:
        granules, _ = storage.granules(index.reshape(-1), np.zeros(index.size, np.int32))
        every = np.asarray(tracker.written(granules)).reshape(index.size, -1)
        written = np.asarray(every.all(axis=1)).reshape(index.shape)
    outer, extents = _outer(buffer, copies, slots)
    final = (*extents, *shape)
    return Kept(
        buffer.name, str(buffer.memory), str(buffer.dtype), storage.data[index].reshape(final),
        written.reshape(final), outer,
    )  # fmt: skip


def _outer(buffer: Buffer, copies: int, slots: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return names and extents of a buffer's dimensions before its tile's: units and slots, if several."""
    named = [(str(buffer.unit or Block), copies), ("slot", slots)]
    kept = [(name, extent) for name, extent in named if extent > 1]
    return tuple(name for name, _ in kept), tuple(extent for _, extent in kept)


def _registers(buffer: Buffer, found: Elements | None, teams: list[Team]) -> Kept:
    data = np.concatenate([team.storages[buffer.name].data for team in teams], axis=1)
    states = [team.storages[buffer.name].initialised for team in teams]
    written = np.concatenate([state for state in states if state is not None], axis=1)
    numbers = np.concatenate([team.first + np.arange(team.threads) for team in teams])
    name, memory, dtype = buffer.name, str(buffer.memory), str(buffer.dtype)
    if found is None or not found.coordinates or found.threads != len(numbers):
        return Kept(name, memory, dtype, data, written, ("register",))
    count = len(numbers)
    size = data.shape[0] // buffer.slots
    env: dict[str, Array] = {THREAD: np.arange(count)[:, None], REGISTER: np.arange(size)[None, :]}
    there = spread(np.asarray(evaluate(as_expr(1) if found.there is None else found.there, env)), (count, size))
    unit = _unit_of(found.unit, count)
    units = int(unit.max()) + 1 if count else 1
    outer, extents = _outer(buffer, units, buffer.slots)
    shape = (units, buffer.slots, *found.shape)
    places = [spread(np.asarray(evaluate(c, env)), (count, size)) for c in found.coordinates]
    thread, register = np.nonzero(there)
    rows: list[Array] = []
    for slot in range(buffer.slots):
        inside = [place[thread, register] for place in places]
        flat = np.ravel_multi_index((unit[thread], np.full(len(thread), slot), *inside), shape)
        rows.append(np.stack([flat, thread, register + slot * size], axis=1))
    table = np.concatenate(rows)
    values = np.zeros(prod(shape), data.dtype)
    filled, owner, where = (np.zeros(prod(shape), bool), *(np.full(prod(shape), -1) for _ in range(2)))
    last_first = table[::-1]  # so that the first thread's value stays
    values[last_first[:, 0]] = data[last_first[:, 2], last_first[:, 1]]
    filled[last_first[:, 0]] = written[last_first[:, 2], last_first[:, 1]]
    owner[last_first[:, 0]] = numbers[last_first[:, 1]]
    where[last_first[:, 0]] = last_first[:, 2]
    held = data[table[:, 2], table[:, 1]]
    table[:, 1] = numbers[table[:, 1]]
    final = (*extents, *found.shape)
    return Kept(
        name, memory, dtype, values.reshape(final), filled.reshape(final), outer, owner.reshape(final),
        where.reshape(final), table, held,
    )  # fmt: skip


def _unit_of(level: Level, threads: int) -> Array:
    """Return the number of each thread's unit of a level; all are one unit for the block and wider levels."""
    unit = np.zeros(threads, np.int64)
    if level.size is not None and level.size < threads:
        for number, mine in enumerate(unit_threads(level, threads)):
            unit[mine] = number
    return unit
