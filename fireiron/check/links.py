"""Rules that are checked as soon as a link is written; each raises a coded error with numbers and a fix."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.arch import BUDGET_STEP, LEAST_BUDGET, MOST_BUDGET
from fireiron.algebra.dtypes import DType
from fireiron.algebra.layout import Layout
from fireiron.algebra.layout_compose import complement, is_injective
from fireiron.base.errors import DecompositionError, LayoutError
from fireiron.base.text import by
from fireiron.language.decompositions import (
    Chunks,
    Decomposition,
    Drawn,
    Epilog,
    Extent,
    Load,
    Own,
    Split,
    StreamK,
    Tile,
    Widest,
)
from fireiron.language.levels import MEMORIES, SH, Block, Cluster, Kernel, Level, Memory
from fireiron.language.residual import Operand, Residual
from fireiron.language.tensor import RowMajor, Tensor

MOST_PREFETCHED = 16  # chunks of K
MOST_STAGES = 64  # so many slots of 3.5 KiB fill an SM's shared memory; lowering checks pairs of slots


def tile_sizes(residual: Residual, sizes: tuple[tuple[str, Extent], ...] | Widest) -> None:
    """Raise an error for tiles of invalid extents, of unknown dimensions, and with gaps."""
    if isinstance(sizes, Widest):
        return
    extents = residual.extents
    for dim, size in sizes:
        if dim not in extents:
            raise DecompositionError(
                "no-such-dimension",
                f"{residual.short} has no dimension {dim} to tile",
                fix="dimensions: " + ", ".join(extents),
            )
        extent = extents[dim]
        if isinstance(size, Chunks):
            _chunks(size, dim, extent)
        elif isinstance(size, Layout):
            _positions(size, dim, extent)
        elif size < 1:
            raise DecompositionError(
                "tile-extent",
                f"a tile of {size} elements along {dim} is empty",
                fix="tile sizes are whole numbers of 1 and more",
            )
        elif isinstance(extent, int) and size > extent and residual.level.name != Kernel.name:
            raise DecompositionError(
                "tile-too-large",
                f"a tile of {size} along {dim} is larger than the {extent} elements that {residual.level} has",
                fix=f"use at most {extent}",
            )


def _chunks(size: Chunks, dim: str, extent: object) -> None:
    if not isinstance(extent, int):
        raise DecompositionError(
            "tile-gaps", f"a strided tile along {dim} needs a known extent", fix="tile to Block first"
        )
    if size.chunk < 1 or size.stride < 1 or size.stride % size.chunk or extent % size.stride:
        raise DecompositionError(
            "tile-gaps",
            f"{size.chunk} elements every {size.stride} along {dim} do not cover its {extent} elements "
            "without gaps or overlap",
            fix="the stride must be a multiple of the chunk, and divide the extent",
        )


def _positions(size: Layout, dim: str, extent: object) -> None:
    if not isinstance(extent, int):
        raise DecompositionError(
            "tile-gaps", f"a tile of positions along {dim} needs a known extent", fix="tile to Block first"
        )
    why = ""
    try:
        covered = size.size * complement(size, extent).size == extent
    except LayoutError as error:
        covered, why = False, f": {error.message}"
    if not covered:
        raise DecompositionError(
            "tile-gaps",
            f"tiles of {size} do not cover the {extent} elements along {dim} without gaps or overlap{why}",
            fix="strides must be multiples of what lies below them: Layout((4, 2), (1, 16)) of 32 elements",
        )


def level_nests(residual: Residual, level: Level) -> None:
    """Raise an error for a level that does not nest inside the current one."""
    if level.name == residual.level.name and level.name != Kernel.name:
        return
    if not level.is_inside(residual.level):
        fix = (
            f"tile to {level} before {residual.level}, or drop this link"
            if level.name != Kernel.name
            else "drop this link"
        )
        raise DecompositionError(
            "level-nests",
            f"cannot map tiles of {residual.short} to {level}: the spec is already at level {residual.level}",
            fix=fix,
        )
    if residual.level.name in (Kernel.name, Cluster.name) and level.is_inside(Block):
        raise DecompositionError(
            "level-nests",
            f"cannot map tiles of {residual.short} to {level}: "
            f"a {residual.level} holds blocks, and blocks hold {level}s",
            fix=f"tile to Block first, then to {level}",
        )


def operand(residual: Residual, wanted: str, given: Tensor | None = None) -> Operand:
    """Find an operand by its role, else by its tensor's name; a tensor is found only by its name."""
    roles = {o.role: o for o in residual.operands}
    tensors = {o.tensor.name: o for o in residual.operands}
    for known in (tensors, roles) if given is not None else (roles, tensors):
        if wanted in known:
            _same_tensor(residual, known[wanted].tensor, given)
            return known[wanted]
    several = residual.playing(wanted) if wanted in ("A", "B", "C") else ()
    if several:
        listed = ", ".join(o.tensor.name for o in several)
        raise DecompositionError(
            "ambiguous-operand",
            f"{wanted} of {residual.short} may be any of {listed}: it has several products",
            fix=f"name the tensor: load({several[0].tensor.name}, ...)",
        )
    names = ", ".join(dict.fromkeys(n for o in residual.operands for n in (o.role, o.tensor.name)))
    raise DecompositionError("unknown-operand", f"{residual.short} has no operand {wanted}", fix=f"operands: {names}")


