"""`done` of elementwise specs and programs: threads compute the points that they own, without an atom."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from fireiron.front.state import State


def done(chain: State, atom: object) -> None:
    """Refuse an atom as argument of `done`.

    Raises:
        DecompositionError: `wrong-spec`.
    """
    if atom is not None:
        raise chain._wrong("wrong-spec", f"{chain.residual.short} takes no atom: threads compute its points", "done()")
