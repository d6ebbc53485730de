"""The choice: recorded, near, or modelled; told why; and quick once known."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from helpers import Plan, ranked, record

import fireiron
from fireiron import FireironError, best, gemm, matmul
from fireiron.front import best as choosing
from fireiron.front.best import choose
from fireiron.tune.lookup import Index
from fireiron.tune.machine import Machine
from fireiron.tune.problem import Problem, problem
from fireiron.tune.records import append

H200 = "NVIDIA H200"
LEGAL: dict[str, Any] = {"m": 64, "n": 64, "k": 8, "warp": (32, 64), "thread": (8, 8), "stages": 2}


@pytest.fixture
def on_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_machine", lambda: Machine(H200, "sm_90a"))


def known(tmp_path: Path, *records: Any) -> None:
    append(tmp_path / "records.jsonl", records)


def test_a_record_of_the_problem_wins(on_h200: None, tmp_path: Path) -> None:
    slower = record(20.0, device=H200, **{**LEGAL, "k": 16})
    known(tmp_path, slower, record(10.0, device=H200, **LEGAL), record(None, device=H200, m=1))
    found = choose(matmul(512, 512, 512))
    assert found.why == "recorded for this problem"
    assert found.candidate.point.keywords == LEGAL
    assert found.record is not None
    assert found.record.us == 10.0
    assert found.schedule.residual.closed


def test_the_nearest_problem_of_the_family_serves(on_h200: None, tmp_path: Path) -> None:
    near, far = Problem(1024, 512, 512), Problem(512, 512, 16384)
    half = Problem(512, 512, 512, "f16", "f16", "f32", "f16")
    legal = {"m": 64, "n": 64, "k": 8, "warp": (32, 64), "stages": 3}
    newest = {"preset": "ampere.sgemm", "device": H200}
    known(tmp_path, record(problem=near, **newest, **legal), record(problem=far, **newest, m=1))
    known(tmp_path, record(problem=half, device=H200, m=2))
    found = choose(matmul(512, 512, 512))
    assert found.why == "recorded for the nearest problem, 1024x512x512 f32 NN"
    free = choose(matmul(fireiron.symbol("M"), 512, 512))
    assert free.why.startswith("recorded for the nearest")


def test_a_near_record_of_an_older_preset_leaves_a_product_to_the_newer_one(on_h200: None, tmp_path: Path) -> None:
    """Lines that start anywhere go by ada.gemm: its record says nothing of products that hopper.gemm takes."""
    odd = Problem(2047, 2049, 2040, "f16", "f16", "f32", "f16", layout="TN")
    point = {"m": 256, "n": 64, "split_k": 1, "stages": 3, "warp": (64, 64), "ways": 1}
    known(tmp_path, record(problem=odd, device=H200, preset="ada.gemm", **point))
    even = choose(matmul(2048, 1984, 2112, "f16", layout="TN"))
    assert even.candidate.preset.name == "hopper.gemm"
    assert even.why.startswith("no record: the preset's own first choice")
    other = choose(matmul(2047, 2051, 2036, "f16", layout="TN"))
    assert (other.candidate.preset.name, other.candidate.point.keywords) == ("ada.gemm", point)
    assert other.why.startswith("recorded for the nearest problem")


def test_other_devices_and_versions_are_told(on_h200: None, tmp_path: Path) -> None:
    import attrs

    old = attrs.evolve(record(device="NVIDIA H100", **LEGAL), machine={"fireiron": "0.0.1"})
    known(tmp_path, old)
    why = choose(matmul(512, 512, 512)).why
    assert "on another device, NVIDIA H100" in why
    assert "by fireiron 0.0.1" in why
    other_arch = Index([attrs.evolve(old, arch="sm_80")])
    assert other_arch.find(Problem(512, 512, 512), H200, "sm_90a") == []


def test_this_device_comes_before_the_same_problem_elsewhere() -> None:
    here = record(problem=Problem(1024, 512, 512), device=H200)
    there = record(problem=Problem(512, 512, 512), device="NVIDIA H100")
    found = Index([here, there]).find(Problem(512, 512, 512), H200, "sm_90a")
    assert [f.record.device for f in found] == ["NVIDIA H100", H200]  # the very problem, on the same architecture
    near = Index([here, record(problem=Problem(512, 512, 1024), device="NVIDIA H100")])
    assert near.find(Problem(512, 512, 512), H200, "sm_90a")[0].record.device == H200


@pytest.mark.parametrize("unusable", [{"m": 7}, {"preset": "gone.preset"}], ids=str)
def test_a_record_that_is_not_legal_here_is_passed_over(
    unusable: dict[str, Any], on_h200: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    known(tmp_path, record(device=H200, **unusable))  # one a problem is looked at, the quickest
    found = choose(matmul(512, 512, 512))
    assert found.record is None
    assert found.why.startswith("no record: the preset's own first choice")
    assert found.modelled_us


def test_a_corrupt_line_is_a_warning(on_h200: None, tmp_path: Path) -> None:
    known(tmp_path, record(device=H200, **LEGAL))
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write("{\n")
    with pytest.warns(UserWarning, match=r"records.jsonl:2 is no record"):
        assert choose(matmul(512, 512, 512)).record is not None


def test_the_lookup_is_quick(on_h200: None, tmp_path: Path, slowness: Callable[[float], float]) -> None:
    known(tmp_path, record(device=H200, **LEGAL))
    spec = matmul(512, 512, 512)
    first = best(spec)
    fastest = 1.0  # second
    for _ in range(20):  # a busy machine is slow for a while
        times: list[float] = []
        for _ in range(50):
            fresh = matmul(512, 512, 512)
            begin = time.perf_counter()
            found = best(fresh)
            times.append(time.perf_counter() - begin)
            assert found is first
        fastest = min(fastest, min(times) / slowness(5.0))
    assert fastest < 20e-6, "as if the machine were quiet"


def test_problems_without_a_preset_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "presets", lambda: ())
    with pytest.raises(FireironError, match="no preset takes") as raised:
        best(matmul(64, 64, 64))
    assert raised.value.code == "nothing-legal"
    with pytest.raises(FireironError) as raised:
        best(fireiron.Init(fireiron.Matrix(64, 32)))  # type: ignore[arg-type]
    assert raised.value.code == "argument-kind"
    with pytest.raises(FireironError) as raised:
        problem(fireiron.Move(fireiron.Matrix(64, 32), fireiron.Matrix(64, 32)))
    assert raised.value.code == "not-a-product"


@pytest.mark.parametrize("layout", ["NN", "TN", "NT", "TT"])
def test_gemm_multiplies_arrays_as_stored(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((24, 16), np.float32), rng.standard_normal((16, 40), np.float32)
    stored = np.ascontiguousarray(a.T if layout[1] == "T" else a), np.ascontiguousarray(b.T if layout[0] == "T" else b)
    got = gemm(*stored, layout=layout)
    assert np.allclose(got, a @ b, atol=1e-4)
    out = np.empty((24, 40), np.float32)
    assert gemm(*stored, layout=layout, out=out) is out
    assert np.allclose(out, got)


@pytest.mark.parametrize(("name", "k"), [("tf32", 32), ("i4", 64), ("b1", 256)])
def test_gemm_takes_element_types_that_arrays_do_not_name(name: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from fireiron.algebra.dtypes import dtype as find_dtype
    from fireiron.algebra.elements import pack, read

    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    rng, kind = np.random.default_rng(0), find_dtype(name)
    low, high = kind.limits if kind.packed else (-8, 7)
    values = [rng.integers(low, high + 1, (rows, k)) for rows in (24, 40)]
    a, b = (pack(x, kind) if kind.packed else x.astype(np.float32) for x in values)
    got = gemm(a, b, layout="TN", dtype=name)
    x, y = (read(array, kind).astype(np.int64) for array in (a, b))
    wanted = (x[:, None] ^ y[None]).sum(-1) if name == "b1" else x @ y.T
    assert np.array_equal(got, wanted)


def test_gemm_says_what_does_not_fit() -> None:
    with pytest.raises(FireironError) as raised:
        gemm(np.ones(3, np.float32), np.ones((3, 4), np.float32))
    assert raised.value.code == "wrong-shape"
    with pytest.raises(FireironError) as raised:
        gemm(np.ones((3, 4), np.float32), np.ones((4, 4), np.float32), dtype="f7")
    assert raised.value.code == "unknown-dtype"
    assert raised.value.link is not None


def test_problems_are_plain_data() -> None:
    spec = matmul(512, 256, 64, "bf16", out="f32", layout="TN", batch=3, alpha="alpha", beta=2.0)
    found = problem(spec, {"ops": ("relu",)})
    assert Problem.from_json(found.to_json()) == found
    assert str(found) == "512x256x64 by 3 bf16:f32:f32 TN alpha=alpha,beta=2 ops=('relu',)"
    assert found.family != problem(matmul(512, 256, 64, "bf16", out="f32", layout="TN")).family
    assert problem(matmul(512, 256, 64)).to_json() == {"m": 512, "n": 256, "k": 64}


def test_the_newest_architecture_has_the_first_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    names = {
        target: choose(matmul(512, 512, 512, "f16", layout="TN"), target).candidate.preset.name
        for target in ("sm_75", "sm_80", "sm_89", "sm_90a")
    }
    assert names == {"sm_75": "turing.gemm", "sm_80": "ampere.gemm", "sm_89": "ada.gemm", "sm_90a": "hopper.gemm"}
    assert choose(matmul(512, 512, 512), "sm_90a").candidate.preset.name == "ampere.sgemm"
    assert choose(matmul(512, 512, 512), "sm_75").candidate.preset.name == "simt.sgemm"
    assert [p.name for p in choosing.suited(matmul(512, 512, 512, "e4m3", layout="TN"), "sm_89")] == ["ada.gemm"]
    assert [p.name for p in choosing.suited(matmul(512, 512, 512), "sm_75")] == ["simt.sgemm"]


def test_a_preset_that_ranks_its_points_is_taken_at_its_word(
    on_h200: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fireiron.tune.candidates import preset

    named = preset(ranked)
    monkeypatch.setattr(choosing, "presets", lambda: (named,))
    near = record(problem=Problem(512, 512, 1024), device=H200, preset=named.name, plan=Plan(32, 32))
    known(tmp_path, near)
    found = choose(matmul(512, 512, 512))  # its ranking knows more of this problem than the record of another one
    assert found.point == f"{named.name}(spec, plan=Plan(m=64, n=128))"
    assert found.why == "no record: the preset's own first choice, not measured"
    assert choose(matmul(512, 512, 1024)).why == "recorded for this problem"
    assert choose(matmul(512, 512, 1024)).schedule.residual.closed
    with pytest.raises(FireironError, match="lists no plan") as raised:
        choose(matmul(64, 64, 64, batch=2))
    assert raised.value.code == "nothing-legal"


def test_a_choice_of_another_process_is_kept() -> None:
    import attrs

    spec = matmul(64, 64, 64)
    made = attrs.evolve(choose(spec, "sm_80"), why="told")
    choosing.forget()
    choosing.remember(spec, "sm_80", made)
    assert choose(matmul(64, 64, 64), "sm_80").why == "told"


def test_a_choice_of_the_model_is_read_from_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    spec = matmul(256, 256, 128, "f16", layout="TN")
    first = choose(spec, "sm_90a")
    choosing.forget()  # as a new process would
    with monkeypatch.context() as patched:
        patched.setattr(choosing, "_modelled", lambda asked: pytest.fail("the model was asked again"))
        again = choose(spec, "sm_90a")
        assert (again.schedule, again.why) == (first.schedule, first.why)
    (file,) = tmp_path.glob("*.choice")
    for damaged in ("[]", "{", '{"preset": "none"}', '{"preset": "hopper.gemm", "keywords": {"plan": 3}}'):
        file.write_text(damaged)
        choosing.forget()
        assert choose(spec, "sm_90a").schedule == first.schedule


def test_presets_export_best() -> None:
    from fireiron import schedules

    assert schedules.best is best
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choosing.presets()


def test_a_call_computes_where_the_compiler_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    import fireiron.front.best as module
    from fireiron.base.errors import CompileError
    from fireiron.schedules import simt

    asked: list[bool] = []

    class Spilling:
        code = ""

        def compile(self, *, allow_spills: bool = False) -> object:
            asked.append(allow_spills)
            if not allow_spills:
                raise CompileError(self.code, "a thread spills 8 B")
            return simt.sgemm(matmul(64, 64, 16)).compile("sm_80")

    made = Spilling()
    monkeypatch.setattr(module, "best", lambda spec: made)
    monkeypatch.setattr("fireiron.front.host.without_gpu", lambda: False)
    for made.code in ("spills", "stack", "wgmma-serialised"):
        with pytest.warns(UserWarning, match=rf"slower than it could be: CompileError\[{made.code}\]"):
            assert module.compiled(matmul(64, 64, 16)).resources.spill_stores == 0
    assert asked == [False, True] * 3
    made.code = "nvrtc"  # nothing that computes
    with pytest.raises(CompileError):
        module.compiled(matmul(64, 64, 16))


def digest_of(schedule: Any) -> str:
    from fireiron.front.digest import digest

    return digest(schedule.program, schedule.links, schedule.name)


def test_what_the_compiler_does_not_build_well_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fireiron.base.errors import CompileError
    from fireiron.jit import build as building

    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    choosing.forget()
    spec = matmul(200, 136, 72, "f16", layout="TN")
    first = best(spec, "sm_90a")
    tried: list[str] = []

    def spilling(digest: str, *rest: Any, **options: Any) -> Any:
        tried.append(digest)
        if len(set(tried)) <= 2:
            raise CompileError("spills", "a thread spills 8 B")
        return digest

    with monkeypatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("error")
        patched.setattr(building, "build", spilling)
        assert first.compile("sm_90a") == tried[2]
        assert len(set(tried)) == 3
    choosing.forget()  # as a new process would
    with monkeypatch.context() as patched:
        patched.setattr(building, "build", lambda digest, *rest, **options: digest)
        assert best(spec, "sm_90a").compile("sm_90a") == tried[2]
    alone = attrs.evolve(first, fallback=None)
    with monkeypatch.context() as patched:
        patched.setattr(building, "build", spilling)
        tried.clear()
        with pytest.raises(CompileError):
            alone.compile("sm_90a")
    for file in tmp_path.glob("*.passed"):
        file.write_text("[]")  # what is damaged says nothing
    choosing.forget()
    assert digest_of(best(spec, "sm_90a")) == digest_of(first)


def test_a_choice_does_not_depend_on_how_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 6)
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "one"))
    clock, begin = time.perf_counter, time.perf_counter()
    found = choose(matmul(256, 128, 64, "f16"), "sm_80")
    choosing.forget()
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "other"))  # nothing is kept there
    monkeypatch.setattr(time, "perf_counter", lambda: begin + 1000 * (clock() - begin))  # a thousand times as slow
    again = choose(matmul(256, 128, 64, "f16"), "sm_80")
    assert (again.point, again.why, again.modelled_us) == (found.point, found.why, found.modelled_us)
    assert found.why.startswith("no record: the best of ")
