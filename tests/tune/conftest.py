"""Give every test its own records, and the helpers of this folder."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    """Compile a candidate once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_files(tmp_path, shared_cache, monkeypatch):
    from fireiron.front import best

    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(shared_cache))
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    best.forget()
    yield
    best.forget()
