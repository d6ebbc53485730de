"""Kernels of every preset to plant bugs in, at sizes where every guard, tail, second trip and second slot matters.

A preset stands here twice where that differs: with sizes that its tiles do not divide, where predicates cut; and with
whole tiles, where only the guards of its loops do. There are several tiles for each block, more chunks of K than ring
slots, and a last chunk that lies in the first slot, over which results are staged, and reaches into its last step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import attrs
import numpy as np

from fireiron import (
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    Matrix,
    Thread,
    Vector,
    add,
    drawn,
    in_order,
    matmul,
    products,
    program,
    relu,
    row_sum,
    save,
    sum,
    symbol,
    tensor,
)
from fireiron.language import keys
from fireiron.schedules import (
    ada,
    akg,
    ampere,
    attention,
    attention_gradients,
    conv,
    conv_gradients,
    fused,
    hopper,
    pointwise,
    reductions,
    rows,
    simt,
    turing,
    volta,
)
from fireiron.schedules._programs import hopper as on_hopper
from fireiron.schedules.hopper import Plan


def _hopper(name: str, sizes: tuple[int, int, int], plan: Plan, dtype: str = "bf16", **kinds: Any) -> Any:
    spec = matmul(*sizes, dtype, layout=kinds.pop("layout", "TN"), arch="sm_90", **kinds)
    return getattr(hopper, name)(spec, plan)


def _symbols(m: int, n: int, k: int, *more: Any, **kinds: Any) -> Any:
    return matmul(symbol(f"M_{m}"), symbol(f"N_{n}"), symbol(f"K_{k}"), *more, **kinds)


def _outputs(m: int, n: int) -> tuple[Any, ...]:
    """Give ops with all that can be stored beside C."""
    rest, saved, total = Matrix(m, n, name="rest"), Matrix(m, n, "f16", name="saved"), Matrix(m, 2, name="total")
    return (save(saved), add(rest), row_sum(total))


def _two_sums(m: int, n: int, k: int, k2: int) -> Any:
    """Give X W and H U with both sums apart: two loops that share a ring."""
    x, h = Matrix(m, k, "f16", name="X"), Matrix(m, k2, "f16", name="H")
    w, u = Matrix(k, n, "f16", ColMajor, name="W"), Matrix(k2, n, "f16", ColMajor, name="U")
    return products(Matrix(m, n, "f16", name="Y"), (x, w), (h, u), op=lambda p, q: relu(p) + q)


def _gather(m: int, v: int, n: int) -> Any:
    """Give lines of a table by their numbers."""
    return pointwise.pointwise(rows.embedding(tensor(m, dtype="i32"), tensor(v, n, dtype="f16")))


def _columns(*sizes: int) -> Any:
    """Give sums over the first of three dims."""
    return program(x="a b c")(lambda x: sum(x, "a"))(tensor(*sizes))


def _heads(queries: int, keys: int, depth: int, width: int, **options: Any) -> Any:
    """Give attention of one head."""
    sizes = (("q", queries, depth), ("k", keys, depth), ("v", keys, width))
    arrays = (tensor(1, 1, n, of, dtype="f16", name=name) for name, n, of in sizes)
    return attention.attention(*arrays, **options)


def drawing(schedule: Any) -> Any:
    """Let the blocks of a schedule draw the tiles that they would take in turn."""
    first, *others = schedule.links
    return attrs.evolve(schedule, links=(attrs.evolve(first, share=drawn()), *others))


def _gradient(queries: int, keys: int, depth: int, width: int) -> Any:
    """Give the gradients of the keys and values of one head."""
    sizes = (("q", queries, depth), ("k", keys, depth), ("v", keys, width), ("dy", queries, width))
    arrays = [tensor(1, 1, n, of, dtype="f16", name=name) for name, n, of in sizes]
    return attention_gradients.of_keys(*arrays, *(tensor(1, 1, queries, name=name) for name in ("lse", "delta")))


def _images(x: tuple[int, ...], f: tuple[int, ...], dtype: str = "f16", **options: Any) -> Any:
    """Give a convolution."""
    return conv.conv2d(tensor(*x, dtype=dtype), tensor(*f, dtype=dtype, name="f"), **options)


def _filters(y: tuple[int, ...], x: tuple[int, ...]) -> Any:
    """Give the gradient of the filters of a convolution, whose taps are 2 x 2."""
    return conv_gradients.conv2d_filter_gradient(tensor(*y, dtype="f16"), tensor(*x, dtype="f16"), (2, 2), out="f32")


def _shares() -> Any:
    """Let three blocks run at once, and each add a share of a tile's sums."""
    chain = matmul(20, 48, 50).tile(16, 24).to(Block).epilog(memory=RF)
    chain = chain.split(ways=3, multiple_of=8).parallel(Block, in_order(shared=True)).split(8)
    chain = (
        chain.load(A, SH)
        .load(B, SH)
        .tile(16, 8)
        .unroll()
        .tile(4, 1)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
    )
    return chain.tile(1, 1).unroll().done()


