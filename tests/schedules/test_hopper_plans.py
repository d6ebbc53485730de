"""Which plans hopper.gemm chooses from, and what its model minds: limits that were measured, each of them needed."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest

from fireiron import A, ColMajor, MatMul, Matrix, RowMajor, matmul, relu, row_sum, symbol
from fireiron.algebra.expr import as_int
from fireiron.base.errors import DecompositionError
from fireiron.schedules import hopper
from fireiron.schedules._clocks import GROUPS, _spread
from fireiron.schedules._product import Product
from fireiron.schedules.hopper import Plan


def tn(*sizes: int, **more: Any) -> Any:
    return matmul(*sizes, "bf16", layout="TN", arch="sm_90a", **more)


def tiles(plan: Plan, m: int, n: int) -> int:
    rows, cols = (n, m) if plan.swapped else (m, n)
    high, wide = plan.cluster
    return -(-rows // (plan.m * high)) * -(-cols // (plan.n * wide)) * high * wide


@pytest.mark.parametrize("m", [64, 8192], ids=["read once", "read again"])
def test_lines_between_multiples_of_128_bytes_cost_more(m: int) -> None:
    n = k = 8192

    def lines(ld: int) -> Any:
        a, b = Matrix(m, k, "bf16", RowMajor, name="A", ld=ld), Matrix(k, n, "bf16", ColMajor, name="B", ld=ld)
        return MatMul(a, b, Matrix(m, n, "bf16", name="C"))

    plan = hopper.plans(lines(k))[0]
    assert hopper.clocks(plan, lines(k + 64)) == hopper.clocks(plan, lines(k))
    assert hopper.clocks(plan, lines(k + 8)) > 1.2 * hopper.clocks(plan, lines(k))


@pytest.mark.parametrize("shape", [(2048, 3304, 2568), (1760, 2776, 3752), (2456, 2616, 1168)])
def test_wide_tiles_and_clusters_read_such_lines(shape: tuple[int, int, int]) -> None:
    """They ask for the fewest rows: 58.6, 59.2 and 32.8 us, where narrower tiles in turn took 76.7, 65.4 and 37.5."""
    for layout in ("NN", "NT", "TT", "TN"):
        first = hopper.plans(matmul(*shape, "f16", layout=layout, arch="sm_90a"))[0]
        asked = first.m / first.cluster[1] + first.n / first.cluster[0]
        assert asked / (first.m * first.n) < 1 / 96  # 128x256 asks for 1/85, pairs of it for 1/128
    blocks = hopper.Plan(), hopper.Plan(cluster=(2, 1))
    spec = matmul(*shape, "f16", layout="NN", arch="sm_90a")
    alone, paired = (hopper.clocks(plan, spec) for plan in blocks)
    assert paired < alone


@pytest.mark.parametrize(
    ("shape", "layout"), [((1600, 1480, 2792), "TN"), ((864, 1848, 2712), "TT"), ((2496, 656, 1656), "TN")]
)
def test_four_blocks_share_such_lines_where_they_run_at_once(shape: tuple[int, int, int], layout: str) -> None:
    """24.3, 20.7 and 15.5 us, where pairs took 26.6, 22.5 and 16.5 at best; whole lines are read by pairs."""
    first = hopper.plans(matmul(*shape, "bf16", layout=layout, arch="sm_90a"))[0]
    assert first.cluster == (4, 1)
    whole = hopper.plans(matmul(*(-(-size // 64) * 64 for size in shape), "bf16", layout=layout, arch="sm_90a"))
    assert not any(plan.cluster == (4, 1) for plan in whole)


@pytest.mark.parametrize(("shape", "layout"), [((3840, 1280, 3968), "TT"), ((3200, 1536, 2944), "NN")])
def test_tall_tiles_of_one_wave_stand_near_the_first(shape: tuple[int, int, int], layout: str) -> None:
    """256x160 took 55.1 and 43.1 us, 128x192 at best 63.7 and 48.3: 120 tiles of a wave, and 200 of two."""
    spec = matmul(*shape, "f16", layout=layout, arch="sm_90a")
    found = hopper.plans(spec)
    tall = next(plan for plan in found if (plan.m, plan.n) == (256, 160))
    wide = next(plan for plan in found if (plan.m, plan.n) == (128, 192))
    assert hopper.clocks(tall, spec) < hopper.clocks(wide, spec)
    assert hopper.clocks(tall, spec) < 1.08 * hopper.clocks(found[0], spec)


def test_columns_of_a_tile_follow_the_operand_along_them() -> None:
    """Lines of K come by eights; where n runs along lines, tiles may end within a swizzled row, by sixteens."""
    along = {"TN": (), "NN": (False,), "TT": (True,), "NT": (False, True)}
    for layout, swaps in along.items():
        found = hopper.plans(matmul(1024, 1024, 1024, "f16", layout=layout, arch="sm_90a"))
        widths = {swapped: {plan.n for plan in found if plan.swapped == swapped} for swapped in (False, True)}
        for swapped in (False, True):
            step = 16 if swapped in swaps else 8
            assert widths[swapped] == set(range(step, 257, step)), (layout, swapped)


def test_columns_beyond_a_tile_are_loaded_too() -> None:
    """Where n runs along lines, 224 columns cost the loads of 256, and half of the tiles start within a line."""
    nn, tn = (Product(matmul(4096, 4096, 4096, "f16", layout=layout)) for layout in ("NN", "TN"))
    plan = Plan(128, 224)
    assert (plan.loaded(nn), plan.loaded(tn)) == (256, 224)
    assert (plan.in_pieces(nn), plan.in_pieces(tn)) == ((0, 0.5), (0, 0))
    assert (Plan(128, 40).loaded(nn), Plan(128, 96, swapped=True).loaded(nn)) == (64, 96)
    assert Plan(128, 136).depth(nn) < Plan(128, 136).depth(tn)


def test_clusters_of_four_leave_twelve_sms_idle() -> None:
    """864x1848x2712 as 128 blocks in clusters of (2, 2) took 31.9 us, where 112 in clusters of (4, 1) took 20.7."""
    spec = matmul(864, 1848, 2712, "bf16", layout="TT", arch="sm_90a")
    waves, one = Plan(128, 128, swapped=True, cluster=(2, 2)), Plan(128, 128, swapped=True, cluster=(4, 1))
    assert tiles(waves, 864, 1848) == 128
    assert tiles(one, 864, 1848) == 112
    assert hopper.clocks(waves, spec) > 1.3 * hopper.clocks(one, spec)


def test_blocks_that_share_long_loops_read_their_rows_apart() -> None:
    """Beyond DRIFT chunks they ask the L2 cache one by one: pairs of blocks, which ask for fewer rows, come first."""
    short, long = (matmul(480, 304, k, "f16", layout="TN") for k in (64 * 8 * 32, 64 * 8 * 100))
    alone, pairs = Plan(64, 96, 1, swapped=True, ways=5), Plan(64, 160, 1, ways=8, cluster=(2, 1))
    assert hopper.clocks(alone, short) < hopper.clocks(pairs, short)
    assert hopper.clocks(pairs, long) < hopper.clocks(alone, long)
    assert hopper.plans(matmul(480, 304, 54784, "f16", layout="TN"))[0].cluster == (2, 1)


@pytest.mark.parametrize(("ways", "most"), [(2, 120), (3, 96)])
def test_clusters_that_share_k_run_at_once(ways: int, most: int) -> None:
    """The sums of more blocks meet in memory: clusters lie within GPCs, and leave some SMs idle."""
    m, n = 704, 1024
    found = [(p.through, ways * tiles(p, m, n)) for p in hopper.plans(tn(m, n, 16384)) if p.ways == ways]
    assert max(blocks for through, blocks in found if through == "cluster") == most
    assert max(blocks for through, blocks in found if through == "memory") == 132


@pytest.mark.parametrize(
    "spec", [tn(16, 512, 65536), tn(128, 128, 33 * 64), tn(704, 1024, 16384), tn(300, 256, 8192, groups=3)], ids=str
)
def test_sums_meet_in_clusters_that_launch(spec: Any) -> None:
    groups, k = spec.matmul.groups is not None, dict(spec.matmul.sizes)["K"]
    shared = [plan for plan in hopper.plans(spec) if plan.ways > 1]
    near = [plan for plan in shared if plan.through == "cluster"]
    assert bool(near) != groups
    for plan in near:
        share = -(-k // (64 * plan.panels) // plan.ways)
        assert plan.ways <= 8
        assert plan.cluster == (1, 1), "its blocks are no cluster of another kind"
        assert share * 64 * plan.panels * (plan.ways - 1) < k, "each block has some of K"
        assert plan.depth(Product(spec)) >= 3
    assert any(plan.ways > 8 for plan in shared) or k < 65536


def test_clusters_are_not_for_groups() -> None:
    assert any(plan.cluster != (1, 1) for plan in hopper.plans(tn(2048, 512, 512, batch=4)))
    assert not any(plan.cluster != (1, 1) for plan in hopper.plans(tn(2048, 512, 512, groups=4)))


@pytest.mark.parametrize("operand", ["A", "B"])
def test_prologs_are_for_two_warpgroups(operand: str) -> None:
    spec = tn(2048, 2048, 512)
    assert any(plan.m == 192 for plan in hopper.plans(spec))
    assert {plan.m for plan in hopper.plans(spec.prolog(operand, relu))} == {64, 128, 256}


def test_groups_that_take_turns_leave_registers_for_addresses() -> None:
    widest = {
        kind: max(plan.n for plan in hopper.plans(tn(2048, 512, 512, **{kind: 4})) if plan.pingpong and plan.swapped)
        for kind in ("batch", "groups")
    }
    assert widest == {"batch": 192, "groups": 176}


def test_rows_are_folded_where_few_threads_hold_each() -> None:
    spec = tn(2048, 2048, 512)
    assert any(plan.swapped for plan in hopper.plans(spec))
    assert not any(plan.swapped for plan in hopper.plans(spec.then(row_sum(Matrix(2048, 16, name="sums")))))


@pytest.mark.parametrize("columns", [8, 11, 16, 32])
def test_tiles_are_as_wide_as_sums_of_rows_ask(columns: int) -> None:
    spec = tn(2048, 2048, 512).then(row_sum(Matrix(2048, columns, name="sums")))
    assert {-(-2048 // plan.n) for plan in hopper.plans(spec)} == {columns}
    assert "sums" in hopper.gemm(spec).cuda()


def test_sums_of_rows_that_no_tile_gives_are_refused() -> None:
    with pytest.raises(DecompositionError) as caught:
        hopper.gemm(tn(2048, 2048, 512).then(row_sum(Matrix(2048, 3, name="sums")))).cuda()
    assert caught.value.code == "epilog-rows"


def test_streams_are_not_for_tiles_that_take_turns() -> None:
    found = [plan for plan in hopper.plans(tn(2176, 2176, 4096)) if plan.stream]
    assert found
    assert not any(plan.pingpong for plan in found)


def test_neighbours_in_the_order_of_tiles_share_what_they_read() -> None:
    """126 tiles of 128x96 took 15.7 us in bands of 4 rows, 16.7 of 8, 18.4 of 64: a GPC asks for a byte once."""
    spec, plan = tn(18 * 128, 7 * 96, 3200), Plan(n=96)
    bands = [hopper.clocks(attrs.evolve(plan, group=group), spec) for group in (4, 8, 64)]
    assert bands == sorted(bands)
    assert bands[0] < bands[1] < bands[2]
    assert hopper.plans(tn(2304, 640, 3200))[0].group < 8


def test_one_row_of_tiles_has_one_order() -> None:
    spec = tn(128, 4096, 1024)
    assert len({hopper.clocks(Plan(n=128, group=group), spec) for group in (1, 2, 4, 8)}) == 1


def test_no_panel_is_narrower_than_32_columns() -> None:
    """184 columns have no divisor from 32 to 128: in panels of 8 of them C took 29.4 us where 192 took 24.8."""
    widths = {(plan.n, plan.swapped) for plan in hopper.plans(tn(3968, 2304, 768))}
    assert {(184, True), (168, True), (184, False), (168, False), (176, False)} <= widths
    assert all(Plan(128, n, swapped=swapped).panel(2)[1] >= min(n, 32) for n, swapped in widths)
    assert Plan(128, 184, swapped=True).panel(2) == Plan(128, 184).panel(2) == (64, 184), "whole, in one slot"
    assert Plan(128, 184, pingpong=True).ring(2) == 1


@pytest.mark.parametrize(
    "spec",
    [
        tn(4096, 3584, 4096, groups=8),
        tn(768, 3584, 4096, out="f32"),
        matmul(768, 3584, 4096, "e4m3", layout="TN", arch="sm_90a"),
    ],
    ids=["rows stored by vectors", "32-bit results", "8-bit operands"],
)
def test_panels_of_whole_spans_where_others_would_cost_more(spec: Any) -> None:
    assert all(plan.n % 32 == 0 for plan in hopper.plans(spec) if not plan.swapped)


def test_rows_that_end_between_32_bytes_cost_more() -> None:
    spec = tn(4096, 4096, 256)
    plain, swapped = (hopper.clocks(Plan(128, 168, swapped=swapped), spec) for swapped in (False, True))
    assert plain > 1.1 * swapped
    plain, swapped = (hopper.clocks(Plan(128, 176, swapped=swapped), spec) for swapped in (False, True))
    assert plain == pytest.approx(swapped)


@pytest.mark.parametrize(
    ("n", "width"), [(176, 176), (144, 144), (112, 112), (168, 56), (104, 104), (160, 32), (192, 64)]
)
def test_panels_meet_at_multiples_of_32_bytes(n: int, width: int) -> None:
    """3840 x 3840 x 256 took 18.9 us in panels of 88, 16.9 of 176: two write the 32 bytes where they meet."""
    assert Plan(128, n, pingpong=True).panel(2) == (64, width)
    assert n % 16 or width * 2 % 32 == 0


def test_stores_by_vectors_want_another_tiles_products_above_them() -> None:
    groups, whole = tn(32768, 4096, 4096, groups=64), tn(32768, 4096, 4096)
    shared, turns = Plan(group=4), Plan(n=192, pingpong=True, group=4)

    def gain(spec: Any) -> float:
        return hopper.clocks(shared, spec) / hopper.clocks(turns, spec)

    assert gain(groups) > 1.1 * gain(whole)


def test_small_tiles_take_chunks_of_two_panels() -> None:
    """What a chunk costs beside its panels shows where those are small: 64x40 took 10.2 us, of one panel 11.8."""
    spec = tn(384, 768, 3584)
    found = hopper.plans(spec)
    assert found[0].panels == 2
    one = attrs.evolve(found[0], panels=1)
    assert hopper.clocks(one, spec) > 1.1 * hopper.clocks(found[0], spec)
    assert {(p.m, p.n <= 80) for p in found if p.panels == 2} == {(64, True)}
    assert all(p.panels == 1 for p in hopper.plans(tn(4096, 4096, 4096))[:10])


def test_two_panels_are_not_for_prologs() -> None:
    assert all(p.panels == 1 for p in hopper.plans(tn(128, 128, 4096).prolog(A, relu)))


def test_rows_outside_a_tensor_cost() -> None:
    """1664x256 in 64x80 took 18.2 us, 1664x320 in the same 104 tiles 13.3: 64 of 80 columns of the last lie outside."""
    plan = Plan(64, 80, 1, group=4)
    edge, whole = tn(1664, 256, 3712), tn(1664, 320, 3712)
    assert hopper.clocks(plan, edge) > 1.05 * hopper.clocks(plan, whole)
    # Of four waves each has a part of them.
    four = [hopper.clocks(plan, tn(4 * 1664, n, 3712)) for n in (256, 320)]
    one = [hopper.clocks(plan, spec) for spec in (edge, whole)]
    assert four[0] - four[1] < 1.5 * (one[0] - one[1])
    # What is wide enough hides them.
    assert hopper.clocks(Plan(), tn(1792, 1544, 2048)) < 1.01 * hopper.clocks(Plan(), tn(1792, 1792, 2048))


@pytest.mark.parametrize(
    ("size", "plan", "group"),
    [
        ((3072, 3840, 3584), Plan(128, 176, pingpong=True), 12),  # 12 by 11 tiles are a wave: 108 us, in bands of 4 110
        ((2048, 640, 3968), Plan(64, 160, 1), 8),  # one wave: what a GPC shares is all there is
        ((3712, 1536, 3584), Plan(128, 176, pingpong=True), 4),  # a wave is all columns in any order
    ],
)
def test_bands_are_as_high_as_waves_read_least(size: tuple[int, int, int], plan: Plan, group: int) -> None:
    found = next(p for p in hopper.plans(tn(*size)) if attrs.evolve(p, group=plan.group, keep="") == plan)
    assert found.group == group


def test_edges_of_groups_are_not_known() -> None:
    plan = Plan(64, 64, 1)
    counts = [hopper.clocks(plan, tn(m, 512, 8192, groups=8)) for m in (513, 520)]
    assert counts[0] == pytest.approx(counts[1], rel=0.01)


def test_long_runs_take_no_note_of_neighbours() -> None:
    """At 8192 x 8192 x 8192 tiles of 128x192 in turns are 2 % faster than of 128x256, which fewer SMs ask for less."""
    best = hopper.plans(tn(8192, 8192, 8192))[0]
    assert (best.m, best.n, best.pingpong) == (128, 192, True)


def test_bands_do_not_reach_into_other_groups() -> None:
    assert max(p.group for p in hopper.plans(tn(32768, 4096, 4096, groups=64))) <= 8


@pytest.mark.parametrize(
    ("size", "plan", "keep"),
    [
        (
            (384, 3456, 3840),
            Plan(64, 160, 1),
            "left",
        ),  # six tiles read 25 MB at once: 20.7 us, by hints 18.5
        ((384, 3456, 3840), Plan(64, 160, 1, swapped=True), ""),  # of 162 tiles some come later
        ((512, 3456, 3840), Plan(64, 48, 1), ""),  # several waves read it again
        ((384, 1024, 3840), Plan(64, 160, 1), ""),  # 8 MB pass through the cache unseen
    ],
)
def test_hints_for_what_few_tiles_read_at_once(size: tuple[int, int, int], plan: Plan, keep: str) -> None:
    found = {p.keep for p in hopper.plans(tn(*size)) if attrs.evolve(p, group=plan.group, keep="") == plan}
    assert found == {keep}


def test_rows_and_columns_of_neighbours_are_counted_at_once() -> None:
    """What _spread gives without visiting tiles is what a visit of each one finds."""

    def visited(high: int, wide: int, group: int, window: int, count: int) -> tuple[float, float]:
        count, rows, cols = min(count, high * wide), 0, 0
        for first in range(0, count, window):
            places = set()
            for item in range(first, min(count, first + window)):
                band, place = divmod(item, group * wide)
                here = min(group, high - band * group)
                places.add((band * group + place % here, place // here))
            rows += len({row for row, _ in places})
            cols += len({col for _, col in places})
        return rows * window / count, cols * window / count

    rng = random.Random(17)
    for _ in range(400):
        given = (*(rng.randint(1, 20) for _ in range(2)), rng.choice(GROUPS), rng.randint(1, 70), rng.randint(1, 200))
        assert _spread(*given) == visited(*given), given


def test_blocks_of_deep_products_share_sums_where_all_run_at_once() -> None:
    plans = hopper.plans(tn(128, 368, 52224))
    assert all(plan.through == "grid" and plan.ways > 1 for plan in plans)
    for plan in plans[:3]:
        kernel = hopper.gemm(tn(128, 368, 52224), plan).lowered()
        assert kernel.cooperative
        assert as_int(kernel.grid) in range(2, 133)
    few_rows, short, wide, unknown = (
        tn(16, 512, 65536),
        tn(128, 368, 2048),
        tn(64, 4096, 16384),
        tn(128, 368, symbol("K")),
    )
    for spec in (few_rows, short, wide, unknown, tn(128, 256, 52224, groups=2)):
        assert not any(plan.through == "grid" for plan in hopper.plans(spec))
