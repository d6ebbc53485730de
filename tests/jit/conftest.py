"""Give every test of this layer its own cache folder, and the shared tiny kernel."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"
