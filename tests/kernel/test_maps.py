"""Programs whose reads are index maps: windows, strides, reversals, constants, grouped heads, reads outside."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, SH, Block, Matrix, Thread, Vector, Warp, conform, vector
from fireiron.verify.verification import Data, verify


def right(schedule: Any, sizes: dict[str, int] | None = None) -> Any:
    """Simulate on whole numbers and on random ones, and hold all outputs against the reference."""
    simulated: list[Any] = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out, **data.numbers))

    verdict = verify(schedule, launch, sizes or {})
    assert verdict.passed, str(verdict)
    return simulated[-1]


def of_threads(spec: Any, **tile: int) -> Any:
    """Let each thread compute one point of a block's tile."""
    return spec.tile(**tile).to(Block).tile(**dict.fromkeys(tile, 1)).to(Thread)


def meaning(function: Any, *arrays: Any, out: Any, **others: Any) -> Any:
    """Run a program of f32 arrays on the simulator, a thread a point, as far as its dims go."""
    shapes = [fi.tensor(*a.shape, name="xyz"[i]) for i, a in enumerate(arrays)]
    spec = function(*shapes, **others)
    kept = {d.name: 2 for s in spec.computed.steps[-1:] for d in s.kept}
    return of_threads(spec, **kept).epilog().done().simulate(*arrays, out=out).out


RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 10)).astype(np.float32)


def shifted(x: Any) -> Any:
    return x[:, fi.index("n") + 1] - x[..., fi.index("n") - 1]


def halved(x: Any) -> Any:
    n = fi.dim("half", 5)
    return x[:, 2 * n] + x[:, 2 * n + 1] * 2.0


