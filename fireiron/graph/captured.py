"""A plan whose launches are captured in a CUDA graph, so that a call is one launch.

An input with the address that it had at the capture (a parameter) is read in place; others are copied to the address of
the capture. Inputs of which the plan writes elements are never copied: another address is another capture.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fireiron.jit.workspace import owned_capture

if TYPE_CHECKING:
    from fireiron.graph.plan import Plan


class Captured:
    """Run a plan by a CUDA graph.

    Args:
        plan: the plan; its first call compiles the kernels, then the launches are captured.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pointers: list[int] | None = None
        self.graph: Any = None
        self.inputs: list[Any] = []
        self.moving: set[int] = set()
        self.written = plan.written
        self.outputs: tuple[Any, ...] = ()
        self.refused = False

    def __call__(self, *arrays: Any) -> Any:
        """Compute the outputs."""
        torch: Any = import_module("torch")
        if self.refused or torch.cuda.is_current_stream_capturing():  # the caller captures a graph already
            return self.plan(*arrays)
        pointers = [x.data_ptr() for x in arrays]
        if self.pointers is None:  # the first call compiles; the second shows which tensors keep their addresses
            self.pointers = pointers
            return self.plan(*arrays)
        moved = {n for n, (a, b) in enumerate(zip(pointers, self.pointers, strict=True)) if a != b} - self.moving
        if moved or self.graph is None:
            self.moving |= moved - self.written
            self.pointers = pointers
            try:
                self._capture(arrays)
            except RuntimeError as error:  # an operator of torch that waits for the GPU
                said_once(self.plan, error)
                self.refused = True
        if self.refused:
            return self.plan(*arrays)
        self.plan.runner.refresh(*arrays)
        for n in self.moving:
            self.inputs[n].copy_(arrays[n])
        replayed: Any = self.graph
        replayed.replay()
        made = tuple(x.clone() for x in self.outputs)
        return made if len(made) != 1 else made[0]

    def _capture(self, arrays: tuple[Any, ...]) -> None:
        self.inputs = [x.detach().clone() if n in self.moving else x for n, x in enumerate(arrays)]
        self.graph, self.outputs = recorded(lambda given: self.plan(*given), self.inputs, arrays[0].device)


def recorded(
    call: Callable[[list[Any]], Any], given: Sequence[Any], device: Any, stream: Any = None, pool: Any = None
) -> tuple[Any, tuple[Any, ...]]:
    """Capture the launches of a call in a CUDA graph, after one call on the captured stream.

    Args:
        call: a function from a list of tensors to a tensor, or to several.
        given: the tensors, which each replay reads.
        device: device of the tensors.
        stream: the stream to capture; None for a new stream.
        pool: memory pool of the graph; None for a new pool.

    Returns:
        The graph; the tensors that each replay writes.

    Raises:
        RuntimeError: where something in the call cannot be captured.
    """
    torch: Any = import_module("torch")
    stream = torch.cuda.Stream(device) if stream is None else stream
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        call(list(given))
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Threads of the caller may do meanwhile what a capture forbids.
    with owned_capture(), torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        made = call(list(given))
    return graph, made if isinstance(made, tuple) else (made,)


def said_once(plan: Plan, error: RuntimeError) -> None:
    """Warn that a plan's launches were not captured."""
    said = str(error).partition("\n")[0]
    warnings.warn(f"fireiron launches {plan.graph.name} without a CUDA graph: {said}", stacklevel=3)
