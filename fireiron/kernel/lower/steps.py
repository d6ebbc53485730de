"""Steps at the end of a chain: each step is computed by the threads that hold its operands.

Where several threads hold parts of a fold, the files in `folds` combine them. A pointwise step with a single reader is
computed as a part of that reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fireiron.algebra.expr import proves
from fireiron.algebra.scalar import Arg, Scalar, substituted
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import If, Region
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.folds.state import Open, begin_points, note_places, open_fold
from fireiron.kernel.lower.lane_reads import moved_read
from fireiron.kernel.lower.lazy_folds import Lazily, is_lazy, lower_lazily
from fireiron.kernel.lower.maps import is_mapped
from fireiron.kernel.lower.move import lower_copy, open_load
from fireiron.kernel.lower.online_folds import corrected, lower_lead, title_of
from fireiron.kernel.lower.own_points import own_points
from fireiron.kernel.lower.progress import Progress, masks_products
from fireiron.kernel.lower.ranked_points import fold_points
from fireiron.kernel.lower.scans import lower_scan
from fireiron.kernel.lower.step_points import assign, gathers, over_points
from fireiron.kernel.lower.step_products import Product, lower_product
from fireiron.kernel.lower.step_results import closed, closed_together, stored_name, stores_here
from fireiron.kernel.lower.step_values import lower_value
from fireiron.kernel.lower.uniform import with_uniform_conditions
from fireiron.kernel.lower.window import POINTS, Storage
from fireiron.language.decompositions import Done, EachStep, Load, Own, Tile, Widest
from fireiron.language.levels import RF, Thread
from fireiron.language.monotone import factor_outside
from fireiron.language.residual import named_reads
from fireiron.language.steps import Ref, Step, number_in


def lower_steps(state: State, context: Context, recur: Recur, each: EachStep | None = None) -> Body:
    """Lower the remaining steps at the end of a chain: by chains of their own, or over the points of threads."""
    progress = state.progress
    assert progress is not None
    state = evolve(state, progress=evolve(progress, each=each))
    if masks_products(progress.active):
        state = with_uniform_conditions(state)
    return lower_active(state, context, recur)[0]


def lower_active(state: State, context: Context, recur: Recur, keep: bool = False) -> tuple[Body, State]:
    """Lower steps in sequence; return the state in which their results can be read.

    Args:
        state: the lowering state, with the steps to lower.
        context: the kernel's facts.
        recur: a function that lowers the chains of Moves and of steps.
        keep: whether later loops may read results that no step here reads.
    """
    progress = state.progress
    assert progress is not None
    if not progress.active:
        return (), state
    moved = _read_where_written(progress, state.link)
    outputs = {t.name for t in progress.program.outputs}
    pending: dict[str, Step] = {}  # expressions that are computed where they are read
    steps: list[Step] = []
    for step in progress.active:
        readers = [s for s in progress.active if any(r.name == step.outs[0].name for r in s.reads)]
        later = keep and any(
            r.name == step.outs[0].name for s in progress.program.steps if s not in progress.active for r in s.reads
        )
        alike = all(set(reader.dims) <= set(step.dims) for reader in readers)  # else computed once for many points
        apart = any(step.outs[0].name in names for names in (outputs, progress.placed, progress.kept, moved))
        early = _gathers_beside_folds(step, progress)
        if step.fold is None and not apart and not early and len(readers) <= 1 and alike and not later:
            pending[step.outs[0].name] = step
            continue
        steps.insert(0 if early else len(steps), _inlined(step, pending))
    state, products = _lower_products(steps, state, context, recur)
    steps = _with_folds_side_by_side(steps, products, state)
    plain = [x for s in steps for x in (products[s.name].sides if s.name in products else (s,))]
    state, loads = _auto_loads(plain, state, context)
    body: Body = ()
    ahead: dict[Load, int] = {}  # length of the body before each load: a load stands right before its first reader
    lazily: Lazily | None = None
    waiting: list[Open] = []  # folds whose points are folded, and whose parts meet with those of a later one
    for i, step in enumerate(steps):
        product = products.get(step.name)
        if lazily is not None and product is None:
            continue
        for part in (step,) if product is None else product.sides:
            read = named_reads(progress.program, part)
            ahead.update({link: len(body) for link in loads if link not in ahead and link.role in read})
            if lazily is not None:
                continue
            if is_lazy(part, state):
                made, state, lazily = lower_lazily(part, steps[i + 1 :], products, state, context, recur, _lower_step)
            elif product is None and _closes_here(part, state):
                made, state, opened = _folded(part, state, context)
                waiting.append(opened)
                if not _wait(waiting, steps[i + 1 :], products, state):
                    closing, state = closed_together(waiting, state, context, recur)
                    made, waiting = (*made, *closing), []
            else:
                made, state = _lower_step(part, state, context, recur)
            body += made
        if product is not None:
            made, state = _finish_product(step, product, state, context, recur, lazily)
            body += made
    for link, place in reversed(ahead.items()):  # places ascend, so earlier insertions do not move
        before, storage = loads[link]
        copied = lower_copy(link, before, storage, None, context, recur)
        body = (*body[:place], *copied.start, *copied.finish, *body[place:])
    return body, state


def _lower_products(
    steps: Sequence[Step], state: State, context: Context, recur: Recur
) -> tuple[State, dict[str, Product]]:
    """Lower the steps with chains of their own: their atoms define the ownership of registers that others read."""
    progress = state.progress
    assert progress is not None
    made: dict[str, Product] = {}
    for step in steps:
        links = None if progress.each is None else progress.each.of(step.name)
        if links is None:
            continue
        opened = progress.open.get(step.name)
        kept = opened is not None
        opened = opened or open_fold(step, state, context, state.link)
        if not kept:
            state = evolve(state, windows={**state.windows, **opened.windows})
            state = evolve(state, windows={**state.windows, step.outs[0].name: opened.windows[opened.roles[0]]})
        state, product = lower_product(step, opened, kept, links, steps, state, context, recur)
        places = {a.dim: a.offset for a in state.windows[POINTS].axes}
        if state.level.name == Thread.name:
            note_places(opened, {d.name: places[d.name] for d in step.dims}, state)
        else:
            window = state.windows[opened.roles[0]]
            owned = own_points(window, [d.name for d in step.kept], state, context)
            mine = {d.name: owned.first(d.name, POINTS) for d in step.kept}
            note_places(opened, {d.name: mine.get(d.name, places[d.name]) for d in step.dims}, owned.state)
        made[step.name] = product
    return state, made


def _finish_product(
    step: Step, product: Product, state: State, context: Context, recur: Recur, lazily: Lazily | None
) -> tuple[Body, State]:
    """Put an atom's statements after the correction of its sum, and add the sums of several units."""
    opened, title = product.opened, f"{step.name}: {step.fold.name if step.fold else ''} by atoms"
    if product.kept:
        factors = corrected(step, opened, state, context)
        before: Body = (Region(f"{step.name}: what was summed is corrected", factors, state.path, state.link),)
        before = before if factors else ()
        moved = product.exchange
        if lazily is not None:
            before = (*((If(lazily.again, before),) if before else ()), *lazily.carried.get(step.name, ()))
            moved = () if step.name in lazily.carried else moved
        body = Region(title, product.body, state.path, state.link, "product", step.name)
        return (*before, *moved, body), state
    made, after = closed(opened, state, context, recur)
    body = (*product.begin, *product.body)
    return (*product.exchange, Region(title, body, state.path, state.link, "product", step.name), *made), after


