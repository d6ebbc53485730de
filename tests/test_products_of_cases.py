"""Of tests marked `product`, each run has cases with every value of every parameter, the exhaustive run the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parent / "conftest.py"
TESTS = """
import pytest

@pytest.mark.product
@pytest.mark.parametrize("a", ["x", "y", "z"])
@pytest.mark.parametrize(("b", "c"), [(1, 2), (3, 4), (5, 6), (7, 8)])
def test_product(a, b, c):
    pass

@pytest.mark.product
@pytest.mark.parametrize("a", [1, 2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_one_parameter(a):
    pass

@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize("b", [1, 2])
def test_unmarked(a, b):
    pass
"""


@pytest.mark.parametrize(
    ("which", "products", "others", "unmarked"), [("not exhaustive", 4, 2, 4), ("exhaustive", 8, 1, 0), ("", 12, 3, 4)]
)
def test_every_value_is_in_every_run(tmp_path: Path, which: str, products: int, others: int, unmarked: int) -> None:
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "test_cases.py").write_text(TESTS)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        which,
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    said = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path).stdout
    names = [line.partition("::")[2] for line in said.splitlines() if "::" in line]
    found = [sum(name.startswith(test) for name in names) for test in ("test_product", "test_one", "test_unmarked")]
    assert found == [products, others, unmarked]
    if which == "not exhaustive":
        kept = " ".join(name for name in names if name.startswith("test_product"))
        assert all(value in kept for value in ("x", "y", "z", "1-2", "3-4", "5-6", "7-8"))
