"""Attention's presets: right at sizes of every kind, on data built to hurt, and compiled without spills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.algebra.expr import Var, evaluate
from fireiron.atoms.regroup import REGROUP_PAIRS
from fireiron.atoms.table import find, regrouping
from fireiron.base.errors import FireironError
from fireiron.jit import nvrtc12
from fireiron.schedules import attention as schedules
from fireiron.schedules._heads import longest_first
from fireiron.verify.reference import reference
from fireiron.verify.verification import Data, verify
from tests.schedules.around import AROUND, around

OLD = pytest.mark.skipif(nvrtc12.find() is None, reason=f"NVRTC 12 is not installed: {nvrtc12.INSTALL}")


def heads(queries: int, keys: int, depth: int, width: int, dtype: str = "f16", **options: Any) -> Any:
    q, k, v = (fi.tensor(1, 2, n, d, dtype=dtype) for n, d in ((queries, depth), (keys, depth), (keys, width)))
    return schedules.attention(q, k, v, **options)


def right(schedule: Any) -> None:
    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(
    ("sizes", "dtype", "causal"),
    [
        ((64, 64, 64, 64), "f16", False),
        ((37, 90, 64, 64), "bf16", True),
        ((90, 37, 32, 64), "f16", True),  # the first queries see no key
        ((17, 70, 128, 128), "f16", False),
        ((20, 40, 96, 32), "f16", False),
        ((20, 50, 24, 72), "f16", True),  # columns are 8 more than a multiple of 16
    ],
)
def test_mma(sizes: tuple[int, int, int, int], dtype: str, causal: bool) -> None:
    right(schedules.mma(heads(*sizes, dtype, causal=causal), warps=2, keys=32, stages=2 + causal))


@pytest.mark.parametrize(
    ("sizes", "dtype", "causal", "slack"),
    [
        ((70, 64, 64, 64), "bf16", False, 0.0),
        ((64, 90, 32, 64), "f16", True, 15.0),
        ((90, 37, 128, 128), "bf16", True, 24.0),  # the first queries see no key
        ((40, 50, 72, 96), "f16", False, 15.0),
    ],
)
def test_mma_of_32_queries_a_warp(sizes: tuple[int, int, int, int], dtype: str, causal: bool, slack: float) -> None:
    spec = heads(*sizes, dtype, causal=causal)
    right(schedules.mma(spec, warps=2, rows=32, keys=32, slack=slack))


@pytest.mark.parametrize(
    ("queries", "depth", "arch", "plan"),
    [
        (12288, 64, "sm_90a", {"warps": 4, "rows": 32, "keys": 64, "stages": 3}),
        (12288, 64, "sm_86", {"warps": 4, "rows": 32, "keys": 64, "stages": 2}),
        (12288, 128, "sm_90a", {"warps": 4, "rows": 32, "keys": 64, "stages": 2, "slack": 24.0}),
        # Two blocks of longer chunks exceed the shared memory of a multiprocessor; on sm_86, blocks of any chunks.
        (12288, 128, "sm_80", {"warps": 4, "rows": 32, "keys": 48, "stages": 2, "slack": 24.0}),
        (12288, 128, "sm_86", {"warps": 8, "rows": 16, "keys": 64, "stages": 2}),
        (12288, 256, "sm_90a", {"warps": 4, "rows": 16, "keys": 64, "stages": 2}),
        # 64 blocks of 128 queries would leave multiprocessors idle.
        (4096, 128, "sm_90a", {"warps": 4, "rows": 16, "keys": 64, "stages": 2}),
    ],
)
def test_mma_chooses_by_shared_memory_and_blocks(queries: int, depth: int, arch: str, plan: dict[str, Any]) -> None:
    spec = heads(queries, 4096, depth, depth, "bf16", arch=arch)
    assert schedules.mma(spec) == schedules.mma(spec, **plan)


def test_mma_has_shorter_chunks_beside_functions() -> None:
    spec = heads(12288, 4096, 128, 128, "bf16", arch="sm_90a", score=lambda s: 20 * fi.tanh(s / 20))
    assert schedules.mma(spec) == schedules.mma(spec, warps=4, rows=32, keys=32, stages=2, slack=24.0)


@pytest.mark.parametrize(
    ("sizes", "dtype", "causal"),
    [
        ((130, 100, 64, 64), "f16", True),
        ((64, 70, 128, 128), "bf16", False),
        ((70, 90, 32, 32), "bf16", True),  # rows of 64 bytes
        ((64, 64, 48, 80), "f16", False),  # of 96 and of 160
    ],
)
def test_wgmma(sizes: tuple[int, int, int, int], dtype: str, causal: bool) -> None:
    right(schedules.wgmma(heads(*sizes, dtype, causal=causal), groups=2 if causal else 1, keys=64))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("bulk_store", [False, True])
def test_wgmma_whichever_way_tiles_and_results_go(persistent: bool, bulk_store: bool) -> None:
    spec = heads(150, 75, 64, 64, "f16", causal=True)
    right(schedules.wgmma(spec, groups=1, keys=32, persistent=persistent, bulk_store=bulk_store))


@pytest.mark.parametrize(
    ("sizes", "causal"),
    [
        ((64, 64, 64, 64), False),
        ((37, 90, 64, 64), True),
        ((90, 37, 32, 64), True),
        ((17, 70, 128, 128), False),
        ((33, 40, 192, 160), False),  # of values in two parts, each with all scores
    ],
)
def test_volta(sizes: tuple[int, int, int, int], causal: bool) -> None:
    right(schedules.volta(heads(*sizes, causal=causal), warps=1 + (sizes[0] > 64)))


@OLD
@pytest.mark.parametrize(("depth", "width", "causal"), [(64, 64, True), (128, 128, False), (256, 256, False)])
def test_volta_compiles_without_spills(depth: int, width: int, causal: bool) -> None:
    found = schedules.volta(heads(4096, 4096, depth, width, causal=causal)).compile("sm_70", cache=False).resources
    assert (found.stack, found.spills, found.warnings) == (0, 0, ())


def test_quad_pairs_exchange_weights_between_two_lanes() -> None:
    """A word of a sum's two columns goes to the thread that has their row as a factor; the other word stays."""
    src, dst = (REGROUP_PAIRS.operand(role).layout for role in ("src", "dst"))
    sums = find("mma.m8n8k4.row.col.f32.f16").operand("C").layout
    assert regrouping(find("mma.m8n8k4.row.row.f32.f16").operand("A")) == (REGROUP_PAIRS, src)
    for t in range(8):
        assert {int(src(t + 8 * r)) for r in range(4)} == {int(sums(t + 8 * r)) for r in range(4)}
        here, there = ({int(src(x + 8 * r)) for r in range(4)} for x in (t, t ^ 2))
        wanted = {int(dst(t + 8 * r)) for r in range(4)}
        assert len(wanted & here) == len(wanted & there) == 2


