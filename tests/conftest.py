"""What every test may use: texts compared whole with the files under tests/golden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files, then fail the run")


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A run that writes what it compares with shows nothing.
    if session.config.getoption("--update-golden") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file named below tests/golden; the name must stand in the test as a literal."""

    def compare(text: str, name: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        assert path.is_file(), f"tests/golden/{name} is missing: run pytest --update-golden, and read what it writes"
        assert text == path.read_bytes().decode("utf-8")

    return compare
