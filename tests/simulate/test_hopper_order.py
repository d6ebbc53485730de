"""Roles, mbarriers, turns, clusters and wgmma on small kernels: what orders, what does not, and what is refused."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from fireiron.algebra.dtypes import f16, f32
from fireiron.algebra.expr import Expr, Var, as_expr, eq, lt
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import (
    BLOCK,
    RANK,
    THREAD,
    Advance,
    Arrive,
    Await,
    Barrier,
    Call,
    Commit,
    Compute,
    Cursor,
    Fence,
    For,
    If,
    InitBarriers,
    Kernel,
    Let,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    View,
    Wait,
)
from fireiron.language.levels import Block, Cluster, Warp, Warpgroup
from fireiron.simulate import simulate

Names = Any
ZERO, ONE = as_expr(0), as_expr(1)
READY = Barrier("ready", 1, 32, 4096)
RING = Cursor("ring", 1)
T = Var(THREAD, 32)


def role(name: str, first: int, *body: Statement, threads: int = 32, cursors: Any = ()) -> Role:
    return Role(name, first, threads, 0, cursors, body)


def kernel(
    k: Names,
    *body: Statement,
    threads: int = 64,
    barriers: tuple[Barrier, ...] = (READY,),
    cluster: int = 1,
    blocks: int = 0,
) -> Kernel:
    start = If(lt(Var(THREAD, threads), 1), (InitBarriers(barriers), Fence("barrier.init")))
    opening = (start, Sync(Cluster, "barriers are there")) if barriers else ()
    return Kernel(
        "order", tuple(k.pointers), as_expr(blocks or cluster), threads, 8192, tuple(k.buffers), (*opening, *body),
        cluster=cluster, barriers=barriers,
    )  # fmt: skip


def refused(made: Kernel, code: str, *texts: str, n: int = 32, **more: Any) -> SimulationError:
    with pytest.raises(SimulationError) as caught:
        simulate(made, {"C": np.zeros(n, np.float32)}, **more)
    assert caught.value.code == code, str(caught.value)
    for text in texts:
        assert text in caught.value.message, caught.value.message
    assert caught.value.fix
    return caught.value


def handed(k: Names, give: tuple[Statement, ...], take: tuple[Statement, ...], after: Any = (), **more: Any) -> Kernel:
    """Let one warp write a row, and another read it mirrored and write it out."""
    c, s, r = k.gl("C", (32,), "output"), k.sh("s", 32), k.rf("r", 1)
    put = k.fill(k.at(s, T), 2.0)
    get = (k.move(k.at(s, T ^ 1), k.at(r, 0)), k.move(k.at(r, 0), k.at(c, T)))
    roles = (role("give", 0, put, *give, cursors=(RING,)), role("take", 32, *take, *get, *after, cursors=(RING,)))
    return kernel(k, Roles(roles), **more)


def test_an_mbarrier_hands_data_over(k: Names) -> None:
    made = handed(k, (Arrive(READY, ZERO),), (Await(READY, ZERO, ZERO),))
    arrays = {"C": np.zeros(32, np.float32)}
    simulate(made, arrays)
    assert (arrays["C"] == 2).all()


@pytest.mark.parametrize(
    ("give", "take"),
    [
        ((), ()),
        ((Arrive(READY, ZERO),), ()),
        # Parity 1 is that of the phase before the first.
        ((), (Await(READY, ZERO, ONE),)),
        ((Turn(1, 64, False, ""),), ()),
        # A barrier of the block is one of the role inside roles.
        ((Sync(Block, ""),), (Sync(Block, ""),)),
        ((Sync(Warpgroup, ""),), (Sync(Warpgroup, ""),)),
    ],
)
def test_what_does_not_order_two_roles(k: Names, give: Any, take: Any) -> None:
    refused(handed(k, give, take), "race", "thread 32 of block 0 reads s[1]", "which thread 1 of block 0 wrote")


@pytest.mark.parametrize("number", [1, 15])
def test_a_turn_orders(k: Names, number: int) -> None:
    arrays = {"C": np.zeros(32, np.float32)}
    simulate(handed(k, (Turn(number, 64, False, ""),), (Turn(number, 64, True, ""),)), arrays)
    simulate(handed(type(k)(), (Sync(Cluster, ""),), (Sync(Cluster, ""),)), arrays)


def test_turns_that_do_not_match(k: Names) -> None:
    wait = Turn(1, 64, True, "")
    refused(
        handed(k, (), (wait,)), "deadlock", "role give of block 0 has finished",
        "role take of block 0 waits at barrier 1 for 32 of 64 threads",
    )  # fmt: skip
    refused(handed(type(k)(), (Turn(1, 96, False, ""),), (wait,)), "too-many-arrivals", "where 32 of 96 are")
    refused(handed(type(k)(), (If(lt(T, 16), (wait,)),), (wait,)), "divergent-barrier", "16 threads of role give")
    twice = (Turn(1, 64, False, ""), Turn(1, 64, False, ""))
    refused(handed(type(k)(), twice, (wait,)), "too-many-arrivals", "where 32 of 64 are, among them these threads")


def test_arrivals_are_counted(k: Names) -> None:
    await_it = (Await(READY, ZERO, ZERO),)
    refused(
        handed(k, (If(lt(T, 31), (Arrive(READY, ZERO),)),), await_it),
        "deadlock",
        "role take of block 0 awaits ready[0], parity 0, whose phase 0 lacks 1 of 32 arrivals",
    )
    few = Barrier("ready", 1, 31, 4096)
    refused(
        handed(type(k)(), (Arrive(few, ZERO),), (Await(few, ZERO, ZERO),), barriers=(few,)),
        "too-many-arrivals",
        "32 arrive at ready[0] from role give of block 0, whose phase 0 lacks 31 of 31 arrivals",
    )
    refused(handed(type(k)(), (Arrive(READY, ONE),), await_it), "out-of-bounds", "slot 1 of a ring of 1 mbarriers")
    refused(handed(type(k)(), (Arrive(READY, ZERO, peer=ONE),), await_it), "bad-peers", "rank 1 of a cluster of 1")


def test_barriers_are_initialised_once(k: Names) -> None:
    again = InitBarriers((READY,))
    refused(kernel(k, If(lt(Var(THREAD, 64), 1), (again,))), "barrier-in-use", "is initialised a second time")
    other = kernel(type(k)(), If(lt(0, Var(THREAD, 64)), (again,)), barriers=())
    refused(attrs.evolve(other, barriers=(READY,)), "uninitialised-barrier", "thread 0 of block 0, which initialises")
    made = handed(type(k)(), (Arrive(READY, ZERO),), (Await(READY, ZERO, ZERO),))
    refused(attrs.evolve(made, body=made.body[1:]), "uninitialised-barrier", "which nobody initialised")
    late = (If(lt(Var(THREAD, 64), 1), (again,)), made.body[1], If(lt(Var(THREAD, 64), 1), (Fence("barrier.init"),)))
    refused(attrs.evolve(made, body=(*late, *made.body[2:])), "uninitialised-barrier", "no barrier orders before")


def test_a_phase_that_one_never_heard_of(k: Names) -> None:
    """The waiter comes after both phases, but nothing makes it so."""
    one = Barrier("ready", 1, 1, 4096)
    twice = (If(lt(T, 1), (Arrive(one, ZERO), Arrive(one, ZERO))),)
    step = Advance(RING, ONE)
    late = (step, Await(one, RING.slot, RING.parity))
    made = handed(k, twice, late, barriers=(one,))
    refused(made, "phase-ahead", "awaits phase 1 of ready[0], and nothing tells it that phase 0 is complete")
    behind = (If(lt(T, 1), (Arrive(one, ZERO),) * 3),)
    made = handed(type(k)(), behind, (step, Await(one, RING.slot, 1 - RING.parity)), barriers=(one,))
    refused(made, "phase-ahead", "awaits phase 0 of ready[0], while phase 3 runs: the parity says that it is not")


def test_an_arrival_that_may_fall_into_the_phase_before(k: Names) -> None:
    """One thread arrives for the second phase without a wait for the first, which another may not have ended yet."""
    two, c = Barrier("two", 1, 2, 4096), k.gl("C", (32,), "output")

    def made(*again: Statement) -> Kernel:
        wait = Await(two, ZERO, ZERO)
        others = role("others", 0, If(eq(T, 0), (Arrive(two, ZERO), wait, Arrive(two, ZERO))))
        ones = role("ones", 32, If(eq(T, 0), (Arrive(two, ZERO), *again)), k.fill(k.at(c, T)))
        return kernel(k, Roles((others, ones)), barriers=(two,))

    refused(made(Arrive(two, ZERO)), "too-many-arrivals", "nothing orders that behind the end of phase 0")
    simulate(made(Await(two, ZERO, ZERO), Arrive(two, ZERO)), {"C": np.zeros(32, np.float32)})


def test_a_waiter_that_may_miss_its_phase(k: Names) -> None:
    one, go = Barrier("ready", 1, 1, 4096), Barrier("go", 1, 1, 4104)
    c = k.gl("C", (32,), "output")
    made = kernel(
        k,
        Roles(
            (
                role("take", 0, Await(one, ZERO, ZERO), k.fill(k.at(c, T))),
                role("give", 32, If(lt(T, 1), (Arrive(one, ZERO), Arrive(one, ZERO), Arrive(go, ZERO)))),
            )
        ),
        barriers=(one, go),
    )
    refused(made, "phase-ahead", "phases 0 to 1 of ready[0] were completed while role take of block 0 awaited parity 0")


def test_cursors_belong_to_their_threads(k: Names) -> None:
    step = Advance(RING, ONE)
    split = (step, If(lt(T, 1), (step,)))
    refused(handed(k, split, ()), "divergent-cursor", "not the same threads of role give of block 0")
    other = Advance(Cursor("other", 2), ONE)
    refused(handed(type(k)(), (other,), ()), "divergent-cursor", "has no such cursor")
    uneven = Advance(RING, T // 31)
    refused(handed(type(k)(), (uneven,), ()), "divergent-call", "step is 0 for thread 0 of block 0 and 1 for thread 31")


def test_cursors_wrap(k: Names) -> None:
    c, r, ring = k.gl("C", (8,), "output"), k.rf("r", 1), Cursor("ring", 3)
    i, one = Var("i", 8), lt(T, 1)
    value = Compute(k.at(c, i * 1), Arg(0, f32), (k.at(r, 0),), one)
    table = k.sh("table", 6)
    body = (
        k.only(lt(T, 6), k.fill(k.at(table, T), 0.0)),
        *(k.only(eq(T, n), k.fill(k.at(table, T), float(n))) for n in range(6)),
        Sync(Warp, ""),
        For(
            i,
            as_expr(8),
            (k.move(k.at(table, ring.slot + 3 * ring.parity), k.at(r, 0)), value, Advance(ring, as_expr(2))),
        ),
    )
    made = kernel(k, Roles((role("walk", 0, *body, cursors=(ring,)),)), threads=32, barriers=())
    arrays = {"C": np.zeros(8, np.float32)}
    simulate(made, arrays)
    places = [divmod(2 * n, 3) for n in range(8)]
    assert arrays["C"].tolist() == [slot + 3 * (wraps % 2) for wraps, slot in places]


def test_roles_count_their_threads_and_keep_names(k: Names) -> None:
    """A name given before keeps the block's thread; `thread` inside a role counts anew, in every warpgroup of it."""
    c, r = k.gl("C", (384,), "output"), k.rf("r", 1)
    whole, own = Var("whole", 384), Var(THREAD, 256)
    body = (
        Let(whole, Var(THREAD, 384)),
        Roles(
            (
                role("low", 0, k.fill(k.at(c, Var(THREAD, 128)), 1.0), threads=128),
                role(
                    "high", 128, k.fill(k.at(r, 0), 5.0), k.move(k.at(r, 0), k.at(c, own + 128), write=lt(whole, 380)),
                    k.only(lt(379, whole), k.fill(k.at(c, whole), 7.0)), threads=256,
                ),
            )
        ),
    )  # fmt: skip
    arrays = {"C": np.zeros(384, np.float32)}
    simulate(kernel(k, *body, threads=384, barriers=()), arrays)
    assert arrays["C"].tolist() == [1.0] * 128 + [5.0] * 252 + [7.0] * 4


