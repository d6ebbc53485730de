"""Facts for all of lowering: of the whole kernel (`Context`), and of the current place in the tree (`State`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import attrs

from fireiron.algebra.arch import MAX_THREADS
from fireiron.algebra.expr import FALSE, Expr, Index, Substitution, Var, as_expr, free, simplest
from fireiron.algebra.layout import Layout
from fireiron.algebra.layout_compose import complement, compose
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import Access, Limit, Ownership, RegisterLoop, access
from fireiron.kernel.ir.names import unused
from fireiron.kernel.ir.statements import (
    BLOCK,
    THREAD,
    Barrier,
    Buffer,
    Cursor,
    Let,
    Precondition,
    Statement,
    TensorMap,
    View,
    Workspace,
)
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import Axis, Cut, Storage, Window, advance, line
from fireiron.kernel.passes.exchanges import Exchange, Sent
from fireiron.kernel.passes.handed import Handed
from fireiron.kernel.passes.pipeline import Pipe
from fireiron.kernel.passes.turns import Turns
from fireiron.language.decompositions import Split
from fireiron.language.levels import Block, Cluster, Kernel, Level
from fireiron.language.pointwise import Value
from fireiron.language.residual import Residual
from fireiron.language.specs import Spec

if TYPE_CHECKING:
    from fireiron.kernel.lower.ahead import Ahead
    from fireiron.kernel.lower.progress import Progress

MapKey: TypeAlias = tuple[str, tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]


@attrs.define(eq=False)
class Ring:
    """Hold the buffers and barriers of a specialised split, which the load role fills and the math role empties.

    Args:
        link: the split for which the ring was made.
        cursor: the variables for slot and parity; each role has its own values.
        full: the mbarrier that completes when a chunk has landed in its slot.
        empty: the mbarrier that completes when all readers of a slot are done, in every block that these loads write
            to.
        level: level of the units that read a slot. Example: Warpgroup.
        storages: the buffers, by operand.
        splits: the splits that use the ring, in sequence.
        last: the variables for the slot that the math role releases, where they are others than `cursor`.
    """

    link: Split
    cursor: Cursor
    full: Barrier
    empty: Barrier
    level: Level
    storages: dict[str, Storage]
    splits: list[Split]
    last: Cursor | None = None


@attrs.frozen
class Stream:
    """Say which of a tile's chunks of K a persistent unit computes in this trip (stream-K).

    Args:
        split: the split that makes the chunks.
        unit: this unit's number.
        first: number of the unit's first chunk.
        count: number of chunks that the unit computes.
        ends: whether the unit computes the tile's last chunk, and so adds the other units' partial sums and stores the
            tile.
        lowest: number of the unit that computes the tile's first chunk.
        size: blocks of a unit.
    """

    split: Split
    unit: Expr
    first: Expr
    count: Expr
    ends: Expr
    lowest: Expr
    size: int


@cache
def _thread(threads: int) -> Var:
    """Return the variable of a thread's index, from a cache: the same object each time."""
    return Var(THREAD, threads)


