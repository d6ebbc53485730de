"""Outputs in the memory of an input: what the walk of the kernel proves, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, SH, Block, FireironError, Matrix, Schedule, Vector, Warp, cp_async, vector
from fireiron.algebra.dtypes import f32
from fireiron.jit.interface import Interface
from fireiron.kernel.analysis.in_place import check_in_place
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import For, Region, Sync, Wait
from fireiron.schedules import pointwise, rows


@fi.program(x="m n")
def mirrored(x: Any) -> Any:
    return x - x[:, fi.extent("n") - 1 - fi.index("n")]


@fi.program(x="m n")
def doubled(x: Any) -> Any:
    return x * 2


def staged(spec: Any, above: Callable[[Any], Any] = lambda chain: chain) -> Schedule:
    """A row by 4 warps; the copies to shared memory are of others than the threads that store."""
    chain = above(spec.tile(m=1).to(Block).persistent().pipeline(2)).split("n", ways=4).parallel(Warp)
    return chain.load("x", SH, cp_async()).load("x", RF, vector(4)).epilog(memory=RF).done()


@pytest.mark.parametrize(("m", "n"), [(8, 96), (7, 768), (3, 4100), (1, 40000), (1, 131072)])
def test_a_softmax_over_its_input(m: int, n: int) -> None:
    """Lanes, a warp, warps, chunks of a ring, a cluster."""
    schedule = rows.row(rows.softmax(Matrix(m, n, "f16"), out=fi.inplace("x")))
    found = schedule.simulate()
    assert found.comparison is not None
    assert found.comparison.word in ("right", "within bounds")
    assert [p.name for p in Interface.of(schedule.lowered()).pointers] == ["x"]


def test_one_array_is_passed_as_out() -> None:
    x = np.random.default_rng(0).standard_normal((6, 512)).astype(np.float32)
    given, residual, gain = x.copy(), np.ones_like(x), np.full(512, 2, np.float32)
    program = rows.add_rms_norm(Matrix(6, 512), Matrix(6, 512), Vector(512, name="gain"), out=(None, fi.inplace("x")))
    schedule = rows.row(program)
    assert Interface.of(schedule.lowered()).signature == "kernel(residual, gain, *, out, stream=None)"
    normed = np.zeros_like(x)
    schedule.simulate(residual, gain, out=(normed, x))
    np.testing.assert_array_equal(x, given + 1)
    wanted = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6) * 2
    np.testing.assert_allclose(normed, wanted, rtol=1e-5)


def test_pointwise_with_ragged_tiles_and_a_size() -> None:
    assert pointwise.pointwise(doubled(Matrix(7, 513), out=fi.inplace("x"))).simulate().comparison.word == "right"  # pyright: ignore[reportOptionalMemberAccess]
    schedule = pointwise.pointwise(doubled(Matrix(fi.symbol("M"), 512), out=fi.inplace("x")))
    assert schedule.simulate(M=5).comparison.word == "right"  # pyright: ignore[reportOptionalMemberAccess]


def test_the_program_says_it() -> None:
    assert str(doubled(Matrix(8, 8), out=fi.inplace("x")).computed).splitlines()[0].endswith(", y in place of x")


def test_another_threads_element_is_refused() -> None:
    def made(**out: Any) -> Schedule:
        chain = mirrored(Matrix(8, 256), **out).tile(m=1).to(Block).load("x", RF, vector())
        return chain.epilog(memory=RF).done()

    with pytest.raises(FireironError, match=r"inplace-order.*thread 0 reads what thread 63 writes"):
        made(out=fi.inplace("x"))
    made()


def test_the_simulator_sees_what_the_walk_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    import fireiron.kernel.lower.kernel as lowering

    def nothing(*given: object) -> None:
        pass

    monkeypatch.setattr(lowering, "check_in_place", nothing)
    chain = mirrored(Matrix(4, 256), out=fi.inplace("x")).tile(m=2).to(Block).load("x", RF, vector())
    with pytest.raises(FireironError, match="race"):
        chain.epilog(memory=RF).done().simulate()


def test_a_row_that_another_block_reads_is_refused() -> None:
    @fi.program(x="m n")
    def upside_down(x: Any) -> Any:
        return x[fi.extent("m") - 1 - fi.index("m"), :] + x

    chain = upside_down(Matrix(8, 128), out=fi.inplace("x")).tile(m=1).to(Block).load("x", RF, vector())
    with pytest.raises(FireironError, match="a block reads elements that other blocks write"):
        chain.epilog(memory=RF).done()


def test_a_chunk_is_stored_where_its_last_reader_runs() -> None:
    """The row's first sum is read by a loop of its own; the loop behind it reads each chunk once for both results."""

    @fi.program(x="m n")
    def twice(x: Any) -> Any:
        total = fi.sum(x, "n").named("total")
        return x + total, fi.sum(x * total, "n")

    chain = twice(Matrix(4, 1024), out=(fi.inplace("x"), None)).tile(m=1).to(Block).split(n=256)
    made = chain.load("x", RF, vector()).epilog(memory=RF).done()  # one loop for both readers
    assert made.simulate().comparison.word != "wrong"  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("kind", [Sync, Wait])
def test_barriers_and_waits_count(kind: type[Any]) -> None:
    """Copies of other lanes read what a lane stores: without the barrier, or the wait, the walk refuses."""
    kernel = staged(rows.softmax(Matrix(64, 1024), out=fi.inplace("x"))).lowered()
    check_in_place(kernel, ("x",))
    bare = attrs.evolve(kernel, body=rewrite(kernel.body, lambda s: () if isinstance(s, kind) else s))
    with pytest.raises(FireironError, match="inplace-order"):
        check_in_place(bare, ("x",))


def test_a_read_behind_the_write_is_refused() -> None:
    """A loop's body turned round stores before it loads."""
    schedule = pointwise.pointwise(doubled(Matrix(64, 512), out=fi.inplace("x")))
    kernel = schedule.lowered()

    def turned(s: Any) -> Any:
        return attrs.evolve(s, body=tuple(reversed(s.body))) if isinstance(s, For | Region) and len(s.body) > 1 else s

    check_in_place(kernel, ("x",))
    lets = [s for s in kernel.body if not isinstance(s, For | Region)]
    body = (*lets, *reversed([s for s in kernel.body if isinstance(s, For | Region)]))
    with pytest.raises(FireironError, match="read after they are written"):
        check_in_place(attrs.evolve(kernel, body=rewrite(body, turned)), ("x",))


def test_bulk_copies_are_refused() -> None:
    chain = rows.softmax(Matrix(64, 1024, "f16"), out=fi.inplace("x")).tile(m=1).to(Block).split(n=256)
    chain = chain.pipeline(2).specialize().load("x", SH, fi.tma()).load("x", RF, vector())
    with pytest.raises(FireironError, match=r"inplace-order.*several roles"):
        chain.epilog(memory=RF).done()


def test_the_type_is_the_inputs() -> None:
    made = doubled(Matrix(8, 8, "bf16"), out=fi.inplace("x")).computed
    assert made.outputs[0].dtype == made.inputs[0].dtype != f32
