"""Roles: names for the operands of whatever spec a chain has left."""

from __future__ import annotations

import attrs

from fireiron.language.tensor import Tensor


@attrs.frozen
class Role:
    """Name an operand of the residual spec."""

    name: str

    def __str__(self) -> str:
        return self.name


A = Role("A")
B = Role("B")
C = Role("C")
SRC = Role("src")
DST = Role("dst")


def role_name(operand: Role | Tensor | str) -> str:
    """Give the name by which a residual knows an operand."""
    return operand if isinstance(operand, str) else operand.name
