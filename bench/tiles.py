"""Time points of presets whose tiles the quick model ranks, and fit the model to such timings.

`python -m bench tiles SUITE --presets ampere.sgemm,ampere.dgemm --points N --seed N -o FILE.jsonl` times random points
of the presets' spaces, half of them of the model's first, on drawn sizes. `python -m bench fit-tiles FILE.jsonl...`
prints the constants of `TileClocks` that fit them, with the loss of the model's order.
"""

from __future__ import annotations

import argparse
import ast
import math
import random
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from fireiron import MatMulChain
from fireiron.algebra.arch import arch
from fireiron.base.errors import UsageError
from fireiron.estimate.tiling import FIT, TileClocks, Tiling, quick_us
from fireiron.front.best import presets
from fireiron.front.cli.find import find
from fireiron.tune.space import space_of

from .ahead import compiled as compile_ahead
from .cases import Case, with_options
from .descent import constants_of, descended
from .measure import Lab, Options, TorchLab, here, measure, why_not_timed
from .results import read, write
from .subjects import Scheduled, subject
from .suites import SUITES, drawn
from .tables import UNTIMED, geomean, problems

TARGET = "sm_90a"
ROUNDS, BUDGET_S = 9, 1.5
PASSES, FIRST_STEP, LAST_STEP = 40, 0.3, 0.01  # steps are parts of a constant
NEAR = 6.0  # exponent of a timing's weight: its product's fastest time over its own
ORDER = 0.7  # weight of what the model's first points lose, beside the errors of times
EARLY = 40  # points at the head of the model's order, of which half of the timed ones are
WORD = re.compile(r"(\w+)=(\([^)]*\)|\S+)")


@attrs.frozen
class Timed:
    """Hold the tiles of one point of one product, and the microseconds that it took."""

    tiling: Tiling
    spec: MatMulChain
    us: float


