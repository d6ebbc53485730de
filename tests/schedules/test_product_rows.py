"""Products whose rows are folded behind them: right, compiled without spills, in clusters of every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import (
    FR,
    SH,
    Block,
    ColMajor,
    FireironError,
    Matrix,
    Schedule,
    StepChain,
    Vector,
    Warpgroup,
    best,
    by_cluster,
    einsum,
    program,
    softmax,
    tensor,
    tma,
)
from fireiron.schedules import product_rows as schedules
from fireiron.verify.verification import Data, verify


def spec(m: int, n: int, k: int, dtype: str = "f16") -> Any:
    x, w, residual = (Matrix(*shape, dtype, name=name) for shape, name in (((m, k), "x"), ((n, k), "w"), ((m, n), "r")))
    return schedules.add_layernorm(x, w, *(Vector(n, dtype, name=name) for name in ("b",)), residual, *ends(n, dtype))


def ends(n: int, dtype: str) -> tuple[Any, ...]:
    return tuple(Vector(n, dtype, name=name) for name in ("g", "s"))


def right(schedule: Any) -> None:
    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(
    ("sizes", "plan"),
    [
        ((70, 128, 80), {"blocks": 1}),
        ((130, 192, 64), {"blocks": 3, "groups": 3}),
        ((40, 128, 128), {"blocks": 8, "groups": 1, "stages": 2}),
        ((100, 96, 64), {"blocks": 6}),
    ],
)
def test_wgmma(sizes: tuple[int, int, int], plan: dict[str, int]) -> None:
    right(schedules.wgmma(spec(*sizes, "bf16" if sizes[1] == 192 else "f16"), **plan))


@pytest.mark.parametrize(("sizes", "plan"), [((70, 128, 80), {}), ((20, 256, 64), {"rows": 16, "blocks": 2})])
def test_mma(sizes: tuple[int, int, int], plan: dict[str, int]) -> None:
    right(schedules.mma(spec(*sizes), **plan))


@program(x="b s k", w="k n")
def weights(x: Any, w: Any) -> Any:
    return softmax(einsum("bsk,kn->bsn", x, w), over="n")


@pytest.mark.parametrize("preset", [schedules.wgmma, schedules.mma])
def test_rows_of_several_dims_and_a_matrix_that_lies_along_its_columns(preset: Any) -> None:
    right(preset(weights(tensor(2, 40, 64, dtype="f16"), Matrix(64, 128, "f16", name="w"))))
    right(preset(weights(tensor(1, 40, 64, dtype="f16"), Matrix(64, 128, "f16", ColMajor, name="w"))))


def test_sums_meet_once_in_each_trip_of_a_loop() -> None:
    def product(s: StepChain) -> Schedule:
        return s.split(k=16).unroll().done("wgmma")

    chain = spec(256, 128, 128).tile(m=128).to(Block).split("n", ways=2).parallel(Block, by_cluster())
    chain = chain.tile(m=64).epilog(memory=FR).split(k=64).pipeline(2).specialize()
    chain = chain.load("x", SH, tma()).load("w", SH, tma())
    right(chain.tile(m=64).to(Warpgroup).each(product=product))


@pytest.mark.parametrize(("n", "k"), [(768, 768), (768, 3072), (1024, 1024)])
def test_wgmma_compiles_without_spills(n: int, k: int) -> None:
    kernel = schedules.wgmma(spec(12288, n, k)).compile("sm_90a")
    assert kernel.resources.spills == 0
    assert not kernel.resources.warnings  # ptxas tells of products that it serialises


def test_mma_compiles_without_spills() -> None:
    assert schedules.mma(spec(512, 256, 256)).compile("sm_80").resources.spills == 0


def test_blocks_of_a_cluster_load_rows_together() -> None:
    text = schedules.wgmma(spec(12288, 768, 768)).cuda("sm_90a")
    assert "tma_load_2d_multicast(&x_sh" in text
    assert "tma_load_2d(&w_sh" in text


def test_the_shape_of_a_block_follows_waves() -> None:
    wide, few = (schedules.wgmma(spec(m, 768, 768)).lowered() for m in (12288, 128))
    assert (wide.cluster, wide.threads) == (6, 512)  # 64 tiles of 192 rows, 6 blocks each, on 132 multiprocessors
    assert (few.cluster, few.threads) == (8, 256)


@pytest.mark.parametrize("n", [2048, 100])
def test_rows_that_no_cluster_holds(n: int) -> None:
    with pytest.raises(FireironError, match="product-columns"):
        schedules.wgmma(spec(64, n, 64))


def test_kernel(golden: Callable[[str, str], None]) -> None:
    golden(schedules.wgmma(spec(12288, 768, 768)).cuda("sm_90a"), "schedules/product_rows_wgmma.cu")
    golden(schedules.mma(spec(512, 128, 256)).cuda("sm_80"), "schedules/product_rows_mma.cu")


@pytest.mark.parametrize(("preset", "options"), [("wgmma", {"blocks": 2}), ("wgmma", {}), ("mma", {})])
def test_softmax_behind_a_product(preset: str, options: dict[str, int]) -> None:
    """One tile or the tiles of a cluster hold whole rows: the largest values and the sums meet there."""
    x, w, b = Matrix(70, 64, "f16", name="x"), Matrix(128, 64, "f16", name="w"), Vector(128, "f16", name="b")
    schedule = getattr(schedules, preset)(schedules.linear_softmax(x, w, b, scale=0.25), **options)
    right(schedule)
    assert "blocks" not in options or schedule.lowered("sm_90a").cluster == options["blocks"]


def test_softmax_of_experts_is_one_kernel_by_best() -> None:
    """4096 tokens of 2048 channels, 256 experts: `best` takes it, and registers hold what a row has."""
    x, w = Matrix(4096, 2048, "bf16", name="x"), Matrix(256, 2048, "bf16", name="w")
    spec = schedules.linear_softmax(x, w)
    assert "product" in best(spec).cuda("sm_90a")
    assert not schedules.wgmma(spec).compile("sm_90a").resources.spills
    assert not schedules.mma(schedules.linear_softmax(x, w, arch="sm_80")).compile("sm_80").resources.spills
