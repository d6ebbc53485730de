"""Programs that are right as they stand: calls of every public function, link, strategy, op and verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

import fireiron as fi
from tests.fuzz.make import Make, call, chain
from tests.fuzz.step_programs import step_programs

# Programs that are refused as they stand: presets whose paper fixes other sizes or types.
REFUSED = ("volta.listing3", "volta.tvm", "hopper.split_k")
PRESETS = ("simt", "volta", "turing", "ampere", "ada", "hopper", "fused")


def _simt(spec: Make, *epilog: Any, load: Any = None) -> Make:
    how = load or call(fi.vector, 4)
    return chain(
        spec,
        ("tile", 32, 32),
        ("to", fi.Block),
        ("layout", call(fi.Grouped, 8)),
        ("epilog", *epilog, {"memory": fi.RF}),
        ("split", 8),
        ("pipeline", 1),
        ("load", fi.A, fi.SH, how),
        ("pad", 4),
        ("load", fi.B, fi.SH, how),
        ("storage_layout", fi.RowMajor),
        ("tile", 16, 16),
        ("to", fi.Warp),
        ("tile", 4, 2),
        ("to", fi.Thread),
        ("split", 1),
        ("unroll",),
        ("load", fi.A, fi.RF),
        ("load", fi.B, fi.RF),
        ("tile", 1, 1),
        ("unroll",),
        ("done",),
    )


def _matrix(rows: Any = 64, cols: Any = 64, dtype: Any = "f32", order: Any = fi.RowMajor, **named: Any) -> Make:
    return call(fi.Matrix, rows, cols, dtype, order, **named)


def _ops() -> dict[str, Make]:
    """Write a call of each function that makes an op, by its name."""
    mask, bias, rows = (
        _matrix(dtype="i8", name="mask"),
        call(fi.Vector, 64, name="bias"),
        call(fi.Vector, 64, "f32", name="stat", along=fi.ColMajor),
    )
    source = "x * x"
    return {
        "add": call(fi.add, bias),
        "scale": call(fi.scale, 0.5),
        "clamp_to": call(fi.clamp_to, 0, 6),
        "saturate": call(fi.saturate, "f16"),
        "dropout": call(fi.dropout, mask, 0.5),
        "quantise": call(fi.quantise, "i8", 0.5, 1.0),
        "dequantise": call(fi.dequantise, "f32", bias),
        "normalise": call(fi.normalise, rows, rows, bias, bias),
        "save": call(fi.save, _matrix(name="before")),
        "row_sum": call(fi.row_sum, call(fi.Matrix, 64, 2, name="total")),
        "row_max": call(fi.row_max, call(fi.Matrix, 64, 2, name="most")),
        "custom": call(fi.custom, "square", source, lambda x: x * x, parameters=("x",), dtype="f32"),
    }


def _values() -> dict[str, Make]:
    """Write a call of each function of expressions, by its name."""
    x = call(fi.parameter, "x", "f32")
    one = (
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "expm1",
        "log1p",
        "tanh",
        "erf",
        "normcdf",
        "sigmoid",
        "silu",
        "gelu",
        "gelu_tanh",
        "relu",
    )
    made = {name: call(getattr(fi, name), x) for name in one}
    made |= {name: call(getattr(fi, name), x, 1.0) for name in ("maximum", "minimum", "equal")}
    made |= {
        "clamp": call(fi.clamp, x, 0.0, 1.0),
        "where": call(fi.where, x, x, 0.0),
        "cast": call(fi.cast, x, "f16"),
        "parameter": x,
    }
    for name in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "radd", "rsub", "rmul", "rtruediv"):
        made[f"Value.__{name}__"] = Make(f"__{name}__", (x, 2.0))
    return made


def _specs() -> dict[str, Make]:
    sixteen: dict[str, Any] = {"layout": "TN", "out": "f32"}
    x = _matrix(64, 32, "f16", name="X")
    return {
        "f32": call(
            fi.matmul, 64, 64, 32, "f32", acc="f32", layout="NN", alpha=2.0, beta="beta", product="mul", arch="sm_90a"
        ),
        "f16": call(fi.matmul, 128, 128, 64, "f16", **sixteen),
        "batch": call(fi.matmul, 64, 64, 32, batch=2),
        "groups": call(fi.matmul, 64, 64, 32, groups=2),
        "symbol": call(fi.matmul, call(fi.symbol, "M", 4, 1, 4096), 64, call(fi.symbol, "K", multiple_of=8)),
        "MatMul": call(
            fi.MatMul,
            _matrix(64, 32, name="A"),
            _matrix(32, 64, name="B", ld=64),
            _matrix(64, 64, name="C"),
            alpha=1.0,
            beta=0.0,
            acc="f32",
            arch="sm_80",
        ),
        "grouped": call(
            fi.MatMul,
            _matrix(64, 32),
            _matrix(32, 64, batch=2, batch_stride=2048),
            _matrix(64, 64),
            groups=call(fi.Vector, 2, "i32", name="ends"),
        ),
        "bits": call(fi.matmul, 64, 64, 256, "b1", layout="TN", product="and"),
        "layers-x": x,
    }


def _chains() -> dict[str, Make]:
    """Write schedules that have every link and refinement."""
    specs = _specs()
    f16 = specs["f16"]
    lane = lambda i: (i >> 1) | ((i & 1) << 4)  # noqa: E731 - shown as a lambda in a finding
    ampere = chain(
        f16,
        ("tile", 64, 64),
        ("to", fi.Block, None, 1),
        ("persistent", fi.RowMajor),
        (
            "epilog",
            {
                "memory": fi.FR,
                "init": 0.0,
                "dtype": "f32",
                "store": call(fi.through_shared, call(fi.conform), call(fi.vector), (32, 64), 4, fi.RowMajor, True),
            },
        ),
        ("split", 32),
        ("pipeline", 3, 0, False),
        ("unroll", 3),
        ("load", fi.A, fi.SH, call(fi.cp_async, 16)),
        ("swizzle", call(fi.Swizzle, 2, 3, 3)),
        ("reuse_buffer",),
        ("load", fi.B, fi.SH, call(fi.cp_async, 16)),
        ("swizzle", call(fi.Swizzle, 2, 3, 3)),
        ("no_sync",),
        ("tile", 32, 32),
        ("to", fi.Warp),
        ("permute", lambda i: i),
        ("split", 16),
        ("unroll",),
        ("load", fi.A, fi.FR, call(fi.ldmatrix)),
        ("load", fi.B, fi.FR, call(fi.ldmatrix)),
        ("tile", 16, 8),
        ("unroll",),
        ("done", "mma.m16n8k16.f32.f16"),
    )
    parallel = chain(
        specs["f32"],
        ("tile", 32, 32),
        ("to", fi.Block),
        ("epilog", call(fi.add, call(fi.Vector, 64, name="bias")), {"memory": fi.RF}),
        ("split", {"ways": 2, "multiple_of": 8}),
        ("parallel", fi.Block, call(fi.in_order)),
        ("split", 8),
        ("load", "A", fi.SH),
        ("load", "B", fi.SH, call(fi.staged, 4)),
        ("tile", 16, 16),
        ("to", fi.Warp),
        ("tile", call(fi.Strided, (2, 8), (2, 4))),
        ("to", fi.Thread),
        ("permute", lane),
        ("split", 1),
        ("unroll",),
        ("load", fi.A, fi.RF),
        ("load", fi.B, fi.RF),
        ("tile", 1, 1),
        ("unroll",),
        ("done",),
    )
    units = chain(
        specs["f32"],
        ("tile", 32, 32),
        ("to", fi.Block),
        ("epilog", {"memory": fi.RF}),
        ("split", 16),
        ("load", fi.A, fi.SH),
        ("load", fi.B, fi.SH),
        ("split", {"ways": 2}),
        ("parallel", call(fi.Group, fi.Warp, 2), call(fi.in_order, 4096)),
        ("tile", 16, 32),
        ("to", fi.Warp),
        ("tile", 4, 4),
        ("to", fi.Thread, 32),
        ("split", 1),
        ("unroll",),
        ("load", fi.A, fi.RF),
        ("load", fi.B, fi.RF),
        ("tile", 1, 1),
        ("unroll",),
        ("done",),
    )
    hopper = chain(
        call(fi.matmul, 256, 256, 128, "f16", layout="TN", arch="sm_90a"),
        ("tile", 256, 128),
        ("to", fi.Cluster),
        ("persistent", call(fi.Hilbert, 4)),
        ("dependent",),
        ("tile", 128, 128),
        ("to", fi.Block),
        (
            "epilog",
            {
                "memory": fi.FR,
                "store": call(
                    fi.through_shared, call(fi.stmatrix), call(fi.tma, 128), (64, 64), at=fi.Warpgroup, ring=2
                ),
            },
        ),
        ("split", 64),
        ("pipeline", 3, 1),
        ("specialize", 1, (40, 232), 1),
        ("load", fi.A, fi.SH, call(fi.tma, 128, l2="evict_first")),
        ("load", fi.B, fi.SH, call(fi.tma)),
        ("tile", 64, 128),
        ("to", fi.Warpgroup),
        ("split", 16),
        ("unroll",),
        ("done",),
    )
    prolog = _simt(
        chain(
            call(fi.matmul, 64, 64, 32, "i8", out="f32", acc="f32"),
            ("prolog", fi.A, call(fi.dequantise, "f32", call(fi.Vector, 32, name="s"))),
            ("prolog", "B", call(fi.dequantise, "f32", call(fi.Matrix, 1, 64, name="t"))),
        ),
        load=call(fi.staged, 1),
    )
    early = chain(
        call(fi.matmul, 64, 64, 32),
        ("then", call(fi.add, _matrix(name="residual")), fi.relu),
        ("swap",),
    )
    micro = chain(
        call(fi.matmul, 64, 64, 32),
        ("tile", 16, 16),
        ("to", fi.Block),
        ("tile", 1, 1),
        ("to", fi.Thread),
        (
            "done",
            call(
                fi.microkernel,
                "float s = 0; for (int k = 0; k < K; ++k) s += A[k * A_col] * B[k * B_row]; C[0] = s;",
                lambda a, b, c: a @ b,
                "dot",
            ),
        ),
    )
    batch = chain(
        specs["batch"],
        ("tile", 32, 32, {"batch": 1}),
        ("to", fi.Block),
        ("epilog", {"memory": fi.RF}),
        ("split", 8),
        ("tile", 4, 2, {"batch": 1}),
        ("to", fi.Thread),
        ("layout", fi.ColMajor),
        ("split", 1),
        ("unroll",),
        ("load", fi.A, fi.RF),
        ("load", fi.B, fi.RF),
        ("tile", 1, 1),
        ("unroll",),
        ("done",),
    )
    return {
        "listing": _simt(specs["f32"], call(fi.add, call(fi.Vector, 64, name="bias")), fi.relu),
        "MatMul": _simt(specs["MatMul"]),
        "symbols": _simt(specs["symbol"]),
        "ampere": ampere,
        "parallel": parallel,
        "units": units,
        "hopper": hopper,
        "prolog": prolog,
        "early": _simt(early),
        "micro": micro,
        "batch": batch,
        "save": _simt(call(fi.matmul, 64, 64, 32), _ops()["save"], _ops()["row_max"]),
    }


def _moves() -> dict[str, Make]:
    x, y = _matrix(64, 32, name="X"), _matrix(64, 32, "f16", name="Y")
    two = (("tile", 16, 16), ("to", fi.Block), ("tile", 1, 4), ("to", fi.Thread))
    inputs = (_matrix(64, 32, name="x"), call(fi.Vector, 32, name="bias"))
    product = call(fi.products, _matrix(name="y"), (_matrix(64, 32, name="x"), _matrix(32, 64, name="w")), acc="f32")
    layered = call(
        fi.layers,
        _matrix(64, 64, "f16", name="Y"),
        _matrix(64, 64, "f16", name="X"),
        (_matrix(64, 64, "f16", name="W", batch=2), fi.relu),
        acc="f32",
    )
    return {
        "Move": chain(
            call(fi.Move, x, y, arch="sm_80"),
            ("tile", 16, 16),
            ("to", fi.Block),
            ("vectors", 2),
            ("to", fi.Thread),
            ("unroll",),
            ("done",),
        ),
        "through": chain(
            call(fi.Move, x, _matrix(64, 32, name="Y")),
            ("tile", 16, 16),
            ("to", fi.Block),
            ("pipeline", 1),
            ("load", fi.SRC, fi.SH, call(fi.vector, 4), "f32"),
            ("pad", 1),
            ("tile", 1, 1),
            ("to", fi.Thread),
            ("done",),
        ),
        "Init": chain(call(fi.Init, _matrix(64, 32, name="Y"), 1.0), *two, ("done",)),
        "Pointwise": chain(
            call(fi.Pointwise, lambda x, b: fi.relu(x + b), *inputs, _matrix(64, 32, name="y")),
            *two,
            ("unroll",),
            ("done",),
        ),
        "products": chain(
            product,
            ("tile", 32, 32),
            ("to", fi.Block),
            ("epilog", {"memory": fi.RF}),
            ("split", 8),
            ("load", "x", fi.SH),
            ("load", "w", fi.SH),
            ("tile", 4, 4),
            ("to", fi.Thread),
            ("split", 1),
            ("unroll",),
            ("load", fi.A, fi.RF),
            ("load", fi.B, fi.RF),
            ("tile", 1, 1),
            ("unroll",),
            ("done",),
        ),
        "layers": chain(layered, ("tile", 64), ("to", fi.Block), ("load", fi.A, fi.SH), ("each", _layer)),
    }


def _layer(layer: Any) -> Any:
    return (
        layer.epilog()
        .split(16)
        .load(fi.B, fi.SH)
        .tile(16, 64)
        .to(fi.Warp)
        .split(16)
        .unroll()
        .load(fi.A, fi.FR, fi.ldmatrix())
        .load(fi.B, fi.FR, fi.ldmatrix())
        .tile(16, 8)
        .unroll()
        .done()
    )


def _plain() -> dict[str, Make]:
    """Write calls of functions and records that are no chains."""
    layout = call(fi.Layout, (4, 8), (8, 1))
    return {
        "Layout": layout,
        "Layout.parse": call(fi.Layout.parse, "(4,8):(8,1)"),
        "Layout()": Make("__call__", (layout, (1, 2))),
        "Swizzle": call(fi.Swizzle, 3, 3, 3),
        "Swizzle()": Make("__call__", (call(fi.Swizzle, 3, 3, 3), 17)),
        "Matrix": _matrix(64, 32, "f16", fi.ColMajor, name="Z", ld=64, batch=2, batch_stride=4096),
        "Vector": call(fi.Vector, 64, "f32", name="v", along=fi.ColMajor),
        "Grouped": call(fi.Grouped, 8),
        "Hilbert": call(fi.Hilbert, 16),
        "Tensor": call(fi.Tensor, "T", (64, 32), fi.f32, (32, 1), fi.GL),
        "Strided": call(fi.Strided, (4, 32), (4, 16)),
        "Group": call(fi.Group, fi.Warp, 2),
        "Level": call(fi.Level, "Pair", fi.Warp, call(fi.Layout, 2, 1), 2),
        "Memory": call(fi.Memory, "L2", fi.Kernel, False),
        "Role": call(fi.Role, "A"),
        "symbol": call(fi.symbol, "M", 8, 8, 4096),
        "microkernel": call(fi.microkernel, "C[0] = 0;", None, "zero"),
        "in_order": call(fi.in_order, 1024),
        "by_cluster": call(fi.by_cluster, 2),
        "stream_k": call(fi.stream_k, 8),
        "tma": call(fi.tma, 64, l2="evict_last"),
        "vector": call(fi.vector, 16),
        "wmma": call(fi.wmma, 16, 16),
        "through_shared": call(fi.through_shared, None, None, (32, 32), 4, fi.RowMajor, True, fi.Warp, 2, "f16"),
        "space": call(fi.space, m=(64, 128)),
        "best": call(fi.best, call(fi.matmul, 64, 64, 32), "sm_80"),
        "DType": call(fi.DType, "f24", 24, "float", "float32", 15, 8),
        "Rows": call(fi.Rows, call(fi.Vector, 64, name="t"), "add"),
        "Save": call(fi.Save, _matrix(name="Z")),
        "conform": call(fi.conform, 4),
        "staged": call(fi.staged, 4),
        "cp_async": call(fi.cp_async, 8),
        "stmatrix": call(fi.stmatrix, False),
        "movmatrix": call(fi.movmatrix),
        "ldmatrix": call(fi.ldmatrix),
        "Op": call(fi.relu, call(fi.parameter, "x", "f32")),
    }


def _arrays() -> dict[str, Make]:
    """Write calls with arrays; they run on the simulator."""
    a, b, c = np.ones((32, 16), np.float32), np.ones((16, 32), np.float32), np.zeros((32, 32), np.float32)
    small = fi.matmul(32, 32, 16).tile(32, 32).to(fi.Block).epilog(memory=fi.RF).split(8).tile(4, 4).to(fi.Thread)
    done = small.split(1).unroll().load(fi.A, fi.RF).load(fi.B, fi.RF).tile(1, 1).unroll().done()
    scaled = fi.matmul(fi.symbol("M"), 32, 16, alpha="alpha").tile(32, 32).to(fi.Block).epilog(memory=fi.RF)
    other = (
        scaled.split(8)
        .tile(4, 4)
        .to(fi.Thread)
        .split(1)
        .unroll()
        .load(fi.A, fi.RF)
        .load(fi.B, fi.RF)
        .tile(1, 1)
        .unroll()
        .done()
    )
    return {
        "simulate": Make("simulate", (done, a, b), {"out": c, "blocks": 1, "track": True, "launched": None}),
        "simulate symbols": Make("simulate", (other,), {"M": 32, "alpha": 2.0, "blocks": (0,)}),
        "gemm": call(fi.gemm, a, b, out=c, layout="NN", dtype=None),
        "check": Make("check", (done, "sm_80")),
        "facts": Make("facts", (done, "sm_80")),
        "tree": Make("tree", (done, 80)),
        "estimate": Make("estimate", (other, "sm_80"), {"M": 64}),
        "explain": Make("explain", (done, "sm_80")),
        "cuda": Make("cuda", (done, "sm_80")),
        "lowered": Make("lowered", (done, "sm_80")),
        "diff": Make("diff", (done, other)),
        "flops": Make("flops", (other,), {"M": 64}),
    }


def _presets() -> dict[str, Make]:
    """Write a call of every public function of the presets' files."""
    made: dict[str, Make] = {}
    for name in PRESETS:
        module = import_module(f"fireiron.schedules.{name}")
        kind = "f32" if name == "simt" else "f16"
        for word, function in public(module).items():
            first = next(iter(inspect.signature(function).parameters.values()))
            usual = getattr(module, "DTYPES", {}).get(word, kind)
            spec = call(fi.matmul, 256, 256, 128, usual, layout="TN")
            made[f"{name}.{word}"] = call(function, spec) if first.name == "spec" else call(function)
    hopper: Any = import_module("fireiron.schedules.hopper")
    spec = call(fi.matmul, 256, 256, 128, "f16", layout="TN", arch="sm_90a")
    tiles = (128, 128, 2, False, False, (1, 1), 1, 3, 8, 1, False)
    options = ("memory", False, False, "", False, False)
    plan = call(hopper.Plan, *tiles, *options, 0, 1, "registers")
    made["hopper.Plan"] = call(hopper.gemm, spec, plan)
    return made


def public(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """List the functions that a file of presets defines for its users."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isroutine(inspect.unwrap(value)) and not name.startswith("_") and value.__module__ == module.__name__
    }


def programs() -> dict[str, Make]:
    """Write all programs, by name."""
    spec = call(fi.matmul, 64, 64, 32)
    ops = {f"op {name}": _simt(spec, op) for name, op in _ops().items()}
    ops |= {f"value {name}": call(_applied, value) for name, value in _values().items()}
    found = {**_chains(), **_moves(), **_plain(), **_arrays(), **_presets(), **ops, **step_programs()}
    return found | {f"spec {name}": spec for name, spec in _specs().items()}


def _applied(value: Any) -> Any:
    """Put an expression into an epilog, as an author would."""
    return fi.matmul(64, 64, 32).then(lambda x: x + value if getattr(value, "dtype", None) == fi.f32 else x)
