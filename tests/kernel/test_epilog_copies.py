"""Operands of epilogs by bulk copies: equal results, reads of shared memory alone, registers that are left."""

from __future__ import annotations

import re
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
    ColMajor,
    Matrix,
    Vector,
    Warpgroup,
    add,
    best,
    gelu,
    matmul,
    relu,
    silu,
    symbol,
    tma,
)
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.statements import Call, Compute, Pointer, Roles, Statement, walk
from fireiron.schedules import hopper
from fireiron.schedules._stores import bulk
from fireiron.schedules.hopper import Plan

Right = Callable[..., Any]
RAGGED = (200, 136, 72)
PLANS = {
    "one slot": Plan(128, 64, stages=3, copied=1),
    "two slots": Plan(128, 128, stages=3, copied=2),
    "turns": Plan(128, 96, stages=3, pingpong=True, copied=2),
    "a cluster": Plan(128, 64, stages=3, cluster=(2, 1), copied=1),
}


def with_residual(shape: tuple[int, int, int], dtype: str = "f16", layout: str = "TN") -> Any:
    spec = matmul(*shape, dtype, layout=layout, arch="sm_90a")
    return spec.then(add(Vector(shape[1], dtype, name="bias")), add(Matrix(*shape[:2], dtype, name="residual")), relu)


def reads(body: Any, name: str) -> list[Statement]:
    """List the statements that read a buffer."""
    return [
        s
        for s in walk(body)
        if isinstance(s, Call | Compute) and any(v.buffer.name == name and w == "read" for v, w in reads_and_writes(s))
    ]


def role(schedule: Any, number: int) -> Any:
    (roles,) = (s for s in walk(schedule.lowered("sm_90a").body) if isinstance(s, Roles))
    return roles.roles[number].body


@pytest.mark.parametrize("plan", PLANS)
def test_on_hopper(right: Right, plan: str) -> None:
    schedule = hopper.gemm(with_residual(RAGGED), PLANS[plan])
    report = right(schedule, lambda p, x: (p + x["bias"] + x["residual"]).clip(0))
    assert not reads(role(schedule, 1), "residual"), "threads read shared memory alone"
    (copy,) = reads(role(schedule, 0), "residual")
    assert isinstance(copy, Call)
    assert copy.atom.name.startswith("tma.load")
    assert len(reads(role(schedule, 1), "residual_sh")) == 1
    assert all(s.conflict_degree <= 1 for s in report.sites if "residual" in s.title or s.title.startswith("Pointwise"))


@pytest.mark.parametrize("swapped", [False, True])
def test_either_order(right: Right, swapped: bool) -> None:
    m, n, k = RAGGED
    across, down = Matrix(m, n, "f16", name="across"), Matrix(m, n, "f16", ColMajor, name="down")
    spec = matmul(m, n, k, "f16", layout="TN", arch="sm_90a").then(add(across), add(down))
    plan = Plan(128, 64, stages=3, swapped=swapped, copied=1)
    schedule = hopper.gemm(spec, plan)
    beside = (lambda x: x["across"].T + x["down"]) if swapped else (lambda x: x["across"] + x["down"].T)
    right(schedule, lambda p, x: p + beside(x))
    assert schedule.cuda("sm_90a").count("residual") == 0


def test_accumulated_results_and_batches(right: Right) -> None:
    again = hopper.gemm(matmul(*RAGGED, "bf16", layout="TN", arch="sm_90a", beta=1.0), PLANS["one slot"])
    right(again)
    assert "c_sh" in again.cuda("sm_90a")
    shared = Matrix(136, 72, "f16", name="shared")
    spec = matmul(136, 72, 72, "f16", layout="TN", batch=3, arch="sm_90a").then(add(shared))
    right(hopper.gemm(spec, PLANS["one slot"]), lambda p, x: p + x["shared"])


def test_sizes_of_the_call_end_the_copied_tiles() -> None:
    rows = symbol("M", multiple_of=8)
    spec = matmul(rows, 72, 72, "f16", layout="TN", arch="sm_90a").then(add(Matrix(rows, 72, "f16", name="residual")))
    schedule = hopper.gemm(spec, PLANS["one slot"])
    rng = np.random.default_rng(0)
    a, b, residual = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((136, 72), (72, 72), (136, 72)))
    out = schedule.simulate(a, b, residual).out
    assert (out == a.astype(np.float32) @ b.T.astype(np.float32) + residual).all()


