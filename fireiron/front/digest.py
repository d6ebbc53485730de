"""The digest of a schedule, computed without lowering: schedules of one digest lower to one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.language.decompositions import Decomposition
from fireiron.language.specs import Task


def digest(program: Task, links: Sequence[Decomposition], name: str) -> str:
    """Digest all that lowering depends on.

    Functions count by their effect on the kernel: a permutation by its expression, a microkernel by its source, a
    strategy by the links that it made. The table of instructions is part of the digest, since a process may correct its
    rows.
    """
    from fireiron.atoms.table import content
    from fireiron.language.meaning import hashed, text

    return hashed(f"{name}\n{text(program)}\n{text(tuple(links))}\n{content()}")
