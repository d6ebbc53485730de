"""Layers in one kernel: activations that stay on chip, weights whose pipeline runs on from layer to layer."""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np
import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    Matrix,
    Swizzle,
    Vector,
    Warp,
    add,
    cp_async,
    layers,
    ldmatrix,
    relu,
    symbol,
)
from fireiron.base.errors import SimulationError
from fireiron.front.cli import main
from fireiron.kernel.ir.statements import Call, For, If, Region, Sync, walk
from fireiron.language.levels import GL
from fireiron.simulate import simulate


def stack(rows=40, width=32, count=3):
    x, y = (Matrix(rows, width, "f16", name=name) for name in "XY")
    w, b = Matrix(width, width, "f16", ColMajor, name="W", batch=count), Matrix(1, width, name="b", batch=count)
    return layers(y, x, (w, lambda acc: relu(acc + b)))


def chain(spec, memory=SH, m=32, stages=3, warp=16):
    """Schedule for mma.sync, activations in shared memory or in registers."""

    def layer(one):
        _, n, _ = one.sizes
        c = one.epilog().split(16)
        c = (c.unroll() if memory is FR else c).pipeline(stages) if stages > 1 else c
        c = c.load(B, SH, cp_async()).storage_layout(ColMajor).pad(8).tile(warp, n).to(Warp)
        c = c.split(16).unroll().load(A, FR, ldmatrix()) if memory is SH else c.split(16).unroll()
        return c.load(B, FR, ldmatrix()).tile(16, 8).unroll().done()

    loaded = spec.tile(m).to(Block).load(A, memory)
    return (loaded.pad(8) if memory is SH else loaded).each(layer)


@pytest.mark.parametrize(
    ("memory", "stages"), [(SH, 1), *((memory, stages) for memory in (SH, FR) for stages in (2, 3, 4, 6))], ids=str
)
def test_stacks(programs, memory, stages):
    programs.simulated(chain(stack(), memory, stages=stages))


@pytest.mark.parametrize("memory", [SH, FR], ids=str)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_any_number_of_layers(programs, memory, count):
    programs.simulated(chain(stack(count=count), memory))


@pytest.mark.parametrize("memory", [SH, FR], ids=str)
@pytest.mark.parametrize("widths", [(32, 64, 32), (32, 96, 48), (48, 32, 64), (32, 32, 32)])
def test_layers_of_different_widths(programs, memory, widths):
    x, y = Matrix(40, widths[0], "f16", name="X"), Matrix(40, widths[-1], "f16", name="Y")
    w = [Matrix(k, n, "f16", ColMajor, name=f"W{i}") for i, (k, n) in enumerate(pairwise(widths))]
    b = Vector(widths[1], name="b")
    programs.simulated(chain(layers(y, x, (w[0], lambda acc: relu(acc + b)), (w[1], add(0.5))), memory))


def test_a_stack_between_others(programs):
    x, y = Matrix(40, 48, "f16", name="X"), Matrix(40, 16, "f16", name="Y")
    first, last = Matrix(48, 32, "f16", ColMajor, name="First"), Matrix(32, 16, "f16", ColMajor, name="Last")
    middle = Matrix(32, 32, "f16", ColMajor, name="Middle", batch=3)
    for memory in (SH, FR):
        programs.simulated(chain(layers(y, x, (first, relu), (middle, (relu, add(0.25))), last), memory))


def test_rows_may_be_a_symbol(programs):
    made = chain(stack(rows=symbol("M")), FR)
    programs.simulated(made, M=5)
    programs.simulated(made, M=70)


def test_weights_flow_from_layer_to_layer():
    """One prologue fills the pipeline for all layers; activations never leave the block."""
    for memory in (SH, FR):
        kernel = chain(stack(count=5), memory).lowered()
        (loop,) = (s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == "layer")
        inside = [s for s in walk(loop.body) if isinstance(s, Call)]
        outside = [s for s in walk(kernel.body) if isinstance(s, Call) and s not in inside]
        copies = [s for s in outside if s.atom.name.startswith("cp.async") and s.views[0].buffer.name == "W"]
        assert len(copies) == 2
        assert {v.buffer.name for s in inside for v in s.views if v.buffer.memory == GL} <= {"W", "b"}


def test_registers_need_no_barrier_between_layers():
    kernel = chain(stack(), FR).lowered()
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == "layer")
    assert len([s for s in walk(loop.body) if isinstance(s, Sync)]) == 1  # the pipeline's own, one a chunk


