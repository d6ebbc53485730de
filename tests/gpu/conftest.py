"""Skip everything in this folder, with the reason, where no NVIDIA GPU can be used."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = str(HERE), str(HERE.parent / "atoms")  # the kernels around rows, which tests without a GPU share
LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"


@functools.cache
def why_no_gpu(library: str = LIBRARY) -> str | None:
    """Say why the driver gives no device, or None where there is one. Ask the driver alone: it starts no context."""
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return f"no NVIDIA GPU: {library} cannot be loaded"
    if (code := driver.cuInit(0)) != 0:
        return f"no NVIDIA GPU: cuInit returned {code}"
    count = ctypes.c_int(0)
    if (code := driver.cuDeviceGetCount(ctypes.byref(count))) != 0 or count.value == 0:
        return f"no NVIDIA GPU: cuDeviceGetCount returned {code}, {count.value} devices"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_no_gpu()
    if reason is None:
        return
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def gpu() -> int:
    """Give the ordinal of the device to run on."""
    return 0
