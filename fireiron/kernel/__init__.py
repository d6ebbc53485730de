"""The kernel's statement language, and the lowering of a finished tree into it."""
