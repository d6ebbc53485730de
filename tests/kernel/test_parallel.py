"""K split over units of a block and over blocks: right for every size, in any order, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    Group,
    Strided,
    Thread,
    Warp,
    Warpgroup,
    add,
    by_atomics,
    by_cluster,
    conform,
    cp_async,
    in_order,
    ldmatrix,
    matmul,
    relu,
    staged,
    symbol,
    through_shared,
    vector,
)
from fireiron.algebra.expr import Var, as_expr
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import THREAD, Call, Compute, For, If, Region, Sync, walk
from fireiron.language.tensor import Vector
from fireiron.simulate import simulate
from fireiron.verify.verification import expected, held, make


def within(chain: Any, warp: tuple[int, int] = (16, 16), thread: tuple[int, int] = (4, 2)) -> Any:
    """Finish a chain from one way's part on."""
    return (
        chain.tile(*warp).to(Warp).tile(*thread).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def volta(spec: Any, ways: int, level: Any, reduce: Any = None, k: int = 8, stages: int = 2, **epilog: Any) -> Any:
    """Load chunks for all ways together, as the Volta generator does."""
    chain = (
        spec.tile(32, 32).to(Block).epilog(*epilog.pop("ops", ()), memory=RF, **epilog)
        .split(ways * k).pipeline(stages).load(A, SH, staged()).load(B, SH, staged())
        .split(k).parallel(level, reduce=reduce)
    )  # fmt: skip
    if level == Warp:
        return within(chain, (32, 32), (8, 4))
    return within(chain, (16, 16) if level == Warpgroup else (32, 16), (4, 2) if level == Warpgroup else (4, 4))


def over(spec: Any, ways: int, reduce: Any = None, k: int = 8, stages: int = 2, **epilog: Any) -> Any:
    """Give each block a part of K."""
    return within(
        spec.tile(32, 32).to(Block).epilog(*epilog.pop("ops", ()), memory=RF, **epilog)
        .split(ways=ways, multiple_of=k).parallel(Block, reduce=reduce)
        .split(k).pipeline(stages).load(A, SH, staged()).load(B, SH, staged())
    )  # fmt: skip


LOOPS = {
    "tiles": lambda: matmul(64, 64, 32).tile(64, 64).to(Block).tile(32, 32),
    "batches": lambda: matmul(32, 32, 32, batch=2).tile(32, 32, batch=2).to(Block).tile(32, 32, batch=1),
    "persistent": lambda: matmul(128, 64, 32).tile(64, 64).to(Block).persistent().tile(32, 32),
}


@pytest.mark.parametrize("reduce", [in_order(), by_atomics(), by_cluster()], ids=str)
@pytest.mark.parametrize("loop", LOOPS)
def test_blocks_share_k_below_a_loop_over_tiles(right: Any, loop: str, reduce: Any) -> None:
    """Each tile's partial sums have places and counters, or phases, of their own."""
    chain = LOOPS[loop]().epilog(memory=RF).split(ways=2, multiple_of=8).parallel(Block, reduce=reduce)
    right(within(chain.split(8).load(A, SH).load(B, SH)))


SIZES = ((64, 32, 64), (33, 40, 50), (32, 32, 7), (5, 70, 131))


@pytest.mark.product
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("ways", "level"), [(2, Warpgroup), (4, Warpgroup), (2, Warp), (3, Warp), (8, Warp), (2, Group(Warp, 2))], ids=str
)
def test_ways_inside_a_block(right: Any, ways: int, level: Any, size: Any) -> None:
    schedule = volta(matmul(*size), ways, level)
    right(schedule)
    assert schedule.lowered().threads == ways * level.size


@pytest.mark.product
@pytest.mark.parametrize("reduce", [None, by_atomics()], ids=str)
@pytest.mark.parametrize("ways", [2, 3, 5])
@pytest.mark.parametrize("size", SIZES)
def test_ways_over_blocks(right: Any, ways: int, size: Any, reduce: Any) -> None:
    right(over(matmul(*size), ways, reduce))


