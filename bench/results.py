"""Results: one record for each subject and case, as JSON lines that later runs are compared with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from fireiron.base.errors import UsageError
from fireiron.tune.machine import Machine, State

from .arrays import Errors
from .cases import Case
from .timer import Times

FORMAT = 1


@attrs.frozen
class Result:
    """Hold the result of one subject on one case.

    Args:
        suite: the suite's name, "" without one.
        case: the problem.
        subject: the name of the subject.
        ours: whether it is a schedule of this project.
        detail: the schedule or the library's function.
        times: None where nothing was timed.
        events: times by events, where `times` are those of graphs.
        sustained_us: microseconds back to back; None where not measured.
        state: the board after the timing, or in the middle of the sustained run.
        errors: differences to f64; None where the subject did not run.
        problem: the reason why there is no time, or the error.
        modelled_us: the cost model's time.
        registers: registers of a thread.
    """

    suite: str
    case: Case
    subject: str
    ours: bool
    detail: str = ""
    times: Times | None = None
    events: Times | None = None
    sustained_us: float | None = None
    state: State = attrs.field(factory=State)
    errors: Errors | None = None
    problem: str = ""
    modelled_us: float | None = None
    registers: int | None = None

    @property
    def tflops(self) -> float:
        """Give 1e12 operations a second; 0 where nothing was timed."""
        return self.case.flops / self.times.median_us * 1e-6 if self.times else 0.0

    @property
    def gbps(self) -> float:
        """Return 1e9 necessary bytes per second; 0 where nothing was timed."""
        return self.case.nbytes / self.times.median_us * 1e-3 if self.times else 0.0

    @property
    def wrong(self) -> bool:
        """Say whether the result exceeds the bound of rounding errors, or differs from an exact one."""
        return self.problem.startswith("wrong:") or (self.errors is not None and not self.errors.right)

    def to_json(self, machine: Machine, command: str = "", when: str = "") -> dict[str, Any]:
        """Return plain data, with the machine."""
        facts: dict[str, Any] = {"bench": FORMAT, "suite": self.suite, "case": self.case.to_json()}
        facts |= {"subject": self.subject, "ours": self.ours, "detail": self.detail}
        for name in ("times", "events", "errors"):
            value = getattr(self, name)
            if value is not None:
                facts[name] = attrs.asdict(value)
        if self.times is not None:
            facts |= {"tflops": round(self.tflops, 3), "gbps": round(self.gbps, 2)}
        for name in ("sustained_us", "problem", "modelled_us", "registers"):
            value = getattr(self, name)
            if value:
                facts[name] = value
        facts |= {"state": self.state.to_json(), "machine": machine.to_json(), "command": command, "when": when}
        return facts

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Result:
        """Read the result of `to_json`."""
        times = {name: Times(**facts[name]) if name in facts else None for name in ("times", "events")}
        return cls(
            suite=facts["suite"],
            case=Case(**facts["case"]),
            subject=facts["subject"],
            ours=facts["ours"],
            detail=facts.get("detail", ""),
            sustained_us=facts.get("sustained_us"),
            state=State(**facts.get("state", {})),
            errors=Errors(**facts["errors"]) if "errors" in facts else None,
            problem=facts.get("problem", ""),
            modelled_us=facts.get("modelled_us"),
            registers=facts.get("registers"),
            **times,
        )


def write(path: str, lines: Iterable[dict[str, Any]]) -> None:
    """Append results to a file.

    Raises:
        UsageError: `cannot-write`.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")
    except OSError as error:
        raise UsageError(
            "cannot-write", f"{path} cannot be written: {error.strerror}", fix="name another file"
        ) from None


def replace(path: Path, found: Sequence[Result], machine: Machine, command: str, when: str) -> None:
    """Write the results of one case into a file, in the place of older ones of that case.

    The file is replaced in one step.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = []
    if path.is_file():
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    measured = [result.case.to_json() for result in found]
    kept = [line for line in lines if line["case"] not in measured]
    kept += [result.to_json(machine, command, when) for result in found]
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    os.replace(aside, path)


def read(path: str) -> tuple[list[Result], str]:
    """Read results.

    Returns:
        The results, the last of each subject and case, and the name of the device that they were measured on.

    Raises:
        UsageError: `no-such-file`, `not-results`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        raise UsageError("no-such-file", f"there is no file {path}", fix="name a file that -o wrote") from None
    found: dict[tuple[str, str], Result] = {}
    device = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            facts = json.loads(line)
            if facts["bench"] != FORMAT:
                raise UsageError(
                    "not-results",
                    f"{path}:{number} has format {facts['bench']}, and this bench reads {FORMAT}",
                    fix="measure again",
                )
            result = Result.from_json(facts)
            device = facts["machine"].get("device", "")
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                "not-results", f"{path}:{number} is no result of the bench ({error})", fix="name a file of results"
            ) from None
        found[result.case.key, result.subject] = result
    return list(found.values()), device


def of_programs(path: str) -> bool:
    """Say whether a file holds times of programs, as `bench programs` and `bench rows` write them."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return '"program"' in file.readline().partition(":")[0]
    except OSError:
        return False  # `read` reports the error


def read_programs(path: str) -> list[dict[str, Any]]:
    """Read the lines of `bench programs` and `bench rows`.

    Raises:
        UsageError: `not-results`.
    """
    found: list[dict[str, Any]] = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            facts = json.loads(line)
            times = {name: Times(**each) for name, each in facts.get("times", {}).items()}
            found.append({"program": facts["program"], "times": times, "problem": facts.get("problem", "")})
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                "not-results", f"{path}:{number} is no result of the bench ({error})", fix="name a file of results"
            ) from None
    return found


def by_case(results: Sequence[Result]) -> dict[Case, list[Result]]:
    """Group results, in order."""
    groups: dict[Case, list[Result]] = {}
    for result in results:
        groups.setdefault(result.case, []).append(result)
    return groups


def ratio(mine: Result, peer: Result) -> float | None:
    """Return the peer's median divided by ours; None where one was not timed."""
    if mine.times is None or peer.times is None:
        return None
    return peer.times.median_us / mine.times.median_us
