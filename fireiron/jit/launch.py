"""Launch plans: a call whose shapes, dtypes and device were checked before runs the plan of the earlier call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError
from fireiron.cuda.types import bits_of
from fireiron.jit import maps
from fireiron.jit.arrays import span
from fireiron.jit.bind import Binding, concrete
from fireiron.jit.cluster import Configuration, check_cluster, configuration
from fireiron.jit.driver import INVALID_CONTEXT, Driver, Loaded
from fireiron.jit.interface import Interface, PointerParameter, SizeParameter
from fireiron.jit.maps import EncodedMaps
from fireiron.jit.ranges import ranged
from fireiron.jit.workspace import Workspaces

# How a number travels, by dtype; a float that C lacks travels as its bits.
_FORMATS = {
    "f64": "d", "f32": "f", "f16": "e", "bf16": "H", "tf32": "I", "e4m3": "B", "e5m2": "B",
    "i64": "q", "i32": "i", "i8": "b", "u8": "B",
}  # fmt: skip


class Arguments:
    """Hold one launch's arguments: their values, and the table of the values' addresses in parameter order.

    Args:
        places: first byte of each parameter's value.
        nbytes: bytes of all values together.
        configuration: how clusters, dependent and cooperative launches are launched, None for others.
    """

    __slots__ = ("configuration", "configuration_address", "context", "context_address", "start", "table", "values")

    def __init__(self, places: Sequence[int], nbytes: int, configuration: Configuration | None = None) -> None:
        self.values = (ctypes.c_char * (nbytes + maps.ALIGN))()
        base = ctypes.addressof(self.values)
        self.start = -base % maps.ALIGN
        self.table = (ctypes.c_void_p * max(len(places), 1))(*(base + self.start + place for place in places))
        self.configuration = configuration
        self.configuration_address = None if configuration is None else ctypes.byref(configuration)
        self.context = ctypes.c_void_p()
        self.context_address = ctypes.byref(self.context)


@attrs.frozen(eq=False)
class LaunchPlan:
    """Hold a validated call.

    Args:
        binding: the sizes, grid and device of the call.
        nbytes: bytes from first to last element of each array, inputs first.
        inputs: how many of the arrays are inputs.
        align_mask: bits that must be 0 in every address. Example: 15 where an array needs 16 bytes.
        run: the function that launches: run(addresses, numbers, stream).
    """

    binding: Binding
    nbytes: tuple[int, ...]
    inputs: int
    align_mask: int
    run: Callable[[Sequence[int], Sequence[float | int], int], None]

    def suspicious(self, addresses: Sequence[int]) -> bool:
        """Say whether addresses may be misaligned or overlap. False is certain; after True, a slower check decides."""
        count, nbytes, mask = self.inputs, self.nbytes, self.align_mask
        for address in addresses:
            if address & mask:
                return True
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
        interface: the kernel's interface.
        binding: the sizes, grid and device of the call.
        driver: the process's driver.
        loaded: the kernel on the binding's device.
        workspaces: the kernel's workspaces on that device, None for a kernel without workspaces.

    Raises:
        CallError: `cluster-size`, `cooperative-grid`, `no-nvtx`, and `map-...` for arrays that no tensor map describes.
    """
    check_cluster(interface.entry, interface.cluster)
    order = [*interface.inputs, *interface.outputs]
    nbytes = tuple(
        span(concrete(p.shape, binding.sizes), concrete(p.strides, binding.sizes)) * find_dtype(p.dtype).nbytes
        for p in order
    )
    run = _nothing
    if binding.grid:
        kept = None if workspaces is None else _kept(interface, binding, workspaces)
        run = ranged(_runner(interface, binding, driver, loaded, kept), interface.entry)
    return LaunchPlan(
        binding=binding, nbytes=nbytes, inputs=len(interface.inputs), align_mask=_align_mask(order), run=run
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
    """Encode a number for a launch: floats that C lacks become their bits, rounded as the GPU rounds them."""
    if dtype in ("tf32", "e4m3", "e5m2"):
        return bits_of(value, find_dtype(dtype))
    if dtype != "bf16":
        return value
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return 0x7FC0 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _align_mask(pointers: Sequence[PointerParameter]) -> int:
    # The strictest alignment serves all: an address that only it rejects is looked at again, parameter by parameter.
    return max((p.align for p in pointers), default=1) - 1


def _nothing(addresses: Sequence[int], numbers: Sequence[float | int], stream: int) -> None:
    """Launch nothing, for an empty output: CUDA refuses a launch of no blocks."""


@attrs.frozen
class _Block:
    """Lay out the values of a launch.

    Args:
        places: first byte of each parameter's value, in launch order.
        nbytes: bytes of all values together.
        pack: writes the maps, addresses, sizes, numbers and workspaces: pack(buffer, start, *values).
    """

    places: tuple[int, ...]
    nbytes: int
    pack: Callable[..., None]


def _block(interface: Interface) -> _Block:
    arrays = [*interface.inputs, *interface.outputs]
    sizes = [p for p in interface.parameters if isinstance(p, SizeParameter)]
    kept = interface.workspaces
    # Maps stand first, where they are aligned; every other value starts its own 8-byte slot, whatever its size.
    values = len(interface.maps) * maps.NBYTES
    places = {p.name: i * maps.NBYTES for i, p in enumerate(interface.maps)}
    places |= {p.name: values + 8 * i for i, p in enumerate([*arrays, *sizes, *interface.numbers, *kept])}
    numbers = [_FORMATS[n.dtype] for n in interface.numbers]
    padded = [f + "x" * (8 - struct.calcsize(f)) for f in numbers]
    mapped = f"{maps.NBYTES}s" * len(interface.maps)
    layout = struct.Struct(f"<{mapped}{'Q' * len(arrays)}{'i4x' * len(sizes)}{''.join(padded)}{'Q' * len(kept)}")
    return _Block(tuple(places[p.name] for p in interface.parameters), layout.size, layout.pack_into)


def _runner(
    interface: Interface,
    binding: Binding,
    driver: Driver,
    loaded: Loaded,
    workspaces: Callable[[int], tuple[int, ...]] | None,
) -> Callable[[Sequence[int], Sequence[float | int], int], None]:
    """Return a function that launches; arguments that stay the same are converted for ctypes here, once."""
    current_context = driver.current_context
    handle = ctypes.c_void_p(loaded.handle)
    context, device = loaded.context, loaded.device
    block = _block(interface)
    places, nbytes, pack = block.places, block.nbytes, block.pack
    sizes = tuple(binding.sizes[p.name] for p in interface.parameters if isinstance(p, SizeParameter))
    threads, shared, cluster = interface.threads, interface.shared_nbytes, interface.cluster
    grid = min(binding.grid, loaded.resident) if interface.persistent else binding.grid
    if interface.cooperative and grid > loaded.resident:
        raise CallError(
            "cooperative-grid",
            f"the {grid} blocks of {interface.entry} wait for each other, and GPU {device} runs {loaded.resident} at "
            "once",
            fix="use larger tiles or fewer ways, or drop shared=True",
        )
    plain = cluster == 1 and not interface.dependent and not interface.cooperative
    launch = driver.launch if plain else driver.launch_configured
    names = [p.name for p in (*interface.inputs, *interface.outputs)]
    encoded = [(names.index(r.array), EncodedMaps(r, driver)) for r in maps.recipes(interface, binding.sizes)]
    streams: dict[int, ctypes.c_void_p] = {}
    # Each launch borrows its own arguments: threads may call at once, and list.append and list.pop are atomic.
    pool: list[Arguments] = []

    def run(addresses: Sequence[int], numbers: Sequence[float | int], stream: int) -> None:
        kept = () if workspaces is None else workspaces(stream)
        try:
            arguments = pool.pop()
        except IndexError:
            made = None if plain else _configured(interface, grid)
            arguments = Arguments(places, nbytes, made)
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
            found = [known[addresses[i]] for i, known in encoded]
            pack(arguments.values, arguments.start, *found, *addresses, *sizes, *numbers, *kept)
            if arguments.configuration is None:
                code = launch(handle, grid, 1, 1, threads, 1, 1, shared, queue, arguments.table, None)
            else:
                arguments.configuration.stream = queue
                code = launch(arguments.configuration_address, handle, arguments.table, None)
        finally:
            if foreign:
                driver.pop()
        pool.append(arguments)
        if code:
            raise launch_error(interface, driver, code)

    return run


def _configured(interface: Interface, grid: int) -> Configuration:
    facts = interface.threads, interface.shared_nbytes, interface.cluster, interface.dependent, interface.cooperative
    return configuration(grid, *facts)


def launch_error(interface: Interface, driver: Driver, code: int) -> CallError:
    """Return the error for a launch that the driver refuses."""
    name: Any = driver.cu.CUresult(code).name
    fix = "run under compute-sanitizer: an earlier launch may have failed"
    if code == INVALID_CONTEXT:
        fix = "make a CUDA context current in this thread"
    return CallError("driver", f"launching {interface.entry} fails with {name}", fix=fix)
