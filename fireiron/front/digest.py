"""The structural digest of a schedule: equal for schedules that lower to one kernel, computed without lowering."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.language.decompositions import Decomposition
from fireiron.language.specs import Task


def digest(program: Task, links: Sequence[Decomposition], name: str) -> str:
    """Digest what lowering depends on.

    Functions take part by what they mean to the kernel: a permutation by its expression, a microkernel by its source; a
    strategy has left only the links that it made. So do the instructions' rows, which a process may correct.
    """
    from fireiron.atoms.table import content
    from fireiron.language.meaning import hashed, text

    return hashed(f"{name}\n{text(program)}\n{text(tuple(links))}\n{content()}")
