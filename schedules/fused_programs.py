"""Several specs in one kernel: sums of GEMMs, SwiGLU, LSTM cells.

Source: Graphene (ASPLOS 2023), Figure 12, for the LSTM pattern: two GEMMs, their sum, a bias, an activation.
"""

from __future__ import annotations

from typing import Literal

from fireiron import (
    FR,
    RF,
    SH,
    Block,
    ColMajor,
    Grouped,
    Matrix,
    MoveChain,
    ProductsChain,
    RowMajor,
    Strategy,
    Swizzle,
    Tensor,
    Thread,
    Value,
    Vector,
    Warp,
    Warpgroup,
    conform,
    cp_async,
    exp,
    ldmatrix,
    products,
    relu,
    staged,
    stmatrix,
    tanh,
    through_shared,
    tma,
)

Path = Literal["auto", "simt", "ampere", "hopper"]
SHARED = 226 * 1024  # bytes of a block on Hopper, less those of barriers
SPAN = 128  # bytes of a swizzled row
COLUMNS = 256  # of all accumulators of a block together
CHUNK = 32  # of K, on the path of mma.sync: 64 bytes


def _sigmoid(x: Value) -> Value:
    return 1 / (1 + exp(-x))


def _silu(x: Value) -> Value:
    return x / (1 + exp(-x))


def schedule(program: ProductsChain, path: Path = "auto") -> ProductsChain:
    """Schedule several products of one shape.

    Args:
        program: the products.
        path: simt takes every type; ampere and hopper f16 and bf16. auto takes Hopper's for 16-bit operands whose lines
            start at multiples of 16 bytes, unless the spec names an older architecture.
    """
    if path == "auto":
        path = _path(program)
    return {"simt": simt, "ampere": ampere, "hopper": hopper}[path](program)


def _path(program: ProductsChain) -> Path:
    tensors = _operands(program)
    arch = program.program.arch or "sm_90a"
    if any(tensor.dtype.name not in ("f16", "bf16") for tensor in tensors):
        return "simt"
    old = int("".join(c for c in arch if c.isdigit())) < 90
    return "ampere" if old or not all(t.aligned(8) for t in (*tensors, *program.products.outs)) else "hopper"


def _operands(program: ProductsChain) -> tuple[Tensor, ...]:
    return (*program.products.lefts, *program.products.rights)


