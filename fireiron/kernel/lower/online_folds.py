"""Online folds: after each chunk the value of a fold changes, and sums computed with the old value are corrected."""

from __future__ import annotations

from math import isfinite

import attrs

from fireiron.algebra.expr import Expr
from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar, Select, as_type, renumbered
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Region, View
from fireiron.kernel.lower.context import Body, Context, Recur, State, buffer_of, register_view
from fireiron.kernel.lower.folds.state import Open, begin, finish, note_places, open_fold
from fireiron.kernel.lower.folds.threads import close
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.progress import beside
from fireiron.kernel.lower.registers import each_register
from fireiron.kernel.lower.step_points import accumulate, assign, over_points, views_at
from fireiron.kernel.lower.step_values import lower_value
from fireiron.kernel.lower.window import Storage
from fireiron.language.folds import identity_of
from fireiron.language.monotone import factor_outside, read_factor_outside
from fireiron.language.steps import Ref, Step


def lower_lead(step: Step, opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Lower an online fold: fold a chunk, and compute the factors that correct the folds that depend on it."""
    folded, state = fold_chunk(step, opened, state, context, recur)
    moved, state = move(step, opened, state, context, recur)
    return (Region(title_of(step), (*folded, *moved), state.path, state.link),), state


def title_of(step: Step) -> str:
    """Return the comment of a fold's code."""
    assert step.fold is not None
    return f"{step.name}: {step.fold.name} over {', '.join(d.name for d in step.over)}"


def fold_chunk(step: Step, opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Fold only a chunk's points; return the lowering state in which their value can be read."""
    progress, link = state.progress, state.link
    assert progress is not None
    (out,) = step.outs
    makers = {made.name: s for s in progress.program.steps for made in s.outs}
    outside = read_factor_outside(step, makers)
    found = beside(out, "chunk" if outside.factor is None else "unscaled")
    chunk = factor_outside(attrs.evolve(outside.step, name=found.name, outs=(found,)))
    part = open_fold(chunk, state, context, link)
    part.apart = opened.apart
    inside = evolve(
        state,
        windows={**state.windows, **part.windows},
        progress=evolve(progress, open={**progress.open, chunk.name: part}),
    )
    main = over_points(chunk, inside, context, lambda at: accumulate(chunk, part, at, context))
    body: Body = (*begin(part, context), *main, *close(part, inside, context))
    body += finish(part, inside, context)
    note_places(opened, part.places, evolve(inside, guards=part.guards))
    opened.whole = True
    state = evolve(state, windows={**state.windows, **part.results})
    if outside.factor is None:
        return body, state
    whole = beside(out, "chunk")
    factor = renumbered(outside.factor, {n: n + 1 for n in range(len(outside.reads))})
    value = Binary("mul", Arg(0, out.dtype), factor)
    scaled, state = lower_value(Step(whole.name, (whole,), (found, *outside.reads), value), state, context, recur)
    return (*body, *scaled), state


def move(step: Step, opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Update a fold's value by a chunk's value; return the lowering state in which correction factors can be read."""
    progress = state.progress
    assert progress is not None and progress.law is not None and step.fold is not None
    (out,), role = step.outs, opened.roles[0]
    before = beside(out, "before")
    made, state = lower_value(Step(before.name, (before,), (out,), Arg(0, out.dtype)), state, context, recur)
    body: Body = (*made, *corrected(step, opened, state, context))
    update = Step(step.name, (out,), (out, beside(out, "chunk")), step.fold.combine[0])
    body += over_points(update, state, context, lambda at: assign(update, role, at, context), state.windows[role])
    (identity,) = identity_of(step.fold)
    nothing = Binary("eq", Arg(0, out.dtype), identity)
    for number, factor in enumerate(progress.law.factors[step.name]):
        known = attrs.evolve(beside(out, f"factor{number or ''}"), dtype=factor.tree.dtype)
        tree = Select(nothing, Constant(0.0, factor.tree.dtype), factor.tree)
        made, state = lower_value(Step(known.name, (known,), (before, out), tree), state, context, recur)
        body += made
    if not isfinite(identity.value):  # inf - inf is NaN: 0 where no points, or only masked ones, were folded
        seen = beside(out, "finite")
        tree = Select(nothing, Constant(0.0, out.dtype), Arg(0, out.dtype))
        made, state = lower_value(Step(seen.name, (seen,), (out,), tree), state, context, recur)
        body += made
        state = evolve(state, windows={**state.windows, out.name: state.windows[seen.name]})
    return body, state


def corrected(step: Step, opened: Open, state: State, context: Context) -> Body:
    """Multiply a fold's sums by the correction factors of the folds that it depends on."""
    pseudo = correction(step, opened, state)
    role = opened.roles[0]

    def of_point(at: State) -> Body:
        return corrected_at(pseudo, register_view(context, at.windows[role], at, f"step {step.name}"), at, context)

    return over_points(pseudo, state, context, of_point, state.windows[role]) if pseudo.reads else ()


def corrected_at(pseudo: Step, held: View, at: State, context: Context) -> Body:
    """Correct the sum in the register of the current point."""
    before, views = views_at(pseudo, at, context)
    return (*before, *compute(held, pseudo.body, (held, *views), None, context, at.link))


def correction(step: Step, opened: Open, state: State) -> Step:
    """Write the corrected sum as an expression of the sum, `Arg(0)`, and factors; without dependence it is `Arg(0)`."""
    progress = state.progress
    assert progress is not None
    law, adds, factors = progress.law, False, list[Ref]()
    for lead, number in () if law is None else law.corrected.get(step.name, ()):
        assert law is not None
        (out,) = next(s for s in progress.program.steps if s.name == lead).outs
        factor = law.factors[lead][number]
        adds = factor.adds
        factors.append(attrs.evolve(beside(out, f"factor{number or ''}"), dtype=factor.tree.dtype))
    kind = opened.fold.dtypes[0]
    tree: Scalar = Arg(0, kind)
    for i, factor in enumerate(factors, 1):
        by = as_type(Arg(i, factor.dtype), kind)
        tree = Binary("add" if adds else "mul", tree, by)
    return Step(f"{step.name}_corrected", step.outs, tuple(factors), tree)


def copied(opened: Open, word: str, context: Context) -> Storage:
    """Make registers like those of a fold's value."""
    (held, *_) = opened.storages
    made = attrs.evolve(held, name=context.name(f"{held.name}_{word}"), partials=[])
    context.storages[made.name] = made
    return made


def factors(opened: Open, before: Storage, state: State, context: Context) -> tuple[Body, State]:
    """Compute the factors that correct sums from a fold's old value to its new one; return the state with the factors.

    Args:
        opened: the fold, with the new value. Example: the running maximum of a softmax.
        before: the old value, in registers with the fold's ownership.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
    """
    progress = state.progress
    assert progress is not None and progress.law is not None
    step, (held, *_) = opened.step, opened.storages
    (out,), (identity,) = step.outs, identity_of(opened.fold)
    window = opened.windows[opened.roles[0]]
    nothing = Binary("eq", Arg(0, out.dtype), identity)
    body: Body = ()
    for number, factor in enumerate(progress.law.factors[step.name]):
        known = beside(out, f"factor{number or ''}")
        made = attrs.evolve(held, name=context.name(f"{known.name.lower()}_rf"), dtype=factor.tree.dtype, partials=[])
        context.storages[made.name] = made
        tree = Select(nothing, Constant(0.0, factor.tree.dtype), factor.tree)

        def computed(r: Expr, made: Storage = made, tree: Scalar = tree) -> Body:
            views = View(buffer_of(before), r), View(buffer_of(held), r)
            return compute(View(buffer_of(made), r), tree, views, None, context, opened.link)

        body += each_register(held, context, computed)
        state = evolve(state, windows={**state.windows, known.name: attrs.evolve(window, storage=made)})
    return body, state
