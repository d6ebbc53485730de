"""Names that an author chooses: nothing that lowering makes takes them."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import RF, SH, A, B, Block, Thread, Warp, add, matmul, symbol
from fireiron.language.tensor import Vector
from fireiron.schedules import simt

MADE = ("acc", "sum", "a_sh", "k", "i", "way", "tile", "last", "partial", "arrived", "warp", "lane_m")


def finished(spec: Any, *ops: Any) -> Any:
    return (
        spec.tile(32, 32).to(Block).epilog(*ops, memory=RF).split(ways=2).parallel(Block)
        .split(16).load(A, SH).load(B, SH).split(8).parallel(Warp).tile(8, 4).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_tensors(right: Any, name: str) -> None:
    right(finished(matmul(40, 64, 64), add(Vector(64, name=name))), lambda p, x: p + x[name])


@pytest.mark.parametrize("name", MADE)
def test_scalars(right: Any, name: str) -> None:
    right(finished(matmul(40, 64, 64, alpha=name)), numbers={name: 2.0})


def test_sizes(right: Any) -> None:
    for names in (("m", "n", "k"), ("way", "tile", "last"), ("acc", "a_sh", "lane")):
        sizes = dict(zip(names, (33, 40, 50), strict=True))
        right(finished(matmul(*map(symbol, names))), **sizes)
        right(simt.sgemm(matmul(*map(symbol, names))), **sizes)


def test_equal_chains_keep_their_own_names() -> None:
    def other(spec: Any) -> Any:
        return (
            spec.tile(32, 32).to(Block).epilog(memory=RF).split(ways=2).parallel(Block)
            .split(16).load(A, SH).load(B, SH).split(8).parallel(Warp).tile(8, 4).to(Thread)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip

    mine, others = finished(matmul(40, 64, 64)), other(matmul(40, 64, 64))
    assert mine == others
    assert mine.lowered().name.startswith("finished_32x32")
    assert others.lowered().name.startswith("other_32x32")
