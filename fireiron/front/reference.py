"""What a schedule must compute, in f64, with a proven bound on how far rounding may carry its result from that.

Whatever order a kernel sums in, and wherever it fuses, its result lies within `error` of `value`. The pair goes through
the conversions that loads make, the product, and the epilogue's tree.

Source: Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013: a product of
K terms in an arithmetic of unit roundoff u is wrong by at most K u |a| |b|, in any order and for any K.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, assert_never

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
from fireiron.front.programs import bound_of_program, of_layers, of_products
from fireiron.front.steps import of_steps
from fireiron.front.sums import converted, product
from fireiron.front.verbs import Verbs
from fireiron.kernel.ir.statements import Call, walk
from fireiron.language.decompositions import Decomposition, Epilog, Load, Prolog, Split
from fireiron.language.pointwise import Value
from fireiron.language.programs import Layers, Products
from fireiron.language.residual import after
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Spec, written_by
from fireiron.language.steps import Program
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.front.chain import Chain


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
    spec = schedule.program.spec
    if isinstance(spec, Products | Layers):
        return bound_of_program(spec)
    if not isinstance(spec, MatMul):
        return "each operation's rounding" if output_of(spec).dtype.kind == "float" else "exact"
    kind = _accumulator(spec, schedule.links)
    if kind.kind == "int":
        return "exact"
    words = [f"(K+2) · 2^-{kind.mantissa + 1} · |A|·|B|"]
    if spec.C.dtype.mantissa < kind.mantissa:
        words.append(f"2^-{spec.C.dtype.mantissa + 1} · |C|")
    epilog = next((link for link in schedule.links if isinstance(link, Epilog)), None)
    if epilog is not None and any(not isinstance(value.tree, Arg) for value in epilog.values):
        words.append("the epilogue's roundings")
    if any(isinstance(link, Prolog) for link in schedule.links):
        words.append("the prolog's")
    if any(isinstance(link, Load) and link.dtype is not None and link.ops is None for link in schedule.links):
        words.append("the loads' conversions")
    return " + ".join(words)


def reference(schedule: Chain, arrays: Mapping[str, Array], numbers: Mapping[str, float]) -> Bounded:
    """Compute a schedule's output, C of a MatMul, as `references` does."""
    return references(schedule, arrays, numbers)[output_of(schedule.program.spec).name]


def references(schedule: Chain, arrays: Mapping[str, Array], numbers: Mapping[str, float]) -> dict[str, Bounded]:
    """Compute a schedule's outputs in f64 by name, with the error that their dtypes allow.

    Args:
        schedule: whose spec, conversions and epilogue are computed.
        arrays: by tensor name, as a call takes them; those read and written hold what they held before.
        numbers: scalars by name.

    Returns:
        The outputs in mathematical order (batch, rows, columns). Sums in f64 are themselves rounded: the error covers
        that too.
    """
    links = schedule.links

    def read(tensor: Tensor) -> Bounded:
        return exact(mathematical(tensor, values(arrays[tensor.name], tensor.dtype)))

    with np.errstate(all="ignore"):
        match schedule.program.spec:
            case MatMul(groups=None) as spec:
                return _matmul(spec, links, read, numbers, _cut(schedule, spec))
            case MatMul() as spec:
                return _grouped(spec, links, read, numbers, arrays, _cut(schedule, spec))
            case Products() as spec:
                return of_products(spec, links, read, numbers)
            case Layers() as spec:
                return {spec.Y.name: of_layers(spec, read, numbers)}
            case Move(src, dst) if src.dtype == dst.dtype == tf32:  # all bits, also those that a product does not read
                return {dst.name: exact(mathematical(src, arrays[src.name]))}
            case Move(src, dst):
                return {dst.name: cast(converted(read(src), src.dtype, links, "src"), dst.dtype)}
            case Init(dst, value):
                return {dst.name: cast(exact(np.full(mathematical(dst, arrays[dst.name]).shape, value)), dst.dtype)}
            case Pointwise(op, ins, out):
                result = evaluate(op, (exact(np.zeros(())), *(read(x) for x in ins)), numbers)
                return {out.name: broadcast(cast(result, out.dtype), mathematical(out, arrays[out.name]).shape)}
            case Program() as spec:
                return of_steps(spec, read, numbers)
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


