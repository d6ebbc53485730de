"""Moves, Inits, Pointwises, microkernels and atoms of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import (
    RF,
    SH,
    SRC,
    A,
    B,
    Block,
    ColMajor,
    Init,
    Matrix,
    Move,
    Pointwise,
    RowMajor,
    Thread,
    Vector,
    Warp,
    exp,
    matmul,
    microkernel,
    relu,
    symbol,
)
from fireiron.atoms.table import find
from fireiron.base.errors import SimulationError
from fireiron.front.moves import conform, staged, through_shared, vector

Right = Callable[..., Any]
SIZES = ((64, 64), (45, 37), (1, 1), (33, 64))


def moved(schedule: Any, **sizes: int) -> tuple[Any, Any]:
    """Give what a Move read and wrote, in mathematical order."""
    spec = schedule.program.spec
    sim = schedule.simulate(**sizes)
    sides = []
    for tensor in (spec.src, spec.dst):
        x = np.asarray(sim.arrays[tensor.name])
        sides.append(x if tensor.storage == tuple(range(len(tensor.shape))) else x.swapaxes(-1, -2))
    return sides[0], sides[1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "f64"])
@pytest.mark.parametrize("orders", [(RowMajor, RowMajor), (RowMajor, ColMajor), (ColMajor, ColMajor)])
def test_moves(size: Any, dtype: str, orders: Any) -> None:
    src, dst = (Matrix(*size, dtype, order) for order in orders)
    start = Move(src, dst).tile(32, 32).to(Block)
    for finish in (
        lambda m: m.tile(4, 4).to(Thread).tile(1, 1).done(),
        lambda m: m.tile(16, 32).to(Warp).vectors().to(Thread).unroll().done(),
        lambda m: staged()(m),
        lambda m: conform()(m.load(SRC, RF, lambda x: x.tile(8, 2).to(Thread).tile(1, 1).unroll().done())),
    ):
        assert np.array_equal(*moved(finish(start)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
@pytest.mark.parametrize("pad", [0, 1])
def test_transposition_through_shared_memory(size: Any, dtype: str, pad: int) -> None:
    """Lines of both sides are read and written whole."""
    start = Move(Matrix(*size, dtype), Matrix(*size, dtype, ColMajor)).tile(32, 32).to(Block)
    put = lambda m: m.tile(4, 32).to(Warp).tile(1, 1).to(Thread).done()  # noqa: E731
    take = lambda m: m.tile(32, 4).to(Warp).tile(1, 1).to(Thread).layout(ColMajor).done()  # noqa: E731
    schedule = take(start.load(SRC, SH, put).storage_layout(RowMajor).pad(pad))
    x, y = moved(schedule)
    assert np.array_equal(x, y)
    assert np.array_equal(*moved(through_shared(put, take, pad=pad)(start)))


@pytest.mark.parametrize("types", [("f32", "f16"), ("f16", "f32"), ("f32", "bf16"), ("i8", "i32"), ("i8", "f32")])
@pytest.mark.parametrize("size", SIZES)
def test_conversion(types: tuple[str, str], size: Any) -> None:
    for f in (vector(), staged()):
        x, y = moved(f(Move(Matrix(*size, types[0]), Matrix(*size, types[1])).tile(32, 32).to(Block)))
        assert np.array_equal(x.astype(y.dtype), y)


def test_symbolic_batched_move() -> None:
    m, n = symbol("m"), symbol("n", multiple_of=4)
    schedule = vector()(Move(Matrix(m, n, batch=3), Matrix(m, n, batch=3)).tile(32, 32, batch=1).to(Block))
    assert np.array_equal(*moved(schedule, m=45, n=52))


@pytest.mark.parametrize("size", SIZES)
def test_init(size: Any) -> None:
    for dtype, value in (("f32", 2.5), ("i8", 3), ("f16", -1.0), ("bf16", 0.5)):
        sim = Init(Matrix(*size, dtype), value).tile(32, 32).to(Block).tile(4, 4).to(Thread).done().simulate()
        assert (sim.out.astype(np.float64) == value).all()


@pytest.mark.parametrize("size", SIZES)
def test_pointwise(size: Any) -> None:
    x, y, z = Matrix(*size, name="x"), Matrix(*size, order=ColMajor, name="y"), Matrix(*size, name="z")
    bias = Vector(size[1], name="bias")
    schedule = (
        Pointwise(lambda x, y, b: relu(x * 2 + y) - exp(b), x, y, bias, z)
        .tile(32, 32)
        .to(Block)
        .tile(4, 2)
        .to(Thread)
        .done()
    )
    sim = schedule.simulate()
    given = {k: v.astype(np.float64) for k, v in sim.arrays.items()}
    wanted = np.maximum(given["x"] * 2 + given["y"].T, 0) - np.exp(given["bias"])
    np.testing.assert_allclose(sim.out, wanted, rtol=1e-5, atol=1e-6)


PRODUCT = microkernel(
    """\
