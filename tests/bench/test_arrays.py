"""Operands of every element type, and the comparison with f64: right results pass, and one wrong element does not.

The arrays are torch's, on the host here; kernels run on the simulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench import Case
from bench.suites import SUITES
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.schedules import ada, simt

CASES = (
    *(Case(128, 128, 256, d, "TN") for d in ("f16", "bf16", "tf32", "i8", "u8", "i4", "u4", "b1", "e4m3", "e5m2")),
    Case(128, 128, 256, "b1", "TN", product="and"),
    Case(64, 64, 32, "tf32", "NT"),
    Case(64, 64, 32, "f64", "TT"),
    Case(128, 128, 64, "f16", "TN", ops="bias+relu"),
    Case(64, 64, 32, "f32", "NN", ops="bias"),
)
ROUNDED = tuple(Case(128, 128, 64, "f16", "TN", ops=f"bias+{x}+residual") for x in ("relu", "gelu", "silu"))


def test_the_suite_has_every_element_type() -> None:
    names = {case.dtype for case in SUITES["dtypes"].cases}
    assert names == {"f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8", "i4", "u4", "b1", "f32", "f64"}
    assert {case.ops for case in SUITES["fused"].cases} == {"bias", "relu", "bias+relu"}
    assert str(SUITES["fused"].cases[2]) == "4096x4096x4096 f16 TN bias+relu"
    assert Case(8, 8, 8, "b1", "TN", product="and").to_json()["product"] == "and"
    assert Case(64, 64, 64, "b1", "TN").nbytes == 2 * 64 * 64 / 8 + 4 * 64 * 64


@pytest.mark.parametrize("case", [*CASES, *ROUNDED], ids=str)
def test_a_right_result_passes_and_a_wrong_element_does_not(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the bench times through torch")
    from bench import arrays

    monkeypatch.setattr(arrays, "poisoned", lambda out: torch.full_like(out, 113))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    made = arrays.make(case, "cpu", seed=1)
    assert torch.equal(made.a, arrays.make(case, "cpu", seed=1).a)
    preset = simt.sgemm if case.dtype == "f32" else ada.gemm
    kernel = preset(case.spec()).compile("sm_89")
    given = [made.stored_a, made.stored_b, *made.added(case)]
    kernel(*(_numpy(x, case) for x in given), out=_numpy(made.out, case))
    assert arrays.compare(case, made, {"": made.out})[""].right
    made.out.view(-1)[5] += 8 if made.out.dtype.is_floating_point else 1
    assert not arrays.compare(case, made, {"": made.out})[""].right


def test_ops_that_round_have_no_exact_result() -> None:
    pytest.importorskip("torch", reason="the bench times through torch")
    from bench import arrays

    assert arrays.exact(ROUNDED[1], "cpu") is None


@pytest.mark.parametrize("case", ROUNDED, ids=str)
def test_torch_runs_ops_as_kernels_of_their_own(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the bench times through torch")
    from bench import arrays
    from bench.subjects import Torch

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    made = arrays.make(case, "cpu", seed=1)
    out = made.fresh_out()
    prepared = Torch().prepare(case, made, None)
    prepared.launch(out)()
    assert prepared.detail == f"torch.addmm, then {case.steps[1]}, then residual"
    assert arrays.compare(case, made, {"": out.out})[""].right
    assert not arrays.compare(case, made, {"": out.out + torch.tensor(0.5, dtype=torch.float16)})[""].right


@pytest.mark.parametrize("case", CASES, ids=str)
def test_whole_numbers_give_the_same_bits(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the bench times through torch")
    from bench import arrays

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = arrays.exact(case, "cpu", seed=1)
    if find_dtype(case.dtype).kind == "int":
        assert found is None
        return
    assert found is not None
    made, wanted = found
    kernel = (simt.sgemm if case.dtype == "f32" else ada.gemm)(case.spec()).compile("sm_89")
    given = [made.stored_a, made.stored_b, *made.added(case)]
    kernel(*(_numpy(x, case) for x in given), out=_numpy(made.out, case))
    assert arrays.differing(wanted, {"": made.out}) == {"": 0}
    made.out.view(-1)[5] += 1
    assert arrays.differing(wanted, {"": made.out}) == {"": 1}


def _numpy(tensor: Any, case: Case) -> Any:
    """View a tensor's memory as NumPy's array, of types that torch itself does not hand over too."""
    kind = find_dtype(case.dtype)
    if str(tensor.dtype) != f"torch.{kind.numpy_name}" or not kind.numpy.name.startswith(("bfloat", "float8")):
        return tensor.numpy()
    import torch

    bits = tensor.view(torch.uint8 if kind.bits == 8 else torch.int16).numpy()
    return bits.view(np.dtype(kind.numpy))
