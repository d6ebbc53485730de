"""Tensors of tensors, as Graphene writes them: of threads, of a tile's elements, or of a thread's registers.

`[4].[8]` is four tensors of eight scalars. `tile` cuts the innermost tensors into tiles, `reshape` gives the tensors of
one depth a new shape, and an index selects one of the outermost tensors. Scalars are threads of a unit, elements of a
tile (numbered down its columns), or registers; strides and offsets count scalars.

Source: Graphene (ASPLOS 2023), sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs

from fireiron.algebra.expr import Expr, Index, Var, as_expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.layout_tile import bracket, reshape, tile_tensor
from fireiron.base.contract import checked
from fireiron.base.errors import FireironError, LayoutError
from fireiron.base.link import here
from fireiron.language.levels import Level
from fireiron.language.tensor import ColMajor, Order, RowMajor

THREAD = "thread"  # name of the thread's number within its unit in the expressions that `indices()` returns


@attrs.frozen(repr=False)
class Nested:
    """Hold a tensor of tensors.

    Args:
        tensors: the layout of each depth, outermost first.
        offset: offset of the first scalar.
        level: the level of the unit with these threads; None for elements and registers.

    Example:
        >>> from fireiron import Warp
        >>> warp = threads(Warp)
        >>> print(warp.tile(8), warp.tile(8).reshape(0, (2, 2)), warp.tile(Layout((4, 2), (1, 16))))
        [4:8].[8:1] [2,2:16,8].[8:1] [4:4].[(4,2):(1,16)]
    """

    tensors: tuple[Layout, ...]
    offset: Expr = attrs.field(factory=lambda: as_expr(0))
    level: Level | None = None

    def __str__(self) -> str:
        return ".".join(map(bracket, self.tensors))

    __repr__ = __str__

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extent of each dimension of the outermost tensor."""
        return tuple(known(mode.size) for mode in _dims(self.tensors[0]))

    def tile(self, *sizes: int | Layout | None) -> Nested:
        """Cut the innermost tensors into tiles.

        Args:
            sizes: for each dimension the extent of a tile, or the layout of a tile's indices; None for the whole
                dimension.

        Shapes:
            [m, n] -> [m / a, n / b].[a, b]

        Raises:
            LayoutError: `tiler-rank`, and what `compose` and `complement` refuse.
        """
        *outer, last = self.tensors
        return self._with((*outer, *_located(lambda: tile_tensor(last, sizes))))

    def reshape(self, depth: int, shape: tuple[int, ...]) -> Nested:
        """Number the tensors of one depth row by row, and arrange the numbers in a new shape.

        Args:
            depth: 0 for the outermost.
            shape: the new shape, of as many tensors as before.

        Raises:
            LayoutError: `reshape-size`, `nested-depth`.
        """
        if not 0 <= depth < len(self.tensors):
            raise LayoutError(
                "nested-depth",
                f"{self} has no tensors at depth {depth}",
                fix=f"use 0 to {len(self.tensors) - 1}",
                link=here(),
            )
        found = _located(lambda: reshape(self.tensors[depth], shape))
        return self._with((*self.tensors[:depth], found, *self.tensors[depth + 1 :]))

    def indices(self) -> tuple[Any, ...]:
        """Return the executing thread's coordinates: for each depth a coordinate, or a tuple of one for each dimension.

        Raises:
            LayoutError: `nested-threads` unless the tensors hold each thread of a unit once.

        Example:
            >>> from fireiron import Warp
            >>> (row, col), lane = threads(Warp).tile(8).reshape(0, (2, 2)).indices()
            >>> print(row, col, lane, sep=", ")
            thread / 16, thread / 8 % 2, thread % 8
        """
        size = self._threads()
        thread = Var(THREAD, size)
        found: list[Any] = []
        for tensor in self.tensors:
            first, *others = (_coordinate(mode, thread) for mode in _dims(tensor))
            found.append((first, *others) if others else first)
        return tuple(found)

    def __getitem__(self, coordinates: Index | tuple[Index, ...]) -> Nested:
        """Select one of the outermost tensors.

        Raises:
            LayoutError: `nested-index` where the index has another number of dimensions, or there is only one depth.
        """
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        outer, *rest = self.tensors
        dims = _dims(outer)
        if not rest or len(given) != len(dims):
            why = "holds scalars, no tensors" if not rest else f"has {len(dims)} dimensions, not {len(given)}"
            raise LayoutError("nested-index", f"{self} {why}", fix="tile it first, then give one index a dimension",
                              link=here())  # fmt: skip
        at = sum((as_expr(mode(index)) for mode, index in zip(dims, given, strict=True)), self.offset)
        return attrs.evolve(self, tensors=tuple(rest), offset=at)

    def as_level(self, name: str = "") -> Level:
        """Make a level whose units are the innermost tensors. `tile(m, n).to(...)` accepts the level or the `Nested`.

        Raises:
            LayoutError: `nested-threads`.

        Example:
            >>> from fireiron import Warp
            >>> pairs = threads(Warp).tile(Layout((4, 2), (1, 16)))
            >>> level = pairs.as_level("QuadPair")
            >>> level.threads, level.size, level.parent
            (Layout((4,2):(1,16)), 8, Warp)
        """
        self._threads()
        inner = self.tensors[-1]
        inner = inner.modes[0] if inner.rank == 1 and isinstance(inner.shape, tuple) else inner
        return Level(name or str(self), self.level, inner, known(inner.size))

    def order(self) -> Order | Layout:
        """Return the order in which units take tiles: each tile has its unit's coordinates in the outermost tensor."""
        dims = _dims(self.tensors[0])
        if len(dims) == 1:
            return RowMajor
        place, leaves = 1, list[tuple[int, int, int]]()
        for mode in dims:
            for extent, stride in _leaves(mode):
                leaves.append((stride, extent, place))
                place *= extent
        ranked = sorted(leaf for leaf in leaves if leaf[1] > 1)
        return ColMajor if not ranked else Layout(tuple(n for _, n, _ in ranked), tuple(p for _, _, p in ranked))

    def _with(self, tensors: tuple[Layout, ...]) -> Nested:
        return attrs.evolve(self, tensors=tensors)

    def _threads(self) -> int:
        """Return the number of threads of the unit; each one must stand in exactly one place."""
        leaves = sorted(
            (stride, extent) for tensor in self.tensors for extent, stride in _leaves(tensor) if extent != 1
        )
        size = self.level.size if self.level is not None else None
        extents = [extent for _, extent in leaves]
        places = [prod(extents[:i]) for i in range(len(leaves))]
        if size is None or [stride for stride, _ in leaves] != places or prod(extents) != size:
            raise LayoutError(
                "nested-threads",
                f"{self} is no arrangement of {'threads' if size is None else f'the {size} threads of a {self.level}'}",
                fix="start from threads(level), and tile and reshape it",
                link=here(),
            )
        return size


