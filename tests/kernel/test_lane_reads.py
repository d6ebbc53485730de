"""Steps' results that are read at other points: in own registers, or from another lane by a shuffle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, FireironError, Group, Matrix, Thread, Warp, vector


@fi.program(x="m n")
def beside(x: Any) -> Any:
    n = fi.index("n")
    s = fi.exp(x).named("s")
    return s - 2 * s[:, n + 1 - 2 * (n % 2)]


@fi.program(x="m n")
def turned(x: Any, size: int, by: int) -> Any:
    n = fi.index("n")
    s = (x * x).named("s")
    return s - s[:, n // size * size + (n + by) % size]


@fi.program(x="m n")
def shifted(x: Any) -> Any:
    s = (x * x).named("s")
    return s - s[:, fi.index("n") + 1]


def of_warps(spec: Any, nbytes: int) -> Any:
    return spec.tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector(nbytes)).epilog(memory=RF).done()


def other(x: Any, at: Any) -> Any:
    s = np.exp(x.astype(np.float64))
    return s - 2 * s[:, at]


@pytest.mark.parametrize(("rows", "width", "nbytes"), [(8, 64, 4), (5, 96, 4), (3, 64, 8)])
def test_the_neighbour(rows: int, width: int, nbytes: int) -> None:
    """With one element a vector another lane has it, with two the thread itself."""
    made = of_warps(beside(Matrix(rows, width, name="x")), nbytes)
    found = made.simulate().arrays
    np.testing.assert_allclose(found["y"], other(found["x"], np.arange(width) ^ 1), rtol=1e-5, atol=1e-4)
    assert ("shuffle_4B(&other[0], &s_rf" in made.cuda("sm_90")) == (nbytes == 4)


@fi.program(x="m n")
def from_one(x: Any, size: int, at: int) -> Any:
    s = (x * x).named("s")
    return s - 3 * s[:, fi.index("n") // size * size + at]


@pytest.mark.parametrize(("size", "at"), [(32, 0), (32, 7), (8, 3), (2, 1)])
def test_one_lane_of_a_group_gives_to_all(size: int, at: int) -> None:
    made = of_warps(from_one(Matrix(6, 64, name="x"), size, at), 4)
    found = made.simulate()
    x, n = found.arrays["x"].astype(np.float64), np.arange(64)
    wanted = x * x - 3 * (x * x)[:, n // size * size + at]
    np.testing.assert_allclose(found.arrays["y"], wanted, rtol=1e-5, atol=1e-5)
    assert made.cuda("sm_90").count("shuffle_4B(&") == 1


@pytest.mark.parametrize(("size", "by"), [(32, 5), (8, 3), (16, 8)])
def test_turned_in_groups_of_lanes(size: int, by: int) -> None:
    found = of_warps(turned(Matrix(6, 64, name="x"), size, by), 4).simulate()
    x, n = found.arrays["x"].astype(np.float64), np.arange(64)
    np.testing.assert_allclose(
        found.arrays["y"], x * x - (x * x)[:, n // size * size + (n + by) % size], rtol=1e-5, atol=1e-6
    )


def test_rows_of_some_lanes() -> None:
    """Eight lanes have a row of eight; rows beyond the last are computed, and not stored."""
    spec = turned(Matrix(6, 8, name="x"), 8, 1).tile(m=4).to(Block).tile(m=1).to(Group(Thread, 8))
    found = spec.load("x", RF, vector(4)).epilog(memory=RF).done().simulate()
    s = found.arrays["x"].astype(np.float64) ** 2
    np.testing.assert_allclose(found.arrays["y"], s - np.roll(s, -1, 1), rtol=1e-5, atol=1e-6)


def test_the_kernel(golden: Callable[[str, str], None]) -> None:
    made = of_warps(beside(Matrix(64, 256, "f16", name="x")), 2)
    golden(made.cuda("sm_90"), "kernel/lane_reads.cu")
    found = made.compile("sm_90", cache=False).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: of_warps(shifted(Matrix(4, 64)), 4),  # the last one has no neighbour
        lambda: of_warps(turned(Matrix(4, 64), 64, 40), 4),  # another register
        lambda: of_warps(turned(Matrix(4, 64), 3, 1), 4),  # no group of lanes
    ],
)
def test_what_no_one_lane_holds_is_refused(wrong: Any) -> None:
    with pytest.raises(FireironError, match="no one lane of the warp holds it") as caught:
        wrong()
    assert caught.value.code == "affine-read"


@fi.program(x="m n")
def turned_in_every_other_tile(x: Any) -> Any:
    n = fi.index("n")
    s = (x * x).named("s")
    return s - s[:, n // 2 * 2 + (n + n // 32) % 2]


def test_lanes_that_change_from_tile_to_tile_are_refused() -> None:
    chain = turned_in_every_other_tile(Matrix(4, 128, name="x")).tile(m=4, n=32).to(Block).tile(m=1).to(Warp)
    with pytest.raises(FireironError, match="changes from tile to tile") as caught:
        chain.load("x", RF, vector(4)).epilog(memory=RF).done()
    assert caught.value.code == "affine-read"


@fi.program(z="k n")
def each_line_on_by_its_number(z: Any) -> Any:
    k, n = fi.index("k"), fi.index("n")
    return z - z[k, n + k]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(("lines", "nbytes"), [(1, 4), (2, 8)])
def test_an_array_beside_its_registers_is_read_from_memory_where_tiles_differ(
    lines: int, nbytes: int, persistent: bool
) -> None:
    """Line 0 is held by its thread; line 1 is not, and one kernel serves both."""
    chain = each_line_on_by_its_number(fi.tensor(4, 64, name="z")).tile(k=lines).to(Block)
    chain = chain.persistent() if persistent else chain
    found = chain.tile(k=1).to(Warp).load("z", RF, vector(nbytes)).epilog(memory=RF).done().simulate().arrays
    z = found["z"]
    moved = np.stack([np.pad(line[k:], (0, k)) for k, line in enumerate(z)])
    np.testing.assert_allclose(found["y"], z - moved, rtol=1e-6)
