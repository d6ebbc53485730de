"""Online folds with slack: the value that others depend on (a maximum) rarely changes; votes of the warp decide when.

With slack only, each chunk is folded first, and the value changes if the chunk's value exceeds it by more than the
slack. With speculation, each chunk but the first is computed at once with the old value, into separate sums, which show
whether a term exceeded the slack. If so, the value rises by the powers of 2 that the sums show, and the chunk's results
are kept. Where terms may not be finite, the chunk is folded, the value changes, and the chunk is computed again from
the same inputs. Chunks are also computed again where the sums do not show by how much the value must rise, or threads
have few registers. After `FAILURES` such chunks in a tile, a warp folds each further chunk first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import Expr, Var, and_, as_expr, as_int, eq, ne
from fireiron.algebra.scalar import Arg, Binary, Constant, Coordinate, Scalar, Select, substituted
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import Buffer, Call, Compute, If, Micro, Region, View, Vote, walk
from fireiron.kernel.lower.context import Body, Context, Recur, State, buffer_of, register_view
from fireiron.kernel.lower.folds.state import Open, begin, joined, note_places, open_fold
from fireiron.kernel.lower.loop_fusion import converted_in_pairs, fused, in_one_register
from fireiron.kernel.lower.online_folds import corrected, fold_chunk, move, title_of
from fireiron.kernel.lower.progress import beside
from fireiron.kernel.lower.raised_values import LEAST_REGISTERS, Rise, fallen, raised, rise_of, with_headroom
from fireiron.kernel.lower.registers import each_register, temporary
from fireiron.kernel.lower.step_points import accumulate, over_points
from fireiron.kernel.lower.step_products import Product
from fireiron.kernel.lower.window import Storage
from fireiron.kernel.passes.pairs import FIRST_ARCH
from fireiron.language.lazy import witnesses
from fireiron.language.levels import SH, Thread
from fireiron.language.steps import Step

FAILURES = 1  # failed speculations in a tile, after which chunks are folded first

LowerStep: TypeAlias = Callable[[Step, State, Context, Recur], "tuple[Body, State]"]


@attrs.frozen
class Lazily:
    """Hold what products after lazy folds need.

    Args:
        again: the condition that the value on which the products' sums depend has changed.
        carried: for each product, the copies of computed factors to the registers that its atoms read.
    """

    again: Expr
    carried: Mapping[str, Body]


def is_lazy(step: Step, state: State) -> bool:
    """Say whether a step is a fold with slack that other steps depend on."""
    progress = state.progress
    assert progress is not None
    return (
        progress.law is not None
        and progress.law.slack > 0
        and step.name in progress.law.factors
        and step.name in progress.open
    )


def lower_lazily(
    lead: Step,
    later: Sequence[Step],
    products: Mapping[str, Product],
    state: State,
    context: Context,
    recur: Recur,
    lower_step: LowerStep,
) -> tuple[Body, State, Lazily]:
    """Lower a fold with slack, and all that threads compute of a chunk after it.

    Args:
        lead: the fold with slack.
        later: the steps after the fold.
        products: the later steps that atoms compute; their code follows the returned statements.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        recur: a function that lowers the chains of Moves.
        lower_step: a function that lowers a step whose state no loop carries.

    Raises:
        DecompositionError: `online-vote` where threads of several warps, or single threads, would decide together.
    """
    progress = state.progress
    assert progress is not None and progress.law is not None and progress.trip is not None
    law, opened = progress.law, progress.open[lead.name]
    _votes(lead, later, products, state)
    folded, state = fold_chunk(lead, opened, state, context, recur)
    moved, state = move(lead, opened, state, context, recur)
    before = frozenset(context.storages)
    carried: dict[str, Body] = {}
    begins: Body = ()
    attempt: Body = ()
    apart: dict[str, tuple[Open, State]] = {}
    joins: Body = ()
    inside = state
    for step in later:
        product = products.get(step.name)
        if product is None and step.name in progress.open:
            start, made, part, join = _summed_apart(step, inside, context, law.speculative)
            begins, attempt, joins = (*begins, *start), (*attempt, *made), (*joins, *join)
            apart |= {} if part is None else {step.name: part}
            continue
        if product is not None and any(starts(s, "products") for s in walk(product.body)):
            exchange = product.exchange  # such factors are computed in other registers anyway
            inside, carried[step.name] = (inside, exchange) if exchange else _beside(product, inside, context)
        for part in (step,) if product is None else product.sides:
            made, inside = lower_step(part, inside, context, recur)
            attempt += made
    moved += tuple(x for s in later if s.name not in products for x in _corrected(s, state, context))
    attempt = fused(attempt)
    rise: Rise | None = None
    rising: Body = ()
    if law.speculative:
        mine, sums = {s.name: products[s.name] for s in later if s.name in products}, _witness(lead, apart, state)
        rise = rise_of(lead, sums[0].storages[0], mine, state)
        if rise is not None:
            if not 0 < context.registers[1] < LEAST_REGISTERS:
                higher = raised(lead, opened, sums, rise, state, context)
                rising = (*higher, *moved, *fallen(later, mine, apart, inside, context))
            folded = (*folded, *with_headroom(lead, rise, state, context))
    outside = (
        *joins,
        *moved,
        *rising,
        *(s for body in carried.values() for s in body),
        *(s for p in products.values() for s in p.body),
    )
    single: list[Storage] = []
    for storage in (context.storages[name] for name in context.storages if name not in before):
        storage.follows = ""  # its inputs are read again
        alone = None if _seen(storage, outside) else in_one_register(attempt, storage.name)
        if alone is not None:
            attempt, storage.size = alone, as_expr(1)
            single.append(storage)
    if context.arch >= FIRST_ARCH:
        paired = converted_in_pairs(attempt, {storage.name for storage in single}, context)
        for storage in single if paired is not attempt else ():
            storage.size = as_expr(2)
        attempt = paired
    attempt = (*begins, *attempt)
    _alone((*folded, *moved, *attempt), lead, state)
    asks = ne(progress.trip, 0)
    again = context.variable("again", 2)
    if not law.speculative:
        flag = temporary("outgrown", i32, 1, context)
        asked = (Compute(View(flag, as_expr(0)), *_outgrown(lead, state), link=state.link),)
        body: Body = (
            Region(title_of(lead), folded, state.path, state.link),
            If(asks, asked),
            Vote(again, View(flag, as_expr(0)), asks, state.link),
            If(eq(again, 1), (Region(f"{lead.name}: the value that others follow", moved, state.path, state.link),)),
            *attempt,
        )
        return body, inside, Lazily(eq(again, 1), carried)
    fast = (*_under_old_value(lead, state, context), *attempt)
    most = law.slack if rise is None else rise.most
    ways = _Ways(fast, rising, most, (Region(title_of(lead), (*folded, *moved), state.path, state.link), *attempt))
    body = _speculated(lead, ways, _witness(lead, apart, state)[0].storages[0], again, state, context)
    return (*body, *joins), inside, Lazily(eq(again, 1), carried)


@attrs.frozen
class _Ways:
    """Hold the three forms in which a chunk may be computed.

    Args:
        fast: the statements that compute the chunk with the old value.
        rising: the statements that raise the value, and correct the results of `fast`; () if the chunk must be
            recomputed.
        most: `rising` is exact for sums up to 2^most.
        whole: the statements that fold the chunk, change the value, and compute the chunk with the new one.
    """

    fast: Body
    rising: Body
    most: float
    whole: Body


def _speculated(lead: Step, ways: _Ways, sums: Storage, again: Var, state: State, context: Context) -> Body:
    """Compute a chunk with the old value, and change the value where the sums show that a term exceeded the slack."""
    progress, path, link = state.progress, state.path, state.link
    assert progress is not None and progress.law is not None and progress.trip is not None
    first, behind = eq(progress.trip, 0), ne(progress.trip, 0)
    views = tuple(View(buffer_of(sums), as_expr(r)) for r in range(as_int(sums.size) or 1))
    fast, whole = Region(f"{lead.name}: a chunk under the old value", ways.fast, path, link), ways.whole

    def flag(name: str) -> View:
        return View(temporary(name, i32, 1, context), as_expr(0))

    def exceed(powers: float) -> Scalar:
        most = Constant(2.0**powers, sums.dtype)
        return _any_not([Binary("le", Arg(n, sums.dtype), most) for n in range(len(views))])

    outgrown, failed, trusting = flag("outgrown"), flag("failed"), flag("trusting")
    trusts = context.variable("trusts", 2)
    few, counted = Binary("lt", Arg(0, i32), Constant(FAILURES, i32)), Binary("add", Arg(0, i32), Constant(1, i32))

    def wrong(powers: float) -> Scalar:
        return Select(Coordinate(eq(trusts, 1)), exceed(powers), Constant(1, i32))

    body: Body = (
        If(first, (Compute(failed, Constant(0, i32), link=link),)),
        If(behind, (Compute(failed, counted, (failed,), link=link),)),
        *whole,
    )
    if ways.rising:
        far, beyond = context.variable("far", 2), flag("beyond")
        body = (
            If(behind, (Compute(beyond, wrong(ways.most), views, link=link),)),
            Vote(far, beyond, behind, link),
            If(eq(far, 0), (Region(f"{lead.name}: raised as the chunk's sums tell", ways.rising, path, link),)),
            If(eq(far, 1), body),
        )
    return (
        If(behind, (Compute(trusting, few, (failed,), link=link),)),
        Vote(trusts, trusting, behind, link),
        If(and_(behind, eq(trusts, 1)), (fast,)),
        If(behind, (Compute(outgrown, wrong(progress.law.slack), views, link=link),)),
        Vote(again, outgrown, behind, link),
        If(eq(again, 1), body),
    )


def _any_not(conditions: Sequence[Scalar]) -> Scalar:
    """Give 1 where one of the conditions is false, else 0."""
    tree: Scalar = Constant(0, i32)
    for condition in reversed(conditions):
        tree = Select(condition, tree, Constant(1, i32))
    return tree


def _outgrown(lead: Step, state: State) -> tuple[Scalar, tuple[View, ...]]:
    """Say whether a chunk's value exceeds the old value by more than the slack."""
    progress = state.progress
    assert progress is not None and progress.law is not None and lead.fold is not None
    (out,), opened = lead.outs, progress.open[lead.name]
    held, chunk = opened.storages[0], state.windows[beside(out, "chunk").name].storage
    views: list[View] = []
    conditions: list[Scalar] = []
    for r in range(as_int(held.size) or 1):
        old, other = Arg(len(views), out.dtype), Arg(len(views) + 1, out.dtype)
        views += [View(buffer_of(held), as_expr(r)), View(buffer_of(chunk), as_expr(r))]
        new = substituted(lead.fold.combine[0], (old, other))
        for factor in progress.law.factors[lead.name]:
            tree = substituted(factor.tree, (old, new))
            conditions.append(Binary("le", Constant(2.0**-progress.law.slack, tree.dtype), tree))
    return _any_not(conditions), tuple(views)


