"""Bulk additions: blocks that share a tile of C each add their sum to C by a bulk reduction, not a store."""

from __future__ import annotations

import attrs

from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Parameter, Scalar
from fireiron.atoms.flights import flying
from fireiron.atoms.table import chosen_from, like
from fireiron.base.errors import DecompositionError
from fireiron.kernel.lower.window import Partial, Window
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
    tensor, dtype = output.storage.tensor, output.storage.dtype
    own = None if link.outputs else _without(link.value, output)
    *above, last = link.store
    if own is None or tensor is None:
        raise _refused(
            partial,
            "each block adds its own sum to C, and the epilog makes something else than alpha * A @ B + C of the whole",
            "write matmul(..., beta=1) and an epilog without ops, or drop reduce=by_tma()",
        )
    stores = chosen_from(last.atom) if isinstance(last, Done) and isinstance(last.atom, str | Atom) else ()
    adds = like(stores[0], adding=True) if stores and flying(stores[0].completion) == "stores" else None
    if adds is None:
        raise _refused(
            partial, "C is not stored in bulk", "store by through_shared(..., tma()), or drop reduce=by_tma()"
        )
    if dtype not in adds.adding:
        added = ", ".join(map(str, adds.adding))
        raise _refused(partial, f"bulk stores do not add {dtype}", f"make C {added}, or drop reduce=by_tma()")
    return own, (*above, attrs.evolve(last, atom=adds.name))


def _refused(partial: Partial, fact: str, fix: str) -> DecompositionError:
    return DecompositionError("parallel-reduce", f"by_tma(): {fact}", fix=fix, link=partial.link, path=partial.path)


def _without(value: Value, output: Window) -> Value | None:
    """Remove `+ C` from a value; None unless the value is C plus the scaled accumulator."""
    match value.tree:
        case Binary("add", scaled, Arg(1) | Cast(Arg(1))) if _scaled(scaled):
            same = len(value.tensors) == 1 and value.tensors[0].name == output.storage.name
            return Value(scaled) if same else None
        case _:
            return None


def _scaled(tree: Scalar) -> bool:
    match tree:
        case Arg(0) | Binary("mul", Arg(0), Constant() | Parameter()):
            return True
        case _:
            return False
