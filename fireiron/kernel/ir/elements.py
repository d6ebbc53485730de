"""Elements: where each element of a tile lies in its buffer, as data for pictures and the simulator."""

from __future__ import annotations

from functools import cached_property
from math import prod

import attrs

from fireiron.algebra.expr import Expr, Index, Var, and_, as_expr, lt, substitute
from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.language.levels import Level

REGISTER = "register"  # the Var of a register's number in its thread
PLACE = "place{}"  # the Var of a coordinate along one dimension of a tile


def address(coordinates: tuple[Expr, ...], strides: tuple[Index, ...] | Layout) -> Expr:
    """Return the flat element offset of a coordinate, before swizzling."""
    if isinstance(strides, Layout):
        return as_expr(strides(coordinates))
    total = as_expr(0)
    for coordinate, stride in zip(coordinates, strides, strict=True):
        total = total + coordinate * stride
    return total


@attrs.frozen
class Held:
    """Say which elements of a tile the registers of a thread hold. A visit is one trip of the loops over registers.

    Args:
        first: coordinates of a visit's first element, expressions of `thread` and the loops' variables.
        steps: number of an element in its visit -> steps along each dimension; the first dimension counts fastest.
        loops: the loops around a visit and their trips, outermost first.
        limits: for each end of a tile that elements may cross: the dimension's number, an offset, steps, and an extent.
            An element exists where offset + steps < extent.
        guards: conditions on threads and trips for any elements to exist.
        size: number of registers of a thread.
    """

    first: tuple[Expr, ...]
    steps: tuple[Layout, ...]
    loops: tuple[tuple[Var, int], ...]
    limits: tuple[tuple[int, Expr, Layout, Expr], ...]
    guards: tuple[Expr, ...]
    size: int


@attrs.frozen(slots=False)
class Elements:
    """Say where the elements of one tile lie in its buffer.

    Args:
        buffer: name of the buffer.
        shape: extents of the tile.
        unit: the level whose units each hold a separate tile.
        strides: in shared memory, elements between neighbours of each dimension, or a layout of coordinates; None for
            registers.
        swizzle: the permutation of offsets in shared memory.
        held: the elements that registers hold; None for shared memory, and where an instruction's layout is not
            documented.
        threads: for registers, the number of threads that `held` describes.
    """

    buffer: str
    shape: tuple[int, ...]
    unit: Level
    strides: tuple[Index, ...] | Layout | None = None
    swizzle: Swizzle | None = None
    held: Held | None = None
    threads: int = 0

    @cached_property
    def offset(self) -> Expr | None:
        """Return an element's offset in its slot, from the coordinates `place0`, `place1`, ...; None for registers."""
        if self.strides is None:
            return None
        places = tuple(as_expr(Var(PLACE.format(i), extent)) for i, extent in enumerate(self.shape))
        offset = address(places, self.strides)
        return offset if self.swizzle is None else self.swizzle(offset)

    @cached_property
    def coordinates(self) -> tuple[Expr, ...]:
        """Return the coordinates of the element that `register` of `thread` holds; () where `held` is None."""
        return () if self.held is None else self._of_registers(self.held)[0]

    @cached_property
    def there(self) -> Expr | None:
        """Return the condition that `register` of `thread` holds an element of the tile; None where `held` is None."""
        return None if self.held is None else self._of_registers(self.held)[1]

    def _of_registers(self, held: Held) -> tuple[tuple[Expr, ...], Expr]:
        """Replace the loops' variables in expressions by quotients of the register's number."""
        register = Var(REGISTER, max(held.size, 1))
        known: dict[Expr, Expr] = {}
        count = weight = prod(layout.size for layout in held.steps)
        for var, trips in reversed(held.loops):
            known[var] = register // weight % trips
            weight *= trips
        element, local = register % count, list[Expr]()
        for layout in held.steps:
            local.append(element % layout.size)
            element = element // layout.size
        coordinates = tuple(
            substitute(first, known) + as_expr(steps(at))
            for first, steps, at in zip(held.first, held.steps, local, strict=True)
        )
        limits = (
            lt(substitute(offset, known) + as_expr(steps(local[axis])), limit)
            for axis, offset, steps, limit in held.limits
        )
        guards = (substitute(guard, known) for guard in held.guards)
        inside = (lt(at, extent) for at, extent in zip(coordinates, self.shape, strict=True))
        return coordinates, and_(*inside, *limits, *guards)