def test_registers_belong_to_one_role(k: Names) -> None:
    c, r = k.gl("C", (32,), "output"), k.rf("r", 1)
    out = k.move(k.at(r, 0), k.at(c, T))
    made = kernel(k, k.fill(k.at(r, 0), 1.0), Roles((role("out", 0, out),)), threads=32, barriers=())
    refused(made, "role-registers", "role out uses the registers r")
    inside = kernel(k, If(lt(T, 16), (Roles((role("out", 0, out),)),)), threads=32, barriers=())
    refused(inside, "divergent-call", "only a whole block parts into roles")


def test_blocks_of_a_cluster_have_their_own_memory(k: Names) -> None:
    c, s, r = k.gl("C", (64,), "output"), k.sh("s", 32), k.rf("r", 1)
    rank, block = Var(RANK, 2), Var(BLOCK)
    body = (
        *(k.only(eq(rank, n), k.fill(k.at(s, T), 1.0 + n)) for n in (0, 1)),
        Sync(Block, ""),
        k.move(k.at(s, T ^ 1), k.at(r, 0)),
        k.move(k.at(r, 0), k.at(c, block * 32 + T)),
    )
    made = kernel(k, *body, threads=32, barriers=(), cluster=2)
    arrays = {"C": np.zeros(64, np.float32)}
    report = simulate(made, arrays)
    assert arrays["C"].tolist() == [1.0] * 32 + [2.0] * 32
    assert report.barriers == 2
    kept = (*body[:2], *body[3:])
    refused(attrs.evolve(made, body=kept), "race", "thread 0 of block 0 reads s[1]", "thread 1 of block 0 wrote", n=64)


