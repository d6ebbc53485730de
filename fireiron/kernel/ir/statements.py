"""Kernel IR: one statement language between schedules and their backends.

Statements say everything explicitly: the element of each access, its condition, and each barrier. `cuda/` prints
statements and `simulate/` executes them; neither makes decisions.
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
    """Set the variable `var` to the value of an index expression, for the statements that follow."""

    var: Var
    value: Expr


@attrs.frozen
class FindGroup:
    """Find the group that has a work item, and set the variables of `groups`.

    Items must be searched in ascending order; a search continues from the last group. Where no group has the item,
    `groups.found` is false.

    Args:
        groups: the variables that are set, and the number of work items of each tile of rows.
        ends: first element of an i32 array with the end row of each group; a group whose end is below the previous one
            is empty.
        item: number of the item.
    """

    groups: Groups
    ends: View
    item: Expr


@attrs.frozen
class Fetch:
    """Set a variable to an element of an integer array in global memory; the variable indexes other arrays.

    Args:
        var: the variable. The simulator and debug builds check 0 <= element < the variable's extent. A variable with a
            negative lower bound is used only in comparisons; its value is the element clamped to its bounds.
        view: the element.
        present: where false, no element is read and the variable is 0.
    """

    var: Var
    view: View
    present: Expr
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


# What a vote finds: whether any lane's flag is set; the number of lanes whose flag is set; the first of these lanes.
Found: TypeAlias = Literal["any", "count", "first"]


@attrs.frozen
class Vote:
    """Set a variable in all lanes of each warp by the flags of the warp's lanes.

    Args:
        var: 1 in warps where some lane's flag is set, else 0; or what `found` names.
        flag: a 32-bit register; the flag is set where it is not 0.
        present: a condition with one value for all lanes of a warp; where false, there is no vote and the variable is
            1.
        found: `any`; `count`: the number of lanes whose flag is set; `first`: the number of the first such lane, 32 if
            no flag is set.
    """

    var: Var
    flag: View
    present: Expr
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    found: Found = "any"

    @property
    def taken(self) -> int:
        """Return the variable's value in a warp where all flags are set."""
        return {"any": 1, "count": 32, "first": 0}[self.found]

    @property
    def refused(self) -> int:
        """Return the variable's value in a warp where no flag is set."""
        return 32 if self.found == "first" else 0


# What a loop counts: the work items of a persistent unit; the tiles of a unit; the chunks of a split; the layers of a
# stack; the partial sums of units; the slots of a ring; the elements of a tile, or vectors of them.
LoopKind: TypeAlias = Literal["items", "turns", "tiles", "chunks", "layers", "sums", "slots", "elements"]

# What a region implements: a residual spec, a load, a store, an initial value, a fold, pointwise ops, a product, or the
# copies that fill a ring for another role. In a pipeline: `first` fills the first slots, `start` and `finish` start and
# finish the copies of a chunk.
RegionKind: TypeAlias = Literal[
    "spec", "load", "store", "init", "fold", "compute", "product", "fill", "first", "start", "finish"
]


@attrs.frozen
class Draw:
    """Set a variable to the next work item that no unit has taken, by an atomic counter in global memory.

    A unit's first item is the unit's number. One thread of the unit draws each later item and writes it to shared
    memory, where the unit's other threads read it.

    Args:
        var: the item; `items` or more where none is left.
        trip: number of the trip of the surrounding loop.
        first: the item of the first trip.
        units: number of units that draw, which is also the first drawn item.
        items: number of items. The last draw of a launch sets the counter back to 0.
        counter: one i32 in global memory.
        place: the element of shared memory for the item.
        reads: whether this thread reads an item that another thread has drawn.
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
        """Return the item that the unit would have if all units drew equally often: first + trip * units."""
        return self.first + self.trip * self.units


@attrs.frozen
class Leave:
    """End the surrounding loop where a condition holds. The condition has one value for all threads of the loop."""

    condition: Expr


@attrs.frozen
class For:
    """Repeat the body for var = 0 .. extent-1 (extent is block-uniform).

    Args:
        kind: what the loop counts.
        drawn: whether a `Leave` ends the loop after a number of trips that is known only at run time; `extent` is the
            number of trips if all units draw equally often.
        unroll: whether the loop is unrolled completely.
        together: number of trips in one trip of the compiled loop (partial unrolling).
        pairs: whether one instruction computes two trips (packed 16-bit arithmetic).
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
    """Bind a name in the text of a microkernel or an atom to the value of an index expression."""

    name: str
    value: Expr


