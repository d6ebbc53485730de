"""Text: indents, blocks and units."""

import pytest

from fireiron.base.text import Writer, count, nbytes


def test_blocks_nest_and_close() -> None:
    w = Writer()
    w.line("// a copy")
    with w.block("for (int k0 = 0; k0 < 4; ++k0) {"), w.block("if (lane == 0) {"):
        w.lines(["arrive();", "wait();"])
    w.line("done();")
    assert w.text() == (
        "// a copy\n"
        "for (int k0 = 0; k0 < 4; ++k0) {\n"
        "  if (lane == 0) {\n"
        "    arrive();\n"
        "    wait();\n"
        "  }\n"
        "}\n"
        "done();\n"
    )  # fmt: skip


def test_a_block_may_close_with_anything_or_nothing() -> None:
    w = Writer(step="    ")
    with w.block("struct Smem {", "};"):
        w.line("half a[64];")
    with w.block("def f():", ""):
        w.line("pass")
    assert w.text() == "struct Smem {\n    half a[64];\n};\ndef f():\n    pass\n"


def test_empty_lines_are_bare_and_inner_lines_keep_their_own_indent() -> None:
    w = Writer()
    with w.indent():
        w.line("a {\n  b\n}")
        w.line()
        w.line("c")
    assert w.text() == "  a {\n    b\n  }\n\n  c\n"
    assert Writer().text() == ""


def test_an_exception_inside_restores_the_indent() -> None:
    w = Writer()
    with pytest.raises(KeyError), w.indent():
        raise KeyError
    w.line("a")
    assert w.text() == "a\n"


def test_count() -> None:
    assert [count(n, "warp") for n in (0, 1, 2)] == ["0 warps", "1 warp", "2 warps"]
    assert [count(n, "copy", "copies") for n in (1, 4)] == ["1 copy", "4 copies"]


@pytest.mark.parametrize(
    ("n", "printed"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1 KiB"), (1025, "1.0 KiB"), (1536, "1.5 KiB"),
        (69632, "68 KiB"), (232448, "227 KiB"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB"), (1 << 52, "4096 TiB"),
        (-2048, "-2 KiB"),
    ],
)  # fmt: skip
def test_nbytes(n: int, printed: str) -> None:
    assert nbytes(n) == printed
