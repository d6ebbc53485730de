"""What networks put around the scores of attention, as its programs take it."""

from __future__ import annotations

from typing import Any

import fireiron as fi

AROUND = ("nothing", "causal", "window", "documents", "lengths", "soft-cap", "slopes", "bias", "dropout")


def around(name: str, heads: int, length: int) -> dict[str, Any]:
    """Give the keywords for one sequence of some heads."""
    known: dict[str, dict[str, Any]] = {
        "nothing": {},
        "causal": {"causal": True},
        "window": {"mask": lambda i, j: (i - j < 512) & (j - i < 512)},
        "documents": {
            "mask": lambda b, i, j, documents: fi.equal(documents[b, i], documents[b, j]),
            "documents": fi.tensor(1, length, dtype="i32", name="documents"),
        },
        "lengths": {"mask": lambda b, j, lengths: j < lengths[b], "lengths": fi.tensor(1, dtype="i32", name="lengths")},
        "soft-cap": {"score": lambda s: 20.0 * fi.tanh(s / 20.0), "causal": True},
        "slopes": {"score": lambda s, h, i, j, slope: s - slope[h] * (i - j), "slope": fi.tensor(heads, name="slope")},
        "bias": {
            "score": lambda s, b, h, i, j, bias: s + bias[b, h, i, j],
            "bias": fi.tensor(1, heads, length, length, dtype="f32", name="bias"),
        },
        "dropout": {"dropout": 0.1, "seed": fi.tensor(3, dtype="i32", name="seed"), "causal": True},
    }
    return known[name]