def test_wgmma_of_any_length() -> None:
    n = fi.symbol("N", multiple_of=8)
    for causal in (False, True):
        arrays = (fi.tensor(1, 2, n, 128, dtype="bf16") for _ in range(3))
        schedules.wgmma(schedules.attention(*arrays, causal=causal)).cuda("sm_90a")


@pytest.mark.product
@pytest.mark.parametrize(
    ("depth", "length", "dtype", "causal"),
    [
        (64, 4096, "bf16", False),
        (64, 4096, "bf16", True),
        (64, 1024, "bf16", True),
        (64, 1024, "f16", True),
        (128, 4096, "bf16", False),
        (128, 4096, "bf16", True),
        (128, 4096, "f16", True),
        (144, 1024, "bf16", True),
        (160, 1024, "f16", True),
        (192, 1024, "bf16", True),
    ],
)
def test_wgmma_compiles_without_spills(depth: int, length: int, dtype: str, causal: bool) -> None:
    kernel = schedules.wgmma(heads(length, length, depth, depth, dtype, causal=causal)).compile("sm_90a")
    assert kernel.resources.spills == 0
    assert not kernel.resources.warnings  # ptxas tells of products that it serialises


def test_few_blocks_have_fewer_warpgroups() -> None:
    def name(batch: int, count: int, length: Any, depth: int = 64, causal: bool = False) -> str:
        arrays = (fi.tensor(batch, count, length, depth, dtype="f16") for _ in range(3))
        return schedules.wgmma(schedules.attention(*arrays, causal=causal)).name

    assert name(1, 12, 384) == "wgmma_1x1x64x128_f16"  # 72 blocks for 24
    assert name(1, 32, 384) == "wgmma_1x1x128x128_f16"  # 96 blocks for 64
    assert name(8, 12, 384) == "wgmma_1x1x192x96_f16"
    assert name(1, 12, 384, 128) == "wgmma_1x1x64x128_f16"
    assert name(1, 16, 1024, 128) == "wgmma_1x1x128x128_f16"  # 256 blocks of one warpgroup do not run at once
    assert name(1, 16, 1024, 128, causal=True) == "wgmma_1x1x64x96_f16"
    assert name(1, 12, 256, 128) == "wgmma_1x1x64x128_f16"
    assert name(1, 12, 256, 192) == "wgmma_1x1x64x112_f16"  # without speculation, a loop of one trip would spill
    assert name(1, 12, fi.symbol("N", multiple_of=8)).startswith("wgmma_1x1x128x")


