"""The tuner takes programs: a convolution's presets have spaces, and `best` takes the fastest record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import helpers
import pytest
from helpers import FakeMeasurer

import fireiron as fi
from fireiron import relu, symbol, tensor
from fireiron.front import best as choosing
from fireiron.schedules import akg, conv, conv_gradients
from fireiron.tune.machine import Machine
from fireiron.tune.measurer import proof_of
from fireiron.tune.problem import problem
from fireiron.tune.records import append
from fireiron.tune.search import tune
from fireiron.tune.space import arguments, space_of


def spec_of(n: int = 4, channels: int = 64, **options: Any) -> Any:
    x, f = tensor(n, 8, 8, channels, dtype="f16"), tensor(64, 3, 3, channels, dtype="f16", name="f")
    return conv.conv2d(x, f, tensor(64, name="bias"), **{"pad": 1, "op": relu, "arch": "sm_90a", **options})


PRESETS = [
    conv.simt, conv.channelwise, conv.mma, conv.packed, conv.wgmma, akg.conv, conv_gradients.filters_simt,
    conv_gradients.filters_mma, conv_gradients.filters_wgmma,
]  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_of_convolutions_have_spaces(preset: Any) -> None:
    declared = space_of(preset)
    assert declared is not None
    assert declared.of(spec_of()).size > 4


def test_plans_of_wgmma_are_its_space_in_their_order() -> None:
    declared = space_of(conv.wgmma)
    assert declared is not None
    first = next(iter(declared.of(spec_of()).points()))
    (plan,) = arguments(conv.wgmma, first).values()
    assert plan == conv.plans(spec_of())[0]
    assert conv.wgmma(spec_of(), plan=plan).cuda() == conv.wgmma(spec_of()).cuda()
    assert conv.wgmma(spec_of(), plan=plan, channels=64, groups=2, pixels=128).name == "wgmma_2x8x8x64x1_f16"


def test_problems_of_programs_differ_by_what_is_computed() -> None:
    base = problem(spec_of())
    assert (base.m, base.n, base.k, base.a, base.acc, base.c) == (256, 64, 576, "f16", "f32", "f16")
    assert base.kind.startswith("conv2d #")
    assert problem(spec_of()) == base
    assert problem(spec_of(n=8)).family == base.family
    others = [spec_of(n=8), spec_of(channels=32), spec_of(pad=0), spec_of(op=None), spec_of(stride=2)]
    assert len({problem(spec).meaning for spec in others} | {base.meaning}) == 6
    n = symbol("n")
    x, f = tensor(n, 8, 8, 16, dtype="f16"), tensor(16, 3, 3, 16, dtype="f16", name="f")
    assert problem(conv.conv2d(x, f)).m == 0


def test_a_convolution_is_tuned_and_best_takes_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurer proves each candidate on whole numbers first, as the GPU's does."""
    seen: list[str] = []

    class Proving(FakeMeasurer):
        def trial(self, index: int, built: Any, samples: int) -> Any:
            made = proof_of(built, spec_of())
            assert {part.tensor.name for part in made.parts} == {"y"}
            seen.append(str(built.candidate))
            return super().trial(index, built, samples)

    measurer = Proving(lambda keywords: 5.0 + abs((keywords["pixels"] or 99) - 64) + abs(keywords["stages"] - 2))
    space = {"pixels": (64, 128), "channels": (64,), "stages": (2, 3)}
    records = tmp_path / "records.jsonl"
    with ThreadPoolExecutor(1) as executor:
        tuned = tune(
            spec_of(), conv.mma, space=space, measurer=measurer, executor=executor, records=records, budget_s=60,
            arch="sm_90a",
        )  # fmt: skip
    assert tuned.best is not None
    assert tuned.best.schedule == "conv.mma(spec, channels=64, pixels=64, stages=2)"
    assert len(seen) == 4
    monkeypatch.setenv("FIREIRON_RECORDS", str(records))
    monkeypatch.setattr(choosing, "_machine", lambda: helpers.GPU)
    choosing.forget()
    try:
        assert fi.best(spec_of()).cuda() == conv.mma(spec_of(), pixels=64, channels=64, stages=2).cuda()
        assert fi.best(spec_of(n=5)).name.startswith("wgmma")  # a record of another problem is no guide
    finally:
        monkeypatch.undo()
        choosing.forget()


def test_records_that_no_longer_build_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = tmp_path / "records.jsonl"
    append(records, [helpers.record(1.0, problem(spec_of()), preset="conv.mma", depth=7)])
    monkeypatch.setenv("FIREIRON_RECORDS", str(records))
    monkeypatch.setattr(choosing, "_machine", lambda: Machine("NVIDIA Test GPU", "sm_90a"))
    choosing.forget()
    try:
        assert fi.best(spec_of()).name.startswith("wgmma")
    finally:
        monkeypatch.undo()
        choosing.forget()
