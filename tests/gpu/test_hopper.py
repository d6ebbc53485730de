"""The presets for Hopper on the GPU, in every type, layout and order, against references in f64 or int64."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import attrs
import numpy as np
import pytest
from compiling import compiled
from verified import verified

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    Cluster,
    ColMajor,
    Grouped,
    Hilbert,
    MatMul,
    Matrix,
    RowMajor,
    Vector,
    Warpgroup,
    add,
    conform,
    matmul,
    relu,
    scale,
    stmatrix,
    symbol,
    through_shared,
    tma,
    vector,
)  # fmt: skip
from fireiron.algebra.layout import Layout
from fireiron.jit.driver import driver
from fireiron.jit.interface import Interface
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.verify.random_data import random_arrays

LAYOUTS = ("NN", "NT", "TN", "TT")
# dtype, result, layouts
KINDS = [
    *(("f16", out, LAYOUTS) for out in ("f16", "f32", "bf16")),
    *(("bf16", out, LAYOUTS) for out in ("bf16", "f32", "f16")),
    ("tf32", "f32", ("TN",)),
    *((dtype, out, ("TN",)) for dtype in ("e4m3", "e5m2") for out in ("f32", "f16", "bf16")),
    ("i8", "i32", ("TN",)),
    ("u8", "i32", ("TN",)),
]
PLANS = {
    "cooperative": Plan(128, 256),
    "cooperative in clusters": Plan(128, 128, cluster=(2, 1)),
    "clusters along n": Plan(128, 128, cluster=(1, 2)),
    "clusters of four": Plan(64, 64, 1, cluster=(2, 2)),
    "pingpong": Plan(128, 128, pingpong=True),
    "pingpong in clusters": Plan(128, 192, pingpong=True, cluster=(2, 1)),
    "two rows of products": Plan(256, 128),
    "three consumers": Plan(192, 128, 3),
    "one consumer": Plan(64, 64, 1),
    "two stages": Plan(128, 128, stages=2),
}
SWAPPED = {
    "swapped": Plan(128, 208, swapped=True),
    "swapped, narrow": Plan(64, 112, 1, swapped=True),
    "swapped pingpong": Plan(128, 192, pingpong=True, swapped=True, cluster=(2, 1)),
}
# The last leaves tiles that are cut in every dimension; the middle one has fewer tiles than there are SMs.
SHAPES = ((512, 768, 640), (256, 256, 64), (1000, 1016, 528))


@pytest.fixture(autouse=True)
def needs_hopper():
    number = driver().compute_capability(0)
    if number != 90:
        pytest.skip(f"wgmma is for sm_90a alone, this GPU is sm_{number}")


def right(schedule, numbers=None, seed=1, calls=2, may_spill=False, **sizes):
    """Run on the GPU, more than once on the same data, and compare."""
    kernel = compiled(schedule) if may_spill else schedule.compile()
    verified(schedule, numbers, kernel=kernel, seed=seed, repeats=calls, **sizes)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("dtype", "out", "layouts"), KINDS)
def test_presets_in_every_type_and_layout(plan, dtype, out, layouts):
    for layout in layouts:
        for shape in SHAPES if (dtype, out, layout) == ("bf16", "bf16", "TN") else SHAPES[-1:]:
            right(hopper.gemm(matmul(*shape, dtype, out=out, layout=layout), PLANS[plan]), calls=1)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("cols", [1015, 1018, 1020])
def test_results_whose_lines_start_anywhere(plan, cols):
    schedule = hopper.gemm(matmul(1000, cols, 528, "bf16", layout="TN"), PLANS[plan])
    assert "wgmma" in schedule.cuda("sm_90a")
    right(schedule)


@pytest.mark.parametrize("size", [(1024, 50257, 768), (8, 30522, 1024), (4096, 1, 768), (1000, 203, 4096)])
def test_first_plans_of_results_whose_lines_start_anywhere(size):
    for plan in hopper.plans(matmul(*size, "f16", layout="TN"))[:3]:
        right(hopper.gemm(matmul(*size, "f16", layout="TN"), plan))


ACROSS = {
    "cooperative": Plan(128, 128),
    "in clusters": Plan(128, 128, cluster=(2, 1)),
    "pingpong": Plan(128, 128, pingpong=True),
    "two rows of products": Plan(256, 64),
    "one consumer": Plan(64, 64, 1),
    "ways": Plan(128, 128, ways=2),
    "equal shares": Plan(128, 128, stream=True),
}
# Where threads transpose both operands, larger tiles of 8-bit elements spill.
SMALLER = {"two rows of products": Plan(128, 64, 1), "ways": Plan(128, 64, ways=2)}


@pytest.mark.parametrize("plan", ACROSS)
@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
@pytest.mark.parametrize("dtype", ["tf32", "e4m3", "i8"])
def test_operands_whose_k_is_not_contiguous(plan, layout, dtype):
    for transposed in ("registers", "shared") if dtype == "tf32" else ("registers",):
        last = SHAPES[-1] if dtype == "tf32" else (1008, 1040, 528)  # lines of 8-bit elements start at multiples of 16
        for shape in (*SHAPES[:-1], last) if plan == "cooperative" else (last,):
            plans = ACROSS | SMALLER if (dtype, layout) in (("e4m3", "NT"), ("i8", "NT")) else ACROSS
            chosen = attrs.evolve(plans[plan], transposed=transposed)
            schedule = hopper.gemm(matmul(*shape, dtype, layout=layout), chosen)
            assert "wgmma_m64" in schedule.cuda("sm_90a")
            right(schedule, calls=3)


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
@pytest.mark.parametrize("dtype", ["tf32", "e4m3", "i8"])
def test_first_plans_of_operands_whose_k_is_not_contiguous(layout, dtype):
    for plan in hopper.plans(matmul(2048, 4096, 1024, dtype, layout=layout))[:3]:
        right(hopper.gemm(matmul(2048, 4096, 1024, dtype, layout=layout), plan), calls=5)


@pytest.mark.parametrize("plan", SWAPPED)
@pytest.mark.parametrize("out", ["f16", "f32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_swapped_presets(plan, out, layout):
    if out == "f32" and SWAPPED[plan].pingpong:
        pytest.skip("192 accumulators a thread leave too few registers to store 32-bit results")
    for shape in SHAPES:
        right(hopper.gemm(matmul(*shape, "bf16", out=out if out == "f32" else None, layout=layout), SWAPPED[plan]))


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
@pytest.mark.parametrize("n", [16, 24, 40, 88, 96, 160, 200, 208, 224])
def test_tiles_that_end_within_a_swizzled_row(n, layout):
    for shape in ((1000, 904, 328), (2048, 2240, 1024)):
        for cluster in ((1, 1), (2, 1), (4, 1)) if n % 32 == 0 else ((1, 1),):
            plan = Plan(128, n, swapped=layout == "TT", cluster=cluster)
            right(hopper.gemm(matmul(*shape, "bf16", layout=layout), plan), calls=1)


@pytest.mark.parametrize("n", range(8, 257, 8))
@pytest.mark.parametrize("swapped", [False, True])
def test_every_width(n, swapped):
    rows, cols = (3 * n + 8, 512) if swapped else (512, 3 * n + 8)
    for turns in (False, True) if n <= 192 else (False,):
        plan = Plan(128, n, pingpong=turns, swapped=swapped)
        right(hopper.gemm(matmul(rows, cols, 256, "f16", layout="TN"), plan), calls=1)


def test_f16_sums_in_f16():
    right(hopper.gemm(matmul(256, 256, 64, "f16", acc="f16", layout="TN"), Plan(128, 128)))


def padded(rows, cols, dtype, order, name):
    unit = 16 // np.dtype(matmul(8, 8, 8, dtype).matmul.A.dtype.numpy).itemsize
    return Matrix(rows, cols, dtype, order, name=name, ld=-(-(cols if order is RowMajor else rows) // unit) * unit)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4095, 4097, 4098), (127, 129, 65), (1, 8, 1)])
def test_sizes_that_divide_nothing(shape, layout):
    m, n, k = shape
    orders = [ColMajor if letter == "T" else RowMajor for letter in layout]
    a, b = padded(m, k, "bf16", orders[1], "A"), padded(k, n, "bf16", orders[0], "B")
    spec = MatMul(a, b, padded(m, n, "bf16", RowMajor, "C"))
    schedule = hopper.gemm(spec)
    assert "wgmma" in schedule.cuda("sm_90a")
    right(schedule, calls=1)
    for plan in (Plan(128, 128, pingpong=True), Plan(128, 128, cluster=(2, 1))):
        right(hopper.gemm(spec, plan), calls=1)


@pytest.mark.parametrize(
    ("dtype", "layout", "shape"),
    [
        ("f16", "TN", (300, 200, 515)),
        ("bf16", "NN", (300, 201, 512)),
        ("e4m3", "NN", (256, 250, 512)),
        ("tf32", "NT", (255, 256, 512)),
        ("f32", "NN", (256, 256, 512)),
        ("f64", "NN", (256, 256, 512)),
        ("i4", "TN", (256, 256, 512)),
    ],
)
def test_what_wgmma_does_not_take_is_right_all_the_same(dtype, layout, shape):
    schedule = hopper.gemm(matmul(*shape, dtype, layout=layout))
    assert "wgmma" not in schedule.cuda("sm_90a")
    right(schedule)


def test_symbolic_sizes():
    m, n, k = symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=8)
    for plan in (Plan(128, 128), Plan(128, 192, pingpong=True, cluster=(2, 1))):
        schedule = hopper.gemm(matmul(m, n, k, "f16", layout="TN"), plan)
        for sizes in ((512, 512, 512), (1, 8, 8), (3001, 136, 72), (130, 5000, 1032)):
            right(schedule, calls=1, **dict(zip("MNK", sizes, strict=True)))


def chain(spec, order=None, store=None, ops=(), m=128, n=128, cluster=None, turns=False, span=128, rows=64, **split):
    """Write a Hopper schedule link by link."""
    if cluster:
        tiled = spec.tile(cluster[0] * m, cluster[1] * n).to(Cluster)
        tiled = (tiled if order is None else tiled.persistent(order)).tile(m, n).to(Block)
    else:
        tiled = spec.tile(m, n).to(Block)
        tiled = tiled if order is None else tiled.persistent(order)
    loop = tiled.epilog(*ops, memory=FR, **({} if store is None else {"store": store}))
    loop = loop.split(split.get("k", 64)).pipeline(split.get("stages", 4), inflight=split.get("inflight", 1))
    loaded = loop.specialize(registers=(24, 240)).load(A, SH, tma(span)).load(B, SH, tma(span))
    mine = loaded.tile(m, n).to(Warpgroup).staggered(2) if turns else loaded.tile(rows, n).to(Warpgroup)
    inner = mine.split(16).unroll()
    return (inner.tile(64, n).unroll() if turns or rows > 64 else inner).done()


def staged(panel=(64, 64), ring=2, put=None, take=None):
    return through_shared(put or stmatrix(), take or tma(), panel=panel, at=Warpgroup, ring=ring)


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize(
    "order", [None, RowMajor, ColMajor, Grouped(3), Grouped(8), Hilbert(), Hilbert(4), Layout((8, 8), (8, 1))], ids=str
)
def test_orders(order, turns):
    if turns and order is None:
        pytest.skip("units in turn take trips of a persistent loop")
    right(chain(matmul(1024, 1024, 256, "bf16", layout="TN"), order, staged(), turns=turns))


@pytest.mark.parametrize("cluster", [(1, 2), (2, 1), (4, 1), (2, 2), (1, 4), (8, 1), (2, 4)], ids=str)
@pytest.mark.parametrize("persistent", [False, True])
def test_clusters(cluster, persistent):
    for shape in ((1024, 1024, 512), (1000, 520, 136)):
        order = Grouped(2) if persistent else None
        right(chain(matmul(*shape, "f16", layout="TN"), order, staged(), m=128, n=64, cluster=cluster), calls=1)


@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_descriptor_forms_in_a_kernel(layout, span):
    for k in (64, 32):
        if k * 2 < span and layout != "NT":
            continue
        right(chain(matmul(512, 512, 512, "f16", layout=layout), RowMajor, staged(), span=span, k=k), calls=1)


@pytest.mark.parametrize(
    ("store", "out"),
    [
        (None, "f16"),
        (None, "f32"),
        (staged(ring=1), "f16"),
        (staged((64, 32), ring=2, take=tma(64)), "f16"),
        (staged((64, 128), ring=1, take=vector()), "f16"),
        (staged((64, 32), ring=2, put=conform()), "f32"),
        (staged((64, 128), ring=1, put=conform(), take=vector()), "f32"),
        (through_shared(stmatrix(), vector(), panel=(64, 64), at=Warpgroup, pad=8), "f16"),
    ],
)
@pytest.mark.parametrize("turns", [False, True])
def test_stores(store, out, turns):
    for shape in ((512, 512, 256), (500, 392, 136)):
        spec = matmul(*shape, "f16", out=out, layout="TN")
        right(chain(spec, Grouped(4), store, turns=turns), may_spill=True)


@pytest.mark.parametrize("swapped", [False, True])
def test_tensors_of_epilogs(swapped):
    m, n = 500, 392
    row, column = Vector(n, "f32", name="row"), Matrix(m, 1, "f32", name="column")
    whole = Matrix(m, n, "f16", name="whole")
    spec = matmul(m, n, 136, "f16", layout="TN")
    put = staged((64, 64), put=stmatrix(trans=True)) if swapped else staged()
    ops = (add(row), relu, scale(column), add(whole))
    right(chain(spec.swap() if swapped else spec, RowMajor, put, ops))


@pytest.mark.parametrize("swapped", [False, True])
def test_alpha_and_beta(swapped):
    spec = matmul(500, 392, 136, "f16", layout="TN", alpha=0.5, beta=2.0)
    put = staged((64, 64), put=stmatrix(trans=True)) if swapped else staged()
    right(chain(spec.swap() if swapped else spec, RowMajor, put))


@pytest.mark.parametrize("stages", [1, 2, 3, 6])
@pytest.mark.parametrize("k", [8, 64, 72, 1000])
def test_rings_that_are_longer_and_shorter_than_the_loop(stages, k):
    spec = matmul(1024, 1024, k, "f16", layout="TN")
    for inflight in (0, 1) if stages > 1 else (0,):
        right(chain(spec, RowMajor, staged(), stages=stages, inflight=inflight), calls=1)
        right(chain(spec, RowMajor, staged(ring=1), stages=stages, inflight=inflight, turns=True), calls=1)


def test_the_same_bits_in_every_run():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a, b = (torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for plan in (Plan(128, 256, cluster=(2, 1)), SWAPPED["swapped pingpong"], Plan(192, 128, 3)):
        kernel = hopper.gemm(matmul(2048, 2048, 1024, "bf16", layout="TN"), plan).compile()
        first = kernel(a, b)
        for _ in range(200):
            assert torch.equal(kernel(a, b), first)


def test_a_captured_graph_runs():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = hopper.gemm(matmul(1024, 1024, 512, "bf16", layout="TN")).compile()
    a, b = (torch.randn(1024, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty(1024, 1024, device="cuda", dtype=torch.bfloat16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, out=out)
    for _ in range(20):
        a.normal_()
        out.fill_(float("nan"))
        graph.replay()
        torch.testing.assert_close(out.float(), a.float() @ b.float().T, rtol=2e-2, atol=0.3)


@pytest.mark.parametrize("plan", [Plan(128, 128, cluster=(2, 1)), Plan(128, 192, pingpong=True, swapped=True)])
def test_bounded_waits_change_no_result(plan):
    schedule = hopper.gemm(matmul(1000, 1016, 528, "bf16", layout="TN"), plan)
    arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=3)
    plain = np.array(schedule.compile()(arrays["A"], arrays["B"]))
    assert np.array_equal(
        np.asarray(schedule.compile(debug=True)(arrays["A"], arrays["B"])).view("u2"), plain.view("u2")
    )


HANGS = """
import attrs
import numpy as np

from fireiron import matmul
from fireiron.algebra.arch import arch
from fireiron.cuda.printer import source
from fireiron.jit.build import build
from fireiron.jit.compile import CompileOptions
from fireiron.kernel.ir.statements import InitBarriers
from fireiron.schedules import hopper

kernel = hopper.gemm(matmul(256, 256, 1024, "f16", layout="TN"), hopper.Plan(128, 128, stages=2)).lowered("sm_90a")


def planted(statement):
    # One arrival more than there are consumers: no slot is ever released.
    if not isinstance(statement, InitBarriers):
        return statement
    return InitBarriers(tuple(attrs.evolve(b, count=b.count + (b.name == "empty")) for b in statement.barriers))


kernel = attrs.evolve(kernel, body=tuple(map(planted, kernel.body)))
text = source(kernel, bounded=True)
made = build("hang", lambda: kernel, arch("sm_90a"), CompileOptions(debug=True), text=lambda _: text)
x = np.ones((256, 1024), np.float16)
made(x, x)
"""


def test_a_hang_ends_and_names_its_barrier():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HANGS)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode != 0
    assert "mbarrier empty, 2 slots, 2 arrivals a phase: its phase completes" in done.stdout + done.stderr
    assert "specialize(" in done.stdout + done.stderr