@attrs.define(eq=False)
class Context:
    """Collect facts about the whole kernel while it is lowered.

    Args:
        arch: the architecture's number; atoms that need a later one do not match.
        spec: the step that is lowered.
        threads: number of threads that compute. The outermost level inside the block determines it.
        loaders: number of threads of the role `load`.
        registers: registers of a thread of `load` and of `math`, 0 for as many as the launch gives.
        resident: number of blocks that an SM should hold at once; 0 for no limit.
        wanted: a larger number, for which registers may suffice; 0 for none.
        rings: the rings that the two roles share, one for each specialised split.
        signal: the mbarrier that counts the bytes of bulk loads, and its slot; None outside rings.
        cluster: number of blocks in a cluster. `ranks` maps a dimension to the number of blocks along it, and this
            block's index among these.
        persistent: whether blocks loop over tiles.
        draws: whether blocks take these tiles by an atomic counter.
        dependent: whether this kernel may begin before the previous launch has ended.
        staggered: number of units that take the trips of the persistent loop in turn, 1 for none.
        skipped: number of chunks of one tile in the loops lowered so far. For each tile of another unit, a staggered
            unit skips as many ring slots.
        owner: the level whose units each own a whole tile of C: Block, or the level of staggered units.
        maps: tensor maps by tensor, box, span and steps.
        prologue: statements that the role `math` executes once, before all others.
        busy: the condition under which a computing unit has work, None for always.
        zeroed: names of accumulators whose first product starts from 0, so that nothing initialises them.
        ways: number of blocks that share the K of each tile of C. `way` is this block's index among them; the block
            computes tile `tile` of `tiles`.
        joined: number of blocks in a cluster that share one tile's K (1 if none). Not included in `ways`.
        at_once: whether each fold uses one barrier for the warps of all these blocks.
        trip: number of trips of the persistent loop before this one.
        following: for a persistent unit, the condition that a next tile exists, and the next tile's values of the
            variables that name this tile's place. Example: (trip + 1 < trips, {tile: tile + units}).
        barriers: mbarriers that belong to no ring.
        pipes: the pipelines whose copies run ahead, by the names of their copies' regions.
        chunks: loops over chunks that later passes change: of splits with online(), skew() or an order, and of products
            whose steps compare indices. For each, by its variable: the split, and the links above it.
        turns: the loops that units execute in turn, None without any.
        handed: the workspaces through which units of the grid pass partial sums to the next unit.
        exchanges: buffers that blocks of a cluster read or write in each other's shared memory, with their mbarriers.
        once: for each operand that the role `load` loads once per tile: its buffer, the mbarrier, and the ring of a
            loop over tiles.
        workspaces: buffers in global memory that the kernel uses and no caller passes.
        storages: all buffers in shared memory and registers, by name.
        filled: names of registers that all threads have written, with zeros where a thread lacks points.
        temporaries: registers that hold values between two statements.
        lets: definitions at the kernel's start.
        preconditions: conditions on the sizes of a call.
        numbers: scalar parameters, with their element types.
        meanings: a cached substitution by `definitions`, and the dictionary that it was made from.
        stream: with stream-K, the chunks that this unit computes, else None; `seats` is the number of blocks.
    """

    arch: int
    spec: Spec
    threads: int | None = None
    grid: Expr = attrs.field(factory=lambda: as_expr(1))
    ways: Index = 1
    way: Expr = attrs.field(factory=lambda: as_expr(0))
    tiles: Index = 1
    tile: Expr = attrs.field(factory=lambda: as_expr(0))
    joined: int = 1
    at_once: bool = False
    trip: Expr = attrs.field(factory=lambda: as_expr(0))
    following: tuple[Expr, dict[Var, Expr]] | None = None
    barriers: list[Barrier] = attrs.field(factory=list[Barrier])
    pipes: dict[str, Pipe] = attrs.field(factory=dict[str, Pipe])
    chunks: dict[Var, tuple[Split, str]] = attrs.field(factory=dict[Var, tuple[Split, str]])
    turns: Turns | None = None
    handed: list[Handed] = attrs.field(factory=list[Handed])
    exchanges: list[Exchange | Sent] = attrs.field(factory=list[Exchange | Sent])
    once: dict[str, tuple[Storage, Barrier, Cursor | None]] = attrs.field(
        factory=dict[str, "tuple[Storage, Barrier, Cursor | None]"]
    )
    resident: int = 0
    wanted: int = 0
    storages: dict[str, Storage] = attrs.field(factory=dict[str, Storage])
    names: set[str] = attrs.field(factory=set[str])
    filled: set[str] = attrs.field(factory=set[str])
    definitions: dict[Var, Expr] = attrs.field(factory=dict[Var, Expr])
    meanings: tuple[dict[Var, Expr], Substitution] = attrs.field(factory=lambda: ({}, Substitution()))
    lets: list[Let] = attrs.field(factory=list[Let])
    workspaces: list[Workspace] = attrs.field(factory=list[Workspace])
    stream: Stream | None = None
    seats: Index = 1
    temporaries: list[Buffer] = attrs.field(factory=list[Buffer])
    preconditions: list[Precondition] = attrs.field(factory=list[Precondition])
    numbers: dict[str, object] = attrs.field(factory=dict[str, object])
    loaders: int = 0
    registers: tuple[int, int] = (0, 0)
    rings: list[Ring] = attrs.field(factory=list["Ring"])
    signal: tuple[Barrier, Expr] | None = None
    cluster: int = 1
    ranks: dict[str, tuple[int, Expr]] = attrs.field(factory=dict[str, tuple[int, Expr]])
    persistent: bool = False
    draws: bool = False
    dependent: bool = False
    staggered: int = 1
    skipped: Expr = attrs.field(factory=lambda: as_expr(0))
    owner: Level = Block
    prologue: list[Statement] = attrs.field(factory=list[Statement])
    busy: Expr | None = None
    zeroed: set[str] = attrs.field(factory=set[str])
    maps: dict[MapKey, TensorMap] = attrs.field(factory=dict["MapKey", TensorMap])

    def name(self, wanted: str) -> str:
        """Make a C identifier that is unique in the kernel."""
        return unused(wanted, self.names)

    @contextmanager
    def role(self, names: Collection[str]) -> Generator[None]:
        """Make names for another role's code, where only the given names are taken: each role is a separate C scope."""
        taken, shared = self.names, {*self.storages, *(v.name for v in self.definitions)}
        shared |= {name for r in self.rings for name in (r.full.name, r.empty.name, r.cursor.name)}
        self.names = {*names, *shared, *(b.name for b in self.barriers)}
        yield
        self.names = {*taken, *(v.name for v in self.definitions)}

    def variable(self, wanted: str, extent: Index) -> Var:
        """Make a variable with a new name."""
        return Var(self.name(wanted), simplest(extent))

    @property
    def thread(self) -> Var:
        """Return the variable of a thread's index in its block."""
        assert self.threads is not None
        return _thread(self.threads)

    def define(self, wanted: str, value: Expr, extent: Index) -> Expr:
        """Define a name for an index expression of thread and block at the kernel's start; return the variable.

        Short expressions, and those that depend on loops, are returned as they are.
        """
        if isinstance(value, Var) or value.range[1] == 0:
            return value
        expanded = self.expanded(value)
        if any(v.name not in (THREAD, BLOCK) for v in free(expanded) if isinstance(v, Var)):
            return value
        for var, known in self.definitions.items():
            # A range that holds for the busy units of one tile may not hold for those of another tile.
            if known == expanded and var == Var(var.name, simplest(extent)):
                return var
        var = self.variable(wanted, extent)
        self.definitions[var] = expanded
        self._meanings().add(var, expanded)
        self.lets.append(Let(var, value))
        return var

    def expanded(self, e: Expr) -> Expr:
        """Replace names of index expressions by the expressions."""
        return self._meanings()(e) if self.definitions else e

    def _meanings(self) -> Substitution:
        """Return the definitions of names, in which earlier names are already replaced."""
        of, put = self.meanings
        if of is not self.definitions:
            put = Substitution()
            for var, meaning in self.definitions.items():
                put.add(var, meaning)
            self.meanings = self.definitions, put
        return put


