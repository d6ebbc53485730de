"""Accesses: the elements of one view for all lanes of one execution, checks of these elements, and their traffic.

Lanes have the shape (iterations, threads); the iterations are those of a nest of loops that is executed at once.
Elements have the shape (iterations, elements, threads), so the flat order of one thread's elements is the order in
which the thread would access them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import permutations
from math import gcd
from typing import Any, TypeAlias

import attrs
import numpy as np

from fireiron.algebra.layout import Layout
from fireiron.kernel.analysis.traffic import Traffic, sectors, wavefronts
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import MANY, Array, every, some, spread
from fireiron.simulate.recent import Recent

Env: TypeAlias = "dict[str, Any]"
Value: TypeAlias = "Callable[[Env], Any]"

MOST_NBYTES = 16
MOST_LISTED = 1 << 23  # elements of listed views that are kept, 8 bytes each
MOST_OF_ONE = 1 << 15  # elements of the largest view that is kept


class Fault(Exception):
    """Raised for a bad access; the statement's handler makes the user's error of it.

    Args:
        code: the error's code.
        thread: the accessing thread.
        text: the end of the message, after the statement and the thread.
        fix: the error's fix.
    """

    def __init__(self, code: str, thread: int, text: str, fix: str) -> None:
        super().__init__(text)
        self.code = code
        self.thread = thread
        self.text = text
        self.fix = fix


@attrs.frozen(eq=False)
class Listed:
    """Hold what `build` finds for a view; equal views in memories of one form share it.

    Args:
        rows, index, touched, who, traffic: as in `Access`.
        granules: results of `granules_of`, by whether duplicates are removed and by the number of the first thread.
    """

    rows: Array | None
    index: Array | None
    touched: Array
    who: Array
    traffic: Traffic
    granules: dict[tuple[bool, int], tuple[Array, Array]] = attrs.field(
        factory=dict[tuple[bool, int], "tuple[Array, Array]"]
    )


_LISTED = Recent[Listed](MOST_LISTED)


@attrs.define(eq=False)
class Access:
    """Hold the elements of one view.

    Args:
        storage: the memory of the elements.
        rows: numbers of registers (iterations, elements), where all threads access the same ones.
        index: flat elements (iterations, elements, threads), valid also for inactive lanes; for RF register * threads +
            thread.
        touched: flat elements of active lanes only.
        who: for each of `touched`, the thread's number plus one.
        traffic: the traffic of one execution.
        granules: the accessed granules of the tracker with thread numbers plus one, without duplicates where possible.
        active: which of `index` are accessed, where that differs between the elements of a lane.
        written: for RF, the number `begun` of the last block in which all elements were found written.
        listed: what other accesses of the same elements share; None where nothing is kept.
    """

    storage: Storage
    rows: Array | None
    index: Array | None
    touched: Array
    who: Array
    traffic: Traffic
    granules: tuple[Array, Array] | None = None
    active: Array | None = None
    written: int = -1
    listed: Listed | None = None

    @property
    def weight(self) -> int:
        """Return the memory that a cached access takes, as a number of elements."""
        return (0 if self.index is None else 2 * self.index.size) + (0 if self.granules is None else 2 * self.who.size)


def steps_of(layout: Layout, env: Mapping[str, Any]) -> Array:
    """List the offsets of a view's elements from its first element."""
    if layout.is_static:
        return _static_steps(layout)
    from fireiron.algebra.expr import evaluate

    return np.array([evaluate(layout(i), env) for i in range(int(evaluate(layout.size, env)))], np.int64)


@lru_cache(1 << 10)
def _static_steps(layout: Layout) -> Array:
    steps: Any = layout(np.arange(layout.size, dtype=np.int64))
    found = np.array(spread(steps, layout.size), np.int64)
    found.flags.writeable = False
    return found


@lru_cache(1 << 6)
def _everyone(shape: tuple[int, int, int]) -> Array:
    """Return, for the elements of a view, in flat order, the thread's number plus one."""
    found = np.ascontiguousarray(np.broadcast_to(np.arange(1, shape[2] + 1, dtype=np.int32), shape)).reshape(-1)
    found.flags.writeable = False
    return found


