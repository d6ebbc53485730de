"""Finding the instruction for a Move that a user wrote thread by thread: rows in memory to registers of all threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import evaluate
from fireiron.algebra.layout import Layout
from fireiron.atoms.table import TABLE
from fireiron.base.errors import DecompositionError
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import Level, Memory
from fireiron.language.nested import THREAD, Nested, known


def written_move(
    rows: Nested, registers: Nested, groups: Nested, shape: tuple[int, ...], dtype: DType, memory: Memory, load: bool
) -> Atom:
    """Find the instruction that moves rows of a tile from memory to registers of a unit's threads, or back.

    Args:
        rows: for each thread, the tile's elements in the row whose address the thread gives.
        registers: for each group of threads, the tile's elements that every thread's registers receive from the rows of
            that group.
        groups: the groups of the unit's threads.
        shape: rows and columns of the tile.
        dtype: element type.
        memory: the memory of the tile.
        load: whether the Move goes to registers.

    Raises:
        DecompositionError: `no-atom`, with the instruction that agrees for the most threads.
    """
    unit = groups.level
    assert unit is not None and unit.size is not None
    places = _places(rows, unit.size)
    of_group = _registers(registers, groups, unit.size)
    found: list[tuple[int, str]] = []
    for atom, there, held in _moves(unit, shape, dtype, memory, load):
        table = np.array([[there.layout(t, e) for e in range(there.registers)] for t in range(unit.size)])
        if table.shape != places.shape:
            found.append((0, f"{atom.name} takes {table.shape[1]} elements from a thread, not {places.shape[1]}"))
            continue
        wrong = np.flatnonzero((table != places).any(axis=1))
        if len(wrong):
            t = int(wrong[0])
            takes, given = (divmod(int(x[t, 0]), shape[0])[::-1] for x in (table, places))
            found.append((t, f"{atom.name} takes the row at {takes} from thread {t}, not that at {given}"))
            continue
        odd = next((g for g, (mine, to) in enumerate(of_group) if not _lands(places[mine], held.layout, to)), None)
        if odd is None:
            return atom
        found.append((unit.size, f"{atom.name} puts the rows of group {odd} into other registers"))
    _, nearest = max(found, default=(0, f"none moves {shape[0]}x{shape[1]} elements of {dtype} so"))
    raise DecompositionError(
        "no-atom",
        f"no instruction of a {unit} moves these rows to these registers: {nearest}",
        fix="give rows and groups in an instruction's order, or move by ldmatrix(), stmatrix() or conform()",
    )


def _moves(
    unit: Level, shape: tuple[int, ...], dtype: DType, memory: Memory, load: bool
) -> Iterator[tuple[Atom, Operand, Operand]]:
    """List a unit's Moves of a tile, with the side in memory and the side in registers."""
    for atom in TABLE:
        if atom.kind != "Move" or atom.unit != unit or atom.rank or len(atom.operands) != 2:
            continue
        src, dst = atom.operands
        there, held = (src, dst) if load else (dst, src)
        plain = held.memory.registers and not held.opaque and there.memory == memory
        if plain and there.shape == shape and atom.nbytes * 8 == dtype.bits * there.registers:
            yield atom, there, held


def _places(rows: Nested, threads: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the numbers of each thread's elements in the tile, counted down its columns."""
    (row,) = rows.tensors
    every = np.arange(threads)
    first = np.broadcast_to(np.asarray(evaluate(rows.offset, {THREAD: every})), (threads,))
    return first[:, None] + np.array([int(row(e)) for e in range(known(row.size))])[None, :]


def _registers(registers: Nested, groups: Nested, threads: int) -> list[tuple[list[int], list[int]]]:
    """List each group's threads, and the registers that receive their rows; later groups repeat earlier ones."""
    one = Layout(1, 0)
    outer, inner = (one, *groups.tensors)[-2:]
    tiles, held = (one, *registers.tensors)[-2:]
    found: list[tuple[list[int], list[int]]] = []
    for g in range(known(tiles.size)):
        mine = [int(outer(g)) + int(inner(i)) for i in range(known(inner.size))]
        to = [int(tiles(g)) + int(held(i)) for i in range(known(held.size))]
        found.append((mine, to))
    assert all(0 <= t < threads for mine, _ in found for t in mine)
    return found


def _lands(rows: np.ndarray[tuple[int, int], np.dtype[np.int64]], layout: Layout, registers: list[int]) -> bool:
    """Say whether the elements of these rows are those that all threads hold in these registers."""
    held = {layout(t, r) for t in range(known(layout.modes[0].size)) for r in registers}
    return held == set(rows.ravel().tolist())