@pytest.mark.parametrize("level", [Block, Cluster])
def test_barriers_of_a_cluster(k: Names, level: Any) -> None:
    """Block 0 writes global memory that block 1 reads."""
    c, d, r = k.gl("C", (32,), "update"), k.gl("D", (32,), "output"), k.rf("r", 1)
    rank = Var(RANK, 2)
    made = kernel(
        k,
        k.only(lt(rank, 1), k.fill(k.at(c, T), 4.0)),
        Sync(level, ""),
        k.only(lt(0, rank), k.move(k.at(c, T ^ 1), k.at(r, 0)), k.move(k.at(r, 0), k.at(d, T))),
        threads=32, barriers=(), cluster=2,
    )  # fmt: skip
    arrays = {"C": np.zeros(32, np.float32), "D": np.zeros(32, np.float32)}
    if level == Cluster:
        simulate(made, arrays)
        assert (arrays["D"] == 4).all()
        return
    with pytest.raises(SimulationError) as caught:
        simulate(made, arrays)
    assert "thread 0 of block 1 reads C[1]" in caught.value.message
    assert "no barrier of the cluster in between" in caught.value.message


def test_a_block_that_leaves_its_cluster_waiting(k: Names) -> None:
    c = k.gl("C", (32,), "output")
    wait = k.only(lt(Var(RANK, 2), 1), Await(READY, ZERO, ZERO))
    made = kernel(k, wait, k.fill(k.at(c, T)), threads=32, cluster=2)
    refused(
        made, "deadlock", "the cluster of blocks 0 to 1", "block 0 awaits ready[0] of rank 0", "block 1 has finished"
    )


