"""Products fused with the operations around them in networks, with the usual schedule of the architecture.

A preset of one product adds ops behind the product (`then`) and on its operands (`prolog`), and uses the
architecture's usual schedule: wgmma on Hopper, mma.sync from Turing on, CUDA cores elsewhere. Presets of several
products, and of layers whose activations stay on chip, make their own specs.

Source: Graphene (ASPLOS 2023), Figure 12, for the LSTM pattern: two GEMMs, their sum, a bias, an activation.
"""

from __future__ import annotations

import attrs

from fireiron import (
    A,
    B,
    ColMajor,
    FireironError,
    MatMul,
    MatMulChain,
    Matrix,
    RowMajor,
    Schedule,
    Tensor,
    Value,
    Vector,
    add,
    cast,
    dequantise,
    gelu,
    normalise,
    preset,
    products,
    relu,
    save,
    scale,
    sigmoid,
    silu,
    tanh,
)
from fireiron import layers as stacked
from fireiron.schedules import ada, ampere, hopper, simt, turing
from fireiron.schedules._programs import LayersPath, Path, layers_schedule, schedule

HOPPER = "sm_90"
WIDE = ("f16", "bf16")  # element types that wgmma multiplies in every layout
NARROW = ("i8", "u8")  # element types that wgmma multiplies with K contiguous
EIGHT_BITS = ("e4m3", "e5m2")
TURING = ("f16", "i8", "u8", "i4", "u4", "b1")
AMPERE = ("f16", "bf16", "tf32", "i8", "u8", "f64", "i4", "u4", "b1")


@preset
def scheduled(spec: MatMulChain, arch: str = "") -> Schedule:
    """Schedule a product with its fused operations, by the architecture's preset.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    digits = "".join(filter(str.isdecimal, arch or spec.program.arch or HOPPER))
    if not digits.isascii() or not 2 <= len(digits) <= 3:
        raise FireironError("unknown-arch", f"no architecture is called {arch!r}", fix='write "sm_90"')
    number = int(digits)
    kind = spec.left.dtype.name
    if number == 90 and spec.batch is None and (_for_wgmma(spec, kind) or _scaled(spec)):
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


def _scaled(spec: MatMulChain) -> bool:
    eight_bits = spec.matmul.A.dtype.name in EIGHT_BITS and spec.matmul.B.dtype.name in EIGHT_BITS
    return eight_bits and spec.served_along_k is not None


def _bias(spec: MatMulChain) -> Tensor:
    c = spec.matmul.C
    return Vector(c.shape[-1], c.dtype, name="bias")


@preset
def gemm_bias(spec: MatMulChain, arch: str = "") -> Schedule:
    """Compute A @ B + bias, with a bias for each column.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.then(add(_bias(spec))), arch)


@preset
def gemm_bias_relu(spec: MatMulChain, arch: str = "") -> Schedule:
    """Compute relu(A @ B + bias).

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.then(add(_bias(spec)), relu), arch)


@preset
def gemm_bias_gelu(spec: MatMulChain, arch: str = "", keep: bool = False) -> Schedule:
    """Compute gelu(A @ B + bias).

    Args:
        arch: the target; the spec's, else sm_90a by default.
        keep: whether to store the argument of gelu too, as output `pre`, for training.
    """
    c = spec.matmul.C
    saved = (save(attrs.evolve(c, name="pre")),) if keep else ()
    return scheduled(spec.then(add(_bias(spec)), *saved, gelu), arch)


@preset
def gemm_bias_silu(spec: MatMulChain, arch: str = "") -> Schedule:
    """Compute silu(A @ B + bias).

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.then(add(_bias(spec)), silu), arch)


@preset
def gemm_residual(spec: MatMulChain, arch: str = "") -> Schedule:
    """Compute A @ B + bias + residual.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    residual = attrs.evolve(spec.matmul.C, name="residual")
    return scheduled(spec.then(add(_bias(spec)), add(residual)), arch)


@preset
def relu_gemm(spec: MatMulChain, arch: str = "") -> Schedule:
    """Compute relu(A) @ B.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    return scheduled(spec.prolog(A, relu), arch)


