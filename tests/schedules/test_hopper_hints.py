"""Hints to the L2 cache: printed, compiled, ignored by the simulator, and asked for by a plan."""

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
    Cluster,
    FireironError,
    Warpgroup,
    by_tma,
    matmul,
    stmatrix,
    through_shared,
    tma,
)
from fireiron.atoms.tma import POLICIES
from fireiron.front.fingerprint import fingerprint
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.tune.records import read, shipped
from fireiron.tune.space import arguments

Golden = Callable[[str, str], None]
SIZE = (256, 128, 192)
SMALL = Plan(64, 64, 1, stages=3)


def hinted(left: Any, right: Any, out: Any, size: tuple[int, int, int] = SIZE) -> Any:
    """Schedule a product in clusters of two blocks, which share B, with a hint for each tensor."""
    store = through_shared(stmatrix(), tma(l2=out), panel=(64, 64), at=Warpgroup)
    return (
        matmul(*size, "f16", layout="TN", arch="sm_90a")
        .tile(128, 64).to(Cluster).tile(64, 64).to(Block)
        .epilog(memory=FR, store=store)
        .split(64).pipeline(3, inflight=1).specialize()
        .load(A, SH, tma(l2=left)).load(B, SH, tma(l2=right))
        .tile(64, 64).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip


def added(policy: Any) -> Any:
    """Schedule a product whose blocks add to C by bulk stores."""
    return (
        matmul(64, 64, 256, "f16", layout="TN", beta=1.0, arch="sm_90a").tile(64, 64).to(Block).persistent()
        .epilog(memory=FR, store=through_shared(stmatrix(), tma(l2=policy), panel=(64, 64), at=Warpgroup))
        .split(ways=2, multiple_of=64).parallel(Block, reduce=by_tma())
        .split(64).pipeline(2, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 64).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip


def stripped(text: str) -> str:
    """Take the hints out of a kernel's text."""
    text = re.sub(r"__device__ \S+ unsigned long long l2_\w+\(\) \{.*?\n\}\n\n", "", text, flags=re.DOTALL)
    text = re.sub(r', "l"\(policy\)|, unsigned long long policy|\.L2::cache_hint|, l2_\w+\(\)', "", text)
    # The policy is the last place: behind a store's source, a load's barrier, a multicast's mask.
    return re.sub(r"(}\], \[%[12]\](, %5(?=, ))?), %\d;", r"\1;", text.replace("_hinted(", "("))


def test_hints_print(golden: Golden) -> None:
    golden(hinted("evict_first", "evict_last", "evict_unchanged").cuda(), "schedules/hopper_hints.cu")


def test_hints_are_all_that_differs() -> None:
    plain = hinted(None, None, None).cuda()
    assert "polic" not in plain
    assert stripped(hinted("evict_first", "evict_last", "evict_normal").cuda()) == plain


def test_a_tree_names_what_is_hinted() -> None:
    tree = hinted("evict_first", "evict_last", "evict_unchanged").tree()
    for name in ("tma.load.2d.128B.evict_first", "tma.load.2d.128B.evict_last", "tma.store.2d.128B.evict_unchanged"):
        assert f"done by {name}" in tree
    assert "evict" not in hinted(None, None, None).tree()


@pytest.mark.parametrize("policy", POLICIES)
def test_loads_multicasts_and_stores_compile_with_hints(policy: str) -> None:
    kernel = hinted(policy, policy, policy).compile("sm_90a", cache=False)
    assert not kernel.resources.spills
    assert kernel.ptx.count(".L2::cache_hint") == 3
    assert f"L2::{policy}.b64" in kernel.ptx
    assert ".multicast::cluster.L2::cache_hint" in kernel.ptx
    for opcode in (r"UTMALDG\.2D ", r"UTMALDG\.2D\.MULTICAST ", r"UTMASTG\.2D "):
        assert re.search(rf"{opcode}.*desc\[UR", kernel.sass), opcode


@pytest.mark.parametrize("policy", POLICIES)
def test_bulk_additions_keep_the_stores_hint(policy: str) -> None:
    text = added(policy).cuda()
    assert "bulk_group.L2::cache_hint" in text
    assert f"tma_add_2d_hinted(&C_map, &acc_sh[0], l2_{policy}()" in text
    assert re.search(r"UTMAREDG.*desc\[UR", added(policy).compile("sm_90a").sass)


def test_the_simulator_ignores_hints() -> None:
    plain = hinted(None, None, None, (128, 64, 128)).simulate()
    found = hinted("evict_first", "evict_last", "evict_normal", (128, 64, 128)).simulate()
    expected = found.arrays["A"].astype("f8") @ found.arrays["B"].astype("f8").T
    np.testing.assert_allclose(np.asarray(found.out).astype("f8"), expected, rtol=2e-3, atol=2e-2)
    np.testing.assert_array_equal(np.asarray(found.out), np.asarray(plain.out))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("keep", ["left", "right"])
def test_a_plan_keeps_one_operand_and_lets_the_other_pass(keep: Any, swapped: bool) -> None:
    text = hopper.gemm(matmul(*SIZE, "bf16", layout="TN"), attrs.evolve(SMALL, keep=keep, swapped=swapped)).cuda()
    # Behind swap() the left operand is B's transpose.
    left, right = ("b_sh", "a_sh") if swapped else ("a_sh", "b_sh")
    kept, passing = (left, right) if keep == "left" else (right, left)
    assert re.search(rf"tma_load_2d_hinted\(&{kept}\[.*l2_evict_last\(\)", text)
    assert re.search(rf"tma_load_2d_hinted\(&{passing}\[.*l2_evict_first\(\)", text)


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ((16, 4096, 4096), "right"),  # weights are swapped to the left, and stream by
        ((4096, 16, 4096), "right"),
        ((16, 512, 512), ""),  # half a megabyte stays anyway
        ((16, 28672, 8192), ""),  # 470 MB were slower with hints
        ((2048, 4096, 4096), ""),  # both are read again and again
    ],
)
def test_plans_keep_what_stands_beside_weights_that_stream_by(sizes: tuple[int, int, int], kept: str) -> None:
    spec = matmul(*sizes, "bf16", layout="TN")
    assert hopper.plans(spec)[0].keep == kept
    assert ("l2_evict_first" in hopper.gemm(spec).cuda("sm_90a")) == bool(kept)


