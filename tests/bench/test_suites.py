"""Suites whose problems a seed draws: the same ones for a seed, and of the class that their name says."""

from __future__ import annotations

import pytest

from bench.cases import Case
from bench.suites import SUITES, drawn

DRAWN = [name for name, suite in SUITES.items() if suite.draw is not None]


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_decides(name: str) -> None:
    assert drawn(name, 7) == drawn(name, 7) != drawn(name, 8)
    assert drawn(name) == SUITES[name].cases
    assert len(set(drawn(name, 7))) > 0.9 * len(drawn(name, 7))
    assert all(case.spec().matmul.C.shape for case in drawn(name, 7, 5))


def test_the_classes() -> None:
    ragged, odd, layouts, dtypes, deep = (
        drawn(f"{name}-random", 3) for name in ("ragged", "odd", "layouts", "dtypes", "deep")
    )
    assert [len(x) for x in (ragged, odd, layouts, dtypes, deep)] == [200, 50, 100, 150, 20]
    assert all(size % 8 == 0 for case in ragged for size in (case.m, case.n, case.k))
    assert {case.layout for case in ragged} == {case.layout for case in odd} == {"NN", "NT", "TN", "TT"}
    assert {case.dtype for case in ragged} == {"f16", "bf16"}
    assert {case.layout for case in layouts} == {"NN", "NT", "TT"}
    assert {case.layout for case in dtypes if case.dtype in ("i8", "e4m3:f32:bf16")} == {"TN"}
    assert all(case.k >= 8 * max(case.m, case.n) for case in deep)
    fused = drawn("fused-random", 3)
    assert len(fused) == 50
    assert {case.steps[1] for case in fused} == {"relu", "gelu", "silu"}
    assert (
        fused[0].nbytes - Case(fused[0].m, fused[0].n, fused[0].k, fused[0].dtype).nbytes == 2 * fused[0].m * fused[0].n
    )
