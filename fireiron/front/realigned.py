"""Products of matrices whose lines do not start at multiples of 16 bytes: the matrices are copied first.

Bulk copies need lines at multiples of 16 bytes. For other matrices there are several launches: each such operand is
copied to an array with lines at multiples of 128 bytes, then the copies are multiplied. If C has such lines too, the
product is written to an array with aligned lines, and copied to C.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, cast

import attrs

from fireiron.front.chain import MatMulChain, MoveChain
from fireiron.front.several import Several, at_once, is_plain, kept
from fireiron.front.verbs import Schedule
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.front.best import Choice
    from fireiron.front.several import Kernel

UNIT = 16  # bulk copies take lines that start at multiples of this number of bytes
LINE = 128  # lines of copies start at multiples of this number of bytes
# Fitted to 16 drawn products on an H200: the time of a copy beside its bytes; the bytes that it reads and writes; and
# how many times what the cost model says a launch takes that reads such lines as they lie, the median.
LAUNCH_US = 3.0
NBYTES_PER_US = 4.2e6
PIECES = 1.4


@attrs.frozen(eq=False)
class Plan:
    """Hold the schedules of a product's launches.

    Args:
        product: schedule that multiplies the matrices, or their copies.
        copies: schedules that copy A and B; None for an operand that is not copied.
        back: schedule that copies the result to C; None where the product writes C itself.
        modelled_us: modelled time of all launches.
    """

    product: Schedule
    copies: tuple[Schedule | None, Schedule | None]
    back: Schedule | None
    modelled_us: float


@attrs.frozen(eq=False)
class Copies(Several):
    """Copy matrices to aligned arrays, multiply the arrays, and copy the result back.

    Args:
        copies: kernels that copy A and B; None for an operand that is not copied.
        back: the kernel that copies the result to C; None where the product writes C itself.
    """

    copies: tuple[Kernel | None, Kernel | None]
    back: Kernel | None

    def launched(self, a: Any, b: Any, out: Any, stream: Any) -> Any:
        """Copy, multiply, and copy back."""
        operands = [
            x if copy is None else kept(copy(x, stream=stream), stream)
            for x, copy in zip((a, b), self.copies, strict=True)
        ]
        if self.back is None:
            return self.product(*operands, out=out, stream=stream)
        made = kept(self.product(*operands, stream=stream), stream)
        return self.back(made, out=out, stream=stream)


def may_copy(spec: MatMulChain) -> bool:
    """Say whether lines of an operand do not start at multiples of UNIT bytes, and the product has no epilog."""
    return not all(t.starts_lines_at(UNIT) for t in (spec.matmul.A, spec.matmul.B)) and is_plain(spec)


def realigned(spec: MatMulChain, arch: str) -> Plan | None:
    """Plan a product of aligned copies, where they allow a preset of a newer architecture that is faster.

    Args:
        spec: the result of `matmul(...)`.
        arch: the target.

    Returns:
        The plan; None where lines start at multiples of 16 bytes, no newer preset takes the copies, or copying takes
        longer than it saves.
    """
    from fireiron.front.best import choose, takes

    if not may_copy(spec) or not _by_warpgroups(spec, arch):
        return None
    product = of_copies(spec)
    stored, wide = _matrices(spec), _matrices(product)
    found = choose(product, arch)
    taken = _modelled_us(found, arch) + sum(_copying_us(t) for t, w in zip(stored, wide, strict=True) if t != w)
    if taken >= PIECES * _least_us(spec, arch) or takes(found.candidate.preset, spec, arch):
        whole = choose(spec, arch)
        if _since(whole) == _since(found) or taken >= PIECES * _modelled_us(whole, arch):
            return None
    a, b, back = (copy_of(spec, product, place) for place in range(3))
    return Plan(found.schedule, (a, b), back, taken)


def of_copies(spec: MatMulChain) -> MatMulChain:
    """Describe the product of aligned copies."""
    from fireiron.front.spec import MatMul

    wide = (t if t.starts_lines_at(UNIT) else _wide(t) for t in _matrices(spec))
    return MatMul(*wide, arch=spec.program.arch)


def _matrices(spec: MatMulChain) -> tuple[Tensor, Tensor, Tensor]:
    return spec.matmul.A, spec.matmul.B, spec.matmul.C


def _since(choice: Choice) -> str:
    """Return the architecture for which a choice's preset is."""
    from fireiron.tune.space import space_of

    declared = space_of(choice.candidate.preset.function)
    return "" if declared is None else declared.since


def _modelled_us(choice: Choice, arch: str) -> float:
    """Return a choice's time by the cost model, which runs here if the choice came from a measurement."""
    return choice.schedule.estimate(arch).time_us if choice.modelled_us is None else choice.modelled_us


def _least_us(spec: MatMulChain, arch: str) -> float:
    """Return a time that no launch which reads such lines is modelled to beat: that of the products of warps alone.

    Where copies take less, no schedule for one launch is looked for.
    """
    from fireiron.algebra.arch import arch as find_arch
    from fireiron.atoms.table import warp_products

    target, dtype = find_arch(arch), spec.matmul.A.dtype
    rows = [row for row in warp_products() if not row.missing_on(target.number) and row.operands[0].dtype == dtype]
    clocks = min((row.issue_clocks(target) / prod(row.shape) for row in rows), default=0.0)
    products = prod(cast(int, extent) for _, extent in spec.matmul.sizes)
    return products * clocks / (target.partitions * target.gpu.sms * target.gpu.clock_mhz)


def _copying_us(tensor: Tensor) -> float:
    """Estimate the time of a copy in microseconds, from the bytes read and written."""
    return LAUNCH_US + 2 * prod(cast("tuple[int, ...]", tensor.shape)) * tensor.dtype.nbytes / NBYTES_PER_US


def _by_warpgroups(spec: MatMulChain, arch: str) -> bool:
    """Say whether wgmma, which reads the layouts of bulk copies, multiplies the product's element type."""
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


def copy_of(spec: MatMulChain, product: MatMulChain, place: int) -> Schedule | None:
    """Schedule the copy of a matrix: of A (place 0) and B (1) to the aligned array, of C (2) from there.

    The result is None where the product of copies reads or writes the matrix itself.
    """
    from fireiron.front.cli.find import find
    from fireiron.front.spec import Move

    stored, wide = _matrices(spec)[place], _matrices(product)[place]
    if stored == wide:
        return None
    schedule = cast("Callable[[MoveChain], Schedule]", find("pointwise.move").made)
    return schedule(Move(wide, stored) if place == 2 else Move(stored, wide))


def copies_from(plan: Plan, kernel_of: Callable[[Schedule], Kernel], whole: Callable[[], Kernel]) -> Copies:
    """Make a plan's kernels.

    Args:
        plan: the result of `realigned`.
        kernel_of: function from a schedule to its kernel.
        whole: see `Several`.
    """
    product, a, b, back = at_once(kernel_of, (plan.product, *plan.copies, plan.back))
    assert product is not None
    return Copies(product, whole, (a, b), back)
