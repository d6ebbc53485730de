"""The score of planted bugs: what became of the mutants of each case, in one process or in several."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import attrs

from fireiron.cuda.printer import source
from fireiron.kernel.ir.statements import Kernel
from tests.mutate.cases import CASES, INPUTS, LAUNCHED, SHUFFLED, SIZES
from tests.mutate.harmless import why
from tests.mutate.judge import Judge
from tests.mutate.plant import Mutant, mutants

PART = 4  # mutants that a process judges at a time
KEPT_S = 10.0  # from one time that scores are kept to the next
SCORE = Path(__file__).with_name("score.jsonl")


@attrs.define
class Score:
    """Count what became of a case's mutants.

    Args:
        case: its name.
        kernel: a digest of its text: other kernels have other mutants.
        mutants: how many there are.
        planted: how many were run.
        noticed: by what.
        survived: names of mutants by what explains them; those of `""` are unexplained.
    """

    case: str
    kernel: str = ""
    mutants: int = 0
    planted: int = 0
    noticed: Counter[str] = attrs.field(factory=Counter, converter=Counter)
    survived: dict[str, list[str]] = attrs.field(factory=dict)

    @property
    def line(self) -> str:
        """Write it as a line of the score file."""
        whole = attrs.asdict(self)
        whole["noticed"] = dict(sorted(self.noticed.items()))
        whole["survived"] = {words: sorted(keys) for words, keys in sorted(self.survived.items())}
        return json.dumps(whole)

    def count(self, key: str, outcome: str, words: str) -> None:
        """Add what became of a mutant."""
        if outcome == "survived":
            self.survived.setdefault(words, []).append(key)
        else:
            self.noticed[outcome] += 1

    @property
    def unexplained(self) -> list[str]:
        """List the survivors that nothing explains."""
        return self.survived.get("", [])


def recorded(path: Path = SCORE) -> dict[str, Score]:
    """Read the score file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {score.case: score for score in (Score(**json.loads(line)) for line in lines)}


def record(scores: Iterable[Score], path: Path = SCORE) -> None:
    """Write scores over those of the same cases in the score file, at once or not at all."""
    all_of = recorded(path) | {score.case: score for score in scores}
    beside = path.with_suffix(".new")
    beside.write_text("".join(all_of[case].line + "\n" for case in CASES if case in all_of), encoding="utf-8")
    beside.replace(path)


def judge_of(case: str) -> Judge:
    """Make the judge of a case's mutants."""
    return Judge(CASES[case](), LAUNCHED.get(case), INPUTS.get(case), SIZES.get(case), case in SHUFFLED)


def text_of(kernel: Kernel) -> str:
    """Print a kernel; statements that cannot be printed differ from all that can."""
    try:
        return source(kernel)
    except Exception:
        return ""


class Planter:
    """List one case's mutants, in an order of their own, and say what becomes of each."""

    def __init__(self, case: str, seed: str) -> None:
        self.case = case
        self.judge = judge_of(case)
        self.text = text_of(self.judge.kernel)
        self.found = sorted(mutants(self.judge.kernel), key=lambda mutant: mutant.key)
        random.Random(f"{seed}/{case}").shuffle(self.found)

    def outcome(self, mutant: Mutant) -> tuple[str, str]:
        """Say what notices a mutant, and what explains that nobody does."""
        text = text_of(mutant.kernel)
        if text == self.text or not text:
            return "no text" if not text else "same text", ""
        outcome = self.judge.outcome(mutant.kernel)
        return outcome, why(self.case, mutant, self.judge.kernel) if outcome == "survived" else ""