def build(
    storage: Storage,
    offset: Any,
    steps: Array,
    lanes: tuple[int, int],
    mask: Array | None,
    origin: tuple[Any, ...] = (),
) -> Access:
    """Check a view's elements and list them.

    Args:
        storage: the memory.
        offset: the first element, an int or an array that broadcasts to the lanes.
        steps: offsets of the elements from the first one.
        lanes: numbers of iterations and threads.
        mask: active lanes, or None for all.
        origin: coordinates of the first element in a GL array, ints or arrays as `offset`.

    Raises:
        Fault: `out-of-bounds`, `misaligned`.
    """
    if lanes[0] * lanes[1] * len(steps) > MOST_OF_ONE:
        return _build(storage, offset, steps, lanes, mask, origin)
    parts = [np.asarray(part, np.int64) for part in (offset, *origin)]
    key = (
        storage.form, lanes, steps.tobytes(), None if mask is None else (mask.shape, mask.tobytes()),
        *((part.shape, part.tobytes()) for part in parts),
    )  # fmt: skip
    found = _LISTED.get(key)
    if found is None:
        made = _build(storage, parts[0], steps, lanes, mask, tuple(parts[1:]))
        made.listed = Listed(made.rows, made.index, made.touched, made.who, made.traffic)
        _LISTED.keep(key, made.listed, 64 + 4 * made.touched.size)  # index, touched and two arrays of granules
        return made
    return Access(storage, found.rows, found.index, found.touched, found.who, found.traffic, listed=found)


def _build(
    storage: Storage,
    offset: Any,
    steps: Array,
    lanes: tuple[int, int],
    mask: Array | None,
    origin: tuple[Any, ...],
) -> Access:
    if storage.kind == "RF":
        return _registers(storage, offset, steps, lanes, mask)
    first = spread(np.asarray(offset, np.int64), lanes)
    if origin and storage.kind == "GL":
        _inside(storage, first, steps, mask, [spread(np.asarray(o, np.int64), lanes) for o in origin])
    _within(storage, first, steps, mask)
    traffic = _traffic(storage, first, steps, mask)
    index = first[:, None, :] + steps[None, :, None]
    who = _everyone(index.shape)
    if mask is None:
        return Access(storage, None, index, index.reshape(-1), who, traffic)
    active = spread(mask[:, None, :], index.shape)
    return Access(storage, None, np.where(active, index, 0), index[active], who[active.reshape(-1)], traffic)


def build_partial(storage: Storage, offset: Any, steps: Array, lanes: tuple[int, int], there: Array) -> Access:
    """List a view of which only the elements `there` (iterations, elements, threads) exist, accessed one by one.

    Raises:
        Fault: `out-of-bounds`.
    """
    threads = lanes[1]
    index = spread(np.asarray(offset, np.int64), lanes)[:, None, :] + steps[None, :, None]
    bad = there & ((index < 0) | (index >= storage.size))
    if some(bad):
        at, element, thread = (int(x) for x in np.argwhere(bad)[0])
        text = f"element {int(index[at, element, thread])} of {storage.buffer.name}, which has {storage.size}"
        raise Fault("out-of-bounds", thread, text, "let the microkernel keep to M, N and K")
    who = spread(np.arange(1, threads + 1, dtype=np.int32), index.shape)
    if storage.kind == "RF":
        index = index * threads + np.arange(threads)
        return Access(storage, None, np.where(there, index, 0), index[there], who[:0, 0, 0], Traffic(), active=there)
    address = (index * storage.itemsize + storage.base).reshape(-1, threads)
    traffic = (sectors if storage.kind == "GL" else wavefronts)(address, there.reshape(-1, threads), storage.itemsize)
    return Access(storage, None, np.where(there, index, 0), index[there], who[there], traffic, active=there)


def _registers(storage: Storage, offset: Any, steps: Array, lanes: tuple[int, int], mask: Array | None) -> Access:
    count, threads = lanes
    first = np.asarray(offset, np.int64)
    shared = first.ndim == 0 or first.shape[-1] == 1
    if shared and mask is None:
        rows = (first.reshape(-1, 1) if first.ndim else first) + steps
        rows = spread(rows, (count, len(steps)))
        if rows.size and (rows.min() < 0 or rows.max() >= storage.size):
            _within(storage, spread(first, lanes), steps, None)
        return Access(storage, rows, None, rows.reshape(-1), rows[:0].reshape(-1), Traffic())
    first = spread(first, lanes)
    _within(storage, first, steps, mask)
    index = (first[:, None, :] + steps[None, :, None]) * threads + np.arange(threads)
    if mask is None:
        return Access(storage, None, index, index.reshape(-1), index[:0].reshape(-1), Traffic())
    active = spread(mask[:, None, :], index.shape)
    return Access(storage, None, np.where(active, index, 0), index[active], index[:0].reshape(-1), Traffic())


def _within(storage: Storage, first: Array, steps: Array, mask: Array | None) -> None:
    low, high = int(steps.min()), int(steps.max())
    inside = (first + low >= 0) & (first + high < storage.size)
    if mask is not None:
        inside |= ~mask
    if every(inside):
        return
    at, thread = (int(x) for x in np.argwhere(~inside)[0])
    element = int(first[at, thread]) + (low if first[at, thread] + low < 0 else high)
    unit = "registers" if storage.kind == "RF" else "elements"
    raise Fault(
        "out-of-bounds",
        thread,
        f"element {element} of {storage.buffer.name}, which has {storage.size} {unit}",
        "guard the access, or check the tile's strides",
    )


