"""Folds over one or two of three dims, by chains drawn link by link: right bit by bit, or refused with a code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, FireironError, Warp, in_order, tensor, vector
from fireiron.verify.verification import Data, verify

EXTENTS = ([1, 2, 3, 4, 6], [2, 3, 5, 8, 12, 24], [8, 16, 24, 32, 40, 64, 96, 256])


def drawn(chance: np.random.Generator) -> Any:
    """Draw a chain: a tile of what is kept, parts for blocks and warps, a loop, and vectors."""
    extents = {dim: int(chance.choice(some)) for dim, some in zip("abc", EXTENTS, strict=True)}
    over = str(chance.choice(["a", "b", "a b", "c", "b c", "a c"]))
    folded = list(chance.permutation(over.split()))
    spec = fi.program(x="a b c")(lambda x: fi.sum(x, over))(tensor(*extents.values(), dtype="bf16"), out="f32")
    kept = {dim: min(extent, int(chance.choice([1, 2, 8, extent]))) for dim, extent in extents.items()}
    chain = spec.tile(**{dim: size for dim, size in kept.items() if dim not in folded}).to(Block)
    if chance.random() < 0.6:
        chain = chain.split(folded[0], ways=int(chance.choice([2, 3, 4]))).parallel(Block, in_order())
    if chance.random() < 0.7:
        chain = chain.split(folded[-1], ways=int(chance.choice([1, 2, 4]))).parallel(Warp)
    if chance.random() < 0.5:
        chain = chain.split(**{folded[0]: int(chance.choice([1, 2, 8]))})
    return chain.load("x", RF, vector(int(chance.choice([16, 8, 4])))).epilog(memory=RF).done()


@pytest.mark.parametrize("seed", [0, 3, 7, 14])
def test_drawn_folds(seed: int) -> None:
    chance = np.random.default_rng(seed)
    right, refused = 0, set[str]()
    for _ in range(30):
        try:
            schedule = drawn(chance)
        except FireironError as error:
            refused.add(error.code)
            continue

        def launch(data: Data, schedule: Any = schedule) -> None:
            schedule.simulate(*data.inputs, out=data.out, **data.numbers)

        verdict = verify(schedule, launch, {})
        assert verdict.passed, f"{schedule}: {verdict}"
        right += 1
    assert right >= 5
    assert refused <= {"fold-registers", "fold-lanes", "fold-warps", "vector-alignment", "too-many-threads"}
