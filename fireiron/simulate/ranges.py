"""Check that variables stay in their declared ranges, which simplification and integer widths rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fireiron.algebra.expr import Var, as_int, free
from fireiron.kernel.ir.statements import BLOCK, BLOCKS, RANK, THREAD
from fireiron.kernel.passes.subscripts import elements_of
from fireiron.simulate.state import State
from fireiron.simulate.steps import Act, Run, Scope

if TYPE_CHECKING:
    from fireiron.simulate.program import Compiler

GIVEN = (THREAD, BLOCK, BLOCKS, RANK)  # variables that no statement defines


def kept(compiler: Compiler, var: Var, scope: Scope) -> Run:
    """Compile the check of a variable's current value.

    Values that differ between threads are not checked, since idle threads may have any value; nor are values whose
    limit depends on variables that are unknown here.

    Raises:
        SimulationError: `variable-range`, when the check runs.
    """
    if var.extent is None or elements_of(var.extent):  # a Fetch reads elements, by another name
        return _nothing
    name, low, team = var.name, var.lower, compiler.team
    constant, limit = as_int(var.extent), compiler.value(var.extent)
    needs = tuple(leaf.name for leaf in free(var.extent))
    place = compiler.place(None, name, scope)

    def check(state: State, act: Act) -> None:
        env = state.env
        value = env[name]
        if constant is not None and isinstance(value, int) and low <= value < constant:
            return
        if name == THREAD:
            value = int(np.max(value))
        if np.ndim(value) or any(need not in env for need in needs):
            return
        high = limit(env)
        if not np.ndim(high) and not low <= value < high:
            raise team.error(
                place,
                "variable-range",
                f"{name} is {int(value)} in {team.label}, and was declared to be from {low} to {int(high) - 1}",
                "declare the range that it has: expressions are simplified by it",
            )

    return check


def promised(compiler: Compiler) -> Run:
    """Compile the check of the ranges of thread, block, blocks and rank."""
    checks = [kept(compiler, var, Scope()) for var in compiler.given]

    def run(state: State, act: Act) -> None:
        for check in checks:
            check(state, act)

    return run


def _nothing(state: State, act: Act) -> None:
    """Check nothing, where no check is needed."""
