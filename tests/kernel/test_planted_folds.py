"""Mistakes planted in folds of rows: the simulator, or the comparison with the reference, finds every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, vector
from fireiron.algebra.expr import Var
from fireiron.algebra.scalar import Constant, Select
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import THREAD, Call, Compute, If, Kernel, Statement, Sync, walk
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references

ROWS, COLUMNS = 4, 99  # the last lanes, warps and chunks have less than the others
FAR = (90, 98, 63)  # by row, columns of lanes whose numbers have all bits, together, and of the last warps


@fi.program(x="m n")
def rows(x: Any) -> Any:
    return fi.softmax(x, "n"), fi.logsumexp(x, "n")


WAYS: dict[str, Callable[[Any], Any]] = {
    "lanes": lambda s: s.tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).epilog(memory=RF).done(),
    "warps": lambda s: s.tile(m=1).to(Block).split("n", ways=4).parallel(Warp).load("x", RF, vector(4)).epilog().done(),
    "chunks": lambda s: (
        s.tile(m=1).to(Block).split(n=64).split("n", ways=2).parallel(Warp).load("x", RF, vector(4)).epilog().done()
    ),
}


@attrs.frozen
class Case:
    """Hold a schedule, its kernel, and the shuffles by which lanes fold what a row's warps left."""

    schedule: Any
    kernel: Kernel
    of_warps: int

    def outcome(self, kernel: Kernel) -> str:
        """Run a kernel: the code of its fault, else whether its outputs are right."""
        arrays = random_arrays(Interface.of(kernel), {})
        arrays["x"] = (arrays["x"] - 200).astype(np.float32)  # exp(x) alone is 0: the largest value matters
        for row, column in enumerate(FAR):  # whoever misses it divides by 0, or overflows
            arrays["x"][row, column] = 200
        expected = references(self.schedule, arrays, {})
        try:
            simulate(kernel, arrays)
        except SimulationError as error:
            return error.code
        outputs = self.schedule.computed.outputs
        found = [compare(t.name, arrays[t.name], expected[t.name], t.dtype) for t in outputs]
        return "right" if all(x.passed for x in found) else "wrong"

    def all(self, wanted: Callable[[Statement], bool]) -> list[Statement]:
        found = [s for s in walk(self.kernel.body) if wanted(s)]
        assert found, "nothing to plant a mistake in"
        return found

    def with_(self, old: Statement, *new: Statement) -> Kernel:
        """Put other statements in the place of one."""
        body = rewrite(self.kernel.body, lambda s: new if s is old else s)
        assert body is not self.kernel.body
        return attrs.evolve(self.kernel, body=body)


@pytest.fixture(params=WAYS)
def case(request: pytest.FixtureRequest) -> Case:
    schedule = WAYS[request.param](rows(Matrix(ROWS, COLUMNS)))
    return Case(schedule, schedule.lowered(), {"lanes": 0, "warps": 2, "chunks": 1}[request.param])


def is_shuffle(s: Statement) -> bool:
    return isinstance(s, Call) and s.lane is not None


def test_the_kernels_are_right(case: Case) -> None:
    assert case.outcome(case.kernel) == "right"
    # Two largest values and two sums: 5 bits of a lane's number each, then those of the number of a warp.
    assert len(case.all(is_shuffle)) == 4 * (5 + case.of_warps)


def test_a_dropped_shuffle(case: Case) -> None:
    for shuffle in case.all(is_shuffle):
        assert case.outcome(case.with_(shuffle)) == "uninitialised-read"


def test_a_dropped_combination(case: Case) -> None:
    """Without the shuffle and what is made of it, each half of the lanes has a result of its own."""
    for shuffle in case.all(is_shuffle):
        assert isinstance(shuffle, Call)
        other = shuffle.views[1].buffer
        (used,) = case.all(lambda s, b=other: isinstance(s, Compute) and any(v.buffer.name == b.name for v in s.inputs))
        assert case.outcome(case.with_(used)) == "wrong"


