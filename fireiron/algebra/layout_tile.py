"""Divisions, products and tilings of layouts, and the tensor notation of the Graphene paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fireiron.algebra.layout import Layout, col_major, product, row_major, tree_leaves, tree_text
from fireiron.algebra.layout_compose import as_layout, check_rank, complement, compose, concat, repetitions
from fireiron.base.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fireiron.algebra.layout import IndexTree
    from fireiron.algebra.layout_compose import Tiler


def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Split a layout into (inside a tile, over the tiles), mode by mode for a tuple.

    Args:
        layout: the layout to divide.
        tiler: the indices of the first tile: a layout, an int n for n:1, or a tuple of tilers for the modes.

    Raises:
        LayoutError: what `compose` and `complement` refuse.

    Example:
        >>> logical_divide(Layout((4, 8), (1, 4)), (2, Layout(2, 4)))
        Layout(((2,2),(2,4)):((1,2),(16,4)))
    """
    if isinstance(tiler, tuple):
        check_rank(layout, tiler)
        return concat(*map(logical_divide, layout.modes, tiler), *layout.modes[len(tiler) :])
    tile = as_layout(tiler)
    return compose(layout, concat(tile, complement(tile, layout.size)))


def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Divide, and group the tile modes as first mode and the rests as second mode.

    Raises:
        LayoutError: what `compose` and `complement` refuse.

    Example:
        >>> zipped_divide(Layout((4, 8), (1, 4)), (2, 4))
        Layout(((2,4),(2,2)):((1,4),(2,16)))
    """
    divided = logical_divide(layout, tiler)
    return _zip(divided, len(tiler)) if isinstance(tiler, tuple) else divided


def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Divide into a first mode for the tile, followed by one mode for each rest.

    Raises:
        LayoutError: what `compose` and `complement` refuse.
    """
    tile, rest = zipped_divide(layout, tiler).modes
    return concat(tile, *rest.modes)


def logical_product(layout: Layout, tiler: Tiler) -> Layout:
    """Repeat a layout as (inside a tile, over the repetitions); `tiler` places the repetitions at free offsets.

    Args:
        layout: the layout to repeat.
        tiler: the repetitions' layout, an int n for n:1, or a tuple for the modes.

    Raises:
        LayoutError: what `compose` and `repetitions` refuse.

    Example:
        >>> logical_product(Layout((2, 2), (4, 1)), Layout(6, 1))
        Layout(((2,2),(2,3)):((4,1),(2,8)))
    """
    if isinstance(tiler, tuple):
        check_rank(layout, tiler)
        return concat(*map(logical_product, layout.modes, tiler), *layout.modes[len(tiler) :])
    copies = as_layout(tiler)
    return concat(layout, compose(repetitions(layout, layout.size * copies.cosize), copies))


def zipped_product(layout: Layout, tiler: Tiler) -> Layout:
    """Multiply, and group the tile modes as first mode and the repetitions as second mode.

    Raises:
        LayoutError: what `compose` and `repetitions` refuse.
    """
    result = logical_product(layout, tiler)
    return _zip(result, len(tiler)) if isinstance(tiler, tuple) else result


def blocked_product(block: Layout, grid: Layout) -> Layout:
    """Repeat a block over a grid; in each dimension, indices count the elements of a block first, then the blocks.

    Raises:
        LayoutError: `tiler-rank`, and what `compose` and `repetitions` refuse.

    Example:
        >>> blocked_product(Layout((2, 2), (1, 2)), Layout((3, 4), (1, 3)))
        Layout(((2,3),(2,4)):((1,4),(2,12)))
    """
    return concat(*(concat(inside, over) for inside, over in _product_modes(block, grid)))


def raked_product(block: Layout, grid: Layout) -> Layout:
    """Repeat a block over a grid; in each dimension, indices count the blocks first, then the elements of a block.

    Raises:
        LayoutError: `tiler-rank`, and what `compose` and `repetitions` refuse.
    """
    return concat(*(concat(over, inside) for inside, over in _product_modes(block, grid)))