def test_heads_of_16_bits_are_speculated_on() -> None:
    def votes(depth: int, dtype: str, length: int = 512, **plan: Any) -> int:
        return schedules.wgmma(heads(256, length, depth, depth, dtype), **plan).cuda("sm_90a").count("__any_sync")

    assert votes(128, "bf16") == 9  # a chunk's three, in two trips of the loop and in one ahead of it
    assert votes(128, "f16") == votes(64, "bf16", groups=2) == votes(32, "f16") == 9
    assert votes(128, "bf16", slack=24, speculate=False) == 1  # two trips in sequence would spill registers
    assert votes(128, "bf16", speculate=False) == votes(128, "bf16", slack=0) == votes(256, "bf16", slack=0) == 0
    assert votes(64, "bf16", 96 * 22, groups=3) == 6  # many keys of narrow heads


def test_sums_of_wide_heads_are_rescaled_rarely() -> None:
    def votes(depth: int, width: int, **options: Any) -> int:
        return schedules.wgmma(heads(512, 512, depth, width, "bf16", **options)).cuda("sm_90a").count("__any_sync")

    assert votes(256, 256) == votes(192, 128) == votes(192, 192, causal=True) == 1
    assert votes(256, 256, score=lambda s: 20.0 * fi.tanh(s / 20.0)) == 0  # exponentials need registers
    kernel = schedules.wgmma(heads(512, 512, 192, 192, "f16")).compile("sm_90a")
    assert kernel.resources.spills == 0


@pytest.mark.parametrize("plan", [{}, {"slack": 24.0, "speculate": False, "keys": 96}, {"keys": 96}], ids=str)
def test_relative_positions_of_keys_that_end_within_a_chunk(plan: dict[str, Any]) -> None:
    """An element exists for some points only: each of two points that are computed together has its own."""
    keys = 200
    table = fi.tensor(2, 2 * keys, name="table")
    spec = heads(keys, keys, 64, 64, "bf16", score=lambda s, h, i, j, table: s + table[h, i - j + keys], table=table)
    right(schedules.wgmma(spec, **plan))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((300, 330, 128, 128), {"mask": lambda i, j: (i - j < 90) & (j - i < 70)}),
        ((300, 300, 96, 96), {"causal": True, "mask": lambda i, j: i - j < 100}),
        ((130, 270, 192, 128), {}),
        ((200, 200, 256, 256), {"causal": True}),
    ],
    ids=["window", "causal window", "192 and 128 columns", "256 columns"],
)
def test_sums_that_are_rescaled_rarely(sizes: tuple[int, ...], options: dict[str, Any], dtype: str) -> None:
    """Scores without an order of size, and such as make each chunk outgrow the one before it."""
    right(schedules.wgmma(heads(*sizes, dtype, **options)))
    grown = heads(*sizes, dtype, **options, score=lambda s, j: s + j * 0.5)
    right(schedules.wgmma(grown, slack=15.0, speculate=False))


def test_wide_heads_take_fewer_keys_at_a_time() -> None:
    kernel = schedules.wgmma(heads(512, 512, 256, 256, "bf16")).compile("sm_90a")
    assert kernel.resources.spills == 0


