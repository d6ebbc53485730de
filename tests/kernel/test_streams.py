"""Stream-K with loads by the threads that compute; multiply-adds in serpentine order; sums that blocks hand over."""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    RowMajor,
    Serpentine,
    Thread,
    Warp,
    conform,
    cp_async,
    ldmatrix,
    matmul,
    relu,
    staged,
    stream_k,
    symbol,
)
from fireiron.algebra.expr import as_int
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Lower
from fireiron.schedules import ampere, simt
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import mathematical, reference

LAYOUTS = ("TN", "NN", "NT", "TT")


def right(schedule: Any) -> Any:
    """Simulate all units on random inputs, and compare with f64 within the rounding of the schedule's types."""
    kernel = schedule.lowered()
    found = schedule.simulate(launched=as_int(kernel.grid) if kernel.persistent else None)
    tensor = schedule.program.spec.C
    comparison = compare("C", mathematical(tensor, found.out), reference(schedule, found.arrays, {}), tensor.dtype)
    assert comparison.passed, str(comparison)
    return found.report


def streamed(spec: Any, units: int, stages: int = 3, copy: Any = None, order: Any = None) -> Any:
    """Schedule a product for CUDA cores in tiles of 32 x 32 and chunks of 8."""
    chain = (
        spec.tile(32, 32).to(Block).persistent(RowMajor, share=stream_k(units)).epilog(relu, memory=RF)
        .split(8).pipeline(stages)
        .load(A, SH, copy or cp_async()).storage_layout(ColMajor)
        .load(B, SH, copy or cp_async()).storage_layout(RowMajor)
        .tile(16, 32).to(Warp).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    )  # fmt: skip
    tiles = chain.tile(1, 1) if order is None else chain.tile(1, 1).layout(order)
    return tiles.unroll().done()


@pytest.mark.parametrize("copy", [cp_async(), staged()], ids=["cp.async", "staged"])
@pytest.mark.parametrize("units", [1, 5, 7, 12, 40])
def test_any_number_of_units_is_right(units: int, copy: Any) -> None:
    """Twelve tiles of nine chunks: units that have several tiles, parts of two tiles, and a part of one."""
    right(streamed(matmul(100, 90, 72), units, copy=copy))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("stages", "copy"), [(1, None), (2, staged()), (4, None)])
def test_rings_of_any_depth_and_layouts_are_right(layout: str, stages: int, copy: Any) -> None:
    right(streamed(matmul(70, 68, 52, layout=layout), 5, stages, copy))


def test_a_loop_without_a_pipeline_is_right() -> None:
    chain = (
        matmul(64, 64, 40).tile(32, 32).to(Block).persistent(RowMajor, share=stream_k(3)).epilog(memory=RF)
        .split(8).load(A, SH).load(B, SH).tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    right(chain)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_presets_of_tensor_cores_stream(dtype: str) -> None:
    spec = matmul(136, 120, 104, dtype, arch="sm_90a")
    made = ampere.dgemm(spec, m=32, n=32, warp=(16, 16), stream=1) if dtype == "f64" else ampere.gemm(
        spec, 64, 64, warp=(32, 32), stream=2
    )  # fmt: skip
    assert right(made).grid == (132 if dtype == "f64" else 12), "as many units as chunks, or as SMs"


def test_units_are_as_many_as_an_sm_should_hold() -> None:
    spec = matmul(4096, 4096, 512, arch="sm_90a")
    for blocks in (1, 2, 4):
        assert str(simt.sgemm(spec, m=64, n=64, warp=(32, 64), thread=(8, 8), stream=blocks).lowered().grid) == str(
            132 * blocks
        )


def test_sizes_may_be_symbols() -> None:
    text = streamed(
        matmul(symbol("M"), symbol("N", multiple_of=4), symbol("K", multiple_of=4), arch="sm_90a"), 7
    ).cuda()
    assert "partial" in text
    assert "count_in" not in text


def test_threads_hand_their_sums_over_one_by_one_and_fragments_by_vectors() -> None:
    """Vectors would tie the registers of multiply-adds, which then lie in the banks of their operands."""
    spec = matmul(1024, 1024, 1024, arch="sm_90a")
    for made in (simt.sgemm(spec, stream=2), simt.sgemm(spec, split_k=2)):
        assert set(re.findall(r"(copy_\d+B)\(&partial", made.cuda())) == {"copy_4B"}
    whole = ampere.gemm(matmul(1024, 1024, 1024, "f16", arch="sm_90a"), stream=1)
    assert set(re.findall(r"(copy_\d+B)\(&partial", whole.cuda())) == {"copy_16B"}


def test_a_unit_that_does_not_wait_is_caught() -> None:
    kernel = streamed(matmul(100, 90, 72), 7).lowered()
    broken = attrs.evolve(kernel, body=rewrite(kernel.body, lambda s: () if isinstance(s, Lower) else s))
    arrays = random_arrays(Interface.of(kernel), {}, 0)
    simulate(kernel, arrays, launched=7)
    with pytest.raises(SimulationError) as caught:
        simulate(broken, arrays, launched=7)
    assert caught.value.code in ("race", "uninitialised", "flag-raised"), str(caught.value)


@pytest.mark.parametrize("order", [Serpentine(), Serpentine(ColMajor)], ids=str)
def test_multiply_adds_may_go_there_and_back(order: Any) -> None:
    spec = matmul(64, 64, 16)
    made, plain = streamed(spec, 4, order=order), streamed(spec, 4)
    right(made)
    text = made.cuda()
    inner = "n" if order == Serpentine() else "m"
    assert re.search(rf"const int {inner} = .*% 2 == 0 \? step : 3 - step;", text)
    assert "step" not in plain.cuda()
    arrays = random_arrays(Interface.of(made.lowered()), {}, 0)
    results: list[Any] = []
    for each in (made, plain):
        copied = {name: array.copy() for name, array in arrays.items()}
        simulate(each.lowered(), copied, launched=4)
        results.append(copied["C"])
    np.testing.assert_array_equal(*results)  # each sum adds the same products in the same order


def test_a_serpentine_of_fragments_is_right() -> None:
    chain = (
        matmul(64, 64, 32, "f16", arch="sm_80").tile(64, 64).to(Block).epilog(memory=FR).split(32)
        .load(A, SH).load(B, SH).tile(32, 32).to(Warp).split(16).unroll()
        .load(A, FR, ldmatrix()).load(B, FR, conform()).tile(16, 8).layout(Serpentine()).unroll().done()
    )  # fmt: skip
    right(chain)


def test_loops_over_three_dims_turn_by_trips_and_not_by_numbers() -> None:
    """Else the third loop would start anew where an even number of its rounds ran backwards."""
    made = (
        fi.program(x="a b c")(lambda x: x * 2)(fi.tensor(2, 2, 4))
        .tile(a=2, b=2, c=4).to(Block).tile(a=2, b=2, c=4).to(Thread)
        .tile(a=1, b=1, c=1).layout(Serpentine()).unroll().done()
    )  # fmt: skip
    x = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    np.testing.assert_array_equal(made.simulate(x).out, x * 2)
    (third,) = re.findall(r"const int c = (.*);", made.cuda())
    assert third == "step == 0 ? step2 : 3 - step2"
