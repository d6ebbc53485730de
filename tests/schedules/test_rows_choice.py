"""How rows are divided: lanes of narrow rows, warps of rows that are folded alone, and blocks of an SM."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import fireiron as fi
from fireiron.language.decompositions import Split, Tile
from fireiron.schedules import reductions, rows

MANY = 100_000  # rows


def chain(name: str, lines: int, width: int, dtype: str = "bf16") -> tuple[Any, ...]:
    program = getattr(rows, name)
    x = fi.Matrix(lines, width, dtype, name="x")
    more = {
        "cross_entropy": (fi.tensor(lines, dtype="i32", name="target"),),
        "cross_entropy_with_gradient": (fi.tensor(lines, dtype="i32", name="target"),),
        "softmax_backward": (fi.Matrix(lines, width, dtype, name="dy"),),
        "layernorm": (fi.Vector(width, dtype, name="gain"), fi.Vector(width, dtype, name="bias")),
        "rms_norm": (fi.Vector(width, dtype, name="gain"),),
    }.get(name, ())
    return rows.row(program(x, *more, arch="sm_90a")).links


def lanes(name: str, lines: int, width: int, dtype: str = "bf16") -> int:
    """Return the lanes of a row; 0 where warps of a block share it."""
    _, unit, *_ = chain(name, lines, width, dtype)
    return unit.level.size if isinstance(unit, Tile) and unit.level is not None else 0


@pytest.mark.parametrize(
    ("name", "width", "count"),
    [
        *(("softmax", n, k) for n, k in ((8, 1), (16, 2), (64, 4), (104, 4), (208, 8), (264, 8), (440, 16), (640, 16))),
        *(("softmax", n, k) for n, k in ((768, 32), (776, 32), (1024, 32), (1032, 0))),
        # Lanes that read two arrays have half of the columns.
        *(("softmax_backward", n, k) for n, k in ((64, 4), (104, 8), (208, 16), (512, 32))),
        # A row of vectors of 8 bytes: neighbouring lanes read 64 bytes at once.
        ("softmax", 100, 8),
    ],
)
def test_lanes_of_a_row(name: str, width: int, count: int) -> None:
    assert lanes(name, MANY, width) == count


def test_few_rows_have_more_lanes() -> None:
    assert lanes("softmax", 60, 256) == lanes("softmax", 60, 1000) == 32
    assert lanes("softmax", 60, 64) == 8


def test_running_sums_share_a_row_among_lanes() -> None:
    assert lanes("cumsum", MANY, 8) > 1


@pytest.mark.parametrize(
    ("width", "lines", "warps"),
    [(1160, MANY, 1), (1520, MANY, 2), (2544, MANY, 2), (3408, MANY, 3), (5000, MANY, 4), (9784, MANY, 8)],
)
def test_warps_of_rows_that_are_folded_alone(width: int, lines: int, warps: int) -> None:
    links = chain("cross_entropy", lines, width)
    (split,) = [link for link in links if isinstance(link, Split)]
    assert split.ways == warps


def test_few_rows_that_are_folded_alone_have_more_warps() -> None:
    links = chain("cross_entropy", 100, 2544)
    (split,) = [link for link in links if isinstance(link, Split)]
    assert split.ways is not None
    assert split.ways > 2


@pytest.mark.parametrize(
    ("name", "width", "wanted"),
    [
        ("softmax", 208, 10), ("cross_entropy", 208, 12), ("rms_norm", 104, 10), ("softmax", 11_376, 4),
        ("softmax_backward", 208, 10), ("softmax_backward", 4000, 0),
    ],
)  # fmt: skip
def test_blocks_that_an_sm_should_hold(name: str, width: int, wanted: int) -> None:
    (tile, *_) = chain(name, MANY, width)
    assert isinstance(tile, Tile)
    assert tile.wanted == wanted


def _drawn(count: int) -> list[tuple[str, int, int, str]]:
    draw = random.Random(2211)
    names = ("softmax", "log_softmax", "layernorm", "rms_norm", "cross_entropy", "cross_entropy_with_gradient",
             "softmax_backward")  # fmt: skip
    found: list[tuple[str, int, int, str]] = []
    for _ in range(count):
        width = round(2 ** draw.uniform(3, 13.5))
        width = width // 8 * 8 if draw.random() < 0.7 else width
        found.append((draw.choice(names), draw.randint(2, 200_000), width, draw.choice(("bf16", "f16", "f32"))))
    return found


@pytest.mark.parametrize("case", _drawn(120), ids=lambda case: "-".join(map(str, case)))
@pytest.mark.exhaustive
def test_drawn_rows_spill_no_registers(case: tuple[str, int, int, str]) -> None:
    _compiled(case)


@pytest.mark.parametrize("case", _drawn(8), ids=lambda case: "-".join(map(str, case)))
def test_some_drawn_rows_spill_no_registers(case: tuple[str, int, int, str]) -> None:
    _compiled(case)


def _compiled(case: tuple[str, int, int, str]) -> None:
    name, lines, width, dtype = case
    program = getattr(rows, name)
    x = fi.Matrix(lines, width, dtype, name="x")
    more: tuple[Any, ...] = ()
    if name.startswith("cross"):
        more = (fi.tensor(lines, dtype="i32", name="target"),)
    elif name.endswith("backward"):
        more = (fi.Matrix(lines, width, dtype, name="dy"),)
    elif name.endswith("norm"):
        more = tuple(fi.Vector(width, dtype, name=n) for n in ("gain", "bias")[: 2 if name == "layernorm" else 1])
    assert not rows.row(program(x, *more, arch="sm_90a")).compile("sm_90a").resources.spills


@fi.program(x="m n")
def moments(x: fi.Value) -> tuple[fi.Value, fi.Value, fi.Value]:
    """Fold each column three times."""
    return fi.sum(x, "m"), fi.sum(x * x, "m"), fi.max(x, "m")


@fi.program(x="m n")
def columns(x: fi.Value) -> fi.Value:
    """Sum columns."""
    return fi.sum(x, "m")


def test_blocks_of_reductions_leave_registers_to_the_states() -> None:
    given = fi.Matrix(8192, 8192, "bf16", name="x")
    plain, states = (reductions.reduction(p(given, arch="sm_90a")) for p in (columns, moments))
    found = [
        (links[0].resident, links[0].wanted) for links in (plain.links, states.links) if isinstance(links[0], Tile)
    ]
    assert found == [(1, 2), (1, 1)]
    for schedule in (plain, states):
        assert "ld_no_allocate_16B" in schedule.cuda()
        assert not schedule.compile("sm_90a").resources.spills


@pytest.mark.parametrize("shape", [(8192, 8192), (40_000, 96), (3000, 1 << 16)])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_a_thread_of_a_reduction_has_its_vectors_on_their_way(shape: tuple[int, int], dtype: str) -> None:
    """In machine code most loads of a chunk stand before the first addition."""
    made = reductions.reduction(columns(fi.Matrix(*shape, dtype, name="x"), out="f32", arch="sm_90a"))
    words = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\d+ )?([A-Z0-9]+)", made.compile("sm_90a").sass)
    assert words[: words.index("FADD")].count("LDG") >= 5  # two or three without a number of blocks
