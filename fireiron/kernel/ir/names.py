"""Names of a kernel's variables: C identifiers, no two of which are equal."""

from __future__ import annotations

import re
from collections.abc import Collection

from fireiron.algebra.expr import Index, Var, simplest
from fireiron.kernel.ir.statements import CountIn, Draw, Fetch, For, If, Let, Region, Roles, Statement, Vote

Body = tuple[Statement, ...]
_OTHER = re.compile(r"\W")  # what no identifier holds


def unused(wanted: str, taken: set[str]) -> str:
    """Make a C identifier that no other name of the kernel equals, and add it to those that are taken.

    Example:
        >>> unused("k", {"k", "k2"})
        'k3'
    """
    wanted = _OTHER.sub("_", wanted)
    found, i = wanted, 2
    while found in taken:
        found, i = f"{wanted}{i}", i + 1
    taken.add(found)
    return found


class Names:
    """Name the variables that a pass makes.

    Args:
        taken: names of the kernel.
        body: the statements that the pass gets; the variables that they set are taken too.
    """

    def __init__(self, taken: Collection[str], body: Body) -> None:
        """Collect the names that are taken."""
        self._taken = {*taken}
        self._add(body)

    def name(self, wanted: str) -> str:
        """Make a name."""
        return unused(wanted, self._taken)

    def variable(self, wanted: str, extent: Index) -> Var:
        """Make a variable with a name of its own."""
        return Var(self.name(wanted), simplest(extent))

    def _add(self, body: Body) -> None:
        for s in body:
            match s:
                case Region(kind="fill"):  # another role executes it: a scope of its own
                    pass
                case For(var=var, body=inner):
                    self._taken.add(var.name)
                    self._add(inner)
                case If(body=inner) | Region(body=inner):
                    self._add(inner)
                case Roles(roles=roles):
                    for role in roles:
                        self._add(role.body)
                case Let(var=var) | Fetch(var=var) | Vote(var=var) | Draw(var=var) | CountIn(var=var):
                    self._taken.add(var.name)
                case _:
                    pass
