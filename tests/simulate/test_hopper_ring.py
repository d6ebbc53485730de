"""A ring between a role that loads and roles that compute: right as it is, and every planted mistake is found."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from fireiron.algebra.expr import Var, as_expr
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import BLOCK, BLOCKS, THREAD, Advance, Await, For, Let, Statement, Sync, Wait
from fireiron.simulate import cost, simulate

Ring = Any


def run(ring: Any, **more: Any) -> Any:
    arrays = ring.arrays()
    report = simulate(ring.kernel(), arrays, **more)
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64).T
    np.testing.assert_array_equal(arrays["C"], expected)
    return report


def refused(ring: Any, code: str, *texts: str, **more: Any) -> SimulationError:
    with pytest.raises(SimulationError) as caught:
        simulate(ring.kernel(), ring.arrays(), **more)
    assert caught.value.code == code, str(caught.value)
    for text in texts:
        assert text in caught.value.message, caught.value.message
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    "knobs",
    [
        {"trips": 1},
        {"slots": 2},
        {"slots": 4, "trips": 3},
        {"inflight": 1},
        {"m": 128, "n": 64, "inflight": 1},
        {"cluster": 2, "n": 64, "inflight": 1},
        {"cluster": 4, "n": 32, "trips": 2},
        {"panels": 4, "staging": 2},
        {"tiles": 3, "trips": 2},
        {"tiles": 6, "cluster": 2, "trips": 2, "m": 128, "panels": 2, "staging": 2},
    ],
    ids=str,
)
def test_a_right_ring(ring: Ring, knobs: dict[str, int]) -> None:
    report = run(ring(**knobs))
    m, n, k = ring(**knobs).sizes
    assert report.flops == 2 * m * n * k


def test_partial_tiles_are_zero_filled_and_clipped(ring: Ring) -> None:
    made = ring(trips=2)
    kernel = made.kernel()
    rng = np.random.default_rng(1)
    # The maps of a smaller problem: K is 100 of 128, and there are 50 of 64 rows and 30 of 32 columns.
    m, n, k = 50, 30, 100
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float32)
    pointers = {p.buffer.name: p for p in kernel.parameters[:3]}  # type: ignore[union-attr]

    def shaped(name: str, *shape: int) -> Any:
        strides = tuple(as_expr(x) for x in (shape[1], 1))
        return attrs.evolve(pointers[name], shape=tuple(map(as_expr, shape)), strides=strides)

    parameters = (shaped("A", m, k), shaped("B", n, k), shaped("C", m, n), *kernel.parameters[3:])
    report = simulate(attrs.evolve(kernel, parameters=parameters), {"A": a, "B": b, "C": c})
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)
    assert report.site("tma.load").gl_read.nbytes == 2 * (m + n) * k
    assert report.site("tma.load").sh_write.nbytes == 2 * (64 + 32) * 128


MISTAKES: list[tuple[str, dict[str, int], str, tuple[str, ...]]] = [
    ("full parity", {}, "not-arrived", ("wgmma", "a_sh[0]", "may still write")),
    ("empty parity", {}, "deadlock", ("role load of block 0 awaits empty[0], parity 0, whose phase 0 lacks 1 of 1",)),
    (
        "full count",
        {},
        "deadlock",
        ("phase 0 lacks 1 of 2 arrivals from role load and 12288 bytes (12288 in",),
    ),
    (
        "empty count",
        {},
        "deadlock",
        ("role load of block 0 awaits empty[0], parity 0, whose phase 0 lacks 1 of 2 arr",),
    ),
    (
        "few empties",
        {"m": 128},
        "too-many-arrivals",
        ("arrives at empty[0]", "nothing orders that behind the end of phase 0"),
    ),
    ("few empties", {"cluster": 2}, "too-many-arrivals", ("1 arrives at full[0] of rank 0 from role load",)),
    ("more bytes", {}, "deadlock", ("phase 0 lacks 128 bytes, of which none are in flight",)),
    ("less bytes", {}, "transaction-bytes", ("128 bytes more than were announced have landed on full[0] in phase 0",)),
    ("proxy fence", {}, "missing-proxy-fence", ("tma.store", "thread 128 of block 0 wrote (compute)")),
    (
        "early release",
        {},
        "race",
        ("tma.load.2d.128B: thread 0 of block 0 writes a_sh[0]", "of threads 128..255 read (wgmma.m64"),
    ),
    ("early release", {"inflight": 1}, "race", ("whose end it does not know of",)),
    ("early release", {"cluster": 2}, "race", ("asynchronous instruction of threads 128..255 of rank 1 read",)),
    ("wgmma fence", {}, "missing-wgmma-fence", ("thread 128 of block 0 uses acc[0]",)),
    ("commit", {}, "source-in-flight", ("tma.load.2d.128B writes a_sh[0]", "in role load of block 0")),
    (
        "commit",
        {"trips": 2},
        "not-arrived",
        ("compute: thread 128 of block 0 reads acc[0]", "its group was not committed"),
    ),
    ("store wait", {"panels": 4, "staging": 2}, "source-in-flight", ("compute writes c_sh[0]",)),
    ("store wait", {"panels": 2}, "source-in-flight", ("compute writes c_sh[0]",)),
    ("last wait", {"panels": 4, "staging": 2}, "unfinished-flight", ("tma.store", "(bulk) was never waited for")),
    ("ahead", {}, "phase-ahead", ("role math of block 0 awaits phase 1 of full[1], while phase 0 runs",)),
    (
        "early exit",
        {},
        "deadlock",
        ("role load of block 0 has finished; role math of block 0 awaits full[1], parity 1",),
    ),
    ("await", {}, "not-arrived", ("wgmma", "a_sh[0]", "may still write")),
    ("empty await", {}, "too-many-arrivals", ("whose phase 0 lacks 0 of 1 arrivals and 12288 bytes",)),
    (
        "init fence",
        {},
        "uninitialised-barrier",
        ("thread 0 of block 0 uses full[0], whose initialisation was not fenced",),
    ),
    (
        "first barrier",
        {},
        "uninitialised-barrier",
        ("thread 128 of block 0 uses full[0], whose initialisation no barr",),
    ),
    (
        "first barrier",
        {"cluster": 2},
        "uninitialised-barrier",
        ("uses full[0] of rank 1, whose initialisation no bar",),
    ),
    ("mask", {"cluster": 2}, "deadlock", ("cluster of blocks 0 to 1", "whose phase 0 lacks 2048 bytes, of which none")),
    ("drain", {"cluster": 2}, "peer-exited", ("thread 128 of block 1 comes to block 0, which may have ended",)),
]


@pytest.mark.parametrize(("mistake", "knobs", "code", "texts"), MISTAKES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_planted_mistake(ring: Ring, mistake: str, knobs: dict[str, int], code: str, texts: tuple[str, ...]) -> None:
    made = ring(**knobs, wrong=frozenset([mistake]))
    refused(made, code, *texts)
    run(attrs.evolve(made, wrong=frozenset()))


def test_whole_message_of_a_deadlock(ring: Ring) -> None:
    assert str(refused(ring(wrong=frozenset(["early exit"])), "deadlock")) == (
        "SimulationError[deadlock]: block 0 cannot go on: role load of block 0 has finished; role math of block 0 "
        "awaits full[1], parity 1, whose phase 1 lacks 1 of 1 arrivals from role load\n"
        "fix: compare counts, bytes, parities and trip counts of those who arrive with those of who waits"
    )


@pytest.mark.parametrize(
    ("knobs", "idle"),
    [
        # The first and last panels of a tile wait for nothing that is not awaited anyway.
        ({"cluster": 2, "inflight": 1, "panels": 4, "staging": 2, "trips": 4}, 4),
        # Without peers nobody arrives after the end, so that the last two statements of the load role are idle too.
        ({"m": 128, "tiles": 2, "panels": 4, "staging": 2, "trips": 4}, 6),
    ],
    ids=str,
)
def test_every_statement_that_orders_is_needed(ring: Ring, without: Any, knobs: dict[str, int], idle: int) -> None:
    made = ring(**knobs)
    launched = {"launched": 1} if made.tiles else {}
    arrays = made.arrays()
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64).T
    silent = 0
    for statement, kernel in without(made.kernel()):
        c = np.full_like(arrays["C"], np.nan)
        try:
            simulate(kernel, {**arrays, "C": c}, **launched)
        except SimulationError:
            continue
        np.testing.assert_array_equal(c, expected)
        assert isinstance(statement, Wait | Sync | Await | Advance)
        silent += 1
    assert silent == idle


def test_without_tracking_values_still_come_late(ring: Ring) -> None:
    run(ring(cluster=2), track=False)
    refused(ring(wrong=frozenset(["await"])), "not-arrived", track=False)


def test_persistent_blocks(ring: Ring) -> None:
    made = ring(tiles=3, trips=2)
    assert run(made).blocks == 2
    assert run(made, launched=3).blocks == 3
    assert run(made, launched=1).blocks == 1
    refused(made, "launched", "4 blocks in clusters of 1 cannot be launched for 3", launched=4)
    refused(ring(), "launched", "only a persistent kernel", launched=1)
    assert cost(made.kernel(), launched=2) == pytest.approx(2 * cost(made.kernel(), launched=1), rel=0.6)


def test_chosen_blocks_of_a_persistent_kernel_take_what_is_theirs(ring: Ring) -> None:
    made = ring(tiles=6, cluster=2, trips=2)
    for launched, rows in ((None, 128), (4, 256)):
        arrays = made.arrays()
        arrays["C"][:] = np.nan
        report = simulate(made.kernel(), arrays, blocks=1, launched=launched)
        assert (report.blocks, report.grid) == (2, launched or 6)
        written = ~np.isnan(arrays["C"]).all(axis=1)
        assert written.sum() == rows
        np.testing.assert_array_equal(arrays["C"][written], (arrays["A"] @ arrays["B"].T)[written])
    assert cost(made.kernel(), blocks=1) < cost(made.kernel(), launched=2) / 2


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (Let(Var("x"), Var(BLOCKS, 3) + 1), "blocks is 3 in block 0, and was declared to be from 0 to 2"),
        (Let(Var("x"), Var(BLOCKS, 9, 4) + 1), "blocks is 3 in block 0, and was declared to be from 4 to 8"),
        (Let(Var("x"), Var(THREAD, 32) + 1), "thread is 255 in block 0, and was declared to be from 0 to 31"),
        (Let(Var("x", 3), Var(BLOCKS)), "x is 3 in block 0, and was declared to be from 0 to 2"),
        (Let(Var("x", 2), Var(BLOCK)), "x is 2 in block 2, and was declared to be from 0 to 1"),
        (For(Var("i", 2), as_expr(3), (Let(Var("x"), Var("i", 2)),)), "i is 2 in block 0"),
    ],
    ids=str,
)
def test_declared_ranges_hold(ring: Ring, statement: Statement, text: str) -> None:
    made = ring(tiles=3, trips=2)
    kernel = attrs.evolve(made.kernel(), body=(statement, *made.kernel().body))
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, made.arrays(), launched=3)
    assert caught.value.code == "variable-range"
    assert caught.value.message.startswith(text)


def test_blocks_are_chosen_with_their_clusters(ring: Ring) -> None:
    made = ring(cluster=2)
    for blocks in (1, 2, [1], [0, 1]):
        assert run(made, blocks=blocks).blocks == 2
    refused(made, "no-such-block", blocks=[2])
    kernel = attrs.evolve(made.kernel(), grid=as_expr(3))
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, made.arrays())
    assert caught.value.code == "cluster-grid"


def test_two_roles_take_turns(ring: Ring) -> None:
    made = ring(tiles=4, trips=2, slots=3, staggered=True)
    run(made, launched=1)
    wrong = attrs.evolve(made, wrong=frozenset(["turn"]))
    refused(wrong, "phase-ahead", "awaits phase 1 of full[2], while phase 0 runs", launched=1)
    # Where the ring holds all that one role skips, a parity is enough.
    run(attrs.evolve(wrong, trips=1, slots=4), launched=1)
