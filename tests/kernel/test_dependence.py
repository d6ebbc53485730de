"""Dependent launches: where a kernel waits for the one before, and where it lets the one behind begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Matrix,
    Move,
    RowMajor,
    Swizzle,
    Thread,
    Warp,
    conform,
    cp_async,
    f32,
    ldmatrix,
    matmul,
)
from fireiron.algebra.expr import Var, eq, lt
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import (
    Call,
    CountIn,
    Fence,
    For,
    If,
    Kernel,
    Lower,
    Raise,
    Region,
    Roles,
    Statement,
    walk,
)
from fireiron.kernel.passes.dependence import LAUNCH, WAIT, dependent
from fireiron.language.levels import GL
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

Golden = Callable[[str, str], None]
WIDE = Plan(m=128, n=64, stages=3, dependent=True)


def roles(plan: Plan = WIDE, size: tuple[int, int, int] = (200, 136, 512), **more: Any) -> Any:
    return hopper.gemm(matmul(*size, "bf16", layout="TN", arch="sm_90a", **more), plan)


def plain(persistent: bool = False) -> Any:
    tiled = matmul(136, 72, 128, "f16", layout="TN", arch="sm_90a").tile(64, 64).to(Block)
    return (
        (tiled.persistent() if persistent else tiled).dependent().epilog(memory=FR, store=conform(4))
        .split(32).pipeline(3)
        .load(A, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3)).load(B, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3))
        .tile(32, 32).to(Warp).split(16).unroll()
        .load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()
    )  # fmt: skip


def fences(kernel: Kernel, kind: str) -> list[Fence]:
    return [s for s in walk(kernel.body) if isinstance(s, Fence) and s.kind == kind]


def without(body: tuple[Statement, ...], gone: Callable[[Statement], bool]) -> tuple[Statement, ...]:
    """Leave out statements."""
    out: list[Statement] = []
    for s in body:
        match s:
            case For(body=inner) | If(body=inner) | Region(body=inner):
                out.append(attrs.evolve(s, body=without(inner, gone)))
            case Roles(roles=parts):
                out.append(Roles(tuple(attrs.evolve(r, body=without(r.body, gone)) for r in parts)))
            case _:
                out += () if gone(s) else (s,)
    return tuple(out)


def run(kernel: Kernel, launched: int | None = None) -> None:
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays, launched=launched)
    a, b = arrays["A"].astype("f8"), arrays["B"].astype("f8").T
    np.testing.assert_allclose(arrays["C"].astype("f8"), a @ b, rtol=2**-8, atol=1e-2)


@pytest.mark.parametrize(
    "plan",
    [
        WIDE,
        attrs.evolve(WIDE, pingpong=True),
        attrs.evolve(WIDE, cluster=(2, 1)),
        attrs.evolve(WIDE, ways=2),
        attrs.evolve(WIDE, ways=2, through="cluster"),
        attrs.evolve(WIDE, stream=True),
    ],
    ids=str,
)
def test_each_role_waits_and_the_one_that_loads_tells(plan: Plan) -> None:
    kernel = roles(plan).lowered()
    assert kernel.dependent
    assert (len(fences(kernel, "grid.wait")), len(fences(kernel, "grid.launch"))) == (2, 1)
    (parts,) = (s for s in kernel.body if isinstance(s, Roles))
    assert [sum(isinstance(s, Fence) and s.kind == "grid.wait" for s in walk(r.body)) for r in parts.roles] == [1, 1]
    text = roles(plan).cuda()
    waits, tells = text.index("grid_wait();  //"), text.index("grid_launch();  //")
    assert text.index("fence_barrier_init();  //") < waits < text.index("tma_load_2d", waits) < tells
    assert tells < text.index("// math") < text.index("grid_wait();  //", tells) < text.index("wgmma_", tells)
    assert text.count("prefetch_map(&") == 3
    assert text.rindex("prefetch_map(&") < waits
    run(kernel, 4)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_block_without_roles(persistent: bool) -> None:
    kernel = plain(persistent).lowered()
    assert (len(fences(kernel, "grid.wait")), len(fences(kernel, "grid.launch"))) == (1, 1)
    text = plain(persistent).cuda()
    assert text.index("grid_wait();  //") < text.index("cp_async_or_zero_16B(&a_sh")
    assert text.index("mma_m16n8k16_f32_f16(&acc") < text.index("grid_launch();  //") < text.index("copy_4B(&C")
    assert ("if (trip == (5 - block) / blocks) {" in text) == persistent, "in the last trip alone"
    run(kernel)


def test_groups_are_found_behind_the_wait() -> None:
    spec = matmul(300, 64, 128, "bf16", layout="TN", groups=3, arch="sm_90a")
    text = hopper.gemm(spec, Plan(m=64, n=64, consumers=1, dependent=True)).cuda()
    (_, load, math) = text.split("grid_wait();  //")
    assert load.count("find_group(&") == math.count("find_group(&") == text.count("find_group(&") / 2 == 1


def test_groups_are_found_behind_the_wait_without_roles() -> None:
    schedule = (
        matmul(136, 72, 64, "f16", layout="TN", groups=3, arch="sm_90a")
        .tile(64, 64, batch=1).to(Block).dependent().epilog(memory=FR, store=conform(2))
        .split(32).pipeline(2)
        .load(A, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3)).load(B, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3))
        .tile(32, 32).to(Warp).split(16).unroll()
        .load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()
    )  # fmt: skip
    text = schedule.cuda()
    assert text.index("grid_wait();  //") < text.index("find_group(&offsets") < text.index("cp_async_or_zero_16B(&a_sh")
    arrays = random_arrays(Interface.of(schedule.lowered()), {})
    simulate(schedule.lowered(), arrays)


def test_moves_and_pointwise_ops() -> None:
    x, y = Matrix(256, 128, f32, RowMajor, name="x"), Matrix(256, 128, f32, RowMajor, name="y")
    made = Move(x, y).tile(32, 128).to(Block).dependent().tile(1, 4).to(Thread).done()
    kernel = made.lowered("sm_90")
    assert (len(fences(kernel, "grid.wait")), len(fences(kernel, "grid.launch"))) == (1, 1)
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays)
    np.testing.assert_array_equal(arrays["y"], arrays["x"])


def accesses() -> list[Call]:
    """Give a load from global memory, and a store to it."""
    calls = [s for s in walk(plain().lowered().body) if isinstance(s, Call)]
    return [next(call for call in calls if call.views[i].buffer.memory == GL) for i in range(2)]


def test_a_wait_stands_under_a_condition_only_where_all_accesses_do() -> None:
    load, store = accesses()
    some = lt(Var("thread", 128), 32)
    assert dependent((If(some, (load,)),)) == (If(some, (WAIT, load)),)
    assert dependent((If(some, (load,)), store)) == (WAIT, If(some, (load,)), LAUNCH, store)
    assert dependent((If(some, (store,)), store)) == (WAIT, LAUNCH, If(some, (store,)), store)


def test_flags_are_global_memory_too() -> None:
    kernel = roles(attrs.evolve(WIDE, ways=2)).lowered()
    count = next(s for s in walk(kernel.body) if isinstance(s, CountIn))
    for flag in (count, Raise(count.counter, count.level), Lower(count.counter, count.level)):
        assert dependent((flag,)) == (WAIT, LAUNCH, flag)


def test_loads_may_not_move_ahead_of_the_wait() -> None:
    # What is promised to be read by nobody else's leave may be read through a cache that no fence orders.
    assert "__restrict__" not in plain().cuda()
    assert "__restrict__" in roles(attrs.evolve(WIDE, dependent=False)).cuda()


def test_prints(golden: Golden) -> None:
    golden(roles(Plan(m=128, n=64, stages=4, dependent=True)).cuda(), "kernel/dependent.cu")


@pytest.mark.parametrize(
    "made", [roles, plain, lambda: roles(attrs.evolve(WIDE, ways=2))], ids=["roles", "plain", "k2"]
)
def test_waits_are_needed(made: Callable[[], Any]) -> None:
    kernel = made().lowered()
    found = fences(kernel, "grid.wait")
    for i in range(len(found)):
        seen: list[Statement] = []

        def gone(s: Statement, i: int = i, seen: list[Statement] = seen) -> bool:
            if not (isinstance(s, Fence) and s.kind == "grid.wait"):
                return False
            seen.append(s)
            return len(seen) == i + 1

        with pytest.raises(SimulationError) as caught:
            simulate(attrs.evolve(kernel, body=without(kernel.body, gone)), random_arrays(Interface.of(kernel), {}))
        assert caught.value.code == "launch-not-awaited"
        assert "before it has waited for the launch before" in caught.value.message


def test_one_threads_wait_is_not_anothers() -> None:
    kernel = plain().lowered()

    def narrowed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in body:
            match s:
                case For(body=inner) | If(body=inner) | Region(body=inner):
                    out.append(attrs.evolve(s, body=narrowed(inner)))
                case Fence(kind="grid.wait"):
                    out.append(If(eq(Var("thread", 128), 0), (s,)))
                case _:
                    out.append(s)
        return tuple(out)

    with pytest.raises(SimulationError) as caught:
        simulate(attrs.evolve(kernel, body=narrowed(kernel.body)), random_arrays(Interface.of(kernel), {}))
    assert caught.value.code == "launch-not-awaited"
    assert "thread 1 of block 0" in caught.value.message


def test_the_tree_and_the_interface_say_so() -> None:
    schedule = plain()
    assert "to Block dependent" in schedule.tree()
    interface = Interface.of(schedule.lowered())
    assert interface.dependent
    assert Interface.from_json(interface.to_json()) == interface


@pytest.mark.parametrize("made", [roles, plain], ids=["roles", "plain"])
def test_compiles(made: Callable[[], Any]) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    kernel = made().compile()
    assert not kernel.resources.spills
    assert kernel.ptx.count("griddepcontrol.launch_dependents") == 1
    assert kernel.ptx.count("griddepcontrol.wait") == (2 if made is roles else 1)


def test_threads_that_load_nothing_wait_too() -> None:
    """The first load is of few threads, under a condition; the others touch global memory behind it."""
    chain = matmul(8, 32, 12, arch="sm_90a").tile(1, 16).to(Block).dependent().epilog(memory=RF).load(A, SH)
    kernel = chain.tile(1, 1).to(Thread).split(1).load(A, RF).load(B, RF).done().lowered()
    assert len(fences(kernel, "grid.wait")) == 1
    assert not [
        s for s in walk(kernel.body) if isinstance(s, If) and any(x in s.body for x in fences(kernel, "grid.wait"))
    ]
    simulate(kernel, random_arrays(Interface.of(kernel), {}))
