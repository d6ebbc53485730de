"""Each planted mistake is found, under its own code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron.algebra.dtypes import f16
from fireiron.algebra.expr import and_, le, lt
from fireiron.algebra.scalar import Arg, Binary, Constant
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import Commit, Compute, Sync, Wait
from fireiron.language.levels import Block, Level, Warp
from fireiron.simulate import simulate
from fireiron.simulate.machine import Arrival, Coroutine, run
from fireiron.simulate.order import Order
from fireiron.simulate.state import Machine, Place

Names = Any


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def refused(kernel: Any, arrays: Any, code: str, *texts: str, **more: Any) -> SimulationError:
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, arrays, **more)
    assert caught.value.code == code, str(caught.value)
    for text in texts:
        assert text in caught.value.message
    assert caught.value.fix
    return caught.value


def exchange(k: Any, barrier: tuple[Any, ...], threads: int = 64) -> Any:
    """Reverse within warps through shared memory."""
    c, s, r = k.gl("C", (threads,), "output"), k.sh("s", threads), k.rf("r", 1)
    return k.kernel(
        k.region("Move in", k.fill(k.at(s, k.thread), 1.0), path="top > in"),
        *barrier,
        k.region("Move out", k.move(k.at(s, k.thread ^ 1), k.at(r, 0)), path="top > out"),
        k.move(k.at(r, 0), k.at(c, k.thread)),
        threads=threads,
    )


def test_whole_message_of_a_removed_barrier(k: Names) -> None:
    error = refused(exchange(k, ()), {"C": zeros(64)}, "race")
    assert str(error) == (
        "SimulationError[race]: copy.4B.SH.RF in `Move out`: thread 1 of block 0 reads s[0] (byte 0 of shared memory), "
        "which thread 0 of block 0 wrote (compute in `Move in`), no barrier in between\n"
        "at:  top > out\n"
        "fix: put a Sync between the two"
    )


@pytest.mark.parametrize("level", [Block, Warp])
def test_a_barrier_of_the_right_level_is_enough(k: Names, level: Any) -> None:
    simulate(exchange(k, (k.sync(level),)), {"C": zeros(64)})


def test_a_warp_barrier_does_not_order_two_warps(k: Names) -> None:
    c, s, r = k.gl("C", (64,), "output"), k.sh("s", 64), k.rf("r", 1)
    kernel = k.kernel(
        k.fill(k.at(s, k.thread), 1.0),
        k.sync(Warp),
        k.move(k.at(s, k.thread ^ 32), k.at(r, 0)),
        k.move(k.at(r, 0), k.at(c, k.thread)),
        threads=64,
    )
    refused(kernel, {"C": zeros(64)}, "race", "thread 0 of block 0 reads s[32]", "which thread 32")


@pytest.mark.parametrize("ordered", [False, True])
def test_order_is_transitive_through_groups_of_warps(k: Names, ordered: bool) -> None:
    """Warp 0 meets warp 1 in a pair, warp 1 then meets warp 2 in a group of four."""
    pair, four = Level("Pair", Block, None, 64), Level("Four", Block, None, 128)
    c, s, r = k.gl("C", (1,), "output"), k.sh("s", 1), k.rf("r", 1)
    kernel = k.kernel(
        k.only(lt(k.thread, 1), k.fill(k.at(s, 0), 1.0)),
        k.sync(pair),
        k.sync(four) if ordered else k.sync(Warp),
        k.only(lt(k.thread // 64 * -1 + 1, 1) if ordered else lt(k.thread, 0), k.move(k.at(s, 0), k.at(r, 0))),
        k.only(lt(127, k.thread) if not ordered else lt(k.thread, 0), k.move(k.at(s, 0), k.at(r, 0))),
        k.only(lt(k.thread, 1), k.fill(k.at(c, 0))),
        threads=256 if not ordered else 128,
    )
    if ordered:
        simulate(kernel, {"C": zeros(1)})
    else:
        refused(kernel, {"C": zeros(1)}, "race", "thread 128 of block 0 reads s[0]", "which thread 0")


@pytest.mark.parametrize("ordered", [True, False])
def test_a_wait_behind_the_barrier_orders_nothing(k: Names, ordered: bool) -> None:
    """What cp.async copied is there for the others only where the copying threads waited before the barrier."""
    a, c, s, r = k.gl("A", (64,)), k.gl("C", (64,), "output"), k.sh("s", 64), k.rf("r", 1)
    order = (Wait("cp.async", 0), k.sync()) if ordered else (k.sync(), Wait("cp.async", 0))
    kernel = k.kernel(
        k.call("cp.async.4B", k.at(a, k.thread), k.at(s, k.thread)),
        Commit("cp.async"),
        *order,
        k.move(k.at(s, k.thread ^ 1), k.at(r, 0)),
        k.move(k.at(r, 0), k.at(c, k.thread)),
        threads=64,
    )
    arrays = {"A": zeros(64), "C": zeros(64)}
    if ordered:
        simulate(kernel, arrays)
    else:
        refused(kernel, arrays, "race", "reads s[0]", "no barrier in between")


def ring(k: Names, last: bool, level: Any = Block, readers: int = 32) -> Any:
    """Fill and read one slot three times; without the barrier at the end the next fill overtakes the reads."""
    c, s, r = k.gl("C", (32,), "output"), k.sh("s", 32), k.rf("r", 1)
    return k.kernel(
        k.loop(
            "i",
            3,
            k.fill(k.at(s, k.thread), 1.0),
            k.sync(level),
            k.only(lt(k.thread, readers), k.move(k.at(s, 0), k.at(r, 0))),
            *((k.sync(level),) if last else ()),
        ),
        k.fill(k.at(c, k.thread)),
    )


@pytest.mark.parametrize("level", [Block, Warp])
def test_removed_barrier_at_the_end_of_a_loop(k: Names, level: Any) -> None:
    simulate(ring(k, True, level), {"C": zeros(32)})
    refused(ring(type(k)(), False, level), {"C": zeros(32)}, "race", "thread 0 of block 0 writes s[0]", "read")
    # The one thread that reads its own element again needs no barrier.
    simulate(ring(type(k)(), False, level, readers=1), {"C": zeros(32)})


def test_a_same_value_is_still_a_race(k: Names) -> None:
    s, c = k.sh("s", 1), k.gl("C", (32,), "output")
    kernel = k.kernel(k.fill(k.at(s, k.thread * 0), 1.0), k.fill(k.at(c, k.thread)))
    refused(kernel, {"C": zeros(32)}, "race", "writes s[0]", "thread 0 of block 0", "thread 31 of block 0")
    simulate(kernel, {"C": zeros(32)}, track=False)


def test_reads_meet_writes_inside_one_statement(k: Names) -> None:
    s, c = k.sh("s", 33), k.gl("C", (32,), "output")
    kernel = k.kernel(
        k.fill(k.at(s, k.thread), 1.0),
        k.only(lt(k.thread, 1), k.fill(k.at(s, 32), 1.0)),
        k.sync(),
        k.move(k.at(s, k.thread + 1), k.at(s, k.thread)),
        k.fill(k.at(c, k.thread)),
    )
    refused(kernel, {"C": zeros(32)}, "race", "thread 1 of block 0 writes s[1]", "thread 0 of block 0 read")


def test_overlaid_buffers_share_bytes(k: Names) -> None:
    c = k.gl("C", (32,), "output")
    a, b, r = k.sh("a", 32), k.sh("b", 64, dtype=f16), k.rf("r", 1, f16)

    def body(kit: Any, *between: Any) -> Any:
        return kit.kernel(
            k.fill(k.at(a, 31 - k.thread), 1.0),
            *between,
            k.fill(k.at(b, k.thread), 1.0),
            k.move(k.at(b, k.thread), k.at(r, 0)),
            k.fill(k.at(c, k.thread)),
        )

    simulate(body(k, k.sync()), {"C": zeros(32)})
    refused(body(k), {"C": zeros(32)}, "race", "writes b[0]", "which thread 31 of block 0 wrote")


def test_overlapping_tiles_of_two_blocks(k: Names) -> None:
    c = k.gl("C", (96,), "output")
    kernel = k.kernel(k.fill(k.at(c, k.block * 28 + k.thread)), grid=3)
    error = refused(
        kernel,
        {"C": zeros(96)},
        "race",
        "tiles overlap",
        "thread 0 of block 1 writes C[28]",
        "thread 28 of block 0 writes",
    )
    assert "owner" in error.fix


def test_overlapping_tiles_inside_a_block(k: Names) -> None:
    c = k.gl("C", (8, 8), "output")
    kernel = k.kernel(k.loop("i", 2, lambda i: k.fill(k.at(c, k.thread + i * 31))))
    refused(kernel, {"C": zeros(8, 8)}, "race", "tiles overlap", "C[3, 7]")


def test_blocks_are_not_ordered(k: Names) -> None:
    c, r, d = k.gl("C", (33,), "update"), k.rf("r", 1), k.gl("D", (64,), "output")
    kernel = k.kernel(
        k.only(lt(k.block, 1), k.fill(k.at(c, k.thread))),
        k.only(lt(0, k.block), k.move(k.at(c, k.thread), k.at(r, 0)), k.move(k.at(r, 0), k.at(d, k.thread))),
        grid=2,
    )
    refused(
        kernel, {"C": zeros(33), "D": zeros(64)}, "race", "thread 0 of block 1 reads C[0]", "blocks are not ordered"
    )


def test_a_write_after_another_block_read(k: Names) -> None:
    c, r, d = k.gl("C", (96,), "update"), k.rf("r", 1), k.gl("D", (32,), "output")
    at = k.block * 32 + k.thread
    kernel = k.kernel(
        k.move(k.at(c, k.thread + 32), k.at(r, 0)),
        k.only(lt(k.block, 1), k.move(k.at(r, 0), k.at(d, k.thread))),
        k.sync(),
        k.only(lt(0, k.block), k.fill(k.at(c, at))),
        grid=2,
    )
    # The last reader is of the writing block and ordered before it; the one before is not.
    refused(kernel, {"C": zeros(96), "D": zeros(32)}, "race", "of block 1 writes C[32]", "thread 0 of block 0 read")


def test_update_in_place_is_no_race(k: Names) -> None:
    c = k.gl("C", (64,), "update")
    at = k.block * 32 + k.thread
    twice = Binary("mul", Arg(0, c.dtype), Constant(2.0, c.dtype))
    kernel = k.kernel(k.loop("i", 2, lambda i: Compute(k.at(c, at), twice, (k.at(c, at),))), grid=2)
    out = np.ones(64, np.float32)
    simulate(kernel, {"C": out})
    assert (out == 4).all()


def test_dropped_predicate_of_a_read(k: Names) -> None:
    a, c, r = k.gl("A", (5, 6)), k.gl("C", (5, 6), "output"), k.rf("r", 1)
    row, column = k.thread // 8, k.thread % 8
    inside = lt(column, 6)

    def body(rows: bool, columns: bool) -> Any:
        held = and_(inside if columns else le(0, k.thread), lt(row, 5) if rows else le(0, k.thread))
        own = and_(inside, lt(row, 5))
        return k.kernel(
            k.move(k.at(a, row * 6 + column, origin=(row, column)), k.at(r, 0), read=held),
            k.move(k.at(r, 0), k.at(c, row * 6 + column, origin=(row, column)), write=own),
            threads=64,
        )

    arrays = {"A": zeros(5, 6), "C": zeros(5, 6)}
    simulate(body(True, True), arrays)
    # Column 6 of a row is column 0 of the next: only the coordinates say that it is outside.
    refused(body(True, False), arrays, "out-of-bounds", "thread 6 of block 0 reads A[0, 6], whose shape is (5, 6)")
    refused(body(False, True), arrays, "out-of-bounds", "thread 40 of block 0 reads A[5, 0], whose shape is (5, 6)")


def test_dropped_predicate_of_a_read_of_a_transpose(k: Names) -> None:
    """Coordinates are the matrix's, whose array holds its transpose."""
    a, c, r = k.gl("A", (9, 6)), k.gl("C", (6, 9), "output"), k.rf("r", 1)
    row, column = k.thread // 16, k.thread % 16
    own = and_(lt(column, 9), lt(row, 6))

    def body(rows: int, columns: int) -> Any:
        held = and_(lt(column, columns), lt(row, rows))
        return k.kernel(
            k.move(k.at(a, column * 6 + row, origin=(row, column)), k.at(r, 0), read=held),
            k.move(k.at(r, 0), k.at(c, row * 9 + column, origin=(row, column)), write=own),
            threads=128,
        )

    arrays = {"A": zeros(9, 6), "C": zeros(6, 9)}
    simulate(body(6, 9), arrays)
    # Row 6 of a column is row 0 of the next, and inside the array.
    refused(body(7, 9), arrays, "out-of-bounds", "thread 96 of block 0 reads A[0, 6], whose shape is (9, 6)")
    refused(body(6, 10), arrays, "out-of-bounds", "thread 9 of block 0 reads A[9, 0], whose shape is (9, 6)")


