"""Several dims as one: programs compute as before, take the same arrays, and tiles are runs of points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, SH, Block, Thread, relu, symbol, tensor
from fireiron.algebra.expr import simplest
from fireiron.jit.interface import Interface
from fireiron.language.fuse import neighbours, parts_of
from fireiron.schedules import conv, rows
from fireiron.verify.verification import Data, verify


@fi.program(x="a b c n", y="a b c n", gain="n")
def added(x: Any, y: Any, gain: Any) -> Any:
    return relu(x * gain + y)


def right(schedule: Any) -> None:
    """Hold what is simulated to the reference."""

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def arrays() -> Any:
    return tensor(3, 5, 7, 16, dtype="f16"), tensor(3, 5, 7, 16, dtype="f16", name="y"), tensor(16, name="gain")


@pytest.mark.parametrize("dims", [{"m": "a b c"}, {"m": "b c"}, {"r": "a b", "m": "r c"}])
def test_pointwise_steps(dims: dict[str, str]) -> None:
    """105 points of three dims are 14 tiles of 8, none of which is a box; of two dims alone, also."""
    spec = fi.fuse(added(*arrays()), **dims)
    given = [d.name for d in spec.computed.dims]
    assert "m" in given
    schedule = spec.tile(**{d: 8 if d == "m" else 16 if d == "n" else 1 for d in given}).to(Block).epilog(memory=RF)
    right(schedule.tile(**{d: 8 if d == "n" else 1 for d in given}).to(Thread).done())


def test_arrays_keep_their_shapes() -> None:
    """A call takes and gives arrays of four dimensions, and refuses the flat ones that steps see."""
    x, f = tensor(2, 5, 7, 32, dtype="f16"), tensor(24, 3, 3, 32, dtype="f16", name="f")
    residual = tensor(2, 5, 7, 24, dtype="f16", name="residual")
    spec = conv.conv2d(x, f, residual=residual, pad=1)
    kernel = conv.mma(fi.fuse(spec, m="n p q")).lowered("sm_80")
    shapes = {p.name: p.shape for p in Interface.of(kernel).pointers}
    assert shapes["residual"] == shapes["y"] == ("2", "5", "7", "24")
    rng = np.random.default_rng(3)
    given = [rng.integers(-2, 3, size=t.shape).astype(np.float16) for t in (x, f, residual)]
    plain, fused = (conv.mma(s).simulate(*given).out for s in (spec, fi.fuse(spec, m="n p q")))
    assert fused.shape == (2, 5, 7, 24)
    np.testing.assert_array_equal(plain, fused)
    with pytest.raises(fi.FireironError, match="residual"):
        conv.mma(fi.fuse(spec, m="n p q")).simulate(given[0], given[1], given[2].reshape(70, 24))


def test_lines_and_volumes() -> None:
    lines = conv.conv1d(tensor(3, 11, 16, dtype="f16"), tensor(16, 3, 16, dtype="f16", name="f"), pad=1, stride=2)
    right(conv.mma(fi.fuse(lines, m="n q")))
    right(conv.wgmma(lines, runs=True, channels=64))
    shape = (2, 2, 3, 5, 16)
    volumes = conv.conv3d(tensor(*shape, dtype="f16"), tensor(16, 2, 2, 3, 16, dtype="f16", name="f"), pad=1)
    right(conv.wgmma(volumes, runs=True, channels=64))


def test_rows_of_several_dims_are_rows() -> None:
    """Rows of input and result are one dim, since folds read them together."""
    spec = fi.fuse(rows.softmax.on(x="b m n")(tensor(3, 5, 64)), r="b m")
    assert str(spec.computed).splitlines()[1].strip() == "top[r]     = max over n of x[r, n]"
    right(rows.row(spec))


def test_bulk_copies_of_fused_dims() -> None:
    """A tensor map has several axes of the caller's array as one: 48 rows of a matrix, in tiles of 16."""

    @fi.program(x="a b n")
    def doubled(x: Any) -> Any:
        return x * 2

    spec = fi.fuse(doubled(tensor(6, 8, 64, dtype="f16")), m="a b").tile(m=16).to(Block)
    spec = spec.epilog(memory=RF).split(n=64).pipeline(2).specialize().load("x", SH, fi.tma())
    schedule = spec.tile(m=1, n=8).to(Thread).done()
    right(schedule)
    (found,) = Interface.of(schedule.lowered("sm_90a")).maps
    assert (found.pointer, found.axes, found.merged) == ("x", (2, 1), (1, 2))
    assert "tma_load_2d" in schedule.cuda("sm_90a")


