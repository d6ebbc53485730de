"""How many candidates the first choice of a product looks at."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import matmul
from fireiron.front import best


def test_presets_for_which_there_is_no_instruction_are_left_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """No warp multiplies f32: of each preset for tensor cores one point is looked at, where all were."""
    from fireiron.tune import candidates

    looked: list[str] = []
    check = candidates.check

    def counted(candidate: candidates.Candidate, spec: object, arch: str) -> candidates.Checked:
        looked.append(candidate.preset.name)
        return check(candidate, spec, arch)

    monkeypatch.setattr(candidates, "check", counted)
    best.forget()
    monkeypatch.setenv("FIREIRON_CACHE_DIR", "")  # no choice is read from disk
    found = best.choose(matmul(712, 568, 328), "sm_90a").candidate
    assert found is not None
    assert found.preset.name == "ampere.sgemm"
    assert len(looked) < 8
    assert all(looked.count(name) == 1 for name in looked)


def test_a_preset_that_ranks_its_points_itself_is_not_modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first legal point is taken; the time is estimated when it is read."""
    from fireiron.estimate import model

    asked: list[object] = []
    estimate = model.estimate

    def counted(kernel: Any, *rest: Any, **more: Any) -> model.Estimate:
        asked.append(kernel)
        return estimate(kernel, *rest, **more)

    monkeypatch.setattr(model, "estimate", counted)
    monkeypatch.setenv("FIREIRON_CACHE_DIR", "")
    best.forget()
    found = best.choose(matmul(264, 520, 136, "f16", layout="TN"), "sm_90a")
    assert not asked
    assert found.modelled_us
    assert len(asked) == 1


def test_the_quick_model_alone_ranks_a_preset_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first legal point is taken, and the cost model is asked about no other; other types have none."""
    from fireiron.front.model_choice import Question

    spec = matmul(1456, 1776, 1984)
    monkeypatch.setenv("FIREIRON_CACHE_DIR", "")
    named = next(p for p in best.presets() if p.name == "ampere.sgemm")
    first, *_ = Question(spec, "sm_90a").shortlist(named) or ()
    best.forget()
    found = best.choose(spec, "sm_90a")
    assert found.candidate.point == first
    assert found.why == "no record: the preset's own first choice, not measured"
    assert Question(matmul(256, 256, 256, "f16"), "sm_90a").order(named) == ()


@pytest.mark.parametrize(("size", "name"), [(2048, "simt.sgemm"), (2032, "ampere.sgemm"), (1024, "ampere.sgemm")])
def test_large_sizes_that_tiles_divide_are_copied_through_registers(size: int, name: str) -> None:
    """Such copies have no guards: 0.97 of torch's speed at 2048 and 4096 on an H200, 0.89 and 0.92 asynchronously."""
    found = best.choose(matmul(size, size, size, "f32"), "sm_90a").candidate
    assert found is not None
    assert found.preset.name == name
