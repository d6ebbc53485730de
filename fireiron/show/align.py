"""Align the links of two chains: find the partner of each link."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.language.decompositions import Decomposition, Epilog, Load, Split, Tile, Widest

Pair = tuple[Decomposition | None, Decomposition | None]

# Changing a link in its place costs less than dropping it and adding another; changing its place too costs more.
SAME, CHANGED, MOVED, ALONE = 0, 2, 5, 3


def align(a: Sequence[Decomposition], b: Sequence[Decomposition]) -> tuple[Pair, ...]:
    """Pair the links of two chains in order, with as few differences as possible; None for a link without partner.

    Only links of the same kind are paired.

    Example:
        >>> from fireiron.language.decompositions import Split
        >>> [(a and a.size, b and b.size) for a, b in align((Split(8), Split(1)), (Split(4),))]
        [(8, 4), (1, None)]
    """
    best: dict[tuple[int, int], tuple[int, tuple[Pair, ...]]] = {(len(a), len(b)): (0, ())}
    for i in range(len(a), -1, -1):
        for j in range(len(b), -1, -1):
            choices: list[tuple[int, tuple[Pair, ...]]] = []
            if i < len(a) and j < len(b) and place(a[i])[0] == place(b[j])[0]:
                cost, rest = best[i + 1, j + 1]
                choices.append((cost + _cost(a[i], b[j]), ((a[i], b[j]), *rest)))
            if i < len(a):
                cost, rest = best[i + 1, j]
                choices.append((cost + ALONE, ((a[i], None), *rest)))
            if j < len(b):
                cost, rest = best[i, j + 1]
                choices.append((cost + ALONE, ((None, b[j]), *rest)))
            if choices:
                best[i, j] = min(choices, key=lambda choice: choice[0])
    return best[0, 0][1]


def _cost(a: Decomposition, b: Decomposition) -> int:
    if a == b:
        return SAME
    return CHANGED if place(a) == place(b) else MOVED


def place(link: Decomposition) -> tuple[str, ...]:
    """Return the facts by which links are paired: kind, level, operand and memory, without numbers."""
    kind = type(link).__name__
    match link:
        case Tile(sizes=Widest()):
            return ("Vectors", str(link.level or ""))
        case Tile():
            return (kind, str(link.level or ""))
        case Split(level=level):
            return (kind, str(level or ""))
        case Load(role, memory):
            return (kind, role, str(memory))
        case Epilog():
            return (kind, str(link.memory))
        case _:
            return (kind,)
