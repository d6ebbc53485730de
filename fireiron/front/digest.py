"""The structural digest of a schedule: equal for schedules that lower to one kernel, computed without lowering."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Symbol, Var, as_expr, free
from fireiron.language.decompositions import Decomposition, Done, Each, Epilog, Load, Microkernel, Prolog, Tile, every
from fireiron.language.specs import Task, tensors_of


def digest(program: Task, links: Sequence[Decomposition], name: str) -> str:
    """Digest what lowering depends on.

    Functions take part by what they mean to the kernel: a permutation by its expression, a microkernel by its source; a
    strategy has left only the links that it made.
    """
    text = f"{name}\n{program!r}\n{_symbols(program, links)}\n{_words(links)}"
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def _symbols(program: Task, links: Sequence[Decomposition]) -> list[tuple[str, int, int, int]]:
    """List what is known of each size: a symbol prints as its name alone, and its multiple decides vector widths."""
    tensors = [*tensors_of(program.spec)]
    tensors += [t for link in every(links) if isinstance(link, Epilog) for t in link.tensors]
    tensors += [t for link in every(links) if isinstance(link, Prolog) for t in link.value.tensors]
    found = {
        leaf
        for tensor in tensors
        for extent in (*tensor.shape, *tensor.strides)
        for leaf in free(as_expr(extent))
        if isinstance(leaf, Symbol)
    }
    return sorted((s.name, s.multiple_of, s.minimum, s.maximum) for s in found)


def _words(links: Sequence[Decomposition]) -> str:
    return "\n".join(_word(link) for link in links)


def _word(link: Decomposition) -> str:
    match link:
        case Tile(permute=permute) if permute is not None:
            return f"{attrs.evolve(link, permute=None)!r} permuted {permute(Var('id', None))}"
        case Load(move=move):
            return f"{attrs.evolve(link, move=())!r} [{_words(move)}]"
        case Epilog(store=store, outputs=outputs):
            beside = "".join(f" {attrs.evolve(o, store=())!r} [{_words(o.store)}]" for o in outputs)
            return f"{attrs.evolve(link, store=(), outputs=())!r} [{_words(store)}]{beside}"
        case Each(chains, store, prefetch=prefetch):
            inner = "".join(f" [{_words(chain)}]" for chain in (*chains, store))
            return f"Each{inner}{' prefetch' if prefetch else ''}"
        case Done(Microkernel(source, _, name)):
            return f"Done {name} {source!r}"
        case _:
            return repr(link)