def _auto_loads(
    steps: Sequence[Step], state: State, context: Context
) -> tuple[State, dict[Load, tuple[State, Storage]]]:
    """Load the elements that threads read from global memory to registers, by vectors; each thread loads its own."""
    progress = state.progress
    assert progress is not None
    loads: dict[Load, tuple[State, Storage]] = {}
    if state.level.name == Thread.name:
        return state, loads
    makers = {out.name for step in progress.program.steps for out in step.outs}
    for role in dict.fromkeys(role for s in steps for role in named_reads(progress.program, s)):
        window = state.windows.get(role)
        if window is None or window.storage.memory.registers or window.storage.name in makers or is_mapped(window):
            continue
        if role in progress.placed:  # the threads of its step also hold it in registers
            continue
        move = (Own(Thread), Tile(Widest(), unrolled=True), Done(None))
        link = Load(role, RF, move, link=state.link)
        before = state
        state = open_load(link, state, context)
        loads[link] = (before, state.windows[role].storage)
    return state, loads


def _read_where_written(progress: Progress, link: Link | None) -> set[str]:
    """Find results that are read at other points of their dims; they are kept in registers, for shuffles between lanes.

    Raises:
        DecompositionError: `affine-read` where a result is read at other dims, or is the result of a fold.
    """
    written = {out.name: (out, step) for step in progress.program.steps for out in step.outs}
    moved: set[str] = set()
    for step in progress.active:
        for ref in step.reads:
            out, maker = written.get(ref.name, (ref, step))
            if ref.index == out.index:
                continue
            if not moved_read(ref, out) or maker.fold is not None or step.fold is not None:
                raise DecompositionError(
                    "affine-read",
                    f"step {step.name} reads {ref}, and step {maker.name} computes {out}",
                    fix=f"let step {step.name} read it at these dims, or compute {ref.name} by a kernel of its own",
                    link=link,
                )
            moved.add(ref.name)
    return moved


def _gathers_beside_folds(step: Step, progress: Progress) -> bool:
    """Say whether a step reads elements that indices name, for results of folds that do not wait for them.

    Two reads after one another, an index and its element, then run while others are folded.
    """
    given = {t.name for t in progress.program.inputs}
    folded = {d.name for s in progress.active for d in s.over}
    mine = {d.name for d in step.dims}
    return (
        step.fold is None
        and bool(folded)
        and folded.isdisjoint(mine)
        and all(ref.name in given for ref in step.reads)
        and any(gathers(e) for ref in step.reads for e in ref.index)
    )


