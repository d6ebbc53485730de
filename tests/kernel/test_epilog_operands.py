"""Operands that come before the products: equal results, loads where they are asked for, registers that hold them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fireiron import SH, A, B, Block, ColMajor, Matrix, Vector, add, matmul, relu, save, silu
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.statements import Call, Compute, Pointer, Roles, Statement, Turn, walk
from fireiron.kernel.passes.dependence import WAIT
from fireiron.language.decompositions import Epilog
from fireiron.schedules import hopper
from fireiron.schedules._plans import plans
from fireiron.schedules.hopper import Plan

Right = Callable[..., Any]
SIZES = ((64, 64, 16), (45, 37, 19))
SHAPES = ((256, 128, 136), (264, 328, 136))
PLANS = {
    "cooperative": Plan(128, 64, stages=3, early=True),
    "turns": Plan(128, 64, stages=3, pingpong=True, early=True),
    "one": Plan(64, 64, 1, stages=3, early=True),
    "three": Plan(192, 64, 3, stages=3, early=True),
    "cluster": Plan(128, 64, stages=3, cluster=(2, 1), early=True),
    "dependent": Plan(128, 64, stages=3, dependent=True, early=True),
}


def residual(spec: Any, **how: Any) -> Any:
    return attrs.evolve(spec.matmul.C, name="residual", **how)


def with_residual(shape: tuple[int, int, int], dtype: str = "f16", layout: str = "TN") -> Any:
    spec = matmul(*shape, dtype, layout=layout, arch="sm_90a")
    return spec.then(add(Vector(shape[1], dtype, name="bias")), add(residual(spec)), relu)


def early_of(schedule: Any) -> list[str]:
    return [t.name for link in schedule.links if isinstance(link, Epilog) for t in link.early]


def order(schedule: Any, *wanted: Callable[[Statement], bool]) -> list[int]:
    """Give where the first statement of each kind stands in what computes."""
    body = schedule.lowered("sm_90a").body
    (roles,) = (s for s in walk(body) if isinstance(s, Roles))
    found = list(walk(roles.roles[-1].body))
    return [next(i for i, s in enumerate(found) if one(s)) for one in wanted]


def reads(name: str) -> Callable[[Statement], bool]:
    def matches(s: Statement) -> bool:
        access = reads_and_writes(s) if isinstance(s, Call | Compute) else ()
        return any(way == "read" and view.buffer.name == name for view, way in access)

    return matches


def multiplies(s: Statement) -> bool:
    return isinstance(s, Call) and s.atom.kind == "MatMul"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_equal_to_what_comes_late(right: Right, chains: Any, size: tuple[int, int, int], dtype: str) -> None:
    m, n, _ = size
    bias, other = Vector(n, dtype, name="bias"), Matrix(m, n, dtype, order=ColMajor, name="other")
    spec = matmul(*size, dtype)
    first = residual(spec)
    right(chains.plain(spec, add(first), relu, early=(first,)), lambda p, x: (p + x["residual"]).clip(0))
    right(
        chains.plain(spec, add(bias), add(other), add(first), early=[first, other]),
        lambda p, x: p + x["bias"] + x["other"].T + x["residual"],
    )
    right(chains.plain(spec, add(other), early=other), lambda p, x: p + x["other"].T)


@pytest.mark.parametrize("size", SIZES)
def test_what_several_stages_read_and_what_is_accumulated(
    right: Right, chains: Any, size: tuple[int, int, int]
) -> None:
    spec = matmul(*size, alpha=2.0, beta=0.5)
    right(chains.plain(spec, early=spec.whole_operands))
    first, kept = Matrix(*size[:2], name="first"), Matrix(*size[:2], name="kept")
    once = matmul(*size)
    schedule = chains.plain(once, add(first), save(kept), lambda x: x * first, early=first)
    right(schedule, lambda p, x: (p + x["first"]) * x["first"])


def test_a_batch_shares_a_matrix(right: Right, chains: Any) -> None:
    shared = Matrix(45, 37, name="shared")
    spec = matmul(45, 37, 19, batch=2)
    made = chains.inner(
        spec.tile(32, 32, batch=1).to(Block).epilog(add(shared), early=shared).split(8)
        .load(A, SH).load(B, SH)
    )  # fmt: skip
    right(made, lambda p, x: p + x["shared"])


@pytest.mark.product
@pytest.mark.parametrize(
    ("plan", "shape"),
    [
        pytest.param(plan, shape, marks=pytest.mark.exhaustive) if (n + m) % 2 else (plan, shape)
        for n, plan in enumerate(PLANS)
        for m, shape in enumerate(SHAPES)
    ],
)
def test_on_hopper(right: Right, plan: str, shape: tuple[int, int, int]) -> None:
    schedule = hopper.gemm(with_residual(shape), PLANS[plan])
    assert early_of(schedule) == ["residual"]
    right(schedule, lambda p, x: (p + x["bias"] + x["residual"]).clip(0))


@pytest.mark.parametrize("form", ["cooperative", "turns"])
def test_bf16_and_accumulated_results(right: Right, form: str) -> None:
    shape = SHAPES[1]
    schedule = hopper.gemm(with_residual(shape, "bf16", "NN"), PLANS[form])
    right(schedule, lambda p, x: (p + x["bias"] + x["residual"]).clip(0))
    again = hopper.gemm(matmul(*shape, "bf16", layout="TN", arch="sm_90a", beta=1.0), PLANS[form])
    assert early_of(again) == ["C"]
    right(again)


@pytest.mark.parametrize("swapped", [False, True])
def test_they_lie_as_the_sums_do_or_stay_late(right: Right, swapped: bool) -> None:
    """Pairs along a row of the tile are loaded at once: of C's transpose those along a column of C."""
    plan, (m, n, k) = attrs.evolve(PLANS["cooperative"], swapped=swapped), SHAPES[1]
    spec = matmul(m, n, k, "f16", layout="TN", arch="sm_90a")
    across, down = Matrix(m, n, "f16", name="across"), Matrix(m, n, "f16", ColMajor, name="down")
    schedule = hopper.gemm(spec.then(add(across), add(down)), plan)
    assert early_of(schedule) == ["down" if swapped else "across"]
    beside = (lambda x: x["across"].T + x["down"]) if swapped else (lambda x: x["across"] + x["down"].T)
    right(schedule, lambda p, x: p + beside(x))