for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
        auto sum = C[m * C_row + n * C_col];
        sum = 0;
        for (int k = 0; k < K; ++k) sum = sum + A[m * A_row + k * A_col] * B[k * B_row + n * B_col];
        C[m * C_row + n * C_col] = sum;
    }""",
    numpy=lambda a, b, c: a.astype(c.dtype) @ b.astype(c.dtype),
    name="product",
)
UPDATE = microkernel(
    "for (int k = 0; k < K; ++k) C[0] += A[k * A_col] * B[k * B_row];",
    numpy=lambda a, b, c: c + a.astype(c.dtype) @ b.astype(c.dtype),
    name="update",
)


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("size", [(64, 64, 16), (45, 37, 19)])
def test_microkernels(right: Right, size: Any, layout: str) -> None:
    spec = matmul(*size, layout=layout)
    right(spec.tile(16, 16).to(Block).tile(4, 2).to(Thread).done(PRODUCT))
    right(spec.tile(16, 16).to(Block).done(PRODUCT))
    right(spec.tile(32, 32).to(Block).tile(16, 16).to(Warp).done(PRODUCT))
    right(spec.tile(16, 16).to(Block).tile(1, 1).to(Thread).split(8).done(UPDATE))
    right(
        spec.tile(16, 16).to(Block).epilog(relu, memory=RF).tile(1, 1).to(Thread).split(8).done(UPDATE),
        lambda p, x: np.maximum(p, 0),
    )


SUMS = microkernel(
    """\
for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n)
        for (int k = 0; k < K; ++k) C[m * C_row + n * C_col] += A[m * A_row + k * A_col] * B[k * B_row + n * B_col];""",
    numpy=lambda a, b, c: c + a.astype(c.dtype) @ b.astype(c.dtype),
    name="sums",
)


@pytest.mark.parametrize("memory", [RF, SH])
def test_microkernel_of_a_batch(right: Right, memory: Any) -> None:
    """Rows and columns are the last two dimensions, whatever is in front."""
    spec = matmul(16, 16, 16, batch=3)
    chain = (
        spec.tile(16, 16, batch=1).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH).tile(4, 2).to(Thread)
    )
    if memory is RF:
        chain = chain.load(A, RF).load(B, RF)
    schedule = chain.done(SUMS)
    right(schedule)
    assert "&acc[0], 1, 4, " in schedule.cuda("sm_90")


def test_microkernel_on_shared_memory(right: Right) -> None:
    for size in ((64, 64, 16), (45, 37, 19)):
        right(
            matmul(*size).tile(16, 16).to(Block).epilog(memory=RF).split(8).load(A, SH).pad(1).load(B, SH)
            .tile(1, 1).to(Thread).done(UPDATE)
        )  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("columns", [3, 5, 6, 7])
def test_microkernel_on_shared_tiles_of_any_width(right: Right, columns: int, dtype: str) -> None:
    """Rows of three or five elements are no vector: they are read one by one, or by the widest that divides them."""
    chain = matmul(16, 16, 16, dtype, out="f32").tile(16, 16).to(Block).epilog(memory=RF).split(columns)
    schedule = chain.load(A, SH).load(B, SH).tile(1, 1).to(Thread).done(UPDATE)
    right(schedule)
    assert schedule.facts("sm_90")
    assert schedule.estimate("sm_90")
    assert not [f for f in schedule.check("sm_90") if f.severity == "error"]


def test_a_microkernel_that_adds_to_what_nobody_wrote() -> None:
    """C in global memory has no first value; a microkernel that only writes it is right."""
    ones = np.ones((16, 16), np.float32)
    tiled = matmul(16, 16, 16).tile(16, 16).to(Block).tile(2, 2).to(Thread)
    with pytest.raises(SimulationError) as caught:
        tiled.done(SUMS).simulate(ones, ones)
    assert caught.value.code == "uninitialised-read"
    assert "thread 0 of block 0 reads C[0, 0], which no thread wrote" in caught.value.message
    assert (tiled.done(PRODUCT).simulate(ones, ones).out == 16).all()


def test_an_atom_of_ones_own(right: Right, chains: Any) -> None:
    fma = find("fma.f32")
    assert fma is not None
    own = attrs.evolve(fma, name="mine.f32", call="{C} = __fmaf_rn({A}, {B}, {C});")
    chain = chains.outer(matmul(45, 37, 19)).load(A, SH).load(B, SH).tile(16, 16).to(Warp).tile(4, 2).to(Thread)
    schedule = chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done(own)
    right(schedule)
    assert "__fmaf_rn" in schedule.cuda()
    assert "mine.f32" in str(schedule)