def tile_tensor(layout: Layout, tilers: Sequence[int | Layout | None]) -> tuple[Layout, Layout]:
    """Tile every dimension of a tensor; a dimension is a top-level mode.

    Args:
        layout: the tensor's dimensions and strides.
        tilers: for each dimension the layout of a tile's indices, n for n:1, or None for a whole dimension.

    Shapes:
        dims -> (outer: tiles of each dimension, inner: elements of a tile in each dimension)

    Raises:
        LayoutError: `tiler-rank` unless each dimension has a tiler, and what `compose` and `complement` refuse.

    Source:
        Graphene (ASPLOS 2023), section 3.

    Example:
        >>> outer, inner = tile_tensor(Layout((4, 8), (1, 4)), (Layout(2, 2), Layout((2, 2), (1, 4))))
        >>> bracket(outer), bracket(inner)
        ('[2,2:1,8]', '[2,(2,2):2,(4,16)]')
    """
    if len(tilers) != layout.rank:
        raise LayoutError(
            "tiler-rank",
            f"{len(tilers)} tilers are given for the {layout.rank} dimensions of the tensor {bracket(layout)}",
            fix="give one tiler for each dimension, None for a whole one",
        )
    outer: list[Layout] = []
    inner: list[Layout] = []
    for dim, tiler in zip(layout.modes, tilers, strict=True):
        if tiler is None:
            outer.append(Layout(1, 0))
            inner.append(dim)
        else:
            tile = as_layout(tiler)
            outer.append(compose(dim, complement(tile, dim.size)))
            inner.append(compose(dim, tile))
    if not isinstance(layout.shape, tuple):
        return outer[0], inner[0]
    return concat(*outer), concat(*inner)


def reshape(layout: Layout, shape: tuple[IndexTree, ...], order: Literal["row", "col"] = "row") -> Layout:
    """Number a tensor's elements in the given order of its dimensions, and arrange the numbers in a new shape.

    Args:
        layout: the tensor's dimensions and strides.
        shape: the new shape, of as many elements as before; inside a nested dimension the first extent is fastest.
        order: "row" counts the last dimension fastest on both sides, "col" the first.

    Raises:
        LayoutError: `reshape-size`, and what `compose` refuses.

    Example:
        >>> reshape(Layout(4, 8), (2, 2))
        Layout((2,2):(16,8))
    """
    size = product(tree_leaves(shape))
    if size != layout.size:
        raise LayoutError(
            "reshape-size",
            f"cannot reshape {layout} to {tree_text(shape)}: {layout.size} elements are not {size}",
            fix="give a shape with as many elements",
        )
    if order == "row":
        return compose(concat(*reversed(layout.modes)), row_major(*shape))
    return compose(layout, col_major(*shape))


def bracket(layout: Layout) -> str:
    """Write a layout as Graphene does, `[dims:strides]`.

    Example:
        >>> bracket(Layout((4, (2, 4)), (2, (1, 8))))
        '[4,(2,4):2,(1,8)]'
    """

    def dims(tree: IndexTree) -> str:
        return ",".join(map(tree_text, tree)) if isinstance(tree, tuple) else str(tree)

    return f"[{dims(layout.shape)}:{dims(layout.stride)}]"


def _zip(divided: Layout, count: int) -> Layout:
    pairs = divided.modes[:count]
    return concat(concat(*(pair[0] for pair in pairs)), concat(*(pair[1] for pair in pairs), *divided.modes[count:]))


def _product_modes(block: Layout, grid: Layout) -> list[tuple[Layout, Layout]]:
    """Multiply a block by a grid, and pair their modes."""
    check_rank(block, grid.modes)
    check_rank(grid, block.modes)
    inside, over = logical_product(block, grid).modes
    if not isinstance(block.shape, tuple) or not isinstance(grid.shape, tuple):
        return [(inside, over)]
    return list(zip(inside.modes, over.modes, strict=True))
