"""Fit the model of products to timings: `python -m bench fit FILE.jsonl... [--only CONSTANT,...] [--passes N]`.

Files hold records of tuning (`fireiron tune -o FILE`) or results of `python -m bench plans -o FILE`; timings of
`hopper.gemm` with a plan are used. The command prints the fitted constants as the `ProductClocks` of
`fireiron/algebra/machine.py`, and the loss of the order of plans: the time of each product's first plan by the model
divided by the time of the fastest timed plan. With `--order` the fit minimises this loss, otherwise the error of
modelled times.
"""

from __future__ import annotations

import argparse
import ast
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from fireiron import MatMulChain, ProductClocks, machine, matmul
from fireiron.base.errors import UsageError
from fireiron.schedules import hopper
from fireiron.schedules._clocks import FIT, clocks
from fireiron.tune.records import Record, read
from fireiron.tune.space import arguments

from .descent import constants_of, descended
from .results import Result
from .results import read as read_results

MACHINE = machine("sm_90a")
PASSES, FIRST_STEP, LAST_STEP = 12, 0.2, 0.005  # steps are parts of a constant
WITHIN = 0.3  # weight of the errors within products, beside what the first plan loses


@attrs.frozen
class Timing:
    """Hold one plan of one product, and the microseconds that it took."""

    plan: hopper.Plan
    spec: MatMulChain
    us: float


def timing(record: Record) -> Timing | None:
    """Read a record; None where the record has no plan."""
    if record.preset != "hopper.gemm" or not record.us:
        return None
    plan = arguments(hopper.gemm, record.point).get("plan")
    p = record.problem
    if not isinstance(plan, hopper.Plan) or p.kind or p.given or p.scaled or 0 in (p.m, p.n, p.k):
        return None
    return Timing(
        plan, matmul(p.m, p.n, p.k, p.a, out=p.c, layout=p.layout, batch=p.batch if p.batch > 1 else None), record.us
    )


def of_result(result: Result) -> Timing | None:
    """Read a result of `bench plans`; None where it has no plan or no time."""
    name, _, plan = result.subject.partition(" plan=")
    if name != "hopper.gemm" or not plan or result.times is None:
        return None
    call = ast.parse(plan, mode="eval").body
    assert isinstance(call, ast.Call)
    fields = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
    return Timing(hopper.Plan(**fields), result.case.spec(), result.times.median_us)


def timings_of(path: Path) -> list[Timing]:
    """Read the timings of a file, records of tuning or results of `bench plans`."""
    with path.open(encoding="utf-8") as lines:
        results = '"bench"' in next(iter(lines), "")
    found = map(of_result, read_results(str(path))[0]) if results else map(timing, read(path).records)
    return [each for each in found if each is not None]


def lost(timings: Sequence[Timing], fit: ProductClocks) -> float:
    """Return the loss of the order of plans: the mean of log(first plan / fastest plan) of products with several."""
    products: dict[MatMulChain, list[Timing]] = {}
    for each in timings:
        products.setdefault(each.spec, []).append(each)
    several = [each for each in products.values() if len(each) > 1]
    total = 0.0
    for each in several:
        first = min(each, key=lambda timing: clocks(timing.plan, timing.spec, fit))
        total += math.log(first.us / min(timing.us for timing in each))
    return total / max(1, len(several))


def loss(timings: Sequence[Timing], fit: ProductClocks) -> float:
    """Return the model's mean error: the mean of |log(modelled / measured)|."""
    total = 0.0
    for each in timings:
        modelled = MACHINE.launch_us + clocks(each.plan, each.spec, fit) / MACHINE.clock_mhz
        total += abs(math.log(modelled / each.us))
    return total / len(timings)


def spread(timings: Sequence[Timing], fit: ProductClocks) -> float:
    """Return the objective for a good order: the result of `lost`, and a share of the errors within each product."""
    products: dict[MatMulChain, list[float]] = {}
    for each in timings:
        modelled = MACHINE.launch_us + clocks(each.plan, each.spec, fit) / MACHINE.clock_mhz
        products.setdefault(each.spec, []).append(math.log(modelled / each.us))
    errors = [abs(x - statistics.median(found)) for found in products.values() for x in found]
    return lost(timings, fit) + WITHIN * sum(errors) / len(errors)


def fitted(
    timings: Sequence[Timing],
    start: ProductClocks,
    names: Sequence[str],
    passes: int = PASSES,
    loss: Callable[[Sequence[Timing], ProductClocks], float] = loss,
) -> tuple[ProductClocks, float]:
    """Fit the named constants."""
    best, least = descended(start, names, lambda fit: loss(timings, fit), passes, FIRST_STEP, LAST_STEP)
    return attrs.evolve(best, timings=f"{len(timings)} timings"), least


def run(words: Sequence[str], tell: Callable[[str], None] = print) -> int:
    """Run the command.

    Raises:
        UsageError: `no-timings`, `unknown-constant`.
    """
    parser = argparse.ArgumentParser("python -m bench fit", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--only", help="constants to fit, separated by commas (default: all)")
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--order", action="store_true", help="fit the order of each product's plans, not their times")
    options = parser.parse_args(words)
    names = options.only.split(",") if options.only else constants_of(FIT)
    if unknown := [name for name in names if name not in constants_of(FIT)]:
        raise UsageError(
            "unknown-constant", f"no constant is called {unknown[0]}", fix=f"use {', '.join(constants_of(FIT))}"
        )
    timings = [each for path in options.files for each in timings_of(path)]
    if not timings:
        raise UsageError(
            "no-timings", "the files hold no record of hopper.gemm with a plan", fix="write them by bench plans -o FILE"
        )
    tell(f"{len(timings)} timings, {_quality(timings, FIT)}")
    best, _ = fitted(timings, FIT, names, options.passes, spread if options.order else loss)
    tell(f"fitted: {_quality(timings, best)}")
    tell("ProductClocks(")
    for field in attrs.fields(ProductClocks):
        value = getattr(best, field.name)
        tell(f"    {field.name}={f'{value:.4g}' if isinstance(value, float) else repr(value)},")
    tell(")")
    return 0


def _quality(timings: Sequence[Timing], fit: ProductClocks) -> str:
    wrong, order = math.expm1(loss(timings, fit)), math.expm1(lost(timings, fit))
    return f"off by {wrong:.1%} on average, the order of plans loses {order:.1%}"
