"""The first call of a product whose launches another process compiled: nothing is chosen, built or lowered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fireiron import matmul
from fireiron.front import best, host, realigned, several
from fireiron.front.kept_copies import kept_copies
from fireiron.front.realigned import Copies
from fireiron.jit import choices

ARCH = "sm_90a"
SIZES = (72, 133, 93)


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    monkeypatch.setattr(host, "without_gpu", lambda: False)
    best.forget()
    yield
    best.forget()


def spec(sizes: tuple[int, int, int] = SIZES) -> Any:
    return matmul(*sizes, "f16", layout="NN", arch=ARCH)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let copies cost nothing: small products are planned with them."""
    monkeypatch.setattr(realigned, "LAUNCH_US", -1000.0)


def another_process(sizes: tuple[int, int, int] = SIZES) -> Any:
    """Choose, compile, and forget all but what the disk holds."""
    found = several.compiled_for(spec(sizes))
    best.forget()
    return found


def nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realigned, "realigned", None)
    monkeypatch.setattr(best, "choose", None)
    monkeypatch.setattr(realigned, "copy_of", None)
    monkeypatch.setattr("fireiron.kernel.lower.kernel.lower", None)


def of_disk() -> Any:
    return kept_copies(spec(), ARCH, lambda: pytest.fail("one launch is not asked for"))


def test_the_launches_are_read_from_disk(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_disk() is None
    first = another_process()
    with monkeypatch.context() as patched:
        nothing_is_chosen(patched)
        found = several.compiled_for(spec())
    assert isinstance(found, Copies)
    for one, other in zip(
        (found.product, *found.copies, found.back), (first.product, *first.copies, first.back), strict=True
    ):
        assert one is not None
        assert one.binary == other.binary


def test_they_give_the_product(eager: None) -> None:
    another_process()
    found = of_disk().copies
    m, n, k = SIZES
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    np.testing.assert_array_equal(found(a, b), (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


def test_matrices_with_whole_lines_are_not_copied(eager: None) -> None:
    sizes = (72, 136, 93)
    another_process(sizes)
    found = kept_copies(spec(sizes), ARCH, lambda: None)  # type: ignore[arg-type, return-value]
    assert found is not None
    assert found.copies is not None
    assert [copy is None for copy in (*found.copies.copies, found.copies.back)] == [False, True, True]


def test_one_launch_is_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert another_process() is None
    nothing_is_chosen(monkeypatch)
    assert of_disk().copies is None
    assert several.compiled_for(spec()) is None


def test_none_where_a_kernel_is_missing(eager: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    another_process()
    for path in tmp_path.glob("*.kernel"):
        kept = path.read_bytes()
        path.unlink()
        assert of_disk() is None
        best.forget()
        path.write_bytes(kept)
    assert of_disk() is not None


@pytest.mark.parametrize("facts", [{}, {"copies": "A"}, {"copies": {"A": 7, "B": 7, "C": 7}}], ids=str)
def test_other_facts_are_not_taken(eager: None, monkeypatch: pytest.MonkeyPatch, facts: Any) -> None:
    another_process()
    read = choices.kept_choice
    monkeypatch.setattr(choices, "kept_choice", lambda key: facts if key.startswith("copies") else read(key))
    assert of_disk() is None


def test_none_where_a_record_decides(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    another_process()
    monkeypatch.setattr(best, "_recorded", lambda asked, kept: iter([(None, None, "")]))
    assert of_disk() is None


def test_none_where_the_table_of_instructions_was_changed(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    another_process()
    monkeypatch.setattr("fireiron.atoms.table.content", lambda: "other rows")
    assert of_disk() is None
