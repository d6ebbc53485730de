"""Look up records: find the recorded schedules of a problem, or of the nearest problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs

from fireiron.base.errors import UsageError
from fireiron.base.text import printable
from fireiron.base.version import VERSION
from fireiron.tune import records as files
from fireiron.tune.problem import Problem
from fireiron.tune.record import Record

Software: TypeAlias = tuple[str, str, str]
NO_SOFTWARE = ("", "", "")
NEAR = 3.0  # doublings, over all extents, that a recorded problem may be away


@attrs.frozen
class Found:
    """Hold a record whose schedule may suit a problem.

    Args:
        record: the record.
        distance: distance of the record's problem from the given one (`Problem.distance`); 0 for the same problem.
        why: in words, how problem, device and software of the record differ.
    """

    record: Record
    distance: float
    why: str


class Index:
    """Find records by problem.

    Args:
        records: the records; failures are left out.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._families: dict[tuple[object, ...], dict[Problem, list[Record]]] = {}
        for record in records:
            if record.us is not None:
                self._families.setdefault(record.problem.family, {}).setdefault(record.problem, []).append(record)

    def find(
        self,
        problem: Problem,
        device: str,
        arch: str,
        software: Software = NO_SOFTWARE,
        *,
        most: int = 3,
        doubted: bool = False,
    ) -> list[Found]:
        """List records for a problem, the most suitable first.

        Only records of the same architecture are listed. The order is: the same problem before near ones; the same
        device before others; nearer problems before others; the same versions of driver, compiler and library before
        others, then the versions with the latest records; then the fastest first.

        Args:
            problem: the problem.
            device: the GPU's name, "" where there is none.
            arch: name of the target.
            software: versions of driver, compiler and library that run here.
            most: the most records to list; at most one for each near problem.
            doubted: whether to list records with impossible times (`Record.doubt`), so that they can be measured again.
        """
        family = self._families.get(problem.family, {})
        near = sorted(
            ((d, p) for p in family if (d := problem.distance(p)) <= NEAR), key=lambda pair: (pair[0], str(pair[1]))
        )
        found: list[Found] = []
        for distance, other in near:
            serving = [r for r in family[other] if r.arch == arch and (doubted or not r.doubt)]
            same = [r for r in serving if r.device == device] or serving
            # Of the problem itself others follow, should the fastest not be legal here.
            for record in _comparable(same, software)[: most if other == problem else 1]:
                found.append(Found(record, distance, _why(record, other == problem, device, software)))
        # The same problem on another device is a worse guide than a near one on this device.
        found.sort(key=lambda f: (f.distance > 0, device != "" and f.record.device != device, f.distance))
        return found[:most]


def _comparable(records: Sequence[Record], software: Software) -> list[Record]:
    """Sort records of one problem and device by versions of the software, then by time."""
    latest: dict[Software, str] = {}
    for record in records:
        latest[record.software] = max(latest.get(record.software, ""), record.when)
    order = sorted(latest, key=lambda versions: (versions == software, latest[versions]), reverse=True)
    return [
        r for versions in order for r in sorted((x for x in records if x.software == versions), key=lambda x: x.us or 0)
    ]


def _why(record: Record, same: bool, device: str, software: Software) -> str:
    words = ["recorded for this problem" if same else f"recorded for the nearest problem, {record.problem}"]
    if device and record.device != device:
        words.append(f"on another device, {record.device}")
    for what, version, mine in zip(("driver", "NVRTC"), record.software, software, strict=False):
        if version and mine and version != mine:
            words.append(f"with {what} {version}")
    if record.version and record.version != VERSION:
        words.append(f"by fireiron {record.version}: its time may have changed")
    return ", ".join(words)


def load(paths: Sequence[Path] | None = None) -> tuple[Index, tuple[str, ...]]:
    """Read the records: those shipped with the library, and the user's own.

    Args:
        paths: the files to read instead of these.

    Returns:
        The index, and descriptions of lines and files that were left out.
    """
    if paths is None:
        paths = read_by_default()
    found: list[files.Read] = []
    problems: list[str] = []
    for path in paths:
        try:
            found.append(files.read(path))
        except UsageError as error:  # a pipe, a folder, or a file of someone else: no reason to compute nothing
            problems.append(printable(error.message))
    index = Index(files.newest(record for each in found for record in each.records))
    return index, (*problems, *(problem for each in found for problem in each.told))


def read_by_default() -> list[Path]:
    """List the files of records shipped with the library, and the user's own."""
    return [*files.shipped(), *_own()]


def _own() -> list[Path]:
    """List the path of the user's own file, if there is such a file."""
    try:
        path = files.default_path()
        return [path] if path.exists() else []
    except (UsageError, OSError):  # no home folder, or none that may be entered
        return []
