"""What a schedule must compute, in f64, with a proven bound on how far rounding may carry its result from that.

Whatever order a kernel sums in, and wherever it fuses, its result lies within `error` of `value`. The pair goes through
the conversions that loads make, the product, and the epilogue's tree.

Source: Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013: a product of
K terms in an arithmetic of unit roundoff u is wrong by at most K u |a| |b|, in any order and for any K.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType, tf32
from fireiron.algebra.elements import read as values
from fireiron.algebra.scalar import Arg
from fireiron.front.bounded import (
    Array,
    Bounded,
    broadcast,
    cast,
    evaluate,
    exact,
    largest,
    rounded,
    smallest,
    transposed,
    unit,
)
from fireiron.language.atom import Product
from fireiron.language.decompositions import Decomposition, Epilog, Load
from fireiron.language.specs import Init, MatMul, Move, Pointwise
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.front.chain import Chain

EXACT_F64 = 2**53


@attrs.frozen
class Comparison:
    """Hold how a result differs from its reference.

    Args:
        name: the output's.
        compared: how many elements were looked at.
        total: how many there are.
        wrong: how many lie outside the bound; every NaN does.
        nans: how many are NaN.
        max_error: largest absolute difference of those that are numbers.
        ratio: largest difference over its bound; right results have at most 1.
        worst: where that is.
        got: the result there.
        expected: the reference there.
        bound: the bound there.
    """

    name: str
    compared: int
    total: int
    wrong: int
    nans: int
    max_error: float
    ratio: float
    worst: tuple[int, ...]
    got: float
    expected: float
    bound: float

    @property
    def right(self) -> bool:
        """Say whether something was compared, and all of it lies within the bound."""
        return self.wrong == 0 and self.compared > 0

    def __str__(self) -> str:
        part = "all" if self.compared == self.total else f"{self.compared} of"
        if not self.compared:
            return f"{self.name}: none of {self.total} elements were written"
        if self.right:
            near = "no error"
            if self.max_error > 0:
                near = f"largest error {self.max_error:.3g}, at most {self.ratio:.2g} of its bound"
            return f"{self.name}: {part} {self.total} elements right, {near}"
        nans = f", {self.nans} of them NaN" if self.nans else ""
        at = ", ".join(map(str, self.worst))
        return (
            f"{self.name}: {self.wrong} of {self.compared} elements wrong{nans}; "
            f"{self.name}[{at}] is {self.got:.9g}, expected {self.expected:.9g} ± {self.bound:.2g}"
        )


def bound_in_words(schedule: Chain) -> str:
    """State the bound that a result is held to."""
    spec = schedule.program.steps[0].spec
    if not isinstance(spec, MatMul):
        return "each operation's rounding" if _output(spec).dtype.kind == "float" else "exact"
    kind = _accumulator(spec, schedule.links)
    if kind.kind == "int":
        return "exact"
    words = [f"(K+2) · 2^-{kind.mantissa + 1} · |A|·|B|"]
    if spec.C.dtype.mantissa < kind.mantissa:
        words.append(f"2^-{spec.C.dtype.mantissa + 1} · |C|")
    epilog = next((link for link in schedule.links if isinstance(link, Epilog)), None)
    if epilog is not None and not isinstance(epilog.value.tree, Arg):
        words.append("the epilogue's roundings")
    if any(isinstance(link, Load) and link.dtype is not None for link in schedule.links):
        words.append("the loads' conversions")
    return " + ".join(words)


def reference(schedule: Chain, arrays: Mapping[str, Array], numbers: Mapping[str, float]) -> Bounded:
    """Compute a schedule's output in f64, with the error that its dtypes allow.

    Args:
        schedule: whose spec, conversions and epilogue are computed.
        arrays: by tensor name, as a call takes them; those read and written hold what they held before.
        numbers: scalars by name.

    Returns:
        The output in mathematical order (batch, rows, columns). Sums in f64 are themselves rounded: the error covers
        that too.
    """
    (step,) = schedule.program.steps
    links = schedule.links

    def read(tensor: Tensor) -> Bounded:
        return exact(mathematical(tensor, values(arrays[tensor.name], tensor.dtype)))

    with np.errstate(all="ignore"):
        match step.spec:
            case MatMul(groups=None) as spec:
                return _matmul(spec, links, read, numbers)
            case MatMul() as spec:
                return _grouped(spec, links, read, numbers, arrays)
            case Move(src, dst) if src.dtype == dst.dtype == tf32:  # all bits, also those that a product does not read
                return exact(mathematical(src, arrays[src.name]))
            case Move(src, dst):
                return cast(_converted(read(src), src.dtype, links, "src"), dst.dtype)
            case Init(dst, value):
                return cast(exact(np.full(mathematical(dst, arrays[dst.name]).shape, value)), dst.dtype)
            case Pointwise(op, ins, out):
                result = evaluate(op, (exact(np.zeros(())), *(read(x) for x in ins)), numbers)
                return broadcast(cast(result, out.dtype), mathematical(out, arrays[out.name]).shape)
            case _ as never:
                assert_never(never)


def compare(name: str, result: Array, expected: Bounded, dtype: DType, written: Array | None = None) -> Comparison:
    """Hold a result against its reference.

    A NaN is wrong wherever it stands. An infinity is right where the reference may be beyond the dtype's largest
    number.

    Args:
        name: the output's.
        result: in mathematical order.
        expected: the reference.
        dtype: the result's.
        written: which elements to look at; all of them where None.
    """
    got = result.astype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(got - expected.value)
        right = difference <= expected.error
        if dtype.kind == "float":
            overflows = np.isinf(got) & (expected.size >= largest(dtype)) & (np.sign(got) == np.sign(expected.value))
            right |= overflows
            difference = np.where(overflows, 0.0, difference)
        # 0 / 0 is an exact element that is exact; NaN counts as the worst of all.
        ratio = np.where(difference == 0, 0.0, difference / expected.error)
    ratio = np.where(np.isnan(ratio) | (~right & (ratio <= 1)), np.inf, ratio)
    chosen = np.ones(got.shape, bool) if written is None else np.broadcast_to(written, got.shape)
    count = int(chosen.sum())
    finite = chosen & np.isfinite(difference)
    worst = np.unravel_index(int(np.argmax(np.where(chosen, ratio, -1.0))), got.shape)
    return Comparison(
        name,
        compared=count,
        total=got.size,
        wrong=int((chosen & ~right).sum()),
        nans=int((chosen & np.isnan(got)).sum()),
        max_error=float(difference[finite].max()) if finite.any() else 0.0,
        ratio=float(ratio[worst]) if count else 0.0,
        worst=tuple(int(i) for i in worst),
        got=float(got[worst]),
        expected=float(expected.value[worst]),
        bound=float(expected.error[worst]),
    )


def mathematical(tensor: Tensor, array: Array) -> Array:
    """View an array as (batch, rows, columns): a column-major matrix is stored as its transpose."""
    return array.transpose(tuple(int(i) for i in np.argsort(tensor.storage)))


def _output(spec: MatMul | Move | Init | Pointwise) -> Tensor:
    match spec:
        case MatMul(C=out) | Move(dst=out) | Init(dst=out) | Pointwise(out=out):
            return out


def _accumulator(spec: MatMul, links: Sequence[Decomposition]) -> DType:
    """Say in which type the products are summed: the epilog's, C's where there is none."""
    return next((link.dtype for link in links if isinstance(link, Epilog)), spec.C.dtype)


def _matmul(
    spec: MatMul, links: Sequence[Decomposition], read: Callable[[Tensor], Bounded], numbers: Mapping[str, float]
) -> Bounded:
    kind = _accumulator(spec, links)
    a = _converted(read(spec.A), spec.A.dtype, links, "A")
    b = _converted(read(spec.B), spec.B.dtype, links, "B")
    total = _product(a, b, kind, spec.product)
    epilog = next((link for link in links if isinstance(link, Epilog)), None)
    if epilog is not None:
        total = rounded(total.value + epilog.init, total.error, kind) if epilog.init else total
        tensors = (read(tensor) for tensor in epilog.value.tensors)
        # Ops see C as the caller has it.
        total = transposed(total) if spec.swapped else total
        total = broadcast(evaluate(epilog.value.tree, (total, *tensors), numbers), total.value.shape)
        total = transposed(total) if spec.swapped else total
        total = _converted(total, epilog.value.tree.dtype, epilog.store, "src")
    return cast(total, spec.C.dtype)


def _grouped(
    spec: MatMul,
    links: Sequence[Decomposition],
    read: Callable[[Tensor], Bounded],
    numbers: Mapping[str, float],
    arrays: Mapping[str, Array],
) -> Bounded:
    """Compute each group's rows as a product of its own; rows behind the last group keep what they held."""
    assert spec.groups is not None
    weights = spec.A if spec.swapped else spec.B
    axis = -1 if spec.swapped else -2  # along which the groups' rows lie, in all that has them
    read = functools.cache(read)
    value, error = np.array(read(spec.C).value), np.array(read(spec.C).error)
    begin = 0
    for group, last in enumerate(arrays[spec.groups.name]):
        rows = slice(begin, max(begin, min(int(last), value.shape[axis])))
        begin = rows.stop

        def part(tensor: Tensor, rows: slice = rows, group: int = group) -> Bounded:
            whole = read(tensor)
            if tensor == weights:
                return Bounded(whole.value[group], whole.error[group])
            if whole.value.ndim < -axis or whole.value.shape[axis] == 1:
                return whole
            place = (..., rows) if axis == -1 else (rows, slice(None))
            return Bounded(whole.value[place], whole.error[place])

        one = _matmul(attrs.evolve(spec, groups=None), links, part, numbers)
        place = (..., rows) if axis == -1 else (rows, slice(None))
        value[place], error[place] = one.value, one.error
    return Bounded(value, error)


