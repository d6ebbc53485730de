"""Tensor maps, clusters and persistent grids on a real GPU."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "jit"))
from map_kernel import COLUMNS, ROWS, make_kernel, source

from fireiron.algebra.arch import native
from fireiron.algebra.dtypes import bf16, f16, f32, i8, i32, u8
from fireiron.base.errors import CallError
from fireiron.jit.build import build
from fireiron.jit.driver import driver


@pytest.fixture(autouse=True)
def needs_bulk_copies():
    number = driver().compute_capability(0)
    if number < 90:
        pytest.skip(f"bulk copies and clusters need sm_90, this GPU is sm_{number}")


def built(dtype=f32, swizzle=0, cluster=1):
    target = native(driver().compute_capability(0))
    kernel = make_kernel(dtype, swizzle, cluster)
    return build(kernel.name, lambda: kernel, target, cache=False, text=lambda _: source(dtype, swizzle))


def padded(x):
    made = np.zeros([-(-extent // unit) * unit for extent, unit in zip(x.shape, (ROWS, COLUMNS), strict=True)], x.dtype)
    made[: x.shape[0], : x.shape[1]] = x
    return made


def random(rows, columns, dtype):
    rng = np.random.default_rng(rows * columns)
    if dtype.kind == "int":
        return rng.integers(0, 100, (rows, columns)).astype(dtype.numpy)
    return rng.standard_normal((rows, columns), dtype=np.float32).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [f32, f16, bf16, i32, i8, u8], ids=str)
@pytest.mark.parametrize("shape", [(16, 32), (40, 80), (1, 112), (333, 1040)])
def test_boxes_of_every_type(dtype, shape):
    x = random(*shape, dtype)
    y, facts = built(dtype)(x)
    assert np.array_equal(y.view(np.uint8), padded(x).view(np.uint8))
    assert facts[0] == 1


@pytest.mark.parametrize("shape", [(40, 80), (333, 1040)])
def test_swizzled_boxes(shape):
    x = random(*shape, f32)
    assert np.array_equal(built(swizzle=128)(x)[0], padded(x))


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_clusters_and_persistent_grids(cluster):
    kernel = built(cluster=cluster)
    resident = kernel.load(0).resident
    assert resident > 0
    assert resident % cluster == 0
    small, large = random(40, 80, f32), random(4096, 4096, f32)
    y, facts = kernel(small)
    assert np.array_equal(y, padded(small))
    assert list(facts) == [cluster, -(-9 // cluster) * cluster]
    y, facts = kernel(large)
    assert np.array_equal(y, large)
    assert list(facts) == [cluster, min(resident, 4096 * 4096 // (ROWS * COLUMNS))]


def test_many_addresses_of_one_plan():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = built()
    facts = torch.zeros(2, dtype=torch.int32, device="cuda")
    arrays = [torch.randn(64, 128, device="cuda") for _ in range(600)]
    outs = [torch.full_like(array, float("nan")) for array in arrays]
    for _ in range(2):
        for x, y in zip(arrays, outs, strict=True):
            kernel(x, out=(y, facts))
    torch.cuda.synchronize()
    assert all(torch.equal(x, y) for x, y in zip(arrays, outs, strict=True))


def test_a_captured_graph_keeps_its_maps():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = built(cluster=2)
    facts = torch.zeros(2, dtype=torch.int32, device="cuda")
    x = torch.randn(64, 128, device="cuda")
    y = torch.zeros_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # the first call of this kernel: it is loaded and its room asked for in a capture
        kernel(x, out=(y, facts))
    x.mul_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, y)


def test_what_no_map_takes():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = built()
    facts = torch.zeros(2, dtype=torch.int32, device="cuda")
    out = torch.empty(64, 128, device="cuda")
    with pytest.raises(CallError) as error:
        kernel(torch.empty(64 * 128 + 2, device="cuda")[2:].view(64, 128), out=(out, facts))
    assert error.value.code == "misaligned"
    with pytest.raises(CallError) as error:
        kernel(torch.empty(64, 126, device="cuda"), out=(out, facts))
    assert error.value.code == "map-stride"
