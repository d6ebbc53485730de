"""Kernel IR: one statement language between schedules and their backends.

Everything is explicit here: which element each access touches, under which condition, and where barriers stand. `cuda/`
prints it, `simulate/` runs it, and neither decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import attrs

from fireiron.algebra.expr import Expr, Var, evaluate
from fireiron.algebra.scalar import Scalar
from fireiron.base.link import Link
from fireiron.kernel.ir.declarations import (
    Barrier,
    Buffer,
    Cursor,
    Groups,
    Number,
    Parameter,
    Pointer,
    Precondition,
    Size,
    TensorMap,
    View,
    Workspace,
)
from fireiron.kernel.ir.elements import Elements
from fireiron.language.atom import Atom
from fireiron.language.levels import Block, Level

THREAD = "thread"  # the Var of a thread's index inside its block
BLOCK = "block"  # the Var of a block's index inside the grid (grids are one-dimensional)
BLOCKS = "blocks"  # the Var of the number of blocks launched, which a persistent kernel's loops step by
RANK = "rank"  # the Var of a block's index inside its cluster


@attrs.frozen
class Let:
    """Name an index expression."""

    var: Var
    value: Expr


@attrs.frozen
class FindGroup:
    """Find the group that holds an item of work, and set the variables of `groups`.

    A search for items in ascending order continues from the last group. Where no group holds the item, none is `found`.

    Args:
        groups: the variables, and how rows become items.
        ends: first element of an i32 array with the row before which each group ends; a decreasing end makes its group
        empty.
        item: number of the item.
    """

    groups: Groups
    ends: View
    item: Expr


@attrs.frozen
class Fetch:
    """Set a variable to an element of an integer array in global memory; the variable indexes other arrays.

    Args:
        var: 0 <= var < its extent: the simulator and debug builds refuse other elements. One whose lower bound is below
            0 is compared alone: elements beyond its ends are as its ends.
        view: the element.
        present: where false, the array has no such element, and the variable is 0.
    """

    var: Var
    view: View
    present: Expr
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Vote:
    """Set a variable in all lanes of each warp to 1 if any lane's flag is set, else to 0.

    Args:
        var: 1 in warps where some lane's flag is set, else 0.
        flag: a 32-bit register; set where it is not 0.
        present: where false, there is no vote and the variable is 1; the same for all lanes of a warp.
    """

    var: Var
    flag: View
    present: Expr
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


# What a loop goes over: the work items of a persistent unit; the tiles that a unit takes in turn, or that no unit
# takes; the chunks of a split; the layers of a stack; the partial sums of units; the slots of a ring; the elements of a
# tile, or vectors of them.
LoopKind: TypeAlias = Literal["items", "turns", "tiles", "chunks", "layers", "sums", "slots", "elements"]

# What a region implements: what a link leaves to do, a load, a store, a start value, a fold of sums, pointwise ops, a
# product, or the copies that fill a ring for another role to read. Of a pipeline: where its first slots are filled, and
# what starts, and what finishes, the copies of a chunk.
RegionKind: TypeAlias = Literal[
    "spec", "load", "store", "init", "fold", "compute", "product", "fill", "first", "start", "finish"
]


@attrs.frozen
class Draw:
    """Set a variable to a work item that no other unit takes: a counter in global memory says which are taken.

    A unit's first item is its own number. One thread of the unit draws each later one and leaves it in shared memory,
    where its other threads read it.

    Args:
        var: the item; `items` or more where none is left.
        trip: of the loop around.
        first: the item of the first trip.
        units: how many units draw: the first drawn item.
        items: how many there are. The last draw of a launch sets the counter back to 0.
        counter: one i32 in global memory.
        place: where shared memory holds the item.
        reads: whether another thread has drawn it.
    """

    var: Var
    trip: Var
    first: Expr
    units: Expr
    items: Expr
    counter: View
    place: View
    reads: bool = False
    link: Link | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def expected(self) -> Expr:
        """Give the item that the unit has in a launch where units take turns."""
        return self.first + self.trip * self.units


@attrs.frozen
class Leave:
    """End the loop around where a condition holds, which is the same for all threads that run the loop."""

    condition: Expr


@attrs.frozen
class For:
    """Repeat the body for var = 0 .. extent-1 (extent is block-uniform).

    Args:
        kind: what the loop counts.
        drawn: whether a `Leave` ends the loop, after so many trips as the run brings; `extent` is how many trips there
            are where units take turns.
        unroll: whether the loop is unrolled completely.
        together: number of trips in one trip of the compiled loop (partial unrolling).
        pairs: whether one instruction computes two trips.
    """

    var: Var
    extent: Expr
    body: tuple[Statement, ...]
    unroll: bool = False
    together: int = 1
    pairs: bool = False
    kind: LoopKind = "elements"
    drawn: bool = False


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
        accumulate: where false, a MatMul takes C's old value for zero (None: always true).
        map: the tensor map through which a bulk copy sees its GL view, whose `origin` gives the box's coordinates.
        signal: the mbarrier that counts the bytes of a bulk copy as they land, with its slot.
        peers: a bit for each block of the cluster that a bulk copy lands in, at the same offset and on the same
            barrier of each; None for this block alone.
        bindings: further index values that the atom's text names.
        id: a number that no other statement of the kernel has, 0 before lowering ends.
    """

    atom: Atom
    views: tuple[View, ...]
    read: Expr | None = None
    write: Expr | None = None
    lane: Expr | None = None
    accumulate: Expr | None = None
    map: TensorMap | None = None
    signal: tuple[Barrier, Expr] | None = None
    peers: Expr | None = None
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    bindings: tuple[Binding, ...] = ()
    id: int = attrs.field(default=0, eq=False, repr=False)

    @property
    def sent(self) -> int:
        """Count the blocks of the cluster that a bulk copy writes to; each gets as many from its peers."""
        return 1 if self.peers is None else int(evaluate(self.peers, {RANK: 0})).bit_count()


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
    id: int = attrs.field(default=0, eq=False, repr=False)


