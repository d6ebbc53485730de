"""Kernels that are right give the right numbers, and are counted."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from fireiron.algebra.dtypes import bf16, f16, i8, i32
from fireiron.algebra.expr import Var, ceil_div, lt, symbol
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Binary, Cast
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import Binding, Call, Compute, Let, Micro, Precondition, View
from fireiron.language.levels import Block, Thread, Warp
from fireiron.simulate import cost, simulate


def test_copy_with_vectors(k: Any, rng: np.random.Generator) -> None:
    a, c, r = k.gl("A", (256,)), k.gl("C", (256,), "output"), k.rf("r", 4)
    at = k.block * 128 + k.thread * 4
    kernel = k.kernel(k.move(k.at(a, at, 4), k.at(r, 0, 4)), k.move(k.at(r, 0, 4), k.at(c, at, 4)), grid=2)
    source, out = rng.standard_normal(256, np.float32), np.zeros(256, np.float32)
    report = simulate(kernel, {"A": source, "C": out})
    assert np.array_equal(source, out)
    assert (report.gl_read.nbytes, report.gl_write.nbytes) == (1024, 1024)
    assert report.site("copy.16B.GL.RF").sectors_per_request == 16
    assert (report.blocks, report.grid) == (2, 2)


def test_symbolic_sizes_masks_and_zero_fill(k: Any, rng: np.random.Generator) -> None:
    n = k.size(symbol("N"))
    a, c, r = k.gl("A", (n,)), k.gl("C", (n + 32,), "output"), k.rf("r", 1)
    at = k.block * 32 + k.thread
    kernel = k.kernel(
        k.move(k.at(a, at), k.at(r, 0), read=lt(at, n)),
        k.move(k.at(r, 0), k.at(c, at), write=lt(at, n + 32)),
        grid=ceil_div(n + 32, 32),
    )
    source, out = rng.standard_normal(50, np.float32), np.full(82, np.nan, np.float32)
    simulate(kernel, {"A": source, "C": out}, {"N": 50})
    assert np.array_equal(out, np.concatenate([source, np.zeros(32, np.float32)]))


def test_write_false_wins_over_read_false(k: Any) -> None:
    c, r = k.gl("C", (32,), "output"), k.rf("r", 1)
    a = k.gl("A", (1,))
    kernel = k.kernel(
        k.fill(k.at(r, 0), 3.0),
        k.move(k.at(a, 99), k.at(r, 0), read=lt(k.thread, 0), write=lt(k.thread, 8)),
        k.move(k.at(r, 0), k.at(c, k.thread)),
    )
    out = np.zeros(32, np.float32)
    simulate(kernel, {"A": np.ones(1, np.float32), "C": out})
    assert out.tolist() == [0.0] * 8 + [3.0] * 24


def test_strided_arrays(k: Any, rng: np.random.Generator) -> None:
    a, c, r = k.gl("A", (4, 8), strides=(12, 1)), k.gl("C", (8, 4), "output"), k.rf("r", 1)
    row, column = k.thread // 8, k.thread % 8
    kernel = k.kernel(
        k.move(k.at(a, row * 12 + column, origin=(row, column)), k.at(r, 0)),
        k.move(k.at(r, 0), k.at(c, column * 4 + row)),
    )
    source, out = rng.standard_normal((4, 12), np.float32)[:, :8], np.zeros((8, 4), np.float32)
    simulate(kernel, {"A": source, "C": out})
    assert np.array_equal(out, source.T)


def sgemm(
    k: Any, m: int, n: int, depth: int, chunk: int = 8, syncs: tuple[bool, bool] = (True, True), slots: int = 1
) -> Any:
    """Tile 128x128 a block of 256 threads, 8x8 a thread; with two slots one barrier a chunk is enough."""
    a, b, c = k.gl("A", (m, depth)), k.gl("B", (depth, n)), k.gl("C", (m, n), "output")
    a_sh, b_sh = k.sh("a_sh", 128 * chunk, slots=slots), k.sh("b_sh", 128 * chunk, 128 * chunk * 4 * slots, slots=slots)
    acc, a_rf, b_rf = k.rf("acc", 64), k.rf("a_rf", 8), k.rf("b_rf", 8)
    row, column = Var("row", 16), Var("column", 16)
    t, blocks = k.thread, n // 128

    def main(k0: Var) -> Any:
        slot = k0 % slots * 128 * chunk

        def load_a(i: Var) -> Any:
            place = t + i * 256
            source = (k.block // blocks * 128 + place // chunk) * depth + k0 * chunk + place % chunk
            return k.move(k.at(a, source), k.at(a_sh, slot + place % chunk * 128 + place // chunk))

        def load_b(i: Var) -> Any:
            place = t + i * 256
            source = (k0 * chunk + place // 128) * n + k.block % blocks * 128 + place % 128
            return k.move(k.at(b, source), k.at(b_sh, slot + place))

        def step(kk: Var) -> Any:
            fma = lambda i: k.loop(  # noqa: E731
                "j", 8, lambda j: k.call("fma.f32", k.at(a_rf, i), k.at(b_rf, j), k.at(acc, i * 8 + j)), unroll=True
            )
            return (
                k.loop("i", 8, lambda i: k.move(k.at(a_sh, slot + kk * 128 + row * 8 + i), k.at(a_rf, i)), unroll=True),
                k.loop(
                    "j", 8, lambda j: k.move(k.at(b_sh, slot + kk * 128 + column + j * 16), k.at(b_rf, j)), unroll=True
                ),
                k.loop("i", 8, fma, unroll=True),
            )

        body = [
            k.region("Move A", k.loop("i", chunk // 2, load_a)),
            k.region("Move B", k.loop("i", chunk // 2, load_b)),
            k.sync(reason="the chunk is there") if syncs[0] else (),
            k.region("MatMul 8x8x1", k.loop("kk", chunk, step, unroll=True)),
            k.sync(reason="the chunk is used up") if syncs[1] else (),
        ]
        return [s for s in body if s != ()]

    def store(i: Var) -> Any:
        place = (k.block // blocks * 128 + row * 8 + i) * n + k.block % blocks * 128 + column
        return k.loop("j", 8, lambda j: k.move(k.at(acc, i * 8 + j), k.at(c, place + j * 16)), unroll=True)

    return k.kernel(
        Let(row, t // 16),
        Let(column, t % 16),
        k.loop("i", 64, lambda i: k.fill(k.at(acc, i)), unroll=True),
        k.loop("k0", depth // chunk, main),
        k.region("Move C", k.loop("i", 8, store, unroll=True)),
        threads=256,
        grid=m // 128 * blocks,
    )


def operands(rng: np.random.Generator, m: int, n: int, depth: int) -> dict[str, Any]:
    return {
        "A": rng.standard_normal((m, depth), np.float32),
        "B": rng.standard_normal((depth, n), np.float32),
        "C": np.zeros((m, n), np.float32),
    }


def is_product(arrays: dict[str, Any]) -> bool:
    exact = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)
    return bool(np.allclose(arrays["C"], exact, rtol=1e-5, atol=1e-4))


def test_sgemm(k: Any, rng: np.random.Generator) -> None:
    kernel, arrays = sgemm(k, 128, 128, 64), operands(rng, 128, 128, 64)
    began = time.perf_counter()
    report = simulate(kernel, arrays)
    elapsed = time.perf_counter() - began
    assert is_product(arrays)
    assert report.flops == 2 * 128 * 128 * 64
    assert report.barriers == 16
    assert report.gl_read.nbytes == 2 * 128 * 64 * 4
    assert report.gl_write.nbytes == 128 * 128 * 4
    assert report.site("Move B").sector_ratio == 1
    assert report.site("Move A").sectors_per_request == 4
    assert elapsed < 2.0
    assert elapsed / 20 < cost(kernel) < elapsed * 20


def test_sgemm_with_two_slots_needs_one_barrier_a_chunk(k: Any, rng: np.random.Generator) -> None:
    arrays = operands(rng, 128, 256, 32)
    simulate(sgemm(k, 128, 256, 32, syncs=(True, False), slots=2), arrays)
    assert is_product(arrays)


@pytest.mark.parametrize(
    ("syncs", "words"),
    [
        ((False, True), "thread 1 of block 0 reads a_sh[0] (byte 0 of shared memory), which thread 0 of block 0 wrote"),
        ((True, False), "thread 0 of block 0 writes a_sh[0] (byte 0 of shared memory), which several threads read"),
    ],
)
def test_sgemm_without_a_barrier_is_refused(k: Any, rng: np.random.Generator, syncs: Any, words: str) -> None:
    with pytest.raises(SimulationError) as caught:
        simulate(sgemm(k, 128, 128, 16, syncs=syncs), operands(rng, 128, 128, 16))
    # In lock-step the first chunk is there when it is read: only happens-before knows that nothing ordered it.
    assert caught.value.code == "race"
    assert words in caught.value.message
    assert caught.value.path == ("MatMul 8x8x1" if not syncs[0] else "Move A")


def test_some_blocks(k: Any, rng: np.random.Generator) -> None:
    arrays = operands(rng, 128, 256, 8)
    report = simulate(sgemm(k, 128, 256, 8), arrays, blocks=[1])
    assert (report.blocks, report.grid) == (1, 2)
    assert not arrays["C"][:, :128].any()
    assert np.allclose(arrays["C"][:, 128:], arrays["A"] @ arrays["B"][:, 128:], atol=1e-4)
    with pytest.raises(SimulationError, match="block 9 was asked for"):
        simulate(sgemm(type(k)(), 128, 256, 8), arrays, blocks=[9])


def test_a_loop_that_carries_a_sum_is_not_run_at_once(k: Any, rng: np.random.Generator) -> None:
    a, c, r, acc = k.gl("A", (32 * 5,)), k.gl("C", (32,), "output"), k.rf("r", 5), k.rf("acc", 1)
    kernel = k.kernel(
        k.fill(k.at(acc, 0)),
        k.loop("i", 5, lambda i: k.move(k.at(a, k.thread + i * 32), k.at(r, i)), unroll=True),
        k.loop("i", 5, lambda i: k.call("fma.f32", k.at(r, i), k.at(r, i), k.at(acc, 0)), unroll=True),
        k.move(k.at(acc, 0), k.at(c, k.thread)),
    )
    source, out = rng.standard_normal(160, np.float32), np.zeros(32, np.float32)
    simulate(kernel, {"A": source, "C": out})
    assert np.allclose(out, (source.reshape(5, 32) ** 2).sum(axis=0), rtol=1e-6)


def test_a_loop_that_shifts_registers_is_not_run_at_once(k: Any) -> None:
    c, r, n = k.gl("C", (32 * 4,), "output"), k.rf("r", 4), k.gl("n", (4,), dtype=i32)
    kernel = k.kernel(
        k.loop("i", 4, lambda i: Compute(k.at(r, i), Cast(Arg(0, i32), r.dtype), (k.at(n, i),)), unroll=True),
        k.loop("i", 3, lambda i: k.move(k.at(r, i), k.at(r, i + 1)), unroll=True),
        k.loop("i", 4, lambda i: k.move(k.at(r, i), k.at(c, k.thread * 4 + i)), unroll=True),
    )
    out = np.zeros(128, np.float32)
    simulate(kernel, {"n": np.array([7, 1, 2, 3], np.int32), "C": out})
    assert (out == 7).all()


def test_a_block_that_is_named_twice_runs_once(k: Any) -> None:
    c = k.gl("C", (64,), "output")
    kernel = k.kernel(k.fill(k.at(c, k.block * 32 + k.thread), 1.0), grid=2)
    out = np.zeros(64, np.float32)
    assert simulate(kernel, {"C": out}, blocks=[1, 1]).blocks == 1
    assert out.sum() == 32


def test_nested_conditions_and_lets_inside_a_nest(k: Any) -> None:
    c, r = k.gl("C", (4, 32), "output"), k.rf("r", 1)
    place = Var("place")
    kernel = k.kernel(
        k.fill(k.at(r, 0), 2.0),
        k.only(
            lt(k.thread, 16),
            k.loop(
                "i", 4, lambda i: (Let(place, i * 32 + k.thread), k.only(lt(i, 3), k.move(k.at(r, 0), k.at(c, place))))
            ),
        ),
    )
    out = np.zeros((4, 32), np.float32)
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, {"C": out})
    assert out[:3, :16].all()
    assert out.sum() == 2 * 48
    assert caught.value.code == "uncovered-output"
    assert f"{128 - 48} elements" in caught.value.message
    assert "C[0, 16]" in caught.value.message


@pytest.mark.parametrize("dtype", [f16, bf16, i8], ids=str)
def test_narrow_types_move_whole(k: Any, rng: np.random.Generator, dtype: Any) -> None:
    width = 16 // dtype.nbytes
    a, c = k.gl("A", (32 * width,), dtype=dtype), k.gl("C", (32 * width,), "output", dtype)
    s, r = k.sh("s", 32 * width, dtype=dtype), k.rf("r", width, dtype)
    here = k.thread * width
    kernel = k.kernel(
        k.move(k.at(a, here, width), k.at(s, here, width)),
        k.sync(),
        k.move(k.at(s, (31 - k.thread) * width, width), k.at(r, 0, width)),
        k.move(k.at(r, 0, width), k.at(c, here, width)),
    )
    source = rng.integers(-100, 100, 32 * width).astype(dtype.numpy)
    out = np.zeros_like(source)
    simulate(kernel, {"A": source, "C": out})
    assert np.array_equal(out.reshape(32, -1), source.reshape(32, -1)[::-1])


def test_atoms_of_several_registers(k: Any) -> None:
    c = k.gl("C", (64,), "output", f16)
    a, b, d = k.rf("a", 1, f16), k.rf("b", 2, f16), k.rf("d", 2, f16)
    kernel = k.kernel(
        k.fill(k.at(a, 0), 3.0),
        k.fill(k.at(b, 0), 1.0),
        k.fill(k.at(b, 1), 2.0),
        k.fill(k.at(d, 0), 10.0),
        k.fill(k.at(d, 1), 20.0),
        k.call("fma.f16x2", k.at(a, 0), k.at(b, 0, 2), k.at(d, 0, 2)),
        k.move(k.at(d, 0, 2), k.at(c, k.thread * 2, 2)),
    )
    out = np.zeros(64, np.float16)
    report = simulate(kernel, {"C": out})
    assert out.reshape(32, 2).tolist() == [[13.0, 26.0]] * 32
    assert report.flops == 32 * 4


def test_dot_products_of_bytes(k: Any) -> None:
    a, b, d, c = k.rf("a", 4, i8), k.rf("b", 4, i8), k.rf("d", 1, i32), k.gl("C", (32,), "output", i32)
    kernel = k.kernel(
        k.loop("i", 4, lambda i: k.fill(k.at(a, i), -100)),
        k.loop("i", 4, lambda i: k.fill(k.at(b, i), 100)),
        k.fill(k.at(d, 0), 7),
        k.call("dp4a.i8", k.at(a, 0, 4), k.at(b, 0, 4), k.at(d, 0)),
        k.move(k.at(d, 0), k.at(c, k.thread)),
    )
    out = np.zeros(32, np.int32)
    simulate(kernel, {"C": out})
    assert (out == 7 - 40000).all()


def test_shuffle(k: Any) -> None:
    a, c, r, s = k.gl("A", (64,)), k.gl("C", (64,), "output"), k.rf("r", 1), k.rf("s", 1)
    kernel = k.kernel(
        k.move(k.at(a, k.thread), k.at(r, 0)),
        k.call("shfl.idx.4B", k.at(r, 0), k.at(s, 0), lane=(k.thread % 32) ^ 5),
        k.move(k.at(s, 0), k.at(c, k.thread)),
        threads=64,
    )
    source, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    simulate(kernel, {"A": source, "C": out})
    assert np.array_equal(out, source[np.arange(64) ^ 5])


def test_shuffle_needs_only_the_source_lane(k: Any) -> None:
    c, r, s = k.gl("C", (32,), "output"), k.rf("r", 1), k.rf("s", 1)

    def body(source: int) -> Any:
        return k.kernel(
            k.only(lt(k.thread, 1), k.fill(k.at(r, 0), 4.0)),
            k.call("shfl.idx.4B", k.at(r, 0), k.at(s, 0), lane=k.thread * 0 + source),
            k.move(k.at(s, 0), k.at(c, k.thread)),
        )

    out = np.zeros(32, np.float32)
    simulate(body(0), {"C": out})
    assert (out == 4).all()
    with pytest.raises(SimulationError, match=r"thread 1 of block 0 reads r\[0\], which no thread wrote") as caught:
        simulate(body(1), {"C": out})
    assert caught.value.code == "uninitialised-read"
    with pytest.raises(SimulationError) as caught:
        simulate(body(32), {"C": out})
    assert caught.value.code == "out-of-bounds"


def test_shuffle_from_an_idle_lane(k: Any) -> None:
    c, r, s = k.gl("C", (32,), "output"), k.rf("r", 1), k.rf("s", 1)
    kernel = k.kernel(
        k.fill(k.at(r, 0), 4.0),
        k.only(lt(k.thread, 16), k.call("shfl.idx.4B", k.at(r, 0), k.at(s, 0), lane=31 - k.thread)),
        k.fill(k.at(c, k.thread)),
    )
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, {"C": np.zeros(32, np.float32)})
    assert caught.value.code == "inactive-lane"
    assert "thread 0 of block 0 reads lane 31" in caught.value.message


def micro(k: Any, numpy: Any, level: Any = Thread, rows: Any = 2) -> Any:
    a, b, c = k.gl("A", (32 * 2, 3)), k.gl("B", (3, 4)), k.gl("C", (32 * 2, 4), "output")
    acc = k.rf("acc", 8)
    views = (
        View(a, k.thread * 6, Layout((2, 3), (3, 1))),
        View(b, k.thread * 0, Layout((3, 4), (4, 1))),
        View(acc, k.thread * 0, Layout((2, 4), (4, 1))),
    )
    return k.kernel(
        k.loop("i", 8, lambda i: k.fill(k.at(acc, i), 1.0), unroll=True),
        Micro("mm", "", numpy, ("A", "B", "C"), views, (Binding("M", k.thread * 0 + rows),), ("C",), level),
        k.loop("i", 8, lambda i: k.move(k.at(acc, i), k.at(c, k.thread * 8 + i)), unroll=True),
    )


def test_microkernel(k: Any, rng: np.random.Generator) -> None:
    source = {"A": rng.standard_normal((64, 3), np.float32), "B": rng.standard_normal((3, 4), np.float32)}
    out = np.zeros((64, 4), np.float32)
    simulate(micro(k, lambda a, b, c: a @ b + c), {**source, "C": out})
    assert np.allclose(out, source["A"] @ source["B"] + 1, atol=1e-6)


def test_microkernel_of_a_warp_in_shared_memory(k: Any, rng: np.random.Generator) -> None:
    a, c, s, d = k.gl("A", (8, 8)), k.gl("C", (8, 8), "output"), k.sh("s", 64), k.sh("d", 64, 256)
    whole, t = Layout((8, 8), (8, 1)), k.thread
    square = Micro(
        "square",
        "",
        lambda a, c: a @ a,
        ("A", "C"),
        (View(s, t * 0, whole), View(d, t * 0, whole)),
        (),
        ("C",),
        Warp,
    )
    kernel = k.kernel(
        k.loop("i", 2, lambda i: k.move(k.at(a, t + i * 32), k.at(s, t + i * 32))),
        k.sync(Warp),
        square,
        k.sync(Warp),
        k.loop("i", 2, lambda i: k.move(k.at(d, t + i * 32), k.at(c, t + i * 32))),
    )
    source, out = rng.standard_normal((8, 8), np.float32), np.zeros((8, 8), np.float32)
    simulate(kernel, {"A": source, "C": out})
    assert np.allclose(out, source @ source, atol=1e-5)


@pytest.mark.parametrize("rows", [0, -1])
def test_microkernel_without_rows(k: Any, rows: int) -> None:
    arrays = {"A": np.ones((64, 3), np.float32), "B": np.ones((3, 4), np.float32), "C": np.zeros((64, 4), np.float32)}
    with pytest.raises(SimulationError) as caught:
        simulate(micro(k, lambda a, b, c: a @ b + c, rows=rows), arrays)
    assert caught.value.code == "out-of-bounds"
    assert f"thread 0 of block 0 runs the microkernel mm on {rows}x4 elements of C" in caught.value.message


@pytest.mark.parametrize("numpy", [None, lambda a, b, c: c[0]])
def test_microkernel_without_a_meaning(k: Any, numpy: Any) -> None:
    arrays = {"A": np.ones((64, 3), np.float32), "B": np.ones((3, 4), np.float32), "C": np.zeros((64, 4), np.float32)}
    with pytest.raises(SimulationError) as caught:
        simulate(micro(k, numpy), arrays)
    assert caught.value.code == "microkernel-numpy"


def test_numbers(k: Any) -> None:
    from fireiron.algebra.scalar import Parameter

    c = k.gl("C", (32,), "output")
    k.number("alpha", default=2.0)
    k.number("beta")
    expr = Binary("add", Parameter("alpha", c.dtype), Parameter("beta", c.dtype))
    kernel, out = k.kernel(Compute(k.at(c, k.thread), expr)), np.zeros(32, np.float32)
    simulate(kernel, {"C": out}, numbers={"beta": 0.5})
    assert (out == 2.5).all()
    with pytest.raises(SimulationError, match="no value was given for beta"):
        simulate(kernel, {"C": out})


@pytest.mark.parametrize(
    ("code", "array", "sizes"),
    [
        ("array-missing", None, {"N": 8}),
        ("array-dtype", np.zeros((8, 4)), {"N": 8}),
        ("array-shape", np.zeros((4, 8), np.float32), {"N": 8}),
        ("array-strides", np.zeros((4, 8), np.float32).T, {"N": 8}),
        ("size-missing", np.zeros((8, 4), np.float32), {}),
        ("precondition", np.zeros((9, 4), np.float32), {"N": 9}),
    ],
)
def test_bad_arguments(k: Any, code: str, array: Any, sizes: Any) -> None:
    n = k.size(symbol("N"))
    c = k.gl("C", (n, 4), "output")
    kernel = k.kernel(k.fill(k.at(c, k.thread)), conditions=[Precondition(lt(n % 8, 1), "N must be a multiple of 8")])
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, {} if array is None else {"C": array}, sizes)
    assert caught.value.code == code


def test_an_atom_of_a_warp_needs_the_whole_warp(k: Any) -> None:
    import attrs

    whole = attrs.evolve(k.atom("fma.f32"), unit=Warp, numpy=lambda a, b, c: a.sum(axis=1, keepdims=True) * b + c)
    c, r, s = k.gl("C", (64,), "output"), k.rf("r", 1), k.rf("s", 1)

    def body(limit: int) -> Any:
        views = (k.at(r, 0), k.at(r, 0), k.at(s, 0))
        return k.kernel(
            k.fill(k.at(r, 0), 1.0),
            k.fill(k.at(s, 0), 0.5),
            k.only(lt(k.thread, limit), Call(whole, views)),
            k.move(k.at(s, 0), k.at(c, k.thread)),
            threads=64,
        )

    out = np.zeros(64, np.float32)
    simulate(body(32), {"C": out})
    assert out.tolist() == [32.5] * 32 + [0.5] * 32
    with pytest.raises(SimulationError) as caught:
        simulate(body(33), {"C": out})
    assert caught.value.code == "divergent-call"
    assert "thread 33" in caught.value.message


def test_cost_grows_with_blocks_and_depth(k: Any) -> None:
    small, large = sgemm(k, 128, 128, 8), sgemm(type(k)(), 1024, 1024, 1024)
    assert cost(large) > 1000 * cost(small)
    assert cost(large, blocks=1) < cost(large) / 60
    assert Block.size is None


def test_nests_at_once_and_one_by_one_agree(k: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = operands(rng, 128, 128, 8)
    together = simulate(sgemm(k, 128, 128, 8), arrays)
    first = arrays["C"].copy()
    monkeypatch.setattr("fireiron.simulate.program.MOST_LANES", 0)
    single = simulate(sgemm(type(k)(), 128, 128, 8), arrays)
    assert np.array_equal(first, arrays["C"])
    assert single.sites == together.sites
    assert single.flops == together.flops
