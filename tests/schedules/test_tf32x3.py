"""Products of f32 by three of tf32: right within the bound that the preset states, and only where it is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, FireironError, Warp, ldmatrix, matmul
from fireiron.algebra.dtypes import f32
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.table import TABLE, find
from fireiron.schedules import ampere
from fireiron.verify.verification import Data, verify

SMALL: dict[str, Any] = {"m": 64, "n": 64, "warp": (32, 32)}
U = 2.0**-24


def spec(m: int, n: int, k: int, layout: str = "TN", **more: Any) -> Any:
    return matmul(m, n, k, "f32", layout=layout, **more)


@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
def test_right(layout: str) -> None:
    schedule = ampere.gemm_tf32x3(spec(72, 80, 40, layout), **SMALL)

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def errors(schedule: Any, a: Any, b: Any) -> Any:
    """Give the error of each element of C, as a part of the same element of |A| |B|, in units of f32's rounding."""
    found = schedule.simulate(a, b).out
    left, right = a.astype(np.float64), b.astype(np.float64)
    return np.abs(found - left @ right) / (np.abs(left) @ np.abs(right)) / U


@pytest.mark.parametrize(
    ("scale", "k"),
    [
        *((1.0, 8), (1.0, 520), (1e-15, 64), (1e15, 64)),
        *(pytest.param(scale, k, marks=pytest.mark.exhaustive) for scale in (1e-15, 1e15) for k in (8, 520)),
        pytest.param(1.0, 64, marks=pytest.mark.exhaustive),
    ],
)
def test_errors_are_within_the_bound_and_far_below_those_of_tf32(k: int, scale: float) -> None:
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, k), (k, 64)))
    a *= np.float32(scale)
    three = errors(ampere.gemm_tf32x3(spec(64, 64, k, "NN"), **SMALL), a, b).max()
    one = errors(ampere.gemm(matmul(64, 64, k, "tf32", layout="NN"), **SMALL), a, b).max()
    assert three <= 20 + 6 * -(-k // 8)
    assert 200 * three < one


def test_the_worst_products_are_within_what_a_product_loses() -> None:
    """All bits that rounding to tf32 drops are set: what is left of a product is its largest error."""
    row = find("tf32x3.m16n8k8")
    assert row is not None
    meaning = meaning_of(row)
    assert meaning is not None
    rng = np.random.default_rng(3)
    for low in (0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x07FF):
        bits = rng.integers(0, 1 << 10, (1, 32, 4), np.uint32) << 13 | low | 0x3F800000
        x = np.zeros((1, 32, 4), np.float32)
        x[..., 0] = bits.view(np.float32)[..., 0]  # one column of K alone: sums of one product
        x[:, np.arange(32) % 4 != 0] = 0
        y = np.full((1, 32, 2), np.uint32(0x3F800000 | low), np.uint32).view(np.float32)
        found = meaning(x, y, np.zeros((1, 32, 4), np.float32)).astype(np.float64)
        exact = (x[0, ::4, 0].astype(np.float64) * float(y[0, 0, 0]))[:, None]
        assert np.max(np.abs(found[0].reshape(8, 4, 4)[:, :, :2] / exact[..., None] - 1)) <= 5 * 2.0**-22 + 3 * 2.0**-24


def test_what_is_no_number_stays_none() -> None:
    a, b = np.ones((64, 16), np.float32), np.ones((16, 64), np.float32)
    a[3, 5] = np.uint32(0x7FFFFFFF).view(np.float32)  # the NaN that the hardware makes: rounding up would wrap
    a[7, 2] = np.inf
    found = ampere.gemm_tf32x3(spec(64, 64, 16, "NN"), **SMALL).simulate(a, b).out
    assert np.isnan(found[[3, 7]]).all()
    assert (np.delete(found, [3, 7], axis=0) == 16).all()


def test_only_a_schedule_that_names_it_takes_it() -> None:
    assert not [row for row in TABLE if row.name.startswith("tf32x3")]
    chain = spec(64, 64, 64).tile(64, 64).to(Block).epilog(memory=FR).split(8).load(A, SH).load(B, SH)
    chain = chain.tile(32, 32).to(Warp).load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll()
    with pytest.raises(FireironError) as caught:
        chain.done()
    assert caught.value.code == "no-atom"
    assert "tf32x3_m16n8k8" in chain.done("tf32x3").cuda("sm_80")
    assert [operand.dtype for operand in find("tf32x3.m16n8k4").operands] == [f32, f32, f32]  # type: ignore[union-attr]


def test_parts_are_computed_once_a_fragment() -> None:
    """64x32 of a warp: 4 and 4 fragments of 4 and 2 registers for each 8 of K, 48 products of tf32."""
    kernel = ampere.gemm_tf32x3(spec(4096, 4096, 4096, "NN")).compile("sm_80")
    assert not kernel.resources.spills
    code = kernel.sass.splitlines()
    products, subtractions = (sum(word in line for line in code) for word in ("HMMA", "FADD"))
    assert subtractions * 2 == products


@pytest.mark.parametrize(
    ("arch", "layout", "size"), [("sm_80", "TN", 4096), ("sm_90a", "TN", 4095), ("sm_120", "NT", 4095)]
)
def test_compiles_without_spills(arch: str, layout: str, size: int) -> None:
    assert not ampere.gemm_tf32x3(spec(size, 4096, size, layout)).compile(arch).resources.spills


def test_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(ampere.gemm_tf32x3(spec(256, 256, 64), **SMALL).cuda("sm_80"), "schedules/ampere_tf32x3.cu")