def queries(sharing: int, count: int, keys: int, depth: int, width: int, dtype: str = "f16", **options: Any) -> Any:
    """Give attention of few queries of heads that share keys."""
    q = fi.tensor(1, 2, sharing, count, depth, dtype=dtype)
    k, v = (fi.tensor(1, 2, keys, n, dtype=dtype) for n in (depth, width))
    return schedules.attention.on(q="b h g i d")(q, k, v, **options)


@pytest.mark.parametrize(
    ("sizes", "dtype", "plan"),
    [
        ((4, 1, 300, 64, 64), "f16", {"ways": 2}),
        ((3, 2, 77, 32, 64), "bf16", {"ways": 3, "warps": 2}),
        ((1, 16, 130, 128, 128), "bf16", {"ways": 2, "warps": 2}),
        ((20, 2, 60, 32, 32), "f16", {"ways": 1, "warps": 1, "rows": 32}),
    ],
)
def test_decode(sizes: tuple[int, ...], dtype: str, plan: dict[str, int]) -> None:
    right(schedules.decode(queries(*sizes, dtype=dtype), **plan))


def test_warps_whose_keys_are_all_masked() -> None:
    """Their loops make no trip, and their copies of queries have landed before sums meet in the same memory."""
    spec = queries(4, 4, 250, 128, 128, mask=lambda i, j: j <= i)
    schedule = schedules.decode(spec, ways=3, warps=2, stages=2)
    shared = {b.name: b for b in schedule.lowered().buffers if b.name in ("q_sh", "o_sh")}
    assert shared["q_sh"].offset == shared["o_sh"].offset
    right(schedule)


def pages_of(sharing: int, pages: int, lines: int, **options: Any) -> Any:
    """Give attention of two batches of one query, each of a number of pages."""
    q = fi.tensor(2, 2, sharing, 1, 64, dtype="f16")
    k, v = (fi.tensor(9, 2, lines, 64, dtype="f16", name=name) for name in "kv")
    table, lengths = fi.tensor(2, pages, dtype="i32"), fi.tensor(2, dtype="i32", name="lengths")
    given = {"mask": lambda b, j, lengths: j < lengths[b], "lengths": lengths} | options
    return schedules.paged.on(q="b h g i d")(q, k, v, table, **given)


def paged_arrays(sharing: int, pages: int, lines: int) -> list[Any]:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(n, 2, m, 64)).astype(np.float16) for n, m in ((2, sharing), (9, lines), (9, lines)))
    table = rng.permutation(9)[: 2 * pages].reshape(2, pages).astype(np.int32)
    return [q[:, :, :, None], k, v, table, np.array([pages * lines, lines + 3], np.int32)]


@pytest.mark.parametrize(("lines", "plan"), [(16, {"ways": 2, "warps": 2}), (32, {"ways": 1, "warps": 2, "keys": 16})])
def test_pages(lines: int, plan: dict[str, int]) -> None:
    q, k, v, table, lengths = given = paged_arrays(4, 4, lines)
    out = schedules.decode(pages_of(4, 4, lines), **plan).simulate(*given).arrays["y"]
    for b, length in enumerate(lengths):
        keys, values = (x[table[b]].transpose(1, 0, 2, 3).reshape(2, -1, 64)[None, :, :length] for x in (k, v))
        np.testing.assert_allclose(out[b, :, :, 0], weighed(q[b : b + 1, :, :, 0], keys, values)[0], atol=3e-3)


def test_pages_that_are_not_there() -> None:
    given = paged_arrays(4, 4, 16)
    given[3][1, 0] = 9
    with pytest.raises(FireironError, match="gather-range"):
        schedules.decode(pages_of(4, 4, 16), ways=1, warps=1).simulate(*given)


def test_pages_compile() -> None:
    schedule = schedules.decode(pages_of(4, 256, 16), ways=4)
    assert schedule.compile("sm_90a").resources.spills == 0
    assert schedule.compile("sm_90a", debug=True).resources.registers


@pytest.mark.parametrize(("depth", "arch"), [(64, "sm_80"), (128, "sm_86"), (128, "sm_90a"), (256, "sm_80")])
def test_decode_compiles_without_spills(depth: int, arch: str) -> None:
    spec = queries(4, 1, 8192, depth, depth, "bf16")
    assert schedules.decode(spec).compile(arch).resources.spills == 0


