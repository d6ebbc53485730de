"""Plant bugs in the kernels of all presets for some time, and report those that nobody notices.

    python -m tests.mutate --seconds 60 [--seed S] [--case NAME] [--part I/N] [--update] [--processes N]

Mutants are drawn from all cases in turn. Those that survive and that nothing explains are printed; the exit status is 1
where the score file does not know them. `--update` goes on where the score file stands, and writes it every few
seconds; with several processes too. `--part 1/2` and `--part 2/2` share the cases among two machines.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.mutate.cases import CASES
from tests.mutate.score import Run, in_processes, in_turn, record, recorded, summary


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m tests.mutate", description="plant bugs, and report what nobody notices")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default=None, help="a fresh one if none is given")
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--part", default="1/1", help="of the cases that are planted: every N-th from the I-th on")
    parser.add_argument("--update", action="store_true", help="go on where the score file stands, and write it")
    parser.add_argument("--processes", type=int, default=1, help="with --update")
    asked = parser.parse_args()
    seed = "score" if asked.update else asked.seed or secrets.token_hex(4)
    print(f"seed {seed}", flush=True)
    part, parts = map(int, asked.part.split("/"))
    cases = list(asked.case or CASES)[part - 1 :: parts]
    old = recorded()
    known = {(score.case, key) for score in old.values() for key in score.unexplained}
    new = 0
    if asked.update and asked.processes > 1:
        scores = in_processes(cases, seed, asked.seconds, asked.processes, record)
        fresh = [(s.case, key) for s in scores for key in s.unexplained if (s.case, key) not in known]
        new = len(fresh)
        print("".join(f"{case}: nobody notices {key}\n" for case, key in fresh), end="")
    else:
        runs = [Run(case, seed, old.get(case) if asked.update else None) for case in cases]
        for run, mutant, outcome, words in in_turn(runs, asked.seconds):
            if outcome == "survived" and not words and (run.score.case, mutant.key) not in known:
                new += 1
                print(f"{run.score.case}: nobody notices {mutant.key}", flush=True)
        scores = [run.score for run in runs]
    print(summary(scores))
    if asked.update:
        record(scores)
    return int(bool(new))


if __name__ == "__main__":
    sys.exit(main())
