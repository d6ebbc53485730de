"""Bulk copies of single boxes: where their bytes lie, what they clip, and what they may not touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron.algebra.dtypes import DType, f16, f32
from fireiron.algebra.expr import Index, Var, as_expr, lt
from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import (
    BLOCK,
    THREAD,
    Arrive,
    Await,
    Barrier,
    Call,
    Commit,
    Fence,
    For,
    If,
    InitBarriers,
    Kernel,
    Statement,
    Sync,
    TensorMap,
    View,
    Wait,
)
from fireiron.language.atom import Atom
from fireiron.language.levels import Block, Cluster
from fireiron.simulate import simulate

Names = Any
FULL = Barrier("full", 1, 1, 65536)
ZERO = as_expr(0)


def kernel(k: Names, *body: Statement, threads: int = 32, grid: int = 1, cluster: int = 1, maps: Any = ()) -> Kernel:
    """Initialise a barrier, and run a body."""
    start = If(lt(Var(THREAD, threads), 1), (InitBarriers((FULL,)), Fence("barrier.init")))
    return Kernel(
        "bulk", (*k.pointers, *maps), as_expr(grid), threads, 65544, tuple(k.buffers),
        (start, Sync(Block, "the barrier is there"), *body), cluster=cluster, barriers=(FULL,),
    )  # fmt: skip


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))


@attrs.define
class Box:
    """Load a box, and store it elsewhere."""

    shape: tuple[int, ...]
    box: tuple[int, ...]
    origin: tuple[Index, ...]
    swizzle: int = 0
    dtype: DType = f16
    to: tuple[Index, ...] | None = None
    dst: View | None = None
    nbytes: int | None = None
    peers: Any = None

    def parts(self, k: Names) -> tuple[Any, ...]:
        a, c = k.gl("A", self.shape, dtype=self.dtype), k.gl("C", self.shape, "update", dtype=self.dtype)
        axes = tuple(reversed(range(len(self.shape))))
        maps = [TensorMap(f"{x.name}_map", x, axes, self.box, self.swizzle) for x in (a, c)]
        s = k.sh("s", 8192, 0, self.dtype)
        pitch = self.swizzle // self.dtype.nbytes or self.box[0]
        steps, step = [1], pitch
        for extent in self.box[1:]:
            steps.append(step)
            step *= extent
        bits = {0: 0, 32: 1, 64: 2, 128: 3}[self.swizzle]
        base = 4 - (self.dtype.nbytes.bit_length() - 1)
        swizzle = Swizzle(bits, base, 3) if bits else None
        near = View(s, ZERO, Layout(self.box, tuple(steps)), swizzle=swizzle)
        near = self.dst or near

        def far(buffer: Any, at: Sequence[Index]) -> View:
            flat = sum((as_expr(o) * x for o, x in zip(at, strides(self.shape), strict=True)), ZERO)
            return View(buffer, flat, Layout(self.box, strides(self.shape)[::-1]), None, tuple(map(as_expr, at)))

        nbytes = int(np.prod(self.box)) * self.dtype.nbytes if self.nbytes is None else self.nbytes
        thread = Var(THREAD, 32)
        arrive = Arrive(FULL, ZERO, nbytes)
        load, store = (k.atom(f"tma.{what}.{len(self.shape)}d.{self.swizzle}B") for what in ("load", "store"))
        loads = Call(load, (far(a, self.origin), near), map=maps[0], signal=(FULL, ZERO), peers=self.peers)
        stores = Call(store, (near, far(c, self.to or self.origin)), map=maps[1])
        only = lt(thread, 1)
        body: tuple[Any, ...] = (
            If(only, (arrive, loads)),
            Await(FULL, ZERO, ZERO),
            If(only, (stores, Commit("bulk"), Wait("bulk", 0))),
        )
        return maps, body


def copied(shape: Sequence[int], box: Sequence[int], origin: Sequence[int], to: Sequence[int], a: Any) -> Any:
    """Copy a box as the hardware does: zeros from outside, nothing to outside."""
    padded = np.zeros([n + 2 * 16 for n in shape], a.dtype)
    padded[tuple(slice(16, 16 + n) for n in shape)] = a
    extents = tuple(reversed(box))
    taken = padded[tuple(slice(16 + o, 16 + o + n) for o, n in zip(origin, extents, strict=True))]
    out = np.full([n + 2 * 16 for n in shape], np.nan, a.dtype)
    out[tuple(slice(16 + o, 16 + o + n) for o, n in zip(to, extents, strict=True))] = taken
    return out[tuple(slice(16, 16 + n) for n in shape)]


def refused(made: Kernel, arrays: Any, code: str, *texts: str) -> None:
    with pytest.raises(SimulationError) as caught:
        simulate(made, arrays)
    assert caught.value.code == code, str(caught.value)
    for text in texts:
        assert text in caught.value.message, caught.value.message
    assert caught.value.fix


@pytest.mark.parametrize(
    "case",
    [
        Box((40, 64), (64, 32), (0, 0), 128),
        Box((40, 64), (64, 32), (4, 0), 128),
        Box((40, 64), (32, 32), (8, 16), 128),
        Box((40, 64), (32, 32), (8, 16), 64),
        Box((40, 64), (16, 32), (8, 48), 32),
        Box((40, 64), (64, 32), (16, 16)),
        Box((40, 64), (32, 16), (-3, -8), 64),
        Box((40, 64), (32, 16), (-16, 0), 64),
        Box((5, 6, 32), (32, 4, 3), (1, 2, 0), 64),
        Box((2, 3, 4, 8), (8, 4, 2, 2), (0, 1, 0, 0)),
        Box((40, 64), (32, 16), (0, 0), 128, f32, to=(30, 40)),
        Box((40, 64), (32, 16), (8, 8), 128, f32, to=(-8, -4)),
    ],
    ids=str,
)
def test_a_box_goes_there_and_back(k: Names, case: Box) -> None:
    maps, body = case.parts(k)
    a = np.random.default_rng(2).standard_normal(case.shape).astype(case.dtype.numpy)
    c = np.full(case.shape, np.nan, case.dtype.numpy)
    simulate(kernel(k, *body, maps=maps), {"A": a, "C": c})
    np.testing.assert_array_equal(c, copied(case.shape, case.box, case.origin, case.to or case.origin, a))  # type: ignore[arg-type]


def test_views_must_say_what_the_map_does(k: Names, bulk: Any) -> None:
    a = {"A": np.zeros((40, 64), np.float16), "C": np.zeros((40, 64), np.float16)}
    s = k.sh("s", 8192, 0, f16)
    k.buffers.clear()
    case = Box((40, 64), (64, 32), (0, 0), 128, dst=View(s, ZERO, Layout((64, 32), (1, 64))))
    maps, body = case.parts(k)
    refused(kernel(k, *body, maps=maps), a, "bulk-views", "A_map puts 2048 elements", "element 64 is not the same")
    k = type(k)()
    case = Box((40, 64), (64, 32), (0, 0), dst=View(s, as_expr(8), Layout((64, 32), (1, 64))))
    maps, body = case.parts(k)
    refused(kernel(k, *body, maps=maps), a, "misaligned", "starts at byte 16 of shared memory, which 128")
    k = type(k)()
    case = Box((40, 64), (64, 32), (0, 0), dst=View(s, as_expr(8192 - 64), Layout((64, 32), (1, 64))))
    maps, body = case.parts(k)
    refused(kernel(k, *body, maps=maps), a, "out-of-bounds", "leaves s, which has 8192 elements")


@pytest.mark.parametrize("mask", [0, 2, 3])
def test_a_mask_names_blocks_of_the_cluster(k: Names, bulk: Any, mask: int) -> None:
    maps, body = Box((40, 64), (64, 32), (0, 0), peers=as_expr(mask)).parts(k)
    arrays = {"A": np.zeros((40, 64), np.float16), "C": np.zeros((40, 64), np.float16)}
    refused(kernel(k, *body, maps=maps), arrays, "bad-peers", f"the mask {mask:#b} names blocks outside a cluster of 1")


def test_a_load_that_lands_where_nobody_expects_it(k: Names, bulk: Any) -> None:
    """Block 0 sends to both blocks; block 1, which loads for itself alone, is told more bytes than it knows of."""
    peers = as_expr(3) - Var(BLOCK, 2)
    maps, body = Box((40, 64), (64, 32), (0, 0), 128, peers=peers).parts(k)
    arrays = {"A": np.zeros((40, 64), np.float16), "C": np.zeros((40, 64), np.float16)}
    made = kernel(k, *body, maps=maps, grid=2, cluster=2)
    start, first, *rest = made.body
    body = (start, attrs.evolve(first, level=Cluster), *rest)
    refused(attrs.evolve(made, body=body), arrays, "not-arrived", "writes s[0]")


def plain(k: Names, atom: Atom, src: View, dst: View, **more: Any) -> Call:
    return Call(atom, (src, dst), **more)


def test_plain_copies_of_neighbours(k: Names, bulk: Any) -> None:
    a, c, s = k.gl("A", (64,)), k.gl("C", (64,), "output"), k.sh("s", 64)
    only, row = lt(k.thread, 1), Layout(64, 1)
    made = kernel(
        k,
        If(
            only,
            (Arrive(FULL, ZERO, 256), plain(k, bulk.load, View(a, ZERO, row), View(s, ZERO, row), signal=(FULL, ZERO))),
        ),
        Await(FULL, ZERO, ZERO),
        If(only, (plain(k, bulk.store, View(s, ZERO, row), View(c, ZERO, row)), Commit("bulk"), Wait("bulk", 0))),
    )
    arrays = {"A": np.arange(64, dtype=np.float32), "C": np.zeros(64, np.float32)}
    simulate(made, arrays)
    np.testing.assert_array_equal(arrays["C"], arrays["A"])


def storing(k: Names, bulk: Any, *, fill: int = 64, wait: Any = (), atom: Any = None, role: str = "output") -> Kernel:
    """Write a row of shared memory, and store it."""
    c, s, row = k.gl("C", (64,), role), k.sh("s", 64), Layout(64, 1)
    only = lt(k.thread, 1)
    return kernel(
        k,
        If(lt(k.thread, fill), (k.fill(k.at(s, k.thread), 3.0),)),
        Fence("proxy.async"),
        Sync(Block, "the row is whole"),
        If(
            only,
            (plain(k, atom or bulk.store, View(s, ZERO, row), View(c, ZERO, row)), Commit("bulk"), Wait("bulk", 0)),
        ),
        *wait,
        threads=64,
    )


def test_stores_of_what_nobody_wrote(k: Names, bulk: Any) -> None:
    c = {"C": np.zeros(64, np.float32)}
    simulate(storing(k, bulk), c)
    assert (c["C"] == 3).all()
    refused(
        storing(type(k)(), bulk, fill=63), c, "uninitialised-read", "thread 0 of block 0 reads s[63]", "no thread wrote"
    )
    refused(storing(type(k)(), bulk, role="input"), c, "write-to-input", "writes C, which is an input")


def test_blocks_add_to_the_same_place(k: Names, bulk: Any) -> None:
    made = attrs.evolve(storing(k, bulk, atom=bulk.add, role="update"), grid=as_expr(3))
    c = {"C": np.ones(64, np.float32)}
    simulate(made, c)
    assert (c["C"] == 10).all()
    refused(attrs.evolve(storing(type(k)(), bulk, role="update"), grid=as_expr(2)), c, "race", "tiles overlap")


def test_stores_of_two_blocks_overlap(k: Names, bulk: Any) -> None:
    made = attrs.evolve(storing(k, bulk), grid=as_expr(2), cluster=2)
    refused(made, {"C": np.zeros(64, np.float32)}, "race", "writes C[0], which thread 0 of block 0 writes too")


@pytest.mark.parametrize("fenced", [False, True])
def test_generic_reads_before_an_overwrite(k: Names, bulk: Any, fenced: bool) -> None:
    """A slot that threads read and then load again needs a proxy fence before the barrier between the two."""
    a, c, s, r = k.gl("A", (64,)), k.gl("C", (64,), "output"), k.sh("s", 64), k.rf("r", 1)
    row, i = Layout(64, 1), Var("i", 2)
    load = plain(k, bulk.load, View(a, ZERO, row), View(s, ZERO, row), signal=(FULL, ZERO))
    made = kernel(
        k,
        For(
            i,
            as_expr(2),
            (
                If(lt(k.thread, 1), (Arrive(FULL, ZERO, 256), load)),
                Await(FULL, ZERO, i),
                k.move(k.at(s, k.thread), k.at(r, 0)),
                *((Fence("proxy.async"),) if fenced else ()),
                Sync(Block, "the slot was read"),
            ),
        ),
        k.move(k.at(r, 0), k.at(c, k.thread)),
        threads=64,
    )
    arrays = {"A": np.arange(64, dtype=np.float32), "C": np.zeros(64, np.float32)}
    if fenced:
        simulate(made, arrays)
        np.testing.assert_array_equal(arrays["C"], arrays["A"])
    else:
        refused(made, arrays, "missing-proxy-fence", "starts an asynchronous write of s[0]", "thread 0 of block 0 read")


def test_a_fence_of_another_thread_does_not_help(k: Names, bulk: Any) -> None:
    made = storing(k, bulk)
    body = tuple(
        If(lt(Var(THREAD, 64), 1), (s,)) if isinstance(s, Fence) and s.kind == "proxy.async" else s for s in made.body
    )
    arrays = {"C": np.zeros(64, np.float32)}
    refused(attrs.evolve(made, body=body), arrays, "missing-proxy-fence", "which thread 1 of block 0 wrote")


def test_a_load_that_nobody_awaits(k: Names, bulk: Any) -> None:
    maps, body = Box((40, 64), (64, 32), (0, 0), 128).parts(k)
    arrays = {"A": np.zeros((40, 64), np.float16), "C": np.zeros((40, 64), np.float16)}
    refused(kernel(k, body[0], maps=maps), arrays, "unfinished-flight", "block 0 ends while 4096 bytes fly to it")


@pytest.mark.parametrize("drop", ["", "fence", "sync", "fill"])
def test_a_load_of_what_the_kernel_wrote(k: Names, bulk: Any, drop: str) -> None:
    c, d, s, r = k.gl("C", (64,), "output"), k.gl("D", (64,), "output"), k.sh("s", 64), k.rf("r", 1)
    row = Layout(64, 1)
    load = plain(k, bulk.load, View(c, ZERO, row), View(s, ZERO, row), signal=(FULL, ZERO))
    parts = {
        "fill": k.fill(k.at(c, k.thread), 5.0),
        "fence": Fence("proxy.async"),
        "sync": Sync(Block, "C is whole"),
        "load": If(lt(k.thread, 1), (Arrive(FULL, ZERO, 256), load)),
        "await": Await(FULL, ZERO, ZERO),
        "move": k.move(k.at(s, k.thread), k.at(r, 0)),
        "out": k.move(k.at(r, 0), k.at(d, k.thread)),
    }
    made = kernel(k, *(part for name, part in parts.items() if name != drop), threads=64)
    arrays = {"C": np.zeros(64, np.float32), "D": np.zeros(64, np.float32)}
    if drop:
        code = {"fence": "missing-proxy-fence", "sync": "race", "fill": "uninitialised-read"}[drop]
        text = {"fence": "read of C[0]", "sync": "reads C[1], which thread 1", "fill": "C[0], which no thread"}[drop]
        refused(made, arrays, code, text)
    else:
        simulate(made, arrays)
        assert (arrays["D"] == 5).all()