@pytest.mark.parametrize("form", ["cooperative", "turns", "dependent"])
def test_reads_stand_before_the_products(form: str) -> None:
    schedule = hopper.gemm(with_residual(SHAPES[1]), PLANS[form])
    read, product, bias = order(schedule, reads("residual"), multiplies, reads("bias"))
    assert read < product < bias
    late = hopper.gemm(with_residual(SHAPES[1]), attrs.evolve(PLANS["cooperative"], ways=2))
    read, product = order(late, reads("residual"), multiplies)
    assert product < read


def test_reads_stand_before_the_wait_for_the_turn() -> None:
    read, turn = order(
        hopper.gemm(with_residual(SHAPES[0]), PLANS["turns"]),
        reads("residual"),
        lambda s: isinstance(s, Turn) and s.waits and s.reason == "main loops take turns",
    )
    assert read < turn


def test_a_dependent_launch_is_awaited_before_them() -> None:
    wait, read = order(
        hopper.gemm(with_residual(SHAPES[0]), PLANS["dependent"]), lambda s: s is WAIT, reads("residual")
    )
    assert wait < read


def test_parameters_keep_the_order_of_the_ops() -> None:
    for ways in (1, 2):
        kernel = hopper.gemm(with_residual(SHAPES[0]), attrs.evolve(PLANS["cooperative"], ways=ways)).lowered()
        names = [p.buffer.name for p in kernel.parameters if isinstance(p, Pointer)]
        assert names == ["A", "B", "C", "bias", "residual"]


