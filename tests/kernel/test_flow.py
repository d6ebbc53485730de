"""Nested pipelines that flow: every depth and number of inner steps, and each planted mistake caught."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    Matrix,
    Thread,
    Warp,
    conform,
    cp_async,
    ldmatrix,
    matmul,
    staged,
    symbol,
)
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Call, Commit, For, If, Region, Sync, Wait, walk
from fireiron.kernel.lower import pipeline
from fireiron.schedules import simt
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def gemm(
    spec: Any, copy: Any = cp_async, stages: int = 3, steps: int = 2, slots: int = 2, drain: bool = False,
    fragments: Any = ldmatrix,
) -> Any:  # fmt: skip
    chain = spec.tile(32, 32).to(Block).epilog(memory=FR).split(16 * steps).pipeline(stages)
    chain = chain.load(A, SH, copy()).pad(8).load(B, SH, copy()).pad(8).tile(16, 16).to(Warp)
    chain = chain.split(16).unroll().pipeline(slots, drain=drain)
    return chain.load(A, FR, fragments()).load(B, FR, fragments()).tile(16, 8).unroll().done()


def chunks(steps: int, count: int, **more: Any) -> Any:
    return matmul(32, 32, 16 * steps * count, "f16", layout="TN", **more)


@pytest.mark.product
@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize(("copy", "stages"), [(cp_async, 2), (cp_async, 3), (cp_async, 4), (staged, 2), (staged, 3)])
def test_flowing_pipelines(right, copy, stages, steps, slots):
    for count in (1, 3, 5):  # of three chunks nothing is started in the loop
        right(gemm(chunks(steps, count), copy, stages, steps, slots))


@pytest.mark.parametrize(("early", "late"), [(A, B), (B, A)])
def test_an_operand_that_the_inner_pipeline_does_not_fetch_keeps_its_slot(right, early, late):
    chain = chunks(2, 7).tile(32, 32).to(Block).epilog(memory=FR).split(32).pipeline(3)
    chain = chain.load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8).tile(16, 16).to(Warp)
    chain = chain.split(16).unroll().pipeline(2).load(early, FR, ldmatrix())
    right(chain.tile(16, 8).unroll().load(late, FR, ldmatrix()).done())


@fi.program(a="m k", b="k n")
def product(a: Any, b: Any) -> Any:
    return fi.einsum("mk,kn->mn", a, b, name="c")


def steps_of(k: int, ops: bool = False) -> Any:
    """Give the chain of `gemm` on a program, whose product has a chain of its own."""
    a, b = Matrix(32, k, "f16", name="a"), Matrix(k, 32, "f16", ColMajor, name="b")
    chain = product(a, b).tile(m=32, n=32).to(Block).epilog(memory=FR).split(k=32).pipeline(3)
    chain = chain.load(a, SH, cp_async()).pad(8).load(b, SH, cp_async()).pad(8).tile(m=16, n=16).to(Warp)

    def by_fragments(c: Any) -> Any:
        c = c.split(16).unroll().pipeline(2).load("A", FR, ldmatrix())
        return (c.tile(16, 8).unroll().load("B", FR, ldmatrix()) if ops else
                c.load("B", FR, ldmatrix()).tile(16, 8).unroll()).done()  # fmt: skip

    return chain.each(c=by_fragments)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_only_product_of_a_program_flows_as_a_matmul_does(count: int) -> None:
    """Both copy, fetch and multiply equally often in each loop: the same schedule on the same sums."""
    ours, theirs = (s.lowered("sm_80") for s in (steps_of(32 * count), gemm(chunks(2, count))))

    def multiplied(kernel: Any) -> list[tuple[str, str]]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For) and s.kind == "chunks" and not s.unroll]
        return [(str(s.extent), c.atom.name) for s in loops for c in walk(s.body) if isinstance(c, Call)]

    assert multiplied(ours) == multiplied(theirs)
    assert steps_of(32 * count).simulate().comparison.passed


def test_a_product_that_reads_shared_memory_in_its_last_steps_keeps_its_slot() -> None:
    kernel = steps_of(96, ops=True).lowered("sm_80")
    loop = next(s for s in walk(kernel.body) if isinstance(s, For) and s.kind == "chunks" and not s.unroll)
    assert isinstance(loop.body[0], Wait)
    assert steps_of(96, ops=True).simulate().comparison.passed


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("stages", [2, 4])
def test_each_copy_of_a_pipeline_is_lowered_once(monkeypatch: Any, stages: int, drain: bool) -> None:
    """Copies ahead of a loop and those in it are one body: two loads to shared memory, two to registers."""
    lowered: list[str] = []
    whole = pipeline.lower_copy

    def counted(link: Any, *rest: Any) -> Any:
        lowered.append(f"{link.role} to {link.memory}")
        return whole(link, *rest)

    monkeypatch.setattr(pipeline, "lower_copy", counted)
    gemm(matmul(32, 32, 32 * 7, "f16", layout="TN"), stages=stages, drain=drain).lowered("sm_80")
    # A schedule is elaborated for its own architecture first, then for the one that is asked for.
    assert sorted(set(lowered)) == ["A to FR", "A to SH", "B to FR", "B to SH"]
    assert {lowered.count(name) for name in lowered} == {lowered.count("A to SH")} <= {1, 2}


@pytest.mark.parametrize("seed", range(12))
def test_random_flows(right, seed):
    rng = random.Random(seed)
    copy, stages = rng.choice([(cp_async, 2), (cp_async, 3), (cp_async, 4), (staged, 2)])
    steps, slots = rng.choice([1, 2, 4]), rng.choice([2, 2, 3, 4])
    m, n, k = (8 * rng.randrange(1, 9) for _ in "mnk")
    spec = matmul(m, n, symbol("K", multiple_of=8) if rng.random() < 0.5 else k, "f16", layout="TN")
    schedule = gemm(spec, copy, stages, steps, slots, fragments=rng.choice([ldmatrix, conform]))
    right(schedule, **({"K": k} if "K" in str(spec.residual) and not isinstance(spec.matmul.A.shape[1], int) else {}))


@pytest.mark.parametrize(("copy", "stages"), [(cp_async, 2), (cp_async, 4), (staged, 2)])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_one_barrier_a_chunk(copy, stages, steps):
    kernel = gemm(chunks(steps, 6), copy, stages, steps).lowered()
    assert simulate(kernel, random_arrays(Interface.of(kernel), {})).barriers == 6


def test_the_first_fragment_of_a_chunk_comes_under_the_math_of_the_last():
    flowing, drained = (gemm(chunks(2, 8), drain=d).lowered() for d in (False, True))

    def order(kernel: Any) -> list[str]:
        (loop,) = (s for s in walk(kernel.body) if isinstance(s, For) and not s.unroll)
        names = [s.atom.name.split(".")[0] for s in walk(loop.body) if hasattr(s, "atom")]
        return [x for i, x in enumerate(names) if i == 0 or names[i - 1] != x]

    assert order(flowing) == ["ldmatrix", "mma", "cp", "ldmatrix", "mma"]
    assert order(drained)[0] == "cp"


def test_slots_of_registers_are_known_to_the_compiler(right):
    """One step a chunk and two slots: two chunks stand in a trip."""
    schedule = gemm(chunks(1, 9), steps=1)
    (loop,) = (s for s in walk(schedule.lowered().body) if isinstance(s, For) and not s.unroll)
    assert str(loop.extent) == "4"
    assert schedule.compile("sm_80", cache=False).resources.stack == 0
    symbolic = gemm(matmul(32, 32, symbol("K", multiple_of=8), "f16", layout="TN"), steps=1)
    assert symbolic.compile("sm_80", cache=False).resources.stack == 0


def test_a_flow_as_it_is_printed(golden):
    golden(gemm(chunks(2, 8)).cuda("sm_80"), "kernel/flow.cu")


def test_chunks_that_stand_together(right):
    chain = chunks(2, 7).tile(32, 32).to(Block).epilog(memory=FR).split(32).pipeline(3).unroll(3)
    chain = chain.load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8).tile(16, 16).to(Warp)
    chain = chain.split(16).unroll().pipeline(2).load(A, FR, ldmatrix()).load(B, FR, ldmatrix())
    schedule = chain.tile(16, 8).unroll().done()
    assert "#pragma unroll 3" in schedule.cuda()
    assert "unroll 3" in str(schedule.tree())
    right(schedule)


def test_flow_on_cuda_cores(right):
    for ahead in (2, 3):
        right(simt.sgemm(matmul(130, 100, 40), ahead=ahead))


def test_units_that_take_tiles_in_turn_keep_the_loop(right):
    chain = chunks(2, 3).tile(32, 32).to(Block).epilog(memory=FR).split(32).pipeline(2)
    chain = chain.load(A, SH, cp_async()).pad(8).load(B, SH, cp_async()).pad(8).tile(16, 16).to(Warp, units=2)
    chain = chain.split(16).unroll().pipeline(2).load(A, FR, ldmatrix()).load(B, FR, ldmatrix())
    right(chain.tile(16, 8).unroll().done())


def changed(body, edit):
    """Rewrite statements: edit gives a replacement, or None to drop one."""
    out = []
    for statement in body:
        if isinstance(statement, For | If | Region):
            statement = attrs.evolve(statement, body=changed(statement.body, edit))
        result = edit(statement)
        if result is not None:
            out.append(result)
    return tuple(out)


class Nth:
    """Drop, or change, the n-th statement of a kind."""

    def __init__(self, kind: type, n: int, change: Any = lambda s: None):
        self.kind, self.left, self.change = kind, n, change

    def __call__(self, statement: Any) -> Any:
        if not isinstance(statement, self.kind):
            return statement
        self.left -= 1
        return self.change(statement) if self.left == -1 else statement


def count(kernel: Any, kind: type) -> int:
    return sum(isinstance(s, kind) for s in walk(kernel.body))


CASES = [(cp_async, n, steps) for n in (2, 3, 4) for steps in (1, 2, 4)] + [(staged, 2, steps) for steps in (1, 2, 4)]


@pytest.mark.parametrize(("copy", "stages", "steps"), CASES)
def test_every_barrier_and_wait_is_needed(copy, stages, steps):
    kernel = gemm(chunks(steps, 7), copy, stages, steps).lowered()
    arrays = random_arrays(Interface.of(kernel), {})
    edits = [Nth(Sync, i) for i in range(count(kernel, Sync))] + [Nth(Wait, i) for i in range(count(kernel, Wait))]
    edits += [Nth(Wait, i, lambda s: attrs.evolve(s, pending=s.pending + 1)) for i in range(count(kernel, Wait))]
    assert count(kernel, Commit) == 0 or count(kernel, Wait) > 0
    for edit in edits:
        with pytest.raises(FireironError) as caught:
            simulate(attrs.evolve(kernel, body=changed(kernel.body, edit)), arrays)
        assert caught.value.code in {"race", "not-arrived", "uninitialised-read"}


def test_staged_double_buffering_compiles_for_turing():
    """Without asynchronous copies registers stage: two slots, one barrier a chunk, nothing spilled."""
    chain = matmul(128, 128, 256, "f16", layout="TN").tile(128, 128).to(Block).epilog(memory=FR).split(32).pipeline(2)
    chain = chain.load(A, SH, staged()).pad(8).load(B, SH, staged()).pad(8).tile(64, 64).to(Warp)
    chain = chain.split(8).unroll().pipeline(2).load(A, FR, conform()).load(B, FR, conform())
    found = chain.tile(16, 8).unroll().done("mma.m16n8k8").compile("sm_75", cache=False).resources
    assert (found.stack, found.spill_stores, found.spill_loads) == (0, 0, 0)


def test_registers_of_a_flow_that_is_not_unrolled():
    chain = chunks(2, 2).tile(32, 32).to(Block).epilog(memory=FR).split(32).pipeline(2)
    chain = chain.load(A, SH).load(B, SH).tile(16, 16).to(Warp).split(16).pipeline(2)
    with pytest.raises(FireironError) as caught:
        chain.load(A, FR).load(B, FR).tile(16, 8).unroll().done()
    assert caught.value.code == "register-loop"
    assert caught.value.fix == "refine the split by .unroll() too"
    assert Thread.size == 1
