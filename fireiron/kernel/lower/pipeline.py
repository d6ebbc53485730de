"""Splits: the loop over chunks. A chunk's copies stand before its compute; `passes/pipeline.py` moves them ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fireiron.algebra.expr import FALSE, Expr, Var, as_expr, as_int, ne, or_, simplest
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import For, Region
from fireiron.kernel.lower.chunks import numbers_of, parts_of, trips_of
from fireiron.kernel.lower.context import Body, Context, Recur, State, descend
from fireiron.kernel.lower.epilog import initialise
from fireiron.kernel.lower.move import lower_copy, open_load, place_result
from fireiron.kernel.lower.promote import close_chunk, open_chunk
from fireiron.kernel.lower.roles import lower_specialised
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import substituted
from fireiron.kernel.passes.pipeline import Pipe
from fireiron.language.decompositions import Load, Split
from fireiron.language.residual import apply


def lower_split(
    link: Split,
    rest: Tree,
    state: State,
    context: Context,
    recur: Recur,
    reach: tuple[Expr, Expr] | None = None,
    opening: Callable[[], Body] = tuple,
) -> Body:
    """Lower a loop over chunks, of K or of dims that steps of a program fold.

    A chunk's copies stand before its compute; `passes/pipeline.py` starts them some chunks ahead.

    Args:
        link: the split.
        rest: the links below the split.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        recur: a function that lowers the links.
        reach: the first chunk and the number of chunks; None for all.
        opening: a function that returns the statements directly before the loop; it is called after the loop's body is
            lowered.

    Raises:
        DecompositionError: `register-loop`, `pipeline-empty`, `pipeline-inflight`.
    """
    drained(link)
    # The ring of a role continues over all layers.
    layers, state = state.around if link.specialised is None else None, evolve(state, around=None)
    parts = parts_of(link, state.residual.extents)
    stream = context.stream if context.stream is not None and context.stream.split is link else None
    begin, trips = (as_expr(0), trips_of(parts)) if stream is None else (stream.first, stream.count)
    k = context.variable("chunk" if link.further else link.dim.lower(), trips)
    begin, trips = reach or (begin, trips)
    below = state.under(link.words, link.link)
    looped = evolve(
        below,
        loops=(*state.loops, RegisterLoop(k, trips, link.unrolled, link.link)),
        begun=or_(state.begun, ne(k, 0)),
    )
    if link.online and looped.progress is not None:
        looped = evolve(looped, progress=evolve(looped.progress, trip=as_expr(k)))

    each = as_int(trips)
    number: Expr = k if layers is None or each is None else layers.var * each + k
    every = trips if layers is None or each is None else as_expr(layers.trips * each)

    def at(chunk: Expr, inside: State = looped) -> State:
        if layers is None or each is None:
            return descend(inside, parts, numbers_of(parts, begin + chunk))
        # Chunks are numbered across all layers.
        moved = {layers.var: chunk // each}
        windows = {role: substituted(window, moved) for role, window in inside.windows.items()}
        return descend(evolve(inside, windows=windows), parts, numbers_of(parts, chunk % each))

    if link.specialised is not None:
        return lower_specialised(link, rest, at, k, trips, context, recur, opening)
    progress = state.progress
    # A split above initialised C; this loop adds to it.
    set_above = progress is not None or state.begun != FALSE or state.windows["C"].storage.memory.registers
    before = () if set_above else initialise(state, context)
    if link.stages == 1:
        first, body = _chunk(link, rest, at, number, at(number), context, recur)
        return (*before, *first, *opening(), For(k, trips, body, link.unrolled, link.together, kind="chunks"))

    loads = rest.asked.loads
    # Results of steps, which the steps write and no Move fills.
    results = [load for load in loads if state.residual.operand(load.role) is None]
    pipelined_loads(link, [load for load in loads if load not in results])
    read = [load for load in loads if load not in results and (progress is None or progress.reads(load.role))]
    registers = [load for load in read if load.memory.registers]
    name = f"pipe{len(context.pipes)}"
    chunk, slot = Var(f"any chunk of {name}", simplest(every)), Var(f"any slot of {name}", link.stages)
    alone = link.promoted is None and not link.online and not link.skewed and layers is None
    flows = alone and (not registers or (not link.drain and len(registers) == len(read)))
    context.pipes[name] = Pipe(link.stages, chunk, number, every, slot if registers else None, flows)
    inner = at(number)
    for load in loads:
        if load in read:
            inner = open_load(load, inner, context, link.stages, slot if load in registers else number)
        elif load in results:
            inner = place_result(load, inner, context)
        else:
            inner = evolve(inner, residual=apply(load, inner.residual))
    first, compute = _chunk(link, rest.behind, at, number, inner, context, recur)
    there = at(chunk, below)
    copies: Body = ()
    for x in read:
        copy = lower_copy(x, there, inner.windows[x.role].storage, slot if x in registers else chunk, context, recur)
        copies += (Region(f"start a copy of {x.role}", copy.start, "", x.link, "start", name),)
        copies += (Region(f"finish the copy of {x.role}", copy.finish, "", x.link, "finish", name),)
    mark: Body = (Region("fill the first slots", (), "", link.link, "first", name),) if read else ()
    if layers is not None:
        layers.before += mark
        mark = ()
    loop = For(k, trips, (*copies, *compute), link.unrolled, link.together, kind="chunks")
    return (*before, *first, *mark, *opening(), loop)


def drained(link: Split) -> None:
    """Raise an error for products in flight across trips where no separate role loads.

    Raises:
        DecompositionError: `pipeline-inflight`.
    """
    if link.inflight and link.specialised is None:
        raise DecompositionError(
            "pipeline-inflight",
            f"pipeline({link.stages}, inflight={link.inflight}) leaves products in flight, and warps without roles "
            "wait for them before they load",
            fix="drop inflight=, or add .specialize() for loads by tma()",
        )


def pipelined_loads(link: Split, loads: Sequence[Load]) -> None:
    """Raise an error for a pipeline without loads, of registers in a rolled loop, or with products left in flight.

    Raises:
        DecompositionError: `pipeline-empty`, `register-loop`, `pipeline-inflight`.
    """
    drained(link)
    if not loads:
        raise DecompositionError(
            "pipeline-empty",
            f"pipeline({link.stages}) has no load below it to run ahead",
            fix="load A or B right below the split" if link.dim == "K" else "load an array right below the split",
        )
    if not link.unrolled and any(load.memory.registers for load in loads):
        raise DecompositionError(
            "register-loop", "a pipeline of registers has no run-time slot", fix="refine the split by .unroll() too"
        )


def _chunk(
    link: Split,
    rest: Tree,
    at: Callable[[Expr], State],
    k: Expr,
    state: State,
    context: Context,
    recur: Recur,
) -> tuple[Body, Body]:
    """Lower the compute of chunk k, and with `promote` the addition of the chunk's sums.

    Returns:
        The statements before the loop, and those of the trip.
    """
    inside = open_chunk(link, state, context)
    body = recur(rest, inside, context)
    made = close_chunk(link, k, at, inside, context)
    return made.first, (*made.ahead, *made.begin, *body, *made.after)
