"""Schedules that take the place of one that the compiler builds poorly: which are compiled, and what is kept."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fireiron import Matrix, gelu, matmul, save
from fireiron.algebra.arch import arch
from fireiron.base.errors import CompileError
from fireiron.front import best, fallback
from fireiron.front.digest import digest
from fireiron.graph.dependent import dependent
from fireiron.graph.kept_schedule import KeptSchedule
from fireiron.jit import build as building

ARCH = "sm_90a"


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    best.forget()
    yield
    best.forget()


def product() -> Any:
    """Describe a product whose epilog has two results, so that tensors of wide tiles are more than all registers."""
    return matmul(12288, 3072, 768, "f16", layout="TN").then(save(Matrix(12288, 3072, "f16", name="y"), of=gelu))


def after(schedule: Any, most: int) -> list[Any]:
    """List the next choices after a schedule."""
    return list(itertools.islice(schedule._fallback.choices(ARCH), most))


def fits(*_: object) -> int:
    """Say that no registers are lacking."""
    return 0


def digest_of(schedule: Any) -> str:
    return digest(schedule.program, schedule.links, schedule.name)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List what is compiled, by a compiler that spills where tensors are more than a thread's registers."""
    found: list[str] = []

    def spilling(digest: str, lower: Callable[[], Any], arch: Any, *rest: Any, **options: Any) -> Any:
        found.append(digest)
        if fallback.registers_lacking(lower(), arch) > 0:
            raise CompileError("spills", "a thread spills 8 B")
        return digest

    monkeypatch.setattr(building, "build", spilling)
    return found


def test_choices_that_need_as_many_registers_as_one_that_spilled_are_not_compiled(tried: list[str]) -> None:
    first = best.best(product(), ARCH)
    others = after(first, 12)
    made: Any = first.compile(ARCH)
    needs = [fallback.registers_lacking(each.schedule.lowered(ARCH), arch(ARCH)) for each in others]
    place = next(i for i, lacking in enumerate(needs) if lacking <= 0)
    assert made == digest_of(others[place].schedule)  # the first one that fits
    assert len(tried) < place  # so many spill before it
    assert digest_of(best.best(product(), ARCH)) == made


def test_where_other_tensors_fit_every_choice_is_compiled(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "registers_lacking", fits)
    first = best.best(product(), ARCH)
    others = [digest_of(each.schedule) for each in after(first, 3)]

    def spilling(digest: str, *rest: Any, **options: Any) -> Any:
        tried.append(digest)
        if digest != others[-1]:
            raise CompileError("spills", "a thread spills 8 B")
        return digest

    monkeypatch.setattr(building, "build", spilling)
    assert first.compile(ARCH) == others[-1]
    assert tried == [digest_of(first), *others]


def test_another_error_of_a_choice_is_raised(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = best.best(product(), ARCH)

    def failing(digest: str, *rest: Any, **options: Any) -> Any:
        tried.append(digest)
        raise CompileError("spills" if len(tried) == 1 else "nvrtc", "no kernel")

    monkeypatch.setattr(building, "build", failing)
    with pytest.raises(CompileError, match="nvrtc"):
        first.compile(ARCH)


def test_what_takes_the_place_of_a_dependent_schedule_is_dependent(tried: list[str]) -> None:
    first = best.best(product(), ARCH)
    made: Any = dependent(first).compile(ARCH)
    assert made == digest_of(dependent(best.best(product(), ARCH)))


def test_a_kept_schedule_finds_what_took_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Any:
        raise AssertionError("the schedule is built again")

    first = best.best(matmul(64, 64, 64, "f16"), ARCH)
    real = building.build

    def spilling(digest: str, *rest: Any, **options: Any) -> Any:
        if digest == digest_of(first):
            raise CompileError("spills", "a thread spills 8 B")
        return real(digest, *rest, **options)

    with monkeypatch.context() as patched:
        patched.setattr(building, "build", spilling)
        made = first.compile(ARCH)
    kept = KeptSchedule(digest_of(first), first.name, ARCH, unknown, lambda: None)
    assert kept.compile().binary == made.binary