def _inlined(step: Step, pending: dict[str, Step]) -> Step:
    """Substitute the expressions of pointwise steps into their readers."""
    while any(ref.name in pending for ref in step.reads):
        reads: list[Ref] = []

        trees: list[Scalar] = []
        for ref in step.reads:
            maker = pending.get(ref.name)
            if maker is None:
                trees.append(Arg(number_in(reads, ref), ref.dtype))
                continue
            numbers = {i: number_in(reads, x) for i, x in enumerate(maker.reads)}
            trees.append(substituted(maker.body, [Arg(numbers[i], x.dtype) for i, x in enumerate(maker.reads)]))
        where = None if step.where is None else substituted(step.where, trees)
        step = attrs.evolve(step, body=substituted(step.body, trees), reads=tuple(reads), where=where)
    return step


def _closes_here(step: Step, state: State) -> bool:
    """Say whether a step is a fold whose points a thread has at this place alone."""
    progress = state.progress
    return step.fold is not None and not step.running and progress is not None and step.name not in progress.open


def _with_folds_side_by_side(steps: Sequence[Step], products: Mapping[str, Product], state: State) -> list[Step]:
    """Move folds behind an earlier fold if all their reads can be computed by then: these folds share one barrier.

    Pointwise steps that such a fold reads move with it. Products are not moved, and no pointwise step moves over a
    product, so that steps between two products still run while the second product runs. Example: a layer norm's
    gradient sums x and sums dy * gain over a row before any step uses either sum, then sums the squared distances from
    the mean, and g times the distances, wherever the program computes the distances.
    """
    made: list[Step] = []
    rest = list(steps)
    while rest:
        step = rest.pop(0)
        made.append(step)
        if step.name in products or not _closes_here(step, state):
            continue
        missing = {out.name for other in (step, *rest) for out in other.outs}
        ready: list[Step] = []  # steps that read no result of this fold, of a later one or of a product
        product = next((i for i, x in enumerate(rest) if x.name in products), len(rest))
        for i, x in enumerate(rest):
            pointwise = x.fold is None and not x.running and i < product
            if any(ref.name in missing for ref in x.reads) or x.name in products:
                continue
            if pointwise:
                missing -= {out.name for out in x.outs}
            if pointwise or _closes_here(x, state):
                ready.append(x)
        beside: list[Step] = []
        for x in reversed(ready):
            if x.fold is not None or any(ref.name == out.name for y in beside for ref in y.reads for out in x.outs):
                beside.insert(0, x)
        made += beside
        rest = [x for x in rest if x not in beside]
    return made


def _wait(waiting: Sequence[Open], later: Sequence[Step], products: Mapping[str, Product], state: State) -> bool:
    """Say whether a later fold precedes all readers of these folds; all of these folds then share barriers."""
    made = {out.name for opened in waiting for out in opened.step.outs}
    for other in later:
        if other.name in products or any(ref.name in made for ref in other.reads):
            return False
        if _closes_here(other, state):
            return True
    return False


def _folded(step: Step, state: State, context: Context) -> tuple[Body, State, Open]:
    """Fold the points of each thread; return the state in which the thread's part can be read."""
    progress = state.progress
    assert progress is not None
    step = factor_outside(step)
    opened = open_fold(step, state, context, state.link)
    known = evolve(progress, open={**progress.open, step.name: opened})
    inside = evolve(state, windows={**state.windows, **opened.windows}, progress=known)
    main = fold_points(step, opened, inside, context)
    return (Region(title_of(step), (*begin_points(opened, context), *main), state.path, state.link),), inside, opened


def _lower_step(step: Step, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Lower one step; return the state in which its results can be read."""
    progress = state.progress
    assert progress is not None
    link = state.link
    if step.running:
        return lower_scan(step, state, context, recur)
    carried = progress.open.get(step.name)
    if carried is not None and progress.law is not None and step.name in progress.law.factors:
        return lower_lead(step, carried, state, context, recur)
    if step.fold is not None:
        if carried is None:
            body, inside, opened = _folded(step, state, context)
            made, after = closed(opened, inside, context, recur)
            return (*body, *made), after
        main = fold_points(step, carried, state, context)
        body = (*corrected(step, carried, state, context), *main)
        return (Region(title_of(step), body, state.path, link),), state
    (out,) = step.outs
    outputs = {t.name for t in progress.program.outputs}
    if state.level.name == Thread.name and out.name in outputs and progress.results is None and not step.into:
        main = over_points(
            step, state, context, lambda at: assign(step, stored_name(out.name), at, context, masked=True)
        )
        mine = stores_here(step, out, {}, state, context)
        main = main if proves(mine) else (If(mine, main),)
        return (Region(f"{step.name}", main, state.path, link),), state
    return lower_value(step, state, context, recur)
