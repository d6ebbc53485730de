from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs

import fireiron as fi
from fireiron.algebra.expr import symbol
from fireiron.cuda.printer import source
from fireiron.front.moves import MoveChain
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Sync
from fireiron.kernel.lower.kernel import lower
from fireiron.kernel.passes.edges import unordered
from fireiron.language.levels import Block, Thread
from fireiron.language.residual import start
from fireiron.language.specs import Move, task_of
from fireiron.language.tensor import Matrix
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.show.explain import explain
from fireiron.show.passes import PASSES, verdict
from fireiron.show.tree import text

Golden = Callable[[str, str], None]


def explained(chain: Any) -> Any:
    kernel = chain.lowered()
    return explain(chain, kernel, source(kernel))


def test_listing_2_at_80_columns(matmul: Any, listing2: Any, golden: Golden) -> None:
    golden(explained(listing2(matmul(1024, 512, 258))).text(80), "show/explain_80.txt")


def test_a_pipeline_at_120_columns(rich_schedule: Any, golden: Golden) -> None:
    golden(explained(rich_schedule).text(120), "show/explain_120.txt")


def test_an_unfinished_schedule(unfinished: Any, golden: Golden) -> None:
    golden(explain(unfinished).text(), "show/explain_unfinished.txt")


def test_lines_are_those_that_the_link_made(rich_schedule: Any) -> None:
    lines = source(rich_schedule.lowered()).splitlines()
    first = {row.link: [lines[a - 1].strip() for a, _ in row.lines] for row in explained(rich_schedule).rows}
    load = "load A to {}: Move(128, 8)(GL, {})(Block)"
    assert first == {
        "tile 128x128 to Block": ["// MatMul(128, 128, 256)(GL, GL, GL)(Block)"],
        "epilog in RF f32": ["// Init(0)(RF)(Block)", "// Pointwise(RF)(Block)"],
        "split 8 pipeline 2": ["#pragma unroll 1"],
        "load A to SH pad 4 storage ColMajor": [
            f"// {load.format('a_rf2', 'RF')}", f"// {load.format('a_rf2', 'RF')}", f"// {load.format('a_sh', 'SH')}"
        ],
        "load B to SH": [
            "// load B to b_rf2: Move(8, 128)(GL, RF)(Block)",
            "// load B to b_rf2: Move(8, 128)(GL, RF)(Block)",
            "// load B to b_sh: Move(8, 128)(GL, SH)(Block)",
        ],
        "tile 64x32 to Warp": ["// MatMul(64, 32, 8)(SH, SH, RF)(Warp)"],
        "tile 8x8 to Thread": ["// MatMul(8, 8, 8)(SH, SH, RF)(Thread)"],
        "split 1 unroll": ["#pragma unroll"],
        "load A to RF": ["// load a_sh to a_rf: Move(8, 1)(SH, RF)(Thread)"],
        "load B to RF": ["// load b_sh to b_rf: Move(1, 8)(SH, RF)(Thread)"],
        "tile 1x1 unroll": ["#pragma unroll"],
        "done": ["acc[m * 8 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 8 + n]);"],
    }  # fmt: skip


def test_ranges_end_where_the_code_ends(rich_schedule: Any) -> None:
    lines = source(rich_schedule.lowered()).splitlines()
    for row in explained(rich_schedule).rows:
        for first, last in row.lines:
            inside = "\n".join(lines[first - 1 : last])
            assert inside.count("{") == inside.count("}"), row.link
            assert lines[last - 1].strip(), row.link


def test_no_lines_of_another_kernels_source(matmul: Any, listing2: Any) -> None:
    a, b = listing2(matmul(1024, 512, 256)), listing2(matmul(1024, 512, 258))
    assert {row.lines for row in explain(a, a.lowered(), source(b.lowered())).rows} == {()}


def test_traffic_and_reuse(matmul: Any, listing2: Any) -> None:
    rows = {row.link: row.traffic for row in explained(listing2(matmul(1024, 512, 256))).rows if row.traffic}
    numbers = {link: (t.each, t.total, t.reads, str(t.memory)) for link, t in rows.items()}
    assert numbers == {
        "epilog in RF f32": (65536, 65536, None, "GL"),
        "load A to SH": (4096, 32 * 4096, Fraction(16), "GL"),  # 128 columns by tiles of 8
        "load B to SH": (4096, 32 * 4096, Fraction(16), "GL"),
        "load A to RF": (32, 256 * 32 * 8 * 32, Fraction(8), "SH"),  # of 256 threads, 32 chunks of 8
        "load B to RF": (32, 256 * 32 * 8 * 32, Fraction(8), "SH"),
    }


def test_symbolic_traffic_is_a_formula(matmul: Any, listing2: Any) -> None:
    rows = explained(listing2(matmul(symbol("M"), symbol("N"), symbol("K")))).rows
    said = {row.link: row.sentences for row in rows}["load B to SH"]
    assert said.endswith(
        "Moves 4 KiB at a time, (K + 7) / 8 * 4096 B a block from GL; each element is then read 16 times"
    )


def test_without_an_epilog_c_is_zeroed(matmul: Any) -> None:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block).tile(1, 1).to(Thread).split(4)
    assert [row.emits for row in explain(chain).rows] == [
        "4 blocks (2 along M x 2 along N)",
        "1024 tiles (32 along M x 32 along N), one a thread",
        "a loop of 16 along K; C starts at 0 in GL",
    ]


def test_a_move_is_explained_by_its_instruction() -> None:
    spec = Move(Matrix(256, 128, name="X"), Matrix(256, 128, name="Y"))
    program = task_of(spec)
    chain = MoveChain(program, (), start(spec)).tile(32, 32).to(Block).vectors().to(Thread).unroll().done()
    kernel = lower(program, chain.links, "copy")
    printed = source(kernel)
    row = explain(chain, kernel, printed).rows[-1]
    assert row.emits == "copy.16B.GL.GL executes Move, one Thread at a time"
    assert "copy_16B(" in printed.splitlines()[row.lines[0][0] - 1]
    assert text(chain, kernel=kernel).splitlines()[-1] == "└── done by copy.16B.GL.GL"


def test_lines_fit_the_page(rich_schedule: Any) -> None:
    for width in (60, 80, 120):
        assert max(map(len, explained(rich_schedule).text(width).splitlines())) <= width
    assert set(explained(rich_schedule)._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_passes_say_what_they_inserted(golden: Golden) -> None:
    chain = fi.matmul(512, 512, 1024, "bf16", layout="TN", arch="sm_90")
    found = hopper.cooperative(chain, Plan(128, 128, 2, stages=4)).explain(passes=True)
    golden(found.told + "\n", "show/explain_passes.txt")
    assert found.told in found.text(80)
    assert [change.name for change in found.passes] == list(PASSES)


def test_passes_are_told_where_asked_for_alone(rich_schedule: Any) -> None:
    assert rich_schedule.explain().told == ""
    assert "barrier of the Block: a_sh is" in rich_schedule.explain(passes=True).told


def test_an_edge_that_nothing_orders_is_told(rich_schedule: Any) -> None:
    kernel = rich_schedule.lowered()
    without = attrs.evolve(kernel, body=rewrite(kernel.body, lambda s: () if isinstance(s, Sync) else s))
    words = verdict(unordered(without))
    assert words.startswith("edges: nothing orders\n  a_sh written by copy.4B.RF.SH (block) -> a_sh read by")
    assert "no barrier stands between them" in words