def _same_tensor(residual: Residual, mine: Tensor, given: Tensor | None) -> None:
    """Raise an error for a tensor that is neither the operand's nor its transpose, which swapped products have."""
    if given is None:
        return
    facts = [(t.shape, t.strides, t.dtype) for t in (mine, mine.transposed if len(mine.shape) > 1 else mine)]
    if (given.shape, given.strides, given.dtype) in facts:
        return
    raise DecompositionError(
        "other-tensor",
        f"{given} is not the operand of {residual.short} of that name, which is {mine}",
        fix=f"give the spec's own tensor, or its name: {mine.name!r}",
    )


def storage(residual: Residual, role: str, layout: Layout, pad: int) -> None:
    """Raise an error for a layout of another shape than the tile, with two elements in one place, or beside a pad."""
    found = residual.operand(role)
    if found is None:  # a step's result, which has rows where its points are held
        return
    shape = tuple(residual.extents[dim] for dim in found.dims)
    extents = tuple(mode.size for mode in layout.modes)
    if not min(2, len(shape)) <= len(extents) <= len(shape) or any(
        isinstance(x, int) and x != y for x, y in zip(shape[-len(extents) :], extents, strict=True)
    ):
        raise DecompositionError(
            "storage-shape",
            f"storage layout {layout} holds {by(extents)} elements, the tile of {role} is {by(shape)}",
            fix="give a layout with one mode a dimension of the tile",
        )
    if layout.is_static and not is_injective(layout):
        raise DecompositionError(
            "storage-overlap",
            f"storage layout {layout} puts two of the {layout.size} elements of {role} in one place",
            fix="give every element a place of its own",
        )
    if pad:
        raise DecompositionError(
            "storage-pad",
            f"pad({pad}) of {role} beside the layout {layout}, which has strides of its own",
            fix="write the pad into the layout",
        )


def swizzle(residual: Residual, link: Load) -> None:
    """Raise an error for a swizzle that moves elements out of their row of the buffer."""
    found = residual.operand(link.role)
    if found is None:  # a step's result, which has rows where its points are held
        return
    order = link.storage or (found.tensor.order if found.memory.name == "GL" else None)
    if link.swizzle is None or isinstance(order, Layout) or order is None or len(found.dims) < 2:
        return
    row = residual.extents[found.dims[-1 if order is RowMajor else -2]]
    mixed = 1 << (link.swizzle.base + link.swizzle.bits)
    if link.swizzle.bits and isinstance(row, int) and mixed > row + link.pad:
        kept = max(0, row.bit_length() - 1 - link.swizzle.base)
        raise DecompositionError(
            "swizzle-row",
            f"{link.swizzle} exchanges elements among {mixed} neighbours, and a row of {link.role} in {link.memory} "
            f"holds {row}",
            fix=f"use Swizzle({kept}, {link.swizzle.base}, {link.swizzle.shift}) at most, load wider tiles, "
            "or choose the other order before",
        )


