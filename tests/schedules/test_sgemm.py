"""Products on CUDA cores by asynchronous copies: right in every layout, without spills, loads ahead of the products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import Vector, add, matmul, relu
from fireiron.schedules import ampere
from fireiron.verify.verification import Data, verify
from tests.schedules.test_ampere import main_loop

Right = Callable[..., Any]
SMALL: dict[str, Any] = {"m": 64, "n": 64, "warp": (32, 32), "stages": 3}


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_right(right: Right, layout: str) -> None:
    right(ampere.sgemm(matmul(72, 80, 40, layout=layout), **SMALL))
    right(ampere.sgemm(matmul(71, 67, 33, layout=layout), **SMALL, k=16, split_k=2))


@pytest.mark.parametrize("warp", [(32, 64), (64, 32), (64, 64)])
def test_right_by_every_warp(right: Right, warp: tuple[int, int]) -> None:
    right(ampere.sgemm(matmul(68, 132, 24, batch=2), m=64, n=128, warp=warp))


@pytest.mark.parametrize("dtype", ["f64", "i32"])
def test_right_for_other_types(right: Right, dtype: str) -> None:
    right(ampere.sgemm(matmul(66, 65, 17, dtype), **SMALL))


def test_right_with_ops() -> None:
    spec = matmul(65, 72, 20, layout="TN").then(add(Vector(72, name="bias")), relu)
    schedule = ampere.sgemm(spec, **SMALL)

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def test_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(ampere.sgemm(matmul(512, 512, 512, layout="TN")).cuda(80), "schedules/ampere_sgemm.cu")


def test_one_chunk_takes_the_registers_that_it_needs() -> None:
    """Without a loop all loads move ahead of all products, and no other block need find room beside them."""
    one, two = (ampere.sgemm(matmul(64, 64, k, layout="NT")) for k in (16, 32))
    assert "__launch_bounds__(256, 2)" not in one.cuda("sm_90a")
    assert "__launch_bounds__(256, 2)" in two.cuda("sm_90a")
    assert not one.compile("sm_90a", cache=False).resources.spills


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("layout", ["TN", "NT"])
def test_loads_of_ragged_tiles_start_before_the_products_of_a_trip(layout: str, arch: str) -> None:
    """Loads that `staged` guards sink to their stores, behind all products: nothing covers their latency."""
    kernel = ampere.sgemm(matmul(1456, 1776, 1984, layout=layout)).compile(arch, cache=False)
    assert (kernel.resources.spill_stores, kernel.resources.stack) == (0, 0)
    assert kernel.resources.registers <= 128  # two blocks an SM
    loop = main_loop(kernel.sass, "FFMA")
    assert loop.count("FFMA") == 1024
    assert loop.count("FFMA") > 0.84 * len(loop)
    assert "LDG" not in loop
    last = max(i for i, opcode in enumerate(loop) if opcode == "LDGSTS")
    assert loop[last:].count("FFMA") > 512