def _product(a: Bounded, b: Bounded, kind: DType, product: Product) -> Bounded:
    depth = a.value.shape[-1]
    if product == "xor":  # bits that differ: those of both, without the common ones on either side
        common = _integer_product(a.value, b.value, kind)
        ones = a.value.sum(-1, keepdims=True) + b.value.sum(-2, keepdims=True)
        return Bounded(ones - 2 * common.value, common.error)
    if kind.kind == "int":
        return _integer_product(a.value, b.value, kind)
    sizes = np.matmul(a.size, b.size)
    error = (depth + 2) * (unit(kind) * sizes + smallest(kind))
    for x, y in ((a.error, b.size), (a.size, b.error)):
        if x.any() and y.any():
            error = error + np.matmul(x, y)
    return Bounded(np.matmul(a.value, b.value), error)


def _integer_product(a: Array, b: Array, kind: DType) -> Bounded:
    """Multiply integers exactly, wrapped to the accumulator's width."""
    most = float(np.abs(a).max(initial=0) * np.abs(b).max(initial=0)) * a.shape[-1]
    if most < EXACT_F64:  # then f64 is exact, and much faster than NumPy's integer product
        value = np.matmul(a, b)
    else:
        value = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(kind.numpy).astype(np.float64)
    half = 2.0 ** (kind.bits - 1)
    value = np.mod(value + half, 2 * half) - half
    return Bounded(value, np.zeros(value.shape))


def _converted(x: Bounded, dtype: DType, links: Sequence[Decomposition], role: str) -> Bounded:
    """Let an operand pass through the element types that the loads of a chain give it."""
    for link in links:
        if isinstance(link, Load) and link.role == role:
            x = _converted(x, dtype, link.move, "src")
            if link.dtype is not None and link.dtype != dtype:
                x, dtype = cast(x, link.dtype, dtype), link.dtype
    return x