def load(residual: Residual, wanted: Operand, memory: Memory) -> None:
    """Raise an error for loads to the memory where an operand already is, of results, or to unsuitable memories."""
    if memory not in MEMORIES or memory.name == "GL":
        raise DecompositionError("load-memory", f"cannot load {wanted.role} to {memory}", fix="load to SH, FR or RF")
    if wanted.memory == memory and memory != SH:
        raise DecompositionError(
            "already-there",
            f"{wanted.role} of {residual.short} lies in {memory} already",
            fix="drop this load, or load another operand",
        )
    if wanted.memory == memory == SH:
        raise DecompositionError(
            "already-there",
            f"{wanted.role} of {residual.short} lies in SH already",
            fix="drop this load, or load it to RF",
        )
    if wanted.memory.registers and not memory.registers and residual.kind == "MatMul":
        raise DecompositionError(
            "load-uphill",
            f"{wanted.role} lies in {wanted.memory}, nearer to the atoms than {memory}",
            fix="load to SH before RF",
        )
    readable(wanted)
    if residual.level.name == Kernel.name:
        raise DecompositionError(
            "load-level",
            f"cannot load {wanted.role} at level Kernel: no block owns the buffer",
            fix="tile to Block above this link",
        )
    if residual.sums:
        raise DecompositionError(
            "load-above-epilog",
            f"loops of {residual.short} follow each other below epilog, and {wanted.tensor.name} is loaded above",
            fix="write epilog(...) first, then load",
        )
    if residual.depths:
        raise DecompositionError(
            "load-above-split",
            f"products of {residual.short} differ in K, so that {wanted.tensor.name} is no tile of one size",
            fix="split K above the loads",
        )


def readable(wanted: Operand) -> None:
    """Raise an error for loads or ops on operands that are results."""
    if wanted.role.rstrip("0123456789") in ("C", "dst", "out"):
        raise DecompositionError(
            "load-output",
            f"{wanted.role} is written, not read: it has no load",
            fix="accumulate C by epilog(...), and store it there",
        )


def prolog(residual: Residual, wanted: Operand, dtype: DType) -> None:
    """Raise an error for ops on an operand that was loaded before, or of another kind (float, int) than the sums."""
    if wanted.memory.name != "GL":
        raise DecompositionError(
            "already-there",
            f"{wanted.role} of {residual.short} lies in {wanted.memory} already",
            fix="write prolog before the first load of the operand",
        )
    c = residual.operand("C")
    assert c is not None
    if c.memory.registers and c.dtype.kind != dtype.kind:
        raise DecompositionError(
            "accumulator-dtype",
            f"products of {dtype} do not accumulate in {c.dtype}, which the epilog above chose for {wanted.dtype}",
            fix="write prolog above epilog",
        )


def prologs_applied(residual: Residual) -> None:
    """Raise an error for closing a chain while an operand's ops are pending, since no load has applied them."""
    for found in residual.operands:
        if found.ops is not None:
            raise DecompositionError(
                "prolog-left",
                f"the prolog of {found.role} was not applied: no load moved {found.role} through registers",
                fix=f"load {found.role} to RF or FR, or by staged() to SH; cp_async() and tma() compute nothing",
            )


def epilog(residual: Residual, memory: Memory, dtype: DType) -> None:
    """Raise an error for a second epilog, and accumulators outside registers or of fewer bits than the products."""
    (c, *_) = residual.playing("C")
    if c.memory.name != "GL":
        raise DecompositionError(
            "second-epilog", f"C accumulates in {c.memory} already", fix="give all ops to one epilog(...)"
        )
    if not memory.registers:
        raise DecompositionError("epilog-memory", f"C cannot accumulate in {memory}", fix="use memory=RF")
    if residual.level.name == Kernel.name:
        raise DecompositionError(
            "load-level", "no block owns an accumulator at level Kernel", fix="tile to Block above epilog"
        )
    (a, *_) = residual.playing("A")
    if dtype.kind != a.computed.kind:
        raise DecompositionError(
            "accumulator-dtype",
            f"products of {a.computed} do not accumulate in {dtype}",
            fix="use an accumulator of the same kind",
        )


