"""The promise of each pass over a kernel's statements, and the function that verifies it after the pass.

A pass that moves or repeats statements does not change the values that a kernel stores (values.py). The pass that
splits roles keeps each role's accesses, and the pass that reads subscripts keeps all accesses (accesses.py). Allocation
and packing change only places (places.py). A pass that orders accesses only inserts statements (insertions.py), and the
inserted statements must suffice: for each edge that nothing orders, the edge verifier (passes/edges.py) names the pass
that should have ordered it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import attrs

from fireiron.algebra.expr import Expr, as_expr, as_int, evaluate, substitute
from fireiron.kernel.analysis.sampling import typical_sizes
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Advance,
    Arrive,
    Await,
    Call,
    Commit,
    Compute,
    Draw,
    Fence,
    For,
    If,
    InitBarriers,
    Kernel,
    Leave,
    Lower,
    Prefetch,
    Raise,
    Roles,
    Statement,
    Sync,
    Turn,
    Wait,
    walk,
)
from fireiron.kernel.lower.kernel import Passed
from fireiron.kernel.passes.edges import ITEMS, Unordered, unordered
from fireiron.kernel.passes.pairs import converts, packs
from fireiron.kernel.passes.subscripts import elements_of
from fireiron.kernel.passes.two_trips import TRIPS
from fireiron.kernel.promises.accesses import bodies_of, flagged, projected, roles_of, subscripted
from fireiron.kernel.promises.insertions import moved
from fireiron.kernel.promises.places import in_bytes, outside, overwritten, unplaced
from fireiron.kernel.promises.values import TooLong, Unset, stored

Body = tuple[Statement, ...]
Env = Mapping[str, int]
Verifier = Callable[[Passed, Kernel], Iterator[str]]

# What each pass that orders accesses may insert.
INSERTS: Final[Mapping[str, tuple[type[Statement], ...]]] = {
    "exchanges": (Arrive, Await, Sync),
    "flags": (Raise, Lower),
    "turns": (Turn,),
    "rings": (InitBarriers, Fence, Turn, Sync, Await, Arrive),
    "copies": (Wait, Commit),
    "products": (Fence, Wait, Commit),
    "stores": (Fence, Sync, Wait, Commit),
    "barriers": (Sync,),
    "proxies": (Fence, Wait, Commit),
    "dependence": (Fence,),
    "tensor maps": (Prefetch,),
}


def broken(passed: Sequence[Passed], kernel: Kernel, edges: Iterable[Unordered] | None = None) -> dict[str, list[str]]:
    """List the broken promises of each pass; {} where all passes are right.

    Args:
        passed: the passes with their statements before and after.
        kernel: the finished kernel.
        edges: the findings of the edge verifier, if they are known.

    Example:
        >>> import fireiron as fi
        >>> from fireiron.schedules import simt
        >>> schedule = simt.sgemm(fi.matmul(256, 256, 64))
        >>> passed = schedule._passed(None)
        >>> broken(passed, schedule.lowered())
        {}
    """
    found: dict[str, list[str]] = {}
    for one in passed:
        if (one.before is not one.after or one.name == "subscripts") and (wrong := list(_verified(one, kernel))):
            found[one.name] = wrong
    if found:  # a broken pass makes findings about edges meaningless
        return found
    for edge in unordered(kernel) if edges is None else edges:
        found.setdefault(edge.owed, []).append(str(edge))
    return found


def _verified(one: Passed, kernel: Kernel) -> Iterator[str]:
    try:
        yield from VERIFIERS[one.name](one, kernel)
    except Unset as wrong:
        yield str(wrong)


def _places(kernel: Kernel) -> Iterator[Env]:
    """Return values of sizes, block and thread for some threads: at the beginning, in the middle and at the end."""
    sizes = typical_sizes(kernel)
    most = int(cast("int", evaluate(kernel.grid, sizes)))
    blocks = most
    if kernel.persistent:
        blocks = -(-most // (ITEMS * kernel.cluster)) * kernel.cluster
    threads = kernel.threads - _of_first_role(kernel)
    for block, thread in ((0, 0), (min(1, blocks - 1), threads // 2 + 1), (blocks - 1, threads - 1)):
        yield {**sizes, BLOCKS: blocks, BLOCK: block, RANK: block % kernel.cluster, THREAD: min(thread, threads - 1)}


def _of_first_role(kernel: Kernel) -> int:
    roles = roles_of(kernel.body)
    return roles[0].threads if len(roles) > 1 else 0


def _values(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that the stored values stay the same."""
    pipes = one.context.pipes if one.name == "pipelines" else None
    lets = tuple(one.context.lets)
    for env in _places(kernel):
        try:
            wanted, made = stored((*lets, *one.before), env, pipes), stored((*lets, *one.after), env)
        except TooLong:
            return
        if wanted != made:
            wrong = sorted({str(key[0]) for key in {*wanted, *made} if wanted.get(key) != made.get(key)})
            yield f"thread {env[THREAD]} of block {env[BLOCK]} stores other values in {', '.join(wrong)}"


