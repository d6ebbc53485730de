"""Dependent launches: check that no thread accesses global memory before it has waited for the previous launch.

The simulator runs one launch at a time, so waiting does nothing; only its place is checked.
"""

from __future__ import annotations

from fireiron.simulate.order import Array
from fireiron.simulate.state import Place, Team


def has_waited(team: Team, lanes: Array) -> None:
    """Record that threads of a team have waited for the previous launch."""
    team.member.waited.update((lanes + team.first).tolist())


def refuse_early(team: Team, place: Place, lanes: Array) -> None:
    """Raise an error where threads access global memory without a wait, if the previous launch may still run.

    Raises:
        SimulationError: `launch-not-awaited`.
    """
    if not team.machine.kernel.dependent:
        return
    waited = team.member.waited
    early = next((lane for lane in lanes.tolist() if lane + team.first not in waited), None)
    if early is not None:
        raise team.error(
            place,
            "launch-not-awaited",
            f"{place}: {team.who(early)} touches global memory before it has waited for the launch before, which may "
            "still use it",
            "put Fence('grid.wait') ahead of the first access of global memory, in every thread that makes one",
        )
