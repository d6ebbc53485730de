"""Permutations of the units that take tiles: each tile is taken by exactly one unit."""

from __future__ import annotations

from collections.abc import Callable

from fireiron.algebra.expr import Expr, Index, Var, as_expr, evaluate
from fireiron.base.contract import asked
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.language.decompositions import Tile


def permuted(link: Tile, unit: Expr, count: Index) -> Expr:
    """Permute unit ids as the link says.

    Raises:
        DecompositionError: `not-a-permutation` where two units would take the same tile, or the function returns no
            index.
    """
    if link.permute is None:
        return unit
    if isinstance(count, int):
        var = Var("id", count)
        check_permutation(_image(link.permute, var), var, count, "permute")
    return _image(link.permute, unit)


def _image(permute: Callable[[Expr], object], unit: Expr) -> Expr:
    """Apply the author's function to a unit's id."""
    try:
        found = asked(permute, unit, said="permute")
    except FireironError as error:
        error.link = None  # the link of permute, which the walk over links fills in
        raise
    if not isinstance(found, Expr | int):
        raise DecompositionError(
            "not-a-permutation",
            f"permute gives {found!r} for a unit's id, which is no index",
            fix="return an expression of the id: lambda i: (i >> 1) | ((i & 1) << 3)",
        )
    return as_expr(found)


def check_permutation(image: Expr, var: Var, count: int, what: str) -> None:
    """Check that an expression of a unit's id maps the ids one to one onto themselves.

    Raises:
        DecompositionError: `not-a-permutation`.
    """
    import numpy as np

    found = np.broadcast_to(np.asarray(evaluate(image, {var.name: np.arange(count)})), (count,))
    if not np.array_equal(np.sort(found), np.arange(count)):
        wrong = next((i for i in range(count) if not 0 <= found[i] < count or found[i] in found[:i]), 0)
        twin = next((i for i in range(wrong) if found[i] == found[wrong]), None)
        which = f"{wrong} to {int(found[wrong])}" if twin is None else f"both {twin} and {wrong} to {int(found[wrong])}"
        raise DecompositionError(
            "not-a-permutation",
            f"{what} sends {which}: it does not permute the ids of {count} units",
            fix=f"map 0..{count - 1} one to one onto 0..{count - 1}",
        )
