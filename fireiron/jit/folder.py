"""The folder of the cache: its owner alone may enter it, links in it are not followed, and its size is limited."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

SUFFIXES = (
    ".kernel",
    ".library",
    ".choice",
    ".passed",
    ".cu",
)  # of what the cache writes; those of writers that are not done end in .tmp
SOURCES = "sources"
LIMIT_NBYTES = 1 << 30
LEFT = 0.9  # of the limit, once entries were evicted
LARGEST_NBYTES = 1 << 28  # of one file
ABANDONED_S = 3600.0  # after which an unfinished file has no writer any more
UNSEEN = 1 / 64  # of the limit: what a process may write before it looks at the folder again
UNSEEN_S = 60.0  # after which it looks at the next write
_SIZE = re.compile(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def cache_path() -> Path | None:
    """Give the folder of the cache: FIREIRON_CACHE_DIR, or `fireiron` in the user's cache folder; None without a home.

    Without a folder, kernels are kept in memory alone.
    """
    chosen = os.environ.get("FIREIRON_CACHE_DIR")
    try:
        if chosen:
            return Path(chosen).expanduser()
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = str(Path.home() / "Library" / "Caches")
        else:
            base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    except RuntimeError:
        return None
    return Path(base) / "fireiron" if os.path.isabs(base) else None


def limit() -> int:
    """Return the bytes that the cache may take: FIREIRON_CACHE_LIMIT (500M, 2G), or 1 GiB.

    Example:
        >>> os.environ["FIREIRON_CACHE_LIMIT"] = "2K"
        >>> limit()
        2048
        >>> del os.environ["FIREIRON_CACHE_LIMIT"]
    """
    found = _SIZE.fullmatch(os.environ.get("FIREIRON_CACHE_LIMIT", "").strip())
    if found is None:
        return LIMIT_NBYTES
    return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ")


class FolderError(OSError):
    """Say that a path cannot be used: it is no folder, or another user can write into it."""


def make_private(folder: Path) -> None:
    """Make a folder that only its owner may enter; an existing folder loses all rights of other users.

    Raises:
        OSError: where the folder cannot be made, or belongs to someone else.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = _owned(folder)
    if stat.S_IMODE(found.st_mode) & 0o077 and sys.platform != "win32":
        os.chmod(folder, 0o700)


def _owned(folder: Path) -> os.stat_result:
    """Refuse a folder that another user owns, or that is reached by another user's link."""
    link, found = folder.lstat(), folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise FolderError(errno.ENOTDIR, "it is no folder")
    if not (_ours(link) and _ours(found)):
        raise FolderError(errno.EPERM, f"it belongs to user {found.st_uid if _ours(link) else link.st_uid}")
    return found


def _ours(found: os.stat_result) -> bool:
    return sys.platform == "win32" or found.st_uid == os.geteuid()


def read_file(path: Path) -> bytes:
    """Read a file of the cache.

    Raises:
        FileNotFoundError: where there is none. OSError: where it is a link, no file, too large, or someone else's.
    """
    _owned(path.parent)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if not _ours(found):
            raise OSError(errno.EPERM, f"it belongs to user {found.st_uid}")
        if stat.S_IMODE(found.st_mode) & 0o022 and sys.platform != "win32":
            raise OSError(errno.EPERM, "others may write it")
        if found.st_size > LARGEST_NBYTES:
            raise OSError(errno.EFBIG, f"it has {found.st_size} bytes")
        return file.read(LARGEST_NBYTES)


def used(path: Path) -> None:
    """Set a file's time of use to now; its time of change stays."""
    with contextlib.suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.lstat().st_mtime_ns), follow_symlinks=False)


def write_file(path: Path, data: bytes) -> None:
    """Write a file under another name, then rename it: no reader sees a part of it.

    Raises:
        OSError: where the folder cannot be written, or belongs to someone else.
    """
    make_private(path.parent)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        _write(aside, data)
        os.replace(aside, path)
    except BaseException:  # Ctrl-C too: the unfinished file must go
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@attrs.frozen
class Kept:
    """Hold a cache file's place, size, and times of use and of change."""

    place: str  # making a path takes longer than reading a file's times
    nbytes: int
    used_ns: int
    changed_ns: int

    @property
    def path(self) -> Path:
        """Return the file's path."""
        return Path(self.place)

    @property
    def unfinished(self) -> bool:
        """Say whether the file is a temporary one: its writer has not finished, or was killed."""
        name = os.path.basename(self.place)
        return name.startswith(".") and name.endswith(".tmp")


def kept(folder: Path | None) -> Iterator[Kept]:
    """List the files that the cache wrote; other files, links and folders are left out."""
    if folder is None:
        return
    with contextlib.suppress(OSError):
        _owned(folder)
        for place in (folder, folder / SOURCES):
            with contextlib.suppress(OSError):
                if not stat.S_ISDIR(place.lstat().st_mode) and place != folder:
                    continue
                with os.scandir(place) as found:
                    entries = list(found)
                for entry in entries:
                    if not entry.name.endswith((*SUFFIXES, ".tmp")):
                        continue
                    with contextlib.suppress(OSError):
                        facts = entry.stat(follow_symlinks=False)
                        one = Kept(entry.path, facts.st_size, facts.st_atime_ns, facts.st_mtime_ns)
                        wrote = not entry.name.endswith(".tmp") or one.unfinished
                        if wrote and not stat.S_ISDIR(facts.st_mode):
                            yield one


@attrs.define
class _Unseen:
    """Hold what this process may still write into a folder before it looks at all of its files again."""

    limit: int
    looked_s: float
    room: float  # bytes


_unseen: dict[Path, _Unseen] = {}


def tidy(folder: Path, newest: Path, nbytes: int) -> int:
    """Delete files of killed writers and, where the cache is too large, the files whose last use is longest ago.

    A process looks at the folder's files at its first write, and again where the limit could be passed, after a 64th of
    the limit, or after a minute: to look at thousands of files takes much longer than to write one.

    Args:
        folder: of the cache.
        newest: the file just written, which is not deleted.
        nbytes: its size.

    Returns:
        Number of deleted files.
    """
    most, now = limit(), time.monotonic()
    unseen = _unseen.get(folder)
    if unseen is not None and unseen.limit == most and now - unseen.looked_s < UNSEEN_S and nbytes <= unseen.room:
        unseen.room -= nbytes
        return 0
    count, total = _tidied(folder, newest, most)
    _unseen[folder] = _Unseen(most, now, min(UNSEEN * most, most - total))
    return count


def _tidied(folder: Path, newest: Path, most: int) -> tuple[int, int]:
    """Return the number of deleted files, and how many bytes the others have."""
    count, total = 0, 0
    files: list[Kept] = []
    for one in kept(folder):
        if one.unfinished:
            if time.time_ns() - one.changed_ns > ABANDONED_S * 1e9:
                count += _gone(one.path)
        else:
            files.append(one)
            total += one.nbytes
    if total <= most:
        return count, total
    for one in sorted(files, key=lambda file: max(file.used_ns, file.changed_ns)):
        if total <= LEFT * most:
            break
        if one.path != newest and _gone(one.path):
            total -= one.nbytes
            count += 1
    return count, total


def clear(folder: Path | None) -> int:
    """Delete all files that the cache wrote; return their number."""
    return sum(_gone(one.path) for one in kept(folder))


def _gone(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
