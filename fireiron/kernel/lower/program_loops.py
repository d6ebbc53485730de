"""Loops of programs over chunks of a dim: one loop for each phase.

A step that needs a finished fold of the dim starts another loop (the next phase), in which expressions that were not
kept are computed again. An online split has one loop for all folds.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import as_int
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import For
from fireiron.kernel.lower.chunks import parts_of, trips_of
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.folds.state import begin_points, open_fold
from fireiron.kernel.lower.online_parts import close_online, places_apart
from fireiron.kernel.lower.pipeline import lower_split
from fireiron.kernel.lower.progress import Progress, folds_dim, has_dim, masks_products, runs_over
from fireiron.kernel.lower.reached import reached
from fireiron.kernel.lower.scans import carry, started
from fireiron.kernel.lower.step_results import closed_together
from fireiron.kernel.lower.steps import lower_active
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.uniform import with_uniform_conditions
from fireiron.language.decompositions import Split
from fireiron.language.online import online
from fireiron.language.steps import Step


def lower_program_split(link: Split, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower the loops over chunks of one dim: one loop for each phase, with the steps between them.

    Raises:
        DecompositionError: `online-inside`.
    """
    state = with_uniform_conditions(state)
    progress = state.progress
    assert progress is not None
    phase = phases(progress.active, link.dim)
    if link.online:
        alone = as_int(trips_of(parts_of(link, state.residual.extents))) == 1
        progress = as_one_loop(progress, link, alone)
        state = evolve(state, progress=progress)
        phase = of_one_loop(progress.active, link.dim)
    else:
        _refuse_inside(progress, link)
    body: Body = ()
    for number in range(max(phase.values(), default=0) + 1):
        alone = tuple(s for s in progress.active if not has_dim(s, link.dim) and phase[s.name] == number)
        made, state = lower_active(evolve(state, progress=evolve(progress, active=alone)), context, recur, keep=True)
        state = evolve(state, progress=progress)
        body += made
        looped = _ordered(_of_phase(progress, phase, number, link.dim), link.order)
        if looped:
            inner = evolve(state, progress=evolve(progress, active=looped))
            made, state = _lower_loop(link, rest, inner, context, recur)
            state = evolve(state, progress=progress)
            body += made
    return body


def _refuse_inside(progress: Progress, link: Split) -> None:
    """Raise an error for a loop over a part of a chunk whose folds correct each other once a chunk.

    Raises:
        DecompositionError: `online-inside`.
    """
    leads = () if progress.law is None else tuple(progress.law.factors)
    lead = next((s for s in progress.active if s.name in leads and folds_dim(s, link.dim)), None)
    if lead is not None:
        raise DecompositionError(
            "online-inside",
            f"online() corrects folds by {lead.name} once a chunk of {link.dim}, and this split cuts chunks",
            fix=f"drop this split, and give split(...).online() its chunks of {link.dim}",
            link=link.link,
        )


def phases(active: Sequence[Step], dim: str) -> dict[str, int]:
    """Number the phase of each step: the length of the longest chain of folds over the dim that it depends on."""
    found: dict[str, int] = {}
    makers = {out.name: step for step in active for out in step.outs}
    for step in active:
        before = [makers[ref.name] for ref in step.reads if ref.name in makers]
        found[step.name] = max((found[s.name] + folds_dim(s, dim) for s in before), default=0)
    return found


def as_one_loop(progress: Progress, link: Split, alone: bool = False) -> Progress:
    """Run all folds over a dim in one loop, and the steps that use their results after it.

    Args:
        progress: the progress above the loop.
        link: the loop's split.
        alone: whether there is only one chunk, so that nothing needs correction.
    """
    program, law = online(progress.program, link.dim)
    if not alone:
        law = attrs.evolve(law, slack=link.slack, speculative=link.speculative)
    before = {s.name for s in progress.program.steps}
    names = {s.name for s in progress.active}
    made = {out.name for s in program.steps if s.name in names for out in s.outs}
    active = tuple(
        s for s in program.steps if s.name in names or (s.name not in before and s.reads[0].name in made)
    )  # fmt: skip
    return evolve(progress, program=program, active=active, law=law)


