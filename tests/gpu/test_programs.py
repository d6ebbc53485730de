"""Fused programs on the GPU, every output against NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest
from compiling import compiled
from verified import verified

from fireiron import ColMajor, Matrix, products, silu
from fireiron.jit.driver import driver
from fireiron.schedules import fused, hopper
from fireiron.schedules._programs import hopper as hopper_products

PRODUCTS = [fused.add_gemm_gemm, fused.swiglu, fused.lstm_pattern, fused.lstm_cell]
PATHS = {"simt": 70, "ampere": 80, "hopper": 90}


def run(programs, made, seed=1):
    """Run on the GPU, on whole numbers too, and hold every output against its reference."""
    arrays = programs.arrays(made, seed)
    kernel = compiled(made)
    verified(made, kernel=kernel, kinds=("exact",))
    outs = tuple(arrays[t.name] for t in made.program.spec.outputs)
    kernel(*(arrays[p.name] for p in kernel.interface.inputs), out=outs if len(outs) > 1 else outs[0])
    programs.compare(made, arrays)
    return arrays


def needs(path):
    found = driver().compute_capability(0)
    if found < PATHS[path] or (path == "hopper" and found != 90):
        pytest.skip(f"the path {path} needs sm_{PATHS[path]}, not sm_{found}")


@pytest.mark.parametrize("preset", PRODUCTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "size", [(512, 512, 256), (200, 136, 96), (72, 56, 40), (1, 8, 8), (1024, 1024, 1024)], ids=str
)
def test_products(programs, preset, path, size):
    needs(path)
    run(programs, preset(*size, dtype="f32" if path == "simt" else "f16", path=path))


@pytest.mark.parametrize("path", ["ampere", "hopper"])
def test_depths_that_differ(programs, path):
    needs(path)
    run(programs, fused.add_gemm_gemm(256, 256, 512, 64, path=path))
    run(programs, fused.lstm_pattern(300, 200, 24, 1000, path=path))
    run(programs, fused.swiglu(256, 256, 128, dtype="bf16", path=path))


def gates(m, n, k, *more):
    """Give silu(X W) * (H U), where H is X without a fourth size."""
    x, w = Matrix(m, k, "f16", name="X"), Matrix(k, n, "f16", ColMajor, name="W")
    h = Matrix(m, k, "f16", name="H") if more else x
    return products(Matrix(m, n, "f16", name="Y"), (x, w), (h, Matrix(k, n, "f16", ColMajor, name="U")),
                    op=lambda p, q: silu(p) * q)  # fmt: skip


@pytest.mark.parametrize("plan", [(64, 32, 4), (64, 16, 6), (128, 48, 2)], ids=str)
@pytest.mark.parametrize("through", ["cluster", "memory"])
@pytest.mark.parametrize("size", [(8, 1024, 4096), (200, 136, 1000), (100, 264, 1024, 2)], ids=str)
def test_blocks_share_k_of_several_products(programs, size, through, plan):
    needs("hopper")
    m, n, ways = plan
    run(programs, hopper_products(gates(*size), hopper.Plan(m, n, m // 64, ways=ways, through=through)))


@pytest.mark.parametrize("path", ["ampere", "hopper"])
@pytest.mark.parametrize("width", [16, 48, 64, 128, 256])
@pytest.mark.parametrize("m", [64, 100, 4096, 65536])
def test_layers(programs, path, width, m):
    needs(path)
    run(programs, fused.mlp(m, width, 20 if m <= 4096 else 5, path=path))


@pytest.mark.parametrize("path", PATHS)
def test_blocks_of_two_layers(programs, path):
    needs(path)
    run(programs, fused.mlp_block(1000, 64, 256, path=path))
    run(programs, fused.mlp_block(70, 48, 96, path=path))


@pytest.mark.parametrize("rows", [64, 128, 256])
@pytest.mark.parametrize("path", ["ampere", "hopper"])
def test_rows_of_a_block(programs, path, rows):
    needs(path)
    run(programs, fused.mlp(1000, 128, 20, path=path, rows=rows))


@pytest.mark.parametrize("path", ["ampere", "hopper"])
def test_repeats_bit_by_bit(programs, path):
    needs(path)
    made = fused.mlp(4096, 128, 20, path=path)
    first, second = run(programs, made)["Y"].copy(), run(programs, made)["Y"]
    assert np.array_equal(first.view(np.uint16), second.view(np.uint16))
