"""Checks of links' arguments: orders of tiles, and numbers of units."""

from __future__ import annotations

from fireiron.base.errors import DecompositionError
from fireiron.language.residual import Residual
from fireiron.language.tensor import Grouped, Hilbert, TileOrder


def units(most: int | None, resident: int | tuple[int, int]) -> tuple[int, int]:
    """Raise an error for a number of units below 1.

    Returns:
        The least and the largest number of blocks that an SM should hold; 0 for no such number.

    Raises:
        DecompositionError: `level-units`.
    """
    if most is not None and most < 1:
        raise DecompositionError(
            "level-units",
            f"units={most} leaves no unit to take the tiles",
            fix="use units=1 or more, or drop units=",
        )
    least, largest = resident if isinstance(resident, tuple) else (resident, 0)
    if least < 0 or (isinstance(resident, tuple) and largest < max(1, least)):
        raise DecompositionError(
            "level-units",
            f"resident={resident} is no number of blocks" + (", nor a range of it" if largest else ""),
            fix="use 1 or more, or 0 for no limit; or the least and the largest number: resident=(1, 8)",
        )
    return least, largest


def order(value: TileOrder, residual: Residual) -> None:
    """Raise an error for orders with groups of no rows, squares that no Hilbert curve fills, or tiles without columns.

    Raises:
        DecompositionError: `tile-order`.
    """
    if isinstance(value, Grouped) and value.rows < 1:
        raise DecompositionError("tile-order", f"{value} groups no rows of tiles", fix="use 1 or more, for example 8")
    if isinstance(value, Hilbert) and (value.side < 2 or value.side & (value.side - 1)):
        raise DecompositionError(
            "tile-order",
            f"no Hilbert curve fills a square of {value.side} x {value.side} tiles",
            fix=f"use a power of two: Hilbert({1 << max(1, value.side.bit_length() - 1)})",
        )
    if isinstance(value, Grouped | Hilbert) and (residual.kind == "Layers" or len(residual.sizes) < 2):
        raise DecompositionError(
            "tile-order",
            f"{value} orders tiles by rows and columns, and tiles of {residual.short} are rows alone",
            fix="drop layout(...): tiles of rows alone are taken in order",
        )
