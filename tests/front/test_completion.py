"""Tab completion offers what can come next, in unfinished chains too; errors in cells underline the link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from fireiron import RF, SH, SRC, A, Block, Matrix, Move, Thread, matmul
from fireiron.schedules import simt

TILE = {"to", "unroll", "layout", "permute", "persistent", "staggered"}
SPLIT = {"unroll", "pipeline", "parallel", "specialize"}
LOAD = {"pad", "swizzle", "storage_layout", "reuse_buffer", "no_sync"}
REFINE = TILE | SPLIT | LOAD
DECOMPOSE = {"tile", "split", "load", "epilog", "done"}
FINISHED = {"compile", "cuda", "estimate", "simulate", "time"}

Complete = Callable[[str], set[str]]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    """Start IPython with a chain at hand, without history or a profile of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        ip = InteractiveShell(colors="nocolor")
        ip.history_manager.enabled = False
        assert ip.Completer.use_jedi
        ip.run_cell("from fireiron import *\nfrom fireiron.schedules import simt\nspec = matmul(64, 64, 32)")
        yield ip


@pytest.fixture
def complete(shell: InteractiveShell) -> Complete:
    def names(code: str) -> set[str]:
        with provisionalcompleter():
            found = {c.text.removeprefix(".") for c in shell.Completer.completions(code, len(code))}
        return {name for name in found if not name.startswith("_")}

    return names


@pytest.mark.parametrize(
    ("code", "refinements"),
    [
        ("spec.", set()),
        ("matmul(64, 64, 32).", set()),
        ("spec.tile(32, 32).", TILE),
        ("spec.tile(32, 32).to(Block).", TILE),
        ("spec.tile(32, 32).to(Block).persistent().", TILE),
        ("spec.swap().tile(32, 32).to(Cluster).persistent(Grouped(8)).tile(16, 32).", TILE),
        ("spec.split(8).pipeline(2, inflight=1).specialize(registers=(24, 240)).", SPLIT),
        ("spec.tile(32, 32).to(Block).layout(ColMajor).unroll().", TILE),
        ("spec.split(8).", SPLIT),
        ("spec.split(8).pipeline(2).unroll().", SPLIT),
        ("spec.tile(32, 32).to(Block).split(8).load(A, SH).", LOAD),
        ("spec.tile(32, 32).to(Block).split(8).load(A, SH).pad(4).swizzle(Swizzle(2, 3, 3)).", LOAD),
        ("spec.tile(32, 32).to(Block).epilog(memory=RF).", set()),
        ("spec.tile(32, 32).to(Block).epilog(memory=RF).split(8).", SPLIT),
        ("(\n    spec\n    .tile(32, 32).to(Block)\n    .split(8).", SPLIT),
    ],
)
def test_each_link_offers_its_refinements_and_every_decomposition(
    code: str, refinements: set[str], complete: Complete
) -> None:
    found = complete(code)
    assert found >= DECOMPOSE
    assert found & REFINE == refinements


def test_a_finished_schedule_offers_no_link(complete: Complete) -> None:
    for code in ("simt.listing2(spec).", "spec.tile(64, 64).to(Block).tile(1, 1).to(Thread).split(1).done()."):
        found = complete(code)
        assert found >= FINISHED
        assert not found & (DECOMPOSE | REFINE)


@pytest.mark.parametrize(
    ("code", "refinements"),
    [
        ("Move(Matrix(8, 8), Matrix(8, 8)).", set()),
        ("Move(Matrix(8, 8), Matrix(8, 8)).tile(4, 4).to(Block).", TILE | {"pipeline"}),
        ("Move(Matrix(8, 8), Matrix(8, 8)).tile(4, 4).pipeline(2).", TILE | {"pipeline"}),
        ("Move(Matrix(8, 8), Matrix(8, 8)).vectors(4).", TILE | {"pipeline"}),
        ("Move(Matrix(8, 8), Matrix(8, 8)).load(SRC, SH).pad(1).", LOAD),
    ],
)
def test_moves_offer_theirs(code: str, refinements: set[str], complete: Complete) -> None:
    found = complete(code)
    assert found >= {"tile", "vectors", "load", "own", "done"}
    assert not found & {"split", "epilog"}
    assert found & REFINE == refinements


def test_a_chain_at_hand_offers_no_more_than_can_come_next(shell: InteractiveShell, complete: Complete) -> None:
    shell.user_ns["chain"] = matmul(64, 64, 32).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH)
    found = complete("chain.")
    assert found & (REFINE | DECOMPOSE | FINISHED) == LOAD | DECOMPOSE - {"epilog"}
    shell.user_ns["closed"] = simt.listing2(matmul(256, 256, 64))
    found = complete("closed.")
    assert found & (REFINE | DECOMPOSE | FINISHED) == FINISHED


def offered(chain: Any) -> set[str]:
    return {name for name in dir(chain) if not name.startswith("_")}


def test_dir_follows_the_chain() -> None:
    assert "swap" in offered(matmul(64, 64, 32))
    open_ = matmul(64, 64, 32).tile(32, 32).to(Block)
    assert "swap" not in offered(open_)
    assert offered(open_) >= {"epilog", "split", "check", "facts", "tree", "explain", "diff"}
    assert not offered(open_) & FINISHED
    assert "split" not in offered(open_.epilog(memory=RF).split(1))
    assert "then" in offered(open_)
    assert not offered(open_.epilog(memory=RF)) & {"then", "epilog", "left", "right"}
    move = Move(Matrix(64, 64), Matrix(64, 64)).tile(32, 32).to(Block).load(SRC, SH)
    assert "split" not in offered(move)
    assert "tile" not in offered(move.tile(1, 1).to(Thread).done())
    # What is not offered is there all the same.
    assert hasattr(open_, "cuda")
    assert hasattr(open_, "links")


def test_an_error_in_a_cell_underlines_the_link(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("spec.tile(32, 32).to(Block).tile(16, 16).to(Kernel)")
    told = capsys.readouterr().out
    assert "DecompositionError[level-nests]" in told
    line, carets = told.splitlines()[2:4]
    assert line.endswith("spec.tile(32, 32).to(Block).tile(16, 16).to(Kernel)")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "to(Kernel)"
    assert "fix:" in told
    assert "Traceback" not in told


def test_an_error_without_a_link_keeps_its_traceback(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("from fireiron.algebra.arch import arch\narch('sm_1')")
    assert "Traceback" in capsys.readouterr().out


def test_explain_shows_a_table(tmp_path: Path) -> None:
    html = simt.listing2(matmul(256, 256, 64)).explain()._repr_mimebundle_()["text/html"]
    assert html.startswith("<table")
    assert html.count("<tr>") == 1 + len(simt.listing2(matmul(256, 256, 64)).links)
    assert "split 8" in html
    assert "<script" not in html
