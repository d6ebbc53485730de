"""Presets that split K over groups of warps and over blocks: right, without spills, printed as golden files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import RF, SH, A, B, Block, Thread, Warp, Warpgroup, by_atomics, matmul, scale, staged, symbol
from fireiron.schedules import ampere, simt

Right = Callable[..., Any]
SMALL: dict[str, Any] = {"m": 64, "n": 64, "warp": (32, 32), "stages": 3}


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("ways", "split_k"), [(2, 1), (4, 1), (1, 3), (2, 2)])
def test_ampere_in_every_layout(right: Right, layout: str, ways: int, split_k: int) -> None:
    for size in ((72, 136, 200), (64, 64, 24)):
        right(ampere.gemm(matmul(*size, "f16", layout=layout), ways=ways, split_k=split_k, **SMALL))


@pytest.mark.parametrize("dtype", ["bf16", "i8", "u8", "f64"])
def test_ampere_for_every_dtype(right: Right, dtype: str) -> None:
    right(ampere.gemm(matmul(61, 45, 99, dtype), ways=2, split_k=2, **SMALL))


def test_ampere_eight_ways(right: Right) -> None:
    right(ampere.gemm(matmul(64, 64, 300, "f16", layout="TN"), m=32, n=64, warp=(32, 32), stages=2, ways=8))


def test_ampere_of_any_size(right: Right) -> None:
    sizes = (symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=8))
    schedule = ampere.gemm(matmul(*sizes, "f16"), ways=2, split_k=3, **SMALL)
    for m, n, k in ((40, 56, 136), (1, 8, 8), (65, 72, 520)):
        right(schedule, M=m, N=n, K=k)


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90a"])
def test_ways_take_the_threads_and_the_memory_of_one(arch: str) -> None:
    """Whatever the ways: 256 threads at most, and shared memory that every architecture has, but for f64 in eight."""
    for dtype in ("i8", "f16", "f64"):
        for ways in (1, 2, 4, 8) if dtype != "f64" or arch != "sm_86" else (1, 2, 4):
            kernel = ampere.gemm(matmul(512, 512, 1024, dtype, layout="TN"), ways=ways).lowered(arch)
            assert kernel.threads <= 256
            assert kernel.shared_nbytes <= (104 << 10 if (dtype, ways) == ("f64", 8) else 99 << 10)


@pytest.mark.parametrize(("ways", "split_k"), [(2, 1), (1, 4), (2, 2)])
def test_sgemm(right: Right, ways: int, split_k: int) -> None:
    right(simt.sgemm(matmul(130, 60, 70), ways=ways, split_k=split_k))
    right(simt.sgemm(matmul(130, 60, 70, batch=2), ways=ways, split_k=split_k))
    right(simt.sgemm(matmul(130, 60, 70), ways=ways, split_k=split_k, ahead=3))


def test_swizzled_chunks_of_several_ways_meet_no_conflicts() -> None:
    for layout in ("NN", "NT", "TN", "TT"):
        for ways in (1, 2, 4):
            rows = ampere.gemm(matmul(256, 256, 512, "f16", layout=layout), ways=ways, **SMALL).facts("sm_80").rows
            assert {r.buffer for r in rows if r.memory == "SH"} >= {"a_sh", "b_sh"}
            assert all(r.degree == 1 for r in rows if r.memory == "SH")


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_compiles_without_spills(layout: str, arch: str) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    f16 = matmul(512, 512, 1024, "f16", layout=layout)
    f32 = matmul(510, 509, 1023, layout=layout)
    for schedule in (
        ampere.gemm(f16, ways=2),
        ampere.gemm(f16, split_k=4),
        ampere.gemm(f16, ways=4, split_k=2, **SMALL),
        ampere.gemm(f16, ways=2, split_k=4),
        ampere.gemm(f16, ways=4),
        ampere.gemm(f16, ways=8),
        ampere.gemm(matmul(512, 512, 1024, "i8", layout="TN", out="i8"), ways=2, ops=(scale(0.01),)),
        ampere.gemm(matmul(512, 512, 1024, "f64", layout="TN"), ways=2, split_k=2),
        simt.sgemm(f32, ways=2),
        simt.sgemm(f32, split_k=4),
    ):
        resources = schedule.compile(arch, cache=False).resources
        assert (resources.stack, resources.spill_stores, resources.spill_loads, resources.warnings) == (0, 0, 0, ())


def test_a_block_without_a_part_of_k_is_noted() -> None:
    found = [f for f in ampere.gemm(matmul(64, 64, 128, "f16"), split_k=3).check("sm_80") if f.code == "idle-units"]
    assert [f.message for f in found] == ["1 of 3 units of Block have no part of K: chunks of 64 leave 2 of 128"]
    assert not [f for f in ampere.gemm(matmul(64, 64, 192, "f16"), split_k=3).check("sm_80") if f.code == "idle-units"]


def atomics() -> Any:
    return (
        matmul(64, 64, 96).tile(32, 32).to(Block).epilog(memory=RF)
        .split(ways=3, multiple_of=8).parallel(Block, reduce=by_atomics())
        .split(8).pipeline(2).load(A, SH, staged()).load(B, SH, staged())
        .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def ways() -> Any:
    return (
        matmul(64, 64, 96).tile(32, 32).to(Block).epilog(memory=RF)
        .split(32).pipeline(2).load(A, SH, staged()).load(B, SH, staged())
        .split(8).parallel(Warpgroup)
        .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def test_atomics_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(atomics().cuda(80), "schedules/split_k_atomics.cu")


def test_wide_atomics_as_printed() -> None:
    assert "add_f32x4(&partial[" in atomics().cuda(90)
    assert "add_f32x4" not in atomics().cuda(80)


def test_blocks_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(ampere.gemm(matmul(512, 512, 4096, "f16", layout="TN"), split_k=3).cuda(80), "schedules/split_k_blocks.cu")


def test_ways_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(ways().cuda(80), "schedules/split_k_ways.cu")


def test_the_tree(golden: Callable[[str, str], None]) -> None:
    schedule = ampere.gemm(matmul(512, 512, 4096, "f16", layout="TN"), ways=2, split_k=3)
    golden(str(schedule.tree()), "show/tree_split_k.txt")


def test_an_explanation_says_who_adds() -> None:
    rows = {row.link: row for row in ways().explain().rows}
    assert rows["split 8 parallel Warpgroup"].emits == (
        "4 chunks along K, one a warpgroup; their sums meet in SH, and are added in order; each ends with a share of "
        "the tile"
    )
    assert rows["split 8 parallel Warpgroup"].lines
    rows = {row.link: row for row in atomics().explain().rows}
    assert rows["split 3 ways parallel Block by atomics"].emits == (
        "3 chunks along K, one a block: 3 blocks share each tile; their sums meet in the workspace by atomics, in the "
        "order of arrival; the last block finishes the tile"
    )
    # A block loads its own third alone.
    assert str(rows["load A to SH"].traffic).startswith("1 KiB at a time, 4 KiB a block from GL")


def test_names_say_the_split() -> None:
    assert ampere.gemm(matmul(512, 512, 512, "f16"), ways=2, split_k=3).name == "gemm_128x128x64_k3_per32_f16_f32"
    assert simt.sgemm(matmul(512, 512, 512)).name == "sgemm_128x128x8_f32"


def test_estimates_count_the_workspace() -> None:
    gemm = matmul(512, 512, 4096, "f16", layout="TN")
    one, four = ampere.gemm(gemm).estimate("sm_80"), ampere.gemm(gemm, split_k=4).estimate("sm_80")
    assert four.time_us < one.time_us
