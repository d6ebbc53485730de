"""The CUDA driver: found once, it loads each kernel once per device; launches go through ctypes."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import attrs

from fireiron.algebra.arch import MAX_CLUSTER
from fireiron.algebra.arch import arch as find_arch
from fireiron.base.errors import CallError
from fireiron.jit.cluster import check_cluster, configuration
from fireiron.jit.compile import Binary
from fireiron.jit.interface import Interface

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
INVALID_CONTEXT = 201
CAPTURING = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


@attrs.frozen
class DriverFacts:
    """Hold what a probe of the driver found.

    Args:
        version: (major, minor) of the newest CUDA that it runs, None where no driver loads.
        gpus: number of GPUs.
        problem: why nothing can run, "" where it can.
        sms: number of SMs of the GPU that has the fewest; 0 without a GPU.
    """

    version: tuple[int, int] | None
    gpus: int
    problem: str = ""
    sms: int = 0


@cache
def probe() -> DriverFacts:
    """Look for the driver and its GPUs, without cuda.bindings: after its first failing call, later calls fail too."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        return DriverFacts(None, 0, f"{LIBRARY} does not load ({error})")
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)):
        return DriverFacts(None, 0, "the driver does not tell its version")
    version = number.value // 1000, number.value % 1000 // 10
    if code := library.cuInit(0):
        return DriverFacts(version, 0, f"cuInit fails with error {code}")
    library.cuDeviceGetCount(ctypes.byref(number))
    gpus = number.value
    sms = min((_sms(library, device) for device in range(gpus)), default=0)
    return DriverFacts(version, gpus, "" if gpus else "the driver sees no GPU", sms)


def _sms(library: ctypes.CDLL, device: int) -> int:
    """Count the SMs of a GPU; 0 where the driver reports none."""
    handle, number = ctypes.c_int(), ctypes.c_int()
    failed = library.cuDeviceGet(ctypes.byref(handle), device)
    failed = failed or library.cuDeviceGetAttribute(ctypes.byref(number), MULTIPROCESSORS, handle)
    return 0 if failed else number.value


def require(binary: Binary, facts: DriverFacts) -> None:
    """Make sure that a driver can run what NVRTC made.

    Raises:
        CallError: `no-gpu`, `old-driver`.
    """
    if facts.version is not None and facts.version[0] < binary.compiler.version[0]:
        has, needs = ("{}.{}".format(*v) for v in (facts.version, binary.compiler.version))
        raise CallError(
            "old-driver",
            f"the driver runs CUDA {has}, and NVRTC {needs} compiled {binary.name}: it needs a driver of CUDA "
            f"{binary.compiler.version[0]}.0 or later",
            fix="upgrade the NVIDIA driver (580 or later runs CUDA 13)",
        )
    if facts.problem:
        raise CallError(
            "no-gpu",
            f"{binary.name} cannot run here: {facts.problem}",
            fix="run it on a machine with an NVIDIA GPU, or simulate: pass NumPy arrays, or use schedule.simulate(...)",
        )


@attrs.frozen
class Loaded:
    """Hold a kernel loaded on one device.

    Args:
        handle: the CUkernel.
        device: the GPU's ordinal.
        context: its primary context.
        resident: blocks of the kernel that the device runs at once; 0 for kernels that are neither persistent nor
            cooperative.
    """

    handle: int
    device: int
    context: int
    resident: int = 0


