"""Hopper kernels that share out K on the simulator: right however many blocks run, and nothing can be left out."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Warpgroup, by_atomics, by_tma, matmul, stmatrix, through_shared, tma
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import CountIn, For, If, Kernel, Lower, Raise, Region, Roles, Statement, Sync
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays
from tests.kernel.test_planted_cluster import moved

FEW = Plan(m=64, n=16, consumers=1, swapped=True, stages=3)
WIDE = Plan(m=128, n=64, stages=3)


def scheduled(size: tuple[int, int, int], plan: Plan, layout: str = "TN") -> Any:
    return hopper.gemm(matmul(*size, "bf16", layout=layout, arch="sm_90a"), plan)


def check(size: tuple[int, int, int], plan: Plan, launched: int, layout: str = "TN") -> Any:
    """Simulate, and compare with f64 within the rounding to bf16."""
    spec = matmul(*size, "bf16", layout=layout)
    kernel = hopper.gemm(spec, plan).lowered("sm_90a")
    arrays = random_arrays(Interface.of(kernel), {})
    report = simulate(kernel, arrays, launched=launched)
    a, b = (
        x if t.storage == (0, 1) else x.T
        for t, x in ((t, arrays[t.name].astype("f8")) for t in (spec.matmul.A, spec.matmul.B))
    )
    np.testing.assert_allclose(arrays["C"].astype("f8"), a @ b, rtol=2**-8, atol=1e-3)
    return report


@pytest.mark.parametrize(
    ("size", "plan", "launched"),
    [
        ((5, 128, 640), attrs.evolve(FEW, ways=3, panels=2), 4),
        ((1, 128, 512), attrs.evolve(FEW, n=8, ways=2), 3),
        ((200, 136, 512), attrs.evolve(WIDE, ways=2), 5),
        ((200, 136, 512), attrs.evolve(WIDE, ways=3, pingpong=True), 4),
        ((512, 136, 512), attrs.evolve(WIDE, ways=2, cluster=(2, 1)), 4),
    ],
    ids=str,
)
def test_split(size: tuple[int, int, int], plan: Plan, launched: int) -> None:
    check(size, plan, launched)


def by_adding(persistent: bool) -> Kernel:
    """Let blocks of two roles add their sums atomically."""
    spec = matmul(200, 128, 256, "bf16", layout="TN", arch="sm_90a")
    tiled = spec.tile(128, 64).to(Block)
    chain = (tiled.persistent() if persistent else tiled).epilog(memory=FR)
    chain = chain.split(ways=2, multiple_of=64).parallel(Block, reduce=by_atomics()).split(64).pipeline(2).specialize()
    return chain.load(A, SH, tma()).load(B, SH, tma()).tile(64, 64).to(Warpgroup).split(16).unroll().done().lowered()


@pytest.mark.parametrize("launched", [1, 3, None])
def test_roles_add_atomically(launched: int | None) -> None:
    """Additions are ordered before the sum is read by a barrier of the role, which is not all threads'."""
    kernel = by_adding(launched is not None)
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays, launched=launched)
    expected = arrays["A"].astype("f8") @ arrays["B"].astype("f8").T
    np.testing.assert_allclose(arrays["C"].astype("f8"), expected, rtol=2**-8, atol=1e-3)


@pytest.mark.product
@pytest.mark.parametrize("launched", [1, 2, 3, 5, 8, 15])
@pytest.mark.parametrize("size", [(16, 192, 640), (40, 128, 320)], ids=str)
def test_streams_of_any_number_of_units(size: tuple[int, int, int], launched: int) -> None:
    check(size, attrs.evolve(FEW, stream=True), launched)


@pytest.mark.parametrize(
    ("size", "plan", "launched"),
    [
        ((600, 136, 512), attrs.evolve(WIDE, stream=True), 3),  # waves of whole tiles follow those in parts
        ((520, 136, 320), attrs.evolve(WIDE, stream=True, cluster=(2, 1)), 4),
        ((200, 136, 320), attrs.evolve(WIDE, m=192, consumers=3, stream=True), 2),
    ],
    ids=str,
)
def test_streams(size: tuple[int, int, int], plan: Plan, launched: int) -> None:
    check(size, plan, launched)


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_layouts(layout: str) -> None:
    check((136, 72, 320), Plan(m=64, n=64, consumers=1, stages=3, ways=2), 3, layout)
    check((136, 72, 320), Plan(m=64, n=64, consumers=1, stages=3, stream=True), 4, layout)


