"""Loops over chunks visit those that their folds' masks leave points of, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Matrix, vector
from fireiron.algebra.expr import evaluate, free, substitute
from fireiron.algebra.scalar import Coordinate, parts
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import BLOCK, Compute, For, If, Let, walk
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references
from fireiron.verify.verification import Data, verify

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


def moves(s: Any, var: Any) -> bool:
    """Say whether a statement has a mask that depends on a loop's variable."""
    if not isinstance(s, Compute):
        return False
    masks = [x.value for x in parts(s.expr) if isinstance(x, Coordinate)]
    return any(var in free(mask) for mask in (*masks, *(() if s.write is None else (s.write,))))


@pytest.mark.parametrize("name", MASKS)
def test_whole_chunks_carry_no_masks(name: str) -> None:
    body = schedule(name, "online").lowered().body
    (loop,) = [s for s in walk(body) if isinstance(s, For) and s.kind == "chunks"]
    lets = {s.var: s.value for s in walk(body) if isinstance(s, Let)}
    branches = [s for s in walk(loop.body) if isinstance(s, If) and loop.var in free(s.condition)]
    free_of_masks = [s for s in branches if not any(moves(x, loop.var) for x in walk(s.body))]
    assert len({s.condition for s in free_of_masks}) == (1 if name != "either" else 0)
    i, j = np.indices((ROWS, COLUMNS))
    seen = np.asarray(MASKS[name][0](i, j)) != 0
    found = 0
    for block in range(ROWS // TILE):  # the last tile ends behind the last row
        rows = seen[block * TILE : (block + 1) * TILE].all(0)
        first = int(rows_reached(seen, block))
        for trip in range(int(evaluate(loop.extent, {BLOCK: block}))):
            chunk = rows[(first + trip) * CHUNK : (first + trip + 1) * CHUNK]
            whole = len(chunk) == CHUNK and bool(chunk.all())
            for s in free_of_masks:
                condition = substitute(s.condition, lets)
                assert bool(evaluate(condition, {BLOCK: block, loop.var.name: trip})) == whole
            found += whole
    assert found or name in ("either", "window")  # which is narrower than a chunk


def rows_reached(seen: Any, block: int) -> int:
    """Give the first chunk that a tile visits."""
    rows = seen[block * TILE : (block + 1) * TILE].any(0)
    return next((c for c in range(-(-COLUMNS // CHUNK)) if rows[c * CHUNK : (c + 1) * CHUNK].any()), 0)


def test_a_chunk_taken_for_whole_is_noticed() -> None:
    made = schedule("causal", "online")
    kernel = made.lowered()

    def moved(s: Any) -> Any:
        longer = isinstance(s, Let) and s.var.name == "whole"
        return attrs.evolve(s, value=s.value + 1) if longer else s

    wrong = attrs.evolve(kernel, body=rewrite(kernel.body, moved))
    for one, passes in ((kernel, True), (wrong, False)):
        arrays = random_arrays(Interface.of(one), {})
        (output,) = made.computed.outputs
        expected = references(made, arrays, {})[output.name]
        simulate(one, arrays)
        assert compare(output.name, arrays[output.name], expected, output.dtype).passed == passes