@checked
def threads(level: Level) -> Nested:
    """Return the threads of a unit of a level as a tensor, in the order of their numbers.

    Args:
        level: a level with a known number of threads per unit.

    Raises:
        LayoutError: `nested-threads`.

    Example:
        >>> from fireiron import Warp
        >>> threads(Warp)
        [32:1]
    """
    if level.size is None:
        raise LayoutError(
            "nested-threads",
            f"the number of threads of a {level} follows from the schedule",
            fix="use Warp, Warpgroup, or a group of them",
            link=here(),
        )
    return Nested((Layout((level.size,), (1,)),), level=level)


def elements(*shape: int) -> Nested:
    """Return the elements of a tile as a tensor, numbered down its columns."""
    return Nested((Layout(shape, tuple(prod(shape[:i]) for i in range(len(shape)))),))


def registers(*shape: int) -> Nested:
    """Return a thread's registers as a tensor, numbered row by row."""
    return Nested((Layout(shape, tuple(prod(shape[i + 1 :]) for i in range(len(shape)))),))


def _located(make: Any) -> Any:
    try:
        return make()
    except FireironError as error:
        raise error.located(here()) from None


def _dims(tensor: Layout) -> Sequence[Layout]:
    return tensor.modes if isinstance(tensor.shape, tuple) else (tensor,)


def _coordinate(mode: Layout, thread: Var) -> Expr:
    """Return the executing thread's coordinate along one dimension, whose layout says which threads each index has."""
    found, place = as_expr(0), 1
    for extent, stride in _leaves(mode):
        found = found + thread // stride % extent * place
        place *= extent
    return found


def _leaves(tensor: Layout) -> list[tuple[int, int]]:
    return [(known(extent), known(stride)) for extent, stride in tensor.leaves]


def known(extent: Index) -> int:
    """Return an extent or a stride that must be a number."""
    assert isinstance(extent, int)
    return extent
