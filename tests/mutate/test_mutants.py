"""Bugs planted in kernels of presets: a sample of what `python -m tests.mutate` plants, and the planting itself."""

from __future__ import annotations

import functools
import secrets
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from fireiron.kernel.ir.statements import Region, Statement
from tests.mutate.cases import CASES
from tests.mutate.judge import Judge
from tests.mutate.plant import mutants
from tests.mutate.score import Run, Score, in_turn, judge_of, record, recorded, summary

QUICK = ("listing1", "listing2", "sgemm 3", "turing", "ampere 3 whole", "volta wmma", "hopper dependent", "mlp")
PLANTED = 48
SECONDS = 60


def test_a_sample_is_noticed() -> None:
    seed = secrets.token_hex(4)
    print(f"python -m tests.mutate --seed {seed} " + " ".join(f"--case '{case}'" for case in QUICK))
    runs = [Run(case, seed) for case in QUICK]  # which finds false alarms
    survivors: list[str] = []
    for i, (run, mutant, outcome, words) in enumerate(in_turn(runs, SECONDS), 1):
        if outcome == "survived" and not words:
            survivors.append(f"{run.score.case}: {mutant.key}")
        if i == PLANTED:
            break
    assert not survivors
    print(summary(run.score for run in runs))


@pytest.fixture(scope="module")
def planted() -> Counter[tuple[str, str]]:
    """Count the mutants of all cases by the statement's kind and field."""
    return Counter((m.kind, m.field) for make in CASES.values() for m in mutants(make().lowered()))


def test_bugs_are_planted_in_every_kind_of_statement(planted: Counter[tuple[str, str]]) -> None:
    kinds = {kind for kind, _ in planted}
    # A region says what its statements implement, and does nothing.
    assert {c.__name__ for c in get_args(Statement) if c is not Region} <= kinds
    assert planted.total() > 10_000


def test_bugs_are_planted_in_the_fields_that_have_a_meaning(planted: Counter[tuple[str, str]]) -> None:
    named = {
        "Call": {"read", "write", "accumulate", "views", "signal", "peers"},
        "Compute": {"dst", "inputs", "write", "expr"},
        "Sync": {"level", "relaxed"},
        "CountIn": {"count", "counter", "order", "level"},
        "Meet": {"count", "counter", "level"},
        "Await": {"slot", "parity", "wide"},
        "Arrive": {"slot", "nbytes", "peer", "wide"},
        "Wait": {"pending"},
        "Turn": {"number", "threads", "waits"},
        "If": {"condition"},
        "For": {"extent"},
        "Let": {"value"},
        "FindGroup": {"item", "groups"},
        "Kernel": {"grid", "shared_nbytes", "buffers", "barriers"},
    }
    assert {(kind, field) for kind, fields in named.items() for field in fields} <= set(planted)


def test_a_key_names_one_mutant() -> None:
    for case in (*QUICK, "top"):
        keys = Counter(mutant.key for mutant in mutants(CASES[case]().lowered()))
        assert [key for key, count in keys.items() if count > 1] == [], case


@pytest.mark.parametrize(
    ("case", "key", "noticed"),
    [
        ("listing1", "If[0].condition: block_n * 16 + thread_n < 21 one more", "out-of-bounds"),
        ("listing1", "If[0].condition: block_m * 16 + thread_m < 37 one more", "out-of-bounds"),
        ("listing2", "Sync[0].place: dropped", "race"),
        ("listing2", "Kernel[0].grid: - 1", "uncovered-output"),
        ("sgemm 3", "If[0].place: dropped", "wrong"),
        ("hopper dependent", "Await[0].parity: the other", "deadlock"),
        ("sgemm ways, split_k", "CountIn[0].level: Warp", "counted-twice"),
        # A maximum without every fourth element: exponentials of 1 and 0 do not show it.
        ("softmax", "For[0].extent: - 1", "wrong"),
        ("top", "Compute[34].expr: lt left out", "wrong"),
        ("hopper split_k", "CountIn[0].place: doubled", "counted-twice"),
        ("sums in shares", "Meet[0].count: - 1", "uninitialised-read"),
        ("sums in shares", "Meet[0].place: dropped", "uninitialised-read"),
        ("hopper stream_k, whole tiles too", "Raise[0].place: doubled", "flag-raised"),
        ("hopper stream_k, whole tiles too", "Raise[0].level: Warp", "flag-raised"),
        ("hopper stream_k, whole tiles too", "Lower[0].level: Warp", "flag-not-raised"),
        # A block of one or two trips does not show these.
        ("attention, wgmma", "Await[0].slot: without q_ring_slot", "not-arrived"),
        ("attention, speculating", "If[16].place: dropped", "deadlock"),
        # Threads of a row that do not agree on its maximum, where one of them alone has a large key.
        ("attention, speculating", "Call[14].lane: without thread", "wrong"),
        # A slot of queries that is used again behind a tile without keys.
        ("attention, wgmma", "Await[0].place: exchanged with Arrive", "too-many-arrivals"),
    ],
)
def test_what_notices_a_bug(case: str, key: str, noticed: str) -> None:
    judge = judged(case)
    mutant = next(m for m in mutants(judge.kernel) if m.key == key)
    runs = (judge.runs[0], *reversed(judge.runs[1:]))  # single keys that grow, and other launches, come last
    outcomes = ((run, judge.outcome_of(mutant.kernel, run)) for run in runs)
    run, outcome = next(found for found in outcomes if found[1] != "survived")
    assert outcome == noticed
    assert judge.outcome_of(judge.kernel, run) == "survived"


@functools.cache
def judged(case: str) -> Judge:
    return judge_of(case)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_a_kernel_without_a_bug_gives_no_alarm(case: str) -> None:
    judge = judged(case)
    assert judge.outcome(judge.kernel) == "survived"


def test_a_score_knows_what_is_left() -> None:
    score = Score.of('{"case": "a case", "mutants": 7, "planted": 1}')
    assert score.left == [(1, 7)]
    score.take((3, 6), [("third", "survived", ""), ("fourth", "wrong", "")])
    assert (score.planted, score.left, score.unexplained) == (3, [(1, 3), (5, 7)], ["third"])
    again = Score.of(score.line)
    assert again == score
    again.take(["third"], [("third", "race", "")])
    assert (again.planted, again.noticed, again.survived) == (3, {"wrong": 1, "race": 1}, {})
    with pytest.raises(AssertionError, match="planted twice"):
        score.take((4, 6), [("fourth", "wrong", "")])


def test_scores_of_other_cases_stay(tmp_path: Path) -> None:
    file = tmp_path / "score.jsonl"
    record([Score("listing1", planted=3), Score("listing2", planted=4)], file)
    record([Score("listing1", planted=5)], file)
    assert {case: score.planted for case, score in recorded(file).items()} == {"listing1": 5, "listing2": 4}
