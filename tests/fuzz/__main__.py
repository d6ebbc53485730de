"""Draw chains for some time, and report those that are neither refused with a code nor right.

    python -m tests.fuzz --seconds 60 [--seed S] [--chains N] [--compile P]

Each chain has a seed of its own, `S/i`, so that `--only i` draws it again. The exit status is 1 where something was
found.
"""

from __future__ import annotations

import argparse
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs

from tests.fuzz.draw import drawn
from tests.fuzz.judge import Verdict, judge
from tests.fuzz.shrink import shrunk, snippet

MOST_ALIKE = 8  # findings of one code that are shrunk


@attrs.define
class Score:
    """Count what became of chains.

    Args:
        verdicts: by kind.
        codes: of refusals and findings.
        compiled: by what NVRTC made of them.
        findings: the first chains of each, as drawn, with their verdicts.
    """

    verdicts: Counter[str] = attrs.field(factory=Counter)
    codes: Counter[str] = attrs.field(factory=Counter)
    compiled: Counter[str] = attrs.field(factory=Counter)
    findings: dict[str, list[tuple[str, str, Verdict]]] = attrs.field(factory=dict)

    @property
    def chains(self) -> int:
        """Count the chains."""
        return sum(self.verdicts.values())

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.verdicts.items()))
        compiled = ", ".join(f"{count} {what}" for what, count in sorted(self.compiled.items()) if what != "no")
        return f"{self.chains} chains: {kinds}{f'; compiled: {compiled}' if compiled else ''}"


def fuzz(
    seed: str,
    chains: int,
    seconds: float,
    compiled: int = 0,
    verbs: int = 10,
    told: Callable[[str, str, Verdict], None] | None = None,
    first: int = 0,
) -> Score:
    """Draw and judge chains.

    Args:
        seed: of all of them.
        chains: how many at most.
        seconds: how long at most.
        compiled: one in so many is compiled too, 0 for none.
        verbs: one in so many is printed, checked and estimated too.
        told: hears of each new finding: the chain's seed, its text and its verdict.
        first: number of the first chain.
    """
    score, end = Score(), time.monotonic() + seconds
    for i in range(first, first + chains):
        if time.monotonic() > end:
            break
        source = drawn(f"{seed}/{i}")
        verdict = judge(source, bool(compiled) and i % compiled == 0, i % verbs == 0)
        score.verdicts[verdict.kind] += 1
        score.compiled[verdict.compiled] += 1
        score.codes[verdict.code] += 1
        if verdict.kind in ("finding", "slow"):
            same = score.findings.setdefault(verdict.code, [])
            # An exception from one place has one cause; wrong results may have several.
            if len(same) < (1 if " raised " in f" {verdict.code}" else MOST_ALIKE):
                same.append((f"{seed}/{i}", source, verdict))
                if told is not None:
                    told(f"{seed}/{i}", source, verdict)
    return score


def reported(name: str, source: str, verdict: Verdict, seconds: float) -> str:
    """Shrink a finding, and write it down."""
    one = lambda text: judge(text, verdict.code == "nvrtc", True)  # noqa: E731
    small = source if verdict.kind == "slow" else shrunk(source, lambda text: one(text).code == verdict.code, seconds)
    return f"# {name}: {one(small) if small != source else verdict}\n{snippet(small)}"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description="draw chains, and report what is not right")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--chains", type=int, default=1_000_000)
    parser.add_argument("--seed", default=secrets.token_hex(4), help="a fresh one if none is given")
    parser.add_argument("--only", type=int, help="draw this chain alone")
    parser.add_argument("--compile", type=int, default=40, help="compile one chain in so many, 0 for none")
    parser.add_argument("--shrink", type=float, default=30, help="seconds to shrink a finding for")
    parser.add_argument("--codes", action="store_true", help="list how often each code refused a chain")
    parser.add_argument("--out", type=Path, help="append findings to this file")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)

    seen: set[str] = set()

    def told(name: str, source: str, verdict: Verdict) -> None:
        text = reported(name, source, verdict, asked.shrink)
        shape = verdict.code + re.sub(r"[^a-zA-Z_.(]", "", text.split("judge(", 1)[1])
        if shape in seen:
            return
        seen.add(shape)
        print(f"\n{text}", flush=True)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(f"\n{text}")

    first, chains = (0, asked.chains) if asked.only is None else (asked.only, 1)
    score = fuzz(asked.seed, chains, asked.seconds, asked.compile, told=told, first=first)
    print(score)
    if asked.codes:
        print("\n".join(f"{count:6} {code}" for code, count in score.codes.most_common()))
    if asked.only is not None:
        print(drawn(f"{asked.seed}/{asked.only}"))
    return int(bool(score.findings))


if __name__ == "__main__":
    sys.exit(main())
