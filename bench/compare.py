"""Compare results with older ones: find changes that are larger than the noise of both runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from .cases import Case
from .results import Result, by_case, ratio

LEAST = 0.02  # relative change: two runs of one binary differ by this much

Verdict = Literal["slower", "faster", "noise", "new", "gone", "fails"]


@attrs.frozen
class Change:
    """Hold the change of one subject's time on one case.

    Args:
        case: the problem.
        subject: the name of the subject.
        verdict: one word; `new` or `gone` where one run alone has the case, `fails` where only the older run timed it.
        factor: new time divided by old time; 1 without both times.
        noise: the change that the spread of both runs explains.
        against: the peer whose times both ratios divide; "" where times were compared.
    """

    case: Case
    subject: str
    verdict: Verdict
    factor: float = 1.0
    noise: float = 0.0
    against: str = ""

    def __str__(self) -> str:
        words = f"{self.verdict}: {self.case} {self.subject}"
        if self.verdict in ("new", "gone", "fails"):
            return words
        basis = f"ratio to {self.against}" if self.against else "time"
        return f"{words}, {self.factor:.3f} of the old time by {basis}, noise {self.noise:.3f}"


def compare(new: Sequence[Result], old: Sequence[Result]) -> list[Change]:
    """Compare each subject of ours, case by case.

    Where both runs measured the same peer, ratios are compared: a slower clock or a warmer chip slows both. A change
    counts where it is larger than twice the spread of all samples that enter it, and than two percent.
    """
    before = {case: {r.subject: r for r in group} for case, group in by_case(old).items()}
    after = {case: {r.subject: r for r in group} for case, group in by_case(new).items()}
    changes: list[Change] = []
    for case, now in after.items():
        then = before.get(case, {})
        for name, result in now.items():
            if not result.ours:
                continue
            past = then.get(name)
            if past is None or past.times is None:
                changes.append(Change(case, name, "new"))
            elif result.times is None:
                changes.append(Change(case, name, "fails"))
            else:
                changes.append(_change(case, name, now, then))
    for case, then in before.items():
        gone = [name for name, r in then.items() if r.ours and name not in after.get(case, {})]
        changes += [Change(case, name, "gone") for name in gone]
    return changes


def _change(case: Case, name: str, now: dict[str, Result], then: dict[str, Result]) -> Change:
    mine, past = now[name], then[name]
    assert mine.times is not None
    assert past.times is not None
    spreads = [mine.times.spread, past.times.spread]
    factor, against = mine.times.median_us / past.times.median_us, ""
    for peer, result in now.items():
        other = then.get(peer)
        if result.ours or other is None or peer == name:
            continue
        new, old = ratio(mine, result), ratio(past, other)
        if new is not None and old is not None and result.times and other.times:
            factor, against = old / new, peer
            spreads += [result.times.spread, other.times.spread]
            break
    noise = max(LEAST, 2 * sum(s * s for s in spreads) ** 0.5)
    verdict: Verdict = "slower" if factor > 1 + noise else "faster" if factor < 1 / (1 + noise) else "noise"
    return Change(case, name, verdict, factor, noise, against)
