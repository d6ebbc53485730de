"""Parallel splits: units of a level, or blocks of the grid, each take a chunk of K and hold a partial sum of C."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, simplest
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import RANK, Region
from fireiron.kernel.lower.context import Body, Context, Recur, State, Units, descend, units_of
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import Cut, Partial, cut_chunk
from fireiron.language.decompositions import ByCluster, ByTma, Split
from fireiron.language.levels import Block


def count_ways(rest: Tree, state: State, context: Context) -> None:
    """Find the number of blocks that share a tile, from the first split below the tile to Block.

    Blocks of a cluster are numbered by their rank.
    """
    link = rest.asked.split
    if link is not None and link.level == Block:
        extent = state.residual.extents[link.dim]
        assert extent is not None
        ways = simplest(cut_chunk(link.size, extent, link.ways).trips)
        if not isinstance(link.reduce, ByCluster):
            context.ways = ways
        elif ways != 1:
            assert isinstance(ways, int), "the rule of the link counts the blocks"
            context.joined, context.way, context.at_once = ways, Var(RANK, ways), link.reduce.at_once


def of_tile(partial: Partial, loops: Sequence[RegisterLoop]) -> Partial:
    """Give each tile separate places (seats) in the workspace, where blocks that share K loop over tiles."""
    if partial.level != Block or isinstance(partial.reduce, ByCluster | ByTma):
        return partial
    number, count = numbered(loops)
    return attrs.evolve(partial, seat=partial.seat * count + number, seats=simplest(partial.seats * count))


def numbered(loops: Sequence[RegisterLoop]) -> tuple[Expr, Expr]:
    """Number the trips of nested loops together; return the current number and the count."""
    number, count = as_expr(0), as_expr(1)
    for loop in loops:
        number, count = number * loop.trips + loop.var, count * loop.trips
    return number, count


def lower_parallel(link: Split, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Give each unit its chunk; the epilog adds the units' sums."""
    level, extent = link.level, state.residual.extents["K"]
    assert level is not None and extent is not None
    part = cut_chunk(link.size, extent, link.ways)
    sums = state.windows["C"].storage.partials
    if context.persistent and isinstance(extent, int) and isinstance(part.size, int) and isinstance(context.ways, int):
        some = -(-extent // part.size)
        if level == Block and some < context.ways:
            raise DecompositionError(
                "parallel-ways",
                f"{context.ways} ways of {part.size} leave {context.ways - some} of them without a part of K = "
                f"{extent}",
                fix=f"split K {some} ways, or into smaller chunks",
            )
    below = state.under(link.words, link.link)
    if level == Block:
        ways = context.joined if isinstance(link.reduce, ByCluster) else context.ways
        sums.append(Partial(ways, context.way, level, context.tile, context.tiles, link.reduce, below.path, link.link))
        return recur(rest, descend(below, {"K": part}, {"K": context.way}, level), context)
    inside, way, units = below_split(link, part, "way", state, context)
    seat = units.position
    outer = 1 if state.width is None or state.position is None else (context.threads or 1) // state.width
    if outer > 1:
        assert state.width is not None
        seat = context.thread // state.width * units.width + seat
    sums.append(Partial(units.count, way, level, seat, outer * units.width, link.reduce, below.path, link.link))
    body = recur(rest, inside, context)
    return (Region(str(inside.residual), body, below.path, link.link),)


def below_split(link: Split, part: Cut, word: str, state: State, context: Context) -> tuple[State, Expr, Units]:
    """Give each unit of a level inside the block its chunk; return the state, this unit's number, and the units.

    Args:
        link: the split.
        part: the split's cut.
        word: name of the variable for the unit's number.
        state: the lowering state above.
        context: the kernel's facts.

    Raises:
        DecompositionError: `symbolic-tiles`, `parallel-units`.
    """
    level = link.level
    assert level is not None
    ways = simplest(as_expr(part.trips))
    if not isinstance(ways, int):
        raise DecompositionError(
            "symbolic-tiles",
            f"{ways} chunks of {link.dim} cannot be given to {level}: their number is not known",
            fix=f'give the number of chunks: split("{link.dim}", ways=n)',
        )
    units = units_of(level, state, context, ways, None)
    if units.count != ways:
        raise DecompositionError(
            "parallel-units",
            f"{ways} chunks of {link.dim} go to {units.count} units of {level}",
            fix=f'split("{link.dim}", ways={units.count}).parallel({level})',
        )
    way = context.define(word, units.index, ways)
    inside = descend(state.under(link.words, link.link), {link.dim: part}, {link.dim: way}, level)
    return evolve(inside, position=units.position, width=units.width), way, units
