"""Schedules to show: Listing 2 of the paper, one with everything that a tree can say, and an unfinished one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fireiron.algebra.expr import Index
from fireiron.algebra.swizzle import Swizzle
from fireiron.front.matmul import MatMulChain
from fireiron.front.moves import staged, through_shared
from fireiron.front.roles import A, B
from fireiron.language.functions import add, relu
from fireiron.language.levels import RF, SH, Block, Thread, Warp
from fireiron.language.residual import start
from fireiron.language.specs import MatMul, task_of
from fireiron.language.tensor import ColMajor, Matrix, Order, RowMajor, Vector

sys.path.insert(0, str(Path(__file__).parent))

Build = Callable[..., MatMulChain]


@pytest.fixture(scope="session")
def matmul() -> Build:
    def build(
        m: Index, n: Index, k: Index, dtype: Any = "f32", a: Order = RowMajor, b: Order = RowMajor
    ) -> MatMulChain:
        spec = MatMul(Matrix(m, k, dtype, a, name="A"), Matrix(k, n, dtype, b, name="B"), Matrix(m, n, dtype, name="C"))
        return MatMulChain(task_of(spec), (), start(spec))

    return build


@pytest.fixture(scope="session")
def listing2() -> Build:
    def build(spec: MatMulChain, k: int = 8, stages: int = 1, pad: int = 0) -> MatMulChain:
        split = spec.tile(128, 128).to(Block).epilog().split(k)
        if stages > 1:
            split = split.pipeline(stages)
        return (
            split.load(A, SH).pad(pad).load(B, SH)
            .tile(64, 32).to(Warp).tile(8, 8).to(Thread)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip

    return build


@pytest.fixture(scope="session")
def rich_schedule(matmul: Build) -> MatMulChain:
    store = through_shared(panel=(64, 128), pad=4)
    return (
        matmul(1024, 512, 256)
        .tile(128, 128).to(Block)
        .epilog(add(Vector(512, name="bias")), relu, store=store)
        .split(8).pipeline(2)
        .load(A, SH, staged()).pad(4).storage_layout(ColMajor)
        .load(B, SH, staged())
        .tile(64, 32).to(Warp).tile(8, 8).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.fixture(scope="session")
def unfinished(matmul: Build) -> MatMulChain:
    tiled = matmul(1024, 512, 256).tile(128, 128).to(Block).epilog(relu).split(8)
    return tiled.load(A, SH).pad(4).swizzle(Swizzle(1, 2, 3))
