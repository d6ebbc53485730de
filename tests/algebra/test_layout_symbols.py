"""Layouts whose outer extents and strides are symbols."""

from __future__ import annotations

import numpy as np

from fireiron.algebra.index.nodes import Const, Symbol, Var
from fireiron.algebra.layout import Layout, col_major, row_major
from fireiron.algebra.layout_ops import coalesce, complement, compose, equal_functions, tile_tensor, zipped_divide

M, N = Symbol("M"), Symbol("N")
i, j = Var("i", M), Var("j", N)


def test_strides_sizes_and_text() -> None:
    layout = row_major(M, N, 8)
    assert layout.stride == (N * 8, 8, 1)
    assert layout.size == M * N * 8
    assert str(row_major(M, 64)) == "(M,64):(64,1)"
    assert row_major(M, 64).cosize == (M - 1) * 64 + 64
    assert not layout.is_static
    assert row_major(M, 64) == Layout((M, 64), (64, 1))


def test_offsets_are_expressions() -> None:
    assert row_major(M, N)(i, j) == i * N + j
    assert row_major(M, 64)(i, 3) == i * 64 + 3
    assert col_major(4, M)(7) == 7
    assert Layout((4, M), (0, 0))(i) == Const(0)


def test_digits_of_an_expression() -> None:
    lane = Var("lane", 32)
    assert Layout((4, 8), (2, 16))(lane) == lane % 4 * 2 + lane // 4 * 16
    assert Layout((1, 32, 1), (5, 3, 7))(lane) == lane * 3
    # The last digit needs no remainder: a wider variable runs on along the last mode.
    assert Layout((4, 8), (1, 4))(Var("x", 64)) == Var("x", 64)


def test_a_symbolic_dimension_is_tiled() -> None:
    outer, inner = tile_tensor(row_major(M, 256), (128, 64))
    assert str(inner) == "(128,64):(256,1)"
    assert outer.shape == ((M + 127) // 128, 4)
    assert outer.stride == (128 * 256, 64)
    assert zipped_divide(row_major(M, 256), (128, 64)).modes == (inner, outer)


def test_a_known_multiple_is_divided_exactly() -> None:
    rows = Symbol("rows", multiple_of=128)
    outer, _ = tile_tensor(row_major(rows, 8), (128, 8))
    assert outer.shape == (rows // 128, 1)


def test_strides_may_be_symbols_where_extents_are_ints() -> None:
    outer, inner = tile_tensor(Layout((128, 64), (N, 1)), (Layout((8, 2), (1, 64)), 32))
    assert inner == Layout(((8, 2), 32), ((N, 64 * N), 1))
    assert outer == Layout((8, 2), (8 * N, 32))


def test_composition_reaches_an_outer_symbol() -> None:
    assert compose(Layout((8, M), (1, 100)), Layout(16, 1)) == Layout((8, 2), (1, 100))
    assert complement(Layout(32, 1), M) == Layout((M + 31) // 32, 32)


def test_equality_is_by_structure() -> None:
    assert coalesce(col_major(M, N, 4)) == Layout(M * N * 4, 1)
    assert equal_functions(Layout((M, 2), (1, M)), Layout(2 * M, 1))
    assert not equal_functions(Layout((M, 2), (1, N)), Layout(2 * M, 1))


def test_constant_expressions_become_ints() -> None:
    layout = Layout((Const(4), M - M + 8), (Const(1), 4))
    assert layout == Layout((4, 8), (1, 4))
    assert layout.is_static
    assert layout.size == 32
    assert layout(np.arange(32)).tolist() == list(range(32))
