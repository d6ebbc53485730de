"""Kernel IR: one statement language between schedules and their backends.

Everything is explicit here: which element each access touches, who is guarded, where barriers stand. `cuda/` prints it,
`simulate/` runs it, and neither decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Symbol, Var
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Scalar
from fireiron.base.link import Link
from fireiron.language.atom import Atom
from fireiron.language.levels import Level, Memory

THREAD = "thread"  # the Var of a thread's index inside its block
BLOCK = "block"  # the Var of a block's index inside the grid (grids are one-dimensional)


@attrs.frozen
class Buffer:
    """Hold a tensor in one memory.

    Args:
        name: the C identifier.
        memory: GL (a kernel parameter), SH or RF.
        dtype: element type.
        size: elements of one slot; for RF the elements that one thread holds; for GL an expression of symbols.
        slots: copies of it in a ring.
        unit: the level whose units each own one copy (Block for most SH buffers).
        offset: first byte inside the block's shared memory, for SH; copies of inner units and slots follow each other.
        nbytes: all bytes of it in one block (slots and units counted), for SH.
        align: byte alignment that every access may rely on.
        written: whether the kernel writes it (a GL output).
        read: whether the kernel reads it.
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


@attrs.frozen
class View:
    """Name the elements that one access touches, for each thread.

    Args:
        buffer: where.
        offset: flat element index of the first element: swizzle, slot and unit copy already applied.
        layout: steps from the first element to the others, in the atom's order (`4:1` for a vector, `1:0` for
            a scalar).
        slot: which ring slot `offset` lies in (0 <= slot < slots), kept for hazard analysis.
        origin: coordinates of the first element in the whole tensor, one a dimension, for messages.
    """

    buffer: Buffer
    offset: Expr
    layout: Layout = Layout(1, 0)
    slot: Expr | None = None
    origin: tuple[Expr, ...] = ()


@attrs.frozen
class Let:
    """Name an index expression."""

    var: Var
    value: Expr


@attrs.frozen
class For:
    """Repeat the body for var = 0 .. extent-1 (extent is block-uniform).

    Args:
        unroll: whether no loop is left.
        together: how many trips stand together in one of the compiled loop.
    """

    var: Var
    extent: Expr
    body: tuple[Statement, ...]
    unroll: bool = False
    together: int = 1


@attrs.frozen
class If:
    """Run the body in the threads whose condition holds."""

    condition: Expr
    body: tuple[Statement, ...]


@attrs.frozen
class Binding:
    """Give a microkernel or an atom's text one named index value."""

    name: str
    value: Expr


@attrs.frozen
class Call:
    """Execute an atom.

    Args:
        atom: the instruction.
        views: one a operand, in the atom's order (A, B, C or src, dst).
        read: where false, a Move's destination receives zeros and the source is not touched (None: always true).
        write: where false, nothing is written (None: always true). `write` false wins over `read`.
        lane: the source lane of a Shuffle, 0 <= lane < 32, as an expression of `thread`; None for other atoms.
        bindings: further index values that the atom's text names.
    """

    atom: Atom
    views: tuple[View, ...]
    read: Expr | None = None
    write: Expr | None = None
    lane: Expr | None = None
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    bindings: tuple[Binding, ...] = ()


@attrs.frozen
class Compute:
    """Compute one element: dst = expr(inputs), `Arg(i)` reading inputs[i]; `write` as in Call.

    A GL or SH input is read only where `write` holds.
    """

    dst: View
    expr: Scalar
    inputs: tuple[View, ...] = ()
    write: Expr | None = None
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Sync:
    """Wait for all threads of each unit of `level` (Block, or Warp and groups of it).

    Shared memory written before is seen after.     `reason` says in words which edge needs it.
    """

    level: Level
    reason: str
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class CountIn:
    """Count this block in at a counter in global memory, by one thread; all threads wait, and learn who was last.

    The last block to count in sets the counter back to 0. What all threads of a block did before a barrier ahead of
    this is released to blocks that count in later and acquire it (device scope).

    Args:
        var: 1 in the last of `count` blocks, 0 in the others.
        counter: one i32.
        count: how many blocks count in.
        order: which of the two its atomic does.
    """

    var: Var
    counter: View
    count: Expr
    order: Literal["acq_rel", "release", "acquire", "relaxed"] = "acq_rel"
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Commit:
    """Close a thread's group of asynchronous atoms; groups are counted even where they are empty."""

    group: str