def output_of(spec: Spec) -> Tensor:
    """Give the tensor that a spec writes, the first of several."""
    return written_by(spec)[0]


def _accumulator(spec: MatMul, links: Sequence[Decomposition]) -> DType:
    """Say in which type the products are summed: the epilog's, C's where there is none."""
    return next((link.dtype for link in links if isinstance(link, Epilog)), spec.C.dtype)


def _cut(schedule: Chain, spec: MatMul) -> tuple[int, int] | None:
    """Find the instruction that keeps fewer bits of a sum than the accumulator has: its depth, and the bits."""
    if spec.A.dtype.bits != 8 or spec.A.dtype.kind != "float" or not isinstance(schedule, Verbs):
        return None
    atoms = {s.atom for s in walk(schedule.lowered().body) if isinstance(s, Call) and s.atom.kept}
    return next(((atom.shape[-1], atom.kept) for atom in atoms), None)


def _matmul(
    spec: MatMul,
    links: Sequence[Decomposition],
    read: Callable[[Tensor], Bounded],
    numbers: Mapping[str, float],
    cut: tuple[int, int] | None,
) -> dict[str, Bounded]:
    kind = _accumulator(spec, links)
    a, b = (_operand(spec, x, role, links, read, numbers) for x, role in ((spec.A, "A"), (spec.B, "B")))
    total = product(a, b, kind, spec.product, cut, _chunk(links))
    epilog = next((link for link in links if isinstance(link, Epilog)), None)
    if epilog is None:
        return {spec.C.name: cast(total, spec.C.dtype)}
    total = rounded(total.value + epilog.init, total.error, kind) if epilog.init else total
    shape = (*a.value.shape[:-1], b.value.shape[-1])
    stores = (*((o.tensor, o.store) for o in epilog.outputs), (spec.C, epilog.store))
    folds = {o.tensor.name: o.rows for o in epilog.outputs if o.rows is not None}
    results: dict[str, Bounded] = {}
    for value, (tensor, store) in zip(epilog.values, stores, strict=True):
        # Operands of ops are as their author knows them.
        tensors = (read(t) for t in value.tensors)
        total = broadcast(_given(evaluate(value.tree, (_given(total, spec), *tensors), numbers), spec), shape)
        if tensor.name in folds:
            rows = _folded(_given(total, spec), _columns(spec, links), folds[tensor.name], value.dtype)
            results[tensor.name] = cast(rows, tensor.dtype)
            continue
        results[tensor.name] = cast(converted(total, value.dtype, store, "src"), tensor.dtype)
    return results


def _columns(spec: MatMul, links: Sequence[Decomposition]) -> int | None:
    """Give the columns of C that a block holds when its epilog begins."""
    above = next(i for i, link in enumerate(links) if isinstance(link, Epilog))
    extent = after(spec, tuple(links[:above])).extents["M" if spec.swapped else "N"]
    return extent if isinstance(extent, int) else None


def _folded(x: Bounded, width: int | None, op: str, kind: DType) -> Bounded:
    """Fold the columns of each block."""
    columns = x.value.shape[-1]
    parts = [slice(i, i + (width or columns)) for i in range(0, columns, width or columns)]
    if op == "max":
        value = np.stack([x.value[..., part].max(-1) for part in parts], -1)
        return Bounded(value, np.stack([x.error[..., part].max(-1) for part in parts], -1))
    value = np.stack([x.value[..., part].sum(-1) for part in parts], -1)
    error = np.stack([x.error[..., part].sum(-1) for part in parts], -1)
    sizes = np.stack([x.size[..., part].sum(-1) for part in parts], -1)
    return Bounded(value, error + (width or columns) * (unit(kind) * sizes + smallest(kind)))


def _given(x: Bounded, spec: MatMul) -> Bounded:
    """Turn an array of a swapped product as its author knows it, or back."""
    return transposed(x) if spec.swapped else x


