"""Reads of a peer's shared memory on the simulator: ordered by a barrier of the cluster, or found to race."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import Expr, Var, as_expr
from fireiron.algebra.scalar import Arg, Constant
from fireiron.atoms.peer import LOADS
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import (
    BLOCK,
    RANK,
    THREAD,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Call,
    Compute,
    Fence,
    InitBarriers,
    Kernel,
    Pointer,
    Statement,
    Sync,
    View,
)
from fireiron.language.levels import GL, RF, SH, Block, Cluster, Thread
from fireiron.simulate import simulate

THREADS = 32
(LOAD,) = (atom for atom in LOADS if atom.nbytes == i32.nbytes)
thread, rank, block = Var(THREAD, THREADS), Var(RANK, 2), Var(BLOCK, 4)


def kernel(barrier: tuple[Statement, ...], peer: Expr, last: bool = True, barriers: tuple[Barrier, ...] = ()) -> Kernel:
    """Let each block write its number to shared memory, and then store what a peer has written."""
    shared = Buffer("word", SH, i32, as_expr(THREADS), unit=Block, nbytes=4 * THREADS)
    held = Buffer("held", RF, i32, as_expr(1), unit=Thread)
    out = Buffer("out", GL, i32, as_expr(4 * THREADS))
    number = Buffer("number", GL, i32, as_expr(4))
    made = (InitBarriers(barriers), Fence("barrier.init"), Sync(Cluster, "barriers are there", relaxed=True))
    body = (
        *(made if barriers else ()),
        Compute(View(shared, thread), Arg(0, i32), (View(number, block),)),
        *barrier,
        Call(LOAD, (View(shared, thread, peer=peer), View(held, as_expr(0)))),
        Compute(View(out, block * THREADS + thread), Arg(0, i32), (View(held, as_expr(0)),)),
        *((Sync(Cluster, "peers have read"),) if last else ()),
        Compute(View(shared, thread), Constant(7, i32)),
    )
    pointers = (
        Pointer(number, (as_expr(4),), (as_expr(1),), "input"),
        Pointer(out, (as_expr(4 * THREADS),), (as_expr(1),), "output"),
    )
    nbytes = 4 * THREADS + 8 * len(barriers)
    return Kernel(
        "peers", pointers, as_expr(4), THREADS, nbytes, (shared, held), body, cluster=2, barriers=barriers
    )  # fmt: skip


def run(made: Kernel) -> np.ndarray:
    arrays = {"number": np.arange(10, 14, dtype=np.int32), "out": np.zeros(4 * THREADS, np.int32)}
    simulate(made, arrays)
    return arrays["out"].reshape(4, THREADS)


MEET = (Sync(Cluster, "peers have written"),)


def test_a_peer_is_read() -> None:
    out = run(kernel(MEET, 1 - rank))
    np.testing.assert_array_equal(out, np.array([[11], [10], [13], [12]]).repeat(THREADS, 1))
    np.testing.assert_array_equal(run(kernel(MEET, rank))[:, 0], [10, 11, 12, 13])


@pytest.mark.parametrize(
    ("barrier", "last"),
    [((), True), ((Sync(Block, "alone"),), True), ((Sync(Cluster, "relaxed", relaxed=True),), True), (MEET, False)],
    ids=["none", "of the block", "relaxed", "none behind"],
)
def test_nothing_else_orders_the_blocks(barrier: tuple[Statement, ...], last: bool) -> None:
    with pytest.raises(SimulationError) as caught:
        run(kernel(barrier, 1 - rank, last))
    assert caught.value.code in ("race", "uninitialised-read")
    if last is False or (barrier and barrier[0].level == Cluster):
        assert "no barrier of the cluster in between" in caught.value.message


@pytest.mark.parametrize("peer", [rank + 1, thread % 2], ids=["outside", "several"])
def test_a_peer_is_one_block_of_the_cluster(peer: Expr) -> None:
    with pytest.raises(SimulationError) as caught:
        run(kernel(MEET, peer))
    assert caught.value.code == "bad-peers"


MET, HANDED = (Barrier(name, 1, count, offset=4 * THREADS + 8 * i) for i, (name, count) in enumerate(
    (("met", 2 * THREADS), ("handed", THREADS)),
))  # fmt: skip
ZERO = as_expr(0)


def at_mbarrier(arrives: bool, waits: bool) -> tuple[Statement, ...]:
    """Let all threads of both blocks arrive at both blocks' mbarriers, and wait."""
    return (
        *(Arrive(MET, ZERO, peer=as_expr(to), wide=arrives) for to in range(2)),
        Await(MET, ZERO, ZERO, wide=waits),
    )  # fmt: skip


def test_an_mbarrier_of_the_cluster_shows_what_peers_wrote() -> None:
    out = run(kernel(at_mbarrier(True, True), 1 - rank, barriers=(MET,)))
    np.testing.assert_array_equal(out[:, 0], [11, 10, 13, 12])


@pytest.mark.parametrize(("arrives", "waits"), [(False, True), (True, False), (False, False)])
def test_an_mbarrier_of_a_block_does_not(arrives: bool, waits: bool) -> None:
    with pytest.raises(SimulationError) as caught:
        run(kernel(at_mbarrier(arrives, waits), 1 - rank, barriers=(MET,)))
    assert caught.value.code == "narrow-barrier"
    assert "thread 0 of block 0 reads word[0] (byte 0 of shared memory), which thread 0 of block 1" in str(caught.value)
    assert "wide" in (caught.value.fix or "")


def test_a_barrier_of_a_block_is_enough_within_it() -> None:
    """A narrow mbarrier hands on, inside a block, what its threads saw; and to itself a block shows all it wrote."""
    hand = (Arrive(HANDED, ZERO), Await(HANDED, ZERO, ZERO))
    out = run(kernel((*at_mbarrier(True, True), Sync(Block, "hand on")), 1 - rank, barriers=(MET,)))
    np.testing.assert_array_equal(out[:, 0], [11, 10, 13, 12])
    for barrier in (hand, ()):
        own = run(kernel(barrier, rank, barriers=(HANDED,)))
        np.testing.assert_array_equal(own[:, 0], [10, 11, 12, 13])
