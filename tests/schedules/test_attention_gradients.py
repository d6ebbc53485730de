"""Gradients of attention: against gradients in f64, with masks, score functions and heads that share keys."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import attention as schedules
from fireiron.schedules import attention_gradients as gradients
from tests.schedules.around import AROUND, around

SEED = (5, -3, 7)
# Scores and gradients of weights of the next chunk are issued before gradients of keys.
AHEAD = ("s", "dp", "p", "ds", "held_ds", "shared_ds", "dq", "dv", "y2", "dk")
GROUPED = {"q": "b h g i d", "dy": "b h g i e", "lse": "b h g i", "delta": "b h g i"}


def arrays(sizes: tuple[int, int, int, int], group: int, dtype: str) -> dict[str, Any]:
    """Draw q, k, v and dy of a batch of one with two heads of keys."""
    queries, keys, depth, width = sizes
    rng, lead = np.random.default_rng(sum(sizes)), (1, 2) if group == 1 else (1, 2, group)
    shapes = {"q": (*lead, queries, depth), "k": (1, 2, keys, depth), "v": (1, 2, keys, width)}
    shapes["dy"] = (*lead, queries, width)
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def kept_weights(shape: tuple[int, ...], part: float, seed: tuple[int, int, int]) -> Any:
    """Give 1 / (1 - part) where dropout keeps a weight, else 0: by Philox in NumPy."""
    b, h, i, j = np.ix_(*map(np.arange, shape))
    words = fi.philox((j // 16 * 4 + j % 8 // 2, i, b * shape[1] + h, seed[2]), seed[:2])
    drawn = np.choose(np.broadcast_to(j // 8 % 2 * 2 + j % 2, shape), words) >> 8
    return (drawn >= round(part * 2**24)) / (1 - part)


def wanted(given: dict[str, Any], seen: Any, slopes: float = 0.0, kept: Any = 1.0) -> dict[str, Any]:
    """Compute attention, and its gradients, in f64; scores count where `seen`, and lose slopes * (i - j)."""
    q, k, v, dy = (x.astype(np.float64) for x in given.values())
    q, dy = (x.reshape(*x.shape[:2], -1, *x.shape[-2:]) for x in (q, dy))
    away = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])
    scale = q.shape[-1] ** -0.5
    scores = np.where(seen, np.einsum("bhgid,bhjd->bhgij", q, k) * scale - slopes * away, -np.inf)
    with np.errstate(divide="ignore"):
        lse = np.log(np.exp(scores).sum(-1))
    p = np.where(seen, np.exp(scores - np.where(np.isinf(lse), 0, lse)[..., None]), 0)
    o = np.einsum("bhgij,bhje->bhgie", p * kept, v)
    delta = (o * dy).sum(-1)
    ds = p * (np.einsum("bhgie,bhje->bhgij", dy, v) * kept - delta[..., None]) * scale
    made = {
        "o": o, "lse": lse, "delta": delta, "dq": np.einsum("bhgij,bhjd->bhgid", ds, k),
        "dk": np.einsum("bhgij,bhgid->bhjd", ds, q), "dv": np.einsum("bhgij,bhgie->bhje", p * kept, dy),
    }  # fmt: skip
    lead = given["q"].shape[:-2]
    return {n: x if n in ("dk", "dv") else x.reshape(*lead, *x.shape[3:]) for n, x in made.items()}


TOGETHER = ((gradients.of_keys, ("dk", "dv")),)
ALONE = ((gradients.of_keys_alone, ("dk",)), (gradients.of_values, ("dv",)))
READS = (0, 1, 3, 4)  # of q, k, v, dy, lse and delta, what the gradient of values reads


def check(
    preset: str, sizes: Any, group: int, dtype: str, seen: Any, slopes: float = 0.0, keys: Any = TOGETHER,
    **options: Any,
) -> None:  # fmt: skip
    plan = {"simt": {"rows": 32}, "squares": {"rows": 32}, "mma": {"warps": 2}, "wgmma": {"groups": 1}}[preset]
    given = arrays(sizes, group, dtype)
    part = options.get("dropout", 0.0)
    heads = given["q"].shape[:-1]
    kept = kept_weights((heads[0], prod(heads[1:-1]), heads[-1], sizes[1]), part, SEED) if part else np.ones(1)
    want = wanted(given, seen, slopes, kept.reshape(*heads[:2], -1, heads[-1], sizes[1]) if part else 1.0)
    drawn = [np.array(SEED, np.int32)] if part else []
    options |= {"seed": fi.tensor(3, dtype="i32", name="seed")} if part else {}
    q, k, v, dy = (fi.tensor(*x.shape, dtype=dtype.replace("float", "f"), name=n) for n, x in given.items())
    rows = [fi.tensor(*q.shape[:-1], dtype="f32") for _ in range(2)]
    on = {} if group == 1 else GROUPED
    forward = schedules.attention.on(**{n: on[n] for n in on if n == "q"})
    kind = str(q.dtype)
    spec = forward(q, k, v, lse=True, out=(kind, "f32"), **options)
    forward_preset = "simt" if preset == "squares" else preset
    o, lse = list(
        getattr(schedules, forward_preset)(spec, **plan).simulate(*list(given.values())[:3], *drawn).arrays.values()
    )[:2]
    within = 1e-4 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(o, want["o"], rtol=within, atol=within)
    np.testing.assert_allclose(lse, want["lse"], rtol=within, atol=within)
    sums = [want["lse"].astype(np.float32), want["delta"].astype(np.float32)]
    known = q, k, v, dy, *rows
    for function, names in ((gradients.of_queries, ("dq",)), *keys):
        reads = READS if function == gradients.of_values else range(6)
        dims = {n: on[n] for n in on if not (function == gradients.of_values and n == "delta")}
        spec = function.on(**dims)(*(known[n] for n in reads), **options)
        numbers = [*given.values(), *sums]
        made = getattr(gradients, preset)(spec, **plan, chunk=32).simulate(*(numbers[n] for n in reads), *drawn)
        for name, array in zip(names, made.arrays.values(), strict=False):
            np.testing.assert_allclose(array, want[name], rtol=within, atol=within)


@pytest.mark.parametrize("of", [gradients.of_queries, gradients.of_keys])
@pytest.mark.parametrize(("queries", "keys", "causal"), [(70, 90, True), (64, 64, False)])
def test_mma_of_32_rows_a_warp(of: Any, queries: int, keys: int, causal: bool) -> None:
    """Equal to the kernel of 16 rows, bit by bit: sums are in the same order."""
    given = arrays((queries, keys, 32, 64), 1, "float16")
    want = wanted(given, (lambda i, j: j <= i + keys - queries)(*places(queries, keys)) if causal else True)
    described = [fi.tensor(*x.shape, dtype="f16", name=n) for n, x in given.items()]
    spec = of(*described, *(fi.tensor(*given["q"].shape[:-1], dtype="f32") for _ in range(2)), causal=causal)
    numbers = *given.values(), *(want[name].astype(np.float32) for name in ("lse", "delta"))
    made = [gradients.mma(spec, warps=1, chunk=32, rows=rows).simulate(*numbers).arrays for rows in (16, 32)]
    names = {"y": "dq"} if of == gradients.of_queries else {"y0": "dk", "y1": "dv"}
    for name, of_name in names.items():
        np.testing.assert_array_equal(made[1][name], made[0][name])
        np.testing.assert_allclose(made[1][name], want[of_name], rtol=4e-3, atol=4e-3)


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("named", AROUND)
@pytest.mark.parametrize("depth", [64, 96, 128])
@pytest.mark.parametrize("of", [gradients.of_queries, gradients.of_keys])
def test_mma_compiles_without_spills(of: Any, depth: int, named: str, arch: str) -> None:
    four = [fi.tensor(1, 64, 512, depth, dtype="bf16") for _ in range(4)]
    rows = [fi.tensor(1, 64, 512, dtype="f32") for _ in range(2)]
    spec = of(*four, *rows, arch=arch, **around(named, 64, 512))
    assert gradients.mma(spec).compile(arch).resources.spills == 0


def check_at_once(
    sizes: Any, group: int, dtype: str, seen: Any, slopes: float = 0.0, plan: dict[str, Any] | None = None,
    **options: Any,
) -> None:  # fmt: skip
    """Compare the kernel of all gradients; what it adds to is not 0 before."""
    given, part = arrays(sizes, group, dtype), options.get("dropout", 0.0)
    heads = given["q"].shape[:-1]
    kept = kept_weights((heads[0], prod(heads[1:-1]), heads[-1], sizes[1]), part, SEED) if part else np.ones(1)
    want = wanted(given, seen, slopes, kept.reshape(*heads[:2], -1, heads[-1], sizes[1]) if part else 1.0)
    kind = dtype.replace("float", "f")
    drawn = [np.array(SEED, np.int32)] if part else []
    options |= {"seed": fi.tensor(3, dtype="i32", name="seed")} if part else {}
    described = [fi.tensor(*x.shape, dtype=kind, name=n) for n, x in given.items()]
    rows, sums = [fi.tensor(*heads, dtype="f32") for _ in range(2)], fi.tensor(*given["q"].shape, name="sums")
    on = {} if group == 1 else {**GROUPED, "sums": "b h g i d"}
    spec = gradients.of_all.on(**on)(*described, *rows, sums, out=(kind, kind, fi.inplace("sums")), **options)
    before = np.random.default_rng(1).normal(size=given["q"].shape).astype(np.float32)
    outs = np.empty(given["k"].shape, dtype), np.empty(given["v"].shape, dtype), before.copy()
    numbers = (want[name].astype(np.float32) for name in ("lse", "delta"))
    made = gradients.at_once(spec, **plan or {}).simulate(*given.values(), *numbers, *drawn, out=outs).arrays
    added = (made["sums"] - before) * given["q"].shape[-1] ** -0.5
    for name, array in (("dk", made["y0"]), ("dv", made["y1"]), ("dq", added)):
        np.testing.assert_allclose(array, want[name], rtol=4e-3, atol=4e-3)


def places(queries: int, keys: int) -> tuple[Any, Any]:
    return np.arange(queries)[:, None], np.arange(keys)


@pytest.mark.product
@pytest.mark.parametrize(
    ("preset", "sizes", "group", "dtype"),
    [
        ("mma", (90, 70, 64, 32), 1, "float16"),
        ("mma", (40, 70, 32, 32), 3, "float16"),
        ("wgmma", (100, 70, 64, 64), 1, "float16"),
        ("squares", (36, 13, 16, 8), 1, "float32"),
        ("squares", (9, 34, 8, 16), 2, "float32"),
        ("mma", (20, 30, 40, 24), 1, "float16"),  # columns are 8 more than a multiple of 16
        ("simt", (9, 12, 8, 8), 1, "float16"),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(preset: str, sizes: tuple[int, int, int, int], group: int, dtype: str, causal: bool) -> None:
    """Of causal attention of more queries than keys, the first queries see no key: zeros, and -inf."""
    i, j = places(*sizes[:2])
    seen = j <= i + sizes[1] - sizes[0] if causal else np.full((sizes[0], sizes[1]), True)
    check(preset, sizes, group, dtype, seen, causal=causal)


@pytest.mark.parametrize(
    ("preset", "sizes", "dtype"),
    [
        ("mma", (30, 40, 16, 16), "float16"), ("wgmma", (40, 70, 64, 64), "float16"),
        ("simt", (10, 12, 8, 8), "float32"), ("squares", (36, 13, 16, 8), "float32"),
        ("at once", (70, 40, 64, 64), "float16"),
    ],
)  # fmt: skip
def test_scores_that_are_all_minus_infinity(preset: str, sizes: tuple[int, int, int, int], dtype: str) -> None:
    """As an added mask of -inf gives: the query's result and gradients are zeros, as torch's are."""
    i, j = places(*sizes[:2])
    seen = j <= i - 5
    score = lambda s, i, j: fi.where(j <= i - 5, s, -np.inf)  # noqa: E731
    if preset == "at once":
        check_at_once(sizes, 1, dtype, seen, score=score)
    else:
        check(preset, sizes, 1, dtype, seen, score=score)


@pytest.mark.parametrize(
    ("preset", "sizes", "dtype"), [("mma", (30, 40, 16, 16), "float16"), ("simt", (10, 12, 8, 8), "float32")]
)
def test_functions(preset: str, sizes: tuple[int, int, int, int], dtype: str) -> None:
    """A mask and a score function read indices."""
    i, j = places(*sizes[:2])
    check(
        preset, sizes, 1, dtype, (j <= i) & (i - j < 6) | (j < 3), 0.25,
        mask=lambda i, j: (j <= i) & (i - j < 6) | (j < 3), score=lambda s, i, j: s - 0.25 * (i - j),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "group", "causal", "plan"),
    [
        ((100, 200, 64, 64), 1, True, {}),
        ((72, 130, 64, 64), 3, False, {"bulk_rows": True}),
        ((200, 150, 64, 64), 1, True, {"chunk": 128}),
        ((70, 70, 128, 128), 1, False, {"staged": 64}),
        ((70, 70, 64, 64), 1, False, {"order": ("s", "dp", "p", "ds", "shared_ds", "dv", "dq", "dk"), "slots": 1}),
        ((136, 130, 64, 64), 2, True, {"order": AHEAD, "skew": ("dp", "dk"), "slots": 1}),
    ],
)
def test_all_gradients_at_once(
    sizes: tuple[int, int, int, int], group: int, causal: bool, plan: dict[str, Any]
) -> None:
    i, j = places(*sizes[:2])
    seen = j <= i + sizes[1] - sizes[0] if causal else np.full(sizes[:2], True)
    check_at_once(sizes, group, "float16", seen, causal=causal, plan=plan)


def test_chunks_that_masks_leave_out_add_nothing() -> None:
    """A block of keys begins with the first queries that see any of them."""
    heads = [fi.tensor(1, 1, 4096, 64, dtype="f16") for _ in range(4)]
    given = *heads, *(fi.tensor(1, 1, 4096) for _ in range(2)), fi.tensor(1, 1, 4096, 64, name="sums")
    out = "f16", "f16", fi.inplace("sums")
    specs = [gradients.of_all(*given, causal=causal, out=out) for causal in (True, False)]
    texts = [gradients.at_once(spec).cuda("sm_90a") for spec in specs]
    assert ["i < 64 - block * 2" in text for text in texts] == [True, False]


def test_a_chunk_has_one_barrier_of_both_warpgroups() -> None:
    """Gradients of scores lie in two slots in turn: none is overwritten before all have read it."""
    heads = [fi.tensor(1, 1, 4096, 64, dtype="f16") for _ in range(4)]
    given = *heads, *(fi.tensor(1, 1, 4096) for _ in range(2)), fi.tensor(1, 1, 4096, 64, name="sums")
    spec = gradients.of_all(*given, out=("f16", "f16", fi.inplace("sums")))
    text = gradients.at_once(spec).cuda("sm_90a")
    assert text.count("barrier_sync<0, 256>();") == 1


def test_all_gradients_at_once_of_functions_and_dropout() -> None:
    i, j = places(70, 140)
    check_at_once(
        (70, 140, 64, 64), 1, "float16", (j <= i) & (i - j < 60) | (j < 3), 0.25, dropout=0.25,
        mask=lambda i, j: (j <= i) & (i - j < 60) | (j < 3), score=lambda s, i, j: s - 0.25 * (i - j),
    )  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_all_gradients_at_once_compile_without_spills(depth: int, causal: bool) -> None:
    heads = [fi.tensor(4, 16, 4096, depth, dtype="bf16") for _ in range(4)]
    rows, sums = [fi.tensor(4, 16, 4096) for _ in range(2)], fi.tensor(4, 16, 4096, depth, name="sums")
    spec = gradients.of_all(*heads, *rows, sums, causal=causal, out=("bf16", "bf16", fi.inplace("sums")))
    made = gradients.at_once(spec, bulk_rows=True).compile("sm_90a")
    assert made.resources.spills == 0
    assert not made.resources.warnings


def test_functions_of_arrays() -> None:
    """Documents and slopes are arrays; heads that share keys have slopes of their own."""
    rng = np.random.default_rng(0)
    q, k, v = arrays((40, 40, 64, 64), 2, "float16")["q"], *(rng.normal(size=(1, 2, 40, 64)).astype("f2") for _ in "kv")
    documents, slope = np.sort(rng.integers(0, 3, (1, 40)), 1).astype(np.int32), rng.random(4).astype(np.float32)
    described = [fi.tensor(*x.shape, dtype="f16") for x in (q, k, v)]
    spec = schedules.attention.on(q="b h g i d")(
        *described,
        mask=lambda b, i, j, documents: fi.equal(documents[b, i], documents[b, j]) & (j <= i),
        score=lambda s, h, i, j, slope: s - slope[h] * (i - j),
        documents=fi.tensor(1, 40, dtype="i32"),
        slope=fi.tensor(4),
    )
    i, j = places(40, 40)
    seen = (documents[0, :, None] == documents[0]) & (j <= i)
    want = wanted({"q": q, "k": k, "v": v, "dy": q}, seen, slope.reshape(1, 2, 2, 1, 1))["o"]
    for preset in ("mma", "wgmma"):
        plan = {"mma": {"warps": 1, "keys": 32}, "wgmma": {"groups": 1, "keys": 32}}[preset]
        schedule = getattr(schedules, preset)(spec, **plan)
        made = schedule.simulate(q, k, v, documents, slope).arrays["y"]
        np.testing.assert_allclose(made, want, rtol=4e-3, atol=4e-3)
        if preset == "mma":  # later keys are not visited, though documents are compared too
            assert "for (int j = 0; j < block_i / 2 + 1; ++j)" in schedule.cuda("sm_80")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bulk_store", [False, True])
@pytest.mark.parametrize(
    ("sizes", "group", "groups"),
    [
        ((100, 150, 64, 64), 1, 2),
        ((140, 70, 32, 48), 1, 1),  # rows of 64 and of 96 bytes
        ((70, 140, 80, 96), 1, 1),
        ((72, 90, 128, 128), 1, 1),  # results are stored by panels
        ((40, 70, 64, 32), 3, 1),
    ],
)
def test_blocks_that_loop_over_tiles(sizes: Any, group: int, groups: int, bulk_store: bool, causal: bool) -> None:
    """Blocks draw tiles under a mask; each warpgroup stores its own results."""
    queries, keys, *_ = sizes
    given = arrays(sizes, group, "float16")
    seen = (lambda i, j: j <= i + keys - queries)(*places(queries, keys)) if causal else np.full((queries, keys), True)
    want = wanted(given, seen)
    described = [fi.tensor(*x.shape, dtype="f16", name=n) for n, x in given.items()]
    rows = [fi.tensor(*given["q"].shape[:-1], dtype="f32") for _ in range(2)]
    numbers = *given.values(), *(want[name].astype(np.float32) for name in ("lse", "delta"))
    for of, names in ((gradients.of_queries, ("dq",)), (gradients.of_keys, ("dk", "dv"))):
        spec = of.on(**({} if group == 1 else GROUPED))(*described, *rows, causal=causal)
        schedule = gradients.wgmma(spec, groups=groups, chunk=32, persistent=True, bulk_store=bulk_store)
        source = schedule.cuda("sm_90a")
        assert ("tma_store_" in source) == bulk_store
        assert ("item_full" in source) == causal
        made = schedule.simulate(*numbers)
        assert made.report is None or max(site.conflict_degree for site in made.report.sites) <= 2.0
        for name, array in zip(names, made.arrays.values(), strict=False):
            np.testing.assert_allclose(array, want[name], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"score": lambda s: 20 * fi.tanh(s / 20)},
        {
            "score": lambda s, h, i, j, slope: s - slope[h] * (i - j),
            "slope": fi.tensor(2, name="slope"),
            "causal": True,
        },
        {"dropout": 0.25, "seed": fi.tensor(3, dtype="i32", name="seed"), "causal": True},
    ],
    ids=["soft cap", "slopes", "dropout"],
)
def test_functions_in_blocks_that_loop_over_tiles(options: dict[str, Any]) -> None:
    """They give the bits of blocks with a tile each."""
    given = arrays((300, 200, 64, 64), 1, "float16")
    described = [fi.tensor(*x.shape, dtype="f16", name=n) for n, x in given.items()]
    rows = [fi.tensor(*given["q"].shape[:-1], dtype="f32") for _ in range(2)]
    sums = [np.full(given["q"].shape[:-1], value, np.float32) for value in (6.0, 0.1)]
    read = [np.array([0.5, 0.1], np.float32)] if "slope" in options else []
    read += [np.array([1, 2, 3], np.int32)] if "seed" in options else []
    for of in (gradients.of_queries, gradients.of_keys):
        spec = of(*described, *rows, **options)
        made = [
            list(
                gradients.wgmma(spec, groups=2, chunk=32, persistent=p)
                .simulate(*given.values(), *sums, *read)
                .arrays.values()
            )
            for p in (True, False)
        ]
        for loops, alone in zip(*made, strict=True):
            np.testing.assert_array_equal(loops, alone)


def test_functions_let_blocks_loop_over_tiles_of_queries() -> None:
    four = [fi.tensor(2, 64, 512, 64, dtype="bf16") for _ in range(4)]
    rows = [fi.tensor(2, 64, 512, dtype="f32") for _ in range(2)]
    slope, seed = fi.tensor(64, name="slope"), fi.tensor(3, dtype="i32", name="seed")

    def loops(of: Any, **options: Any) -> bool:
        return "blocks + block <" in gradients.wgmma(of(*four, *rows, **options)).cuda("sm_90a")

    assert loops(gradients.of_queries, score=lambda s, h, slope: s * slope[h], slope=slope)
    assert loops(gradients.of_keys, score=lambda s, h, slope: s * slope[h], slope=slope)
    assert loops(gradients.of_queries, dropout=0.1, seed=seed)
    assert not loops(gradients.of_keys, dropout=0.1, seed=seed)  # random bits need registers beside two sums
    assert not loops(
        gradients.of_queries, mask=lambda j, keep: keep[j] > 0, keep=fi.tensor(512, dtype="i8", name="keep")
    )


def test_results_that_bulk_stores_do_not_take() -> None:
    """Results of f32, and lines that do not start at multiples of 16 bytes."""
    four = [fi.tensor(1, 2, 128, 64, dtype="f16") for _ in range(4)]
    rows = [fi.tensor(1, 2, 128, dtype="f32") for _ in range(2)]
    odd = fi.tensor(1, 2, 128, 64, dtype="f16", strides=(2 * 128 * 65, 128 * 65, 65, 1), name="y")
    for out in ("f32", odd):
        assert "tma_store_" not in gradients.wgmma(gradients.of_queries(*four, *rows, out=out)).cuda("sm_90a")
    assert "tma_store_" in gradients.wgmma(gradients.of_queries(*four, *rows)).cuda("sm_90a")


@pytest.mark.parametrize(
    ("length", "depth", "causal", "names"),
    [
        (512, 64, False, ("wgmma_1x1x128x128_bf16", "wgmma_1x1x128x64_bf16")),
        (
            960,
            64,
            False,
            ("wgmma_1x1x128x128_bf16", "wgmma_1x1x128x64_bf16"),
        ),  # half a chunk is empty, but chunks are few
        (300, 64, False, ("wgmma_1x1x128x64_bf16", "wgmma_1x1x128x64_bf16")),  # 128 keys leave much of a chunk empty
        (1024, 128, False, ("wgmma_1x1x128x64_bf16", "wgmma_1x1x128x64_bf16")),
        (4096, 128, False, ("wgmma_1x1x192x64_bf16", "wgmma_1x1x128x64_bf16")),  # long loops: a tile of each block
        (4096, 128, True, ("wgmma_1x1x128x64_bf16", "wgmma_1x1x128x64_bf16")),
    ],
)
def test_tiles_follow_lengths(length: int, depth: int, causal: bool, names: tuple[str, str]) -> None:
    four = [fi.tensor(1, 64, length, depth, dtype="bf16") for _ in range(4)]
    rows = [fi.tensor(1, 64, length, dtype="f32") for _ in range(2)]
    made = [gradients.wgmma(f(*four, *rows, causal=causal)) for f in (gradients.of_queries, gradients.of_keys)]
    assert tuple(each.name for each in made) == names
    loops = [depth == 64 or length < 2048 or (causal and n == 0) for n in range(2)]
    assert ["trip * blocks" in m.cuda("sm_90a") or "item_full" in m.cuda("sm_90a") for m in made] == loops


def test_rows_of_numbers_by_bulk_copies() -> None:
    """A slot that holds one line of 128 bytes still starts where the swizzled pattern does."""
    given = arrays((100, 70, 64, 64), 1, "float16")
    want = wanted(given, np.full((100, 70), True))
    described = [fi.tensor(*x.shape, dtype="f16", name=n) for n, x in given.items()]
    rows = [fi.tensor(1, 2, 100, dtype="f32") for _ in range(2)]
    schedule = gradients.wgmma(gradients.of_keys(*described, *rows), groups=1, chunk=32, bulk_rows=True)
    sums = [want["lse"].astype(np.float32), want["delta"].astype(np.float32)]
    made = list(schedule.simulate(*given.values(), *sums).arrays.values())
    np.testing.assert_allclose(made[0], want["dk"], rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(made[1], want["dv"], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(("depth", "function"), [(64, "of_queries"), (128, "of_keys")])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_compile_without_spills(depth: int, function: str, arch: str) -> None:
    four = [fi.tensor(1, 2, 4096, depth, dtype="bf16") for _ in range(4)]
    rows = [fi.tensor(1, 2, 4096, dtype="f32") for _ in range(2)]
    preset = gradients.wgmma if arch == "sm_90a" else gradients.mma
    made = preset(getattr(gradients, function)(*four, *rows, causal=True)).compile(arch)
    assert made.resources.spills == 0
    assert not made.resources.warnings


@pytest.mark.parametrize(
    ("preset", "sizes", "group", "dtype"),
    [
        ("mma", (40, 70, 32, 48), 3, "float16"),
        ("mma", (20, 30, 256, 192), 1, "float16"),
        ("wgmma", (40, 70, 256, 256), 1, "float16"),
        ("wgmma", (100, 70, 192, 64), 1, "float16"),
        ("squares", (36, 13, 16, 8), 1, "float32"),
        ("simt", (9, 12, 8, 8), 2, "float32"),
    ],
)
def test_gradients_of_keys_and_of_values_apart(
    preset: str, sizes: tuple[int, int, int, int], group: int, dtype: str
) -> None:
    i, j = places(*sizes[:2])
    check(
        preset, sizes, group, dtype, (j <= i) & (i - j < 30) | (j < 3), 0.25, ALONE, dropout=0.25,
        mask=lambda i, j: (j <= i) & (i - j < 30) | (j < 3), score=lambda s, i, j: s - 0.25 * (i - j),
    )  # fmt: skip


WIDE_HEADS = [
    (*kind, *columns)
    for kind in (("wgmma", "bf16", "sm_90a"), ("mma", "f16", "sm_89"), ("squares", "f32", "sm_89"))
    for columns in ((256, 256), (192, 192), (192, 128))
]
# In every run: the widest of each preset, and those of which Hopper holds both gradients.
OFTEN = [case for case in WIDE_HEADS if case[3:] == (256, 256) or case[::4] == ("wgmma", 128)]


@pytest.mark.parametrize(
    ("preset", "dtype", "arch", "depth", "width"),
    [case if case in OFTEN else pytest.param(*case, marks=pytest.mark.exhaustive) for case in WIDE_HEADS],
)
def test_wide_heads_compile_without_spills(preset: str, dtype: str, arch: str, depth: int, width: int) -> None:
    """Registers hold gradients of keys or of values of 256 columns; of 192 and 128, both on Hopper."""
    q, k = (fi.tensor(1, 2, 4096, depth, dtype=dtype) for _ in range(2))
    v, dy = (fi.tensor(1, 2, 4096, width, dtype=dtype) for _ in range(2))
    known = q, k, v, dy, *(fi.tensor(1, 2, 4096, dtype="f32") for _ in range(2))
    functions = [gradients.of_queries, gradients.of_keys_alone, gradients.of_values]
    functions += [gradients.of_keys] if preset == "squares" or (depth + width <= 320 and preset == "wgmma") else []
    for function in functions:
        reads = READS if function == gradients.of_values else range(6)
        spec = function(*(known[n] for n in reads), causal=True)
        made = getattr(gradients, preset)(spec).compile(arch)
        assert made.resources.spills == 0
        assert not made.resources.warnings


@pytest.mark.parametrize(("preset", "dtype"), [("wgmma", "bf16"), ("mma", "bf16")])
def test_gradients_of_keys_and_values_of_256_columns_are_refused_together(preset: str, dtype: str) -> None:
    """Registers do not hold both."""
    four = [fi.tensor(1, 2, n, 256, dtype=dtype) for n in (200, 333, 333, 200)]
    rows = [fi.tensor(1, 2, 200, dtype="f32") for _ in range(2)]
    with pytest.raises(fi.FireironError) as caught:
        getattr(gradients, preset)(gradients.of_keys(*four, *rows)).compile("sm_90a")
    assert caught.value.code == "registers"


def test_wgmma_stores_logarithms_beside_bulk_copies() -> None:
    spec = schedules.attention(
        *(fi.tensor(1, 2, 512, 128, dtype="f16") for _ in range(3)), lse=True, out=("f16", "f32")
    )
    kernel = schedules.wgmma(spec).compile("sm_90a")
    assert kernel.resources.spills == 0
    assert not kernel.resources.warnings


def test_kernels(golden: Callable[[str, str], None]) -> None:
    four = [fi.tensor(1, 2, 500, 64, dtype="f16") for _ in range(4)]
    rows = [fi.tensor(1, 2, 500, dtype="f32") for _ in range(2)]
    of_queries, of_keys = (f(*four, *rows, causal=True) for f in (gradients.of_queries, gradients.of_keys))
    golden(gradients.mma(of_queries, warps=4).cuda("sm_80"), "schedules/attention_of_queries_mma.cu")
    golden(gradients.mma(of_keys, warps=4).cuda("sm_80"), "schedules/attention_of_keys_mma.cu")
    golden(gradients.wgmma(of_keys).cuda("sm_90a"), "schedules/attention_of_keys_wgmma.cu")
    sums = fi.tensor(1, 2, 500, 64, name="sums")
    of_all = gradients.of_all(*four, *rows, sums, causal=True, out=("f16", "f16", fi.inplace("sums")))
    golden(gradients.at_once(of_all).cuda("sm_90a"), "schedules/attention_of_all.cu")


@pytest.mark.parametrize(
    ("preset", "sizes", "group", "dtype"),
    [
        ("mma", (40, 50, 32, 32), 2, "float16"),
        ("wgmma", (64, 70, 64, 64), 1, "float16"),
        ("squares", (20, 30, 8, 8), 1, "float32"),
    ],
)
def test_dropout(preset: str, sizes: tuple[int, int, int, int], group: int, dtype: str) -> None:
    """Forward and both gradients drop the weights that Philox in NumPy drops."""
    i, j = places(*sizes[:2])
    check(preset, sizes, group, dtype, j <= i + 30, dropout=0.25, mask=lambda i, j: j <= i + 30)


@pytest.mark.parametrize("depth", [64, 128])
def test_dropout_compiles_without_spills(depth: int) -> None:
    seed = fi.tensor(3, dtype="i32", name="seed")
    heads = [fi.tensor(2, 4, 4096, depth, dtype="bf16") for _ in range(4)]
    rows = [fi.tensor(2, 4, 4096, dtype="f32") for _ in range(2)]
    for spec, presets in (
        (schedules.attention(*heads[:3], dropout=0.1, seed=seed), schedules),
        (gradients.of_keys(*heads, *rows, dropout=0.1, seed=seed), gradients),
    ):
        assert presets.wgmma(spec).compile("sm_90a").resources.spills == 0


@pytest.mark.parametrize("line", [101, 104])
def test_sums_in_padded_lines(line: int) -> None:
    """Lines that start at multiples of 16 bytes are read by bulk copies, whatever the number of queries."""
    given = arrays((101, 70, 64, 64), 1, "float16")
    want = wanted(given, np.full((101, 70), True))
    described = [fi.tensor(*x.shape, dtype="f16", name=n) for n, x in given.items()]
    rows = [fi.tensor(1, 2, 101, dtype="f32", strides=(2 * line, line, 1), name=n) for n in ("lse", "delta")]
    schedule = gradients.wgmma(gradients.of_keys(*described, *rows), groups=1, chunk=32)
    assert ("&lse_map" in schedule.cuda("sm_90a")) == (line == 104)
    sums = []
    for name in ("lse", "delta"):
        whole = np.full((1, 2, line), np.nan, np.float32)
        whole[..., :101] = want[name]
        sums.append(whole[..., :101])
    made = list(schedule.simulate(*given.values(), *sums).arrays.values())
    np.testing.assert_allclose(made[0], want["dk"], rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(made[1], want["dv"], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(
    ("depth", "options", "read", "chunks"),
    [
        (64, {}, "", (128, 64)),
        (64, {"dropout": 0.1}, "seed", (64, 32)),
        (128, {"score": lambda s: 20 * fi.tanh(s / 20)}, "", (64, 32)),
        (128, {"score": lambda s, i, j, bias: s + bias[i, j]}, "bias", (48, 32)),
        (128, {"score": lambda s, h, slope: s * slope[h]}, "slope", (64, 64)),
    ],
)
def test_chunks_leave_registers_for_functions_and_dropout(
    depth: int, options: dict[str, Any], read: str, chunks: tuple[int, int]
) -> None:
    four = [fi.tensor(2, 64, 512, depth, dtype="bf16") for _ in range(4)]
    rows = [fi.tensor(2, 64, 512, dtype="f32") for _ in range(2)]
    shapes = {"bias": (512, 512), "slope": (64,), "seed": (3,)}
    given = {read: fi.tensor(*shapes[read], dtype="i32" if read == "seed" else "f32", name=read)} if read else {}
    for of, chunk in zip((gradients.of_queries, gradients.of_keys), chunks, strict=True):
        schedule = gradients.wgmma(of(*four, *rows, **options, **given))
        assert schedule.name.endswith(f"x{chunk}_bf16")
        assert schedule.compile("sm_90a").resources.spills == 0
