"""The catalogue of errors is whole: every code is in it, and every test of a mistake is an example."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fireiron.base.errors import FireironError
from fireiron.front.catalogue import PACKAGE, catalogue, mistakes, mistakes_folder, why
from fireiron.front.cli import main

ROOT = Path(__file__).resolve().parents[2]


def test_the_link_is_committed_as_a_link() -> None:
    link = PACKAGE / "front/mistakes"
    if link.is_symlink():
        assert os.readlink(link) == "../../tests/errors"
    assert (mistakes_folder() / "test_tile_size.py").is_file()


def test_where_git_makes_no_links_the_file_leads_there(tmp_path: Path) -> None:
    (tmp_path / "fireiron/front").mkdir(parents=True)
    (tmp_path / "fireiron/front/mistakes").write_text("../../tests/errors")
    (tmp_path / "tests/errors").mkdir(parents=True)
    assert mistakes_folder(tmp_path / "fireiron") == (tmp_path / "tests/errors").resolve()


@pytest.mark.parametrize("file", sorted((ROOT / "tests/errors").glob("test_*.py")), ids=lambda file: file.stem)
def test_every_test_of_a_mistake_is_an_example(file: Path) -> None:
    found = list(mistakes(file.read_text(encoding="utf-8")))
    assert found
    for code, mistake in found:
        assert mistake in why(code).mistakes
        assert f"[{code}]" in mistake.printed
        assert mistake.source
        assert mistake.title


def test_codes_without_an_example_say_where_they_are_raised() -> None:
    for entry in catalogue():
        assert entry.title
        if not entry.mistakes:
            assert all((ROOT / each.where).is_file() for each in entry.raised)
            assert "raised in fireiron/" in str(entry)


def test_a_message_that_a_name_stands_for_is_found() -> None:
    assert "which no thread wrote" in why("uninitialised-read").title
    assert not any("(" in name for entry in catalogue() for name in re.findall(r"\{([^}]*)\}", entry.title))


def test_findings_are_in_it() -> None:
    assert why("bank-conflicts").raised[0].family == "Finding"


def test_a_whole_error_may_be_asked_about() -> None:
    assert why("DecompositionError[level-nests]: cannot map tiles").code == "level-nests"


def test_an_unknown_code_names_its_neighbours() -> None:
    with pytest.raises(FireironError) as caught:
        why("level-nest")
    assert (caught.value.code, caught.value.fix) == ("unknown-code", "perhaps level-nests, level-units")


def test_the_command_prints_an_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "level-nests"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("level-nests (DecompositionError)\n")
    assert "return matmul(64, 64, 64).tile(4, 4).to(Thread)" in told
    assert "fix: tile to Block first" in told


def test_the_command_lists_all_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [entry.code for entry in catalogue()]
    assert max(map(len, lines)) <= 80


def test_the_command_refuses_an_unknown_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "no-such-code-at-all"]) == 2
    assert "unknown-code" in capsys.readouterr().err
