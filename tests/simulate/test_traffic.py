"""Sectors and bank conflicts of known patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron.algebra.dtypes import f16, i8
from fireiron.algebra.expr import lt
from fireiron.kernel.analysis.traffic import sectors, wavefronts
from fireiron.simulate import simulate

LANES = np.arange(32)[None]


@pytest.mark.parametrize(
    ("address", "width", "degree"),
    [
        (LANES * 4, 4, 1),
        (LANES * 4 * 32, 4, 32),  # a column of a 32-wide tile
        (LANES * 4 * 33, 4, 1),  # padded by one
        (LANES * 8, 4, 2),
        (LANES * 0, 4, 1),  # broadcast
        (LANES // 2 * 4, 4, 1),  # pairs share a word
        (LANES * 2, 2, 1),  # halves of one word
        (LANES * 64, 2, 16),
        (LANES * 1, 1, 1),
        (LANES * 8, 8, 1),
        (LANES * 16, 8, 2),
        (LANES * 16, 16, 1),  # float4, row-major
        (LANES * 32, 16, 2),
        (LANES * 512, 16, 8),  # all eight lanes of a quarter in the same banks
        (LANES * 528, 16, 1),  # padded by four
        (LANES % 8 * 512, 16, 8),
        (LANES // 8 * 512, 16, 1),
    ],
)
def test_conflict_degree(address: Any, width: int, degree: float) -> None:
    assert wavefronts(address, None, width).degree == degree


def test_conflicts_against_a_count_by_hand() -> None:
    rng = np.random.default_rng(3)
    for width in (4, 8, 16):
        address = rng.integers(0, 64, (6, 64)) * width
        mask = rng.random((6, 64)) < 0.7
        expected = 0
        for row, active in zip(address.reshape(-1, 32), mask.reshape(-1, 32), strict=True):
            each = 32 // (width // 4)
            for first in range(0, 32, each):
                words = {
                    int(a) // 4 + w
                    for a, on in zip(row[first : first + each], active[first : first + each], strict=True)
                    if on
                    for w in range(width // 4)
                }
                expected += max((sum(w % 32 == b for w in words) for b in range(32)), default=0)
        assert wavefronts(address, mask, width).units == expected


@pytest.mark.parametrize(
    ("address", "width", "per_request", "ratio"),
    [
        (LANES * 4, 4, 4, 1),
        (LANES * 4 + 16, 4, 5, 1.25),
        (LANES * 32, 4, 32, 8),
        (LANES * 4096, 4, 32, 8),
        (LANES * 16, 16, 16, 1),
        (LANES * 0, 4, 1, 1),
        (LANES * 2, 2, 2, 1),
        (LANES // 8 * 1024 + LANES % 8 * 4, 4, 4, 1),
    ],
)
def test_sectors(address: Any, width: int, per_request: float, ratio: float) -> None:
    found = sectors(address, None, width)
    assert (found.per_request, found.degree) == (per_request, ratio)


def test_idle_lanes_and_ragged_warps() -> None:
    address = np.arange(48)[None] * 4
    found = sectors(address, address < 64, 4)
    assert (found.requests, found.units, found.nbytes) == (1, 2, 64)
    assert sectors(address, None, 4).requests == 2
    assert wavefronts(address, None, 4).requests == 2


def test_a_move_that_conflicts_is_named(k: Any) -> None:
    c, s, r = k.gl("C", (32, 32), "output"), k.sh("s", 32 * 33), k.rf("r", 1)

    def body(pitch: int) -> Any:
        return k.kernel(
            k.region("Move rows", k.loop("i", 32, lambda i: k.fill(k.at(s, i * pitch + k.thread)))),
            k.sync(),
            k.loop(
                "i",
                32,
                lambda i: k.region(
                    "Move columns", k.move(k.at(s, k.thread * pitch + i), k.at(r, 0)), path="C > columns"
                ),
                lambda i: k.move(k.at(r, 0), k.at(c, i * 32 + k.thread)),
            ),
        )

    report = simulate(body(32), {"C": np.zeros((32, 32), np.float32)})
    assert report.site("Move columns").conflict_degree == 32
    assert report.site("Move rows").conflict_degree == 1
    assert [site.path for site in report.conflicts] == ["C > columns"]
    assert (report.sh_read.requests, report.sh_read.units, report.sh_read.nbytes) == (32, 1024, 4096)
    assert report.site("copy.4B.SH.RF").count == 1024
    report = simulate(body(33), {"C": np.zeros((32, 32), np.float32)})
    assert (report.conflicts, report.sh_read.degree) == ((), 1)
    with pytest.raises(KeyError):
        report.site("no such thing")


@pytest.mark.parametrize("dtype", [f16, i8], ids=str)
def test_elements_that_are_not_consecutive_go_one_by_one(k: Any, dtype: Any) -> None:
    from fireiron.algebra.layout import Layout

    a, c, r = k.gl("A", (64,), dtype=dtype), k.gl("C", (64,), "output", dtype), k.rf("r", 2, dtype)
    kernel = k.kernel(
        k.move(k.layout(a, k.thread, Layout(2, 32)), k.at(r, 0, 2)),
        k.move(k.at(r, 0, 2), k.at(c, k.thread * 2, 2)),
    )
    out = np.zeros(64, dtype.numpy)
    report = simulate(kernel, {"A": np.arange(64).astype(dtype.numpy), "C": out})
    assert np.array_equal(out.reshape(32, 2), np.arange(64).reshape(2, 32).T)
    assert (report.gl_read.requests, report.gl_write.requests) == (2, 1)


def test_masked_lanes_cost_nothing(k: Any) -> None:
    c = k.gl("C", (64,), "update")
    kernel = k.kernel(k.fill(k.at(c, k.thread), write=lt(k.thread, 8)), threads=64)
    report = simulate(kernel, {"C": np.zeros(64, np.float32)})
    assert (report.gl_write.requests, report.gl_write.units, report.gl_write.nbytes) == (1, 1, 32)
