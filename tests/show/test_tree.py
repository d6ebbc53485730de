from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest

from fireiron.algebra.expr import symbol
from fireiron.algebra.swizzle import Swizzle
from fireiron.front.roles import A, B
from fireiron.kernel.ir.statements import Region, walk
from fireiron.language.decompositions import Load, Microkernel
from fireiron.language.levels import RF, SH, Block, Thread, Warp
from fireiron.language.tensor import ColMajor
from fireiron.show import lowered
from fireiron.show.page import COLOURS
from fireiron.show.steps import shared_nbytes, steps
from fireiron.show.tree import mimebundle, text

Golden = Callable[[str, str], None]


def test_a_finished_schedule_at_80_columns(rich_schedule: Any, golden: Golden) -> None:
    golden(text(rich_schedule, 80, rich_schedule.lowered()), "show/tree_80.txt")


def test_a_finished_schedule_at_120_columns(rich_schedule: Any, golden: Golden) -> None:
    golden(text(rich_schedule, 120, rich_schedule.lowered()), "show/tree_120.txt")


def test_an_unfinished_schedule_says_what_is_left(unfinished: Any, golden: Golden) -> None:
    golden(text(unfinished), "show/tree_unfinished.txt")


def test_symbolic_sizes_print_as_formulas(matmul: Any) -> None:
    spec = matmul(symbol("M"), symbol("N"), 64, "f16")
    assert text(spec).splitlines()[:4] == [
        "MatMul(M, N, 64)(GL, GL, GL)(Kernel)",
        "├── acc[m, n] = add over k of A[m, k] * B[k, n]",
        "├── C[m, n]   = f16(acc[m, n])",
        "├── A: M x 64 f16 RowMajor in GL, M * 128 B",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 81, 100, 120])
def test_no_line_is_longer_than_the_page(rich_schedule: Any, unfinished: Any, width: int) -> None:
    for printed in (text(rich_schedule, width, rich_schedule.lowered()), text(unfinished, width)):
        assert max(len(line) for line in printed.splitlines()) <= width
        assert "..." not in printed, "lines wrap; nothing is cut off"


def test_every_width_says_the_same_words(rich_schedule: Any) -> None:
    kernel = rich_schedule.lowered()

    def said(width: int) -> list[str]:
        return re.sub(r"[│├└─\s]+", " ", text(rich_schedule, width, kernel)).split()

    assert said(80) == said(120) == said(60)


def test_a_microkernel_is_named(matmul: Any) -> None:
    small = matmul(256, 256, 64).tile(64, 64).to(Block).tile(8, 8).to(Thread)
    chain = small.split(4).done(Microkernel("", name="mine"))
    assert text(chain, kernel=chain.lowered()).splitlines()[-1] == "└── done by microkernel mine"


def shared_cases(matmul: Any, listing2: Any) -> dict[str, Any]:
    spec = matmul(256, 256, 64, "f16")
    inner = matmul(256, 256, 64).tile(64, 64).to(Block).epilog().split(16).tile(32, 32).to(Warp).load(A, SH).pad(1)
    return {
        "padded": listing2(spec, pad=5),
        "slots": listing2(matmul(256, 256, 64), k=4, stages=3, pad=4),
        "columns": listing2(matmul(256, 256, 64, "f32", ColMajor, ColMajor), pad=4),
        "ragged": listing2(spec, k=12, pad=1),
        "swizzled": finish(
            spec.tile(64, 64).to(Block).epilog().split(12).load(A, SH).swizzle(Swizzle(1, 2, 3)).load(B, SH)
        ),
        "warps": finish(inner.load(B, SH)),
    }


def finish(chain: Any) -> Any:
    return chain.tile(8, 8).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()


def test_shared_bytes_before_lowering_are_those_of_lowering(matmul: Any, listing2: Any) -> None:
    for name, chain in shared_cases(matmul, listing2).items():
        kernel = chain.lowered()
        loads = [s for s in steps(chain) if isinstance(s.link, Load) and s.link.memory == SH]
        buffers = [lowered.buffer(kernel, step) for step in loads]
        assert [shared_nbytes(step) for step in loads] == [b and b.nbytes for b in buffers], name


def test_every_region_belongs_to_a_step(rich_schedule: Any) -> None:
    # Regions are found by the words of their paths: lowering must keep to the words of the tree.
    kernel = rich_schedule.lowered()
    outer = {id(r) for step in steps(rich_schedule) for r in lowered.of_step(kernel, step)}
    reached = {id(s) for r in walk(kernel.body) if id(r) in outer and isinstance(r, Region) for s in (r, *walk(r.body))}
    assert [r.title for r in walk(kernel.body) if isinstance(r, Region) and id(r) not in reached] == []


def test_html_says_what_the_text_says(rich_schedule: Any) -> None:
    bundle = mimebundle(rich_schedule, kernel=rich_schedule.lowered())
    assert set(bundle) == {"text/plain", "text/html"}
    said = html.unescape(re.sub(r"<[^>]*>", "", bundle["text/html"]))
    assert [line.rstrip() for line in said.splitlines()] == bundle["text/plain"].splitlines()


def test_html_has_no_script_and_no_ground_of_its_own(unfinished: Any) -> None:
    made = mimebundle(unfinished)["text/html"]
    assert not re.search(r"<script|<style|background|javascript|class=", made)


def luminance(colour: tuple[int, int, int]) -> float:
    channels = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def test_colours_read_on_light_and_on_dark() -> None:
    for name, colour in COLOURS.items():
        for ground in ((255, 255, 255), (17, 17, 17)):
            low, high = sorted((luminance(colour), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 3.5, (name, ground)
