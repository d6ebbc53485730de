"""Sums of chunks: every path that keeps accumulators in registers adds and scales them as the reference says."""

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
    Matrix,
    Thread,
    Vector,
    Warp,
    cast,
    cp_async,
    dequantise,
    ldmatrix,
    matmul,
    relu,
    scale,
)
from fireiron.algebra.dtypes import e4m3, f16, f32, i8
from fireiron.algebra.scalar import Arg, Binary, Constant, Unary
from fireiron.language.decompositions import Split
from fireiron.language.factors import factor
from fireiron.language.pointwise import Value, accumulator
from fireiron.language.residual import start
from fireiron.language.tensor import ColMajor
from fireiron.show.emits import emits
from fireiron.show.steps import chain
from fireiron.show.words import words
from fireiron.verify.comparison import compare
from fireiron.verify.reference import bound_in_words, mathematical, reference


@pytest.fixture
def held() -> Callable[..., Any]:
    def check(schedule: Any, **numbers: float) -> Any:
        found = schedule.simulate(**numbers)
        wanted = reference(schedule, found.arrays, numbers)
        result = compare("C", mathematical(schedule.matmul.C, found.out), wanted, schedule.matmul.C.dtype)
        assert result.passed, str(result)
        return found

    return check


def fragments(spec: Any, chunk: int = 128, step: int = 32, stages: int = 2) -> Any:
    """Multiply by mma.sync: warps of 32x32, fragments by ldmatrix."""
    return (
        spec.tile(64, 64).to(Block).epilog(memory=FR)
        .split(chunk).pipeline(stages).promote().load(A, SH, cp_async()).load(B, SH, cp_async())
        .tile(32, 32).to(Warp).split(step).unroll().pipeline(2)
        .load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()
    )  # fmt: skip


def threads(spec: Any, chunk: int = 16, warp: tuple[int, int] = (16, 16), thread: tuple[int, int] = (4, 2)) -> Any:
    batch = {"batch": 1} if spec.batch else {}
    return (
        spec.tile(32, 32, **batch).to(Block).epilog(memory=RF).split(chunk).promote().load(A, SH).load(B, SH)
        .tile(*warp).to(Warp).tile(*thread).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def scaled(m: int, n: int, k: int, dtype: str, groups: int, columns: int) -> Any:
    spec = matmul(m, n, k, dtype, layout="TN", out="f32")
    left, right = Matrix(m, groups, name="sa"), Matrix(groups, columns, name="sb")
    return spec.prolog(A, dequantise("f32", left)).prolog(B, dequantise("f32", right))


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["e4m3", "e5m2", "i8"])
@pytest.mark.parametrize("stages", [1, 3])
def test_fragments(held: Any, dtype: str, stages: int) -> None:
    held(fragments(scaled(64, 64, 512, dtype, 4, 2), stages=stages))
    held(fragments(scaled(72, 80, 384, dtype, 3, 5), stages=stages))


def test_fragments_of_16_bits(held: Any) -> None:
    held(fragments(matmul(64, 64, 256, "f16", layout="TN", out="f32"), 64, 16))


