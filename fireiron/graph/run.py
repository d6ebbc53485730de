"""Run a plan: on the simulator with NumPy arrays, on a GPU with torch tensors or CuPy arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from importlib import import_module
from typing import Any, Protocol

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.base.errors import FireironError
from fireiron.front.fallback import at_worst_slower
from fireiron.front.host import HostKernel, without_gpu
from fireiron.front.verbs import Schedule
from fireiron.graph.dims import free_nodes
from fireiron.graph.evaluate import check_inputs, value_of
from fireiron.graph.kept_schedule import KeptSchedule
from fireiron.graph.lowered import Operand
from fireiron.graph.nodes import BUNDLE, Node
from fireiron.graph.plan import BEFORE, Launch, Plan, last_reads
from fireiron.graph.repeat import LIKE, Repeat
from fireiron.graph.views import Order, View, held, order_of
from fireiron.jit.bind import told
from fireiron.jit.launch import LaunchPlan
from fireiron.simulate import cost


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Count the elements from an array's first to its last in memory.

    Example:
        >>> span((4, 8), (24, 1))
        80
    """
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


class Library(Protocol):
    """Hold the functions that a plan needs from the library of its arrays.

    Args:
        on_host: whether arrays lie in host memory, where the library computes.
        patience_s: most seconds of a kernel's simulation; the library computes the operations of slower kernels.
    """

    on_host: bool
    patience_s: float

    def given(self, array: Any) -> Any:
        """Convert an array to the form that kernels take."""
        ...

    def form(self, array: Any) -> object:
        """Return shape, strides and type of an array."""
        ...

    def empty(self, nbytes: int, like: Any) -> Any:
        """Allocate a block of bytes."""
        ...

    def typed(self, block: Any, offset: int, size: int, dtype: DType) -> Any:
        """View some bytes of a block as a line (a one-dimensional array) of elements."""
        ...

    def elements(self, size: int, dtype: DType, like: Any) -> Any:
        """Allocate a line of elements."""
        ...

    def queue(self, like: Any) -> tuple[int, int] | None:
        """Return device and stream for launches by address; None where kernels only take arrays."""
        ...

    def clear(self, line: Any) -> None:
        """Fill a line with zeros."""
        ...

    def address(self, line: Any) -> int:
        """Return the address of a line's first element."""
        ...

    def strided(self, line: Any, view: View) -> Any:
        """View elements of a line by strides."""
        ...

    def line(self, array: Any, order: Order | None = None) -> Any:
        """View a dense array, with its axes in some order in memory, as a line; copy an array with gaps."""
        ...

    def spread(self, array: Any, strides: Sequence[int], padded: bool) -> Any:
        """View an array of these strides as a line, first element to last; copy an array of other strides.

        Args:
            array: the array.
            strides: strides in elements.
            padded: whether the line has the padding of the last element's line too.
        """
        ...

    def converted(self, array: Any, dtype: Any) -> Any:
        """Convert to another element type; return the array itself if it has this type."""
        ...

    def constant(self, array: Any, like: Any) -> Any:
        """Copy a NumPy array to the device of `like`."""
        ...

    def compute(self, node: Node, inputs: Sequence[Any]) -> Any:
        """Compute one operation."""
        ...

    def state(self, array: Any) -> object:
        """Return a value that changes when an array's elements change; None where the library does not count writes."""
        ...

    def settle(self, array: Any) -> bool:
        """Wait until every stream can read the results; return False where they cannot be kept, as in a capture."""
        ...