def test_dropped_predicate_of_a_write(k: Names) -> None:
    c = k.gl("C", (5, 6), "output")
    row, column = k.thread // 8, k.thread % 8
    kernel = k.kernel(
        k.fill(k.at(c, row * 6 + column, origin=(row, column)), write=lt(row, 5)),
        threads=64,
    )
    refused(kernel, {"C": zeros(5, 6)}, "out-of-bounds", "writes C[0, 6]")


def test_the_end_of_a_vector_counts(k: Names) -> None:
    a, c, r = k.gl("A", (8, 6), strides=(8, 1)), k.gl("C", (1,), "output"), k.rf("r", 4)
    row, column = k.thread // 2, k.thread % 2 * 4
    kernel = k.kernel(
        k.move(k.at(a, row * 8 + column, 4, origin=(row, column)), k.at(r, 0, 4), read=lt(k.thread, 15)),
        k.only(lt(k.thread, 1), k.fill(k.at(c, 0))),
    )
    padded = np.zeros((8, 8), np.float32)[:, :6]
    refused(kernel, {"A": padded, "C": zeros(1)}, "out-of-bounds", "thread 1 of block 0 reads A[0, 7]")


def test_wrong_stride(k: Names) -> None:
    s, c = k.sh("s", 32 * 33), k.gl("C", (32,), "output")
    kernel = k.kernel(
        k.loop("i", 32, lambda i: k.fill(k.at(s, k.thread * 34 + i))),
        k.fill(k.at(c, k.thread)),
    )
    refused(kernel, {"C": zeros(32)}, "out-of-bounds", "writes element 1056 of s, which has 1056 elements")


