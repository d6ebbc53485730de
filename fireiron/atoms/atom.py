"""Re-export of the record for the files that import it from here."""

from fireiron.language.atom import Atom, Meaning, Operand

__all__ = ["Atom", "Meaning", "Operand"]
