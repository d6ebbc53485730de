"""A launch plan: all that a call with known shapes, dtypes and device has left to do."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError
from fireiron.cuda.types import bits_of
from fireiron.jit.arrays import span
from fireiron.jit.bind import Binding, concrete
from fireiron.jit.driver import INVALID_CONTEXT, Driver, Loaded
from fireiron.jit.interface import Interface, PointerParameter, SizeParameter
from fireiron.jit.workspace import Workspaces

# How a number travels, by dtype; a float that C lacks travels as its bits.
_FORMATS = {
    "f64": "d", "f32": "f", "f16": "e", "bf16": "H", "tf32": "I", "e4m3": "B", "e5m2": "B",
    "i32": "i", "i8": "b", "u8": "B",
}  # fmt: skip


class Arguments:
    """Hold one launch's arguments: values in 8-byte slots, and the table of their addresses in parameter order."""

    __slots__ = ("context", "context_address", "table", "values")

    def __init__(self, slots: Sequence[int]) -> None:
        self.values = (ctypes.c_uint64 * max(len(slots), 1))()
        base = ctypes.addressof(self.values)
        self.table = (ctypes.c_void_p * max(len(slots), 1))(*(base + 8 * slot for slot in slots))
        self.context = ctypes.c_void_p()
        self.context_address = ctypes.byref(self.context)


@attrs.frozen(eq=False)
class LaunchPlan:
    """Hold a validated call.

    Args:
        binding: sizes, grid, device.
        nbytes: bytes from first to last element of each array, inputs first.
        inputs: how many of the arrays are inputs.
        align_mask: bits that no address may have, all arrays together.
        pack: writes addresses, sizes and numbers into the slots.
        sizes: values of the size parameters.
        run: launches: run(addresses, numbers, stream).
    """

    binding: Binding
    nbytes: tuple[int, ...]
    inputs: int
    align_mask: int
    run: Callable[[Sequence[int], Sequence[float | int], int], None]

    def suspicious(self, addresses: Sequence[int]) -> bool:
        """Say whether addresses may be misaligned or overlap: cheap, and never wrong when it says no."""
        bits = 0
        for address in addresses:
            bits |= address
        if bits & self.align_mask:
            return True
        count, nbytes = self.inputs, self.nbytes
        for i in range(count, len(nbytes)):
            low = addresses[i]
            high = low + nbytes[i]
            for j in range(i):
                other = addresses[j]
                if other < high and low < other + nbytes[j]:
                    return True
        return False


def plan(
    interface: Interface, binding: Binding, driver: Driver, loaded: Loaded, workspaces: Workspaces | None = None
) -> LaunchPlan:
    """Prepare the launches of one combination of shapes, dtypes and device.

    Args:
        interface: the kernel's.
        binding: what the call's arguments decide.
        driver: the process's.
        loaded: the kernel on the binding's device.
        workspaces: its memory there, where it takes any.
    """
    order = [*interface.inputs, *interface.outputs]
    sizes = [p for p in interface.parameters if isinstance(p, SizeParameter)]
    slot = {p.name: i for i, p in enumerate([*order, *sizes, *interface.numbers, *interface.workspaces])}
    slots = [slot[p.name] for p in interface.parameters]
    # Every value starts its own 8-byte slot, whatever its size.
    numbers = [_FORMATS[n.dtype] for n in interface.numbers]
    padded = [f + "x" * (8 - struct.calcsize(f)) for f in numbers]
    pack = struct.Struct(
        f"<{'Q' * len(order)}{'i4x' * len(sizes)}{''.join(padded)}{'Q' * len(interface.workspaces)}"
    ).pack_into
    nbytes = tuple(
        span(concrete(p.shape, binding.sizes), concrete(p.strides, binding.sizes)) * find_dtype(p.dtype).nbytes
        for p in order
    )
    return LaunchPlan(
        binding=binding,
        nbytes=nbytes,
        inputs=len(interface.inputs),
        align_mask=_align_mask(order),
        run=_runner(
            interface,
            binding,
            driver,
            loaded,
            slots,
            pack,
            tuple(binding.sizes[s.name] for s in sizes),
            None if workspaces is None else _kept(interface, binding, workspaces),
        ),
    )


def _kept(interface: Interface, binding: Binding, workspaces: Workspaces) -> Callable[[int], tuple[int, ...]]:
    """Give a function that finds the addresses of the workspaces of one stream."""
    nbytes = [
        n * find_dtype(p.dtype).nbytes
        for p, n in zip(
            interface.workspaces, concrete([p.count for p in interface.workspaces], binding.sizes), strict=True
        )
    ]
    return lambda stream: workspaces.addresses(nbytes, stream)


def encode_number(value: float | int, dtype: str) -> float | int:
    """Give a number as the packer takes it: floats that C lacks as their bits, rounded as the conversion does."""
    if dtype in ("tf32", "e4m3", "e5m2"):
        return bits_of(value, find_dtype(dtype))
    if dtype != "bf16":
        return value
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return 0x7FC0 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _align_mask(pointers: Sequence[PointerParameter]) -> int:
    # The strictest alignment serves all: an address that only it rejects is looked at again, parameter by parameter.
    return max((p.align for p in pointers), default=1) - 1


def _runner(
    interface: Interface,
    binding: Binding,
    driver: Driver,
    loaded: Loaded,
    slots: Sequence[int],
    pack: Callable[..., None],
    sizes: tuple[int, ...],
    workspaces: Callable[[int], tuple[int, ...]] | None,
) -> Callable[[Sequence[int], Sequence[float | int], int], None]:
    """Close over everything that does not change, as arguments that ctypes takes without conversion."""
    launch, current_context = driver.launch, driver.current_context
    handle = ctypes.c_void_p(loaded.handle)
    context, device = loaded.context, loaded.device
    grid, threads, shared = binding.grid, interface.threads, interface.shared_nbytes
    streams: dict[int, ctypes.c_void_p] = {}
    # Each launch borrows its own arguments: threads may call at once, and list.append and list.pop are atomic.
    pool: list[Arguments] = []

    def run(addresses: Sequence[int], numbers: Sequence[float | int], stream: int) -> None:
        if grid == 0:  # an empty output: CUDA refuses a launch of no blocks
            return
        kept = () if workspaces is None else workspaces(stream)
        try:
            arguments = pool.pop()
        except IndexError:
            arguments = Arguments(slots)
        pack(arguments.values, 0, *addresses, *sizes, *numbers, *kept)
        queue = streams.get(stream)
        if queue is None:
            if len(streams) > 64:
                streams.clear()
            queue = streams[stream] = ctypes.c_void_p(stream)
        current_context(arguments.context_address)
        # A CUkernel with the default stream runs in the current context: it must be one of this device.
        foreign = arguments.context.value != context and driver.current_device() != device
        if foreign:
            driver.push(context)
        try:
            code = launch(handle, grid, 1, 1, threads, 1, 1, shared, queue, arguments.table, None)
        finally:
            if foreign:
                driver.pop()
        pool.append(arguments)
        if code:
            raise launch_error(interface, driver, code)

    return run


def launch_error(interface: Interface, driver: Driver, code: int) -> CallError:
    """Name the driver's refusal of a launch."""
    name: Any = driver.cu.CUresult(code).name
    fix = "run under compute-sanitizer: an earlier launch may have failed"
    if code == INVALID_CONTEXT:
        fix = "make a CUDA context current in this thread"
    return CallError("driver", f"launching {interface.entry} fails with {name}", fix=fix)
