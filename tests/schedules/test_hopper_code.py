"""What the presets for Hopper become: texts as golden files show them, and machine code of the shape that is fast."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    Grouped,
    Hilbert,
    MatMul,
    Matrix,
    RowMajor,
    Tensor,
    Warpgroup,
    matmul,
    symbol,
    tma,
)
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan

SIZE = (4096, 4096, 4096)
SWAPPED = Plan(128, 192, pingpong=True, swapped=True, cluster=(2, 1))
KINDS = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "i8": 1, "u8": 1}
LAYOUTS = ("NN", "NT", "TN", "TT")


def product(dtype: str = "f16", layout: str = "TN", size: tuple[int, int, int] = SIZE, **spec: Any) -> Any:
    return matmul(*size, dtype, layout=layout, **spec)


def test_cooperative_as_printed(golden: Callable[[str, str], None]) -> None:
    schedule = hopper.cooperative(product("bf16"), Plan(cluster=(2, 1)))
    golden(schedule.cuda("sm_90a"), "schedules/hopper_cooperative.cu")


def test_pingpong_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(hopper.pingpong(product("bf16"), SWAPPED).cuda("sm_90a"), "schedules/hopper_pingpong.cu")


def test_plain_panels_as_printed(golden: Callable[[str, str], None]) -> None:
    """Columns that are no multiple of 32 leave through plain rows: of 176 a whole tile's, of 168 a third of one."""
    texts = [hopper.gemm(product("bf16"), Plan(128, n, pingpong=n == 176)).cuda("sm_90a") for n in (176, 168)]
    golden("\n".join(text[text.index("// store C") :] for text in texts), "schedules/hopper_plain_panels.cu")


def loops(sass: str) -> list[list[str]]:
    """List the opcodes of each loop, from a label to a branch back to it."""
    labels: dict[str, int] = {}
    opcodes: list[str] = []
    found: list[list[str]] = []
    for line in sass.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(opcodes)
        elif code := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\w+)(.*?);", line):
            opcodes.append(code[1])
            target = re.search(r"\.L_x_\d+", code[2]) if code[1] == "BRA" else None
            start = labels.get(target[0]) if target else None
            if start is not None:
                found.append(opcodes[start:])
    return found


def inner(sass: str, opcode: str) -> list[str]:
    """Give the shortest loop around an instruction."""
    return min((loop for loop in loops(sass) if opcode in loop), key=len)


@pytest.mark.parametrize(
    ("plan", "products"),
    [(Plan(cluster=(2, 1)), 4), (SWAPPED, 8), (Plan(256, 128, swapped=True), 8), (Plan(64, 64, 1), 4)],
    ids=["cooperative", "pingpong", "two rows of products", "one consumer"],
)
def test_the_main_loop_is_products_and_barriers_in_shared_memory(plan: Plan, products: int) -> None:
    kernel = hopper.gemm(product("bf16"), plan).compile("sm_90a", cache=False)
    assert (kernel.resources.spill_stores, kernel.resources.spill_loads, kernel.resources.stack) == (0, 0, 0)
    math = inner(kernel.sass, "HGMMA")
    assert math.count("HGMMA") == products  # of one chunk: nothing is peeled or repeated
    # Neither block barriers, nor fences of the whole GPU, nor anything that leaves the registers.
    slow = {"BAR", "MEMBAR", "ERRBAR", "CCTL", "LDL", "STL", "LDS", "STS", "LDG", "STG"}
    assert not slow & set(math), slow & set(math)
    assert math.count("SYNCS") <= 3  # the wait, its retry, one arrival
    assert len(math) <= 12 * products + 30
    load = inner(kernel.sass, "UTMALDG")
    assert not slow & set(load)


def test_an_epilogue_has_what_the_main_loop_lacks() -> None:
    """What the test above looks for is not there by chance."""
    sass = hopper.gemm(product("bf16"), SWAPPED).compile("sm_90a", cache=False).sass
    whole = max(loops(sass), key=len)
    assert {"BAR", "STSM", "UTMASTG"} <= set(whole)


@pytest.mark.parametrize("dtype", KINDS)
def test_every_type_and_layout_compiles_without_spills(dtype: str) -> None:
    plans = (Plan(), Plan(128, 128, pingpong=True))
    wide = KINDS[dtype] == 2
    for layout in LAYOUTS if dtype == "f16" else ("TN", "NN") if wide else ("TN",):
        for plan, out in zip(plans, (None, "f32") if wide else (None, None), strict=True):
            schedule = hopper.gemm(product(dtype, layout, (1024, 1024, 1024), **({"out": out} if out else {})), plan)
            kernel = schedule.compile("sm_90a")
            assert "wgmma.mma_async" in kernel.ptx
            assert (kernel.resources.spill_stores, kernel.resources.stack) == (0, 0)