def test_registers_have_bounds(k: Names) -> None:
    r, c = k.rf("r", 4), k.gl("C", (32,), "output")
    kernel = k.kernel(k.loop("i", 5, lambda i: k.fill(k.at(r, i)), unroll=True), k.fill(k.at(c, k.thread)))
    refused(kernel, {"C": zeros(32)}, "out-of-bounds", "writes element 4 of r, which has 4 registers")


def test_a_buffer_has_its_own_extent(k: Names) -> None:
    s, c = k.sh("s", 32), k.gl("C", (32,), "output")
    k.sh("t", 32, 128)
    kernel = k.kernel(k.fill(k.at(s, k.thread + 1)), k.fill(k.at(c, k.thread)))
    refused(kernel, {"C": zeros(32)}, "out-of-bounds", "thread 31 of block 0 writes element 32 of s")


def test_negative_elements(k: Names) -> None:
    c = k.gl("C", (32,), "output")
    refused(k.kernel(k.fill(k.at(c, k.thread - 1))), {"C": zeros(32)}, "out-of-bounds", "writes element -1 of C")


@pytest.mark.parametrize("memory", ["GL", "SH"])
def test_misaligned_vector(k: Names, memory: str) -> None:
    c, r = k.gl("C", (256,), "output"), k.rf("r", 4)
    target = c if memory == "GL" else k.sh("s", 256, 16)
    kernel = k.kernel(
        k.loop("i", 4, lambda i: k.fill(k.at(r, i))),
        k.region("Move r", k.move(k.at(r, 0, 4), k.at(target, k.thread * 6, 4))),
    )
    error = refused(kernel, {"C": zeros(256)}, "misaligned", "thread 1 of block 0 writes 16 bytes at byte")
    assert error.path == "Move r"


