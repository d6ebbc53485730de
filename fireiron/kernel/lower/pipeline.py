"""Split: the loop over chunks, and its pipeline, whose loads run ahead of the compute by ring slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fireiron.algebra.expr import FALSE, Expr, Var, as_expr, as_int, lt, ne, or_, proves, simplest
from fireiron.algebra.scalar import Arg, Cast
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.rewrite import replaced
from fireiron.kernel.ir.statements import For, If
from fireiron.kernel.lower.chunks import numbers_of, parts_of, trips_of
from fireiron.kernel.lower.context import Body, Context, Recur, State, descend
from fireiron.kernel.lower.epilog import initialise
from fireiron.kernel.lower.flow import Flow, leading_loads, lower_flowing
from fireiron.kernel.lower.move import Copy, lower_copy, open_load
from fireiron.kernel.lower.progress import Progress
from fireiron.kernel.lower.promote import close_chunk, open_chunk
from fireiron.kernel.lower.roles import lower_specialised
from fireiron.kernel.lower.window import substituted
from fireiron.language.decompositions import Decomposition, EachStep, Load, Split, Tile
from fireiron.language.residual import apply
from fireiron.language.steps import Step


def lower_split(
    link: Split,
    rest: Sequence[Decomposition],
    state: State,
    context: Context,
    recur: Recur,
    reach: tuple[Expr, Expr] | None = None,
    opening: Callable[[], Body] = tuple,
) -> Body:
    """Lower a loop over chunks, of K or of dims that steps of a program fold.

    With n stages, chunk k+n-1 is started before chunk k is computed with, and finished after it; the first n-1 chunks
    come before the loop. A pipeline inside another flows: its loop goes on over the chunks of the outer one.

    Args:
        link: the split.
        rest: the links below it.
        state: the place in the tree.
        context: the kernel's.
        recur: lowers the links.
        reach: the first chunk and the number of chunks; None for all.
        opening: gives the statements right before the loop; called after its body is lowered.

    Raises:
        DecompositionError: `register-loop`, `pipeline-empty`, `pipeline-inflight`.
    """
    drained(link)
    # The ring of a role continues over all layers.
    layers, state = state.around if link.specialised is None else None, evolve(state, around=None)
    if state.flow is not None and link.specialised is None:
        if _takes_part(link, rest):
            return lower_flowing(link, rest, state, context, recur)
        flow, state = state.flow, evolve(state, flow=None)
        return flow.around(lower_split(link, rest, state, context, recur))
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

    loads = leading_loads(rest)
    pipelined_loads(link, loads)
    read = [load for load in loads if progress is None or progress.reads(load.role)]
    inner = at(number)
    for load in loads:
        if load in read:
            inner = open_load(load, inner, context, link.stages, number)
        else:
            inner = evolve(inner, residual=apply(load, inner.residual))

    def copies(chunk: Expr) -> list[Copy]:
        return [lower_copy(x, at(chunk, below), inner.windows[x.role].storage, chunk, context, recur) for x in read]

    def around(compute: Body) -> Body:
        """Put the loop and its copies around the compute of one chunk."""
        first, start, finish = staged(link, copies, number, every)
        if layers is not None:
            layers.before += first
            first = ()
        body = (*start, *compute, *finish)
        return (*first, *opening(), For(k, trips, body, link.unrolled, link.together, kind="chunks"))

    below_loads = rest[len(loads) :]
    if layers is not None or not _flows_into(link, loads, below_loads, progress):
        first, body = _chunk(link, below_loads, at, number, inner, context, recur)
        return (*before, *first, *around(body))
    flow = Flow(k, trips, link, lambda: copies(k), around)
    body = recur(below_loads, evolve(inner, flow=flow), context)
    return (*before, *opening(), *body)


def staged(link: Split, copies: Callable[[Expr], list[Copy]], number: Expr, every: Expr) -> tuple[Body, Body, Body]:
    """Give the code of a pipeline's loads before the loop, at the beginning of a trip, and at its end.

    Args:
        link: the split, whose loads run ahead by its stages.
        copies: lowers the loads of a chunk.
        number: of the trip's chunk.
        every: the number of chunks.
    """
    chunk = Var("any chunk", simplest(every))  # a placeholder, which is replaced in the lowered statements
    made = copies(chunk)
    begin: Body = tuple(s for c in made for s in c.start)
    end: Body = tuple(s for c in made for s in c.finish)

    def of(body: Body, n: Expr) -> Body:
        present = lt(n, every)
        if not body or present == as_expr(0):
            return ()
        body = replaced(body, {chunk: n})
        return body if proves(present) else (If(present, body),)

    # Before the loop, the loads of one operand's slot stand together.
    filled: Body = tuple(s for c in made for s in (*c.start, *c.finish))
    first = tuple(s for d in range(link.stages - 1) for s in of(filled, as_expr(d)))
    ahead = number + (link.stages - 1)
    return first, of(begin, ahead), of(end, ahead)


def drained(link: Split) -> None:
    """Refuse products in flight across trips where no separate role loads.

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
    """Refuse a pipeline without loads, one of registers in a loop that stays a loop, and products left in flight.

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
    rest: Sequence[Decomposition],
    at: Callable[[Expr], State],
    k: Expr,
    state: State,
    context: Context,
    recur: Recur,
) -> tuple[Body, Body]:
    """Lower the compute of chunk k, with `promote` also the addition of its sums; and its part before the loop.

    Returns:
        The statements before the loop, and those of the trip.
    """
    inside = open_chunk(link, state, context)
    body = recur(rest, inside, context)
    made = close_chunk(link, k, at, inside, context)
    return made.first, (*made.ahead, *made.begin, *body, *made.after)


def _takes_part(link: Split, rest: Sequence[Decomposition]) -> bool:
    """Say whether a pipeline continues over the chunks of the pipeline around it: its slots are registers."""
    loads = leading_loads(rest)
    return (
        link.stages > 1
        and not link.drain
        and link.promoted is None
        and bool(loads)
        and all(load.memory.registers for load in loads)
    )


def _flows_into(link: Split, loads: Sequence[Load], rest: Sequence[Decomposition], progress: Progress | None) -> bool:
    """Say whether only links that map tiles to units stand between a pipeline of shared memory and one of registers.

    The slot of a chunk is filled again before the chunk's last steps compute, so these may read only registers. In a
    program the inner pipeline is in the chain of the loop's only step.
    """
    read = {load.role for load in loads}
    if progress is not None:
        last, steps = rest[-1] if rest else None, progress.active
        chain = last.of(steps[0].name) if isinstance(last, EachStep) and len(steps) == 1 else None
        if chain is None or link.online or link.skewed or not _of_tensors(steps[0]):
            return False
        rest, read = (*rest[:-1], *chain), {"A", "B"}
    mapped = [isinstance(x, Tile | Split) and x.level is not None for x in rest]
    between = mapped.index(False) if False in mapped else len(rest)
    inner = rest[between] if between < len(rest) else None
    return (
        link.promoted is None
        and not any(load.memory.registers for load in loads)
        and isinstance(inner, Split)
        and _takes_part(inner, rest[between + 1 :])
        and read <= {load.role for load in leading_loads(rest[between + 1 :])}
    )


def _of_tensors(step: Step) -> bool:
    """Say whether both factors of a product are tensors: nothing else is computed in a chunk."""
    sides = step.factors or ()
    return len(sides) == 2 and all(isinstance(x.x if isinstance(x, Cast) else x, Arg) for x in sides)