@attrs.define(eq=False)
class Layered:
    """Describe a loop over layers whose pipeline continues from layer to layer: chunks are numbered over all layers.

    Args:
        var: the layer's number.
        trips: number of layers.
        before: statements before the loop that fill the pipelines' first slots.
    """

    var: Var
    trips: int
    before: list[Statement] = attrs.field(factory=list[Statement])


@attrs.frozen(slots=False)
class State:
    """Hold the current place in the tree: the results of the links above it.

    Args:
        residual: the spec that the links below decompose.
        windows: the window of each operand, by role.
        position: this thread's index in its unit, which has `width` threads (None above Block).
        loops: the enclosing loops, outermost first.
        guards: conditions that hold at this place. Example: `warp < 3`, where 3 tiles go to 4 warps.
        begun: the condition that an earlier chunk of K has been accumulated.
        reach: for grouped products, the axis of the dimension whose extent differs from group to group.
        ring: number of slots of the buffers loaded directly below, and the slot of this trip.
        whole: for each operand with a pending prolog, its window in the original tensor.
        output: the window of C that the accumulators at this place hold.
        ops: the expression of an element that the Move being lowered stores, None for the element itself.
        products: the roles (A, B, C) of the products that one loop over K computes. Example: (("A0", "B0", "C0"),).
        accumulated: the roles of sums to which an earlier loop over K has added.
        loop: the index of this loop over K, and the number of such loops of one tile.
        around: the loop over layers around this place, across which a pipeline below continues.
        number: the layer's number, where one loop computes a stack of layers.
        progress: for a program, the steps that are lowered below this place; None for other specs.
        path: the links above, in words, for errors.
        link: the last of the links above.
        ahead: the loop over tiles around this place whose loads to shared memory run ahead, None where none do.
    """

    residual: Residual
    windows: dict[str, Window]
    position: Expr | None = None
    width: int | None = None
    loops: tuple[RegisterLoop, ...] = ()
    guards: tuple[Expr, ...] = ()
    begun: Expr = FALSE
    reach: Axis | None = None
    ring: tuple[int, Expr] | None = None
    whole: dict[str, Window] = attrs.field(factory=dict[str, Window])
    output: Window | None = None
    ops: Value | None = None
    products: tuple[tuple[str, str, str], ...] = (("A", "B", "C"),)
    accumulated: frozenset[str] = frozenset()
    loop: tuple[int, int] = (0, 1)
    around: Layered | None = None
    number: Expr | None = None
    progress: Progress | None = None
    path: str = ""
    link: Link | None = None
    ahead: Ahead | None = None

    @property
    def level(self) -> Level:
        """Return the level whose unit executes the residual."""
        return self.residual.level

    def with_window(self, role: str, window: Window) -> State:
        """Replace one operand's window."""
        return self.with_windows({role: window})

    def with_windows(self, windows: Mapping[str, Window]) -> State:
        """Replace windows of operands."""
        return evolve(self, windows={**self.windows, **windows})

    def under(self, words: str, link: Link | None) -> State:
        """Add a link to the path, for errors."""
        return evolve(self, path=f"{self.path} > {words}" if self.path else words, link=link)


