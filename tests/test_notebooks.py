"""Every notebook runs top to bottom without a GPU, and is committed with its outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def run(notebook: nbformat.NotebookNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute every cell in a fresh kernel that sees no GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    # The kernel's debugger otherwise warns about frozen modules in every output.
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    resources = {"metadata": {"path": str(ROOT / "notebooks")}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()


def missing_outputs(notebook: nbformat.NotebookNode) -> list[str]:
    """Say what a committed notebook lacks: cells that never ran, errors, or any output at all."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    found = [f"cell {i} was not run" for i, cell in enumerate(cells) if cell.execution_count is None]
    found += [
        f"cell {i} shows an error" for i, cell in enumerate(cells) for o in cell.outputs if o.output_type == "error"
    ]
    return found if any(cell.outputs for cell in cells) else [*found, "no cell has an output"]


def unread(notebook: nbformat.NotebookNode) -> list[str]:
    """Say where a reader is lost: no title, or two, or an error that a cell waits for in vain."""
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    headings = [line for text in prose for line in text.splitlines() if line.startswith("#")]
    found = [] if notebook.cells and prose and prose[0].startswith("# ") else ["it does not begin with its title"]
    found += [f"{line!r} is another title" for line in headings[1:] if line.startswith("# ")]
    return found + [
        f"cell {i} prints no error"
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and "    print(error)" in cell.source and not cell.outputs
    ]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(nbformat.read(path, as_version=4), monkeypatch)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_outputs(path: Path) -> None:
    assert missing_outputs(nbformat.read(path, as_version=4)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_reads_from_its_title_on(path: Path) -> None:
    assert unread(nbformat.read(path, as_version=4)) == []


def test_a_notebook_without_title_and_with_a_silent_mistake_is_found() -> None:
    cells = [
        nbformat.v4.new_markdown_cell(" A title that lost its mark"),
        nbformat.v4.new_markdown_cell("# A section"),
        nbformat.v4.new_markdown_cell("# Another"),
        nbformat.v4.new_code_cell("try:\n    1\nexcept ValueError as error:\n    print(error)"),
    ]
    assert unread(nbformat.v4.new_notebook(cells=cells)) == [
        "it does not begin with its title",
        "'# Another' is another title",
        "cell 3 prints no error",
    ]


def test_a_failing_cell_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [nbformat.v4.new_code_cell("1 + 1"), nbformat.v4.new_code_cell("1 / 0")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(notebook, monkeypatch)


def test_a_cell_that_never_ran_is_found() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
    assert missing_outputs(notebook) == ["cell 0 was not run", "no cell has an output"]
