"""The bench on a GPU: the same kernel against itself reads 1, peers are right, and a wrong one is found."""

from __future__ import annotations

import json

import pytest

from bench import Case, Options, measure
from bench.main import main
from bench.results import Result, ratio

torch = pytest.importorskip("torch", reason="the bench times through torch")


def named(results: list[Result]) -> dict[str, Result]:
    return {r.subject: r for r in results}


def test_a_kernel_against_itself_reads_one() -> None:
    case = Case(4096, 4096, 4096, "f16", "TN")
    first, second = measure([case], ["ampere.gemm", "ampere.gemm"], Options(rounds=61))
    found = ratio(first, second)
    assert found is not None
    assert abs(found - 1) <= 0.01


@pytest.mark.parametrize(
    "case",
    [
        Case(512, 384, 256, "f16", "TN"),
        Case(512, 384, 256, "bf16", "NT"),
        Case(512, 384, 256, "f32", "NN"),
        Case(512, 384, 256, "f64", "TT"),
        Case(512, 384, 256, "i8", "TN"),
        Case(256, 128, 64, "f16", "NN", 3),
        Case(512, 384, 256, "tf32", "TN"),
        Case(512, 384, 256, "e4m3", "TN"),
        *(Case(512, 384, 256, "f16", "TN", ops=ops) for ops in ("bias", "relu", "bias+relu", "bias+gelu+residual")),
    ],
    ids=str,
)
def test_peers_compute_what_they_should(case: Case) -> None:
    for result in measure([case], ["torch", "cublas", "cublaslt"], Options(rounds=5)):
        refused = result.problem.startswith(("unsupported-case", "not-installed"))
        assert refused or (result.times is not None and not result.wrong), f"{result.subject}: {result.problem}"


@pytest.mark.parametrize(
    "case",
    [
        *(Case(512, 384, 256, name, "TN") for name in ("tf32", "e4m3", "i8", "u8", "i4", "u4", "b1")),
        Case(512, 384, 256, "b1", "TN", product="and"),
        *(Case(512, 384, 256, "f16", "TN", ops=ops) for ops in ("bias", "relu", "bias+relu", "bias+silu+residual")),
    ],
    ids=str,
)
def test_every_element_type_is_checked_and_timed(case: Case) -> None:
    (result,) = measure([case], ["ampere.gemm" if case.dtype != "e4m3" else "ada.gemm"], Options(rounds=5))
    assert result.times is not None, result.problem
    assert not result.wrong


def test_triton_computes_what_it_should() -> None:
    (result,) = measure([Case(500, 384, 250, "f16", "TN")], ["triton"], Options(rounds=5))
    refused = result.problem.startswith("not-installed")
    assert refused or (result.times is not None and not result.wrong), result.problem


def test_cublaslt_and_graphs_time_short_kernels() -> None:
    found = named(measure([Case(512, 512, 512, "f16", "TN")], ["torch", "cublaslt", "ampere.gemm"], Options(rounds=11)))
    assert all(r.times is not None for r in found.values()), [r.problem for r in found.values()]
    assert {r.times.method for r in found.values() if r.times} == {"CUDA graph, buffers rotated"}


def test_a_wrong_peer_is_found_and_not_timed() -> None:
    def wrong(a, b, out):
        torch.mm(a, b, out=out)
        out[5, 7] += 1

    def right(a, b, out):
        torch.mm(a, b, out=out)

    found = measure([Case(1024, 512, 256, "f16", "TN")], [wrong, right], Options(rounds=5))
    assert found[0].times is None
    assert found[0].problem.startswith("wrong")
    assert found[1].times is not None


def test_sustained_runs_report_clock_and_power() -> None:
    (result,) = measure([Case(4096, 4096, 4096, "f16", "TN")], ["torch"], Options(rounds=5, sustained_s=0.2))
    assert result.sustained_us is not None
    assert result.times is not None
    assert 0.5 < result.sustained_us / result.times.median_us < 2
    assert result.state.sm_mhz > 0
    assert result.state.power_w > 0


def test_a_program_is_right_and_timed_against_its_peers(tmp_path, capsys):
    path = tmp_path / "found.jsonl"
    assert main(["programs", "relu_gemm", "lstm_pattern", "-o", str(path)]) == 0
    for line in map(json.loads, path.read_text().splitlines()):
        assert line["error"] < 1e-3
        assert set(line["ratios"]) == set(line["times"]) - {"fireiron"}
    assert "ratio" in capsys.readouterr().out
