"""Windows: the part of a buffer that an operand of the residual spec is, with one axis for each dimension.

An axis maps the residual's local index x to a buffer coordinate: `offset + steps(x)`. A tile composes `steps` and adds
to `offset`; a load starts new axes at 0. A tile that does not divide its extent adds a bound, which all axes below
keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, Var, and_, as_expr, ceil_div, free, ge, le, lt, proves, substitute
from fireiron.algebra.layout import IndexTree, Layout
from fireiron.algebra.layout_compose import complement, compose
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import Ownership, fit
from fireiron.kernel.ir.elements import address
from fireiron.language.atom import Atom
from fireiron.language.decompositions import ByCluster, Chunks, Extent, InOrder, Reduction
from fireiron.language.levels import Level, Memory
from fireiron.language.tensor import Order, Tensor

POINTS = ""  # name of the window of a program's points, whose axes are the dims


@attrs.frozen
class Partial:
    """Describe the units of a parallel split; each unit holds partial sums of an accumulator over its chunk of K.

    Args:
        ways: number of units whose partial sums make one sum.
        way: number of this thread's unit.
        level: the units' level.
        seat: this thread's index among the `seats` threads of its unit; threads of one seat hold sums of the same
            elements in all units.
        reduce: how the partial sums are added.
        path: path of the split, for errors.
    """

    ways: Index
    way: Expr
    level: Level
    seat: Expr
    seats: Index
    reduce: Reduction
    path: str
    link: Link | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def shared(self) -> bool:
        """Say whether several blocks add their sums, and each finishes a share of the tile."""
        return isinstance(self.reduce, ByCluster) or (isinstance(self.reduce, InOrder) and self.reduce.shared)


@attrs.frozen
class Reading:
    """Describe the elements of a tensor that points read, where a tile's elements form no box.

    Args:
        dims: the points' dims, in the order of a window's axes.
        index: for each dimension of the tensor, the coordinate that a point reads.
        shape: shape of the tensor.
    """

    dims: tuple[Var, ...]
    index: tuple[Expr, ...]
    shape: tuple[Index, ...]

    def at(self, point: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the coordinates that a point reads."""
        places = dict(zip(self.dims, point, strict=True))
        return tuple(as_expr(substitute(e, places)) for e in self.index)

    def exists(self, point: tuple[Expr, ...]) -> list[Expr]:
        """List the conditions that a point's element lies in the tensor; conditions that always hold are left out."""
        found: list[Expr] = []
        for e, place, extent in zip(self.index, self.at(point), self.shape, strict=True):
            found += [ge(place, 0)] * (not proves(ge(e, 0))) + [lt(place, extent)] * (not proves(lt(e, extent)))
        return found

    def stride(self, number: int, strides: tuple[Index, ...]) -> Index | None:
        """Return the distance in elements of neighbouring points along a dim; None where it depends on the place."""
        dim = self.dims[number]
        moved = [i for i, e in enumerate(self.index) if dim in free(e)]
        return strides[moved[0]] if len(moved) == 1 and self.index[moved[0]] == dim else None


@attrs.define(eq=False)
class Storage:
    """Collect the facts of one buffer while its kernel is lowered; `buffer_of` makes an `ir.Buffer` of them.

    Args:
        shape: extents of the tile that one slot holds.
        strides: elements between neighbours of each dimension, or a layout of coordinates.
        size: elements of one slot; in registers, elements of one thread, set by the first access, which defines
            ownership.
        unit: the level whose units each have a copy; `copy` is the number of this thread's copy, of `copies`.
        swizzle: the permutation of element offsets, None for none.
        slots: number of ring slots.
        tensor: the tensor in global memory that this buffer is; None for other memories.
        reuse: whether the buffer may lie in the memory of buffers that are no longer needed.
        no_sync: whether the author states that no barrier is needed; `claimed` is the link that says so.
        align: alignment of the buffer in bytes.
        guarded: whether mbarriers order all accesses.
        follows: the register tensor from which this one is computed, element by element.
        seeded: whether an accumulator's first value is not 0.
        partials: for an accumulator, the parallel splits whose units hold partial sums, outermost first.
        order: for a register tensor, the order of the memory that it is loaded from.
        reading: the elements that points read, where the axes of windows are the points' dims.
        of_sums: whether a factor is computed from sums of products in registers.
        regrouped: registers that hold such a factor in the layout of sums, before lanes exchange elements into this
            tensor's registers by `regrouping`.
    """

    name: str
    memory: Memory
    dtype: DType
    shape: tuple[Index, ...]
    strides: tuple[Index, ...] | Layout
    size: Expr
    unit: Level
    swizzle: Swizzle | None = None
    slots: int = 1
    copy: Expr | None = None
    copies: int = 1
    tensor: Tensor | None = None
    ownership: Ownership | None = None
    reuse: bool = False
    no_sync: bool = False
    link: Link | None = None
    claimed: Link | None = None
    align: int = 1
    guarded: bool = False
    follows: str = ""
    seeded: bool = False
    partials: list[Partial] = attrs.field(factory=list[Partial])
    order: Order | None = None
    reading: Reading | None = None
    of_sums: bool = False
    regrouped: Storage | None = None
    regrouping: Atom | None = None

    def address(self, coordinates: tuple[Expr, ...]) -> Expr:
        """Return the flat element offset of a coordinate, before swizzling."""
        coordinates = coordinates if self.reading is None else self.reading.at(coordinates)
        return address(coordinates, self.strides)

    @property
    def start(self) -> int:
        """Return the elements between a multiple of 16 bytes and the first element; 0 where it starts there."""
        return 0 if self.tensor is None else self.tensor.start


