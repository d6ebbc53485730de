"""Integers of 64 bits on the GPU: every operation against NumPy's int64, bit by bit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiling import compiled
from verified import verified

sys.path.insert(0, str(Path(__file__).parents[1] / "kernel"))
sys.path.insert(0, str(Path(__file__).parents[1] / "graph"))
from wide_integers import cases

import fireiron as fi
from fireiron import Matrix, Vector, program
from fireiron.jit.driver import driver
from fireiron.schedules import pointwise

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_results(gpu: int, name: str) -> None:
    case = CASES[name]
    schedule = fi.best(case.spec())
    kernel = compiled(schedule)
    found = kernel(*case.arrays)
    assert found.dtype == case.expected.dtype
    np.testing.assert_array_equal(found, case.expected)
    if not name.startswith("lines") and name != "quotients":  # drawn divisors may be 0, and numbers no lines
        verified(schedule, kernel=kernel)


@pytest.mark.parametrize("kind", ["bf16", "f16", "tf32", "e4m3", "e5m2"])
def test_conversions_to_short_floats(gpu: int, kind: str) -> None:
    """As the simulator: rounded once, also where f32 and f64 do not hold the number."""
    if kind in ("e4m3", "e5m2") and driver().compute_capability(0) < 89:
        pytest.skip("8-bit floats need sm_89")
    x = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (16, 512)) >> np.arange(512) % 64
    x[0, :3] = 2**62 + 2**54 + 1, 2**62 + 2**54 - 1, -(2**62) - 2**54 - 1
    spec = program(x="m n")(lambda x: fi.cast(x, kind))(Matrix(16, 512, "i64", name="x"), out=kind)
    schedule = fi.best(spec)
    with np.errstate(over="ignore"):
        expected = schedule.simulate(x).out
    found = compiled(schedule)(x)
    np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{expected.itemsize}"))


def test_added_to_elements(gpu: int) -> None:
    """Atomic additions of 64 bits wrap."""

    def added(ids: Any, x: Any, sums: Any) -> Any:
        return sums.at[ids, :].add(x)

    spec = program(ids="e", x="e n", sums="v n")(added)(
        Vector(5000, "i64", name="ids"), Matrix(5000, 40, "i64", name="x"), Matrix(7, 40, "i64", name="sums")
    )
    rng = np.random.default_rng(0)
    ids, x = rng.integers(0, 7, 5000), rng.integers(-(2**62), 2**62, (5000, 40))
    sums = rng.integers(-(2**62), 2**62, (7, 40))
    expected = sums.copy()
    np.add.at(expected, ids, x)
    compiled(pointwise.pointwise(spec))(ids, x, out=sums)
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("shape", [(1, 1_000_000), (4000, 33), (33, 4000), (8192, 8192)], ids=str)
def test_large_folds(gpu: int, shape: tuple[int, int]) -> None:
    """Blocks share long rows."""
    x = np.random.default_rng(0).integers(-(2**62), 2**62, shape)
    for fold, wanted in ((fi.sum, x.sum(1)), (fi.max, x.max(1)), (fi.argmin, x.argmin(1))):
        spec = program(x="m n")(lambda x, fold=fold: fold(x, "n"))(Matrix(*shape, "i64", name="x"), out="i64")
        np.testing.assert_array_equal(compiled(fi.best(spec))(x), wanted)


def test_numbers_of_a_call(gpu: int) -> None:
    spec = program(x="m n")(lambda x: x * "factor")(Matrix(8, 64, "i64", name="x"))
    x = np.arange(512).reshape(8, 64)
    np.testing.assert_array_equal(compiled(fi.best(spec))(x, factor=2**40), x * 2**40)


@pytest.mark.parametrize("rows", [12, 3000])
def test_networks(gpu: int, rows: int) -> None:
    """What `torch.compile` computes is torch's, bit by bit, and torch computes none of it."""
    torch = pytest.importorskip("torch")
    from integer_functions import FUNCTIONS, divisors, integers

    from fireiron.graph import torch_backend

    x, y = (made.repeat(rows // 12, 1).cuda() for made in (integers(), divisors()))
    for name, function in FUNCTIONS.items():
        if name == "coordinates":  # torch's arange is on the processor
            continue
        torch._dynamo.reset()
        wanted, found = function(x, y), torch.compile(function, backend=torch_backend.backend)(x, y)
        several = isinstance(wanted, tuple)
        for one, other in zip(found if several else (found,), wanted if several else (wanted,), strict=True):
            assert one.dtype == other.dtype, name
            assert torch.equal(one, other), name
        assert not torch_backend.plans()[-1].foreign, name


@pytest.mark.parametrize("shape", [(4096, 8), (64, 1000), (16, 30000), (8, 12, 512)], ids=str)
@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "int32"])
def test_running_sums_of_networks(gpu: int, kind: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    from fireiron.graph import torch_backend

    x = torch.from_numpy(np.random.default_rng(0).integers(-9, 9, shape)).to(getattr(torch, kind)).cuda()
    for dim in range(len(shape)):
        torch._dynamo.reset()
        found = torch.compile(lambda x, dim=dim: (x * 2).cumsum(dim), backend=torch_backend.backend)(x)
        wanted = (x.long() * 2).cumsum(dim)
        assert found.dtype == (torch.int64 if kind.startswith("int") else x.dtype)
        torch.testing.assert_close(found.double(), wanted.double(), atol=0, rtol=2.0**-10 if kind == "float16" else 0)
