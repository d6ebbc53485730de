"""A last chunk of K that is partial: steps of products beyond K multiply zeros, and are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fireiron import A, matmul, relu
from fireiron.algebra.expr import as_int
from fireiron.kernel.ir.statements import Call, For, If, Region, Roles, Statement
from fireiron.kernel.passes import last_chunk
from fireiron.kernel.promises.promises import broken
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan

Golden = Callable[[str, str], None]

PLANS = {
    "one": Plan(64, 64, 1),
    "two": Plan(128, 64, 2),
    "turns": Plan(128, 64, 2, pingpong=True),
    "swapped": Plan(128, 64, 2, swapped=True),
    "cluster": Plan(128, 64, 2, cluster=(2, 1)),
    "panels": Plan(64, 32, 1, panels=2),
}


def scheduled(plan: Plan, k: int, layout: str = "TN", dtype: str = "f16") -> Any:
    return hopper.gemm(matmul(136, 144, k, dtype, layout=layout, arch="sm_90a"), plan)


def products(body: tuple[Statement, ...], times: int = 1) -> Iterator[int]:
    """List the numbers of times that products run, for a tile; those of several rows of a tile count alone."""
    for s in body:
        match s:
            case Roles(roles):
                yield from (count for role in roles for count in products(role.body, times))
            case For(kind="chunks"):
                yield from products(s.body, times * (as_int(s.extent) or 0))
            case For() | If() | Region():
                yield from products(s.body, times)
            case Call(atom=atom) if atom.kind == "MatMul":
                yield times
            case _:
                pass


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("k", [8, 16, 40, 64, 72, 112, 120, 128, 136, 200, 256, 264])
def test_products_run_for_the_steps_of_k_that_have_data(name: str, k: int) -> None:
    kernel = scheduled(PLANS[name], k).lowered("sm_90a")
    assert sum(products(kernel.body)) == -(-k // 16)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(("k", "layout"), [(8, "TN"), (72, "NN"), (168, "TT"), (200, "NT")])
def test_results_are_right(name: str, k: int, layout: str) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-3, 4, (136, k)), rng.integers(-3, 4, (k, 144))
    stored = [(x.T if letter == "T" else x).astype(np.float16) for x, letter in zip((a, b), layout[::-1], strict=True)]
    made = scheduled(PLANS[name], k, layout).simulate(*map(np.ascontiguousarray, stored)).out
    np.testing.assert_array_equal(made, (a @ b).astype(np.float16))


@pytest.mark.parametrize("name", PLANS)
def test_the_pass_keeps_its_promise(name: str) -> None:
    schedule = scheduled(PLANS[name], 168)
    assert broken(schedule._passed(None), schedule.lowered("sm_90a")) == {}


def test_a_step_too_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = last_chunk._steps
    monkeypatch.setattr(last_chunk, "_steps", lambda loop, rest, cuts: steps(loop, max(1, rest - 16), cuts))
    schedule = scheduled(Plan(64, 80, 1), 104)
    assert list(broken(schedule._passed(None), schedule.lowered("sm_90a"))) == ["last chunk"]
    assert "within bounds" not in str(schedule.simulate().comparison)


@pytest.mark.parametrize(
    "schedule",
    [
        scheduled(Plan(64, 64, 1), 128),
        scheduled(Plan(64, 64, 1), 120),
        scheduled(Plan(64, 64, 1, ways=2), 136),
        scheduled(Plan(64, 64, 1, stream=True), 136),
        hopper.gemm(matmul(136, 144, 136, "f16", layout="TN", arch="sm_90a").prolog(A, relu), Plan(64, 64, 1)),
    ],
    ids=["whole", "all steps", "ways", "stream", "registers"],
)
def test_other_loops_keep_their_trips(schedule: Any) -> None:
    """Blocks that share K have last chunks that differ; a prolog makes values of zeros."""
    assert "the last chunk" not in schedule.cuda("sm_90a")


def test_the_text(golden: Golden) -> None:
    golden(scheduled(Plan(128, 64, 2), 136).cuda("sm_90a"), "schedules/hopper_last_chunk.cu")
