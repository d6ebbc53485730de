"""Products fused with what stands around them in networks, on the schedule that suits the architecture.

Each preset says what is computed, by ops behind the product (`then`) and on its operands (`prolog`); the schedule is
the architecture's own: of wgmma on Hopper, of mma.sync from Turing on, of CUDA cores elsewhere.
"""

from __future__ import annotations

import attrs

from fireiron import (
    A,
    B,
    ColMajor,
    MatMul,
    MatMulChain,
    Matrix,
    RowMajor,
    Tensor,
    Vector,
    add,
    cast,
    dequantise,
    gelu,
    normalise,
    relu,
    save,
    scale,
    silu,
)
from fireiron.schedules import ada, ampere, hopper, simt, turing

HOPPER = "sm_90"
WIDE = ("f16", "bf16")  # of products that wgmma takes in every layout
NARROW = ("i8", "u8")  # and of those that it takes with K contiguous
EIGHT_BITS = ("e4m3", "e5m2")
TURING = ("f16", "i8", "u8", "i4", "u4", "b1")
AMPERE = ("f16", "bf16", "tf32", "i8", "u8", "f64", "i4", "u4", "b1")


def scheduled(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Schedule a product, with all that is fused to it, by the architecture's own preset.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    number = int("".join(filter(str.isdigit, arch or spec.program.arch or HOPPER)))
    kind = spec.left.dtype.name
    if number == 90 and spec.batch is None and _for_wgmma(spec, kind):
        return hopper.gemm(spec)
    if number >= 89 and kind in EIGHT_BITS:
        return ada.gemm(spec)
    if number >= 80 and kind in AMPERE:
        return ampere.gemm(spec)
    if 75 <= number < 80 and kind in TURING:
        return turing.gemm(spec)
    return simt.sgemm(spec)


def _for_wgmma(spec: MatMulChain, kind: str) -> bool:
    along_k = spec.matmul.A.order is RowMajor and spec.matmul.B.order is ColMajor
    return kind in WIDE or (kind in NARROW and along_k)


def _bias(spec: MatMulChain) -> Tensor:
    c = spec.matmul.C
    return Vector(c.shape[-1], c.dtype, name="bias")


def gemm_bias(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Compute A @ B + bias, one value a column.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.then(add(_bias(spec))), arch)


def gemm_bias_relu(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Compute relu(A @ B + bias).

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.then(add(_bias(spec)), relu), arch)


def gemm_bias_gelu(spec: MatMulChain, arch: str = "", keep: bool = False) -> MatMulChain:
    """Compute gelu(A @ B + bias).

    Args:
        arch: the target; the spec's, else sm_90a by default.
        keep: store what gelu is given too, as `pre`: training needs it.
    """
    c = spec.matmul.C
    saved = (save(attrs.evolve(c, name="pre")),) if keep else ()
    return scheduled(spec.then(add(_bias(spec)), *saved, gelu), arch)


def gemm_bias_silu(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Compute silu(A @ B + bias).

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.then(add(_bias(spec)), silu), arch)


def gemm_residual(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Compute A @ B + bias + residual.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    residual = attrs.evolve(spec.matmul.C, name="residual")
    return scheduled(spec.then(add(_bias(spec)), add(residual)), arch)


def relu_gemm(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Compute relu(A) @ B.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.prolog(A, relu), arch)


def norm_gemm(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Compute norm(A) @ B, a layer normalisation along K whose row statistics `mean` and `rstd` are given.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    rows, depth = spec.matmul.A.shape[-2:]
    mean, rstd = (Vector(rows, name=name, along=ColMajor) for name in ("mean", "rstd"))
    gain, shift = (Vector(depth, name=name) for name in ("gain", "shift"))
    return scheduled(spec.prolog(A, normalise(mean, rstd, gain, shift)), arch)


def dequant_gemm(spec: MatMulChain, arch: str = "", weights: str = "i8", group: int = 128) -> MatMulChain:
    """Compute A @ ((B - zeros) * scales): weights of 8 or 4 bits, a scale and a zero point for each group along K.

    Args:
        arch: the target; the spec's, else sm_90a by default.
        weights: element type of B: i8, u8, i4, u4.
        group: rows of B that share a scale; K is a multiple.
    """
    a, b, c = spec.matmul.A, spec.matmul.B, spec.matmul.C
    depth, columns = b.shape[-2:]
    groups = depth // group
    quantised = attrs.evolve(b, dtype=Matrix(1, 8, weights).dtype)
    scales, zeros = (Matrix(groups, columns, a.dtype, name=name) for name in ("scales", "zeros"))
    fused = MatMul(a, quantised, c, arch=spec.program.arch).prolog(B, dequantise(a.dtype, scales, zeros))
    return scheduled(fused, arch)


def gemm_scaled(spec: MatMulChain, arch: str = "") -> MatMulChain:
    """Compute (A @ B) * row_scale * column_scale, as products of quantised operands are scaled back.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    rows, columns = spec.matmul.C.shape[-2:]
    left = Vector(rows, name="row_scale", along=ColMajor)
    right = Vector(columns, name="column_scale")
    return scheduled(spec.then(lambda x: cast(x, "f32"), scale(left), scale(right)), arch)