def test_a_chunk_may_lie_above_the_loads(right: Any) -> None:
    # Each warpgroup loops over its own half of K, with buffers and barriers of its own.
    for k in (64, 50):
        schedule = within(
            matmul(40, 32, k).tile(32, 32).to(Block).epilog(memory=RF).split(32).parallel(Warpgroup)
            .split(8).load(A, SH).load(B, SH)
        )  # fmt: skip
        right(schedule)
        kernel = schedule.lowered()
        assert {s.level for s in walk(kernel.body) if isinstance(s, Sync)} == {Warpgroup, Block}


def lanes(spec: Any, level: Any, ways: int, tile: tuple[int, int]) -> Any:
    """Give each unit of a level inside a warp a chunk of K."""
    chain = spec.tile(16, 16).to(Block).epilog(memory=RF).split(32).load(A, SH).load(B, SH).tile(8, 8).to(Warp)
    chain = chain.split(ways=ways).parallel(level)
    chain = chain if level is Thread else chain.tile(*tile).to(Thread)
    return chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()


@pytest.mark.parametrize("size", [(16, 32, 64), (17, 20, 43)])
@pytest.mark.parametrize(
    ("level", "ways", "tile"), [(Thread, 32, (8, 8)), (Group(Thread, 4), 8, (4, 4)), (Group(Thread, 16), 2, (2, 2))]
)  # fmt: skip
def test_lanes_of_a_warp_share_k(right: Any, level: Any, ways: int, tile: tuple[int, int], size: Any) -> None:
    """Lanes add their sums by shuffles: one for each register and each bit of the way's number, and no barrier."""
    schedule = lanes(matmul(*size), level, ways, tile)
    right(schedule)
    (reduce,) = [
        s for s in walk(schedule.lowered().body) if isinstance(s, Region) and s.title.startswith(f"Reduce({ways})")
    ]
    assert not any(isinstance(s, Sync) for s in walk(reduce.body))
    shuffles = [s for s in walk(reduce.body) if isinstance(s, Call) and s.atom.kind == "Shuffle"]
    assert [str(s.lane) for s in shuffles] == [
        f"thread % 32 ^ {bit * level.size}" for bit in (16, 8, 4, 2, 1) if bit < ways
    ]


def test_a_shuffle_that_reads_the_wrong_lane_is_noticed() -> None:
    schedule = lanes(matmul(16, 32, 64), Thread, 32, (8, 8))
    kernel = schedule.lowered()
    mine = Var(THREAD, kernel.threads or 1) % 32

    def right_with(change: Callable[[Any], Any]) -> bool:
        data = make("exact", schedule, Interface.of(kernel), {}, {})
        wanted = expected(schedule, data)
        simulate(attrs.evolve(kernel, body=rewrite(kernel.body, change)), data.arrays, {}, data.numbers, track=False)
        return held(schedule, data, wanted).passed

    shuffles = [s for s in walk(kernel.body) if isinstance(s, Call) and s.atom.kind == "Shuffle"]
    assert len(shuffles) == 5
    assert right_with(lambda s: s)
    for hit in shuffles:
        assert not right_with(lambda s, hit=hit: attrs.evolve(s, lane=mine) if s is hit else s)
        assert not right_with(lambda s, hit=hit: attrs.evolve(s, lane=as_expr(0)) if s is hit else s)


def test_golden_of_lanes(golden: Callable[..., None]) -> None:
    schedule = lanes(matmul(16, 32, 64), Group(Thread, 4), 8, (4, 4))
    assert "reduce: 8 sums by shuffles" in str(schedule.tree())
    golden(schedule.cuda(), "kernel/lanes_share_k.cu")


@pytest.mark.parametrize("ways", [24, 64])
def test_threads_of_several_warps_share_k(right: Any, ways: int) -> None:
    """Ways that are no power of two, or more than a warp has lanes, add their sums through shared memory."""
    chain = matmul(6, 8, 70).tile(2, 4).to(Block).epilog(memory=RF).split(ways=ways).parallel(Thread)
    right(chain.split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done())


