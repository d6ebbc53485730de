"""Give the tests of this folder the fake laboratory, and poison its arrays without torch."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))


@pytest.fixture(autouse=True)
def poison(monkeypatch, tmp_path):
    from importlib import import_module

    from fake_lab import Poisonable

    from bench import arrays

    for module in (
        import_module(f"bench.{name}") for name in ("classes", "main", "measure", "session")
    ):  # also where there is one: tests/gpu has the tests that use it
        monkeypatch.setattr(module, "why_not_timed", lambda: "there is no GPU here")
    torch_poisoned = arrays.poisoned

    def poisoned(out):
        if isinstance(out, Poisonable):
            return Poisonable(np.full_like(out.array, np.nan))
        return torch_poisoned(out)

    monkeypatch.setattr(arrays, "poisoned", poisoned)
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
