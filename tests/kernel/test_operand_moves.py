"""Moves that lowering puts in: atoms of a thread take registers, where operands lie in memory (Graphene, figure 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import RF, SH, A, B, Block, FireironError, Thread, matmul

Right = Callable[..., Any]


def figure_8(spec: Any, tile: tuple[int, int] = (1, 1), k: int = 1) -> Any:
    return spec.tile(32, 32).to(Block).tile(4, 4).to(Thread).tile(*tile).split(k).done()


@pytest.mark.parametrize(("size", "dtype"), [((33, 37, 5), "f16"), ((32, 5, 3), "f64")])
def test_all_operands_in_global_memory(right: Right, size: Any, dtype: str) -> None:
    right(figure_8(matmul(*size, dtype, acc=dtype)))


def test_integers_and_instructions_of_several_elements(right: Right) -> None:
    right(figure_8(matmul(32, 32, 4, "f16", acc="f16"), (1, 2)))
    right(figure_8(matmul(32, 32, 8, "i8", layout="TN"), k=4))
    assert "fma_f16x2(" in figure_8(matmul(64, 64, 32, "f16", acc="f16"), (1, 2)).cuda("sm_80")
    assert "dp4a_i8(" in figure_8(matmul(64, 64, 32, "i8", layout="TN"), k=4).cuda("sm_80")


def test_the_kernel(golden: Callable[[str, str], None]) -> None:
    golden(figure_8(matmul(64, 64, 32, "f16", acc="f16")).cuda("sm_70"), "kernel/figure_8.cu")


def test_operands_in_shared_memory_and_sums_in_registers(right: Right) -> None:
    chain = matmul(33, 32, 11).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
    right(chain.tile(4, 4).to(Thread).split(1).unroll().tile(1, 1).unroll().done())


@pytest.mark.parametrize("ks", [(4, 1), (16, 2, 1)])
def test_several_loops_over_k_set_c_once(right: Right, ks: tuple[int, ...]) -> None:
    chain = matmul(32, 33, 9).tile(32, 32).to(Block).tile(4, 4).to(Thread).tile(1, 1)
    for k in ks:
        chain = chain.split(k)
    right(chain.done())


def test_without_a_loop_sums_begin_at_zero() -> None:
    ones = np.ones((16, 1), np.float32)
    tiled = matmul(16, 16, 1).tile(16, 16).to(Block).tile(2, 2).to(Thread).tile(1, 1)
    assert (tiled.done().simulate(ones, ones.T.copy()).out == 1).all()


def test_sums_are_not_rounded_to_the_result_unasked() -> None:
    with pytest.raises(FireironError, match="where they would be summed") as caught:
        figure_8(matmul(64, 64, 32, "f16"))
    assert caught.value.code == "accumulator-dtype"


def test_elements_that_lie_apart_are_refused() -> None:
    with pytest.raises(FireironError, match="do not lie together") as caught:
        figure_8(matmul(64, 64, 32, "f16", acc="f16", layout="TT"), (1, 2))
    assert caught.value.code == "no-atom"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_compiles_without_spills(arch: str) -> None:
    found = figure_8(matmul(1024, 1024, 1024, "f16", acc="f16")).compile(arch, cache=False).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0