@pytest.mark.parametrize("shape", [(32, 32, 64), (45, 36, 80), (45, 36, 70)])
def test_threads(held: Any, shape: tuple[int, int, int]) -> None:
    held(threads(matmul(*shape)))
    if shape[2] % 16 == 0:
        left = Matrix(shape[0], shape[2] // 16, name="sa")
        held(threads(matmul(*shape).prolog(A, scale(left))))
        held(threads(matmul(*shape).prolog(A, scale(left)).swap()))


def test_pipelines_of_fragments_that_are_promoted(held: Any) -> None:
    """Chunks inside the chunks that shared memory holds: their sums are added, so no pipeline flows over them."""
    for spec in (scaled(64, 64, 512, "e4m3", 16, 2), matmul(64, 64, 512, "e4m3", layout="TN", out="f32")):
        chain = spec.tile(64, 64).to(Block).epilog(memory=FR).split(128).pipeline(3)
        chain = chain.load(A, SH, cp_async()).load(B, SH, cp_async()).tile(32, 32).to(Warp)
        chain = chain.split(32).unroll().pipeline(2).promote().load(A, FR, ldmatrix()).load(B, FR, ldmatrix())
        schedule = chain.tile(16, 8).unroll().done()
        assert schedule.cuda("sm_89").count("acc += chunk") == 1
        held(schedule)


def test_scales_that_hold_for_all_of_k(held: Any) -> None:
    rows, columns = Vector(45, name="r", along=ColMajor), Vector(36, name="c")
    held(threads(matmul(45, 36, 64).prolog(A, scale(rows), lambda x: -x / 3).prolog(B, scale(columns))))
    held(threads(matmul(45, 36, 64).prolog(A, scale(0.5)).prolog(B, scale("s"))), s=0.25)


def test_chunks_of_any_place(held: Any) -> None:
    """Only scales that change along K mind where chunks start, and how long they are."""
    columns = Vector(36, name="c")

    def chain(split: Callable[[Any], Any]) -> Any:
        spec = matmul(32, 36, 90).prolog(B, scale(columns)).tile(32, 32).to(Block).epilog(memory=RF)
        below = split(spec).load(A, SH).load(B, SH).tile(4, 2).to(Thread)
        return below.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()

    held(chain(lambda spec: spec.split(48).split(32).promote()))
    held(chain(lambda spec: spec.split(ways=4).promote()))
    held(chain(lambda spec: spec.split(32).promote().unroll(2)))
    held(chain(lambda spec: spec.split(48).promote().split(8).promote()))


def test_batches(held: Any) -> None:
    spec = matmul(40, 36, 64, batch=2).prolog(A, scale(Matrix(40, 4, name="sa", batch=2)))
    held(threads(spec.prolog(B, scale(Matrix(4, 36, name="sb")))))


def test_threads_without_a_tile(held: Any) -> None:
    """Warps of 16x32 make two of the four that tiles of 4x4 would fill: half of each warp's lanes have none."""
    held(threads(matmul(32, 32, 64).prolog(A, scale(Matrix(32, 4, name="sa"))), warp=(8, 16), thread=(4, 8)))


def test_split_below_the_warps(held: Any) -> None:
    chain = matmul(32, 48, 64).prolog(B, scale(Matrix(4, 3, name="sb"))).tile(32, 48).to(Block).epilog(memory=RF)
    chain = chain.tile(16, 16).to(Warp).split(16).promote().load(A, SH).load(B, SH).tile(4, 2).to(Thread)
    held(chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done())


@pytest.mark.parametrize("k", [16, 512])
def test_bounds_follow_the_type_of_a_chunk(held: Any, k: int) -> None:
    """Chunks of f32 are summed in f32, whatever they are added to."""
    chain = matmul(32, 32, k, out="f64").tile(32, 32).to(Block).epilog(memory=RF, dtype="f64").split(16).promote()
    chain = chain.load(A, SH).load(B, SH).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    held(chain.tile(1, 1).unroll().done())


def test_bounds_name_the_prolog() -> None:
    assert bound_in_words(fragments(scaled(64, 64, 128, "e4m3", 1, 1))).endswith("the prolog's")


def test_factors() -> None:
    s, x = Vector(8, name="s"), accumulator(e4m3)
    assert factor(x) == Constant(1.0, e4m3)
    assert factor(cast(x, "f32") * s) == factor(s * cast(cast(x, "f16"), "f32")) == Arg(1, f32)
    assert factor(-(cast(x, "f32") / s)) == Unary("neg", Binary("div", Constant(1.0, f32), Arg(1, f32)))
    wide = accumulator(f32)
    for other in (wide + s, relu(wide), wide * wide, s / wide, abs(wide), cast(wide, "f16") * 2.0):
        assert factor(other) is None
    assert factor(Value(Binary("mul", Arg(0, i8), Constant(3, i8)))) is None  # it wraps
    assert factor(accumulator(f16) * 2.0) == Constant(2.0, f16)


def test_what_links_say() -> None:
    schedule = fragments(scaled(64, 64, 512, "e4m3", 4, 2))
    origin = start(schedule.matmul)
    (split, *_) = (x for x in chain(origin, schedule.links, "") if isinstance(x.link, Split))
    assert "promote from f32" in words(split.link)
    assert emits(split).endswith("; each chunk is summed in f32 of its own, and added times what scales A and B")
