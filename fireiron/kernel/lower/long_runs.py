"""Vectors across dims: a thread's elements that lie together along several dims move by wider vectors.

The widest vector along one dim may be narrow where that dim is short or odd, as with a filter's columns. If the whole
dims follow each other in both memories (a filter of one channel: rows, columns, and the next filter), the elements form
one run, and vectors divide the run.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, Var, affine, as_expr, as_int, free, substitute
from fireiron.atoms.table import matching
from fireiron.kernel.ir.statements import Call, For, Statement
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.window import Window, line
from fireiron.language.levels import RF, Thread

SIDES = ("src", "dst")


def in_long_runs(body: Body, nbytes: int, state: State, context: Context) -> Body:
    """Widen the vectors of a thread's Move where its elements lie together along several dims.

    Args:
        body: the Move's statements: unrolled loops around one copy, else they are returned as they are.
        nbytes: the most bytes of a vector.
        state: the lowering state above the Move's vectors.
        context: the kernel's facts.
    """
    loops, call = _copy_in_loops(body)
    windows = [state.windows[role] for role in SIDES] if state.residual.kind == "Move" else []
    if call is None or not windows or any(w.storage.swizzle is not None for w in windows):
        return body
    held = call.views[0].layout.size
    assert isinstance(held, int)
    run, inside = _run(loops, call, held)
    count = held
    most = call.views[0].buffer.dtype.count_in(nbytes)
    while count * 2 <= most and run % (count * 2) == 0:
        count *= 2
    variables = [loop.var for loop, _ in inside]
    bases = [_base(e, variables) for view in call.views for e in (view.offset, view.slot)]
    starts = [view.buffer.start for view in call.views]
    while count > held and (any(e.divisor % count for e in bases) or any(n % count for n in starts)):
        count //= 2
    conditions = [c for c in (call.read, call.write) if c is not None and not free(c).isdisjoint(variables)]
    if count <= held or (conditions and not all(map(_exists_as_a_whole, windows))):
        return body
    memories = tuple(RF if v.buffer.memory.registers else v.buffer.memory for v in call.views)
    dtypes = tuple(v.buffer.dtype for v in call.views)
    atoms = matching("Move", (count,), dtypes, memories, Thread, context.arch)
    if not atoms:
        return body
    var = context.variable("r", run // count)
    first: dict[Expr, Expr] = dict.fromkeys(variables, as_expr(0))
    # A vector may lie in several rows of its array, so that the coordinates of its first element say too little.
    views = tuple(
        attrs.evolve(v, offset=substitute(v.offset, first) + var * count, layout=line(count, 1), origin=())
        for v in call.views
    )
    read, write = (None if c is None else substitute(c, first) for c in (call.read, call.write))
    wide = attrs.evolve(call, atom=atoms[0], views=views, read=read, write=write)
    out: Body = (For(var, as_expr(run // count), (wide,), unroll=True, kind="turns"),)
    for loop in reversed([x for x in loops if x.var not in first]):
        out = (attrs.evolve(loop, body=out),)
    return out


def _copy_in_loops(body: Body) -> tuple[list[For], Call | None]:
    """Return the unrolled loops around a thread's copy, outermost first, and the copy; None for other statements."""
    loops: list[For] = []
    while len(body) == 1 and isinstance(s := body[0], For) and s.unroll and as_int(s.extent) is not None:
        loops.append(s)
        body = s.body
    one: Statement | None = body[0] if len(body) == 1 else None
    moves = isinstance(one, Call) and one.atom.kind == "Move" and one.atom.nbytes and not one.atom.completion
    if not moves or not loops:
        return [], None
    assert isinstance(one, Call)
    together = all(v.layout == line(n, 1) for v in one.views for n in (v.layout.size,) if n != 1)
    return loops, one if together and len(one.views) == len(SIDES) else None


def _run(loops: Sequence[For], call: Call, held: int) -> tuple[int, list[tuple[For, int]]]:
    """Return the elements that lie together in both memories, and the loops over them with their steps."""
    variables = [loop.var for loop in loops]
    steps = [affine(view.offset, variables) for view in call.views]
    inside: list[tuple[For, int]] = []
    if any(s is None for s in steps):
        return held, inside
    of = {loop.var: {s[0].get(loop.var, 0) for s in steps if s is not None} for loop in loops}
    run = held
    while True:
        found = next((x for x in loops if of[x.var] == {run} and all(x is not y for y, _ in inside)), None)
        if found is None:
            return run, inside
        inside.append((found, run))
        run *= as_int(found.extent) or 1


def _base(e: Expr | None, variables: Sequence[Var]) -> Expr:
    return as_expr(0) if e is None else as_expr(substitute(e, dict.fromkeys(variables, as_expr(0))))


def _exists_as_a_whole(window: Window) -> bool:
    """Say whether the elements of a window exist all or none, so that one condition holds for all of them."""
    return window.storage.reading is None and all(
        isinstance(axis.size, int)
        and bound.steps is None
        and not bound.limit.divisor % axis.size
        and not bound.offset.divisor % axis.size
        for axis in window.axes
        for bound in axis.bounds
    )
