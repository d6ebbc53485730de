"""Gradients of biases: against gradients in f64, for biases that broadcast along any dims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import attention_arrays as gradients

GROUPED = {"q": "b h g i d", "dy": "b h g i e", "lse": "b h g i", "delta": "b h g i"}
SIZES = {"b": 2, "h": 2, "i": 40, "j": 36}


def spec_of(sizes: dict[str, int], columns: int, at: Any, group: int = 1, dtype: str = "f16", **options: Any) -> Any:
    """Build the gradient of a bias that is read at a place, by heads of which `group` share keys."""
    b, h, i, j = (sizes[name] for name in "bhij")
    lead = (b, h) if group == 1 else (b, h, group)
    shapes = (*lead, i, columns), (b, h, j, columns), (b, h, j, columns), (*lead, i, columns)
    bias = fi.tensor(*(sizes.get(x, 2) * (group if x == "h" else 1) for x in at))

    def score(s: Any, b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
        known = {"b": b, "h": h, "i": i, "j": j}
        return s + bias[tuple(known.get(x, x) for x in at)] * (j - i) * 0.1

    given = (fi.tensor(*shape, dtype=dtype) for shape in shapes), (fi.tensor(*lead, i) for _ in range(2))
    options |= {"array": "bias", "at": at, "score": score, "bias": bias, "out": "f32"}
    return gradients.of_array.on(**GROUPED if group > 1 else {})(*(x for row in given for x in row), **options)


def check(schedule: Any, dtype: str, at: Any, group: int, causal: bool, columns: int = 16) -> None:
    """Simulate a gradient, and compare it with one in f64."""
    b, h, i, j = SIZES.values()
    rng, kind = np.random.default_rng(0), np.dtype(dtype.replace("f", "float"))
    shapes = (b, h, group, i, columns), (b, h, j, columns), (b, h, j, columns), (b, h, group, i, columns)
    q, k, v, dy = (rng.normal(size=shape).astype(kind) for shape in shapes)
    bias = rng.normal(size=[SIZES.get(x, 2) * (group if x == "h" else 1) for x in at]).astype(np.float32)
    places = dict(zip("bhij", np.ix_(*map(np.arange, (b, h * group, i, j))), strict=True))
    away = (places["j"] - places["i"]) * 0.1
    added = np.broadcast_to(bias[tuple(places.get(x, x) for x in at)] * away, (b, h * group, i, j))
    scores = np.einsum("bhgid,bhjd->bhgij", q, k, dtype=float) * columns**-0.5 + added.reshape(b, h, group, i, j)
    seen = places["j"] <= places["i"] + j - i if causal else np.True_
    scores = np.where(np.broadcast_to(seen, (b, h * group, i, j)).reshape(scores.shape), scores, -np.inf)
    with np.errstate(divide="ignore"):
        lse = np.log(np.exp(scores).sum(-1))
    p = np.exp(scores - np.where(np.isinf(lse), 0, lse)[..., None])
    delta = (np.einsum("bhgij,bhje->bhgie", p, v) * dy).sum(-1)
    ds = p * (np.einsum("bhgie,bhje->bhgij", dy, v, dtype=float) - delta[..., None])
    want = (ds.reshape(b, h * group, i, j) * away).sum(tuple(n for n, name in enumerate("bhij") if name not in at))
    lead = (b, h) if group == 1 else (b, h, group)
    rows = [x.reshape(*lead, i, *x.shape[4:]).astype(x.dtype if x.dtype == kind else "f4") for x in (q, dy, lse, delta)]
    made = schedule.simulate(rows[0], k, v, *rows[1:], bias).out
    np.testing.assert_allclose(made.reshape(want.shape), want, rtol=1e-3, atol=1e-4 * abs(want).max())


@pytest.mark.parametrize(
    ("preset", "at", "group", "causal"),
    [
        ("mma", ("b", "h", "i", "j"), 1, True),
        ("mma", ("h", "i", "j"), 2, False),
        ("mma", ("b", 0, 0, "j"), 1, True),
        ("mma", ("h", "i"), 1, False),
        ("mma", ("h",), 2, True),
        ("squares", ("j", "i", 1), 1, False),
        ("squares", (1,), 1, True),
    ],
)
def test_gradients(preset: str, at: Any, group: int, causal: bool) -> None:
    """A bias has some dims of scores, in any order; blocks that share queries meet in order."""
    dtype = "f16" if preset == "mma" else "f32"
    spec = spec_of(SIZES, 16, at, group, dtype, causal=causal)
    check(getattr(gradients, preset)(spec), dtype, at, group, causal)


def test_golden(golden: Any) -> None:
    """Of a bias that batches share: a tile of it for each block, which loops over batches and adds up in registers."""
    spec = spec_of({"b": 4, "h": 8, "i": 512, "j": 512}, 64, ("h", "i", "j"), dtype="bf16")
    golden(gradients.mma(spec).cuda("sm_80"), "schedules/attention_of_array_mma.cu")


@pytest.mark.parametrize("at", [("b", "h", "i", "j"), (0, "h", "i", "j"), ("b", 0, 0, "j")])
def test_compiled(at: Any) -> None:
    """No spills, also of wide heads under a mask."""
    spec = spec_of({"b": 2, "h": 4, "i": 2048, "j": 2048}, 128, at, dtype="bf16", causal=True)
    assert not gradients.mma(spec).compile("sm_90a").resources.spills
