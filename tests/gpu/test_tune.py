"""The tuner on a GPU: it verifies, measures, records, and survives candidates that hang or write nonsense."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import attrs
import pytest

from fireiron import best, matmul, relu, tensor
from fireiron.front import best as choosing
from fireiron.front.best import choose
from fireiron.schedules import ada, ampere, conv, simt
from fireiron.tune.candidates import Built, Candidate, Failure, compiled, preset
from fireiron.tune.machine import machine
from fireiron.tune.measurer import GpuMeasurer
from fireiron.tune.records import read
from fireiron.tune.search import tune
from fireiron.tune.space import Point, point


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    choosing.forget()
    yield
    choosing.forget()


def built(spec: Any, function: Any, **keywords: Any) -> Built:
    return compiled(Candidate(preset(function), point(keywords)), spec, machine().arch)


@pytest.mark.parametrize(
    ("dtype", "layout", "function"),
    [
        ("f16", "TN", ampere.gemm),
        ("bf16", "NT", ampere.gemm),
        ("i8", "TN", ampere.gemm),
        ("f64", "NN", ampere.gemm),
        ("f32", "TT", simt.sgemm),
        ("tf32", "TN", ampere.gemm),
        ("e4m3", "TN", ada.gemm),
        ("i4", "TN", ampere.gemm),
        ("b1", "TN", ampere.gemm),
    ],
)
def test_right_kernels_pass_and_are_timed_alike(dtype: str, layout: str, function: Any) -> None:
    spec = matmul(512, 384, 1024, dtype, layout=layout)
    measurer = GpuMeasurer(spec, 0, machine())
    try:
        first = measurer.trial(0, built(spec, function), 5)
        again = measurer.trial(1, built(spec, function), 5)
        assert not isinstance(first, Failure), first
        assert not isinstance(again, Failure), again
        found, lost = measurer.sample([0, 1], 41)
        assert lost == {}
        one, two = (statistics.median(found[i]) for i in (0, 1))
        assert abs(one - two) < max(0.03 * two, 0.6)  # events resolve half a microsecond
    finally:
        measurer.close()


def test_a_wrong_kernel_is_found_first_and_later() -> None:
    spec = matmul(256, 256, 256, "f16", layout="TN")
    short = matmul(256, 256, 256, "f16", layout="NN")  # reads B as if it were stored otherwise
    for order in (False, True):
        measurer = GpuMeasurer(spec, 0, machine())
        try:
            if order:
                assert not isinstance(measurer.trial(0, built(spec, ampere.gemm), 3), Failure)
            found = measurer.trial(1, built(short, ampere.gemm), 3)
            assert isinstance(found, Failure)
            assert found.code == "wrong-result"
            assert not isinstance(measurer.trial(2, built(spec, ampere.gemm), 3), Failure)
        finally:
            measurer.close()


def test_a_search_is_quick_and_its_record_is_chosen(tmp_path: Path) -> None:
    spec = matmul(1088, 960, 1024, "f16", layout="TN")  # of which no record is shipped
    tuned = tune(spec, ampere.gemm, budget_s=30)
    assert tuned.best is not None
    assert tuned.elapsed_s < 45
    assert read(tmp_path / "records.jsonl").problems == ()
    found = choose(spec)
    assert found.why == "recorded for this problem"
    assert found.candidate.point == tuned.best.point
    assert tuned.best.us is not None
    assert 0.7 < found.schedule.time().median_us / tuned.best.us < 1.4


def test_a_convolution_is_searched_and_a_wrong_one_is_found() -> None:
    def spec_of(**options: Any) -> Any:
        x, f = tensor(8, 14, 14, 64, dtype="f16"), tensor(64, 3, 3, 64, dtype="f16", name="f")
        return conv.conv2d(x, f, tensor(64, name="bias"), pad=1, **options)

    tuned = tune(spec_of(op=relu), conv.mma, budget_s=60)  # beside other processes
    assert tuned.best is not None
    assert tuned.candidate is not None
    assert str(best(spec_of(op=relu))) == str(tuned.candidate.preset.build(spec_of(op=relu), tuned.candidate.point))
    measurer = GpuMeasurer(spec_of(op=relu), 0, machine())
    try:
        assert not isinstance(measurer.trial(0, built(spec_of(op=relu), conv.mma), 3), Failure)
        # Without its relu it writes other elements, on random numbers too.
        wrong = attrs.evolve(built(spec_of(), conv.mma), meaning=built(spec_of(op=relu), conv.mma).meaning)
        found = measurer.trial(1, wrong, 3)
        assert isinstance(found, Failure)
        assert found.code == "wrong-result"
    finally:
        measurer.close()


def test_gemm_takes_tensors_as_stored() -> None:
    torch = pytest.importorskip("torch", reason="the arrays of this test are torch's")
    from fireiron import gemm

    a, b = (torch.randn(s, device="cuda").half() for s in ((192, 128), (256, 128)))
    out = torch.empty((192, 256), device="cuda", dtype=torch.float16)
    assert gemm(a, b, out=out, layout="TN") is out
    assert torch.allclose(out.float(), a.float() @ b.float().T, atol=0.1)
    assert torch.equal(gemm(a, b, layout="TN"), out)


def test_the_default_point_is_legal() -> None:
    assert built(matmul(256, 256, 256, "f16"), ampere.gemm).failure is None
    assert Point() == point({})