def _operand(
    spec: MatMul,
    tensor: Tensor,
    role: str,
    links: Sequence[Decomposition],
    read: Callable[[Tensor], Bounded],
    numbers: Mapping[str, float],
) -> Bounded:
    """Read an operand, apply its prolog, and convert as its loads do."""
    x, dtype = read(tensor), tensor.dtype
    ops = _prolog(links, role)
    if ops is not None:
        x = _given(x, spec)
        tensors = (_repeated(read(t), x.value.shape) for t in ops.tensors)
        x, dtype = _given(evaluate(ops.tree, (x, *tensors), numbers), spec), ops.dtype
    return converted(x, dtype, links, role)


def _prolog(links: Sequence[Decomposition], role: str) -> Value | None:
    """Find what is made of an operand's elements: by a load, or of their sums, which rounds no more."""
    loaded = (link.ops for link in links if isinstance(link, Load) and link.role == role and link.ops is not None)
    written = (link.value for link in reversed(links) if isinstance(link, Prolog) and link.role == role)
    return next(chain(loaded, written), None)


def _chunk(links: Sequence[Decomposition]) -> int | None:
    """Give the extent of the chunks of K whose sums are promoted, None where products add to the accumulators."""
    sizes = (link.size for link in links if isinstance(link, Split) and link.promoted is not None)
    return next((size for size in sizes if isinstance(size, int)), None)


def _repeated(x: Bounded, shape: tuple[int, ...]) -> Bounded:
    """Repeat each value for the group of neighbours that it serves."""
    for i in range(1, x.value.ndim + 1):
        have, full = x.value.shape[-i], shape[-i]
        if have not in (1, full):
            x = Bounded(np.repeat(x.value, full // have, -i), np.repeat(x.error, full // have, -i))
    return x


def _grouped(
    spec: MatMul,
    links: Sequence[Decomposition],
    read: Callable[[Tensor], Bounded],
    numbers: Mapping[str, float],
    arrays: Mapping[str, Array],
    cut: tuple[int, int] | None,
) -> dict[str, Bounded]:
    """Compute each group's rows as a product of its own; rows behind the last group keep what they held."""
    assert spec.groups is not None
    weights = spec.A if spec.swapped else spec.B
    prolog = _prolog(links, "A" if spec.swapped else "B")
    beside_weights = () if prolog is None else prolog.tensors
    axis = -1 if spec.swapped else -2  # along which the groups' rows lie, in all that has them
    read = functools.cache(read)
    epilog = next((link for link in links if isinstance(link, Epilog)), None)
    beside = () if epilog is None else epilog.outputs
    # What is folded to one value a row, and what ops read, is as its author knows it; the rest lies as C does.
    turned = (spec.A, spec.B, spec.C, *(o.tensor for o in beside if o.rows is None))
    written = (spec.C, *(o.tensor for o in beside))
    found = {t.name: Bounded(np.array(read(t).value), np.array(read(t).error)) for t in written}
    extent, begin = read(spec.C).value.shape[axis], 0
    for group, last in enumerate(arrays[spec.groups.name]):
        rows = slice(begin, max(begin, min(int(last), extent)))
        begin = rows.stop

        def part(tensor: Tensor, rows: slice = rows, group: int = group) -> Bounded:
            whole = read(tensor)
            if tensor in beside_weights and whole.value.ndim < 3:
                return whole
            if tensor == weights or tensor in beside_weights:
                return Bounded(whole.value[group], whole.error[group])
            along = axis if tensor in turned else -2
            if whole.value.ndim < -along or whole.value.shape[along] == 1:
                return whole
            place = _rows(along, rows)
            return Bounded(whole.value[place], whole.error[place])

        for name, one in _matmul(attrs.evolve(spec, groups=None), links, part, numbers, cut).items():
            place = _rows(axis if any(t.name == name for t in turned) else -2, rows)
            found[name].value[place], found[name].error[place] = one.value, one.error
    return found


def _rows(axis: int, rows: slice) -> tuple[Any, ...]:
    return (..., rows) if axis == -1 else (rows, slice(None))
