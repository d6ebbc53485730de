"""Values of index expressions, for each lane or as one value for all."""

from __future__ import annotations

import numpy as np

from fireiron.simulate.access import Env, Value
from fireiron.simulate.order import Array, some, spread
from fireiron.simulate.state import Place, Team


def each(value: Value, env: Env, team: Team) -> Array:
    """Return a value for every lane (threads)."""
    return spread(np.asarray(value(env), np.int64), (1, team.threads))[0]


def uniform(value: Value, env: Env, team: Team, lanes: Array, place: Place, what: str) -> int:
    """Return a value that must be the same for the given lanes.

    Raises:
        SimulationError: `divergent-call`.
    """
    found = np.asarray(value(env), np.int64)
    if found.ndim == 0:
        return int(found)
    values = spread(found, (1, team.threads))[0][lanes]
    if some(values != values[0]):
        lane = int(lanes[np.argmax(values != values[0])])
        raise team.error(
            place,
            "divergent-call",
            f"{place}: {what} is {int(values[0])} for {team.who(int(lanes[0]))} and "
            f"{int(values[lane == lanes][0])} for {team.who(lane)}, which execute it together",
            f"make the {what} uniform",
        )
    return int(values[0])
