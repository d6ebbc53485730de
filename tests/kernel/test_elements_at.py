"""Elements that indices name are written, or added to by instructions for each type and width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from element_programs import along_lines, of_lines, of_windows

import fireiron as fi
from fireiron import RF, Block, Matrix, Thread, Vector, symbol, tensor
from fireiron.algebra.dtypes import bf16
from fireiron.kernel.ir.statements import Call, walk
from fireiron.schedules import pointwise
from fireiron.verify.verification import verify


@fi.program(ids="e", counts="v")
def histogram(ids: Any, counts: Any) -> Any:
    return counts.at[ids].add(1)


@fi.program(first="e", last="e", x="v n", w="e", sums="v n")
def over_edges(first: Any, last: Any, x: Any, w: Any, sums: Any) -> Any:
    return sums.at[last, :].add(x[first, :] * w)


@fi.program(ids="b s", x="b s n", sums="v n")
def beside_a_result(ids: Any, x: Any, sums: Any) -> Any:
    return x * 3, sums.at[ids, :].add(x)


@fi.program(ids="e", x="e n", sums="v n")
def from_the_end(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[fi.where(ids < 0, ids + 37, ids), :].add(x)


@fi.program(ids="b s", x="b", sums="v")
def of_bags(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[ids].add(x)


@fi.program(places="e", x="e n", cache="v n")
def kept(places: Any, x: Any, cache: Any) -> Any:
    return cache.at[places, :].set(x * 2)


@fi.program(places="s", x="b h s d", cache="b h t d")
def of_words(places: Any, x: Any, cache: Any) -> Any:
    return cache.at[:, :, places, :].set(x)


def lines(kind: str, width: int, count: Any = 300, rows: Any = 37) -> Any:
    given = Matrix(count, width, "f32" if kind == "f64" else "i32" if kind == "i32" else "bf16")
    return of_lines(Vector(count, "i32", name="ids"), given, Matrix(rows, width, kind))


def right(schedule: Any, arch: str = "sm_90a", given: Any = None, **sizes: int) -> None:
    verdict = verify(
        schedule, lambda data: schedule.simulate(*data.inputs, out=data.out, **data.numbers), sizes, arch=arch,
        given=given,
    )  # fmt: skip
    assert verdict.passed, str(verdict)


def instructions(schedule: Any, arch: str) -> set[str]:
    return {s.atom.name for s in walk(schedule.lowered(arch).body) if isinstance(s, Call) and s.atom.kind == "Add"}


@pytest.mark.parametrize(
    ("kind", "width", "arch", "name"),
    [
        ("f32", 64, "sm_90a", "red.add.f32x4"),
        ("f32", 2, "sm_90a", "red.add.f32x2"),
        ("f32", 33, "sm_90a", "red.add.f32"),
        ("f32", 64, "sm_80", "red.add.f32"),
        ("f64", 12, "sm_80", "red.add.f64"),
        ("i32", 12, "sm_90a", "red.add.i32"),
        ("f16", 64, "sm_90a", "red.add.f16x8"),
        ("f16", 60, "sm_90a", "red.add.f16x4"),
        ("f16", 64, "sm_75", "red.add.f16x2"),
        ("f16", 1, "sm_75", "red.add.f16"),
        ("bf16", 64, "sm_90a", "red.add.bf16x8"),
        ("bf16", 6, "sm_90a", "red.add.bf16x2"),
        ("bf16", 3, "sm_90a", "red.add.bf16"),
    ],
)
def test_the_widest_instruction_adds(kind: str, width: int, arch: str, name: str) -> None:
    schedule = pointwise.pointwise(lines(kind, width))
    assert instructions(schedule, arch) == {name}
    right(schedule, arch)
    assert schedule.compile(arch).resources.spills == 0


@pytest.mark.parametrize(
    "program",
    [
        of_windows(tensor(5, 30, 3), tensor(5, 61)),
        histogram(Vector(500, "i32", name="ids"), Vector(20, name="counts")),
        over_edges(Vector(99, "i32", name="first"), Vector(99, "i32", name="last"), Matrix(37, 64, "bf16", name="x"),
                   Vector(99, name="w"), Matrix(37, 64)),
        beside_a_result(Matrix(5, 20, "i32", name="ids"), tensor(5, 20, 48), Matrix(37, 48)),
        along_lines(Matrix(20, 50, "i32", name="ids"), Matrix(20, 50), Matrix(20, 9)),
        along_lines(Matrix(200, 500, "i32", name="ids"), Matrix(200, 500), Matrix(200, 90)),
        of_bags(Matrix(200, 24, "i32", name="ids"), Vector(200, name="x"), Vector(90, name="sums")),
    ],
    ids=lambda program: program.name,
)  # fmt: skip
def test_what_is_added_and_where(program: Any) -> None:
    right(pointwise.pointwise(program))


def test_sizes_of_the_call() -> None:
    right(pointwise.pointwise(lines("f32", 64, symbol("E"), symbol("V"))), E=77, V=5)


def test_the_chain_of_an_author() -> None:
    chain: Any = lines("f32", 64)
    right(chain.tile(e=16, n=32).to(Block).tile(e=1, n=4).to(Thread).epilog(memory=RF).done())
    right(chain.tile(e=16, n=32).to(Block).tile(e=1, n=1).to(Thread).done())


def test_values_are_added_to_what_the_array_holds() -> None:
    rng = np.random.default_rng(0)
    ids, x, sums = np.array([3, 0, 3, 36, 3], np.int32), rng.standard_normal((5, 64)), rng.standard_normal((37, 64))
    x, sums = x.astype(np.float32), sums.astype(np.float32)
    want = sums.copy()
    np.add.at(want, ids, 2 * x)
    spec = of_lines(Vector(5, "i32", name="ids"), Matrix(5, 64), Matrix(37, 64))
    pointwise.pointwise(spec).simulate(ids, x, out=sums)
    assert np.allclose(sums, want, atol=1e-6)


def test_numbers_from_the_end_and_far_outside() -> None:
    """Such numbers are compared at run time: what lies outside is not added."""
    ids = np.array([-1, -37, 36, 0, -38, 37, 2**31 - 1, -(2**31)], np.int32)
    x, sums = np.ones((8, 64), np.float32), np.zeros((37, 64), np.float32)
    spec = from_the_end(Vector(8, "i32", name="ids"), Matrix(8, 64), Matrix(37, 64))
    pointwise.pointwise(spec).simulate(ids, x, out=sums)
    assert sums[:, 5].tolist() == [2, *[0] * 35, 2]
    right(pointwise.pointwise(spec), given={"ids": ids})


def test_it_is_printed_as_an_addition() -> None:
    assert str(lines("f32", 64).computed.steps[0]) == "total[ids[e], n] += x[e, n] * 2"


def test_numbers_outside_are_refused() -> None:
    """The simulator and debug builds check them, as for reads."""
    schedule = pointwise.pointwise(lines("f32", 64, 3))
    with pytest.raises(fi.FireironError, match="element 1 of ids is 37") as caught:
        schedule.simulate(np.array([3, 37, 0], np.int32), np.ones((3, 64), bf16.numpy), out=np.zeros((37, 64), "f4"))
    assert caught.value.code == "gather-range"
    assert schedule.compile("sm_90a", debug=True).resources.registers


@pytest.mark.parametrize("kind", ["f32", "bf16", "u8"])
def test_elements_are_written_and_others_stay(kind: str) -> None:
    given = Vector(20, "i32", name="places"), Matrix(20, 64, kind), Matrix(37, 64, kind, name="cache")
    right(
        pointwise.pointwise(kept(*given)), given={"places": np.random.default_rng(0).permutation(37)[:20].astype("i4")}
    )
    cache = np.zeros((37, 64), given[2].dtype.numpy)
    x = np.ones((20, 64), given[2].dtype.numpy)
    pointwise.pointwise(kept(*given)).simulate(np.arange(20, dtype=np.int32), x, out=cache)
    assert cache.astype(float).sum() == 2 * 20 * 64


@pytest.mark.parametrize("words", [1, 7])
def test_words_of_a_cache(words: int) -> None:
    spec = of_words(
        Vector(words, "i32", name="places"), tensor(2, 4, words, 64, dtype="f16"),
        tensor(2, 4, 128, 64, dtype="f16", name="cache"),
    )  # fmt: skip
    right(pointwise.pointwise(spec), given={"places": np.array([127, 3, 9, 0, 44, 5, 6][:words], np.int32)})


def test_two_points_of_one_element_are_a_race() -> None:
    """The simulator finds what the hardware would leave to chance."""
    schedule = pointwise.pointwise(kept(Vector(20, "i32", name="places"), Matrix(20, 64), Matrix(37, 64, name="cache")))
    with pytest.raises(fi.FireironError) as caught:
        schedule.simulate(np.full(20, 3, np.int32), np.ones((20, 64), np.float32), out=np.zeros((37, 64), np.float32))
    assert caught.value.code == "race"
