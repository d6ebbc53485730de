"""Chunks of a split: the cut of each dim, the number of trips of the loop, and the chunk of each trip."""

from __future__ import annotations

from collections.abc import Mapping

from fireiron.algebra.expr import Expr, Index, as_expr
from fireiron.kernel.lower.window import Cut, cut, cut_chunk
from fireiron.language.decompositions import Split


def parts_of(link: Split, extents: Mapping[str, Index | None]) -> dict[str, Cut]:
    """Return the cut of each dim of a split, the slowest first."""
    extent = extents[link.dim]
    assert extent is not None
    parts = {link.dim: cut_chunk(link.size, extent, link.ways)}
    for dim, size in link.further:
        whole = extents[dim]
        assert whole is not None
        parts[dim] = cut(size, whole)
    return parts


def trips_of(parts: Mapping[str, Cut]) -> Expr:
    """Count the tiles, or chunks, of all dims together."""
    total = as_expr(1)
    for part in parts.values():
        total = total * part.trips
    return total


def numbers_of(parts: Mapping[str, Cut], number: Expr) -> dict[str, Expr]:
    """Return the chunk of each dim in a trip of the loop, the last dim fastest."""
    found: dict[str, Expr] = {}
    weight = as_expr(1)
    first, *_ = parts
    for dim, part in reversed(list(parts.items())):
        digit = number // weight
        found[dim] = digit if dim == first else digit % part.trips
        weight = weight * part.trips
    return found
