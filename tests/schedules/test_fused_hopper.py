"""Presets of fused programs on Hopper's path, on the simulator: one ring over all loops, activations in registers."""

from __future__ import annotations

import pytest

from fireiron import ColMajor, Matrix, layers, relu
from fireiron.schedules import fused
from fireiron.schedules._programs import layers_schedule

SIZES = {
    fused.add_gemm_gemm: (72, 56, 40),
    fused.swiglu: (72, 56, 40),
    fused.lstm_pattern: (72, 56, 40),
    fused.lstm_cell: (72, 40, 48),
    fused.mlp: (70, 48, 3),
    fused.mlp_block: (70, 48, 96),
}


@pytest.mark.parametrize("preset", SIZES, ids=lambda preset: preset.__name__)
def test_sizes_that_do_not_divide(programs, preset):
    programs.simulated(preset(*SIZES[preset], path="hopper"))


@pytest.mark.parametrize("preset", [fused.add_gemm_gemm, fused.lstm_pattern], ids=lambda preset: preset.__name__)
@pytest.mark.parametrize("depths", [(96, 40), (8, 200), (320, 320)])
def test_depths_that_differ(programs, preset, depths):
    programs.simulated(preset(64, 64, *depths, path="hopper"))


def test_bf16(programs):
    programs.simulated(fused.swiglu(64, 64, 64, dtype="bf16", path="hopper"))
    programs.simulated(fused.mlp(64, 32, 2, dtype="bf16", path="hopper"))


@pytest.mark.parametrize("width", [16, 80, 128, 256])
def test_layers_of_every_width(programs, width):
    programs.simulated(fused.mlp(40, width, 2, path="hopper"))


@pytest.mark.parametrize("rows", [64, 128, 256])
def test_rows_of_a_block(programs, rows):
    programs.simulated(fused.mlp(300, 64, 3, path="hopper", rows=rows))


def test_many_layers(programs):
    programs.simulated(fused.mlp(64, 32, 20, path="hopper"))


def test_layers_whose_weights_are_matrices_of_their_own(programs):
    x, y = Matrix(70, 64, "f16", name="X"), Matrix(70, 64, "f16", name="Y")
    alike = [Matrix(64, 64, "f16", ColMajor, name=f"W{i}") for i in range(5)]
    programs.simulated(layers_schedule(layers(y, x, *((w, relu) for w in alike)), "hopper"))
    wide = [Matrix(*((64, 128) if i % 2 == 0 else (128, 64)), "f16", ColMajor, name=f"W{i}") for i in range(4)]
    programs.simulated(layers_schedule(layers(y, x, *((w, relu) for w in wide)), "hopper"))


def test_weights_in_rows(programs):
    x, y, w = Matrix(70, 64, "f16", name="X"), Matrix(70, 64, "f16", name="Y"), Matrix(64, 64, "f16", name="W", batch=2)
    programs.simulated(layers_schedule(layers(y, x, (w, relu)), "hopper"))
    programs.simulated(layers_schedule(layers(y, x, (w, relu)), "ampere"))
