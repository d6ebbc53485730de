"""Tensor cores through ordinary chains: fragments loaded in every way, copies in every depth, planted mistakes."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    MatMul,
    Matrix,
    RowMajor,
    Warp,
    conform,
    cp_async,
    ldmatrix,
    matmul,
    staged,
)
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Call, For, If, Region, Sync, Wait, walk
from fireiron.schedules import ampere
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def gemm(spec, copy=cp_async, fragments=ldmatrix, stages=3, inner=1, orders=(RowMajor, ColMajor), tile=(16, 8), k=16):
    return (
        spec.tile(64, 64)
        .to(Block)
        .epilog(memory=FR)
        .split(32)
        .pipeline(stages)
        .load(A, SH, copy())
        .storage_layout(orders[0])
        .pad(8)
        .load(B, SH, copy())
        .storage_layout(orders[1])
        .pad(8)
        .tile(32, 32)
        .to(Warp)
        .split(k)
        .unroll()
        .pipeline(inner)
        .load(A, FR, fragments())
        .load(B, FR, fragments())
        .tile(*tile)
        .unroll()
        .done()
    )


@pytest.mark.product
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("copy", [cp_async, staged])
def test_pipelines(right, copy, stages):
    for shape in ((64, 64, 128), (80, 48, 72), (64, 64, 32)):
        right(gemm(matmul(*shape, "f16", layout="TN"), copy, stages=stages))


@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("fragments", [ldmatrix, conform])
def test_fragment_loads(right, fragments, inner):
    right(gemm(matmul(72, 80, 64, "f16", layout="TN"), fragments=fragments, inner=inner))


@pytest.mark.parametrize(
    "orders", [(RowMajor, ColMajor), (ColMajor, ColMajor), (RowMajor, RowMajor), (ColMajor, RowMajor)]
)
def test_transposing_ldmatrix(right, orders):
    schedule = gemm(matmul(72, 80, 64, "f16", layout="TN"), staged, orders=orders)
    assert ("ldmatrix_x4_trans" in schedule.cuda()) == (orders != (RowMajor, ColMajor))
    right(schedule)


def test_one_barrier_a_chunk():
    kernel = gemm(matmul(64, 64, 256, "f16", layout="TN")).lowered()
    report = simulate(kernel, random_arrays(Interface.of(kernel), {}))
    assert report.barriers == 8


def test_m16n8k8(right):
    right(gemm(matmul(64, 64, 64, "f16", layout="TN"), fragments=conform, k=8))


def changed(body, edit):
    """Rewrite statements: edit gives a replacement, or None to drop one."""
    out = []
    for statement in body:
        if isinstance(statement, For | If | Region):
            statement = attrs.evolve(statement, body=changed(statement.body, edit))
        result = edit(statement)
        if result is not None:
            out.append(result)
    return tuple(out)


@pytest.mark.parametrize(
    ("edit", "codes"),
    [
        (lambda s: None if isinstance(s, Wait) else s, {"not-arrived", "uninitialised-read"}),
        (lambda s: attrs.evolve(s, pending=s.pending + 1) if isinstance(s, Wait) else s, {"not-arrived"}),
        (lambda s: None if isinstance(s, Sync) else s, {"race", "not-arrived"}),
    ],
    ids=["no wait", "a wait too short", "no barrier"],
)
def test_planted_mistakes_are_caught(edit, codes):
    kernel = gemm(matmul(64, 64, 128, "f16", layout="TN")).lowered()
    broken = attrs.evolve(kernel, body=changed(kernel.body, edit))
    with pytest.raises(FireironError) as caught:
        simulate(broken, random_arrays(Interface.of(broken), {}))
    assert caught.value.code in codes


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u8", "f64"])
def test_ampere_gemm(right, dtype, layout):
    for shape in ((128, 128, 96), (61, 45, 33)):
        right(ampere.gemm(matmul(*shape, dtype, layout=layout)))


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_ampere_gemm_has_no_bank_conflicts(layout):
    report = ampere.gemm(matmul(128, 128, 96, "f16", layout=layout)).simulate().report
    assert {site.conflict_degree for site in report.sites if site.conflict_degree} == {1.0}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "f64"])
def test_ampere_gemm_compiles_without_spills(dtype):
    for arch in ("sm_80", "sm_90a"):
        found = ampere.gemm(matmul(256, 256, 128, dtype, layout="TN")).compile(arch, cache=False).resources
        assert found.spill_stores == found.spill_loads == found.stack == 0


def test_ldmatrix_of_a_tile_that_fits_no_row():
    with pytest.raises(FireironError) as caught:
        gemm(matmul(64, 64, 64, "f16", layout="TN"), fragments=lambda: lambda move: move.tile(4, 16).unroll().done())
    assert caught.value.code == "no-atom"
    assert "ldmatrix.x4.A.b16 moves 16x16 elements of 16 bits" in caught.value.message


def test_cp_async_of_two_bytes():
    with pytest.raises(FireironError) as caught:
        gemm(matmul(64, 64, 33, "f16", layout="TN"))
    assert caught.value.code == "no-atom"
    assert caught.value.underlined == "load(A, SH, copy())"


def test_atoms_of_a_later_architecture():
    with pytest.raises(FireironError) as caught:
        gemm(matmul(64, 64, 64, "f16", layout="TN")).compile("sm_75")
    assert caught.value.code == "no-atom"
    assert "mma.m16n8k16.f32.f16 (it needs sm_80, not sm_75)" in caught.value.message
    with pytest.raises(FireironError) as caught:
        gemm(matmul(64, 64, 64, "f16", layout="TN"), fragments=conform, k=8).compile("sm_75")
    assert caught.value.code == "no-atom"
    assert "cp.async.16B: it needs sm_80, not sm_75" in caught.value.message


def test_an_unknown_family():
    with pytest.raises(FireironError) as caught:
        gemm(
            matmul(64, 64, 64, "f16", layout="TN"),
            fragments=lambda: lambda move: move.tile(16, 16).unroll().done("ldmtrx"),
        )
    assert caught.value.code == "unknown-atom"


def test_numbers_of_the_meaning_are_the_simulators():
    schedule = gemm(matmul(64, 64, 64, "f16", layout="TN", acc="f16"))
    found = schedule.simulate()
    a, b = (found.arrays[x].astype(np.float64) for x in "AB")
    assert np.abs(found.out - a @ b.T).max() < 0.2


@pytest.mark.parametrize(("a", "b"), [("i8", "u8"), ("u8", "i8")])
def test_bytes_with_and_without_signs(a: str, b: str) -> None:
    spec = MatMul(Matrix(70, 64, a, name="A"), Matrix(64, 72, b, ColMajor, name="B"), Matrix(70, 72, "i32", name="C"))
    made = gemm(spec, copy=staged, fragments=conform, stages=2, k=32)
    assert any(isinstance(s, Call) and s.atom.name == f"mma.m16n8k32.i32.{a}.{b}" for s in walk(made.lowered().body))
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(*((-128, 128) if kind == "i8" else (0, 256)), shape).astype(f"{'u' * (kind == 'u8')}int8")
        for kind, shape in ((a, (70, 64)), (b, (64, 72)))
    ]
    wanted = arrays[0].astype(np.int64) @ arrays[1].astype(np.int64)
    assert (made.simulate(arrays[0], np.ascontiguousarray(arrays[1].T)).out == wanted).all()
