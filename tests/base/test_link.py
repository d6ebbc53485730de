"""Links: the right frame, the right characters, and what is left when the source or its columns are missing."""

import ast
import copy
import doctest
import os
import pickle
import shutil
import subprocess
import sys
import timeit
import weakref
from pathlib import Path
from typing import Any

import pytest

import fireiron.schedules
from fireiron.base.link import Link, _kind_of, here
from fireiron.base.place import Place, _node_at

SCHEDULE = """\
s = (
    chain.tile(64, 64)
    .to("Block").tile(32, 32)
    .load(
        "A",
        "SH",
    )
    .tile(128, "#",  # one warp each
          64)
    .to(
    "Warp")
)
"""


def _output(folder: Path, *arguments: str) -> str:
    """Return what Python prints, run in a folder whose own packages come first."""
    path = os.pathsep.join((str(folder), *filter(None, sys.path)))
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_each_method_of_a_chain_is_underlined_from_its_name(chain: Any, write: Any) -> None:
    s = write("schedule.py", SCHEDULE, chain=chain).s
    assert [(link.where(), link.underlined) for link in s.links] == [
        ("schedule.py:2:11", "tile(64, 64)"),
        ("schedule.py:3:6", 'to("Block")'),
        ("schedule.py:3:18", "tile(32, 32)"),
        ("schedule.py:4:6", "load("),
        ("schedule.py:8:6", 'tile(128, "#",'),
        ("schedule.py:10:6", "to("),
    ]


def test_render_is_the_line_and_its_carets(chain: Any, write: Any) -> None:
    s = write("schedule.py", SCHEDULE, chain=chain).s
    assert s.links[2].render() == (
        "  --> schedule.py:3:18\n"
        ' 3 |     .to("Block").tile(32, 32)\n'
        "   |                  ^^^^^^^^^^^^"
    )  # fmt: skip
    assert s.links[5].render() == (
        "  --> schedule.py:10:6\n"
        "10 |     .to(\n"
        "   |      ^^^"
    )  # fmt: skip


def test_a_long_file_widens_the_gutter(chain: Any, write: Any) -> None:
    s = write("schedule.py", "\n" * 99 + "s = chain.tile(1)\n", chain=chain).s
    assert s.link.render() == "   --> schedule.py:100:11\n100 | s = chain.tile(1)\n    |           ^^^^^^^"


def test_calls_that_contain_calls_are_told_apart(chain: Any, write: Any) -> None:
    source = "inner = chain.tile(1)\ns = chain.tile(inner.to('x').link, (chain.load('é').link)).to(str(2))(3)\n"
    s = write("schedule.py", source, chain=chain).s
    assert [link.underlined for link in s.links] == [
        "tile(inner.to('x').link, (chain.load('é').link))",
        "to(str(2))",
        "chain.tile(inner.to('x').link, (chain.load('é').link)).to(str(2))(3)",
    ]


def test_a_plain_name_an_operator_and_a_property_are_underlined(chain: Any, write: Any) -> None:
    module = write("schedule.py", "f = chain.to\na = f('Block')\nb = chain @ 3\nc = chain.swapped\n", chain=chain)
    assert [x.link.underlined for x in (module.a, module.b, module.c)] == ["f('Block')", "chain @ 3", "chain.swapped"]


def test_unpacked_arguments_and_loops_keep_their_columns(chain: Any, write: Any) -> None:
    source = "s = chain\nfor n in (1, 2):\n\ts = s.tile(*[n], **{})\n"
    s = write("schedule.py", source, chain=chain).s
    assert [link.underlined for link in s.links] == ["tile(*[n], **{})"] * 2
    assert s.link.render() == "  --> schedule.py:3:8\n 3 | \ts = s.tile(*[n], **{})\n   | \t      ^^^^^^^^^^^^^^^^"


def test_columns_count_characters_not_bytes(chain: Any, write: Any) -> None:
    s = write("schedule.py", "é = chain; s = é.tile('ü').to('ß')\n", chain=chain).s
    assert s.link.render() == (
        "  --> schedule.py:1:28\n"
        " 1 | é = chain; s = é.tile('ü').to('ß')\n"
        "   |                            ^^^^^^^"
    )  # fmt: skip


def test_a_call_in_the_same_file_as_here_is_the_place() -> None:
    assert here().underlined == "here()"


