"""Products in flight: what the pass derives for A in registers, and that it asks for no more than is needed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Matrix, Vector, Warp, Warpgroup, add, inplace, matmul, relu, tensor, tma
from fireiron.base.errors import FireironError
from fireiron.front.cli.find import Target, presets
from fireiron.front.cli.problem import Problem
from fireiron.jit.disassemble import disassemble
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Call, Commit, Fence, Region, Statement, Wait, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import attention, attention_gradients, conv, hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def held(slots: int) -> Any:
    """Give products whose A comes through that many fragments."""
    chain = matmul(128, 128, 256, "f16", layout="TN").tile(128, 128).to(Block).persistent().epilog(memory=FR)
    chain = chain.split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
    chain = chain.tile(64, 128).to(Warpgroup).split(16).unroll()
    chain = chain.pipeline(slots) if slots > 1 else chain
    return chain.load(A, FR, lambda move: move.tile(16, 16).to(Warp).done()).done()


def of(schedule: Any, kind: type[Statement]) -> list[Any]:
    return [s for s in walk(schedule.lowered().body) if isinstance(s, kind)]


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_fragment_is_not_filled_while_products_read_it(slots: int) -> None:
    kernel = held(slots).lowered()
    assert unordered(kernel) == ()
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays)
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64).T
    np.testing.assert_allclose(arrays["C"].astype(np.float64), expected, rtol=1e-2, atol=1e-2)


def test_a_fragment_for_each_step_lets_all_products_be_one_group() -> None:
    def inside(slots: int) -> int:
        return sum(isinstance(s, Wait) and s.group == "wgmma" for s in walk(held(slots).lowered().body))

    assert (inside(1), inside(4)) == (2, 1)


def test_operands_in_shared_memory_take_one_fence_and_one_commit_a_chunk() -> None:
    schedule = hopper.cooperative(matmul(512, 512, 1024, "bf16", layout="TN", arch="sm_90"), Plan(128, 128, 2))
    assert [f.reason for f in of(schedule, Fence) if f.kind == "registers"] == ["accumulators are registers"]
    assert [c.group for c in of(schedule, Commit)] == ["wgmma", "bulk"]
    # One group runs on while the next chunk is awaited; the last one ends behind the loop.
    assert [w.pending for w in of(schedule, Wait) if w.group == "wgmma"] == [1, 0]


def test_sums_that_are_added_to_others_are_held_behind_the_wait() -> None:
    plan = Plan(128, 128, 2, promote=True)
    schedule = hopper.gemm(matmul(512, 512, 1024, "e4m3", layout="TN", arch="sm_90"), plan)
    (wait,) = [w for w in of(schedule, Wait) if w.group == "wgmma"]
    assert wait.pending == 0
    assert wait.holds is not None
    assert wait.holds.name == "chunk"


def written_in_flight(sass: str) -> list[str]:
    """List the instructions that may write a register of A while a product in flight reads it, on any way through.

    A product belongs to the group that the next one with `gsb0` closes; a wait leaves at most that many groups.
    """
    lines = [line for line in sass.splitlines() if re.match(r"\s*(/\*[0-9a-f]{4,}\*/|\.L\w+:)", line)]
    labels = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"\s*(\.L\w+):", line))}
    ways = [ways_on(line, i, labels) for i, line in enumerate(lines)]
    effects = [effect(line) for line in lines]
    seen: list[set[frozenset[tuple[int, int]]]] = [set() for _ in lines]
    todo: list[tuple[int, frozenset[tuple[int, int]]]] = [(0, frozenset())]  # registers, and groups closed since
    found: dict[int, str] = {}
    while todo:
        i, flying = todo.pop()
        if i >= len(lines) or flying in seen[i]:
            continue
        seen[i].add(flying)
        starts, writes, wait = effects[i]
        if writes & {r for r, _ in flying}:
            found[i] = lines[i]
        flying |= {(r, 0) for r in starts}
        if "GMMA" in lines[i] and "gsb0" in lines[i]:
            flying = frozenset((r, closed + 1) for r, closed in flying)
        if wait is not None:
            flying = frozenset((r, closed) for r, closed in flying if closed <= wait)
        todo += [(way, flying) for way in ways[i]]
    return [found[i] for i in sorted(found)]


def ways_on(line: str, i: int, labels: dict[str, int]) -> list[int]:
    """Give the lines that may run behind one."""
    jump = re.search(r"\*/\s+(@\S+ )?(?:BRA|EXIT)\b(?:.*`\((\.L\w+)\))?", line)
    if jump is None:
        return [i + 1]
    return ([i + 1] if jump[1] else []) + ([labels[jump[2]]] if jump[2] else [])


def effect(line: str) -> tuple[frozenset[int], frozenset[int], int | None]:
    """Give the registers of A that a product reads, those that another instruction writes, and what a wait leaves."""
    if (wait := re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d+)", line)) is not None:
        return frozenset(), frozenset(), int(wait[1])
    if (product := re.search(r"[HQ]GMMA\.\S+ R\d+, R(\d+), gdesc", line)) is not None:
        return frozenset(range(int(product[1]), int(product[1]) + 4)), frozenset(), None
    result = re.search(r"\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_.]+) (?:P\w+, )?R(\d+)", line)
    if result is None or result[1].startswith(("HGMMA", "QGMMA", "ST", "RED", "ATOM")):
        return frozenset(), frozenset(), None
    wide = 4 if ".128" in result[1] else 2 if ".64" in result[1] or "WIDE" in result[1] else 1
    return frozenset(), frozenset(range(int(result[2]), int(result[2]) + wide)), None


def test_a_write_in_flight_is_found() -> None:
    product = "/*0010*/ HGMMA.64x64x16.F32.BF16 R24, R88, gdesc[UR4], R24, gsb0 ;\n"
    write, wait = "/*0020*/ FFMA R90, R1, R2, R3 ;\n", "/*0030*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
    ends, label, wide = "/*0040*/ EXIT ;\n", ".L_x_1:\n", "/*0050*/ LDS.128 R88, [R1] ;\n"
    assert len(written_in_flight(product + write + wait)) == 1
    assert written_in_flight(product + wait + write) == []
    around = "/*0015*/ @P0 BRA `(.L_x_1) ;\n"
    assert len(written_in_flight(product + around + wait + ends + label + wide + wait)) == 1
    assert written_in_flight(product + around + wait + ends + label + wait + wide) == []
    later, leaves = product.replace("R88", "R96"), wait.replace("0x0", "0x1")
    assert written_in_flight(product + later + leaves + write) == []
    assert len(written_in_flight(product + later + leaves + write.replace("R90", "R98"))) == 1


# Of heads, whether a mask is causal, and queries and keys: 768 leave an odd number of trips to some tiles alone.
SHAPES = ((64, False, 384), (64, True, 4096), (128, True, 768), (128, False, 384), (256, False, 384))


@pytest.mark.product
@pytest.mark.parametrize(
    ("depth", "causal", "length", "slack"),
    [(*shape, slack) for shape in SHAPES for slack in (0.0, 24.0) if shape[0] <= attention.WIDEST or not slack],
)
def test_no_register_is_written_that_products_still_read(depth: int, causal: bool, length: int, slack: float) -> None:
    """The assembler takes registers that are copied into A's for A's own, though products in flight read these.

    On an H200 attention gave NaN for it; no simulation can see it. Without the pass's rule about copies, and without
    two trips that stand together (`alternating`), three of these kernels hold 150 to 200 such writes.
    """
    q, k, v = (tensor(32, 12, length, depth, dtype="bf16") for _ in range(3))
    schedule = attention.wgmma(attention.attention(q, k, v, causal=causal), slack=slack, speculate=slack > 0)
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []


@pytest.mark.parametrize("depth", [64, 128])
def test_dropout_and_sinks_write_no_register_that_products_still_read(depth: int) -> None:
    q, k, v = (tensor(4, 4, 4096, depth, dtype="bf16") for _ in range(3))
    beside = {"seed": tensor(3, dtype="i32", name="seed"), "sinks": tensor(4, dtype="f32", name="sinks")}
    schedule = attention.wgmma(attention.attention(q, k, v, dropout=0.1, **beside))
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []


@pytest.mark.parametrize("causal", [False, True])
def test_weights_of_8_bits_write_no_register_that_products_still_read(causal: bool) -> None:
    q, k = (tensor(4, 4, 4096, 128, dtype="e4m3") for _ in range(2))
    v = tensor(4, 4, 4096, 128, dtype="e4m3", strides=(1 << 21, 1 << 19, 1, 4096))
    schedule = attention.wgmma(attention.attention(q, k, v, causal=causal, out="bf16"))
    sass = disassemble(schedule.compile("sm_90a").cubin)
    assert "QGMMA" in sass
    assert written_in_flight(sass) == []


@pytest.mark.product
@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("function", ["of_queries", "of_keys"])
def test_gradients_write_no_register_that_products_still_read(function: str, depth: int) -> None:
    four = [tensor(4, 4, 512, depth, dtype="bf16") for _ in range(4)]
    rows = [tensor(4, 4, 512, dtype="f32") for _ in range(2)]
    schedule = attention_gradients.wgmma(getattr(attention_gradients, function)(*four, *rows))
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []


@pytest.mark.parametrize(("depth", "causal"), [(128, True), (64, False)])
def test_gradients_at_once_touch_no_register_of_products_in_flight(depth: int, causal: bool) -> None:
    four, rows = [tensor(4, 4, 512, depth, dtype="bf16") for _ in range(4)], [tensor(4, 4, 512) for _ in range(2)]
    given = (*four, *rows, tensor(4, 4, 512, depth, name="sums"))
    spec = attention_gradients.of_all(*given, causal=causal, out=("bf16", "bf16", inplace("sums")))
    sass = disassemble(attention_gradients.at_once(spec, bulk_rows=True).compile("sm_90a").cubin)
    assert written_in_flight(sass) == []
    assert sums_in_flight(sass) == []


@pytest.mark.parametrize(("rank", "channels"), [(2, 64), (2, 128), (3, 128)])
def test_convolutions_of_what_threads_compute_write_no_register_that_products_still_read(
    rank: int, channels: int
) -> None:
    x, f = tensor(32, *[28, 28, 4][:rank], 128, dtype="f16"), tensor(128, *[3] * rank, 128, dtype="f16", name="f")
    given: dict[str, Any] = {"gain": tensor(128, name="gain"), "shift": tensor(128, name="shift"), "before": relu}
    schedule = conv.wgmma({2: conv.conv2d, 3: conv.conv3d}[rank](x, f, pad=1, **given), channels=channels)
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []


def test_convolutions_of_odd_channels_write_no_register_that_products_still_read() -> None:
    x, f = tensor(32, 28, 28, 133, dtype="f16"), tensor(128, 3, 3, 133, dtype="f16", name="f")
    given: dict[str, Any] = {"gain": tensor(133, name="gain"), "shift": tensor(133, name="shift"), "before": relu}
    schedule = conv.wgmma(conv.conv2d(x, f, pad=1, **given))
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []


@pytest.mark.parametrize(
    ("layout", "plan"),
    [("NN", Plan(128, 256)), ("TT", Plan(256, 128)), ("NT", Plan(128, 256)), ("TT", Plan(128, 128, pingpong=True))],
)
def test_products_of_tf32_from_registers_write_no_register_that_products_still_read(layout: str, plan: Plan) -> None:
    schedule = hopper.gemm(matmul(4096, 4096, 4096, "tf32", layout=layout, arch="sm_90a"), plan)
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []


def sums_in_flight(sass: str) -> list[str]:
    """List the instructions that may touch a register of sums while a product in flight writes it, on any way through.

    A product belongs to the group that the next one with `gsb0` closes; a wait leaves at most that many groups.
    """
    lines = [line for line in sass.splitlines() if re.match(r"\s*(/\*[0-9a-f]{4,}\*/|\.L\w+:)", line)]
    labels = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"\s*(\.L\w+):", line))}
    seen: list[set[frozenset[tuple[int, int, int]]]] = [set() for _ in lines]
    todo: list[tuple[int, frozenset[tuple[int, int, int]]]] = [(0, frozenset())]  # the first, how many, groups closed
    found: dict[int, str] = {}
    while todo:
        i, flying = todo.pop()
        if i >= len(lines) or flying in seen[i]:
            continue
        seen[i].add(flying)
        text = lines[i]
        if (product := re.search(r"GMMA\.64x(\d+)x\S+ R(\d+), ", text)) is not None:
            flying |= {(int(product[2]), int(product[1]) // 2, 0)}
            if "gsb0" in text:
                flying = frozenset((first, count, closed + 1) for first, count, closed in flying)
        elif (wait := re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d+)", text)) is not None:
            flying = frozenset(x for x in flying if x[2] <= int(wait[1]))
        else:
            named = {int(r) for r in re.findall(r"\bR(\d+)\b", text)}
            if any(first <= r < first + count for r in named for first, count, _ in flying):
                found[i] = text
        todo += [(way, flying) for way in ways_on(text, i, labels)]
    return [found[i] for i in sorted(found)]


def test_a_copy_of_sums_in_flight_is_found() -> None:
    first = "/*0010*/ HGMMA.64x96x16.F32.BF16 R72, gdesc[UR4], R72 ;\n"
    last = "/*0020*/ HGMMA.64x96x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;\n"
    wait, copy = "/*0030*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n", "/*0040*/ MOV R8, R119 ;\n"
    assert sums_in_flight(first + last + wait + copy) == []
    assert len(sums_in_flight(first + last + copy + wait)) == 1
    assert len(sums_in_flight(first + wait + last + copy)) == 1  # the first is in no group yet
    assert sums_in_flight(first + last + wait + copy.replace("119", "120")) == []


@pytest.mark.parametrize("plan", [Plan(256, 96), Plan(256, 128), Plan(128, 128)])
def test_shares_of_tiles_copy_no_sums_in_flight(plan: Plan) -> None:
    """The assembler kept a product's sums elsewhere between trips, and copied them ahead of the wait for it.

    On an H200 half of C was wrong for it; no simulation can see it.
    """
    bias, residual = Vector(768, "bf16", name="bias"), Matrix(512, 768, "bf16", name="residual")
    spec = matmul(512, 768, 256, "bf16", layout="TN").then(add(bias), relu, add(residual))
    kernel = hopper.stream_k(spec, plan).compile("sm_90a")
    assert sums_in_flight(disassemble(kernel.cubin)) == []


def test_sums_of_several_products_begin_with_zeros_where_tiles_are_shared() -> None:
    spec = matmul(512, 768, 256, "bf16", layout="TN", arch="sm_90a")

    def begun(schedule: Any) -> bool:
        return any(r.kind == "init" for r in of(schedule, Region))

    assert begun(hopper.stream_k(spec, Plan(256, 96)))
    assert not begun(hopper.stream_k(spec, Plan(128, 128)))
    assert not begun(hopper.gemm(spec, Plan(256, 96)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", presets(), ids=lambda target: target.reference)
def test_no_preset_touches_registers_of_products_in_flight(target: Target) -> None:
    """Of presets that multiply by wgmma, the machine code of the kernel that the command line builds by default."""
    schedule = built(target)
    kernel = None if schedule is None else schedule.lowered("sm_90a")
    if kernel is None or not any(isinstance(s, Call) and s.atom.completion == "wgmma" for s in walk(kernel.body)):
        pytest.skip("no products by wgmma")
    assert schedule is not None
    code = disassemble(schedule.compile("sm_90a").cubin)
    assert (written_in_flight(code), sums_in_flight(code)) == ([], [])


def built(target: Target) -> Any:
    """Build a preset as the command line does by default; None where it asks for more than its defaults."""
    try:
        return target.build(Problem(), {})
    except FireironError:
        return None
