"""Asynchronous products of warpgroups (wgmma): operands are read when the product's group is waited for.

Source: PTX ISA 9.7.15, wgmma: registers may not be touched before the wait, and need a fence after other accesses;
accumulation into the same registers is ordered.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from fireiron.algebra.expr import as_int
from fireiron.atoms.meaning import meaning_of
from fireiron.kernel.analysis.traffic import Traffic
from fireiron.kernel.ir.statements import Call
from fireiron.language.atom import Operand as Taken
from fireiron.simulate.access import Env, steps_of
from fireiron.simulate.groups import Groups
from fireiron.simulate.lanes import uniform
from fireiron.simulate.leaves import Operand, both, refuse_flying
from fireiron.simulate.meaning import converged
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import AGENT, Array, evenly, every, some
from fireiron.simulate.state import Place, State, Team
from fireiron.simulate.steps import Act, Scope
from fireiron.simulate.tracker import Race

if TYPE_CHECKING:
    from fireiron.simulate.program import Compiler

WARPGROUP = 128
_LINE = 128


@attrs.frozen(eq=False)
class Tile:
    """Hold an operand in shared memory: its elements, the row fastest."""

    storage: Storage
    index: Array
    granules: Array
    rows: int

    def gather(self) -> Array:
        """Read the operand as an array (1, rows, columns)."""
        return self.storage.data[self.index].reshape(-1, self.rows).T[None]


@attrs.frozen(eq=False)
class Held:
    """Hold an operand in a unit's registers."""

    storage: Storage
    rows: Array
    unit: Array
    place: Any  # index of the elements: a row for each register, a column for each thread

    @staticmethod
    def of(storage: Storage, rows: Array, unit: Array) -> Held:
        """Index the elements by slices where they lie evenly: NumPy reads and writes these without copies."""
        even = evenly(rows), evenly(unit)
        sliced = all(isinstance(part, slice) for part in even)
        return Held(storage, rows, unit, even if sliced else (rows[:, None], unit[None, :]))

    def gather(self) -> Array:
        """Read the operand as an array (1, threads, registers)."""
        return self.storage.data[self.place].T[None]


@attrs.define(eq=False)
class Product:
    """Hold a product in flight.

    Args:
        place: the statement.
        team: the team of the unit that started it.
        unit: the unit's lanes.
        a: the left operand.
        b: the right operand.
        c: the accumulators.
        keeps: whether it adds to the accumulators' old values.
        meaning: computes new accumulators from the three operands.
        flops: number of its operations.
    """

    place: Place
    team: Team
    unit: Array
    a: Tile | Held
    b: Tile | Held
    c: Held
    keeps: bool
    meaning: Any
    flops: int

    @property
    def agent(self) -> int:
        """Return the agent that the unit's asynchronous reads are recorded for."""
        return self.team.member.engine + (self.team.first + int(self.unit[0])) // WARPGROUP

    def read(self) -> None:
        """Do nothing: sources are read together with the result."""

    def land(self) -> None:
        """Multiply, and record that the operands were read."""
        order = self.team.order
        order.tick(self.place.number)
        old = self.c.gather()
        if not self.keeps:
            old = np.zeros_like(old)
        new = self.meaning(self.a.gather(), self.b.gather(), old)
        if self.team.machine.exact and new.dtype == np.int32:
            self.team.machine.refuse_wrapped(self.place, old.astype(np.int64) + (new - old), new)
        self.c.storage.data[self.c.place] = new[0].T
        self.team.machine.flops += self.flops
        for operand in (self.a, self.b):
            if isinstance(operand, Tile):
                assert operand.storage.tracker is not None
                operand.storage.tracker.mark(operand.granules, False, -1)
                operand.storage.tracker.finish_read(operand.granules, AGENT - self.agent)
            else:
                assert operand.storage.fragment is not None
                operand.storage.fragment.held[operand.place] -= 1
        assert self.c.storage.fragment is not None
        self.c.storage.fragment.busy[self.c.place] -= 1
        if self.team.machine.check:
            order.matrix()[self.unit + self.team.offset, order.threads + self.agent] = order.now


