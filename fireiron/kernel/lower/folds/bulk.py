"""Bulk additions: blocks that share a tile of an output each add their sum to it by a bulk reduction, not a store.

A product has beta=1; a program computes `before + sum`, and its output replaces `before`.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Var
from fireiron.algebra.scalar import Arg, Binary, Cast
from fireiron.atoms.flights import flying
from fireiron.atoms.table import chosen_from, like
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.lower.window import Partial, Window
from fireiron.language.added import scaled_sum
from fireiron.language.atom import Atom
from fireiron.language.decompositions import Decomposition, Done, Epilog
from fireiron.language.pointwise import Value


def added_in_bulk(link: Epilog, output: Window, partial: Partial) -> tuple[Value, tuple[Decomposition, ...]]:
    """Return the value that each block adds to C, and the links of the Move that adds it.

    Args:
        link: the epilog, whose value is the accumulator, perhaps scaled, plus C.
        output: C.
        partial: the units that add.

    Raises:
        DecompositionError: `parallel-reduce`.
    """
    own = None if link.outputs else _without(link.value, output)
    if own is None or output.storage.tensor is None:
        raise _refused(
            partial,
            "each block adds its own sum to C, and the epilog makes something else than alpha * A @ B + C of the whole",
            "write matmul(..., beta=1) and an epilog without ops, or drop reduce=by_tma()",
        )
    return own, adding_store(link.store, output.storage.dtype, "C", partial)


def adding_store(
    store: tuple[Decomposition, ...], dtype: DType, name: str, place: Partial | Shares
) -> tuple[Decomposition, ...]:
    """Return the links of a storing Move, changed so that it adds instead.

    Args:
        store: the links of the Move that stores.
        dtype: element type of the output.
        name: name of the output.
        place: the units that add.

    Raises:
        DecompositionError: `parallel-reduce` where no bulk copy stores, or none adds elements of this type.
    """
    *above, last = store
    stores = chosen_from(last.atom) if isinstance(last, Done) and isinstance(last.atom, str | Atom) else ()
    adds = like(stores[0], adding=True) if stores and flying(stores[0].completion) == "stores" else None
    if adds is None:
        raise _refused(
            place, f"{name} is not stored in bulk", "store by through_shared(..., tma()), or drop reduce=by_tma()"
        )
    if dtype not in adds.adding:
        added = ", ".join(map(str, adds.adding))
        raise _refused(place, f"bulk stores do not add {dtype}", f"make {name} {added}, or drop reduce=by_tma()")
    return (*above, attrs.evolve(last, atom=adds.name))


@attrs.frozen(eq=False)
class Shares:
    """Hold the outputs of a program to which each block of the grid adds its part of a fold.

    Args:
        dim: the dim of which each block has a chunk.
        first: the first block's values of the block's coordinates, by variable.
        outputs: the outputs by name.
        path: the split's place in the tree.
        link: the split.
    """

    dim: str
    first: Mapping[Var, Expr]
    outputs: frozenset[str]
    path: str
    link: Link | None


def _refused(place: Partial | Shares, fact: str, fix: str) -> DecompositionError:
    return DecompositionError("parallel-reduce", f"by_tma(): {fact}", fix=fix, link=place.link, path=place.path)


def _without(value: Value, output: Window) -> Value | None:
    """Remove `+ C` from a value; None unless the value is C plus the scaled accumulator."""
    match value.tree:
        case Binary("add", scaled, Arg(1) | Cast(Arg(1))) if scaled_sum(scaled, {0}):
            same = len(value.tensors) == 1 and value.tensors[0].name == output.storage.name
            return Value(scaled) if same else None
        case _:
            return None
