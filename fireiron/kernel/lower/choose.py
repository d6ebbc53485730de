"""Choice among the atoms that execute a MatMul, and the check that all threads of the chosen atom arrive together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from fireiron.algebra.expr import Var, evaluate, free
from fireiron.base.errors import DecompositionError
from fireiron.base.text import count
from fireiron.kernel.ir.statements import THREAD
from fireiron.kernel.lower.context import Context, State, unit_index
from fireiron.kernel.lower.fragment import leaves_of
from fireiron.kernel.lower.window import Window
from fireiron.language.atom import Atom, Operand
from fireiron.language.tensor import ColMajor, Order, RowMajor


def preferred(atoms: tuple[Atom, ...], windows: Mapping[str, Window]) -> Atom:
    """Choose the atom whose fragments run along the dimension that is contiguous in memory; the first of several.

    Args:
        atoms: the matching atoms.
        windows: windows of the product's operands, by the atoms' roles.
    """

    def across(atom: Atom) -> int:
        return sum(_across(operand, windows[operand.role]) for operand in atom.operands)

    return min(atoms, key=across)


def _across(operand: Operand, window: Window) -> bool:
    """Say whether neighbouring registers of a thread hold elements that are not neighbours in the operand's memory."""
    order, mine = window.storage.order, order_of_registers(operand)
    return order is not None and mine is not None and order is not mine


def order_of_registers(operand: Operand) -> Order | None:
    """Return the order of a thread's first registers: ColMajor for a column, RowMajor for a row; None for a single one.

    Example:
        >>> from fireiron.atoms.table import find
        >>> order_of_registers(find("mma.m8n8k4.row.row.f32.f16").operand("B")).name
        'RowMajor'
    """
    leaves = leaves_of(operand.layout[1])
    if not leaves:
        return None
    return ColMajor if leaves[0][1] < operand.shape[0] else RowMajor


def require_converged(atom: Atom, state: State, context: Context) -> None:
    """Raise an error where only some of the threads that must execute an atom together have a tile.

    Raises:
        DecompositionError: `divergent-atom`.
    """
    level = atom.converge or atom.unit
    if level.size is None or level.size == 1:
        return
    threads = context.threads or 1
    if threads % level.size:
        raise DecompositionError(
            "divergent-atom",
            f"{atom.name} is executed by whole {level}s of {level.size} threads, and the block has {threads}",
            fix=f"give the block a multiple of {level.size} threads",
        )
    env = {THREAD: np.arange(threads)}
    unit = np.broadcast_to(np.asarray(evaluate(unit_index(level, context), env)), (threads,))
    for guard in state.guards:
        condition = context.expanded(guard)
        others = sorted((v for v in free(condition) if isinstance(v, Var) and v.name != THREAD), key=lambda v: v.name)
        for values in product(*(range((v.range[1] or 0) + 1) for v in others)):
            runs = dict(zip((v.name for v in others), values, strict=True))
            there = np.broadcast_to(np.asarray(evaluate(condition, {**env, **runs})) != 0, (threads,))
            arrive = np.bincount(unit, there)
            if not np.isin(arrive, (0, level.size)).all():
                some = int(arrive[(arrive != 0) & (arrive != level.size)][0])
                raise DecompositionError(
                    "divergent-atom",
                    f"{atom.name} is executed by all {level.size} threads of a {level} at once, but only {some} of "
                    f"them have a tile here ({guard})",
                    fix=f"map as many tiles to {state.level} as a {level} has units, "
                    f"{count(level.size // (state.level.size or 1), 'tile')} or a multiple",
                )
