"""Units that each take a chunk of a folded dim: their parts of a fold are combined afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.expr import Expr, Var, as_expr, substitute
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Region, Statement
from fireiron.kernel.lower.context import Body, Context, Recur, State, descend
from fireiron.kernel.lower.folds.bulk import Shares
from fireiron.kernel.lower.folds.grid import over_grid
from fireiron.kernel.lower.folds.shares import Share
from fireiron.kernel.lower.folds.state import Open, Shared
from fireiron.kernel.lower.parallel import below_split
from fireiron.kernel.lower.program_loops import as_one_loop, of_one_loop
from fireiron.kernel.lower.progress import folds_dim, has_dim
from fireiron.kernel.lower.step_results import with_results
from fireiron.kernel.lower.steps import lower_active
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.uniform import with_uniform_conditions
from fireiron.kernel.lower.window import Cut, cut, cut_chunk
from fireiron.kernel.lower.window import substituted as substituted_window
from fireiron.language.added import parts_added
from fireiron.language.decompositions import ByCluster, ByTma, InOrder, Split
from fireiron.language.levels import Block
from fireiron.language.steps import Step


def lower_program_parallel(link: Split, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Give each unit its chunk of a dim; the sums of folds over the dim then lie in several units."""
    level, extent = link.level, state.residual.extents[link.dim]
    assert level is not None and extent is not None
    part = cut_chunk(link.size, extent, link.ways)
    if level == Block and isinstance(link.reduce, ByCluster):
        if isinstance(link.ways, int):
            context.ranks[link.dim] = (link.ways, context.way)
        below = descend(state.under(link.words, link.link), {link.dim: part}, {link.dim: context.way}, level)
        return recur(rest, below, context)
    if level == Block and isinstance(link.reduce, ByTma):
        assert state.progress is not None
        names = {s.name for s in state.progress.active}
        program, outputs = parts_added(state.progress.program, link.dim)
        first: dict[Var, Expr] = {context.way: as_expr(0)} if isinstance(context.way, Var) else {}
        adds = Shares(link.dim, first, outputs, state.path, link.link)
        active = tuple(s for s in program.steps if s.name in names)
        below = state.under(link.words, link.link)
        below = evolve(below, progress=evolve(state.progress, program=program, active=active, adds=adds))
        return recur(rest, descend(below, {link.dim: part}, {link.dim: context.way}, level), context)
    if level == Block:
        return _over_blocks(link, part, rest, state, context, recur)
    inside, _, _ = below_split(link, part, level.name.lower(), state, context)
    return (Region(str(inside.residual), recur(rest, inside, context), inside.path, link.link),)


def _over_blocks(link: Split, part: Cut, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Give blocks of the grid their chunks of a dim; the last block executes the steps that need a fold over it.

    Raises:
        DecompositionError: `grid-fold-read` where such a step has the dim itself, so that all blocks would have to wait
            for the last one.
    """
    state = with_uniform_conditions(state)
    progress = state.progress
    assert progress is not None
    loop = next((x for x in rest.asked.online if x.dim == link.dim), None)
    behind: list[Step] = []
    if loop is not None:  # blocks have separate values; only steps that need finished folds stand after the loop
        progress = as_one_loop(progress, loop)
        phase = of_one_loop(progress.active, link.dim)
        behind = [s for s in progress.active if phase[s.name] > 0]
    for step in progress.active if loop is None else ():
        reads = {ref.name for ref in step.reads}
        makers = [s for s in progress.active if any(out.name in reads for out in s.outs)]
        late = [s for s in makers if s in behind or folds_dim(s, link.dim)]
        if late and has_dim(step, link.dim):
            raise DecompositionError(
                "grid-fold-read",
                f"step {step.name} has {link.dim} and reads {late[0].name}, which only the last block to arrive has",
                fix=f"let one block or a cluster have {link.dim}, or compute {step.name} by a kernel of its own",
                link=link.link,
            )
        if late:
            behind.append(step)
    shared: list[Shared] = []
    ahead = evolve(progress, active=tuple(s for s in progress.active if s not in behind), spread=(link.dim, shared))
    below = evolve(state.under(link.words, link.link), progress=ahead)
    body = recur(rest, descend(below, {link.dim: part}, {link.dim: context.way}, link.level), context)
    if not shared:
        if isinstance(link.reduce, InOrder) and link.reduce.shared:
            raise DecompositionError(
                "parallel-shares",
                f"no fold over {link.dim} ends in one value for all blocks, of which each could have a share",
                fix="drop shared=True",
                link=link.link,
            )
        return body
    # The last block takes the role of the first: it stores what only one block stores.
    first: dict[Var, Expr] = {context.way: as_expr(0)} if isinstance(context.way, Var) else {}
    after = shared[0].state
    windows = {role: substituted_window(window, first) for role, window in after.windows.items()}
    after = evolve(after, windows=windows, progress=evolve(progress, active=tuple(behind)))

    def finished(folds: Sequence[Open], share: Share | None, number: Expr) -> Body:
        here, stored = after, tuple[Statement, ...]()
        for opened in folds:
            opened.places = {dim: substitute(place, first) for dim, place in opened.places.items()}
        if share is not None and share.count > 1:
            here = descend(here, {share.dim: cut(share.size, share.size * share.count)}, {share.dim: number})
        for opened in folds:
            here = evolve(here, windows={**here.windows, **opened.windows})  # registers of a share, not of the tile
            made, here = with_results((), opened, here, context, recur)
            stored += made
        return (*stored, *lower_active(here, context, recur)[0])

    return (*body, *over_grid(link, shared, context, state.loops, finished))
