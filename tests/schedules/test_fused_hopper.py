"""Presets of fused programs on Hopper's path, on the simulator: one ring over all loops, activations in registers."""

from __future__ import annotations

import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    Matrix,
    RowMajor,
    Warpgroup,
    layers,
    matmul,
    products,
    relu,
    silu,
    tma,
)
from fireiron.algebra.expr import as_int
from fireiron.kernel.ir.statements import Turn, walk
from fireiron.schedules import fused, hopper
from fireiron.schedules._programs import hopper as hopper_products
from fireiron.schedules._programs import layers_schedule, schedule

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


@pytest.mark.product
@pytest.mark.parametrize("preset", [fused.add_gemm_gemm, fused.lstm_pattern], ids=lambda preset: preset.__name__)
@pytest.mark.parametrize("depths", [(96, 40), (8, 200), (320, 320)])
def test_depths_that_differ(programs, preset, depths):
    programs.simulated(preset(64, 64, *depths, path="hopper"))


def two_sums(m, n, k, k2):
    """Give silu(X W) + H U with both sums apart: accumulators of two products that share nothing."""
    x, h = Matrix(m, k, "f16", name="X"), Matrix(m, k2, "f16", name="H")
    w, u = Matrix(k, n, "f16", ColMajor, name="W"), Matrix(k2, n, "f16", ColMajor, name="U")
    return products(Matrix(m, n, "f16", name="Y"), (x, w), (h, u), op=lambda p, q: silu(p) + q)


@pytest.mark.parametrize(
    "plan",
    [
        hopper.Plan(64, 40, 1, panels=2),
        hopper.Plan(128, 24, 2, panels=2, pingpong=True),
        hopper.Plan(192, 32, 3, stages=3),
        hopper.Plan(64, 48, 1, cluster=(1, 2)),
        hopper.Plan(128, 72, 2, group=2, prefetch=0),
    ],
    ids=["panels", "turns", "three", "cluster", "plain rows"],
)
def test_every_degree_of_freedom(programs, plan):
    programs.simulated(hopper_products(two_sums(200, 104, 136, 72), plan))


def of_one_array(m, n, k, op, results="Y"):
    """Give a function of X W and X U, which one loop computes."""
    x = Matrix(m, k, "f16", name="X")
    w, u = (Matrix(k, n, "f16", ColMajor, name=name) for name in "WU")
    outs = [Matrix(m, n, "f16", name=name) for name in results]
    return products(outs if len(outs) > 1 else outs[0], (x, w), (x, u), op=op)


def one_sum(m, n, k):
    """Give X W + H U, whose products have one accumulator and follow each other."""
    x, h = (Matrix(m, k, "f16", name=name) for name in "XH")
    w, u = (Matrix(k, n, "f16", ColMajor, name=name) for name in "WU")
    return products(Matrix(m, n, "f16", name="Y"), [(x, w), (h, u)])


SHARED_K = {
    "two loops": lambda: two_sums(100, 104, 328, 328),
    "one loop": lambda: of_one_array(24, 72, 328, lambda p, q: silu(p) * q),
    "one sum": lambda: one_sum(72, 56, 328),
    "two results": lambda: of_one_array(24, 104, 328, lambda p, q: (p, silu(q)), "YZ"),
}


@pytest.mark.product
@pytest.mark.parametrize("program", SHARED_K)
@pytest.mark.parametrize("through", ["cluster", "memory"])
@pytest.mark.parametrize(("n", "ways"), [(32, 2), (24, 3), (64, 6)])
def test_blocks_share_the_k_of_all_products(programs, program, through, n, ways):
    plan = hopper.Plan(64, n, 1, ways=ways, through=through)
    made = hopper_products(SHARED_K[program](), plan)
    assert as_int(made.lowered().grid) % ways == 0
    programs.simulated(made)


