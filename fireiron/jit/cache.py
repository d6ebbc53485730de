"""Compiled kernels on disk: one file each, written under another name and then renamed, and checked when read.

Nothing here imports CUDA, so that a kernel in the cache costs one file read. Where no folder can be used, a few kernels
are kept in memory, and one notice says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import sys
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from fireiron.base.version import VERSION
from fireiron.jit import folder
from fireiron.jit.compile import Binary, CompileOptions, Compiler
from fireiron.jit.folder import cache_path
from fireiron.jit.identity import Stamp, content, stamp
from fireiron.jit.interface import Interface
from fireiron.jit.resources import Resources

MAGIC = b"FIREIRON KERNEL\n"
FORMAT = 2
SUFFIX = ".kernel"
MOST_IN_MEMORY = 64  # kernels, where there is no folder
BESIDE = ("__pycache__", "bench", "mistakes")  # folders of the library whose code makes no kernel

PACKAGE = __name__.partition(".")[0]
_IMPORTED_NS = time.time_ns()
_PROCESS = secrets.token_hex(8)
_memory: OrderedDict[str, Entry] = OrderedDict()
_told: set[str] = set()
_first: dict[str, Stamp] = {}  # of the source files, as `first_digest` saw them


@attrs.frozen
class Entry:
    """Hold the contents of one file of the cache."""

    binary: Binary
    interface: Interface


class BrokenEntry(Exception):
    """Say why a file is not a valid entry."""


def library_digest() -> str:
    """Digest the library's source files, so that an edited or upgraded fireiron does not load kernels of an older one.

    The digest depends on the contents of the files, not on their times. Where a file changed after this process
    imported the library, the running code may be older than the files: the digest is then different from that of every
    other process.
    """
    root = _root()
    now = time.time_ns()
    facts: list[str] = [VERSION]
    stale = False
    for path, found in _sources(root):
        facts.append(f"{path[len(root) :]} {content((path,))}")
        # A time in the future is a clock that was wrong when the file was written, not an edit.
        stale = stale or _IMPORTED_NS < max(found.st_mtime_ns, found.st_ctime_ns) <= now
    if stale:
        facts.append(_PROCESS)
    return hashlib.blake2b("\n".join(sorted(facts)).encode(), digest_size=16).hexdigest()


@cache
def first_digest() -> str:
    """Return the library's digest as this process first saw it; looking at all files again takes milliseconds.

    What a process reads from the cache is found by it: the process runs the code of these files, whatever an edit makes
    of them later. What it writes is written only while `is_edited` is false.
    """
    _first.update((path, stamp((path,))) for path, _ in _sources(_root()))
    return library_digest()


def is_edited() -> bool:
    """Say whether a file of code that this process has imported changed since it took `first_digest`.

    What it computes may then be that of other code than the digest is of. Files that it did not import, hundreds of
    them, are not looked at.
    """
    first, root = first_digest(), _root() + os.sep
    for name, module in tuple(sys.modules.items()):
        path = getattr(module, "__file__", None) if name.startswith(PACKAGE) else None
        if not isinstance(path, str) or not path.startswith(root):
            continue
        if path not in _first:
            if not set(BESIDE).isdisjoint(path[len(root) :].split(os.sep)):
                continue
            return library_digest() != first
        try:
            if stamp((path,)) != _first[path]:
                return library_digest() != first
        except OSError:
            return True
    return False


def file_of(key: str, suffix: str) -> Path | None:
    """Return the path of the cache's file for a text, which this library's digest is a part of; None without a cache.

    Args:
        key: the text.
        suffix: end of the file's name.
    """
    place = cache_path()
    if place is None:
        return None
    return place / f"{hashlib.sha256(f'{first_digest()} {key}'.encode()).hexdigest()[:32]}{suffix}"


def _root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _sources(root: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root) as found:
        for entry in found:
            if entry.is_dir():  # in a checkout, the presets' folder is a link
                if entry.name not in BESIDE:
                    yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path, entry.stat()


def cache_key(digest: str, arch: str, options: CompileOptions, library: str | None = None) -> str:
    """Combine all that a kernel depends on into the name of its entry.

    Args:
        digest: of the schedule's structure, as the caller computes it.
        arch: name of the target.
        options: how the kernel is compiled.
        library: digest of the library's source files; `first_digest` where None.

    The NVRTC library is not part of the name, since it is slow to load. Instead the entry records which NVRTC file
    compiled the kernel, and `load` refuses the entry where that file has changed. The path of the Python environment is
    part of the name: two environments may have different NVRTCs.
    """
    facts = (digest, arch, repr(options), library or first_digest(), sys.prefix, platform.machine(), str(FORMAT))
    return hashlib.blake2b("\0".join(facts).encode(), digest_size=20).hexdigest()


def entry_path(key: str) -> Path | None:
    """Give the file of an entry, None where there is no folder."""
    place = cache_path()
    return None if place is None else place / f"{key}{SUFFIX}"


def load(key: str) -> Entry | None:
    """Read an entry, None where there is none that may be used.

    A file that is damaged, or that something or someone else wrote, is reported by a warning; the caller then builds
    and stores the kernel again.
    """
    if key in _memory:
        _memory.move_to_end(key)
        return _memory[key]
    path = entry_path(key)
    if path is None:
        return None
    try:
        data = folder.read_file(path)
    except (FileNotFoundError, NotADirectoryError, folder.FolderError):
        return None  # storing says what is wrong with a folder
    except OSError as error:
        _tell(f"fireiron does not read its cache entry {path}: {error.strerror}; compiling again")
        return None
    try:
        entry = _decoded(key, data)
    except BrokenEntry as error:
        _tell(f"fireiron's cache entry {path} is unusable: {error}; compiling again")
        return None
    if not entry.binary.compiler.is_current:
        return None
    folder.used(path)
    return entry


def store(key: str, entry: Entry) -> None:
    """Write an entry in one step, so that no reader sees a part of it, and delete entries that were not used for long.

    Where no folder can be written, the kernel is kept in memory, and one notice says so.
    """
    path = entry_path(key)
    if path is None:
        _remember(key, entry, "there is no home folder: set FIREIRON_CACHE_DIR")
        return
    data = _encoded(key, entry)
    try:
        folder.write_file(path, data)
    except OSError as error:
        _remember(key, entry, f"{path.parent} cannot be used: {error.strerror}")
        return
    folder.tidy(path.parent, path, len(data))


def _remember(key: str, entry: Entry, why: str) -> None:
    _memory[key] = entry
    while len(_memory) > MOST_IN_MEMORY:
        _memory.popitem(last=False)
    _tell(f"fireiron cannot write its cache, and keeps kernels in memory alone: {why}", once=why)


def _tell(said: str, once: str = "") -> None:
    """Warn of a problem with the cache, once in a process for each cause."""
    if once in _told:
        return
    if once:
        _told.add(once)
    warnings.warn(said, stacklevel=3)


def clear() -> int:
    """Delete all files of the cache, sources and unfinished files included; return the number of deleted files."""
    _memory.clear()
    _told.clear()
    return folder.clear(cache_path())


def usage() -> tuple[int, int]:
    """Count the entries and their bytes."""
    sizes = [one.nbytes for one in folder.kept(cache_path()) if one.path.suffix == SUFFIX]
    return len(sizes), sum(sizes)


def _encoded(key: str, entry: Entry) -> bytes:
    """Lay out an entry: magic, format, SHA-256 of the rest, length of the JSON, the JSON, the cubin."""
    facts = attrs.asdict(entry.binary, filter=lambda field, _: field.name != "cubin")
    facts |= {"key": key, "interface": entry.interface.to_json()}
    described = json.dumps(facts).encode()
    payload = len(described).to_bytes(8, "little") + described + entry.binary.cubin
    return MAGIC + FORMAT.to_bytes(4, "little") + hashlib.sha256(payload).digest() + payload


def _decoded(key: str, data: bytes) -> Entry:
    head = len(MAGIC)
    if not data.startswith(MAGIC):
        raise BrokenEntry("it is not a file of this cache")
    if (version := int.from_bytes(data[head : head + 4], "little")) != FORMAT:
        raise BrokenEntry(f"its format is {version}, this fireiron writes {FORMAT}")
    checksum, payload = data[head + 4 : head + 36], data[head + 36 :]
    if hashlib.sha256(payload).digest() != checksum:
        raise BrokenEntry("its checksum does not match its contents")
    size = int.from_bytes(payload[:8], "little")
    try:
        facts: dict[str, Any] = json.loads(payload[8 : 8 + size])
        if facts["key"] != key:
            raise BrokenEntry("it was written under another name")
        interface = Interface.from_json(facts["interface"])
        resources = facts["resources"]
        made_by = facts["compiler"]
        binary = Binary(
            name=facts["name"],
            arch=facts["arch"],
            source=facts["source"],
            ptx=facts["ptx"],
            cubin=payload[8 + size :],
            log=facts["log"],
            resources=Resources(**(resources | {"warnings": tuple(resources["warnings"])})),
            compiler=Compiler(
                version=tuple(made_by["version"]),
                path=str(made_by["path"]),
                digest=str(made_by["digest"]),
                stamp=tuple(tuple(int(x) for x in each) for each in made_by["stamp"]),
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BrokenEntry(f"its description is not one ({type(error).__name__}: {error})") from None
    return Entry(binary, interface)