def _inside(storage: Storage, first: Array, steps: Array, mask: Array | None, origin: list[Array]) -> None:
    """Compare coordinates with extents.

    Coordinates are in mathematical order, which may differ from the array's order: an order of dimensions fits if it
    gives the flat element. With equal strides several orders fit; it is enough that one of them has no fault.
    """
    if len(origin) != len(storage.shape):
        return
    active = np.ones(first.shape, bool) if mask is None else mask
    # With equal strides two dimensions cannot be distinguished.
    if len(origin) > 1 and storage.strides[-1] == storage.strides[-2]:
        return

    def fits(order: list[Array]) -> bool:
        return not some((_flat(storage, order) != first)[active])

    orders = [origin] if len(origin) < 2 else [origin, [*origin[:-2], origin[-1], origin[-2]]]
    found = next((order for order in orders if fits(order)), None)
    fault = None if found is None else _beyond(storage, steps, active, found)
    if fault is None or any(
        fits([*order]) and _beyond(storage, steps, active, [*order]) is None for order in permutations(origin)
    ):
        return
    raise fault


def _beyond(storage: Storage, steps: Array, active: Array, origin: list[Array]) -> Fault | None:
    """Return the fault of the first coordinate that lies outside the array."""
    for axis, (o, extent, more) in enumerate(zip(origin, storage.shape, storage.reach(steps), strict=True)):
        bad = active & ((o < 0) | (o + more >= extent))
        if some(bad):
            at, thread = (int(x) for x in np.argwhere(bad)[0])
            place = [int(each[at, thread]) for each in origin]
            place[axis] += more if place[axis] >= 0 else 0
            return Fault(
                "out-of-bounds",
                thread,
                f"{storage.buffer.name}[{', '.join(map(str, place))}], whose shape is {storage.shape}",
                "guard the access where the tile is partial",
            )
    return None


def _flat(storage: Storage, origin: list[Array]) -> Array:
    """Return the flat element at coordinates in the array's own order."""
    return sum((o * s for o, s in zip(origin, storage.strides, strict=True)), np.zeros_like(origin[0]))


def _traffic(storage: Storage, first: Array, steps: Array, mask: Array | None) -> Traffic:
    """Cut the view into hardware accesses: a vector where elements are consecutive, else one for each element."""
    item = storage.itemsize
    vector = len(steps) > 1 and every(steps == np.arange(len(steps)))
    together = gcd(len(steps), max(1, MOST_NBYTES // item)) if vector else 1
    width, starts = together * item, steps[::together]
    address = ((first[None] + starts[:, None, None]) * item + storage.base).reshape(-1, first.shape[1])
    active = None if mask is None else np.tile(mask, (len(starts), 1))
    unaligned = address % width != 0
    if active is not None:
        unaligned &= active
    if some(unaligned):
        at, thread = (int(x) for x in np.argwhere(unaligned)[0])
        byte = int(address[at, thread])
        whole = "shared memory" if storage.kind == "SH" else storage.buffer.name
        raise Fault(
            "misaligned",
            thread,
            f"{width} bytes at byte {byte} of {whole}, which {width} does not divide: they start with "
            f"{storage.name((byte - storage.base) // item)}",
            f"use a narrower vector, or pad rows to a multiple of {width} bytes",
        )
    return (sectors if storage.kind == "GL" else wavefronts)(address, active, width)


def granules_of(access: Access, keep: bool, exact: bool, offset: int = 0) -> tuple[Array, Array]:
    """Return an access's granules with their threads; one entry per granule where threads need not be told apart.

    Args:
        access: the access.
        keep: whether the access is executed again, so that removing duplicates saves time.
        exact: whether the tracker must know each reader.
        offset: the number of the first thread in the cluster.
    """
    if access.granules is not None:
        return access.granules
    storage, listed = access.storage, access.listed
    if listed is not None and access.touched is not listed.touched:  # the statement's meaning has changed it
        listed = None
    key = keep and not exact, offset
    found = None if listed is None else listed.granules.get(key)
    if found is None:
        found = storage.granules(access.touched, access.who + np.int32(offset) if offset else access.who)
        if keep and not exact:
            found = _merged(*found)
        if listed is not None:
            listed.granules[key] = found
    if keep:
        access.granules = found
    return found


def _merged(granules: Array, who: Array) -> tuple[Array, Array]:
    order = np.lexsort((who, granules))
    granules, who = granules[order], who[order]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(granules) != 0]))
    ends = np.concatenate([starts[1:], [len(granules)]]) - 1
    first, last = who[starts], who[ends]
    return granules[starts], np.where(first == last, first, MANY).astype(np.int32)