def test_a_block_of_one_tile_fills_its_buffer_once(right: Right) -> None:
    m, n, k = RAGGED
    residual = Matrix(m, n, "f16", name="residual")
    spec = matmul(m, n, k, "f16", layout="TN", arch="sm_90a").then(silu, add(residual))
    chain = (
        spec.tile(128, 64)
        .to(Block)
        .epilog(memory=FR, store=bulk(PLANS["one slot"], spec.matmul.C), load={residual: tma()})
    )
    chain = chain.split(64).pipeline(3).specialize(registers=(24, 240)).load(A, SH, tma()).load(B, SH, tma())
    schedule = chain.tile(64, 64).to(Warpgroup).split(16).unroll().done()
    right(schedule, lambda p, x: p / (1 + np.exp(-p)) + x["residual"])
    assert "mbarrier_wait(&residual_sh_full[0], 0);" in schedule.cuda("sm_90a")


def test_what_units_that_share_a_tile_or_threads_take_stays_where_it_was() -> None:
    spec = with_residual((256, 256, 1024))
    for plan in (Plan(128, 64, ways=2, copied=1), Plan(128, 64, stream=True, copied=1)):
        assert "residual_sh" not in hopper.gemm(spec, plan).cuda("sm_90a")
    odd = with_residual((256, 252, 128), layout="NN")  # lines of 504 bytes, of which maps take none
    assert "residual_sh" not in best(odd).cuda("sm_90a")


def test_parameters_keep_the_order_of_the_ops() -> None:
    kernel = hopper.gemm(with_residual(RAGGED), PLANS["one slot"]).lowered()
    assert [p.buffer.name for p in kernel.parameters if isinstance(p, Pointer)] == ["A", "B", "C", "bias", "residual"]


@pytest.mark.parametrize("op", [silu, gelu])
def test_compiled_epilogs_wait_for_no_global_memory(op: Any) -> None:
    """Nothing spills in the widest tiles, and what is loaded behind the products is the bias."""
    spec = matmul(4096, 4096, 4096, "bf16", layout="TN", arch="sm_90a")
    spec = spec.then(add(Vector(4096, "bf16", name="bias")), op, add(Matrix(4096, 4096, "bf16", name="residual")))
    plan = Plan(128, 256, cluster=(2, 1))
    counts: list[int] = []
    for one in (plan, attrs.evolve(plan, copied=1)):
        kernel = hopper.gemm(spec, one).compile("sm_90a")
        assert kernel.resources.spill_stores == 0
        counts.append(len(re.findall(r"\bLDG\b", kernel.sass)))
    assert counts[0] - counts[1] == plan.sums // 2


def test_plans_copy_for_the_most_sums_and_for_short_tiles_in_turn() -> None:
    """Of other tiles, swapped ones, and what maps do not take, threads read operands as before."""

    def found(shape: tuple[int, int, int], **how: Any) -> dict[int, set[tuple[int, int, bool]]]:
        kept: dict[int, set[tuple[int, int, bool]]] = {}
        for p in hopper.plans(with_residual(shape, **how)):
            kept.setdefault(p.copied, set()).add((p.m, p.n, p.pingpong))
            assert not p.copied or not (p.swapped or p.stream or p.ways > 1)
        return kept

    wide = found((4096, 4096, 4096))
    assert wide[1] == {(128, 256, False), (256, 128, False)}
    assert 2 not in wide
    short = found((12288, 768, 768))
    assert all(pingpong and m * n <= 128 * 128 for m, n, pingpong in short[2])
    for shape, copied in (((4096, 4096, 4096), 1), ((12288, 768, 768), 2)):
        assert hopper.plans(with_residual(shape))[0].copied == copied
    assert found((256, 252, 128), layout="NN").keys() <= {0}
    assert all(not p.copied for p in hopper.plans(matmul(4096, 4096, 4096, "f16", layout="TN", arch="sm_90a")))


def test_trees_and_differences_say_so() -> None:
    spec = with_residual(RAGGED)
    copied, read = (hopper.gemm(spec, attrs.evolve(PLANS["two slots"], copied=n, stages=3)) for n in (2, 0))
    assert "loads residual to SH" in str(copied.tree())
    assert "residual to SH" not in str(read.tree())
    assert "load of residual" in str(read.diff(copied))


def test_the_kernel(golden: Callable[[str, str], None]) -> None:
    spec = with_residual((256, 256, 128))
    schedule = hopper.gemm(spec, Plan(128, 128, stages=3, copied=1))
    golden(schedule.cuda("sm_90a"), "schedules/hopper_copied.cu")
