"""Flowing pipelines around and inside parallel splits: one loop, a barrier a chunk, and the sums over the dead ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    FireironError,
    Group,
    Warp,
    Warpgroup,
    by_atomics,
    conform,
    cp_async,
    ldmatrix,
    matmul,
    relu,
    staged,
    symbol,
    through_shared,
)
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Call, CountIn, For, If, Region, Sync, Wait, walk
from fireiron.schedules import ampere
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

Right = Callable[..., Any]
COPIES = [(cp_async, 2), (cp_async, 3), (cp_async, 4), (staged, 2)]
STORE = through_shared(pad=8, reuse=True)


def gemm(
    spec: Any, ways: int = 2, level: Any = Warpgroup, copy: Any = cp_async, stages: int = 3, steps: int = 2,
    slots: int = 2, split_k: int = 1, reduce: Any = None, drain: bool = False, store: Any = STORE, ops: Any = (),
) -> Any:  # fmt: skip
    """Let each way take `steps` steps of 16 of a chunk; 4 warps a warpgroup, 2 a Group(Warp, 2)."""
    chain = spec.tile(32, 32).to(Block).epilog(*ops, memory=FR, store=store)
    if split_k > 1:
        chain = chain.split(ways=split_k, multiple_of=16).parallel(Block, reduce=reduce)
    chain = chain.split(16 * steps * ways).pipeline(stages)
    chain = chain.load(A, SH, copy()).pad(8).load(B, SH, copy()).pad(8).split(16 * steps).parallel(level)
    tile = {4: (16, 16), 2: (32, 16), 1: (32, 32)}[(level.size or 32) // 32]
    chain = chain.tile(*tile).to(Warp).split(16).unroll().pipeline(slots, drain=drain)
    return chain.load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()


def main_loop(kernel: Any) -> list[str]:
    """Name what stands in the loop over chunks, neighbours of one kind as one."""
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For) and not s.unroll)
    names = [s.atom.name.split(".")[0] for s in walk(loop.body) if isinstance(s, Call)]
    return [x for i, x in enumerate(names) if i == 0 or names[i - 1] != x]


@pytest.mark.product
@pytest.mark.parametrize(("copy", "stages"), COPIES)
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(("ways", "level"), [(2, Warpgroup), (2, Group(Warp, 2)), (3, Warp)], ids=str)
def test_flows_around_ways(right: Right, ways: int, level: Any, steps: int, copy: Any, stages: int) -> None:
    for count in (1, 4):
        spec = matmul(32, 32, 16 * steps * ways * count, "f16", layout="TN")
        right(gemm(spec, ways, level, copy, stages, steps))
    right(gemm(matmul(40, 24, 16 * steps * ways * 2 + 24, "f16", layout="TN"), ways, level, copy, stages, steps))


@pytest.mark.parametrize("slots", [3, 4])
def test_several_chunks_ahead(right: Right, slots: int) -> None:
    for steps in (1, 2):
        right(gemm(matmul(32, 32, 320, "f16", layout="TN"), steps=steps, slots=slots))


def test_fragments_come_under_the_math_of_the_chunk_before() -> None:
    spec = matmul(32, 32, 512, "f16", layout="TN")
    flowing, drained = (gemm(spec, drain=d).lowered() for d in (False, True))
    assert main_loop(flowing) == ["ldmatrix", "mma", "cp", "ldmatrix", "mma"]
    assert main_loop(drained)[:2] == ["cp", "ldmatrix"]
    # Seven barriers are of the operands (the first fragments, seven more chunks), four of the sums and of the store.
    assert simulate(flowing, random_arrays(Interface.of(flowing), {})).barriers == 8 + 4


@pytest.mark.parametrize(("copy", "stages"), COPIES)
@pytest.mark.parametrize("split_k", [1, 2])
def test_a_drained_pipeline_ends_with_each_chunk(right: Right, split_k: int, copy: Any, stages: int) -> None:
    right(gemm(matmul(40, 32, 200, "f16", layout="TN"), copy=copy, stages=stages, split_k=split_k, drain=True))


@pytest.mark.parametrize("reduce", [None, by_atomics()], ids=str)
@pytest.mark.parametrize(("copy", "stages"), [(cp_async, 3), (staged, 2)])
def test_blocks_split_too(right: Right, copy: Any, stages: int, reduce: Any) -> None:
    sizes = (40, 24, symbol("K", multiple_of=8))
    schedule = gemm(matmul(*sizes, "f16", layout="TN"), copy=copy, stages=stages, split_k=3, reduce=reduce, ops=(relu,))
    for k in (8, 64, 400):  # of the shortest, two blocks have nothing
        right(schedule, lambda p, x: np.maximum(p, 0), K=k)


@pytest.mark.parametrize("drain", [False, True])
def test_each_way_may_have_a_ring_of_its_own(right: Right, drain: bool) -> None:
    """The split above the loads: warpgroups loop over their halves of K, at barriers of their own."""
    for k in (256, 200):
        chain = matmul(40, 32, k, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR, store=STORE)
        chain = chain.split(128).parallel(Warpgroup).split(32).pipeline(2)
        chain = chain.load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8).tile(16, 16).to(Warp)
        chain = chain.split(16).unroll().pipeline(2, drain=drain).load(A, FR, ldmatrix()).load(B, FR, ldmatrix())
        schedule = chain.tile(16, 8).unroll().done()
        right(schedule)
        kernel = schedule.lowered()
        (loop,) = (s for s in walk(kernel.body) if isinstance(s, For) and not s.unroll)
        assert {s.level for s in walk(loop.body) if isinstance(s, Sync)} == {Warpgroup}


def test_tiles_may_lie_above_the_split(right: Right) -> None:
    chain = matmul(32, 32, 264, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR, store=STORE)
    chain = chain.split(64).pipeline(3).load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8)
    chain = chain.tile(32, 16).to(Group(Warp, 2)).split(32).parallel(Warp).split(16).unroll().pipeline(2)
    schedule = chain.load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()
    right(schedule)
    assert main_loop(schedule.lowered()) == ["ldmatrix", "mma", "cp", "ldmatrix", "mma"]


def test_units_that_take_tiles_in_turn_keep_the_loop(right: Right) -> None:
    chain = matmul(32, 32, 136, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR)
    chain = chain.split(64).pipeline(2).load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8)
    chain = chain.split(32).parallel(Group(Warp, 2)).tile(16, 16).to(Warp).split(16).unroll().pipeline(2)
    right(chain.load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done())


@pytest.mark.product
@pytest.mark.parametrize("panel", [None, (32, 64), (16, 64), (16, 16)])
@pytest.mark.parametrize("ways", [2, 4])
def test_shares_of_the_sum_are_stored_by_panels(right: Right, ways: int, panel: Any) -> None:
    small: dict[str, Any] = {"m": 64, "n": 64, "warp": (32, 32), "ways": ways}
    for store in (through_shared(panel=panel, pad=8, reuse=True), through_shared(panel=panel)):
        right(ampere.gemm(matmul(70, 88, 160, "f16", layout="TN"), store=store, **small))


def test_sums_and_lines_lie_where_the_ring_was() -> None:
    spec = matmul(256, 256, 512, "f16", layout="TN")
    lines, direct = (ampere.gemm(spec, ways=2, store=s).lowered() for s in (None, conform()))
    one = ampere.gemm(spec).lowered()
    assert lines.shared_nbytes == direct.shared_nbytes == one.shared_nbytes == 96 << 10
    assert lines.threads == one.threads == 256
    reasons = [s.reason for s in walk(lines.body) if isinstance(s, Sync)]
    assert reasons[-4:] == [
        "a_sh is read before acc_sh takes its place",
        "acc_sh is written before it is read",
        "acc_sh is read before sum_sh takes its place",
        "sum_sh is written before it is read",
    ]


def changed(body: Any, gone: Any, new: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Put other statements in the place of one."""
    out: list[Any] = []
    for s in body:
        if s is gone:
            out.extend(new)
        else:
            out.append(attrs.evolve(s, body=changed(s.body, gone, new)) if isinstance(s, For | If | Region) else s)
    return tuple(out)


@pytest.mark.parametrize("split_k", [1, 2])
@pytest.mark.parametrize(("copy", "stages"), COPIES)
def test_every_barrier_and_wait_is_needed(copy: Any, stages: int, split_k: int) -> None:
    # As many chunks as make the last one lie in the first slot, where sums and lines go.
    spec = matmul(32, 32, 64 * (2 * stages + 1) * split_k, "f16", layout="TN")
    kernel = gemm(spec, copy=copy, stages=stages, split_k=split_k).lowered()
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, {name: array.copy() for name, array in arrays.items()})
    assert sum(isinstance(s, CountIn) for s in walk(kernel.body)) == split_k - 1
    for s in walk(kernel.body):
        less = [()] if isinstance(s, Sync | Wait) else []
        less += [(attrs.evolve(s, pending=s.pending + 1),)] if isinstance(s, Wait) else []
        for new in less:
            with pytest.raises(FireironError) as caught:
                simulate(attrs.evolve(kernel, body=changed(kernel.body, s, new)), arrays)
            assert caught.value.code in {"race", "not-arrived", "uninitialised-read"}
