"""Declarations of a kernel: its buffers, barriers and parameters, and the views of them that its statements use."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Symbol, Var, lt, minimum
from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.language.levels import Level, Memory


@attrs.frozen
class Buffer:
    """Hold a tensor in one memory.

    Args:
        name: the C identifier.
        memory: GL (a kernel parameter), SH or RF.
        dtype: element type.
        size: elements of one slot; for RF the elements that one thread holds; for GL an expression of symbols.
        slots: number of copies of the tensor in a ring.
        unit: the level whose units each own one copy (Block for most SH buffers).
        offset: first byte inside the block's shared memory, for SH; copies of inner units and slots follow each other.
        nbytes: bytes of the buffer in one block, with all slots and units, for SH.
        align: alignment of the first element in bytes.
        written: whether the kernel writes the buffer (a GL output).
        read: whether the kernel reads the buffer.
        guarded: whether mbarriers order all accesses of the buffer, so that passes insert no other barrier.
        follows: name of the register tensor from which this one is computed element by element; "" for none. A source
            element is not read after its result is written, so both may share a register.
        start: elements between a multiple of 16 bytes and the first element, for a GL tensor that is a slice.
    """

    name: str
    memory: Memory
    dtype: DType
    size: Expr
    slots: int = 1
    unit: Level | None = None
    offset: int = 0
    nbytes: int = 0
    align: int = 16
    written: bool = True
    read: bool = True
    guarded: bool = False
    follows: str = ""
    start: int = 0


@attrs.frozen
class View:
    """Hold the elements that one access touches, for each thread.

    Args:
        buffer: the buffer with the elements.
        offset: flat element index of the first element: swizzle, slot and unit copy already applied.
        layout: steps from the first element to the others, in the atom's order (`4:1` for a vector, `1:0` for
            a scalar).
        slot: which ring slot `offset` lies in (0 <= slot < slots), kept for hazard analysis.
        origin: coordinates of the first element in the whole tensor, one for each dimension; used in messages, and as
            the box's coordinates of bulk copies.
        swizzle: for instructions that address a whole tile by its first element (bulk copies, wgmma): the permutation
            of the offsets of all elements. `offset` itself is not permuted then.
        peer: rank of the block in the cluster whose shared memory holds the elements, the same for all threads of a
            block; None for this block's shared memory.
    """

    buffer: Buffer
    offset: Expr
    layout: Layout = Layout(1, 0)
    slot: Expr | None = None
    origin: tuple[Expr, ...] = ()
    swizzle: Swizzle | None = None
    peer: Expr | None = None


@attrs.frozen
class Barrier:
    """Hold a ring of mbarriers in shared memory, one for each slot.

    Args:
        name: the C identifier.
        slots: number of mbarriers.
        count: number of arrivals that complete a phase, those from other blocks of the cluster included.
        offset: first byte inside the block's shared memory; each mbarrier takes 8 bytes.
    """

    name: str
    slots: int
    count: int
    offset: int = 0


@attrs.frozen
class Cursor:
    """Name the two variables with which a role walks a ring: slot and parity of its phase, both 0 at first.

    Args:
        name: prefix of the two variables.
        slots: number of slots of the ring.
    """

    name: str
    slots: int

    @property
    def slot(self) -> Var:
        """Return the variable of the current slot."""
        return Var(f"{self.name}_slot", self.slots)

    @property
    def parity(self) -> Var:
        """Return the variable of the current phase's parity: it flips whenever the ring wraps."""
        return Var(f"{self.name}_parity", 2)


MOST_ITEMS = 2**31 - 1  # a grid has fewer blocks