@attrs.frozen
class Bound:
    """Hold the condition `offset + steps(x) < limit` (`lower`: `>= 0`) for an element with local index x."""

    offset: Expr
    steps: Layout | None
    limit: Expr
    lower: bool = False

    def condition(self, shift: Index = 0) -> Expr:
        """Return the condition that the element at a distance `shift` from `offset` is inside the tensor."""
        return ge(self.offset + shift, 0) if self.lower else lt(self.offset + shift, self.limit)

    def holds(self, local: Expr) -> Expr:
        """Return the condition that the element with a local index is inside the tensor."""
        return self.condition(local if self.steps is None else self.steps(local))


@lru_cache(4096)
def line(extent: Index, stride: Index) -> Layout:
    """Return the layout of one mode, from a cache."""
    return Layout(extent, stride)


@attrs.frozen
class IndexMap:
    """Hold the index expression that computes a tensor's coordinate from the dims of a program.

    Args:
        index: an index expression over dims.
        base: the tensor coordinate of the buffer's first element: 0, or the start of the loaded box.
        step: distance in tensor coordinates from one element of the buffer to the next.
        extent: extent of the tensor's dimension.
        outside: the value of a read outside the tensor.
        filled: whether the buffer holds that value at places outside the tensor, so that reads need no condition.
    """

    index: Expr
    base: Expr
    extent: Index
    step: int = 1
    outside: float = 0.0
    filled: bool = False


@attrs.frozen(slots=False)
class Axis:
    """Map the local index x of a dimension to a buffer coordinate: offset + steps(x).

    Args:
        dim: name of the dimension.
        size: number of local indices.
        offset: the coordinate of index 0.
        steps: local index -> steps from index 0; None for the identity.
        bounds: conditions that an element exists.
        map: the index expression that computes the coordinate from a point. `kernel.lower.maps` replaces an axis with a
            map by one without.
        reads: names of the dims in the map's index.
    """

    dim: str
    size: Index
    offset: Expr
    steps: Layout | None = None
    bounds: tuple[Bound, ...] = ()
    map: IndexMap | None = None
    reads: tuple[str, ...] = ()

    def at(self, local: Expr) -> Expr:
        """Return the coordinate of a local index."""
        return self.offset + (local if self.steps is None else self.steps(local))

    @property
    def layout(self) -> Layout:
        """Return `steps`; where they are None, the layout of elements that follow each other."""
        assert isinstance(self.size, int)
        return line(self.size, 1) if self.steps is None else self.steps


@attrs.frozen
class Cut:
    """Hold how a tile cuts one dimension.

    Args:
        inner: local index -> parent index.
        outer: tile number -> parent index, None where the number of tiles is no int.
        trips: number of tiles.
        size: extent of a tile; an expression where the author gave the number of tiles instead.
        ragged: whether the last tile may cross the extent.
    """

    inner: Layout
    outer: Layout | None
    trips: Index
    size: Index
    ragged: bool


