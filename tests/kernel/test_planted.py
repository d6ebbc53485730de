"""Mistakes planted in lowered kernels: the simulator finds every one, so no derived barrier or predicate is idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import matmul, staged, through_shared, vector
from fireiron.algebra.expr import Expr, Var, free, substitute
from fireiron.base.errors import FireironError, SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import (
    BLOCK,
    Call,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Region,
    Statement,
    Sync,
    View,
    walk,
)
from fireiron.kernel.lower.kernel import lower
from fireiron.language.decompositions import Done
from fireiron.language.levels import GL, SH
from fireiron.schedules import simt
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

Rewrite = Callable[[Statement], "tuple[Statement, ...]"]


def rewritten(body: tuple[Statement, ...], rewrite: Rewrite) -> tuple[Statement, ...]:
    """Replace statements, outer ones first."""
    out: list[Statement] = []
    for statement in (new for old in body for new in rewrite(old)):
        if isinstance(statement, For | If | Region):
            statement = attrs.evolve(statement, body=rewritten(statement.body, rewrite))
        out.append(statement)
    return tuple(out)


def nth(kernel: Kernel, n: int, wanted: Callable[[Statement], bool], change: Rewrite) -> Kernel:
    """Change the n-th statement of a kind, counted in program order."""
    hit = [s for s in walk(kernel.body) if wanted(s)][n]
    seen: list[Statement] = []

    def rewrite(statement: Statement) -> tuple[Statement, ...]:
        if statement is hit and not seen:
            seen.append(statement)
            return change(statement)
        return (statement,)

    body = rewritten(kernel.body, rewrite)
    assert seen
    return attrs.evolve(kernel, body=body)


def count(kernel: Kernel, wanted: Callable[[Statement], bool]) -> int:
    return sum(1 for s in walk(kernel.body) if wanted(s))


def run(kernel: Kernel) -> bool:
    """Run a kernel, and say whether its result is right."""
    arrays = random_arrays(Interface.of(kernel), {})
    a, b = arrays["A"].astype(np.float64), arrays["B"].astype(np.float64)
    simulate(kernel, arrays)
    return bool(np.allclose(arrays["C"], a @ b, rtol=1e-3, atol=1e-4))


def outcome(kernel: Kernel) -> str:
    """Run a kernel, and give the code of its fault, else whether its result is right."""
    try:
        return "right" if run(kernel) else "wrong"
    except SimulationError as error:
        return error.code


def found(kernel: Kernel, *codes: str) -> SimulationError:
    with pytest.raises(SimulationError) as caught:
        run(kernel)
    assert caught.value.code in codes, str(caught.value)
    return caught.value


def is_sync(statement: Statement) -> bool:
    return isinstance(statement, Sync)


SCHEDULES: dict[str, Callable[..., Any]] = {
    "listing2": lambda k=36: simt.listing2(matmul(130, 140, k)),
    "listing4": lambda k=36: simt.listing4(matmul(130, 140, k)),
    "sgemm, 1 stage": lambda k=36: simt.sgemm(matmul(130, 140, k), stages=1),
    "sgemm, 2 stages": lambda k=36: simt.sgemm(matmul(130, 140, k), stages=2),
    "sgemm, 3 stages": lambda k=36: simt.sgemm(matmul(130, 140, k), stages=3),
    "sgemm, 2 slots of registers": lambda k=36: simt.sgemm(matmul(130, 140, k), ahead=2),
}


def barriers(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Give the kernel without each of its barriers."""
    for n in range(count(kernel, is_sync)):
        yield [s for s in walk(kernel.body) if isinstance(s, Sync)][n].reason, nth(kernel, n, is_sync, lambda s: ())


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_removed_barrier_is_found(name: str) -> None:
    kernel = SCHEDULES[name]().lowered()
    assert run(kernel)
    assert count(kernel, is_sync) >= 2
    for reason, broken in barriers(kernel):
        with pytest.raises(SimulationError) as caught:
            run(broken)
        assert caught.value.code == "race", (reason, str(caught.value))


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("store", ["whole", "panel", "reuse", "panel, reuse"])
@pytest.mark.parametrize("load", ["vector", "staged"])
def test_every_removed_barrier_is_found_with_a_store_through_shared(
    chains: Any, stages: int, store: str, load: str
) -> None:
    from fireiron import SH, A, B

    strategy = staged() if load == "staged" else vector()
    stored = through_shared(panel=(16, 32) if "panel" in store else None, reuse="reuse" in store)
    outer = chains.outer(matmul(45, 37, 36), store=stored).pipeline(stages)
    kernel = chains.inner(outer.load(A, SH, strategy).load(B, SH, strategy)).lowered()
    assert run(kernel)
    for reason, broken in barriers(kernel):
        assert outcome(broken) == "race", f"nobody misses the barrier of `{reason}`"


