"""Forward and backward passes of training by CUDA graphs: one launch each.

A captured forward pass stores the results that the backward pass reads at fixed addresses, where the captured backward
pass reads them. All other results, such as gradients, are copied after the replay, and belong to the caller. While
stored results of an earlier call are still in use (a second forward pass before the backward pass), a call launches
kernel by kernel.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.graph.captured import recorded, said_once

if TYPE_CHECKING:
    from fireiron.graph.plan import Plan

_captures = itertools.count(1)


@attrs.define(eq=False)
class Shared:
    """Hold the stream and memory that the captured passes of one torch graph share on a device; passes run in turn.

    Args:
        stream: the stream that is captured.
        pool: memory pool of the CUDA graphs.
        last: the stream of the last replay.
        saved: by address of a result that a forward pass stores, the number of the pass's capture.
        replayed: whether the last forward pass was a replay.
    """

    stream: Any
    pool: Any
    last: Any = None
    saved: dict[int, int] = attrs.field(factory=dict[int, int])
    replayed: bool = False

    @classmethod
    def on(cls, device: Any) -> Shared:
        """Make the stream and the pool."""
        torch: Any = import_module("torch")
        return cls(torch.cuda.Stream(device), torch.cuda.graph_pool_handle())


class CapturedPass:
    """Run the plan of a forward or a backward pass by a CUDA graph, after one call that compiles its kernels.

    Args:
        plan: plan of the pass.
        shared: the stream and memory shared with the other pass.
        saved: for a forward pass, numbers of the results that only the backward pass reads; None for a backward pass.
    """

    def __init__(self, plan: Plan, shared: Shared, saved: Collection[int] | None) -> None:
        self.plan = plan
        self.shared = shared
        self.forward = saved is not None
        self.saved = frozenset(saved or ())
        self.places: list[int] | None = None
        self.graph: Any = None
        self.moving: dict[int, Any] = {}  # by input, the tensor that the graph reads instead
        self.given: dict[int, int] = {}  # by input that a forward pass kept, the number of that capture
        self.results: tuple[Any, ...] = ()
        self.counts: list[tuple[Any, int]] = []
        self.refused = False

    def __call__(self, arrays: list[Any]) -> tuple[Any, ...]:
        """Compute the results, and empty the list."""
        torch: Any = import_module("torch")
        places = [x.data_ptr() for x in arrays]
        usual = self.refused or torch.cuda.is_current_stream_capturing()
        if usual or self.places is None or not self._ready(torch, arrays, places):
            self.places = places if self.places is None else self.places
            self.shared.replayed = self.shared.replayed and not self.forward
            made = self.plan.spend(arrays)
            return made if isinstance(made, tuple) else (made,)
        self.plan.runner.refresh(*arrays)
        shared, now = self.shared, torch.cuda.current_stream(arrays[0].device)
        if shared.last is not None and shared.last != now:
            now.wait_stream(shared.last)
        shared.last = now
        for n, static in self.moving.items():
            static.copy_(arrays[n])
        self.graph.replay()
        arrays.clear()  # what nothing else refers to is freed behind the launch that reads it
        shared.replayed = shared.replayed or self.forward
        leaving = [x for n, x in enumerate(self.results) if n not in self.saved]
        copies = [torch.empty_like(x) for x in leaving]
        if copies:
            torch._foreach_copy_(copies, leaving)
        fresh = iter(copies)
        return tuple(x.detach() if n in self.saved else next(fresh) for n, x in enumerate(self.results))

    def _ready(self, torch: Any, arrays: Sequence[Any], places: list[int]) -> bool:
        """Say whether a replay can compute the call; capture the launches if needed: at first, or if tensors moved."""
        assert self.places is not None
        if any(torch._C._storage_Use_Count(storage._cdata) > count for storage, count in self.counts):
            return False
        saved = self.shared.saved
        moved = [n for n, (a, b) in enumerate(zip(places, self.places, strict=True)) if a != b and n not in self.moving]
        stale = [n for n, number in self.given.items() if saved.get(places[n]) != number]
        if self.graph is not None and not moved and not stale:
            return True
        if not self.forward and not self.shared.replayed and saved.keys().isdisjoint(places):
            return False  # nothing that the pass reads has a fixed place
        kept = {} if self.forward else {n: saved[p] for n, p in enumerate(places) if p in saved}
        if self.given.keys() - kept.keys():
            return False
        try:
            self._capture(torch, arrays, [n for n in (*self.moving, *moved) if n not in kept])
        except RuntimeError as error:  # an operator of torch that waits for the GPU
            said_once(self.plan, error)
            self.refused, self.graph, self.results, self.counts = True, None, (), []
            return False
        self.places, self.given = places, kept
        return True

    def _capture(self, torch: Any, arrays: Sequence[Any], moving: Sequence[int]) -> None:
        shared = self.shared
        for n in self.saved if self.results else ():
            shared.saved.pop(self.results[n].data_ptr(), None)
        self.graph, self.results, self.counts = None, (), []
        self.moving = {n: arrays[n].detach().clone() for n in moving}
        inputs = [self.moving.get(n, x) for n, x in enumerate(arrays)]
        self.graph, self.results = recorded(self.plan.spend, inputs, arrays[0].device, shared.stream, shared.pool)
        held = {
            x.untyped_storage().data_ptr(): x.untyped_storage() for n, x in enumerate(self.results) if n in self.saved
        }
        number = next(_captures)
        shared.saved |= {self.results[n].data_ptr(): number for n in self.saved}
        self.counts = [(storage, torch._C._storage_Use_Count(storage._cdata)) for storage in held.values()]
