"""What surrounds a timing: results are checked first, one way of timing a case, a failure loses one subject."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from fake_lab import FakeLab, Peer, Poisonable

from bench import Case, Options, measure
from bench.cublas import operands
from bench.measure import MOST_SETS
from bench.results import by_case, ratio
from bench.subjects import Function, Scheduled, as_subject
from fireiron import FireironError
from fireiron.schedules import simt

CASE = Case(24, 16, 8)


def test_right_results_are_timed_in_one_group() -> None:
    lab = FakeLab(ours=40.0, peer=50.0)
    ours, peer = measure([CASE], [Peer("ours", ours=True), Peer("peer")], lab=lab)
    assert lab.timer.asked == [("burst", ("ours", "peer"))]
    assert ratio(ours, peer) == 1.25
    assert ours.errors is not None
    assert ours.errors.right
    assert ours.tflops == pytest.approx(2 * 24 * 16 * 8 / 40.0 * 1e-6)
    assert ours.state.power_w == 650.0


@pytest.mark.parametrize("wrong", ["is off", "writes nothing", "crashes", "refuses", "loses a term"])
def test_a_failure_loses_one_subject(wrong: str) -> None:
    lab = FakeLab()
    bad, good = measure([CASE], [Peer("bad", ours=True, wrong=wrong), Peer("good")], lab=lab)
    assert bad.times is None
    assert bad.problem
    assert "\n" not in bad.problem
    assert bad.wrong == (wrong in ("is off", "writes nothing", "loses a term"))
    assert good.times is not None
    assert lab.timer.asked == [("burst", ("good",))]


def test_a_short_kernel_puts_its_whole_case_into_graphs() -> None:
    lab = FakeLab(short=10.0, long=100.0)
    short, long, refused = measure([CASE], [Peer("short"), Peer("long"), Peer("uncapturable")], lab=lab)
    assert [kind for kind, _ in lab.timer.asked] == ["burst", "graphs"]
    assert short.times is not None
    assert long.times is not None
    assert (short.times.method, long.times.method) == ("graph", "graph")
    assert long.events is not None
    assert long.events.median_us == 100.0
    # A time by events beside times by graphs would be no ratio of kernels.
    assert refused.times is None
    assert refused.events is not None
    assert set(lab.timer.sets.values()) == {MOST_SETS}  # small operands: as many sets as are allowed


def test_sustained_runs_read_the_board_in_their_middle() -> None:
    (result,) = measure([CASE], [Peer("ours")], Options(sustained_s=0.1), lab=FakeLab(ours=40.0))
    assert result.sustained_us == pytest.approx(44.0)
    assert result.state.sm_mhz == 1980


def test_the_same_subject_twice_gets_two_names() -> None:
    results = measure([CASE], [Peer("ours", ours=True), Peer("ours", ours=True)], lab=FakeLab())
    assert [r.subject for r in results] == ["ours", "ours #2"]


def test_without_a_gpu_schedules_are_compiled_and_estimated() -> None:
    small = Case(64, 64, 32)
    (result,) = measure([small], [simt.listing2], Options(arch="sm_80"))
    assert result.times is None
    assert result.subject == "simt.listing2"
    assert result.registers
    assert result.modelled_us
    peer = measure([small], ["torch"])[0]
    assert peer.problem.startswith(("nothing-to-show", "not-installed"))


def test_results_come_case_by_case() -> None:
    seen: list[str] = []
    cases = [CASE, Case(8, 8, 8)]
    found = measure(cases, [Peer("a"), Peer("b")], lab=FakeLab(), on_case=lambda r: seen.append(r[0].case.shape))
    assert seen == ["24x16x8", "8x8x8"]
    assert list(by_case(found)) == cases


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(FireironError) as raised:
        measure([CASE], [])
    assert raised.value.code == "no-subject"


def test_what_torch_compile_gives_is_compared_and_then_only_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    modes: list[str] = []

    def compiled(function: object, dynamic: bool, mode: str) -> object:
        modes.append(mode)
        return function

    cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True))
    fake = SimpleNamespace(
        compile=compiled, mm=np.matmul, relu=lambda x: np.maximum(x, 0), __version__="1",
        backends=SimpleNamespace(cuda=cuda),
    )  # fmt: skip
    monkeypatch.setattr("bench.subjects.torch_module", lambda: fake)
    monkeypatch.setattr(Poisonable, "copy_", lambda self, x: np.copyto(self.array, x), raising=False)
    lab = FakeLab()
    (result,) = measure([CASE], ["torch.compile"], lab=lab)
    assert result.errors is not None
    assert result.errors.right
    assert result.times is not None
    arrays = lab.make(CASE, 0)
    row = np.full(CASE.n, 100.0)
    made = as_subject("torch.compile").prepare(attrs.evolve(CASE, ops="bias+relu"), arrays, None)
    launch = made.launch(attrs.evolve(arrays, bias=row))
    launch()
    assert (arrays.out.array == np.maximum(arrays.a @ arrays.b + row, 0)).all()
    arrays.out.array[...] = 0
    launch()
    assert not arrays.out.array.any()  # no copy is timed
    assert set(modes) == {"max-autotune-no-cudagraphs"}
    with pytest.raises(FireironError, match="does not compute"):
        as_subject("torch.compile").prepare(attrs.evolve(CASE, dtype="i8"), arrays, None)


def test_what_can_be_a_subject() -> None:
    assert isinstance(as_subject("simt.sgemm"), Scheduled)
    assert isinstance(as_subject(simt.sgemm), Scheduled)
    assert isinstance(as_subject(lambda a, b, out: None), Function)
    for given in ("nosuch", 3):
        with pytest.raises(FireironError) as raised:
            as_subject(given)
        assert raised.value.code == "unknown-peer"


def test_functions_are_named_by_their_modules_but_a_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(spec: object) -> object:
        return spec

    def peer(a: object, b: object, out: object) -> None:
        pass

    assert as_subject(simt.sgemm).name == "simt.sgemm"
    for function in (mine, peer):
        assert as_subject(function).name == f"{__name__}.{function.__name__}"
        monkeypatch.setattr(function, "__module__", "__main__")
        assert as_subject(function).name == function.__name__


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_operands_as_a_column_major_library_sees_them(layout: str) -> None:
    case = Case(5, 7, 3, "f32", layout)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((3, 7))
    stored = {"A": a.T if layout[1] == "T" else a, "B": b.T if layout[0] == "T" else b}
    first, second, out = operands(case)

    def seen(memory: np.ndarray, x: object) -> np.ndarray:
        column_major = np.ascontiguousarray(memory).reshape(-1).reshape((x.rows, x.cols), order="F")  # type: ignore[attr-defined]
        return column_major.T if x.transposed else column_major  # type: ignore[attr-defined]

    result = seen(stored["B"], first) @ seen(stored["A"], second)
    assert result.shape == (out.rows, out.cols)
    assert np.allclose(result.reshape(-1, order="F").reshape(5, 7), a @ b)
