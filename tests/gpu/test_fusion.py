"""Fused products on the GPU: every output within the bound that follows from its schedule, on ragged sizes too."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from verified import verified

from fireiron import (
    ColMajor,
    Matrix,
    Vector,
    add,
    custom,
    dropout,
    exp,
    gelu,
    gelu_tanh,
    matmul,
    normalise,
    quantise,
    relu,
    row_max,
    row_sum,
    save,
    scale,
    sigmoid,
    silu,
    tanh,
)
from fireiron.jit.driver import driver
from fireiron.language.decompositions import Epilog
from fireiron.schedules import ampere, fused, hopper, simt
from fireiron.schedules.hopper import Plan

SHAPES = ((512, 768, 256), (264, 328, 136))


def held(schedule: Any, arch: str | None = None, **numbers: float) -> None:
    """Run on the GPU, and hold all outputs against the reference."""
    verified(schedule, numbers, arch=arch)


def needs_hopper() -> None:
    if driver().compute_capability(0) != 90:
        pytest.skip("wgmma needs sm_90a")


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


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("arch", "dtype"), [("sm_80", "f16"), ("sm_80", "bf16"), ("sm_75", "f16"), ("sm_80", "f32")])
def test_presets(name: str, arch: str, dtype: str, shape: tuple[int, int, int]) -> None:
    held(getattr(fused, name)(matmul(*shape, dtype, layout="TN"), arch))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_presets_on_hopper(name: str, layout: str, shape: tuple[int, int, int]) -> None:
    needs_hopper()
    schedule = getattr(fused, name)(matmul(*shape, "f16", layout=layout), "sm_90a")
    assert "wgmma" in schedule.cuda("sm_90a")
    held(schedule, "sm_90a")


EARLY = {
    "cooperative": Plan(m=128, n=128, early=True),
    "wide": Plan(m=128, n=224, early=True),
    "rows": Plan(m=256, n=96, early=True),
    "three": Plan(m=192, n=128, consumers=3, early=True),
    "turns": Plan(m=128, n=96, pingpong=True, early=True),
    "cluster": Plan(m=128, n=128, cluster=(2, 1), early=True),
    "dependent": Plan(m=128, n=128, dependent=True, early=True),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", EARLY)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_residuals_before_the_products(dtype: str, plan: str, shape: tuple[int, int, int]) -> None:
    needs_hopper()
    m, n, _ = shape
    residual, bias = Matrix(m, n, dtype, name="residual"), Vector(n, dtype, name="bias")
    spec = matmul(*shape, dtype, layout="TN").then(add(bias), add(residual), relu)
    schedule = hopper.gemm(spec, EARLY[plan])
    assert [t.name for link in schedule.links if isinstance(link, Epilog) for t in link.early] == ["residual"]
    held(schedule, "sm_90a")
    held(hopper.gemm(matmul(*shape, dtype, layout="TN", beta=1.0), EARLY[plan]), "sm_90a")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", EARLY)
def test_residuals_by_bulk_copies(plan: str, shape: tuple[int, int, int]) -> None:
    needs_hopper()
    m, n, _ = shape
    residual, bias = Matrix(m, n, "bf16", name="residual"), Vector(n, "bf16", name="bias")
    spec = matmul(*shape, "bf16", layout="TN").then(add(bias), relu, add(residual))
    for slots in {"turns": (2,), "wide": (1,)}.get(plan, (1, 2)):  # two panels of 128x224 leave no room for a ring
        for swapped in (False, True):
            how = attrs.evolve(EARLY[plan], early=False, copied=slots, swapped=swapped, stages=4 - slots)
            schedule = hopper.gemm(spec, how)
            assert "residual_sh" in schedule.cuda("sm_90a")
            held(schedule, "sm_90a")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", EARLY)
@pytest.mark.parametrize("addends", [False, True])
def test_residuals_that_ops_add_last(addends: bool, plan: str, shape: tuple[int, int, int]) -> None:
    needs_hopper()
    m, n, _ = shape
    residual, bias = Matrix(m, n, "bf16", name="residual"), Vector(n, "bf16", name="bias")
    spec = matmul(*shape, "bf16", layout="TN").then(add(bias), relu, add(residual))
    late = attrs.evolve(EARLY[plan], early=False, addends=addends)
    held(hopper.gemm(spec, late), "sm_90a")
    if not late.pingpong and not addends:
        held(hopper.stream_k(spec, late), "sm_90a")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("weights", ["i8", "u8", "i4", "u4"])
def test_quantised_weights(weights: str, arch: str) -> None:
    if arch == "sm_90a":
        needs_hopper()
    for shape in ((256, 512, 512), (136, 200, 384)):
        held(fused.dequant_gemm(matmul(*shape, "f16", layout="TN"), arch, weights, group=64))


PLANS = {
    "cooperative": Plan(),
    "wide": Plan(m=256, n=128),
    "three": Plan(m=192, n=128, consumers=3),
    "swapped": Plan(m=128, n=128, swapped=True),
    "cluster": Plan(m=128, n=128, cluster=(2, 1)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("form", ["cooperative", "pingpong"])
def test_outputs_beside_on_hopper(form: str, plan: str, shape: tuple[int, int, int]) -> None:
    needs_hopper()
    if form == "pingpong" and plan not in ("swapped", "cluster"):
        pytest.skip("two units share the registers of these tiles")
    m, n, _ = shape
    before, residual = (Matrix(m, n, "f16", name=name) for name in ("before", "residual"))
    bias, rows = Vector(n, "f16", name="bias"), Vector(m, name="rows", along=ColMajor)
    ops = (add(bias), save(before), silu, scale(rows), add(residual))
    held(getattr(hopper, form)(matmul(*shape, "f16").then(*ops), PLANS[plan]), "sm_90a")


@pytest.mark.parametrize("shape", SHAPES)
def test_rows(shape: tuple[int, int, int]) -> None:
    m, n, _ = shape
    tiles = -(-n // 128)
    ops = (row_max(Matrix(m, tiles, name="most")), lambda x: exp(x * 0.01), row_sum(Matrix(m, tiles, name="sums")))
    held(ampere.gemm(matmul(*shape, "f16").then(*ops), m=128, n=128))
    held(simt.sgemm(matmul(*shape).then(*ops)))
    if driver().compute_capability(0) == 90:
        for form in (hopper.cooperative, hopper.pingpong):
            held(form(matmul(*shape, "f16").then(*ops), Plan(m=128, n=128)), "sm_90a")


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("operand", ["A", "B"])
def test_prologs_of_every_layout(operand: str, layout: str) -> None:
    for shape in SHAPES:
        held(ampere.gemm(matmul(*shape, "f16", layout=layout).prolog(operand, relu, lambda x: x + 1)))
        if driver().compute_capability(0) == 90:
            held(hopper.gemm(matmul(*shape, "f16", layout=layout).prolog(operand, relu, lambda x: x + 1)), "sm_90a")


def test_prologs_of_both_operands() -> None:
    m, n, k = SHAPES[1]
    mean, rstd = (Vector(m, name=name, along=ColMajor) for name in ("mean", "rstd"))
    spec = matmul(m, n, k, "f16").prolog("A", normalise(mean, rstd)).prolog("B", scale(Vector(n, name="s")))
    held(ampere.gemm(spec))


FUNCTIONS = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "exp": lambda x: exp(x * 0.1),
    "mish": custom("mish", "x * tanhf(log1pf(expf(x)))", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    held(simt.sgemm(matmul(256, 256, 64).then(FUNCTIONS[name])))


def test_masks_scalars_and_8_bits() -> None:
    m, n, k = 256, 384, 64
    held(ampere.gemm(matmul(m, n, k, "f16").then(dropout(Matrix(m, n, "u8", name="mask"), 0.8))))
    held(ampere.gemm(matmul(m, n, k, "f16", out="i8").then(quantise("i8", "inverse"))), inverse=9.0)
    held(ampere.gemm(matmul(m, n, k, "f16", beta=0.5).then(relu)))


def test_arrays_of_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    from fireiron import gemm

    a, b = (torch.randn(4, 128, 256, device="cuda").half(), torch.randn(256, 192, device="cuda").half())
    bias = torch.randn(192, device="cuda").half()
    got = gemm(a, b, epilog=lambda acc, bias: relu(acc + bias), bias=bias)
    assert torch.allclose(got, torch.relu(a @ b + bias), atol=0.1, rtol=1e-2)
    view = torch.randn(256, 128, device="cuda").half()
    assert torch.allclose(gemm(view.T, b), view.T @ b, atol=0.1, rtol=1e-2)


def test_an_operator_is_traced_whole() -> None:
    torch: Any = pytest.importorskip("torch")
    op = fused.gemm_bias_relu(matmul(256, 192, 128, "f16")).compile().torch_op("fireiron_test::linear_relu")
    a, b, bias = (torch.randn(*s, device="cuda").half() for s in ((256, 128), (128, 192), (192,)))
    wanted = torch.relu(a @ b + bias) * 2
    traced = torch.compile(lambda *x: op(*x) * 2, fullgraph=True)
    assert torch.allclose(traced(a, b, bias), wanted, atol=0.2, rtol=1e-2)
    torch.library.opcheck(op, (a, b, bias), test_utils=("test_schema", "test_faketensor"))
