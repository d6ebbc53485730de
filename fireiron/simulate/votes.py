"""Votes of warps: each warp's result depends on a register of its lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import Vote
from fireiron.simulate.access import Value
from fireiron.simulate.leaves import Operand, gather
from fireiron.simulate.order import Array, every, some, spread
from fireiron.simulate.state import State, Team
from fireiron.simulate.steps import Act

WARP = 32


def ways_of(statement: Vote) -> str:
    """Return the name of the environment's entry with a vote's results; cached plans depend on it."""
    return f"{statement.var.name} of each warp"


def voting(statement: Vote, flag: Operand, present: Value, team: Team) -> Callable[[State, Act], None]:
    """Compile a vote: it sets the statement's variable, and the entry `ways_of`.

    Args:
        statement: the vote.
        flag: the register with the flag.
        present: computes whether there is a vote.
        team: the voting team.

    Raises:
        SimulationError: `divergent-vote`, `uninitialised-read`, when it runs.
    """
    name, ways = statement.var.name, ways_of(statement)

    def vote(state: State, act: Act) -> None:
        asked = spread(np.asarray(present(state.env)) != 0, (1, team.threads))[0]
        here = np.ones(team.threads, bool) if act is None else spread(act, (1, team.threads))[0]
        found = np.ones(team.threads, np.int64)
        if some(asked & here):
            access = flag.access(state.env, (1, team.threads), None)
            held = spread(gather(access).reshape(1, -1), (1, team.threads))[0]
            _refuse(statement, asked & here, here, _written(access.storage.initialised, team), team)
            flags = np.pad((held != 0) & here, (0, -team.threads % WARP)).reshape(-1, WARP)
            found = np.where(asked, np.repeat(_counted(statement, flags), WARP)[: team.threads], 1).astype(np.int64)
        alike = every(found == found[0])
        state.env[name] = int(found[0]) if alike else found
        state.env[ways] = int(found[0]) if alike else found.tobytes()

    return vote


def _counted(statement: Vote, flags: Array) -> Array:
    """Return what a vote finds, for each warp."""
    match statement.found:
        case "any":
            return flags.max(1)
        case "count":
            return flags.sum(1)
        case "first":
            return np.where(flags.any(1), flags.argmax(1), WARP)
        case _ as never:
            assert_never(never)


def _written(initialised: Array | None, team: Team) -> Array:
    if initialised is None:
        return np.ones(team.threads, bool)
    return np.asarray(initialised).reshape(-1, team.threads).min(0)


def _refuse(statement: Vote, asked: Array, here: Array, written: Array, team: Team) -> None:
    """Raise an error for a vote that only some lanes of a warp execute, or on a flag that nothing has set."""
    warps = np.pad(here, (0, -team.threads % WARP), mode="edge").reshape(-1, WARP)
    parted = np.repeat(warps.any(1) & ~warps.all(1), WARP)[: team.threads] & asked
    if some(parted):
        raise SimulationError(
            "divergent-vote",
            f"{team.who(int(np.argmax(parted)))} votes on {statement.var.name}, and lanes of its warp are elsewhere",
            fix="make all lanes of a warp execute the vote",
        )
    unset = asked & ~written
    if some(unset):
        raise SimulationError(
            "uninitialised-read",
            f"{team.who(int(np.argmax(unset)))} votes by {statement.flag.buffer.name}, which nothing has set",
            fix="set the flag ahead of the vote",
        )
