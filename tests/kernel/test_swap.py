"""Swapped products: the transpose of C is computed, and what the caller gives keeps its shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import Block, ColMajor, Matrix, Vector, add, f16, f32, matmul, relu, scale, symbol
from fireiron.jit.interface import Interface
from fireiron.verify.random_data import random_arrays

SIZE = (72, 40, 24)


def given(schedule: Any, **sizes: int) -> dict[str, tuple[int, ...]]:
    """List the shapes of the arrays that a call takes, by name in its order."""
    arrays = random_arrays(Interface.of(schedule.lowered()), sizes)
    return {name: array.shape for name, array in arrays.items()}


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_any_schedule_of_a_swapped_product_is_right(right: Callable[..., Any], chains: Any, layout: str) -> None:
    right(chains.plain(matmul(*SIZE, layout=layout).swap()))
    right(chains.plain(matmul(61, 45, 33, "f16", layout=layout).swap()))


def test_a_call_takes_the_callers_arrays_in_the_callers_order(chains: Any) -> None:
    m, n, k = SIZE
    bias = Vector(n, f32, name="bias")
    plain, swapped = (chains.plain(spec, add(bias)) for spec in (matmul(*SIZE), matmul(*SIZE).swap()))
    assert list(given(swapped).items()) == list(given(plain).items())
    assert given(swapped) == {"A": (m, k), "B": (k, n), "C": (m, n), "bias": (n,)}


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_tensors_of_ops_broadcast_over_the_callers_c(right: Callable[..., Any], chains: Any, layout: str) -> None:
    m, n, _ = SIZE
    row, column = Vector(n, f32, name="row"), Matrix(m, 1, f32, name="column")
    whole = Matrix(m, n, f16, name="whole")

    def wanted(product: Any, before: dict[str, Any]) -> Any:
        # `right` reads A, B and C as the swapped product names them.
        return (np.maximum(product.T + before["row"], 0) * before["column"] + before["whole"]).T

    right(chains.plain(matmul(*SIZE, layout=layout).swap(), add(row), relu, scale(column), add(whole)), expect=wanted)


def test_a_column_major_operand_of_an_op(right: Callable[..., Any], chains: Any) -> None:
    m, n, _ = SIZE
    whole = Matrix(m, n, f32, ColMajor, name="whole")
    schedule = chains.plain(matmul(*SIZE).swap(), add(whole))
    assert given(schedule)["whole"] == (n, m)
    right(schedule, expect=lambda product, before: (product.T + before["whole"].T).T)


@pytest.mark.parametrize("batch", [None, 2])
def test_alpha_and_beta(right: Callable[..., Any], chains: Any, batch: int | None) -> None:
    spec = matmul(*SIZE, alpha=2.0, beta="b", batch=batch).swap()
    chain = spec.tile(32, 32, batch=spec.batch).to(Block).epilog().split(8)
    right(chains.inner(chain), numbers={"b": 0.5})


def test_beta_beside_a_bias_of_any_size(right: Callable[..., Any], chains: Any) -> None:
    sizes = (symbol("M"), symbol("N"), symbol("K"))
    bias = Vector(sizes[1], f32, name="bias")
    schedule = chains.plain(matmul(*sizes, beta=1.0).swap(), add(bias))
    right(
        schedule,
        expect=lambda product, before: (product.T + before["C"] + before["bias"]).T,
        M=45, N=70, K=19,
    )  # fmt: skip


def test_swapping_twice_changes_nothing(chains: Any) -> None:
    spec = matmul(*SIZE, beta=1.0)
    bias = Vector(SIZE[1], f32, name="bias")
    once = chains.plain(spec, add(bias))
    assert chains.plain(spec.swap().swap(), add(bias)).lowered() == once.lowered()
