"""Ops of a prolog read further tensors by vectors, where a thread holds neighbours and their address is aligned."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    MatMul,
    Matrix,
    RowMajor,
    Thread,
    Vector,
    Warp,
    add,
    conform,
    cp_async,
    dequantise,
    ldmatrix,
    matmul,
    scale,
    staged,
    symbol,
    vector,
)
from fireiron.schedules import volta

SMALL: dict[str, Any] = {"m": 64, "n": 64, "k": 32, "warp": (32, 32)}


def copied(schedule: Any, *names: str, arch: str = "sm_80") -> list[str]:
    """List the instructions that read these tensors, after a simulation that the reference confirms."""
    found = schedule.simulate()
    assert found.comparison.passed, str(found.comparison)
    return found_in(schedule.cuda(arch), *names)


def found_in(text: str, *names: str) -> list[str]:
    """List the instructions of a kernel that read these tensors."""
    return sorted(
        {
            f"{move.replace('_or_zero', '')} {name}"
            for name in names
            for move in re.findall(rf"(copy\w*B)\([^;]*, &{name}\[", text)
        }
        | {f"elements {name}" for name in names if re.search(rf"(?<!&)\b{name}\[", text.split("__global__")[1])}
    )


def blocks(spec: Any, *ops: Any, operand: str = "A", put: Any = None) -> Any:
    """Give a block 32x32 elements, which CUDA cores compute."""
    chain = spec.tile(32, 32).to(Block).prolog(operand, *ops).epilog(memory=RF).split(16).pipeline(2)
    chain = chain.load(A, SH, put or staged()).load(B, SH, put or staged()).tile(16, 16).to(Warp).tile(4, 2).to(Thread)
    return chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()


def test_a_prolog_of_several_inputs(golden: Callable[[str, str], None]) -> None:
    ops = scale(Matrix(64, 64, "f16", name="w")), add(Vector(64, "f16", name="bias"))
    schedule = volta.gemm(matmul(64, 64, 64, "f16", layout="TN").prolog(A, *ops), **SMALL)
    assert copied(schedule, "w", "bias", arch="sm_70") == ["copy_16B bias", "copy_16B w"]
    golden(schedule.cuda("sm_70"), "kernel/prolog_of_several_inputs.cu")


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_layout_of_the_operands(layout: str) -> None:
    for operand in "AB":
        spec = matmul(64, 64, 64, "f16", layout=layout)
        rows = getattr(spec.matmul, operand).strides[1] == 1
        spec = spec.prolog(operand, add(Matrix(64, 64, "f16", RowMajor if rows else ColMajor, name="w")))
        assert copied(volta.gemm(spec, **SMALL), "w", arch="sm_70") == ["copy_16B w"]


def test_neighbours_of_a_copy_may_be_those_of_another_order() -> None:
    other = matmul(64, 64, 64, "f16", layout="TN").prolog(A, add(Matrix(64, 64, "f16", ColMajor, name="w")))
    assert copied(volta.gemm(other, **SMALL), "w", arch="sm_70") == ["elements w"]


def test_two_vectors_of_f32_beside_one_of_f16() -> None:
    spec = matmul(64, 64, 64, "f16", layout="TN")
    schedule = volta.gemm(spec.prolog(A, scale(Matrix(64, 64, name="w"))), **SMALL)
    assert copied(schedule, "w", arch="sm_70") == ["copy_16B w"]
    assert "for (int v = 0; v < 2; ++v)" in schedule.cuda("sm_70")


@pytest.mark.parametrize(
    ("size", "moves"),
    [
        ((45, 36, 40), ["copy_16B w"]),  # rows of 80 bytes
        ((45, 36, 20), ["copy_8B w"]),  # 40 bytes
        ((45, 36, 22), ["copy_4B w"]),
        ((45, 36, 21), ["elements w"]),  # the second row starts at an odd element
    ],
)
def test_ragged_sizes(size: tuple[int, int, int], moves: list[str]) -> None:
    m, n, k = size
    spec = MatMul(Matrix(m, k, "f16"), Matrix(k, n, "f16"), Matrix(m, n, "f16"))
    assert copied(blocks(spec, add(Matrix(m, k, "f16", name="w"))), "w") == moves


def test_symbolic_rows_give_what_their_multiple_allows() -> None:
    for multiple, moves in ((8, ["copy_16B w"]), (4, ["copy_8B w"]), (1, ["elements w"])):
        k = symbol("K", multiple_of=multiple)
        spec = MatMul(Matrix(40, k, "f16"), Matrix(k, 36, "f16"), Matrix(40, 36, "f16"))
        schedule = blocks(spec, add(Matrix(40, k, "f16", name="w")))
        found = schedule.simulate(K=40).comparison
        assert found is not None
        assert found.passed, str(found)
        assert found_in(schedule.cuda("sm_80"), "w") == moves


def test_loads_of_registers() -> None:
    spec = matmul(64, 64, 32, "f16", layout="TN").tile(64, 64).to(Block)
    for take, moves in ((ldmatrix(), ["copy_4B w"]), (conform(), ["copy_4B w"])):
        chain = spec.epilog(memory=FR).split(32).load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8)
        chain = chain.tile(32, 32).to(Warp).split(16).unroll()
        fragments = spec.prolog(A, add(Matrix(64, 32, "f16", name="w"))).epilog(memory=FR).split(32)
        fragments = fragments.load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8)
        fragments = fragments.tile(32, 32).to(Warp).split(16).unroll().load(A, FR, take).load(B, FR, take)
        assert copied(fragments.tile(16, 8).unroll().done(), "w") == moves
    threads = matmul(32, 32, 16, layout="TN").tile(32, 32).to(Block).prolog(A, add(Matrix(32, 16, name="w")))
    threads = threads.epilog(memory=RF).tile(4, 4).to(Thread).split(4).load(A, RF, vector()).load(B, RF, vector())
    assert copied(threads.tile(1, 1).unroll().split(1).unroll().done(), "w") == ["copy_16B w"]


@pytest.mark.parametrize("weights", ["i8", "i4"])
def test_elements_that_share_a_byte(weights: str) -> None:
    spec = MatMul(Matrix(64, 64, "f16"), Matrix(64, 64, weights, ColMajor), Matrix(64, 64, "f16"))
    ops = dequantise("f16", Matrix(64, 64, "f16", ColMajor, name="w"))
    assert copied(blocks(spec, ops, operand="B"), "w") == ["copy_16B w"]


def test_swapped_operands_and_batches() -> None:
    spec = matmul(64, 64, 64, "f16", layout="TN", batch=2).prolog(A, add(Matrix(64, 64, "f16", name="w", batch=2)))
    assert copied(volta.gemm(spec, **SMALL), "w", arch="sm_70") == ["copy_16B w"]
    swapped = matmul(64, 64, 64, "f16", layout="TN").prolog(B, add(Matrix(64, 64, "f16", ColMajor, name="w"))).swap()
    assert copied(volta.gemm(swapped, **SMALL), "w", arch="sm_70") == ["copy_16B w"]
