"""Forward and backward passes of training by CUDA graphs: one launch each.

A captured forward pass keeps what the backward pass reads at fixed places, and the captured backward pass reads it
there. All other results, gradients among them, are copied behind the replay: they are the caller's. While something
still refers to what an earlier call kept (a second forward pass ahead of the backward pass), a call launches kernel by
kernel.
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
    """Hold what the captured passes of one graph of torch's share on a device: they run one after another.

    Args:
        stream: that is captured.
        pool: of memory.
        last: the stream of the last replay.
        saved: by the address of what a forward pass keeps, the number of its capture.
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
        plan: of the pass.
        shared: with the other pass.
        saved: of a forward pass, the results that the backward pass alone reads; None for a backward pass.
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
        """Compute the results; the list is emptied."""
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
        """Say whether a replay computes the call, capturing the launches where none were, or where tensors moved."""
        assert self.places is not None
        if any(torch._C._storage_Use_Count(storage._cdata) > count for storage, count in self.counts):
            return False
        saved = self.shared.saved
        moved = [n for n, (a, b) in enumerate(zip(places, self.places, strict=True)) if a != b and n not in self.moving]
        stale = [n for n, number in self.given.items() if saved.get(places[n]) != number]
        if self.graph is not None and not moved and not stale:
            return True
        if not self.forward and not self.shared.replayed:  # nothing that the pass reads has a fixed place
            return False
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
