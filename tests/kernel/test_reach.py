"""Loops over chunks visit those that their folds' masks leave points of, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Matrix, vector
from fireiron.algebra.expr import evaluate
from fireiron.front.verification import Data, verify
from fireiron.kernel.ir.statements import BLOCK, For, walk

ROWS, COLUMNS, TILE, CHUNK = 60, 100, 8, 16
MASKS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "causal": (lambda i, j: j <= i, True),
    "later": (lambda i, j: j < i + 9, True),
    "earlier": (lambda i, j: j + 70 < i * 2, True),
    "window": (lambda i, j: (j <= i + 40) & (j + 20 > i + 40), True),
    "steep": (lambda i, j: j * 3 <= i + 40, True),
    "backwards": (lambda i, j: j + i >= 70, True),
    "either": (lambda i, j: (j <= i) | (j < 5), False),
    "curved": (lambda i, j: j <= i // 8 * 8, False),
}


def schedule(name: str, loop: str) -> Any:
    def folded(x: Any) -> Any:
        mask = MASKS[name][0](fi.index("i"), fi.index("j"))
        return fi.sum(fi.where(mask, fi.exp(x - fi.max(x, "j", where=mask)), 0.0) * 2.0, "j")

    split = fi.program(x="i j")(folded)(Matrix(ROWS, COLUMNS)).tile(i=TILE).to(Block).split(j=CHUNK)
    split = split.online() if loop == "online" else split
    return split.load("x", RF, vector(4)).epilog(memory=RF).done()


@pytest.mark.parametrize("loop", ["online", "two loops"])
@pytest.mark.parametrize("name", MASKS)
def test_chunks_without_points_are_not_visited(name: str, loop: str) -> None:
    made = schedule(name, loop)
    loops = [s for s in walk(made.lowered().body) if isinstance(s, For) and s.kind == "chunks"]
    assert len(loops) == (1 if loop == "online" else 2)
    i, j = np.indices((ROWS, COLUMNS))
    seen = np.asarray(MASKS[name][0](i, j)) != 0
    for block in range(-(-ROWS // TILE)):
        rows = seen[block * TILE : (block + 1) * TILE].any(0)
        wanted = sum(rows[c : c + CHUNK].any() for c in range(0, COLUMNS, CHUNK))
        for found in loops:
            trips = int(evaluate(found.extent, {BLOCK: block}))
            whole = (block + 1) * TILE <= ROWS  # a tile that ends behind the last row is bounded as if it did not
            least = wanted if MASKS[name][1] else -(-COLUMNS // CHUNK)
            assert trips == least if whole else trips >= least


@pytest.mark.parametrize("name", MASKS)
def test_results_are_right(name: str) -> None:
    made = schedule(name, "online")

    def launch(data: Data) -> None:
        made.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(made, launch, {})
    assert verdict.passed, str(verdict)