def test_keys_are_shared_by_as_many_blocks_as_run_at_once() -> None:
    assert "const int way = block % 32" in schedules.decode(queries(4, 1, 65536, 128, 128)).cuda("sm_90a")
    assert "const int way" not in schedules.decode(queries(4, 1, 128, 128, 128)).cuda("sm_90a")


@pytest.mark.parametrize("causal", [False, True])
def test_simt(causal: bool) -> None:
    right(schedules.simt(heads(20, 13, 16, 8, causal=causal), rows=32))


def weighed(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) / np.sqrt(q.shape[-1])
    with np.errstate(invalid="ignore"):
        parts = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bhje->bhie", parts / parts.sum(-1, keepdims=True), v.astype(np.float64))


@pytest.mark.parametrize("preset", ["mma", "wgmma", "simt"])
def test_whole_numbers_are_exact(preset: str) -> None:
    """Keys lie at a row's maximum or far below, as many as a power of two says: every bit is compared."""
    schedule = getattr(schedules, preset)(heads(64, 96, 64, 64))
    verdict = verify(schedule, lambda data: schedule.simulate(*data.inputs, out=data.out), kinds=("exact",))
    assert verdict.word == "right", str(verdict)


HURT: dict[str, Callable[[Any, Any], None]] = {
    "zero queries": lambda q, k: q.fill(0),
    "rows that outgrow every chunk": lambda q, k: (q.fill(4), np.copyto(k, np.arange(k.shape[2])[:, None] / 8)),
    "one key of a row": lambda q, k: (q.fill(8), k.fill(-8), k[:, :, 33].fill(8)),
    "scores of -inf at first": lambda q, k: (q.fill(1), k[:, :, :40].fill(-np.inf)),
    "a score of inf": lambda q, k: (q.fill(1), k[:, :, 50].fill(np.inf)),
}


@pytest.mark.parametrize("plan", [{}, {"rows": 32, "slack": 15.0}], ids=["16 queries", "32 queries"])
@pytest.mark.parametrize("hurt", HURT)
def test_data_built_to_hurt(hurt: str, plan: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, 2, n, 32)).astype(np.float16) for n in (16, 70, 70))
    HURT[hurt](q, k)
    schedule = schedules.mma(heads(16, 70, 32, 32), warps=1, keys=32, **plan)
    out = schedule.simulate(q, k, v).arrays["y"]
    np.testing.assert_allclose(out, weighed(q, k, v), rtol=0, atol=3e-3)


SINKS: dict[str, dict[str, int]] = {
    "simt": {"rows": 32}, "mma": {"warps": 1, "keys": 32}, "wgmma": {"groups": 1, "keys": 32},
    "decode": {"ways": 2, "warps": 2},
}  # fmt: skip


@pytest.mark.parametrize("preset", SINKS)
def test_sinks(preset: str) -> None:
    """A score of each head joins the sum; a query that sees no key has zeros, and the sink's logarithm."""
    count, depth = 16, 16 if preset == "simt" else 64
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(1, 2, n, depth)).astype(np.float16) for n in (count, 70, 70))
    sinks = np.array([0.5, 400], np.float32)  # the second is far above all scores
    given = (fi.tensor(1, 2, n, depth, dtype="f16") for n in (count, 70, 70))
    spec = schedules.attention(
        *given, lse=True, mask=lambda i, j: j < i, sinks=fi.tensor(2, dtype="f32", name="sinks"), out=("f16", "f32")
    )
    made, lse = getattr(schedules, preset)(spec, **SINKS[preset]).simulate(q, k, v, sinks).out
    scores = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) / np.sqrt(depth)
    seen = np.arange(70) < np.arange(count)[:, None]
    total = np.logaddexp(np.logaddexp.reduce(np.where(seen, scores, -np.inf), -1), sinks[:, None])
    weights = np.where(seen, np.exp(scores - total[..., None]), 0)
    np.testing.assert_allclose(made, weights @ v.astype(np.float64), atol=3e-3)
    np.testing.assert_allclose(lse, total, atol=1e-3)


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("named", AROUND)
@pytest.mark.parametrize("depth", [64, 96, 128])
def test_mma_of_32_queries_a_warp_compiles_without_spills(depth: int, named: str, arch: str) -> None:
    """There are 192 blocks of 128 queries. An SM of sm_120 holds two of 64 columns only, else warps have 16 queries."""
    spec = heads(12288, 12288, depth, depth, "bf16", lse=True, arch=arch, **around(named, 2, 12288))
    schedule = schedules.mma(spec)
    assert (schedule.lowered(arch).threads == 128) == (depth == 64 or arch != "sm_120")
    assert schedule.compile(arch).resources.spills == 0


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("named", AROUND)
@pytest.mark.parametrize("depth", [64, 96, 128])
def test_wgmma_of_few_blocks_compiles_without_spills(depth: int, named: str, dtype: str) -> None:
    spec = heads(4096, 4096, depth, depth, dtype, lse=True, arch="sm_90a", **around(named, 2, 4096))
    assert schedules.wgmma(spec).compile("sm_90a").resources.spills == 0


