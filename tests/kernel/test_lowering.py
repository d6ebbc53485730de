"""Schedules of every kind compute what they say, on sizes that tiles divide and that they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import RF, SH, A, B, Block, Matrix, Strided, Thread, Warp, matmul, staged, symbol, vector
from fireiron.front.matmul import MatMulChain
from fireiron.front.moves import MoveChain, conform
from fireiron.schedules import simt

Right = Callable[..., Any]
LAYOUTS = ("NN", "NT", "TN", "TT")
RAGGED = (45, 37, 19)


def small(spec: MatMulChain, k: int = 8, **epilog: Any) -> MatMulChain:
    """Give the block tile 32x32 to 128 threads in warps of 16x16."""
    return spec.tile(32, 32).to(Block).epilog(memory=RF, **epilog).split(k)


def inner(chain: MatMulChain) -> MatMulChain:
    return (
        chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def plain(spec: MatMulChain, k: int = 8, **epilog: Any) -> MatMulChain:
    return inner(small(spec, k, **epilog).load(A, SH).load(B, SH))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(64, 64, 16), RAGGED, (1, 1, 1), (33, 64, 7)])
def test_layouts_and_sizes(right: Right, layout: str, size: tuple[int, int, int]) -> None:
    right(plain(matmul(*size, layout=layout)))


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize(
    ("dtype", "acc", "out"),
    [
        ("f64", None, None), ("f32", None, None), ("f16", None, None), ("f16", "f16", None), ("f16", None, "f32"),
        ("bf16", None, None), ("bf16", "bf16", None), ("bf16", "f32", "f32"), ("i8", None, None), ("u8", None, None),
        ("i32", None, None), ("f32", None, "f16"),
    ],
)  # fmt: skip
def test_dtypes(right: Right, layout: str, dtype: str, acc: str | None, out: str | None) -> None:
    for size in ((64, 32, 16), RAGGED):
        right(plain(matmul(*size, dtype, acc=acc, out=out, layout=layout)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(64, 64, 16), RAGGED])
def test_half2(right: Right, layout: str, size: tuple[int, int, int]) -> None:
    chain = small(matmul(*size, "f16", acc="f16", layout=layout)).load(A, SH).load(B, SH)
    closed = (
        chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 2).unroll().done()
    )  # fmt: skip
    right(closed)
    assert "fma_f16x2" in closed.cuda()


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(64, 64, 16), RAGGED])
def test_dp4a(right: Right, dtype: str, layout: str, size: tuple[int, int, int]) -> None:
    chain = small(matmul(*size, dtype, layout=layout)).load(A, SH).load(B, SH)
    closed = (
        chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(4).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    right(closed)
    assert f"dp4a_{dtype}" in closed.cuda()


@pytest.mark.product
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [1, 8, 19, 40])
def test_pipelines(right: Right, stages: int, k: int) -> None:
    for strategy in (vector(), staged()):
        spec = matmul(45, 37, k)
        right(inner(small(spec).pipeline(stages).load(A, SH, strategy).load(B, SH, strategy)))


@pytest.mark.product
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_register_pipelines(right: Right, stages: int, ahead: int) -> None:
    chain = small(matmul(*RAGGED)).pipeline(stages).load(A, SH, staged()).load(B, SH, staged())
    right(
        chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().pipeline(ahead).load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def test_split_above_tile(right: Right) -> None:
    for size in ((64, 64, 16), RAGGED):
        right(
            matmul(*size).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
            .split(4).tile(16, 16).to(Warp).split(2).tile(4, 2).to(Thread).split(1).unroll()
            .load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip


@pytest.mark.parametrize("k", [5, 8, 12, 19])
def test_splits_that_do_not_divide_each_other(right: Right, k: int) -> None:
    right(
        matmul(45, 37, k).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .split(3).tile(16, 16).to(Warp).tile(4, 2).to(Thread).split(2).unroll().split(1).unroll()
        .load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def test_tiles_that_do_not_divide_each_other(right: Right) -> None:
    right(
        matmul(61, 47, 11).tile(30, 20).to(Block).epilog(memory=RF).split(4).load(A, SH).load(B, SH)
        .tile(12, 11).to(Warp).tile(5, 3).to(Thread).split(1).unroll()
        .load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("size", [(64, 64, 16), RAGGED])
def test_loads_for_each_warp(right: Right, size: tuple[int, int, int]) -> None:
    right(
        matmul(*size).tile(32, 32).to(Block).epilog(memory=RF).split(8).tile(16, 16).to(Warp)
        .load(A, SH).load(B, SH).tile(4, 2).to(Thread).split(1).unroll()
        .load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("size", [(64, 64, 16), RAGGED])
def test_more_tiles_than_lanes(right: Right, size: tuple[int, int, int]) -> None:
    """A warp's 16x16 elements go to 32 lanes one by one, 8 to each in turn."""
    right(
        small(matmul(*size)).load(A, SH).load(B, SH).tile(16, 16).to(Warp).tile(1, 1).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).done()
    )  # fmt: skip