@attrs.frozen
class Sync:
    """Wait for all threads of each unit of `level` (Block, or Warp and groups of it).

    Shared memory written before is seen after, unless it is `relaxed`, between blocks of a cluster: then only mbarriers
    are that were fenced. `reason` says in words which edge needs it.
    """

    level: Level
    reason: str
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    relaxed: bool = False


@attrs.frozen
class CountIn:
    """Increment a counter in global memory, by one thread of the unit; all threads then know whether the unit was last.

    The last unit sets the counter back to 0. Accesses of a unit's threads before the preceding barrier are released to
    units that increment the counter later and acquire it (device scope).

    Args:
        var: 1 in the last of `count` units, 0 in the others.
        counter: one i32.
        count: number of units that increment it.
        order: whether its atomic releases, acquires, or both.
        level: of the units: Block (in a role, its threads), or one inside.
    """

    var: Var
    counter: View
    count: Expr
    order: Literal["acq_rel", "release", "acquire", "relaxed"] = "acq_rel"
    level: Level = Block
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    id: int = attrs.field(default=0, eq=False, repr=False)


@attrs.frozen
class Raise:
    """Set a flag in global memory, by one thread of each unit; accesses before the preceding barrier are released.

    Args:
        flag: one i32, lowered before.
        level: of the units.
    """

    flag: View
    level: Level = Block
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Lower:
    """Wait, by one thread of each unit, until a flag is set, and clear it; all threads then continue, and acquire.

    Args:
        flag: one i32, which one unit raises and one lowers in each launch.
        level: of the units.
    """

    flag: View
    level: Level = Block
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Commit:
    """Close a thread's group of asynchronous atoms; empty groups count too."""

    group: str


@attrs.frozen
class Wait:
    """Wait until at most `pending` of a thread's groups are in flight, oldest first; it then sees their results.

    `reads_only`: wait only until their sources were read. `holds`: registers that must not be copied before.
    """

    group: str
    pending: int
    reads_only: bool = False
    holds: Buffer | None = None


