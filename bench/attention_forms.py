"""Time forms of `attention.wgmma`, and fit the model that chooses among them.

`python -m bench attention-forms --seed N --count N -o FILE.jsonl` times warpgroups and chunks of the preset on drawn
sequences, with and without a causal mask, and says how many times as long as the fastest the model's choice takes.
`python -m bench fit-attention FILE.jsonl...` prints the constants of `AttentionClocks` that fit such timings.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from fireiron import tensor
from fireiron.base.errors import FireironError, UsageError
from fireiron.schedules import attention
from fireiron.schedules._attention_clocks import FIT, AttentionClocks, Work, microseconds, work_of

from .ahead import compiled as compile_ahead
from .arrays import torch_module
from .attention import ERROR
from .descent import constants_of, descended
from .measure import why_not_timed
from .tables import UNTIMED, geomean
from .timer import TorchTimer

COLUMNS, DTYPES = (32, 64, 80, 96, 128), ("bf16", "f16")
LEAST, MOST, SCORES = 7.5, 12.0, 2**28  # powers of 2 of a sequence's length; most scores of a case
KEYS, GROUPS = (64, 80, 96, 112, 128), (2, 3)
ROUNDS, BUDGET_S = 9, 2.0
PASSES, FIRST_STEP, LAST_STEP = 60, 0.3, 0.005  # steps are parts of a constant


def program(row: Mapping[str, Any]) -> Any:
    """Give the program of a timing."""
    sizes = tuple(map(int, row["shape"].split("x")))
    q, k, v = (tensor(*sizes, dtype=row["dtype"], name=name) for name in "qkv")
    return attention.attention(q, k, v, causal=row["causal"])


def cases(seed: int, count: int) -> list[dict[str, Any]]:
    """Draw sequences."""
    chance = random.Random(seed)
    found: list[dict[str, Any]] = []
    for _ in range(count):
        length = int(2 ** chance.uniform(LEAST, MOST))
        heads = max(48, min(512, SCORES // length**2 * 4))
        shape = f"1x{heads}x{length}x{chance.choice(COLUMNS)}"
        found.append({"shape": shape, "dtype": chance.choice(DTYPES), "causal": chance.random() < 0.5})
    return found


def forms(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the forms of a case, each as a line without a time."""
    return [{**case, "groups": groups, "keys": keys} for groups in GROUPS for keys in KEYS]


def _schedule(row: Mapping[str, Any]) -> Any:
    return attention.wgmma(program(row), groups=row["groups"], keys=row["keys"])


def _timed(rows: Sequence[dict[str, Any]], rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Time the forms of one case, interleaved; those for which registers or memory do not suffice are left out.

    So are forms whose results differ from torch's, which is told.
    """
    torch = torch_module()
    sizes = tuple(map(int, rows[0]["shape"].split("x")))
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[rows[0]["dtype"]]
    q, k, v = (torch.randn(*sizes, device="cuda").to(kind) for _ in range(3))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=rows[0]["causal"]).float()
    out, right, launches = torch.empty_like(q), list[dict[str, Any]](), dict[str, Callable[[], Any]]()
    for row in rows:
        try:
            kernel = _schedule(row).compile("sm_90a")
        except FireironError:
            continue
        kernel(q, k, v, out=out)
        error = float((out.float() - want).abs().max() / want.abs().max())
        if error <= ERROR:
            launches[str(len(right))] = partial(kernel, q, k, v, out=out)
            right.append(row)
        else:
            tell(f"{row}: wrong, an element differs by {error:.3g} of the largest")
    times = TorchTimer().burst(launches, rounds, BUDGET_S)
    return [{**row, "us": round(times[str(n)].median_us, 2)} for n, row in enumerate(right)]


def run(words: Sequence[str], tell: Callable[[str], None] = print) -> int:
    """Run `attention-forms`."""
    parser = argparse.ArgumentParser(
        prog="python -m bench attention-forms", description="Time forms of attention.wgmma.", allow_abbrev=False
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the sequences (0)")
    parser.add_argument("--count", type=int, default=24, metavar="N", help="number of sequences (24)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"launches of each form ({ROUNDS})")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the timings to this file")
    o = parser.parse_args(list(words))
    found = [forms(case) for case in cases(o.seed, o.count)]
    compile_ahead([partial(_compile, row) for rows in found for row in rows])
    why, lost = why_not_timed(), list[float]()
    for rows in () if why else found:
        timed = _timed(rows, o.rounds, tell)
        if not timed:
            continue
        chosen = min(timed, key=lambda row: microseconds(program(row), row["groups"], row["keys"]))
        lost.append(chosen["us"] / min(row["us"] for row in timed))
        if o.output:
            with Path(o.output).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in timed)
    if lost:
        tell(f"{len(lost)} cases: the model's choice takes {geomean(lost):.3f} times as long as the fastest form")
    if why:
        tell(UNTIMED.format(why=why))
    return 0


def _compile(row: Mapping[str, Any]) -> None:
    _schedule(row).compile("sm_90a")


def read(paths: Sequence[Path]) -> list[tuple[Work, str, float]]:
    """Read timings: the work of each, its case, and its microseconds."""
    found: list[tuple[Work, str, float]] = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            case = f"{row['shape']} {row['dtype']} {row['causal']}"
            found.append((work_of(program(row), row["groups"], row["keys"]), case, row["us"]))
    return found


def loss(timings: Sequence[tuple[Work, str, float]], fit: AttentionClocks) -> tuple[float, float]:
    """Return the root mean square of the errors of the times' logarithms, and what the chosen forms lose."""
    cases: dict[str, list[tuple[float, float]]] = {}
    for work, case, us in timings:
        cases.setdefault(case, []).append((fit.microseconds(work), us))
    errors = [math.log(modelled / us) ** 2 for each in cases.values() for modelled, us in each]
    lost = [min(each)[1] / min(us for _, us in each) for each in cases.values()]
    return math.sqrt(statistics.fmean(errors)), geomean(lost)


def fitted(timings: Sequence[tuple[Work, str, float]], start: AttentionClocks = FIT) -> AttentionClocks:
    """Fit all constants."""
    names = constants_of(start)
    best, _ = descended(start, names, lambda fit: loss(timings, fit)[0], PASSES, FIRST_STEP, LAST_STEP)
    return attrs.evolve(best, timings=f"{len(timings)} timings")


def run_fit(words: Sequence[str], tell: Callable[[str], None] = print) -> int:
    """Run `fit-attention`.

    Raises:
        UsageError: `no-timings`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench fit-attention", description="Fit the model of attention's forms.", allow_abbrev=False
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="results of `bench attention-forms`")
    o = parser.parse_args(list(words))
    timings = read(o.files)
    if not timings:
        raise UsageError("no-timings", "these files have no timing", fix="write one: bench attention-forms -o FILE")
    found = fitted(timings)
    for name, fit in (("now", FIT), ("fitted", found)):
        error, lost = loss(timings, fit)
        tell(f"{name}: times are off by {100 * error:.1f} %, the chosen forms lose {100 * (lost - 1):.1f} %")
    tell(repr(found))
    return 0
