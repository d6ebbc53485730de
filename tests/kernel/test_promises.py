"""Each pass keeps its promise on every preset, and a mistake that is planted in a pass breaks that pass's promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fireiron import FR, RF, SH, A, B, Block, Swizzle, Thread, Warpgroup, matmul, staged, tensor
from fireiron.algebra.expr import as_int
from fireiron.front.verbs import _target  # pyright: ignore[reportPrivateUsage]
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Await,
    Call,
    Commit,
    Compute,
    Draw,
    Fence,
    Fetch,
    For,
    If,
    InitBarriers,
    Kernel,
    Let,
    Lower,
    Prefetch,
    Raise,
    Statement,
    Sync,
    Turn,
    Wait,
    walk,
)
from fireiron.kernel.lower import kernel as lowering
from fireiron.kernel.lower.kernel import Passed
from fireiron.kernel.passes.allocate import rebind
from fireiron.kernel.promises.accesses import buffers_of
from fireiron.kernel.promises.promises import VERIFIERS, broken
from fireiron.schedules import ampere, attention
from fireiron.show.passes import PASSES
from tests.mutate.cases import CASES

Body = tuple[Statement, ...]


def passed(schedule: Any) -> tuple[list[Passed], Any]:
    """Lower a schedule, and give what each pass made, and the kernel."""
    made: list[Passed] = []
    arch = _target(schedule, None).number
    return made, lowering.lower(schedule.program, schedule.links, schedule.name, arch, told=made.append)


# Half of the cases, and a few that go through many passes, in every run; the others in the exhaustive one.
OFTEN = {*list(CASES)[::2], "attention, wgmma", "attention, speculating", "hopper sums of a cluster", "mlp"}


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.exhaustive) for name in CASES]
)
def test_every_pass_keeps_its_promise(name: str) -> None:
    made, kernel = passed(CASES[name]())
    assert [one.name for one in made] == list(PASSES) == list(VERIFIERS)
    assert broken(made, kernel) == {}


Mistake = Callable[[Body, Body], Body]


def first(kind: type[Statement], change: Callable[[Any], Statement | Body | None]) -> Mistake:
    """Change the first statement of a kind that a pass made, and for which a change is given."""

    def changed(before: Body, after: Body) -> Body:
        old = {id(s) for s in walk(before)}
        left = [True]

        def one(s: Statement) -> Statement | Body:
            now = change(s) if left and isinstance(s, kind) and id(s) not in old else None
            if now is None:
                return s
            left.clear()
            return now

        return rewrite(after, one)

    return changed


def drop(kind: type[Statement]) -> Mistake:
    """Leave out the first statement of a kind that a pass made."""
    return first(kind, lambda s: ())


def any_(mistake: Mistake) -> Mistake:
    """Plant a mistake in the first statement of a kind, whether or not the pass made it."""
    return lambda before, after: mistake((), after)


def lost(kind: type[Statement]) -> Mistake:
    """Leave out the first statement of a kind."""
    return any_(drop(kind))


def shorter(s: For) -> For | None:
    """Leave out a loop's last trip."""
    return attrs.evolve(s, extent=s.extent - 1) if s.kind == "chunks" else None


def rolled(s: For) -> For | None:
    """Compile a loop of two trips with a jump."""
    return attrs.evolve(s, together=1) if s.together == 2 else None


def paired(s: For) -> For | None:
    """Compute two trips by one instruction that does not exist."""
    alone = len(s.body) == 1 and isinstance(s.body[0], Compute) and not s.pairs
    return attrs.evolve(s, pairs=True) if alone and (as_int(s.extent) or 1) % 2 == 0 else None


def copied() -> Any:
    """Multiply by wgmma what threads copy."""
    chain = matmul(128, 64, 256, "f16", layout="TN", arch="sm_90").tile(64, 64).to(Block).epilog(memory=FR).split(64)
    for role in (A, B):
        chain = chain.load(role, SH, staged()).swizzle(Swizzle(3, 3, 3))
    return chain.tile(64, 64).to(Warpgroup).split(16).unroll().done("wgmma")


def two_trips() -> Any:
    chain = matmul(32, 32, 16, "f32", arch="sm_100").tile(32, 32).to(Block).epilog(memory=RF).split(8)
    return chain.load(A, SH).load(B, SH).tile(4, 4).to(Thread).split(1).tile(1, 1).unroll().done()


def drawing() -> Any:
    """Let persistent blocks draw tiles, and one role of them hand these on."""
    arrays = (tensor(1, 2, 128, 64, dtype="f16") for _ in range(3))
    spec = attention.attention(*arrays, causal=True)
    return attention.wgmma(spec, groups=1, keys=64, stages=2, persistent=True)


def packed() -> Any:
    return ampere.gemm(matmul(64, 64, 256, "i4", layout="TN"), m=32, n=32, warp=(16, 16))


def elsewhere(s: Fetch) -> Fetch:
    """Read the next index."""
    return attrs.evolve(s, view=attrs.evolve(s.view, offset=s.view.offset + 1, origin=(s.view.origin[0] + 1,)))


def beyond(s: Call) -> Call:
    """Touch the bytes behind those of a copy."""
    return attrs.evolve(s, views=tuple(attrs.evolve(v, offset=v.offset + v.layout.size) for v in s.views))


def renamed(before: Body, after: Body) -> Body:
    """Exchange two buffers."""
    found = {v.buffer.name: v.buffer for s in walk(after) if isinstance(s, Call) for v in s.views}
    one, other, *_ = (name for name, b in found.items() if b.memory == SH)
    return rebind(after, {**buffers_of(after), one: found[other], other: found[one]})