@attrs.frozen
class InitBarriers:
    """Initialise mbarriers, by one thread of the block; a barrier of the block or cluster must follow."""

    barriers: tuple[Barrier, ...]


@attrs.frozen
class Await:
    """Wait, in every active thread, until the phase with this parity of a barrier's slot is complete.

    Args:
        barrier: the mbarriers.
        slot: which of the ring.
        parity: of the phase.
        wide: whether the waiting threads then see shared-memory writes that blocks of the cluster made before arriving.
    """

    barrier: Barrier
    slot: Expr
    parity: Expr
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    wide: bool = False


@attrs.frozen
class Arrive:
    """Arrive at a barrier's slot, once for each active thread.

    Args:
        barrier: the mbarriers.
        slot: which of the ring.
        nbytes: bytes that must also land before the phase completes (expect_tx); 0 for none.
        peer: rank of the cluster's block whose barrier it is, None for this block's own.
        wide: whether waiting blocks of the cluster then see this thread's earlier writes to shared memory.
    """

    barrier: Barrier
    slot: Expr
    nbytes: int = 0
    peer: Expr | None = None
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    wide: bool = False


@attrs.frozen
class Advance:
    """Move a cursor on by a number of slots."""

    cursor: Cursor
    by: Expr


@attrs.frozen
class Fence:
    """Order memory accesses of the threads that execute it.

    Args:
        kind: what it orders. `proxy.async`: generic accesses before asynchronous ones. `registers`: writes of registers
            before asynchronous products that use them. `barrier.init`: the initialisation of mbarriers before their use
            by other threads. `grid.wait`: the whole launch before ahead of these threads' accesses of global memory.
            `grid.launch` orders nothing: it lets the next launch begin, which must wait by its own `grid.wait`.
        reason: the edge that needs it.
    """

    kind: Literal["proxy.async", "registers", "barrier.init", "grid.wait", "grid.launch"]
    reason: str = ""


@attrs.frozen
class Prefetch:
    """Let the block's first thread fetch tensor maps: bulk copies read theirs first."""

    maps: tuple[TensorMap, ...]


@attrs.frozen
class Ask:
    """Prefetch the line of an element of global memory into the L2 cache; this changes no result."""

    view: View
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Turn:
    """Synchronise at a numbered barrier of the block: wait there, or only arrive.

    Args:
        number: the hardware barrier, a constant.
        threads: number of threads that take part, arriving or waiting.
        waits: whether to wait.
        reason: which edge needs it.
    """

    number: int
    threads: int
    waits: bool
    reason: str


LOADS = "load"  # the name of the role that fills rings


@attrs.frozen
class Role:
    """Hold some warps of a block and their code; `thread` counts from the role's first thread.

    Args:
        name: `load`, `math`.
        first: its first thread in the block.
        threads: how many.
        registers: a thread's budget (setmaxnreg), 0 where it keeps what the launch gives.
        cursors: rings that it walks.
        body: what its threads run.
    """

    name: str
    first: int
    threads: int
    registers: int
    cursors: tuple[Cursor, ...]
    body: tuple[Statement, ...]


@attrs.frozen
class Roles:
    """Divide a block's warps into roles, which run at the same time."""

    roles: tuple[Role, ...]


