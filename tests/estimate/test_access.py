"""Static sectors and bank conflicts: known patterns, and the simulator's counters."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from fireiron import RF, SH, A, B, Block, ColMajor, RowMajor, Thread, Warp, matmul, microkernel, symbol
from fireiron.algebra.swizzle import Swizzle
from fireiron.kernel.analysis.access import AccessRow, accesses
from fireiron.kernel.analysis.sampling import typical_sizes
from fireiron.schedules import hopper, simt


def row(rows: tuple[AccessRow, ...], title: str, memory: str, direction: str) -> AccessRow:
    (found,) = (r for r in rows if title in r.title and (r.memory, r.direction) == (memory, direction))
    return found


def by_columns(refine: Any) -> AccessRow:
    """Let the lanes of a warp read a column of a row-major 32x32 tile."""
    chain = matmul(128, 32, 64).tile(32, 32).to(Block).epilog().split(32)
    chain = refine(chain.load(A, SH)).load(B, SH).tile(32, 1).to(Warp).tile(1, 1).to(Thread).split(1).unroll()
    kernel = chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done().lowered()
    return row(accesses(kernel), "load a_sh", "SH", "read")


@pytest.mark.parametrize(
    ("refine", "degree"),
    [
        (lambda chain: chain, 32),
        (lambda chain: chain.pad(1), 1),
        (lambda chain: chain.pad(2), 2),
        (lambda chain: chain.pad(4), 4),
        (lambda chain: chain.pad(8), 8),
        (lambda chain: chain.storage_layout(ColMajor), 1),
    ],
)
def test_reading_a_column_of_floats(refine: Any, degree: float) -> None:
    found = by_columns(refine)
    assert (found.degree, found.conflicts, found.sectors) == (degree, degree, 0)
    assert (found.lane_nbytes, found.per_request, found.link is not None) == (4, degree, True)


def test_swizzle_spreads_vectors_over_the_banks() -> None:
    found = by_columns(lambda chain: chain.swizzle(Swizzle(3, 2, 3)))
    assert found.degree == 4  # eight vectors of four floats stay together


def test_vectors_of_a_row_are_served_a_quarter_warp_at_a_time() -> None:
    rows = accesses(simt.listing2(matmul(256, 256, 64)).lowered())
    b = row(rows, "load b_sh to b_rf", "SH", "read")
    assert (b.what, b.lane_nbytes, b.per_request, b.degree) == ("copy.16B.SH.RF", 16, 4, 1)
    a = row(rows, "load a_sh to a_rf", "SH", "read")
    assert (a.what, a.per_request, a.degree) == ("copy.4B.SH.RF", 8, 8)
    assert a.executions == 8 * 8 * 8
    assert a.nbytes == a.executions * 256 * 4


def test_coalescing() -> None:
    rows = accesses(simt.listing2(matmul(256, 256, 64)).lowered())
    load = row(rows, "load B to b_sh", "GL", "read")
    assert (load.per_request, load.degree, load.sectors, load.conflicts) == (16, 1, 16, 1)
    store = row(rows, "store C", "GL", "write")
    assert (store.per_request, store.degree) == (32, 2)
    assert store.nbytes == 128 * 128 * 4


def test_rows_of_odd_length_start_inside_sectors() -> None:
    aligned, odd = (accesses(simt.listing2(matmul(256, 256, k)).lowered()) for k in (64, 65))
    assert row(aligned, "load A", "GL", "read").degree == 1
    assert row(odd, "load A", "GL", "read").degree > 1.5


def by_site(rows: tuple[AccessRow, ...]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = defaultdict(lambda: np.zeros(4))
    for r in rows:
        found[r.path, r.title, r.what, r.memory, r.direction] += [r.nbytes, r.requests, r.units, r.ideal]
    return found


@pytest.mark.parametrize(
    ("preset", "size"),
    [
        ("listing1", (48, 40, 20)),
        ("listing2", (256, 128, 24)),
        ("listing2", (200, 130, 20)),
        ("listing4", (130, 128, 20)),
        ("sgemm", (130, 200, 40)),
    ],
)
def test_counts_are_the_simulators(preset: str, size: tuple[int, int, int]) -> None:
    schedule = getattr(simt, preset)(matmul(*size))
    report = schedule.simulate(track=False).report
    simulated: dict[tuple[str, ...], list[int]] = {}
    for site in report.sites:
        counted = (
            ("GL", "read", site.gl_read),
            ("GL", "write", site.gl_write),
            ("SH", "read", site.sh_read),
            ("SH", "write", site.sh_write),
        )
        for memory, direction, t in counted:
            if t.requests:
                key = (site.path, site.title, site.atom, memory, direction)
                simulated[key] = [t.nbytes, t.requests, t.units, t.ideal]
    static = by_site(accesses(schedule.lowered()))
    assert static.keys() == simulated.keys()
    for key, counts in static.items():
        np.testing.assert_allclose(counts * report.grid, simulated[key], err_msg=str(key))


def test_sizes_stand_for_symbols() -> None:
    kernel = simt.listing2(matmul(symbol("M"), 256, symbol("K", multiple_of=48))).lowered()
    assert typical_sizes(kernel) == {"M": 1024, "K": 1056}
    assert typical_sizes(kernel, {"M": 7}) == {"M": 7, "K": 1056}
    short, long = (row(accesses(kernel, {"M": 256, "K": k}), "load A", "GL", "read") for k in (48, 480))
    assert long.nbytes == pytest.approx(10 * short.nbytes)


def test_sampled_loops_weigh_as_many_executions_as_there_are() -> None:
    small, large = (accesses(simt.listing2(matmul(n, n, n), 128, 128, 8).lowered()) for n in (256, 8192))
    for few, many in zip(small, large, strict=True):
        assert many.per_request == pytest.approx(few.per_request)
        if "store" not in few.title:
            assert many.nbytes == pytest.approx(32 * few.nbytes)


def test_orders_of_the_tile_decide_what_neighbours_take() -> None:
    dot = microkernel("", name="dot")
    across, down = (
        matmul(64, 64, 16).tile(64, 64).to(Block).tile(1, 1).to(Thread, units=256).layout(order).done(dot)
        for order in (RowMajor, ColMajor)
    )
    writes = [row(accesses(s.lowered()), "dot", "GL", "write") for s in (across, down)]
    assert [w.degree for w in writes] == [1, 8]


def test_what_stream_k_leaves_is_read_once() -> None:
    """Trips of a loop that depend on the block are counted by each block, not by the most that any could have."""
    facts = hopper.stream_k(matmul(256, 256, 512, "bf16", layout="TN")).facts("sm_90a")
    left, added = (
        sum(row.units for row in facts.rows if row.buffer == "partial" and row.direction == way)
        for way in ("write", "read")
    )
    assert left == added == 14 / 16 * 128 * 256 * 4 / 32  # 16 blocks share 2 tiles: 14 of them leave their sums