@pytest.mark.parametrize(
    ("shape", "strides", "given", "of_given", "parts"),
    [
        ((128, 32), (32, 1), (2, 8, 8, 32), (2048, 256, 32, 1), ((0, 1, 2), (3,))),
        ((8, 1, 64), (64, 64, 1), (8, 1, 1, 64), (64, 64, 64, 1), ((0,), (1,), (2, 3))),
        ((6, 64), (64, 1), (6, 1, 64, 1), (64, 64, 1, 1), ((0,), (1, 2, 3))),
        ((2, 64), (96, 1), (2, 8, 8), (96, 8, 1), ((0,), (1, 2))),
        ((4, 8), (8, 1), (4, 8), (8, 1), ((0,), (1,))),
    ],
)
def test_dims_of_the_callers_array(shape: Any, strides: Any, given: Any, of_given: Any, parts: Any) -> None:
    assert parts_of(tensor(*shape, strides=strides), tensor(*given, strides=of_given)) == parts


def test_taps_that_go_back() -> None:
    """A gradient's windows read from the last tap to the first: a tensor map counts offsets from the lowest."""

    @fi.program(y="n h w channel", f="k r s c")
    def back(y: Any, f: Any) -> Any:
        p, q, r, s = fi.dim("p", 7), fi.dim("q", 5), fi.index("r"), fi.index("s")
        return fi.einsum("n p q r s c, k r s c -> n p q k", y[:, p + 1 - r, q + 1 - s, fi.index("c")], f)

    spec = back(tensor(3, 7, 5, 32, dtype="f16", name="y"), tensor(24, 3, 3, 32, dtype="f16", name="f"))
    schedule = conv.wgmma(spec, runs=True, channels=64)
    right(schedule)
    assert "tma_load_4d_im2col" in schedule.cuda("sm_90a")


def folded(op: str, shape: tuple[int, ...], over: tuple[int, ...], **strides: Any) -> Any:
    kept = tuple(n for i, n in enumerate(shape) if i not in over) or (1,)
    return fi.Reduction(op, tensor(*shape, name="x", **strides), tensor(*kept, name="y"), over=over)


@pytest.mark.parametrize(
    ("spec", "dims"),
    [
        (lambda: folded("add", (8, 16, 32), (1, 2)), (8, 512)),
        (lambda: folded("max", (8, 16, 32), (0, 1)), (32, 128)),
        (lambda: folded("add", (8, 16, 32), (0, 2)), (16, 8, 32)),  # not together in memory
        (lambda: folded("min", (4, 5, 16, 32), (2, 3)), (20, 512)),
        (lambda: folded("add", (8, 16, 32), (1, 2), strides=(1024, 32, 1)), (8, 512)),
        (lambda: folded("add", (8, 16, 32), (1, 2), strides=(1024, 64, 1)), (8, 16, 32)),  # lines have gaps
        (lambda: rows.softmax.on(x="a b m n")(tensor(2, 3, 8, 64)), (48, 64)),
        (lambda: rows.layernorm.on(x="a m n", gain="n", bias="n")(*_norm(2, 8, 64)), (16, 64)),
        (lambda: pointwise(tensor(3, 5, 7), tensor(3, 5, 7, name="b")), (105,)),
        (lambda: row_added(tensor(3, 5, 7), tensor(7, name="b")), (15, 7)),
        (lambda: pointwise(tensor(3, 5, 7), tensor(3, 5, 7, name="b", strides=(35, 1, 5))), (3, 5, 7)),
    ],
)
def test_best_counts_neighbouring_dims_as_one(spec: Any, dims: tuple[int, ...]) -> None:
    """Where every array has them next to each other without gaps, and every step folds all of them or none."""
    given = spec()
    made = fi.best(given, "sm_80")
    assert tuple(simplest(d.extent) for d in made.program.spec.dims) == dims
    right(made)
    arrays = made.simulate().arrays
    assert [arrays[t.name].ndim for t in given.computed.inputs] == [len(t.shape) for t in given.computed.inputs]


def test_a_name_that_is_taken_is_not_given_again() -> None:
    named = fi.program(x="m n mn")(lambda x: fi.sum(x, "mn"))
    made = fi.best(named(tensor(3, 4, 32)), "sm_80")
    assert [d.name for d in made.program.spec.dims] == ["mn_", "mn"]


def _norm(a: int, m: int, n: int) -> tuple[Any, ...]:
    return tensor(a, m, n), tensor(n, name="gain"), tensor(n, name="bias")


@fi.program(a="x y z", b="x y z")
def pointwise(a: Any, b: Any) -> Any:
    return fi.relu(a + b)


@fi.program(a="x y z", b="z")
def row_added(a: Any, b: Any) -> Any:
    return a * b


def test_symbols_and_products_keep_their_dims() -> None:
    made = fi.best(rows.softmax.on(x="b m n")(tensor(symbol("B"), 8, 64)), "sm_80")
    assert [d.name for d in made.program.spec.dims] == ["b", "m", "n"]
    images, filters = tensor(2, 8, 8, 16, dtype="f16"), tensor(32, 3, 3, 16, dtype="f16", name="f")
    assert neighbours(conv.conv2d(images, filters, pad=1).computed) == ()
