"""Conditions by arrays: where a whole tile reads one element of an array of integers, a comparison is one of indices.

`j < lengths[b]` in a tile of one b compares j with one number, which the block reads once. As with conditions of
indices alone, chunks at which all points count then have no masks.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from fireiron.algebra.scalar import Arg, parts, renumbered
from fireiron.base.records import evolve
from fireiron.kernel.lower.context import State
from fireiron.kernel.lower.window import POINTS
from fireiron.language.reach import by_elements
from fireiron.language.steps import Ref, Step


def with_uniform_conditions(state: State) -> State:
    """Let conditions of a program compare indices with the elements that all points of the present tile read."""
    progress = state.progress
    assert progress is not None
    program = progress.program
    given = {t.name for t in program.inputs}
    one = {a.dim for a in state.windows[POINTS].axes if a.size == 1}
    refs = {ref for step in program.steps for ref in step.reads if ref.name in given}

    def uniform(ref: Ref) -> bool:
        alone = sum(other.name == ref.name for other in refs) == 1  # roles name the reads of an array
        return ref in refs and alone and all(d.name in one for d in ref.dims)

    steps = {step.name: _changed(step, uniform) for step in program.steps}
    if all(steps[step.name] is step for step in program.steps):
        return state
    active = tuple(steps[step.name] for step in progress.active)
    program = attrs.evolve(program, steps=tuple(steps.values()))
    return evolve(state, progress=evolve(progress, program=program, active=active))


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
