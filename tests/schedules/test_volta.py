"""Presets of Volta: right on the simulator, quick there, compiled without spills, and printed as golden files show."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import ColMajor, FireironError, MatMul, Matrix, matmul, symbol
from fireiron.algebra.arch import arch as arch_of
from fireiron.jit import nvrtc12
from fireiron.kernel.analysis.access import accesses
from fireiron.schedules import simt, volta

Right = Callable[..., Any]
LAYOUTS = ("NN", "NT", "TN", "TT")
LATER = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
OLD = pytest.mark.skipif(nvrtc12.find() is None, reason=f"NVRTC 12 is not installed: {nvrtc12.INSTALL}")
# Every preset on the 128x128x64 problem that its rules allow.
BLOCKS: dict[str, Callable[[], Any]] = {
    "gemm": lambda: volta.gemm(matmul(128, 128, 64, "f16", layout="TN")),
    "gemm of 32x32x8": lambda: volta.gemm(matmul(128, 128, 64, "f16", layout="TN"), macro=32),
    "small": lambda: volta.small(matmul(128, 128, 64, "f16", layout="TN")),
    "listing3": lambda: volta.listing3(matmul(128, 128, 64, "f16", layout="TN", out="f32")),
    "listing5": lambda: volta.listing5(matmul(128, 128, 128, "f16", layout="TN", out="f32")),
    "tvm": lambda: volta.tvm(matmul(128, 128, 64, "f16", layout="TN", out="f32")),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_right_within_seconds(right: Right, name: str) -> None:
    start = time.process_time()
    right(BLOCKS[name]())
    assert time.process_time() - start < 3


@pytest.mark.product
@pytest.mark.parametrize("acc", ["f32", "f16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gemm(right: Right, layout: str, acc: str) -> None:
    right(volta.gemm(matmul(130, 76, 40, "f16", layout=layout, acc=acc)))
    right(volta.small(matmul(61, 45, 33, "f16", layout=layout, acc=acc)))


def test_gemm_of_symbols_and_batches(right: Right) -> None:
    m, k = symbol("M", multiple_of=8), symbol("K", multiple_of=8)
    right(volta.gemm(matmul(m, 96, k, "f16", layout="TN")), M=136, K=72)
    right(volta.small(matmul(64, 96, 40, "f16", layout="TN", batch=3)))


@pytest.mark.product
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("ways", "m", "warp"), [(2, 128, (64, 64)), (2, 64, (32, 32)), (4, 64, (64, 32))])
def test_gemm_split_over_groups_of_warps(right: Right, layout: str, ways: int, m: int, warp: tuple[int, int]) -> None:
    schedule = volta.gemm(matmul(m, m, 256, "f16", layout=layout), m, m, 32, warp, ways=ways)
    assert f"Reduce({ways})" in schedule.cuda()
    right(schedule)
    operands = [row for row in accesses(schedule.lowered()) if row.buffer in ("a_sh", "b_sh")]
    assert {row.conflicts for row in operands} == {1.0}


@pytest.mark.product
@pytest.mark.parametrize("macro", [16, 32])
@pytest.mark.parametrize("acc", ["f32", "f16"])
@pytest.mark.parametrize("out", ["f16", "f32"])
def test_stores_have_16_bytes_and_meet_no_bank_conflicts(right: Right, out: str, acc: str, macro: int) -> None:
    """Pairs, or lines of four, of a thread's sums become vectors of 16 bytes by an exchange in shared memory."""
    for n in (64, 128):
        schedule = volta.gemm(matmul(64, n, 64, "f16", layout="TN", out=out, acc=acc), 64, n, 32, (32, 64), macro)
        right(schedule)
        rows = {(row.buffer, row.direction): row for row in accesses(schedule.lowered("sm_70"))}
        stored = rows["acc_sh", "write"], rows["acc_sh", "read"]
        assert {row.conflicts for row in stored} == {1.0}
        assert "copy_16B(&C[" in schedule.cuda("sm_70")
    crossed = MatMul(Matrix(40, 24, "f16"), Matrix(24, 50, "f16"), Matrix(40, 50, out, ColMajor), acc=acc)
    right(volta.gemm(crossed, 64, 64, 32, (32, 64), macro))


@pytest.mark.product
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f16", "i8", "u8"])
def test_tvm(right: Right, dtype: str, layout: str) -> None:
    out = "f32" if dtype == "f16" else "i32"
    for knobs in ({}, {"bx": 4, "by": 32, "step_k": 4}, {"v": 16}, {"v": 4, "step_k": 1}):
        right(volta.tvm(matmul(128, 128, 64, dtype, layout=layout, out=out), **knobs))


@pytest.mark.parametrize(("dtype", "k"), [("i4", 128), ("u4", 64), ("b1", 512)])
def test_tvm_of_packed_elements(right: Right, dtype: str, k: int) -> None:
    schedule = volta.tvm(matmul(64, 64, k, dtype, layout="TN"))
    assert f"wmma_m8n8k{128 if dtype == 'b1' else 32}" in schedule.cuda("sm_75")
    right(schedule)
    right(volta.tvm(matmul(32, 32, k, dtype, layout="TN"), bx=4, by=32, step_k=1, v=32))