def test_register_read_before_its_load(k: Names) -> None:
    c, r = k.gl("C", (32,), "output"), k.rf("r", 2)
    kernel = k.kernel(k.fill(k.at(r, 0)), k.region("Move C", k.move(k.at(r, 1), k.at(c, k.thread)), path="store"))
    error = refused(
        kernel, {"C": zeros(32)}, "uninitialised-read", "thread 0 of block 0 reads r[1], which no thread wrote"
    )
    assert error.path == "store"


def test_register_that_some_threads_loaded(k: Names) -> None:
    c, r = k.gl("C", (32,), "output"), k.rf("r", 1)
    kernel = k.kernel(k.only(lt(k.thread, 30), k.fill(k.at(r, 0))), k.move(k.at(r, 0), k.at(c, k.thread)))
    refused(kernel, {"C": zeros(32)}, "uninitialised-read", "thread 30 of block 0 reads r[0]")


def test_registers_are_fresh_in_each_block(k: Names) -> None:
    c, r = k.gl("C", (64,), "output"), k.rf("r", 1)
    kernel = k.kernel(
        k.only(lt(k.block, 1), k.fill(k.at(r, 0))), k.move(k.at(r, 0), k.at(c, k.block * 32 + k.thread)), grid=2
    )
    refused(kernel, {"C": zeros(64)}, "uninitialised-read", "thread 0 of block 1")


