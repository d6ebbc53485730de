"""Every golden file is compared by some test, and a file that none names is found."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent


def orphans(tests: Path) -> list[str]:
    """List the golden files whose name stands in no test's source."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in sorted(tests.rglob("test_*.py")))
    names = (
        path.relative_to(tests / "golden").as_posix()
        for path in sorted((tests / "golden").rglob("*"))
        if path.is_file()
    )
    return [name for name in names if f'"{name}"' not in sources]


def test_every_golden_file_is_compared() -> None:
    assert orphans(TESTS) == []


def test_a_planted_orphan_is_found(tmp_path: Path) -> None:
    for name in ("golden/cuda/used.cu", "golden/cuda/orphan.cu"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "test_x.py").write_text('golden(text, "cuda/used.cu")\n')
    assert orphans(tmp_path) == ["cuda/orphan.cu"]
