"""Efforts: limits of a search, by name."""

from __future__ import annotations

import attrs

from fireiron.tune.halving import Rung


@attrs.frozen
class Effort:
    """Hold the limits of a search.

    Args:
        judged: the most candidates that the cost model ranks.
        compiled: the most candidates that are compiled and measured, the best-ranked first.
        first: number of samples in a candidate's first run.
        rungs: the rounds of successive halving.
        climbs: how often the neighbours of the fastest candidate are tried too.
        budget_s: default limit of a search's time in seconds.
    """

    judged: int
    compiled: int
    first: int
    rungs: tuple[Rung, ...]
    climbs: int
    budget_s: float


EFFORTS = {
    "quick": Effort(600, 24, 3, (Rung(5, 8), Rung(11, 3), Rung(31, 3)), 1, 20.0),
    "full": Effort(20000, 200, 3, (Rung(5, 60), Rung(11, 16), Rung(21, 5), Rung(61, 5)), 4, 900.0),
}