@attrs.frozen
class Wait:
    """Wait until at most `pending` of a thread's groups are in flight, the oldest landing first.

    The issuing thread then sees what landed.
    """

    group: str
    pending: int


@attrs.frozen
class Micro:
    """Run a user's microkernel in every active thread.

    Args:
        name: for comments and errors.
        source: CUDA C++ statements; `views` bind as pointers named by role (`A`, `B`, `C`) to their first element, with
            `A_row`, `A_col` (and so on) element strides; bindings are integers (`M`, `N`, `K` of the residual spec).
        numpy: its meaning: numpy(A, B, C) on arrays of one unit -> new C, or None (then simulating it is an error).
        roles: names of the views.
        views: first elements; `layout` holds ((rows), (columns)) with their strides.
        written: roles that it writes.
        level: the level whose unit executes it.
    """

    name: str
    source: str
    numpy: Callable[..., Any] | None = attrs.field(eq=False)
    roles: tuple[str, ...]
    views: tuple[View, ...]
    bindings: tuple[Binding, ...]
    written: tuple[str, ...]
    level: Level
    write: Expr | None = None
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Region:
    """Head a group of statements with the spec and level that they implement."""

    title: str
    body: tuple[Statement, ...]
    path: str = ""
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


Statement: TypeAlias = Let | For | If | Call | Compute | Sync | CountIn | Commit | Wait | Micro | Region


@attrs.frozen
class Pointer:
    """Pass a GL buffer.

    Args:
        buffer: the tensor's buffer.
        shape: its extents, ints or symbols, outermost dimension first as the user's array has it.
        strides: element strides in the same order.
        role: input, output (written only), or update (read and written).
    """

    buffer: Buffer
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    role: Literal["input", "output", "update"]


@attrs.frozen
class Size:
    """Pass a symbolic extent as a 32-bit integer."""

    symbol: Symbol


@attrs.frozen
class Number:
    """Pass a scalar (`alpha`), with the default where it has one."""

    name: str
    dtype: DType
    default: float | int | None = None


@attrs.frozen
class Workspace:
    """Pass global memory that belongs to the kernel, zeroed before its first launch; callers never see it.

    Args:
        buffer: its name, element type and size, an expression of sizes.
        zero: whether it is zero whenever a launch begins: each launch leaves it so.
    """

    buffer: Buffer
    zero: bool = False


Parameter: TypeAlias = Pointer | Size | Number | Workspace


@attrs.frozen
class Precondition:
    """Demand something of the sizes at launch.

    Args:
        condition: an expression of symbols.
        message: what fails.
        fix: what to do about it.
    """

    condition: Expr
    message: str
    fix: str = ""


@attrs.frozen
class Kernel:
    """Hold a whole kernel.

    Args:
        name: entry point, with preset, tile and dtype in it.
        parameters: in launch order: pointers, sizes, numbers, workspaces.
        grid: number of blocks, an expression of symbols.
        threads: threads of a block.
        shared_nbytes: dynamic shared memory of a block.
        buffers: SH and RF buffers (GL ones are parameters).
        body: what every thread runs.
        minimum_blocks: blocks per SM that the register budget should allow (0: no promise).
    """

    name: str
    parameters: tuple[Parameter, ...]
    grid: Expr
    threads: int
    shared_nbytes: int
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]
    preconditions: tuple[Precondition, ...] = ()
    minimum_blocks: int = 0


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Visit every statement, outer before inner, in program order."""
    for statement in body:
        yield statement
        if isinstance(statement, For | If | Region):
            yield from walk(statement.body)
