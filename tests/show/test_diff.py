from __future__ import annotations

from typing import Any

import attrs

from fireiron.front.moves import staged, vector
from fireiron.front.roles import A, B
from fireiron.language.decompositions import Done, Split, Tile
from fireiron.language.functions import relu
from fireiron.language.levels import SH, Block, Warp
from fireiron.language.tensor import ColMajor
from fireiron.show.align import align
from fireiron.show.diff import diff


@attrs.frozen
class Access:
    title: str
    memory: object
    conflicts: float
    sectors: float
    place: tuple[str, str, str] = ("", "load", "a_sh")


def test_equal_schedules_do_not_differ(matmul: Any, listing2: Any) -> None:
    a, b = listing2(matmul(1024, 512, 256)), listing2(matmul(1024, 512, 256))
    found = diff(a, b, (a.lowered(), b.lowered()))
    assert str(found) == "no difference"
    assert not found


def test_a_pipeline_and_its_consequences(matmul: Any, listing2: Any) -> None:
    spec = matmul(1024, 512, 256)
    a, b = listing2(spec, stages=2), listing2(spec, stages=4, pad=4)
    titles = ("load A to a_sh: Move(128, 8)(GL, SH)(Block)", "load A to a_sh: Move(64, 8)(GL, SH)(Block)")
    rows = ((Access(titles[0], SH, 8, 0),), (Access(titles[1], SH, 1, 0),))
    found = diff(a, b, (a.lowered(), b.lowered()), rows)
    assert found
    assert str(found) == "\n".join(
        (
            "links",
            "├── split 8: stages 2 → 4",
            "└── load A to SH: pad 0 → 4",
            "kernel",
            "├── shared memory 16 KiB → 40 KiB",
            "└── load A to a_sh, SH: conflicts 8 → 1",
        )
    )


def test_specs_differ(matmul: Any, listing2: Any) -> None:
    a, b = listing2(matmul(1024, 512, 256)), listing2(matmul(1024, 512, 258, "f16", ColMajor))
    assert [str(d) for d in diff(a, b).differences] == [
        "K 256 → 258",
        "A: f32 → f16",
        "A: RowMajor → ColMajor",
        "B: f32 → f16",
        "C: f32 → f16",
    ]
    assert "computed by fma.f32 → fma.f32.f16" in str(diff(a, b, (a.lowered(), b.lowered())))


def test_links_of_moves_differ(matmul: Any) -> None:
    top = matmul(1024, 512, 256).tile(128, 128).to(Block).epilog().split(8)
    assert [str(d) for d in diff(top.load(A, SH), top.load(A, SH, vector(4))).differences] == [
        "load A to SH's Move > vectors to Thread: up to 16 B → of 4 B"
    ]
    assert [str(d) for d in diff(top.load(A, SH), top.load(A, SH, staged())).differences] == [
        "load A to SH's Move: added: load src to RF",
        "load A to SH's Move: added: own Thread",
        "load A to SH's Move > vectors up to 16 B: to Thread → loops",
    ]


def test_links_are_added_removed_and_changed(matmul: Any) -> None:
    spec = matmul(1024, 512, 256)
    a = spec.tile(128, 128).to(Block).epilog().split(8).load(A, SH).load(B, SH)
    b = spec.tile(64, 128).to(Block).epilog(relu).split(8).unroll().load(B, SH).no_sync().tile(32, 32).to(Warp)
    assert [str(d) for d in diff(a, b).differences] == [
        "tile to Block: 128x128 → 64x128",
        "epilog: stores acc → max(acc, 0)",
        "split 8: unroll added",
        "removed: load A to SH",
        "load B to SH: no_sync added",
        "added: tile 32x32 to Warp",
    ]


def test_functions_without_a_name_are_told_apart(matmul: Any) -> None:
    spec = matmul(1024, 512, 256)
    first, second = (spec.tile(128, 128).to(Block).permute(f) for f in (lambda i: i, lambda i: i + 0))
    assert [str(d) for d in diff(first, second).differences] == [
        "tile 128x128: another function or layout under the same name"
    ]


def test_changed_links_pair_in_their_place() -> None:
    a = (Tile((("M", 8), ("N", 8)), Block), Split(8), Split(1), Done())
    b = (Tile((("M", 4), ("N", 8)), Block), Split(1), Done())
    assert align(a, b) == ((a[0], b[0]), (a[1], None), (a[2], b[1]), (a[3], b[2]))


def test_lines_fit_the_page(rich_schedule: Any, matmul: Any, listing2: Any) -> None:
    other = listing2(matmul(1024, 512, 256))
    found = diff(other, rich_schedule, (other.lowered(), rich_schedule.lowered()))
    for width in (40, 80, 120):
        assert max(map(len, found.text(width).splitlines())) <= width
    assert set(found._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_a_parallel_split_is_no_loop_that_changed() -> None:
    from fireiron import matmul
    from fireiron.schedules import simt

    spec = matmul(512, 512, 512)
    assert str(simt.sgemm(spec).diff(simt.sgemm(spec, split_k=3))).splitlines()[:2] == [
        "links",
        "└── added: split 3 ways parallel Block",
    ]
    changed = simt.sgemm(spec, split_k=2).diff(simt.sgemm(spec, split_k=3))
    assert str(changed).splitlines()[1] == "└── split: 2 ways → 3 ways"


def test_a_chosen_instruction_stands_against_the_first_match() -> None:
    from fireiron import RF, A, B, Block, Thread, matmul

    one = matmul(64, 64, 64).tile(8, 8).to(Block).epilog(memory=RF).split(1).tile(1, 1).to(Thread)
    one = one.load(A, RF).load(B, RF)
    assert "done: the first match → by fma.f32" in str(one.done().diff(one.done("fma.f32")))
