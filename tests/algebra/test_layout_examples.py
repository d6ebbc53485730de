"""Layouts that papers and instruction manuals print: Graphene's tilings and the tensor cores' fragments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fireiron.algebra.layout import Layout, col_major, row_major
from fireiron.algebra.layout_ops import bracket, is_compact, reshape, tile_tensor
from fireiron.base.errors import LayoutError

EACH = Layout(4, 1)


@pytest.mark.parametrize(
    ("tilers", "outer", "inner"),
    [
        ((Layout(2, 1), EACH), "[2,2:2,16]", "[2,4:1,4]"),
        ((Layout(2, 2), EACH), "[2,2:1,16]", "[2,4:2,4]"),
        ((Layout(2, 2), Layout((2, 2), (1, 4))), "[2,2:1,8]", "[2,(2,2):2,(4,16)]"),
        ((None, 2), "[1,4:0,8]", "[4,2:1,4]"),
    ],
)
def test_graphene_tiles_a_column_major_4x8(tilers: tuple[Layout, ...], outer: str, inner: str) -> None:
    tensor = col_major(4, 8)
    assert bracket(tensor) == "[4,8:1,4]"
    assert tuple(map(bracket, tile_tensor(tensor, tilers))) == (outer, inner)


def test_graphene_counts_dimensions_not_leaves() -> None:
    layout = Layout((4, (2, 4)), (2, (1, 8)))
    assert (layout.rank, layout.depth, bracket(layout)) == (2, 2, "[4,(2,4):2,(1,8)]")
    # Two columns lie side by side, then the next row.
    assert [layout(0, j) for j in range(8)] == [0, 1, 8, 9, 16, 17, 24, 25]
    assert [layout(i, 0) for i in range(4)] == [0, 2, 4, 6]


def test_graphene_ldmatrix_threads() -> None:
    outer, inner = tile_tensor(Layout(32, 1), (Layout(8, 1),))
    assert (bracket(outer), bracket(inner)) == ("[4:8]", "[8:1]")
    assert bracket(reshape(outer, (2, 2))) == "[2,2:16,8]"
    assert bracket(reshape(outer, (2, 2), order="col")) == "[2,2:8,16]"


def test_graphene_quad_pairs() -> None:
    quad_pair = Layout((4, 2), (1, 16))
    assert tile_tensor(Layout(32, 1), (quad_pair,)) == (Layout(4, 4), quad_pair)
    outer, inner = tile_tensor(Layout((32,), (1,)), (quad_pair,))
    assert (bracket(outer), bracket(inner)) == ("[4:4]", "[(4,2):(1,16)]")
    lanes = [[4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3, *range(16 + 4 * q, 20 + 4 * q)] for q in range(4)]
    assert [[outer(q) + inner(i) for i in range(8)] for q in range(4)] == lanes


@pytest.mark.parametrize("shape", [(6, 4), (24,), (2, 3, 4), (4, 6)])
def test_reshape_agrees_with_numpy(shape: tuple[int, ...]) -> None:
    source = Layout((4, 6), (1, 4))
    elements = np.array([[source(i, j) for j in range(6)] for i in range(4)])
    for order, numpy_order in (("row", "C"), ("col", "F")):
        try:
            new = reshape(source, shape, order=order)
        except LayoutError as error:
            assert (order, error.code) == ("row", "composition-undefined")  # noqa: PT017
            continue
        expected = elements.reshape(shape, order=numpy_order)
        assert all(new(*place) == expected[place] for place in np.ndindex(*shape))


def test_reshape_of_a_nested_shape_counts_inside_a_dimension_first_mode_first() -> None:
    assert str(reshape(row_major(8, 4), ((2, 4), 4))) == "((2,4),4):((4,8),1)"


def test_majors() -> None:
    assert str(row_major(128, 8)) == "(128,8):(8,1)"
    assert str(col_major(128, 8)) == "(128,8):(1,128)"
    assert str(row_major(2, (4, 8))) == "(2,(4,8)):(32,(1,4))"
    assert (row_major(), row_major(5)) == (Layout((), ()), Layout((5,), (1,)))
    assert Layout((), ())(0) == 0
    assert Layout.parse("():()").size == 1


Place = Callable[[int, int], tuple[int, int]]


# Each row: layout of (thread, register), extent of the first dimension, the manual's (first, second) coordinate.
# Threads are lanes, except for the quad-pair's 8, whose lane is its (4,2):(1,16).
FRAGMENTS: dict[str, tuple[str, int, Place]] = {
    "m8n8k4 A row (m, k)": ("(8,4):(1,8)", 8, lambda t, i: (t % 4 + 4 * (t // 4), i)),
    "m8n8k4 A col (m, k)": ("((4,2),4):((8,4),1)", 8, lambda t, i: (i + 4 * (t // 4), t % 4)),
    "m8n8k4 C f16 (m, n)": ("(8,8):(1,8)", 8, lambda t, i: (t % 4 + 4 * (t // 4), i)),
    "m8n8k4 C f32 (m, n)": (
        "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))",
        8,
        lambda t, i: ((t & 1) + (i & 2) + 4 * (t // 4), (i & 4) + (t & 2) + (i & 1)),
    ),
    "m16n8k8 f16 A (m, k)": (
        "((4,8),(2,2)):((32,1),(16,8))",
        16,
        lambda t, i: (t // 4 + 8 * (i // 2), 2 * (t % 4) + (i & 1)),
    ),
    "m16n8k16 A (m, k)": (
        "((4,8),(2,2,2)):((32,1),(16,8,128))",
        16,
        lambda t, i: (t // 4 + 8 * (i // 2 % 2), 2 * (t % 4) + (i & 1) + 8 * (i // 4)),
    ),
    "m16n8k16 B (k, n)": (
        "((4,8),(2,2)):((2,16),(1,8))",
        16,
        lambda t, i: (2 * (t % 4) + (i & 1) + 8 * (i // 2), t // 4),
    ),
    "m16n8 C (m, n)": (
        "((4,8),(2,2)):((32,1),(16,8))",
        16,
        lambda t, i: (t // 4 + 8 * (i >= 2), 2 * (t % 4) + (i & 1)),
    ),
    "m16n8k8 tf32 A (m, k)": (
        "((4,8),(2,2)):((16,1),(8,64))",
        16,
        lambda t, i: (t // 4 + 8 * (i & 1), t % 4 + 4 * (i // 2)),
    ),
    "m16n8k32 8-bit A (m, k)": (
        "((4,8),(4,2,2)):((64,1),(16,8,256))",
        16,
        lambda t, i: (t // 4 + 8 * (i // 4 % 2), 4 * (t % 4) + (i & 3) + 16 * (i // 8)),
    ),
    "m16n8k32 8-bit B (k, n)": (
        "((4,8),(4,2)):((4,32),(1,16))",
        32,
        lambda t, i: (4 * (t % 4) + (i & 3) + 16 * (i // 4), t // 4),
    ),
    "wgmma m64n256 D (m, n)": (
        "((4,8,4),(2,2,32)):((128,1,16),(64,8,512))",
        64,
        lambda t, i: (
            16 * (t // 32) + t % 32 // 4 + 8 * (i >> 1 & 1),
            8 * (i >> 2) + 2 * (t % 4) + (i & 1),
        ),
    ),
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragments_are_what_the_manuals_print(name: str) -> None:
    text, rows, place = FRAGMENTS[name]
    layout = Layout.parse(text)
    threads, registers = (mode.size for mode in layout.modes)
    for t in range(threads):
        for i in range(registers):
            first, second = place(t, i)
            assert layout(t, i) == first + rows * second
    assert is_compact(layout)