def without(body, hit):
    out = []
    for s in body:
        if s is hit:
            continue
        if isinstance(s, For | If | Region):
            s = attrs.evolve(s, body=without(s.body, hit))
        out.append(s)
    return tuple(out)


def test_no_barrier_of_the_layers_is_idle(programs):
    made = chain(stack(), SH)
    kernel = made.lowered()
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == "layer")
    syncs = [s for s in walk(loop.body) if isinstance(s, Sync)]
    assert len(syncs) >= 2
    for hit in syncs:
        with pytest.raises(SimulationError):
            simulate(attrs.evolve(kernel, body=without(kernel.body, hit)), programs.arrays(made), {}, {})


def test_a_call_takes_x_weights_and_operands_of_ops():
    made = chain(stack(rows=32), FR)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 32)).astype(np.float16)
    w = (rng.standard_normal((3, 32, 32)) / 4).astype(np.float16)
    b = rng.standard_normal((3, 1, 32)).astype(np.float32)
    h = x.astype(np.float64)
    for i in range(3):
        h = np.maximum(h @ w[i].T.astype(np.float64) + b[i], 0)
    assert np.abs(made(x, w, b) - h).max() < 4e-3 * np.abs(h).max()


def test_a_wrong_layer_is_found(programs):
    """The bound of layers is near what rounding does: a slip in one weight of one layer leaves it."""
    from fireiron.verify.comparison import compare
    from fireiron.verify.reference import references

    made = chain(stack(count=4), FR)
    arrays = programs.arrays(made)
    before = {name: x.copy() for name, x in arrays.items()}
    simulate(made.lowered(), arrays, {}, {})
    before["W"][1, 3, 5] += np.float16(0.05)
    found = compare("Y", arrays["Y"], references(made, before, {})["Y"], made.layers.Y.dtype)
    assert not found.passed


def test_other_element_types_of_the_result(programs):
    x, y, w = Matrix(40, 32, "f16", name="X"), Matrix(40, 32, name="Y"), Matrix(32, 32, "f16", ColMajor, name="W")
    programs.simulated(chain(layers(y, x, w), FR))
    programs.simulated(chain(layers(y, x, w), SH))


def test_swizzled_activations(programs):
    x, y, w = Matrix(40, 64, "f16", name="X"), Matrix(40, 64, "f16", name="Y"), Matrix(64, 64, "f16", name="W")

    def layer(one):
        c = one.epilog().split(32).pipeline(2).load(B, SH, cp_async()).swizzle(Swizzle(3, 3, 3)).tile(16, 64).to(Warp)
        return c.split(16).unroll().load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()

    made = layers(y, x, (w, relu)).tile(32).to(Block).load(A, SH, cp_async()).swizzle(Swizzle(3, 3, 3)).each(layer)
    report = programs.simulated(made)
    assert {site.conflict_degree for site in report.sites if site.conflict_degree} == {1.0}


def test_kernel_of_layers(golden):
    golden(chain(stack(rows=64), FR).cuda(), "kernel/layers.cu")


def test_operations_are_counted():
    assert stack(count=5).flops() == 5 * 2 * 40 * 32 * 32


def test_command_line(capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["run", "fused.mlp", "--layers", "20", "--m", "64", "--width", "32", "--path", "ampere"]) == 0
    assert "standard deviations" in capsys.readouterr().out
    assert main(["show", "fused.mlp", "--path", "ampere"]) == 0
    assert main(["explain", "fused.mlp_block", "--path", "ampere"]) == 0


def test_layers_of_one_shape_share_a_ring():
    """Weights that are matrices of their own go through one ring, where their tiles are alike."""
    from fireiron.schedules._programs import layers_schedule

    x, y = Matrix(64, 64, "f16", name="X"), Matrix(64, 64, "f16", name="Y")
    w = [Matrix(64, 64, "f16", ColMajor, name=f"W{i}") for i in range(5)]
    made = layers_schedule(layers(y, x, *((each, relu) for each in w)), "hopper")
    assert len(made.lowered().barriers) == 2
    wide = [Matrix(64, 128, "f16", ColMajor, name="Up"), Matrix(128, 64, "f16", ColMajor, name="Down")]
    assert len(layers_schedule(layers(y, x, *wide), "hopper").lowered().barriers) == 4