def test_a_part_of_a_warp_shares_k_of_its_tile(right: Any) -> None:
    """Below a tile to a part of a warp the sums pass through shared memory."""
    chain = matmul(32, 8, 16).tile(32, 8).to(Block).tile(8, 8).to(Group(Thread, 4)).epilog(memory=RF)
    right(chain.split(ways=4).parallel(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done())


def test_tiles_may_lie_above_the_split(right: Any) -> None:
    # Two warpgroups have a tile each, and their warps a part of K each.
    chain = matmul(32, 32, 40).tile(32, 32).to(Block).epilog(memory=RF).split(16).load(A, SH).load(B, SH)
    right(within(chain.tile(32, 16).to(Warpgroup).split(4).parallel(Warp), (32, 16), (4, 4)))


@pytest.mark.parametrize("ways", [2, 3])
def test_both_splits_at_once(right: Any, ways: int) -> None:
    for size in ((64, 32, 96), (33, 40, 50)):
        chain = (
            matmul(*size).tile(32, 32).to(Block).epilog(memory=RF)
            .split(ways=ways, multiple_of=16).parallel(Block)
            .split(16).pipeline(2).load(A, SH, staged()).load(B, SH, staged()).split(8).parallel(Warpgroup)
        )  # fmt: skip
        right(within(chain))


@pytest.mark.parametrize("reduce", [None, by_atomics()], ids=str)
def test_ops_and_the_first_value_count_once(right: Any, reduce: Any) -> None:
    bias = Vector(40, name="bias")
    ops = {"ops": (add(bias), relu), "init": 3.0}
    for schedule in (over(matmul(33, 40, 50, beta=2.0), 3, reduce, **ops), volta(matmul(33, 40, 50), 4, Warp, **ops)):
        old = 2.0 if schedule.matmul.beta.value else None
        right(
            schedule,
            lambda p, x, old=old: np.maximum(p + 3.0 + (old * x["C"] if old else 0.0) + x["bias"], 0),
        )


def test_the_store_may_exchange_elements_first(right: Any) -> None:
    store = through_shared(conform(), vector())
    right(over(matmul(64, 40, 50), 3, store=store))
    right(volta(matmul(64, 40, 50), 2, Warpgroup, store=store))


def test_sizes_may_be_symbols(right: Any) -> None:
    spec = matmul(symbol("M"), symbol("N"), symbol("K"))
    one, other = over(spec, 4), volta(spec, 2, Warpgroup)
    for size in ({"M": 33, "N": 40, "K": 50}, {"M": 1, "N": 2, "K": 3}, {"M": 64, "N": 32, "K": 128}):
        right(one, **size)
        right(other, **size)


def test_chunks_of_given_extent_over_blocks(right: Any) -> None:
    schedule = within(
        matmul(32, 32, symbol("K")).tile(32, 32).to(Block).epilog(memory=RF)
        .split(24).parallel(Block).split(8).load(A, SH).load(B, SH)
    )  # fmt: skip
    for k in (1, 24, 25, 100):
        assert right(schedule, K=k).grid == -(-k // 24)


@pytest.mark.parametrize("out", ["f32", "f16"])
def test_the_bits_do_not_depend_on_the_order_of_the_blocks(out: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((70, 100)).astype("f2"), rng.standard_normal((100, 40)).astype("f2")
    schedule = over(matmul(70, 40, 100, "f16", out=out), 4)
    grid = schedule.simulate(a, b).report.grid
    results = [schedule.simulate(a, b, blocks=[int(x) for x in rng.permutation(grid)]).out for _ in range(4)]
    assert all(np.array_equal(results[0], x) for x in results)


def test_atomics_add_in_the_order_of_arrival() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 100)).astype("f4"), rng.standard_normal((100, 32)).astype("f4")
    schedule = over(matmul(32, 32, 100), 4, by_atomics())
    results = {schedule.simulate(a, b, blocks=order).out.tobytes() for order in ([0, 1, 2, 3], [3, 1, 0, 2])}
    assert len(results) == 2


def test_every_way_ends_with_a_share_of_the_sum() -> None:
    for ways in (2, 4):
        kernel = volta(matmul(32, 32, 64), ways, Warpgroup).lowered()
        sizes = {b.name: int(str(b.size)) for b in kernel.buffers}
        assert (sizes["acc"], sizes["sum"]) == (8, 8 // ways)
    # Three ways find no loop to divide: the first one has it all.
    kernel = volta(matmul(32, 32, 64), 3, Warp).lowered()
    assert {b.name: int(str(b.size)) for b in kernel.buffers}["sum"] == 32


def test_sums_take_the_place_of_the_operands() -> None:
    kernel = volta(matmul(32, 32, 256), 2, Warpgroup, k=16).lowered()
    shared = {b.name: b for b in kernel.buffers if b.memory == SH}
    assert shared["acc_sh"].offset == 0
    assert kernel.shared_nbytes == sum(b.nbytes for n, b in shared.items() if n != "acc_sh")


@pytest.mark.parametrize(("nbytes", "panels"), [(None, 1), (2048, 2), (1024, 4), (1, 4)])
def test_sums_go_through_in_panels(right: Any, nbytes: int | None, panels: int) -> None:
    schedule = volta(matmul(32, 32, 64), 2, Warp, in_order(nbytes), k=16)
    right(schedule)
    kernel = schedule.lowered()
    (reduce,) = [s for s in walk(kernel.body) if isinstance(s, Region) and s.title.startswith("Reduce")]
    loops = [s for s in reduce.body if isinstance(s, For) and s.var.name.startswith("panel")]
    assert [str(loop.extent) for loop in loops] == ([str(panels)] if panels > 1 else [])
    assert next(b.nbytes for b in kernel.buffers if b.name == "acc_sh") == 4096 // panels


def test_shared_accesses_of_a_reduction_meet_no_conflicts() -> None:
    for schedule in (volta(matmul(32, 32, 64), 2, Warpgroup), volta(matmul(32, 32, 64), 4, Warp)):
        rows = [r for r in schedule.facts("sm_80").rows if r.buffer in ("acc_sh", "partial")]
        assert rows
        assert all(r.degree == 1 for r in rows)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "f64"])
