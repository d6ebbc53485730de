"""The reference: the steps of a program in f64, each with a bound on what rounding may change.

Steps say in which types values are held, converted and summed. How a schedule splits sums adds roundings, which a
`Rounding` states for each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType, b1
from fireiron.algebra.exact import whole_numbers
from fireiron.algebra.expr import Expr, Symbol, Var, as_int, free, substitute
from fireiron.algebra.expr import evaluate as index_at
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Scalar,
    Unary,
    children,
    parts,
    substituted,
    with_children,
    without_coordinates,
)
from fireiron.language import atom
from fireiron.language.folds import COMPENSATED, Dim, Fold
from fireiron.language.maps import is_plain
from fireiron.language.online import EXPONENTIALS
from fireiron.language.steps import For, Program, Ragged, Ref, Step, dims_in
from fireiron.language.tensor import Tensor
from fireiron.verify.bounded import (
    Array,
    Bounded,
    broadcast,
    cast,
    evaluate,
    exact,
    inexact,
    more,
    smallest,
    unit,
    wrapped,
)
from fireiron.verify.sums import Rounding, Summing, product, spread

Read = Callable[[Tensor], Bounded]
SIGMAS = 8.0  # a right result of layers strays so far with a probability below 1e-14


@attrs.frozen
class Facts:
    """Hold what the schedule and the data say about rounding.

    Args:
        steps: by name, how the sums of a step are rounded.
        drawn: whether inputs are drawn at random; bounds of sums of their products may then be statistical.
        independent: whether roundings of different steps are independent. Their variances are then added; worst cases
            would multiply from step to step, until bounds are useless.
    """

    steps: Mapping[str, Rounding] = attrs.field(factory=dict[str, Rounding])
    drawn: bool = False
    independent: bool = False


@attrs.frozen
class Part:
    """Name a part of a program's outputs: some points of one dim.

    Args:
        dim: a dim that all outputs have, and no step folds.
        points: the points of this dim.
    """

    dim: Dim
    points: range

    def place(self, refs: Sequence[Expr]) -> tuple[slice, ...]:
        """Return the slices that hold the part in an array with these indices."""
        return tuple(slice(self.points.start, self.points.stop) if e == self.dim else slice(None) for e in refs)


def parted_by(program: Program) -> tuple[Dim, ...]:
    """List the dims that may cut a program's outputs into parts."""
    if any(step.into for step in program.steps):
        return ()
    folded = {d for step in program.steps for d in step.over}
    outputs = {t.name for t in program.outputs}
    refs = [out for step in program.steps for out in step.outs if out.name in outputs]
    looped = {loop.dim for loop in program.loops}
    mine = dict.fromkeys(d for ref in refs for d in ref.dims if d not in folded | looped)
    groups = {d.of for d in mine if isinstance(d, Ragged)}
    return tuple(d for d in mine if d not in groups and all(d in ref.index for ref in refs))


def of_steps(
    program: Program,
    read: Read,
    numbers: Mapping[str, float],
    facts: Facts | None = None,
    part: Part | None = None,
) -> dict[str, Bounded]:
    """Compute a program's outputs, step by step.

    Args:
        program: what to compute.
        read: returns the array of a tensor: an input, or an output's old contents.
        numbers: scalars by name.
        facts: what the schedule and the data say about rounding.
        part: of the outputs that is computed, None for all.

    Returns:
        The outputs by name. Whatever the order of summation, a result lies within `error` of `value`.
    """
    return _Evaluation(program, read, numbers, facts or Facts(), part).outputs()