@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048), (4000, 4096, 4096)])
def test_compiled_loads_stand_before_the_first_product(shape: tuple[int, int, int]) -> None:
    """The compiler leaves them there, of plans with the most sums too, and nothing spills."""
    spec = with_residual(shape)
    plan = attrs.evolve(plans(spec)[0], early=True, copied=0)
    kernel = hopper.gemm(spec, plan).compile("sm_90a")
    assert kernel.resources.spill_stores == 0
    opcodes = re.findall(r"\b(LDG|HGMMA)\b", kernel.sass)
    loads = plan.sums // 2  # a pair for each two sums
    assert opcodes[:loads] == ["LDG"] * loads
    assert opcodes[loads] == "HGMMA"


def test_the_model_takes_plans_whose_registers_hold_them() -> None:
    for shape in ((4096, 4096, 4096), (4000, 4008, 4096), (264, 328, 136)):
        spec = with_residual(shape)
        whole = [p for p in plans(spec) if p.ways == 1 and not p.stream and not p.copied]
        assert whole
        assert not any(p.swapped for p in whole)
        assert all(early_of(hopper.gemm(spec, attrs.evolve(p, early=True))) == ["residual"] for p in whole[:3])
        assert not any(early_of(hopper.gemm(spec, p)) for p in whole[:3]), "slower at 4096 x 4096 x 4096"


def test_prologs_groups_of_units_and_wide_operands_leave_them_late() -> None:
    spec = with_residual(SHAPES[0])
    assert not early_of(hopper.gemm(spec, Plan(128, 64, stages=3, ways=2, early=True)))
    assert not early_of(hopper.stream_k(spec, Plan(128, 64, stages=3, early=True)))
    assert not early_of(
        hopper.gemm(matmul(256, 256, 128, "f16", layout="TN", out="f32", beta=1.0), Plan(128, 256, early=True))
    )


def test_only_tensors_are_asked_for(chains: Any) -> None:
    with pytest.raises(DecompositionError, match="early= takes a tensor"):
        chains.plain(matmul(64, 64, 16), add(Matrix(64, 64, name="x")), early="x")


def test_trees_say_which(chains: Any) -> None:
    x = Matrix(64, 64, name="x")
    early, late = (chains.plain(matmul(64, 64, 16), add(x), early=e) for e in (x, ()))
    assert early != late
    assert "early x" in early.tree()
    assert "early" not in late.tree()


def test_compiled_loads_stand_together_ahead_of_the_exponentials() -> None:
    """One by one between them, each would be waited for, as it was while divisions branched."""
    spec = matmul(4096, 4096, 4096, "bf16", layout="TN", arch="sm_90a")
    spec = spec.then(add(Vector(4096, "bf16", name="bias")), silu, add(residual(spec)))
    plan = attrs.evolve(plans(spec)[0], copied=0)
    kernel = hopper.gemm(spec, plan).compile("sm_90a")
    assert kernel.resources.spill_stores == 0
    found = re.findall(r"\b(LDG|HGMMA|MUFU\.EX2)\b", kernel.sass)
    assert found[: found.index("MUFU.EX2")].count("LDG") >= plan.sums // 8


def test_sums_that_begin_with_a_bias(right: Right) -> None:
    """What the sums begin with is not loaded again."""
    plan = attrs.evolve(PLANS["cooperative"], early=False, addends=True)
    right(hopper.gemm(with_residual(SHAPES[1]), plan), lambda p, x: (p + x["bias"] + x["residual"]).clip(0))
    spec = matmul(*SHAPES[1], "f16", layout="TN", arch="sm_90a")
    spec = spec.then(add(Vector(SHAPES[1][1], "f16", name="bias")), relu, add(residual(spec)))
    schedule = hopper.gemm(spec, plan)
    bias, product, read = order(schedule, reads("bias"), multiplies, reads("residual"))
    assert bias < product < read
    right(schedule, lambda p, x: (p + x["bias"]).clip(0) + x["residual"])
