"""Device memory for arrays that come from the host."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fireiron.algebra.elements import strided
from fireiron.base.errors import CallError
from fireiron.jit.arrays import contiguous
from fireiron.jit.driver import Driver


class DeviceArray:
    """Own device memory shaped like a NumPy array; freed with the object, or by `free`.

    Args:
        driver: the process's driver.
        shape: extents.
        strides: in elements.
        dtype: NumPy dtype of the elements.
        device: the GPU's ordinal.
    """

    def __init__(
        self,
        driver: Driver,
        shape: tuple[int, ...],
        dtype: Any,
        device: int = 0,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.shape = shape
        self.strides = contiguous(shape) if strides is None else strides
        self.dtype = dtype
        self.device = device
        self._driver = driver
        self._context = driver.context(device)
        self.nbytes = max(1, _elements(shape, self.strides)) * int(dtype.itemsize)
        self.address = 0
        driver.push(self._context)
        try:
            self.address = int(driver.call(driver.cu.cuMemAlloc(self.nbytes)))
        finally:
            driver.pop()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        itemsize = int(self.dtype.itemsize)
        return {
            "data": (self.address, False),
            "shape": self.shape,
            "strides": tuple(s * itemsize for s in self.strides),
            "typestr": self.dtype.str,
            "version": 3,
            "stream": None,
        }

    def upload(self, host: Any) -> None:
        """Copy a NumPy array of the same shape to the device, where it has this object's strides."""
        import numpy as np

        packed = np.zeros(self.nbytes // int(self.dtype.itemsize), self.dtype)
        self._like(packed)[...] = host
        self._do(self._driver.cu.cuMemcpyHtoD, self.address, packed.ctypes.data, self.nbytes)

    def download(self, host: Any) -> None:
        """Copy the contents out into a NumPy array of the same shape, after all work on the device."""
        import numpy as np

        packed = np.zeros(self.nbytes // int(self.dtype.itemsize), self.dtype)
        self._do(self._driver.cu.cuMemcpyDtoH, packed.ctypes.data, self.address, self.nbytes)
        host[...] = self._like(packed)

    def free(self) -> None:
        """Return the memory; a second call does nothing."""
        address, self.address = self.address, 0
        if address:
            # What a failed kernel leaves of a context frees nothing; its error is the one to see.
            with suppress(CallError):
                self._do(self._driver.cu.cuMemFree, address)

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end the driver's functions are gone already, and the process gives the memory back.
        if getattr(self, "address", 0) and not ends():
            self.free()

    def _like(self, packed: Any) -> Any:
        return strided(packed, self.shape, self.strides)

    def _do(self, function: Any, *arguments: int) -> None:
        self._driver.push(self._context)
        try:
            self._driver.call(function(*arguments))
        finally:
            self._driver.pop()


def _elements(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
