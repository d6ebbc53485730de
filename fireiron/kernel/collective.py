"""Collective Moves: a whole warp moves a tile between shared memory and a fragment by one instruction."""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import Expr
from fireiron.algebra.layout import Layout
from fireiron.atoms.table import chosen_from
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.kernel.context import Context, State, memory_view
from fireiron.kernel.fragment import at, digits_of, fragment_view, leaves_of, parts_of
from fireiron.kernel.ir import Call, Statement, View
from fireiron.kernel.window import Window
from fireiron.language.atom import Atom, Operand


def lower_collective(chosen: Atom | str | None, state: State, context: Context) -> tuple[Statement, ...]:
    """Lower a warp's Move by the first atom whose rows fit the buffer and whose fragment fits the registers.

    Raises:
        DecompositionError: `no-atom`, naming what does not fit of each candidate.
    """
    src, dst = state.windows["src"], state.windows["dst"]
    shape = tuple(size for _, size in state.residual.sizes[-2:])
    why: list[str] = []
    sizes: set[int] = set()
    for atom in chosen_from(chosen):
        if atom.kind != "Move" or atom.unit != state.level:
            continue
        row = atom.operand("src")
        bits = atom.nbytes * 8 // row.registers
        if bits != src.storage.dtype.bits:
            sizes.add(bits)
            continue
        if row.shape != shape:
            why.append(f"{atom.name} moves {row.shape[0]}x{row.shape[1]} elements of {bits} bits")
            continue
        if (
            src.storage.memory != row.memory
            or not dst.storage.memory.registers
            or src.storage.dtype != dst.storage.dtype
        ):
            why.append(f"{atom.name} moves {row.memory} to FR and converts nothing")
            continue
        if atom.arch > context.arch:
            why.append(f"{atom.name} needs sm_{atom.arch}, not sm_{context.arch}")
            continue
        try:
            source = _rows(row, src, state)
            target = fragment_view(atom.operand("dst"), dst, state, context, atom.name)
        except FireironError as error:
            why.append(f"{atom.name}: {error.message}")
            continue
        return (Call(atom, (source, target), link=state.link),)
    if not why and sizes:
        listed = ", ".join(map(str, sorted(sizes)))
        why.append(f"elements have {src.storage.dtype.bits} bits, those that it moves {listed}")
    raise DecompositionError(
        "no-atom",
        f"no atom of a {state.level} executes {state.residual}: "
        f"{'; '.join(why) or 'none moves between these memories'}",
        fix="tile to the atom's shape, or load by conform(), which moves each thread's own elements",
    )


def _rows(operand: Operand, window: Window, state: State) -> View:
    """View the row of memory whose address each lane gives.

    Raises:
        DecompositionError: `row-order`, `vector-alignment`, `irregular-steps`.
    """
    assert state.position is not None
    storage, rows, count = window.storage, operand.shape[0], operand.registers
    local = parts_of(operand.layout[0], rows, digits_of(operand.layout[0], state.position))
    ((_, stride),) = leaves_of(operand.layout[1])
    axes = list(window.axes)
    run = len(axes) - (2 if stride < rows else 1)
    for i, shift in enumerate(local, start=len(axes) - 2):
        steps = window.steps_along(i)
        if i == run and (steps is None or steps.leaves[0][1] != 1 or axes[i].steps is not None):
            raise DecompositionError(
                "row-order", f"its rows run along {axes[i].dim}, along which {storage.name} is not contiguous", fix=""
            )
        if axes[i].bounds:
            raise DecompositionError("row-order", f"a bound cuts its rows along {axes[i].dim}", fix="")
        axes[i] = at(axes[i], shift)
    axes[run] = attrs.evolve(axes[run], size=count)
    place = attrs.evolve(window, axes=tuple(axes))
    for e in (place.linear(), place.base()):
        _aligned(e, count, storage.name)
    return attrs.evolve(memory_view(place), layout=Layout(count, 1))


def _aligned(e: Expr, count: int, name: str) -> None:
    if e.divisor % count:
        raise DecompositionError("vector-alignment", f"rows of {name} do not start at multiples of 16 bytes", fix="")
