"""gemm(dynamic="M"): one kernel for all numbers of rows of a bucket."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fireiron import gemm
from fireiron.front import best, multiply
from fireiron.front.dynamic import LEAST_BUCKET, bucket


def arrays(m: int, layout: str = "NN") -> tuple[Any, Any]:
    rng = np.random.default_rng(m)
    a, b = rng.integers(-4, 5, (m, 48)).astype(np.float16), rng.integers(-4, 5, (48, 40)).astype(np.float16)
    return a if layout[1] == "N" else np.ascontiguousarray(a.T), b if layout[0] == "N" else np.ascontiguousarray(b.T)


def test_buckets_are_disjoint_and_cover_all() -> None:
    found = [bucket(rows) for rows in range(1, 300)]
    assert all(s.minimum <= rows <= s.maximum for rows, s in enumerate(found, 1))
    distinct = list(dict.fromkeys(found))
    assert distinct[0].maximum == LEAST_BUCKET
    assert all(two.minimum == one.maximum + 1 for one, two in pairwise(distinct))
    assert all(s.typical == s.maximum for s in distinct)


def test_a_bucket_has_one_kernel() -> None:
    best.forget()
    multiply._kernel.cache_clear()  # pyright: ignore[reportPrivateUsage]
    for m, kernels in ((1, 1), (7, 1), (16, 1), (17, 2), (32, 2)):
        a, b = arrays(m)
        np.testing.assert_array_equal(gemm(a, b, dynamic="M"), a.astype(np.float32) @ b.astype(np.float32))
        assert multiply._kernel.cache_info().misses == kernels  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("layout", ["TN", "NT", "TT"])
def test_other_layouts_and_out(layout: str) -> None:
    a, b = arrays(21, layout)
    out = np.zeros((21, 40), np.float16)
    assert gemm(a, b, layout=layout, out=out, dynamic="M") is out
    np.testing.assert_array_equal(out, gemm(a, b, layout=layout))


def test_no_rows() -> None:
    a, b = arrays(1)
    assert gemm(a[:0], b, dynamic="M").shape == (0, 40)