def _under_old_value(lead: Step, state: State, context: Context) -> Body:
    """Make later steps read a fold's old value; before the first fold, results overflow, which the vote detects."""
    progress = state.progress
    assert progress is not None
    (out,) = lead.outs
    held, read = progress.open[lead.name].storages[0], state.windows[out.name].storage
    if read is held:
        return ()
    kind = held.dtype
    return each_register(
        held, context, lambda r: (Compute(View(buffer_of(read), r), Arg(0, kind), (View(buffer_of(held), r),)),)
    )


def _corrected(step: Step, state: State, context: Context) -> Body:
    assert state.progress is not None
    opened = state.progress.open.get(step.name)
    return () if opened is None else corrected(step, opened, state, context)


def _summed_apart(
    step: Step, state: State, context: Context, apart: bool
) -> tuple[Body, Body, tuple[Open, State] | None, Body]:
    """Fold a chunk's points into a separate state, since the chunk may be computed again.

    Returns the initial values, the statements, the chunk's sums with the state in which they can be read, and the code
    that adds these to the loop's sums.
    """
    progress, link = state.progress, state.link
    assert progress is not None and step.fold is not None
    opened = progress.open[step.name]
    if not apart:
        main = over_points(step, state, context, lambda at: accumulate(step, opened, at, context))
        return (), (Region(title_of(step), main, state.path, link),), None, ()
    chunk = attrs.evolve(step, name=f"{step.name}_chunk", outs=tuple(beside(out, "chunk") for out in step.outs))
    part = open_fold(chunk, state, context, link)
    inside = evolve(
        state,
        windows={**state.windows, **part.windows},
        progress=evolve(progress, open={**progress.open, chunk.name: part}),
    )
    main = over_points(chunk, inside, context, lambda at: accumulate(chunk, part, at, context))
    note_places(opened, part.places, evolve(inside, guards=part.guards))
    pseudo = Step(f"{step.name}_joined", step.outs, (), Constant(0.0, step.outs[0].dtype))

    def join(at: State) -> Body:
        held, others = (
            [register_view(context, at.windows[role], at, f"step {step.name}") for role in x.roles]
            for x in (opened, part)
        )
        return joined(opened, held, others, context)

    joins = over_points(pseudo, inside, context, join, inside.windows[part.roles[0]])
    title = f"{step.name}: the chunk's is added"
    body = (Region(title_of(step), main, state.path, link),)
    return begin(part, context), body, (part, inside), (Region(title, joins, state.path, link),)