# wgmma


@attrs.define
class Product:
    """Multiply once from shared memory that threads filled, A from registers where `held`."""

    k: Names
    atom: Any
    held: bool = False
    before: tuple[Statement, ...] = ()
    flying: tuple[Statement, ...] = ()
    drop: tuple[str, ...] = ()
    accumulate: Expr | None = ZERO
    active: int = 128
    steps: int = 1

    def kernel(self) -> Kernel:
        k, thread = self.k, Var(THREAD, 128)
        c = k.gl("C", (64, 32), "output")
        a, b, acc = k.sh("a", 64 * 16, 0, f16), k.sh("b", 16 * 32, 2048, f16), k.rf("acc", 16)
        x = k.rf("x", 8, f16)
        i = Var("i", 16)
        row, column = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2
        left = View(x, ZERO, Layout(8, 1)) if self.held else View(a, ZERO, Layout((64, 16), (1, 64)))
        views = (left, View(b, ZERO, Layout((16, 32), (1, 16))), View(acc, ZERO, Layout(16, 1)))
        product = Call(self.atom, views, accumulate=self.accumulate)
        parts: dict[str, Statement] = {
            "proxy": Fence("proxy.async"),
            "sync": Sync(Block, "operands are there"),
            "fence": Fence("registers"),
            "call": product if self.active == 128 else If(lt(thread, self.active), (product,)),
            "commit": Commit("wgmma"),
        }
        kept = [part for name, part in parts.items() if name not in self.drop]
        wait = () if "wait" in self.drop else (Wait("wgmma", 0),)
        fill = (
            For(i, as_expr(8), (k.fill(View(a, thread * 8 + i), 2.0),)),
            For(i, as_expr(4), (k.fill(View(b, thread * 4 + i), 3.0),)),
            For(i, as_expr(8), (k.fill(View(x, i * 1), 2.0),)),
        )
        again = (Fence("registers"), attrs.evolve(product, accumulate=None), Commit("wgmma"), *wait)
        out = For(i, as_expr(16), (Compute(View(c, row * 32 + column), Arg(0, f32), (View(acc, i * 1),)),))
        body = (*fill, *self.before, *kept, *self.flying, *wait, *(again * (self.steps - 1)), out)
        return Kernel("mma", tuple(k.pointers), ONE, 128, 4096, tuple(k.buffers), body)

    def refused(self, code: str, *texts: str) -> None:
        with pytest.raises(SimulationError) as caught:
            simulate(self.kernel(), {"C": np.zeros((64, 32), np.float32)})
        assert caught.value.code == code, str(caught.value)
        for text in texts:
            assert text in caught.value.message, caught.value.message
        assert caught.value.fix


