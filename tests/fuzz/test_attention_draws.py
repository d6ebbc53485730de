"""Drawn calls of attention: refused with a code, or right within bounds; and the judge itself."""

from __future__ import annotations

import secrets

import attrs
import pytest

from tests.fuzz import attention_draws
from tests.fuzz.attention_draws import Draw, checked, drawn, judged

DRAWS = 2


def test_calls_of_a_fresh_seed() -> None:
    seed = secrets.token_hex(4)
    print(f"python -m tests.fuzz.attention_draws --seed {seed}")
    found = {name: judged(name) for name in (f"{seed}/{n}" for n in range(DRAWS))}
    assert not [(name, drawn(name), what) for name, (kind, what) in found.items() if kind == "finding"]


PLAIN = Draw(
    "mma",
    (1, 2),
    (17, 40, 32, 32),
    "f16",
    True,
    "",
    "alibi",
    False,
    0.0,
    True,
    ((0, 1, 2),) * 3,
    "normal",
    {"warps": 1},
)


def test_a_wrong_reference_is_told() -> None:
    assert checked(PLAIN) == "right"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attention_draws.SCORES, "alibi", lambda s, h, i, j, slope: s - slope[h] * (i - j + 1) * 1.05)
        with pytest.raises(AssertionError, match=r"off by|sums"):
            checked(PLAIN)
    assert checked(attrs.evolve(PLAIN, dtype="e4m3", preset="volta")) == "attention-dtypes"