def test_shared_memory_is_fresh_in_each_block(k: Names) -> None:
    c, r, s = k.gl("C", (64,), "output"), k.rf("r", 1), k.sh("s", 32)
    kernel = k.kernel(
        k.only(lt(k.block, 1), k.fill(k.at(s, k.thread))),
        k.sync(),
        k.move(k.at(s, k.thread), k.at(r, 0)),
        k.move(k.at(r, 0), k.at(c, k.block * 32 + k.thread)),
        grid=2,
    )
    refused(kernel, {"C": zeros(64)}, "uninitialised-read", "thread 0 of block 1 reads s[0]")


def test_half_a_word_of_shared_memory_is_not_the_whole(k: Names) -> None:
    s, t, r, c = k.sh("s", 64, dtype=f16), k.sh("t", 32), k.rf("r", 1), k.gl("C", (32,), "output")
    kernel = k.kernel(
        k.fill(k.at(s, k.thread * 2)),
        k.sync(),
        k.move(k.at(t, k.thread), k.at(r, 0)),
        k.move(k.at(r, 0), k.at(c, k.thread)),
    )
    refused(kernel, {"C": zeros(32)}, "uninitialised-read", "reads t[0]")


def test_an_output_holds_nothing_at_first(k: Names) -> None:
    c, r = k.gl("C", (32,), "output"), k.rf("r", 1)
    error = refused(
        k.kernel(k.move(k.at(c, k.thread), k.at(r, 0))), {"C": zeros(32)}, "uninitialised-read", "reads C[0]"
    )
    assert "update" in error.fix