def descend(state: State, parts: dict[str, Cut], tiles: dict[str, Expr], level: Level | None = None) -> State:
    """Return the state inside the tile with these numbers along the cut dimensions."""

    def advanced(windows: dict[str, Window]) -> dict[str, Window]:
        found = dict(windows)
        for role, window in windows.items():
            if any([axis.dim in parts for axis in window.axes]):
                axes = [advance(a, parts[a.dim], tiles[a.dim]) if a.dim in parts else a for a in window.axes]
                found[role] = evolve(window, axes=tuple(axes))
        return found

    reach = state.reach
    if reach is not None and reach.dim in parts:
        reach = advance(reach, parts[reach.dim], tiles[reach.dim])
    sizes = tuple((dim, parts[dim].size if dim in parts else extent) for dim, extent in state.residual.sizes)
    residual = evolve(state.residual, sizes=sizes, level=level or state.level)
    return evolve(state, windows=advanced(state.windows), whole=advanced(state.whole), residual=residual, reach=reach)


Body: TypeAlias = tuple[Statement, ...]
# Lowers the rest of a chain. Each decomposition gets this function and puts its own code around the result.
Recur: TypeAlias = Callable[[Tree, State, Context], Body]


@attrs.frozen
class Units:
    """Describe the units of an inner level in an outer unit, and this thread's place among them.

    Args:
        count: number of units that take part.
        present: number of units that exist; units from `count` on are idle.
        index: number of this thread's unit.
        position: this thread's index in its unit.
        width: number of threads of a unit.
    """

    count: int
    present: int
    index: Expr
    position: Expr
    width: int


