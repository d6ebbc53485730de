"""Inputs of softmax and attention whose maxima grow from run to run of keys, so that what was summed is corrected.

A kernel that folds a maximum chunk by chunk scales its sums where the maximum grows; one that speculates computes a
chunk again where it outgrows the old maximum. So the rows of one group share a walk along the keys: levels that stay,
fall, grow by a little (the scaled sums still count), by more than a chunk may outgrow its reference, or so far that
its exponentials are beyond f16. Half of the groups have one key far above the others as well, the last one or any: a
maximum that leaves it out lets an exponential overflow.

Levels that all keys of a run share grow for all threads of a row alike. Where single keys grow instead, threads of one
row see different sums of their keys, and must agree on one maximum.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fireiron.algebra.expr import Var
from fireiron.language.steps import Program
from fireiron.verify.bounded import Array
from fireiron.verify.level_data import exponents

RUN = 16  # keys of one level
ROWS = 8  # of one group
STAY = (-4.0, -1.0, 0.0, 0.0, 1.0)  # from one run's level to the next, of exponents of e
GROW = (2.0, 4.0, 6.0, 16.0)
RATES = (0.04, 0.4)  # how often a group's level grows
SINGLE = 100.0  # of a key above all others, whose exponentials are beyond f32 otherwise
ALONE = (3.0, 6.0, 7.0, 8.0, 10.0)  # of a key above all before it: its exponential is within f16
ALONE_RATE = 0.3
BASES = (-40.0, 0.0, 0.0, 40.0)  # of a group: one thread has rows of two, and each keeps its own maximum


def climbing(
    program: Program, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator, alone: bool = False
) -> dict[str, Array]:
    """Draw the inputs that exponentials follow from, in mathematical order, by name.

    Args:
        program: what is computed.
        shapes: of its inputs, by name.
        rng: draws.
        alone: whether single keys grow beside levels.
    """
    found: dict[str, Array] = {}
    inputs = {t.name for t in program.inputs if t not in program.outputs}
    for ref, folded in exponents(program):
        made = program.step(ref.name)
        if made is None and ref.name in inputs and folded in ref.index:
            axis, shape = ref.index.index(folded), shapes[ref.name]
            lines = int(np.prod(shape)) // shape[axis]
            walks = _walks(lines, shape[axis], rng, alone) + rng.integers(-16, 17, (lines, shape[axis])) / 8
            found[ref.name] = np.moveaxis(walks.reshape(*shape[:axis], *shape[axis + 1 :], shape[axis]), -1, axis)
        if made is not None and made.is_product and len(made.over) == 1:
            queries, keys = made.reads[0], made.reads[-1]
            named = {queries.name, keys.name} <= inputs and keys.index[-1:] == queries.index[-1:] == made.over
            if named and len(keys.index) > 1 and isinstance(keys.index[-2], Var):
                found[queries.name], found[keys.name] = _chosen(shapes[queries.name], shapes[keys.name], rng, alone)
    return found


def _walks(groups: int, keys: int, rng: np.random.Generator, alone: bool) -> Array:
    """Give each group a level for each key."""
    runs = -(-keys // RUN)
    grows = rng.random((groups, runs)) < rng.choice(RATES, (groups, 1))
    levels = np.cumsum(np.where(grows, rng.choice(GROW, grows.shape), rng.choice(STAY, grows.shape)), axis=1)
    walks = np.repeat(levels - levels[:, :1], RUN, axis=1)[:, :keys]
    if alone:
        return _with_single_keys(walks, rng)
    places = np.where(rng.random(groups) < 0.5, keys - 1, rng.integers(0, keys, groups))
    single = (np.arange(keys) == places[:, None]) & (rng.random((groups, 1)) < 0.5)
    return np.where(single, walks.max(1, keepdims=True) + SINGLE, walks)


def _with_single_keys(walks: Array, rng: np.random.Generator) -> Array:
    """Let a key of some runs lie above all keys before it, and all keys behind it lie as far above what they were."""
    found = walks + rng.choice(BASES, (len(walks), 1))
    for group, run in np.argwhere(rng.random((len(walks), -(-walks.shape[1] // RUN))) < ALONE_RATE):
        key = min(run * RUN + int(rng.integers(RUN)), walks.shape[1] - 1)
        more = found[group, : key + 1].max() + rng.choice(ALONE) - found[group, key]
        found[group, key] += more
        found[group, key + 1 :] += rng.choice((0.5, 1.0)) * more
    return found


def _chosen(
    queries: tuple[int, ...], keys: tuple[int, ...], rng: np.random.Generator, alone: bool
) -> tuple[Array, Array]:
    """Let each group of queries choose a column of the keys, which holds its walk; the other columns are noise."""
    depth, count = keys[-1], keys[-2]
    groups = max(1, depth // 2)
    scale = depth**0.5  # which attention divides by
    left, right = (rng.integers(-8, 9, shape) / 8 for shape in (queries, keys))
    left[..., :groups] = 0
    rows = np.arange(queries[-2])
    group = rng.integers(0, groups, -(-len(rows) // ROWS))[rows // ROWS]
    left[..., rows, group] = scale / 4
    right[..., :groups] = 4 * _walks(groups, count, rng, alone).T
    return left, right
