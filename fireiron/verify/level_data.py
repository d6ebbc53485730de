"""Whole numbers for programs with exponentials of differences from a maximum, as in softmax and attention.

An exponential is exact for a difference of 0, where it is 1, and for one far below 0, where it is 0. So each element of
a row is either the maximum or far below it, and the number of maxima is a power of two: sums of exponentials, and
quotients by these sums, are then powers of two. Where a product of queries and keys makes the elements, a query is a
large number in one column and 0 elsewhere, or 0 everywhere; in that column, keys at the maximum are 0 and others are
-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Var
from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar, Unary, parts
from fireiron.language.folds import Dim
from fireiron.language.steps import Program, Ref, Step
from fireiron.verify.bounded import Array

FAR = 2.0**14  # below a maximum, where the type has such numbers
EXPONENTIALS = ("exp", "exp2")


def level_arrays(program: Program, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> dict[str, Array]:
    """Make the inputs from which exponentials are computed, by name, in mathematical order.

    Args:
        program: the program that is computed.
        shapes: shapes of the program's inputs, by name.
        rng: the source of random numbers.

    Returns:
        The arrays; none where no step has an exponential of a difference from a maximum.
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
    """List the reads from which an exponential's argument subtracts a maximum: of inputs, or of results of folds.

    With each read, the one dim over which the maximum is taken is returned. The difference may be multiplied by a
    number: `exp2((x - max) * LOG2E)`.
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
    """List the dims of the maximum that a read refers to; none where it refers to no maximum."""
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
    """Write a number as a sum of powers of two; where there are several, each is at most half of the number."""
    found: list[int] = []
    while count:
        found.append(2 ** max(0, (count if count & (count - 1) else count // 2).bit_length() - 1))
        count -= found[-1]
    return found


def _levels(dtype: DType, lines: tuple[int, ...], columns: int, rng: np.random.Generator) -> Array:
    """Draw rows: in each, a power of two of elements equal the maximum, and the others lie far below."""
    powers = 2 ** rng.integers(0, max(1, columns.bit_length()), (*lines, 1))
    powers.reshape(-1)[:1] = 2 ** max(0, columns.bit_length() - 1)  # as many as there can be
    places = rng.permuted(np.broadcast_to(np.arange(columns), (*lines, columns)), axis=-1)
    return np.where(places < powers, rng.integers(0, 4, (*lines, 1)), -_far(dtype))


def _far(dtype: DType) -> float:
    return FAR if dtype.limits[1] >= FAR else 2.0 ** int(np.log2(dtype.limits[1]))


def _groups(count: int, depth: int, rng: np.random.Generator) -> Array:
    """Deal keys out to columns of queries, a power of two of keys to each; -1 for keys without a column."""
    sizes = _powers(count)
    while len(sizes) < min(depth, 8) and max(sizes) > 1:  # no group of all keys: queries of zeros choose those
        largest = max(sizes)
        sizes.remove(largest)
        sizes += [largest // 2, largest // 2]
    sizes = sizes[:depth]
    places = np.repeat(rng.permutation(depth)[: len(sizes)], sizes)
    return rng.permutation(np.concatenate([places, np.full(count - len(places), -1)]))


def _queries(dtype: DType, shape: tuple[int, ...], groups: Array, rng: np.random.Generator) -> Array:
    """Let each query choose a group of keys. A quarter of them chooses all keys, if their number is a power of two."""
    known = np.unique(groups[groups >= 0])
    chosen = rng.choice(known, shape[:-1])
    found = np.where(chosen[..., None] == np.arange(shape[-1]), _far(dtype), 0.0)
    if len(groups) & (len(groups) - 1) == 0:
        found[rng.random(shape[:-1]) < 0.25] = 0
    return found


def _values(shape: tuple[int, ...], axis: int, groups: Array, rng: np.random.Generator) -> Array:
    """Draw values that are not 0 and cancel in pairs within a group of keys, except two of them: sums stay small."""
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
