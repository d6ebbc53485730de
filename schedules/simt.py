"""Schedules for CUDA cores: the listings of the Fireiron paper, and a tuned SGEMM.

Source: Hagedorn et al., Fireiron, PACT 2020 (arXiv 2003.06324), Listings 1, 2 and 4.
"""

from __future__ import annotations

from fireiron import (
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    RowMajor,
    Strided,
    Thread,
    Warp,
    conform,
    microkernel,
    staged,
)
from fireiron.algebra.expr import Expr
from fireiron.front.matmul import MatMulChain
from fireiron.front.moves import MoveChain

DOT = microkernel(
    """\
auto sum = C[0];
sum = 0;
for (int k = 0; k < K; ++k) sum = sum + A[k * A_col] * B[k * B_row];
C[0] = sum;""",
    numpy=lambda a, b, c: a.astype(c.dtype) @ b.astype(c.dtype),
    name="dot",
)


def listing1(spec: MatMulChain) -> MatMulChain:
    """Schedule as the paper's Listing 1: each thread computes one element by a dot-product microkernel."""
    return spec.tile(16, 16).to(Block).tile(1, 1).to(Thread).done(DOT)


def listing2(spec: MatMulChain, m: int = 128, n: int = 128, k: int = 8) -> MatMulChain:
    """Schedule as the paper's Listing 2: tiles for blocks, warps and threads, staged through shared memory and registers."""
    return (
        spec.tile(m, n)
        .to(Block)
        .epilog(memory=RF)
        .split(k)
        .load(A, SH)
        .load(B, SH)
        .tile(m // 2, n // 4)
        .to(Warp)
        .tile(m // 16, n // 16)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )
