"""Products of matrices whose lines start between multiples of 16 bytes: by copies whose lines do not.

Bulk copies and wgmma take lines at multiples of 16 bytes. A product of other matrices runs in several launches: each
such operand is copied to an array with lines at multiples of 128 bytes, the product is computed from these, and C is
copied back where its lines start between them too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from fireiron.front.chain import MatMulChain, MoveChain
from fireiron.front.verbs import Schedule
from fireiron.jit.arrays import is_torch
from fireiron.jit.streams import stream_handle
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.front.best import Choice
    from fireiron.front.host import HostKernel
    from fireiron.jit.interface import Interface
    from fireiron.jit.kernel import CompiledKernel

    Kernel: TypeAlias = CompiledKernel | HostKernel

UNIT = 16  # bytes at whose multiples lines start that bulk copies take
LINE = 128  # bytes at whose multiples copies' lines start
# Fitted to 16 drawn products on an H200: the time of a copy beside its bytes; the bytes that it reads and writes; and
# how many times what the cost model says a launch takes that reads such lines as they lie, the median.
LAUNCH_US = 3.0
NBYTES_PER_US = 4.2e6
PIECES = 1.4


@attrs.frozen(eq=False)
class Plan:
    """Hold the schedules of a product's launches.

    Args:
        product: of the matrices, or of the copies that stand for them.
        copies: of A and of B; None where an operand is multiplied as it lies.
        back: copies C from its copy; None where the product writes C.
        modelled_us: of all launches.
    """

    product: Schedule
    copies: tuple[Schedule | None, Schedule | None]
    back: Schedule | None
    modelled_us: float


@attrs.frozen(eq=False)
class Launches:
    """Multiply two matrices by several launches, one after another on a stream; called as a compiled kernel is.

    Args:
        product: the kernel that multiplies.
        copies: kernels of A's and B's copies.
        back: the kernel that copies C.
        whole: compiles the kernel that multiplies in one launch, for calls whose copies no stream would keep.
    """

    product: Kernel
    copies: tuple[Kernel | None, Kernel | None]
    back: Kernel | None
    whole: Callable[[], Kernel]

    @property
    def interface(self) -> Interface:
        """Give the interface of the kernel that multiplies."""
        return self.product.interface

    def __call__(self, a: Any, b: Any, out: Any = None, stream: Any = None) -> Any:
        """Copy, multiply, and copy back.

        Args:
            a, b: as the layout stores them.
            out: array to write; allocated where None.
            stream: as a kernel takes it.

        Raises:
            CallError: as a kernel's call does.
        """
        if stream is not None and not is_torch(a):
            return self.whole()(a, b, out=out, stream=stream)
        operands = [
            x if copy is None else kept(copy(x, stream=stream), stream)
            for x, copy in zip((a, b), self.copies, strict=True)
        ]
        if self.back is None:
            return self.product(*operands, out=out, stream=stream)
        made = kept(self.product(*operands, stream=stream), stream)
        return self.back(made, out=out, stream=stream)

    def planned(self, arrays: Sequence[Any]) -> None:
        """Find no plan of a single launch: there are several."""

    def encoded(self, scalars: Any) -> Sequence[float | int]:
        """Refuse to encode numbers: no launch takes any."""
        raise AssertionError(scalars)


def kept(array: Any, stream: Any) -> Any:
    """Let torch keep a copy's memory until the stream that was given has passed its reads."""
    if stream is not None and is_torch(array):
        torch: Any = import_module("torch")
        array.record_stream(torch.cuda.ExternalStream(stream_handle(stream)))
    return array


def may_copy(spec: MatMulChain) -> bool:
    """Say whether lines of a matrix start between multiples of UNIT bytes, and nothing follows the product."""
    return not all(t.starts_lines_at(UNIT) for t in (spec.matmul.A, spec.matmul.B, spec.matmul.C)) and is_plain(spec)