def test_a_notebook_cell_is_read_from_linecache(chain: Any, run_as: Any) -> None:
    s = run_as("/tmp/ipykernel_71/2093.py", "s = chain.to('Block')", chain=chain)["s"]
    assert s.link.render() == "  --> <notebook cell>:1:11\n 1 | s = chain.to('Block')\n   |           ^^^^^^^^^^^"
    s = run_as("<ipython-input-3-0a1b>", "s = chain.to('Block')", chain=chain)["s"]
    assert s.link.where() == "<ipython-input-3-0a1b>:1:11"


def test_a_cell_with_top_level_await_still_has_carets(chain: Any, run_as: Any) -> None:
    source = "async def f(): return await g(chain.to(1))\nasync def g(x): return x\n"
    module = run_as("<cell>", source, chain=chain)
    with pytest.raises(StopIteration) as stop:
        module["f"]().send(None)
    assert stop.value.value.link.underlined == "to(1)"


def test_a_doctest_is_read_while_it_runs(chain: Any) -> None:
    example = doctest.DocTestParser().get_doctest(
        ">>> print(chain.to('Block').link.render())\n"
        "  --> <doctest cell[0]>:1:13\n"
        " 1 | print(chain.to('Block').link.render())\n"
        "   |             ^^^^^^^^^^^\n",
        {"chain": chain}, "cell", None, 0,
    )  # fmt: skip
    assert doctest.DocTestRunner().run(example) == (0, 1)


def test_without_source_only_the_line_number_is_left(chain: Any, run_as: Any) -> None:
    s = run_as("<nothing>", "\ns = chain.tile(1)\n", known=False, chain=chain)["s"]
    assert s.link.render() == "  --> <nothing>:2"
    assert s.link.underlined == ""


def test_source_that_no_longer_parses_leaves_the_line(chain: Any, write: Any, tmp_path: Path) -> None:
    s = write("schedule.py", "s = chain.tile(1)\n", chain=chain).s
    assert s.link.underlined == "tile(1)"  # linecache now holds the text before the edit
    (tmp_path / "schedule.py").write_text("s = chain.tile(1, 2\n")
    assert s.link.render() == "  --> schedule.py:1\n 1 | s = chain.tile(1, 2"


def test_source_that_was_shortened_leaves_the_line_number(chain: Any, write: Any, tmp_path: Path) -> None:
    s = write("schedule.py", "\n\ns = chain.tile(1)\n", chain=chain).s
    (tmp_path / "schedule.py").write_text("\n")
    assert s.link.render() == "  --> schedule.py:3"


def test_without_columns_the_line_alone_is_left(tmp_path: Path) -> None:
    script = tmp_path / "schedule.py"
    script.write_text("from fireiron.base.link import here\n\nprint(here().render())\n")
    assert (
        _output(tmp_path, "-X", "no_debug_ranges", str(script)) == "  --> schedule.py:3\n 3 | print(here().render())\n"
    )


