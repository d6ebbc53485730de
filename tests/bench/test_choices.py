"""What `best` chooses for drawn products is built without spills by the installed compiler."""

from __future__ import annotations

import random

import pytest

from bench import choices


def test_drawn_products_are_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert choices.run(["--count", "1", "--seed", "3"]) == 0, capsys.readouterr().out
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == list(choices.ARCHITECTURES)
    assert all("1 products, 0 not built" in line for line in said)


def test_draws_cover_every_type_layout_and_epilog() -> None:
    said = [choices.product(random.Random(seed), "sm_90a")[0] for seed in range(150)]
    for words in (choices.TYPES, choices.SMALL_TYPES, choices.LAYOUTS, choices.EPILOGS):
        assert all(any(word in line for line in said) for word in words)


def test_what_is_not_built_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from fireiron.base.errors import CompileError
    from fireiron.jit import build as building

    def spilling(*rest: object, **options: object) -> None:
        raise CompileError("nvrtc", "does not compile")

    monkeypatch.setattr(building, "build", spilling)
    assert choices.run(["--count", "1", "--arch", "sm_80"]) == 1
    assert "nvrtc: does not compile" in capsys.readouterr().out
