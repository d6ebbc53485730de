"""A strategy instead of a permutation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import (
    RF,
    Block,
    FireironError,
    Thread,
    conform,
    cp_async,
    ldmatrix,
    matmul,
    movmatrix,
    staged,
    stmatrix,
    through_shared,
    vector,
    wmma,
)


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).tile(4, 4).to(Thread).permute(vector()).done()


def test_strategy_as_permutation(refused: Callable[..., Any]) -> None:
    refused(
        lambda: wrong().cuda(),
        "argument-kind",
        "permute(vector())",
        """\
SpecError[argument-kind]: the strategy of vector() takes a Move, not id
  --> test_strategy_as_permutation.py:29:94
29 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).tile(4, 4).to(Thread).permute(vector()).done()
   |                                                                                              ^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog
fix: give it to load() or to epilog(store=)""",  # noqa: E501
    )


@pytest.mark.parametrize("make", [conform, cp_async, ldmatrix, movmatrix, staged, stmatrix, through_shared, wmma])
def test_every_strategy_wants_a_move(make: Callable[[], Any]) -> None:
    with pytest.raises(FireironError) as caught:
        make()(matmul(64, 64, 64))
    assert caught.value.code == "argument-kind"
    assert f"the strategy of {make.__name__}() takes a Move" in caught.value.message
