"""Errors: the whole printed message, for each of its parts present and missing."""

import pickle
from typing import Any

import pytest

from fireiron.base.errors import (
    CallError,
    CheckError,
    CompileError,
    DecompositionError,
    Finding,
    FireironError,
    LayoutError,
    SimulationError,
    SpecError,
    UsageError,
)

FAMILIES = (
    SpecError, LayoutError, DecompositionError, CheckError, CompileError, CallError, SimulationError, UsageError,
)  # fmt: skip

SCHEDULE = """\
# A schedule that tiles a thread's share to a block.
Block = "Block"








my_schedule = (
    spec.tile(64, 64).to("Thread")

    .tile(32, 32).to(Block)
)
"""

STYLE = """\
DecompositionError[level-nests]: cannot map tiles of MatMul 32x32x64 to Block: the spec is already at level Thread
  --> my_schedule.py:14:19
14 |     .tile(32, 32).to(Block)
   |                   ^^^^^^^^^
at:  MatMul @ Kernel > tile 64x64 to Thread > tile 32x32
fix: tile to Block before Thread, or drop this link"""


def level_nests() -> DecompositionError:
    return DecompositionError(
        "level-nests",
        "cannot map tiles of MatMul 32x32x64 to Block: the spec is already at level Thread",
        fix="tile to Block before Thread, or drop this link",
    )


def located(chain: Any, write: Any) -> DecompositionError:
    link = write("my_schedule.py", SCHEDULE, spec=chain).my_schedule.link
    return level_nests().located(link, "MatMul @ Kernel > tile 64x64 to Thread > tile 32x32")


def test_the_printed_form(chain: Any, write: Any) -> None:
    error = located(chain, write)
    assert str(error) == STYLE
    assert error.underlined == "to(Block)"


def test_parts_that_are_missing_are_left_out(chain: Any, write: Any) -> None:
    link = located(chain, write).link
    assert str(SpecError("k-zero", "K is 0")) == "SpecError[k-zero]: K is 0"
    assert str(SpecError("k-zero", "K is 0", fix="drop it")) == "SpecError[k-zero]: K is 0\nfix: drop it"
    assert str(SpecError("k-zero", "K is 0", path="MatMul")) == "SpecError[k-zero]: K is 0\nat:  MatMul"
    assert str(SpecError("k-zero", "K is 0", link=link)) == (
        "SpecError[k-zero]: K is 0\n"
        "  --> my_schedule.py:14:19\n"
        "14 |     .tile(32, 32).to(Block)\n"
        "   |                   ^^^^^^^^^"
    )  # fmt: skip
    assert SpecError("k-zero", "K is 0").underlined == ""


def test_the_lines_of_a_fix_stand_below_each_other() -> None:
    error = SpecError("k-zero", "K is 0", fix="one of\n- drop it\n- pass K")
    assert str(error) == "SpecError[k-zero]: K is 0\nfix: one of\n     - drop it\n     - pass K"


def test_an_error_in_a_preset_shows_both_places(chain: Any, preset: Any, write: Any) -> None:
    gemm = preset("gemm_for_tests.py", "def gemm(spec):\n    return spec.to('Block')\n")["gemm"]
    user = "# one\n# two\nkernel = ampere.gemm(spec)\n"
    kernel = write("user.py", user, ampere=type("ampere", (), {"gemm": gemm}), spec=chain).kernel
    assert str(level_nests().located(kernel.link, "MatMul @ Kernel")) == (
        "DecompositionError[level-nests]: cannot map tiles of MatMul 32x32x64 to Block: "
        "the spec is already at level Thread\n"
        "  --> gemm_for_tests.py:2:17\n"
        " 2 |     return spec.to('Block')\n"
        "   |                 ^^^^^^^^^^^\n"
        "called from user.py:3:17\n"
        " 3 | kernel = ampere.gemm(spec)\n"
        "   |                 ^^^^^^^^^^\n"
        "at:  MatMul @ Kernel\n"
        "fix: tile to Block before Thread, or drop this link"
    )


def test_located_fills_only_what_is_missing(chain: Any, write: Any) -> None:
    first = located(chain, write)
    second = first.located(chain.tile(1).link, "elsewhere")
    assert second is not first
    assert (second.link, second.path) == (first.link, first.path)
    assert str(second) == STYLE
    bare = level_nests()
    bare.located(first.link, first.path)
    assert (bare.link, bare.path) == (None, "")


def test_located_keeps_the_cause() -> None:
    cause = ValueError("x")
    with pytest.raises(SpecError) as caught:
        raise SpecError("k-zero", "K is 0") from cause
    assert caught.value.located(path="MatMul").__cause__ is cause
    assert SpecError("k-zero", "K is 0").located().__cause__ is None


@pytest.mark.parametrize("family", FAMILIES)
def test_families_differ_only_in_name(family: type[FireironError]) -> None:
    assert issubclass(family, FireironError)
    assert str(family("a-code", "a message")) == f"{family.__name__}[a-code]: a message"
    assert type(family("a-code", "a message").located()) is family


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_every_part(chain: Any, write: Any, tmp_path: Any, protocol: int) -> None:
    error = located(chain, write)
    data = pickle.dumps(error, protocol)
    (tmp_path / "my_schedule.py").unlink()
    again = pickle.loads(data)
    assert type(again) is DecompositionError
    assert (again.code, again.message, again.fix, again.path) == (error.code, error.message, error.fix, error.path)
    assert again.underlined == "to(Block)"
    assert str(again) == STYLE


def test_a_finding_prints_its_severity_and_becomes_an_error(chain: Any, write: Any) -> None:
    link = located(chain, write).link
    finding = Finding("idle-warps", "2 of 8 warps have no tile", "warning", fix="tile(64, 64)", link=link, path="Move")
    rest = (
        "[idle-warps]: 2 of 8 warps have no tile\n"
        "  --> my_schedule.py:14:19\n"
        "14 |     .tile(32, 32).to(Block)\n"
        "   |                   ^^^^^^^^^\n"
        "at:  Move\n"
        "fix: tile(64, 64)"
    )
    assert str(finding) == "warning" + rest
    assert str(finding.error()) == "CheckError" + rest
    assert type(finding.error(SimulationError)) is SimulationError


def test_findings_are_equal_wherever_they_were_written(chain: Any) -> None:
    first, second = (Finding("a", "b", link=chain.tile(n).link) for n in (1, 2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Finding("a", "c")
