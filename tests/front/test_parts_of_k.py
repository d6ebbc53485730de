"""Products of few tiles and a long K: products of parts of K, and their sum in a second launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import matmul, relu
from fireiron.front import parts_of_k
from fireiron.front.host import HostKernel
from fireiron.front.parts_of_k import in_parts, parts_from

M, N, K = 72, 136, 512
DEEP = (128, 128, 65536)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let products that are quick to simulate count as deep ones."""
    monkeypatch.setattr(parts_of_k, "LEAST_K", K)
    monkeypatch.setattr(parts_of_k, "LEAST_PART", 64)


def simulated(layout: str, whole: Any = None) -> Any:
    spec = matmul(M, N, K, "f16", layout=layout)
    plan = in_parts(spec, "sm_90a", 4)
    assert plan is not None
    return parts_from(plan, spec, lambda each: HostKernel(each.lowered("sm_90a")), whole)


def drawn(layout: str) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (M, K)), rng.integers(-4, 5, (K, N))
    first, second = (a.T if layout[1] == "T" else a), (b.T if layout[0] == "T" else b)
    return *(np.ascontiguousarray(x).astype(np.float16) for x in (first, second)), (a @ b).astype(np.float16)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_sums_of_parts_are_the_product(short: None, layout: str) -> None:
    first, second, wanted = drawn(layout)
    parts = simulated(layout)
    np.testing.assert_array_equal(parts(first, second), wanted)
    out = np.zeros_like(wanted)
    assert parts(first, second, out=out) is out
    np.testing.assert_array_equal(out, wanted)


def test_few_tiles_and_a_long_k_go_in_parts() -> None:
    plan = in_parts(matmul(*DEEP, "f16", layout="TN"), "sm_90a")
    assert plan is not None
    assert DEEP[2] % plan.ways == 0


@pytest.mark.parametrize(
    "spec",
    [
        matmul(4096, 4096, 4096, "f16"),  # tiles enough
        matmul(128, 128, 1024, "f16"),  # short
        matmul(128, 128, 65537, "f16"),  # a prime K has no parts
        matmul(*DEEP, "f16", batch=2),
        matmul(*DEEP, "f16").then(relu),
        matmul(*DEEP, "i8", layout="TN"),
        matmul(*DEEP, "f32"),
    ],
    ids=["tiles", "short", "prime", "batch", "ops", "integers", "f32"],
)
def test_other_products_are_computed_in_one_launch(spec: Any) -> None:
    assert in_parts(spec, "sm_90a") is None


def test_older_architectures_have_no_model_of_parts() -> None:
    assert in_parts(matmul(*DEEP, "f16"), "sm_80") is None


def test_a_stream_of_other_libraries_than_torch_gets_one_launch(short: None) -> None:
    """Their memory may be reused before a stream that they do not know has read it."""
    calls: list[Any] = []
    first, second, _ = drawn("NN")
    simulated("NN", lambda: lambda a, b, out, stream: calls.append((out, stream)))(first, second, stream=7)
    assert calls == [(None, 7)]