def test_bulk_stores_add_to_c() -> None:
    spec = matmul(128, 72, 384, "f16", layout="TN", beta=1.0, arch="sm_90a")
    schedule = (
        spec.tile(64, 64).to(Block).persistent()
        .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup))
        .split(ways=3, multiple_of=64).parallel(Block, reduce=by_tma())
        .split(64).pipeline(3, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 64).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    arrays = random_arrays(Interface.of(schedule.lowered()), {})
    rng = np.random.default_rng(1)
    for name in ("A", "B", "C"):
        arrays[name][...] = rng.integers(-1, 2, arrays[name].shape).astype(arrays[name].dtype)
    expected = arrays["A"].astype("f8") @ arrays["B"].astype("f8").T + arrays["C"]
    simulate(schedule.lowered(), arrays, launched=5)
    np.testing.assert_array_equal(arrays["C"], expected)


def changed(body: tuple[Statement, ...], wanted: Any) -> tuple[Statement, ...]:
    """Leave out the statements that a function picks."""
    out: list[Statement] = []
    for statement in body:
        match statement:
            case For(body=inner) | If(body=inner) | Region(body=inner):
                out.append(attrs.evolve(statement, body=changed(inner, wanted)))
            case Roles(roles=roles):
                out.append(Roles(tuple(attrs.evolve(r, body=changed(r.body, wanted)) for r in roles)))
            case _ if wanted(statement):
                pass
            case _:
                out.append(statement)
    return tuple(out)


def broken(kernel: Kernel, wanted: Any, launched: int | None) -> str:
    """Say by which error the simulator finds that statements were left out."""
    other = attrs.evolve(kernel, body=changed(kernel.body, wanted))
    assert other != kernel
    with pytest.raises(SimulationError) as caught:
        simulate(other, random_arrays(Interface.of(kernel), {}), launched=launched)
    return caught.value.code


def test_flags_and_barriers_of_streams_are_needed() -> None:
    kernel = scheduled((16, 192, 640), attrs.evolve(FEW, stream=True)).lowered()
    assert broken(kernel, lambda s: isinstance(s, Raise), 4) == "flag-not-raised"
    assert broken(kernel, lambda s: isinstance(s, Lower), 4) in ("race", "workspace-left")
    assert broken(kernel, lambda s: isinstance(s, Sync) and "all threads" in s.reason, 4) == "race"


@pytest.mark.parametrize(("kind", "by"), [(Raise, -1), (Raise, -2), (Lower, 1)])
def test_flags_stand_behind_writes_and_ahead_of_reads(kind: Any, by: int) -> None:
    """Not ahead of the barrier, nor of the writes; not behind the reads."""
    kernel = scheduled((16, 192, 640), attrs.evolve(FEW, stream=True)).lowered()
    other = moved(kernel, lambda s: isinstance(s, kind), by)
    with pytest.raises(SimulationError) as caught:
        simulate(other, random_arrays(Interface.of(kernel), {}), launched=4)
    assert caught.value.code in ("race", "uninitialised-read")


def test_the_barrier_before_counting_in_is_needed() -> None:
    kernel = scheduled((200, 136, 512), attrs.evolve(WIDE, ways=2)).lowered()
    assert broken(kernel, lambda s: isinstance(s, Sync) and "all threads" in s.reason, 4) == "race"


@pytest.mark.parametrize("launched", [3, None])
def test_roles_that_add_meet_before_they_count_in(launched: int | None) -> None:
    assert broken(
        by_adding(launched is not None), lambda s: isinstance(s, Sync) and "all threads" in s.reason, launched
    ) == ("race")


def test_counting_in_must_release_and_acquire() -> None:
    kernel = scheduled((16, 128, 640), attrs.evolve(FEW, ways=2)).lowered()

    def ordered(body: tuple[Statement, ...], order: Any) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in body:
            match s:
                case For(body=inner) | If(body=inner) | Region(body=inner):
                    out.append(attrs.evolve(s, body=ordered(inner, order)))
                case Roles(roles=roles):
                    out.append(Roles(tuple(attrs.evolve(r, body=ordered(r.body, order)) for r in roles)))
                case CountIn():
                    out.append(attrs.evolve(s, order=order))
                case _:
                    out.append(s)
        return tuple(out)

    for order in ("release", "acquire", "relaxed"):
        other = attrs.evolve(kernel, body=ordered(kernel.body, order))
        with pytest.raises(SimulationError) as caught:
            simulate(other, random_arrays(Interface.of(kernel), {}), launched=3)
        assert caught.value.code == "race"
