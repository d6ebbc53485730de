"""A driver whose device memory is the host's, and whose kernels are NumPy: a session's logic runs without a GPU."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from fireiron.jit.interface import Interface

L2_NBYTES = 1 << 16


class FakeCuda:
    """Answer the driver's calls that a session makes."""

    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE=38)

    def __init__(self) -> None:
        self.buffers: dict[int, Any] = {}
        self.recorded = 0

    def CUstream(self, handle: int) -> int:
        return handle

    def cuMemAlloc(self, nbytes: int) -> tuple[int, int]:
        buffer = (ctypes.c_byte * nbytes)()
        address = ctypes.addressof(buffer)
        self.buffers[address] = buffer
        return 0, address

    def cuMemFree(self, address: int) -> tuple[int]:
        del self.buffers[address]
        return (0,)

    def _copy(self, to: int, source: int, nbytes: int) -> tuple[int]:
        ctypes.memmove(to, source, nbytes)
        return (0,)

    cuMemcpyHtoD = cuMemcpyDtoH = cuMemcpyDtoD = _copy

    def cuMemsetD8(self, address: int, value: int, count: int) -> tuple[int]:
        ctypes.memset(address, value, count)
        return (0,)

    def cuMemsetD32Async(self, address: int, value: int, count: int, stream: int) -> tuple[int]:
        assert 4 * count >= 2 * L2_NBYTES
        return (0,)

    def cuStreamCreate(self, flags: int) -> tuple[int, int]:
        return 0, 7

    def cuEventCreate(self, flags: int) -> tuple[int, int]:
        return 0, 1

    def cuEventRecord(self, event: int, stream: int) -> tuple[int]:
        self.recorded += 1
        return (0,)

    def cuEventSynchronize(self, event: int) -> tuple[int]:
        return (0,)

    cuStreamSynchronize = cuEventSynchronize

    def cuEventElapsedTime(self, begin: int, end: int) -> tuple[int, float]:
        return 0, 0.01


class FakeDriver:
    """Stand for `fireiron.jit.driver.Driver`."""

    result: type = np.float16  # element type of C

    def __init__(self) -> None:
        self.cu = FakeCuda()

    def call(self, answer: tuple[Any, ...]) -> Any:
        assert answer[0] == 0
        return answer[1] if len(answer) == 2 else None

    def context(self, device: int) -> int:
        return 1

    def push(self, context: int) -> None: ...

    def pop(self) -> None: ...

    def attribute(self, name: Any, device: int) -> int:
        return L2_NBYTES

    def compute_capability(self, device: int) -> int:
        return 90

    def load(self, binary: Any, interface: Interface, device: int) -> Any:
        assert binary.name == interface.entry == "compare"
        return SimpleNamespace(handle=3)

    def launch(self, handle: Any, *shape: Any) -> int:
        """Run the comparison kernel: its arguments are read as the driver reads them."""
        assert shape[:7] == (1024, 1, 1, 256, 1, 1, 0)
        addresses = shape[8]
        got, expected, wrong, count = (ctypes.c_uint64.from_address(addresses[i]).value for i in range(4))
        relative, absolute = (ctypes.c_double.from_address(addresses[i]).value for i in (4, 5))
        x, y = (_array(address, count, self.result).astype(np.float64) for address in (got, expected))
        differ = ~(np.abs(x - y) <= relative * np.abs(y) + absolute)
        ctypes.c_uint64.from_address(wrong).value = int(differ.sum())
        return 0


def _array(address: int, count: int, kind: type) -> np.ndarray:
    size = np.dtype(kind).itemsize
    return np.frombuffer((ctypes.c_byte * (size * count)).from_address(address), kind)
