"""The first call of a product whose kernel another process compiled: no schedule is chosen, built or lowered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fireiron import matmul
from fireiron.front import best
from fireiron.jit import cache, choices, passed

ARCH = "sm_80"


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    best.forget()
    yield
    best.forget()


def spec() -> Any:
    return matmul(64, 96, 32, "f16", layout="TN")


def another_process(made: bool = True) -> None:
    """Choose, compile, and forget all but what the disk holds."""
    schedule = best.best(spec(), ARCH)
    if made:
        schedule.compile(ARCH)
    best.forget()


def test_it_is_the_kernel_of_the_choice_and_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    assert best.kept_kernel(spec(), ARCH) is None
    another_process()
    with monkeypatch.context() as patched:
        patched.setattr(best, "choose", None)
        patched.setattr("fireiron.kernel.lower.kernel.lower", None)
        found = best.kept_kernel(spec(), ARCH)
    assert found is not None
    assert found.binary == best.best(spec(), ARCH).compile(ARCH).binary


def test_it_is_simulated_where_there_is_no_gpu() -> None:
    another_process()
    found = best.kept_kernel(spec(), ARCH)
    assert found is not None
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 32), (96, 32)))
    np.testing.assert_array_equal(found(a, b), (a.astype(np.float32) @ b.T.astype(np.float32)).astype(np.float16))


def test_none_where_the_kernel_was_not_compiled() -> None:
    another_process(made=False)
    assert best.kept_kernel(spec(), ARCH) is None


def test_none_where_this_process_has_chosen() -> None:
    another_process()
    best.best(spec(), ARCH)
    assert best.kept_kernel(spec(), ARCH) is None


def test_none_where_a_record_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    another_process()
    monkeypatch.setattr(best, "_recorded", lambda asked, kept: iter([(None, None, "")]))
    assert best.kept_kernel(spec(), ARCH) is None


def test_none_where_the_table_of_instructions_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    another_process()
    monkeypatch.setattr("fireiron.atoms.table.content", lambda: "other rows")
    assert best.kept_kernel(spec(), ARCH) is None


def test_choices_behind_one_that_the_compiler_does_not_build_are_kept_too() -> None:
    from fireiron.jit.compile import compiler

    text = best._asked(spec(), ARCH)  # pyright: ignore[reportPrivateUsage]
    first = best.choose(spec(), ARCH).point
    passed.pass_over(text, [first], compiler())
    best.forget()
    second = best.choose(spec(), ARCH).point
    assert second != first
    best.best(spec(), ARCH).compile(ARCH)
    best.forget()
    assert best.kept_kernel(spec(), ARCH) is not None


@pytest.mark.parametrize("module", [choices, passed])
def test_what_an_edited_library_chose_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: Any
) -> None:
    from fireiron.jit.compile import compiler

    monkeypatch.setattr(module, "is_edited", lambda: True)
    choices.keep_choice("a product", {"preset": "ampere.gemm"})
    passed.pass_over("a product", ["ampere.gemm(spec)"], compiler())
    suffix = {choices: choices.SUFFIX, passed: passed.SUFFIX}[module]
    assert not list(tmp_path.glob(f"*{suffix}"))
    assert len(list(tmp_path.glob(f"*{choices.SUFFIX}")) + list(tmp_path.glob(f"*{passed.SUFFIX}"))) == 1


def test_the_library_is_looked_at_once() -> None:
    first = cache.first_digest()
    assert first == cache.first_digest()
    assert cache.cache_key("digest", ARCH, best_options()) == cache.cache_key("digest", ARCH, best_options(), first)
    assert cache.cache_key("digest", ARCH, best_options(), "another") != cache.cache_key("digest", ARCH, best_options())


def best_options() -> Any:
    from fireiron.jit.compile import CompileOptions

    return CompileOptions()


def test_choices_that_are_kept_together_are_written_at_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks: list[None] = []
    monkeypatch.setattr(choices, "is_edited", lambda: bool(looks.append(None)))
    with choices.kept_together():
        choices.keep_choice("one", {"place": (1, 2)})
        with choices.kept_together():
            choices.keep_choice("other", {})
            choices.keep_choice("third", {})
        assert choices.kept_choice("one") == {"place": [1, 2]}  # as the file gives it
        choices.drop_choice("third")
        assert not list(tmp_path.rglob(f"*{choices.SUFFIX}"))
    assert choices.kept_choice("one") == {"place": [1, 2]}
    assert choices.kept_choice("other") == {}
    assert choices.kept_choice("third") is None
    assert len(looks) == 1


def test_the_presets_to_search_are_those_of_all_that_have_a_space() -> None:
    from fireiron.front.cli import find
    from fireiron.tune.space import space_of

    listed = [(target.reference, target.made) for target in find.presets() if space_of(target.made) is not None]
    assert [(preset.name, preset.function) for preset in best.presets()] == listed