@attrs.frozen
class Groups:
    """Name the variables of a search for the group that has a work item, where each group's rows are cut into tiles.

    Args:
        name: prefix of the variables.
        count: number of groups.
        rows: number of rows of all groups.
        size: rows of a tile.
        items: number of work items for each tile of rows (the tiles of columns).
    """

    name: str
    count: Expr
    rows: Expr
    size: int
    items: Expr

    @property
    def group(self) -> Var:
        """Return the variable of the group that was found."""
        return Var(self.name, self.count)

    @property
    def first(self) -> Var:
        """Return the variable of the found group's first item."""
        return Var(f"{self.name}_first", minimum(self.most, MOST_ITEMS))

    @property
    def begin(self) -> Var:
        """Return the variable of the found group's first row."""
        return Var(f"{self.name}_begin", self.rows)

    @property
    def length(self) -> Var:
        """Return the variable of the found group's number of rows, 1 or more."""
        return Var(f"{self.name}_rows", self.rows + 1, 1)

    @property
    def sought(self) -> Var:
        """Return the variable of the group during the search; it is the number of groups where none has the item."""
        return Var(self.name, self.count + 1)

    @property
    def found(self) -> Expr:
        """Return the condition that some group has the item."""
        return lt(self.sought, self.count)

    @property
    def most(self) -> Expr:
        """Return the largest possible number of items: each group's last tile may have a single row."""
        return (self.rows + self.count * (self.size - 1)) // self.size * self.items


@attrs.frozen
class TensorMap:
    """Pass a tensor map, by which bulk copies address boxes of a GL buffer; the host encodes it at the call.

    Args:
        name: the C identifier of the parameter.
        buffer: the buffer whose boxes are addressed, a Pointer of the kernel too.
        axes: numbers of the axes of the Pointer's shape that the map covers, innermost first; the first has stride 1.
        box: elements of a box along these axes. Both views of a bulk copy list a box's elements in this order, the
            first axis fastest; the `origin` of its GL view has one coordinate for each axis of the Pointer's shape. The
            coordinate of merged axes is that of the innermost of them, and the others have 0.
        swizzle: bytes of the swizzle's span in shared memory: 0, 32, 64 or 128.
        steps: elements of the buffer from one element of a box to the next along these axes, 1 to 8; () for all 1.
        lower: in im2col mode, the first pixel that copies visit, along each axis but the first and the last; () for
            boxes. A copy takes `box[0]` channels of `box[1]` consecutive pixels, each at the call's offsets.
        upper: in im2col mode, the last pixel that copies visit, relative to the axis's last element.
        merged: for each of `axes`, the number of axes of the Pointer's shape that count as one: this axis, and those
            right before it, without gaps in memory between them. () for one each.

    Source: CUDA driver API, cuTensorMapEncodeTiled: elementStrides; cuTensorMapEncodeIm2col.
    """

    name: str
    buffer: Buffer
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    steps: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    merged: tuple[int, ...] = ()

    @property
    def runs(self) -> tuple[slice, ...]:
        """Return, for each of `axes`, the axes of the Pointer's shape that it stands for."""
        counts = self.merged or (1,) * len(self.axes)
        return tuple(slice(axis + 1 - n, axis + 1) for axis, n in zip(self.axes, counts, strict=True))


@attrs.frozen
class Pointer:
    """Pass a GL buffer.

    Args:
        buffer: the tensor's buffer.
        shape: extents of the tensor, ints or symbols, outermost dimension first as in the user's array.
        strides: element strides in the same order.
        role: input, output (written only), or update (read and written).
        shares: for the array of groups' ends, the number of rows of all groups together. None for other tensors.
        below: for an array of subscripts, the extent that its elements must stay below. None for other tensors.
        ragged: for an output of a grouped product, the dimension of `shape` that is cut into groups. Elements after the
            last group's end are not written. None for other tensors.
    """

    buffer: Buffer
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    role: Literal["input", "output", "update"]
    shares: Expr | None = None
    below: Expr | None = None
    ragged: int | None = None


@attrs.frozen
class Size:
    """Pass a symbolic extent as a 32-bit integer."""

    symbol: Symbol


@attrs.frozen
class Number:
    """Pass a scalar. Example: `alpha`, an f32 with the default 1."""

    name: str
    dtype: DType
    default: float | int | None = None


@attrs.frozen
class Workspace:
    """Pass global memory for the kernel's own use, zeroed before its first launch; callers do not pass it.

    Args:
        buffer: name, element type and size of the memory; the size is an expression of symbols.
        zero: whether the memory must hold zeros when a launch begins; each launch must then leave zeros.
    """

    buffer: Buffer
    zero: bool = False


Parameter: TypeAlias = Pointer | Size | Number | TensorMap | Workspace


@attrs.frozen
class Precondition:
    """Hold a condition on the sizes that a launch must meet.

    Args:
        condition: an expression of symbols.
        message: the error's message where the condition is false.
        fix: the error's fix.
    """

    condition: Expr
    message: str
    fix: str = ""