def units_of(level: Level, state: State, context: Context, tiles: int, cap: int | None) -> Units:
    """Divide the executing unit into units of an inner level.

    Raises:
        DecompositionError: `level-nests`, `too-many-threads`.
    """
    if level.size is None:
        raise DecompositionError(
            "level-nests", f"cannot map tiles to {level} inside a {state.level}", fix="map to a level inside the block"
        )
    if state.level in (Block, Cluster, Kernel) and context.threads is None:
        count = tiles if cap is None else min(tiles, cap)
        context.threads = count * level.size
        if context.threads > MAX_THREADS:
            raise DecompositionError(
                "too-many-threads",
                f"{count} units of {level} are {context.threads} threads a block, above {MAX_THREADS}",
                fix="use larger tiles, or cap them by to(level, units=n)",
            )
    if state.position is None or state.width is None:
        assert context.threads is not None
        state = evolve(state, position=context.thread, width=context.threads)
    position, width = state.position, state.width
    assert position is not None and width is not None
    if state.level.name == level.name:
        return Units(1, 1, as_expr(0), position, width)
    if width % level.size:
        raise DecompositionError(
            "level-nests",
            f"{width} threads of this {state.level} are no whole number of units of {level} ({level.size} threads)",
            fix=f"give the block a multiple of {level.size} threads",
        )
    inside = _layout(level)
    if inside.cosize != level.size and level.parent is not None and width % (level.parent.size or 1):
        raise DecompositionError(
            "level-nests",
            f"{width} threads of this {state.level} hold no whole {level}: "
            f"its threads lie {inside} in a {level.parent}",
            fix=f"map tiles to {level.parent} first",
        )
    outside = _outside(level, width)
    present = width // level.size
    count = present if cap is None else min(cap, present)
    return Units(count, present, _digits(position, outside), _digits(position, inside), level.size)


def unit_index(level: Level, context: Context) -> Expr:
    """Return the index of this thread's unit of a level among all such units of the block."""
    return _digits(context.thread, _outside(level, context.threads or 1))


@lru_cache(4096)
def _outside(level: Level, width: int) -> Layout:
    """Return a layout: unit of a level -> its first thread, for units in a group of `width` threads."""
    return complement(_layout(level), width)


@lru_cache(4096)
def _layout(level: Level) -> Layout:
    """Return a layout: thread of a unit -> its position inside an enclosing level."""
    if level.size == 1 or level.parent is None or level.threads is None:
        return Layout(1, 0)
    parent = level.parent
    if parent.threads is None or parent.size is None:
        return level.threads
    outer = _layout(parent)
    return level.threads if outer == Layout(parent.size, 1) else compose(outer, level.threads)


