"""Tensors that start between multiples of 16 bytes: no access is wider than their start allows."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fireiron import (
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    MatMul,
    Matrix,
    Thread,
    Warp,
    add,
    matmul,
    staged,
)
from fireiron.jit.interface import Interface
from fireiron.schedules import ampere

ALIGNED = {0: 16, 1: 2, 2: 4, 4: 8}  # by start in elements of f16, the bytes that its first element is aligned to


def alignment(schedule: Any, name: str) -> int:
    """Return the bytes by which a kernel needs an input aligned."""
    return next(given.align for given in Interface.of(schedule.lowered()).inputs if given.name == name)


def starting(name: str, rows: int, columns: int, start: int) -> Any:
    return attrs.evolve(Matrix(rows, columns, "f16", name=name), start=start)


def loaded(start: int, how: Any) -> Any:
    """Load an operand to shared memory by some strategy."""
    b, c = Matrix(64, 64, "f16", order=ColMajor, name="B"), Matrix(64, 64, "f32", name="C")
    chain = MatMul(starting("A", 64, 64, start), b, c).tile(32, 32).to(Block).epilog(memory=RF).split(8)
    chain = chain.load(A, SH, how).load(B, SH).tile(16, 16).to(Warp).tile(4, 2).to(Thread).split(1).unroll()
    return chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done()


@pytest.mark.parametrize("start", ALIGNED)
def test_the_widest_vector_is_narrower(start: int) -> None:
    assert alignment(loaded(start, staged()), "A") == ALIGNED[start]


def quads(move: Any) -> Any:
    return move.tile(1, 4).to(Thread).done()


def test_tiles_that_are_vectors_are_refused() -> None:
    assert alignment(loaded(4, quads), "A") == 8
    with pytest.raises(FireironError, match="a tensor that starts at 2, which 4 does not divide") as caught:
        loaded(2, quads)
    assert caught.value.code == "vector-alignment"


@pytest.mark.parametrize(("start", "nbytes"), [(0, 4), (1, 2), (2, 4)])
def test_what_an_epilog_reads(start: int, nbytes: int) -> None:
    """Two neighbours at once, where they start at a multiple of 4 bytes."""
    schedule = ampere.gemm(matmul(128, 128, 64, "f16").then(add(starting("r", 128, 128, start))))
    assert alignment(schedule, "r") == nbytes
