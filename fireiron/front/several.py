"""Products that several launches compute faster than one launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from fireiron.front.chain import MatMulChain
from fireiron.jit.arrays import is_torch
from fireiron.jit.streams import stream_handle

if TYPE_CHECKING:
    from fireiron.front.host import HostKernel
    from fireiron.front.verbs import Schedule
    from fireiron.jit.interface import Interface
    from fireiron.jit.kernel import CompiledKernel

    Kernel: TypeAlias = CompiledKernel | HostKernel


@attrs.frozen(eq=False)
class Several(ABC):
    """Multiply two matrices by several launches, one after another on a stream; a call is that of a compiled kernel.

    Args:
        product: the kernel that multiplies.
        whole: a function that compiles the kernel that multiplies in one launch. A call takes this kernel where the
            caller gives a stream and
            arrays of a library other than torch: the memory of such arrays may be reused before the stream has read it.
    """

    product: Kernel
    whole: Callable[[], Kernel]

    @property
    def interface(self) -> Interface:
        """Return the interface of the kernel that multiplies."""
        return self.product.interface

    def __call__(self, a: Any, b: Any, out: Any = None, stream: Any = None) -> Any:
        """Multiply.

        Args:
            a, b: as the layout stores them.
            out: array to write; allocated where None.
            stream: as a kernel takes it.

        Raises:
            CallError: as a kernel's call does.
        """
        if stream is not None and not is_torch(a):
            return self.whole()(a, b, out=out, stream=stream)
        return self.launched(a, b, out, stream)

    @abstractmethod
    def launched(self, a: Any, b: Any, out: Any, stream: Any) -> Any:
        """Launch the kernels one after another, and return the result; the arguments are those of a call."""

    def planned(self, arrays: Sequence[Any]) -> None:
        """Return None: there is no plan of a single launch."""
        return

    def encoded(self, scalars: Any) -> Sequence[float | int]:
        """Refuse to encode numbers: no launch takes any."""
        raise AssertionError(scalars)


def kept(array: Any, stream: Any) -> Any:
    """Let torch keep an array's memory until the kernels launched so far on a given stream have read it.

    Args:
        array: the array that one launch writes for the next; it is also returned.
        stream: the caller's stream; None for the current stream, for which torch keeps the memory anyway.
    """
    if stream is not None and is_torch(array):
        torch: Any = import_module("torch")
        array.record_stream(torch.cuda.ExternalStream(stream_handle(stream)))
    return array


def is_plain(spec: MatMulChain) -> bool:
    """Say whether a product is a plain one: of two matrices of known sizes, without ops or scalars."""
    task = spec.matmul
    known = all(isinstance(n, int) for t in (task.A, task.B, task.C) for n in (*t.shape, *t.strides))
    plain = task.alpha.is_one and task.beta.is_zero and not task.ops and not spec.links
    return known and plain and spec.batch is None and task.groups is None and not task.A.dtype.packed


def at_once(kernel_of: Callable[[Schedule], Kernel], schedules: Sequence[Schedule | None]) -> tuple[Kernel | None, ...]:
    """Make the kernels of schedules in threads, since NVRTC compiles several sources at once.

    Args:
        kernel_of: function from a schedule to its kernel; this thread calls it for the first schedule.
        schedules: the schedules; the result is None where they are.
    """
    first, *others = [place for place, each in enumerate(schedules) if each is not None]
    made: list[Kernel | None] = [None] * len(schedules)

    def make(place: int) -> None:
        made[place] = kernel_of(cast("Schedule", schedules[place]))

    with ThreadPoolExecutor(max(1, len(others))) as threads:
        tasks = [threads.submit(copy_context().run, make, place) for place in others]
        make(first)
        for task in tasks:
            task.result()
    return tuple(made)


def compiled_for(spec: MatMulChain, arch: str | None = None) -> Several | None:
    """Compile the launches of a product for the GPU; None where one is as fast, or there is no GPU.

    Args:
        spec: the result of `matmul(...)`.
        arch: the target; the spec's, else the GPU's, where None.

    Raises:
        CompileError: as `compile` does.
    """
    from fireiron.front.best import compiled, target_of
    from fireiron.front.host import without_gpu
    from fireiron.front.realigned import may_copy

    if not may_copy(spec) or without_gpu():
        return None
    target = target_of(spec, arch)
    return launches(spec, target, lambda each: each.compile(arch), lambda: compiled(spec))


def launches(
    spec: MatMulChain, arch: str, kernel_of: Callable[[Schedule], Kernel], whole: Callable[[], Kernel]
) -> Several | None:
    """Make the launches of a product, or take them from disk; None where one launch is as fast.

    Args:
        spec: the result of `matmul(...)`; some lines of its operands do not start at multiples of 16 bytes.
        arch: the target.
        kernel_of: function from a schedule to its kernel.
        whole: see `Several`.
    """
    from fireiron.front.kept_copies import keep_copies, kept_copies
    from fireiron.front.realigned import copies_from, realigned

    found = kept_copies(spec, arch, whole)
    if found is not None:
        return found.copies
    plan = realigned(spec, arch)
    keep_copies(spec, arch, plan)
    return None if plan is None else copies_from(plan, kernel_of, whole)
