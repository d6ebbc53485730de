"""Moves written by hand: the row that each thread names, and the registers that each thread gets."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias, cast

from fireiron.base.contract import asked, checked
from fireiron.base.errors import DecompositionError
from fireiron.base.link import here
from fireiron.front.chain import MoveChain, Strategy
from fireiron.front.moves import require_move
from fireiron.front.verbs import Schedule
from fireiron.language.nested import Nested, elements, registers, threads

Body: TypeAlias = Callable[[Nested, Nested, Nested], tuple[Nested, Nested, Nested]]


@checked
def by_hand(body: Body, tile: tuple[int, int] = (16, 16), held: tuple[int, ...] = ()) -> Strategy:
    """Move tiles by the instruction whose effect on one tile a function describes, as in Graphene's Moves.

    Args:
        body: a function of three tensors: the tile's source, its destination and the unit's threads. The side in memory
            is a tensor of elements; the other side is a tensor of one thread's registers. The function returns the part
            of the memory side that each thread names, the registers of each group of threads, and the groups.
        tile: rows and columns of a tile.
        held: shape of a thread's registers; one dimension by default.

    Raises:
        DecompositionError: from the strategy, `move-by-hand` where the body returns no such tensors, and `no-atom`
            where no instruction has this effect.

    Source:
        Graphene (ASPLOS 2023), figure 1d.

    Example:
        >>> from fireiron import FR, SH, A, B, Block, Warp, matmul
        >>> def rows(src, dst, warp):
        ...     groups = warp.tile(8).reshape(0, (2, 2))
        ...     (gm, gn), lane = groups.indices()
        ...     return src.tile(8, 8)[gn, gm].tile(8, 1)[0, lane], dst.tile(1, 2), groups
        >>> s = matmul(64, 64, 64, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR).split(32)
        >>> s = s.load(A, SH).load(B, SH).tile(16, 16).to(Warp).split(16).unroll().load(A, FR)
        >>> "ldmatrix_x4" in s.load(B, FR, by_hand(rows, held=(2, 4))).tile(16, 8).unroll().done().cuda("sm_80")
        True
    """

    def strategy(move: MoveChain) -> Schedule:
        require_move("by_hand()", move)
        return move.tile(*tile).unroll().done(_instruction(move))

    def _instruction(move: MoveChain) -> str:
        from fireiron.atoms.written import written_move

        src, dst = move.residual.operands
        load = dst.memory.registers
        unit = threads(move.residual.level)
        count = prod(tile) // prod(unit.shape)
        sides = elements(*tile), registers(*(held or (count,)))
        given: Any = asked(body, *(sides if load else sides[::-1]), unit, said="by_hand's body")
        tensors = cast("tuple[Any, ...]", given if isinstance(given, tuple) else (given,))
        right = len(tensors) == 3 and all(isinstance(t, Nested) for t in tensors)
        first, second, groups = tensors if right else (None, None, None)
        rows, to = (first, second) if load else (second, first)
        if rows is None or to is None or groups is None or len(rows.tensors) != 1 or not _grouped(groups, to):
            raise DecompositionError(
                "move-by-hand",
                f"by_hand's body gives {', '.join(map(str, tensors))}, which does not say what each thread moves",
                fix="return the row that each thread names, the registers tiled by groups, and the groups of threads",
                link=here(),
                path=move.where,
            )
        there = src if load else dst
        return move._check(written_move, rows, to, groups, tile, dst.dtype, there.memory, load).name

    return strategy


def _grouped(groups: Nested, to: Nested) -> bool:
    """Say whether each tile of registers has a group of threads; further groups may repeat these."""
    several, depths = groups.shape == to.shape, (len(groups.tensors), len(to.tensors))
    if groups.level is None or depths not in ((1, 1), (2, 1), (2, 2)):
        return False
    return depths != (2, 2) or several or (len(groups.shape) == len(to.shape) == 1 and groups.shape > to.shape)