def test_prints_the_sums_of_two_products(golden):
    gates = of_one_array(24, 72, 328, lambda p, q: silu(p) * q)
    near = hopper.Plan(64, 24, 1, ways=3, stages=2, through="cluster")
    golden(hopper_products(gates, near).cuda(), "schedules/hopper_two_products_cluster.cu")
    far = hopper.Plan(64, 24, 1, ways=3, stages=2)
    golden(hopper_products(gates, far).cuda(), "schedules/hopper_two_products_workspace.cu")


@pytest.mark.parametrize("through", ["cluster", "memory"])
def test_turns_share_the_k_of_several_products(programs, through):
    plan = hopper.Plan(128, 32, 2, pingpong=True, ways=2, through=through)
    made = hopper_products(two_sums(200, 104, 328, 328), plan)
    programs.simulated(made)
    made.compile("sm_90a")  # the ring leaves room for both units' sums


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [((512, 512, 512), (64, 32)), ((1024, 1024, 1024), (64, 128)), ((4096, 4096, 4096), (128, 256))],
)
def test_tiles_by_how_many_blocks_they_fill(sizes, tile):
    """1024x1024 of two depths of 1024 took 21.7 us in tiles of 128x256, which 32 of 132 SMs get; 7.7 in 64x128."""
    assert f"hopper_{'x'.join(map(str, tile))}x" in fused.add_gemm_gemm(*sizes).name


def test_each_sum_has_its_part_of_the_columns():
    """A gate and its values are as wide as one product: each takes half of the registers."""
    assert "hopper_128x128x" in fused.swiglu(4096, 14336, 4096).name
    made = fused.swiglu(512, 2048, 1024).lowered()
    assert "hopper_128x64x" in fused.swiglu(512, 2048, 1024).name
    assert as_int(made.grid) == 128