def of_one_loop(active: Sequence[Step], dim: str) -> dict[str, int]:
    """Number the phases of an online loop: 0 for steps that the folds need, 1 for later steps."""
    makers = {out.name: step for step in active for out in step.outs}
    strict = phases(active, dim)
    needed: set[str] = set()

    def need(step: Step) -> None:
        if step.name in needed:
            return
        needed.add(step.name)
        for ref in step.reads:
            if ref.name in makers:
                need(makers[ref.name])

    for step in active:
        if folds_dim(step, dim):
            need(step)
    return {
        s.name: 0 if s.name in needed and (has_dim(s, dim) or not strict[s.name]) else min(1, strict[s.name])
        for s in active
    }  # fmt: skip


def _ordered(steps: Sequence[Step], names: Sequence[str]) -> tuple[Step, ...]:
    """Put steps of some names first, in the given order; each step follows the steps whose results it reads."""
    found: dict[str, Step] = {}
    makers = {out.name: step for step in steps for out in step.outs}

    def put(step: Step) -> None:
        if step.name in found:
            return
        for ref in step.reads:
            if ref.name in makers:
                put(makers[ref.name])
        found[step.name] = step

    for step in (*(s for name in names for s in steps if s.name == name), *steps):
        put(step)
    return tuple(found.values())


def _of_phase(progress: Progress, phase: dict[str, int], number: int, dim: str) -> tuple[Step, ...]:
    """List the steps of one loop: folds and outputs of this phase, and the pointwise steps that they read."""
    outputs = {t.name for t in progress.program.outputs}
    makers = {out.name: step for step in progress.active for out in step.outs}
    wanted: dict[str, Step] = {}

    def need(step: Step) -> None:
        # Steps without the dim stand before the loop, unless they need the value of a fold that changes in it.
        moves = progress.law is not None and number == 0 and phase[step.name] > 0
        if step.name in wanted or not (has_dim(step, dim) or moves) or folds_dim(step, dim):
            return
        wanted[step.name] = step
        for ref in step.reads:
            if ref.name in makers:
                need(makers[ref.name])

    for step in progress.active:
        if phase[step.name] != number or not has_dim(step, dim):
            continue
        if folds_dim(step, dim):
            wanted[step.name] = step
            for ref in step.reads:
                if ref.name in makers:
                    need(makers[ref.name])
        elif any(out.name in outputs for out in step.outs):
            need(step)
    return tuple(s for s in progress.active if s.name in wanted)


def _lower_loop(link: Split, rest: Tree, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Lower one loop over chunks; folds over its dim are started before it and finished after it."""
    progress = state.progress
    assert progress is not None
    parts = parts_of(link, state.residual.extents)
    chunks = None if len(parts) > 1 else reached(link.dim, parts[link.dim], state, context)
    mine = [s for s in progress.active if folds_dim(s, link.dim) and s.name not in progress.open]
    opened = {s.name: open_fold(s, state, context, link.link) for s in mine}
    for one in opened.values() if link.online else ():
        one.apart = places_apart(tuple(parts), state)
    around = evolve(state, windows={**state.windows, **{k: w for o in opened.values() for k, w in o.windows.items()}})
    moving = {
        out.name: opened[s.name].windows[opened[s.name].roles[0]]
        for s in mine if progress.law is not None and s.name in progress.law.factors for out in s.outs
    }  # fmt: skip
    scans = [s for s in progress.active if runs_over(s, link.dim) and s.name not in progress.carried]
    carried = {s.name: carry(s, state, context, link.link) for s in scans}
    inside = evolve(
        around,
        windows={**around.windows, **moving},
        progress=evolve(progress, open={**progress.open, **opened}, carried={**progress.carried, **carried}),
    )

    def opening() -> Body:
        folds = tuple(x for o in opened.values() for x in begin_points(o, context))
        return (*folds, *(x for s in scans for x in started(s, carried[s.name], context, link.link)))

    loop = lower_split(link, rest, inside, context, recur, chunks, opening)
    active = {s.name for s in progress.active}
    for name, one in {**progress.open, **opened}.items():  # coordinates are relative to the first visited chunk
        if name in active and link.dim in one.places and chunks is not None:
            one.places[link.dim] = one.places[link.dim] - chunks[0] * parts[link.dim].size
    last: Body = ()
    if link.online:
        last, around = close_online(tuple(opened.values()), around, context, recur)
    elif mine:
        last, around = closed_together([opened[s.name] for s in mine], around, context, recur)
    if link.online or link.skewed or link.order or masks_products(progress.active):
        context.chunks |= {
            s.var: (link, state.path) for s in loop if isinstance(s, For) and s.kind == "chunks" and not s.unroll
        }
    return (*loop, *last), around
