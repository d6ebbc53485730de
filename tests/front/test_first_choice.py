"""How many candidates the first choice of a product looks at."""

from __future__ import annotations

import pytest

from fireiron import matmul
from fireiron.front import best


def test_presets_for_which_there_is_no_instruction_are_left_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """No warp multiplies f32: of each preset for tensor cores one point is looked at, where all were."""
    from fireiron.tune import candidates

    looked: list[str] = []
    judge = candidates.judge

    def counted(candidate: candidates.Candidate, spec: object, arch: str) -> candidates.Judged:
        looked.append(candidate.preset.name)
        return judge(candidate, spec, arch)

    monkeypatch.setattr(candidates, "judge", counted)
    best.forget()
    monkeypatch.setenv("FIREIRON_CACHE_DIR", "")  # no choice is read from disk
    found = best.choose(matmul(712, 568, 328), "sm_90a").candidate
    assert found is not None
    assert found.preset.name == "simt.sgemm"
    assert len(looked) < 15
    assert all(looked.count(name) == 1 for name in looked if name != "simt.sgemm")
