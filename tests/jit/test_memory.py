"""Device memory, with a driver that stands in for CUDA's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fireiron.base.errors import CallError
from fireiron.jit.memory import DeviceArray


class Broken:
    """Allocate, and fail in everything else, as a context does in which a kernel trapped."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cu = SimpleNamespace(cuMemAlloc=lambda nbytes: ("alloc", 4096), cuMemFree=lambda address: ("free", None))

    def context(self, device: int) -> int:
        return 1

    def push(self, context: int) -> None:
        pass

    def pop(self) -> None:
        pass

    def call(self, answer: tuple[str, Any]) -> Any:
        self.asked.append(answer[0])
        if answer[0] == "free":
            raise CallError("driver", "the CUDA driver reports CUDA_ERROR_ASSERT")
        return answer[1]


def test_freeing_in_a_broken_context_hides_no_other_error() -> None:
    driver: Any = Broken()
    array = DeviceArray(driver, (4, 8), np.dtype("f4"))
    array.free()
    array.free()
    assert driver.asked == ["alloc", "free"]


def test_nothing_is_freed_at_the_end_of_the_interpreter() -> None:
    driver: Any = Broken()
    array = DeviceArray(driver, (4, 8), np.dtype("f4"))
    array.__del__(lambda: True)
    assert driver.asked == ["alloc"]
    array.__del__()
    assert driver.asked == ["alloc", "free"]
