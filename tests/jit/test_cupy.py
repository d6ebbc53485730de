"""CuPy's arrays, and those that have DLPack alone, where neither CuPy nor a GPU is: stand-ins with NumPy's memory."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny_kernel import SOURCE, make_kernel

from fireiron.algebra.arch import arch
from fireiron.base.errors import CallError
from fireiron.jit import kernel as jit_kernel
from fireiron.jit.compile import compile_source
from fireiron.jit.driver import DriverFacts, Loaded
from fireiron.jit.interface import Interface
from fireiron.jit.kernel import CompiledKernel

CURRENT, DEVICE = 77, 1


class ndarray:
    """Hold what CuPy's arrays tell of themselves; the memory is NumPy's."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.dtype, self.shape, self.strides = values.dtype, values.shape, values.strides
        self.device = SimpleNamespace(id=DEVICE)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        lies_dense = self.values.flags.c_contiguous
        return {
            "data": (self.values.ctypes.data, False), "shape": self.shape, "typestr": self.dtype.str,
            "strides": None if lies_dense else self.strides, "descr": self.dtype.descr, "version": 3, "stream": 1,
        }  # fmt: skip


ndarray.__module__ = "cupy"


class Driver:
    """Run `axpy` of the tests on the memory that a launch names, and keep what it was given."""

    def __init__(self) -> None:
        self.streams: list[int] = []
        self.devices: list[int] = []

    def current_context(self, address: Any) -> int:
        address._obj.value = 7
        return 0

    def current_device(self) -> int:
        return DEVICE

    def load(self, binary: Any, interface: Any, device: int) -> Loaded:
        self.devices.append(device)
        return Loaded(99, device, 7)

    def launch(self, handle: Any, *rest: Any) -> int:
        *_, stream, table, _extra = rest
        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32, ctypes.c_float)
        x, y, m, n, alpha = (kind.from_address(table[i]).value for i, kind in enumerate(kinds))
        source, target = (np.ctypeslib.as_array((ctypes.c_float * (m * n)).from_address(place)) for place in (x, y))
        target[:] = alpha * source
        self.streams.append(int(stream.value or 0))
        return 0


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Put a stand-in in CuPy's place, and list the devices that it was switched to."""
    seen: list[int] = []

    @contextmanager
    def device(number: int) -> Iterator[None]:
        seen.append(number)
        yield

    stride_tricks = SimpleNamespace(
        as_strided=lambda a, shape, strides: ndarray(np.lib.stride_tricks.as_strided(a.values, shape, strides))
    )
    cupy: Any = ModuleType("cupy")
    cupy.ndarray = ndarray
    cupy.empty = lambda shape, dtype: ndarray(np.full(shape, np.nan, dtype))
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=CURRENT), Device=device)
    cupy.lib = SimpleNamespace(stride_tricks=stride_tricks)
    cupy.broadcast_to = lambda a, shape: ndarray(np.broadcast_to(a.values, shape))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return seen


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(jit_kernel, "probe", lambda: DriverFacts((13, 0), 2))
    monkeypatch.setattr(jit_kernel, "driver", lambda: made)
    return made


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    return CompiledKernel(compile_source(SOURCE, "axpy", arch(80)), Interface.of(make_kernel()))


def test_cupy_arrays_run_on_their_device_and_stream(devices: list[int], driver: Driver, kernel: CompiledKernel) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    made = kernel(ndarray(x), alpha=3.0)
    assert isinstance(made, ndarray)  # CuPy allocates it, on the array's device
    assert devices == [DEVICE]
    assert driver.devices == [DEVICE]
    assert driver.streams == [CURRENT]  # and not the one that the interface names
    assert (made.values == 3 * x).all()
    out = ndarray(np.empty_like(x))
    assert kernel(ndarray(x), out=out, stream=5) is out
    assert driver.streams == [CURRENT, 5]
    assert (out.values == 2 * x).all()


def test_cupy_arrays_are_held_to_what_the_kernel_reads(
    devices: list[int], driver: Driver, kernel: CompiledKernel
) -> None:
    wide = np.zeros((4, 16), np.float32)
    for wrong, code in (
        (wide[:, ::2], "wrong-stride"),
        (np.zeros((4, 8), np.float16), "wrong-dtype"),
        (np.zeros((4, 6), np.float32), "precondition"),
    ):
        with pytest.raises(CallError) as caught:
            kernel(ndarray(wrong))
        assert caught.value.code == code
    assert driver.streams == []


class Exported:
    """Have DLPack alone; `kind` 1 is host memory, 2 a CUDA GPU's."""

    def __init__(self, values: Any, kind: int) -> None:
        self.values, self.kind = values, kind

    def __dlpack__(self, **named: Any) -> Any:
        self.named = named
        return self.values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0


def test_dlpack_of_a_gpu(driver: Driver, kernel: CompiledKernel) -> None:
    x, y = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
    given, out = Exported(x, 2), Exported(y, 2)
    assert kernel(given, out=out) is out
    assert (y == 2 * x).all()
    assert given.named["stream"] == -1  # the caller's order of streams stands
    assert driver.streams == [0]
    with pytest.raises(CallError) as caught:
        kernel(given)
    assert caught.value.code == "wrong-count"
    assert "out=" in (caught.value.fix or "")
    with pytest.raises(CallError) as caught:
        kernel(Exported(x, 10), out=out)
    assert caught.value.message == "X lies on a DLPack device of kind 10"
