"""Collective Moves: a whole warp moves a tile between shared memory and a fragment by one instruction."""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import Expr, as_expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Cast
from fireiron.atoms.table import chosen_from
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.kernel.context import Context, State, memory_view
from fireiron.kernel.fragment import at, digits_of, fragment_view, leaves_of, parts_of
from fireiron.kernel.ir import Buffer, Call, Compute, For, Statement, View
from fireiron.kernel.prolog import transform
from fireiron.kernel.window import Window
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import RF, Thread


def lower_collective(chosen: Atom | str | None, state: State, context: Context) -> tuple[Statement, ...]:
    """Lower a warp's Move by the first atom whose rows fit the buffer and whose fragment fits the registers.

    Raises:
        DecompositionError: `no-atom`, naming what does not fit of each candidate.
    """
    src, dst = state.windows["src"], state.windows["dst"]
    if src.storage.memory.registers and not dst.storage.memory.registers:
        return _store(chosen, state, context)
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
            or (state.ops is not None and state.ops.dtype != dst.storage.dtype)
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
        return (Call(atom, (source, target), link=state.link), *_computed(atom.operand("dst"), target, state, context))
    if not why and sizes:
        listed = ", ".join(map(str, sorted(sizes)))
        why.append(f"elements have {src.storage.dtype.bits} bits, those that it moves {listed}")
    raise DecompositionError(
        "no-atom",
        f"no atom of a {state.level} executes {state.residual}: "
        f"{'; '.join(why) or 'none moves between these memories'}",
        fix="tile to the atom's shape, or load by conform(), which moves each thread's own elements",
    )


def _computed(operand: Operand, target: View, state: State, context: Context) -> tuple[Statement, ...]:
    """Apply a prolog's ops to a fragment in place."""
    if state.ops is None:
        return ()
    assert state.position is not None
    rows, count = operand.shape[0], operand.registers
    lanes = parts_of(operand.layout[0], rows, digits_of(operand.layout[0], state.position))
    r = context.variable("e", count)
    held = parts_of(operand.layout[1], rows, digits_of(operand.layout[1], r))
    local = tuple(lane + register for lane, register in zip(lanes, held, strict=True))
    outer = tuple(as_expr(0) for _ in state.residual.sizes[:-2])
    element = attrs.evolve(target, offset=target.offset + r, layout=Layout(1, 0))
    return (For(r, as_expr(count), transform(element, element, (*outer, *local), state, context), unroll=True),)


def _store(chosen: Atom | str | None, state: State, context: Context) -> tuple[Statement, ...]:
    """Lower a warp's Move from a fragment to shared memory, converting in registers on the way.

    Raises:
        DecompositionError: `no-atom`, naming what does not fit of each candidate.
    """
    src, dst = state.windows["src"], state.windows["dst"]
    shape = tuple(size for _, size in state.residual.sizes[-2:])
    why: list[str] = []
    for atom in chosen_from(chosen):
        if atom.kind != "Move" or atom.unit != state.level or not atom.operands[0].memory.registers:
            continue
        held, row = atom.operand("src"), atom.operand("dst")
        bits = atom.nbytes * 8 // row.registers
        if row.shape != shape or bits != dst.storage.dtype.bits:
            why.append(f"{atom.name} moves {row.shape[0]}x{row.shape[1]} elements of {bits} bits")
            continue
        if atom.arch > context.arch:
            why.append(f"{atom.name} needs sm_{atom.arch}, not sm_{context.arch}")
            continue
        try:
            source = fragment_view(held, src, state, context, atom.name)
            target = _rows(row, dst, state)
        except FireironError as error:
            why.append(f"{atom.name}: {error.message}")
            continue
        body: tuple[Statement, ...] = ()
        if src.storage.dtype != dst.storage.dtype:
            count = source.layout.size
            assert isinstance(count, int)
            buffer = Buffer(
                context.name(f"{dst.storage.name}_packed"), RF, dst.storage.dtype, as_expr(count), unit=Thread
            )
            context.temporaries.append(buffer)
            e = context.variable("e", count)
            cast = Cast(Arg(0, src.storage.dtype), dst.storage.dtype)
            one = attrs.evolve(source, offset=source.offset + source.layout(e), layout=Layout(1, 0))
            body = (For(e, as_expr(count), (Compute(View(buffer, e), cast, (one,), link=state.link),), unroll=True),)
            source = View(buffer, as_expr(0), Layout(count, 1))
        return (*body, Call(atom, (source, target), link=state.link))
    raise DecompositionError(
        "no-atom",
        f"no atom of a {state.level} executes {state.residual}: "
        f"{'; '.join(why) or 'none moves between these memories'}",
        fix="tile to the atom's shape, or store by conform(), which moves each thread's own elements",
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
