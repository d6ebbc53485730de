"""Epilogs compute, convert and store what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import (
    ColMajor,
    Matrix,
    RowMajor,
    Vector,
    add,
    matmul,
    maximum,
    minimum,
    relu,
    scale,
    symbol,
    tanh,
    through_shared,
    vector,
)
from fireiron.front.moves import conform

Right = Callable[..., Any]
SIZES = ((64, 64, 16), (45, 37, 19))


@pytest.mark.parametrize("size", SIZES)
def test_ops(right: Right, chains: Any, size: tuple[int, int, int]) -> None:
    m, n, _ = size
    bias, rows = Vector(n, name="bias"), Vector(m, name="rows", along=ColMajor)
    other = Matrix(m, n, order=ColMajor, name="other")
    right(chains.plain(matmul(*size), relu), lambda p, x: np.maximum(p, 0))
    right(chains.plain(matmul(*size), scale(0.5), add(bias), relu), lambda p, x: np.maximum(p / 2 + x["bias"], 0))
    right(chains.plain(matmul(*size), add(rows)), lambda p, x: p + x["rows"].T)
    right(chains.plain(matmul(*size), add(other)), lambda p, x: p + x["other"].T)
    right(chains.plain(matmul(*size), lambda x: 1 - x / 2), lambda p, x: 1 - p / 2)
    right(chains.plain(matmul(*size), lambda x: minimum(maximum(-x, -1), 1)), lambda p, x: np.clip(-p, -1, 1))
    right(chains.plain(matmul(*size), tanh, scale(2.0)), lambda p, x: 2 * np.tanh(p), slack=2.0)
    right(chains.plain(matmul(*size), lambda x: x * bias + bias), lambda p, x: p * x["bias"] + x["bias"], slack=8.0)


@pytest.mark.parametrize("size", SIZES)
def test_alpha_and_beta(right: Right, chains: Any, size: tuple[int, int, int]) -> None:
    right(chains.plain(matmul(*size, alpha=2.0)))
    right(chains.plain(matmul(*size, alpha=-0.5, beta=1.0)))
    right(chains.plain(matmul(*size, beta=3.0)))
    right(chains.plain(matmul(*size, alpha="alpha", beta="beta")), numbers={"alpha": 1.5, "beta": -0.25})
    right(chains.plain(matmul(*size, "f16", alpha="alpha", beta=2.0)), numbers={"alpha": 1.5})
    right(chains.plain(matmul(*size, "i8", alpha=3, beta=2)))


def test_init(right: Right, chains: Any) -> None:
    right(chains.plain(matmul(45, 37, 19), init=4.0), lambda p, x: p + 4)
    right(chains.plain(matmul(45, 37, 19, "i8"), init=4), lambda p, x: p + 4)


@pytest.mark.product
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("dtype", "out"), [("f32", "f16"), ("f16", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("i8", "i32")]
)
def test_output_conversion(right: Right, chains: Any, size: tuple[int, int, int], dtype: str, out: str) -> None:
    for store in (conform(), through_shared(), through_shared(panel=(16, 32), pad=4, reuse=True)):
        right(chains.plain(matmul(*size, dtype, out=out), store=store))


@pytest.mark.product
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("panel", [None, (16, 32), (32, 16), (8, 8)])
@pytest.mark.parametrize("order", [None, RowMajor, ColMajor])
def test_store_through_shared(
    right: Right, chains: Any, size: tuple[int, int, int], reuse: bool, panel: Any, order: Any
) -> None:
    right(chains.plain(matmul(*size), store=through_shared(panel=panel, order=order, reuse=reuse)))
    right(
        chains.plain(matmul(*size), store=through_shared(take=vector(4), panel=panel, pad=3, order=order, reuse=reuse))
    )


def test_reused_buffers_cost_nothing(chains: Any) -> None:
    sizes = [
        chains.plain(matmul(64, 64, 16), store=through_shared(reuse=r)).lowered().shared_nbytes for r in (False, True)
    ]
    assert sizes == [2048 + 4096, 4096]


def test_ops_read_in_bounds_where_lanes_idle(right: Right) -> None:
    """16 of 32 lanes have a tile; what the others would read of a bias lies outside of it."""
    from fireiron import RF, SH, A, B, Block, Thread, Warp

    bias = Matrix(45, 37, name="bias")
    right(
        matmul(45, 37, 19).tile(32, 32).to(Block).epilog(add(bias), memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(16, 16).to(Warp).tile(4, 4).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done(),
        lambda p, x: p + x["bias"],
    )  # fmt: skip


def test_symbols_in_an_epilog(right: Right, chains: Any) -> None:
    m, n = symbol("M"), symbol("N", multiple_of=4)
    schedule = chains.plain(matmul(m, n, 20), add(Vector(n, name="bias")), store=through_shared())
    right(schedule, lambda p, x: p + x["bias"], M=45, N=40)
