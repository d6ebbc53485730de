"""Calls with NumPy arrays where there is no GPU: one notice, a limit, progress, and nothing that is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, gemm, matmul, relu
from fireiron.front import host
from fireiron.jit import compile as compiling
from fireiron.schedules import simt


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise AssertionError("compiled")

    monkeypatch.setattr(host, "without_gpu", lambda: True)
    monkeypatch.setattr(compiling, "compile_source", none)
    monkeypatch.setattr(host, "_said", False)
    monkeypatch.delenv(host.LIMIT, raising=False)


def test_a_simulation_says_once_that_it_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = np.ones((33, 20), np.float32), np.ones((20, 18), np.float32)
    assert (gemm(a, b, epilog=relu) == 20).all()
    said = capsys.readouterr().err
    assert "are simulated" in said
    assert "second" in said
    out = np.zeros((33, 18), np.float32)
    assert gemm(a, b, out=out) is out
    assert (out == 20).all()
    assert (simt.listing2(matmul(33, 18, 20))(a, b) == 20).all()
    assert capsys.readouterr().err == ""


def test_a_long_simulation_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    a = np.ones((4096, 4096), np.float32)
    for call in (lambda: gemm(a, a), lambda: simt.sgemm(matmul(4096, 4096, 4096))(a, a)):
        with pytest.raises(FireironError) as caught:
            call()
        assert caught.value.code == "long-simulation"
        assert host.LIMIT in (caught.value.fix or "")
        assert "test_host.py" in str(caught.value)
    small = np.ones((64, 64), np.float32)
    monkeypatch.setenv(host.LIMIT, "0.0001")
    with pytest.raises(FireironError):
        gemm(small, small)
    monkeypatch.setenv(host.LIMIT, "soon")
    with pytest.raises(FireironError) as caught:
        gemm(small, small)
    assert caught.value.code == "bad-limit"
    assert capsys.readouterr().err == ""


def test_progress_counts_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    a = np.ones((64, 16), np.float32)
    kernel = simt.listing2(matmul(64, 64, 16), 32, 32).lowered()
    arrays = {"A": a, "B": a.T.copy(), "C": np.zeros((64, 64), np.float32)}
    from fireiron.simulate import simulate

    simulate(kernel, arrays, each=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    monkeypatch.setattr(host, "PATIENCE_S", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with host.watched(kernel, {}) as each:
        assert each is not None
        each(1, 4)


def test_a_simulation_compares_its_result_with_numpy() -> None:
    schedule = simt.listing2(matmul(48, 40, 16), 32, 32)
    found = schedule.simulate()
    assert found.comparison is not None
    assert (found.comparison.passed, found.comparison.total) == (True, 48 * 40)
    assert "elements within bounds" in repr(found)
    a, b, c = (np.ones(shape, np.float32) for shape in ((48, 16), (16, 40), (48, 40)))
    right = schedule.simulate(a, b, out=c)
    assert right.comparison is not None
    assert right.comparison.word == "right"
    part = schedule.simulate(a, b, blocks=1)
    assert part.comparison is not None
    assert (part.comparison.passed, part.comparison.compared) == (True, 32 * 32)
    wrong = schedule.simulate(a, b)
    wrong.out[3, 4] += 1
    assert wrong.comparison is not None
    assert (wrong.comparison.wrong, wrong.comparison.worst) == (1, (3, 4))
    assert "wrong" in str(wrong)