def test_inputs_are_not_written(k: Names) -> None:
    a = k.gl("A", (32,))
    refused(k.kernel(k.fill(k.at(a, k.thread))), {"A": zeros(32)}, "write-to-input", "writes A, which is an input")


@pytest.mark.parametrize(("level", "limit"), [(Block, 32), (Warp, 40)])
def test_divergent_barrier(k: Names, level: Any, limit: int) -> None:
    c = k.gl("C", (64,), "output")
    kernel = k.kernel(
        k.region("Wait", k.only(lt(k.thread, limit), Sync(level, "the tile is there"))),
        k.fill(k.at(c, k.thread)),
        threads=64,
    )
    here, absent = ("threads 0..31", "threads 32..63") if level is Block else ("threads 32..39", "threads 40..63")
    refused(
        kernel,
        {"C": zeros(64)},
        "divergent-barrier",
        f"{here} of block 0 wait at the barrier of their {level} (the tile is there) for {absent}",
    )


def test_a_warp_barrier_in_one_warp_is_fine(k: Names) -> None:
    c = k.gl("C", (64,), "output")
    kernel = k.kernel(k.only(lt(k.thread, 32), k.sync(Warp)), k.fill(k.at(c, k.thread)), threads=64)
    assert simulate(kernel, {"C": zeros(64)}).barriers == 1


def test_a_buffer_beyond_the_blocks_memory(k: Names) -> None:
    import attrs

    k.sh("s", 64)
    c = k.gl("C", (32,), "output")
    kernel = attrs.evolve(k.kernel(k.fill(k.at(c, k.thread))), shared_nbytes=128)
    refused(
        kernel, {"C": zeros(32)}, "out-of-bounds", "takes bytes 0 to 256 of shared memory, of which the block has 128"
    )


@pytest.mark.parametrize("mistake", ["move-dtype", "move-size", "compute-dtype"])
def test_statements_that_make_no_sense(k: Names, mistake: str) -> None:
    c, h, r = k.gl("C", (32,), "output"), k.rf("h", 2, f16), k.rf("r", 2)
    copy = k.atom("copy.4B.RF.RF")
    bad = {
        "move-dtype": k.call(copy.name, k.at(h, 0, 2), k.at(r, 0, 2)),
        "move-size": k.call(copy.name, k.at(r, 0, 2), k.at(r, 0)),
        "compute-dtype": Compute(k.at(h, 0), Constant(1.0, r.dtype)),
    }[mistake]
    body = [*(k.fill(k.at(b, i)) for b in (h, r) for i in range(2)), bad, k.fill(k.at(c, k.thread))]
    refused(k.kernel(*body), {"C": zeros(32)}, mistake)


def halves(k: Names, first: tuple[Any, ...], second: tuple[Any, ...]) -> Machine:
    """Run two coroutines of a block, each with its barriers."""
    kernel = k.kernel(threads=64)
    machine = Machine(kernel, {}, {}, Order(64, True), True, {})
    place = Place(0, "Roles", "", "Sync", None)

    def steps(levels: tuple[Any, ...]) -> Any:
        for level in levels:
            yield Arrival(Sync(level, "a chunk is there"), place, None)

    low = np.arange(64) < 32
    run(machine, [Coroutine(low, steps(first)), Coroutine(~low, steps(second))])
    return machine


def test_coroutines_meet_at_barriers(k: Names) -> None:
    machine = halves(k, (Warp, Block, Block), (Block, Warp, Warp, Block))
    assert machine.barriers == 5


def test_coroutines_that_wait_for_ever(k: Names) -> None:
    with pytest.raises(SimulationError) as caught:
        halves(k, (Block, Block), (Block,))
    assert caught.value.code == "deadlock"
    assert (
        "threads 0..31 wait at a barrier of their Block (a chunk is there) for threads 32..63" in caught.value.message
    )
    assert "threads 32..63 have finished" in caught.value.message