@pytest.fixture
def product(k: Names, product_atom: Any) -> Any:
    def make(held: bool = False, **more: Any) -> Product:
        return Product(type(k)(), product_atom(32, held), held, **more)

    return make


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_product(product: Any, held: bool, steps: int) -> None:
    arrays = {"C": np.zeros((64, 32), np.float32)}
    report = simulate(product(held, steps=steps).kernel(), arrays)
    assert (arrays["C"] == 96 * steps).all()
    assert report.flops == 2 * 64 * 32 * 16 * steps
    assert report.site("wgmma").sh_read.nbytes == (1024 * (not held) + 512) * 2 * steps


def test_operands_of_a_product(product: Any) -> None:
    product(drop=("proxy",)).refused("missing-proxy-fence", "starts an asynchronous read of a[0]", "thread 0 of block")
    product(drop=("sync",)).refused("race", "reads a[0]", "which thread 0 of block 0 wrote")
    product(drop=("fence",)).refused("missing-wgmma-fence", "thread 0 of block 0 uses acc[0]")
    product(True, drop=("fence",)).refused("missing-wgmma-fence", "thread 0 of block 0 uses x[0]")
    product(drop=("commit",)).refused("not-arrived", "reads acc[0]", "its group was not committed")
    product(drop=("wait",)).refused("not-arrived", "reads acc[0], which an asynchronous instruction still uses")
    product(accumulate=None).refused("uninitialised-read", "uses acc[0], which no thread wrote")
    product(active=64).refused(
        "divergent-call", "a Warpgroup of 128 threads", "thread 64 of block 0 does not take part"
    )


def test_operands_in_flight(product: Any) -> None:
    made = product(True)
    thread = Var(THREAD, 128)

    def touch(name: str, at: Any) -> tuple[Statement, ...]:
        buffer = next(b for b in made.kernel().buffers if b.name == name)
        made.k.buffers.clear()
        made.k.pointers.clear()
        return (made.k.fill(View(buffer, as_expr(at)), 1.0),)

    attrs.evolve(made, flying=touch("x", 0)).refused("not-arrived", "thread 0 of block 0 writes x[0]")
    made = product()
    attrs.evolve(made, flying=touch("acc", 0)).refused("not-arrived", "thread 0 of block 0 writes acc[0]")
    made = product()
    attrs.evolve(made, flying=touch("b", thread)).refused("source-in-flight", "writes b[0]")


def test_a_product_that_nobody_awaits(product: Any) -> None:
    made = product(drop=("wait",)).kernel()
    with pytest.raises(SimulationError) as caught:
        simulate(attrs.evolve(made, body=made.body[:-1]), {"C": np.zeros((64, 32), np.float32)})
    assert caught.value.code == "unfinished-flight"
    assert "its group (wgmma) was never waited for" in caught.value.message


def test_other_atoms_cannot_take_zero(k: Names) -> None:
    r = k.rf("r", 3)
    call = k.call("fma.f32", k.at(r, 0), k.at(r, 1), k.at(r, 2), accumulate=ZERO)
    with pytest.raises(SimulationError) as caught:
        simulate(k.kernel(call), {})
    assert caught.value.code == "atom-zeroes"