def _digits(position: Expr, layout: Layout) -> Expr:
    """Compute the index along each mode of a layout from a position."""
    total, weight = as_expr(0), 1
    for extent, stride in layout.leaves:
        if extent == 1:
            continue
        total = total + (position // stride) % extent * weight
        weight = weight * int(extent)  # pyright: ignore[reportArgumentType]
    return total


def register_access(window: Window, state: State) -> Access:
    """Describe the elements of a register tensor that a window touches at this place."""
    layouts = tuple(a.layout for a in window.axes)
    limits = tuple(
        Limit(
            i,
            b.offset,
            layouts[i] if b.steps is None and layouts[i].size == 1 else b.steps or line(layouts[i].size, 1),
            b.limit,
        )
        for i, a in enumerate(window.axes)
        for b in a.bounds
        if not b.lower
    )
    return access(window.origin, layouts, state.loops, window.storage.name, limits, state.guards)


def _expanded(context: Context, written: Access) -> Access:
    """Replace names in an access, so that it depends only on the thread and loop variables."""
    return evolve(
        written,
        coordinates=tuple(context.expanded(c) for c in written.coordinates),
        limits=tuple(evolve(x, offset=context.expanded(x.offset)) for x in written.limits),
        guards=tuple(context.expanded(g) for g in written.guards),
    )


MOST_HELD = 1 << 16  # most elements of a register tensor in one thread: single bits in all registers


def register_view(context: Context, window: Window, state: State, user: str, opaque: str = "") -> View:
    """Find the registers of a window. A tensor's first use defines its ownership; later uses are resolved against it.

    Args:
        context: the kernel's facts.
        window: the elements.
        state: the lowering state.
        user: name of the atom or link that uses the window, for messages.
        opaque: the opaque fragment that the user expects, if any.

    Raises:
        DecompositionError: `ownership-conflict`, `opaque-fragment`, `register-elements`.
    """
    storage = window.storage
    written = register_access(window, state)
    held = prod(written.extents) * written.count
    if held > MOST_HELD:
        raise DecompositionError(
            "register-elements",
            f"{user} takes {held} elements of {storage.name} in each thread, which has 255 registers",
            fix="use smaller tiles or shorter chunks, or more threads",
        ).located(state.link, state.path)
    wanted = _expanded(context, written)
    if storage.ownership is None:
        storage.ownership = Ownership(wanted, written, context.threads or 1, user, opaque, state.link)
        storage.size = as_expr(storage.ownership.size)
    try:
        storage.ownership.agree(opaque, storage.name, user)
        offset, steps = storage.ownership.resolve(wanted, storage.name, user)
    except DecompositionError as error:
        raise error.located(state.link, state.path) from None
    if storage.slots > 1 and window.slot is not None:
        offset = (window.slot % storage.slots) * storage.size + offset
    return View(buffer_of(storage), offset, steps, window.slot, window.origin)


def buffer_of(storage: Storage) -> Buffer:
    """Make the `Buffer` of a storage; allocation sets the offset in shared memory later."""
    return Buffer(
        storage.name, storage.memory, storage.dtype, storage.size, storage.slots, storage.unit,
        guarded=storage.guarded, follows=storage.follows, start=storage.start,
    )  # fmt: skip


def memory_view(window: Window) -> View:
    """Address a window's elements in shared or global memory.

    Raises:
        DecompositionError: `irregular-steps` where the distances of elements depend on run-time coordinates.
    """
    storage = window.storage
    steps = elements(window)
    offset = window.linear()
    if storage.swizzle is not None:
        count = steps.size
        swizzled = storage.swizzle(offset)
        if count > 1 and (count > storage.swizzle.contiguous or offset.divisor % count):
            raise DecompositionError(
                "irregular-steps",
                f"{count} elements of {storage.name} are not together under {storage.swizzle}",
                fix=f"access at most {storage.swizzle.contiguous} aligned elements at once",
            )
        offset = as_expr(swizzled)
    return View(buffer_of(storage), window.base() + offset, steps, window.slot, window.origin)


def elements(window: Window) -> Layout:
    """Return the steps (in elements) of a window's whole tile, a mode for each dimension, first dimension fastest."""
    leaves: list[tuple[Index, Index]] = []
    for i, axis in enumerate(window.axes):
        layout = window.steps_along(i)
        if layout is None:
            raise DecompositionError(
                "irregular-steps",
                f"the {axis.size} elements along {axis.dim} of {window.storage.name} have irregular steps",
                fix="use smaller tiles, or a plain row- or column-major storage",
            )
        leaves += [leaf for leaf in layout.leaves if leaf[0] != 1]
    if not leaves:
        return line(1, 0)
    if len(leaves) == 1:
        return line(*leaves[0])
    return Layout(tuple(e for e, _ in leaves), tuple(s for _, s in leaves))