# Subscripts, and the same in NumPy.
READS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "reversed": (lambda x: x[..., 9 - fi.index("n")] * 1.0, X[:, ::-1]),
    "strided": (halved, X[:, ::2] + X[:, 1::2] * 2),
    "a constant": (lambda x: x - x[:, 3], X - X[:, 3:4]),
    "the last": (lambda x: x - x[-1], X - X[-1:]),
    "repeated": (lambda x: x[fi.dim("p", 24) // 4, :] * 1.0, X.repeat(4, 0)),
    "by turns": (lambda x: x[fi.dim("p", 12) % 6] * 1.0, np.concatenate((X, X))),
    "neighbours": (shifted, np.pad(X, ((0, 0), (0, 1)))[:, 1:] - np.pad(X, ((0, 0), (1, 0)))[:, :-1]),
    "part": (lambda x: x[fi.dim("p", 3) + 2, fi.dim("q", 4) + 5] * 1.0, X[2:5, 5:9]),
    "a diagonal": (lambda x: x[fi.index("m"), fi.index("m") + 2] * 1.0, X[np.arange(6), np.arange(6) + 2]),
    "of an expression": (
        lambda x: (x + fi.cast(fi.index("n"), "f32"))[:, fi.index("n") - 1] * 1.0,
        np.pad(X + np.arange(10, dtype=np.float32), ((0, 0), (1, 0)))[:, :-1],
    ),
    "ones outside": (lambda x: fi.outside(x, 1.0)[fi.index("m") - 1] * 1.0, np.vstack((np.ones((1, 10)), X[:-1]))),
    "a window": (
        lambda x: fi.max(fi.outside(x, -math.inf)[:, fi.index("n") + fi.dim("r", 3) - 1], "r"),
        np.stack([np.pad(X, ((0, 0), (1, 1)), constant_values=-np.inf)[:, i : i + 10] for i in range(3)]).max(0),
    ),
}


@pytest.mark.parametrize("case", READS)
def test_reads(case: str) -> None:
    function, expected = READS[case]
    out = np.zeros(expected.shape, np.float32)
    found = meaning(fi.program(x="m n")(function), X, out=out)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("case", READS)
def test_reads_have_a_reference(case: str) -> None:
    """The reference of steps, with bounds, agrees with the simulator."""
    spec = fi.program(x="m n")(READS[case][0])(Matrix(6, 10))
    kept = {d.name: 4 for d in spec.computed.steps[-1].kept}
    right(of_threads(spec, **kept).epilog().done())


@fi.program(q="b h i d", k="b g j d")
def grouped_heads(q: Any, k: Any) -> Any:
    """Score each head's queries by the keys of its group of four."""
    return fi.einsum("bhid,bhjd->bhij", q, k[:, fi.index("h") // 4])


def test_grouped_heads() -> None:
    spec = grouped_heads(fi.tensor(2, 8, 10, 16), fi.tensor(2, 2, 12, 16))
    right(
        spec.tile(b=1, h=4, i=8, j=8).to(Block).epilog().split(d=8).load("q", SH).load("k", SH)
        .tile(h=1, i=2, j=2).to(Thread).split(d=1).done()
    )  # fmt: skip


@fi.program(x="n h w c", f="k r s c")
def conv(x: Any, f: Any, stride: int, pad: int, dilation: int) -> Any:
    """Convolve images, channels last."""
    sides = ((fi.extent(a) + 2 * pad - dilation * (fi.extent(b) - 1) - 1) // stride + 1 for a, b in ("hr", "ws"))
    p, q = (fi.dim(name, n) for name, n in zip("pq", sides, strict=True))
    h, w = (stride * a + dilation * fi.index(b) - pad for a, b in ((p, "r"), (q, "s")))
    return fi.einsum("npqrsc,krsc->npqk", x[..., h, w, :], f)


# How the box of pixels comes to a thread: read in place; by a halo in shared memory; and from there to registers.
WAYS: dict[str, Callable[[Any], Any]] = {
    "in place": lambda s: (
        s.tile(n=1, p=4, q=4, k=8).to(Block).tile(p=1, q=2, k=2).to(Thread).split(r=1).split(c=4).done()
    ),
    "halo": lambda s: (
        s.tile(n=1, p=4, q=4, k=8).to(Block).epilog().split(c=4).load("x", SH).load("f", SH)
        .tile(p=1, q=2, k=2).to(Thread).split(r=1).split(s=1).split(c=1).done()
    ),
    "pixels": lambda s: (
        s.tile(n=1, p=4, q=4, k=8).to(Block).epilog().split(r=1).split(s=1).split(c=8).load("x", SH).load("f", SH)
        .tile(p=1, q=2, k=2).to(Thread).split(c=1).unroll().load("x", RF, conform()).load("f", RF).done()
    ),
    "ring": lambda s: (
        s.tile(n=1, p=4, q=4, k=8).to(Block).epilog().split(c=4).pipeline(2).load("x", SH, fi.cp_async())
        .load("f", SH, fi.cp_async()).tile(p=1, q=2, k=2).to(Thread).split(r=1).split(s=1).split(c=1).done()
    ),
    "warps": lambda s: (
        s.tile(n=1, p=1, q=4, k=8).to(Block).tile(p=1, q=1, k=4).to(fi.Group(Thread, 8))
        .split("c", ways=8).parallel(Thread).split(r=1).split(s=1).done()
    ),
}  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize(("stride", "pad", "dilation"), [(2, 1, 1), (1, 2, 2), (3, 0, 1)])
@pytest.mark.parametrize("way", WAYS)
def test_convolution(way: str, stride: int, pad: int, dilation: int) -> None:
    right(WAYS[way](conv(fi.tensor(1, 9, 10, 8), fi.tensor(12, 3, 2, 8, name="f"), stride, pad, dilation)))


def test_a_halo_is_loaded_once() -> None:
    """Nine pixels a row for four outputs of stride 2: the box, not the window of each output."""
    schedule = WAYS["halo"](conv(fi.tensor(2, 9, 9, 8), fi.tensor(12, 3, 3, 8, name="f"), 2, 1, 1))
    assert "load x to x_sh: Move(1, 9, 9, 4)(GL, SH)(Block)" in schedule.cuda()


@fi.program(x="n h w")
def pooled(x: Any, stride: int) -> Any:
    p, q, r, s = (fi.dim(name, n) for name, n in zip("pqrs", (5, 4, 3, 2), strict=True))
    return fi.max(fi.outside(x, -math.inf)[:, stride * p + r - 1, stride * q + s - 1], "r s")


def test_what_is_no_box_lies_by_points() -> None:
    """Tiles of 6 points read 2 or 3 elements: each point has a place in shared memory, and vectors stay vectors."""
    quotient = fi.program(x="m n")(lambda x: x[fi.dim("p", 40) // 4 - 1, :] * 1.0)
    schedule = quotient(Matrix(8, 16)).tile(p=6, n=16).to(Block).load("x", SH, fi.cp_async()).tile(p=1, n=4).to(Thread)
    schedule = schedule.epilog(memory=RF).done()
    right(schedule)
    source = schedule.cuda("sm_80")
    assert "cp_async_or_zero_16B(&x_sh" in source
    ones = fi.program(x="m n")(lambda x: fi.outside(x, 1.0)[fi.dim("p", 40) // 4 - 1, :] * 1.0)
    with pytest.raises(fi.FireironError, match="what lies outside is not 0") as caught:
        ones(Matrix(8, 16)).tile(p=6, n=16).to(Block).load("x", SH).tile(p=1, n=4).to(Thread).epilog().done()
    assert caught.value.code == "map-box"


def test_windows_of_what_lies_outside() -> None:
    """What the halo's zeros stand for is asked again where reads outside give another number."""
    spec = pooled(fi.tensor(3, 9, 7), 2).tile(n=1, p=4, q=4).to(Block)
    right(spec.load("x", SH).tile(p=1, q=1).to(Thread).split(r=1).done())


@pytest.mark.parametrize("size", [40, 33])
def test_sizes_of_the_call(size: int) -> None:
    N = fi.symbol("N", maximum=4096)
    spec = fi.program(x="m n")(shifted)(Matrix(4, N))
    right(of_threads(spec, m=2, n=16).done(), {"N": size})


def test_lanes_of_a_row_read_beyond_it() -> None:
    """Threads that hold what a load gave them read further elements in place."""
    spec = fi.program(x="m n", w="n")(lambda x, w: fi.softmax(x * w + x[:, fi.index("n") - 1], "n"))
    schedule = spec(Matrix(6, 72, "f16"), Vector(72, "f16", name="w"))
    right(schedule.tile(m=2).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).epilog().done())
