"""Steps: a schedule's links, each with the specs before and after it, and with the path that kernel regions have."""

from __future__ import annotations

from math import prod

import attrs

from fireiron.algebra.expr import Index, ceil_div, simplest
from fireiron.algebra.layout import Layout
from fireiron.language.decompositions import (
    Chunks,
    Decomposition,
    Done,
    Each,
    EachStep,
    Epilog,
    Extent,
    Load,
    Own,
    Prolog,
    Results,
    Split,
    Tile,
    Widest,
)
from fireiron.language.levels import SH, Block
from fireiron.language.residual import Operand, Residual, apply, layer_of, move_of, result_of, store_of
from fireiron.language.tensor import ColMajor, Order, RowMajor
from fireiron.show.scheduled import Scheduled, origin_of, path_of, trail_of


@attrs.frozen
class Step:
    """Hold one link with the specs before and after it.

    Args:
        link: the decomposition.
        before: the spec that the link decomposes.
        after: the spec that remains.
        path: the links down to this one, as the kernel's regions write them.
        slots: number of ring slots of a load's buffer.
        threads: threads of a block; None above the tile that decides their number.
        order: storage order of a load's operand in its source; None in registers.
    """

    link: Decomposition
    before: Residual
    after: Residual
    path: str
    slots: int = 1
    threads: int | None = None
    order: Order | None = None

    @property
    def cuts(self) -> tuple[tuple[str, Index], ...]:
        """Return the number of tiles or chunks along each dimension that the link cuts."""
        match self.link:
            case Tile(sizes=Widest()):
                return ()
            case Tile(sizes=tuple(sizes)):
                named = dict(sizes)
            case Split(size, ways=ways):
                extents = self.before.extents
                first = (self.link.dim, ways if ways is not None else tiles(size, extents[self.link.dim]))
                return (first, *((dim, tiles(chunk, extents[dim])) for dim, chunk in self.link.further))
            case _:
                return ()
        return tuple((dim, tiles(named[dim], extent)) for dim, extent in self.before.sizes if dim in named)

    @property
    def trips(self) -> Index:
        """Return how often loops or units execute the spec after the link, for each execution of the spec before."""
        return product(tuple(n for _, n in self.cuts))

    @property
    def units(self) -> int | None:
        """Return the number of units that share the tiles of one unit of the level above; None if unknown."""
        if not isinstance(self.link, Tile | Split) or self.link.level is None or self.link.level.size is None:
            return None
        outer = self.before.level.size or self.threads
        count = None if outer is None else max(1, outer // self.link.level.size)
        cap = self.link.units if isinstance(self.link, Tile) else None
        return count if count is None or cap is None else min(count, cap)


@attrs.frozen
class Nested:
    """Hold the nested spec of a load, a store, a layer or a step, with the steps that execute it."""

    origin: Residual
    steps: tuple[Step, ...]
    path: str


def product(factors: tuple[Index | None, ...]) -> Index:
    """Multiply extents; unknown extents count as 1."""
    total: Index = 1
    for factor in factors:
        total = total * (1 if factor is None else factor)
    return total if isinstance(total, int) else simplest(total)


def tiles(size: Extent | Index, extent: Index | None) -> Index:
    """Return the number of tiles of one dimension, including a partial last one.

    Example:
        >>> tiles(8, 258), tiles(Chunks(4, 32), 128)
        (33, 8)
    """
    if extent is None:
        return 1
    if isinstance(size, Chunks):
        return size.stride // size.chunk
    count = size.size if isinstance(size, Layout) else size
    if isinstance(extent, int) and isinstance(count, int):
        return -(-extent // count)
    return simplest(ceil_div(extent, count))


def steps(schedule: Scheduled) -> tuple[Step, ...]:
    """List the steps of a schedule, outermost first."""
    return chain(origin_of(schedule), schedule.links, root(schedule))


def root(schedule: Scheduled) -> str:
    """Return the path of a schedule's first spec."""
    return path_of(schedule) or f"{origin_of(schedule).short} @ {origin_of(schedule).level}"


def left(schedule: Scheduled) -> Residual:
    """Return the spec that remains of a schedule."""
    return trail_of(schedule)[-1] if trail_of(schedule) else origin_of(schedule)


def chain(
    origin: Residual, links: tuple[Decomposition, ...], path: str, threads: int | None = None
) -> tuple[Step, ...]:
    """List the steps of a chain that starts at `origin`.

    Loads directly below a pipelined split have the same path, and its number of ring slots.
    """
    found: list[Step] = []
    before, slots, above, pipelined = origin, 1, path, False
    orders = {o.role: _order(o) for o in origin.operands}
    for link in links:
        after = apply(link, before)
        within = path
        if isinstance(link, Load):
            within = above if pipelined else path
        else:
            slots = max(1, link.stages) if isinstance(link, Split | Tile) else 1
            pipelined = isinstance(link, Split) and slots > 1
        step = Step(link, before, after, f"{within} > {_word(link)}", slots if isinstance(link, Load) else 1)
        if threads is None and isinstance(link, Tile | Split):
            threads = _threads(link, step.trips)
        order = orders.get(link.role) if isinstance(link, Load) else None
        if isinstance(link, Load):
            order = order or orders.get("dst")
            orders[link.role] = None if link.memory.registers else _stored(link, order)
        found.append(attrs.evolve(step, threads=threads, order=order))
        path = f"{path} > {_word(link)}"
        above = path if isinstance(link, Split) else above
        before = after
    return tuple(found)


def nested(step: Step) -> Nested | None:
    """Return the Move of a load, or the Move that stores an epilog's accumulator."""
    match step.link:
        case Load(role, memory, links, dtype=dtype):
            source = step.before.operand(role)
            if source is None:  # a step's result, which threads put there
                return None
            origin, path = move_of(step.before, role, memory, dtype or source.dtype), step.path
        case Epilog(memory=memory, store=links, moved=dtype):
            number = len(step.link.outputs) if step.before.sums else 0
            origin, path = store_of(step.before, memory, dtype, number=number), f"{step.path} > store"
        case Each(store=links):
            origin, path = result_of(step.before), f"{step.path.rpartition(' > ')[0]} > store"
        case _:
            return None
    return Nested(origin, chain(origin, links, path, step.threads), path)


def stores(step: Step) -> tuple[tuple[str, Nested], ...]:
    """Return, by name, the Moves that store other outputs than C: those of an epilog or of a program."""
    found: list[tuple[str, Residual, tuple[Decomposition, ...]]] = []
    match step.link:
        case Epilog(memory=memory, outputs=outputs):
            for i, one in enumerate(outputs):
                to, number = (None, i) if step.before.sums else (one.tensor, 0)
                moved = store_of(step.before, memory, one.value.dtype, to, number)
                found.append((one.tensor.name, moved, one.store))
        case Results(memory=memory, stores=pairs):
            for name, links in pairs:
                out = step.before.operand(name)
                assert out is not None
                moved = move_of(step.before, name, out.memory, out.dtype)
                src, dst = moved.operands
                found.append((name, attrs.evolve(moved, operands=(attrs.evolve(src, memory=memory), dst)), links))
        case _:
            pass
    paths = [f"{step.path} > store {name}" for name, _, _ in found]
    return tuple(
        (name, Nested(origin, chain(origin, links, path, step.threads), path))
        for path, (name, origin, links) in zip(paths, found, strict=True)
        if links
    )


def layers(step: Step) -> tuple[Nested, ...]:
    """Return the MatMuls of an `each` link, with the steps that execute them."""
    if isinstance(step.link, EachStep):
        around = step.path.rpartition(" > ")[0]
        return tuple(
            Nested(x.origin, chain(x.origin, x.links, f"{around} > {x.name}", step.threads), f"{around} > {x.name}")
            for x in step.link.chains
        )
    if not isinstance(step.link, Each):
        return ()
    found: list[Nested] = []
    for links, weights in zip(step.link.chains, step.before.weights, strict=True):
        origin, path = layer_of(weights, step.before), f"{step.path.rpartition(' > ')[0]} > {weights.name}"
        found.append(Nested(origin, chain(origin, links, path, step.threads), path))
    return tuple(found)


def static(sizes: tuple[Index | None, ...]) -> tuple[int, ...] | None:
    """Return the extents if all of them are numbers, else None."""
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if len(known) == len(sizes) else None


def shared_nbytes(step: Step) -> int | None:
    """Return the bytes of a load's buffer in shared memory, with its pad, its slots, and a copy for each unit.

    The result is None where the size or the number of units is unknown.
    """
    link = step.link
    assert isinstance(link, Load)
    operand = step.after.operand(link.role)
    if operand is None or link.memory != SH:
        return None
    shape = static(tuple(step.before.extents[dim] for dim in operand.dims))
    if shape is None:
        return None
    level, copies = step.before.level, 1
    if level.name != Block.name and level.is_inside(Block):
        if step.threads is None or level.size is None:
            return None
        copies = step.threads // level.size
    vector = max(1, operand.dtype.count_in(16))
    elements = -(-_elements(link, shape, step.order or RowMajor) // vector) * vector
    if link.swizzle is not None:
        elements = -(-elements // link.swizzle.period) * link.swizzle.period
    return operand.dtype.nbytes_of(elements * step.slots * copies)


def _elements(link: Load, shape: tuple[int, ...], order: Order) -> int:
    batch, (rows, cols) = prod(shape[:-2]), (1, *shape)[-2:]
    if isinstance(link.storage, Layout):
        return int(link.storage.cosize) * batch
    inner, outer = (cols, rows) if (link.storage or order) is RowMajor else (rows, cols)
    return (inner + link.pad) * outer * batch


def _order(operand: Operand) -> Order | None:
    return None if operand.memory.registers else operand.tensor.order


def _stored(link: Load, order: Order | None) -> Order | None:
    if isinstance(link.storage, Layout):
        leaves = link.storage.modes[-1].leaves
        return RowMajor if leaves[0][1] == 1 else ColMajor
    return link.storage or order


def _threads(link: Tile | Split, trips: Index) -> int | None:
    """Return the threads of a block, if this tile or parallel split decides their number."""
    level = link.level
    if level is None or level.size is None or not level.is_inside(Block) or not isinstance(trips, int):
        return None
    most = link.units if isinstance(link, Tile) else None
    return min(trips, most or trips) * level.size


def _word(link: Decomposition) -> str:
    match link:
        case Tile(sizes, level):
            sized = "vectors" if isinstance(sizes, Widest) else f"tile {'x'.join(str(size) for _, size in sizes)}"
            return sized + (f" to {level}" if level else "")
        case Split():
            return link.words
        case Load():
            return link.words
        case Prolog(role):
            return f"prolog {role}"
        case Epilog() | Results():
            return "epilog"
        case Own(level):
            return f"own {level}"
        case Each() | EachStep():
            return "each"
        case Done():
            return "done"
