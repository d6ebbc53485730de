"""Dependent launches: no thread touches global memory before it has waited for the launch before.

One launch runs at a time here, so that waiting is nothing; but where it stands is checked.
"""

from __future__ import annotations

from fireiron.simulate.order import Array
from fireiron.simulate.state import Place, Team


def has_waited(team: Team, lanes: Array) -> None:
    """Record that threads of a team have waited for the launch before."""
    team.member.waited.update((lanes + team.first).tolist())


def refuse_early(team: Team, place: Place, lanes: Array) -> None:
    """Refuse to touch global memory in threads that have not waited, where the launch before may still run.

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