@attrs.define
class _Evaluation:
    """Compute a program once.

    Args:
        part: of the outputs that is computed.
        known: tensors computed so far, by name. In a group, tensors between steps hold this group's rows only.
        ranges: for dims that are computed in parts, the points of the current group or trip.
        origins: for each tensor, names of the inputs that it depends on.
        factors: the two factors of each step's products, for later steps that go on with its sum.
    """

    program: Program
    read: Read
    numbers: Mapping[str, float]
    facts: Facts
    part: Part | None = None
    known: dict[str, Bounded] = attrs.field(factory=dict[str, Bounded])
    ranges: dict[Dim, range] = attrs.field(factory=dict[Dim, range])
    symbols: dict[Expr, int] = attrs.field(factory=dict[Expr, int])
    origins: dict[str, set[str]] = attrs.field(factory=dict[str, set[str]])
    factors: dict[str, tuple[Bounded, Bounded]] = attrs.field(factory=dict[str, tuple[Bounded, Bounded]])

    @cached_property
    def gathers(self) -> list[Tensor]:
        """List the arrays whose elements are indices of other arrays."""
        return [t for t in self.program.inputs if t.name in self.program.gathers]

    def outputs(self) -> dict[str, Bounded]:
        """Give the outputs by name."""
        program = self.program
        inputs = {t.name: self.read(t) for t in program.inputs}
        for tensor in (*program.inputs, *(t for t in program.outputs if program.memory_of(t) == t)):
            if any(isinstance(leaf, Symbol) for size in tensor.shape for leaf in free(size)):
                shape = inputs[tensor.name].value.shape if tensor.name in inputs else self.read(tensor).value.shape
                self.symbols |= {s: n for s, n in zip(tensor.shape, shape, strict=True) if isinstance(s, Symbol)}
        ragged = next((d for s in program.steps for d in s.dims if isinstance(d, Ragged)), None)
        if ragged is None:
            self.known = inputs
            if self.part is not None:
                self.ranges[self.part.dim] = self.part.points
            self._steps()
            return {t.name: self._finished(self.known[t.name]) for t in program.outputs}
        found = {t.name: self.read(t) for t in program.outputs}
        found = {name: Bounded(np.array(x.value), np.array(x.error)) for name, x in found.items()}
        for group, rows in enumerate(_groups(inputs[ragged.ends.name].value, self._extent(ragged))):
            if self.part is not None:
                points = self.part.points
                if self.part.dim == ragged:
                    rows = range(max(rows.start, points.start), min(rows.stop, points.stop))
                else:
                    self.ranges[self.part.dim] = points
            self.ranges |= {ragged: rows, ragged.of: range(group, group + 1)}
            self.known = dict(inputs)
            if rows:
                self._steps()
                for step in program.steps:
                    for out in step.outs:
                        if out.name in found:
                            place = tuple(self._slice(e) for e in out.index)
                            found[out.name].value[place] = self.known[out.name].value
                            found[out.name].error[place] = self.known[out.name].error
        if self.part is None:
            return found
        places = {out.name: self.part.place(out.index) for step in program.steps for out in step.outs}
        return {name: Bounded(x.value[places[name]], x.error[places[name]]) for name, x in found.items()}

    def _finished(self, x: Bounded) -> Bounded:
        return Bounded(x.value, SIGMAS * x.error) if self.facts.independent else x

    def _steps(self) -> None:
        done: set[str] = set()
        for step in self.program.steps:
            loop = next((x for x in self.program.loops if step.name in x.steps), None)
            if step.name in done:
                continue
            if loop is None:
                self._keep(step, self._step(step))
            else:
                done |= set(loop.steps)
                self._repeat(loop)

    def _repeat(self, loop: For) -> None:
        self.known |= {name: self.known[first] for name, first in loop.carried}
        for trip in self._range(loop.dim):
            self.ranges[loop.dim] = range(trip, trip + 1)
            for step in self.program.steps:
                if step.name in loop.steps:
                    self._keep(step, self._step(step))
        del self.ranges[loop.dim]

    def _keep(self, step: Step, values: Sequence[Bounded]) -> None:
        if step.into:
            (value,), (out,) = values, step.outs
            self.known[out.name] = self._written(step, out, value)
            return
        for out, x in zip(step.outs, values, strict=True):
            at = tuple(None if not isinstance(e, Var) else slice(None) for e in out.index)
            self.known[out.name] = Bounded(x.value[at], x.error[at])
            self.origins[out.name] = {x for ref in step.reads for x in self.origins.get(ref.name, {ref.name})}

    def _extent(self, dim: Dim) -> int:
        assert dim.extent is not None
        known = as_int(dim.extent)
        if known is None:
            known = as_int(substitute(dim.extent, self.symbols))
        if known is None:
            known = int(index_at(dim.extent, {k: int(v) for k, v in self.numbers.items()}))
        return known

    def _range(self, dim: Dim) -> range:
        return self.ranges.get(dim) or range(self._extent(dim))

    def _slice(self, e: Expr) -> slice:
        if isinstance(e, Var) and e in self.ranges:
            return slice(self.ranges[e].start, self.ranges[e].stop)
        return slice(None)

    def _step(self, step: Step) -> list[Bounded]:
        shape = tuple(len(self._range(d)) for d in step.kept)
        rounding = self.facts.steps.get(step.name, Rounding())
        if step.fold is None:
            return [self._pointwise(step, shape, rounding)]
        kind = joined_by(step)
        if kind is not None:
            return [self._sum(step, kind, shape, rounding, step.fold)]
        # Running results stand along the dim that is folded, which comes last here and goes back to its place.
        dims = (*(d for d in step.dims if d not in step.over), *step.over)
        inputs = [self._spread(ref, dims) for ref in step.reads]
        whole = tuple(len(self._range(d)) for d in dims)
        points = [step.body] if step.fold.plain else [substituted(tree, (step.body,)) for tree in step.fold.lift]
        state = [broadcast(self._evaluated(tree, inputs, dims, rounding.underflow), whole) for tree in points]
        if step.where is not None:
            present = broadcast(self._evaluated(step.where, inputs, dims), whole)
            state = [_present(present, x, nothing) for x, nothing in zip(state, step.fold.identity, strict=True)]
        if step.running:
            at = step.kept.index(step.over[0])
            held = _cumulated(state, step.fold, self.numbers)
            return [
                cast(Bounded(*(np.moveaxis(y, -1, at) for y in (x.value, x.error))), out.dtype, f.dtype)
                for x, out, f in zip(held, step.outs, step.fold.finish, strict=True)
            ]
        flat = [Bounded(x.value.reshape((*shape, -1)), x.error.reshape((*shape, -1))) for x in state]
        found = zip(_folded(flat, step.fold, self.numbers), step.outs, step.fold.finish, strict=True)
        return [cast(x, out.dtype, f.dtype) for x, out, f in found]

    def _evaluated(
        self, tree: Scalar, inputs: Sequence[Bounded], dims: Sequence[Dim], underflow: float = 0.0
    ) -> Bounded:
        """Compute an expression of reads and indices at all points of some dims.

        Args:
            tree: the expression.
            inputs: what it reads.
            dims: of the points.
            underflow: number below which an exponential may become 0.
        """
        if underflow:
            tree, inputs = self._underflown(tree, list(inputs), dims, underflow)
        tree, places = without_coordinates(tree, len(inputs))
        indices = (exact(self._index(e, dims).astype(np.int32)) for e in places)
        return evaluate(tree, (*inputs, *indices), self.numbers)

    def _underflown(
        self, tree: Scalar, inputs: list[Bounded], dims: Sequence[Dim], underflow: float
    ) -> tuple[Scalar, list[Bounded]]:
        """Make each exponential an input whose error says that numbers below `underflow` may become 0."""
        if isinstance(tree, Unary) and tree.op in EXPONENTIALS:
            x = self._evaluated(tree, inputs, dims)
            low = np.where(x.value - x.error < underflow, np.minimum(x.value, underflow), 0.0)
            return Arg(len(inputs), tree.dtype), [*inputs, Bounded(x.value, x.error + low)]
        made: list[Scalar] = []
        for operand in children(tree):
            one, inputs = self._underflown(operand, inputs, dims, underflow)
            made.append(one)
        return with_children(tree, tuple(made)), inputs

    def _index(self, e: Expr, dims: Sequence[Dim], *, inner: bool = False) -> Array:
        """Evaluate an index at all points of some dims; the result has extent 1 along dims that the index lacks.

        Args:
            e: the index.
            dims: of the points.
            inner: whether the index counts from the first point of the current group or trip.
        """
        e, env = substitute(e, self.symbols), dict[str, Any]()
        env |= {t.name: self.known[t.name].value.astype(np.int64) for t in self.gathers}
        for d in free(e):
            assert isinstance(d, Var)
            points = np.array(self._range(d)) - (self._range(d).start if inner else 0)
            env[d.name] = points.reshape([-1 if x == d else 1 for x in dims]) if d in dims else int(points[0])
        found = np.asarray(index_at(e, env))
        return found.reshape((1,) * len(dims)) if found.ndim == 0 else found

    def _pointwise(self, step: Step, shape: tuple[int, ...], rounding: Rounding) -> Bounded:
        (out,) = step.outs
        if rounding.together:
            left, right = zip(*(self.factors[name] for name in rounding.together), strict=True)
            how = Summing.of(out.dtype, rounding, self.facts.drawn)
            return product(_joined(left, -1), _joined(right, -2), how)
        inputs = [self._spread(ref, step.kept) for ref in step.reads]
        if not self.facts.independent:
            x = self._evaluated(step.body, inputs, step.kept, rounding.underflow)
            return broadcast(cast(x, out.dtype, step.body.dtype), shape)
        # What may happen decides which way ops go; a conversion at the end rounds each value on its own.
        tree, casts = step.body, list[tuple[DType, DType]]()
        while isinstance(tree, Cast):
            casts.append((tree.dtype, tree.x.dtype))
            tree = tree.x
        x = self._evaluated(tree, [Bounded(y.value, SIGMAS * y.error) for y in inputs], step.kept)
        x = broadcast(Bounded(x.value, x.error / SIGMAS), shape)
        for dtype, source in reversed(casts):
            x = cast(x, dtype, source)
        return x

    def _sum(self, step: Step, kind: atom.Product, shape: tuple[int, ...], rounding: Rounding, fold: Fold) -> Bounded:
        """Sum products of two factors by a matrix product, without an array of all terms."""
        assert step.factors is not None
        left, right = step.factors
        mine = [{step.reads[i] for i in _args(tree)} for tree in (left, right)]
        dims = [set(dims_in(tree, step.reads)) for tree in (left, right)]
        both = [d for d in step.kept if d in dims[0] and d in dims[1]]
        rows = [d for d in step.kept if d not in both and d in dims[0]]
        cols = [d for d in step.kept if d not in both and d not in rows]
        a = self._factor(step, left, (*both, *rows, *step.over), (len(both), len(both) + len(rows)))
        b = self._factor(step, right, (*both, *step.over, *cols), (len(both), len(both) + len(step.over)))
        if any(step.name in x.together for x in self.facts.steps.values()):
            self.factors[step.name] = (a, b)
        (dtype,) = fold.dtypes
        drawn = (
            self.facts.drawn
            and not self.facts.independent
            and self._drawn(mine)
            and (_mixed(a.value, -1) or _mixed(b.value, -2))
        )
        how = Summing.of(dtype, rounding, drawn, kind)
        if self.facts.independent:
            total = product(exact(a.value), exact(b.value), how)
            lost = [spread(x, y) for x, y in ((a.error, b.value), (a.value, b.error)) if x.any() and y.any()]
            total = Bounded(total.value, total.error + np.sqrt(sum((x**2 for x in lost), np.zeros(()))))
        else:
            total = product(a, b, how)
        order = [*both, *rows, *cols]
        sizes = [len(self._range(d)) for d in order]
        turned = [order.index(d) for d in step.kept]
        value, error = (x.reshape(sizes).transpose(turned).reshape(shape) for x in (total.value, total.error))
        return cast(Bounded(value, error), step.outs[0].dtype, dtype)

    def _factor(self, step: Step, tree: Scalar, dims: Sequence[Dim], cuts: tuple[int, int]) -> Bounded:
        """Evaluate one factor as a matrix or a batch of matrices; `cuts` end the dims of the batch and of the rows."""
        mine = _args(tree)
        inputs = [self._spread(r, dims) if i in mine else exact(np.zeros(())) for i, r in enumerate(step.reads)]
        sizes = [len(self._range(d)) for d in dims]
        low = self.facts.steps.get(step.name, Rounding()).underflow
        x = broadcast(self._evaluated(tree, inputs, dims, low), tuple(sizes))
        first, second = cuts
        batch = (math.prod(sizes[:first]),) if first else ()
        shape = (*batch, math.prod(sizes[first:second]), math.prod(sizes[second:]))
        return Bounded(x.value.reshape(shape), x.error.reshape(shape))

    def _drawn(self, sides: Sequence[set[Ref]]) -> bool:
        """Say whether the factors depend on different inputs, so that their numbers are independent."""
        left, right = ({x for ref in refs for x in self.origins.get(ref.name, {ref.name})} for refs in sides)
        return not left & right

    def _written(self, step: Step, out: Ref, value: Bounded) -> Bounded:
        """Write the values of all points to elements of an array, or add them there, in any order."""
        before = self.known[step.into]
        total, error, size = before.value.copy(), before.error.copy(), before.size.copy()
        places = np.broadcast_arrays(*(self._index(e, step.kept) for e in out.index), value.value)[:-1]
        inside = np.ones(value.value.shape, bool)
        for place, extent in zip(places, total.shape, strict=True):
            inside &= (place >= 0) & (place < extent)
        at = tuple(place[inside] for place in places)
        if not step.adds:
            total[at], error[at] = value.value[inside], value.error[inside]
            return Bounded(total, error)
        counts = np.zeros(total.shape)
        for sums, x in (
            (total, value.value),
            (error, value.error),
            (size, value.size),
            (counts, np.ones(inside.shape)),
        ):
            np.add.at(sums, at, x[inside])
        if out.dtype.kind == "int":
            return wrapped(total, error + inexact(size, out.dtype), out.dtype)
        return Bounded(total, more(error, _lost(counts, size, out.dtype, before, value)))

    def _spread(self, ref: Ref, dims: Sequence[Dim]) -> Bounded:
        """Arrange an array's axes in the order of dims, with extent 1 along dims that it lacks."""
        x = self.known[ref.name]
        whole = any(t.name == ref.name for t in self.program.inputs)
        if not all(is_plain(ref, i) for i in range(len(ref.index))):
            return self._gathered(ref, x, dims)
        # One trip or one group, of which the step keeps no dim: its only element there.
        place = tuple(
            (self._slice(d) if whole else slice(None)) if d in dims else self._slice(d).start if whole else 0
            for d in ref.dims
        )
        mine = [d for d in ref.dims if d in dims]
        order = [mine.index(d) for d in dims if d in mine]
        at = tuple(slice(None) if d in mine else None for d in dims)
        return Bounded(x.value[place].transpose(order)[at], x.error[place].transpose(order)[at])

    def _gathered(self, ref: Ref, x: Bounded, dims: Sequence[Dim]) -> Bounded:
        """Read an array at computed indices; an index outside reads the ref's value for it."""
        inner = all(t.name != ref.name for t in self.program.inputs)
        places = [self._index(e, dims, inner=inner) for e in ref.index]
        inside = np.ones([1] * len(dims), bool)
        for place, size in zip(places, x.value.shape, strict=True):
            inside = inside & (place >= 0) & (place < size)
        at = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, x.value.shape, strict=True))
        return Bounded(np.where(inside, x.value[at], ref.outside), np.where(inside, x.error[at], 0.0))


