"""How the arrays of a product are stored: two letters, or two words."""

from __future__ import annotations

LAYOUTS = {"NN": "row,row", "TN": "row,col", "NT": "col,row", "TT": "col,col"}
"""Words by letters. The words are A's order and B's; of the letters the second is A's and the first is B's."""


def letters(layout: str) -> str:
    """Give the two letters of a layout.

    Args:
        layout: letters, or words such as "row,col": A is row-major (`A[M, K]`) and B is column-major (`B[N, K]`).

    Raises:
        ValueError: where it is neither.

    Example:
        >>> letters("row,col"), letters("TN"), letters("col, row")
        ('TN', 'TN', 'NT')
    """
    words = layout.replace(" ", "")
    for name, said in LAYOUTS.items():
        if words in (name, said):
            return name
    raise ValueError(f"unknown layout {layout!r} of a product")


FIX = f"use {', '.join(LAYOUTS)}, or words for A,B: {'; '.join(LAYOUTS.values())}"