def test_a_wrong_bit_of_the_lane(case: Case) -> None:
    """A shuffle that repeats another bit leaves out half of the lanes."""
    shuffles = case.all(is_shuffle)
    lanes = [s.lane for s in shuffles if isinstance(s, Call)]
    for i, shuffle in enumerate(shuffles):
        assert isinstance(shuffle, Call)
        # Two folds meet: the five shuffles of each, then those of each that fold what warps left.
        pair, many = 2 * (5 + case.of_warps), case.of_warps
        first, inside = i // pair * pair, i % pair
        count = 5 if inside < 10 else many
        start = first + (inside // 5 * 5 if inside < 10 else 10 + (inside - 10) // many * many)
        same = lanes[start : start + count]
        another = next((lane for lane in same if lane != shuffle.lane), Var(THREAD, case.kernel.threads) % 32 ^ 16)
        assert case.outcome(case.with_(shuffle, attrs.evolve(shuffle, lane=another))) == "wrong"


def test_a_shuffle_from_the_lane_itself(case: Case) -> None:
    for shuffle in case.all(is_shuffle):
        assert isinstance(shuffle, Call)
        own = attrs.evolve(shuffle, lane=Var(THREAD, case.schedule.lowered().threads) % 32)
        assert case.outcome(case.with_(shuffle, own)) == "wrong"


@pytest.mark.parametrize("case", ["warps", "chunks"], indirect=True)
def test_a_dropped_barrier_between_warps(case: Case) -> None:
    barriers = case.all(lambda s: isinstance(s, Sync))
    assert len(barriers) == 2  # of both largest values, and of both sums
    for barrier in barriers:
        assert case.outcome(case.with_(barrier)) == "race"


def test_a_changed_identity(case: Case) -> None:
    """A sum that starts at 1 is wrong; and so is a largest value that starts at 0, below which all values lie."""
    starts = case.all(lambda s: isinstance(s, Compute) and isinstance(s.expr, Constant) and not s.inputs)
    assert {s.expr.value for s in starts if isinstance(s, Compute) and isinstance(s.expr, Constant)} == {-np.inf, 0.0}
    for start in starts:
        assert isinstance(start, Compute)
        assert isinstance(start.expr, Constant)
        wrong = Constant(1.0 if start.expr.value == 0 else 0.0, start.expr.dtype)
        assert case.outcome(case.with_(start, attrs.evolve(start, expr=wrong))) == "wrong"
        if start.expr.value == 0:  # a value that is folded twice changes no maximum
            assert case.outcome(case.with_(start)) in ("uninitialised-read", "wrong")


@pytest.mark.parametrize("case", ["warps", "chunks"], indirect=True)
def test_a_dropped_mask_of_a_ragged_row(case: Case) -> None:
    """Copies then go beyond the array's end, and folds take elements that the row does not have."""
    for s in case.all(lambda s: isinstance(s, Call) and s.read is not None):
        assert isinstance(s, Call)
        assert case.outcome(case.with_(s, attrs.evolve(s, read=None))) == "out-of-bounds"
    for s in case.all(lambda s: isinstance(s, Call) and s.write is not None):
        assert isinstance(s, Call)
        assert case.outcome(case.with_(s, attrs.evolve(s, write=None))) == "out-of-bounds"
    masked = case.all(lambda s: isinstance(s, Compute) and s.write is not None)
    assert len(masked) == 4  # a fold each
    for s in masked:
        assert isinstance(s, Compute)
        assert case.outcome(case.with_(s, attrs.evolve(s, write=None))) == "wrong"


@pytest.mark.parametrize("case", ["lanes"], indirect=True)
def test_a_dropped_guard_of_a_ragged_row(case: Case) -> None:
    """Where lanes have differently many elements, they load zeros for the last ones and do not fold these."""
    (guard,) = case.all(lambda s: isinstance(s, If) and not any(_writes(c, "y1") for c in walk(s.body)))
    assert isinstance(guard, If)
    assert case.outcome(case.with_(guard, *guard.body)) == "out-of-bounds"
    loads = case.all(lambda s: isinstance(s, Call) and s.read is not None)
    assert len(loads) == 1
    for s in loads:
        assert isinstance(s, Call)
        assert case.outcome(case.with_(s, attrs.evolve(s, read=None))) == "out-of-bounds"
    choices = case.all(lambda s: isinstance(s, Compute) and isinstance(s.expr, Select) and s.dst in s.inputs)
    assert len(choices) == 4  # a fold each
    for s in choices:
        assert isinstance(s, Compute)
        assert isinstance(s.expr, Select)
        assert case.outcome(case.with_(s, attrs.evolve(s, expr=s.expr.x))) == "wrong"


def test_a_dropped_condition_of_the_storing_thread(case: Case) -> None:
    """Then every thread of a row stores the row's one value."""
    (store, *inner) = case.all(lambda s: isinstance(s, If) and any(_writes(c, "y1") for c in walk(s.body)))
    assert isinstance(store, If)
    assert all(s in walk(store.body) for s in inner)  # what else guards the store lies inside
    assert case.outcome(case.with_(store, *store.body)) == "race"


def _writes(s: Statement, *names: str) -> bool:
    match s:
        case Call(views=(*_, dst)) | Compute(dst=dst):
            return dst.buffer.name in names
        case _:
            return False
