"""Compile in another process, so that a crash of NVRTC does not end this one.

Schedules that a search chose are compiled in this way: where a schedule crashes NVRTC, the search takes the next
schedule.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading

from fireiron.algebra.arch import Arch
from fireiron.base.errors import CompileError
from fireiron.jit import worker
from fireiron.jit.compile import Binary, CompileOptions, compile_source, compiler
from fireiron.jit.process import Lost, Process

LIMIT_S = 600.0


class _Apart:
    """Hold the process that compiles, and the lock under which one thread at a time uses it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process = Process()


_apart = _Apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_apart.__init__)  # a fork shares no process with its parent


def begin() -> None:
    """Start the process that compiles, while this process still lowers the kernel."""

    def start() -> None:
        with _apart.lock, contextlib.suppress(Exception):  # `compile_apart` finds out again
            _apart.process.call(int, limit_s=LIMIT_S)

    if not worker.serves() and not _apart.process.alive:
        threading.Thread(target=start, daemon=True).start()


def compile_apart(
    source: str, name: str, arch: Arch, options: CompileOptions | None = None, *, path: str | None = None
) -> Binary:
    """Compile as `compile_source` does, in another process.

    This process compiles itself in three cases: it is a worker of a search, no other process can start, or the other
    process finds another NVRTC.

    Raises:
        CompileError: `compiler-crash`. Otherwise as `compile_source` does.
    """
    task = functools.partial(compile_source, path=path)
    here = functools.partial(task, source, name, arch, options)
    if worker.serves():
        return here()
    with _apart.lock:
        try:
            _apart.process.call(int, limit_s=LIMIT_S)  # starts it
        except (Lost, OSError):
            return here()
        try:
            made: Binary = _apart.process.call(task, source, name, arch, options, limit_s=LIMIT_S)
        except Lost as lost:
            version = "{}.{}".format(*compiler(arch).version)
            raise CompileError(
                "compiler-crash",
                f"NVRTC {version} does not compile {name} for {arch.target.name}: {lost.message}",
                fix="choose another tile, split or unrolling, or another NVRTC",
            ) from None
    return made if made.compiler == compiler(arch) else here()
