"""The cost model: what bounds what, and which way it moves."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul, symbol
from fireiron.algebra.arch import arch
from fireiron.base.errors import CheckError
from fireiron.estimate.model import Estimate, estimate
from fireiron.schedules import ampere, simt, volta

HOPPER = arch(90)


def of(schedule: Any, target: Any = HOPPER, **sizes: int) -> Estimate:
    return estimate(schedule.lowered(target.name), target, sizes)


def test_a_large_product_is_bound_by_its_multiply_adds() -> None:
    found = of(simt.sgemm(matmul(4096, 4096, 4096)))
    assert found.bound == "fma.f32 issue"
    assert found.flops == 2 * 4096**3
    assert 40 < found.tflops < HOPPER.gpu.fp32_tflops


def test_bank_conflicts_bound_listing2() -> None:
    assert of(simt.listing2(matmul(4096, 4096, 4096))).bound == "shared memory"


def test_a_thin_product_is_bound_by_memory() -> None:
    found = of(simt.listing4(matmul(32768, 32768, 8)))
    assert found.bound == "dram"
    assert found.dram_nbytes >= 32768 * 32768 * 4
    assert 0.5 * HOPPER.gpu.dram_gbps < found.gbps <= HOPPER.gpu.dram_gbps


def test_a_small_product_is_bound_by_its_launch() -> None:
    found = of(simt.listing1(matmul(64, 64, 64)))
    assert found.bound == "launch"
    assert found.time_us >= HOPPER.gpu.launch_us


def test_unstaged_operands_are_bound_by_l2() -> None:
    assert of(simt.listing1(matmul(1024, 1024, 1024))).bound == "l2"


def test_time_grows_with_each_size() -> None:
    schedule = simt.sgemm(matmul(symbol("M"), symbol("N"), symbol("K")))
    last = 0.0
    for n in (64, 128, 300, 1024, 2048, 4096):
        found = of(schedule, M=n, N=n, K=n)
        assert found.time_us > last
        assert found.assumed == ()
        last = found.time_us


def test_missing_sizes_are_assumed_and_said() -> None:
    found = of(simt.sgemm(matmul(symbol("M"), 512, 512)))
    assert found.assumed == ("M",)
    assert "assumed: M=1024" in str(found)
    assert str(found).startswith("modelled: at least")


def test_tensors_that_fit_in_l2_are_read_once() -> None:
    assert of(simt.sgemm(matmul(1024, 1024, 1024))).dram_nbytes == 3 * 1024 * 1024 * 4
    assert of(simt.sgemm(matmul(8192, 8192, 8192))).dram_nbytes > 3 * 8192 * 8192 * 4


def test_stages_hide_latency() -> None:
    shape = (256, 256, 8192)
    slow, fast = (of(simt.sgemm(matmul(*shape), stages=stages)).time_us for stages in (1, 2))
    assert fast < slow


def test_a_tail_wave_costs_a_wave() -> None:
    full, more = (of(simt.sgemm(matmul(128 * m, 128 * 12, 1024))) for m in (22, 23))
    assert (full.grid, full.waves, more.waves) == (264, 1, 2)
    assert more.time_us > 1.4 * full.time_us


def test_a_narrower_gpu_takes_longer() -> None:
    schedule = simt.sgemm(matmul(4096, 4096, 4096))
    assert of(schedule, arch(80)).time_us > of(schedule, arch(90)).time_us
    assert of(schedule, arch(80)).tflops < arch(80).gpu.fp32_tflops


def test_a_block_that_does_not_fit_is_refused() -> None:
    chain = matmul(4096, 4096, 4096).tile(128, 128).to(Block).epilog().split(64).pipeline(4)
    chain = chain.load(A, SH).load(B, SH).tile(64, 32).to(Warp).tile(8, 8).to(Thread).split(1).unroll()
    schedule = chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    with pytest.raises(CheckError, match="does-not-fit"):
        of(schedule)


def test_compiled_registers_replace_the_guess() -> None:
    kernel = simt.sgemm(matmul(4096, 4096, 4096), warp=(64, 32), thread=(8, 8)).lowered()
    assert estimate(kernel, HOPPER).blocks_per_sm == 2
    assert estimate(kernel, HOPPER, registers=200).blocks_per_sm == 1


def test_what_one_bound_cannot_tell_apart_is_ranked() -> None:
    """Schedules that one resource bounds alike differ in what they ask of the others, and in the loads under way."""
    spec = matmul(4096, 4096, 4096, "f16", layout="TN")
    base = ampere.gemm(spec).estimate("sm_90a")
    small = ampere.gemm(spec, m=64, n=64, warp=(32, 32)).estimate("sm_90a")
    shallow = ampere.gemm(spec, m=128, n=256, warp=(64, 64), stages=2).estimate("sm_90a")
    deep = ampere.gemm(spec, m=128, n=256, warp=(64, 64), stages=4).estimate("sm_90a")
    assert small.likely_us > base.likely_us > base.time_us
    assert shallow.flight_us > deep.flight_us
    assert shallow.likely_us > deep.likely_us


def test_fewer_warps_than_schedulers_leave_some_without_work() -> None:
    spec = matmul(64, 64, 4096, "f16", layout="TN")
    four, one = (ampere.gemm(spec, m=64, n=64, warp=w).estimate("sm_90a") for w in ((32, 32), (64, 64)))
    issue = [next(t.us for t in e.terms if t.name.endswith("issue")) for e in (four, one)]
    assert issue[1] == pytest.approx(4 * issue[0], rel=0.1)


def test_blocks_of_a_warp_that_are_left_over_leave_schedulers_idle() -> None:
    """Nine blocks of one warp on an SM take three rounds of its four schedulers, as twelve do."""
    sizes = {"m": 64, "n": 64, "warp": (64, 64), "thread": (16, 8)}
    eight, nine, twelve = (of(simt.sgemm(matmul(64 * 132 * n, 64, 4096), **sizes)).time_us for n in (8, 9, 12))
    assert nine > 1.3 * eight
    assert nine == pytest.approx(twelve, rel=0.1)


def test_copies_through_registers_are_under_way_for_one_trip() -> None:
    sizes = {"m": 64, "n": 64, "warp": (32, 32), "thread": (8, 4)}
    two, four = (of(simt.sgemm(matmul(64, 64, 8192), **sizes, stages=stages)).flight_us for stages in (2, 4))
    assert two == four
    asynchronous = (of(ampere.gemm(matmul(64, 64, 8192, "f16", layout="TN"), stages=stages)) for stages in (2, 4))
    assert next(asynchronous).flight_us > next(asynchronous).flight_us


def test_f64_is_bound_by_the_rate_of_its_tensor_cores() -> None:
    """A modelled time is a lower bound: an H200 reached 55 TFLOP/s of the 67 of its data sheet."""
    assert 55 < of(ampere.gemm(matmul(4096, 4096, 4096, "f64", layout="TN"))).tflops < 67


@pytest.mark.parametrize("schedule", [simt.sgemm, simt.listing2])
def test_loops_without_trips_take_no_time(schedule: Any) -> None:
    """Where K is 0 nothing is loaded: no share of the time falls to a load."""
    made = schedule(matmul(512, 512, symbol("K", minimum=0)))
    found = of(made, K=0)
    assert HOPPER.gpu.launch_us < found.time_us < of(made, K=64).time_us
    assert found.flight_us == 0


def test_quad_pairs_are_slow_where_other_instructions_stand_in() -> None:
    """On an H200 a product of quad-pairs issues 17.5 TFLOP/s at most."""
    schedule = volta.gemm(matmul(4096, 4096, 4096, "f16"))
    native, emulated = of(schedule, arch(70)), of(schedule, HOPPER)
    assert native.tflops > 60
    assert 15 < emulated.tflops < 20
    assert emulated.bound.startswith("mma.m8n8k4")


def test_sizes_that_are_assumed_are_told_and_given() -> None:
    def made(**typical: Any) -> Any:
        return simt.sgemm(matmul(symbol("M", **typical), 256, 256))

    plain, told = (made(**given).estimate() for given in ({}, {"typical": 4096}))
    assert (plain.assumed, dict(plain.sizes)["M"]) == (("M",), 1024)
    assert (told.assumed, dict(told.sizes)["M"]) == (("M",), 4096)
    assert "assumed: M=4096" in str(told)
    assert told.flops == 4 * plain.flops
    given = made(typical=4096).estimate(M=512)
    assert (given.assumed, dict(given.sizes)["M"]) == ((), 512)


def test_latencies_are_the_machines() -> None:
    kernel, target = simt.sgemm(matmul(4096, 4096, 4096)).lowered(), arch("sm_90a")
    slow = attrs.evolve(target, gpu=attrs.evolve(target.gpu, launch_us=target.gpu.launch_us + 5))
    assert estimate(kernel, slow).time_us == pytest.approx(estimate(kernel, target).time_us + 5)
