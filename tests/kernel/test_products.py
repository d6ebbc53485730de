"""Several products in one kernel: what they share, what they load, which barriers they need."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    Matrix,
    RowMajor,
    Thread,
    Vector,
    Warp,
    Warpgroup,
    matmul,
    products,
    relu,
    symbol,
    tma,
)
from fireiron.base.errors import SimulationError
from fireiron.front.cli import main
from fireiron.kernel.ir.statements import Call, For, If, Region, Roles, Sync, Turn, walk
from fireiron.language.levels import GL
from fireiron.schedules import fused
from fireiron.schedules._programs import hopper as hopper_products
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate


def plain(spec, batch=None):
    """Schedule for CUDA cores: 32x32 a block, 128 threads."""
    tensors = (*spec.products.lefts, *spec.products.rights)
    chain = spec.tile(32, 32, batch=batch).to(Block).epilog(memory=RF).split(8)
    for tensor in tensors:
        chain = chain.load(tensor, SH)
    chain = chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread).split(1).unroll()
    for tensor in tensors:
        chain = chain.load(tensor, RF)
    return chain.tile(1, 1).unroll().done()


def operands(*names, m=40, n=36, k=24, **options):
    return tuple(Matrix(m, k, name=x, **options) if x.islower() else Matrix(k, n, name=x, **options) for x in names)


def test_a_sum_has_one_accumulator(programs):
    x, h, w, u = operands("x", "h", "W", "U")
    made = plain(products(Matrix(40, 36, name="y"), [(x, w), (h, u)]))
    programs.simulated(made)
    kernel = made.lowered()
    assert [b.name for b in kernel.buffers if b.memory is RF and b.size.range[0] == 8] == ["acc"]
    # The second loop's buffers lie over the first one's.
    assert kernel.shared_nbytes == 2 * 32 * 8 * 4


def test_a_shared_operand_is_loaded_once(programs):
    x, w, u = operands("x", "W", "U")
    y = Matrix(40, 36, name="y")
    made = plain(products(y, (x, w), (x, u), op=lambda gate, up: relu(gate) * up))
    programs.simulated(made)
    loads = [s for s in walk(made.lowered().body) if isinstance(s, Call) and s.views[0].buffer.memory == GL]
    assert [s.views[0].buffer.name for s in loads] == ["x", "W", "U"]
    assert [s.var.name for s in walk(made.lowered().body) if isinstance(s, For) and not s.unroll] == ["k"]


def test_a_shared_right_operand_too(programs):
    x, h, w = operands("x", "h", "W")
    made = plain(products(Matrix(40, 36, name="y"), (x, w), (h, w), op=lambda p, q: p - q))
    programs.simulated(made)
    assert len([s for s in walk(made.lowered().body) if isinstance(s, For) and not s.unroll]) == 1


def test_three_products_of_different_depths(programs):
    pairs = [(Matrix(40, k, name=f"x{k}"), Matrix(k, 36, name=f"w{k}")) for k in (5, 24, 40)]
    spec = products(Matrix(40, 36, name="y"), pairs[:2], pairs[2], op=lambda p, q: p * 0.5 + q)
    assert str(spec).splitlines()[0] == "MatMul(40, 36, 5|24|40)(7 GL)(Kernel)"
    programs.simulated(plain(spec))


def test_several_outputs_and_operands_of_ops(programs):
    x, h, w, u = operands("x", "h", "W", "U")
    rows, bias, old = Vector(40, name="rows", along=ColMajor), Vector(36, name="bias"), Matrix(40, 36, name="old")
    outs = tuple(Matrix(40, 36, name=name) for name in ("p", "q", "r"))
    spec = products(outs, (x, w), (h, u), op=lambda a, b: (a * b, relu(a + bias) * rows, b + old))
    programs.simulated(plain(spec))


def test_ops_read_neighbours_at_once_and_each_tensor_once(programs):
    (x, h, w, u), bias = operands("x", "h", "W", "U"), Vector(36, name="bias")
    outs = Matrix(40, 36, name="y"), Matrix(40, 36, name="z"), Matrix(40, 36, name="v")
    made = plain(products(outs, (x, w), (h, u), op=lambda p, q: (p + bias, q * bias, p - q)))
    programs.simulated(made)
    reads = [s for s in walk(made.lowered().body) if isinstance(s, Call) and s.views[0].buffer.name == "bias"]
    assert [s.views[0].layout.size for s in reads] == [2]


def test_a_scalar_of_the_call(programs):
    from fireiron.language.pointwise import parameter

    x, w = operands("x", "W")
    made = plain(products(Matrix(40, 36, name="y"), (x, w), op=lambda acc: acc * parameter("alpha", acc.dtype)))
    programs.simulated(made, {"alpha": 0.5})


def test_a_batch(programs):
    x, h, w, u = operands("x", "h", "W", "U", batch=3)
    programs.simulated(plain(products(Matrix(40, 36, name="y", batch=3), [(x, w), (h, u)]), batch=1))


def test_sizes_may_be_symbols(programs):
    m, k = symbol("M"), symbol("K")
    x, w, h, u = Matrix(m, k, name="x"), Matrix(k, 36, name="W"), Matrix(m, 24, name="h"), Matrix(24, 36, name="U")
    made = plain(products(Matrix(m, 36, name="y"), [(x, w), (h, u)]))
    programs.simulated(made, M=50, K=13)
    programs.simulated(made, M=7, K=1)


def test_a_call_takes_operands_in_their_order():
    x, h, w, u = operands("x", "h", "W", "U")
    bias = Vector(36, name="bias")
    made = plain(products(Matrix(40, 36, name="y"), [(x, w), (h, u)], op=lambda acc: relu(acc + bias)))
    rng = np.random.default_rng(0)
    a = [rng.standard_normal(shape).astype(np.float32) for shape in ((40, 24), (24, 36), (40, 24), (24, 36), (36,))]
    wanted = np.maximum(a[0] @ a[1] + a[2] @ a[3] + a[4], 0)
    assert np.allclose(made(*a), wanted, atol=1e-4)


def test_roles_name_what_is_unique():
    x, w, u = operands("x", "W", "U")
    chain = products(Matrix(40, 36, name="y"), (x, w), (x, u), op=lambda p, q: p + q)
    chain = chain.tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH)
    with pytest.raises(FireironError) as caught:
        chain.load(B, SH)
    assert caught.value.code == "ambiguous-operand"


def test_the_ring_goes_on_over_both_loops():
    (roles,) = (s for s in fused.lstm_pattern(256, 256, 128, path="hopper").lowered().body if isinstance(s, Roles))
    kernel = fused.lstm_pattern(256, 256, 128, path="hopper").lowered()
    assert [len(role.cursors) for role in roles.roles] == [1, 1]
    assert len(kernel.barriers) == 2
    assert sum(b.memory == SH for b in kernel.buffers) == 3  # A's and B's slots, and what stores


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1)])
def test_staggered_warpgroups_own_a_tile_through_all_loops(cluster, programs):
    x, h = Matrix(320, 200, "f16", name="x"), Matrix(320, 72, "f16", name="h")
    w, u = Matrix(200, 192, "f16", ColMajor, name="W"), Matrix(72, 192, "f16", ColMajor, name="U")
    spec = products(Matrix(320, 192, "f16", name="y"), [(x, w), (h, u)])
    made = hopper_products(spec, Plan(64, 64, pingpong=True, cluster=cluster))
    programs.simulated(made)
    (roles,) = (s for s in made.lowered().body if isinstance(s, Roles))
    turns = [s for s in walk(roles.roles[-1].body) if isinstance(s, Turn)]
    # Two warpgroups: each awaits its turn once a tile and hands it on once, and one of them lets the first begin.
    assert len([t for t in turns if t.reason == "main loops take turns"]) == 4


def test_operations_are_counted():
    x, w, u = operands("x", "W", "U")
    y = Matrix(40, 36, name="y")
    assert plain(products(y, (x, w), (x, u), op=lambda p, q: p + q)).flops() == 2 * matmul(40, 36, 24).flops()


def test_unfinished_chains_are_measured():
    x, h, w, u = operands("x", "h", "W", "U")
    chain = products(Matrix(40, 36, name="y"), [(x, w), (h, u)]).tile(32, 32).to(Block).epilog(memory=RF).split(8)
    found = chain.load(x, SH).load(w, SH).load(h, SH).load(u, SH).facts("sm_80")
    assert found.shared_nbytes == 2 * 32 * 8 * 4
    assert not found.complete


def without(body, hit):
    out = []
    for s in body:
        if s is hit:
            continue
        if isinstance(s, For | If | Region):
            s = attrs.evolve(s, body=without(s.body, hit))
        out.append(s)
    return tuple(out)


def test_no_barrier_is_idle(programs):
    """Between the loops, and in them: without any one of them the simulator finds a race."""
    made = fused.add_gemm_gemm(40, 36, 24, dtype="f32", path="simt")
    kernel = made.lowered()
    syncs = [s for s in walk(kernel.body) if isinstance(s, Sync)]
    assert len(syncs) >= 4
    for hit in syncs:
        with pytest.raises(SimulationError):
            simulate(attrs.evolve(kernel, body=without(kernel.body, hit)), programs.arrays(made), {}, {})


def test_kernel_of_a_sum(golden):
    x, h, w, u = operands("x", "h", "W", "U")
    golden(plain(products(Matrix(40, 36, name="y"), [(x, w), (h, u)])).cuda(), "kernel/products_sum.cu")


def test_command_line(capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["run", "fused.lstm_cell", "--m", "40", "--n", "32", "--k", "24", "--path", "ampere"]) == 0
    assert "within bounds" in capsys.readouterr().out  # no machine computes sigmoid and tanh to the last bit
    assert main(["show", "fused.swiglu", "--path", "ampere"]) == 0
    assert "Y = gate / (1 + exp2(" in " ".join(capsys.readouterr().out.split())


def test_two_operands_of_a_loop_lie_in_buffers_of_their_own():
    """The second loop's h is laid out as the first one's W; so is its U, for which no buffer is left."""
    x, h, w, u = (Matrix(64, 64, "f16", ColMajor if name == "x" else RowMajor, name=name) for name in "xhWU")
    chain = products(Matrix(64, 64, "f16", name="y"), [(x, w), (h, u)]).tile(64, 64).to(Block).epilog(memory=FR)
    chain = chain.split(64).pipeline(2).specialize()
    for tensor in (x, h, w, u):
        chain = chain.load(tensor, SH, tma())
    with pytest.raises(FireironError, match="no free buffer of the ring is laid out as a tile 64x64 of U") as caught:
        chain.tile(64, 64).to(Warpgroup).split(16).unroll().done().lowered("sm_90a")
    assert caught.value.code == "role-ring"
