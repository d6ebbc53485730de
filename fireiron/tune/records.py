"""Records: what was measured, as lines of JSON in a file that is only ever appended to.

Two writers take turns by a lock, and one that is killed leaves at most one line cut off, which readers skip and the
next writer ends. Files of several machines are merged by `merge`, or by `cat`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import attrs

from fireiron.base.errors import UsageError
from fireiron.tune.machine import Machine, State
from fireiron.tune.problem import Problem
from fireiron.tune.space import Point, point

FORMAT = 1
FILE = "records.jsonl"
SHIPPED = Path(__file__).parent / "shipped"


@attrs.frozen
class Record:
    """Hold what one schedule did on one device.

    Args:
        problem: what was multiplied.
        preset: by name.
        point: its keywords.
        device: the GPU's name.
        arch: what it was compiled for.
        us: median of the samples; None for a failure.
        p20: time that a fifth of the samples stays under.
        p80: time that four fifths stay under.
        samples: how many.
        modelled_us: what the cost model said; never measured.
        failure: why there is no time: stage, code and message.
        count: how many candidates failed in this way, where they were not compiled.
        source: digest of the CUDA that ran.
        schedule: the call, as Python.
        registers: of a thread.
        when: in UTC.
        machine: driver, clocks, versions.
    """

    problem: Problem
    preset: str
    point: Point
    device: str
    arch: str
    us: float | None = None
    p20: float = 0.0
    p80: float = 0.0
    samples: int = 0
    modelled_us: float | None = None
    failure: tuple[str, str, str] | None = None
    count: int = 1
    source: str = ""
    schedule: str = ""
    registers: int = 0
    when: str = ""
    machine: Mapping[str, Any] = attrs.field(factory=dict[str, Any], eq=False, repr=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Say which records are of the same thing: the one of more samples, else the later one, counts."""
        reason = self.failure[:2] if self.failure is not None and self.count > 1 else None
        return self.problem, self.preset, self.point, self.device, self.arch, reason

    @property
    def version(self) -> str:
        """Give the version of this library that measured it."""
        return str(self.machine.get("fireiron", ""))

    def to_json(self) -> dict[str, Any]:
        """Give plain data; what is not known is left out."""
        facts: dict[str, Any] = {"v": FORMAT, "problem": self.problem.to_json(), "preset": self.preset}
        facts |= {"keywords": self.point.to_json(), "device": self.device, "arch": self.arch}
        for name in ("us", "p20", "p80", "samples", "modelled_us", "source", "schedule", "registers", "when"):
            if value := getattr(self, name):
                facts[name] = round(value, 4) if isinstance(value, float) else value
        if self.failure is not None:
            facts["failure"] = dict(zip(("stage", "code", "message"), self.failure, strict=True))
            facts |= {"count": self.count} if self.count > 1 else {}
        return facts | {"machine": dict(self.machine)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Record:
        """Read what `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: where it is something else.
        """
        failed = facts.get("failure")
        plain = {name: facts[name] for name in ("us", "modelled_us", "source", "schedule", "when") if name in facts}
        numbers = {name: facts[name] for name in ("p20", "p80", "samples", "registers", "count") if name in facts}
        if not all(isinstance(value, int | float) for value in numbers.values()):
            raise TypeError("a number is no number")
        if ("us" in facts) == (failed is not None) or not isinstance(facts.get("us", 0), int | float):
            raise TypeError("it has neither a time nor a failure")
        return cls(
            problem=Problem.from_json(facts["problem"]),
            preset=str(facts["preset"]),
            point=point(facts["keywords"]),
            device=str(facts["device"]),
            arch=str(facts["arch"]),
            failure=None if failed is None else (failed["stage"], failed["code"], failed["message"]),
            machine=dict(facts.get("machine", {})),
            **plain,
            **numbers,
        )


@attrs.frozen
class Read:
    """Hold what a file gave.

    Args:
        records: one for each thing that was measured.
        problems: lines that were left out, each with the reason.
    """

    records: tuple[Record, ...]
    problems: tuple[str, ...] = ()


def default_path() -> Path:
    """Give the user's own file: FIREIRON_RECORDS, or `fireiron/records.jsonl` in the user's data folder."""
    chosen = os.environ.get("FIREIRON_RECORDS")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "fireiron" / FILE


def shipped() -> tuple[Path, ...]:
    """List the files of records that come with the library."""
    return tuple(sorted(SHIPPED.glob("*.jsonl")))


def append(path: Path, records: Iterable[Record]) -> None:
    """Add records to a file, all of them in one write.

    Raises:
        UsageError: `cannot-write`.
    """
    lines = "".join(json.dumps(record.to_json()) + "\n" for record in records).encode()
    if not lines:
        return
    try:
        with _opened(path) as descriptor:
            # A writer that was killed may have left half a line: ours must not become its other half.
            size = os.fstat(descriptor).st_size
            if size and _last_byte(descriptor, size) != b"\n":
                lines = b"\n" + lines
            while lines:
                lines = lines[os.write(descriptor, lines) :]
    except OSError as error:
        raise _cannot_write(path, error) from None


@contextmanager
def _opened(path: Path) -> Generator[int]:
    """Open a file for appending, and hold it for this process alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        try:
            with _locked(descriptor):
                # A merge may have replaced the file while this process waited for its turn.
                if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                    yield descriptor
                    return
        finally:
            os.close(descriptor)


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)


@contextmanager
def _locked(descriptor: int) -> Generator[None]:
    """Hold the file for this process alone; a process that dies gives it back."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        try:
            yield
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        return
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def read(path: Path) -> Read:
    """Read a file; a line that cannot be read is left out, and told.

    Raises:
        UsageError: `no-such-file`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            "no-such-file", f"{path} cannot be read: {error.strerror}", fix="name a file of records"
        ) from None
    found: list[Record] = []
    problems: list[str] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            facts = cast("dict[str, Any]", json.loads(line))
            if facts["v"] > FORMAT:
                problems.append(f"{path}:{number} has format {facts['v']}, and this fireiron reads {FORMAT}: left out")
                continue
            found.append(Record.from_json(facts))
        except (ValueError, KeyError, TypeError, UsageError) as error:
            # Only the last line of a file lacks its end, where a writer was killed.
            what = "is cut off" if number == len(lines) else f"is no record ({error})"
            problems.append(f"{path}:{number} {what}: left out")
    return Read(tuple(newest(found)), tuple(problems))


def newest(records: Iterable[Record]) -> list[Record]:
    """Keep one record of each thing: more samples before fewer, the later before the earlier."""
    kept: dict[tuple[object, ...], Record] = {}
    for record in records:
        known = kept.get(record.key)
        if known is None or (record.samples, record.when) >= (known.samples, known.when):
            kept[record.key] = record
    return list(kept.values())


def fastest(records: Iterable[Record], most: int) -> list[Record]:
    """Keep the fastest records of each problem, device and architecture; failures are left out."""
    kept: dict[tuple[object, ...], list[Record]] = {}
    for record in sorted((r for r in newest(records) if r.us is not None), key=_order):
        kept.setdefault((record.device, record.arch, record.problem), []).append(record)
    return [record for each in kept.values() for record in each[:most]]


def replace(out: Path, records: Iterable[Record]) -> None:
    """Write a file anew, at once or not at all; what was added to it since it was read is lost.

    Raises:
        UsageError: `cannot-write`.
    """
    aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with _opened(out):
            _write(aside, out, records)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise _cannot_write(out, error) from None


def _write(aside: Path, out: Path, records: Iterable[Record]) -> None:
    ordered = sorted(records, key=_order)
    aside.write_text("".join(json.dumps(r.to_json()) + "\n" for r in ordered), encoding="utf-8")
    os.replace(aside, out)


def _order(r: Record) -> tuple[object, ...]:
    return (r.device, str(r.problem), r.us is None, r.us or 0.0, r.preset, str(r.point))


def _cannot_write(path: Path, error: OSError) -> UsageError:
    return UsageError("cannot-write", f"{path} cannot be written: {error.strerror}", fix="name another file")


def merge(out: Path, inputs: Sequence[Path]) -> Read:
    """Write the records of several files into one, each thing once; the file is replaced at once or not at all.

    Args:
        out: the file to write; what it holds already takes part.
        inputs: files to read.

    Raises:
        UsageError: `no-such-file`, `cannot-write`.
    """
    read_in = [read(path) for path in inputs]
    aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with _opened(out):
            read_in.append(read(out))
            merged = sorted(newest(record for each in read_in for record in each.records), key=_order)
            _write(aside, out, merged)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise _cannot_write(out, error) from None
    return Read(tuple(merged), tuple(problem for each in read_in for problem in each.problems))


def now() -> str:
    """Give the time in UTC as records have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def described(machine: Machine, state: State) -> dict[str, Any]:
    """Give a machine's facts without those that a record has fields for, and what its board did."""
    facts = {name: value for name, value in machine.to_json().items() if name not in ("device", "arch")}
    return facts | ({"state": state.to_json()} if state.to_json() else {})