class NumPy:
    """The library of NumPy arrays: kernels are simulated, or run on copies of the arrays on the GPU."""

    on_host = False
    patience_s = 0.0
    module: Any = np

    def given(self, array: Any) -> Any:
        """Convert an array to the form that kernels take."""
        return array

    def form(self, array: Any) -> object:
        """Return shape, strides and type of an array."""
        return array.shape, array.strides, array.dtype

    def empty(self, nbytes: int, like: Any) -> Any:
        """Allocate a block of bytes."""
        return self.module.zeros(max(1, nbytes), np.uint8)

    def typed(self, block: Any, offset: int, size: int, dtype: DType) -> Any:
        """View some bytes of a block as a line (a one-dimensional array) of elements."""
        return block[offset : offset + dtype.nbytes_of(size)].view(dtype.numpy)

    def elements(self, size: int, dtype: DType, like: Any) -> Any:
        """Allocate a line of elements."""
        return self.empty(dtype.nbytes_of(size), like)[: dtype.nbytes_of(size)].view(dtype.numpy)

    def queue(self, like: Any) -> tuple[int, int] | None:
        """Return None: kernels take arrays."""
        return None

    def clear(self, line: Any) -> None:
        """Fill a line with zeros."""
        line[...] = 0

    def address(self, line: Any) -> int:
        """Return the address of a line's first element."""
        return line.ctypes.data

    def strided(self, line: Any, view: View) -> Any:
        """View elements of a line by strides."""
        steps = tuple(s * line.itemsize for s in view.strides)
        return self.module.lib.stride_tricks.as_strided(line[view.offset :], view.shape, steps)

    def line(self, array: Any, order: Order | None = None) -> Any:
        """View a dense array, with its axes in some order in memory, as a line; copy an array with gaps."""
        return self.module.ascontiguousarray(array if order is None else array.transpose(order)).reshape(-1)

    def spread(self, array: Any, strides: Sequence[int], padded: bool) -> Any:
        """Copy an array to a line where it has these strides."""
        view = View(0, 0, array.shape, tuple(strides))
        line = self.module.zeros(held(view) if padded else span(array.shape, strides), array.dtype)
        self.strided(line, view)[...] = array
        return line

    def converted(self, array: Any, dtype: Any) -> Any:
        """Convert to another element type; return the array itself if it has this type."""
        return array.astype(dtype.numpy, copy=False)

    def constant(self, array: Any, like: Any) -> Any:
        """Copy a NumPy array to the device of `like`."""
        return array

    def compute(self, node: Node, inputs: Sequence[Any]) -> Any:
        """Compute one operation; 16-bit floats are computed in f64, as in the reference."""
        wide = [x.astype("float64") if x.dtype.name in ("float16", "bfloat16") else x for x in inputs]
        return value_of(node, inputs if node.kind == "foreign" else wide).astype(node.dtype.numpy)

    def state(self, array: Any) -> object:
        """Return None: NumPy does not count writes to an array."""
        return None

    def settle(self, array: Any) -> bool:
        """Return True: NumPy's results are complete at once."""
        return True


class CuPy(NumPy):
    """The library of CuPy arrays. Operations without a kernel are computed by NumPy on the host."""

    def __init__(self) -> None:
        self.module = import_module("cupy")

    def empty(self, nbytes: int, like: Any) -> Any:
        """Allocate a block of bytes."""
        return self.module.empty(max(1, nbytes), np.uint8)

    def constant(self, array: Any, like: Any) -> Any:
        """Copy a NumPy array to the GPU."""
        return self.module.asarray(array)

    def compute(self, node: Node, inputs: Sequence[Any]) -> Any:
        """Compute one operation on the host."""
        return self.module.asarray(super().compute(node, [x.get() for x in inputs]))

    def settle(self, array: Any) -> bool:
        """Wait for the stream, so that other streams may read kept results."""
        self.module.cuda.get_current_stream().synchronize()
        return True


@attrs.frozen(eq=False)
class Quick:
    """Hold a checked launch, which later calls only give addresses; shapes and strides are the same in each call.

    Args:
        plan: launch plan of the kernel.
        numbers: scalars that the kernel takes.
        spots: for each array, inputs first: the node in whose line it lies, and its offset in bytes from the start of
            this line.
    """

    plan: LaunchPlan
    numbers: Sequence[float | int]
    spots: tuple[tuple[int, int], ...]


@attrs.frozen(eq=False)
class Given:
    """Describe an input as launches read it.

    Args:
        node: number of the input's node.
        dtype: the element type.
        strides: strides in elements, for an array with gaps; None for other arrays.
        order: order of the axes in memory; None for the shape's order.
        padded: whether kernels read the gaps behind lines.
    """

    node: int
    dtype: DType
    strides: tuple[int, ...] | None
    order: Order | None
    padded: bool

    @classmethod
    def of(cls, number: int, node: Node) -> Given:
        """Describe an input node."""
        found = dict(node.attributes)
        return cls(number, node.dtype, found.get("strides"), found.get("order"), "padded" in found)

    def line(self, array: Any, library: Library) -> Any:
        """View an array as a line, by the order of its axes or by its strides."""
        array = library.converted(array, self.dtype)
        if self.strides is None:
            return library.line(array, self.order)
        return library.spread(array, self.strides, self.padded)