class DeferredMatMul:
    """Execute one statement that starts asynchronous products."""

    def __init__(self, compiler: Compiler, statement: Call, scope: Scope) -> None:
        self.team = compiler.team
        self.atom = statement.atom
        self.place = compiler.place(statement, statement.atom.name, scope)
        self.operands = [compiler.operand(view) for view in statement.views]
        self.write = compiler.predicate(statement.write)
        self.accumulate = compiler.predicate(statement.accumulate)
        self.flops = 2 * prod(statement.atom.shape)
        self.tiles: dict[tuple[int, int], Tile] = {}
        self.held: dict[tuple[int, int, int], Held] = {}
        meaning = meaning_of(self.atom)
        if meaning is None:
            text = f"{self.place}: the atom {self.atom.name} has no NumPy meaning"
            raise self.team.error(self.place, "atom-numpy", text, "give its row a `rounding`, or a `numpy`")
        self.meaning = meaning

    def run(self, state: State, act: Act) -> None:
        """Start the product in each unit."""
        mask = both(act, self.write(state.env) if self.write else None, (1, self.team.threads))
        if isinstance(mask, str):
            return
        for unit in converged(self.team, self.place, None if mask is None else mask[0], self.atom.unit):
            self.team.order.tick(self.place.number)
            self.place.count += len(unit)
            self.start(state.env, unit)

    def start(self, env: Env, unit: Array) -> None:
        """Check all operands, and mark them as in use by an instruction in flight."""
        team = self.team
        keeps = self.accumulate is None or bool(
            uniform(self.accumulate, env, team, unit, self.place, "accumulate flag")
        )
        a, b, c = (
            self._operand(i, operand, taken, env, unit)
            for i, (operand, taken) in enumerate(zip(self.operands, self.atom.operands, strict=True))
        )
        assert isinstance(c, Held)
        threads = unit + team.offset
        row = team.order.common(threads) if team.machine.check else np.zeros(0, np.int32)
        for operand in (a, b):
            if isinstance(operand, Tile):
                self._reads(operand, row, threads)
            else:
                self._takes(operand, True)
        self._takes(c, keeps)
        for operand in (a, b):
            if isinstance(operand, Tile):
                assert operand.storage.tracker is not None
                operand.storage.tracker.mark(operand.granules, False, 1)
                nbytes = len(operand.index) * operand.storage.itemsize
                self.place.charge("SH", "read", Traffic(nbytes, 1, -(-nbytes // _LINE), -(-nbytes // _LINE)))
            else:
                assert operand.storage.fragment is not None
                operand.storage.fragment.held[operand.place] += 1
        assert c.storage.fragment is not None and c.storage.initialised is not None
        c.storage.fragment.busy[c.place] += 1
        c.storage.initialised[c.place] = True
        product = Product(self.place, team, unit, a, b, c, keeps, self.meaning, self.flops)
        team.groups.setdefault((self.atom.completion, int(unit[0])), Groups()).open.append(product)

    def _operand(self, number: int, operand: Operand, taken: Taken, env: Env, unit: Array) -> Tile | Held:
        storage, view = operand.storage, operand.view
        offset = uniform(operand.offset, env, self.team, unit, self.place, f"operand {taken.role}'s offset")
        if storage.kind == "RF":
            key = (number, offset, int(unit[0]))
            found = self.held.get(key)
            if found is None or not view.layout.is_static:
                rows = offset + steps_of(view.layout, env)
                self._inside(storage, rows)
                found = self.held[key] = Held.of(storage, rows, unit)
            return found
        if (number, offset) not in self.tiles:
            listed = steps_of(view.layout, env)
            rows, columns = taken.shape
            panel = as_int(view.layout.modes[-1].leaves[0][0]) or 0  # the tile may end within the view's last one
            if not 0 <= len(listed) - rows * columns < rows * panel:
                text = f"{self.place}: {taken.role} is {rows}x{columns}, its view lists {len(listed)} elements"
                raise self.team.error(self.place, "operand-size", text, "list the whole tile, the row fastest")
            index = offset + listed[: rows * columns]
            if view.swizzle is not None:
                index = view.swizzle(index)
            self._inside(storage, index)
            self.tiles[number, offset] = Tile(storage, index, storage.granules(index, index)[0], rows)
        return self.tiles[number, offset]

    def _inside(self, storage: Storage, index: Array) -> None:
        if index.min() < 0 or index.max() >= storage.size:
            bad = int(index.min() if index.min() < 0 else index.max())
            text = f"{self.place}: element {bad} of {storage.buffer.name}, which has {storage.size}"
            raise self.team.error(self.place, "out-of-bounds", text, "check the tile's offset and strides")

    def _reads(self, tile: Tile, row: Array, threads: Array) -> None:
        """Check that a tile in shared memory was written, and that asynchronous instructions can see it."""
        team, storage, tracker = self.team, tile.storage, tile.storage.tracker
        if tracker is None:
            return
        refuse_flying(team, self.place, storage, tile.granules, "reads")
        written = tracker.written(tile.granules)
        if not every(written):
            element = storage.name(storage.element_of(int(tile.granules[np.argmin(written)])))
            text = f"{self.place}: {team.label} reads {element}, which no thread wrote"
            raise team.error(self.place, "uninitialised-read", text, "load it first, and await that")
        try:
            tracker.start_read(tile.granules, row, int(threads[0]) + 1)
        except Race as race:
            raise team.machine.race(self.place, race, storage, tile.granules, threads + 1) from None

    def _takes(self, held: Held, reads: bool) -> None:
        """Check that registers are fenced, were written, and are not used by another instruction in flight."""
        storage, fragment = held.storage, held.storage.fragment
        assert fragment is not None and storage.initialised is not None
        is_target = held.storage is self.operands[2].storage
        wrong = fragment.held[held.place] if is_target else fragment.busy[held.place]
        if some(wrong):
            self._refuse(
                held, wrong != 0, "not-arrived", "which an instruction in flight still uses", "wait for it first"
            )
        stale = fragment.stale[held.place]
        if some(stale):
            self._refuse(
                held,
                stale,
                "missing-wgmma-fence",
                "which other instructions may have touched since the last fence",
                "put Fence('registers') before the first MatMul that uses them",
            )
        missing = ~storage.initialised[held.place]
        if reads and some(missing):
            self._refuse(
                held, missing, "uninitialised-read", "which no thread wrote", "initialise it, or do not accumulate"
            )

    def _refuse(self, held: Held, bad: Array, code: str, text: str, fix: str) -> None:
        at, lane = (int(x) for x in np.argwhere(bad)[0])
        who = self.team.who(int(held.unit[lane]))
        name = held.storage.name(int(held.rows[at]))
        raise self.team.error(self.place, code, f"{self.place}: {who} uses {name}, {text}", fix)
