"""Conditions on array elements that are the same for a whole tile, such as `j < lengths[b]` in a tile of a single b.

The element is read once for the tile, and the condition then compares indices with one variable. As with conditions on
indices, chunks where it holds for all points are computed without masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, free
from fireiron.algebra.scalar import Arg, parts, renumbered
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.lower.context import State
from fireiron.kernel.lower.window import POINTS, Axis
from fireiron.language.maps import box
from fireiron.language.reach import by_elements
from fireiron.language.steps import Ref, Step


def with_uniform_conditions(state: State) -> State:
    """Replace reads of integer arrays in conditions by index elements, where a tile's points all read the same one."""
    progress = state.progress
    assert progress is not None
    program = progress.program
    given = {t.name for t in program.inputs}
    points = state.windows[POINTS].axes
    refs = {ref for step in program.steps for ref in step.reads if ref.name in given}

    def uniform(ref: Ref) -> bool:
        alone = sum(other.name == ref.name for other in refs) == 1  # roles name the reads of an array
        return ref in refs and alone and all(_same(e, points) for e in ref.index)

    steps = {step.name: _changed(step, uniform) for step in program.steps}
    if all(steps[step.name] is step for step in program.steps):
        return state
    active = tuple(steps[step.name] for step in progress.active)
    program = attrs.evolve(program, steps=tuple(steps.values()))
    return evolve(state, progress=evolve(progress, program=program, active=active))


def _same(e: Expr, points: Sequence[Axis]) -> bool:
    """Say whether a subscript has one value at all points of a tile."""
    dims = {v.name for v in free(e) if isinstance(v, Var)}
    mine = {a.dim: a for a in points if a.dim in dims}
    if all(a.size == 1 for a in mine.values()):
        return dims <= mine.keys()
    try:
        found = box(e, {d: a.at(as_expr(0)) for d, a in mine.items()}, {d: a.size for d, a in mine.items()})
    except DecompositionError:
        return False
    return dims <= mine.keys() and found.extent == 1


def _changed(step: Step, uniform: Callable[[Ref], bool]) -> Step:
    body = by_elements(step.body, step.reads, uniform)
    where = None if step.where is None else by_elements(step.where, step.reads, uniform)
    if (body, where) == (step.body, step.where):
        return step
    used = {x.index for tree in (body, where) if tree is not None for x in parts(tree) if isinstance(x, Arg)}
    numbers = {old: new for new, old in enumerate(sorted(used))}
    return attrs.evolve(
        step,
        body=renumbered(body, numbers),
        where=None if where is None else renumbered(where, numbers),
        reads=tuple(step.reads[i] for i in sorted(used)),
    )