def test_a_plan_keeps_an_operand_that_there_is() -> None:
    wrong: Any = "B"
    with pytest.raises(FireironError) as caught:
        Plan(keep=wrong)
    assert caught.value.code == "plan-keep"
    assert caught.value.message == "Plan(keep='B'): a product has a left and a right operand"
    assert caught.value.fix == 'use keep="left" or keep="right", as they are behind swap(), or "" for no hints'
    assert caught.value.link is not None
    assert caught.value.link.underlined == "Plan(keep=wrong)"


def test_strategies_are_told_apart_by_their_hints() -> None:
    assert fingerprint(tma()) == fingerprint(tma(128))
    assert len({fingerprint(tma(l2=policy)) for policy in (None, *POLICIES)}) == 1 + len(POLICIES)
    assert fingerprint(Plan()) != fingerprint(Plan(keep="left"))


def test_records_of_plans_without_hints_are_read() -> None:
    found = [record for path in shipped() for record in read(path).records if record.preset == "hopper.gemm"]
    assert found
    for record in found:
        assert arguments(hopper.gemm, record.point)["plan"].keep == ""


def test_a_plan_says_so_of_a_value_that_no_operand_can_be() -> None:
    with pytest.raises(FireironError) as caught:
        Plan(keep=np.ones(3))  # type: ignore[arg-type]
    assert caught.value.code == "plan-keep"