@pytest.mark.parametrize("size", [(64, 64, 16), RAGGED])
def test_fewer_tiles_than_lanes(right: Right, size: tuple[int, int, int]) -> None:
    right(
        small(matmul(*size)).load(A, SH).load(B, SH).tile(16, 16).to(Warp).tile(4, 4).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("units", [2, 3])
def test_capped_units(right: Right, units: int) -> None:
    for size in ((64, 64, 16), RAGGED):
        right(
            small(matmul(*size)).load(A, SH).load(B, SH)
            .tile(16, 16).to(Warp, units=units).unroll().tile(4, 2).to(Thread)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip


def test_tiles_within_a_thread(right: Right) -> None:
    right(
        matmul(*RAGGED).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(8, 4).to(Thread).tile(4, 4).unroll().split(1).unroll()
        .load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def test_registers_loaded_from_global_memory(right: Right) -> None:
    for layout in LAYOUTS:
        for size in ((64, 64, 16), RAGGED):
            right(
                matmul(*size, layout=layout).tile(32, 32).to(Block).epilog(memory=RF).tile(4, 2).to(Thread)
                .split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()
            )  # fmt: skip


def test_strided_tiles(right: Right) -> None:
    for size in ((64, 64, 16), RAGGED):
        right(
            small(matmul(*size)).load(A, SH).load(B, SH).tile(Strided((8, 16), (16, 32))).to(Warp)
            .tile(Strided((2, 8), (1, 8))).to(Thread)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip


def test_presets_at_symbols(right: Right) -> None:
    for f in (simt.listing1, simt.listing2, simt.listing4, simt.sgemm):
        schedule = f(matmul(symbol("M"), symbol("N"), symbol("K")))
        for size in ((128, 128, 16), (130, 67, 9), (1, 1, 1)):
            right(schedule, M=size[0], N=size[1], K=size[2])


def one_hop(move: MoveChain) -> MoveChain:
    return move.tile(2, 2).to(Thread).tile(1, 1).unroll().done()


def two_hops(move: MoveChain) -> MoveChain:
    return conform()(move.load("src", RF, one_hop))


@pytest.mark.parametrize("strategy", [one_hop, two_hops, vector(4), staged(4)])
def test_own_strategies(right: Right, strategy: Any) -> None:
    for size in ((64, 64, 16), RAGGED):
        right(inner(small(matmul(*size)).load(A, SH, strategy).load(B, SH, strategy)))


def test_leading_dimension(right: Right) -> None:
    from fireiron import ColMajor, MatMul, RowMajor

    for order in (RowMajor, ColMajor):
        a, b, c = (
            Matrix(45, 19, order=order, ld=52),
            Matrix(19, 37, order=order, ld=40),
            Matrix(45, 37, order=order, ld=47),
        )
        right(plain(MatMul(a, b, c)))


def test_a_chunk_longer_than_k(right: Right) -> None:
    """What lies beyond K counts as 0, at whichever level the split stands."""
    for size in ((32, 32, 9), (32, 32, 1)):
        spec = matmul(*size)
        block = spec.tile(32, 32).to(Block).epilog(memory=RF)
        for chain in (block.split(32).tile(16, 32).to(Warp), block.tile(16, 32).to(Warp).split(32)):
            inner = chain.tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
            right(inner.tile(1, 1).unroll().done())
