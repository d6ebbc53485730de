"""Gathers: arrays of integers say which elements steps read, in every way in which an operand reaches its threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, SH, Block, Matrix, Thread, Vector, Warp, cp_async, symbol, vector
from fireiron.algebra.expr import Element, Var, as_expr, as_int, evaluate, free, ge, lt, proves, substitute
from fireiron.algebra.index.printing import to_c
from fireiron.kernel.ir.declarations import Pointer
from fireiron.kernel.ir.statements import Fetch, For, walk
from fireiron.schedules import pointwise, rows


@fi.program(page="b p", cache="t d", w="b j")
def paged(page: Any, cache: Any, w: Any) -> Any:
    j = fi.index("j")
    return fi.sum(cache[page[:, j // 16] * 16 + j % 16, :] * w, "j")


@fi.program(ids="m", table="v n")
def softmax_of_lines(ids: Any, table: Any) -> Any:
    return fi.softmax(table[ids, :], "n")


def embedding(lines: Any = 300, entries: Any = 70, width: int = 64, dtype: str = "bf16") -> Any:
    return rows.embedding(Vector(lines, "i32", name="ids"), Matrix(entries, width, dtype, name="table"))


def right(schedule: Any, **sizes: Any) -> str:
    found = schedule.simulate(**sizes)
    assert found.comparison is not None
    assert found.comparison.passed, str(found)
    return found.comparison.word


def test_an_element_is_an_index() -> None:
    """It has a range, no more is known of it, and it moves with the dims of its own index."""
    m, n = Var("m", 8), symbol("N")
    e = Element("ids", (m * 2,), (16,), n)
    assert (str(e), to_c(e + 1), free(e), e.divisor) == ("ids[m * 2]", "ids[m * 2] + 1", {m}, 1)
    assert (proves(lt(e, n)), proves(ge(e, 0)), proves(lt(e, n - 1))) == (True, True, False)
    assert substitute(e, {m: as_expr(3)}) == Element("ids", (as_expr(6),), (16,), n) != e
    assert evaluate(e * 4 + m, {"ids": np.arange(16)[::-1], "m": 5}) == 25


@pytest.mark.parametrize("width", [8, 48, 100, 256, 4096])
def test_lines_of_a_table(width: int) -> None:
    assert right(pointwise.pointwise(embedding(width=width))) == "right"


def test_the_output_has_the_type_of_the_table() -> None:
    assert embedding(dtype="f16").computed.outputs[0].dtype.name == "f16"


def test_sizes_of_the_call() -> None:
    """Rows beyond the end read no index; what every index stays below needs no predicate."""
    schedule = pointwise.pointwise(embedding(symbol("M"), symbol("V"), 256))
    right(schedule, M=11, V=5)
    text = schedule.cuda("sm_90")
    assert ("< M ? ids[" in text, "< V" in text) == (True, False)


def test_points_of_single_threads() -> None:
    chain: Any = embedding(50, 70, 96)
    right(chain.tile(m=8, n=32).to(Block).tile(m=1, n=1).to(Thread).done())


def test_a_page_table_is_read_once_a_chunk() -> None:
    given = Matrix(4, 8, "i32", name="page"), Matrix(1600, 64, name="cache"), Matrix(4, 128, name="w")
    program: Any = paged(*given)
    assert (
        str(program.computed.steps[0]) == "y[b, d] = add over j of cache[page[b, j // 16] * 16 + j % 16, d] * w[b, j]"
    )
    schedule = program.tile(b=1, d=32).to(Block).split(j=16).tile(d=1).to(Thread).epilog(memory=RF).done()
    right(schedule)
    loops = [s for s in walk(schedule.lowered().body) if isinstance(s, For)]
    assert [[isinstance(s, Fetch) for s in loop.body].count(True) for loop in loops] == [1, 0]


def test_pages_are_in_range() -> None:
    """An element that is multiplied stays so far below the extent that what is added to it stays inside."""
    program: Any = paged(Matrix(4, 8, "i32", name="page"), Matrix(1600, 64, name="cache"), Matrix(4, 128, name="w"))
    ((element,),) = program.computed.gathers.values()
    assert (element.extent, program.computed.gathered) == (as_expr(100), program.computed.steps[0].dims[::2])


def test_rows_that_are_gathered_stay_in_registers() -> None:
    given = Vector(7, "i32", name="ids"), Matrix(70, 300, "bf16", name="table")
    right(rows.row(softmax_of_lines(*given)))


def test_a_ring_asks_for_the_next_tiles_lines() -> None:
    given = Vector(9, "i32", name="ids"), Matrix(5, 2048, "bf16", name="table")
    chain: Any = softmax_of_lines(*given).tile(m=1).to(Block).persistent().pipeline(3).split("n", ways=4).parallel(Warp)
    schedule = chain.load("table", SH, cp_async()).load("table", RF, vector()).epilog(memory=RF).done()
    right(schedule, launched=2)


def test_an_index_of_an_index() -> None:
    @fi.program(order="m", ids="k", table="v n")
    def twice(order: Any, ids: Any, table: Any) -> Any:
        return table[ids[order], :] * 2

    given = Vector(20, "i32", name="order"), Vector(30, "u8", name="ids"), Matrix(40, 32, name="table")
    schedule = pointwise.pointwise(twice(*given))
    right(schedule)
    assert [s.view.buffer.name for s in walk(schedule.lowered().body) if isinstance(s, Fetch)] == ["order", "ids"]


def test_values_are_those_that_the_indices_say() -> None:
    schedule = pointwise.pointwise(embedding(5, 70, 32, "f32"))
    ids, table = np.array([3, 0, 69, 3, 7], np.int32), np.random.default_rng(0).standard_normal((70, 32), np.float32)
    out = np.full((5, 32), np.nan, np.float32)
    schedule.simulate(ids, table, out=out)
    assert np.array_equal(out, table[ids])


def test_indices_may_lie_outside_an_array_that_says_what_is_there() -> None:
    """Indices below 0, beyond the end, and far beyond it read the value of `outside`; nothing is read there."""

    @fi.program(ids="m", table="v n")
    def anywhere(ids: Any, table: Any) -> Any:
        return fi.outside(table, -1.0)[ids, :]

    schedule = pointwise.pointwise(anywhere(Vector(6, "i32", name="ids"), Matrix(70, 32, "f32", name="table")))
    ids, table = np.array([3, -1, 69, 70, -(2**30), 2**30 - 1], np.int32), np.ones((70, 32), np.float32)
    out = np.full((6, 32), np.nan, np.float32)
    schedule.simulate(ids, table, out=out)
    assert out[:, 0].tolist() == [1, -1, 1, -1, -1, -1]
    with pytest.raises(fi.FireironError):  # a plain gather of these is refused
        pointwise.pointwise(embedding(6, 70, 32, "f32")).simulate(ids, table, out=out)


def test_debug_builds_check_indices() -> None:
    schedule = pointwise.pointwise(embedding())
    assert "check_index" not in schedule.cuda("sm_90")
    assert schedule.compile("sm_90", debug=True).resources.registers


def test_golden(golden: Callable[..., None]) -> None:
    golden(pointwise.pointwise(embedding(8192, 50257, 1024)).cuda("sm_90a"), "kernel/embedding.cu")


def test_an_array_that_is_read_plainly_and_gathered() -> None:
    """A thread that holds elements of x for another read does not know whether it holds the one that is gathered."""
    x = np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)
    target, got = np.array([0, 99, 7, 64, 31], np.int32), np.zeros(5, np.float32)
    spec = rows.cross_entropy(fi.Matrix(5, 100), fi.Vector(5, "i32", name="target"))
    rows.row(spec).simulate(x, target, out=got)
    wanted = np.log(np.exp(x.astype(np.float64)).sum(1)) - x[np.arange(5), target]
    assert np.allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("width", [768, 8192, 50000])
def test_an_array_that_is_compared_too_indexes_what_it_indexes(width: int) -> None:
    """Targets index a row, and are compared with each of its points, beyond whose ends they may lie."""
    target = Vector(300, "i32", name="target")
    spec = rows.cross_entropy_with_gradient(Matrix(300, width, "bf16"), target, out=("f32", "bf16"))
    parameters = rows.row(spec).lowered().parameters
    (below,) = [p.below for p in parameters if isinstance(p, Pointer) and p.buffer.name == "target"]
    assert as_int(below) == width
