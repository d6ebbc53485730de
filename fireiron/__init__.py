"""Write GPU tensor kernels as short, checked schedules: immutable specs refined by chained decompositions into CUDA."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from fireiron.algebra.dtypes import DType, b1, bf16, e4m3, e5m2, f16, f32, f64, i4, i8, i32, i64, tf32, u4, u8
from fireiron.algebra.expr import Expr, symbol
from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.errors import FireironError
from fireiron.base.presets_path import presets_path as _presets_path
from fireiron.base.version import VERSION as _VERSION
from fireiron.front.chain import (
    Chain,
    FoldChain,
    LayerChain,
    LayersChain,
    MatMulChain,
    MoveChain,
    ProductsChain,
    ProgramChain,
    StepChain,
    Strategy,
)
from fireiron.front.preset import preset
from fireiron.front.roles import DST, SRC, A, B, C, Role
from fireiron.front.spec import Init, MatMul, Move, Pointwise, matmul
from fireiron.front.verbs import Schedule
from fireiron.language.decompositions import ByAtomics as by_atomics
from fireiron.language.decompositions import ByCluster as by_cluster
from fireiron.language.decompositions import ByTma as by_tma
from fireiron.language.decompositions import Drawn as drawn
from fireiron.language.decompositions import InOrder as in_order
from fireiron.language.decompositions import Microkernel as microkernel
from fireiron.language.decompositions import StreamK as stream_k
from fireiron.language.decompositions import Strided
from fireiron.language.levels import (
    FR,
    GL,
    RF,
    SH,
    Block,
    Cluster,
    Group,
    Kernel,
    Level,
    Memory,
    QuadPair,
    Thread,
    Warp,
    Warpgroup,
)
from fireiron.language.ops import Rows, Save, row_max, row_sum, save
from fireiron.language.pointwise import Op, Value, parameter, where
from fireiron.language.pointwise import cast_to as cast
from fireiron.language.tensor import ColMajor, Grouped, Hilbert, Matrix, RowMajor, Serpentine, Tensor, Vector, tensor

__version__ = _VERSION

# Presets live in the top-level folder schedules/ and are imported as fireiron.schedules.
__path__.extend(_presets_path(__path__[0]))

if TYPE_CHECKING:
    from fireiron.algebra.arch import arch, machine
    from fireiron.algebra.machine import ProductClocks
    from fireiron.algebra.philox import philox
    from fireiron.estimate.tiling import Tiling
    from fireiron.front.attention import attention
    from fireiron.front.best import best
    from fireiron.front.convolutions import conv1d, conv2d, conv3d
    from fireiron.front.fuse import fuse
    from fireiron.front.layers import layers
    from fireiron.front.moves import (
        conform,
        cp_async,
        ldmatrix,
        movmatrix,
        staged,
        stmatrix,
        through_shared,
        tma,
        vector,
        wmma,
    )
    from fireiron.front.multiply import gemm
    from fireiron.front.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
    from fireiron.front.products import products
    from fireiron.front.program import program
    from fireiron.front.reduction import Reduction
    from fireiron.front.transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
    from fireiron.front.written import by_hand
    from fireiron.graph.trace import trace_graph
    from fireiron.language.einsum import einsum
    from fireiron.language.functions import (
        add,
        as_exponent,
        ceil,
        clamp,
        clamp_to,
        custom,
        debug,
        dequantise,
        derivative,
        dropout,
        equal,
        erf,
        exp,
        exp2,
        expm1,
        floor,
        gelu,
        gelu_tanh,
        log,
        log1p,
        log2,
        maximum,
        minimum,
        normalise,
        normcdf,
        quantise,
        relu,
        rounded,
        rsqrt,
        saturate,
        scale,
        sigmoid,
        silu,
        sqrt,
        tanh,
    )
    from fireiron.language.nested import threads
    from fireiron.language.philox import random_bits
    from fireiron.language.reductions import argmax, argmin, cumprod, cumsum, fold_by, prod, topk
    from fireiron.language.reductions import max as max
    from fireiron.language.reductions import min as min
    from fireiron.language.reductions import sum as sum
    from fireiron.language.statistics import log_softmax, logsumexp, mean, mean_and_variance, softmax
    from fireiron.language.subscripts import dim, extent, index, outside
    from fireiron.language.traced import inplace
    from fireiron.language.walks import walks
    from fireiron.simulate.watch import At
    from fireiron.tune.space import space

__all__ = [
    "DST",
    "FR",
    "GL",
    "RF",
    "SH",
    "SRC",
    "A",
    "At",
    "B",
    "Block",
    "C",
    "Chain",
    "Cluster",
    "ColMajor",
    "DType",
    "Expr",
    "FireironError",
    "FoldChain",
    "Group",
    "Grouped",
    "Hilbert",
    "Init",
    "Kernel",
    "LayerChain",
    "LayersChain",
    "Layout",
    "Level",
    "MatMul",
    "MatMulChain",
    "Matrix",
    "Memory",
    "Move",
    "MoveChain",
    "Op",
    "Pointwise",
    "ProductClocks",
    "ProductsChain",
    "ProgramChain",
    "QuadPair",
    "Reduction",
    "Role",
    "RowMajor",
    "Rows",
    "Save",
    "Schedule",
    "Serpentine",
    "StepChain",
    "Strategy",
    "Strided",
    "Swizzle",
    "Tensor",
    "Thread",
    "Tiling",
    "Value",
    "Vector",
    "Warp",
    "Warpgroup",
    "add",
    "arch",
    "argmax",
    "argmin",
    "as_exponent",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "b1",
    "best",
    "bf16",
    "by_atomics",
    "by_cluster",
    "by_hand",
    "by_tma",
    "cast",
    "ceil",
    "clamp",
    "clamp_to",
    "conform",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cp_async",
    "cumprod",
    "cumsum",
    "custom",
    "debug",
    "dequantise",
    "derivative",
    "dim",
    "drawn",
    "dropout",
    "e4m3",
    "e5m2",
    "einsum",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "extent",
    "f16",
    "f32",
    "f64",
    "floor",
    "fold_by",
    "fuse",
    "gelu",
    "gelu_tanh",
    "gemm",
    "i4",
    "i8",
    "i32",
    "i64",
    "in_order",
    "index",
    "inplace",
    "layers",
    "ldmatrix",
    "log",
    "log1p",
    "log2",
    "log_softmax",
    "logsumexp",
    "machine",
    "matmul",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "mean",
    "mean_and_variance",
    "microkernel",
    "minimum",
    "movmatrix",
    "normalise",
    "normcdf",
    "outside",
    "parameter",
    "philox",
    "preset",
    "prod",
    "products",
    "program",
    "quantise",
    "random_bits",
    "relu",
    "rounded",
    "row_max",
    "row_sum",
    "rsqrt",
    "saturate",
    "save",
    "scale",
    "sigmoid",
    "silu",
    "softmax",
    "space",
    "sqrt",
    "staged",
    "stmatrix",
    "stream_k",
    "symbol",
    "tanh",
    "tensor",
    "tf32",
    "threads",
    "through_shared",
    "tma",
    "topk",
    "trace_graph",
    "u4",
    "u8",
    "vector",
    "walks",
    "where",
    "wmma",
]

# Modules that few programs need, loaded when a name of theirs is first asked for: an import takes milliseconds each.
_LATER = {
    "best": "front.best", "gemm": "front.multiply", "layers": "front.layers", "products": "front.products",
    "Reduction": "front.reduction", "by_hand": "front.written", "threads": "language.nested",
    "attention": "front.attention", "space": "tune.space", "program": "front.program", "trace_graph": "graph.trace",
    **dict.fromkeys(
        (
            "conform", "cp_async", "ldmatrix", "movmatrix", "staged", "stmatrix", "through_shared", "tma", "vector",
            "wmma",
        ),
        "front.moves",
    ),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "front.convolutions"),
    **dict.fromkeys(
        (
            "add", "as_exponent", "ceil", "clamp", "clamp_to", "custom", "debug", "dequantise", "derivative",
            "dropout", "equal", "erf", "exp", "exp2", "expm1", "floor", "gelu", "gelu_tanh", "log", "log1p", "log2",
            "maximum", "minimum", "normalise", "normcdf", "quantise", "relu", "rounded", "rsqrt", "saturate", "scale",
            "sigmoid", "silu", "sqrt", "tanh",
        ),
        "language.functions",
    ),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), "front.transposed"),
    **dict.fromkeys(
        ("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"), "front.pooling"
    ),
    **dict.fromkeys(
        ("argmax", "argmin", "cumprod", "cumsum", "fold_by", "max", "min", "prod", "sum", "topk"),
        "language.reductions",
    ),
    **dict.fromkeys(("dim", "extent", "index", "outside"), "language.subscripts"), "einsum": "language.einsum",
    "inplace": "language.traced", "fuse": "front.fuse", "walks": "language.walks",
    **dict.fromkeys(
        ("log_softmax", "logsumexp", "mean", "mean_and_variance", "softmax"), "language.statistics"
    ),
    "philox": "algebra.philox", "random_bits": "language.philox",
    "At": "simulate.watch", "arch": "algebra.arch", "machine": "algebra.arch", "ProductClocks": "algebra.machine",
    "Tiling": "estimate.tiling",
}  # fmt: skip


if not TYPE_CHECKING:  # a type checker that saw it would take every name for one of this module

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'fireiron' has no attribute {name!r}")
        globals()[name] = found = getattr(_import_module(f"fireiron.{_LATER[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