@pytest.mark.parametrize(("columns", "dtype", "arch"), [(64, "f16", "sm_70"), (160, "f32", "sm_90a")])
def test_simt_compiles_without_spills(columns: int, dtype: str, arch: str) -> None:
    assert schedules.simt(heads(512, 512, columns, columns, dtype)).compile(arch).resources.spills == 0


def test_kernel(golden: Callable[[str, str], None]) -> None:
    golden(schedules.mma(heads(256, 1000, 64, 64), warps=4).cuda("sm_80"), "schedules/attention_mma.cu")
    of_pairs = schedules.mma(heads(12288, 4096, 128, 128, "bf16", causal=True))
    golden(of_pairs.cuda("sm_90a"), "schedules/attention_mma_of_pairs.cu")
    golden(schedules.wgmma(heads(20480, 1000, 128, 128)).cuda("sm_90a"), "schedules/attention_wgmma.cu")
    golden(schedules.volta(heads(256, 1000, 64, 64)).cuda("sm_70"), "schedules/attention_volta.cu")
    golden(schedules.decode(queries(4, 1, 8192, 128, 128)).cuda("sm_90a"), "schedules/attention_decode.cu")


def test_scale_of_unknown_depth() -> None:
    depth = fi.symbol("D", multiple_of=8)
    with pytest.raises(FireironError, match="attention-scale"):
        schedules.attention(*(fi.tensor(1, 1, 64, depth, dtype="f16") for _ in range(3)))


