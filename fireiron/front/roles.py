"""Roles: names for the operands of the spec that a chain has left (A, B, SRC)."""

from __future__ import annotations

import attrs

from fireiron.base.contract import checked_fields
from fireiron.base.errors import FireironError
from fireiron.language.decompositions import Decomposition, Done, Microkernel
from fireiron.language.tensor import Tensor


@attrs.frozen(repr=False, field_transformer=checked_fields)
class Role:
    """Name an operand of the spec that a chain has left."""

    name: str

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


A = Role("A")
B = Role("B")
C = Role("C")
SRC = Role("src")
DST = Role("dst")


def role_name(operand: Role | Tensor | str) -> str:
    """Return the name of an operand, given as a role, a tensor or a name."""
    return operand if isinstance(operand, str) else operand.name


def in_registers(links: tuple[Decomposition, ...]) -> bool:
    """Say whether a Move passes through registers: its last instruction is one of threads."""
    from fireiron.atoms.table import chosen_from

    last = links[-1]
    assert isinstance(last, Done)
    if isinstance(last.atom, Microkernel):
        return False
    if last.atom is None:
        return True
    try:
        return not chosen_from(last.atom)[0].completion
    except FireironError as error:
        raise error.located(last.link) from None
