"""NVRTC 12.9, the last that compiles for sm_70 and sm_72, beside the 13 of the environment.

A process may use both libraries. The functions here have the names of those in `cuda.bindings.nvrtc`, and also return a
status, then values.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any

from fireiron.base.errors import CompileError

INSTALL = "pip install 'fireiron[volta]'"
PACKAGE = "nvidia.cuda_nvrtc"  # of the wheel nvidia-cuda-nvrtc-cu12
FIRST_OF_13 = 75
# It says at each compile that later releases drop these targets, which is why it is used.
NOTICE = "Architectures prior to"


class nvrtcResult(enum.IntEnum):
    """Name the statuses that `compile.py` reads."""

    NVRTC_SUCCESS = 0
    NVRTC_ERROR_OUT_OF_MEMORY = 1
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2
    NVRTC_ERROR_INVALID_INPUT = 3
    NVRTC_ERROR_INVALID_PROGRAM = 4
    NVRTC_ERROR_INVALID_OPTION = 5
    NVRTC_ERROR_COMPILATION = 6
    NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7
    NVRTC_ERROR_INTERNAL_ERROR = 11


class Nvrtc12:
    """Call the shared library through ctypes.

    Args:
        path: of the library.
    """

    nvrtcResult = nvrtcResult

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(path)

    def _call(self, name: str, *arguments: Any) -> nvrtcResult:
        code: int = getattr(self._library, name)(*arguments)
        return nvrtcResult(code) if code in set(nvrtcResult) else nvrtcResult.NVRTC_ERROR_INTERNAL_ERROR

    def nvrtcVersion(self) -> tuple[nvrtcResult, int, int]:
        """Give major and minor."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        return self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor)), major.value, minor.value

    def nvrtcGetSupportedArchs(self) -> tuple[nvrtcResult, list[int]]:
        """List the architectures' numbers."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        return self._call("nvrtcGetSupportedArchs", found), list(found)

    def nvrtcCreateProgram(
        self, source: bytes, name: bytes, _count: int, _headers: None, _names: None
    ) -> tuple[nvrtcResult, ctypes.c_void_p]:
        """Make a program of one source without headers."""
        program = ctypes.c_void_p()
        return self._call("nvrtcCreateProgram", ctypes.byref(program), source, name, 0, None, None), program

    def nvrtcCompileProgram(self, program: ctypes.c_void_p, count: int, options: Sequence[bytes]) -> tuple[nvrtcResult]:
        """Compile."""
        return (self._call("nvrtcCompileProgram", program, count, (ctypes.c_char_p * count)(*options)),)

    def nvrtcDestroyProgram(self, program: ctypes.c_void_p) -> tuple[nvrtcResult]:
        """Free a program."""
        return (self._call("nvrtcDestroyProgram", ctypes.byref(program)),)

    def nvrtcGetProgramLogSize(self, program: ctypes.c_void_p) -> tuple[nvrtcResult, int]:
        """Count the log's bytes."""
        return self._size("nvrtcGetProgramLogSize", program)

    def nvrtcGetProgramLog(self, program: ctypes.c_void_p, into: bytes) -> tuple[nvrtcResult]:
        """Fill in the log."""
        return (self._call("nvrtcGetProgramLog", program, into),)

    def nvrtcGetCUBINSize(self, program: ctypes.c_void_p) -> tuple[nvrtcResult, int]:
        """Count the cubin's bytes."""
        return self._size("nvrtcGetCUBINSize", program)

    def nvrtcGetCUBIN(self, program: ctypes.c_void_p, into: bytes) -> tuple[nvrtcResult]:
        """Fill in the cubin."""
        return (self._call("nvrtcGetCUBIN", program, into),)

    def nvrtcGetPTXSize(self, program: ctypes.c_void_p) -> tuple[nvrtcResult, int]:
        """Count the PTX's bytes."""
        return self._size("nvrtcGetPTXSize", program)

    def nvrtcGetPTX(self, program: ctypes.c_void_p, into: bytes) -> tuple[nvrtcResult]:
        """Fill in the PTX."""
        return (self._call("nvrtcGetPTX", program, into),)

    def _size(self, name: str, program: ctypes.c_void_p) -> tuple[nvrtcResult, int]:
        size = ctypes.c_size_t()
        return self._call(name, program, ctypes.byref(size)), size.value


def find(package: str = PACKAGE) -> str | None:
    """Find the library of the wheel, None where it is not installed."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    folder, name = ("bin", "nvrtc64_120_0.dll") if sys.platform == "win32" else ("lib", "libnvrtc.so.12")
    for root in (found.submodule_search_locations or ()) if found is not None else ():
        path = os.path.join(root, folder, name)
        if os.path.exists(path):
            return path
    return None


def without_notice(log: str) -> str:
    """Drop the notice that an old target is old."""
    return "\n".join(line for line in log.splitlines() if NOTICE not in line)


@functools.cache
def _loaded(path: str) -> Nvrtc12:
    return Nvrtc12(path)


def nvrtc12(arch: str) -> Nvrtc12:
    """Load NVRTC 12.

    Args:
        arch: name of the target, for the message.

    Raises:
        CompileError: `no-nvrtc`.
    """
    path = find()
    if path is None:
        raise CompileError(
            "no-nvrtc",
            f"NVRTC 13 does not compile for {arch}, and NVRTC 12.9, which does, is not installed",
            fix=f"{INSTALL}, which installs nvidia-cuda-nvrtc-cu12 12.9",
        )
    return _loaded(path)
