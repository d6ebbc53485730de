"""The simulated memories: user arrays as flat GL, one block's shared bytes, registers as (register, thread)."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import attrs
import numpy as np

from fireiron.algebra.elements import strided
from fireiron.algebra.expr import evaluate
from fireiron.base.errors import SimulationError
from fireiron.base.text import nbytes as nbytes_in_words
from fireiron.kernel.ir.statements import Buffer, Kernel, Pointer, Workspace
from fireiron.simulate.fragment import Fragment
from fireiron.simulate.order import Array, Order, some
from fireiron.simulate.tracker import Tracker

MOST_SHARED = 1 << 20  # limit of a block's bytes: a few times what any GPU has


@attrs.define(eq=False)
class Storage:
    """Hold one buffer's elements.

    Args:
        buffer: the buffer of the kernel.
        kind: GL, SH or RF; fragment registers count as RF.
        data: flat elements; for RF an array (registers, threads).
        size: number of elements that an access may touch (for RF in one thread).
        base: first byte in shared memory.
        tracker: records accesses to find races; None where none are possible.
        granule: bytes of one granule of the tracker.
        initialised: for RF, which elements were written.
        shape: extents of a GL array.
        strides: its element strides.
        must_write: whether a read needs an earlier write.
        reaches: cached results of `reach`, by steps.
        fragment: for RF of asynchronous instructions, the state of instructions in flight.
        arrived: for counters, the number of units that have counted in in this launch, by element.
        begun: number of blocks that have begun; within a block, what is initialised stays so.
    """

    buffer: Buffer
    kind: str
    data: Array
    size: int
    base: int = 0
    tracker: Tracker | None = None
    granule: int = 1
    initialised: Array | None = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    must_write: bool = False
    reaches: dict[bytes, tuple[int, ...]] = attrs.field(factory=dict[bytes, tuple[int, ...]])
    fragment: Fragment | None = None
    arrived: dict[int, int] = attrs.field(factory=dict[int, int])
    begun: int = 0

    def reach(self, steps: Array) -> tuple[int, ...]:
        """Return how far a view's elements extend from the first one along each dimension."""
        key = steps.tobytes()
        if key not in self.reaches:
            places = [self.coordinates(int(step)) for step in steps]
            self.reaches[key] = tuple(max(along) for along in zip(*places, strict=True))
        return self.reaches[key]

    @property
    def form(self) -> tuple[object, ...]:
        """Return all that a list of accessed elements depends on, but the elements' values."""
        return self.kind, self.size, self.data.itemsize, self.base, self.granule, self.shape, self.strides

    @property
    def itemsize(self) -> int:
        """Give the bytes of one element."""
        return self.data.itemsize

    def granules(self, elements: Array, who: Array) -> tuple[Array, Array]:
        """Return the granules of flat elements, and the accessing thread of each."""
        if self.granule == self.itemsize:
            return (elements + self.base // self.granule if self.base else elements), who
        each = self.itemsize // self.granule
        first = elements * each + self.base // self.granule
        return (first[:, None] + np.arange(each)).reshape(-1), np.repeat(who, each)

    def element_of(self, granule: int) -> int:
        """Return the flat element that contains a granule."""
        return (granule * self.granule - self.base) // self.itemsize

    def name(self, element: int) -> str:
        """Return an element's name for messages: coordinates in a GL array, else its index in the buffer."""
        if self.kind == "GL" and self.shape:
            return f"{self.buffer.name}[{', '.join(map(str, self.coordinates(element)))}]"
        if self.kind == "SH":
            return f"{self.buffer.name}[{element}] (byte {self.base + element * self.itemsize} of shared memory)"
        return f"{self.buffer.name}[{element}]"

    def coordinates(self, element: int) -> tuple[int, ...]:
        """Compute the coordinates of a flat GL element, largest stride first."""
        found = [0] * len(self.shape)
        for at in sorted(range(len(self.shape)), key=lambda at: (-self.strides[at], self.shape[at] == 1)):
            if self.strides[at] and self.shape[at] != 1:
                found[at], element = divmod(element, self.strides[at])
        return tuple(found)


def registers(buffer: Buffer, sizes: Mapping[str, int], threads: int, fragment: bool = False) -> Storage:
    """Make the registers of a buffer for some threads, without values.

    Args:
        buffer: the buffer of the kernel.
        sizes: values of the symbols.
        threads: number of threads.
        fragment: whether asynchronous instructions use it.
    """
    size = _int(evaluate(buffer.size, sizes)) * buffer.slots
    rows = max(size, 1)
    return Storage(
        buffer=buffer,
        kind="RF",
        data=np.zeros((rows, threads), buffer.dtype.numpy),
        size=size,
        initialised=np.zeros((rows, threads), bool),
        fragment=Fragment.of(rows, threads) if fragment else None,
    )


def shared(kernel: Kernel, sizes: Mapping[str, int], order: Order, check: bool) -> list[Storage]:
    """Make the SH buffers as views of one block's bytes; overlaid buffers share bytes and records of accesses.

    Raises:
        SimulationError: `out-of-bounds` where a buffer does not fit into the block's shared memory, `shared-memory`
            where no GPU has as much shared memory.
    """
    buffers = [buffer for buffer in kernel.buffers if buffer.memory.name == "SH"]
    if not buffers:
        return []
    if kernel.shared_nbytes > MOST_SHARED:
        raise SimulationError(
            "shared-memory",
            f"a block takes {nbytes_in_words(kernel.shared_nbytes)} of shared memory, and no machine has as much",
            fix="use smaller tiles and pads, shorter chunks or fewer stages",
        )
    granule = gcd(*(buffer.offset for buffer in buffers), *(buffer.dtype.nbytes for buffer in buffers))
    content = np.zeros(max(kernel.shared_nbytes, 1), np.uint8)
    tracker = Tracker(-(-kernel.shared_nbytes // granule), order, "SH", check)
    found: list[Storage] = []
    for buffer in buffers:
        item = buffer.dtype.nbytes
        nbytes = buffer.nbytes or _int(evaluate(buffer.size, sizes)) * buffer.slots * item
        if buffer.offset + nbytes > kernel.shared_nbytes:
            raise SimulationError(
                "out-of-bounds",
                f"the buffer {buffer.name} takes bytes {buffer.offset} to {buffer.offset + nbytes} of shared memory, "
                f"of which the block has {kernel.shared_nbytes}",
                fix="give the kernel more shared_nbytes, or place the buffer at a lower offset",
            )
        found.append(
            Storage(
                buffer=buffer,
                kind="SH",
                data=content[buffer.offset : buffer.offset + nbytes // item * item].view(buffer.dtype.numpy),
                size=nbytes // item,
                base=buffer.offset,
                tracker=tracker,
                granule=granule,
                must_write=True,
            )
        )
    return found


def pointer(parameter: Pointer, array: Array | None, sizes: Mapping[str, int], order: Order, check: bool) -> Storage:
    """Make the flat GL memory of a user's array.

    Raises:
        SimulationError: `array-missing`, `array-dtype`, `array-shape`, `array-strides`.
    """
    buffer = parameter.buffer
    shape = tuple(_int(evaluate(extent, sizes)) for extent in parameter.shape)
    strides = tuple(_int(evaluate(stride, sizes)) for stride in parameter.strides)
    if array is None:
        raise SimulationError("array-missing", f"no array was given for {buffer.name}", fix=f"pass {buffer.name}=...")
    if buffer.dtype.packed and array.dtype == np.int8:
        array = array.view(np.uint8)
    if array.dtype != buffer.dtype.numpy:
        raise SimulationError(
            "array-dtype",
            f"{buffer.name} is an array of {array.dtype}, the kernel reads {buffer.dtype}",
            fix=f"convert it with .astype({str(buffer.dtype.numpy)!r})",
        )
    if array.shape != shape:
        raise SimulationError(
            "array-shape",
            f"{buffer.name} has the shape {array.shape}, the kernel takes {shape}",
            fix="pass the sizes that the arrays have",
        )
    actual = tuple(step // array.itemsize for step in array.strides)
    empty = 0 in shape
    if not empty and any(n > 1 and a != s for n, a, s in zip(shape, actual, strides, strict=True)):
        raise SimulationError(
            "array-strides",
            f"{buffer.name} has element strides {actual}, the kernel takes {strides}",
            fix="copy it into an array with these strides",
        )
    size = 0 if empty else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if size:
        data = strided(array, (size,), (1,))
    else:
        data = np.zeros(1, array.dtype)  # masked lanes still gather from element 0
    writes = parameter.role != "input"
    return Storage(
        buffer=buffer,
        kind="GL",
        data=data,
        size=size,
        tracker=Tracker(max(size, 1), order, "GL", check) if writes else None,
        granule=array.itemsize,
        shape=shape,
        strides=strides,
        must_write=parameter.role == "output",
    )


def workspace(parameter: Workspace, sizes: Mapping[str, int], order: Order, check: bool) -> Storage:
    """Make the GL memory of a kernel's workspace."""
    buffer = parameter.buffer
    size = _int(evaluate(buffer.size, sizes))
    return Storage(
        buffer=buffer,
        kind="GL",
        data=np.zeros(max(size, 1), buffer.dtype.numpy),
        size=size,
        tracker=Tracker(max(size, 1), order, "GL", check),
        granule=buffer.dtype.nbytes,
        shape=(size,),
        strides=(1,),
        must_write=not parameter.zero,
    )


def uncovered(storage: Storage, groups: tuple[int, int] | None = None) -> tuple[int, str]:
    """Return the number of elements of an output that no thread wrote, and the name of the first one.

    Args:
        storage: the output's storage.
        groups: the dimension that is cut into groups, and the end of the last group; None without groups.
    """
    tracker = storage.tracker
    if tracker is None or not storage.size:
        return 0, ""
    steps = tuple(stride * tracker.write_time.itemsize for stride in storage.strides)
    times = np.lib.stride_tricks.as_strided(tracker.write_time, storage.shape, steps)
    if groups is not None:
        axis, end = groups
        times = times[(*(slice(None),) * axis, slice(end))]
    missing = times == 0
    if not some(missing):
        return 0, ""
    first = np.unravel_index(int(np.argmax(missing)), missing.shape)
    return int(missing.sum()), f"{storage.buffer.name}[{', '.join(str(int(at)) for at in first)}]"


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
