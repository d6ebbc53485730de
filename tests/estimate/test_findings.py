"""Findings: the code, the link and the numbers of each."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import RF, SH, A, B, Block, Schedule, Thread, Warp, by_cluster, matmul, symbol, through_shared
from fireiron.algebra.arch import arch
from fireiron.base.errors import CheckError, Finding
from fireiron.estimate.facts import Facts, facts
from fireiron.estimate.findings import findings
from fireiron.estimate.registers import least_registers
from fireiron.kernel.analysis.access import accesses
from fireiron.schedules import ampere, hopper, simt

HOPPER = arch(90)


def only(found: Facts | tuple[Finding, ...], code: str) -> Finding:
    (one,) = (f for f in (found.findings if isinstance(found, Facts) else found) if f.code == code)
    return one


def codes(found: tuple[Finding, ...]) -> set[str]:
    return {f.code for f in found}


def big(stages: int = 2) -> Any:
    chain = matmul(4096, 4096, 4096).tile(128, 128).to(Block).epilog().split(64).pipeline(stages)
    chain = chain.load(A, SH).load(B, SH).tile(64, 32).to(Warp).tile(8, 8).to(Thread).split(1).unroll()
    return chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done()


def test_shared_memory_above_the_limit_names_the_load_that_passes_it() -> None:
    found = only(facts(big(2), arch(86)), "shared-memory")
    assert found.severity == "error"
    assert found.message == (
        "a block takes 128 KiB of shared memory, sm_86 gives 99 KiB: a_sh 64 KiB (2 slots), b_sh 64 KiB (2 slots)"
    )
    assert found.fix == "pipeline(1) fits; or use smaller tiles"
    assert found.link is not None
    assert found.link.underlined == "load(B, SH)"
    assert "load B to SH" in found.path
    assert not facts(big(2), HOPPER).errors
    assert only(facts(big(4), HOPPER), "shared-memory").fix == "pipeline(3) fits; or use smaller tiles"


def test_check_raises_the_error_at_its_link() -> None:
    with pytest.raises(CheckError) as error:
        big(2).check("sm_75")
    assert (error.value.code, error.value.underlined) == ("shared-memory", "load(B, SH)")


def test_bank_conflicts_underline_the_move_and_say_the_degree() -> None:
    found = only(facts(simt.listing2(matmul(512, 512, 512)), HOPPER), "bank-conflicts")
    assert found.severity == "warning"
    assert found.message.startswith(
        "copy.4B.SH.RF reads a_sh with bank conflicts: each request takes 8 wavefronts; 1 would be enough"
    )
    assert found.fix.startswith("load a_sh with .pad(n) or .swizzle(...)")
    assert found.link is not None
    assert found.link.underlined == "load(A, RF)"


def test_uncoalesced_stores_point_at_the_epilog() -> None:
    found = only(facts(simt.listing2(matmul(512, 512, 512)), HOPPER), "uncoalesced")
    assert found.link is not None
    assert found.link.underlined.startswith("epilog(")
    assert "each request touches 32 sectors; 16 would be enough" in found.message
    assert "through_shared" in found.fix


def test_lines_that_start_inside_sectors_are_named() -> None:
    found = facts(simt.listing2(matmul(512, 512, 513)), HOPPER).findings
    assert any(f.code == "uncoalesced" and "lines of A are 2052 B apart" in f.message for f in found)


def test_a_store_through_shared_memory_is_coalesced() -> None:
    chain = matmul(512, 512, 512).tile(64, 64).to(Block).epilog(store=through_shared(pad=4)).split(8)
    chain = chain.load(A, SH).load(B, SH).tile(32, 32).to(Warp).tile(8, 4).to(Thread).split(1).unroll()
    schedule = chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    rows = [r for r in facts(schedule, HOPPER).rows if r.memory == "GL" and r.direction == "write"]
    assert [r.degree for r in rows] == [1]


def thin(m: int, n: int, units: int | None = None) -> Any:
    chain = matmul(1024, 1024, 64).tile(m, n).to(Block).epilog().tile(16, 16).to(Thread, units=units)
    return chain.split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()


def test_registers_that_cannot_fit() -> None:
    found = only(facts(thin(32, 32), HOPPER), "registers")
    assert found.severity == "error"
    assert found.message.startswith("a thread's tensors take 288 registers at once, sm_90 gives at most 255")
    assert "acc 256" in found.message
    assert found.link is not None
    assert found.link.underlined == "epilog()"


def test_spills_are_likely_where_addresses_have_no_room() -> None:
    chain = matmul(1024, 1024, 64).tile(128, 256).to(Block).epilog().split(8).load(A, SH).load(B, SH)
    chain = chain.tile(4, 8).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll()
    found = only(facts(chain.done(), HOPPER), "spills-likely")
    assert found.severity == "warning"
    assert "44 registers" in found.message
    assert "at most 64 to each of 1024 threads" in found.message


def test_idle_threads() -> None:
    chain = matmul(1024, 1024, 64).tile(64, 64).to(Block).epilog().split(8).load(A, SH).load(B, SH)
    chain = chain.tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll()
    found = [f for f in facts(chain.done(), HOPPER).findings if f.code == "idle-threads"]
    assert [f.severity for f in found] == ["note", "note"]
    assert found[0].message.startswith("128 of 256 threads have no tile of load A to a_sh")
    assert found[0].link is not None
    assert found[0].link.underlined == "load(A, SH)"


def test_low_occupancy_names_what_limits() -> None:
    chain = matmul(1024, 1024, 1024).tile(64, 64).to(Block).epilog().split(256).load(A, SH).load(B, SH)
    chain = chain.tile(8, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll()
    found = only(facts(chain.done(), HOPPER), "low-occupancy")
    assert "4 warps (1 block of 128 threads)" in found.message
    assert "shared memory leaves no room for one more block" in found.message


@pytest.mark.parametrize(
    ("schedule", "titles"),
    [
        (ampere.gemm(matmul(4096, 4096, 4096, "f16", layout="TN")), []),  # its loads ahead end with the loop
        (ampere.gemm(matmul(4096, 4096, 4096, "f64")), []),
        (simt.listing2(matmul(1024, 4096, 500)), ["load A", "load B"]),
        (simt.listing2(matmul(1000, 4096, 512)), ["load A", "store C"]),
        (simt.listing2(matmul(symbol("M"), 512, 512)), ["load A", "store C"]),
    ],
)
def test_partial_tiles_are_those_that_sizes_cut(schedule: Schedule, titles: list[str]) -> None:
    found = [f.message for f in facts(schedule, HOPPER).findings if f.code == "partial-tiles"]
    assert [message[: len(title)] for message, title in zip(found, titles, strict=True)] == titles


def test_assumed_sizes_are_said() -> None:
    m, n = symbol("M"), symbol("N", maximum=512)
    schedule = simt.listing2(matmul(m, n, 512))
    (note,) = (f for f in schedule.check("sm_90a") if f.code == "assumed-size")
    assert note.severity == "note"
    assert note.message == (
        "checks and estimates assume M = 1024, N = 512, and presets choose tiles for M = 4096, N = 512"
    )
    assert note.fix == "make it by symbol('M', typical=...), with a size that calls have"
    known = simt.listing2(matmul(symbol("M", typical=512), 512, 512))
    assert "assumed-size" not in {f.code for f in known.check("sm_90a")}
    assert "assumed-size" not in {f.code for f in findings(schedule.lowered(), HOPPER, (), {"M": 64, "N": 64})}


def test_presets_plan_for_a_size_that_a_symbol_has() -> None:
    def tiles(size: Any) -> str:
        return str(hopper.plans(matmul(size, 4096, 4096, "bf16", layout="TN", arch="sm_90"))[0])

    assert tiles(symbol("M", maximum=64)) == tiles(64)
    assert tiles(symbol("M")) == tiles(4096)


def test_partial_tiles_and_waves_are_notes() -> None:
    found = facts(simt.listing2(matmul(1000, 4096, 512)), HOPPER).findings
    assert {f.code for f in found if f.severity == "note"} == {"partial-tiles", "slower-path"}
    wasted = only(facts(simt.listing2(matmul(2176, 2048, 512)), HOPPER), "waves")
    assert wasted.message.startswith("272 blocks are 2 waves of 264")
    few = only(facts(simt.listing2(matmul(512, 512, 512)), HOPPER), "waves")
    assert few.message == "16 blocks leave 116 of 132 SMs of the H200 SXM idle"
    kernel = simt.listing2(matmul(symbol("M"), 512, 512)).lowered()
    assert "waves" not in codes(findings(kernel, HOPPER, accesses(kernel)))
    assert "waves" in codes(findings(kernel, HOPPER, accesses(kernel), {"M": 512}))


def test_atoms_of_a_later_architecture() -> None:
    chain = matmul(512, 512, 512, "bf16").tile(32, 32).to(Block).epilog(dtype="bf16").tile(4, 4).to(Thread).split(1)
    kernel = chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done().lowered(80)
    assert only(findings(kernel, arch(75), ()), "arch").message == "fma.bf16 needs sm_80, not sm_75"
    assert "arch" not in codes(findings(kernel, arch(80), ()))


def test_errors_come_first() -> None:
    found = facts(big(4), HOPPER).findings
    assert [f.severity for f in found] == sorted((f.severity for f in found), key=["error", "warning", "note"].index)


def test_registers_that_a_loop_carries_count_until_it_ends() -> None:
    assert least_registers(simt.listing2(matmul(512, 512, 512)).lowered()) == 64 + 8 + 8
    # Two operands wait in registers, four elements each, while the fragments are used.
    assert (
        least_registers(simt.sgemm(matmul(512, 512, 512), warp=(64, 32), thread=(8, 8)).lowered()) == 64 + 8 + 8 + 4 + 4
    )


def test_barriers_of_sums_are_no_roles() -> None:
    schedule = (
        matmul(64, 64, 256, arch="sm_90a").tile(32, 32).to(Block).epilog(memory=RF)
        .split(ways=2, multiple_of=16).parallel(Block, reduce=by_cluster())
        .split(16).load(A, SH).load(B, SH).tile(4, 8).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    found = [f.message for f in facts(schedule, arch(80)).findings if f.code == "arch"]
    assert found[0] == "clusters of blocks need sm_90, not sm_80"
    assert not [message for message in found if "roles" in message]


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        (
            "f32",
            "fma.f32 multiplies on CUDA cores; tensor cores of sm_90a take the same arrays as tf32, rounded",
        ),
        ("i4", "sm_90a emulates mma.m16n8k64.i32.i4 by other instructions, about 25 times slower"),
        ("f64", None),
        ("tf32", None),
    ],
)
def test_what_hopper_gemm_leaves_to_slower_instructions_is_noted(dtype: str, said: str | None) -> None:
    schedule = hopper.gemm(matmul(512, 512, 512, dtype, layout="TN"))
    found = [x.message for x in facts(schedule, arch("sm_90a")).findings if x.code == "slower-path"]
    assert len(found) == (said is not None)
    assert said is None or found[0].startswith(said)


def test_a_finding_about_a_load_underlines_the_load_and_not_its_refinement() -> None:
    (found,) = (
        finding
        for finding in simt.listing4(matmul(256, 256, 128)).check("sm_80")
        if finding.code == "uncoalesced" and " reads A " in finding.message
    )
    assert ".load(A, SH, load_a)" in str(found)
    assert "no_sync" not in str(found)
