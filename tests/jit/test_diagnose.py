"""What the compiler holds against a kernel: an error at the link whose tile takes the registers, or a finding."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    FireironError,
    Matrix,
    Thread,
    Warp,
    Warpgroup,
    matmul,
    microkernel,
    scale,
    tensor,
    tma,
)
from fireiron.algebra.arch import arch
from fireiron.jit.cache import usage
from fireiron.jit.compile import compile_source
from fireiron.jit.diagnose import complaints, placed
from fireiron.jit.resources import Resources
from fireiron.schedules import attention, hopper, simt

HOPPER = arch("sm_90a")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))


def crowded() -> Any:
    """Give a thread 80 registers of tensors and a block a third of an SM, which leaves nothing for addresses."""
    return (
        matmul(1024, 1024, 1024).tile(128, 128).to(Block, resident=3).epilog(memory=RF)
        .split(8).load(A, SH).load(B, SH)
        .tile(64, 32).to(Warp).tile(8, 8).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def wide() -> Any:
    """Give a warpgroup 224 registers of accumulators of the 240 that its role has."""
    return (
        matmul(512, 448, 512, "f16", layout="TN").tile(256, 224).to(Block).persistent().epilog(memory=FR)
        .split(64).pipeline(3, inflight=1).specialize(registers=(24, 240))
        .load(A, SH, tma()).load(B, SH, tma())
        .tile(128, 224).to(Warpgroup).split(16).unroll().tile(64, 224).unroll().done()
    )  # fmt: skip


def wanders() -> Any:
    """Index registers at run time, in a microkernel: the compiler puts them on the stack."""
    source = """
        float t[16];
        for (int i = 0; i < 16; ++i) t[i] = A[i % K * A_col] * B[i % K * B_row];
        int at = (int)t[3] & 15;
        for (int k = 0; k < K; ++k) { t[at] += A[k * A_col] * B[k * B_row]; at = (int)(t[at] * 3) & 15; }
        C[0] = t[at];
    """
    return matmul(64, 64, 16).tile(32, 32).to(Block).tile(1, 1).to(Thread).done(microkernel(source, None, "wanders"))


def refused(schedule: Any, **options: Any) -> FireironError:
    with pytest.raises(FireironError) as caught:
        schedule.compile("sm_90a", **options)
    assert usage()[0] == 0  # what is refused is not cached either
    return caught.value


def test_spills_name_the_tensor_and_its_tile() -> None:
    error = refused(crowded())
    assert (error.code, error.underlined) == ("spills", "to(Thread)")
    assert error.message.startswith("registers run out on sm_90a: a thread spills ")
    assert error.message.endswith(
        "; acc of MatMul(8, 8, 8)(SH, SH, RF)(Thread) takes 64 registers of a thread, "
        "sm_90a gives each of 256 threads at most 80"
    )
    assert "tile 8x8 to Thread" in error.path
    assert "compile(allow_spills=True) makes this a finding" in error.fix


def test_accumulators_beyond_what_ptxas_pipelines_name_their_tile_and_budget() -> None:
    error = refused(wide())
    assert (error.code, error.underlined) == ("wgmma-serialised", "to(Warpgroup)")
    assert "(C75" in error.message
    assert error.message.endswith(
        "acc of MatMul(128, 224, 64)(SH, SH, FR)(Warpgroup) takes 224 registers of a thread, its role math has 240"
    )
    assert "tile 128x224 to Warpgroup" in error.path
    assert error.fix.startswith("keep less in registers")


def test_an_instruction_that_wants_more_than_the_launch_gives_names_its_tile() -> None:
    error = refused(hopper.gemm(matmul(4096, 4096, 4096, "f16", layout="TN"), hopper.Plan(192, 256, 3)))
    assert (error.code, error.underlined) == ("wgmma-registers", "to(Warpgroup)")
    assert "launch of so many threads gives each 128" in error.message
    assert "acc of MatMul(64, 256, 64)(SH, SH, FR)(Warpgroup) takes 128 registers of a thread" in error.message
    # No option helps: there is no machine code.
    assert (
        refused(
            hopper.gemm(matmul(4096, 4096, 4096, "f16", layout="TN"), hopper.Plan(192, 256, 3)), allow_spills=True
        ).code
        == "wgmma-registers"
    )


def test_registers_without_addresses_are_an_error_at_the_chain_that_wants_them() -> None:
    error = refused(wanders())
    assert error.code == "stack"
    assert error.message.startswith("a thread's tensors take ")


@pytest.mark.parametrize(
    ("build", "codes"), [(crowded, {"spills"}), (wide, {"wgmma-serialised", "spills"}), (wanders, {"stack"})]
)
def test_allowed_they_are_findings(build: Any, codes: set[str]) -> None:
    kernel = build().compile("sm_90a", allow_spills=True)
    assert {f.code for f in kernel.findings} == codes
    assert {f.severity for f in kernel.findings} == {"warning"}
    assert kernel.resources.stack > 0
    assert usage()[0] == 0
    assert refused(build()).code in codes  # allowing them once allows them no other time


def short_of_registers_by_choice() -> Any:
    """Attention of 8-bit floats, which ptxas gives 72 registers and spills 16 B of, though 64 threads may have 255."""
    q, k, v = (tensor(2, 3, n, 32, dtype="e4m3") for n in (33, 70, 70))
    scales = {name: tensor(3, name=name) for name in ("q_scale", "k_scale", "v_scale")}
    return attention.simt(attention.attention(q, k, v, out="bf16", causal=True, **scales))


def test_a_kernel_that_spills_though_registers_are_left_is_compiled_for_one_block_of_an_sm() -> None:
    schedule = short_of_registers_by_choice()
    left_free = compile_source(schedule.cuda("sm_90a"), schedule.lowered("sm_90a").name, arch("sm_90a"))
    kernel = schedule.compile("sm_90a")
    assert kernel.findings == ()
    assert kernel.resources.registers >= left_free.resources.registers
    assert "__launch_bounds__(64, 1)" in kernel.source or not left_free.resources.spills


def test_a_clean_kernel_has_no_findings() -> None:
    schedule = hopper.gemm(matmul(512, 512, 512, "f16", layout="TN"))
    assert schedule.compile("sm_90a").findings == schedule.compile("sm_90a", allow_spills=True).findings == ()


def test_advisories_are_told_apart() -> None:
    log = "\n".join(
        (
            "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum requirements",
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized",
            "ptxas info    : (C7602) this one is fatal, and not of these",
        )
    )
    found = list(complaints(log, Resources(32, stack=8), HOPPER))
    assert [f.code for f in found] == ["setmaxnreg-ignored", "wgmma-serialised", "stack"]
    assert [f.code for f in complaints("", Resources(32, 16, 8, 8), HOPPER)] == ["spills"]
    assert not list(complaints("", Resources(32), HOPPER))


LOST = "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "


def test_a_fence_or_a_wait_that_ptxas_adds_is_no_complaint() -> None:
    """With NVRTC 13.0 they cost one instruction each, and as many products are in flight as without."""
    log = "\n".join(
        (
            "ptxas info    : (C7519) warpgroup.arrive is injected in around line 256 by compiler to allow use of "
            "registers in GMMA in function 'f'",
            "ptxas info    : (C7517) warpgroup.wait is injected in around line 300 by compiler to allow use of "
            "registers defined by GMMA in function 'f'",
        )
    )
    assert not list(complaints(log, Resources(32), HOPPER))


@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        ("insufficient register resources for the wgmma pipeline", "keep less in registers"),
        ("non wgmma instructions defining input registers of a wgmma", "load A to shared memory"),
        ("the presence of Extern calls", "call no function"),
        ("wgmma pipeline crossing function boundary at a function call", "call no function"),
        ("non wgmma instructions reading accumulator registers of  a wgmma", "let nothing read or write"),
    ],
)
def test_serialised_products_name_a_fix_by_their_cause(cause: str, fix: str) -> None:
    (found,) = complaints(LOST + cause, Resources(32), HOPPER)
    assert found.code == "wgmma-serialised"
    assert found.fix.startswith(fix)


def by_rows(inflight: int, staggered: bool) -> Any:
    """Give a product whose rows are scaled behind its sums."""
    chain = matmul(256, 256, 64, "f16", layout="TN").tile(128, 128).to(Block).persistent()
    chain = chain.epilog(scale(Matrix(256, 1, name="by")), memory=FR).split(64).pipeline(3, inflight=inflight)
    chain = chain.specialize().load(A, SH, tma(128)).load(B, SH, tma(128)).tile(128, 128).to(Warpgroup)
    chain = chain.staggered(2) if staggered else chain
    return chain.split(16).unroll().tile(64, 128).unroll().done()


@pytest.mark.parametrize(
    ("inflight", "staggered", "fix"),
    [
        (1, False, "wait for each chunk's products before the next chunk: pipeline(n, inflight=0)"),
        (0, True, "let warpgroups run without turns: drop staggered(n)"),
        (0, False, "let nothing read or write the accumulators between a product and its wait"),
    ],
)
def test_sums_that_are_read_in_flight_name_the_choice_that_keeps_them_there(
    inflight: int, staggered: bool, fix: str
) -> None:
    kernel = by_rows(inflight, staggered).lowered()
    (found,) = complaints(LOST + "non wgmma instructions reading accumulator registers", Resources(32), HOPPER)
    told = placed(found, kernel, HOPPER)
    assert told.fix == fix + "; compile(allow_spills=True) makes this a finding"
    assert told.link is not None


def test_a_cap_of_registers_holds_and_is_named() -> None:
    schedule = simt.sgemm(matmul(512, 512, 512))
    free = schedule.compile("sm_80", cache=False).resources.registers
    assert free > 160
    capped = schedule.compile("sm_80", max_registers=160, cache=False, allow_spills=True)
    assert capped.resources.registers <= 160
    with pytest.raises(FireironError, match="max_registers=64 is the cap") as caught:
        schedule.compile("sm_80", max_registers=64, cache=False)
    assert caught.value.code == "spills"


def test_a_cap_above_what_launch_bounds_allow_is_none() -> None:
    """1024 threads have 64 registers each: code of 200 would never launch."""
    chain = matmul(256, 256, 64).tile(128, 128).to(Block).epilog().split(8).load(A, SH).load(B, SH)
    schedule = chain.tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    assert schedule.lowered().threads == 1024
    assert schedule.compile("sm_80", max_registers=200, cache=False).resources.registers <= 64
