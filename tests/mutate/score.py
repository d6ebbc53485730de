"""The score of planted bugs: what became of the mutants of each case, in one process or in several."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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

PART_S = 8.0  # what a process plants at a time takes, about
SHARE = 0.15  # of the time of all runs of a kernel that a mutant takes, about: most are noticed in the first
KEPT_S = 10.0  # from one time that scores are kept to the next
# Mutants by their numbers in the drawn order, from the first to behind the last; or survivors by their names.
Part = tuple[int, int] | list[str]
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
        left: ranges of those that were not run, in the order that the seed `score` draws: (first, behind the last).
    """

    case: str
    kernel: str = ""
    mutants: int = 0
    planted: int = 0
    noticed: Counter[str] = attrs.field(factory=Counter, converter=Counter)
    survived: dict[str, list[str]] = attrs.field(factory=dict)
    left: list[tuple[int, int]] = attrs.field(factory=list)

    @classmethod
    def of(cls, line: str) -> Score:
        """Read a line of the score file; where one says nothing of ranges, the first mutants were run."""
        found = cls(**json.loads(line))
        if not found.left and found.planted < found.mutants:
            found.left = [(found.planted, found.mutants)]
        found.left = [(first, last) for first, last in found.left]
        return found

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

    def take(self, part: Part, outcomes: Sequence[tuple[str, str, str]]) -> None:
        """Add what became of the first mutants of a part."""
        if isinstance(part, list):
            for key, *_ in outcomes:
                self.survived[""].remove(key)
            self.survived = {words: keys for words, keys in self.survived.items() if keys}
        else:
            first, end = part[0], part[0] + len(outcomes)
            before = sum(b - a for a, b in self.left)
            self.left = [p for a, b in self.left for p in ((a, min(b, first)), (max(a, end), b)) if p[0] < p[1]]
            assert before - sum(b - a for a, b in self.left) == len(outcomes), f"{self.case} {part}: planted twice"
            self.planted += len(outcomes)
        for outcome in outcomes:
            self.count(*outcome)

    @property
    def unexplained(self) -> list[str]:
        """List the survivors that nothing explains."""
        return self.survived.get("", [])


def recorded(path: Path = SCORE) -> dict[str, Score]:
    """Read the score file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {score.case: score for score in map(Score.of, lines)}


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
    """Go on with the score of one case, whose kernel gives no false alarm.

    Args:
        case: its name.
        seed: of the order in which mutants are planted.
        old: the score so far.
        again: whether survivors that nothing explains are planted anew: the simulator may have changed.
    """

    def __init__(self, case: str, seed: str, old: Score | None = None, again: bool = True) -> None:
        self.planter = _planter(case, seed)
        judge, found = self.planter.judge, self.planter.found
        digest = hashlib.sha256(self.planter.text.encode()).hexdigest()[:12]
        named = {mutant.key: mutant for mutant in found}
        kept = old is not None and old.kernel == digest and old.mutants == len(found)
        kept = kept and all(key in named for alike in old.survived.values() for key in alike)
        self.score = old if kept and old is not None else Score(case, digest, len(found), left=[(0, len(found))])
        self._explained(named, again)
        begin = time.process_time()
        outcome = judge.outcome(judge.kernel) if self.score.left or self.score.unexplained else "survived"
        self.seconds = time.process_time() - begin
        assert outcome == "survived", f"false alarm: {case} without a bug gives {outcome}"

    def _explained(self, named: dict[str, Mutant], again: bool) -> None:
        """Explain old survivors anew, and plant those anew that nothing explains."""
        old = [key for alike in self.score.survived.values() for key in alike]
        self.score.survived = {}
        for key in old:
            words = why(self.score.case, named[key], self.planter.judge.kernel)
            planted = again and not words
            self.score.count(key, *(self.planter.outcome(named[key]) if planted else ("survived", words)))

    def step(self) -> tuple[Mutant, str, str] | None:
        """Plant the next mutant; gives it, what noticed it and what explains that nobody did; None behind the last."""
        if not self.score.left:
            return None
        number = self.score.left[0][0]
        mutant = self.planter.found[number]
        outcome, words = self.planter.outcome(mutant)
        self.score.take((number, number + 1), [(mutant.key, outcome, words)])
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


def _opened(case: str, seed: str) -> tuple[Score, float]:
    """Give the score that a case starts from, and the seconds that all runs of its kernel take."""
    run = Run(case, seed, recorded().get(case), again=False)
    return run.score, run.seconds


def _outcomes(case: str, seed: str, part: Part, end: float) -> list[tuple[str, str, str]]:
    """Plant some mutants of a case while there is time: the key of each, what noticed it, what explains it."""
    found: list[tuple[str, str, str]] = []
    if time.time() < end:
        planter = _planter(case, seed)
        keys = set(part) if isinstance(part, list) else set()
        for mutant in [m for m in planter.found if m.key in keys] or planter.found[slice(*part)]:
            if time.time() > end:
                break
            found.append((mutant.key, *planter.outcome(mutant)))
    return found


def _parts(score: Score, seconds: float) -> list[Part]:
    """Divide what is to be planted into parts of some seconds each: survivors that nothing explains, then the rest."""
    many = max(1, int(PART_S / (SHARE * seconds + 0.01)))
    few = max(1, int(PART_S / (seconds + 0.01)))
    found: list[Part] = [score.unexplained[i : i + few] for i in range(0, len(score.unexplained), few)]
    for a, b in score.left:
        found += [(first, min(first + many, b)) for first in range(a, b, many)]
    return found


def in_processes(
    cases: Iterable[str], seed: str, seconds: float, processes: int, keep: Callable[[list[Score]], None]
) -> list[Score]:
    """Go on with the scores of cases in several processes, all cases alike: each gets the same share of its mutants.

    Args:
        cases: their names.
        seed: of the order in which mutants are planted.
        seconds: from now until no mutant is begun.
        processes: how many.
        keep: is given the scores as they stand, every few seconds.
    """
    end, listed = time.time() + seconds, list(cases)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        opened = list(pool.map(_opened, listed, [seed] * len(listed)))
        scores = [score for score, _ in opened]
        keep(scores)
        kept = time.time()
        parts = [
            ((i + 0.5) / len(some), score, part)
            for score, took in opened
            for some in (_parts(score, took),)
            for i, part in enumerate(some)
        ]
        made: dict[Future[list[tuple[str, str, str]]], tuple[Score, Part]] = {}
        for _, score, part in sorted(parts, key=lambda one: one[0]):
            made[pool.submit(_outcomes, score.case, seed, part, end)] = (score, part)
        for future in as_completed(made):
            score, part = made[future]
            score.take(part, future.result())
            if time.time() > kept + KEPT_S:
                keep(scores)
                kept = time.time()
    return scores
