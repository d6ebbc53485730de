"""The storage order of a product's operands, written as two letters (`TN`) or two words (`row,col`)."""

from __future__ import annotations

LAYOUTS = {"NN": "row,row", "TN": "row,col", "NT": "col,row", "TT": "col,col"}
"""The words for each pair of letters. First word: A's order; second word: B's. First letter: B's order; second: A's.
"""


def letters(layout: str) -> str:
    """Return the two letters of a layout.

    Args:
        layout: two letters, or two words. "row,col": A is a row-major array of M x K, and B a row-major array of N x K,
            that is, a column-major matrix K x N.

    Raises:
        ValueError: where the text is no such layout.

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