@attrs.frozen
class Call:
    """Execute an atom.

    Args:
        atom: the instruction.
        views: one for each operand, in the atom's order (A, B, C or src, dst).
        read: where false, a Move's destination receives zeros and the source is not touched (None: always true).
        write: where false, nothing is written (None: always true). `write` false wins over `read`.
        lane: the source lane of a Shuffle, 0 <= lane < 32, as an expression of `thread`; None for other atoms.
        accumulate: where false, a MatMul takes zero for C's old value (None: always true).
        map: the tensor map of a bulk copy's GL view; the view's `origin` gives the box's coordinates.
        signal: the mbarrier that counts the bytes of a bulk copy as they land, and its slot.
        peers: for a multicast bulk copy, a mask with a bit for each block of the cluster that the copy writes to, at
            the same offset and with the same mbarrier in each; None for this block only.
        bindings: further index values that the atom's text names.
        id: a number that is unique in the kernel; 0 before lowering ends.
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
        """Return the number of blocks that a bulk copy writes to; each block also receives from as many blocks."""
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

    After the barrier, the threads see each other's earlier writes to shared memory. A `relaxed` barrier (between blocks
    of a cluster) does not make writes visible; it only orders the initialisation of mbarriers, which a fence has
    published.
    `reason`: the accesses that it orders, in words.
    """

    level: Level
    reason: str
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    relaxed: bool = False


@attrs.frozen
class CountIn:
    """Increment a counter in global memory, by one thread of a unit; `var` tells all its threads if the unit was last.

    The last unit sets the counter back to 0. Memory accesses of a unit's threads before the preceding barrier are
    visible to units that increment the counter later with an acquire (device scope).

    Args:
        var: 1 in the last of `count` units, 0 in the others.
        counter: one i32.
        count: number of units that increment the counter.
        order: memory order of the atomic: release, acquire, or both.
        level: level of the units: Block (in a role, the role's threads), or a level inside the block.
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
    """Set a flag in global memory, by one thread of each unit; it releases all accesses before the preceding barrier.

    Args:
        flag: one i32, which is 0 before.
        level: level of the units.
    """

    flag: View
    level: Level = Block
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Lower:
    """Wait, by one thread of each unit, until a flag is set (acquire), and clear it; then all threads continue.

    Args:
        flag: one i32, which one unit sets and one unit clears in each launch.
        level: level of the units.
    """

    flag: View
    level: Level = Block
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Meet:
    """Increment a counter in global memory, by one thread of each unit, and wait until all units have done so.

    Memory accesses of a unit's threads before the preceding barrier are then visible to the threads of all units
    (device scope). The counter is 0 again when the last unit continues. All blocks of the launch must run at once, so
    that no block waits for one that has not started.

    Args:
        counter: one i32.
        count: number of units that meet.
        level: level of the units: Block (in a role, the role's threads), or a level inside the block.
    """

    counter: View
    count: Expr
    level: Level = Block
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    id: int = attrs.field(default=0, eq=False, repr=False)


@attrs.frozen
class Commit:
    """Close a thread's group of asynchronous atoms; a group may be empty, and counts too."""

    group: str


@attrs.frozen
class Wait:
    """Wait until only the newest `pending` of a thread's groups are in flight; the others' results are then visible.

    `reads_only`: wait only until the groups have read their sources. `holds`: registers that the compiler must not copy
    before the wait.
    """

    group: str
    pending: int
    reads_only: bool = False
    holds: Buffer | None = None


@attrs.frozen
class InitBarriers:
    """Initialise mbarriers, by one thread of the block. A barrier of the block or cluster must follow."""

    barriers: tuple[Barrier, ...]


@attrs.frozen
class Await:
    """Wait, in every active thread, until the phase with this parity of a barrier's slot is complete.

    Args:
        barrier: the mbarriers.
        slot: slot of the ring.
        parity: parity of the phase.
        wide: whether the waiting threads then see shared-memory writes that other blocks of the cluster made before
            they arrived.
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
        slot: slot of the ring.
        nbytes: bytes that must also land before the phase completes (expect_tx); 0 for none.
        peer: rank of the block in the cluster whose barrier gets the arrival; None for this block's barrier.
        wide: whether threads of other blocks that wait then see this thread's earlier writes to shared memory.
    """

    barrier: Barrier
    slot: Expr
    nbytes: int = 0
    peer: Expr | None = None
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    wide: bool = False


@attrs.frozen
class Advance:
    """Advance a cursor by a number of slots."""

    cursor: Cursor
    by: Expr


@attrs.frozen
class Fence:
    """Order memory accesses of the threads that execute it.

    Args:
        kind: `proxy.async`: ordinary accesses come before asynchronous ones (bulk copies, wgmma). `registers`: writes
            of registers come before asynchronous products that use them. `barrier.init`: initialisation of mbarriers
            comes before their use by other threads. `grid.wait`: these threads access global memory only after the end
            of the previous launch. `grid.launch` orders nothing: it lets the next launch begin, which must wait by
            `grid.wait`.
        reason: the accesses that it orders, in words.
    """

    kind: Literal["proxy.async", "registers", "barrier.init", "grid.wait", "grid.launch"]
    reason: str = ""


@attrs.frozen
class Prefetch:
    """Prefetch tensor maps, by the block's first thread: a bulk copy begins by reading its tensor map."""

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
        reason: the accesses that it orders, in words.
    """

    number: int
    threads: int
    waits: bool
    reason: str


LOADS = "load"  # the name of the role that fills rings


@attrs.frozen
class Role:
    """Hold some warps of a block and their code; in the code, `thread` counts from the role's first thread.

    Args:
        name: `load` or `math`.
        first: number of the role's first thread in the block.
        threads: number of the role's threads.
        registers: registers of a thread (setmaxnreg), 0 for as many as the launch gives.
        cursors: cursors of the rings whose slots the role fills or reads.
        body: the statements of the role's threads.
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
        name: the name in comments and errors.
        source: CUDA C++ statements. `A`, `B`, `C` are pointers to the views' first elements, `A_row`, `A_col` (and so
            on) their strides in elements; bindings are integers (`M`, `N`, `K` of the residual spec).
        numpy: the same computation: numpy(A, B, C) on arrays of one unit -> new C; None: the simulator refuses it.
        roles: names of the views.
        views: the operands' first elements; a view's `layout` is ((rows), (columns)) with strides in elements.
        written: roles of the views that the microkernel writes.
        level: the level whose unit executes the microkernel.
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
        title: comment above the statements, without another use.
        body: the statements.
        path: the links of the schedule down to here.
        link: the last of these links.
        kind: the purpose of the statements, such as `start` for copies that a pipeline starts.
        buffer: name of the buffer that a load, a store, a start value or a fold writes, or of the step whose product
            this is; "" for the other kinds.
        id: a number that is unique in the kernel; 0 before lowering ends.
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
        """Return a key of the region; copies of the region in a prologue and in a loop have the same key."""
        return self.path, self.kind, self.buffer