def points(case: Case, preset: str, count: int, rng: random.Random, target: str) -> list[Scheduled]:
    """Draw points of a preset that the quick model gives a time, half of them of its first; its first before them."""
    declared, spec = space_of(find(preset).made), case.spec()
    if declared is None or declared.tiling is None:
        raise UsageError(
            "no-tiles", f"{preset} has no tiles for the quick model", fix=f"name some of {', '.join(_with_tiles())}"
        )
    found: list[tuple[float, dict[str, Any]]] = []
    for point in declared.of(spec).points():
        tiling = declared.tiling(spec, point.keywords)
        us = math.inf if tiling is None else quick_us(tiling, spec.matmul, spec.left.dtype.bits, arch(target))
        if us < math.inf:
            found.append((us, {name: value for name, value in point.keywords.items() if value is not None}))
    if not found:
        return []
    first, *rest = sorted(found, key=lambda each: each[0])
    early, late = rest[:EARLY], rest[EARLY:]
    drawn_early = rng.sample(early, min(-(-count // 2), len(early)))
    chosen = (first, *drawn_early, *rng.sample(late, min(count - len(drawn_early), len(late))))
    return [Scheduled(preset, values, target) for _, values in chosen]


def _with_tiles() -> list[str]:
    declared = ((p.name, space_of(p.function)) for p in presets())
    return [name for name, found in declared if found is not None and found.tiling is not None]


def _compile(case: Case, each: Scheduled) -> None:
    find(each.reference).made(case.spec(), **each.values).compile(each.arch)


def timed_of(path: str) -> list[Timed]:
    """Read results of `bench tiles`; those without tiles or a time are left out."""
    found: list[Timed] = []
    for result in read(path)[0]:
        name, _, words = result.subject.partition(" ")
        declared = space_of(find(name).made) if result.ours and result.times is not None else None
        if declared is None or declared.tiling is None or result.times is None:
            continue
        spec = result.case.spec()
        values = {key: ast.literal_eval(value) for key, value in WORD.findall(words)}
        tiling = declared.tiling(spec, values)
        if tiling is not None:
            found.append(Timed(tiling, spec, result.times.median_us))
    return found


def loss(timings: Sequence[Timed], fit: TileClocks, target: str = TARGET) -> tuple[float, float, float]:
    """Return what a fit minimises, the root mean square of the errors of times, and what the first points lose.

    Errors are those of logarithms, weighted by how near a time is to its product's fastest one.
    """
    machine = arch(target)
    products: dict[MatMulChain, list[tuple[float, float]]] = {}
    for each in timings:
        us = quick_us(each.tiling, each.spec.matmul, each.spec.left.dtype.bits, machine, fit)
        if us < math.inf:
            products.setdefault(each.spec, []).append((us, each.us))
    weights = errors = lost = 0.0
    for found in products.values():
        fastest = min(us for _, us in found)
        for modelled, us in found:
            weight = (fastest / us) ** NEAR
            weights, errors = weights + weight, errors + weight * math.log(modelled / us) ** 2
        lost += math.log(min(found)[1] / fastest)
    error, lost = math.sqrt(errors / weights), lost / len(products)
    return error + ORDER * lost, error, lost


def fitted(timings: Sequence[Timed], start: TileClocks = FIT, passes: int = PASSES) -> TileClocks:
    """Fit all constants."""
    names = constants_of(start)
    best, _ = descended(start, names, lambda fit: loss(timings, fit)[0], passes, FIRST_STEP, LAST_STEP)
    return attrs.evolve(best, timings=f"{len(timings)} timings")


def run(words: Sequence[str], command: str = "", *, lab: Lab | None = None, tell: Callable[[str], None] = print) -> int:
    """Time drawn points of presets, and the quick model's first one of each, on the sizes of a suite.

    Args:
        words: arguments of the command.
        command: name of the command in results.
        lab: the place of the measurement; the GPU where None.
        tell: function that is called with lines for the user.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench tiles",
        description="Time points that the quick model ranks.",
        allow_abbrev=False,
    )
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--presets", default="ampere.sgemm,ampere.dgemm", metavar="NAME,...")
    parser.add_argument(
        "--points",
        type=int,
        default=30,
        metavar="N",
        help="points of each preset, half of its first (30)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of sizes and points (0)")
    parser.add_argument("--count", type=int, metavar="N", help="only the first N cases")
    parser.add_argument("--dtype", help="cases of these element types, in[:acc[:out]]; or all, by them")
    parser.add_argument("--vs", default="torch", metavar="PEER", help="torch, cublas, cublaslt (torch)")
    parser.add_argument("--arch", default=TARGET, help=f"the target ({TARGET})")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    o = parser.parse_args(list(words))
    why = "" if lab is not None else why_not_timed()
    where = TorchLab() if lab is None and not why else lab
    cases = drawn(o.suite, o.seed)
    of_type = tuple(case for case in cases if case.dtype == o.dtype)
    cases = (of_type or with_options(cases, o.dtype, None))[: o.count]
    rng = random.Random(o.seed)
    chosen = [[p for name in o.presets.split(",") for p in points(c, name, o.points, rng, o.arch)] for c in cases]
    compile_ahead([partial(_compile, c, p) for c, found in zip(cases, chosen, strict=True) for p in found])
    machine, peer, over, wrong = here(), subject(o.vs), list[float](), list[Any]()
    for case, found in zip(cases, chosen, strict=True):
        if not found:
            tell(f"{case}: none of {o.presets} has tiles for it")
            continue
        options = Options(ROUNDS, BUDGET_S, arch=o.arch, graphs=False, exact=False)
        results = measure([case], [*found, *(() if why else (peer,))], options, suite=o.suite, lab=where)
        times = [r.times.median_us for r in results if r.ours and r.times is not None]
        if results[0].times is not None:
            over.append(results[0].times.median_us / min(times))
        wrong += results
        if o.output:
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            write(o.output, [result.to_json(machine, command, when) for result in results])
    if over:
        tell(f"{len(over)} cases: the model's first point takes {geomean(over):.3f} times as long as the fastest")
    for line in problems([r for r in wrong if r.ours]):
        tell(line)
    if why:
        tell(UNTIMED.format(why=why))
    return int(any(r.ours and r.wrong for r in wrong))


def run_fit(words: Sequence[str], tell: Callable[[str], None] = print) -> int:
    """Fit the constants to files of timings.

    Raises:
        UsageError: `no-timings`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench fit-tiles", description="Fit the quick model of tiles.", allow_abbrev=False
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="results of `bench tiles`")
    parser.add_argument("--passes", type=int, default=PASSES, metavar="N", help=f"passes over the constants ({PASSES})")
    o = parser.parse_args(list(words))
    timings = [each for path in o.files for each in timed_of(str(path))]
    if not timings:
        raise UsageError(
            "no-timings", "these files have no timing of a preset with tiles", fix="write one: bench tiles -o FILE"
        )
    found = fitted(timings, passes=o.passes)
    for name, fit in (("now", FIT), ("fitted", found)):
        _, error, lost = loss(timings, fit)
        tell(f"{name}: times are off by {100 * error:.1f} %, the first points lose {100 * math.expm1(lost):.1f} %")
    tell(repr(found))
    return 0
