"""The storage order of a product's operands, written as two letters (`TN`) or two words (`row,col`)."""

from __future__ import annotations

LAYOUTS = {"NN": "row,row", "TN": "row,col", "NT": "col,row", "TT": "col,col"}
"""Words by letters. The first word is A's order, the second B's; the first letter is B's, the second A's."""


def letters(layout: str) -> str:
    """Return the two letters of a layout.

    Args:
        layout: two letters, or two words. "row,col": A is a row-major array of M x K, and B a row-major array of N x K,
            that is, a column-major matrix K x N.

    Raises:
        ValueError: where the text is neither.

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
