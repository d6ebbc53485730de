"""Buffers hold what they should in every layout, and operands may be named in every way."""

from __future__ import annotations

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
    Layout,
    Level,
    MatMul,
    Matrix,
    RowMajor,
    Swizzle,
    Thread,
    Warp,
    matmul,
    symbol,
    vector,
)
from fireiron.base.errors import FireironError
from fireiron.front.moves import staged, through_shared
from fireiron.kernel.ir.statements import Sync, walk
from fireiron.schedules import simt

Right = Callable[..., Any]
SIZES = ((64, 64, 16), (45, 37, 19))


@pytest.mark.product
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize("order", [RowMajor, ColMajor])
@pytest.mark.parametrize("pad", [0, 1, 4])
def test_orders_and_pads(right: Right, chains: Any, size: Any, layout: str, order: Any, pad: int) -> None:
    spec = matmul(*size, layout=layout)
    right(
        chains.inner(
            chains.outer(spec).load(A, SH).storage_layout(order).pad(pad).load(B, SH).storage_layout(order).pad(pad)
        )
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("swizzle", [Swizzle(2, 0, 3), Swizzle(2, 2, 3), Swizzle(3, 2, 3), Swizzle(1, 0, 5)])
def test_swizzles(right: Right, chains: Any, size: Any, swizzle: Swizzle) -> None:
    for strategy in (vector(), staged()):
        right(
            chains.inner(
                chains.outer(matmul(*size), 32).load(A, SH, strategy).swizzle(swizzle).load(B, SH).swizzle(swizzle)
            )
        )


@pytest.mark.parametrize("size", SIZES)
def test_hierarchical_layouts(right: Right, chains: Any, size: Any) -> None:
    """Blocks of 4x4 elements that lie together, of A's 32x8 tile."""
    blocks = Layout(((4, 8), (4, 2)), ((4, 32), (1, 16)))
    for strategy in (vector(), vector(4), staged()):
        right(chains.inner(chains.outer(matmul(*size)).load(A, SH, strategy).storage_layout(blocks).load(B, SH)))


def test_operands_by_tensor_and_by_name(right: Right) -> None:
    x, w, y = Matrix(45, 19, name="X"), Matrix(19, 37, "f32", name="W"), Matrix(45, 37, name="Y")
    for a, b in ((x, w), ("X", "W"), ("A", "B"), (A, B)):
        right(
            MatMul(x, w, y).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(a, SH).load(b, SH)
            .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
            .split(1).unroll().load(a, RF).load(b, RF).tile(1, 1).unroll().done()
        )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_conversion_by_a_load(right: Right, chains: Any, size: Any) -> None:
    spec = matmul(*size, "f16", out="f32")
    for strategy in (vector(), staged()):
        right(chains.inner(chains.outer(spec).load(A, SH, strategy, dtype="f32").load(B, SH, strategy, dtype="f32")))
    right(chains.inner(chains.outer(spec).load(A, SH).load(B, SH), dtype="f32"))


@pytest.mark.parametrize("size", SIZES)
def test_batches(right: Right, size: Any) -> None:
    for count in (1, 3):
        spec = matmul(*size, batch=count)
        right(
            spec.tile(32, 32, batch=1).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
            .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip


def test_batches_within_a_block(right: Right) -> None:
    right(
        matmul(45, 37, 19, batch=5).tile(16, 16, batch=2).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(16, 16, batch=1).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def test_symbolic_batch(right: Right) -> None:
    schedule = (
        matmul(45, 37, 19, batch=symbol("n")).tile(32, 32, batch=1).to(Block).epilog(memory=RF)
        .split(8).load(A, SH).load(B, SH)
        .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    right(schedule, n=3)


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("f", [simt.listing1, simt.listing2, simt.listing4, simt.sgemm])
def test_symbols(right: Right, f: Any, layout: str) -> None:
    schedule = f(matmul(symbol("M"), symbol("N"), symbol("K"), layout=layout))
    for m, n, k in ((128, 128, 16), (130, 67, 9), (1, 1, 1)):
        right(schedule, M=m, N=n, K=k)


def test_multiples_widen_vectors(right: Right, chains: Any) -> None:
    schedule = chains.plain(matmul(*(symbol(name, multiple_of=8) for name in "MNK")))
    assert "copy_or_zero_16B" in schedule.cuda()
    right(schedule, M=40, N=48, K=24)
    with pytest.raises(FireironError, match="M is 41 in the call, and must be a multiple of 8"):
        schedule.simulate(M=41, N=48, K=24)


@pytest.mark.parametrize("size", SIZES)
def test_a_level_of_ones_own(right: Right, size: Any) -> None:
    """Half-warps of 16 neighbouring lanes, between Warp and Thread."""
    half = Level("HalfWarp", Warp, Layout(16, 1), 16)
    right(
        matmul(*size).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(16, 16).to(Warp).tile(8, 16).to(half).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_quad_pairs(right: Right, size: Any) -> None:
    from fireiron import QuadPair

    right(
        matmul(*size).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(16, 16).to(Warp).tile(8, 8).to(QuadPair).layout(ColMajor).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_orders_of_units(right: Right, size: Any) -> None:
    for order in (RowMajor, ColMajor, Layout((2, 16), (16, 1)), Layout((8, 4), (4, 1))):
        right(
            matmul(*size).tile(32, 32).to(Block).layout(ColMajor).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
            .tile(16, 16).to(Warp).layout(ColMajor).tile(4, 2).to(Thread).layout(order)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_permuted_units(right: Right, size: Any) -> None:
    for permute in (lambda i: i ^ 5, lambda i: (i >> 1) | ((i & 1) << 4), lambda i: 31 - i):
        right(
            matmul(*size).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
            .tile(16, 16).to(Warp).tile(4, 2).to(Thread).permute(permute)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_fragments(right: Right, chains: Any, size: Any) -> None:
    """FR holds what one warp's lanes hold together."""
    right(
        matmul(*size).tile(32, 32).to(Block).epilog(memory=FR).split(8).load(A, SH).load(B, SH).tile(16, 16).to(Warp)
        .split(2).unroll().load(A, FR).load(B, FR).tile(4, 2).to(Thread).tile(1, 1).unroll().split(1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("reuse", [False, True])
def test_a_staging_buffer_over_the_buffers_of_warps(right: Right, reuse: bool) -> None:
    """Barriers of each warp order its own buffer; what the whole block lays over it waits for all warps."""
    schedule = (
        matmul(64, 64, 24)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF, store=through_shared(reuse=reuse))
        .split(8)
        .tile(16, 16)
        .to(Warp)
        .load(A, SH)
        .load(B, SH)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )
    right(schedule)
    barriers = [s for s in walk(schedule.lowered().body) if isinstance(s, Sync) and s.level == Block]
    assert len(barriers) == 1 + reuse
