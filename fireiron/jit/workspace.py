"""Workspaces: device memory that a kernel keeps between launches; it is zeroed once, and each launch restores it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np

from fireiron.jit.driver import Driver
from fireiron.jit.memory import DeviceArray

PER_THREAD = 2  # CU_STREAM_PER_THREAD: one handle, a stream for each host thread
# Memory that captured launches use, by address: nobody tells when the last CUDA graph that uses it is gone.
_captured: dict[int, DeviceArray] = {}
_here = threading.local()


@contextmanager
def owned_capture() -> Generator[None]:
    """Capture launches for a graph that does not outlive their kernels: memory is then kept no longer than these."""
    before, _here.owned = getattr(_here, "owned", False), True
    try:
        yield
    finally:
        _here.owned = before


class Workspaces:
    """Keep a kernel's workspaces on one device, a set for each stream: launches of two streams may overlap.

    A stream gets its memory at its first launch, or in a capture, and keeps it as long as the kernel lives; memory that
    a captured launch uses is kept until the process ends, except in an `owned_capture`. A CUDA graph uses the memory of
    the stream that was captured, so it must not run beside launches on that stream.
    """

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver = driver
        self._device = device
        self._lock = threading.Lock()
        self._newest: dict[tuple[int, int], tuple[DeviceArray, ...]] = {}
        self._kept: list[DeviceArray] = []

    def addresses(self, nbytes: Sequence[int], stream: int) -> tuple[int, ...]:
        """Return the addresses of a stream's workspaces of at least these sizes, zeroed when new; they stay the same.

        Raises:
            CallError: `driver`.
        """
        key = stream, threading.get_ident() if stream == PER_THREAD else 0
        with self._lock:
            found = self._newest.get(key, ())
            if len(found) != len(nbytes) or any(a.nbytes < n for a, n in zip(found, nbytes, strict=True)):
                # Doubling bounds what growing leaves behind.
                room = [max(n, 2 * a.nbytes) for n, a in zip(nbytes, found, strict=True)] if found else list(nbytes)
                found = self._newest[key] = self._zeroed(room)
                self._kept += found
        if not getattr(_here, "owned", False) and self._driver.capturing(stream):
            _captured.update((array.address, array) for array in found)
        return tuple(array.address for array in found)

    def _zeroed(self, nbytes: Sequence[int]) -> tuple[DeviceArray, ...]:
        cu, call = self._driver.cu, self._driver.call
        self._driver.push(self._driver.context(self._device))
        # A capture that goes on is not to hold this: it happens once, now.
        mode = call(cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            arrays = tuple(DeviceArray(self._driver, (n,), np.dtype(np.uint8), self._device) for n in nbytes)
            # On a stream of its own, and awaited: any stream may launch next.
            aside = call(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))
            for array in arrays:
                call(cu.cuMemsetD8Async(array.address, 0, array.nbytes, aside))
            call(cu.cuStreamSynchronize(aside))
            call(cu.cuStreamDestroy(aside))
        finally:
            cu.cuThreadExchangeStreamCaptureMode(mode)
            self._driver.pop()
        return arrays