SMALL: dict[str, Any] = {"m": 32, "n": 32, "warp": (16, 16)}
THREADS: dict[str, Any] = {"warp": (32, 64), "thread": (8, 8)}
CASES: dict[str, Callable[[], Any]] = {
    "listing1": lambda: simt.listing1(matmul(37, 21, 5)),
    "listing2": lambda: simt.listing2(matmul(70, 40, 20), 64, 32),
    "listing2 whole": lambda: simt.listing2(matmul(64, 64, 16), 64, 32),
    "listing4": lambda: simt.listing4(matmul(130, 140, 20)),
    "sgemm 1": lambda: simt.sgemm(_symbols(70, 72, 27), m=64, n=64, **THREADS, stages=1),
    "sgemm 3": lambda: simt.sgemm(matmul(70, 72, 44, batch=2), m=64, n=64, **THREADS, stages=3),
    "sgemm 3 whole": lambda: simt.sgemm(matmul(64, 128, 48), m=64, n=64, **THREADS, stages=3),
    "sgemm ahead": lambda: simt.sgemm(
        matmul(70, 72, 40).then(add(Vector(72, name="bias")), relu), m=64, n=64, **THREADS, ahead=2
    ),
    "sgemm ways, split_k": lambda: simt.sgemm(matmul(70, 72, 94, beta=2), m=64, n=64, **THREADS, ways=2, split_k=2),
    "sums in shares": _shares,
    "turing": lambda: turing.gemm(matmul(40, 37, 94, "f16"), **SMALL, stages=2),
    "ampere 3": lambda: ampere.gemm(matmul(40, 40, 216, "f16", layout="NT"), **SMALL, k=32, stages=3),
    "ampere 3 whole": lambda: ampere.gemm(matmul(64, 32, 224, "f16", layout="TN"), **SMALL, k=32, stages=3),
    "ampere i8 ragged": lambda: ampere.gemm(_symbols(37, 40, 94, "i8"), **SMALL, k=32, stages=2, slots=1),
    "ampere ways, split_k": lambda: ampere.gemm(
        matmul(40, 40, 632, "bf16"), **SMALL, k=32, stages=2, ways=2, split_k=2
    ),
    "ampere outputs": lambda: ampere.gemm(matmul(40, 40, 152, "f16").then(*_outputs(40, 40)), **SMALL, k=32, stages=2),
    "ada": lambda: ada.gemm(matmul(40, 40, 432, "e4m3", arch="sm_89"), **SMALL, stages=3),
    "volta": lambda: volta.gemm(matmul(40, 72, 158, "f16", arch="sm_70"), m=32, n=64, warp=(32, 32)),
    "volta wmma": lambda: volta.listing3(matmul(64, 128, 48, "f16", out="f32", arch="sm_70")),
    "hopper": lambda: _hopper("cooperative", (200, 72, 440), Plan(128, 64, 2, stages=3)),
    "hopper whole": lambda: _hopper("cooperative", (256, 128, 320), Plan(128, 64, 2, stages=3)),
    "hopper turns": lambda: _hopper("pingpong", (200, 136, 312), Plan(64, 64, 2, pingpong=True, stages=2)),
    "hopper cluster": lambda: _hopper("cooperative", (264, 72, 312), Plan(64, 64, 1, cluster=(2, 1), stages=2)),
    "hopper split_k": lambda: _hopper("split_k", (72, 72, 568), Plan(64, 64, 1, ways=3, stages=2)),
    "hopper sums of a cluster": lambda: _hopper(
        "split_k", (72, 72, 568), Plan(64, 64, 1, ways=2, through="cluster", stages=2)
    ),
    "hopper stream_k": lambda: _hopper("stream_k", (136, 72, 568), Plan(64, 64, 1, stream=True, stages=2)),
    "hopper stream_k, whole tiles too": lambda: _hopper(
        "stream_k", (264, 72, 184), Plan(64, 64, 1, stream=True, stages=2)
    ),
    "hopper groups": lambda: _hopper("gemm", (150, 72, 184), Plan(64, 64, 1, stages=2), groups=3, layout="NN"),
    "hopper swapped": lambda: _hopper("skinny", (24, 200, 568), Plan(64, 16, 1, swapped=True, stages=3, ways=2)),
    "hopper dependent": lambda: _hopper("cooperative", (136, 72, 184), Plan(64, 64, 1, dependent=True, stages=2)),
    "two sums": lambda: on_hopper(_two_sums(200, 48, 184, 248), Plan(64, 48, 1, stages=2)),
    "two sums of a cluster": lambda: on_hopper(
        _two_sums(136, 48, 312, 312), Plan(64, 48, 1, stages=4, ways=2, through="cluster")
    ),
    "two sums of blocks": lambda: on_hopper(_two_sums(72, 48, 312, 312), Plan(64, 48, 1, stages=4, ways=2)),
    "swiglu, mma": lambda: fused.swiglu(136, 72, 184, path="ampere"),
    "lstm_cell": lambda: fused.lstm_cell(136, 56, 88, path="ampere"),
    "mlp": lambda: fused.mlp(200, 48, 9, path="hopper"),
    "gather": lambda: _gather(37, 50, 24),
    "mlp, mma": lambda: fused.mlp(200, 32, 9, path="ampere"),
    "softmax": lambda: rows.row(rows.softmax(tensor(5, 200)), warps=2),
    "softmax ahead": lambda: rows.row(rows.softmax(tensor(20, 600, dtype="f16")), blocks=3, stages=2),
    "layernorm's gradients": lambda: rows.row(
        rows.layernorm_gradients(tensor(150, 64), tensor(150, 64, name="dy"), tensor(64, name="gain")),
        blocks=3,
        stages=2,
    ),
    "top": lambda: _with_lists(lambda: rows.row(rows.top(tensor(60, 100), k=2), warps=1)),
    "top of few columns": lambda: rows.row(rows.top(tensor(100, 280, dtype="bf16"), k=4)),
    "sums of columns": lambda: reductions.reduction(_columns(215, 3, 40), ways=9),
    "attention, cores": lambda: attention.simt(_heads(70, 37, 8, 8, causal=True), rows=32, keys=4),
    "attention, mma": lambda: attention.mma(_heads(101, 203, 32, 32, causal=True), warps=2, keys=32),
    "attention, 32 queries a warp": lambda: attention.mma(
        _heads(101, 203, 32, 32, causal=True), warps=2, keys=32, rows=32
    ),
    "attention, wgmma": lambda: attention.wgmma(
        _heads(438, 235, 64, 64, causal=True),
        groups=1,
        keys=32,
        stages=3,
        persistent=True,
        draw=False,
        bulk_store=True,
        slack=0,
    ),
    "attention, speculating": lambda: attention.wgmma(
        _heads(242, 235, 64, 64), groups=1, keys=32, stages=3, persistent=False, slack=8.0, speculate=True
    ),
    "drawn": lambda: drawing(hopper.gemm(matmul(150, 104, 72, "f16", layout="TN"), Plan(64, 64, 1, stages=4))),
    "attention's gradient": lambda: attention_gradients.mma(_gradient(69, 88, 16, 32), warps=1, chunk=16),
    "conv, cores": lambda: conv.simt(_images((2, 5, 7, 6), (5, 3, 2, 6), "f32", stride=2, pad=1), 8, 4, 4),
    "conv, mma": lambda: conv.mma(
        _images((3, 5, 7, 40), (40, 3, 2, 40), stride=2, pad=1),
        pixels=32,
        channels=32,
        depth=16,
        warp=(16, 32),
        stages=2,
    ),
    "conv, wgmma": lambda: conv.wgmma(
        _images((5, 7, 9, 24), (72, 1, 3, 24), pad=1), pixels=64, channels=32, groups=1, stages=2, cluster=2
    ),
    "akg.conv": lambda: akg.conv(_images((17, 1, 3, 16), (40, 1, 2, 16), arch="sm_70"), images=16, filters=32, depth=8),
    "filters' gradient, mma": lambda: conv_gradients.filters_mma(
        _filters((9, 4, 5, 40), (9, 5, 6, 40)), filters=32, channels=32, pixels=16, ways=2, stages=2
    ),
    "filters' gradient, wgmma": lambda: conv_gradients.filters_wgmma(
        _filters((21, 4, 5, 72), (21, 5, 6, 40)), pixels=32, ways=2, stages=2, shared=False
    ),
}
# Blocks of persistent kernels that are launched, where two would hide something: uneven trips, tiles that are shared.
# Several numbers are several runs.
LAUNCHED: dict[str, int | tuple[int, ...]] = {
    "hopper": 3,
    "hopper turns": 3,
    "hopper stream_k": 16,
    "hopper stream_k, whole tiles too": 3,
    "hopper split_k": 6,
    "hopper swapped": 4,
    "hopper groups": 3,
    "hopper dependent": 3,
    "drawn": (3, 1),
    "attention, wgmma": (2, 1),  # one block reuses a slot of queries behind tiles without keys
    "conv, wgmma": 4,
}


