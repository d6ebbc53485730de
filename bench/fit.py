"""Fit the model of products to timings: `python -m bench fit FILE.jsonl... [--only CONSTANT,...] [--passes N]`.

Files hold records of tuning (`fireiron tune -o FILE`); records of `hopper.gemm` with a plan are used. The command
prints the fitted constants as the `ProductClocks` of `fireiron/algebra/machine.py`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from fireiron import MatMulChain, ProductClocks, machine, matmul
from fireiron.base.errors import UsageError
from fireiron.schedules import hopper
from fireiron.schedules._clocks import FIT, clocks
from fireiron.tune.records import Record, read
from fireiron.tune.space import arguments

MACHINE = machine("sm_90a")
PASSES, FIRST_STEP, LAST_STEP = 12, 0.2, 0.005  # steps are parts of a constant


@attrs.frozen
class Timing:
    """Hold one plan of one product, and the microseconds that it took."""

    plan: hopper.Plan
    spec: MatMulChain
    us: float


def timing(record: Record) -> Timing | None:
    """Read a record; None where it is not of a plan."""
    if record.preset != "hopper.gemm" or not record.us:
        return None
    plan = arguments(hopper.gemm, record.point).get("plan")
    p = record.problem
    if not isinstance(plan, hopper.Plan) or p.kind or p.given or p.scaled or 0 in (p.m, p.n, p.k):
        return None
    return Timing(
        plan, matmul(p.m, p.n, p.k, p.a, out=p.c, layout=p.layout, batch=p.batch if p.batch > 1 else None), record.us
    )


def loss(timings: Sequence[Timing], fit: ProductClocks) -> float:
    """Return the model's mean error: the mean of |log(modelled / measured)|."""
    total = 0.0
    for each in timings:
        modelled = MACHINE.launch_us + clocks(each.plan, each.spec, fit) / MACHINE.clock_mhz
        total += abs(math.log(modelled / each.us))
    return total / len(timings)


def fitted(
    timings: Sequence[Timing], start: ProductClocks, names: Sequence[str], passes: int = PASSES
) -> tuple[ProductClocks, float]:
    """Move one constant at a time while the model comes closer; steps shrink when none does."""
    best, least, step = start, loss(timings, start), FIRST_STEP
    for _ in range(passes):
        before = least
        for name in names:
            for factor in (1 + step, 1 / (1 + step)):
                tried = attrs.evolve(best, **{name: getattr(best, name) * factor})
                found = loss(timings, tried)
                if found < least:
                    best, least = tried, found
        if least == before:
            step /= 2
        if step < LAST_STEP:
            break
    return attrs.evolve(best, timings=f"{len(timings)} timings"), least


def free() -> list[str]:
    """List the constants that are one number each."""
    return [f.name for f in attrs.fields(ProductClocks) if isinstance(getattr(FIT, f.name), float)]


def run(words: Sequence[str], tell: Callable[[str], None] = print) -> int:
    """Run the command.

    Raises:
        UsageError: `no-timings`, `unknown-constant`.
    """
    parser = argparse.ArgumentParser("python -m bench fit", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--only", help="constants to fit, separated by commas (default: all)")
    parser.add_argument("--passes", type=int, default=PASSES)
    options = parser.parse_args(words)
    names = options.only.split(",") if options.only else free()
    if unknown := [name for name in names if name not in free()]:
        raise UsageError("unknown-constant", f"no constant is called {unknown[0]}", fix=f"use {', '.join(free())}")
    found = [timing(record) for path in options.files for record in read(path).records]
    timings = [each for each in found if each is not None]
    if not timings:
        raise UsageError(
            "no-timings", "the files hold no record of hopper.gemm with a plan", fix="write records by fireiron tune"
        )
    tell(f"{len(timings)} timings, off by {math.expm1(loss(timings, FIT)):.1%} on average")
    best, least = fitted(timings, FIT, names, options.passes)
    tell(f"fitted: off by {math.expm1(least):.1%}")
    tell("ProductClocks(")
    for field in attrs.fields(ProductClocks):
        value = getattr(best, field.name)
        tell(f"    {field.name}={f'{value:.4g}' if isinstance(value, float) else repr(value)},")
    tell(")")
    return 0
