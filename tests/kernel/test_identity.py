"""What tells statements apart: kinds of loops and regions, and numbers; no heading and no object's address does."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import attrs

from fireiron import matmul
from fireiron.cuda.printer import source
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, Compute, CountIn, For, Kernel, Micro, Region, walk, within
from fireiron.schedules import ampere, hopper, simt
from fireiron.show.explain import explain

ROOT = Path(__file__).resolve().parents[2] / "fireiron"
SEARCHED = ("kernel", "estimate", "show", "simulate", "cuda")


def kernels() -> list[Any]:
    size = matmul(256, 256, 256, "f16", layout="TN")
    return [simt.sgemm(matmul(300, 300, 64)), ampere.gemm(size), hopper.gemm(size)]


def test_statements_have_numbers_of_their_own() -> None:
    for made in kernels():
        kernel: Kernel = made.lowered()
        numbers = [s.id for s in walk(kernel.body) if isinstance(s, Call | Compute | Micro | CountIn | Region)]
        assert 0 not in numbers
        assert len(numbers) == len({*numbers})


def test_loops_say_what_they_go_over() -> None:
    kinds = {s.kind for made in kernels() for s in walk(made.lowered().body) if isinstance(s, For)}
    assert {"chunks", "elements", "items"} <= kinds


def test_titles_are_printed_and_decide_nothing() -> None:
    def renamed(made: Any) -> Kernel:
        kernel = made.lowered()
        body = rewrite(kernel.body, lambda s: attrs.evolve(s, title="a title") if isinstance(s, Region) else s)
        return attrs.evolve(kernel, body=body)

    for made in kernels():
        before = explain(made, made.lowered(), source(made.lowered()))
        other = renamed(made)
        after = explain(made, other, source(other))
        assert after.rows == before.rows


def test_no_module_asks_for_an_address() -> None:
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in SEARCHED
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id"
    ]
    assert calls == []


def test_rewriting_goes_from_inside_out_and_keeps_what_does_not_change() -> None:
    (made, *_) = kernels()
    body = made.lowered().body
    assert rewrite(body, lambda s: s) is body
    order: list[Any] = []

    def note(s: Any) -> Any:
        order.append(s)
        return s

    rewrite(body, note)
    place = {id(s): i for i, s in enumerate(order)}
    for s, around in within(body):
        assert all(place[id(s)] < place[id(x)] for x in around)
    calls = [s for s in walk(body) if isinstance(s, Call)]
    assert not [s for s in walk(rewrite(body, lambda s: () if isinstance(s, Call) else s)) if isinstance(s, Call)]
    twice = rewrite(body, lambda s: (s, s) if isinstance(s, Call) else s)
    assert len([s for s in walk(twice) if isinstance(s, Call)]) == 2 * len(calls)