class Driver:
    """Call the driver; a process has one instance.

    Calls that prepare launches go through cuda.bindings. Launches call the driver's functions through ctypes, with
    arguments made in advance, which takes a third of the time of the bindings.
    """

    def __init__(self) -> None:
        self.cu: Any = import_module("cuda.bindings.driver")
        self._library = library = ctypes.CDLL(LIBRARY)
        self.launch: Callable[..., int] = library.cuLaunchKernel
        self.current_context: Callable[..., int] = library.cuCtxGetCurrent
        self._contexts: dict[int, int] = {}
        self._lock = threading.Lock()
        self.call(self.cu.cuInit(0))

    # Drivers before CUDA 12 lack these, and are told apart by `require` before anything asks for them.
    @cached_property
    def launch_configured(self) -> Callable[..., int]:
        """Give cuLaunchKernelEx."""
        return self._library.cuLaunchKernelEx

    @cached_property
    def encode_map(self) -> Callable[..., int]:
        """Give cuTensorMapEncodeTiled."""
        return self._library.cuTensorMapEncodeTiled

    @cached_property
    def encode_windows(self) -> Callable[..., int]:
        """Give cuTensorMapEncodeIm2col."""
        return self._library.cuTensorMapEncodeIm2col

    def call(self, answer: tuple[Any, ...]) -> Any:
        """Return the result of a driver function, which stands behind its status.

        Raises:
            CallError: `driver`.
        """
        if int(answer[0]):
            raise CallError(
                "driver", f"the CUDA driver reports {answer[0].name}", fix="see the CUDA driver API's CUresult"
            )
        return answer[1] if len(answer) == 2 else answer[1:]

    def context(self, device: int) -> int:
        """Give the primary context of a device, kept alive from the first use."""
        with self._lock:
            if device not in self._contexts:
                handle = self.call(self.cu.cuDeviceGet(device))
                self._contexts[device] = int(self.call(self.cu.cuDevicePrimaryCtxRetain(handle)))
            return self._contexts[device]

    def push(self, context: int) -> None:
        """Make a context current in this thread."""
        self.call(self.cu.cuCtxPushCurrent(self.cu.CUcontext(context)))

    def pop(self) -> None:
        """Make the context current again that was so before the last push."""
        self.call(self.cu.cuCtxPopCurrent())

    def current_device(self) -> int | None:
        """Give the ordinal of the current context's device, None without a context."""
        result, device = self.cu.cuCtxGetDevice()
        return None if int(result) else int(device)

    def compute_capability(self, device: int) -> int:
        """Give a device's compute capability as an integer (90)."""
        names = self.cu.CUdevice_attribute
        major = self.attribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
        return 10 * major + self.attribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)

    def capturing(self, stream: int) -> bool:
        """Say whether a stream's launches are being captured in a CUDA graph."""
        status = ctypes.c_int()
        code = self._library.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
        return not code and status.value == CAPTURING  # an error: another stream's capture forbids the default stream

    def attribute(self, name: Any, device: int) -> int:
        """Give one attribute of a device."""
        return int(self.call(self.cu.cuDeviceGetAttribute(name, device)))

    def load(self, binary: Binary, interface: Interface, device: int) -> Loaded:
        """Load a kernel on a device, and opt in to its shared memory.

        Raises:
            CallError: `wrong-arch`, `no-room`, `driver`.
        """
        cu, target, shared_nbytes = self.cu, find_arch(binary.arch), interface.shared_nbytes
        number = self.compute_capability(device)
        if not target.runs_on(number):
            raise CallError(
                "wrong-arch",
                f"{binary.name} is compiled for {target}, and GPU {device} is sm_{number}",
                fix=f"compile(arch='sm_{number}')",
            )
        context = self.context(device)
        self.push(context)
        # Another thread or this one may be capturing a CUDA graph: loading is not part of it.
        mode = self.call(cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            library = self.call(cu.cuLibraryLoadData(binary.cubin, [], [], 0, [], [], 0))
            kernel = self.call(cu.cuLibraryGetKernel(library, binary.name.encode()))
            if shared_nbytes > target.shared_without_opt_in:
                name = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self.call(cu.cuKernelSetAttribute(name, shared_nbytes, kernel, cu.CUdevice(device)))
            if interface.cluster > MAX_CLUSTER:
                name = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                self.call(cu.cuKernelSetAttribute(name, 1, kernel, cu.CUdevice(device)))
            # Lazy loading would otherwise put the code on the device at the first launch, which a capture forbids.
            self.call(cu.cuKernelGetFunction(kernel))
            resident = (
                self.resident(int(kernel), interface, device) if interface.persistent or interface.cooperative else 0
            )
        finally:
            cu.cuThreadExchangeStreamCaptureMode(mode)
            self.pop()
        return Loaded(int(kernel), device, context, resident)

    def resident(self, kernel: int, interface: Interface, device: int) -> int:
        """Count the blocks of a kernel that run at once in the current context: a multiple of the cluster's.

        Raises:
            CallError: `cluster-size`, `no-room`, `driver`.
        """
        cluster, threads, shared_nbytes = interface.cluster, interface.threads, interface.shared_nbytes
        check_cluster(interface.entry, cluster)
        cu, function = self.cu, ctypes.c_void_p(kernel)  # both queries take a CUkernel in a CUfunction's place
        number = ctypes.c_int()
        if cluster == 1:
            ask = self._library.cuOccupancyMaxActiveBlocksPerMultiprocessor
            code = ask(ctypes.byref(number), function, ctypes.c_int(threads), ctypes.c_size_t(shared_nbytes))
            units = self.attribute(cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device)
        else:
            made = configuration(cluster, threads, shared_nbytes, cluster)
            code = self._library.cuOccupancyMaxActiveClusters(ctypes.byref(number), function, ctypes.byref(made))
            units = cluster
        self.call((cu.CUresult(code), number))
        if number.value == 0:
            what = "block" if cluster == 1 else f"cluster of {cluster} blocks"
            raise CallError(
                "no-room",
                f"GPU {device} has no room for one {what} of {interface.entry}: {threads} threads and "
                f"{shared_nbytes} bytes of shared memory a block",
                fix="use smaller tiles, fewer stages or a smaller cluster",
            )
        return number.value * units


@cache
def driver() -> Driver:
    """Give the process's driver."""
    return Driver()
