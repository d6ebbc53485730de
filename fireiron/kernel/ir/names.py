"""Names of a kernel's variables: unique C identifiers."""

from __future__ import annotations

import re
from collections.abc import Collection

from fireiron.algebra.expr import Index, Var, simplest
from fireiron.kernel.ir.statements import CountIn, Draw, Fetch, For, If, Let, Region, Roles, Statement, Vote

Body = tuple[Statement, ...]
_OTHER = re.compile(r"\W")  # characters that identifiers cannot have


def unused(wanted: str, taken: set[str]) -> str:
    """Return a C identifier that differs from all names in `taken`, and add it to them.

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
        """Make a variable with a new name."""
        return Var(self.name(wanted), simplest(extent))

    def _add(self, body: Body) -> None:
        for s in body:
            match s:
                case Region(kind="fill"):  # another role executes it, in a separate C scope
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
