"""Progress of a program: the steps that are lowered below a place, and the folds that are open around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fireiron.algebra.expr import Expr
from fireiron.kernel.ir.statements import Buffer
from fireiron.kernel.lower.folds.bulk import Shares
from fireiron.kernel.lower.folds.state import Open, Shared
from fireiron.language.decompositions import EachStep, Load, Results
from fireiron.language.levels import RF
from fireiron.language.online import Law
from fireiron.language.residual import named_reads
from fireiron.language.steps import Program, Ref, Step


@attrs.define(eq=False)
class Carried:
    """Hold the state that a loop over chunks carries: the fold of all chunks so far.

    Args:
        buffers: for each scalar of the state, registers with a value for each of the thread's rows; made with the first
            chunk.
    """

    buffers: tuple[Buffer, ...] = ()


@attrs.frozen
class Progress:
    """Hold the steps of a program that are lowered below a place, and the folds that are open around it.

    Args:
        program: the whole program.
        active: the steps to lower below, in order.
        open: the folds whose state the loops around this place carry, by step.
        results: how outputs are stored.
        places: for each register tensor, the coordinates of the first point that a thread folded into it. After the
            loop over points, the coordinates show which threads hold the same value.
        each: the chains of steps that have their own.
        placed: results in shared memory, with the loads that place them there.
        kept: results that are kept in registers even if only one step reads them.
        law: how the folds of the online loop around this place depend on each other, None outside of online loops.
        carried: for each step with running results, the state that a loop over its dim carries from chunk to chunk.
        trip: the number of the chunk in the online loop around this place.
        spread: the dim of which each block of the grid has a part, and the folds over it; only the last block to arrive
            has their results.
        adds: the outputs to which each block of the grid adds its part of a fold.
    """

    program: Program
    active: tuple[Step, ...]
    open: dict[str, Open]
    results: Results | None = None
    places: dict[str, Mapping[str, Expr]] = attrs.field(factory=dict[str, Mapping[str, Expr]])
    each: EachStep | None = None
    placed: dict[str, Load] = attrs.field(factory=dict[str, Load])
    kept: frozenset[str] = frozenset()
    law: Law | None = None
    carried: dict[str, Carried] = attrs.field(factory=dict[str, Carried])
    trip: Expr | None = None
    spread: tuple[str, list[Shared]] | None = None
    adds: Shares | None = None

    def shares(self, step: Step) -> bool:
        """Say whether several blocks of the grid fold parts of a step."""
        return self.spread is not None and folds_dim(step, self.spread[0])

    def reads(self, role: str) -> bool:
        """Say whether a step below reads the tensor of a role."""
        return any(role in named_reads(self.program, step) for step in self.active)


def has_dim(step: Step, dim: str) -> bool:
    """Say whether a step has a dim."""
    return any(d.name == dim for d in step.dims)


def masks_products(steps: Sequence[Step]) -> bool:
    """Say whether steps with products also compare indices: chunks where all comparisons hold then need no masks."""
    return any(s.is_product for s in steps) and any(s.compares_indices for s in steps)


def folds_dim(step: Step, dim: str) -> bool:
    """Say whether a step folds a dim, so that its result exists only after the last point."""
    return not step.running and any(d.name == dim for d in step.over)


def runs_over(step: Step, dim: str) -> bool:
    """Say whether a step keeps running results along a dim."""
    return step.running and any(d.name == dim for d in step.over)


def beside(out: Ref, word: str) -> Ref:
    """Make another register tensor of a fold. Example: `l_next`, the next value of `l`."""
    return attrs.evolve(out, name=f"{out.name}_{word}", memory=RF)
