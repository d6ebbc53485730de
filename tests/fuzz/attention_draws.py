"""Draw calls of attention's presets, simulate them with races looked for, and compare them with f64.

    python -m tests.fuzz.attention_draws --seconds 60 [--seed S] [--only N]

A draw is a preset and its plan, head dims, lengths, element type, mask, score function, heads that share keys, sinks,
dropout, orders of dims in memory, and data. The exit status is 1 where a result is wrong, a race is found, or a preset
raises an error without a code.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import attrs
import ml_dtypes
import numpy as np

import fireiron as fi
from fireiron.base.errors import FireironError
from fireiron.schedules import attention as forward
from fireiron.schedules import attention_gradients as gradients

NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "i32": np.int32,
}  # fmt: skip
EPSILON = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-22, "e4m3": 2.0**-4, "e5m2": 2.0**-3}
LEAST = {"f16": 2.0**-25, "bf16": 0.0, "f32": 0.0, "e4m3": 2.0**-18, "e5m2": 2.0**-25}  # half the least, of a weight
DIMS = (32, 40, 48, 64, 72, 80, 96, 112, 128, 144, 160, 192, 224, 256)
PRESETS = ("simt", "mma", "mma", "volta", "wgmma", "wgmma", "wgmma", "decode", "decode", "gradient", "gradient")
MASKS: dict[str, Callable[..., Any]] = {
    "causal": lambda i, j: j <= i,
    "window": lambda i, j: (j <= i) & (i - j < 20),
    "prefix": lambda i, j: (j <= i) | (j < 9),
    "documents": lambda b, i, j, rows, columns: fi.equal(rows[b, i], columns[b, j]),
    "padding": lambda b, j, ends: j < ends[b],
    "strides": lambda i, j: fi.equal((i + j) % 3, 0),
    "behind": lambda i, j: j >= i,
    "nothing": lambda j: j < 0,
}
SCORES: dict[str, Callable[..., Any]] = {
    "soft cap": lambda s: 5.0 * fi.tanh(s / 5.0),
    "alibi": lambda s, h, i, j, slope: s - slope[h] * (i - j),
    "bias": lambda s, b, h, i, j, bias: s + bias[b, h, i, j],
    "bias of keys": lambda s, j, bias_of_keys: s + bias_of_keys[0, j],
    "relative": lambda s, h, i, j, table: s + table[h, fi.minimum(fi.maximum(i - j, -8), 8) + 8],
    # The table has a place for each distance, so that reads beside the points that exist have none.
    "distance": lambda s, h, i, j, table: s + table[h, i - j + (fi.extent("j") - 1)],
}
SEED = (5, -3, 7)


@attrs.frozen
class Draw:
    """Describe one drawn call."""

    preset: str
    lead: tuple[int, ...]
    sizes: tuple[int, int, int, int]  # queries, keys, columns of keys and of values
    dtype: str
    causal: bool
    mask: str
    score: str
    sinks: bool
    dropout: float
    lse: bool
    orders: tuple[tuple[int, ...], ...]
    data: str
    plan: Mapping[str, Any]
    wide: int = 0  # of values that are columns of keys


def drawn(name: str) -> Draw:
    """Draw a call."""
    rng = random.Random(name)
    preset = rng.choice(PRESETS)
    dims = DIMS[: 8 if preset == "simt" else len(DIMS)]
    depth = rng.choice(dims)
    width = depth if rng.random() < 0.6 else rng.choice(dims)
    few = preset == "decode"
    queries = rng.choice((1, 1, 2, 3, 7)) if few else rng.choice((1, 17, 33, 64, 65, 100, 129, 150))
    keys = rng.choice((1, 31, 63, 64, 65, 90, 128, 130, 200, 256) if not few else (1, 60, 128, 250, 300))
    if preset in ("simt", "gradient"):
        queries, keys = min(queries, 70), min(keys, 90)
    lead = (rng.choice((1, 2)), rng.choice((1, 2))) if preset == "simt" or queries * keys < 9000 else (1, 1)
    group = rng.choice((1, 1, 2, 3) if not few else (1, 2, 4, 5))
    lead = (*lead, group) if group > 1 else lead
    kinds = {"simt": ("f32", "f16", "bf16"), "volta": ("f16",), "gradient": ("f16", "bf16")}
    kinds = kinds.get(preset, ("f16", "bf16", "bf16", "e4m3", "e5m2"))
    dtype = rng.choice(kinds)
    if dtype in ("e4m3", "e5m2"):
        depth, width = (max(32, n // 32 * 32) for n in (depth, width))
        keys = max(16, keys // 16 * 16) if preset == "wgmma" else keys
    mask = rng.choice(("", "", *MASKS))
    score = rng.choice(("", "", "", *SCORES))
    heads = 3 if group == 1 else 4
    orders = tuple(tuple(rng.sample(range(n), n)) if rng.random() < 0.4 else tuple(range(n)) for n in (heads, 3, 3))
    plans: dict[str, dict[str, tuple[Any, ...]]] = {
        "simt": {"rows": (32,), "keys": (4, 8)},
        "mma": {"warps": (1, 2), "keys": (32, 64), "stages": (1, 2, 3)},
        "volta": {"warps": (1, 2), "keys": (16, 32)},
        "wgmma": {"groups": (1, 2), "keys": (32, 64), "persistent": (True, False), "bulk_store": (True, False),
                  "draw": (True, False), "speculate": (True, False)},
        "decode": {"ways": (1, 2, 3), "warps": (1, 2, 4), "keys": (32,), "stages": (2, 3)},
        "gradient": {},
    }  # fmt: skip
    plan = {k: rng.choice(v) for k, v in plans[preset].items() if rng.random() < 0.5}
    if preset == "simt":
        plan["rows"] = 32
    data = rng.choice(("normal", "normal", "climbs", "one key", "sharp", "zeros"))
    eight = dtype in ("e4m3", "e5m2")
    return Draw(
        preset, lead, (queries, keys, depth, width), dtype, rng.random() < 0.25, mask, score,
        rng.random() < 0.2 and preset != "gradient", rng.choice((0.0, 0.0, 0.0, 0.0, 0.3)), rng.random() < 0.4 or eight,
        orders, "normal" if preset == "gradient" else data, plan,
    )  # fmt: skip


def laid(name: str, shape: tuple[int, ...], dtype: str, order: tuple[int, ...]) -> Any:
    """Describe a tensor whose dims, but the last, lie in an order in memory."""
    strides, step = [1] * len(shape), shape[-1]
    order = tuple(n for n in order if shape[n] > 1) + tuple(n for n in order if shape[n] == 1)
    for n in reversed(order):
        strides[n], step = step, step * shape[n]
    return fi.tensor(*shape, dtype=dtype, name=name, strides=tuple(strides))


def placed(array: Any, strides: tuple[int, ...]) -> Any:
    """Copy an array to memory of given strides."""
    if strides[-1] != 1:  # a column-major matrix is given as memory holds it
        return np.ascontiguousarray(array.swapaxes(-1, -2))
    order = sorted(range(array.ndim), key=lambda n: (-strides[n], n))
    dense = np.ascontiguousarray(array.transpose(order))
    return dense.transpose(np.argsort(order))


def extra(draw: Draw, rng: Any) -> dict[str, Any]:
    """Make the arrays that functions read."""
    queries, keys, _, _ = draw.sizes
    batch, heads = draw.lead[0], prod(draw.lead[1:])
    made: dict[str, Any] = {}
    if draw.mask == "documents":
        made |= {
            "rows": np.sort(rng.integers(0, 3, (batch, queries))),
            "columns": np.sort(rng.integers(0, 3, (batch, keys))),
        }
    if draw.mask == "padding":
        made["ends"] = rng.integers(0, keys + 1, batch)
    if draw.score == "alibi":
        made["slope"] = rng.uniform(0, 0.3, heads)
    if draw.score == "bias":
        made["bias"] = rng.normal(size=(batch, heads, queries, keys))
    if draw.score == "bias of keys":
        made["bias_of_keys"] = rng.normal(size=(1, keys))
    if draw.score == "relative":
        made["table"] = rng.normal(size=(heads, 17))
    if draw.score == "distance":
        made["table"] = rng.normal(size=(heads, queries + keys - 1))
    return {n: x.astype(np.int32 if x.dtype.kind == "i" else np.float32) for n, x in made.items()}


def reference(draw: Draw, q: Any, k: Any, given: Mapping[str, Any], factor: Any) -> tuple[Any, Any]:
    """Return scores in f64 and which of them count, as (b, h, g, i, j)."""
    queries, keys = draw.sizes[:2]
    batch, heads, group = (*draw.lead, 1)[:3]
    s = np.einsum("bhgid,bhjd->bhgij", q, k) * factor
    b, n, i, j = np.ix_(*map(np.arange, (batch, heads * group, queries, keys)))
    b, n, i, j = (x.reshape(-1, heads, group, *x.shape[2:]) if x.shape[1] > 1 else x[:, :, None] for x in (b, n, i, j))
    away = i - j
    x = {name: array.astype(np.float64) for name, array in given.items()}
    if draw.score == "soft cap":
        s = 5 * np.tanh(s / 5)
    elif draw.score == "alibi":
        s = s - x["slope"][n] * away
    elif draw.score == "bias":
        s = s + x["bias"].reshape(s.shape)
    elif draw.score == "bias of keys":
        s = s + x["bias_of_keys"][0]
    elif draw.score == "relative":
        s = s + x["table"][n, np.clip(away, -8, 8) + 8]
    elif draw.score == "distance":
        s = s + x["table"][n, away + keys - 1]
    seen = np.ones(s.shape, bool)
    if draw.causal:
        seen &= j <= i + (keys - queries)
    masks = {
        "": lambda: True, "causal": lambda: j <= i, "window": lambda: (j <= i) & (away < 20),
        "prefix": lambda: (j <= i) | (j < 9), "documents": lambda: given["rows"][b, i] == given["columns"][b, j],
        "padding": lambda: j < given["ends"][b], "strides": lambda: (i + j) % 3 == 0, "behind": lambda: j >= i,
        "nothing": lambda: j < 0,
    }  # fmt: skip
    return s, seen & masks[draw.mask]()


def kept(draw: Draw) -> Any:
    """Give 1 / (1 - dropout) where dropout keeps a weight, else 0."""
    batch, heads, group = (*draw.lead, 1)[:3]
    shape = (batch, heads * group, *draw.sizes[:2])
    b, h, i, j = np.ix_(*map(np.arange, shape))
    words = fi.philox((j // 16 * 4 + j % 8 // 2, i, b * shape[1] + h, SEED[2]), SEED[:2])
    bits = np.choose(np.broadcast_to(j // 8 % 2 * 2 + j % 2, shape), words) >> 8
    return ((bits >= round(draw.dropout * 2**24)) / (1 - draw.dropout)).reshape(batch, heads, group, *shape[2:])


def arrays_of(draw: Draw, rng: Any) -> dict[str, Any]:
    """Make queries, keys and values, of the kind of data that was drawn."""
    queries, keys, depth, width = draw.sizes
    shapes = {"q": (*draw.lead, queries, depth), "k": (*draw.lead[:2], keys, depth), "v": (*draw.lead[:2], keys, width)}
    made = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    if draw.data == "climbs":
        made["q"][:] = 1
        made["k"][:] = np.arange(keys)[:, None] / 16
    elif draw.data == "one key":
        made["k"][..., keys // 3, :] *= 8
    elif draw.data == "sharp":
        made["q"] *= 10
    elif draw.data == "zeros":
        made["q"][:] = 0
    return {name: x.astype(NUMPY[draw.dtype]) for name, x in made.items()}


def checked(draw: Draw) -> str:
    """Simulate a draw and compare it with f64.

    Returns:
        "right", or the code with which a preset refused the draw.

    Raises:
        AssertionError: for a wrong result. SimulationError: for a race or another fault.
    """
    rng = np.random.default_rng(sum(draw.sizes))
    given, beside = arrays_of(draw, rng), extra(draw, rng)
    if draw.preset == "gradient":
        return gradient(draw, given, beside, rng)
    eight = draw.dtype in ("e4m3", "e5m2")
    described: dict[str, Any] = {}
    for name, order in zip("qkv", draw.orders, strict=True):
        x = given[name]
        described[name] = laid(name, x.shape, draw.dtype, order)
    if eight and draw.preset == "wgmma":
        b, h, j, e = given["v"].shape
        described["v"] = fi.tensor(b, h, j, e, dtype=draw.dtype, name="v", strides=(h * e * j, e * j, 1, j))
    worth = dict.fromkeys(("q", "k", "v"), 1.0)
    options: dict[str, Any] = {
        n: fi.tensor(*x.shape, dtype="i32" if x.dtype == np.int32 else "f32", name=n) for n, x in beside.items()
    }
    heads = prod(draw.lead[1:])
    if eight:
        for name, n in (("q", heads), ("k", draw.lead[1]), ("v", draw.lead[1])):
            beside[f"{name}_scale"] = rng.uniform(0.3, 2, n).astype(np.float32)
            options[f"{name}_scale"] = fi.tensor(n, name=f"{name}_scale")
            shape = (1, draw.lead[1], -1, 1, 1)
            worth[name] = beside[f"{name}_scale"].astype(float).reshape(shape)
    if draw.sinks:
        beside["sinks"] = rng.normal(size=heads).astype(np.float32) * 3
        options["sinks"] = fi.tensor(heads, name="sinks")
    if draw.dropout:
        beside["seed"] = np.array(SEED, np.int32)
        options["seed"] = fi.tensor(3, dtype="i32", name="seed")
    out = "bf16" if eight else draw.dtype
    program = forward.attention.on(q="b h g i d") if len(draw.lead) == 3 else forward.attention
    try:
        spec = program(
            *described.values(), causal=draw.causal, mask=MASKS.get(draw.mask), score=SCORES.get(draw.score),
            dropout=draw.dropout, lse=draw.lse, out=(out, "f32") if draw.lse else out, **options,
        )  # fmt: skip
        schedule = getattr(forward, draw.preset)(spec, **draw.plan)
        schedule.lowered()
    except FireironError as error:
        return error.code
    inputs = {t.name: t for t in spec.computed.inputs}
    arrays = [placed(given[n], described[n].strides) if n in described else beside[n] for n in inputs]
    result = schedule.simulate(*arrays)
    results = result.out if isinstance(result.out, tuple) else (result.out,)
    batch, kv, group = (*draw.lead, 1)[:3]
    f64 = {n: x.astype(np.float64) for n, x in given.items()}
    q = f64["q"].reshape(batch, kv, group, *f64["q"].shape[-2:])
    s, seen = reference(draw, q, f64["k"], beside, draw.sizes[2] ** -0.5 * worth["q"] * worth["k"])
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.where(seen, s, -np.inf).max(-1, keepdims=True, initial=-np.inf)
        p = np.where(seen, np.exp(s - np.where(np.isinf(top), 0, top)), 0)
        total = p.sum(-1, keepdims=True)
        lse = np.log(total) + top
        if draw.sinks:
            lse = np.logaddexp(lse, beside["sinks"].astype(float).reshape(1, kv, group, 1, 1))
        weight = np.where(seen, np.exp(s - np.where(np.isinf(lse), 0, lse)), 0)
    drops = kept(draw) if draw.dropout else 1.0
    values = f64["v"][:, :, None] * worth["v"]
    want = (weight * drops) @ values
    if eight and draw.sinks is False:
        least = (LEAST[draw.dtype] / np.maximum(total, 1e-300) * (total > 0)) * abs(values).sum(-2, keepdims=True)
    else:
        least = LEAST[draw.dtype] * abs(values).sum(-2, keepdims=True) * 2**10
    sure = 1e-5 + 3e-7 * abs(np.where(seen, s, 0)).max() * 4 + 2e-7 * abs(q).sum(-1).max() * abs(f64["k"]).max()
    bound = (
        ((EPSILON[draw.dtype] * 1.01 + sure) * weight * drops) @ abs(values) + least + abs(want) * EPSILON[out] + 1e-6
    )
    made = results[0].astype(np.float64).reshape(want.shape)
    off = abs(made - want) - bound
    assert not np.isnan(made).any(), "not a number"
    assert (off <= 0).all(), f"off by {abs(made - want).flat[off.argmax()]:.3g}, {bound.flat[off.argmax()]:.3g} allowed"
    if draw.lse:
        sums = results[1].reshape(lse.shape[:-1])
        lse = lse[..., 0] if not draw.sinks else np.where(seen.any(-1), lse[..., 0], lse[..., 0])
        assert (np.isinf(sums) == np.isinf(lse)).all(), "the sums of rows without keys"
        near = np.isfinite(lse)
        assert (abs(sums - lse)[near] <= 2 * sure + 1e-4 + 2e-6 * abs(lse[near])).all(), "sums"
    return "right"


def gradient(draw: Draw, given: dict[str, Any], beside: dict[str, Any], rng: Any) -> str:
    """Check the gradients of queries, keys and values, whose presets the draw's name chooses among."""
    queries, _, depth, width = draw.sizes
    batch, kv, group = (*draw.lead, 1)[:3]
    preset = random.Random(str(draw)).choice(("simt", "mma", "wgmma", "wgmma"))
    plan = {"simt": {"rows": 32}, "mma": {"warps": 2}, "wgmma": {"groups": 1}}[preset]
    given["dy"] = rng.normal(size=(*draw.lead, queries, width)).astype(NUMPY[draw.dtype])
    f64 = {n: x.astype(np.float64) for n, x in given.items()}
    q, dy = (f64[n].reshape(batch, kv, group, queries, -1) for n in ("q", "dy"))
    scale = depth**-0.5
    s, seen = reference(draw, q, f64["k"], beside, scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = np.logaddexp.reduce(np.where(seen, s, -np.inf), -1)
    p = np.where(seen, np.exp(s - np.where(np.isinf(lse), 0, lse)[..., None]), 0)
    drops = kept(draw) if draw.dropout else np.ones(s.shape)
    o = (p * drops) @ f64["v"][:, :, None]
    delta = (o * dy).sum(-1)
    raw = np.einsum("bhgid,bhjd->bhgij", q, f64["k"]) * scale
    slope = 1 - np.tanh(raw / 5) ** 2 if draw.score == "soft cap" else 1.0
    dp = np.einsum("bhgie,bhje->bhgij", dy, f64["v"]) * drops
    ds = p * (dp - delta[..., None]) * slope
    want = {
        "dq": np.einsum("bhgij,bhjd->bhgid", ds, f64["k"]) * scale,
        "dk": np.einsum("bhgij,bhgid->bhjd", ds, q) * scale, "dv": np.einsum("bhgij,bhgie->bhje", p * drops, dy),
    }  # fmt: skip
    size = p * (abs(dp) + abs(delta)[..., None]) * slope
    whole = {
        "dq": np.einsum("bhgij,bhjd->bhgid", size, abs(f64["k"])) * scale,
        "dk": np.einsum("bhgij,bhgid->bhjd", size, abs(q)) * scale,
        "dv": np.einsum("bhgij,bhgie->bhje", p * drops, abs(dy)),
    }  # fmt: skip
    options: dict[str, Any] = {
        n: fi.tensor(*x.shape, dtype="i32" if x.dtype == np.int32 else "f32", name=n) for n, x in beside.items()
    }
    if draw.dropout:
        beside["seed"] = np.array(SEED, np.int32)
        options["seed"] = fi.tensor(3, dtype="i32", name="seed")
    tensors = [laid(n, given[n].shape, draw.dtype, o) for n, o in zip("qkv", draw.orders, strict=True)]
    tensors.append(laid("dy", given["dy"].shape, draw.dtype, draw.orders[0]))
    rows = {"lse": lse.reshape(given["q"].shape[:-1]), "delta": delta.reshape(given["q"].shape[:-1])}
    rows = {n: x.astype(np.float32) for n, x in rows.items()}
    sums = [fi.tensor(*x.shape, dtype="f32", name=n) for n, x in rows.items()]
    on = {"q": "b h g i d", "dy": "b h g i e", "lse": "b h g i", "delta": "b h g i"} if group > 1 else {}
    causal = draw.causal
    for names in (("dq",), ("dk", "dv")):
        program = gradients.of_queries if len(names) == 1 else gradients.of_keys
        program = program.on(**on) if on else program
        try:
            spec = program(
                *tensors, *sums, causal=causal, mask=MASKS.get(draw.mask), score=SCORES.get(draw.score),
                dropout=draw.dropout, **options,
            )  # fmt: skip
            schedule = getattr(gradients, preset)(spec, **plan)
            schedule.lowered()
        except FireironError as error:
            return f"{preset} {error.code}"
        held = {t.name: placed(given[t.name], t.strides) for t in tensors} | rows | beside
        out = schedule.simulate(*(held[t.name] for t in spec.computed.inputs)).out
        for name, made in zip(names, out if isinstance(out, tuple) else (out,), strict=True):
            got = made.astype(np.float64).reshape(want[name].shape)
            bound = whole[name] * (3 * EPSILON[draw.dtype] + 1e-4) + abs(want[name]) * EPSILON[draw.dtype] + 1e-4
            assert not np.isnan(got).any(), f"{name} is not a number"
            worst = (abs(got - want[name]) / bound).max()
            assert worst <= 1, f"{preset}: {name} exceeds its bound by {worst:.2f}"
    return "right"


def judged(name: str) -> tuple[str, str]:
    """Return a kind (right, refused or finding) and what was found, of the draw of a name."""
    draw = drawn(name)
    try:
        found = checked(draw)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "finding", f"{type(error).__name__} at {where.filename.split('/')[-1]}:{where.lineno}: {error}"
    return ("right", "") if found == "right" else ("refused", found)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m tests.fuzz.attention_draws", description="draw calls of attention")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default=secrets.token_hex(4), help="a fresh one if none is given")
    parser.add_argument("--only", help="draw this one alone: SEED/N")
    asked = parser.parse_args()
    names = [asked.only] if asked.only else (f"{asked.seed}/{n}" for n in range(1_000_000))
    count: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    end = time.process_time() + asked.seconds
    for name in names:
        if time.process_time() > end:
            break
        kind, what = judged(name)
        draw = drawn(name)
        count[f"{draw.preset} {kind}"] += 1
        codes[f"{draw.preset} {what}"] += kind == "refused"
        if kind == "finding" or asked.only:
            print(f"{name}: {draw}\n    {kind}: {what}", flush=True)
    print(f"seed {asked.seed}; {sum(count.values())} draws: {dict(sorted(count.items()))}")
    print("\n".join(f"{n:5} {code}" for code, n in codes.most_common() if n))
    return int(any("finding" in kind for kind in count))


if __name__ == "__main__":
    sys.exit(main())