class Run:
    """Go on with the score of one case, whose kernel gives no false alarm."""

    def __init__(self, case: str, seed: str, old: Score | None = None) -> None:
        self.planter = _planter(case, seed)
        judge, found = self.planter.judge, self.planter.found
        digest = hashlib.sha256(self.planter.text.encode()).hexdigest()[:12]
        named = {mutant.key: mutant for mutant in found}
        kept = old is not None and old.kernel == digest and old.mutants == len(found)
        kept = kept and all(key in named for alike in old.survived.values() for key in alike)
        self.score = old if kept and old is not None else Score(case, digest, len(found))
        self._again(named)
        outcome = judge.outcome(judge.kernel)
        assert outcome == "survived", f"false alarm: {case} without a bug gives {outcome}"

    def _again(self, named: dict[str, Mutant]) -> None:
        """Judge old survivors anew: the simulator, or what explains them, may have changed."""
        old = [key for alike in self.score.survived.values() for key in alike]
        self.score.survived = {}
        for key in old:
            words = why(self.score.case, named[key], self.planter.judge.kernel)
            self.score.count(key, *(("survived", words) if words else self.planter.outcome(named[key])))

    def step(self) -> tuple[Mutant, str, str] | None:
        """Plant the next mutant; gives it, what noticed it and what explains that nobody did; None behind the last."""
        if self.score.planted == len(self.planter.found):
            return None
        mutant = self.planter.found[self.score.planted]
        self.score.planted += 1
        outcome, words = self.planter.outcome(mutant)
        self.score.count(mutant.key, outcome, words)
        return mutant, outcome, words


def in_turn(runs: Iterable[Run], seconds: float) -> Iterator[tuple[Run, Mutant, str, str]]:
    """Plant a mutant of each case in turn, until all are planted or time is over."""
    end, left = time.monotonic() + seconds, list(runs)
    while left:
        for run in list(left):
            if time.monotonic() > end:
                return
            found = run.step()
            if found is None:
                left.remove(run)
            else:
                yield run, *found


def summary(scores: Iterable[Score]) -> str:
    """Say how many bugs were planted, and what noticed them."""
    listed = list(scores)
    planted, noticed = sum(s.planted for s in listed), sum((s.noticed for s in listed), Counter())
    same = noticed.pop("same text", 0)
    explained = sum(len(keys) for s in listed for words, keys in s.survived.items() if words)
    unexplained = sum(len(s.unexplained) for s in listed)
    how = ", ".join(f"{count} {what}" for what, count in noticed.most_common())
    kernels = f"{planted} of {sum(s.mutants for s in listed)} mutants of {len(listed)} kernels planted"
    seen = f"{noticed.total()} noticed ({how}), {same} of the same text"
    return f"{kernels}: {seen}, {explained} change nothing as explained, {unexplained} are unexplained"


@functools.lru_cache
def _planter(case: str, seed: str) -> Planter:
    return Planter(case, seed)


def _opened(case: str, seed: str) -> Score:
    """Give the score that a case starts from."""
    return Run(case, seed, recorded().get(case)).score


def _outcomes(case: str, seed: str, first: int, last: int, end: float) -> list[tuple[str, str, str]]:
    """Plant some mutants of a case while there is time: the key of each, what noticed it, what explains it."""
    planter = _planter(case, seed)
    found: list[tuple[str, str, str]] = []
    for mutant in planter.found[first:last]:
        if time.time() > end:
            break
        found.append((mutant.key, *planter.outcome(mutant)))
    return found


def in_processes(
    cases: Iterable[str], seed: str, seconds: float, processes: int, keep: Callable[[list[Score]], None]
) -> list[Score]:
    """Go on with the scores of cases in several processes; what lies behind a gap, where time was up, is dropped.

    Args:
        cases: their names.
        seed: of the order in which mutants are planted.
        seconds: from now until no mutant is begun.
        processes: how many.
        keep: is given the scores as they stand, every few seconds.
    """
    end, listed = time.time() + seconds, list(cases)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        scores = list(pool.map(_opened, listed, [seed] * len(listed)))
        keep(scores)
        parts = [(s, first) for s in scores for first in range(s.planted, s.mutants, PART)]
        made: dict[Future[list[tuple[str, str, str]]], tuple[str, int]] = {}
        for s, first in sorted(parts, key=lambda part: part[1] - part[0].planted):
            made[pool.submit(_outcomes, s.case, seed, first, min(first + PART, s.mutants), end)] = (s.case, first)
        done: dict[tuple[str, int], list[tuple[str, str, str]]] = {}
        kept = time.time()
        for future in as_completed(made):
            done[made[future]] = future.result()
            if time.time() > kept + KEPT_S:
                counted(scores, done)
                keep(scores)
                kept = time.time()
    counted(scores, done)
    return scores


def counted(scores: Iterable[Score], done: dict[tuple[str, int], list[tuple[str, str, str]]]) -> None:
    """Count outcomes that no gap parts from those counted before."""
    for score in scores:
        while found := done.pop((score.case, score.planted), None):
            for outcome in found:
                score.count(*outcome)
            score.planted += len(found)
