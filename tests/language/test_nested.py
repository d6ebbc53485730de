"""Thread tensors: tiled, reshaped and indexed as Graphene writes them, as levels of a chain and in Moves by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import FR, RF, SH, A, B, Block, FireironError, Layout, Thread, Warp, Warpgroup, matmul, threads
from fireiron.algebra.expr import evaluate
from fireiron.language.nested import THREAD, elements, registers


def by_rows(src: Any, dst: Any, warp: Any) -> Any:
    """Graphene's figure 1d, for a matrix that is stored row by row: 16 x 16 to four registers of each lane."""
    groups = warp.tile(8).reshape(0, (2, 2))
    (gm, gn), lane = groups.indices()
    return src.tile(8, 8)[gm, gn].tile(1, 8)[lane, 0], dst.tile(1, 2), groups


def down_first(src: Any, dst: Any, warp: Any) -> Any:
    groups = warp.tile(8).reshape(0, (2, 2))
    (gn, gm), lane = groups.indices()
    return src.tile(8, 8)[gm, gn].tile(1, 8)[lane, 0], dst.tile(1, 2), groups


def columns(src: Any, dst: Any, warp: Any) -> Any:
    """As `by_rows`, of a B whose columns lie together."""
    groups = warp.tile(8).reshape(0, (2, 2))
    (gm, gn), lane = groups.indices()
    return src.tile(8, 8)[gn, gm].tile(8, 1)[0, lane], dst.tile(1, 2), groups


def product(of_a: Any, of_b: Any = columns) -> Any:
    s = (
        matmul(32, 32, 32, "f16", layout="TN")
        .tile(32, 32)
        .to(Block)
        .epilog(memory=FR)
        .split(32)
        .load(A, SH)
        .load(B, SH)
    )
    s = s.tile(16, 16).to(Warp).split(16).unroll().load(A, FR, fi.by_hand(of_a, held=(2, 4)))
    return s.load(B, FR, fi.by_hand(of_b, held=(2, 4))).tile(16, 8).unroll().done()


def test_the_address_of_the_example() -> None:
    """Thread t names the row 128 gm + 8 gn + 16 l elements behind the first, row by row."""
    groups = threads(Warp).tile(8).reshape(0, (2, 2))
    (gm, gn), lane = groups.indices()
    row = elements(16, 16).tile(8, 8)[gm, gn].tile(1, 8)[lane, 0]
    t = np.arange(32)
    at = np.asarray(evaluate(row.offset, {THREAD: t}))
    assert (at % 16 * 16 + at // 16 == 128 * (t // 16) + 8 * (t // 8 % 2) + 16 * (t % 8)).all()
    assert str(row) == "[1,8:0,16]"
    assert str(registers(2, 4).tile(1, 2)) == "[2,2:4,2].[1,2:0,1]"


def test_a_move_by_hand_is_ldmatrix(right: Callable[..., Any]) -> None:
    made = product(down_first)
    text = made.cuda("sm_80")
    assert text.count("    ldmatrix_x4(&") == 2
    assert "a_sh[warp_m * 512 + thread % 16 * 32 + k2 * 16 + thread / 16 % 2 * 8]" in text
    right(made)


def test_rows_that_no_instruction_takes_so_are_refused() -> None:
    with pytest.raises(FireironError, match="from thread 8, not that at") as caught:
        product(by_rows)
    assert caught.value.code == "no-atom"


def test_registers_of_other_rows_are_refused() -> None:
    def turned(src: Any, dst: Any, warp: Any) -> Any:
        row, _, groups = down_first(src, dst, warp)
        return row, dst.reshape(0, (4, 2)).tile(2, 1), groups

    with pytest.raises(FireironError, match="into other registers"):
        product(turned)


def test_an_epilog_stores_by_hand(right: Callable[..., Any]) -> None:
    def stored(src: Any, dst: Any, warp: Any) -> Any:
        groups = warp.tile(8).reshape(0, (2, 2))
        (gn, gm), lane = groups.indices()
        return src.tile(1, 2), dst.tile(8, 8)[gm, gn].tile(1, 8)[lane, 0], groups

    store = fi.through_shared(lambda m: fi.by_hand(stored, held=(2, 4))(m.tile(16, 16).to(Warp)), fi.vector())
    s = matmul(32, 32, 16, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR, store=store).split(16)
    made = s.load(A, SH).load(B, SH).tile(16, 16).to(Warp).load(A, FR).load(B, FR).tile(16, 8).unroll().done()
    assert "    stmatrix_x4(&" in made.cuda("sm_90")
    right(made)


@pytest.mark.parametrize(
    "units", [threads(Warp).tile(8).reshape(0, (2, 2)), threads(Warp).tile(Layout((4, 2), (1, 16))).reshape(0, (2, 2))]
)
def test_units_of_a_chain(right: Callable[..., Any], units: Any) -> None:
    chain = matmul(32, 32, 16).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
    chain = chain.tile(16, 16).to(Warp).tile(8, 8).to(units).tile(2, 4).to(Thread)
    made = chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    right(made)


def test_which_unit_has_which_tile() -> None:
    """A unit's coordinates in its tensor are its tile's."""
    units = threads(Warpgroup).tile(16).reshape(0, (2, 4))
    tall = threads(Warpgroup).tile(16).reshape(0, (4, 2))
    at = lambda tensor: [int(tensor.order()(i)) for i in range(8)]  # noqa: E731
    assert at(units) == [m + 2 * n for m in range(2) for n in range(4)]
    assert at(tall) == [m + 4 * n for m in range(4) for n in range(2)]
    assert threads(Warp).tile(8).order() is fi.RowMajor


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: threads(Block), "nested-threads"),
        (lambda: threads(Warp)[0], "nested-index"),
        (lambda: threads(Warp).tile(8)[0, 1], "nested-index"),
        (lambda: threads(Warp).reshape(1, (4, 8)), "nested-depth"),
        (lambda: threads(Warp).reshape(0, (4, 4)), "reshape-size"),
        (lambda: threads(Warp).tile(8)[0].indices(), "nested-threads"),
        (lambda: registers(2, 4).indices(), "nested-threads"),
    ],
)
def test_mistakes(wrong: Any, code: str) -> None:
    with pytest.raises(FireironError) as caught:
        wrong()
    assert caught.value.code == code
    assert caught.value.fix
