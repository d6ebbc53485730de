"""Efforts: how much a search tries, by name."""

from __future__ import annotations

import attrs

from fireiron.tune.halving import Rung


@attrs.frozen
class Effort:
    """Say how much to try.

    Args:
        judged: candidates that the model ranks, at most.
        compiled: of those, how many are compiled and measured.
        first: samples of each at its trial.
        rungs: the rounds of the halving.
        climbs: how often the neighbours of the best are tried too.
        budget_s: seconds it may take, unless told otherwise.
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
