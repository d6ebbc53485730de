"""Products and the folds of their rows on the GPU, in clusters of several sizes, against their reference."""

from __future__ import annotations

from typing import Any

import pytest
from verified import verified

from fireiron import Matrix, Vector
from fireiron.jit.driver import driver
from fireiron.schedules import product_rows


def spec(m: int, n: int, k: int, dtype: str) -> Any:
    x, w, residual = (Matrix(*shape, dtype, name=name) for shape, name in (((m, k), "x"), ((n, k), "w"), ((m, n), "r")))
    bias, gain, shift = (Vector(n, dtype, name=name) for name in ("b", "g", "s"))
    return product_rows.add_layernorm(x, w, bias, residual, gain, shift)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("sizes", "plan"),
    [
        ((4096, 768, 768), {}),
        ((1000, 768, 3072), {"groups": 2, "blocks": 4}),
        ((77, 1024, 512), {}),
        ((300, 192, 256), {"blocks": 1}),
        ((12288, 384, 64), {"groups": 3, "blocks": 6}),
    ],
)
def test_wgmma(gpu: int, sizes: tuple[int, int, int], plan: dict[str, int], dtype: str) -> None:
    if driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")
    verified(product_rows.wgmma(spec(*sizes, dtype), **plan))


@pytest.mark.parametrize("sizes", [(500, 128, 256), (64, 96, 64)])
def test_mma(gpu: int, sizes: tuple[int, int, int]) -> None:
    verified(product_rows.mma(spec(*sizes, "f16"), blocks=1))