def _columns(program: ProductsChain, most: int) -> int:
    """Give each accumulator its part of the registers, a power of two of columns."""
    sums = len(program.products.sums)
    return max(16, 1 << ((most // sums).bit_length() - 1))


def simt(program: ProductsChain) -> ProductsChain:
    """Schedule several products for CUDA cores: tiles of 64 rows, one chunk of K at a time in registers.

    Args:
        program: the products, of any element type that CUDA cores multiply.
    """
    n = _columns(program, 64)
    chain: ProductsChain = program.tile(64, n, batch=program.batch).to(Block).epilog(memory=RF).split(16)
    for tensor in _operands(program):
        chain = chain.load(tensor, SH, staged())
    chain = chain.tile(32, n // 2).to(Warp).tile(4, n // 16).to(Thread).split(1).unroll()
    for tensor in _operands(program):
        chain = chain.load(tensor, RF)
    return chain.tile(1, 1).unroll().done()


def ampere(program: ProductsChain, m: int = 128, stages: int = 3) -> ProductsChain:
    """Schedule several products for tensor cores by mma.sync: sm_80 and every later architecture.

    Args:
        program: the products, of f16 or bf16, in all layouts.
        m: rows of a block's tile, a power of two; a warp takes 64 of them or all.
        stages: ring slots of the shared buffers.
    """
    n = _columns(program, 128)
    chain: ProductsChain = (
        program.tile(m, n, batch=program.batch).to(Block).layout(Grouped(8)).epilog(memory=FR)
        .split(CHUNK).pipeline(stages)
    )  # fmt: skip
    lefts, rights = program.products.lefts, program.products.rights
    for tensor in (*lefts, *rights):
        chain = _to_shared(chain, tensor, left=tensor in lefts, lines=m if tensor in lefts else n)
    chain = chain.tile(min(m, 64), max(16, n // 2)).to(Warp).split(16).unroll()
    for tensor in (*lefts, *rights):
        chain = chain.load(tensor, FR, ldmatrix())
    return chain.tile(16, 8).unroll().done()


def _to_shared(chain: ProductsChain, tensor: Tensor, left: bool, lines: int) -> ProductsChain:
    """Load an operand to shared memory, swizzled so that copies and ldmatrix meet no bank conflicts."""
    copy: Strategy = cp_async() if tensor.aligned(2) else staged()
    loaded = chain.load(tensor, SH, copy)
    along_k = (tensor.order is RowMajor) == left
    # Vectors of 16 bytes: four along K, or those of a line across it.
    pieces = 2 if along_k else lines.bit_length() - 4
    return loaded.storage_layout(tensor.order).swizzle(Swizzle(min(3, pieces), 3, max(3, pieces)))


def hopper(program: ProductsChain, m: int = 128) -> ProductsChain:
    """Schedule several products for Hopper: one role's bulk copies, wgmma by two warpgroups, a ring over all loops.

    Args:
        program: the products, of f16 or bf16, whose lines start at multiples of 16 bytes.
        m: rows of a block's tile.
    """
    spec = program.products
    n, nbytes = _columns(program, COLUMNS), spec.lefts[0].dtype.nbytes
    staging = sum(_staging(out, n) for out in spec.outs)
    chunk = max(sum(_lines(t, phase, m, n) for t in _operands(program)) for phase in spec.phases) * SPAN
    chain: ProductsChain = (
        program.tile(m, n, batch=program.batch).to(Block).persistent(Grouped(8))
        .epilog(memory=FR, store=_store(n))
        .split(SPAN // nbytes).pipeline(min(6, (SHARED - staging) // chunk), inflight=1)
        .specialize(producers=1, registers=(24, 240))
    )  # fmt: skip
    for tensor in _operands(program):
        chain = chain.load(tensor, SH, tma(SPAN))
    return chain.tile(m // 2, n).to(Warpgroup).split(32 // nbytes).unroll().done()


def _lines(tensor: Tensor, phase: tuple[tuple[Tensor, Tensor, str], ...], m: int, n: int) -> int:
    """Count the rows or columns of an operand's tile where a loop loads it."""
    lefts, rights = {a.name for a, _, _ in phase}, {b.name for _, b, _ in phase}
    return m * (tensor.name in lefts) + n * (tensor.name in rights)


def _width(out: Tensor, n: int) -> int:
    return min(n, SPAN // out.dtype.nbytes)


def _staging(out: Tensor, n: int) -> int:
    """Count the bytes through which two warpgroups store an output."""
    width = _width(out, n)
    return 2 * min(2, n // width) * 64 * width * out.dtype.nbytes


def _store(n: int) -> Strategy:
    """Choose how outputs leave: through panels in shared memory, by bulk stores."""

    def strategy(move: MoveChain) -> MoveChain:
        out = move.residual.operands[1].tensor
        width, nbytes = _width(out, n), out.dtype.nbytes
        put = stmatrix() if nbytes == 2 else conform()
        return through_shared(put, tma(width * nbytes), (64, width), at=Warpgroup, ring=min(2, n // width))(move)

    return strategy


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
    program = products(Matrix(m, n, dtype, name="Y"), (x, wg), (x, wu), op=lambda gate, up: _silu(gate) * up)
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
    return schedule(products(y, [(x, w), (h, u)], op=lambda acc: relu(acc + bias)), path)


def lstm_cell(
    m: int = 256, n: int = 128, k: int = 128, dtype: str = "f16", path: Path = "auto"
) -> ProductsChain:
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
