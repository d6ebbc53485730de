"""Presets of fused programs on every path: right on sizes that do not divide, without spills or bank conflicts."""

from __future__ import annotations

import pytest

from fireiron import ColMajor, Matrix, RowMajor, layers, products, relu
from fireiron.jit import nvrtc12
from fireiron.schedules import fused
from fireiron.schedules._programs import layers_schedule, schedule

OLD = pytest.mark.skipif(nvrtc12.find() is None, reason=f"NVRTC 12 is not installed: {nvrtc12.INSTALL}")
PRODUCTS = [fused.add_gemm_gemm, fused.swiglu, fused.lstm_pattern, fused.lstm_cell]
LAYERS = [fused.mlp, fused.mlp_block]
SMALL = {
    fused.add_gemm_gemm: (70, 50, 40),
    fused.swiglu: (70, 50, 40),
    fused.lstm_pattern: (70, 50, 40),
    fused.lstm_cell: (70, 34, 40),
    fused.mlp: (70, 48, 3),
    fused.mlp_block: (70, 48, 96),
}


def named(preset):
    return preset.__name__


@pytest.mark.product
@pytest.mark.parametrize("preset", [*PRODUCTS, *LAYERS], ids=named)
@pytest.mark.parametrize("path", ["simt", "ampere"])
def test_sizes_that_do_not_divide(programs, preset, path):
    programs.simulated(preset(*SMALL[preset], dtype="f32" if path == "simt" else "f16", path=path))


@pytest.mark.product
@pytest.mark.parametrize("preset", PRODUCTS, ids=named)
@pytest.mark.parametrize(("path", "mma"), [("volta", "mma_m8n8k4"), ("turing", "mma_m16n8k8")])
def test_products_on_the_first_tensor_cores(programs, preset, path, mma):
    made = preset(*SMALL[preset], path=path)
    assert mma in made.cuda("sm_75")
    programs.simulated(made)


@pytest.mark.product
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
def test_products_of_all_layouts_take_them(programs, layout, arch):
    left = RowMajor if layout[1] == "N" else ColMajor
    right = RowMajor if layout[0] == "N" else ColMajor
    x, h = Matrix(70, 40, "f16", left, name="x"), Matrix(70, 24, "f16", left, name="h")
    w, u = Matrix(40, 50, "f16", right, name="w"), Matrix(24, 50, "f16", right, name="u")
    made = schedule(products(Matrix(70, 50, "f16", name="y"), (x, w), (h, u), op=lambda a, b: relu(a) - b, arch=arch))
    assert "mma_m8n8k4" in made.cuda() or "mma_m16n8k8" in made.cuda()
    programs.simulated(made)


@pytest.mark.parametrize("orders", ["RRRC", "RRCR", "CRCC", "CCCC"])
def test_products_of_different_layouts_on_hopper(programs, orders):
    """Loops whose tiles differ in layout share no ring of bulk copies: mma.sync multiplies there."""
    a, b, c, d = (RowMajor if letter == "R" else ColMajor for letter in orders)
    x, h = Matrix(64, 72, "bf16", a, name="x"), Matrix(64, 64, "bf16", c, name="h")
    w, u = Matrix(72, 128, "bf16", b, name="w"), Matrix(64, 128, "bf16", d, name="u")
    y = Matrix(64, 128, "bf16", name="y")
    made = schedule(products(y, (x, w), (h, u), op=lambda a, b: relu(a) - b, arch="sm_90a"))
    assert ("wgmma" in made.cuda()) == (orders == "CCCC")
    programs.simulated(made)


def test_they_take_f16_alone_and_layers_none_of_them():
    assert "simt" in fused.swiglu(64, 64, 64, dtype="bf16", arch="sm_75").name
    assert "simt" in fused.mlp(64, 32, 2, arch="sm_75").name


@pytest.mark.product
@pytest.mark.parametrize("preset", [fused.add_gemm_gemm, fused.lstm_pattern], ids=named)
@pytest.mark.parametrize("path", ["simt", "volta", "ampere"])
def test_depths_that_differ(programs, preset, path):
    programs.simulated(preset(64, 64, 96, 40, dtype="f32" if path == "simt" else "f16", path=path))


def test_bf16(programs):
    programs.simulated(fused.swiglu(64, 64, 64, dtype="bf16", path="ampere"))
    programs.simulated(fused.mlp(64, 32, 2, dtype="bf16", path="ampere"))


@pytest.mark.parametrize("width", [16, 80, 128, 256])
def test_layers_of_every_width(programs, width):
    programs.simulated(fused.mlp(40, width, 2, path="ampere"))


def test_many_layers(programs):
    programs.simulated(fused.mlp(64, 32, 20, path="ampere"))


@pytest.mark.parametrize("width", [17, 40])
def test_odd_widths_take_the_path_of_cuda_cores(programs, width):
    made = fused.mlp(50, width, 2)
    assert "simt" in made.name
    programs.simulated(made)


def test_paths_by_what_they_take():
    assert "hopper" in fused.swiglu(64, 64, 64).name
    assert "ampere" in fused.swiglu(64, 64, 63).name
    assert "simt" in fused.swiglu(64, 64, 64, dtype="f32").name
    x, w, y = (Matrix(64, 64, "f16", name=name) for name in "xwy")
    assert "ampere" in schedule(products(y, (x, w), arch="sm_80")).name


@pytest.mark.parametrize("preset", [*PRODUCTS, *LAYERS], ids=named)
def test_no_bank_conflicts(programs, preset):
    report = programs.simulated(
        preset(
            *((128, 64, 64) if preset in PRODUCTS else (64, 64, 64)[: 2 + (preset is fused.mlp_block)]), path="ampere"
        )
    )
    assert {site.conflict_degree for site in report.sites if site.conflict_degree} <= {1.0}


@pytest.mark.product
@pytest.mark.parametrize("preset", [*PRODUCTS, *LAYERS], ids=named)
@pytest.mark.parametrize(
    ("path", "arch"),
    [
        ("simt", "sm_80"),
        ("ampere", "sm_80"),
        pytest.param("ampere", "sm_90a", marks=pytest.mark.exhaustive),
        ("hopper", "sm_90a"),
    ],
)
def test_compiles_without_spills(preset, path, arch):
    sizes = {fused.mlp: (65536, 128, 20), fused.mlp_block: (8192, 64, 256)}.get(preset, (4096, 4096, 4096))
    found = preset(*sizes, dtype="f32" if path == "simt" else "f16", path=path).compile(arch, cache=False).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0


@pytest.mark.product
@pytest.mark.parametrize("preset", PRODUCTS, ids=named)
@pytest.mark.parametrize(("path", "arch"), [pytest.param("volta", "sm_70", marks=OLD), ("turing", "sm_75")])
def test_products_compile_for_the_first_tensor_cores_without_spills(preset, path, arch):
    found = preset(4096, 4096, 4096, path=path).compile(arch, cache=False).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0


@pytest.mark.product
@pytest.mark.parametrize(("width", "m"), [(128, 4096), (256, 65536), (256, 4096), (64, 65536)])
def test_layers_compile_without_spills(width, m):
    for path, arch in (("ampere", "sm_80"), ("hopper", "sm_90a")):
        found = fused.mlp(m, width, 20, path=path).compile(arch, cache=False).resources
        assert found.spill_stores == found.spill_loads == found.stack == 0


def test_layers_of_their_own_matrices_compile_without_spills():
    """Activations between layers are registers beside those before and behind: a block has half as many rows."""
    x, y = Matrix(65536, 128, "f16", name="X"), Matrix(65536, 128, "f16", name="Y")
    w = [Matrix(128, 128, "f16", ColMajor, name=f"W{i}") for i in range(2)]
    made = layers_schedule(layers(y, x, *((each, relu) for each in w)), "hopper")
    found = made.compile("sm_90a", cache=False).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0