def test_names_are_relative_inside_the_current_directory_and_short_outside(
    chain: Any, write: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    s = write("kernels/schedule.py", "s = chain.tile(1)\n", chain=chain).s
    assert s.link.where() == str(Path("kernels", "schedule.py")) + ":1:11"
    (tmp_path / "kern").mkdir()  # its name starts as the other folder's does
    monkeypatch.chdir(tmp_path / "kern")
    assert s.link.where() == "schedule.py:1:11"


PRESET = """\
def gemm(spec, n):
    return (
        spec.tile(n, n)
        .to("Block")
    )
"""


def test_a_preset_is_the_place_and_its_user_the_caller(chain: Any, preset: Any, write: Any) -> None:
    gemm = preset("ampere_for_tests.py", PRESET)["gemm"]
    s = write("user.py", "\nmine = gemm(\n    spec, 64)\n", gemm=gemm, spec=chain).mine
    assert s.link.render() == (
        "  --> ampere_for_tests.py:4:10\n"
        ' 4 |         .to("Block")\n'
        '   |          ^^^^^^^^^^^\n'
        "called from user.py:2:8\n"
        " 2 | mine = gemm(\n"
        "   |        ^^^^^"
    )  # fmt: skip
    assert s.link.called_from.where() == "user.py:2:8"


def test_the_command_that_pip_writes_is_nobodys_code() -> None:
    assert _kind_of("/home/me/.venv/bin/fireiron").name == "INTERNAL"
    assert _kind_of("/home/me/fireiron/mine.py").name == "USER"


def test_of_nested_presets_the_inner_is_the_place(chain: Any, preset: Any, write: Any) -> None:
    inner = preset("inner_for_tests.py", PRESET)
    outer = preset("outer_for_tests.py", "def linear(spec): return gemm(spec, 32).load('C')\n", gemm=inner["gemm"])
    s = write("user.py", "s = presets.linear(spec)\n", presets=type("presets", (), outer), spec=chain).s
    assert [(link.place.where(), link.underlined, link.called_from.underlined) for link in s.links] == [
        ("inner_for_tests.py:3:14", "tile(n, n)", "linear(spec)"),
        ("inner_for_tests.py:4:10", 'to("Block")', "linear(spec)"),
        ("outer_for_tests.py:1:41", "load('C')", "linear(spec)"),
    ]


def test_a_users_function_that_a_preset_calls_is_the_place(chain: Any, preset: Any, write: Any) -> None:
    apply = preset("apply_for_tests.py", "def apply(f): return f()\n")["apply"]
    s = write("user.py", "s = apply(lambda: chain.tile(8))\n", chain=chain, apply=apply).s
    assert (s.link.underlined, s.link.called_from) == ("tile(8)", None)


def test_the_users_code_is_not_kept_alive_by_a_frame(chain: Any, write: Any) -> None:
    class Big:
        pass

    module = write("user.py", "def make(big): return chain.tile(1)\n", chain=chain)
    big = Big()
    alive = weakref.ref(big)
    link = module.make(big).link
    del big
    assert alive() is None
    assert link.underlined == "tile(1)"


def test_pickle_and_copy_keep_what_is_printed(chain: Any, preset: Any, write: Any, tmp_path: Path) -> None:
    gemm = preset("ampere_for_tests.py", PRESET)["gemm"]
    link = write("user.py", "s = gemm(spec, 64)\n", gemm=gemm, spec=chain).s.link
    data = pickle.dumps(link)
    printed = link.render()
    (tmp_path / "user.py").unlink()
    assert pickle.loads(data).render() == printed
    assert pickle.loads(pickle.dumps(pickle.loads(data))).place == link.place
    assert copy.deepcopy(pickle.loads(data)).render() == printed


def test_a_call_whose_end_the_compiler_moved_is_found_by_its_name() -> None:
    # Some Python versions report only the method's name for a call that spans lines.
    tree = ast.parse("s = (a\n    .tile(8,\n    8).to(1))")
    node = _node_at(tree, (2, 5), (2, 9))
    assert node is not None
    assert ast.unparse(node) == "a.tile(8, 8)"
    assert _node_at(tree, (2, 6), (2, 9)) is None


def test_a_preset_that_nobody_called_has_no_caller(tmp_path: Path) -> None:
    # A copy of the package as a wheel installs it, its presets inside, with a preset run as a module.
    package = Path(next(iter(fireiron.__path__)))
    shutil.copytree(package / "base", tmp_path / "fireiron" / "base")
    presets = tmp_path / "fireiron" / "schedules"
    presets.mkdir()
    (presets.parent / "__init__.py").touch()
    source = "from fireiron.base.link import here\ndef gemm(): return here()\n"
    (presets / "ampere.py").write_text(source + "if __name__ == '__main__': print(gemm().render())\n")
    (tmp_path / "user.py").write_text("from fireiron.schedules.ampere import gemm\nprint(gemm().render())\n")
    assert _output(tmp_path, "-m", "fireiron.schedules.ampere") == (
        f"  --> {Path('fireiron', 'schedules', 'ampere.py')}:2:20\n"
        " 2 | def gemm(): return here()\n"
        "   |                    ^^^^^^\n"
    )  # fmt: skip
    assert _output(tmp_path, "user.py").endswith(
        "called from user.py:2:7\n"
        " 2 | print(gemm().render())\n"
        "   |       ^^^^^^\n"
    )  # fmt: skip


def test_the_presets_of_this_checkout_are_presets(chain: Any, run_as: Any, write: Any) -> None:
    folder = Path(next(iter(fireiron.schedules.__path__)))
    gemm = run_as(str(folder / "imported_for_tests.py"), PRESET)["gemm"]
    s = write("user.py", "s = gemm(spec, 64)\n", gemm=gemm, spec=chain).s
    assert (s.link.underlined, s.link.called_from.underlined) == ('to("Block")', "gemm(spec, 64)")


def test_a_link_is_made_of_a_plain_place() -> None:
    link = Link(Place("<string>", 3, 2, 7, "a.to(1)"))
    assert repr(link) == "Link(<string>:3:3)"
    assert link.underlined == "to(1)"


def test_capture_is_cheap(chain: Any) -> None:
    # Measured near one microsecond; the bound leaves room for a busy machine and still fails if source is read.
    best = min(timeit.repeat(lambda: chain.to("Block"), number=1000, repeat=5)) / 1000
    assert best < 20e-6
