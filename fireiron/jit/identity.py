"""Identify files by a digest of their contents; times and sizes could be equal for different contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from fireiron.jit import folder

Stamp: TypeAlias = tuple[tuple[int, ...], ...]
BLOCK_NBYTES = 1 << 20

_known: dict[tuple[str, Stamp], str] = {}  # of files of this process' libraries: a few hundred
MOST_KNOWN = 4096


def stamp(paths: Sequence[str]) -> Stamp:
    """Describe files by facts that every write changes: device, inode, size, and times.

    Raises:
        OSError: where one cannot be found.
    """
    return tuple((s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in map(os.stat, paths))


def content(paths: Sequence[str], *, keep: bool = False) -> str:
    """Digest the contents of files; files that did not change since the last call are not read again.

    Args:
        paths: of the files.
        keep: whether the digest is kept in the cache too, so that other processes need not read large files.

    Raises:
        OSError: where one cannot be read.
    """
    found = stamp(paths)
    key = "\0".join(paths), found
    known = _known.get(key) or (_kept(found) if keep else None)
    if known is None:
        known = _digested(paths)
        if keep:
            _keep(found, known)
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[key] = known
    return known


def _digested(paths: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
            while block := file.read(BLOCK_NBYTES):
                digest.update(block)
    return digest.hexdigest()


def _file(found: Stamp) -> Path | None:
    place = folder.cache_path()
    return None if place is None else place / f"{hashlib.sha256(repr(found).encode()).hexdigest()[:32]}.library"


def _kept(found: Stamp) -> str | None:
    path = _file(found)
    try:
        text = b"" if path is None else folder.read_file(path)
    except OSError:
        return None
    written = text.decode(errors="replace").partition(" ")
    right = len(written[0]) == 64 and written[2] == _check(found, written[0])
    return written[0] if right else None


def _keep(found: Stamp, digest: str) -> None:
    path = _file(found)
    if path is not None:
        try:
            folder.write_file(path, f"{digest} {_check(found, digest)}".encode())
        except OSError:
            return  # the next process reads the library again


def _check(found: Stamp, digest: str) -> str:
    return hashlib.sha256(f"{found!r} {digest}".encode()).hexdigest()
