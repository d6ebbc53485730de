"""A stand-in for PyTorch and the driver: tensors in host memory and empty launches, to time the host's part."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from fireiron.jit import kernel
from fireiron.jit.driver import DriverFacts, Loaded


class Tensor:
    """Stand for a tensor on a GPU.

    Args:
        array: the NumPy array with the tensor's memory.
    """

    __slots__ = ("_address", "_stride", "array", "device", "dtype", "is_cuda", "requires_grad", "shape")

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype.name}"
        self.is_cuda, self.requires_grad, self.device = True, False, SimpleNamespace(type="cuda", index=0)
        self._address = array.ctypes.data
        self._stride = tuple(s // array.itemsize for s in array.strides)

    def stride(self) -> tuple[int, ...]:
        """Give the strides in elements."""
        return self._stride

    def get_device(self) -> int:
        """Give the GPU's ordinal."""
        return 0

    def data_ptr(self) -> int:
        """Give the address."""
        return self._address

    def is_contiguous(self) -> bool:
        """Say whether elements lie densely, row by row."""
        return bool(self.array.flags.c_contiguous)

    def swapaxes(self, a: int, b: int) -> Tensor:
        """View the tensor with two dimensions exchanged."""
        return Tensor(self.array.swapaxes(a, b))

    def reshape(self, shape: tuple[int, ...]) -> Tensor:
        """View the tensor in another shape."""
        return Tensor(self.array.reshape(shape))

    def expand(self, shape: tuple[int, ...]) -> Tensor:
        """View the tensor repeated."""
        return Tensor(np.broadcast_to(self.array, shape))


class Driver:
    """Stand for the driver: a launch converts all arguments, and runs no kernel."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.launch = self.launch_clusters = library.abs  # number of the null handle: 0, as that of success
        self.current_context = library.abs

    def load(self, binary: Any, interface: Any, device: int) -> Loaded:
        """Return a handle that refers to no kernel."""
        nothing: Any = None  # what ctypes reads where the context is null
        return Loaded(0, device, nothing, 1)


def torch(**more: Any) -> ModuleType:
    """Make a module with the parts of PyTorch that a call uses."""
    made: Any = ModuleType("torch")
    made.Tensor = Tensor
    made.is_grad_enabled = lambda: True
    made._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 7)
    made.empty_strided = _empty_strided
    for name in ("float16", "float32", "float64", "int8", "int32"):
        setattr(made, name, name)
    vars(made).update(more)
    return made


def _empty_strided(shape: tuple[int, ...], stride: tuple[int, ...], *, dtype: str, device: object) -> Tensor:
    kind = np.dtype(dtype.removeprefix("torch."))
    count = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    flat = np.empty(count, kind)
    return Tensor(np.lib.stride_tricks.as_strided(flat, shape, [s * kind.itemsize for s in stride]))


@contextmanager
def stand_in(driver: Any = None) -> Iterator[None]:
    """Replace PyTorch and the driver by the stand-ins."""
    used = driver or Driver()
    before = sys.modules.get("torch")
    sys.modules["torch"] = torch()
    try:
        with (
            patch.object(kernel, "driver", lambda: used),
            patch.object(kernel, "probe", lambda: DriverFacts((99, 0), 1)),
        ):
            yield
    finally:
        if before is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = before
