"""Bulk copies of whole boxes between global and shared memory: one thread starts a copy, and it completes later.

The place of a box's bytes follows only from its tensor map, as on the hardware; the statement's views must agree. A
load lands when its barrier's phase is awaited and no coroutine can continue. A store reads its source when its group is
waited for, and writes then, or at the end.

Source: PTX ISA 5.5, tensors; 9.7.9.27, cp.async.bulk; the bytes of a whole box count, parts outside included.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import attrs
import numpy as np

from fireiron.atoms.flights import flying
from fireiron.kernel.analysis.traffic import SECTOR, Traffic
from fireiron.kernel.ir.statements import Call, TensorMap
from fireiron.simulate.access import Env, steps_of
from fireiron.simulate.barriers import Slot
from fireiron.simulate.before import refuse_early
from fireiron.simulate.groups import Groups
from fireiron.simulate.lanes import each
from fireiron.simulate.leaves import both, refuse_flying
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import Array, distinct, every
from fireiron.simulate.state import Place, State, Team
from fireiron.simulate.steps import Act, Scope
from fireiron.simulate.tracker import Race

if TYPE_CHECKING:
    from fireiron.simulate.program import Compiler

_SWIZZLE_BITS = {0: 0, 32: 1, 64: 2, 128: 3}
_LINE = 128  # bytes of a wavefront of shared memory
_ALIGN = 16  # alignment in bytes of plain copies; boxes are aligned to 128


@attrs.define(eq=False)
class Load:
    """Hold a bulk load on its way to one block.

    Args:
        place: the statement.
        far: the storage in global memory.
        near: the storage in shared memory.
        inside: which elements of the box lie inside the tensor.
        source: the flat elements in global memory of those inside.
        index: the flat elements in shared memory of the whole box.
        granules: the tracker's granules of `index`.
        slot: the mbarrier that counts the bytes.
    """

    place: Place
    far: Storage
    near: Storage
    inside: Array
    source: Array
    index: Array
    granules: Array
    slot: Slot

    @property
    def nbytes(self) -> int:
        """Count the bytes of the whole box."""
        return len(self.index) * self.near.itemsize

    def land(self) -> None:
        """Write the box to shared memory, with zeros for elements outside the tensor."""
        values = np.zeros(len(self.index), self.near.data.dtype)
        values[self.inside] = self.far.data[self.source]
        self.near.data[self.index] = values
        assert self.near.tracker is not None
        self.near.tracker.mark(self.granules, True, -1)
        self.near.tracker.finish_write(self.granules, self.slot.who)
        if self.far.tracker is not None:
            self.far.tracker.mark(self.source, False, -1)
            self.far.tracker.finish_read(self.source, self.slot.who)


@attrs.define(eq=False)
class Store:
    """Hold a bulk store on its way from a block.

    Args:
        place: the statement.
        team: the team of the thread that started it.
        who: that thread's number in the cluster, plus one.
        near: the storage in shared memory.
        far: the storage in global memory.
        index: the flat elements in shared memory.
        granules: the tracker's granules of `index`.
        target: the flat elements in global memory.
        adds: whether elements are added to the destination.
        values: the values that it has read.
    """

    place: Place
    team: Team
    who: int
    near: Storage
    far: Storage
    index: Array
    granules: Array
    target: Array
    adds: bool
    values: Array | None = None

    def read(self) -> None:
        """Read the source."""
        self.team.order.tick(self.place.number)
        self.values = self.near.data[self.index]
        assert self.near.tracker is not None
        self.near.tracker.mark(self.granules, False, -1)
        self.near.tracker.finish_read(self.granules, self.who)

    def land(self) -> None:
        """Write the elements that the copy has read."""
        assert self.values is not None and self.far.tracker is not None
        self.team.order.tick(self.place.number)
        self.far.data[self.target] = self.far.data[self.target] + self.values if self.adds else self.values
        self.far.tracker.mark(self.target, True, -1)
        self.far.tracker.finish_write(self.target, self.who, self.adds)


class BulkCopy:
    """Execute one statement that starts bulk copies."""

    def __init__(self, compiler: Compiler, statement: Call, scope: Scope) -> None:
        self.team = compiler.team
        self.statement = statement
        self.place = compiler.place(statement, statement.atom.name, scope)
        self.loads = flying(statement.atom.completion) == "loads"
        self.adds = statement.atom.operands[1].access == "update"
        views = [compiler.operand(view) for view in statement.views]
        self.far, self.near = views if self.loads else reversed(views)
        self.write = compiler.predicate(statement.write)
        self.signal = None if statement.signal is None else compiler.value(statement.signal[1])
        self.peers = None if statement.peers is None else compiler.value(statement.peers)
        self.boxes: dict[int, Array] = {}
        self.whole: Array | None = None  # the elements of a box at the tensor's start, where it lies inside
        self.offsets = [compiler.value(binding.value) for binding in statement.bindings]
        if self.far.storage.kind != "GL" or self.near.storage.kind != "SH" or self.loads != (self.signal is not None):
            text = f"{self.place}: a bulk copy loads from GL to SH for a barrier, or stores from SH to GL"
            raise self.team.error(self.place, "bulk-views", text, "give it these views, and a load its signal")

    def run(self, state: State, act: Act) -> None:
        """Start a copy in each active thread."""
        mask = both(act, self.write(state.env) if self.write else None, (1, self.team.threads))
        if isinstance(mask, str):
            return
        lanes = np.arange(self.team.threads) if mask is None else np.flatnonzero(mask[0])
        refuse_early(self.team, self.place, lanes)
        for lane in lanes.tolist():
            self.team.order.tick(self.place.number)
            self.place.count += 1
            if self.loads:
                self.load(state.env, lane)
            else:
                self.store(state.env, lane)

    def load(self, env: Env, lane: int) -> None:
        """Start a load: to this block, or to each peer."""
        team, machine = self.team, self.team.machine
        index, inside, source = self.box(env, lane)
        thread, row = self._issuer(lane)
        self._charge("GL", "read", self.far.storage, source)
        peers = machine.cluster_of(team.member)
        mask = 1 << peers.index(team.member) if self.peers is None else int(each(self.peers, env, team)[lane])
        if mask <= 0 or mask >> len(peers):
            raise team.error(
                self.place,
                "bad-peers",
                f"{self.place}: the mask {mask:#b} names blocks outside a cluster of {len(peers)}",
                "set the bits of blocks of the cluster",
            )
        assert self.signal is not None and self.statement.signal is not None
        number, barrier = int(each(self.signal, env, team)[lane]), self.statement.signal[0]
        for rank, member in enumerate(peers):
            if not mask >> rank & 1:
                continue
            near = member.shared[self.near.view.buffer.name]
            granules = self._granules(near, index)
            assert near.tracker is not None
            slot = member.barriers[barrier.name][number]
            slot.usable(team, self.place, np.array([thread]), asynchronous=True)
            refuse_flying(team, self.place, near, granules, "writes")
            try:
                near.tracker.start_write(granules, row, thread + 1)
            except Race as race:
                raise machine.race(self.place, race, near, granules, np.array([thread + 1])) from None
            self._reads_far(source, row, lane)
            near.tracker.mark(granules, True, 1)
            self._charge("SH", "write", near, index)
            slot.flights.append(Load(self.place, self.far.storage, near, inside, source, index, granules, slot))

    def _reads_far(self, source: Array, row: Array, lane: int) -> None:
        """Check a load's reads of global memory that the kernel also writes."""
        far, tracker, thread = self.far.storage, self.far.storage.tracker, self.team.offset + lane
        if tracker is None:
            return
        refuse_flying(self.team, self.place, far, source, "reads")
        self._written(far, source, lane)
        try:
            tracker.start_read(source, row, thread + 1)
        except Race as race:
            raise self.team.machine.race(self.place, race, far, source, np.array([thread + 1])) from None
        tracker.mark(source, False, 1)

    def _written(self, storage: Storage, granules: Array, lane: int) -> None:
        """Check that every element of the source was written."""
        assert storage.tracker is not None
        written = storage.tracker.written(granules)
        if storage.must_write and not every(written):
            element = storage.name(storage.element_of(int(granules[np.argmin(written)])))
            text = f"{self.place}: {self.team.who(lane)} reads {element}, which no thread wrote"
            raise self.team.error(self.place, "uninitialised-read", text, "load it first, or initialise it")

    def store(self, env: Env, lane: int) -> None:
        """Start a store of the box's elements that lie inside the tensor."""
        team, near, far = self.team, self.near.storage, self.far.storage
        index, inside, target = self.box(env, lane)
        index = index[inside]
        thread, row = self._issuer(lane)
        granules = self._granules(near, index)
        assert near.tracker is not None
        if far.tracker is None:
            text = f"{self.place} writes {far.buffer.name}, which is an input"
            raise team.error(self.place, "write-to-input", text, "give the pointer the role output or update")
        refuse_flying(team, self.place, near, granules, "reads")
        self._written(near, granules, lane)
        refuse_flying(team, self.place, far, target, "writes", far.tracker.added[target] if self.adds else None)
        storage, places = near, granules
        try:
            near.tracker.start_read(granules, row, thread + 1)
            storage, places = far, target
            far.tracker.start_write(target, row, thread + 1, self.adds)
        except Race as race:
            raise team.machine.race(self.place, race, storage, places, np.array([thread + 1])) from None
        near.tracker.mark(granules, False, 1)
        far.tracker.mark(target, True, 1)
        self._charge("SH", "read", near, index)
        self._charge("GL", "write", far, target)
        store = Store(self.place, team, thread + 1, near, far, index, granules, target, self.adds)
        team.groups.setdefault((self.statement.atom.completion, lane), Groups()).open.append(store)

    def box(self, env: Env, lane: int) -> tuple[Array, Array, Array]:
        """Return the box's elements in shared memory, which of them lie inside the tensor, and where in the tensor."""
        near, far, described = self.near, self.far, self.statement.map
        offset = int(each(near.offset, env, self.team)[lane])
        if offset not in self.boxes:
            self.boxes[offset] = self._near(offset, env)
        index = self.boxes[offset]
        if described is None:
            steps = int(each(far.offset, env, self.team)[lane]) + steps_of(far.view.layout, env)
            if len(steps) and (steps.min() < 0 or steps.max() >= far.storage.size):
                text = f"{self.place}: {self.team.who(lane)} goes beyond {far.view.buffer.name}"
                raise self.team.error(self.place, "out-of-bounds", text, "guard the copy where the tile is partial")
            return index, np.ones(len(steps), bool), steps
        if len(far.origin) != len(far.storage.shape):
            text = f"{self.place}: {len(far.origin)} coordinates for {len(far.storage.shape)} dimensions"
            raise self.team.error(self.place, "bulk-views", text, "give the GL view an origin in the array's order")
        if described.lower:
            inside, flat = self._windows(described, env, lane)
            return index, inside, flat[inside]
        begin = [int(each(far.origin[axis], env, self.team)[lane]) for axis in described.axes]
        if self.whole is None:
            self.whole = self._tiled(described, (0,) * len(begin))[1]
        shape, strides = self._shape(described), [far.storage.strides[axis] for axis in described.axes]
        ends = [(count - 1) * step for count, step in zip(described.box, _steps(described), strict=True)]
        if all(o >= 0 and o + end < extent for o, end, extent in zip(begin, ends, shape, strict=True)):
            first = sum(o * stride for o, stride in zip(begin, strides, strict=True))
            return index, np.ones(len(self.whole), bool), self.whole + first
        inside, flat = self._tiled(described, begin)
        return index, inside, flat[inside]

    def _shape(self, described: TensorMap) -> list[int]:
        """Return the extents of a map."""
        return [prod(self.far.storage.shape[run]) for run in described.runs]

    def _tiled(self, described: TensorMap, begin: Sequence[int]) -> tuple[Array, Array]:
        """Return which elements of a box at these coordinates lie inside the tensor, and where."""
        far = self.far.storage
        places = np.indices(described.box[::-1]).reshape(len(described.box), -1)[::-1]
        inside, flat = np.ones(places.shape[1], bool), np.zeros(places.shape[1], np.int64)
        along = zip(places, described.axes, self._shape(described), _steps(described), begin, strict=True)
        for place, axis, extent, step, first in along:
            coordinate = place * step + first
            inside &= (coordinate >= 0) & (coordinate < extent)
            flat += coordinate * far.strides[axis]
        return inside, flat

    def _windows(self, described: TensorMap, env: Env, lane: int) -> tuple[Array, Array]:
        """Return which elements of a run of pixels lie inside the tensor, and where; channels are fastest.

        Source: PTX ISA, tensor im2col mode: the copy begins at its coordinates, inside the bounding box, visits its
        pixels by the element strides, and reads each at the offsets.
        """
        far, axes = self.far, described.axes
        shape = self._shape(described)
        begin = [int(each(far.origin[axis], env, self.team)[lane]) for axis in axes]
        taps = [int(each(value, env, self.team)[lane]) for value in self.offsets]
        counts: list[int] = []
        run, weight = 0, 1
        corners = zip(described.lower, described.upper, begin[1:-1], shape[1:-1], described.steps[1:-1], strict=True)
        for lower, upper, first, extent, step in corners:
            counts.append((extent - 1 + upper - lower) // step + 1)
            if not 0 <= first - lower < counts[-1] * step or (first - lower) % step:
                text = (
                    f"{self.place}: a run starts at {first}, where pixels lie from {lower} on, {counts[-1]} by {step}"
                )
                raise self.team.error(self.place, "bulk-views", text, "start at a pixel of the map's box")
            run, weight = run + (first - lower) // step * weight, weight * counts[-1]
        number = run + begin[-1] * weight + np.arange(described.box[1])
        found: list[Array] = []
        for lower, step, count, tap in zip(described.lower, described.steps[1:-1], counts, taps, strict=True):
            found.append(lower + step * (number % count) + tap)
            number = number // count
        channel = begin[0] + np.arange(described.box[0])
        coordinates = [channel[None, :], *(each_[:, None] for each_ in (*found, number))]
        inside, flat = np.ones((described.box[1], described.box[0]), bool), np.zeros((1, 1), np.int64)
        for coordinate, extent, axis in zip(coordinates, shape, axes, strict=True):
            inside = inside & (coordinate >= 0) & (coordinate < extent)
            flat = flat + coordinate * far.storage.strides[axis]
        return inside.reshape(-1), flat.reshape(-1)

    def _near(self, offset: int, env: Env) -> Array:
        """List a box's elements in shared memory, and compare them with the view."""
        near, described = self.near, self.statement.map
        storage, view = near.storage, near.view
        item = storage.itemsize
        listed = offset + steps_of(view.layout, env)
        if view.swizzle is not None:
            listed = view.swizzle(listed)
        first = storage.base + offset * item
        align = _ALIGN if described is None else _LINE
        if first % align:
            text = f"{self.place}: the box starts at byte {first} of shared memory, which {align} does not divide"
            raise self.team.error(self.place, "misaligned", text, f"align the buffer to {align} bytes")
        index = listed
        if described is not None:
            index = (_placed(described, first, item) - storage.base) // item
            if not np.array_equal(index, listed):
                at = int(np.argmax(index != listed)) if len(index) == len(listed) else min(len(index), len(listed))
                raise self.team.error(
                    self.place,
                    "bulk-views",
                    f"{self.place}: the map {described.name} puts {len(index)} elements in shared memory, the view of "
                    f"{view.buffer.name} lists {len(listed)}, and element {at} is not the same",
                    "let the view list the box, its first axis fastest, in rows as wide as the map's swizzle",
                )
        if index.min() < 0 or index.max() >= storage.size:
            text = f"{self.place}: the box leaves {view.buffer.name}, which has {storage.size} elements"
            raise self.team.error(self.place, "out-of-bounds", text, "check the slot and the box")
        return index

    def _issuer(self, lane: int) -> tuple[int, Array]:
        """Return the number of the issuing thread in the cluster, and the thread's vector clock."""
        thread = self.team.offset + lane
        row = self.team.order.common(np.array([thread])) if self.team.machine.check else np.zeros(0, np.int32)
        return thread, row

    def _granules(self, storage: Storage, index: Array) -> Array:
        return storage.granules(index, index)[0]

    def _charge(self, kind: str, direction: str, storage: Storage, index: Array) -> None:
        nbytes = len(index) * storage.itemsize
        unit = SECTOR if kind == "GL" else _LINE
        units = distinct(index * storage.itemsize // unit)
        # A box has no bank conflicts, also where the tensor ends inside its lines.
        fewest = units if kind == "SH" else -(-nbytes // unit)
        self.place.charge(kind, direction, Traffic(nbytes, 1, units, fewest))


def _steps(described: TensorMap) -> tuple[int, ...]:
    return described.steps or (1,) * len(described.axes)


def _placed(described: TensorMap, first: int, item: int) -> Array:
    """Return the byte offset of each element of a box, the first axis fastest: in swizzled rows, or without gaps."""
    width, *others = described.box
    rows = int(np.prod(others, dtype=np.int64))
    pitch = described.swizzle or width * item
    place = first + np.arange(rows)[:, None] * pitch + np.arange(width)[None, :] * item
    mask = (1 << _SWIZZLE_BITS[described.swizzle]) - 1
    return (place ^ (((place >> 7) & mask) << 4)).reshape(-1)
