"""Plant bugs in the kernels of all presets for some time, and report those that nobody notices.

    python -m tests.mutate --seconds 60 [--seed S] [--case NAME] [--update]

Mutants are drawn from all cases in turn. Those that survive and that nothing explains are printed; the exit status is 1
where the score file does not know them. `--update` goes on where the score file stands, and writes it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from fireiron.cuda.printer import source
from fireiron.kernel.ir.statements import Kernel
from tests.mutate.cases import CASES, INPUTS, LAUNCHED, SHUFFLED, SIZES
from tests.mutate.harmless import why
from tests.mutate.judge import Judge
from tests.mutate.plant import Mutant, mutants

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

    @property
    def unexplained(self) -> list[str]:
        """List the survivors that nothing explains."""
        return self.survived.get("", [])


def recorded(path: Path = SCORE) -> dict[str, Score]:
    """Read the score file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {score.case: score for score in (Score(**json.loads(line)) for line in lines)}


def judge_of(case: str) -> Judge:
    """Make the judge of a case's mutants."""
    return Judge(CASES[case](), LAUNCHED.get(case), INPUTS.get(case), SIZES.get(case), case in SHUFFLED)


def text_of(kernel: Kernel) -> str:
    """Print a kernel; statements that cannot be printed differ from all that can."""
    try:
        return source(kernel)
    except Exception:
        return ""


class Run:
    """Plant one case's mutants, in an order of their own."""

    def __init__(self, case: str, seed: str, old: Score | None = None) -> None:
        self.judge = judge_of(case)
        self.text = text_of(self.judge.kernel)
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:12]
        found = sorted(mutants(self.judge.kernel), key=lambda mutant: mutant.key)
        random.Random(f"{seed}/{case}").shuffle(found)
        keys = {mutant.key for mutant in found}
        kept = old is not None and old.kernel == digest and old.mutants == len(found)
        kept = kept and all(key in keys for alike in old.survived.values() for key in alike)
        self.score = old if kept and old is not None else Score(case, digest, len(found))
        self._again({mutant.key: mutant for mutant in found})
        self.rest = iter(found[self.score.planted :])
        outcome = self.judge.outcome(self.judge.kernel)
        assert outcome == "survived", f"false alarm: {case} without a bug gives {outcome}"

    def _again(self, found: dict[str, Mutant]) -> None:
        """Judge old survivors anew: the simulator, or what explains them, may have changed."""
        old = [key for alike in self.score.survived.values() for key in alike]
        self.score.survived = {}
        for key in old:
            mutant = found[key]
            words = why(self.score.case, mutant, self.judge.kernel)
            self._count(mutant, "survived" if words else self._outcome(mutant), words)

    def _outcome(self, mutant: Mutant) -> str:
        text = text_of(mutant.kernel)
        return "same text" if text == self.text else "no text" if not text else self.judge.outcome(mutant.kernel)

    def _count(self, mutant: Mutant, outcome: str, words: str) -> None:
        if outcome == "survived":
            self.score.survived.setdefault(words, []).append(mutant.key)
        else:
            self.score.noticed[outcome] += 1

    def step(self) -> tuple[Mutant, str, str] | None:
        """Plant the next mutant; gives it, what noticed it and what explains that nobody did; None behind the last."""
        mutant = next(self.rest, None)
        if mutant is None:
            return None
        self.score.planted += 1
        words = ""
        outcome = self._outcome(mutant)
        if outcome == "survived":
            words = why(self.score.case, mutant, self.judge.kernel)
        self._count(mutant, outcome, words)
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


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m tests.mutate", description="plant bugs, and report what nobody notices")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default=None, help="a fresh one if none is given")
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--update", action="store_true", help="go on where the score file stands, and write it")
    asked = parser.parse_args()
    seed = "score" if asked.update else asked.seed or secrets.token_hex(4)
    print(f"seed {seed}", flush=True)
    old = recorded()
    known = {(score.case, key) for score in old.values() for key in score.unexplained}
    runs = [Run(case, seed, old.get(case) if asked.update else None) for case in asked.case or CASES]
    new = 0
    for run, mutant, outcome, words in in_turn(runs, asked.seconds):
        if outcome == "survived" and not words and (run.score.case, mutant.key) not in known:
            new += 1
            print(f"{run.score.case}: nobody notices {mutant.key}", flush=True)
    print(summary(run.score for run in runs))
    if asked.update:
        written = {case: score for case, score in old.items() if case in CASES} | {r.score.case: r.score for r in runs}
        SCORE.write_text("".join(written[case].line + "\n" for case in CASES if case in written), encoding="utf-8")
    return int(bool(new))


if __name__ == "__main__":
    sys.exit(main())
