"""The machine of a measurement: device, driver, clocks, power, and versions of the libraries."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from importlib import metadata
from typing import Any

import attrs

from fireiron.base.version import VERSION

NVML = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
SM_CLOCK, MEMORY_CLOCK = 1, 2  # of nvmlClockType_t
LIBRARIES = ("torch", "triton", "cuda-bindings", "nvidia-cublas", "nvidia-cublas-cu12", "numpy")


@attrs.frozen
class Machine:
    """Name a device, and the software that ran on it.

    Args:
        device: the GPU's name, "" where there is none.
        arch: the target that its kernels are compiled for (`sm_90a`).
        driver: version of the driver.
        cuda: newest CUDA that the driver runs. Example: `13.0`.
        nvrtc: version of the compiler.
        fireiron: version of this library.
        python: version of Python.
        sm_mhz_max: the highest clock of the SMs, in MHz.
        power_limit_w: power limit of the board, in watts.
        libraries: pairs of name and version of the libraries to compare with.
    """

    device: str
    arch: str
    driver: str = ""
    cuda: str = ""
    nvrtc: str = ""
    fireiron: str = VERSION
    python: str = platform.python_version()
    sm_mhz_max: int = 0
    power_limit_w: float = 0.0
    libraries: tuple[tuple[str, str], ...] = ()

    @property
    def software(self) -> tuple[str, str, str]:
        """Give the versions of the driver, the compiler and this library."""
        return self.driver, self.nvrtc, self.fireiron

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data, without unknown facts."""
        facts = {name: value for name, value in attrs.asdict(self).items() if value and name != "libraries"}
        return facts | ({"libraries": dict(self.libraries)} if self.libraries else {})

    def __str__(self) -> str:
        words = [f"{self.device or 'no GPU'} ({self.arch})"]
        words += [f"driver {self.driver}"] if self.driver else []
        words += [f"at most {self.sm_mhz_max} MHz"] if self.sm_mhz_max else []
        words += [f"{self.power_limit_w:.0f} W"] if self.power_limit_w else []
        words += [f"NVRTC {self.nvrtc}"] if self.nvrtc else []
        words += [f"{name} {version}" for name, version in self.libraries if name in ("torch", "triton")]
        return ", ".join(words)


@attrs.frozen
class State:
    """Hold clocks, power and temperature of the board at one moment.

    Args:
        sm_mhz: clock of the SMs in MHz.
        memory_mhz: clock of the memory in MHz.
        power_w: power of the board in watts.
        celsius: temperature in degrees Celsius.
    """

    sm_mhz: int = 0
    memory_mhz: int = 0
    power_w: float = 0.0
    celsius: int = 0

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data, without unknown facts."""
        return {name: value for name, value in attrs.asdict(self).items() if value}


class Board:
    """Read a GPU's clocks, power and temperature through NVML; everything is 0 where there is no NVML.

    Args:
        device: CUDA's ordinal.
    """

    def __init__(self, device: int = 0) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL(NVML)
        except OSError:
            return
        if library.nvmlInit_v2():
            return
        # CUDA_VISIBLE_DEVICES renumbers CUDA's devices and not NVML's: the bus tells which is which.
        bus = _bus(device)
        found = library.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(self._handle)) if bus else 1
        if not found:
            self._library = library

    def state(self) -> State:
        """Read the board now."""
        if self._library is None:
            return State()
        clocks = [self._number("nvmlDeviceGetClockInfo", kind) for kind in (SM_CLOCK, MEMORY_CLOCK)]
        power = self._number("nvmlDeviceGetPowerUsage") / 1000
        return State(clocks[0], clocks[1], power, self._number("nvmlDeviceGetTemperature", 0))

    @property
    def sm_mhz_max(self) -> int:
        """Return the highest clock of the SMs, in MHz."""
        return self._number("nvmlDeviceGetMaxClockInfo", SM_CLOCK)

    @property
    def power_limit_w(self) -> float:
        """Return the board's power limit, in watts."""
        return self._number("nvmlDeviceGetEnforcedPowerLimit") / 1000

    @property
    def driver(self) -> str:
        """Return the driver's version."""
        if self._library is None:
            return ""
        text = ctypes.create_string_buffer(96)
        return "" if self._library.nvmlSystemGetDriverVersion(text, 96) else text.value.decode()

    def _number(self, function: str, *chosen: int) -> int:
        if self._library is None:
            return 0
        value = ctypes.c_uint()
        status = getattr(self._library, function)(self._handle, *chosen, ctypes.byref(value))
        return 0 if status else value.value


def _bus(device: int) -> bytes:
    """Give a device's PCI address, b"" where the driver has none."""
    from fireiron.jit.driver import driver, probe

    if probe().problem:
        return b""
    used = driver()
    raw = used.call(used.cu.cuDeviceGetPCIBusId(32, used.call(used.cu.cuDeviceGet(device))))
    return bytes(raw).split(b"\0")[0]


@cache
def machine(device: int = 0) -> Machine:
    """Describe this machine; without a GPU, the compiler for the default target.

    Args:
        device: CUDA's ordinal.
    """
    from fireiron.algebra.arch import native
    from fireiron.base.errors import FireironError
    from fireiron.jit.compile import compiler
    from fireiron.jit.driver import driver, probe

    try:
        nvrtc = "{}.{}".format(*compiler().version)
    except FireironError:
        nvrtc = ""
    found = probe()
    libraries = tuple((name, version) for name in LIBRARIES if (version := _version(name)))
    if found.problem:
        return Machine("", native(90).name, nvrtc=nvrtc, libraries=libraries)
    used, board = driver(), Board(device)
    name = bytes(used.call(used.cu.cuDeviceGetName(128, device))).split(b"\0")[0].decode(errors="replace")
    return Machine(
        device=name,
        arch=native(used.compute_capability(device)).name,
        driver=board.driver,
        cuda="{}.{}".format(*found.version) if found.version else "",
        nvrtc=nvrtc,
        sm_mhz_max=board.sm_mhz_max,
        power_limit_w=board.power_limit_w,
        libraries=libraries,
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
