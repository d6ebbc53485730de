"""Reads of a step's result at another point, by shuffles from the lane of the warp that holds the point.

A thread holds only its own points. Where an index map moves every lane's point to a point of one other lane of its
warp, in the same register, lanes exchange registers by a shuffle. Example: `s[:, n + 1 - 2 * (n % 2)]` reads the value
of the neighbouring lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from fireiron.algebra.expr import Expr, Symbol, Var, as_expr, evaluate, free, simplest, substitute
from fireiron.atoms.table import exchange
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import THREAD, Call, View
from fireiron.kernel.lower.context import Body, Context, State, register_view
from fireiron.kernel.lower.folds.places import LANES
from fireiron.kernel.lower.pointwise import temporary
from fireiron.kernel.lower.window import Axis, Window
from fireiron.language.steps import Ref

MOST_POINTS = 1024  # most points of a thread that are checked


def moved_read(ref: Ref, out: Ref) -> bool:
    """Say whether a step's result is read at other points of the dims that it is computed over."""
    return ref.index != out.index and set(ref.dims) <= set(out.dims)


def from_lane(
    ref: Ref, out: Ref, places: Mapping[Expr, Expr], state: State, context: Context, said: str
) -> tuple[Body, View]:
    """Read a step's result at another point: from the thread's own registers, or by a shuffle from another lane.

    Args:
        ref: the read.
        out: the element that the step writes.
        places: the coordinates of the current point, by dim.
        state: the lowering state at the point.
        context: the kernel's facts.
        said: the name of the reader in errors.

    Raises:
        DecompositionError: `affine-read` where no single lane of the warp holds the point in the same register.
    """
    held = state.windows[ref.name]
    if not held.storage.memory.registers:
        raise refusal(ref, out, said, f"{ref.name} does not lie in registers", state.link)
    own, wanted = ([context.expanded(substitute(as_expr(e), places)) for e in x.index] for x in (out, ref))
    loops = {loop.var for loop in state.loops}
    if not alike(own, wanted, loops):
        raise refusal(ref, out, said, "which lane holds it changes from tile to tile", state.link)
    mine = _own_register(ref, out, places, held, state, context, said)
    if mine is not None:
        return (), mine
    if context.threads is None or context.threads % LANES or state.guards:
        raise refusal(ref, out, said, "not all lanes of a warp have such points", state.link)
    lane = _source(own, wanted, loops, context.threads)
    if lane is None:
        why = "no one lane of the warp holds it in the same register for each lane"
        raise refusal(ref, out, said, why, state.link)
    mine = register_view(context, held, state, said)
    theirs = View(temporary("other", held.storage.dtype, 1, context), as_expr(0))
    return (Call(exchange(held.storage.dtype.nbytes), (mine, theirs), lane=lane, link=state.link),), theirs


def _own_register(
    ref: Ref, out: Ref, places: Mapping[Expr, Expr], held: Window, state: State, context: Context, said: str
) -> View | None:
    """Return the read's view among the thread's own registers; None where another thread holds it."""
    if any(a.bounds for a in held.axes):
        return None
    steps = [
        simplest(substitute(as_expr(e), places) - substitute(as_expr(p), places))
        for e, p in zip(ref.index, out.index, strict=True)
    ]
    axes = tuple(Axis(a.dim, 1, a.at(as_expr(0)) + step) for a, step in zip(held.axes, steps, strict=True))
    try:
        return register_view(context, evolve(held, axes=axes), state, said)
    except DecompositionError:
        return None


def refusal(ref: Ref, out: Ref, said: str, why: str, link: Link | None) -> DecompositionError:
    """Make the error of a read at points that a thread can neither compute nor receive."""
    return DecompositionError(
        "affine-read",
        f"{said} reads {ref}, and {out} is computed by the threads of its own points: {why}",
        fix=f"let lanes of a warp hold the points of {ref.name} that change places, or compute it by another kernel",
        link=link,
    )


def alike(own: list[Expr], wanted: list[Expr], loops: set[Var]) -> bool:
    """Say whether the distance from a point to the point it reads is the same in all tiles, blocks and trips."""
    registers = {v for e in own for v in free(e)} & loops
    ways = [as_expr(simplest(read - mine)) for mine, read in zip(own, wanted, strict=True)]
    return all(v.name == THREAD or v in registers for way in ways for v in free(way))


def _source(own: list[Expr], wanted: list[Expr], loops: set[Var], threads: int) -> Expr | None:
    """Return the source lane of each lane: with bits flipped, rotated in a group, or a fixed lane of the group."""
    found = [_lanes(own, wanted, trip, threads, sample) for sample in (0, 1) for trip in _trips(own, loops)]
    if not found or any(lanes is None for lanes in found):
        return None
    lane, source = np.arange(threads) % LANES, np.stack([lanes for lanes in found if lanes is not None])
    number = Var(THREAD, threads) % LANES
    turned = np.unique(source ^ lane)
    if len(turned) == 1:
        return number ^ int(turned[0])
    for size in (2, 4, 8, 16, LANES):
        on = np.unique((source - lane) % size)
        if len(on) == 1 and (source // size == lane // size).all():
            return number // size * size + (number + int(on[0])) % size
        one = np.unique(source - lane // size * size)
        if len(one) == 1 and 0 <= one[0] < size:
            return number // size * size + int(one[0])
    return None


def _trips(own: list[Expr], loops: set[Var]) -> list[dict[str, int]]:
    """List the values of the loops over a thread's registers."""
    mine = sorted({v for e in own for v in free(e) if isinstance(v, Var) and v in loops}, key=lambda v: v.name)
    extents = [int(v.range[1] or 0) + 1 for v in mine]
    if np.prod(extents, dtype=np.int64) > MOST_POINTS:
        return []
    return [dict(zip((v.name for v in mine), at, strict=True)) for at in product(*map(range, extents))]


def _lanes(own: list[Expr], wanted: list[Expr], trip: Mapping[str, int], threads: int, sample: int) -> Any:
    """Find for each thread the lane of its warp whose own point it reads; None where a thread has no such lane.

    Args:
        own: the coordinates of a thread's point.
        wanted: the coordinates of the point that the thread reads.
        trip: values of the loops over registers.
        threads: number of threads of a block.
        sample: 0 for the first tile, 1 for the last.
    """

    def placed(e: Expr) -> Any:
        env: dict[str, Any] = {}
        for v in free(e):
            high = v.range[1]
            env[v.name] = high if isinstance(v, Symbol) or (sample and high is not None) else 0
        env |= {**trip, THREAD: np.arange(threads)}
        return np.broadcast_to(np.asarray(evaluate(e, env)), (threads,)).reshape(-1, 1, LANES)

    same = np.ones((threads // LANES, LANES, LANES), bool)
    for mine, read in zip(own, wanted, strict=True):
        same &= placed(mine) == placed(read).swapaxes(1, 2)
    return same.argmax(2).reshape(-1) if same.any(2).all() else None