def _beside(product: Product, state: State, context: Context) -> tuple[State, Body]:
    """Compute factors into new registers, since atoms in flight read the old ones; return the copies to the old."""
    copies: Body = ()
    for side in product.sides:
        (out,) = side.outs
        window = state.windows[out.name]
        storage = window.storage
        made = attrs.evolve(storage, name=context.name(f"{out.name}_next"), partials=[])
        context.storages[made.name] = made
        state = evolve(state, windows={**state.windows, out.name: attrs.evolve(window, storage=made)})
        main = each_register(
            storage,
            context,
            lambda r, a=storage, b=made: (Compute(View(buffer_of(a), r), Arg(0, a.dtype), (View(buffer_of(b), r),)),),
        )
        copies += (Region(f"{made.name} to {storage.name}", main, state.path, state.link, "load", storage.name),)
    return state, copies


def _witness(lead: Step, apart: Mapping[str, tuple[Open, State]], state: State) -> tuple[Open, State]:
    """Return the sum of a chunk that shows whether a term exceeded the slack."""
    progress = state.progress
    assert progress is not None and progress.law is not None
    name = next((n for n in witnesses(progress.program, progress.law) if n in apart), None)
    if name is None:
        raise DecompositionError(
            "online-vote",
            f"atoms compute all sums that depend on {lead.name}: speculation needs one in which threads see "
            "that a term exceeds the slack",
            fix="leave one of the sums out of each(...), or online(slack=...) without speculate=True",
            link=state.link,
        )
    return apart[name]