@preset
def norm_gemm(spec: MatMulChain, arch: str = "") -> Schedule:
    """Compute norm(A) @ B: a layer norm along K, whose statistics `mean` and `rstd` of each row are inputs.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    rows, depth = spec.matmul.A.shape[-2:]
    mean, rstd = (Vector(rows, name=name, along=ColMajor) for name in ("mean", "rstd"))
    gain, shift = (Vector(depth, name=name) for name in ("gain", "shift"))
    return scheduled(spec.prolog(A, normalise(mean, rstd, gain, shift)), arch)


@preset
def dequant_gemm(spec: MatMulChain, arch: str = "", weights: str = "i8", group: int = 128) -> Schedule:
    """Compute A @ ((B - zeros) * scales): weights of 8 or 4 bits, a scale and a zero point for each group along K.

    Args:
        arch: the target; the spec's, else sm_90a by default.
        weights: element type of B: i8, u8, i4, u4.
        group: number of rows of B that share a scale; it divides K.
    """
    a, b, c = spec.matmul.A, spec.matmul.B, spec.matmul.C
    depth, columns = b.shape[-2:]
    groups = depth // group
    quantised = attrs.evolve(b, dtype=Matrix(1, 8, weights).dtype)
    scales, zeros = (Matrix(groups, columns, a.dtype, name=name) for name in ("scales", "zeros"))
    fused = MatMul(a, quantised, c, arch=spec.program.arch).prolog(B, dequantise(a.dtype, scales, zeros))
    return scheduled(fused, arch)


@preset
def gemm_block_scaled(spec: MatMulChain, arch: str = "", block: int = 128) -> Schedule:
    """Compute the sum over blocks of K of a_scales * b_scales * (A @ B): 8-bit floats with scales of their blocks.

    `a_scales`, M x K/block, has a scale for each row of A and each `block` elements of K. `b_scales`, N/block x K/block
    as in frameworks, has a scale for each square block of B.

    Args:
        arch: the target; the spec's, else sm_90a by default.
        block: number of elements of K, and of columns of B, that share a scale; it divides K and N.

    Source: DeepSeek-V3 technical report, 3.3.2.
    """
    (rows, depth), columns = spec.matmul.A.shape[-2:], spec.matmul.B.shape[-1]
    left = Matrix(rows, depth // block, name="a_scales")
    right = Matrix(depth // block, columns // block, order=ColMajor, name="b_scales")
    return scheduled(spec.prolog(A, dequantise("f32", left)).prolog(B, dequantise("f32", right)), arch)


@preset
def gemm_scaled(spec: MatMulChain, arch: str = "") -> Schedule:
    """Compute (A @ B) * row_scale * column_scale, as products of quantised operands are scaled back.

    Args:
        arch: the target; the spec's, else sm_90a by default.
    """
    rows, columns = spec.matmul.C.shape[-2:]
    left = Vector(rows, name="row_scale", along=ColMajor)
    right = Vector(columns, name="column_scale")
    return scheduled(spec.then(lambda x: cast(x, "f32"), scale(left), scale(right)), arch)


def _gated(gate: Value, up: Value) -> Value:
    return silu(gate) * up


def _matrices(m: int, n: int, k: int, dtype: str, *names: str, left: str) -> tuple[Tensor, ...]:
    """Make an operand M x K, and weights K x N whose K is contiguous, as linear layers store them."""
    return Matrix(m, k, dtype, name=left), *(Matrix(k, n, dtype, ColMajor, name=name) for name in names)


@preset
def add_gemm_gemm(
    m: int = 256, n: int = 256, k: int = 128, k2: int = 0, dtype: str = "f16", path: Path = "auto", arch: str = ""
) -> Schedule:
    """Compute Y = X W + H U in one accumulator.

    Args:
        m: rows of X, H and Y.
        n: columns of W, U and Y.
        k: K of the first product.
        k2: K of the second product; 0 for that of the first.
        dtype: element type of all matrices.
        path: simt, volta, turing, ampere, hopper, or auto.
        arch: the target; sm_90a by default.
    """
    x, w = _matrices(m, n, k, dtype, "W", left="X")
    h, u = _matrices(m, n, k2 or k, dtype, "U", left="H")
    return schedule(products(Matrix(m, n, dtype, name="Y"), [(x, w), (h, u)], arch=arch or None), path)


@preset
def swiglu(
    m: int = 256, n: int = 256, k: int = 128, dtype: str = "f16", path: Path = "auto", arch: str = ""
) -> Schedule:
    """Compute Y = silu(X Wg) * (X Wu): X is loaded once for both products.

    Args:
        m: rows of X and Y.
        n: columns of Wg, Wu and Y.
        k: columns of X.
        dtype: element type of all matrices.
        path: simt, volta, turing, ampere, hopper, or auto.
        arch: the target; sm_90a by default.
    """
    x, wg, wu = _matrices(m, n, k, dtype, "Wg", "Wu", left="X")
    program = products(Matrix(m, n, dtype, name="Y"), (x, wg), (x, wu), op=_gated, arch=arch or None)
    return schedule(program, path)


@preset
def lstm_pattern(
    m: int = 256, n: int = 256, k: int = 128, k2: int = 0, dtype: str = "f16", path: Path = "auto", arch: str = ""
) -> Schedule:
    """Compute Y = relu(X W + H U + bias): Graphene's LSTM pattern.

    Args:
        m: rows of X, H and Y.
        n: columns of W, U and Y.
        k: K of the first product.
        k2: K of the second product; 0 for that of the first.
        dtype: element type of all matrices; the bias is f32.
        path: simt, volta, turing, ampere, hopper, or auto.
        arch: the target; sm_90a by default.
    """
    x, w = _matrices(m, n, k, dtype, "W", left="X")
    h, u = _matrices(m, n, k2 or k, dtype, "U", left="H")
    bias = Vector(n, name="bias")
    y = Matrix(m, n, dtype, name="Y")

    def activated(acc: Value) -> Value:
        return relu(acc + bias)

    return schedule(products(y, [(x, w), (h, u)], op=activated, arch=arch or None), path)


@preset
def lstm_cell(
    m: int = 256, n: int = 128, k: int = 128, dtype: str = "f16", path: Path = "auto", arch: str = ""
) -> Schedule:
    """Compute an LSTM cell: i, f, o = sigmoid and g = tanh of X W + H U + b each; c' = f c + i g, h' = o tanh(c').

    Each gate has its own weight matrices, which may be views of the stacked weights of frameworks.

    Args:
        m: number of rows, one for each sequence.
        n: width of the hidden state.
        k: width of the input.
        dtype: element type of all matrices; biases and states c are f32.
        path: simt, volta, turing, ampere, hopper, or auto.
        arch: the target; sm_90a by default.
    """
    x, *w = _matrices(m, n, k, dtype, "Wi", "Wf", "Wg", "Wo", left="X")
    h, *u = _matrices(m, n, n, dtype, "Ui", "Uf", "Ug", "Uo", left="H")
    bi, bf, bg, bo = (Vector(n, name=f"b{gate}") for gate in "ifgo")
    state = Matrix(m, n, name="C")

    def cell(i: Value, f: Value, g: Value, o: Value) -> tuple[Value, Value]:
        c = sigmoid(f + bf) * state + sigmoid(i + bi) * tanh(g + bg)
        return c, sigmoid(o + bo) * tanh(c)

    outs = (Matrix(m, n, name="C_next"), Matrix(m, n, dtype, name="H_next"))
    gates = ([(x, a), (h, b)] for a, b in zip(w, u, strict=True))
    return schedule(products(outs, *gates, op=cell, arch=arch or None), path)


@preset
def mlp(
    m: int = 256,
    width: int = 128,
    layers: int = 4,
    dtype: str = "f16",
    path: LayersPath = "auto",
    rows: int = 0,
    arch: str = "",
) -> Schedule:  # fmt: skip
    """Compute layers h = relu(h W[l] + b[l]) of one width in one kernel, which keeps activations on chip.

    Args:
        m: rows of X and Y.
        width: columns of X and Y, up to 256.
        layers: number of layers.
        dtype: element type of all matrices; biases are f32.
        path: simt, ampere, hopper, or auto.
        rows: number of rows of a block, 0 for a good default.
        arch: the target; sm_90a by default.
    """
    x, y = Matrix(m, width, dtype, name="X"), Matrix(m, width, dtype, name="Y")
    w = Matrix(width, width, dtype, ColMajor, name="W", batch=layers)
    b = Matrix(1, width, name="b", batch=layers)
    return layers_schedule(stacked(y, x, (w, lambda acc: relu(acc + b)), arch=arch or None), path, rows)


@preset
def mlp_block(
    m: int = 256,
    width: int = 64,
    hidden: int = 256,
    dtype: str = "f16",
    path: LayersPath = "auto",
    rows: int = 0,
    arch: str = "",
) -> Schedule:  # fmt: skip
    """Compute a transformer's block of two layers, Y = gelu(X W1 + b1) W2 + b2, where both fit in a block.

    Args:
        m: rows of X and Y.
        width: columns of X and Y, up to 256.
        hidden: columns of the hidden layer, up to 256.
        dtype: element type of all matrices; biases are f32.
        path: simt, ampere, hopper, or auto.
        rows: number of rows of a block, 0 for a good default.
        arch: the target; sm_90a by default.
    """
    x, y = Matrix(m, width, dtype, name="X"), Matrix(m, width, dtype, name="Y")
    w1, w2 = Matrix(width, hidden, dtype, ColMajor, name="W1"), Matrix(hidden, width, dtype, ColMajor, name="W2")
    b1, b2 = Vector(hidden, name="b1"), Vector(width, name="b2")
    program = stacked(y, x, (w1, lambda acc: gelu(acc + b1)), (w2, add(b2)), arch=arch or None)
    return layers_schedule(program, path, rows)