Statement: TypeAlias = (
    Let | FindGroup | Fetch | Vote | Draw | Leave | For | If | Call | Compute | Sync | CountIn | Meet | Raise | Lower
    | Commit | Wait | Micro | Region | InitBarriers | Await | Arrive | Advance | Fence | Prefetch | Ask | Turn | Roles
)  # fmt: skip


@attrs.frozen
class Kernel:
    """Hold a whole kernel.

    Args:
        name: name of the entry point, with the preset, the tile and the element types. Example:
            gemm_128x128x64_f16_f32.
        parameters: in launch order: pointers, tensor maps, sizes, numbers, workspaces.
        grid: number of blocks, an expression of symbols; of a persistent kernel the most that have work.
        threads: threads of a block.
        shared_nbytes: dynamic shared memory of a block.
        buffers: SH and RF buffers (GL buffers are parameters).
        body: the statements of every thread.
        preconditions: conditions on the sizes of a call.
        minimum_blocks: number of blocks that an SM should hold at once; it limits the registers of a thread. 0: no
            limit.
        wanted_blocks: a larger number, which the compiler aims at while registers do not spill; 0 for none.
        cluster: blocks of a cluster.
        persistent: whether blocks loop over work items; then no more blocks are launched than run at once.
        barriers: mbarriers in shared memory.
        dependent: whether the kernel may start before the previous launch has ended.
        elements: the places of the elements of each tile, for pictures and the simulator's messages.
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
    wanted_blocks: int = 0

    @property
    def cooperative(self) -> bool:
        """Say whether all blocks run at once, because blocks wait for each other."""
        return any(isinstance(s, Meet) for s in walk(self.body))


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
    """Visit every statement in the order of `walk`, each with the statements around it, outermost first."""
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
    "Meet",
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