@pytest.mark.parametrize(("heads_", "together"), [(6, 3), (4, 1), (5, 5)])
def test_tiles_with_the_most_keys_come_first(heads_: int, together: int) -> None:
    """Blocks that take every n-th tile of causal attention have as much to do as each other."""
    tiles, blocks = 16, 5
    t = Var("t", tiles * heads_)
    order = [int(evaluate(longest_first(t, tiles, together), {"t": i})) for i in range(tiles * heads_)]
    assert sorted(order) == list(range(tiles * heads_))
    section = order[: tiles * together]
    assert {tile // tiles for tile in section} == set(range(together))
    assert [tile % tiles for tile in section] == sorted((tile % tiles for tile in section), reverse=True)
    work = [sum(tile % tiles + 1 for tile in order[b::blocks]) for b in range(blocks)]
    assert max(work) - min(work) <= tiles * (heads_ // together)


@pytest.mark.parametrize("reads", ["documents", "slopes"])
def test_functions_of_arrays_leave_registers(reads: str) -> None:
    """What a mask or a score function reads for each score takes registers: chunks are of 96 keys then."""
    heads = [fi.tensor(4, 16, 4096, 128, dtype="bf16") for _ in range(3)]
    if reads == "documents":
        spec = schedules.attention(
            *heads,
            mask=lambda b, i, j, doc: fi.equal(doc[b, i], doc[b, j]) & (j <= i),
            doc=fi.tensor(4, 4096, dtype="i32"),
        )
    else:
        spec = schedules.attention(
            *heads, causal=True, score=lambda s, h, i, j, slope: s - slope[h] * (i - j), slope=fi.tensor(16)
        )
    assert schedules.wgmma(spec).compile("sm_90a").resources.spills == 0


@pytest.mark.product
@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("mask", ["", "window"])
@pytest.mark.parametrize("score", ["soft-cap", "alibi"])
@pytest.mark.parametrize("causal", [False, True])
def test_functions_of_scores_compile_without_spills(depth: int, mask: str, score: str, causal: bool) -> None:
    options: dict[str, Any] = {"causal": causal, "score": lambda s: 20 * fi.tanh(s / 20)}
    if score == "alibi":
        options |= {"score": lambda s, h, i, j, slope: s - slope[h] * (i - j), "slope": fi.tensor(16)}
    if mask:
        options["mask"] = lambda i, j: (i - j < 512) & (j - i < 512)
    q, k, v = (fi.tensor(4, 16, 4096, depth, dtype="bf16") for _ in range(3))
    kernel = schedules.wgmma(schedules.attention(q, k, v, **options)).compile("sm_90a")
    assert kernel.resources.spills == 0
    assert ("__any_sync" in kernel.source) == (not mask or score == "alibi")  # exponentials and windows need registers


def test_a_soft_cap_takes_two_special_functions_and_a_power() -> None:
    q, k, v = (fi.tensor(4, 16, 4096, 128, dtype="bf16") for _ in range(3))
    text = schedules.wgmma(schedules.attention(q, k, v, score=lambda s: 20 * fi.tanh(s / 20))).cuda("sm_90a")
    weights = [line for line in text.splitlines() if "part_rf[" in line and "= exp2" in line]
    assert weights
    assert all(line.count("exp2_approx") == 2 and line.count("inverse_quick") == 1 for line in weights)
    assert all("tanh" not in line and "/ 2" not in line for line in weights)


def test_distances_become_floats_once_for_an_unrolled_loop() -> None:
    arrays = (fi.tensor(4, 16, 4096, 128, dtype="bf16") for _ in range(3))
    score = {"score": lambda s, h, i, j, slope: s - slope[h] * (i - j), "slope": fi.tensor(16)}
    text = schedules.wgmma(schedules.attention(*arrays, **score)).cuda("sm_90a")
    weights = [line for line in text.splitlines() if "part_rf[" in line and "= exp2" in line]
    assert weights
    for line in weights:
        first, second = line.split("(float)(")[1:]
        assert "thread" in first
        assert "thread" not in second


def test_keys_of_another_name_are_refused_where_they_are_loaded() -> None:
    q, k, v = (fi.tensor(1, 2, 64, 64, dtype="f16", name=name) for name in ("q", "keys", "v"))
    with pytest.raises(fi.FireironError) as caught:
        schedules.wgmma(schedules.attention(q, k, v), groups=1, keys=64)
    assert caught.value.code


@pytest.mark.parametrize("speculate", [True, False])
def test_terms_far_below_the_largest_become_0_where_a_loop_speculates(speculate: bool) -> None:
    """The largest term is multiplied by 0, so that the result is the other term: 2**-80, or 0 within the bound."""
    q, k, v = (np.zeros((1, 1, 64, width), fi.bf16.numpy) for width in (64, 64, 128))
    q[..., 0], k[0, 0, 5, 0], v[0, 0, 9, :] = 8.0, 80 * np.log(2.0), 1.0
    k[0, 0, :5, 0] = k[0, 0, 6:9, 0] = k[0, 0, 10:, 0] = -1000.0
    given = (("q", q), ("k", k), ("v", v))
    made = schedules.attention(*(fi.tensor(*x.shape, dtype="bf16", name=name) for name, x in given))
    schedule = schedules.wgmma(made, keys=32, slack=40.0, speculate=speculate)
    y = np.zeros_like(v)
    schedule.simulate(q, k, v, out=y)
    bounded = reference(schedule, {"q": q, "k": k, "v": v, "y": y}, {})
    exact = 2.0**-80
    assert np.allclose(bounded.value, exact, rtol=0.02)
    assert (np.asarray(y, np.float64) == 0).all() == speculate
    assert (np.abs(np.asarray(y, np.float64) - bounded.value) <= bounded.error).all()
    assert (bounded.error >= exact / 2).all() == speculate
    assert (bounded.error <= 1.1 * exact).all()
