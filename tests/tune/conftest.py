"""Give every test its own cache and records, and the helpers of this folder."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def own_files(tmp_path, monkeypatch):
    from fireiron.front import best

    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    best.forget()
    yield
    best.forget()
