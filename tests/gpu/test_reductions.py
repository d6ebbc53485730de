"""Reductions over any dims and pointwise programs on the GPU, against their references."""

from __future__ import annotations

from typing import Any

import pytest
from verified import verified

import fireiron as fi
from fireiron import ColMajor, Matrix, Move, best, program, tensor
from fireiron.schedules import pointwise, reductions

# The shapes of AKG's tests.
SUMS = [
    ("a b c", "a b", (32, 64, 32)),
    ("a b c", "a b", (64, 128, 1024)),
    ("a b c", "c", (64, 128, 1024)),
    ("u a b c", "a b c", (1, 64, 128, 1024)),
    ("m n", "n", (8192, 1024)),
    ("m n", "n", (1280, 1024)),
    ("a b c d", "d", (64, 16, 128, 128)),
]


def folded(dims: str, over: str, shape: tuple[int, ...], dtype: str, fold: Any = fi.sum) -> Any:
    return program(x=dims)(lambda x: fold(x, over))(tensor(*shape, dtype=dtype), out="f32")


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize(("dims", "over", "shape"), SUMS)
def test_sums(gpu: int, dims: str, over: str, shape: tuple[int, ...], dtype: str) -> None:
    verified(reductions.reduction(folded(dims, over, shape, dtype)))


@pytest.mark.parametrize("fold", [fi.max, fi.min])
@pytest.mark.parametrize(("over", "shape"), [("b", (32, 64, 32)), ("a b", (4, 128, 1024))])
def test_largest_and_smallest(gpu: int, over: str, shape: tuple[int, ...], fold: Any) -> None:
    verified(reductions.reduction(folded("a b c", over, shape, "f32", fold)))


@pytest.mark.parametrize("atomics", [False, True])
def test_columns_shared_by_blocks(gpu: int, atomics: bool) -> None:
    verified(reductions.reduction(folded("m n", "m", (8192, 1000), "bf16"), ways=13, atomics=atomics))


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64", "e4m3", "i32"])
def test_pointwise(gpu: int, dtype: str) -> None:
    total = program(x="m n", y="m n")(lambda x, y: x * y + x)
    verified(pointwise.pointwise(total(Matrix(1000, 1016, dtype), Matrix(1000, 1016, dtype))))


@pytest.mark.parametrize("dtype", ["i8", "bf16", "f32", "f64"])
@pytest.mark.parametrize(("m", "n"), [(1000, 1016), (999, 1017)])
def test_transposes(gpu: int, m: int, n: int, dtype: str) -> None:
    src, dst = Matrix(m, n, dtype, name="src"), Matrix(m, n, dtype, ColMajor, name="dst")
    verified(pointwise.move(Move(src, dst)))


def test_the_best_schedule_of_programs(gpu: int) -> None:
    verified(best(folded("m n", "n", (100, 5000), "f32")))
    verified(best(program(x="m n")(lambda x: fi.softmax(x, "n"))(Matrix(64, 512))))
