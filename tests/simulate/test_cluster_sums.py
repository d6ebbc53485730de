"""Sums of a cluster on the simulator: right for any shares, and no barrier between its blocks can be left out."""

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
    Swizzle,
    Thread,
    Warp,
    by_cluster,
    conform,
    cp_async,
    ldmatrix,
    matmul,
    relu,
    symbol,
)
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Arrive, Await, For, If, Kernel, Region, Roles, Statement, Sync
from fireiron.language.levels import Cluster
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

FEW = Plan(m=64, n=16, consumers=1, swapped=True, stages=3, through="cluster")
WIDE = Plan(m=128, n=64, stages=3, through="cluster")


def expected(spec: Any, arrays: Any) -> Any:
    a, b = (
        x if t.storage == (0, 1) else x.T
        for t, x in ((t, arrays[t.name].astype("f8")) for t in (spec.matmul.A, spec.matmul.B))
    )
    return a @ b


def check(spec: Any, schedule: Any, launched: int | None = None, f: Any = None, **sizes: int) -> Any:
    """Simulate, and compare with f64 within the rounding of the result."""
    kernel = schedule.lowered("sm_90a")
    arrays = random_arrays(Interface.of(kernel), sizes)
    simulate(kernel, arrays, sizes, launched=launched)
    want = expected(spec, arrays)
    want = want if f is None else f(want)
    np.testing.assert_allclose(arrays["C"].astype("f8"), want, rtol=2**-8, atol=1e-2)
    return arrays


@pytest.mark.parametrize(
    ("size", "plan", "launched"),
    [
        ((5, 128, 640), attrs.evolve(FEW, ways=3, panels=2), 3),  # two of three blocks finish a half
        ((1, 128, 512), attrs.evolve(FEW, n=8, ways=2), 2),  # one finishes it all
        ((200, 136, 512), attrs.evolve(WIDE, ways=2), 4),
        ((136, 72, 512), attrs.evolve(WIDE, ways=8), 16),
        ((264, 136, 512), attrs.evolve(WIDE, ways=3, pingpong=True), 3),  # several trips of each warpgroup
    ],
    ids=str,
)
def test_presets(size: tuple[int, int, int], plan: Plan, launched: int) -> None:
    spec = matmul(*size, "bf16", layout="TN")
    check(spec, hopper.split_k(spec, plan), launched)


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_layouts(layout: str) -> None:
    spec = matmul(136, 72, 320, "bf16", layout=layout)
    check(spec, hopper.gemm(spec, Plan(m=64, n=64, consumers=1, stages=3, ways=2, through="cluster")), 4)


def test_c_may_be_added_to() -> None:
    spec = matmul(136, 72, 320, "f16", layout="TN", beta=1.0, arch="sm_90a")
    kernel = hopper.gemm(spec, attrs.evolve(WIDE, ways=2)).lowered()
    arrays = random_arrays(Interface.of(kernel), {})
    want = expected(spec, arrays) + arrays["C"]
    simulate(kernel, arrays, launched=4)
    np.testing.assert_allclose(arrays["C"].astype("f8"), want, rtol=2**-9, atol=1e-2)


@pytest.mark.parametrize("k", [64, 128, 520])
def test_sizes_of_which_some_blocks_get_nothing(k: int) -> None:
    spec = matmul(
        symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=8), "bf16", layout="TN", arch="sm_90a"
    )
    plan = Plan(m=64, n=64, consumers=1, stages=3, ways=4, through="cluster")
    check(spec, hopper.gemm(spec, plan), 4, M=70, N=72, K=k)


def ampere(ways: int, shares: int | None = None, inner: bool = False, persistent: bool = False) -> tuple[Any, Any]:
    """Share out K of a product by instructions of Ampere, without roles: any block may be one of a cluster."""
    spec = matmul(136, 72, 384, "f16", layout="TN", arch="sm_90a")
    tiled = spec.tile(64, 64).to(Block)
    summed = (
        (tiled.persistent() if persistent else tiled).epilog(relu, memory=FR, store=conform(4))
        .split(ways=ways, multiple_of=32).parallel(Block, reduce=by_cluster(shares))
    )  # fmt: skip
    loaded = (
        summed.split(32).pipeline(3)
        .load(A, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3)).load(B, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3))
    )  # fmt: skip
    mapped = loaded.split(16).parallel(Warp).tile(64, 64).to(Warp) if inner else loaded.tile(16, 64).to(Warp).split(16)
    mapped = mapped if inner else mapped.unroll()
    return spec, mapped.load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()


@pytest.mark.parametrize(
    "how",
    [{"ways": 4}, {"ways": 3}, {"ways": 4, "shares": 1}, {"ways": 2, "inner": True}, {"ways": 2, "persistent": True}],
    ids=str,
)
def test_without_roles(how: dict[str, Any]) -> None:
    spec, schedule = ampere(**how)
    check(spec, schedule, f=lambda x: np.maximum(x, 0))


