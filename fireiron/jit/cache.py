"""Compiled kernels on disk: one self-contained file each, written aside and renamed, checked when read.

Nothing here imports CUDA, so that a warm compile costs a file read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from fireiron.base.version import VERSION
from fireiron.jit.compile import Binary, CompileOptions, Compiler
from fireiron.jit.interface import Interface
from fireiron.jit.resources import Resources

MAGIC = b"FIREIRON KERNEL\n"
FORMAT = 1
SUFFIX = ".kernel"

_IMPORTED_NS = time.time_ns()
_PROCESS = secrets.token_hex(8)


@attrs.frozen
class Entry:
    """Hold what one file of the cache gives back."""

    binary: Binary
    interface: Interface


class BrokenEntry(Exception):
    """Say why a file is no entry."""


def cache_path() -> Path:
    """Give the folder of the cache: FIREIRON_CACHE_DIR, or `fireiron` in the user's cache folder."""
    chosen = os.environ.get("FIREIRON_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fireiron"


def library_digest() -> str:
    """Digest the library's own source files, so that an edited or upgraded fireiron never meets its older kernels.

    A file's path, size and modification time stand for its text. Where a file changed after this process imported the
    library, the running code may be older than the files: the digest then belongs to this process alone.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    now = time.time_ns()
    facts: list[str] = [VERSION, root]
    stale = False
    for path, found in _sources(root):
        facts.append(f"{path[len(root) :]} {found.st_size} {found.st_mtime_ns}")
        # A time in the future is a clock that was wrong when the file was written, not an edit.
        stale = stale or _IMPORTED_NS < found.st_mtime_ns <= now
    if stale:
        facts.append(_PROCESS)
    return hashlib.blake2b("\n".join(sorted(facts)).encode(), digest_size=16).hexdigest()


def _sources(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path, entry.stat()


def cache_key(digest: str, arch: str, options: CompileOptions) -> str:
    """Combine what a kernel depends on into the name of its entry.

    Args:
        digest: of the schedule's structure, as the caller computes it.
        arch: name of the target.
        options: how it is compiled.

    The NVRTC library is not part of the name, since finding it means loading it: the entry records which file
    compiled it, and `load` takes it only while that file is unchanged. The environment's prefix keeps two
    environments with different NVRTCs apart.
    """
    facts = (digest, arch, repr(options), library_digest(), sys.prefix, platform.machine(), str(FORMAT))
    return hashlib.blake2b("\0".join(facts).encode(), digest_size=20).hexdigest()


def entry_path(key: str) -> Path:
    """Give the file of an entry."""
    return cache_path() / f"{key}{SUFFIX}"


def load(key: str) -> Entry | None:
    """Read an entry, None where there is none that may be used.

    A file that is damaged, or that something else wrote, is reported by a warning; the caller then builds and stores
    the kernel again.
    """
    path = entry_path(key)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        warnings.warn(f"fireiron cannot read its cache entry {path}: {error}; compiling again", stacklevel=2)
        return None
    try:
        entry = _decoded(key, data)
    except BrokenEntry as error:
        warnings.warn(f"fireiron's cache entry {path} is unusable: {error}; compiling again", stacklevel=2)
        return None
    return entry if entry.binary.compiler.is_current else None


def store(key: str, entry: Entry) -> None:
    """Write an entry so that no reader ever sees a part of it: aside first, then renamed over the name.

    A cache that cannot be written costs a warning, never the kernel.
    """
    path = entry_path(key)
    aside = path.with_name(f".{key}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(aside, _encoded(key, entry))
            os.replace(aside, path)
        except BaseException:  # Ctrl-C too: the unfinished file must go
            with contextlib.suppress(OSError):
                aside.unlink()
            raise
    except OSError as error:
        warnings.warn(f"fireiron cannot write its cache in {path.parent}: {error}", stacklevel=2)


def clear() -> int:
    """Delete every entry, kept source, and leftover of an interrupted writer; return how many files went."""
    folder = cache_path()
    if not folder.is_dir():
        return 0
    count = 0
    for path in (*folder.iterdir(), *folder.glob("sources/*.cu")):
        if path.parent != folder or path.suffix == SUFFIX or (path.name.startswith(".") and path.suffix == ".tmp"):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                count += 1
    return count


def usage() -> tuple[int, int]:
    """Count the entries and their bytes."""
    folder = cache_path()
    sizes = [path.stat().st_size for path in folder.glob(f"*{SUFFIX}")] if folder.is_dir() else []
    return len(sizes), sum(sizes)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)


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
            compiler=Compiler(**(made_by | {"version": tuple(made_by["version"])})),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenEntry(f"its description is not one ({type(error).__name__}: {error})") from None
    return Entry(binary, interface)
