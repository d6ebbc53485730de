"""`python -m bench fit`: constants of the model of products, from timings."""

from __future__ import annotations

import attrs
import pytest

from bench.cases import Case
from bench.descent import constants_of
from bench.fit import MACHINE, Timing, fitted, loss, lost, run, spread, timings_of
from bench.results import Result, write
from bench.timer import Times
from fireiron import matmul
from fireiron.base.errors import UsageError
from fireiron.schedules import hopper
from fireiron.schedules._clocks import FIT, clocks
from fireiron.tune.machine import Machine
from fireiron.tune.records import shipped

PLANS = (hopper.Plan(128, 256), hopper.Plan(64, 64, consumers=1), hopper.Plan(128, 128, pingpong=True))


def measured(truth):
    specs = [
        matmul(m, n, k, "bf16", layout="TN") for m, n, k in ((512, 512, 512), (4096, 4096, 256), (256, 8192, 2048))
    ]
    us = lambda plan, spec: MACHINE.launch_us + clocks(plan, spec, truth) / MACHINE.clock_mhz  # noqa: E731
    return [Timing(plan, spec, us(plan, spec)) for plan in PLANS for spec in specs]


def test_the_machines_constants_are_data() -> None:
    assert MACHINE.products == FIT
    assert "latency" in constants_of(FIT)


def test_a_slower_machine_is_found() -> None:
    truth = attrs.evolve(FIT, latency=FIT.latency * 1.5, store_rate=FIT.store_rate * 0.7)
    timings = measured(truth)
    assert loss(timings, truth) == 0
    before = loss(timings, FIT)
    best, least = fitted(timings, FIT, ["latency", "store_rate"])
    assert least < before / 4
    assert best.latency > FIT.latency * 1.2
    assert best.store_rate < FIT.store_rate * 0.9
    assert best.turns == FIT.turns


def test_records_of_tuning_are_read() -> None:
    said: list[str] = []
    assert run([str(path) for path in shipped()] + ["--only", "latency", "--passes", "1"], said.append) == 0
    assert "timings, off by" in said[0]
    assert said[2] == "ProductClocks("


def test_no_constant_and_no_timings(tmp_path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(UsageError) as caught:
        run([str(tmp_path / "none.jsonl")])
    assert caught.value.code == "no-timings"
    with pytest.raises(UsageError) as caught:
        run([str(tmp_path / "none.jsonl"), "--only", "weight"])
    assert caught.value.code == "unknown-constant"


def test_results_of_plans_are_read(tmp_path) -> None:
    case, path = Case(512, 512, 512, "bf16", "TN"), tmp_path / "plans.jsonl"
    names = [f"hopper.gemm plan={plan}" for plan in PLANS] + ["torch"]
    results = [
        Result("", case, name, ours=name != "torch", times=Times(us, us, us, 9, ""))
        for name, us in zip(names, (12.0, 10.0, 15.0, 9.0), strict=True)
    ]
    write(str(path), [each.to_json(Machine("a GPU", "sm_90a")) for each in results])
    assert [(each.plan, each.us) for each in timings_of(path)] == list(zip(PLANS, (12.0, 10.0, 15.0), strict=True))
    said: list[str] = []
    assert run([str(path), "--order", "--only", "latency", "--passes", "1"], said.append) == 0
    assert said[0].startswith("3 timings, off by")


def test_the_order_is_fitted() -> None:
    truth = attrs.evolve(FIT, smaller=FIT.smaller * 3)
    timings = measured(truth)
    assert lost(timings, truth) == 0
    assert lost(timings, FIT) > 0
    best, _ = fitted(timings, FIT, ["smaller"], loss=spread)
    assert lost(timings, best) < lost(timings, FIT)
