"""The methods that may come next in a chain, for tab completion and for the fix of an unknown method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fireiron.language.decompositions import Decomposition, Epilog

if TYPE_CHECKING:
    from fireiron.language.residual import Residual

DECOMPOSE = ("tile", "split", "load", "allocate", "prolog", "epilog", "vectors", "own", "done")
REFINES = {
    "to": "tile", "layout": "tile", "permute": "tile", "unroll": "tile and split", "pipeline": "split",
    "parallel": "split", "promote": "split", "online": "split", "skew": "split", "order": "split",
    "pad": "load",
    "swizzle": "load", "storage_layout": "load", "reuse_buffer": "load", "no_sync": "load",
    "persistent": "tile", "dependent": "tile", "staggered": "tile", "specialize": "split",
}  # fmt: skip
LINKS = frozenset({*DECOMPOSE, "each", "then", "swap"})  # links that a finished chain refuses
# What completion leaves out: a chain's own data, and verbs that need a finished schedule.
_DATA = {
    "links",
    "program",
    "where",
    "matmul",
    "batch",
    "lowered",
    "flops",
    "left",
    "right",
    "steps",
    "products",
    "layers",
    "computed",
    "function",
    "weights",
    "sizes",
    "residual",
}
_FINISHED = {"compile", "cuda", "estimate", "simulate", "time"}


def offered(names: Iterable[str], residual: Residual, links: tuple[Decomposition, ...]) -> list[str]:
    """Keep the methods that can come next: a closed chain has no decompositions, an unfinished one cannot run."""
    kept = set(names) - _DATA
    kept -= {*DECOMPOSE, *REFINES} if residual.closed else _FINISHED
    if links:
        kept.discard("swap")
    if any(isinstance(link, Epilog) for link in links):
        kept -= {"epilog", "then"}
    if residual.kind == "MatMul" and residual.extents.get("K") == 1:
        kept.discard("split")
    return sorted(kept)


def instead(wrong: str, methods: list[str]) -> str:
    """Write the fix for an unknown method: the method with the closest name, and the links that may come next."""
    import difflib

    meant = difflib.get_close_matches(wrong, methods, 1)
    links = [m for m in methods if m in DECOMPOSE or m in REFINES]
    may = f"next may come: {', '.join(links)}" if links else "no link follows done()"
    return f"write {meant[0]}; {may}" if meant else may
