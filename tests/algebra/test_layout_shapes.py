"""Laws of arithmetic on shapes, at every coordinate of small ones."""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

import pytest

from fireiron.algebra.layout import Layout, col_major, product, tree_leaves
from fireiron.algebra.layout_ops import compose, equal_functions, inner_product, shape_div
from fireiron.base.errors import LayoutError

SHAPES: tuple[Any, ...] = (12, (4, 6), (2, 3, 4), (4, (2, 3)), ((2, 2), (3, 2)), (1, 6, 2))


def coordinates(shape: Any) -> list[Any]:
    """List the natural coordinates of a shape."""
    if isinstance(shape, tuple):
        return [tuple(c) for c in combinations(*map(coordinates, shape))]
    return list(range(shape))


def divides(shape: Any, divisor: int) -> bool:
    """Say whether a divisor ends at a mode's end, or inside one that it divides."""
    for extent in tree_leaves(shape):
        if extent % divisor and divisor % extent:
            return False
        divisor = max(1, divisor // extent)
    return True


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_layout_is_the_inner_product_of_coordinate_and_strides(shape: Any) -> None:
    layout = Layout(shape, 1) if not isinstance(shape, tuple) else col_major(*shape)
    for coordinate in coordinates(shape):
        assert inner_product(coordinate, layout.stride) == layout(coordinate)


PAIRS = [(shape, divisor) for shape in SHAPES for divisor in (1, 2, 3, 4, 6, 8, 12, 24) if divides(shape, divisor)]


def test_most_pairs_divide() -> None:
    assert len(PAIRS) == 34


@pytest.mark.parametrize(("shape", "divisor"), PAIRS, ids=str)
def test_a_divided_shape_holds_every_so_manieth_element(shape: Any, divisor: int) -> None:
    """Where all modes divide, its layout is the composition with that stride."""
    whole = Layout(shape, 1) if not isinstance(shape, tuple) else col_major(*shape)
    left = shape_div(shape, divisor)
    size = product(tree_leaves(left))
    assert size == max(1, whole.size // divisor)
    if whole.size % divisor == 0:
        assert equal_functions(compose(whole, Layout(size, divisor)), Layout(size, divisor))


def test_tuples_divide_mode_by_mode() -> None:
    assert shape_div((6, 8), (3, 2)) == (2, 4)
    assert shape_div((12, (4, 6)), (4, (2, 3))) == (3, (2, 2))
    assert shape_div(24, (2, 3)) == 4
    assert shape_div((2, 2, 6), 4) == (1, 1, 6)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: shape_div(6, 4), "shape-division"),
        (lambda: shape_div((3, 4), 2), "shape-division"),
        (lambda: shape_div((2, 2), (2, 2, 2)), "not-congruent"),
        (lambda: inner_product((1, 2), (1, (2, 3))), "not-congruent"),
        (lambda: inner_product(2, (1, 2)), "not-congruent"),
    ],
)
def test_refusals(call: Any, code: str) -> None:
    with pytest.raises(LayoutError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.fix
