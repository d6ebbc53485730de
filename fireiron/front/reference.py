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
from fireiron.algebra.exact import whole_numbers
from fireiron.algebra.scalar import Arg
from fireiron.front.bounded import (
    Array,
    Bounded,
    broadcast,
    cast,
    evaluate,
    exact,
    rounded,
    smallest,
    transposed,
    unit,
)
from fireiron.front.programs import bound_of_program, of_layers, of_products
from fireiron.front.steps import of_steps
from fireiron.front.sums import CUT, STRAY, Summing, converted, product
from fireiron.front.verbs import Verbs
from fireiron.kernel.ir.statements import Call, walk
from fireiron.language.decompositions import ByTma, Decomposition, Epilog, Load, Prolog, Split
from fireiron.language.pointwise import Value
from fireiron.language.programs import Layers, Products
from fireiron.language.residual import after
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Spec, written_by
from fireiron.language.steps import Program
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.front.chain import Chain


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
    words = [f"({STRAY:g}·√(K+2) + {CUT:g}·K) · 2^-{kind.mantissa + 1} · √(|A|²·|B|²), a statistical bound"]
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


def reference(
    schedule: Chain, arrays: Mapping[str, Array], numbers: Mapping[str, float], drawn: bool = False
) -> Bounded:
    """Compute a schedule's output, C of a MatMul, as `references` does."""
    return references(schedule, arrays, numbers, drawn)[output_of(schedule.program.spec).name]


def references(
    schedule: Chain, arrays: Mapping[str, Array], numbers: Mapping[str, float], drawn: bool = False
) -> dict[str, Bounded]:
    """Compute a schedule's outputs in f64 by name, with the error that their dtypes allow.

    Args:
        schedule: whose spec, conversions and epilogue are computed.
        arrays: by tensor name, as a call takes them; those read and written hold what they held before.
        numbers: scalars by name.
        drawn: whether the operands of products are drawn at random, so that bounds may be statistical.

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
                return _matmul(spec, links, read, numbers, summing(schedule, spec, drawn))
            case MatMul() as spec:
                return _grouped(spec, links, read, numbers, arrays, summing(schedule, spec, drawn))
            case Products() as spec:
                return of_products(spec, links, read, numbers, drawn)
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


def mathematical(tensor: Tensor, array: Array) -> Array:
    """View an array as (batch, rows, columns): a column-major matrix is stored as its transpose."""
    return array.transpose(tuple(int(i) for i in np.argsort(tensor.storage)))


def output_of(spec: Spec) -> Tensor:
    """Give the tensor that a spec writes, the first of several."""
    return written_by(spec)[0]


def _accumulator(spec: MatMul, links: Sequence[Decomposition]) -> DType:
    """Say in which type the products are summed: the epilog's, C's where there is none."""
    return next((link.dtype for link in links if isinstance(link, Epilog)), spec.C.dtype)


def summing(schedule: Chain, spec: MatMul, drawn: bool = False) -> Summing:
    """Say how a schedule sums its products.

    Args:
        schedule: the schedule.
        spec: what it computes.
        drawn: whether the operands are drawn at random.
    """
    links = schedule.links
    return Summing(
        _accumulator(spec, links), spec.product, _cut(schedule, spec), _chunk(links), _parts(spec, links), drawn
    )


def _parts(spec: MatMul, links: Sequence[Decomposition]) -> tuple[int, DType] | None:
    """Count the partial sums that are added to C itself, each rounded to its type."""
    shared = next((link for link in links if isinstance(link, Split) and isinstance(link.reduce, ByTma)), None)
    if shared is None:
        return None
    depth, size = spec.A.shape[-1], shared.size
    cut = -(-depth // size) if isinstance(depth, int) and isinstance(size, int) else 1
    return shared.ways or cut, spec.C.dtype


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
    how: Summing,
) -> dict[str, Bounded]:
    a, b = (_operand(spec, x, role, links, read, numbers) for x, role in ((spec.A, "A"), (spec.B, "B")))
    total = product(a, b, how)
    epilog = next((link for link in links if isinstance(link, Epilog)), None)
    if epilog is None:
        return {spec.C.name: cast(total, spec.C.dtype)}
    total = rounded(total.value + epilog.init, total.error, how.kind) if epilog.init else total
    shape = (*a.value.shape[:-1], b.value.shape[-1])
    stores = (*((o.tensor, o.store) for o in epilog.outputs), (spec.C, epilog.store))
    folds = {o.tensor.name: o.rows for o in epilog.outputs if o.rows is not None}
    results: dict[str, Bounded] = {}
    beside = {o.tensor.name for o in epilog.outputs if o.apart}
    for value, (tensor, store) in zip(epilog.values, stores, strict=True):
        # Operands of ops have the orientation that the caller passes.
        tensors = (read(t) for t in value.tensors)
        made = broadcast(_given(evaluate(value.tree, (_given(total, spec), *tensors), numbers), spec), shape)
        total = total if tensor.name in beside else made
        if tensor.name in folds:
            rows = _folded(_given(made, spec), _columns(spec, links), folds[tensor.name], value.dtype)
            results[tensor.name] = cast(rows, tensor.dtype)
            continue
        results[tensor.name] = cast(converted(made, value.dtype, store, "src"), tensor.dtype)
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
    if (
        not x.error.any()
        and (np.rint(x.value) == x.value).all()
        and np.abs(x.value).sum(-1).max() <= whole_numbers(kind)
    ):
        return Bounded(value, np.zeros(value.shape))
    error = np.stack([x.error[..., part].sum(-1) for part in parts], -1)
    sizes = np.stack([x.size[..., part].sum(-1) for part in parts], -1)
    return Bounded(value, error + (width or columns) * (unit(kind) * sizes + smallest(kind)))


def _given(x: Bounded, spec: MatMul) -> Bounded:
    """Transpose an array of a swapped product to the orientation that the caller passes, or back."""
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
    how: Summing,
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
    # Row folds and operands of ops have the orientation that the caller passes; the rest is oriented as C is.
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

        for name, one in _matmul(attrs.evolve(spec, groups=None), links, part, numbers, how).items():
            place = _rows(axis if any(t.name == name for t in turned) else -2, rows)
            found[name].value[place], found[name].error[place] = one.value, one.error
    return found


def _rows(axis: int, rows: slice) -> tuple[Any, ...]:
    return (..., rows) if axis == -1 else (rows, slice(None))
