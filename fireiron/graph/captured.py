"""A plan whose launches are captured in a CUDA graph: one launch a call.

Tensors with the same address as at the capture (parameters) are read in place; others are copied to that address.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fireiron.graph.plan import Plan


class Captured:
    """Run a plan by a CUDA graph.

    Args:
        plan: whose launches are captured, after one call that compiles its kernels.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pointers: list[int] | None = None
        self.graph: Any = None
        self.inputs: list[Any] = []
        self.moving: set[int] = set()
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
            self.moving |= moved
            self.pointers = pointers
            try:
                self._capture(torch, arrays)
            except RuntimeError as error:  # an operator of torch that waits for the GPU
                said = str(error).splitlines()[0]
                warnings.warn(f"fireiron launches {self.plan.graph.name} without a CUDA graph: {said}", stacklevel=2)
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

    def _capture(self, torch: Any, arrays: tuple[Any, ...]) -> None:
        self.inputs = [x.detach().clone() if n in self.moving else x for n, x in enumerate(arrays)]
        stream = torch.cuda.Stream(arrays[0].device)
        stream.wait_stream(torch.cuda.current_stream(arrays[0].device))
        with torch.cuda.stream(stream):
            self.plan(*self.inputs)
        torch.cuda.current_stream(arrays[0].device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            made = self.plan(*self.inputs)
        self.outputs = made if isinstance(made, tuple) else (made,)
