"""Tests in tests/gpu are skipped with a reason where there is no GPU, and only there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CONFTEST = Path(__file__).resolve().parent / "gpu/conftest.py"


@pytest.mark.parametrize(
    ("probe", "skipped", "passed"),
    [("lambda: 'no NVIDIA GPU: planted'", 1, 1), ("lambda: None", 0, 2)],
)
def test_gpu_tests_skip_only_without_a_gpu(pytester: pytest.Pytester, probe: str, skipped: int, passed: int) -> None:
    folder = pytester.path / "gpu"
    folder.mkdir()
    shutil.copy(CONFTEST, folder / "conftest.py")
    with (folder / "conftest.py").open("a") as file:
        file.write(f"\nwhy_no_gpu = {probe}\n")
    (folder / "test_on_gpu.py").write_text("def test_it(gpu):\n    assert gpu == 0\n")
    (pytester.path / "test_off_gpu.py").write_text("def test_it():\n    pass\n")
    result = pytester.runpytest_subprocess("-rs")
    result.assert_outcomes(passed=passed, skipped=skipped)
    if skipped:
        result.stdout.fnmatch_lines(["*no NVIDIA GPU: planted*"])
