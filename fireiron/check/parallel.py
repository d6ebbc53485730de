"""Rules of parallel splits: which units may take chunks of K, and how their partial sums are added."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.arch import MAX_CLUSTER, MAX_THREADS
from fireiron.algebra.expr import Index, ceil_div, simplest
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.language.decompositions import (
    ByAtomics,
    ByCluster,
    ByTma,
    Decomposition,
    InOrder,
    Reduction,
    Split,
    Tile,
)
from fireiron.language.levels import Block, Cluster, Level
from fireiron.language.residual import Residual

ATOMIC = ("f32", "f64", "i32")  # accumulator types for which atomics exist


def chunk_of(residual: Residual, k: int | None, ways: int | None, multiple_of: int) -> Index:
    """Return the extent of a chunk: as given, or from the number of chunks.

    Raises:
        DecompositionError: `split-arguments`.
    """
    if (k is None) == (ways is None):
        said = "neither a chunk nor a number of chunks" if k is None else f"chunks of {k} and {ways} chunks at once"
        raise DecompositionError(
            "split-arguments", f"split is given {said}", fix="write split(k), or split(ways=n, multiple_of=k)"
        )
    if ways is None:
        assert k is not None
        return k
    if ways < 1 or multiple_of < 1:
        raise DecompositionError(
            "split-arguments",
            f"split into {ways} chunks, multiples of {multiple_of}",
            fix="both are whole numbers of 1 and more",
        )
    extent = residual.extents["K"]
    assert extent is not None
    size = ceil_div(extent, ways * multiple_of) * multiple_of
    return simplest(size)


def of_products(
    links: Sequence[Decomposition], before: Residual, split: Split, level: Level, reduce: Reduction
) -> None:
    """Raise an error for a parallel split of several products' K, unless blocks share it and add all the sums.

    Raises:
        DecompositionError: `parallel-products`; see `parallel` for blocks.
    """
    apart = isinstance(reduce, ByCluster | ByAtomics) or (isinstance(reduce, InOrder) and not reduce.shared)
    if level == Block and apart:
        parallel(links, before, split, level, reduce)
        return
    short = evolve(before, sizes=tuple((dim, split.size if dim == "K" else n) for dim, n in before.sizes)).short
    said = f"{level}s share K of {short}, and only blocks add the sums of several products"
    if level == Block:
        how = "by_tma()" if isinstance(reduce, ByTma) else "in_order(shared=True)"
        said = f"{how} adds the sums of one product, and {short} has several"
    raise DecompositionError(
        "parallel-products",
        said,
        fix="write split(ways=n, multiple_of=k).parallel(Block, reduce=by_cluster()), in_order() or by_atomics()",
    )


def parallel(links: Sequence[Decomposition], before: Residual, split: Split, level: Level, reduce: Reduction) -> None:
    """Raise an error for a parallel split that no units can take, or whose sums have no registers.

    Args:
        links: the links above the split.
        before: the residual spec above the split.
        split: the link.
        level: the level whose units take the chunks.
        reduce: how the units' sums are added.

    Raises:
        DecompositionError: `parallel-level`, `parallel-accumulator`, `parallel-order`, `second-parallel`,
            `parallel-ways`, `parallel-reduce`, `parallel-shares`, `parallel-promote`, `parallel-cluster`,
            `parallel-pipeline`, `staggered-units`, `too-many-threads`.
    """
    _level(before, level)
    c = before.playing("C")[0]
    if not c.memory.registers:
        raise DecompositionError(
            "parallel-accumulator",
            f"the {level}s would each add to C in {c.memory}: each needs registers for its own sum",
            fix="accumulate by .epilog(...) above this split",
        )
    if split.promoted is not None:
        raise DecompositionError(
            "parallel-promote",
            f"promote() adds up chunks in turn, and {level}s take those of this split at once",
            fix="split again below, and refine that split by promote()",
        )
    if split.stages > 1 or split.unrolled or split.together > 1 or split.specialised is not None:
        unrolled = "unroll()" if split.unrolled else f"unroll({split.together})"
        looped = "specialize()" if split.specialised is not None else unrolled
        what = f"pipeline({split.stages})" if split.stages > 1 else looped
        raise DecompositionError(
            "parallel-pipeline",
            f"{what} refines a loop, and {level}s take the chunks of this split all at once",
            fix="split again below, and refine that loop",
        )
    turns = next((x for x in links if isinstance(x, Tile) and x.staggered > 1), None)
    if turns is not None:
        raise DecompositionError(
            "staggered-units",
            f"{level}s would share the K of a tile that staggered({turns.staggered}) gives to one {turns.level}",
            fix="drop staggered(), or split over Block above it",
            other=turns.link,
        )
    above = [x for x in links if isinstance(x, Split)]
    promoted = next((x for x in above if x.promoted is not None), None)
    if promoted is not None:
        raise DecompositionError(
            "parallel-promote",
            f"promote() above adds each chunk to the accumulators in turn, and {level}s would share that chunk",
            fix="write split(...).parallel(...) above the split that promotes",
            other=promoted.link,
        )
    if any(x.level is not None and (x.level == Block) == (level == Block) for x in above):
        first = "blocks" if level == Block else "units of the block"
        raise DecompositionError(
            "second-parallel",
            f"this split gives chunks of K to {level}s, and a split above gives K to {first} already",
            fix="split K once over blocks, and once inside the block",
        )
    if level == Block and above:
        raise DecompositionError(
            "parallel-order",
            "blocks take chunks of the whole K, and a split above has cut it already",
            fix="make this the first split below epilog",
        )
    _reduce(c.dtype.name, level, reduce)
    if level != Block:
        _units(before, split, level)
    if isinstance(reduce, ByCluster):
        _cluster(links, before, split, reduce)


def _level(before: Residual, level: Level) -> None:
    if level == Block and before.level == Block:
        return
    row = level.is_row or level.size == 1
    if not row or not level.is_inside(before.level) or not (before.level == Block or before.level.is_inside(Block)):
        raise DecompositionError(
            "parallel-level",
            f"units of {level} cannot take chunks of {before.short}, which is at level {before.level}",
            fix="give chunks to Block, Warpgroup, Warp, Thread or a Group of them inside the present level, "
            "below tile(...).to(Block)",
        )


def _reduce(dtype: str, level: Level, reduce: Reduction) -> None:
    if isinstance(reduce, InOrder):
        if reduce.two_levels:
            raise DecompositionError(
                "parallel-levels",
                "the last block of a tile adds the sums of a product in one level",
                fix="drop two_levels=True",
            )
        if reduce.shared and level != Block:
            raise DecompositionError(
                "parallel-shares",
                f"{level}s of a block add a share of the tile each, with or without shared=True",
                fix="drop shared=True, or split over Block",
            )
        return
    if level != Block:
        fact, how = "where no atomics are needed", "by_atomics"
        if isinstance(reduce, ByTma):
            how = "by_tma"
        if isinstance(reduce, ByCluster):
            fact, how = "in which no cluster has a part", "by_cluster"
        raise DecompositionError(
            "parallel-reduce",
            f"{level}s add their sums in shared memory, {fact}",
            fix=f"drop reduce={how}(), or split over Block",
        )
    if isinstance(reduce, ByAtomics) and dtype not in ATOMIC:
        raise DecompositionError(
            "parallel-reduce",
            f"global memory does not add accumulators of {dtype}",
            fix=f"accumulate in {', '.join(ATOMIC)}, or drop reduce=by_atomics()",
        )


def _cluster(links: Sequence[Decomposition], before: Residual, split: Split, reduce: ByCluster) -> None:
    """Raise an error for by_cluster() where the blocks that share a tile are not a whole cluster."""
    other = next((x for x in links if isinstance(x, Tile) and x.level is not None and x.level == Cluster), None)
    if other is not None:
        raise DecompositionError(
            "parallel-cluster",
            "the blocks that share a tile must form a cluster, but a tile above forms clusters of other blocks",
            fix="tile to Block alone, or drop reduce=by_cluster()",
            other=other.link,
        )
    extent = before.extents["K"]
    if split.ways is None and not (isinstance(extent, int) and isinstance(split.size, int)):
        raise DecompositionError(
            "parallel-ways",
            f"the number of chunks of {split.size} is the number of blocks in a cluster, and it is not known: "
            f"the extent of K is {extent}",
            fix=f"write split(ways=n, multiple_of={split.size})",
        )
    ways = split.ways or -(-extent // split.size)  # pyright: ignore
    assert isinstance(ways, int)
    if ways > MAX_CLUSTER:
        raise DecompositionError(
            "parallel-cluster",
            f"{ways} chunks for a block each are a cluster of {ways}, larger than the {MAX_CLUSTER} that every GPU "
            "takes",
            fix=f"split(ways={MAX_CLUSTER}, ...), or drop reduce=by_cluster()",
        )
    if isinstance(extent, int) and isinstance(split.size, int) and (some := -(-extent // split.size)) < ways:
        raise DecompositionError(
            "parallel-ways",
            f"{ways} ways of {split.size} leave {ways - some} blocks of the cluster without a part of K = {extent}",
            fix=f"split K {some} ways, or into smaller chunks",
        )
    if reduce.at_once:
        raise DecompositionError(
            "parallel-cluster",
            "at_once=True is for the folds of programs, and this is a product",
            fix="drop at_once=True",
        )
    if reduce.shares is not None and not 1 <= reduce.shares <= ways:
        raise DecompositionError(
            "parallel-cluster",
            f"{reduce.shares} of {ways} blocks cannot finish a share of the tile each",
            fix=f"use 1 to {ways}, or leave shares out",
        )


def _units(before: Residual, split: Split, level: Level) -> None:
    extent = before.extents["K"]
    if split.ways is None and not isinstance(extent, int):
        raise DecompositionError(
            "parallel-ways",
            f"the number of chunks of {split.size} for {level}s is not known: the extent of K is {extent}",
            fix=f"write split(ways=n, multiple_of={split.size}), or split above by a number",
        )
    assert split.ways is not None or (isinstance(extent, int) and isinstance(split.size, int))
    ways = split.ways or -(-extent // split.size)  # pyright: ignore
    assert isinstance(ways, int)
    threads = ways * (level.size or 1)
    if before.level == Block and threads > MAX_THREADS:
        raise DecompositionError(
            "too-many-threads",
            f"{ways} chunks for a {level} each are {threads} threads a block, above {MAX_THREADS}",
            fix="use longer chunks",
        )
    if before.level.size is not None and before.level.size != threads:
        raise DecompositionError(
            "parallel-units",
            f"{ways} chunks of K are given to the {before.level.size // (level.size or 1)} units of {level} in a "
            f"{before.level}: each must take one",
            fix=f"split K into {before.level.size // (level.size or 1)} chunks, or choose another level",
        )
