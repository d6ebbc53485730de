"""Elements: where a tile's elements lie in its buffer, as data that pictures and the simulator evaluate."""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import Expr
from fireiron.language.levels import Level

REGISTER = "register"  # the Var of a register's number in its thread
PLACE = "place{}"  # the Var of a coordinate along one dimension of a tile


@attrs.frozen
class Elements:
    """Say where the elements of one tile lie in its buffer.

    Args:
        buffer: its name.
        shape: extents of the tile.
        unit: the level whose units each hold a tile of their own.
        offset: in shared memory, the element's place in its slot, an expression of the coordinates `place0`, `place1`,
            ...; None for registers.
        coordinates: of registers, the coordinates of the element that `register` of `thread` holds; () where the
            instruction does not say which it is.
        there: of registers, whether the register holds an element of the tile at all.
        threads: of registers, how many threads the coordinates are for.
    """

    buffer: str
    shape: tuple[int, ...]
    unit: Level
    offset: Expr | None = None
    coordinates: tuple[Expr, ...] = ()
    there: Expr | None = None
    threads: int = 0