def joined_by(step: Step) -> atom.Product | None:
    """Return the operation between the factors of a sum's terms: multiplication, or xor of bits; None for others."""
    if step.factors is None:
        return None
    if isinstance(step.body, Binary) and step.body.op == "mul":
        return "mul"
    return "xor" if all(ref.dtype == b1 for ref in step.reads) else None


def _args(tree: Scalar) -> set[int]:
    return {x.index for x in parts(tree) if isinstance(x, Arg)}


def _groups(ends: Array, extent: int) -> Iterator[range]:
    """Yield the rows of each group."""
    begin = 0
    for end in ends:
        stop = max(begin, min(int(end), extent))
        yield range(begin, stop)
        begin = stop


def _mixed(x: Array, axis: int) -> bool:
    """Say whether sums along an axis are as small as those of numbers with random signs."""
    return bool((np.abs(x.sum(axis)) <= SIGMAS * np.sqrt((x**2).sum(axis))).all())


def _joined(factors: Sequence[Bounded], axis: int) -> Bounded:
    """Concatenate factors along the summed dim, so that one product is the sum of all products."""
    return Bounded(np.concatenate([x.value for x in factors], axis), np.concatenate([x.error for x in factors], axis))


def _present(present: Bounded, x: Bounded, nothing: float) -> Bounded:
    """Replace points where a condition does not hold by the fold's value of no points."""
    chosen = present.value != 0
    unsure = np.where(present.error == 0, 0.0, np.abs(x.value - nothing) + x.error)
    return Bounded(np.where(chosen, x.value, nothing), np.maximum(np.where(chosen, x.error, 0.0), unsure))


