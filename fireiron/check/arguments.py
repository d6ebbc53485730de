"""Arguments of links: values of the kind that a link takes, and not their names, or what was forgotten to be called."""

from __future__ import annotations

from numbers import Integral

from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.errors import DecompositionError
from fireiron.language.levels import Level, Memory
from fireiron.language.tensor import Grouped, Hilbert, Order, Tensor

# What a value should be: its types, how it is called, and what to write.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "a level": ((Level,), "Block, Warp, Thread or another of fireiron's levels, without quotes"),
    "a memory": ((Memory,), "SH, FR or RF, without quotes"),
    "an order": ((Order, Grouped, Hilbert, Layout), "RowMajor, ColMajor, Grouped(8), Hilbert() or a Layout"),
    "a storage": ((Order, Layout), "RowMajor, ColMajor or a Layout, without quotes"),
    "a swizzle": ((Swizzle,), "Swizzle(bits, base, shift), for example Swizzle(3, 3, 3)"),
    "a number": ((Integral,), "a whole number"),
    "a tensor": ((Tensor,), "the tensor itself, as an op reads it, without quotes"),
}


def kind(method: str, value: object, wanted: str) -> None:
    """Refuse a value of another kind than a link takes.

    Args:
        method: the link.
        value: what was given.
        wanted: a key of the kinds: `a level`.

    Raises:
        DecompositionError: `argument-kind`.
    """
    types, example = _KINDS[wanted]
    if not isinstance(value, types):
        raise DecompositionError(
            "argument-kind", f"{method} takes {wanted}, not {_shown(value)}", fix=f"give {example}"
        )


def order(method: str, value: object) -> None:
    """Refuse what is no order of tiles, groups of no rows, and squares that no Hilbert curve fills.

    Raises:
        DecompositionError: `argument-kind`, `tile-order`.
    """
    kind(method, value, "an order")
    if isinstance(value, Grouped) and value.rows < 1:
        raise DecompositionError("tile-order", f"{value} groups no rows of tiles", fix="use 1 or more, for example 8")
    if isinstance(value, Hilbert) and (value.side < 2 or value.side & (value.side - 1)):
        raise DecompositionError(
            "tile-order",
            f"no Hilbert curve fills a square of {value.side} x {value.side} tiles",
            fix=f"use a power of two: Hilbert({1 << max(1, value.side.bit_length() - 1)})",
        )


def strategy(value: object) -> None:
    """Refuse a strategy that is no function.

    Raises:
        DecompositionError: `argument-kind`.
    """
    if not callable(value):
        raise DecompositionError(
            "argument-kind",
            f"load takes a strategy, not {_shown(value)}",
            fix="give a function from a Move to a finished Move: vector(16), cp_async(16), or one of yours",
        )


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Level | Memory) else repr(value)