def realigned(spec: MatMulChain, arch: str) -> Plan | None:
    """Plan a product by copies with whole lines, where a preset of a newer architecture takes it so, and faster.

    Args:
        spec: what `matmul(...)` gives.
        arch: the target.

    Returns:
        None where the product in one launch should be as fast: where its lines start at multiples of 16 bytes, no
        newer preset takes the copies, or copying takes longer than it saves.
    """
    from fireiron.front.best import choose
    from fireiron.front.spec import MatMul
    from fireiron.tune.space import space_of

    task = spec.matmul
    stored = (task.A, task.B, task.C)
    if not may_copy(spec) or not _by_warpgroups(spec, arch):
        return None
    wide = tuple(t if t.starts_lines_at(UNIT) else _wide(t) for t in stored)
    product = MatMul(*wide, arch=spec.program.arch)

    def since(choice: Choice) -> str:
        declared = space_of(choice.candidate.preset.function)
        return "" if declared is None else declared.since

    whole, found = choose(spec, arch), choose(product, arch)
    if since(whole) == since(found):
        return None
    taken = _modelled_us(found, arch) + sum(_copying_us(t) for t, w in zip(stored, wide, strict=True) if t is not w)
    if taken >= PIECES * _modelled_us(whole, arch):
        return None
    a, b = (_copy(t, w) for t, w in zip(stored[:2], wide[:2], strict=True))
    return Plan(found.schedule, (a, b), _copy(wide[2], stored[2]), taken)


def _modelled_us(choice: Choice, arch: str) -> float:
    """Give what the cost model says of a choice; it is asked where a record was chosen."""
    return choice.schedule.estimate(arch).time_us if choice.modelled_us is None else choice.modelled_us


def _copying_us(tensor: Tensor) -> float:
    """Estimate a copy of a matrix by its bytes, read and written."""
    return LAUNCH_US + 2 * prod(cast("tuple[int, ...]", tensor.shape)) * tensor.dtype.nbytes / NBYTES_PER_US


def is_plain(spec: MatMulChain) -> bool:
    """Say whether a product is of two matrices of known sizes, and nothing follows it."""
    task = spec.matmul
    known = all(isinstance(n, int) for t in (task.A, task.B, task.C) for n in (*t.shape, *t.strides))
    plain = task.alpha.is_one and task.beta.is_zero and not task.ops and not spec.links
    return known and plain and spec.batch is None and task.groups is None and not task.A.dtype.packed


def _by_warpgroups(spec: MatMulChain, arch: str) -> bool:
    """Say whether an instruction of a warpgroup, which reads what bulk copies write, multiplies such elements."""
    from fireiron.algebra.arch import arch as find_arch
    from fireiron.atoms.table import wide_products

    dtype, number = spec.matmul.A.dtype, find_arch(arch).number
    rows = (row for row in wide_products() if not row.missing_on(number))
    return any(operand.role == "A" and operand.dtype == dtype for row in rows for operand in row.operands)


def _wide(tensor: Tensor) -> Tensor:
    """Describe a copy of a matrix whose lines start at multiples of LINE bytes."""
    unit = tensor.dtype.count_in(LINE)
    steps = (s if s == 1 else -(-int(cast(int, s)) // unit) * unit for s in tensor.strides)
    return attrs.evolve(tensor, name=f"{tensor.name}_wide", strides=tuple(steps))


def _copy(src: Tensor, dst: Tensor) -> Schedule | None:
    from fireiron.front.cli.find import find
    from fireiron.front.spec import Move

    if src is dst:
        return None
    schedule = cast("Callable[[MoveChain], Schedule]", find("pointwise.move").made)
    return schedule(Move(src, dst))


def launches_of(plan: Plan, kernel_of: Callable[[Schedule], Kernel], whole: Callable[[], Kernel]) -> Launches:
    """Make a plan's kernels.

    Args:
        plan: what `realigned` gives.
        kernel_of: gives the kernel of a schedule.
        whole: see `Launches`.
    """
    a, b = (None if copy is None else kernel_of(copy) for copy in plan.copies)
    return Launches(kernel_of(plan.product), (a, b), None if plan.back is None else kernel_of(plan.back), whole)
