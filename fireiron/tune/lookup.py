"""The choice: the recorded schedule for a problem, the one of the nearest problem, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from fireiron.base.version import VERSION
from fireiron.tune import records as files
from fireiron.tune.problem import Problem
from fireiron.tune.records import Record

NEAR = 3.0  # doublings, over all extents, that a recorded problem may be away


@attrs.frozen
class Found:
    """Hold a record that may serve.

    Args:
        record: which.
        distance: of its problem from the one asked for; 0 for the same.
        why: what a user should know: where it differs.
    """

    record: Record
    distance: float
    why: str


class Index:
    """Find records by problem.

    Args:
        records: measured ones; failures do not take part.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._families: dict[tuple[object, ...], dict[Problem, list[Record]]] = {}
        for record in records:
            if record.us is not None:
                self._families.setdefault(record.problem.family, {}).setdefault(record.problem, []).append(record)

    def find(self, problem: Problem, device: str, arch: str, most: int = 3) -> list[Found]:
        """List the records that may serve, best first.

        A record of the same architecture serves, one of the same device before others; the same problem before near
        ones. Among equals the fastest comes first.

        Args:
            problem: what is asked for.
            device: the GPU's name, "" where there is none.
            arch: name of the target.
            most: how many problems to look at.
        """
        family = self._families.get(problem.family, {})
        near = sorted(
            ((d, p) for p in family if (d := problem.distance(p)) <= NEAR), key=lambda pair: (pair[0], str(pair[1]))
        )
        found: list[Found] = []
        for distance, other in near:
            serving = [r for r in family[other] if r.arch == arch]
            same = [r for r in serving if r.device == device]
            for record in sorted(same or serving, key=lambda r: r.us or 0.0)[:1]:
                found.append(Found(record, distance, _why(record, other == problem, device)))
        # The same problem on another device is a worse guide than a near one on this device.
        found.sort(key=lambda f: (f.distance > 0, device != "" and f.record.device != device, f.distance))
        return found[:most]


def _why(record: Record, same: bool, device: str) -> str:
    words = ["recorded for this problem" if same else f"recorded for the nearest problem, {record.problem}"]
    if device and record.device != device:
        words.append(f"on another device, {record.device}")
    if record.version and record.version != VERSION:
        words.append(f"by fireiron {record.version}: its time may have changed")
    return ", ".join(words)


def load(paths: Sequence[Path] | None = None) -> tuple[Index, tuple[str, ...]]:
    """Read the records: those shipped with the library, and the user's own.

    Args:
        paths: other files instead.

    Returns:
        The index, and what was left out.
    """
    if paths is None:
        own = files.default_path()
        paths = [*files.shipped(), *([own] if own.exists() else [])]
    found = [files.read(path) for path in paths]
    index = Index(files.newest(record for each in found for record in each.records))
    return index, tuple(problem for each in found for problem in each.problems)