def _folded(state: list[Bounded], fold: Fold, numbers: Mapping[str, float]) -> list[Bounded]:
    """Fold the last axis: known folds with bounds of their own, other folds by a tree of their `combine`."""
    (dtype, *_), (x, *_) = fold.dtypes, state
    if fold.name == COMPENSATED:
        total, size = x.value.sum(-1), x.size.sum(-1)
        twice = (2 * x.value.shape[-1] * unit(dtype)) ** 2 * size
        return [Bounded(total, x.error.sum(-1) + 2 * (unit(dtype) * np.abs(total) + smallest(dtype)) + twice)]
    match fold.plain:
        case "add":
            total = x.value.sum(-1)
            if dtype.kind == "int":
                return [wrapped(total, x.error.sum(-1) + inexact(x.size.sum(-1), dtype), dtype)]
            return [Bounded(total, more(x.error.sum(-1), _lost(x.value.shape[-1], x.size.sum(-1), dtype, x)))]
        case "max":
            return [_largest(x)]
        case "min":
            least = _largest(Bounded(-x.value, x.error))
            return [Bounded(-least.value, least.error)]
        case _:
            pass
    while state[0].value.shape[-1] > 1:
        n = state[0].value.shape[-1]
        left = [Bounded(s.value[..., : n // 2], s.error[..., : n // 2]) for s in state]
        right = [Bounded(s.value[..., n // 2 : n // 2 * 2], s.error[..., n // 2 : n // 2 * 2]) for s in state]
        rest = [Bounded(s.value[..., n // 2 * 2 :], s.error[..., n // 2 * 2 :]) for s in state]
        made = [evaluate(tree, (*left, *right), numbers) for tree in fold.combine]
        for stage in fold.settle:
            made = [evaluate(tree, made, numbers) for tree in stage]
        state = [
            Bounded(np.concatenate((a.value, b.value), -1), np.concatenate((a.error, b.error), -1))
            for a, b in zip(made, rest, strict=True)
        ]
    state = [Bounded(s.value[..., 0], s.error[..., 0]) for s in state]
    # Any order is allowed: the bound of one tree is widened to that of a chain.
    deep = max(1.0, x.value.shape[-1] / max(1, int(np.ceil(np.log2(max(2, x.value.shape[-1]))))))
    return [Bounded(y.value, y.error * deep) for y in (evaluate(tree, state, numbers) for tree in fold.finish)]


def _cumulated(state: list[Bounded], fold: Fold, numbers: Mapping[str, float]) -> list[Bounded]:
    """Fold, for each point of the last axis, the points up to it; the bounds hold for every grouping."""
    (dtype, *_), (x, *_) = fold.dtypes, state
    n = x.value.shape[-1]
    if fold.plain == "add":
        total, error = x.value.cumsum(-1), x.error.cumsum(-1)
        if dtype.kind == "int":
            return [wrapped(total, error + inexact(x.size.cumsum(-1), dtype), dtype)]
        return [Bounded(total, error + _lost(np.arange(n, dtype=np.float64), x.size.cumsum(-1), dtype, x))]
    made: list[list[Bounded]] = []
    held = [Bounded(s.value[..., 0], s.error[..., 0]) for s in state]
    for i in range(n):
        if i:
            one = [Bounded(s.value[..., i], s.error[..., i]) for s in state]
            held = [evaluate(tree, (*held, *one), numbers) for tree in fold.combine]
            for stage in fold.settle:
                held = [evaluate(tree, held, numbers) for tree in stage]
        made.append([evaluate(tree, held, numbers) for tree in fold.finish])
    shape = x.value.shape[:-1]
    return [
        Bounded(*(np.stack([np.broadcast_to(part(y), shape) for y in some], -1) for part in (_value, _error)))
        for some in zip(*made, strict=True)
    ]


def _value(x: Bounded) -> Array:
    return x.value


def _error(x: Bounded) -> Array:
    return x.error


def _largest(x: Bounded) -> Bounded:
    """Take the maximum of the last axis; points that are smaller by more than the errors have no effect."""
    value = x.value.max(-1)
    with np.errstate(invalid="ignore"):
        error: Array = np.maximum((x.value + x.error).max(-1) - value, value - (x.value - x.error).max(-1))
    return Bounded(value, np.where(np.isfinite(value), error, x.error.max(-1)))


def _lost(roundings: int | Array, size: Array, dtype: DType, *summed: Bounded) -> Array:
    """Bound the rounding error of sums; 0 where all partial sums are whole numbers that the type holds."""
    lost = roundings * (unit(dtype) * size + smallest(dtype))
    if any(x.error.any() or (np.rint(x.value) != x.value).any() for x in summed):
        return np.where(size == 0, 0.0, lost)  # a sum of zeros is one
    return np.where(size <= whole_numbers(dtype), 0.0, lost)
