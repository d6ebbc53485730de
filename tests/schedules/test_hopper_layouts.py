"""Products on Hopper whose operands do not all have K contiguous, of elements that descriptors do not transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import A, B, ColMajor, MatMul, Matrix, RowMajor, matmul, relu, symbol
from fireiron.algebra.expr import as_expr
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Fence, Role, Roles, Statement, Sync, Turn
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import hopper
from fireiron.schedules._product import Product
from fireiron.schedules.hopper import Plan
from fireiron.verify.verification import Data, verify

PLANS = {
    "wide": Plan(128, 64),
    "two rows of products": Plan(256, 32),
    "taking turns": Plan(128, 64, pingpong=True),
    "one consumer": Plan(64, 32, 1),
    "clusters": Plan(128, 64, cluster=(2, 1)),
    "ways": Plan(64, 64, 1, ways=2),
    "ways of a cluster": Plan(64, 64, 1, ways=2, through="cluster"),
    "equal shares": Plan(64, 64, 1, stream=True),
}


def product(layout: str, size: tuple[int, int, int] = (4096, 4096, 4096), dtype: str = "tf32", **spec: Any) -> Any:
    return matmul(*size, dtype, layout=layout, arch="sm_90a", **spec)


def verified(schedule: Any, **sizes: int) -> None:
    """Simulate on whole numbers and on random ones, look for what nothing orders, and compare with the reference."""
    assert unordered(schedule.lowered()) == ()

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, sizes)
    assert verdict.passed, str(verdict)


def sampled(cases: list[Any], *few: int) -> list[Any]:
    """Keep a few of the cases in every run, and the others in the exhaustive one."""
    rest = pytest.mark.exhaustive
    return [pytest.param(*case, marks=() if i in few else rest) for i, case in enumerate(cases)]


@pytest.mark.parametrize(("plan", "layout"), sampled(list(zip(PLANS, ["NN", "TT"] * 4, strict=True)), 1, 4, 6, 7))
def test_tf32_comes_from_registers(plan: str, layout: str) -> None:
    schedule = hopper.gemm(product(layout, (152, 136, 76)), PLANS[plan])
    assert "_ra(&acc" in schedule.cuda("sm_90a")
    verified(schedule)


@pytest.mark.parametrize("plan", sampled([("wide",), ("taking turns",), ("clusters",), ("equal shares",)], 1))
def test_where_both_are_across_one_is_transposed_by_the_threads_that_load(plan: str) -> None:
    verified(hopper.gemm(product("NT", (152, 136, 76)), PLANS[plan]))


@pytest.mark.parametrize(
    ("layout", "plan"), sampled([("NN", "wide"), ("NT", "one consumer"), ("TT", "taking turns")], 1, 2)
)
def test_tf32_is_transposed_by_the_threads_that_load(layout: str, plan: str) -> None:
    schedule = hopper.gemm(product(layout, (152, 136, 76)), attrs.evolve(PLANS[plan], transposed="shared"))
    assert "_ra(" not in schedule.cuda("sm_90a")
    verified(schedule)


@pytest.mark.parametrize(
    ("layout", "dtype", "plan"),
    sampled(
        [
            ("NN", "e4m3", "wide"),
            ("TT", "e4m3", "taking turns"),
            ("NT", "e4m3", "ways of a cluster"),
            ("NT", "i8", "two rows of products"),
            ("TT", "u8", "equal shares"),
        ],
        2,
        4,
    ),
)
def test_8_bit_elements_are_transposed_by_the_threads_that_load(layout: str, dtype: str, plan: str) -> None:
    verified(hopper.gemm(product(layout, (160, 144, 272), dtype), PLANS[plan]))


@pytest.mark.parametrize(("operand", "other"), sampled([(A, False), (B, False), (A, True), (B, True)], 1, 2))
def test_a_prolog_and_the_order(operand: Any, other: bool) -> None:
    """What has the prolog comes from registers; where K of the other one is not contiguous, threads transpose that."""
    layout = "TT" if (operand is A) != other else "NN"
    verified(hopper.gemm(product(layout, (72, 64, 64)).prolog(operand, relu), Plan(64, 64, 1)))


def test_threads_do_not_transpose_8_bit_elements_with_a_prolog() -> None:
    assert hopper.plans(product("TT", (512, 512, 512), "e4m3").prolog(A, relu)) == ()
    assert hopper.plans(product("NN", (512, 512, 512), "e4m3").prolog(A, relu)) != ()


@pytest.mark.parametrize("dtype", ["tf32", "e4m3"])
def test_groups(dtype: str) -> None:
    verified(hopper.gemm(product("NN", (160, 144, 144), dtype, groups=3), Plan(64, 64, 1)))


@pytest.mark.parametrize("transposed", ["registers", "shared"])
def test_batches_and_ends_of_tensors(transposed: Any) -> None:
    verified(hopper.gemm(product("NN", (40, 72, 36), batch=3), Plan(64, 64, 1, transposed=transposed)))


@pytest.mark.parametrize(("dtype", "out", "unit"), [("tf32", "f32", 4), ("e4m3", "f32", 16)])
def test_lines_that_end_anywhere(dtype: str, out: str, unit: int) -> None:
    """Lines that are padded start at multiples of 16 bytes: no vector of 4 elements is cut by their end."""

    def padded(rows: int, cols: int, order: Any, name: str) -> Any:
        line = cols if order is RowMajor else rows
        return Matrix(rows, cols, dtype, order, name=name, ld=-(-line // unit) * unit)

    a, b = padded(77, 65, ColMajor, "A"), padded(65, 131, RowMajor, "B")
    schedule = hopper.gemm(MatMul(a, b, Matrix(77, 131, out, RowMajor, name="C", ld=132)), Plan(64, 64, 1))
    assert "wgmma_m64" in schedule.cuda("sm_90a")
    verified(schedule)


def test_sizes_that_are_known_at_run_time_are_read_along_their_lines() -> None:
    m, n, k = (symbol(name, multiple_of=16) for name in "MNK")
    text = hopper.gemm(matmul(m, n, k, "e4m3", layout="NN", arch="sm_90a"), Plan(64, 64, 1)).cuda()
    assert "copy_or_zero_4B(&b_rf[" in text
    assert "thread_n * 4], thread_k * 16" in text


def kernel_with(spec: Any, change: Callable[[Statement], Statement | tuple[Statement, ...]]) -> Any:
    kernel = hopper.gemm(spec, Plan(128, 128)).lowered()

    def one(role: Role) -> Role:
        return attrs.evolve(role, body=rewrite(role.body, change))

    body = tuple(Roles(tuple(map(one, s.roles))) if isinstance(s, Roles) else s for s in kernel.body)
    return attrs.evolve(kernel, body=body)


@pytest.mark.parametrize(
    ("kind", "words", "lacks"),
    [
        (Fence, "threads write", "nothing tells that it is complete and fenced"),
        (Sync, "the warp has written", "nothing tells that it is complete and fenced"),
        (Turn, "barriers are initialised", "no fence and barrier between them"),
    ],
)
def test_what_orders_the_threads_that_load_is_needed(kind: Any, words: str, lacks: str) -> None:
    def without(s: Statement) -> Statement | tuple[Statement, ...]:
        found = isinstance(s, kind) and words in s.reason
        return attrs.evolve(s, waits=False) if found and isinstance(s, Turn) else () if found else s

    found = unordered(kernel_with(product("NT", (512, 512, 512)), without))
    assert {edge.lacks for edge in found} == {lacks}


def test_stores_of_vectors_meet_no_bank_conflict() -> None:
    for dtype in ("tf32", "e4m3"):
        plan = Plan(128, 128, transposed="shared")
        schedule = hopper.gemm(product("NN", (512, 512, 512), dtype), plan)
        conflicts = [f.message for f in schedule.check("sm_90a") if f.code == "bank-conflicts"]
        assert not any("b_sh" in message for message in conflicts)


def test_an_operand_from_registers_is_a() -> None:
    """A plan need not say that the product is swapped, and cannot say otherwise."""
    spec = product("NN", (256, 256, 128))
    assert hopper.cooperative(spec).residual.closed
    held = [plan for plan in hopper.plans(spec) if plan.transposed == "registers"]
    assert {plan.swapped for plan in held} == {True}
    assert {plan.swapped for plan in hopper.plans(product("TT", (256, 256, 128)))} == {False}
    same = [hopper.gemm(spec, Plan(128, 64, swapped=swapped)).cuda("sm_90a") for swapped in (False, True)]
    assert same[0] == same[1]


@pytest.mark.parametrize("layout", sampled([("NN",), ("TT",)], 0))
def test_the_model_asks_for_what_the_compiler_can_hold(layout: str) -> None:
    spec = product(layout)
    first = hopper.plans(spec)[0]
    assert first.n >= 160, "32-bit results of a transpose leave through panels that leave room for chunks"
    kernel = hopper.gemm(spec, first).compile("sm_90a")
    assert not kernel.resources.spills
    assert sum("HGMMA" in line for line in kernel.sass.splitlines()) == 4 * first.m // 128


def test_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(hopper.gemm(product("NN"), Plan(128, 256)).cuda("sm_90a"), "schedules/hopper_across_k.cu")
    golden(hopper.gemm(product("NN", dtype="e4m3"), Plan(128, 256)).cuda("sm_90a"), "schedules/hopper_transposed.cu")


@pytest.mark.parametrize(
    ("dtype", "layout", "plan"),
    sampled(
        [
            ("tf32", "NT", Plan(128, 256)),
            ("tf32", "NT", Plan(128, 128, pingpong=True)),
            ("e4m3", "NN", Plan(128, 256)),
            ("e4m3", "NT", Plan(128, 128)),
            ("i8", "TT", Plan(256, 128)),
        ],
        0,
        2,
    ),
)
def test_threads_that_copy_spill_nothing(dtype: str, layout: str, plan: Plan) -> None:
    kernel = hopper.gemm(product(layout, dtype=dtype), plan).compile("sm_90a")
    assert (kernel.resources.spill_stores, kernel.resources.stack) == (0, 0)


def test_lines_that_start_anywhere_go_another_way() -> None:
    a, b = Matrix(64, 64, "tf32", ColMajor, name="A", ld=66), Matrix(64, 64, "tf32", ColMajor, name="B")
    assert hopper.plans(MatMul(a, b, Matrix(64, 64, "tf32", RowMajor, name="C"))) == ()


WITHIN = {  # plans whose tiles end within a swizzled row
    "columns": ("NN", Plan(128, 224), (200, 440, 136)),
    "rows": ("TT", Plan(128, 224, swapped=True), (440, 200, 136)),
    "any eight columns": ("NT", Plan(128, 200), (136, 416, 136)),
    "spans of 64 bytes": ("NT", Plan(64, 40, 1), (136, 88, 136)),
    "clusters": ("NN", Plan(128, 160, cluster=(2, 1)), (264, 312, 136)),
    "clusters of four": ("NT", Plan(64, 96, 1, cluster=(4, 1)), (264, 200, 72)),
    "taking turns": ("NN", Plan(128, 96, pingpong=True, cluster=(1, 2)), (136, 384, 136)),
    "equal shares": ("NT", Plan(64, 96, 1, stream=True), (136, 200, 136)),
    "shares of a cluster": ("NT", Plan(64, 96, 1, ways=2, through="cluster"), (72, 104, 136)),
}


@pytest.mark.parametrize("case", sampled([(name,) for name in WITHIN], 0, 2, 3, 5))
def test_a_tile_may_end_within_a_swizzled_row(case: str) -> None:
    """Along a dimension that is contiguous, copies load whole swizzled rows, with columns of the next tile."""
    layout, plan, size = WITHIN[case]
    verified(hopper.gemm(product(layout, size, "f16"), plan))


def test_shared_memory_holds_whole_swizzled_rows() -> None:
    """224 columns of 16 bits are 3.5 rows of 128 bytes: room and barriers are for four, as the hardware counts them."""
    spec = product("NN", (4096, 4032, 4096), "f16")
    kernel = hopper.gemm(spec, Plan(128, 224)).lowered()
    chunk = (128 + 256) * 128
    sizes = {buffer.name: buffer.nbytes for buffer in kernel.buffers}
    assert sizes["a_sh"] + sizes["b_sh"] == Plan(128, 224).depth(Product(spec)) * chunk
    assert f"mbarrier_expect(&full[ring_slot], {chunk});" in hopper.gemm(spec, Plan(128, 224)).cuda("sm_90a")


def test_products_may_not_read_beyond_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a buffer without the last half row, the next slot's copies write into this one: the simulator finds it."""
    from fireiron.base.errors import SimulationError
    from fireiron.kernel.lower import storage

    made = storage._panels  # pyright: ignore[reportPrivateUsage]

    def small(*given: Any) -> Any:
        found = made(*given)
        if found.shape[-1] == 224:
            found.size = as_expr(64 * 224)
        return found

    monkeypatch.setattr(storage, "_panels", small)
    schedule = hopper.gemm(product("NN", (128, 448, 128), "f16"), Plan(128, 224, stages=2))
    a, b = np.ones((128, 128), np.float16), np.ones((128, 448), np.float16)
    with pytest.raises(SimulationError) as refused:
        schedule.simulate(a, b)
    assert refused.value.code == "not-arrived"


def test_a_tile_within_a_swizzled_row_in_cuda(golden: Callable[[str, str], None]) -> None:
    golden(
        hopper.gemm(product("NN", (4096, 4032, 4096), "f16"), Plan(128, 224)).cuda("sm_90a"),
        "schedules/hopper_columns_of_224.cu",
    )


@pytest.mark.parametrize("case", sampled([(name,) for name in WITHIN], 0, 2, 5))
def test_tiles_within_swizzled_rows_compile_without_spills(case: str) -> None:
    layout, plan, size = WITHIN[case]
    resources = hopper.gemm(product(layout, size, "f16"), plan).compile("sm_90a").resources
    assert not resources.spills
    assert resources.stack == 0
