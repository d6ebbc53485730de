"""The reference of programs of steps: each step in f64, with a bound on what rounding may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fireiron.algebra import expr
from fireiron.algebra.dtypes import DType
from fireiron.algebra.exact import whole_numbers
from fireiron.algebra.expr import Expr, Symbol, as_expr, free
from fireiron.algebra.scalar import Arg, Binary, Scalar, parts, substituted, without_coordinates
from fireiron.front.bounded import Array, Bounded, broadcast, cast, evaluate, exact, smallest, unit
from fireiron.language.maps import is_plain
from fireiron.language.steps import Dim, Fold, Program, Ref, Step, all_dims, dims_in
from fireiron.language.tensor import Tensor

Read = Callable[[Tensor], Bounded]


def of_steps(program: Program, read: Read, numbers: Mapping[str, float]) -> dict[str, Bounded]:
    """Compute a program's outputs, step by step.

    Args:
        program: what to compute.
        read: gives an input.
        numbers: scalars by name.

    Returns:
        The outputs by name; each value lies within its `error` of what any order of summation may give.
    """
    known: dict[str, Bounded] = {t.name: read(t) for t in program.inputs}
    extents = _extents(program, known)
    for step in program.steps:
        for out, value in zip(step.outs, _of_step(step, known, numbers, extents), strict=True):
            known[out.name] = value
    return {t.name: known[t.name] for t in program.outputs}


def _extents(program: Program, known: Mapping[str, Bounded]) -> dict[str, int]:
    """Give every dim its extent in this call: symbols are what the arrays say."""
    sizes: dict[str, int] = {}
    for tensor in program.inputs:
        for extent, size in zip(tensor.shape, known[tensor.name].value.shape, strict=True):
            if isinstance(extent, Symbol):
                sizes[extent.name] = size
    extents: dict[str, int] = {}
    for dim in all_dims(program):
        assert dim.extent is not None
        if dim.name not in extents:
            extents[dim.name] = int(expr.evaluate(dim.extent, sizes))
    return extents | {f"size {name}": size for name, size in sizes.items()}


def _values(e: Expr, dims: Sequence[Dim], extents: Mapping[str, int]) -> Array:
    """Evaluate an index expression at all points of some dims; one element wide along those that it lacks."""
    env: dict[str, Array | int] = {}
    for leaf in free(as_expr(e)):
        if isinstance(leaf, Symbol):
            env[leaf.name] = extents[f"size {leaf.name}"]
            continue
        place = next(i for i, d in enumerate(dims) if d.name == leaf.name)
        env[leaf.name] = np.arange(extents[leaf.name]).reshape([-1 if i == place else 1 for i in range(len(dims))])
    found = np.asarray(expr.evaluate(e, env))
    return found.reshape((1,) * len(dims)) if found.ndim == 0 else found


def _evaluated(
    tree: Scalar,
    inputs: Sequence[Bounded],
    dims: Sequence[Dim],
    numbers: Mapping[str, float],
    extents: Mapping[str, int],
) -> Bounded:
    """Compute an expression of reads and indices at all points of some dims."""
    tree, places = without_coordinates(tree, len(inputs))
    indices = (exact(_values(e, dims, extents).astype(np.int32)) for e in places)
    return evaluate(tree, (*inputs, *indices), numbers)


def _of_step(
    step: Step, known: Mapping[str, Bounded], numbers: Mapping[str, float], extents: Mapping[str, int]
) -> list[Bounded]:
    kept, over = step.kept, step.over
    shape = tuple(extents[d.name] for d in kept)
    fold = step.fold
    if fold is not None and fold.name == "add" and (factors := _factors(step)) is not None:
        return [_contracted(step, factors, known, numbers, extents, fold)]
    inputs = [_spread(ref, known[ref.name], step.dims, extents) for ref in step.reads]
    whole = (*shape, *(extents[d.name] for d in over))

    def of(tree: Scalar) -> Bounded:
        return broadcast(_evaluated(tree, inputs, step.dims, numbers, extents), whole)

    value = of(step.body)
    if fold is None:
        (out,) = step.outs
        return [cast(value, out.dtype, step.body.dtype)]
    state = [of(substituted(tree, (step.body,))) for tree in fold.lift]
    if step.where is not None:
        present = of(step.where)
        state = [_kept(present, x, nothing) for x, nothing in zip(state, fold.identity, strict=True)]
    flat = [Bounded(x.value.reshape((*shape, -1)), x.error.reshape((*shape, -1))) for x in state]
    return [
        cast(x, out.dtype, f.dtype)
        for x, out, f in zip(_folded(flat, fold, numbers), step.outs, fold.finish, strict=True)
    ]


def _kept(present: Bounded, x: Bounded, nothing: float) -> Bounded:
    """Let points where a condition does not hold be none."""
    chosen = present.value != 0
    unsure = np.where(present.error == 0, 0.0, np.abs(x.value - nothing) + x.error)
    return Bounded(np.where(chosen, x.value, nothing), np.maximum(np.where(chosen, x.error, 0.0), unsure))


def _spread(ref: Ref, x: Bounded, dims: Sequence[Dim], extents: Mapping[str, int]) -> Bounded:
    """Give what a read names at all points of some dims, one element wide along those that it lacks."""
    if all(is_plain(ref, i) for i in range(len(ref.index))):
        order = [ref.index.index(d) for d in dims if d in ref.index]
        at = tuple(slice(None) if d in ref.index else None for d in dims)
        return Bounded(x.value.transpose(order)[at], x.error.transpose(order)[at])
    places = [_values(e, dims, extents) for e in ref.index]
    present = np.ones((1,) * len(dims), bool)
    for place, n in zip(places, x.value.shape, strict=True):
        present = present & (place >= 0) & (place < n)
    inside = tuple(np.clip(place, 0, n - 1) for place, n in zip(places, x.value.shape, strict=True))
    return Bounded(np.where(present, x.value[inside], ref.outside), np.where(present, x.error[inside], 0.0))


def _folded(state: list[Bounded], fold: Fold, numbers: Mapping[str, float]) -> list[Bounded]:
    """Fold the last axis of lifted points: known folds by their own bounds, others by a tree of their combine."""
    (dtype, *_), (x, *_) = fold.dtypes, state
    match fold.plain:
        case "add":
            n = x.value.shape[-1]
            lost = _lost(n, x.size.sum(-1), dtype, x)
            return [Bounded(x.value.sum(-1), x.error.sum(-1) + lost)]
        case "max":
            return [Bounded(x.value.max(-1), x.error.max(-1))]
        case "min":
            return [Bounded(x.value.min(-1), x.error.max(-1))]
        case _:
            pass
    while state[0].value.shape[-1] > 1:
        n = state[0].value.shape[-1]
        left = [Bounded(s.value[..., : n // 2], s.error[..., : n // 2]) for s in state]
        right = [Bounded(s.value[..., n // 2 : n // 2 * 2], s.error[..., n // 2 : n // 2 * 2]) for s in state]
        rest = [Bounded(s.value[..., n // 2 * 2 :], s.error[..., n // 2 * 2 :]) for s in state]
        made = [evaluate(tree, (*left, *right), numbers) for tree in fold.combine]
        state = [
            Bounded(np.concatenate((a.value, b.value), -1), np.concatenate((a.error, b.error), -1))
            for a, b in zip(made, rest, strict=True)
        ]
    state = [Bounded(s.value[..., 0], s.error[..., 0]) for s in state]
    # Any order is allowed: the bound of one tree is widened to that of a chain.
    deep = max(1.0, x.value.shape[-1] / max(1, int(np.ceil(np.log2(max(2, x.value.shape[-1]))))))
    return [Bounded(y.value, y.error * deep) for y in (evaluate(tree, state, numbers) for tree in fold.finish)]


def _factors(step: Step) -> tuple[Scalar, Scalar] | None:
    """Part a sum of products into two factors that each lack a dim of the other."""
    return (step.body.x, step.body.y) if step.is_product and isinstance(step.body, Binary) else None


def _contracted(
    step: Step,
    factors: tuple[Scalar, Scalar],
    known: Mapping[str, Bounded],
    numbers: Mapping[str, float],
    extents: Mapping[str, int],
    fold: Fold,
) -> Bounded:
    """Sum products of two factors without an array of all points."""
    shape = tuple(extents[d.name] for d in step.kept)
    letters = {d.name: chr(ord("a") + i) for i, d in enumerate(step.dims)}
    sides: list[tuple[str, Bounded]] = []
    for tree in factors:
        mine = {x.index for x in parts(tree) if isinstance(x, Arg)}
        dims = [d for d in step.dims if d in dims_in(tree, step.reads)]
        inputs = [
            _spread(ref, known[ref.name], dims, extents) if i in mine else exact(np.zeros(()))
            for i, ref in enumerate(step.reads)
        ]
        sides.append(("".join(letters[d.name] for d in dims), _evaluated(tree, inputs, dims, numbers, extents)))
    (ia, a), (ib, b) = sides
    out = "".join(letters[d.name] for d in step.kept)

    def contracted(x: Array, y: Array) -> Array:
        return np.einsum(f"{ia},{ib}->{out}", x, y, optimize=True).reshape(shape)

    value = contracted(a.value, b.value)
    size = contracted(np.abs(a.value) + a.error, np.abs(b.value) + b.error)
    error = size - contracted(np.abs(a.value), np.abs(b.value))
    terms = a.value.size // max(
        1, int(np.prod([1, *(n for d, n in zip(step.kept, shape, strict=True) if letters[d.name] in ia)]))
    )
    (dtype,) = fold.dtypes
    return Bounded(value, error + _lost(terms + 2, size, dtype, a, b))


def _lost(roundings: int, size: Array, dtype: DType, *summed: Bounded) -> Array:
    """Bound what sums lose: nothing where all partial sums are whole numbers that the type holds."""
    if dtype.kind == "int":
        return np.zeros(size.shape)
    lost = roundings * (unit(dtype) * size + smallest(dtype))
    if any(x.error.any() or (np.rint(x.value) != x.value).any() for x in summed):
        return np.where(size == 0, 0.0, lost)  # a sum of zeros is one
    return np.where(size <= whole_numbers(dtype), 0.0, lost)
