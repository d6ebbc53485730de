"""Products of few tiles and a long K in two launches: products of parts of K, and the sum of these.

Blocks that share a tile in one launch leave its sum to the last of them, which reads the partial sums of all. In two
launches K is cut into parts of one length, each of which is a product of a batch, by tiles as large as are fast; then
all SMs add the partial sums, which are in the L2 cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from fireiron.front.chain import MatMulChain
from fireiron.front.realigned import is_plain, kept
from fireiron.front.verbs import Schedule
from fireiron.jit.arrays import is_torch
from fireiron.language.pointwise import Value
from fireiron.language.tensor import RowMajor, Tensor

if TYPE_CHECKING:
    from fireiron.front.host import HostKernel
    from fireiron.jit.interface import Interface
    from fireiron.jit.kernel import CompiledKernel

    Kernel: TypeAlias = CompiledKernel | HostKernel

MODEL = "hopper"  # the schedules with a model of products
LEAST_K = 4096  # of a product whose parts are looked at
FEW = 512 * 512  # elements of C up to which they are
MOST_PARTS = 64
LEAST_PART = 512  # elements of K
TILES = ((64, 128), (64, 256), (128, 128), (128, 256))  # rows and columns
UNIT = 16  # bytes at whose multiples parts start
# Fitted to 12 drawn products on an H200: the time of the sum beside its bytes, and the bytes that it reads and writes.
LAUNCH_US = 1.5
NBYTES_PER_US = 2.2e6


@attrs.frozen(eq=False)
class Plan:
    """Hold the schedules of the two launches.

    Args:
        product: of a batch of parts of K.
        total: adds the partial sums.
        ways: number of parts.
        modelled_us: of both launches.
    """

    product: Schedule
    total: Any
    ways: int
    modelled_us: float


@attrs.frozen(eq=False)
class Parts:
    """Multiply two matrices by parts of K, and add the partial sums; called as a compiled kernel is.

    Args:
        product: the kernel that multiplies.
        total: the kernel that adds.
        ways: number of parts.
        along: whether K is the last axis of A, and of B, as arrays.
        shape: of the result.
        whole: compiles the kernel that multiplies in one launch, for calls whose partial sums no stream would keep.
    """

    product: Kernel
    total: Kernel
    ways: int
    along: tuple[bool, bool]
    shape: tuple[int, ...]
    whole: Callable[[], Kernel]

    @property
    def interface(self) -> Interface:
        """Give the interface of the kernel that multiplies."""
        return self.product.interface

    def __call__(self, a: Any, b: Any, out: Any = None, stream: Any = None) -> Any:
        """Multiply, and add.

        Args:
            a, b: as the layout stores them.
            out: array to write; allocated where None.
            stream: as a kernel takes it.

        Raises:
            CallError: as a kernel's call does.
        """
        if stream is not None and not is_torch(a):
            return self.whole()(a, b, out=out, stream=stream)
        operands = [self._cut(x, along) for x, along in zip((a, b), self.along, strict=True)]
        sums = kept(self.product(*operands, stream=stream), stream)
        flat = sums.reshape(self.ways, -1)
        made = self.total(flat, out=None if out is None else out.reshape(-1), stream=stream)
        return made.reshape(self.shape) if out is None else out

    def _cut(self, x: Any, along: bool) -> Any:
        """View a matrix as a batch of parts of K."""
        first, last = x.shape
        if along:
            return x.reshape(first, self.ways, last // self.ways).swapaxes(0, 1)
        return x.reshape(self.ways, first // self.ways, last)

    def planned(self, arrays: Sequence[Any]) -> None:
        """Find no plan of a single launch: there are two."""

    def encoded(self, scalars: Any) -> Sequence[float | int]:
        """Refuse to encode numbers: no launch takes any."""
        raise AssertionError(scalars)


def may_part(spec: MatMulChain) -> bool:
    """Say whether a product of floats, which nothing follows, has few tiles and a long K."""
    if not is_plain(spec):
        return False
    rows, cols, depth = _sizes(spec)
    floats = spec.matmul.accumulator.name == "f32" and spec.matmul.C.dtype.kind == "float"
    return depth >= LEAST_K and rows * cols <= FEW and floats


def _sizes(spec: MatMulChain) -> tuple[int, int, int]:
    sizes = dict(spec.matmul.sizes)
    rows, cols, depth = (int(str(sizes[dim])) for dim in ("M", "N", "K"))
    return rows, cols, depth


def in_parts(spec: MatMulChain, arch: str, ways: int | None = None) -> Plan | None:
    """Plan a product by parts of K; None where one launch should be as fast.

    Args:
        spec: what `matmul(...)` gives.
        arch: the target.
        ways: number of parts; the number that the model finds fastest where None.
    """
    if not may_part(spec):
        return None
    rows, cols, depth = _sizes(spec)
    found: list[tuple[float, int, MatMulChain]] = []
    known = _clocks_of(arch)
    if known is None:
        return None
    unit = spec.matmul.A.dtype.count_in(UNIT)
    for n in _numbers(rows, cols, depth, unit, arch) if ways is None else (ways,):
        parts = _parts(spec, n)
        us = known(parts)
        if us is not None:
            found.append(
                (us + LAUNCH_US + (n * 4 + spec.matmul.C.dtype.nbytes) * rows * cols / NBYTES_PER_US, n, parts)
            )
    one = known(spec)
    if not found or one is None:
        return None
    us, n, parts = min(found, key=lambda each: each[:2])
    if ways is None and us >= one:
        return None
    from fireiron.front.best import choose

    return Plan(choose(parts, arch).schedule, _total(n, rows * cols, spec.matmul.C.dtype.name, arch), n, us)


def _numbers(rows: int, cols: int, depth: int, unit: int, arch: str) -> list[int]:
    """List numbers of parts, of one length, whose tiles of some sizes run at once, and fill the GPU."""
    from fireiron.algebra.arch import arch as find_arch

    sms = find_arch(arch).gpu.sms
    fits = [n for n in range(2, MOST_PARTS + 1) if depth % (n * unit) == 0 and depth // n >= LEAST_PART]
    found: list[int] = []
    for m, n in TILES:
        most = sms // (-(-rows // m) * -(-cols // n))
        found += [max((x for x in fits if x <= most), default=0)]
    return [x for x in dict.fromkeys(found) if x]


def _clocks_of(arch: str) -> Callable[[MatMulChain], float | None] | None:
    """Give the model that ranks the plans of products on an architecture, in microseconds; None where it has none."""
    from fireiron.algebra.arch import arch as find_arch

    gpu = find_arch(arch).gpu
    if gpu.products is None:
        return None
    model = import_module(f"fireiron.schedules.{MODEL}")
    plans, clocks = model.plans, model.clocks

    def us(spec: MatMulChain) -> float | None:
        listed = plans(spec)
        return clocks(listed[0], spec) / gpu.clock_mhz if listed else None

    return us


def _parts(spec: MatMulChain, ways: int) -> MatMulChain:
    """Describe the batch of products of parts of K."""
    from fireiron.algebra.dtypes import default_accumulator
    from fireiron.front.spec import MatMul

    a, b, c = spec.matmul.A, spec.matmul.B, spec.matmul.C
    (m, k), n = a.shape, c.shape[1]
    part = int(str(k)) // ways
    left = attrs.evolve(a, shape=(ways, m, part), strides=(part * a.strides[1], *a.strides))
    right = attrs.evolve(b, shape=(ways, part, n), strides=(part * b.strides[0], *b.strides))
    size = int(str(m)) * int(str(n))
    sums = Tensor("sums", (ways, m, n), default_accumulator(a.dtype), (size, int(str(n)), 1))
    return MatMul(left, right, sums, arch=spec.program.arch)


def parts_from(plan: Plan, spec: MatMulChain, kernel_of: Callable[[Any], Kernel], whole: Callable[[], Kernel]) -> Parts:
    """Make a plan's kernels.

    Args:
        plan: what `in_parts` gives.
        spec: the product.
        kernel_of: gives the kernel of a schedule.
        whole: see `Parts`.
    """
    task = spec.matmul
    along = (task.A.order is RowMajor, task.B.order is not RowMajor)
    return Parts(kernel_of(plan.product), kernel_of(plan.total), plan.ways, along, _sizes(spec)[:2], whole)


def _total(ways: int, elements: int, dtype: str, arch: str) -> Any:
    """Schedule the sum of the parts."""
    from fireiron.front.best_program import best_program
    from fireiron.front.program import program
    from fireiron.language.reductions import sum
    from fireiron.language.tensor import tensor

    def total(x: Value) -> Value:
        return sum(x, "parts")

    spec = program(x="parts elements")(total)(tensor(ways, elements, dtype="f32"), out=dtype)
    return best_program(spec, arch)
