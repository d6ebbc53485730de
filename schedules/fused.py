"""Several specs in one kernel: sums of GEMMs, SwiGLU, LSTM cells, and layers whose activations stay on chip.

Source: Graphene (ASPLOS 2023), Figure 12, for the LSTM pattern: two GEMMs, their sum, a bias, an activation.
"""

from __future__ import annotations

from fireiron import ColMajor, LayersChain, Matrix, ProductsChain, Tensor, Value, Vector, add, exp, products, relu, tanh
from fireiron import layers as stacked
from fireiron.schedules._programs import Path, layers_schedule, schedule


def _sigmoid(x: Value) -> Value:
    return 1 / (1 + exp(-x))


def _silu(x: Value) -> Value:
    return x / (1 + exp(-x))


def _gated(gate: Value, up: Value) -> Value:
    return _silu(gate) * up


def _gelu(x: Value) -> Value:
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _matrices(m: int, n: int, k: int, dtype: str, *names: str, left: str) -> tuple[Tensor, ...]:
    """Name an operand of M x K, and weights of K x N that have K contiguous, as linear layers store them."""
    return Matrix(m, k, dtype, name=left), *(Matrix(k, n, dtype, ColMajor, name=name) for name in names)


def add_gemm_gemm(
    m: int = 256, n: int = 256, k: int = 128, k2: int = 0, dtype: str = "f16", path: Path = "auto"
) -> ProductsChain:
    """Compute Y = X W + H U in one accumulator.

    Args:
        m: rows of X, H and Y.
        n: columns of W, U and Y.
        k: depth of the first product.
        k2: depth of the second, that of the first where 0.
        dtype: element type of all matrices.
        path: simt, ampere, hopper, or auto.
    """
    x, w = _matrices(m, n, k, dtype, "W", left="X")
    h, u = _matrices(m, n, k2 or k, dtype, "U", left="H")
    return schedule(products(Matrix(m, n, dtype, name="Y"), [(x, w), (h, u)]), path)


def swiglu(m: int = 256, n: int = 256, k: int = 128, dtype: str = "f16", path: Path = "auto") -> ProductsChain:
    """Compute Y = silu(X Wg) * (X Wu): X is loaded once for both products.

    Args:
        m: rows of X and Y.
        n: columns of Wg, Wu and Y.
        k: columns of X.
        dtype: element type of all matrices.
        path: simt, ampere, hopper, or auto.
    """
    x, wg, wu = _matrices(m, n, k, dtype, "Wg", "Wu", left="X")
    program = products(Matrix(m, n, dtype, name="Y"), (x, wg), (x, wu), op=_gated)
    return schedule(program, path)


def lstm_pattern(
    m: int = 256, n: int = 256, k: int = 128, k2: int = 0, dtype: str = "f16", path: Path = "auto"
) -> ProductsChain:
    """Compute Y = relu(X W + H U + bias): Graphene's LSTM pattern.

    Args:
        m: rows of X, H and Y.
        n: columns of W, U and Y.
        k: depth of the first product.
        k2: depth of the second, that of the first where 0.
        dtype: element type of all matrices; the bias is f32.
        path: simt, ampere, hopper, or auto.
    """
    x, w = _matrices(m, n, k, dtype, "W", left="X")
    h, u = _matrices(m, n, k2 or k, dtype, "U", left="H")
    bias = Vector(n, name="bias")
    y = Matrix(m, n, dtype, name="Y")

    def activated(acc: Value) -> Value:
        return relu(acc + bias)

    return schedule(products(y, [(x, w), (h, u)], op=activated), path)


def lstm_cell(m: int = 256, n: int = 128, k: int = 128, dtype: str = "f16", path: Path = "auto") -> ProductsChain:
    """Compute an LSTM cell: i, f, o = sigmoid and g = tanh of X W + H U + b each; c' = f c + i g, h' = o tanh(c').

    Weights of each gate are matrices of their own: views of the stacked ones that frameworks keep will do.

    Args:
        m: rows, one a sequence.
        n: width of the hidden state.
        k: width of the input.
        dtype: element type of all matrices; biases and states c are f32.
        path: simt, ampere, hopper, or auto.
    """
    x, *w = _matrices(m, n, k, dtype, "Wi", "Wf", "Wg", "Wo", left="X")
    h, *u = _matrices(m, n, n, dtype, "Ui", "Uf", "Ug", "Uo", left="H")
    bi, bf, bg, bo = (Vector(n, name=f"b{gate}") for gate in "ifgo")
    state = Matrix(m, n, name="C")

    def cell(i: Value, f: Value, g: Value, o: Value) -> tuple[Value, Value]:
        c = _sigmoid(f + bf) * state + _sigmoid(i + bi) * tanh(g + bg)
        return c, _sigmoid(o + bo) * tanh(c)

    outs = (Matrix(m, n, name="C_next"), Matrix(m, n, dtype, name="H_next"))
    return schedule(products(outs, *([(x, a), (h, b)] for a, b in zip(w, u, strict=True)), op=cell), path)


def mlp(
    m: int = 256, width: int = 128, layers: int = 4, dtype: str = "f16", path: Path = "auto", rows: int = 0
) -> LayersChain:
    """Compute layers h = relu(h W[l] + b[l]) of one width in one kernel, activations on chip.

    Args:
        m: rows of X and Y.
        width: columns of X and Y, up to 256.
        layers: how many.
        dtype: element type of all matrices; biases are f32.
        path: simt, ampere, hopper, or auto.
        rows: of a block, 0 for a choice.
    """
    x, y = Matrix(m, width, dtype, name="X"), Matrix(m, width, dtype, name="Y")
    w = Matrix(width, width, dtype, ColMajor, name="W", batch=layers)
    b = Matrix(1, width, name="b", batch=layers)
    return layers_schedule(stacked(y, x, (w, lambda acc: relu(acc + b))), path, rows)


def mlp_block(
    m: int = 256, width: int = 64, hidden: int = 256, dtype: str = "f16", path: Path = "auto", rows: int = 0
) -> LayersChain:
    """Compute a transformer's block of two layers, Y = gelu(X W1 + b1) W2 + b2, where both fit in a block.

    Args:
        m: rows of X and Y.
        width: columns of X and Y, up to 256.
        hidden: columns in between, up to 256.
        dtype: element type of all matrices; biases are f32.
        path: simt, ampere, hopper, or auto.
        rows: of a block, 0 for a choice.
    """
    x, y = Matrix(m, width, dtype, name="X"), Matrix(m, width, dtype, name="Y")
    w1, w2 = Matrix(width, hidden, dtype, ColMajor, name="W1"), Matrix(hidden, width, dtype, ColMajor, name="W2")
    b1, b2 = Vector(hidden, name="b1"), Vector(width, name="b2")
    program = stacked(y, x, (w1, lambda acc: _gelu(acc + b1)), (w2, add(b2)))
    return layers_schedule(program, path, rows)
