"""Programs of steps that are right as they stand: functions of the language, programs, their presets and links."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import fireiron as fi
from tests.fuzz.make import Make, call, chain


class Argument:
    """Stand for an argument of a traced function, by its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return "xv"[self.number]


X, V = Argument(0), Argument(1)


def traced(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Trace a call of a function of the language on arrays `x[m, n]` and `v[n]`."""

    def body(*given: Any) -> Any:
        def put(value: Any) -> Any:
            return given[value.number] if isinstance(value, Argument) else value

        return function(*map(put, args), **{name: put(value) for name, value in named.items()})

    return fi.program(x="m n", v="n")(lambda x, v: body(x, v))(_array(8, 32, name="x"), _array(32, name="v"))


def _array(*shape: Any, **named: Any) -> Any:
    return fi.tensor(*shape, **named)


def _tensor(*shape: Any, dtype: Any = "f32", **named: Any) -> Make:
    return call(fi.tensor, *shape, dtype=dtype, **named)


def _language() -> dict[str, Make]:
    """Write a call of each function that a program's steps are made of."""
    of_rows = {
        name: call(traced, getattr(fi, name), X, "n")
        for name in ("sum", "max", "min", "prod", "argmax", "argmin", "mean", "softmax", "log_softmax", "logsumexp")
    }
    return of_rows | {
        "sum where": call(traced, lambda x, over, below: fi.sum(x, over, where=fi.index("n") < below), X, "n", 7),
        "logsumexp once": call(traced, fi.logsumexp, X, "n", once=True),
        "mean_and_variance": call(traced, fi.mean_and_variance, X, "n", False),
        "topk": call(traced, fi.topk, X, "n", 2, into="j"),
        "cumsum": call(traced, fi.cumsum, X, "n", None),
        "cumprod": call(traced, fi.cumprod, X, "n"),
        "fold_by": call(
            traced, fi.fold_by, X, "n", 0.0, lambda a, b: a + b, lambda x: x * x, lambda s: fi.sqrt(s), "norm", None
        ),
        "fold_by two": call(traced, fi.fold_by, X, "n", (0.0, 0.0), lambda a, b, c, d: (a + c, b + d), name="two"),
        "einsum": call(traced, fi.einsum, "mn,n->m", X, V, name="p"),
        "index": call(traced, lambda x, dim, by: fi.where(fi.index(dim) % by < 1, x, 0.0), X, "n", 2),
        "extent": call(traced, lambda x, dim: x * fi.extent(dim), X, "n"),
        "dim": call(traced, lambda x, name, size: x[:, 2 * fi.dim(name, size)], X, "j", 16),
        "subscript": call(traced, lambda x, *subscripts: x[subscripts], X, slice(None), 3),
        "outside": call(traced, lambda x, number: fi.outside(x, number)[:, fi.index("n") + 1], X, -1.0),
        "named": call(traced, lambda x, name: (x + 1).named(name) * 2, X, "more"),
        "cast": call(traced, lambda x, kind: x.cast(kind), X, "f16"),
    }  # fmt: skip


def _programs() -> dict[str, Make]:
    """Write calls of the programs that come with the library."""
    rows, conv, attention = (import_module(f"fireiron.schedules.{name}") for name in ("rows", "conv", "attention"))
    gradients, slopes = (import_module(f"fireiron.schedules.{name}_gradients") for name in ("conv", "attention"))
    x, gain, bias = _tensor(8, 64, name="x"), _tensor(64, name="gain"), _tensor(64, name="bias")
    images = _tensor(1, 6, 8, 16, dtype="f16", name="x")
    filters = _tensor(16, 3, 3, 16, dtype="f16", name="f")
    heads = [_tensor(1, 2, 64, 64, dtype="f16", name=name) for name in "qkv"]
    lines = [_tensor(1, 2, 64, name=name) for name in ("lse", "delta")]
    y = _tensor(1, 4, 6, 16, dtype="f16", name="y")
    return {
        "rows.softmax": call(rows.softmax, x),
        "rows.layernorm": call(rows.layernorm, x, gain, bias, 1e-5),
        "rows.rms_norm": call(rows.rms_norm, x, gain, eps=1e-6),
        "rows.layernorm_gradients": call(rows.layernorm_gradients, x, _tensor(8, 64, name="dy"), gain),
        "rows.cross_entropy": call(rows.cross_entropy, x, _tensor(8, dtype="i32", name="target")),
        "rows.top": call(rows.top, x, k=4),
        "rows.embedding": call(rows.embedding, _tensor(8, dtype="i32", name="ids"), _tensor(50, 64, name="table")),
        "conv.conv2d": call(conv.conv2d, images, filters, stride=2, pad=1, dilation=1, op=fi.relu),
        "conv.conv2d plain": call(conv.conv2d, images, filters),
        "conv.conv2d_packed": call(
            conv.conv2d_packed,
            _tensor(1, 9, 24, dtype="f16"),
            _tensor(8, 3, 9, dtype="f16", name="f"),
            channels=3,
            stride=2,
        ),
        "conv.conv2d_grouped": call(
            conv.conv2d_grouped, _tensor(1, 6, 8, 2, 16, dtype="f16"), _tensor(2, 16, 3, 3, 16, dtype="f16", name="f")
        ),
        "conv.conv1d_grouped": call(
            conv.conv1d_grouped, _tensor(1, 20, 2, 16, dtype="f16"), _tensor(2, 16, 3, 16, dtype="f16", name="f")
        ),
        "conv.conv3d_grouped": call(
            conv.conv3d_grouped,
            _tensor(1, 3, 4, 5, 2, 16, dtype="f16"),
            _tensor(2, 16, 2, 2, 3, 16, dtype="f16", name="f"),
        ),
        "conv.conv2d_transposed": call(conv.conv2d_transposed, y, filters, stride=2, pad=1, more=0),
        "conv.conv1d": call(conv.conv1d, _tensor(2, 30, 8), _tensor(12, 3, 8, name="f"), stride=2, pad=1),
        "conv.conv3d": call(conv.conv3d, _tensor(1, 3, 4, 5, 8), _tensor(8, 2, 3, 3, 8, name="f")),
        "conv.max_pool2d": call(conv.max_pool2d, images, 3, 2, 1),
        "conv.max_pool1d": call(conv.max_pool1d, _tensor(2, 30, 8), 3, 2, 1, dilation=2),
        "conv.max_pool3d": call(conv.max_pool3d, _tensor(1, 3, 4, 5, 8), 2),
        "conv.average_pool1d": call(conv.average_pool1d, _tensor(2, 30, 8), 3, 2, 1),
        "conv.average_pool3d": call(conv.average_pool3d, _tensor(1, 3, 4, 5, 8), 2, count_pad=False),
        "conv.average_pool2d": call(conv.average_pool2d, images, 2, count_pad=False),
        "conv_gradients.conv2d_filter_gradient": call(
            gradients.conv2d_filter_gradient, y, images, (3, 3), stride=1, pad=0, out="f32"
        ),
        "attention.attention": call(attention.attention, *heads, scale=0.125, causal=True),
        "attention.attention plain": call(attention.attention, *heads),
        "attention_gradients.of_keys": call(
            slopes.of_keys, *heads, _tensor(1, 2, 64, 64, dtype="f16", name="dy"), *lines, scale=0.125, causal=False
        ),
        "attention_gradients.delta": call(slopes.delta, heads[0], heads[1]),
    }  # fmt: skip


def _presets() -> dict[str, Make]:
    """Write a call of each preset of such programs."""
    found, of = _programs(), lambda name: import_module(f"fireiron.schedules.{name}")
    conv, gradients = found["conv.conv2d plain"], found["conv_gradients.conv2d_filter_gradient"]
    heads = found["attention.attention plain"]
    sums = call(traced, lambda x, v: fi.sum(x, "m"), X, V)
    plain = call(traced, lambda x, v: fi.relu(x + v), X, V)
    return {
        "rows.row": call(of("rows").row, found["rows.softmax"], 1, 1, 1, 0, 1),
        "rows.row top": call(of("rows").row, found["rows.top"], warps=1),
        "reductions.reduction": call(of("reductions").reduction, sums, ways=2, atomics=True),
        "pointwise.pointwise": call(of("pointwise").pointwise, plain, vectors=1),
        "pointwise.embedding": call(of("pointwise").pointwise, found["rows.embedding"]),
        "pointwise.move": call(
            of("pointwise").move, call(fi.Move, call(fi.Matrix, 64, 32), call(fi.Matrix, 64, 32, order=fi.ColMajor))
        ),
        "conv.simt": call(of("conv").simt, conv, pixels=16, channels=8, depth=4),
        "conv.mma": call(of("conv").mma, conv, pixels=32, channels=32, depth=16, warp=(16, 32), stages=2),
        "conv.wgmma": call(
            of("conv").wgmma, conv, pixels=128, channels=32, stages=2, cluster=1, groups=2, persistent=True
        ),
        "conv.packed": call(of("conv").packed, found["conv.conv2d_packed"], pixels=32, channels=32, depth=32, stages=2),
        "attention_gradients.mma": call(
            of("attention_gradients").mma, found["attention_gradients.of_keys"], warps=1, chunk=16, stages=1, step=16,
            rows=16,
        ),
        "attention_gradients.simt": call(of("attention_gradients").simt, found["attention_gradients.of_keys"], 32, 8),
        "rows.row cumsum": call(of("rows").row, call(of("rows").cumsum, _tensor(8, 64, name="x"))),
        "akg.conv": call(of("akg").conv, conv, images=16, filters=32, depth=16),
        "conv_gradients.filters_mma": call(
            of("conv_gradients").filters_mma, gradients, filters=64, channels=64, pixels=32, stages=2, ways=1
        ),
        "conv_gradients.filters_wgmma": call(of("conv_gradients").filters_wgmma, gradients, ways=1),
        "attention.simt": call(of("attention").simt, heads, rows=32, keys=8),
        "attention.mma": call(
            of("attention").mma, heads, warps=2, keys=32, stages=2, step=16, rows=32, slack=8.0
        ),
        "attention.wgmma": call(
            of("attention").wgmma, heads, groups=1, keys=64, stages=2, persistent=True, bulk_store=False
        ),
        "best rows": call(fi.best, found["rows.softmax"], "sm_90"),
        "best sums": call(fi.best, sums),
    }  # fmt: skip


def _chains() -> dict[str, Make]:
    """Write chains that have every link of such programs."""
    found = _programs()
    lines = chain(
        found["rows.softmax"],
        ("tile", {"m": 4}),
        ("to", fi.Block),
        ("load", "x", fi.SH, call(fi.cp_async, 16)),
        ("tile", {"m": 1}),
        ("to", fi.Warp),
        ("load", "x", fi.RF, call(fi.vector, 16)),
        ("epilog", {"memory": fi.RF, "store": call(fi.vector)}),
        ("done",),
    )
    parted = chain(
        call(traced, lambda x, v: fi.sum(x * v, "n"), X, V),
        ("tile", {"m": 1}),
        ("to", fi.Block),
        ("split", "n", {"ways": 2, "multiple_of": 4}),
        ("parallel", fi.Block, call(fi.in_order)),
        ("split", {"n": 8}),
        ("pipeline", 1),
        ("split", "n", {"ways": 2}),
        ("parallel", fi.Warp),
        ("load", "x", fi.RF, call(fi.vector)),
        ("done",),
    )
    weighed = chain(
        found["attention.attention"],
        ("tile", {"b": 1, "h": 1, "i": 32}),
        ("to", fi.Block),
        ("persistent",),
        ("epilog", {"memory": fi.FR}),
        ("load", "q", fi.SH, call(fi.cp_async)),
        ("split", {"j": 32}),
        ("online",),
        ("pipeline", 2),
        ("load", "k", fi.SH, call(fi.cp_async)),
        ("load", "v", fi.SH, call(fi.cp_async)),
        ("tile", {"i": 16}),
        ("to", fi.Warp),
        ("each", {"s": _scores, "o": _values}),
    )
    skewed = chain(
        found["attention.attention plain"],
        ("tile", {"b": 1, "h": 1, "i": 64}),
        ("to", fi.Block),
        ("epilog", {"memory": fi.FR, "store": call(fi.through_shared, call(fi.stmatrix), call(fi.tma))}),
        ("load", "q", fi.SH, call(fi.tma)),
        ("split", {"j": 64}),
        ("online",),
        ("pipeline", 2),
        ("specialize", {"registers": (24, 240)}),
        ("skew", "s"),
        ("order", "s", "o"),
        ("load", "k", fi.SH, call(fi.tma)),
        ("load", "v", fi.SH, call(fi.tma)),
        ("tile", {"i": 64}),
        ("to", fi.Warpgroup),
        (
            "each",
            {
                "s": lambda s: s.split(d=16).unroll().done("wgmma"),
                "o": lambda o: o.split(j=16).unroll().done("wgmma"),
            },
        ),
    )
    windows = chain(
        found["conv.conv2d plain"],
        ("tile", {"n": 1, "p": 4, "q": 8, "k": 16}),
        ("to", fi.Block),
        ("epilog", {"memory": fi.FR, "store": call(fi.through_shared, pad=8, reuse=True)}),
        ("split", None, {"r": 1, "s": 1, "c": 16}),
        ("pipeline", 2),
        ("load", "x", fi.SH, call(fi.cp_async)),
        ("swizzle", call(fi.Swizzle, 1, 3, 3)),
        ("load", "f", fi.SH, call(fi.cp_async)),
        ("tile", {"n": 1, "p": 2, "q": 8, "k": 16}),
        ("to", fi.Warp),
        ("each", {"product": _fragments}),
    )
    return {"rows": lines, "parted": parted, "weighed": weighed, "skewed": skewed, "windows": windows}


def _scores(s: Any) -> Any:
    s = s.split(d=16).unroll().load("q", fi.FR, fi.ldmatrix()).load("k", fi.FR, fi.ldmatrix())
    return s.tile(i=16, j=8).unroll().done()


def _values(o: Any) -> Any:
    return o.split(j=16).unroll().load("v", fi.FR, fi.ldmatrix()).tile(i=16, e=8).unroll().done()


def _fragments(y: Any) -> Any:
    y = y.split(16).unroll().load("A", fi.FR, fi.ldmatrix()).load("B", fi.FR, fi.ldmatrix())
    return y.tile(16, 8).unroll().done()


def step_programs() -> dict[str, Make]:
    """Write all of them, by name."""
    chains = {f"steps {name}": made for name, made in _chains().items()}
    return {f"language {name}": made for name, made in _language().items()} | _programs() | _presets() | chains
