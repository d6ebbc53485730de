"""Groups of asynchronous instructions by name, and the CUDA functions that commit, await and fence them."""

from __future__ import annotations

from typing import Final

from fireiron.atoms import cp_async, peer, tma, wgmma
from fireiron.language.atom import Flight, Flying

FLIGHTS: Final[dict[str, Flight]] = {
    flight.name: flight for flight in (cp_async.FLIGHT, wgmma.FLIGHT, tma.STORES, tma.LOADS, peer.SENDS_FLIGHT)
}
HELPERS_OF_FLIGHTS: Final[dict[str, str]] = {name: text for x in FLIGHTS.values() for name, text in x.helpers}
# The fence function for each kind in an atom's `before`.
FENCES: Final[dict[str, str]] = dict((wgmma.FENCE,))


def flying(group: str) -> Flying | None:
    """Return the kind of instructions in a group; None for "", the name of no group.

    Example:
        >>> from fireiron.atoms.table import find
        >>> flying(find("cp.async.16B").completion), flying(find("fma.f32").completion)
        ('copies', None)
    """
    return FLIGHTS[group].kind if group else None
