"""Running a plan: on the simulator with NumPy arrays, on a GPU with torch's tensors or CuPy's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fireiron.front.host import HostKernel, without_gpu
from fireiron.graph.evaluate import check_inputs, value_of
from fireiron.graph.lower import Operand
from fireiron.graph.nodes import Node
from fireiron.graph.plan import Launch, Plan
from fireiron.graph.views import View


class Library(Protocol):
    """Say what a plan asks of the library that its arrays come from."""

    def empty(self, nbytes: int, like: Any) -> Any:
        """Make a block of bytes."""
        ...

    def typed(self, block: Any, offset: int, node: Node) -> Any:
        """See some bytes of a block as a line of elements."""
        ...

    def strided(self, line: Any, view: View) -> Any:
        """See elements of a line by strides."""
        ...

    def line(self, array: Any) -> Any:
        """See an array that lies without gaps as a line; others are copied."""
        ...

    def converted(self, array: Any, dtype: Any) -> Any:
        """Convert to another element type, or give the array itself."""
        ...

    def constant(self, array: Any, like: Any) -> Any:
        """Bring an array of NumPy to where an array is."""
        ...

    def compute(self, node: Node, inputs: Sequence[Any]) -> Any:
        """Compute one operation."""
        ...


class NumPy:
    """Be the library of NumPy arrays."""

    def empty(self, nbytes: int, like: Any) -> Any:
        """Make a block of bytes."""
        return np.zeros(max(1, nbytes), np.uint8)

    def typed(self, block: Any, offset: int, node: Node) -> Any:
        """See some bytes of a block as a line of elements."""
        return block[offset : offset + node.nbytes].view(node.dtype.numpy)

    def strided(self, line: Any, view: View) -> Any:
        """See elements of a line by strides."""
        steps = tuple(s * line.itemsize for s in view.strides)
        return np.lib.stride_tricks.as_strided(line[view.offset :], view.shape, steps)

    def line(self, array: Any) -> Any:
        """See an array that lies without gaps as a line; others are copied."""
        return np.ascontiguousarray(array).reshape(-1)

    def converted(self, array: Any, dtype: Any) -> Any:
        """Convert to another element type, or give the array itself."""
        return array.astype(dtype.numpy, copy=False)

    def constant(self, array: Any, like: Any) -> Any:
        """Bring an array of NumPy to where an array is."""
        return array

    def compute(self, node: Node, inputs: Sequence[Any]) -> Any:
        """Compute one operation; floats of 16 bits in f64, as the reference does."""
        wide = [x.astype("float64") if x.dtype.name in ("float16", "bfloat16") else x for x in inputs]
        return value_of(node, inputs if node.kind == "foreign" else wide).astype(node.dtype.numpy)


class Runner:
    """Run the launches of a plan, one after another.

    Args:
        plan: what is run.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.host = without_gpu()
        self.calls: dict[int, Any] = {}

    def __call__(self, *arrays: Any) -> Any:
        """Compute the outputs."""
        plan, graph = self.plan, self.plan.graph
        library = library_of(arrays)
        check_inputs(graph, arrays)
        like = arrays[0] if arrays else None
        lines: dict[int, Any] = {}
        for number, array in zip(graph.inputs, arrays, strict=True):
            lines[number] = library.line(library.converted(array, graph.nodes[number].dtype))
        block = library.empty(plan.memory.nbytes, like)
        for number, offset in plan.memory.offsets.items():
            lines[number] = library.typed(block, offset, graph.nodes[number])
        outputs = {plan.views[i].node for i in graph.outputs}
        for place, launch in enumerate(plan.launches):
            for i in launch.part.outputs:
                if i in outputs and launch.kernel is not None:
                    lines[i] = library.typed(library.empty(graph.nodes[i].nbytes, like), 0, graph.nodes[i])
            self._launch(place, launch, lines, library)
        made = tuple(library.strided(lines[plan.views[i].node], plan.views[i]) for i in graph.outputs)
        return made if len(made) != 1 else made[0]

    def _launch(self, place: int, launch: Launch, lines: dict[int, Any], library: Library) -> None:
        plan = self.plan
        if launch.kernel is None:
            (number,) = (n for n in launch.part.nodes if plan.graph.nodes[n].kind != "view")
            node = plan.graph.nodes[number]
            given = [
                library.strided(self._line(plan.views[i].node, lines, library), plan.views[i]) for i in node.inputs
            ]
            line = library.typed(library.empty(node.nbytes, next(iter(given), None)), 0, node)
            library.strided(line, plan.views[number])[...] = library.compute(node, given)
            lines[number] = line
            return

        def array(operand: Operand) -> Any:
            found = library.strided(self._line(operand.view.node, lines, library), operand.view)
            return library.converted(found, operand.dtype)

        call = self.calls.get(place)
        if call is None:
            call = self.calls[place] = self._callable(launch)
        names: list[str] = [p.name for p in call.interface.inputs]
        inputs = [array(launch.kernel.inputs[name]) for name in names]
        outs = tuple(array(operand) for operand in launch.kernel.outputs)
        call(*inputs, out=outs)

    def _line(self, number: int, lines: dict[int, Any], library: Library) -> Any:
        """Give the elements of a node; what depends on no array of the call is computed when it is read first."""
        if number not in lines:
            node, like = self.plan.graph.nodes[number], next(iter(lines.values()), None)
            value = self._known(number).astype(node.dtype.numpy)
            lines[number] = library.line(library.constant(value, like))
        return lines[number]

    def _known(self, number: int) -> Any:
        node = self.plan.graph.nodes[number]
        return value_of(node, [self._known(i) for i in node.inputs])

    def _callable(self, launch: Launch) -> Any:
        assert launch.kernel is not None
        schedule = launch.kernel.schedule
        return HostKernel(schedule.lowered()) if self.host else schedule.compile()


def library_of(arrays: Sequence[Any]) -> Library:
    """Find the library that arrays come from."""
    from fireiron.jit.arrays import is_torch

    if arrays and is_torch(arrays[0]):
        from fireiron.graph.torch_library import Torch

        return Torch()
    return NumPy()