# For each pass: the function of kernel/lower/kernel.py that runs it, a schedule that it changes, and mistakes in it.
PLANTED: dict[str, tuple[str, Callable[[], Any], dict[str, Mistake]]] = {
    "pipelines": ("run_ahead", CASES["ampere 3"], {"a copy": lost(Call), "a trip": first(For, shorter)}),
    "masks": ("without_masks", CASES["attention, wgmma"], {"a branch": drop(If)}),
    "skew": ("skewed", CASES["attention, wgmma"], {"a trip": first(For, shorter), "a product": lost(Call)}),
    "roles": ("part", CASES["hopper"], {"a copy": lost(Call), "a name": lost(Let)}),
    "draws": (
        "share_draws",
        drawing,
        {"a wait": drop(Await), "an arrival": drop(Arrive), "a step": drop(Advance), "an item": lost(Draw)},
    ),
    "subscripts": (
        "fetched",
        CASES["gather"],
        {"an element": lost(Fetch), "a place": any_(first(Fetch, elsewhere)), "nothing": lambda before, after: before},
    ),
    "exchanges": ("tell_peers", CASES["hopper sums of a cluster"], {"an arrival": drop(Arrive), "a wait": drop(Await)}),
    "flags": ("raise_flags", CASES["hopper stream_k"], {"a flag": drop(Raise), "a wait": drop(Lower)}),
    "turns": ("take_turns", CASES["hopper turns"], {"a turn": drop(Turn)}),
    "rings": (
        "hand_over",
        CASES["hopper"],
        {"a wait": drop(Await), "an arrival": drop(Arrive), "all": drop(InitBarriers)},
    ),
    "allocation": ("rebind", CASES["ampere 3"], {"buffers": renamed, "a copy": lost(Call)}),
    "copies": ("await_copies", CASES["ampere 3"], {"a wait": drop(Wait), "a group": drop(Commit)}),
    "products": (
        "await_products",
        CASES["hopper"],
        {"a wait": drop(Wait), "a fence": drop(Fence), "a group": drop(Commit)},
    ),
    "stores": (
        "await_stores",
        CASES["hopper"],
        {"a wait": drop(Wait), "a fence": drop(Fence), "a group": drop(Commit)},
    ),
    "barriers": ("synchronise", CASES["sgemm 3"], {"a barrier": drop(Sync)}),
    "proxies": ("order_products", copied, {"a fence": drop(Fence), "a wait": drop(Wait)}),
    "dependence": ("dependent", CASES["hopper dependent"], {"a wait": drop(Fence), "a call": lost(Call)}),
    "pairs": ("with_pairs", CASES["mlp"], {"a loop": any_(first(For, paired))}),
    "two trips": ("without_two_trips", two_trips, {"a loop": first(For, rolled)}),
    "tensor maps": ("fetch_maps", CASES["hopper"], {"all": drop(Prefetch)}),
    "packing": ("in_bytes", packed, {"a byte": any_(first(Call, beyond)), "a copy": lost(Call)}),
}


@pytest.mark.parametrize(("name", "mistake"), [(name, m) for name, (_, _, all_) in PLANTED.items() for m in all_])
def test_a_planted_mistake_breaks_the_promise_of_its_pass(
    name: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, build, mistakes = PLANTED[name]
    schedule, right = build(), getattr(lowering, function)

    def wrong(body: Any, *rest: Any) -> Any:
        if isinstance(body, Kernel):
            made = right(body)
            return attrs.evolve(made, body=mistakes[mistake](body.body, made.body))
        old = body if isinstance(body, tuple) else (body,)
        old = rest[0] if function == "part" else old
        return mistakes[mistake](old, right(body, *rest))

    monkeypatch.setattr(lowering, function, wrong)
    after = broken(*passed(schedule))
    assert name in after, after


def test_what_lies_over_a_living_buffer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lowering.allocate

    def wrong(storages: Any, body: Body) -> Any:
        buffers, shared = right(storages, body)
        return {name: attrs.evolve(b, offset=0) for name, b in buffers.items()}, shared

    monkeypatch.setattr(lowering, "allocate", wrong)
    (found,) = {*broken(*passed(CASES["ampere 3"]()))["allocation"]}
    assert found == "a_sh is read after b_sh was written in its bytes"


def test_every_pass_has_a_planted_mistake() -> None:
    assert list(PLANTED) == list(VERIFIERS)
    assert broken(*passed(copied())) == broken(*passed(two_trips())) == {}


@pytest.mark.parametrize("name", ["attention, wgmma", "hopper stream_k", "gather", "ampere 3"])
def test_passes_have_no_state(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: set[str] = set()

    def twice(function: str, right: Any) -> Any:
        def both(*given: Any) -> Any:
            ran.add(function)
            first = right(*given)
            assert right(*given) == first, function
            return first

        return both

    for function, _, _ in PLANTED.values():
        monkeypatch.setattr(lowering, function, twice(function, getattr(lowering, function)))
    passed(CASES[name]())
    assert len(ran) > 10


def test_explain_names_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, right = CASES["ampere 3"](), lowering.await_copies
    assert not any(change.broken for change in schedule.explain(passes=True).passes)
    monkeypatch.setattr(lowering, "await_copies", lambda body: lost(Call)((), right(body)))
    found = [change for change in schedule.explain(passes=True).passes if change.broken]
    assert [change.name for change in found] == ["copies"]
    assert "broken promise: it changes Region load A to a_sh: Move(32, 32)(GL, SH)(Block), and may only" in str(
        found[0]
    )