@lru_cache(4096)
def cut(size: Extent, extent: Index) -> Cut:
    """Cut an extent.

    Raises:
        DecompositionError: `tile-gaps` where chunks leave gaps or overlap.
    """
    if isinstance(size, Chunks):
        return _cut_chunks(size, extent)
    if isinstance(size, Layout):
        outer = complement(size, extent)
        return Cut(size, outer, outer.size, size.size, ragged=False)
    trips = ceil_div(extent, size) if isinstance(extent, Expr) else -(-extent // size)
    ragged = not (isinstance(extent, int) and extent % size == 0) and not (
        isinstance(extent, Expr) and extent.divisor % size == 0
    )
    outer = Layout(trips, size) if isinstance(trips, int) else None
    return Cut(Layout(size, 1), outer, trips, size, ragged)


def cut_chunk(size: Index, extent: Index, ways: int | None) -> Cut:
    """Cut K into chunks of a size: `ways` chunks if given, else all. The last chunks may be partial or empty."""
    if ways is None:
        assert isinstance(size, int)
        return cut(size, extent)
    ragged = not proves(le(size * as_expr(ways), extent))
    return Cut(Layout(size, 1), Layout(ways, size), ways, size, ragged)


def _cut_chunks(size: Chunks, extent: Index) -> Cut:
    if not isinstance(extent, int) or extent % size.stride or size.stride % size.chunk:
        raise DecompositionError(
            "tile-gaps",
            f"chunks of {size.chunk} at stride {size.stride} do not cover an extent of {extent} "
            "without gaps or overlap",
            fix="the stride must be a multiple of the chunk, and divide the extent",
        )
    if size.chunk == size.stride:
        return cut(extent, extent)
    inner = Layout((size.chunk, extent // size.stride), (1, size.stride))
    outer = complement(inner, extent)
    return Cut(inner, outer, outer.size, inner.size, ragged=False)


def _advance(offset: Expr, steps: Layout | None, part: Cut, tile: Expr) -> tuple[Expr, Layout | None]:
    if steps is None:
        moved = offset + (tile * part.size if part.outer is None else part.outer(tile))
        return moved, None if part.inner.stride == 1 else part.inner
    if part.size == steps.size:
        return offset, steps
    if part.ragged or part.outer is None:
        raise DecompositionError(
            "tile-ragged",
            f"a tile of {part.size} does not divide the {steps.size} elements that a strided tile left",
            fix=f"use a divisor of {steps.size}",
        )
    return offset + compose(steps, part.outer)(tile), compose(steps, part.inner)


def advance(axis: Axis, part: Cut, tile: Expr) -> Axis:
    """Narrow an axis to one tile."""
    offset, steps = _advance(axis.offset, axis.steps, part, tile)
    bounds = [evolve(b, offset=o, steps=s) for b in axis.bounds for o, s in [_advance(b.offset, b.steps, part, tile)]]
    if part.ragged:
        bounds.append(Bound(tile * part.size, None, as_expr(axis.size)))
    return Axis(axis.dim, part.size, offset, steps, tuple(bounds), reads=axis.reads)


def through(offset: Expr, steps: Layout | None, start: Expr, elements: Layout, dim: str) -> tuple[Expr, Layout]:
    """Return offset and steps of the elements `start + elements(x)` of an axis, whose tile may be chunks at a stride.

    Raises:
        DecompositionError: `own-chunks` where the elements lie at irregular distances.
    """
    if steps is None:
        return offset + start, elements
    assert isinstance(elements.size, int)
    local = np.asarray(elements(np.arange(elements.size, dtype=np.int64))).reshape(-1)
    place = 1
    for extent, _ in steps.leaves[:-1]:
        place *= int(extent)  # pyright: ignore[reportArgumentType]
        crossing = int((local % place).max())
        if crossing and start.divisor % place and not proves(lt(start % place + crossing, place)):
            raise _crossing(elements, place, dim)
    found = fit(np.asarray(steps(local)).reshape(-1) - int(steps(int(local[0]))))
    if found is None:
        raise _crossing(elements, place, dim)
    return offset + steps(start + int(local[0])), found


def _crossing(elements: Layout, chunk: int, dim: str) -> DecompositionError:
    return DecompositionError(
        "own-chunks",
        f"the {elements.size} elements {elements} that a thread owns along {dim} cross chunks of {chunk}, "
        "which a Strided tile above left",
        fix="let chunks be a multiple of what a thread owns, or tile(rows, cols) without Strided(...)",
    )


def narrowed(axis: Axis, start: Expr, elements: Layout) -> Axis:
    """Narrow an axis to the elements `start + elements(x)` of its tile.

    Raises:
        DecompositionError: `own-chunks`.
    """
    offset, steps = through(axis.offset, axis.steps, start, elements, axis.dim)
    bounds: list[Bound] = []
    for bound in axis.bounds:
        first, along = through(bound.offset, bound.steps, start, elements, axis.dim)
        bounds.append(evolve(bound, offset=first, steps=along))
    return Axis(axis.dim, elements.size, offset, steps, tuple(bounds))


@attrs.frozen(slots=False)
class Window:
    """Hold the part of a buffer that an operand is: an axis for each dimension, and the ring slot (None: no ring)."""

    storage: Storage
    axes: tuple[Axis, ...]
    slot: Expr | None = None

    def axis(self, dim: str) -> Axis | None:
        """Find the axis of a dimension."""
        return next((a for a in self.axes if a.dim == dim), None)

    @property
    def origin(self) -> tuple[Expr, ...]:
        """Return the coordinates of the first element."""
        return tuple([a.offset for a in self.axes])

    def base(self) -> Expr:
        """Return the flat offset of slot and copy, in elements."""
        storage = self.storage
        total = as_expr(0)
        if self.slot is not None and storage.slots > 1:
            total = total + (self.slot % storage.slots) * storage.size
        if storage.copy is not None and storage.copies > 1:
            total = total + storage.copy * (storage.size * storage.slots)
        return total

    def linear(self) -> Expr:
        """Return the flat element offset of the first element, before swizzling."""
        return self.storage.address(self.origin)

    def steps_along(self, index: int, cut: bool = False) -> Layout | None:
        """Return a layout, local index -> element steps, of one axis; None where the steps depend on the place.

        Args:
            index: number of the axis.
            cut: whether the axis may end within a panel; the layout then has the whole panel.
        """
        strides = self.storage.strides
        axis = self.axes[index]
        if self.storage.reading is not None:
            assert isinstance(axis.size, int) and not isinstance(strides, Layout)
            along = self.storage.reading.stride(index, strides)
            if along is None:
                return line(1, 0) if axis.size == 1 else None
            return line(axis.size, along) if axis.steps is None else Layout(
                axis.steps.shape, _scaled(axis.steps.stride, along)
            )  # fmt: skip
        if isinstance(strides, Layout):
            mode = strides[index]
            if mode.depth > 0:
                return _hierarchical(mode, axis, cut)
            stride = mode.stride
        else:
            stride = strides[index]
        assert not isinstance(stride, tuple)
        if axis.steps is None:
            assert isinstance(axis.size, int)
            return line(axis.size, stride)
        if axis.steps.depth == 0:
            return line(axis.steps.size, _scaled(axis.steps.stride, stride))
        return Layout(axis.steps.shape, _scaled(axis.steps.stride, stride))

    def condition(self) -> Expr | None:
        """Return the condition that the first element exists; None where it always does."""
        conditions = [b.condition() for a in self.axes for b in a.bounds]
        if self.storage.reading is not None:
            conditions += self.storage.reading.exists(self.origin)
        total = and_(*conditions) if conditions else None
        return None if total is None or proves(total) else total


def _scaled(stride: IndexTree, by: Index) -> IndexTree:
    return tuple(_scaled(s, by) for s in stride) if isinstance(stride, tuple) else stride * by


def _hierarchical(mode: Layout, axis: Axis, cut: bool) -> Layout | None:
    """Return the steps of an axis in a dimension with a nested layout; None where they depend on the first element."""
    run = mode.leaves[0][0]
    assert isinstance(run, int)
    layout = axis.layout
    if layout.size == 1:
        return Layout(1, 0)
    size = layout.size
    if isinstance(size, int) and run % size == 0 and layout.stride == 1 and axis.offset.divisor % size == 0:
        return Layout(layout.shape, mode.leaves[0][1])  # it ends inside the run, for every start
    if axis.offset.divisor % run or layout.stride != 1:
        return None
    if layout.size <= run:
        return Layout(layout.shape, mode.leaves[0][1])
    if (layout.size % run == 0 or cut) and len(mode.leaves) == 2:
        return Layout((run, -(-layout.size // run)), (mode.leaves[0][1], mode.leaves[1][1]))
    return None


def substituted(window: Window, values: Mapping[Var, Expr]) -> Window:
    """Replace variables in a window's place."""
    if not values:
        return window
    axes = tuple(
        evolve(
            axis,
            offset=substitute(axis.offset, values),
            bounds=tuple(evolve(b, offset=substitute(b.offset, values)) for b in axis.bounds),
            map=None if axis.map is None else evolve(axis.map, base=substitute(axis.map.base, values)),
        )
        for axis in window.axes
    )
    return evolve(window, axes=axes)
