"""Findings that are known and not mended yet: a fresh seed's chains may meet them; each entry must still fail.

Who mends one removes its entry. The list is to be empty.
"""

from __future__ import annotations

# The smallest chain that shows it, and what the judge says.
KNOWN: dict[str, str] = {
    "fused.mlp_block(1, 1, path='hopper')": "raised StopIteration in _programs.layer",
    "matmul(1, 1, 1).tile(1, 1).to(Block).epilog(store=through_shared(tma(0), at=Warp))": (
        "raised StopIteration in moves._part"
    ),
    "matmul(1, 1, 1).tile(1, 1).to(Block).epilog(store=through_shared(stmatrix(), at=Warp))": (
        "raised AssertionError in moves.strategy"
    ),
    "volta.gemm(matmul(1, 1, 1), warp=(0, 1), ways=2)": "raised ZeroDivisionError in volta.gemm",
    "ampere.gemm(matmul(1, 1, 1), warp=(1, 0), ways=2)": "raised ZeroDivisionError in _tensor_cores.gemm",
    "simt.sgemm(matmul(1, 1, 1), warp=(0, 1), ways=2)": "raised ZeroDivisionError in simt.sgemm",
    "products(Matrix(37, 64), (Matrix(37, 18, name='X'), Matrix(18, 64, name='W')), (Matrix(37, 16, name='H'), "
    "Matrix(16, 64, name='U')), op=lambda p, q: p - q).tile(1, 1).to(Block).split(1).epilog().done()": (
        "raised AssertionError in pipeline.lower_split"
    ),
    "matmul(1, 1, 1).tile(1, 1).to(Block).load(B, SH, lambda move: move.tile(1, 1).tile(Strided((1, 1), (1, 0))))": (
        "raised ZeroDivisionError in links._chunks"
    ),
    "layers(Matrix(36, 32), Matrix(36, 32, name='X'), Matrix(32, 16, name='W'), Matrix(16, 32, name='V'))"
    ".tile(1).to(Block).layout(Grouped(1)).load(A, FR).each(lambda layer: layer.epilog().done())": (
        "raised ValueError in numbering._grouped"
    ),
    "matmul(1, 16, 1).tile(4, 15).to(Block).epilog(store=through_shared(at=Warp)).tile(1, 2).to(Thread)"
    ".load(A, RF).load(B, RF).tile(1, 1).unroll().done()": "simulate: uninitialised-read",
    "matmul(74, 16, 8).tile(24, 8).to(Block).epilog(store=through_shared(conform(), vector(), panel=(12, 4), ring=2, "
    "at=Warp)).tile(12, 4).to(Warp).tile(3, 2).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll()"
    ".done()": "simulate: race",
    "matmul(31, 16, 48, 'tf32').tile(16, 16).to(Block).epilog().split(7).promote().split(4).parallel(Warp)"
    ".load(A, FR).load(B, FR).tile(16, 8).unroll().done()": "simulate: race",
}
