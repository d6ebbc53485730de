"""Files of records: lines of JSON, to which new records are appended.

Writers take turns by a lock. A writer that is killed leaves at most one incomplete line, which readers skip and the
next writer ends. Files of several machines are merged by `merge`, or by `cat`. Each line is checked separately, and
only lines that cannot be read are left out.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from fireiron.base.errors import UsageError
from fireiron.base.text import nbytes, printable
from fireiron.tune.machine import Machine, State
from fireiron.tune.plain import checked
from fireiron.tune.record import FORMAT, Record

FILE = "records.jsonl"
SHIPPED = Path(__file__).parent / "shipped"
MOST_NBYTES = 64 << 20  # of a file that is read; of a longer one the last
LONGEST_LINE = 64 << 10
BROKEN = ".broken"  # suffix of the file that repair moves broken lines to
TOLD = 5  # lines that are told one by one


@attrs.frozen
class Read:
    """Hold the contents of a file.

    Args:
        records: the latest record of each `Record.key`.
        problems: lines that were left out, each with the reason.
        newer: lines of a newer format, unchanged.
        broken: lines that are no records, unchanged.
    """

    records: tuple[Record, ...]
    problems: tuple[str, ...] = ()
    newer: tuple[bytes, ...] = ()
    broken: tuple[bytes, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """List the first problems, and count the others."""
        rest = len(self.problems) - TOLD
        return self.problems if rest <= 0 else (*self.problems[:TOLD], f"and {rest} more")


def default_path() -> Path:
    """Return the path of the user's own file: FIREIRON_RECORDS, or `fireiron/records.jsonl` in the user's data folder.

    Raises:
        UsageError: `cannot-write` where there is no home folder.
    """
    chosen = os.environ.get("FIREIRON_RECORDS")
    try:
        if chosen:
            return Path(chosen).expanduser()
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = str(Path.home() / "Library" / "Application Support")
        else:
            base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    except RuntimeError:
        raise UsageError(
            "cannot-write", "there is no home folder to keep records in", fix="set FIREIRON_RECORDS to a file"
        ) from None
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
            _append(descriptor, lines)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _append(descriptor: int, lines: bytes) -> None:
    # A writer that was killed may have left half a line: ours must not become its other half.
    size = os.fstat(descriptor).st_size
    if size and _last_byte(descriptor, size) != b"\n":
        lines = b"\n" + lines
    while lines:
        lines = lines[os.write(descriptor, lines) :]


@contextmanager
def _opened(path: Path) -> Generator[int]:
    """Open a file for appending, and lock it."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "no file has a null byte in its name")
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(
            path,
            os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0),
            0o644,
        )
        try:
            _regular(os.fstat(descriptor))
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
    """Lock a file; the lock ends with the process."""
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
    """Read a file; lines that cannot be read are left out and listed.

    Raises:
        UsageError: `no-such-file` where the path names no regular file.
    """
    try:
        data, whole = _bytes_of(path)
    except OSError as error:
        raise UsageError(
            "no-such-file", f"{path} cannot be read: {error.strerror}", fix="name a file of records"
        ) from None
    shown = printable(str(path))
    found: list[Record] = []
    problems = [] if whole else [f"{shown} is longer than {nbytes(MOST_NBYTES)}: its last lines are read"]
    newer: list[bytes] = []
    broken: list[bytes] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = _parsed(line)
        except _NewerError as error:
            newer.append(line)
            problems.append(f"{shown}:{number} {error}: left out")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
            # Only the last line of a file lacks its end, where a writer was killed.
            why = printable(str(error)).replace("\n", " ")[:200]
            what = "is cut off" if number == len(lines) else f"is no record ({why})"
            broken.append(line)
            problems.append(f"{shown}:{number} {what}: left out")
        else:
            found.append(record)
    return Read(tuple(newest(found)), tuple(problems), tuple(newer), tuple(broken))


class _NewerError(Exception):
    """Raised for a line of a newer format."""


def _parsed(line: bytes) -> Record:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"it has {len(line)} bytes, and at most {LONGEST_LINE} are allowed")
    facts = checked(json.loads(line))
    version = facts["v"]
    if isinstance(version, int) and not isinstance(version, bool) and version > FORMAT:
        raise _NewerError(f"has format {version}, and this fireiron reads {FORMAT}")
    if version != FORMAT:
        raise ValueError("its format is none")
    return Record.from_json(facts)


def _bytes_of(path: Path) -> tuple[bytes, bool]:
    """Read a regular file, or the last lines of a long file; pipes and devices are not read.

    Raises:
        OSError: where the file cannot be read.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "no file has a null byte in its name")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _regular(found)
        skipped = max(0, found.st_size - MOST_NBYTES)
        if skipped:
            file.seek(skipped)
            file.readline(LONGEST_LINE)
        return file.read(MOST_NBYTES), not skipped


def _regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def newest(records: Iterable[Record]) -> list[Record]:
    """Keep the latest record of each `Record.key`; of records with equal times, the last."""
    kept: dict[tuple[object, ...], Record] = {}
    for record in records:
        known = kept.get(record.key)
        # What is from the future, or cannot be, gives way to all that can.
        if known is None or (not record.doubt, record.when) >= (not known.doubt, known.when):
            kept[record.key] = record
    return list(kept.values())


def fastest(records: Iterable[Record], most: int) -> list[Record]:
    """Keep the fastest records of each problem, device and architecture; failures are left out."""
    kept: dict[tuple[object, ...], list[Record]] = {}
    for record in sorted((r for r in newest(records) if r.us is not None), key=_order):
        kept.setdefault((record.device, record.arch, record.problem), []).append(record)
    return [record for each in kept.values() for record in each[:most]]


def replace(out: Path, records: Iterable[Record], lines: Iterable[bytes] = ()) -> None:
    """Replace a file in one step; records that were appended after the file was read are lost.

    Args:
        out: the file.
        records: the records to write.
        lines: further lines to write unchanged.

    Raises:
        UsageError: `cannot-write`.
    """
    aside = _aside(out)
    try:
        with _opened(out):
            _write(aside, out, records, lines)
    except OSError as error:
        raise _cannot_write(out, error) from None
    finally:
        aside.unlink(missing_ok=True)


def _aside(out: Path) -> Path:
    if not out.name:  # `.` and `/`
        raise UsageError("cannot-write", f"{out} is a folder", fix="name a file")
    return out.with_name(f".{out.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def _write(aside: Path, out: Path, records: Iterable[Record], lines: Iterable[bytes]) -> None:
    written = [json.dumps(r.to_json()).encode() for r in sorted(records, key=_order)]
    with aside.open("xb") as file:  # never through what stands there
        file.write(b"".join(line + b"\n" for line in (*written, *dict.fromkeys(lines))))
    os.replace(aside, out)


def _order(r: Record) -> tuple[object, ...]:
    return (r.device, str(r.problem), r.us is None, r.us or 0.0, r.preset, str(r.point))


def _cannot_write(path: Path, error: OSError) -> UsageError:
    return UsageError("cannot-write", f"{path} cannot be written: {error.strerror}", fix="name another file")


def merge(out: Path, inputs: Sequence[Path]) -> Read:
    """Write the records of several files to one file, which is replaced in one step; each `Record.key` occurs once.

    Lines of newer formats and unknown fields are kept.

    Args:
        out: the file to write; its old records are merged too.
        inputs: files to read.

    Raises:
        UsageError: `no-such-file`, `cannot-write`.
    """
    read_in = [read(path) for path in inputs]

    def merged(mine: Read) -> Read:
        each = [mine, *read_in]
        return Read(
            tuple(sorted(newest(r for one in each for r in one.records), key=_order)),
            tuple(said for one in each for said in one.problems),
            tuple(line for one in each for line in one.newer),
            tuple(line for one in each for line in one.broken),
        )

    return _rewritten(out, merged, keep_broken=True)


def repair(path: Path) -> Read:
    """Move the lines of a file that are no records to a file beside it; lines of newer formats stay.

    Raises:
        UsageError: `no-such-file`, `cannot-write`.
    """
    found = read(path)  # a file that is not there is not made
    beside = Path(f"{path}{BROKEN}")

    def move(mine: Read) -> Read:
        if mine.broken:
            with _opened(beside) as descriptor:
                _append(descriptor, b"".join(line + b"\n" for line in mine.broken))
        return mine

    return _rewritten(path, move, keep_broken=False) if found.broken else found


def _rewritten(out: Path, change: Callable[[Read], Read], *, keep_broken: bool) -> Read:
    """Read a file and replace it, under the lock."""
    aside = _aside(out)
    try:
        with _opened(out) as descriptor:
            if os.fstat(descriptor).st_size > MOST_NBYTES:
                raise OSError(errno.EFBIG, f"it is longer than {nbytes(MOST_NBYTES)}, and would lose lines")
            found = change(read(out))
            _write(aside, out, found.records, (*found.newer, *(found.broken if keep_broken else ())))
    except OSError as error:
        raise _cannot_write(out, error) from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return found


def described(machine: Machine, state: State) -> dict[str, Any]:
    """Return a machine's facts, without those that are fields of a record, and the board's state."""
    facts = {name: value for name, value in machine.to_json().items() if name not in ("device", "arch")}
    return facts | ({"state": state.to_json()} if state.to_json() else {})
