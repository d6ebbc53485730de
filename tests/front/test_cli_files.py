"""The command line on schedules of the user's own, right and wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fireiron.front.cli import RIGHT, USAGE, WRONG, main

HEAD = "from fireiron import *\nfrom fireiron.front.matmul import MatMulChain\n\n"

DOT = """
def gemm(spec):
    return spec.tile(16, 16).to(Block).tile(1, 1).to(Thread).done(microkernel({source!r} " // {numpy}", numpy={numpy}))
"""
RIGHT_SOURCE = "auto s = C[0]; s = 0; for (int k = 0; k < K; ++k) s = s + A[k * A_col] * B[k * B_row]; C[0] = s;"
MANY = """
from typing import Literal

def tiled(spec: MatMulChain, m: int = 16, *, order: Literal["row", "col"] = "row", unrolled: bool = False,
          scale_by: float | None = None, arch: int = 3, hook=None) -> MatMulChain:
    \"\"\"Tile.

    Args:
        m: rows of a tile.
    \"\"\"
    spec = spec.tile(m, m).to(Block)
    if order == "col":
        spec = spec.layout(ColMajor)
    ops = () if scale_by is None else (scale(scale_by), relu)
    spec = spec.epilog(*ops).split(8).load(A, SH).load(B, SH).tile(2, 2).to(Thread)
    spec = spec.unroll() if unrolled else spec
    return spec.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()

def fixed():
    bias = Vector(48, name="bias")
    return (matmul(32, 48, 8).tile(16, 16).to(Block).epilog(add(bias), tanh).split(8).load(A, SH).load(B, SH)
            .tile(2, 2).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done())

finished = fixed()
unfinished = matmul(64, 64, 64).tile(16, 16).to(Block)

def nothing(spec):
    return 3

def broken(spec):
    return 1 / 0

def illegal(spec):
    return spec.tile(16, 16).to(Thread)

def batched(spec):
    return (spec.tile(16, 16, batch=1).to(Block).epilog(relu).split(8).load(A, SH).load(B, SH)
            .tile(2, 2, batch=1).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
            .tile(1, 1, batch=1).unroll().done())

def _private(spec):
    return spec