class Runner:
    """Run the launches of a plan, one after another.

    Args:
        plan: the plan to run.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.host = without_gpu()
        self.free = free_nodes(plan.graph)
        self.calls: dict[int, Any] = {}
        self.said: dict[int, dict[str, int]] = {}  # by launch, the sizes that no array's shape says
        self.quick: dict[tuple[int, int], Quick] = {}
        self.repeats: dict[tuple[int, bool], Repeat | None] = {}  # by device, and by whether arrays are spent
        self.sizes = {i: held(plan.views[i]) for x in plan.launches for i in (*x.begun, *x.part.outputs)}
        self.failed: set[int] = set()
        self.compiled: dict[Schedule | KeptSchedule, Any] = {}
        self.ahead = False  # whether all kernels have been compiled
        self.known: dict[tuple[int, str], Any] = {}
        self.once = tuple((place, launch) for place, launch in enumerate(plan.launches) if launch.once)
        nodes = plan.graph.nodes
        self.inputs = tuple(Given.of(i, nodes[i]) for i in plan.graph.inputs)
        self.fixed = tuple(p for p, i in enumerate(plan.graph.inputs) if "fixed" in dict(nodes[i].attributes))
        self.kept: dict[str, tuple[tuple[object, ...], dict[int, Any]]] = {}
        found: dict[int, list[int]] = {}
        for owner, place in last_reads(plan.graph, plan.launches, plan.views).items():
            found.setdefault(place, []).append(owner)
        self.dead = {place: tuple(owners) for place, owners in found.items()}

    def __call__(self, arrays: list[Any], spend: bool = False) -> Any:
        """Compute the outputs.

        Args:
            arrays: one for each input.
            spend: whether to empty the list, so that each array is released after its last reader. Each result then has
                memory of its own from its launch to its last reader, instead of a place in a block.
        """
        plan, graph = self.plan, self.plan.graph
        library = library_of(arrays)
        queue = library.queue(arrays[0] if arrays else None)
        known = None if queue is None else self.repeats.get((queue[0], spend))
        if queue is not None and known is not None:
            found = known(arrays, library, queue[1], spend)
            if found is not None:
                return found if len(found) != 1 else found[0]
        check_inputs(graph, arrays)
        like = arrays[0] if arrays else None
        lines: dict[int, Any] = {LIKE: like}
        for one, array in zip(self.inputs, arrays, strict=True):
            lines[one.node] = one.line(array, library)
        facts = None if queue is None else self._facts(arrays, lines, queue[0], spend, library)
        self.settle(lines, arrays, library)
        if spend:
            like = lines[LIKE] = library.empty(1, like)
            arrays.clear()
            array = None
            self._release(BEFORE, lines)
        else:
            block = library.empty(plan.memory.nbytes, like)
            for number, offset in plan.memory.offsets.items():
                lines[number] = library.typed(block, offset, self.sizes[number], graph.nodes[number].dtype)
        for place, launch in enumerate(plan.launches):
            if launch.once:
                continue
            for i in launch.own(plan.views) if launch.kernel is not None else ():
                if i not in lines:
                    lines[i] = library.elements(self.sizes[i], graph.nodes[i].dtype, like)
            self._launch(place, launch, lines, library)
            self._release(place, lines)
        if queue is not None and facts is not None:
            self.repeats[queue[0], spend] = Repeat.of(self, *facts, queue[0], spend)
        made = tuple(library.strided(lines[plan.views[i].node], plan.views[i]) for i in graph.outputs)
        return made if len(made) != 1 else made[0]

    def _facts(
        self, arrays: Sequence[Any], lines: dict[int, Any], device: int, spend: bool, library: Library
    ) -> tuple[tuple[object, ...], list[int]] | None:
        """Return forms and addresses of arrays, for repeated calls; None where arrays are copied before launches."""
        if self.repeats.get((device, spend), self) is None:
            return None
        places = [library.address(x) for x in arrays]
        if any(library.address(lines[one.node]) != at for one, at in zip(self.inputs, places, strict=True)):
            return None
        return tuple(map(library.form, arrays)), places

    def _release(self, place: int, lines: dict[int, Any]) -> None:
        """Release lines whose last reader is the launch at a position."""
        for owner in self.dead.get(place, ()):
            lines.pop(owner, None)

    def refresh(self, *arrays: Any) -> None:
        """Compute kept results again whose fixed inputs have changed since the last call."""
        if self.once:
            library = library_of(arrays)
            if self._settled(arrays, library):
                return
            lines = {LIKE: arrays[0] if arrays else None} | {
                self.inputs[place].node: self.inputs[place].line(arrays[place], library) for place in self.fixed
            }
            self.settle(lines, arrays, library)

    def settle(self, lines: dict[int, Any], arrays: Sequence[Any], library: Library) -> None:
        """Add the kept results to the lines, and compute them if needed, always to the same memory."""
        if not self.once:
            return
        graph, like = self.plan.graph, arrays[0] if arrays else None
        device, states = self._states(arrays, library)
        results = self.kept.get(device, ((None,), {}))[1]
        lines |= results
        if self._settled(arrays, library):
            return
        for place, launch in self.once:
            for i in launch.part.outputs:
                if i not in results:
                    results[i] = lines[i] = library.elements(self.sizes[i], graph.nodes[i].dtype, like)
            self._launch(place, launch, lines, library)
        if library.settle(like):
            self.kept[device] = states, results

    def _states(self, arrays: Sequence[Any], library: Library) -> tuple[str, tuple[object, ...]]:
        """Return the device of the kept results, and the states of the fixed inputs."""
        like = arrays[0] if arrays else None
        states = tuple(library.state(arrays[place]) for place in self.fixed)
        return f"{type(library).__name__} {getattr(like, 'device', '')}", states

    def _settled(self, arrays: Sequence[Any], library: Library) -> bool:
        """Say whether the kept results were computed from the current elements of the fixed inputs."""
        device, states = self._states(arrays, library)
        return None not in states and self.kept.get(device, ((None,), {}))[0] == states

    def _launch(self, place: int, launch: Launch, lines: dict[int, Any], library: Library) -> None:
        if launch.kernel is None or place in self.failed or self._by_hand(launch, library):
            self.compute(launch, lines, library)
            return
        queue = library.queue(lines[LIKE])
        quick = None if queue is None else self.quick.get((place, queue[0]))

        def array(operand: Operand) -> Any:
            line = self._line(operand.view.node, lines, library)
            line = library.converted(line, operand.dtype)
            return library.strided(line, operand.view)

        for i in launch.cleared:
            library.clear(self._line(i, lines, library))
        try:
            if queue is not None and quick is not None:
                addresses = [library.address(self._line(n, lines, library)) + first for n, first in quick.spots]
                if not quick.plan.suspicious(addresses):
                    quick.plan.run(addresses, quick.numbers, queue[1])
                    return
            call = self.calls.get(place)
            if call is None:
                call = self.calls[place] = self._callable(launch)
                hidden = {s.name for s in call.interface.symbols} - told(call.interface)
                self.said[place] = {name: n for name, n in self.plan.sizes.items() if name in hidden}
            names: list[str] = [p.name for p in call.interface.inputs]
            inputs = [array(launch.kernel.inputs[name]) for name in names]
            outs = tuple(array(operand) for operand in launch.kernel.outputs)
            said = self.said.get(place, {})
            call(*map(library.given, inputs), out=tuple(map(library.given, outs)), **said)
            if queue is not None and not said:
                operands = *(launch.kernel.inputs[name] for name in names), *launch.kernel.outputs
                found = call.planned((*inputs, *outs)) if self._as_stored(operands) else None
                if found is not None:
                    spots = tuple((o.view.node, o.dtype.nbytes_of(o.view.offset)) for o in operands)
                    self.quick[place, queue[0]] = Quick(found, call.encoded({}), spots)
        except FireironError as error:
            if self.host or self.plan.strict:
                raise
            said = f"the library computes {launch.kernel.source.name}, which failed: {error.message}"
            warnings.warn(f"launch {place} of {self.plan.graph.name}: {said}", stacklevel=2)
            self.failed.add(place)
            self.compute(launch, lines, library)

    def _as_stored(self, operands: Sequence[Operand]) -> bool:
        """Say whether the kernel reads all arrays as they are, so that none is converted."""
        return all(o.dtype == self.plan.graph.nodes[o.view.node].dtype for o in operands)

    def _by_hand(self, launch: Launch, library: Library) -> bool:
        """Say whether the library computes a kernel's operations: a simulation takes too long, or there is a GPU."""
        assert launch.kernel is not None
        if not library.on_host:
            return False
        if not self.host:
            return True
        kernel = launch.kernel.schedule.lowered()
        return cost(kernel, self.plan.sizes) > library.patience_s

    def compute(self, launch: Launch, lines: dict[int, Any], library: Library) -> None:
        """Compute the operations of a part by the library, one by one."""
        plan, values = self.plan, dict[int, Any]()
        for number in launch.part.outputs or launch.part.nodes[-1:]:
            node, made = plan.graph.nodes[number], self._value(number, launch, values, lines, library)
            if node.op == "foreign" and BUNDLE in dict(node.attributes):
                lines[number] = made
                continue
            if number not in lines and plan.views[number].node == number:
                # It keeps the memory that the library gave it.
                view, made = plan.views[number], library.converted(made, node.dtype)
                dense = held(view) == node.size
                lines[number] = (
                    library.line(made, order_of(view)) if dense else library.spread(made, view.strides, True)
                )
            else:
                library.strided(lines[plan.views[number].node], plan.views[number])[...] = made

    def _value(
        self, number: int, launch: Launch, values: dict[int, Any], lines: dict[int, Any], library: Library
    ) -> Any:
        """Compute a node of a part, or find it; no cycle of references keeps arrays until the next collection."""
        if number in values:
            return values[number]
        plan, node = self.plan, self.plan.graph.nodes[number]
        if number in launch.part.nodes or (node.kind in ("pointwise", "view") and number in self.free):
            given = [self._value(i, launch, values, lines, library) for i in node.inputs]
            made = library.compute(node, given)
        elif node.op == "foreign" and BUNDLE in dict(node.attributes):
            made = lines[number]
        else:
            view = plan.views[number]
            made = library.strided(self._line(view.node, lines, library), view)
        values[number] = made
        return made

    def _line(self, number: int, lines: dict[int, Any], library: Library) -> Any:
        """Return the elements of a node; a node that depends on no input is computed at its first read."""
        if number not in lines:
            node, like = self.plan.graph.nodes[number], lines[LIKE]
            key = number, str(getattr(like, "device", ""))
            if key not in self.known:
                value = self._known(number).astype(node.dtype.numpy)
                self.known[key] = library.line(library.constant(value, like))
            lines[number] = self.known[key]
        return lines[number]

    def place(self, number: int, places: dict[int, int], lines: dict[int, Any], library: Library) -> int:
        """Return the address of a node that depends on no input, and add it to the addresses."""
        places[number] = library.address(self._line(number, lines, library))
        return places[number]

    def _known(self, number: int) -> Any:
        node = self.plan.graph.nodes[number]
        return value_of(node, [self._known(i) for i in node.inputs])

    def _callable(self, launch: Launch) -> Any:
        assert launch.kernel is not None
        source = launch.kernel.source
        if source not in self.compiled and not self.host:
            self._compile_ahead()
        if source not in self.compiled:  # equal parts of a network are one kernel
            self.compiled[source] = HostKernel(launch.kernel.schedule.lowered()) if self.host else self._built(source)
        return self.compiled[source]

    def _built(self, source: Schedule | KeptSchedule) -> Any:
        """Compile a kernel; unless the plan is strict, it may spill where no choice does not."""
        return source.compile() if self.plan.strict else at_worst_slower(source.compile)

    def _compile_ahead(self) -> None:
        """Compile the kernels of all launches in threads, since NVRTC compiles several sources at once.

        A kernel that cannot be compiled is left to its launch, which reports the error.
        """
        if self.ahead:
            return
        self.ahead = True
        distinct = dict.fromkeys(x.kernel.source for x in self.plan.launches if x.kernel is not None)
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            tasks = {source: threads.submit(copy_context().run, self._built, source) for source in distinct}
            for source, task in tasks.items():
                with suppress(FireironError):
                    self.compiled[source] = task.result()


def library_of(arrays: Sequence[Any]) -> Library:
    """Return the library of some arrays."""
    from fireiron.jit.arrays import is_torch

    if arrays and is_torch(arrays[0]):
        from fireiron.graph.torch_library import Torch

        return Torch(arrays[0].device.type != "cuda")
    if arrays and type(arrays[0]).__module__.partition(".")[0] == "cupy":
        return CuPy()
    return NumPy()