def test_element_types(right: Any, dtype: str) -> None:
    for reduce in (None, by_atomics()):
        right(over(matmul(33, 40, 52, dtype), 3, reduce))
    right(volta(matmul(33, 40, 52, dtype), 2, Warpgroup))


def test_fragments_are_divided_too(right: Any) -> None:
    def schedule(ways: int, tile: tuple[int, int]) -> Any:
        chain = matmul(64, 40, 72, "f16").tile(32, 32).to(Block).epilog(memory=FR).split(ways * 16).pipeline(3)
        chain = chain.load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8)
        chain = chain.split(16).parallel(Warp).tile(*tile).unroll()
        return chain.load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()

    for ways in (2, 4, 8):
        right(schedule(ways, (32, 32)))


def test_random_chains(right: Any) -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        size = tuple(int(x) for x in rng.integers(1, 90, 3))
        ways, k, stages = int(rng.integers(2, 6)), int(rng.choice([2, 4, 8])), int(rng.integers(1, 4))
        batch = [None, 2][int(rng.integers(2))]
        spec = matmul(*size, batch=batch, layout=str(rng.choice(["NN", "NT", "TN", "TT"])))
        if batch:
            chain = spec.tile(32, 32, batch=1).to(Block)
        else:
            chain = spec.tile(32, 32).to(Block)
        chain = chain.epilog(memory=RF)
        if rng.integers(2):
            chain = chain.split(ways=int(rng.integers(2, 5)), multiple_of=k * ways).parallel(
                Block, [None, by_atomics()][int(rng.integers(2))]
            )
        chain = chain.split(ways * k).pipeline(stages).load(A, SH, staged()).load(B, SH, staged())
        right(within(chain.split(k).parallel(Warp), (32, 32), (8, 4)))


def test_strided_tiles_divide(right: Any) -> None:
    chain = matmul(64, 64, 40).tile(64, 64).to(Block).epilog(memory=RF).split(16).load(A, SH).load(B, SH)
    chain = chain.split(4).parallel(Group(Warp, 2)).tile(64, 32).to(Warp).tile(Strided((4, 32), (4, 16))).to(Thread)
    right(chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done())


def test_only_the_last_block_stores() -> None:
    kernel = over(matmul(32, 32, 64), 3).lowered()
    (last,) = [s for s in walk(kernel.body) if isinstance(s, If) and str(s.condition) == "last"]
    stores = [
        s for s in walk(kernel.body)
        if isinstance(s, Call | Compute) and any(v.buffer.name == "C" for v in (s.views if isinstance(s, Call) else ()))
    ]  # fmt: skip
    assert stores
    assert all(any(s is x for x in walk(last.body)) for s in stores)
