"""Fused presets: right on the simulator, no spills through the compiler, on every architecture's path."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import (
    ColMajor,
    MatMul,
    Matrix,
    RowMajor,
    Vector,
    add,
    dequantise,
    matmul,
    normalise,
    relu,
    row_max,
    row_sum,
    save,
    silu,
)
from fireiron.language.decompositions import Epilog
from fireiron.schedules import fused, hopper
from fireiron.schedules.hopper import Plan
from fireiron.verify.comparison import compare
from fireiron.verify.reference import mathematical, references

PRESETS = (
    "gemm_bias",
    "gemm_bias_relu",
    "gemm_bias_gelu",
    "gemm_bias_silu",
    "gemm_residual",
    "relu_gemm",
    "norm_gemm",
    "gemm_scaled",
)


def held(schedule: Any) -> None:
    found = schedule.simulate()
    expected = references(schedule, found.arrays, {})
    beside = [o.tensor for link in schedule.links if isinstance(link, Epilog) for o in link.outputs]
    for tensor in (schedule.matmul.C, *beside):
        array = mathematical(tensor, found.arrays[tensor.name])
        result = compare(tensor.name, array, expected[tensor.name], tensor.dtype)
        assert result.passed, str(result)


@pytest.mark.product
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(
    ("arch", "dtype", "layout"), [("sm_80", "f16", "TN"), ("sm_75", "f16", "NN"), ("sm_90a", "f32", "NN")]
)
def test_presets(name: str, arch: str, dtype: str, layout: str) -> None:
    held(getattr(fused, name)(matmul(70, 136, 72, dtype, layout=layout), arch))


@pytest.mark.parametrize("weights", ["i8", "u8", "i4", "u4"])
def test_weights(weights: str) -> None:
    held(fused.dequant_gemm(matmul(70, 136, 128, "f16", layout="TN"), "sm_80", weights, group=32))


def test_what_gelu_is_given_is_kept() -> None:
    schedule = fused.gemm_bias_gelu(matmul(70, 136, 72, "f16"), "sm_80", keep=True)
    held(schedule)
    assert [p.name for p in schedule.compile("sm_80").interface.outputs] == ["C", "pre"]


def test_batches_share_a_bias() -> None:
    held(fused.gemm_bias_relu(matmul(40, 48, 32, "f16", batch=2), "sm_90a"))


SIZE = (1024, 1024, 1024)


def clean(schedule: Any, arch: str) -> Any:
    kernel = schedule.compile(arch)
    assert not kernel.resources.spills
    assert kernel.resources.stack == 0
    return kernel


@pytest.mark.product
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_presets_compile_without_spills(name: str, arch: str) -> None:
    kernel = clean(getattr(fused, name)(matmul(*SIZE, "f16", layout="TN"), arch), arch)
    assert ("wgmma" in kernel.source) == (arch == "sm_90a")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("weights", ["i8", "i4"])
def test_weights_compile_without_spills(weights: str, arch: str) -> None:
    clean(fused.dequant_gemm(matmul(*SIZE, "f16", layout="TN"), arch, weights), arch)


@pytest.mark.product
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("form", ["cooperative", "pingpong"])
def test_outputs_beside_compile_without_spills(form: str, swapped: bool) -> None:
    m, n, _ = SIZE
    before = Matrix(m, n, "f16", name="before")
    plan = Plan(m=128, n=128, swapped=swapped)
    clean(getattr(hopper, form)(matmul(*SIZE, "f16").then(save(before), silu), plan), "sm_90a")
    clean(getattr(hopper, form)(matmul(*SIZE, "f16").then(save(before, of=relu), silu), plan), "sm_90a")
    if not swapped:
        sums = Matrix(m, n // 128, name="sums")
        clean(getattr(hopper, form)(matmul(*SIZE, "f16").then(row_sum(sums), relu), plan), "sm_90a")


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("operand", ["A", "B"])
def test_prologs_on_hopper(layout: str, operand: str) -> None:
    kernel = clean(hopper.gemm(matmul(*SIZE, "f16", layout=layout).prolog(operand, relu)), "sm_90a")
    assert "_ra<" in kernel.source


def test_two_prologs_take_mma_sync() -> None:
    spec = matmul(*SIZE, "f16").prolog("A", relu).prolog("B", relu)
    assert "mma_m16n8k16" in clean(hopper.gemm(spec), "sm_90a").source


def test_an_epilogue_costs_no_registers() -> None:
    bias = Matrix(1, SIZE[1], "f16", name="bias")
    plan = Plan()
    kernels = [hopper.cooperative(spec, plan).compile("sm_90a") for spec in (
        matmul(*SIZE, "f16"), matmul(*SIZE, "f16").then(add(bias), relu))]  # fmt: skip
    assert kernels[0].resources.registers == kernels[1].resources.registers


def test_column_major_results() -> None:

    spec = MatMul(Matrix(70, 64, "f16"), Matrix(64, 48, "f16"), Matrix(70, 48, "f16", ColMajor))
    held(fused.scheduled(spec.then(add(Vector(48, name="bias")), relu), "sm_80"))


HOPPER_SIZE = (192, 160, 136)


@pytest.mark.parametrize("form", ["cooperative", "pingpong", "swapped"])
def test_outputs_beside_on_hopper(form: str) -> None:
    m, n, _ = HOPPER_SIZE
    before, residual = (Matrix(m, n, "f16", name=name) for name in ("before", "residual"))
    spec = matmul(*HOPPER_SIZE, "f16").then(add(Vector(n, "f16", name="bias")), save(before), silu, add(residual))
    plan = Plan(m=128 if form != "pingpong" else 64, n=64, swapped=form == "swapped")
    held((hopper.pingpong if form == "pingpong" else hopper.cooperative)(spec, plan))


@pytest.mark.product
@pytest.mark.parametrize("n", [56, 72, 80, 168])
@pytest.mark.parametrize("form", ["cooperative", "pingpong", "swapped"])
def test_outputs_beside_in_tiles_of_any_width(form: str, n: int) -> None:
    m, columns, _ = size = (136, 184, 72)
    before, residual = (Matrix(m, columns, "f16", name=name) for name in ("before", "residual"))
    lines = Vector(columns, "f16", name="line"), Vector(m, "f16", name="column", along=ColMajor)
    spec = matmul(*size, "f16", layout="TN").then(add(lines[0]), save(before), add(lines[1]), relu, add(residual))
    plan = Plan(m=128, n=n, pingpong=form == "pingpong", swapped=form == "swapped", stages=3)
    held(hopper.gemm(spec, plan))
    if form != "swapped":
        sums = Matrix(m, -(-columns // n), name="sums")
        held(hopper.gemm(matmul(*size, "f16", layout="TN").then(relu, row_sum(sums)), plan))


@pytest.mark.parametrize("form", ["cooperative", "pingpong"])
def test_rows_on_hopper(form: str) -> None:
    m, n, _ = HOPPER_SIZE
    sums, most = (Matrix(m, -(-n // 64), name=name) for name in ("sums", "most"))
    spec = matmul(*HOPPER_SIZE, "f16").then(row_max(most), relu, row_sum(sums))
    held(getattr(hopper, form)(spec, Plan(m=128 if form == "cooperative" else 64, n=64)))


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("swapped", [False, True])
def test_prologs_on_hopper_are_right(layout: str, swapped: bool) -> None:
    spec = matmul(*HOPPER_SIZE, "f16", layout=layout).prolog("B" if swapped else "A", relu, lambda x: x + 1)
    held(hopper.cooperative(spec, Plan(m=128, n=64, swapped=swapped)))


def test_normalised_and_quantised_operands_on_hopper() -> None:
    m, n, k = 192, 160, 256
    mean, rstd = (Vector(m, name=name, along=ColMajor) for name in ("mean", "rstd"))
    norm = normalise(mean, rstd, Vector(k, name="gain"), Vector(k, name="shift"))
    held(hopper.cooperative(matmul(m, n, k, "f16", layout="TN").prolog("A", norm), Plan(m=128, n=64)))
    scales, zeros = (Matrix(k // 128, n, "f16", name=name) for name in ("scales", "zeros"))
    for order in (ColMajor, RowMajor):
        spec = MatMul(Matrix(m, k, "f16"), Matrix(k, n, "i8", order), Matrix(m, n, "f16"))
        held(hopper.cooperative(spec.prolog("B", dequantise("f16", scales, zeros)), Plan(m=128, n=64, swapped=True)))


def test_shared_k_is_added_before_the_ops() -> None:
    spec = matmul(128, 128, 512, "f16").then(add(Vector(128, "f16", name="bias")), relu)
    held(hopper.split_k(spec, Plan(m=128, n=64, ways=2)))
    held(hopper.stream_k(spec, Plan(m=128, n=64, stream=True)))


@pytest.mark.parametrize("swapped", [False, True])
def test_ops_on_shares_of_a_cluster(swapped: bool) -> None:
    m, n = 136, 200
    plan = Plan(m=128, n=64, ways=2, swapped=swapped, through="cluster")
    before, residual = (Matrix(m, n, "f16", name=name) for name in ("before", "residual"))
    lines = Vector(n, "f16", name="line"), Vector(m, "f16", name="column", along=ColMajor)
    spec = matmul(m, n, 512, "f16").then(*map(add, lines), save(before), silu, add(residual))
    held(hopper.split_k(spec, plan))
    held(hopper.split_k(matmul(m, n, 256, "f16", batch=2).then(relu), plan))


def test_rows_of_a_cluster_are_folded_whole() -> None:
    spec = matmul(136, 192, 512, "f16").then(relu, row_sum(Matrix(136, 3, name="sums")))
    held(hopper.split_k(spec, Plan(m=128, n=64, ways=2, through="cluster")))