def test_a_no_sync_too_many() -> None:
    """Trusted, listing2's claims drop the barriers between writing A and B and reading them; else they are refused."""
    from fireiron import RF, SH, A, B, Block, Thread, Warp

    chain = (
        matmul(64, 64, 16).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).no_sync().load(B, SH).no_sync()
        .tile(16, 16).to(Warp).tile(4, 2).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll()
    )  # fmt: skip
    with pytest.raises(FireironError) as caught:
        chain.done()
    assert caught.value.code == "no-sync-needed"
    closed = Done(None)
    kernel = lower(chain.program, (*chain.links, closed), "trusted", trust_no_sync=True)
    found(kernel, "race")


def with_view(change: Callable[[View], View], name: str) -> Rewrite:
    def rewrite(statement: Statement) -> tuple[Statement, ...]:
        match statement:
            case Call(views=views) if any(v.buffer.name == name for v in views):
                return (attrs.evolve(statement, views=tuple(change(v) if v.buffer.name == name else v for v in views)),)
            case _:
                return (statement,)

    return rewrite


def moves(kernel: Kernel, src: str, dst: str) -> Callable[[Statement], bool]:
    return lambda s: (
        isinstance(s, Call) and s.atom.kind == "Move" and (s.views[0].buffer.name, s.views[1].buffer.name) == (src, dst)
    )


@pytest.mark.parametrize("name", ["listing2", "sgemm, 2 stages"])
def test_a_wrong_stride(name: str) -> None:
    """A pitch one too large or too small reads beyond the end, reads what nobody wrote, or gives a wrong product."""
    kernel = SCHEDULES[name]().lowered()
    for buffer in ("A", "B", "a_sh", "b_sh"):
        hits = [s for s in walk(kernel.body) if isinstance(s, Call) and s.views[0].buffer.name == buffer]
        assert hits
        for n in range(len(hits)):
            broken = nth(
                kernel, n, lambda s, b=buffer: isinstance(s, Call) and s.views[0].buffer.name == b,
                with_view(lambda v: attrs.evolve(v, offset=v.offset * 2), buffer),
            )  # fmt: skip
            faults = ("wrong", "out-of-bounds", "uninitialised-read", "misaligned", "race")
            assert outcome(broken) in faults, (buffer, n)


@pytest.mark.parametrize("name", ["listing2", "sgemm, 2 stages"])
def test_a_write_beside_its_place(name: str) -> None:
    kernel = SCHEDULES[name]().lowered()
    stores = moves(kernel, "acc", "C")
    shifted = nth(kernel, 0, stores, with_view(lambda v: attrs.evolve(v, offset=v.offset + 2, origin=()), "C"))
    with pytest.raises(SimulationError) as caught:
        assert run(shifted)
    assert caught.value.code in ("out-of-bounds", "race", "misaligned")


