"""Index maps: indices of tensors that are expressions of several dims, such as `2 * p + r - 1`.

An index expression is affine in dims, with // and % by numbers: `2 * p + r - 1`, `h // 4`, a constant. A tile of the
dims reads a box of the tensor: from the smallest value of each expression to its largest, in steps of the values'
greatest common divisor. Each dimension of the box is a new dim (`p_r`), whose extent follows from the tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import attrs

from fireiron.algebra.expr import (
    Element,
    Expr,
    Index,
    Var,
    affine,
    and_,
    as_expr,
    free,
    ge,
    lt,
    operands,
    simplest,
    substitute,
)
from fireiron.base.errors import DecompositionError
from fireiron.language.steps import Program, Ref


def is_plain(ref: Ref, i: int) -> bool:
    """Say whether a single dim of the same extent indexes a dimension, and no other dimension of the tensor."""
    e = ref.index[i]
    return (
        isinstance(e, Var)
        and e.extent == as_expr(ref.shape[i])
        and all(e not in free(other) for j, other in enumerate(ref.index) if j != i)
    )


def maps_of(program: Program) -> dict[str, Expr]:
    """Map names to the index expressions of a program that are not a single dim: `p_r` to 2 * p + r - 1."""
    taken = {d.name for d in program.dims}
    found: dict[str, Expr] = {}
    for step in program.steps:
        for ref in (*step.reads, *step.outs):
            for i, e in enumerate(ref.index):
                if is_plain(ref, i) or e in found.values():
                    continue
                name = base = "_".join(sorted(d.name for d in free(e))) or "at"
                number = 2
                while name in taken or name in found:
                    name, number = f"{base}{number}", number + 1
                found[name] = e
    return found


def names_of(ref: Ref, maps: Mapping[str, Expr]) -> tuple[str, ...]:
    """List the names of the dims of a ref's box. Example: ("n", "p_r", "c") for x[n, 2 * p + r - 1, c]."""
    named = {e: name for name, e in maps.items()}
    return tuple(e.name if isinstance(e, Var) and is_plain(ref, i) else named[e] for i, e in enumerate(ref.index))


@attrs.frozen
class Box:
    """Hold the coordinates that a tile reads along one dimension: `start`, `start + step`, ..., `extent` of them."""

    start: Expr
    extent: Index
    step: int


def box(e: Expr, offsets: Mapping[str, Expr], sizes: Mapping[str, Index]) -> Box:
    """Return the smallest box that holds all values of an index expression in a tile.

    Args:
        e: an index expression over dims.
        offsets: where the tile starts along each dim.
        sizes: the tile's extents.

    Raises:
        DecompositionError: `map-box` where the box's extent depends on the tile's place.

    Example:
        >>> p, r = Var("p", 28), Var("r", 3)
        >>> box(2 * p + r - 1, {"p": as_expr(8), "r": as_expr(0)}, {"p": 4, "r": 3})
        Box(start=<15>, extent=9, step=1)
        >>> box(2 * p + r - 1, {"p": as_expr(8), "r": as_expr(1)}, {"p": 4, "r": 1})
        Box(start=<16>, extent=4, step=2)
    """
    dims = [d for d in free(e) if isinstance(d, Var) and d.name in offsets]
    first = substitute(e, {d: offsets[d.name] for d in dims})
    local = {d: Var(f"{d.name}'", sizes[d.name]) for d in dims if simplest(sizes[d.name]) != 1}
    moved = substitute(e, {d: offsets[d.name] + local[d] if d in local else offsets[d.name] for d in dims})
    away = moved - first
    low, high = away.range
    split = affine(away, list(local.values()))
    if gathers(away):
        raise DecompositionError(
            "map-box",
            f"a tile reads elements along {e} at places that an array of the call gives",
            fix=f"tile {' and '.join(sorted(v.name.rstrip(chr(39)) for v in local.values()))} by 1 above this place",
        )
    if split is not None and split[1] == as_expr(0) and all(isinstance(step, int) for step in split[0].values()):
        steps = {var: step for var, step in split[0].items() if isinstance(step, int)}
        common = gcd(*steps.values()) or 1
        extent = as_expr(1)
        for var, step in steps.items():
            assert var.extent is not None
            reach = (var.extent - 1) * abs(step)
            extent = extent + (var.extent - 1) * (abs(step) // common)
            first = first - reach if step < 0 else first
        return Box(first, simplest(extent), common)
    if not free(away) <= set(local.values()) or low is None or high is None:
        raise DecompositionError(
            "map-box",
            f"which elements a tile reads along {e} depends on where the tile lies",
            fix="tile the dim by a multiple of the number that it is divided by, or by 1; or load to SH, by points",
        )
    return Box(first + low, high - low + 1, 1)


def gathers(e: Expr) -> bool:
    """Say whether an index expression reads elements of an array of the call."""
    return bool(elements(e))


def elements(e: Expr) -> tuple[Element, ...]:
    """List the elements of arrays that an index expression reads; an element inside another one's index is left out."""
    return (e,) if isinstance(e, Element) else tuple(x for operand in operands(e) for x in elements(operand))


def box_extent(e: Expr, sizes: Mapping[str, Index | None]) -> Index | None:
    """Return the extent of the box that a tile reads along an index expression; None where an extent is not known."""
    try:
        found = box_of_tile(e, sizes)
    except DecompositionError:
        return None
    return None if found is None else found.extent


def reads_apart(e: Expr, sizes: Mapping[str, Index | None]) -> bool:
    """Say whether a tile reads elements along an index that form no box; False where the index reads an array.

    Example:
        >>> m = Var("m", 784)
        >>> reads_apart(m // 28, {"m": 64}), reads_apart(m // 28, {"m": 56})
        (True, False)
    """
    known = all(sizes.get(d.name) is not None for d in free(e) if isinstance(d, Var))
    return known and not gathers(e) and box_extent(e, sizes) is None


def moving(e: Expr, sizes: Mapping[str, Index | None]) -> tuple[str, ...]:
    """List the dims that change an index expression inside a tile (extent above 1).

    Example:
        >>> p, r = Var("p", 28), Var("r", 3)
        >>> moving(2 * p + r - 1, {"p": 4, "r": 1})
        ('p',)
    """
    whole = box_extent(e, sizes)
    dims = [d.name for d in free(e) if isinstance(d, Var) and sizes.get(d.name) != 1]
    return tuple(d for d in sorted(dims) if whole is None or box_extent(e, {**sizes, d: 1}) != whole)


def box_of_tile(e: Expr, sizes: Mapping[str, Index | None]) -> Box | None:
    """Return the box of any tile that starts at multiples of its extents; None where an extent is not known.

    Raises:
        DecompositionError: `map-box`.
    """
    known: dict[str, Index] = {}
    offsets: dict[str, Expr] = {}
    for d in free(e):
        if not isinstance(d, Var):
            continue
        size = sizes.get(d.name)
        if size is None:
            return None
        known[d.name] = size
        offsets[d.name] = as_expr(0) if as_expr(size) == d.extent else Var(f"tile of {d.name}") * size
    return box(e, offsets, known)


def inside(ref: Ref) -> Expr:
    """Return the condition that a ref's indices lie inside its tensor; comparisons that extents prove are left out."""
    return and_(*(and_(ge(e, 0), lt(e, extent)) for e, extent in zip(ref.index, ref.shape, strict=True)))
