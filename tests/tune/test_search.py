"""The search: the fastest is found, what fails is kept with its reason, and what was measured survives everything."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import helpers
import pytest
from helpers import FakeMeasurer

from fireiron import FireironError, matmul, symbol
from fireiron.tune import search as searching
from fireiron.tune.candidates import Candidate, Failure, preset
from fireiron.tune.halving import rank_correlation
from fireiron.tune.problem import Problem
from fireiron.tune.records import append, read
from fireiron.tune.search import Interrupted, Progress, Tuned, tune
from fireiron.tune.space import point

SPEC = matmul(256, 256, 64)


def us(keywords: dict[str, Any]) -> float:
    """Like 128x64x16 best."""
    return 10.0 + abs(keywords["m"] - 128) / 8 + abs(keywords["n"] - 64) / 8 + (16 - keywords["k"])


@pytest.fixture
def here() -> Any:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def run(measurer: FakeMeasurer, executor: Any, presets: Any = helpers.small, **options: Any) -> Tuned:
    return tune(SPEC, presets, measurer=measurer, executor=executor, **{"budget_s": 120, **options})


def test_the_fastest_is_found_and_recorded(here: Any, tmp_path: Path) -> None:
    seen: list[Progress] = []
    measurer = FakeMeasurer(us)
    tuned = run(measurer, here, on_progress=seen.append)
    assert tuned.candidate is not None
    assert tuned.candidate.point == point({"m": 128, "n": 64, "k": 16})
    assert tuned.best is not None
    assert tuned.best.us == 10.0
    assert tuned.best.schedule == "small(spec, k=16, m=128, n=64)".replace("small", tuned.candidate.preset.name)
    assert tuned.judged == 18
    assert tuned.correlation is not None
    assert {p.stage for p in seen} == {"model", "compile", "measure"}
    kept = read(tmp_path / "records.jsonl")
    assert kept.problems == ()
    best = min((r for r in kept.records if r.us is not None), key=lambda r: r.us or 0.0)
    assert best.point == tuned.candidate.point
    assert best.samples == tuned.best.samples > 40
    assert best.machine["driver"] == "580.1"
    assert best.machine["state"] == {"sm_mhz": 1755, "power_w": 500.0}
    assert best.modelled_us


def test_few_samples_for_many_and_many_for_few(here: Any) -> None:
    measurer = FakeMeasurer(us)
    run(measurer, here)
    sizes = [size for size, _ in measurer.rounds]
    assert sizes[0] > sizes[-1] <= 3
    assert measurer.rounds[-1] == (3, 31)


def test_failures_are_data(here: Any, tmp_path: Path) -> None:
    def partly(keywords: dict[str, Any]) -> float | Failure:
        return Failure("verify", "wrong-result", "3 rows are wrong") if keywords["m"] == 128 else us(keywords)

    tuned = run(FakeMeasurer(partly), here)  # type: ignore[arg-type]
    assert tuned.candidate is not None
    assert tuned.candidate.point.keywords["m"] == 64
    codes = {r.failure[:2] for r in tuned.failures if r.failure}
    assert codes == {("verify", "wrong-result")}
    kept = [r for r in read(tmp_path / "records.jsonl").records if r.failure]
    assert {r.point for r in kept} == {r.point for r in tuned.failures}


def test_who_is_lost_late_does_not_win(here: Any) -> None:
    measurer = FakeMeasurer(us)
    measurer.lose = {0, 1, 2}
    tuned = run(measurer, here)
    assert {r.failure[1] for r in tuned.failures if r.failure} == {"hang"}
    assert len(tuned.failures) == 3
    assert tuned.best is not None
    assert tuned.best.us is not None


def test_the_model_refuses_without_compiling(here: Any) -> None:
    tuned = run(FakeMeasurer(us), here, space={"m": (64, 128, 4096), "n": (64,), "k": (8, 16)})
    assert sum(tuned.refused.values()) >= 2
    assert all("4096" not in str(r.point) for r in tuned.records)


def test_an_illegal_space_is_an_error_with_reasons(here: Any) -> None:
    with pytest.raises(FireironError, match="none of") as raised:
        run(FakeMeasurer(us), here, helpers.broken)
    assert raised.value.code == "nothing-legal"
    assert "ZeroDivisionError: of the user" in raised.value.message


def test_ctrl_c_keeps_everything_measured(here: Any, tmp_path: Path) -> None:
    measurer = FakeMeasurer(us)
    measurer.interrupt_after = 4
    with pytest.raises(Interrupted) as raised:
        run(measurer, here)
    assert len(raised.value.tuned.records) == 4
    assert raised.value.tuned.best is not None
    assert len(read(tmp_path / "records.jsonl").records) == 4


def test_time_that_is_up_ends_the_search_with_a_note(here: Any) -> None:
    tuned = run(FakeMeasurer(us), here, budget_s=0.01)
    assert tuned.elapsed_s < 10
    assert any("time was up" in note for note in tuned.notes)


def test_neighbours_of_the_best_are_tried(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import attrs

    narrow = attrs.evolve(searching.EFFORTS["quick"], compiled=2, climbs=3)
    monkeypatch.setitem(searching.EFFORTS, "quick", narrow)
    tuned = run(FakeMeasurer(us), here)
    assert len([r for r in tuned.records if r.us is not None]) > 2
    still = run(FakeMeasurer(us), here, effort="full")
    assert still.best is not None
    assert still.best.us == 10.0


def test_what_was_recorded_is_measured_again(here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import attrs

    one = attrs.evolve(searching.EFFORTS["quick"], compiled=1, climbs=0)
    monkeypatch.setitem(searching.EFFORTS, "quick", one)
    name = preset(helpers.small).name
    near = attrs.evolve(helpers.record(preset=name, m=32, n=128, k=8), problem=Problem(256, 512, 64))
    gone = attrs.evolve(near, point=point({"q": 1}), problem=Problem(256, 256, 64))
    append(tmp_path / "records.jsonl", [near, gone])
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write("{\n")
    tuned = run(FakeMeasurer(us), here)
    assert tuned.candidate is not None
    assert tuned.candidate.point == point({"m": 32, "n": 128, "k": 8})
    assert tuned.refused["schedule-failed"] == 1  # a keyword that the preset no longer takes
    assert any("is no record" in note for note in tuned.notes)


def test_a_preset_that_ranks_its_points_is_searched_in_its_order(
    here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import attrs

    two = attrs.evolve(searching.EFFORTS["quick"], compiled=2, climbs=0)
    monkeypatch.setitem(searching.EFFORTS, "quick", two)
    measurer = FakeMeasurer(lambda k: 1.0 + len(str(k)))
    tuned = run(measurer, here, helpers.ranked)
    assert [str(k["plan"]) for k in measurer.known.values()] == ["Plan(m=64, n=128)", "Plan(m=64)"]
    assert tuned.first == Candidate(preset(helpers.ranked), point({"plan": helpers.Plan(64, 128)}))
    assert tuned.best is not None
    assert tuned.best.schedule.endswith("(spec, plan=Plan(m=64))")
    assert tuned.first_choice == (tuned.best.us or 0.0) / (tuned.first_us or 1.0) < 1.0
    again = read(tmp_path / "records.jsonl").records
    assert {r.point for r in again} == {r.point for r in tuned.records}
    both = run(FakeMeasurer(lambda k: 1.0), here, [helpers.ranked, helpers.small])
    assert {r.preset for r in both.records} == {preset(helpers.ranked).name, preset(helpers.small).name}
    batched = tune(
        matmul(64, 64, 64, batch=2),
        [helpers.ranked, helpers.small],
        measurer=FakeMeasurer(lambda k: 1.0),
        executor=here,
    )
    assert any("lists no plan" in note for note in batched.notes)


def test_several_presets_compete(here: Any) -> None:
    def other(spec: Any, m: int = 64) -> Any:
        return helpers.small(spec, m, 32, 8)

    other.space = {"m": (32, 64)}  # type: ignore[attr-defined]
    tuned = run(FakeMeasurer(lambda k: 1.0 if "n" not in k else us(k)), here, [helpers.small, other])
    assert tuned.candidate is not None
    assert tuned.candidate.preset.name.endswith("other")
    assert any("notebook" in note for note in tuned.notes)  # a function of a function has no name elsewhere


@pytest.mark.parametrize("kind", ["own", "pool"])
def test_other_processes_compile(kind: str) -> None:
    executor = ProcessPoolExecutor(1) if kind == "pool" else None
    options = {"space": {"m": (64, 128), "n": (64,), "k": (8,)}}
    try:
        tuned = tune(SPEC, helpers.small, measurer=FakeMeasurer(lambda k: float(k["m"])), executor=executor, **options)
    finally:
        if executor is not None:
            executor.shutdown()
    assert tuned.best is not None
    assert tuned.best.us == 64.0


@pytest.mark.parametrize(
    ("spec", "options", "code"),
    [
        (SPEC, {"effort": "endless"}, "unknown-effort"),
        (SPEC, {"space": {"m": ()}}, "empty-space"),
        (SPEC, {"space": {"q": (1,)}}, "unknown-parameter"),
        (matmul(symbol("M"), 64, 64), {}, "unknown-size"),
        (SPEC, {"space": {"m": lambda spec: ()}}, "no-candidates"),
    ],
)
def test_mistakes_are_named(spec: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(FireironError) as raised:
        tune(spec, helpers.small, measurer=FakeMeasurer(us), **options)
    assert raised.value.code == code
    assert raised.value.fix


def test_without_a_gpu_nothing_is_pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    from fireiron.tune.machine import Machine

    monkeypatch.setattr(searching, "machine", lambda device: Machine("", "sm_90a"))
    with pytest.raises(FireironError, match="there is no GPU") as raised:
        tune(SPEC, helpers.small)
    assert raised.value.code == "no-gpu"


def test_a_preset_travels_by_name() -> None:
    import pickle

    made = preset(helpers.small, {"x": 1})
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.function is helpers.small
    assert made.portable
    assert not preset(lambda spec: spec).portable


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3], [5, 6, 9]) == 1.0
    assert rank_correlation([1, 2, 3], [9, 6, 5]) == -1.0
    assert rank_correlation([1, 2], [1, 2]) is None
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


def test_a_dask_cluster_compiles() -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        tuned = run(FakeMeasurer(us), client.get_executor(), space={"m": (64, 128), "n": (64,), "k": (8,)})
    assert tuned.best is not None
    assert tuned.best.us == 18.0


@pytest.mark.parametrize("what", ["add", "lambda", "custom", "save"])
def test_ops_that_cannot_be_pickled_are_searched(what: str) -> None:
    from fireiron import Matrix, Vector, add, custom, save
    from fireiron.front.moves import conform

    bias = add(Vector(64, name="bias"))
    ops: dict[str, tuple[Any, ...]] = {
        "add": (bias,),
        "lambda": (lambda acc: acc * 2, bias),
        "custom": (custom("twice", "x * 2", lambda x: x * 2),),
        "save": (save(Matrix(64, 64, name="S")), bias, save(Matrix(64, 64, name="T"), conform())),
    }
    spec = matmul(64, 64, 32).then(*ops[what])
    tuned = tune(
        spec, helpers.small, space={"m": (32,), "n": (32, 64), "k": (8,)}, measurer=FakeMeasurer(us), budget_s=120
    )
    assert tuned.candidate is not None
    assert tuned.refused == {}
    assert not tuned.failures
    assert len([r for r in tuned.records if r.us is not None]) >= 2
    assert tuned.problem.kind.partition(" #")[0] == ("ops+save" if what == "save" else "ops")
    inside = any("in this process" in note for note in tuned.notes)
    assert inside == (what == "save")  # a strategy of a store is a function alone


def test_ops_that_were_sent_compute_the_same() -> None:
    import pickle

    import numpy as np

    from fireiron import Matrix, Vector, add, relu, save
    from fireiron.tune.candidates import sendable

    spec = matmul(32, 32, 16, alpha=2.0).then(add(Vector(32, name="bias")), save(Matrix(32, 32, name="S")), relu)
    sent = pickle.loads(pickle.dumps(sendable(spec)[0]))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 16), (16, 32)))
    bias = rng.standard_normal(32).astype(np.float32)
    one, other = (helpers.simt.listing2(s, 32, 32).simulate(a, b, bias) for s in (spec, sent))
    assert np.array_equal(one.out, other.out)
    assert spec.meaning.digest == sent.meaning.digest


@pytest.mark.parametrize("own", [True, False], ids=["processes", "thread"])
def test_candidates_with_bad_manners_cost_themselves_alone(own: bool, here: Any) -> None:
    manners = ("end", "exit", "fork", "print", "well") if own else ("exit", "print", "well")
    begin = time.perf_counter()
    tuned = tune(
        matmul(64, 64, 32), helpers.rude, space={"how": manners}, measurer=FakeMeasurer(lambda k: 5.0),
        budget_s=120, executor=None if own else here,
    )  # fmt: skip
    assert time.perf_counter() - begin < 100
    assert tuned.candidate is not None
    assert tuned.best is not None
    assert sum(tuned.refused.values()) == (2 if own else 1)
    assert tuned.judged == len(manners)