@pytest.mark.parametrize("name", ["listing2", "listing4", "sgemm, 2 stages"])
def test_overlapping_tiles(name: str) -> None:
    """Two blocks that write one tile are found, and so are two threads."""
    kernel = SCHEDULES[name]().lowered()
    block = next(v for s in walk(kernel.body) if isinstance(s, Let) for v in _variables(s.value) if v.name == BLOCK)
    again: dict[Var, Expr] = {block: block // 2}

    def rewrite(statement: Statement) -> tuple[Statement, ...]:
        return (
            (attrs.evolve(statement, value=substitute(statement.value, again)),)
            if isinstance(statement, Let)
            else (statement,)
        )

    found(attrs.evolve(kernel, body=rewritten(kernel.body, rewrite)), "race")
    lane = next(s for s in walk(kernel.body) if isinstance(s, Let) and s.var.name.startswith("lane"))

    def merge(statement: Statement) -> tuple[Statement, ...]:
        return (attrs.evolve(statement, value=statement.value // 2),) if statement is lane else (statement,)

    found(attrs.evolve(kernel, body=rewritten(kernel.body, merge)), "race")


def _variables(e: Expr) -> list[Var]:
    return [leaf for leaf in free(e) if isinstance(leaf, Var)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_dropped_predicate(name: str) -> None:
    """Every predicate of a size that tiles do not divide matters."""
    kernel = SCHEDULES[name]().lowered()
    for field in ("read", "write"):
        guarded = lambda s, f=field: isinstance(s, Call) and getattr(s, f) is not None  # noqa: E731
        for n in range(count(kernel, guarded)):
            found(nth(kernel, n, guarded, lambda s, f=field: (attrs.evolve(s, **{f: None}),)), "out-of-bounds")


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_dropped_guard(name: str) -> None:
    """Without its guard a pipeline loads chunks behind the last one.

    Where chunks are partial, predicates hold those off too. What it then puts into a slot that nobody reads
    any more is no mistake: that guard saves time alone.
    """
    kernel = SCHEDULES[name](40).lowered()
    assert run(kernel)

    def ifs(s: Statement) -> bool:
        return isinstance(s, If) and any(isinstance(x, Call) and x.views[0].buffer.memory == GL for x in walk(s.body))

    assert (count(kernel, ifs) > 0) == (name not in ("listing2", "listing4", "sgemm, 1 stage"))
    for n in range(count(kernel, ifs)):
        broken = nth(kernel, n, ifs, lambda s: s.body)  # pyright: ignore[reportAttributeAccessIssue]
        faults = ("wrong", "out-of-bounds", "race", "uninitialised-read")
        assert outcome(broken) in faults, f"the guard {n} guards nothing"


@pytest.mark.parametrize("name", ["listing2", "listing4"])
def test_a_read_before_its_load(name: str) -> None:
    """The compute of each chunk stands before its loads: the first one reads what nobody wrote."""
    kernel = SCHEDULES[name]().lowered()
    loop = next(s for s in walk(kernel.body) if isinstance(s, For) and any(isinstance(x, Sync) for x in walk(s.body)))
    reads = [i for i, s in enumerate(loop.body) if any(_reads_shared(x) for x in walk((s,)))]
    first = reads[0]
    swapped = attrs.evolve(loop, body=(*loop.body[first:], *loop.body[:first]))
    broken = attrs.evolve(
        kernel, body=rewritten(kernel.body, lambda s: (swapped,) if isinstance(s, For) and s.var == loop.var else (s,))
    )
    found(broken, "uninitialised-read")


def _reads_shared(statement: Statement) -> bool:
    return isinstance(statement, Call) and statement.views[0].buffer.memory == SH


def test_registers_read_before_they_are_filled() -> None:
    kernel = SCHEDULES["listing2"]().lowered()
    fills = lambda s: isinstance(s, Compute) and s.dst.buffer.name == "acc"  # noqa: E731
    assert count(kernel, fills) == 1
    found(nth(kernel, 0, fills, lambda s: ()), "uninitialised-read")
