"""Products of matrices whose lines start between multiples of 16 bytes, in several launches."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fireiron import Matrix, RowMajor, matmul, relu
from fireiron.base.errors import CompileError
from fireiron.front import realigned
from fireiron.front.host import HostKernel
from fireiron.front.realigned import LINE, Copies, copies_from
from fireiron.front.several import compiled_for
from fireiron.front.spec import MatMul

SIZES = (150, 133, 93)
LARGE = (2633, 3253, 3039)


def planned(layout: str, sizes: tuple[int, int, int] = SIZES, dtype: str = "f16") -> realigned.Plan:
    plan = realigned.realigned(matmul(*sizes, dtype, layout=layout), "sm_90a")
    assert plan is not None
    return plan


def simulated(plan: realigned.Plan, whole: Any = None) -> Copies:
    return copies_from(plan, lambda each: HostKernel(each.lowered("sm_90a")), whole)  # type: ignore[arg-type]


def drawn(layout: str, sizes: tuple[int, int, int] = SIZES) -> tuple[Any, Any, Any]:
    m, n, k = sizes
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    first, second = (a.T if layout[1] == "T" else a), (b.T if layout[0] == "T" else b)
    return *(np.ascontiguousarray(x).astype(np.float16) for x in (first, second)), (a @ b).astype(np.float16)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let copies cost nothing: small products, which are quick to simulate, are planned with them."""
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(realigned, "LAUNCH_US", -1000.0)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_copies_and_the_product_give_the_product(eager: None, layout: str) -> None:
    first, second, wanted = drawn(layout)
    several = simulated(planned(layout))
    assert None not in several.copies
    assert several.back is not None
    np.testing.assert_array_equal(several(first, second), wanted)
    out = np.zeros_like(wanted)
    assert several(first, second, out=out) is out
    np.testing.assert_array_equal(out, wanted)


def test_what_lies_at_multiples_of_16_bytes_is_not_copied(eager: None) -> None:
    sizes = (96, 136, 93)  # lines of A, along K, start between them; those of B and C do not
    plan = planned("NN", sizes)
    assert [copy is None for copy in plan.copies] == [False, True]
    assert plan.back is None
    first, second, wanted = drawn("NN", sizes)
    np.testing.assert_array_equal(simulated(plan)(first, second), wanted)


def test_copies_have_lines_at_multiples_of_128_bytes(eager: None) -> None:
    task = planned("NN").product.residual.operands
    lines = [step * operand.tensor.dtype.nbytes for operand in task for step in operand.tensor.strides if step != 1]
    assert lines
    assert all(nbytes % LINE == 0 for nbytes in lines)


def test_copies_are_for_products_that_take_longer_than_them() -> None:
    large = planned("NN", LARGE)
    assert large.modelled_us > 0
    assert realigned.realigned(matmul(*SIZES, "f16"), "sm_90a") is None  # a few us in one launch
    assert realigned.realigned(matmul(2632, 3256, 3040, "f16"), "sm_90a") is None  # its lines are whole


def test_where_copies_are_sure_to_pay_one_launch_is_not_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The products of warps alone would take longer; where they are modelled to take no time, both are scheduled."""
    from fireiron.front import best

    chosen: list[Any] = []
    choose = best.choose
    monkeypatch.setattr(best, "choose", lambda spec, arch: chosen.append(spec) or choose(spec, arch))
    planned("NN", LARGE)
    assert len(chosen) == 1
    monkeypatch.setattr(realigned, "_least_us", lambda spec, arch: 0.0)
    planned("NN", LARGE)
    assert len(chosen) == 3


def test_launches_are_compiled_at_the_same_time(eager: None) -> None:
    """The kernels wait for each other: one after another, none would be made."""
    plan = planned("NN")
    meeting = threading.Barrier(4, timeout=60)

    def made(schedule: Any) -> Any:
        meeting.wait()
        return schedule

    copies = copies_from(plan, made, None)  # type: ignore[arg-type]
    assert (copies.product, *copies.copies, copies.back) == (plan.product, *plan.copies, plan.back)

    def broken(schedule: Any) -> Any:
        raise CompileError("nvrtc", f"refused {schedule.name}")

    with pytest.raises(CompileError, match="refused"):
        copies_from(plan, broken, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spec",
    [
        matmul(*SIZES, "f32"),  # no newer preset takes it with whole lines
        matmul(*SIZES, "f16", batch=2),
        matmul(*SIZES, "f16").then(relu),
        matmul(*SIZES, "f16", alpha=2.0),
    ],
    ids=["f32", "batch", "ops", "alpha"],
)
def test_other_products_are_computed_in_one_launch(eager: None, spec: Any) -> None:
    assert realigned.realigned(spec, "sm_90a") is None


def test_older_architectures_take_such_lines_in_one_launch(eager: None) -> None:
    assert realigned.realigned(matmul(*SIZES, "f16"), "sm_80") is None


def test_a_stream_of_other_libraries_than_torch_gets_one_launch(eager: None) -> None:
    """Their memory may be reused before a stream that they do not know has read it."""
    calls: list[Any] = []

    def whole() -> Any:
        return lambda a, b, out, stream: calls.append((out, stream))

    first, second, _ = drawn("NN")
    simulated(planned("NN"), whole)(first, second, stream=7)
    assert calls == [(None, 7)]


def test_views_with_whole_lines_need_no_copy(eager: None) -> None:
    a, b, c = (Matrix(rows, cols, "f16", RowMajor, ld=256) for rows, cols in ((150, 93), (93, 133), (150, 133)))
    assert realigned.realigned(MatMul(a, b, c), "sm_90a") is None


def test_gemm_takes_the_launches_where_there_is_a_gpu(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from fireiron.front import best, host

    spec = matmul(*SIZES, "f16", arch="sm_90a")
    assert compiled_for(spec) is None  # there is none here
    monkeypatch.setattr(host, "without_gpu", lambda: False)
    several = compiled_for(spec)
    assert several is not None
    assert several.interface.outputs
    assert several.planned(()) is None
    first, second, wanted = drawn("NN")
    np.testing.assert_array_equal(several(first, second), wanted)
    best.forget()
