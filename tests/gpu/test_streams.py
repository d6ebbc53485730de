"""Stream-K and split K by threads that load what they compute: right, the same bits in every run, in CUDA graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from verified import verified

from fireiron import MatMulChain, add, matmul, relu
from fireiron.schedules import ampere, simt

SIZES = [(1520, 1344, 1872), (1024, 1024, 1024), (224, 448, 768), (97, 131, 2053), (3000, 40, 72)]
CORES: list[Any] = [
    lambda s: simt.sgemm(s, stream=1),
    lambda s: simt.sgemm(s, stream=2),
    lambda s: ampere.sgemm(s, 64, 64, warp=(32, 64), stream=4),
    lambda s: ampere.sgemm(s, 64, 64, warp=(32, 32), stream=3),
    lambda s: ampere.sgemm(s, 64, 64, warp=(32, 32), split_k=3),
    lambda s: simt.sgemm(s, split_k=2),
]
TENSOR: list[Any] = [
    lambda s: ampere.dgemm(s, stream=2),
    lambda s: ampere.dgemm(s, 32, 64, warp=(16, 32), stream=3),
    lambda s: ampere.dgemm(s, 32, 32, warp=(16, 16), split_k=4),
    lambda s: ampere.dgemm(s, 128, 64, step=4),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
def test_f32(size: tuple[int, int, int], layout: str) -> None:
    for made in CORES:
        verified(made(matmul(*size, layout=layout)))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
def test_f64(size: tuple[int, int, int], layout: str) -> None:
    for made in TENSOR:
        verified(made(matmul(*size, "f64", layout=layout)))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "i8"])
def test_other_types(dtype: str) -> None:
    for size in ((1000, 1016, 1032), (136, 72, 4104)):
        verified(ampere.gemm(matmul(*size, dtype, layout="TN"), 64, 64, warp=(32, 32), stream=2))


def test_ops_follow_the_whole_sum() -> None:
    for made in (*CORES[:4],):
        spec: MatMulChain = matmul(500, 380, 700).then(add(2.0), relu)
        verified(made(spec))


def test_the_same_bits_in_every_run_and_in_a_graph() -> None:
    import torch

    a, b = torch.randn(1520, 1872, device="cuda"), torch.randn(1872, 1344, device="cuda")
    for made in CORES:
        kernel = made(matmul(1520, 1344, 1872)).compile()
        outs = [torch.empty(1520, 1344, device="cuda") for _ in range(3)]
        for out in outs[:2]:
            kernel(a, b, out=out)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(a, b, out=outs[2])
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        first, *others = (out.cpu().numpy() for out in outs)
        for other in others:
            np.testing.assert_array_equal(first, other)