"""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    """Write a file of schedules; give its path."""

    def write(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(HEAD + text)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("numpy", "words", "code"),
    [
        ("lambda a, b, c: a @ b", (), RIGHT),
        ("lambda a, b, c: a @ b + 1e-3", (), WRONG),
        ("lambda a, b, c: (a @ b) * 1e999 * 0", (), WRONG),
        ("lambda a, b, c: a @ b + 1", ("--dtype", "i32"), WRONG),
        ("lambda a, b, c: a @ b + 1e-3", ("--blocks", "1"), WRONG),
        # Bounds of the worst case let each of these pass on random numbers.
        ("lambda a, b, c: a @ b", ("--dtype", "f16:f16:f16", "--shape", "16x16x1024"), RIGHT),
        ("lambda a, b, c: 0 * (a @ b)", ("--dtype", "f16:f16:f16", "--shape", "16x16x1024"), WRONG),
        ("lambda a, b, c: a[:, 1:] @ b[1:]", ("--dtype", "f16:f16:f16", "--shape", "16x16x1024"), WRONG),
        ("lambda a, b, c: a[:, 1:] @ b[1:]", ("--dtype", "f32", "--shape", "16x16x16384"), WRONG),
    ],
)
def test_a_wrong_kernel_is_wrong(call: Any, file: Any, numpy: str, words: tuple[str, ...], code: int) -> None:
    path = file(DOT.format(source=RIGHT_SOURCE, numpy=numpy))
    for verb in ("simulate", "run"):
        if verb == "run" and not words:
            words = ("--blocks", "100")
        shape = () if "--shape" in words else ("--shape", "32x32x16")
        found, out, err = call(verb, path, *shape, "--json", *words)
        assert found == code, err
        answer = json.loads(out)
        assert answer["right"] is (code == RIGHT)
        assert (answer["comparison"]["wrong"] == 0) is (code == RIGHT)


def test_a_wrong_kernel_says_where(call: Any, file: Any) -> None:
    path = file(DOT.format(source=RIGHT_SOURCE, numpy="lambda a, b, c: c * 1e999 * 0"))
    code, out, _ = call("simulate", f"{path}:gemm", "--shape", "32x32x16")
    assert code == WRONG
    assert "C: 1024 of 1024 elements wrong, 1024 of them NaN; C[0, 0] is nan, expected" in " ".join(out.split())


def test_what_a_simulation_finds_is_wrong(call: Any, file: Any) -> None:
    path = file(DOT.format(source=RIGHT_SOURCE, numpy="None"))
    code, out, err = call("simulate", path)
    assert (code, out) == (WRONG, "")
    assert "SimulationError[microkernel-numpy]" in err


def test_keywords_become_options(call: Any, file: Any) -> None:
    path = file(MANY)
    words = ("simulate", f"{path}:tiled", "--shape", "40x40x20", "--m", "32", "--order", "col", "--unrolled")
    code, out, _ = call(*words, "--scale-by", "0.5", "--preset-arch", "4", "--arch", "sm_80", "--json")
    assert code == RIGHT
    assert "epilogue" in json.loads(out)["bound"]
    assert "32x32x8" in json.loads(out)["kernel"]
    _, helped, _ = call("show", f"{path}:tiled", "--help")
    assert "rows of a tile (default: 16)" in helped
    assert "row|col" in helped
    assert "--hook" not in helped
    code, _, err = call("show", f"{path}:tiled", "--order", "up")
    assert code == USAGE
    assert "'up' is none of row, col" in err


def test_batches(call: Any, file: Any) -> None:
    words = ("simulate", f"{file(MANY)}:batched", "--shape", "20x20x20", "--batch", "3", "--layout", "TT", "--json")
    code, out, err = call(*words)
    assert code == RIGHT, err
    assert json.loads(out)["comparison"]["compared"] == 3 * 20 * 20


@pytest.mark.parametrize("name", ["fixed", "finished"])
def test_a_schedule_may_bring_its_spec(call: Any, file: Any, name: str) -> None:
    path = file(MANY)
    code, out, _ = call("simulate", f"{path}:{name}", "--json")
    assert code == RIGHT
    assert json.loads(out)["comparison"]["compared"] == 32 * 48
    code, _, err = call("simulate", f"{path}:{name}", "--shape", "1x2x3")
    assert code == USAGE
    assert "UsageError[fixed-spec]" in err


def test_unfinished_schedules_show_and_check_but_do_not_run(call: Any, file: Any) -> None:
    path = file(MANY)
    code, out, _ = call("show", f"{path}:unfinished")
    assert code == RIGHT
    assert "tile 16x16 to Block" in out
    assert call("check", f"{path}:unfinished")[0] == RIGHT
    code, _, err = call("emit", f"{path}:unfinished")
    assert code == USAGE
    assert "UsageError[unfinished]" in err


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        (":nothing", USAGE, "nothing gives 3, which is no schedule"),
        (":broken", USAGE, "broken fails with ZeroDivisionError: division by zero at "),
        (":illegal", WRONG, "DecompositionError["),
        (
            ":missing",
            USAGE,
            "mine.py has no missing\nfix: it has tiled, fixed, nothing, broken, illegal, batched, finished, unfi",
        ),
        ("", USAGE, "mine.py has several schedules, or none"),
    ],
)
def test_mistakes_in_files(call: Any, file: Any, name: str, code: int, text: str) -> None:
    found, out, err = call("show", file(MANY) + name)
    assert (found, out) == (code, "")
    assert text in err


def test_files_that_cannot_be_read(call: Any, file: Any, tmp_path: Path) -> None:
    code, _, err = call("show", f"{tmp_path}/none.py:f")
    assert code == USAGE
    assert "UsageError[no-such-file]" in err
    path = file("def f(:\n")
    code, _, err = call("show", f"{path}:f")
    assert code == USAGE
    assert f"SyntaxError: invalid syntax (mine.py, line 4) at {path}:4" in err


def test_the_link_in_a_users_file_is_underlined(call: Any, file: Any) -> None:
    _, out, err = call("show", f"{file(MANY)}:illegal", "--json")
    error = json.loads(out)["error"]
    assert error["underlined"] == "to(Thread)"
    assert "mine.py:" in error["where"]
    assert "return spec.tile(16, 16).to(Thread)" in err