@pytest.mark.parametrize(("dtype", "bits"), [("i4", 4), ("b1", 1)])
def test_tvm_takes_words_packed_from_the_highest_bits(dtype: str, bits: int) -> None:
    """TVM's tutorial packs the first element into the highest bits of a word: A and B have the same order along K."""
    m, n, k, count = 16, 16, 256, 32 // bits
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8 if bits == 4 else 0, 8 if bits == 4 else 2, (rows, k)) for rows in (m, n))
    shifts = np.arange(count - 1, -1, -1) * bits
    words = ((x.reshape(-1, k // count, count) & (1 << bits) - 1) << shifts for x in (a, b))
    packed = [x.sum(-1).astype(np.uint32).view(np.int8 if bits == 4 else np.uint8) for x in words]
    wanted = a @ b.T if bits == 4 else (a[:, None] != b).sum(-1)
    made = volta.tvm(matmul(m, n, k, dtype, layout="TN"), bx=8, by=16).simulate(*packed)
    np.testing.assert_array_equal(made.out, wanted)


@pytest.mark.parametrize(("columns", "rows"), [(8, 32), (32, 8)])
@pytest.mark.parametrize("dtype", ["f16", "i8"])
def test_tvm_of_other_fragments(right: Right, dtype: str, columns: int, rows: int) -> None:
    out = "f32" if dtype == "f16" else "i32"
    schedule = volta.tvm(matmul(64, 64, 32, dtype, layout="TN", out=out), warp_tile_m=columns)
    assert f"wmma_m{rows}n{columns}k16" in schedule.cuda("sm_75")
    right(schedule)


@pytest.mark.parametrize(
    ("size", "dtype", "fragment"), [((100, 75, 33), "f16", None), ((48, 48, 20), "i8", None), ((64, 64, 32), "f16", 64)]
)
def test_tvm_falls_back_to_cuda_cores(right: Right, size: Any, dtype: str, fragment: int | None) -> None:
    out = "f32" if dtype == "f16" else "i32"
    schedule = volta.tvm(matmul(*size, dtype, layout="NT", out=out), warp_tile_m=fragment)
    assert "wmma" not in schedule.cuda("sm_75")
    right(schedule)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_listing3(right: Right, layout: str) -> None:
    right(volta.listing3(matmul(128, 64, 48, "f16", layout=layout, out="f32")))


def test_listing5_holds_69632_bytes_of_operands(right: Right) -> None:
    schedule = volta.listing5(matmul(256, 128, 256, "f16", layout="TN", out="f32"))
    shared = {b.name: b.nbytes for b in schedule.lowered().buffers if b.memory.name == "SH"}
    assert shared["a_sh"] + shared["b_sh"] == 69632
    assert schedule.lowered().shared_nbytes == 69632  # the staging of C overlays them
    right(schedule)
    right(volta.listing5(matmul(256, 128, 256, "f16", layout="TN")))


def compiled(schedule: Any, arch: str) -> None:
    found = schedule.compile(arch, cache=False).resources
    assert (found.stack, found.spill_stores, found.spill_loads, found.warnings) == (0, 0, 0, ())


@OLD
@pytest.mark.parametrize("name", BLOCKS)
def test_compiles_for_volta_without_spills(name: str) -> None:
    compiled(BLOCKS[name](), "sm_70")


@OLD
def test_gemm_becomes_tensor_core_instructions() -> None:
    ptx = volta.gemm(matmul(128, 128, 64, "f16", layout="TN")).compile("sm_70", cache=False).ptx
    # 16 macro tiles of 64x64, two steps of k = 4 in each, four of k = 8 in a chunk; only chunks are looped over.
    assert ptx.count("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32") == 16 * 2 * 4


@pytest.mark.exhaustive
@OLD
@pytest.mark.parametrize("arch", ["sm_70", "sm_72"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gemm_compiles_in_every_layout(layout: str, arch: str) -> None:
    compiled(volta.gemm(matmul(512, 512, 256, "f16", layout=layout), ways=2), arch)
    for macro in (16, 32):
        for acc in ("f32", "f16"):
            compiled(volta.gemm(matmul(512, 512, 256, "f16", layout=layout, acc=acc), macro=macro), arch)
    compiled(volta.small(matmul(512, 512, 256, "f16", layout=layout)), arch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", LATER)
@pytest.mark.parametrize("name", [name for name in BLOCKS if not name.startswith("gemm")])
def test_compiles_for_later_ones(name: str, arch: str) -> None:
    # The large tiles of quad-pairs are left out: where the instruction is emulated, it takes registers of its own.
    schedule = BLOCKS[name]()
    if schedule.lowered().shared_nbytes <= arch_of(arch).shared_per_block:
        compiled(schedule, arch)


def test_listing5_does_not_fit_turing() -> None:
    with pytest.raises(FireironError) as caught:
        BLOCKS["listing5"]().compile("sm_75")
    assert caught.value.code == "shared-memory"


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden(volta.small(matmul(256, 256, 128, "f16", layout="TN")).cuda("sm_70"), "schedules/volta_small.cu")
    golden(volta.listing3(matmul(256, 256, 128, "f16", layout="TN", out="f32")).cuda(), "schedules/volta_listing3.cu")
    golden(volta.listing5(matmul(256, 256, 128, "f16", layout="TN", out="f32")).cuda(), "schedules/volta_listing5.cu")


@OLD
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "f64"])
def test_cuda_core_presets_compile_for_volta(dtype: str) -> None:
    compiled(simt.sgemm(matmul(256, 256, 64, dtype)), "sm_70")