def first_value(init: float, dtype: DType) -> None:
    """Raise an error for an initial value that an accumulator cannot hold.

    Raises:
        DecompositionError: `accumulator-init`.
    """
    low, high = dtype.limits
    if dtype.kind != "int" or (init == init // 1 and low <= init <= high):
        return
    raise DecompositionError(
        "accumulator-init",
        f"an accumulator of {dtype} cannot start at {init:g}",
        fix=f"give a whole number from {low} to {high}",
    )


def split_size(residual: Residual, size: int, links: Sequence[Decomposition]) -> None:
    """Raise an error for chunks below 1, larger than the chunk of a split above, or larger than a tile in registers.

    Otherwise a chunk may be longer than K; elements beyond K count as 0.

    Raises:
        DecompositionError: `split-extent`.
    """
    extent = residual.extents.get("K")
    if size < 1:
        raise DecompositionError(
            "split-extent", f"a chunk of {size} elements along K is empty", fix="split by 1 or more"
        )
    inside = residual.level.name not in (Kernel.name, Block.name)
    left = any(isinstance(x, Split) for x in links) or any(
        o.memory.registers for part in ("A", "B") for o in residual.playing(part)
    )
    if isinstance(extent, int) and size > extent and inside and left:
        raise DecompositionError(
            "split-extent",
            f"a chunk of {size} along K is larger than the {extent} elements left",
            fix=f"use at most {extent}",
        )


def split_of_sums(residual: Residual) -> None:
    """Raise an error for a split of several products' K above the epilog: below it, each product has a separate loop.

    Raises:
        DecompositionError: `split-above-epilog`.
    """
    if residual.sums:
        raise DecompositionError(
            "split-above-epilog",
            f"loops of {residual.short} follow each other below epilog, and K is split above",
            fix="write epilog(...) first, then split",
        )


def pipeline(stages: int, inflight: int = 0, least: int = 2) -> None:
    """Raise an error for rings without slots, with too many slots, or without a free slot to load into.

    Raises:
        DecompositionError: `pipeline-stages`.
    """
    if stages < 1:
        raise DecompositionError(
            "pipeline-stages", f"a pipeline of {stages} stages has no slot", fix=f"use {least} or more"
        )
    if stages > MOST_STAGES:
        raise DecompositionError(
            "pipeline-stages",
            f"a pipeline of {stages} stages is deeper than {MOST_STAGES}: no shared memory holds its slots",
            fix=f"use {least} to {MOST_STAGES}; 3 to 8 hide the latency of memory",
        )
    if inflight not in (0, 1) or inflight >= stages:
        raise DecompositionError(
            "pipeline-stages",
            f"{inflight} groups in flight over {stages} slots leave none to load into",
            fix="use inflight=0 or 1, below the number of stages",
        )


def persistent(residual: Residual, level: Level | None, share: StreamK | Drawn | None = None) -> None:
    """Raise an error for a persistent loop over tiles of a level inside the block, and stream-K without units.

    Raises:
        DecompositionError: `persistent-level`, `stream-units`.
    """
    if isinstance(share, StreamK) and share.units is not None and share.units < 1:
        raise DecompositionError(
            "stream-units",
            f"stream_k({share.units}) has no units to share the work",
            fix="use 1 or more: the GPU's SMs",
        )
    _of_grid("persistent", residual, level)


def dependent(residual: Residual, level: Level) -> None:
    """Raise an error for `dependent` on tiles of another level than blocks.

    Raises:
        DecompositionError: `dependent-level`.
    """
    _of_grid("dependent", residual, None if level == residual.level else level)


def _of_grid(name: str, residual: Residual, level: Level | None) -> None:
    if level is None or residual.level.name != Kernel.name:
        raise DecompositionError(
            f"{name}-level",
            f"{name}() belongs to the tile that goes to the grid's blocks or clusters, "
            f"not to one {f'for a {level}' if level else 'that no level takes'} inside a {residual.level}",
            fix=f"tile(m, n).to(Block).{name}(), first in the chain",
        )


def staggered(
    links: Sequence[Decomposition], before: Residual, after: Residual, level: Level | None, units: int
) -> None:
    """Raise an error for staggered units unless each unit computes whole tiles and stores them to C itself.

    Args:
        links: the links above the tile.
        before: the residual spec above the tile.
        after: the residual spec below the tile.
        level: the units' level.
        units: number of units that take turns.

    Raises:
        DecompositionError: `staggered-units`, `staggered-store`.
    """
    whole = all(before.extents[dim] == size for dim, size in after.sizes)
    if level is not None and level.size is None:
        raise DecompositionError(
            "staggered-units",
            f"staggered({units}) lets parts of a block take tiles in turn, and {level} is no such part",
            fix="tile(m, n).to(Warpgroup).staggered(2) with the block's own m and n",
        )
    if level is None or not whole or units < 2:
        raise DecompositionError(
            "staggered-units",
            f"staggered({units}) lets units of {level} take whole tiles of {before.short} in turn, "
            f"and this tile is {after.short}",
            fix="tile(m, n).to(Warpgroup).staggered(2) with the block's own m and n",
        )
    block = next((i for i, link in enumerate(links) if isinstance(link, Tile) and link.level == Block), 0)
    loop = next((link for link in links[:block] if isinstance(link, Tile) and link.level is None), None)
    if loop is not None:
        raise DecompositionError(
            "staggered-units",
            f"staggered({units}) shares out the trips of one persistent loop, and the tile above Block repeats "
            "that loop",
            fix="drop the tile above the one of Block, or staggered()",
            other=loop.link,
        )
    for link in links:
        if isinstance(link, Split) and link.level is not None and link.level != Block:
            raise DecompositionError(
                "staggered-units",
                f"staggered({units}) lets units of {level} take whole tiles in turn, and {link.words} lets units of "
                f"the block share the K of one",
                fix="drop staggered(), or split over Block",
                other=link.link,
            )
        stores = (link.store, *(x.store for x in link.outputs)) if isinstance(link, Epilog) else ()
        for store in stores:
            first = store[0] if store else None
            if store and not (isinstance(first, Own) and (first.level == level or first.level.is_inside(level))):
                raise DecompositionError(
                    "staggered-store",
                    f"staggered({units}) lets units of {level} store tiles at different times, and a store of the "
                    "epilog above is one for the whole block",
                    fix=f"store by through_shared(..., at={level}), or by conform()",
                    other=link.link,
                )


def specialised(residual: Residual, producers: int, registers: tuple[int, int] | None, prefetch: int) -> None:
    """Raise an error for roles that the hardware does not support, and for invalid numbers of prefetched chunks.

    Raises:
        DecompositionError: `role-registers`, `role-prefetch`.
    """
    if not 0 <= prefetch <= MOST_PREFETCHED:
        raise DecompositionError(
            "role-prefetch",
            f"specialize(prefetch={prefetch}) prefetches {prefetch} chunks into the L2 cache",
            fix=f"give 0 to {MOST_PREFETCHED} chunks; more than two or three delay those that products wait for",
        )
    wrong = [r for r in registers or () if r % BUDGET_STEP or not LEAST_BUDGET <= r <= MOST_BUDGET]
    if producers < 1 or wrong:
        raise DecompositionError(
            "role-registers",
            f"specialize(producers={producers}, registers={registers}): "
            + (f"a budget of {wrong[0]} registers" if wrong else "no warpgroup loads"),
            fix=f"give at least one producer, and budgets that are multiples of {BUDGET_STEP} from {LEAST_BUDGET} to "
            f"{MOST_BUDGET}",
        )