@attrs.frozen
class Micro:
    """Run a user's microkernel in every active thread.

    Args:
        name: for comments and errors.
        source: CUDA C++ statements; `views` bind as pointers named by role (`A`, `B`, `C`) to their first element, with
            `A_row`, `A_col` (and so on) element strides; bindings are integers (`M`, `N`, `K` of the residual spec).
        numpy: its meaning: numpy(A, B, C) on arrays of one unit -> new C; None if there is none, and simulating it is
        an error.
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
    id: int = attrs.field(default=0, eq=False, repr=False)


@attrs.frozen
class Region:
    """Group statements under the spec and level that they implement.

    Args:
        title: printed above the statements; nothing else reads it.
        body: the statements.
        path: the links of the schedule down to here.
        link: the last of these links.
        kind: what the statements implement.
        buffer: name of the buffer that a load, a store, a start value or a fold writes, or of the step whose product
            this is; "" for the other kinds.
        id: as in Call.
    """

    title: str
    body: tuple[Statement, ...]
    path: str = ""
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    kind: RegionKind = "spec"
    buffer: str = ""
    id: int = attrs.field(default=0, eq=False, repr=False)

    @property
    def place(self) -> tuple[str, str, str]:
        """Identify the region: its copies in a prologue and in a loop have the same place."""
        return self.path, self.kind, self.buffer


Statement: TypeAlias = (
    Let | FindGroup | Fetch | Vote | Draw | Leave | For | If | Call | Compute | Sync | CountIn | Raise | Lower | Commit
    | Wait | Micro | Region | InitBarriers | Await | Arrive | Advance | Fence | Prefetch | Ask | Turn | Roles
)  # fmt: skip


@attrs.frozen
class Kernel:
    """Hold a whole kernel.

    Args:
        name: entry point, with preset, tile and dtype in it.
        parameters: in launch order: pointers, tensor maps, sizes, numbers, workspaces.
        grid: number of blocks, an expression of symbols; of a persistent kernel the most that have work.
        threads: threads of a block.
        shared_nbytes: dynamic shared memory of a block.
        buffers: SH and RF buffers (GL ones are parameters).
        body: what every thread runs.
        minimum_blocks: blocks per SM that the register budget should allow (0: no promise).
        cluster: blocks of a cluster.
        persistent: whether the blocks loop over the work: at most as many are launched as run at once.
        barriers: mbarriers in shared memory.
        dependent: whether the launch before may still run when this one begins.
        elements: where the elements of its tiles lie; nothing that runs depends on it.
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
    cluster: int = 1
    persistent: bool = False
    barriers: tuple[Barrier, ...] = ()
    dependent: bool = False
    elements: tuple[Elements, ...] = attrs.field(default=(), eq=False, repr=False)


_AROUND = (For, If, Region)  # a tuple is made once, `For | If | Region` at each call


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Visit every statement, outer before inner, in program order."""
    pending = [*reversed(body)]
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, _AROUND):
            pending.extend(reversed(statement.body))
        elif isinstance(statement, Roles):
            for role in reversed(statement.roles):
                pending.extend(reversed(role.body))


Around: TypeAlias = "tuple[For | If | Region | Role, ...]"


def within(body: tuple[Statement, ...], around: Around = ()) -> Iterator[tuple[Statement, Around]]:
    """Visit every statement as `walk` does, each with the statements around it, outermost first."""
    for statement in body:
        yield statement, around
        if isinstance(statement, For | If | Region):
            yield from within(statement.body, (*around, statement))
        elif isinstance(statement, Roles):
            for role in statement.roles:
                yield from within(role.body, (*around, role))


__all__ = [
    "BLOCK",
    "BLOCKS",
    "RANK",
    "THREAD",
    "Advance",
    "Around",
    "Arrive",
    "Ask",
    "Await",
    "Barrier",
    "Binding",
    "Buffer",
    "Call",
    "Commit",
    "Compute",
    "CountIn",
    "Cursor",
    "Draw",
    "Fence",
    "Fetch",
    "FindGroup",
    "For",
    "Groups",
    "If",
    "InitBarriers",
    "Kernel",
    "Leave",
    "Let",
    "LoopKind",
    "Lower",
    "Micro",
    "Number",
    "Parameter",
    "Pointer",
    "Precondition",
    "Prefetch",
    "Raise",
    "Region",
    "RegionKind",
    "Role",
    "Roles",
    "Size",
    "Statement",
    "Sync",
    "TensorMap",
    "Turn",
    "View",
    "Wait",
    "Workspace",
    "walk",
    "within",
]
