"""Edges of finished kernels: large products order all of theirs (test_promises.py has the other presets), and every
planted mistake is found without a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from fireiron import Matrix, Vector, add, matmul
from fireiron.algebra.expr import as_expr
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Arrive,
    Await,
    Commit,
    Fence,
    Kernel,
    Raise,
    Statement,
    Sync,
    Turn,
    Wait,
    walk,
)
from fireiron.kernel.passes.edges import unordered
from fireiron.language.levels import Warp
from fireiron.schedules import ampere, hopper, simt
from fireiron.schedules.hopper import Plan

Change = Callable[[Any], "tuple[Statement, ...]"]


def planted(kernel: Kernel, wanted: Callable[[Any], bool], change: Change) -> Iterator[tuple[Statement, Kernel]]:
    """Change each of a kind of statements in turn."""
    for n, hit in enumerate([s for s in walk(kernel.body) if wanted(s)]):
        count = iter(range(1 << 30))

        def one(s: Statement, n: int = n, count: Iterator[int] = count) -> Statement | tuple[Statement, ...]:
            return change(s) if wanted(s) and next(count) == n else s

        yield hit, attrs.evolve(kernel, body=rewrite(kernel.body, one))


def tn(*sizes: int, dtype: str = "bf16") -> Any:
    return matmul(*sizes, dtype, layout="TN", arch="sm_90")


def fused(m: int, n: int, k: int) -> Any:
    return tn(m, n, k).then(add(Vector(n, "bf16", name="bias")), add(Matrix(m, n, "bf16", name="residual")))


@pytest.mark.parametrize("dtype", ["bf16", "e4m3", "tf32", "i8"])
def test_large_products_order_all_their_edges(dtype: str) -> None:
    for sizes in ((4096, 4096, 4096), (64, 64, 8192)):
        assert unordered(hopper.gemm(tn(*sizes, dtype=dtype)).lowered()) == ()


KERNELS: dict[str, Callable[[], Kernel]] = {
    "registers": lambda: simt.sgemm(matmul(130, 140, 36), stages=1).lowered(),
    "cp.async": lambda: ampere.gemm(tn(256, 256, 512), m=64, n=64, warp=(32, 32), k=32, stages=3).lowered(),
    "roles": lambda: hopper.cooperative(tn(512, 512, 1024), Plan(128, 128, 2, stages=4)).lowered(),
    "turns": lambda: hopper.pingpong(tn(512, 512, 1024), Plan(64, 128, 2, pingpong=True, stages=4)).lowered(),
    "a cluster": lambda: hopper.cooperative(tn(512, 512, 1024), Plan(128, 128, 2, cluster=(2, 1), stages=4)).lowered(),
    "sums of a cluster": lambda: hopper.split_k(
        tn(72, 72, 2048), Plan(64, 64, 1, ways=2, through="cluster", stages=3)
    ).lowered(),
    "dependent": lambda: hopper.cooperative(tn(512, 512, 512), Plan(128, 64, 2, dependent=True, stages=4)).lowered(),
    "copied operands": lambda: hopper.gemm(fused(2048, 2048, 128), Plan(128, 128, copied=1, stages=3)).lowered(),
    "promoted": lambda: hopper.gemm(tn(2048, 2048, 4096, dtype="e4m3")).lowered(),
}


def orders(s: Statement) -> bool:
    """Say whether a statement orders something; a launch that may begin early is told so, and waits itself."""
    if isinstance(s, Fence):
        return s.kind != "grid.launch"
    return isinstance(s, Sync | Wait | Commit | Await | Arrive | Turn | Raise)


@pytest.mark.parametrize("name", KERNELS)
def test_every_dropped_statement_is_found(name: str) -> None:
    kernel = KERNELS[name]()
    assert unordered(kernel) == ()
    missed = [str(hit) for hit, broken in planted(kernel, orders, lambda s: ()) if not unordered(broken)]
    assert missed == []


@pytest.mark.parametrize("name", KERNELS)
def test_every_count_that_is_off_by_one_is_found(name: str) -> None:
    kernel = KERNELS[name]()
    mistakes: list[tuple[Callable[[Any], bool], Change]] = [
        (lambda s: isinstance(s, Wait), lambda s: (attrs.evolve(s, pending=s.pending + 1),)),
        (lambda s: isinstance(s, Await), lambda s: (attrs.evolve(s, parity=1 - s.parity),)),
        (lambda s: isinstance(s, Arrive), lambda s: (s, s)),
        (lambda s: isinstance(s, Arrive) and s.nbytes > 0, lambda s: (attrs.evolve(s, nbytes=s.nbytes - 16),)),
        (
            lambda s: isinstance(s, Arrive) and s.barrier.slots > 1,
            lambda s: (attrs.evolve(s, slot=(s.slot + as_expr(1)) % s.barrier.slots),),
        ),
        (lambda s: isinstance(s, Sync) and s.level.size != Warp.size, lambda s: (attrs.evolve(s, level=Warp),)),
    ]
    for wanted, change in mistakes:
        missed = [str(hit) for hit, broken in planted(kernel, wanted, change) if not unordered(broken)]
        assert missed == []


def test_units_in_turn_meet_at_the_mbarriers_of_copied_operands() -> None:
    kernel = hopper.gemm(fused(2048, 2048, 128), Plan(128, 64, pingpong=True, copied=2, stages=3)).lowered()

    def of_operand(s: Statement) -> bool:
        return isinstance(s, Await | Arrive) and s.barrier.name.startswith("residual")

    found = list(planted(kernel, of_operand, lambda s: ()))
    assert len(found) == 4
    assert unordered(kernel) == ()
    assert [str(hit) for hit, broken in found if not unordered(broken)] == []


def test_a_slot_that_is_released_before_its_products_end() -> None:
    kernel = KERNELS["roles"]()

    def early(s: Statement) -> Statement | tuple[Statement, ...]:
        return () if isinstance(s, Wait) and s.group == "wgmma" else s

    found = unordered(attrs.evolve(kernel, body=rewrite(kernel.body, early)))
    assert any("in flight (wgmma)" in edge.lacks or "nothing tells" in edge.lacks for edge in found)


def test_findings_name_both_accesses_and_what_lacks() -> None:
    kernel = KERNELS["roles"]()
    broken = dict(planted(kernel, lambda s: isinstance(s, Fence) and s.kind == "proxy.async", lambda s: ()))
    (found,) = [unordered(k) for k in broken.values()]
    assert "acc_sh written by stmatrix.x4 (math) -> acc_sh read by tma.store.2d.128B (math): no fence" in str(found[0])
