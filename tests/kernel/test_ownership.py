"""Ownership: what one thread tells of all is what looking at every thread finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import matmul
from fireiron.algebra.expr import Expr, Var, as_expr, evaluate, lt
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis import ownership
from fireiron.kernel.analysis.ownership import Access, Limit, Ownership, RegisterLoop
from fireiron.schedules import ampere, simt, volta

THREAD = Var("thread", 64)
ROW, COLUMN, OTHER = Var("r", 4), Var("c", 2), Var("o", 2)
AT: Expr = THREAD // 8 * 4


def visit(rows: Expr, columns: Expr, *loops: Var, wide: int = 1) -> Access:
    trips = tuple(RegisterLoop(v, v.extent, True) for v in loops if v.extent is not None)
    return Access((rows, columns), (Layout(1, 1), Layout(wide, 1)), trips)


HELD = visit(AT + ROW, THREAD % 8 * 2 + COLUMN, ROW, COLUMN)
ALIKE = {
    "the same": HELD,
    "another order": visit(AT + ROW, THREAD % 8 * 2 + COLUMN, COLUMN, ROW),
    "another loop": visit(AT + ROW, THREAD % 8 * 2 + OTHER, ROW, OTHER),
    "one visit of two": visit(AT + ROW, THREAD % 8 * 2, ROW, wide=2),
    "one row": visit(AT + 2, THREAD % 8 * 2 + COLUMN, COLUMN),
}
REPEATED = Var("r", 6)  # three elements, each held twice
ELSEWHERE = {
    "the next column": visit(AT + ROW, THREAD % 8 * 2 + COLUMN + 1, ROW, COLUMN),
    "rows of the next thread": visit(AT + ROW + 4, THREAD % 8 * 2 + COLUMN, ROW, COLUMN),
    "another thread's columns": visit(AT + ROW, THREAD % 4 * 2 + COLUMN, ROW, COLUMN),
    "columns that turn with the thread": visit(AT + ROW, THREAD % 8 * 2 + (COLUMN + THREAD) % 2, ROW, COLUMN),
}


def resolved(wanted: Access) -> tuple[str, str]:
    offset, steps = Ownership(HELD, HELD, 64, "A").resolve(wanted, "acc", "B")
    return str(offset), str(steps)


def either_way(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> list[Any]:
    """Make something as it is made, and looking at every thread."""
    found = [make()]
    monkeypatch.setattr(ownership, "_moved_alike", lambda a, b: False)
    return [*found, make()]


@pytest.mark.parametrize("name", ALIKE)
def test_one_thread_tells_of_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, whole = either_way(monkeypatch, lambda: resolved(ALIKE[name]))
    assert quick == whole


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_other_threads_hold_is_refused_all_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> str:
        with pytest.raises(DecompositionError) as caught:
            resolved(ELSEWHERE[name])
        return str(caught.value)

    quick, whole = either_way(monkeypatch, refused)
    assert quick == whole


def test_only_a_thread_that_adds_itself_moves_all_alike() -> None:
    moved = ownership._moved_alike
    assert moved(HELD, ALIKE["another loop"])
    assert moved(HELD, ELSEWHERE["the next column"])  # found missing by any thread
    assert not moved(HELD, ELSEWHERE["another thread's columns"])
    assert not moved(HELD, ELSEWHERE["columns that turn with the thread"])
    turned = visit(AT + ROW, THREAD % 8 * 2 + (COLUMN + THREAD) % 2, ROW, COLUMN)
    assert not moved(turned, turned)


@pytest.mark.parametrize(
    "partial",
    [
        attrs.evolve(HELD, limits=(Limit(0, AT + ROW, Layout(1, 1), as_expr(28)),)),
        attrs.evolve(HELD, guards=(lt(THREAD, 56),)),
    ],
    ids=["a tile's end", "units without a tile"],
)
def test_the_first_thread_does_not_tell_of_those_that_hold_nothing(partial: Access) -> None:
    with pytest.raises(DecompositionError, match="thread 56 touch element") as caught:
        Ownership(partial, partial, 64, "A").resolve(ALIKE["another loop"], "acc", "B")
    assert caught.value.code == "ownership-conflict"
    there = attrs.evolve(ALIKE["another loop"], limits=partial.limits, guards=partial.guards)
    assert Ownership(partial, partial, 64, "A").resolve(there, "acc", "B")[0] == ROW * 2 + OTHER


@pytest.mark.parametrize(
    "make",
    [
        lambda: simt.listing4(matmul(300, 200, 40)),
        lambda: simt.sgemm(matmul(256, 256, 64)),
        lambda: ampere.gemm(matmul(256, 256, 64, "f16")),
        lambda: volta.gemm(matmul(256, 256, 64, "f16")),
    ],
)
def test_kernels_are_the_same(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    quick, whole = either_way(monkeypatch, lambda: make().cuda())
    assert quick == whole


def test_keys_tell_elements_apart() -> None:
    for access in (*ALIKE.values(), *ELSEWHERE.values()):
        keys = access.keys(64)
        assert all(len(np.unique(row)) == keys.shape[1] for row in keys)


def test_an_element_that_a_thread_holds_twice_has_one_register() -> None:
    """Whoever writes it and whoever reads it take the same one, the access that defines the map too."""
    held = visit(REPEATED % 3, THREAD % 8, REPEATED)
    map_ = Ownership(held, held, 64, "a fold")
    again = Var("s", 6)
    registers = [
        [evaluate(map_.resolve(a, "x", "a load")[0], {v.name: n}) for n in range(6)]
        for a, v in ((held, REPEATED), (visit(again % 3, THREAD % 8, again), again))
    ]
    assert registers == [[0, 1, 2, 0, 1, 2]] * 2
    apart = visit(REPEATED, THREAD % 8, REPEATED)  # six elements
    assert Ownership(apart, apart, 64, "a fold").resolve(apart, "x", "a load")[0] == REPEATED


def test_points_repeat_where_an_axis_is_left_out() -> None:
    held = Ownership(visit(REPEATED // 3, REPEATED % 3, REPEATED), visit(REPEATED // 3, REPEATED % 3), 64, "a load")
    assert not held.repeats([0, 1])
    assert held.repeats([0])
    assert held.repeats([1])
    alone = Ownership(HELD, HELD, 64, "a load")  # each axis has a loop of its own
    assert not alone.repeats([0])
    assert not alone.repeats([1])