def _roles(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that each role executes its part."""
    context = one.context
    if not roles_of(one.after):
        if one.after != (*context.lets, *one.before):
            yield "it changes statements though no ring is shared"
        return
    before = (*context.lets, *context.prologue, *one.before)
    for env in _places(kernel):
        try:
            yield from projected(before, one.after, env)
        except TooLong:
            return


# How threads get a work item, with and without roles: who draws it, and who reads it when.
DRAWS: Final = (
    ("Await", "draw", "Arrive", "Advance"),
    ("Await", "draw", "Arrive", "Await", "read", "Sync", "Arrive", "Advance"),
    ("Await", "read", "Sync", "Arrive", "Advance"),
    ("draw", "Sync", "read"),
)


def _draws(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that one thread draws an item, the others read it, and nothing else changes."""
    yield from moved(_without_draws(one.before), _without_draws(one.after), (Await, Arrive, Advance, Sync))
    bodies = [r.body for r in roles_of(one.after)] or [one.after]
    drawing = 0
    for loop in (s for body in bodies for s in walk(body) if isinstance(s, For) and s.drawn):
        end = next(i for i, s in enumerate(loop.body) if isinstance(s, Leave))
        steps = [s for s in walk(loop.body[:end]) if not isinstance(s, If)]
        said = tuple(("read" if s.reads else "draw") if isinstance(s, Draw) else type(s).__name__ for s in steps)
        drawing += said.count("draw")
        if said not in DRAWS:
            yield f"a trip begins by {', '.join(said)}"
        waited = {s.barrier.name for s in steps if isinstance(s, Await)}
        told = {s.barrier.name for s in steps if isinstance(s, Arrive)}
        if waited & told and said != DRAWS[1]:
            yield f"a trip awaits what it completes itself: {', '.join(sorted(waited & told))}"
    if drawing != any(isinstance(s, Draw) for s in walk(one.before)):
        yield f"{drawing} threads of a block draw"


def _without_draws(body: Body) -> Body:
    bare = rewrite(body, lambda s: () if isinstance(s, Draw) else s)
    return tuple(
        Roles(tuple(attrs.evolve(r, cursors=()) for r in s.roles)) if isinstance(s, Roles) else s for s in bare
    )


def _inserted(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that all earlier statements are still there, in order."""
    yield from moved(one.before, one.after, INSERTS[one.name])


def _subscripts(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that no subscript is left, that each is read inside its array, and that accesses keep their places."""
    if left := elements_of(one.after):
        yield f"it leaves {left[0]}, which no statement reads"
        return
    for env in _places(kernel):
        try:
            yield from subscripted(one.before, one.after, env)
        except TooLong:
            return


def _allocation(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that only places change, and that no write overwrites a buffer that is read later."""
    yield from moved(unplaced(one.before), unplaced(one.after), ())
    yield from outside(kernel)
    yield from overwritten(one.after, kernel.buffers)


def _packing(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that each access touches the bytes that hold its elements."""
    for env in _places(kernel):
        for old, new in zip(bodies_of(one.before), bodies_of(one.after), strict=True):
            try:
                if in_bytes(old, env, counted=False) != in_bytes(new, env, counted=True):
                    yield f"thread {env[THREAD]} of block {env[BLOCK]} touches other bytes than those of its elements"
            except TooLong:
                return


def _flags(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that sums between units are read only after their flag."""
    yield from _inserted(one, kernel)
    lets = tuple(one.context.lets)
    for body in [(*lets, *one.after)] if not roles_of(one.after) else [r.body for r in roles_of(one.after)]:
        for env in _places(kernel):
            for handed in one.context.handed:
                yield from flagged(body, handed, env)


def _pairs(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that paired trips are two neighbours of a register pair, and independent of each other."""

    def single(s: Statement) -> Statement:
        return attrs.evolve(s, pairs=False) if isinstance(s, For) else s

    yield from moved(rewrite(one.before, single), rewrite(one.after, single), ())
    for loop in (s for s in walk(one.after) if isinstance(s, For) and s.pairs):
        (s,) = loop.body
        assert isinstance(s, Compute)
        trips = [[_at(v.offset, loop, trip) for v in (s.dst, *s.inputs)] for trip in range(as_int(loop.extent) or 0)]
        for (low, *_), (high, *later) in zip(trips[::2], trips[1::2], strict=True):
            beside = s.dst.buffer.memory.registers and as_int(high - low) == 1 and low.divisor % 2 == 0
            names = [v.buffer.name for v in s.inputs]
            own = all(n != s.dst.buffer.name or as_int(e - low) != 0 for n, e in zip(names, later, strict=True))
            if not beside or not own or not (packs(s.expr) or converts(s.expr)) or s.write is not None:
                yield f"two trips over {loop.var.name} are not one instruction on a pair of {s.dst.buffer.name}"
                break


def _at(offset: Expr, loop: For, trip: int) -> Expr:
    return substitute(offset, {loop.var: as_expr(trip)})


def _two_trips(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that no loop of two trips is left rolled, and that nothing else changed."""

    def single(s: Statement) -> Statement:
        two = isinstance(s, For) and as_int(as_expr(s.extent)) == TRIPS
        return attrs.evolve(s, together=1) if two else s

    yield from moved(rewrite(one.before, single), rewrite(one.after, single), ())
    for s in walk(one.after):
        if isinstance(s, For) and not s.unroll and s.together == 1 and as_int(as_expr(s.extent)) == TRIPS:
            yield f"the loop over {s.var.name} has two trips and a jump"


def _maps(one: Passed, kernel: Kernel) -> Iterator[str]:
    """Verify that each tensor map is fetched once."""
    yield from _inserted(one, kernel)
    used = {s.map.name for s in walk(one.after) if isinstance(s, Call) and s.map is not None}
    fetched = [m.name for s in walk(one.after) if isinstance(s, Prefetch) for m in s.maps]
    if sorted(fetched) != sorted(used):
        yield f"it fetches the tensor maps {', '.join(fetched)}, and copies use {', '.join(sorted(used))}"


VERIFIERS: Final[Mapping[str, Verifier]] = {
    "pipelines": _values,
    "masks": _values,
    "skew": _values,
    "roles": _roles,
    "draws": _draws,
    "subscripts": _subscripts,
    "exchanges": _inserted,
    "flags": _flags,
    "turns": _inserted,
    "rings": _inserted,
    "allocation": _allocation,
    "copies": _inserted,
    "products": _inserted,
    "stores": _inserted,
    "barriers": _inserted,
    "proxies": _inserted,
    "dependence": _inserted,
    "pairs": _pairs,
    "two trips": _two_trips,
    "tensor maps": _maps,
    "packing": _packing,
}
