"""Running results: right by every carrier, in the order of the dim, and with mistakes planted in each carrier found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Group, Matrix, Thread, Warp, vector
from fireiron.algebra.scalar import Constant
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, Compute, Kernel, Lower, Raise, Statement, Sync, walk
from fireiron.schedules import rows
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references
from fireiron.verify.verification import Data, verify


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.cumsum(x, "n")


def _split(s: Any, chunk: int, ways: int) -> Any:
    whole = s.tile(m=1).to(Block)
    whole = whole.split(n=chunk) if chunk else whole
    whole = whole.split("n", ways=ways, multiple_of=4).parallel(Warp) if ways else whole
    return whole.load("x", RF, vector()).epilog(memory=RF).done()


def _of_blocks(s: Any, reduce: Any, ways: int = 3) -> Any:
    parts = s.tile(m=1).to(Block).split("n", ways=ways, multiple_of=4).parallel(Block, reduce=reduce)
    parts = parts.split("n", ways=2, multiple_of=4).parallel(Warp)
    return parts.load("x", RF, vector()).epilog(memory=RF).done()


WAYS: dict[str, Callable[[Any], Any]] = {
    "lanes": lambda s: s.tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).epilog(memory=RF).done(),
    "eight lanes": lambda s: (
        s.tile(m=16).to(Block).tile(m=1).to(Group(Thread, 8)).load("x", RF, vector()).epilog(memory=RF).done()
    ),
    "warps": lambda s: _split(s, 0, 4),
    "chunks": lambda s: _split(s, 256, 4),
    "a cluster": lambda s: _of_blocks(s, fi.by_cluster()),
    "blocks": lambda s: _of_blocks(s, fi.in_order()),
    "chunks of a warp": lambda s: s.tile(m=2).to(Block).split(n=96).tile(m=1).to(Warp).load("x", RF, vector()).done(),
}


def right(schedule: Any) -> None:
    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


@pytest.mark.product
@pytest.mark.parametrize("width", [48, 1000])
@pytest.mark.parametrize("way", WAYS)
def test_sums_of_all_values_so_far(way: str, width: int) -> None:
    right(WAYS[way](sums(Matrix(5, width))))


@pytest.mark.parametrize("chunk", [4, 20])
def test_along_a_dim_in_the_middle(chunk: int) -> None:
    spec = fi.program(x="b n c")(lambda x: fi.cumsum(x, "n"))(fi.tensor(3, 20, 64, dtype="bf16"))
    tiles = spec.tile(b=1, c=64).to(Block).split(n=chunk).tile(c=32).to(Warp)
    right(tiles.load("x", RF, vector()).epilog(memory=RF).done())


def test_products_conditions_and_steps_around() -> None:
    @fi.program(x="m n")
    def many(x: Any) -> Any:
        odd = fi.cumsum(x * x, "n", where=fi.index("n") % 3 > 0)
        return odd - x, fi.cumprod(fi.maximum(x, 1.0), "n"), fi.max(x, "n")

    right(_split(many(Matrix(3, 100)), 64, 2))


@pytest.mark.parametrize("way", ["lanes", "warps", "chunks", "a cluster", "blocks"])
def test_a_recurrence_is_folded_in_order(way: str) -> None:
    """h = h / 2 + x: maps a * h + b, whose composition does not commute."""

    @fi.program(x="m n")
    def decayed(x: Any) -> Any:
        return fi.fold_by(
            x, "n", (1.0, 0.0), lambda a, b, c, d: (a * c, b * c + d), lambda v: (0.5, v), lambda a, b: b, running=True
        )

    x = np.random.default_rng(2).standard_normal((4, 300)).astype(np.float32)
    got, h = np.zeros_like(x), np.zeros(4)
    WAYS[way](decayed(Matrix(4, 300))).simulate(x, out=got)
    for i in range(300):
        h = 0.5 * h + x[:, i]
        assert np.allclose(got[:, i], h, atol=1e-5)


@pytest.mark.parametrize("width", [8, 100, 1000])
def test_the_preset(width: int) -> None:
    right(rows.row(rows.cumsum(Matrix(5, width, "bf16"))))


def test_a_row_in_chunks(golden: Callable[[str, str], None]) -> None:
    schedule = rows.row(rows.cumsum(Matrix(4096, 65536, "bf16"), arch="sm_90a"))
    assert not schedule.compile("sm_90a").resources.spills
    golden(schedule.cuda("sm_90a"), "schedules/cumsum_65536.cu")


def outcome(schedule: Any, kernel: Kernel) -> str:
    """Run a kernel: the code of its fault, else whether its output is right."""
    arrays = random_arrays(Interface.of(kernel), {})
    expected = references(schedule, arrays, {})
    try:
        simulate(kernel, arrays)
    except SimulationError as error:
        return error.code
    out = schedule.computed.outputs[0]
    return "right" if compare(out.name, arrays[out.name], expected[out.name], out.dtype).passed else "wrong"


def changed(kernel: Kernel, change: Callable[[Statement], Statement | tuple[Statement, ...]]) -> Kernel:
    return attrs.evolve(kernel, body=rewrite(kernel.body, change))


@pytest.mark.parametrize("way", ["warps", "chunks", "a cluster", "blocks"])
def test_every_barrier_between_warps_is_needed(way: str) -> None:
    schedule = WAYS[way](sums(Matrix(3, 1000)))
    kernel = schedule.lowered()
    barriers = [s for s in walk(kernel.body) if isinstance(s, Sync)]
    assert barriers
    assert outcome(schedule, kernel) == "right"
    for barrier in barriers:
        assert outcome(schedule, changed(kernel, lambda s, b=barrier: () if s is b else s)) != "right"


@pytest.mark.parametrize("kind", [Raise, Lower])
def test_every_flag_between_blocks_is_needed(kind: type[Any]) -> None:
    schedule = WAYS["blocks"](sums(Matrix(3, 1000)))
    kernel = schedule.lowered()
    assert [s for s in walk(kernel.body) if isinstance(s, kind)]
    assert outcome(schedule, changed(kernel, lambda s: () if isinstance(s, kind) else s)) != "right"


def test_parts_of_a_cluster_by_the_preset(golden: Callable[[str, str], None]) -> None:
    right(rows.row(rows.cumsum(Matrix(3, 5000)), blocks=2))
    schedule = rows.row(rows.cumsum(Matrix(4096, 65536, "bf16"), arch="sm_90a"), blocks=4)
    assert not schedule.compile("sm_90a").resources.spills
    golden(schedule.cuda("sm_90a"), "schedules/cumsum_65536_cluster.cu")


def test_blocks_pass_their_sums_on(golden: Callable[[str, str], None]) -> None:
    """A million columns, in one pass."""
    schedule = sums(Matrix(64, 1 << 20), arch="sm_90a").tile(m=1).to(Block).split("n", ways=64).parallel(Block)
    schedule = schedule.split("n", ways=16).parallel(Warp).load("x", RF, vector()).epilog(memory=RF).done()
    assert not schedule.compile("sm_90a").resources.spills
    golden(schedule.cuda("sm_90a"), "schedules/cumsum_of_blocks.cu")


@pytest.mark.parametrize("way", WAYS)
def test_every_shuffle_and_every_carried_sum_is_needed(way: str) -> None:
    schedule = WAYS[way](sums(Matrix(3, 1000)))
    kernel = schedule.lowered()
    calls = [s for s in walk(kernel.body) if isinstance(s, Call) and s.lane is not None]
    assert len(calls) >= 5 - 2 * (way == "eight lanes")
    for call in calls:
        assert outcome(schedule, changed(kernel, lambda s, c=call: () if s is c else s)) != "right"
    carried = [
        s
        for s in walk(kernel.body)
        if isinstance(s, Compute) and s.dst.buffer.name.startswith(("total", "front", "cumsum_before"))
        and not isinstance(s.expr, Constant)
    ]  # fmt: skip
    for step in carried:
        assert outcome(schedule, changed(kernel, lambda s, c=step: () if s is c else s)) != "right"
