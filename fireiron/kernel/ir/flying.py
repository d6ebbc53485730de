"""Asynchronous statements: the kind of instructions that a statement starts."""

from __future__ import annotations

from fireiron.atoms.flights import flying
from fireiron.kernel.ir.statements import Call, Statement
from fireiron.language.atom import Flying


def starts(statement: Statement, kind: Flying) -> bool:
    """Say whether a statement starts asynchronous instructions of a kind, which may run while later statements do."""
    return isinstance(statement, Call) and flying(statement.atom.completion) == kind