def _seen(storage: Storage, body: Body) -> bool:
    """Say whether statements access given registers."""
    touching = (s for s in walk(body) if isinstance(s, Call | Compute | Micro))
    return any(view.buffer.name == storage.name for s in touching for view, _ in reads_and_writes(s))


def _votes(lead: Step, later: Sequence[Step], products: Mapping[str, Product], state: State) -> None:
    """Raise an error for places where warps cannot vote."""
    law = state.progress.law if state.progress is not None else None
    assert law is not None
    another = next((s.name for s in later if s.name in law.factors), None)
    chained = next((s.name for s in later if s.name in products and not products[s.name].kept), None)
    why = (
        "a thread alone computes it, and a warp votes"
        if state.level.name == Thread.name
        else f"step {another} behind it has followers too"
        if another is not None
        else f"atoms compute step {chained} of each chunk behind it"
        if chained is not None
        else None
    )
    if why is not None:
        raise DecompositionError(
            "online-vote",
            f"step {lead.name} cannot keep an old value: {why}",
            fix="online() without slack",
            link=state.link,
        )


def _alone(body: Body, lead: Step, state: State) -> None:
    """Raise an error for folds that several warps compute together: their votes could differ."""
    for s in walk(body):
        if isinstance(s, Call | Compute):
            buffers: list[Buffer] = [v.buffer for v in s.views] if isinstance(s, Call) else [s.dst.buffer]
            if any(b.memory == SH for b in buffers):
                raise DecompositionError(
                    "online-vote",
                    f"step {lead.name} cannot keep an old value: several warps fold a row together, and each "
                    "warp votes alone",
                    fix="give rows to warps, tile(...).to(Warp), or online() without slack",
                    link=state.link,
                )