@pytest.mark.parametrize(
    ("tile", "loop", "thread", "ways"),
    [
        ((32, 32), (16, 8), (1, 2), 4),  # shares of neighbours, two each: vectors of two
        ((32, 32), (16, 8), (1, 1), 4),
        ((32, 32), (32, 8), (4, 2), 4),
        ((32, 60), (32, 60), (4, 8), 4),  # the last threads' columns end in the middle
    ],
    ids=str,
)
def test_what_threads_of_cuda_cores_hold(
    tile: tuple[int, int], loop: tuple[int, int], thread: tuple[int, int], ways: int
) -> None:
    spec = matmul(40, 80, 128, layout="TN", arch="sm_90a")
    summed = (
        spec.tile(*tile).to(Block).epilog(memory=RF)
        .split(ways=ways, multiple_of=16).parallel(Block, reduce=by_cluster())
    )  # fmt: skip
    looped = summed.split(16).load(A, SH).load(B, SH).tile(*loop).unroll().tile(*thread).to(Thread)
    check(spec, looped.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done())


def test_every_run_gives_the_same_bits() -> None:
    spec, schedule = ampere(4)
    first, again = (check(spec, schedule, f=lambda x: np.maximum(x, 0))["C"] for _ in range(2))
    np.testing.assert_array_equal(first.view("u2"), again.view("u2"))


Change = Callable[[Statement], Statement]


def changed(
    body: tuple[Statement, ...], wanted: Callable[[Statement], bool], change: Change | None
) -> tuple[Statement, ...]:
    """Change the statements that a function picks, or leave them out."""
    out: list[Statement] = []
    for statement in body:
        match statement:
            case _ if wanted(statement):
                out += [] if change is None else [change(statement)]
            case For(body=inner) | If(body=inner) | Region(body=inner):
                out.append(attrs.evolve(statement, body=changed(inner, wanted, change)))
            case Roles(roles=roles):
                out.append(Roles(tuple(attrs.evolve(r, body=changed(r.body, wanted, change)) for r in roles)))
            case _:
                out.append(statement)
    return tuple(out)


def broken(kernel: Kernel, wanted: Callable[[Statement], bool], change: Change | None = None) -> str:
    """Say by which error the simulator finds that statements were left out, or changed."""
    other = attrs.evolve(kernel, body=changed(kernel.body, wanted, change))
    assert other != kernel
    with pytest.raises(SimulationError) as caught:
        simulate(other, random_arrays(Interface.of(kernel), {}), launched=kernel.cluster if kernel.persistent else None)
    return caught.value.code


def of_barrier(kind: type[Await] | type[Arrive], name: str) -> Callable[[Statement], bool]:
    return lambda s: isinstance(s, kind) and s.barrier.name == name


KERNELS = {
    "roles": lambda: hopper.split_k(
        matmul(136, 72, 512, "bf16", layout="TN", arch="sm_90a"), attrs.evolve(WIDE, ways=4)
    ),
    "plain": lambda: ampere(4)[1],
    "loop": lambda: ampere(4, persistent=True)[1],
}


@pytest.mark.parametrize("made", KERNELS.values(), ids=KERNELS)
def test_barriers_of_the_cluster_are_needed(made: Callable[[], Any]) -> None:
    kernel = made().lowered()
    assert broken(kernel, of_barrier(Await, "summed")) in ("race", "uninitialised-read")
    assert broken(kernel, of_barrier(Arrive, "summed")) == "deadlock"
    assert broken(kernel, of_barrier(Await, "taken")) in ("race", "peer-exited")
    assert broken(kernel, of_barrier(Arrive, "taken")) == "deadlock"
    assert broken(kernel, lambda s: isinstance(s, Sync) and s.level == Cluster) == "uninitialised-barrier"


@pytest.mark.parametrize("made", KERNELS.values(), ids=KERNELS)
def test_warps_meet_before_they_tell_what_they_wrote(made: Callable[[], Any]) -> None:
    assert broken(made().lowered(), lambda s: isinstance(s, Sync) and "written its sums" in s.reason) == "race"


@pytest.mark.parametrize("name", ["plain", "loop"])
def test_warps_meet_before_they_tell_what_they_read(name: str) -> None:
    # Roles store through shared memory, with barriers of their own in between.
    kernel = KERNELS[name]().lowered()
    assert broken(kernel, lambda s: isinstance(s, Sync) and "read its part" in s.reason) in ("race", "peer-exited")


@pytest.mark.product
@pytest.mark.parametrize("barrier", ["summed", "taken"])
@pytest.mark.parametrize("kind", [Await, Arrive])
@pytest.mark.parametrize("made", KERNELS.values(), ids=KERNELS)
def test_the_sums_take_barriers_that_order_the_cluster(
    made: Callable[[], Any], kind: type[Await] | type[Arrive], barrier: str
) -> None:
    code = broken(made().lowered(), of_barrier(kind, barrier), lambda s: attrs.evolve(s, wide=False))
    assert code == "narrow-barrier"


@pytest.mark.parametrize("made", KERNELS.values(), ids=KERNELS)
def test_the_cluster_meets_behind_the_initialisation_of_barriers(made: Callable[[], Any]) -> None:
    """A barrier of the block tells nothing of the peers' mbarriers."""

    def meets(s: Any) -> bool:
        return isinstance(s, Sync) and s.level == Cluster and s.relaxed

    assert broken(made().lowered(), meets, lambda s: attrs.evolve(s, level=Block)) == "uninitialised-barrier"