@pytest.mark.parametrize(
    ("sizes", "ways"),
    [((64, 1984, 2240), 2), ((64, 832, 4736), 5), ((1088, 1152, 3200), 1)],
    ids=["blocks share K", "more blocks", "swapped plans are passed over"],
)
def test_programs_take_the_first_plan_that_is_not_swapped(sizes, ways):
    m, n, k = sizes
    listed = hopper.plans(matmul(m, n, k, "f16", layout="TN"))
    first = next(p for p in listed if not p.stream and not p.swapped)
    assert first.ways == ways
    assert all(p.swapped for p in listed[: listed.index(first)])
    assert (first is listed[0]) == (ways > 1)
    x, w = Matrix(m, k // 2, "f16", name="X"), Matrix(k // 2, n, "f16", ColMajor, name="W")
    h, u = Matrix(m, k // 2, "f16", name="H"), Matrix(k // 2, n, "f16", ColMajor, name="U")
    made = schedule(products(Matrix(m, n, "f16", name="Y"), [(x, w), (h, u)]))
    tiles = -(-m // first.m) * -(-n // first.n)
    assert made.name.startswith(f"hopper_{first.m}x{first.n}x{64 * first.panels}_")
    assert as_int(made.lowered().grid) == tiles * first.cluster[0] * first.cluster[1] * ways


def test_three_warpgroups_leave_no_registers_for_what_joins_sums():
    whole = hopper.plans(matmul(2496, 1600, 5952, "f16", layout="TN"))
    assert whole[0].consumers == 3
    assert "hopper_192x" not in fused.swiglu(2496, 800, 5952).name
    assert "hopper_192x160x" in fused.add_gemm_gemm(2496, 1600, 2976).name


@pytest.mark.parametrize("sizes", [(4096, 264, 128), (8192, 2048, 512), (64, 512, 4096)])
def test_each_of_four_sums_has_whole_sectors(sizes):
    """Two blocks of a cluster each load half of a weight's columns: of 24 they could not, and were refused."""
    made = fused.lstm_cell(*sizes, dtype="bf16")
    assert int(made.name.split("_")[1].split("x")[1]) % 16 == 0
    made.compile("sm_90a")


def test_sums_that_no_width_serves_take_what_fits():
    x = Matrix(64, 64, "f16", name="X")
    weights = [Matrix(64, 64, "f16", RowMajor, name=f"W{i}") for i in range(3)]  # 64 columns each, or no swizzled rows
    made = products(Matrix(64, 64, "f16", name="Y"), *((x, w) for w in weights), op=lambda a, b, c: a + b + c)
    made = schedule(made, "hopper")
    assert "x64x64" in made.name
    made.compile("sm_90a")
    many = [Matrix(64, 64, "f16", ColMajor, name=f"W{i}") for i in range(17)]  # 16 columns each are more than 256
    made = products(Matrix(64, 64, "f16", name="Y"), *((x, w) for w in many), op=lambda *sums: sum(sums[1:], sums[0]))
    made = schedule(made, "hopper")
    assert "x16x64" in made.name
    made.compile("sm_90a")


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


@pytest.mark.parametrize("how", [{"order": ColMajor}, {"ld": 68}], ids=["columns", "lines off 16 bytes"])
def test_results_that_bulk_stores_do_not_take(programs, how):
    x, y = Matrix(72, 64, "f16", name="X"), Matrix(72, 64, "f16", name="Y", **how)
    made = layers_schedule(layers(y, x, (Matrix(64, 64, "f16", ColMajor, name="W", batch=2), relu)), "hopper")
    assert "tma_store" not in made.cuda("sm_90a")
    programs.simulated(made)


def test_weights_in_rows(programs):
    x, y, w = Matrix(70, 64, "f16", name="X"), Matrix(70, 64, "f16", name="Y"), Matrix(64, 64, "f16", name="W", batch=2)
    programs.simulated(layers_schedule(layers(y, x, (w, relu)), "hopper"))
    programs.simulated(layers_schedule(layers(y, x, (w, relu)), "ampere"))


def in_turn(slots=4, units=2):
    """Give three layers of four chunks each to warpgroups of 64 rows."""
    x, y = (Matrix(64 * units, 64, "f16", name=name) for name in "XY")
    w = Matrix(64, 64, "f16", ColMajor, name="W", batch=3)

    def layer(one):
        looped = one.epilog().split(16).unroll().pipeline(slots, inflight=1).specialize().load(B, SH, tma(32))
        return looped.tile(64, 64).to(Warpgroup).split(16).unroll().done()

    return layers(y, x, (w, relu)).tile(64 * units).to(Block).persistent().load(A, FR).each(layer)


def turns(schedule):
    found = [s for s in walk(schedule.lowered("sm_90a").body) if isinstance(s, Turn)]
    return [s for s in found if s.reason in ("main loops take turns", "the first main loop may begin")]


def test_main_loops_of_layers_take_turns(programs):
    """Each of two warpgroups waits for one barrier, and tells the other's; the last lets the first begin."""
    assert sorted((s.number, s.waits) for s in turns(in_turn())) == [
        (8, False), (8, False), (8, True), (9, False), (9, True),
    ]  # fmt: skip
    programs.simulated(in_turn())


def test_main_loops_take_no_turns_where_a_ring_does_not_hold_a_layer(programs):
    """All warpgroups empty each slot: the one that has its turn would wait for slots that the others hold."""
    assert not turns(in_turn(slots=3))
    programs.simulated(in_turn(slots=3))


def test_nothing_else_takes_turns():
    assert not turns(in_turn(units=1))
    few = matmul(256, 128, 128, "bf16", layout="TN", arch="sm_90a")  # two chunks of K, which the ring holds
    assert not turns(hopper.gemm(few, hopper.Plan(m=128, n=64, stages=4)))


def test_several_loops_take_turns_that_begin_once(programs):
    x, y = Matrix(300, 64, "f16", name="X"), Matrix(300, 64, "f16", name="Y")
    alike = [Matrix(64, 64, "f16", ColMajor, name=f"W{i}") for i in range(3)]
    made = layers_schedule(layers(y, x, *((w, relu) for w in alike)), "hopper", 128)
    assert [s.reason for s in turns(made)].count("the first main loop may begin") == 1
    programs.simulated(made)