def _fractions(array: Any) -> Any:
    """Make sums small, so that sigmoid and its like are steep where they lie."""
    return array * array.dtype.type(2.0**-4)


def _with_lists(make: Callable[[], Any]) -> Any:
    """Let warps have lists of few columns too, which are cheaper to break."""
    with patch.object(keys, "FEW_POINTS", 0):
        return make()


def _lines(array: Any) -> Any:
    """Let lines have in turn two values, each once, each with the largest side by side, one above 0, and one NaN."""
    rng = np.random.default_rng(3)
    kind = np.arange(len(array))[:, None] % 5
    each = np.argsort(rng.random(array.shape), axis=-1)
    beside = (np.arange(array.shape[1]) + 2 * np.arange(len(array))[:, None] // 3) % array.shape[1]
    few = np.full(array.shape, -1.0)
    for i, line in enumerate(few):  # lanes have four numbers: one has a 0, and maybe one above, another has a 1
        apart = 16 >> i // 5 % 5
        lane = 4 * rng.choice([n for n in range(array.shape[1] // 4 - apart) if n % (2 * apart) < apart])
        beside_it, other = ((-1, 1), (2, 1), (1, -1))[i // 25]
        line[lane + np.sort(rng.permutation(4)[:2])] = (0, beside_it)
        line[lane + 4 * apart + rng.integers(4)] = other
    without = np.where(np.arange(array.shape[1]) == rng.integers(0, array.shape[1], len(array))[:, None], np.nan, array)
    return np.select([kind == i for i in range(5)], [array > 0, each, beside, few, without]).astype(array.dtype)


def _in_few_lanes(array: Any) -> Any:
    """Let the largest values of a line be of one lane, of two, or of any, and rise along the line, more or less."""
    rng = np.random.default_rng(4)
    line, column = np.arange(len(array))[:, None], np.arange(array.shape[1])
    lane = column // 8 % 32
    other = (line % 32) ^ (1 << rng.integers(0, 5, line.shape))
    large = [lane == line % 32, (lane == line % 32) | (lane == other), lane >= 0]
    x = rng.integers(0, 60, array.shape) + 90 * np.choose(line % 3, large) + column * (line % 5) / 20
    x = np.floor(np.where(line % 4, x, x / 60)).clip(max=250)  # in every fourth line nearly all are equal
    x[-1], x[-2, ::7], x[-3], x[-4] = -np.inf, np.nan, 0, -np.arange(array.shape[1]) % 5
    x[-3, ::2], x[-4, ::3] = -0.0, -np.nan
    return x


INPUTS: dict[str, dict[str, Any]] = {
    "top of few columns": {"x": _in_few_lanes},
    "hopper groups": {"offsets": (65, 65, 150)},  # a row more than a tile, none, and the rest
    "top": {"x": _lines},
    "gather": {"ids": tuple(7 * i % 50 for i in range(37))},
    "swiglu, mma": {"X": _fractions},
    "lstm_cell": {"X": _fractions, "H": _fractions},
}
# A second run where tiles and chunks are larger than the sizes.
SIZES: dict[str, dict[str, int]] = {
    "sgemm 1": {"M_70": 3, "N_72": 5, "K_27": 6},
    "ampere i8 ragged": {"M_37": 7, "N_40": 11, "K_94": 20},
}
# Kernels whose blocks share tiles run once more with their blocks in another order.
SHUFFLED = ("sgemm ways, split_k", "ampere ways, split_k", "hopper split_k", "hopper swapped")
