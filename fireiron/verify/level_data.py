"""Whole numbers for programs that exponentiate what lies below a maximum, as softmax and attention do.

Exponentials are exact at 0, and far below it, where they are 0. So an element lies at the maximum of its row or far
below, and so many lie there that the sum of exponentials, and what is divided by it, are powers of two. Where products
make the elements, queries choose keys: a row of the left operand is far from 0 in one place, or nowhere, and there the
right operand is 0 for the keys at the maximum, and -1 for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Var
from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar, Unary, parts
from fireiron.language.steps import Dim, Program, Ref, Step
from fireiron.verify.bounded import Array

FAR = 2.0**14  # below a maximum, where the type has such numbers
EXPONENTIALS = ("exp", "exp2")


def level_arrays(program: Program, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> dict[str, Array]:
    """Make the inputs that exponentials and their sums follow from, in mathematical order, by name.

    Args:
        program: what is computed.
        shapes: of its inputs, by name.
        rng: draws.

    Returns:
        Nothing where no step exponentiates differences from a maximum.
    """
    found: dict[str, Array] = {}
    inputs = {t.name: t for t in program.inputs if t not in program.outputs}
    chosen: dict[Dim, Array] = {}
    for ref, folded in exponents(program):
        made = program.step(ref.name)
        if made is None and ref.name in inputs and folded in ref.index:
            axis, shape = ref.index.index(folded), shapes[ref.name]
            lines = _levels(inputs[ref.name].dtype, (*shape[:axis], *shape[axis + 1 :]), shape[axis], rng)
            found[ref.name] = np.moveaxis(lines, -1, axis)
        if made is not None and made.is_product and len(made.over) == 1:
            queries, keys = made.reads[0], made.reads[-1]
            named = {queries.name, keys.name} <= inputs.keys() and keys.index[-1:] == queries.index[-1:] == made.over
            dim = keys.index[-2] if len(keys.index) > 1 else None
            if named and isinstance(dim, Var):  # lines of pages are none: several keys are one line
                depth, count = shapes[keys.name][-1], shapes[keys.name][-2]
                groups = _groups(count, depth, rng)
                found[queries.name] = _queries(inputs[queries.name].dtype, shapes[queries.name], groups, rng)
                marks = np.where(groups[:, None] == np.arange(depth), 0.0, -1.0)
                found[keys.name] = np.broadcast_to(marks, shapes[keys.name])
                chosen[dim] = groups
    for step in program.steps:  # what exponentials are multiplied by
        for ref in step.reads if step.is_product and step.over and step.over[0] in chosen else ():
            if ref.name in inputs and ref.name not in found and step.over[0] in ref.index:
                axis = ref.index.index(step.over[0])
                found[ref.name] = _values(shapes[ref.name], axis, chosen[step.over[0]], rng)
    return found


def exponents(program: Program) -> Iterator[tuple[Ref, Dim]]:
    """List what maxima are subtracted from under an exponential: reads of inputs, or of what steps with folds make.

    With each stands the dim that its maximum folds, where that is one. A number may multiply the difference, as powers
    of two do for powers of e.
    """
    for step in program.steps:
        for part in parts(step.body):
            match part:
                case Unary(op, Binary("sub", x, y)) | Unary(op, Binary("mul", Binary("sub", x, y), Constant())) if (
                    op in EXPONENTIALS
                ):
                    over = {dims for below in parts(y) if (dims := _folded(program, step, below))}
                    for (dim,) in over if len(over) == 1 and all(len(dims) == 1 for dims in over) else ():
                        yield from ((ref, dim) for ref in _origins(program, step, x))
                case _:
                    pass


def _folded(program: Program, step: Step, tree: Scalar) -> tuple[Dim, ...]:
    """List the dims that a read's maximum folds; none where it reads another thing."""
    made = program.step(step.reads[tree.index].name) if isinstance(tree, Arg) else None
    return made.over if made is not None and made.fold is not None and made.fold.plain == "max" else ()


def _origins(program: Program, step: Step, tree: Scalar) -> Iterator[Ref]:
    for part in parts(tree):
        if isinstance(part, Arg):
            ref = step.reads[part.index]
            made = program.step(ref.name)
            if made is None or made.fold is not None:
                yield ref
            else:
                yield from _origins(program, made, made.body)


def _powers(count: int) -> list[int]:
    """Part a number into powers of two, of which none is more than half of it where there are several."""
    found: list[int] = []
    while count:
        found.append(2 ** max(0, (count if count & (count - 1) else count // 2).bit_length() - 1))
        count -= found[-1]
    return found


def _levels(dtype: DType, lines: tuple[int, ...], columns: int, rng: np.random.Generator) -> Array:
    """Draw rows: so many elements as a power of two says at a number of the row, and the others far below."""
    powers = 2 ** rng.integers(0, max(1, columns.bit_length()), (*lines, 1))
    powers.reshape(-1)[:1] = 2 ** max(0, columns.bit_length() - 1)  # as many as there can be
    places = rng.permuted(np.broadcast_to(np.arange(columns), (*lines, columns)), axis=-1)
    return np.where(places < powers, rng.integers(0, 4, (*lines, 1)), -_far(dtype))


def _far(dtype: DType) -> float:
    return FAR if dtype.limits[1] >= FAR else 2.0 ** int(np.log2(dtype.limits[1]))


def _groups(count: int, depth: int, rng: np.random.Generator) -> Array:
    """Deal keys out to places of queries: as many to each as a power of two says."""
    sizes = _powers(count)
    while len(sizes) < min(depth, 8) and max(sizes) > 1:  # no group of all keys: queries of zeros choose those
        largest = max(sizes)
        sizes.remove(largest)
        sizes += [largest // 2, largest // 2]
    sizes = sizes[:depth]
    places = np.repeat(rng.permutation(depth)[: len(sizes)], sizes)
    return rng.permutation(np.concatenate([places, np.full(count - len(places), -1)]))


def _queries(dtype: DType, shape: tuple[int, ...], groups: Array, rng: np.random.Generator) -> Array:
    """Let each query choose a group of keys; one of four chooses all, where their number is a power of two."""
    known = np.unique(groups[groups >= 0])
    chosen = rng.choice(known, shape[:-1])
    found = np.where(chosen[..., None] == np.arange(shape[-1]), _far(dtype), 0.0)
    if len(groups) & (len(groups) - 1) == 0:
        found[rng.random(shape[:-1]) < 0.25] = 0
    return found


def _values(shape: tuple[int, ...], axis: int, groups: Array, rng: np.random.Generator) -> Array:
    """Draw values that cancel in pairs of keys of one group, but for two of each: sums stay small, and no term is 0."""
    others = tuple(n for i, n in enumerate(shape) if i != axis)
    found = np.empty((*others, shape[axis]))
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        drawn = rng.choice([1.0, 2.0], (*others, -(-len(places) // 2)))
        signs = rng.choice([-1.0, 1.0], drawn.shape)
        pairs = np.stack([drawn * signs, -drawn * signs], -1).reshape(*others, -1)[..., : len(places)]
        pairs = rng.permuted(pairs, axis=-1)
        pairs[..., :2] = rng.integers(1, 5, pairs[..., :2].shape)
        found[..., places] = pairs
    return np.moveaxis(found, -1, axis)
