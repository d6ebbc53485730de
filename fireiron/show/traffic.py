"""Traffic: the bytes that a link moves in a block, and how often each element is then read."""

from __future__ import annotations

from fractions import Fraction

import attrs

from fireiron.algebra.expr import Index, as_expr, simplest
from fireiron.language.decompositions import Done, Epilog, Load, Microkernel, Split, Tile
from fireiron.language.levels import Block, Memory
from fireiron.language.residual import Operand, Residual
from fireiron.show.steps import Step, product
from fireiron.show.words import amount


@attrs.frozen
class Traffic:
    """Hold the bytes that one link moves; partial tiles count as whole ones.

    Args:
        memory: memory from which a load reads, or to which an epilog stores.
        each: bytes that one unit's Move moves.
        total: bytes of all units together, in the `scope`.
        scope: `block`, or `kernel` for a link above the tile to Block.
        stores: whether the link is an epilog, which stores.
        reads: how often each element is read from the buffer; None if not known yet.
    """

    memory: Memory
    each: Index
    total: Index
    scope: str
    stores: bool = False
    reads: Fraction | None = None

    def __str__(self) -> str:
        word = "to" if self.stores else "from"
        some = "" if self.each == self.total else f"{amount(self.each)} at a time, "
        return f"{some}{amount(self.total)} a {self.scope} {word} {self.memory}"


def traffic(chain: tuple[Step, ...], index: int) -> Traffic | None:
    """Return the bytes that a load or an epilog's store moves; None for other links.

    Args:
        chain: all steps of the schedule.
        index: number of the step.
    """
    step = chain[index]
    match step.link:
        case Load(role):
            operand = step.before.operand(role)
        case Epilog():
            operand = step.before.playing("C")[0]
        case _:
            return None
    if operand is None:  # a step's own result, which threads put there
        return None
    each = simplest(as_expr(_elements(step.before, operand)) * operand.dtype.bits // 8)
    blocks = [i for i, s in enumerate(chain[:index]) if _to_blocks(s)]
    above = chain[blocks[-1] + 1 : index] if blocks else chain[:index]
    total = product((each, *(s.trips for s in above)))
    stores = isinstance(step.link, Epilog)
    reads = None if stores else _reads(chain, index, operand)
    return Traffic(operand.memory, each, total, "block" if blocks else "kernel", stores, reads)


def _to_blocks(step: Step) -> bool:
    """Say whether a link distributes its parts among blocks."""
    match step.link:
        case Tile():
            return step.after.level.name == Block.name
        case Split(level=level):
            return level == Block
        case _:
            return False


def _elements(residual: Residual, operand: Operand) -> Index:
    return product(tuple(residual.extents[dim] for dim in operand.dims))


def _reads(chain: tuple[Step, ...], index: int, operand: Operand) -> Fraction | None:
    """Return how many elements the rest of the chain reads from a load's buffer, per element of the buffer."""
    if operand.role == "src":
        return Fraction(1)
    later = chain[index + 1 :]
    for i, step in enumerate(later):
        match step.link:
            case Load(role) if role == operand.role:
                taken = _elements(step.before, operand)
            case Done(Microkernel()):
                # A microkernel's source is its own matter; the least it can do is one read a multiply-add.
                taken = product(tuple(extent for _, extent in step.before.sizes))
            case Done():
                taken = _elements(step.before, operand)
            case _:
                continue
        filled = _elements(chain[index].before, operand)
        total = product((taken, *(s.trips for s in later[:i])))
        return Fraction(total, filled) if isinstance(total, int) and isinstance(filled, int) else None
    return None