def chunks(span: int, layout: str, dtype: str = "f16", k: int = 64, n: int = 128, registers: Any = None) -> Any:
    """Give a plain product whose operands lie in rows of `span` bytes."""
    return (
        product(dtype, layout, (512, 512, 512)).tile(128, n).to(Block).epilog(memory=FR)
        .split(k).pipeline(3, inflight=1).specialize(registers=registers)
        .load(A, SH, tma(span)).load(B, SH, tma(span))
        .tile(64, n).to(Warpgroup).split(32 // KINDS[dtype]).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_descriptor_form_compiles(layout: str, span: int) -> None:
    source = chunks(span, layout).compile("sm_90a").source
    mode = {128: 1, 64: 2, 32: 3}[span]
    assert set(re.findall(r"wgmma_operand<(\d)", source)) == {str(mode)}
    majors = {"N": (0, 1), "T": (1, 0)}  # of A where the second letter says so, of B where the first does
    assert f"<{majors[layout[1]][0]}, {majors[layout[0]][1]}>(&acc" in source


def test_chunks_of_several_panels_compile() -> None:
    for dtype in ("f16", "i8", "tf32"):
        assert not chunks(64, "TN", dtype, 128 // KINDS[dtype]).compile("sm_90a").resources.spills
    for plan in (Plan(128, 128, panels=2), Plan(64, 32, 1, panels=2)):
        assert not hopper.gemm(product(), plan).compile("sm_90a").resources.spills


def padded(rows: int, cols: int, dtype: str, order: Any, name: str) -> Tensor:
    line = cols if order is RowMajor else rows
    return Matrix(rows, cols, dtype, order, name=name, ld=-(-line // 8) * 8)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sizes_that_divide_nothing_go_by_tensor_maps_where_lines_are_padded(layout: str) -> None:
    m, n, k = 4095, 4097, 4098
    a = padded(m, k, "bf16", ColMajor if layout[1] == "T" else RowMajor, "A")
    b = padded(k, n, "bf16", ColMajor if layout[0] == "T" else RowMajor, "B")
    schedule = hopper.gemm(MatMul(a, b, padded(m, n, "bf16", RowMajor, "C")))
    assert "wgmma" in schedule.compile("sm_90a").source
    assert "slower-path" not in {f.code for f in schedule.check("sm_90a")}


@pytest.mark.parametrize(
    ("dtype", "layout", "size", "why"),
    [
        ("f16", "TN", (512, 512, 515), "lines of A lie 1030 B apart, and tensor maps take multiples of 16"),
        ("i8", "NT", (510, 512, 512), "mma.m16n8k32.i32.i8 multiplies at about half the rate of wgmma"),
    ],
)
def test_what_wgmma_does_not_take_goes_another_way_and_says_so(
    dtype: str, layout: str, size: tuple[int, int, int], why: str
) -> None:
    schedule = hopper.gemm(product(dtype, layout, size))
    (note,) = (f for f in schedule.check("sm_90a") if f.code == "slower-path")
    assert why in note.message
    assert note.severity == "note"
    assert note.fix
    assert "slower-path" not in {f.code for f in schedule.check("sm_89")}


@pytest.mark.parametrize(
    ("dtype", "slower"), [("f64", False), ("f32", True), ("i32", False), ("i4", True), ("b1", True)]
)
def test_types_that_wgmma_lacks_take_their_own_presets(dtype: str, slower: bool) -> None:
    """f32 could be tf32 on tensor cores, and Hopper emulates products of i4 and b1."""
    schedule = hopper.gemm(product(dtype, size=(512, 512, 512)))
    assert "wgmma" not in schedule.cuda("sm_90a")
    assert ("slower-path" in {f.code for f in schedule.check("sm_90a")}) == slower


def test_symbolic_sizes_take_tensor_maps_where_their_lines_are_known_to_fit() -> None:
    m, n, k = symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=8)
    assert "wgmma" in hopper.gemm(matmul(m, n, k, "f16", layout="TN")).cuda("sm_90a")
    assert "wgmma" not in hopper.gemm(matmul(m, symbol("N"), k, "f16", layout="NN")).cuda("sm_90a")


def test_clusters_that_leave_sms_empty_are_counted() -> None:
    schedule = hopper.gemm(product(), Plan(128, 128, cluster=(2, 2)))
    (note,) = (f for f in schedule.check("sm_90a") if f.code == "cluster-fit")
    assert note.message == (
        "clusters of 4 blocks fill at most 120 of 132 SMs of the H200 SXM: 30 clusters, and 12 SMs stay idle"
    )
    assert note.link is not None
    assert note.link.underlined.startswith("persistent(Grouped(plan.group)")
    fits = hopper.gemm(product(), Plan(128, 128, cluster=(2, 1)))
    assert "cluster-fit" not in {f.code for f in fits.check("sm_90a")}


def test_orders_of_persistent_tiles_print() -> None:
    for order in (RowMajor, ColMajor, Grouped(4), Hilbert(4)):
        chain = product().tile(128, 128).to(Block).persistent(order).epilog(memory=FR).split(64).pipeline(4, inflight=1)
        chain = chain.specialize().load(A, SH, tma()).load(B, SH, tma()).tile(64, 128).to(Warpgroup)
        assert "gridDim.x" in chain.split(16).unroll().done().cuda("sm_90a")


@pytest.mark.parametrize("n", [8, 40, 104, 136, 200, 248])
@pytest.mark.parametrize("swapped", [False, True])
def test_panels_of_any_width(n: int, swapped: bool) -> None:
    schedule = hopper.gemm(product(size=(512, 512, 256)), Plan(128, n, swapped=swapped))
    assert not schedule.compile("sm_90a").resources.spills


@pytest.mark.parametrize("n", [8, 64, 128])
def test_budgets_of_narrow_products_are_kept(n: int) -> None:
    """They take few registers: ptxas would ignore budgets but for the promise of blocks an SM."""
    kernel = chunks(128, "TN", n=n, registers=(24, 240)).compile("sm_90a")
    assert "__launch_bounds__(384, 1)" in kernel.source
    assert (kernel.resources.registers, kernel.resources.spills) == (168, False)
    assert "__launch_bounds__(384)" in chunks(128, "TN", n=n).cuda("sm_90a")


@pytest.mark.parametrize("plan", [Plan(128, 128, cluster=(2, 1)), Plan(128, 128, pingpong=True)])
def test_one_tile_for_all_blocks(plan: Plan) -> None:
    assert not hopper.gemm(product(size=(8, 8, 8)), plan).compile("sm_90a").resources.spills
