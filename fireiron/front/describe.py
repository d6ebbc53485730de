"""Links in a few words, for paths and errors."""

from __future__ import annotations

from fireiron.language.decompositions import (
    Decomposition,
    Done,
    Each,
    EachStep,
    Epilog,
    Load,
    Own,
    Prolog,
    Results,
    Split,
    Tile,
    Widest,
)


def describe(link: Decomposition) -> str:
    """Give a link in a few words, as trees and errors name it."""
    match link:
        case Tile():
            sizes = (
                f"widest {link.sizes}" if isinstance(link.sizes, Widest) else "x".join(str(n) for _, n in link.sizes)
            )
            return f"tile {sizes}" + (f" to {link.level}" if link.level else "")
        case Split():
            return link.words
        case Load():
            return link.words
        case Own(level):
            return f"own {level}"
        case Done(None):
            return "done"
        case Done(atom):
            return f"done {atom if isinstance(atom, str) or atom is None else atom.name}"
        case Prolog():
            return f"prolog {link.role}"
        case Each(chains):
            return "each layer" if len(chains) == 1 else f"each of {len(chains)} layers"
        case EachStep(chains):
            return f"each {', '.join(chain.name for chain in chains)}"
        case Epilog(memory=memory) | Results(memory=memory):
            return f"epilog {memory}"
