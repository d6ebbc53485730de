"""Describe links in a few words, for paths in errors and trees."""

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
    """Describe a link in a few words. Example: `tile 64x64 to Block`."""
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
