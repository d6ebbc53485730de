"""Raising the values of online folds (maxima) from a chunk's sums, without folding the chunk or computing it again.

Terms 2**(x - m) for a value m sum to s, so m + log2(s) bounds every x. A chunk whose sums exceed the slack, but do not
overflow, is kept: m rises by a whole number n, and the chunk's terms are multiplied by 2**-n, which is exact. The
value lies some powers of 2 above the terms (`headroom`), so that few chunks exceed it. When a warp raises the value of
one row, it also raises the values of other rows whose terms exceed 1. Values rise in steps of several powers of 2,
chosen by few comparisons: this code runs rarely, is then fetched from memory, and must be short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log2

import attrs

from fireiron.algebra.dtypes import DEEP, DType
from fireiron.algebra.expr import Expr
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, Select, substituted
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Compute, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.folds.state import Open
from fireiron.kernel.lower.folds.threads import close
from fireiron.kernel.lower.loop_fusion import converted_in_pairs
from fireiron.kernel.lower.online_folds import corrected, correction
from fireiron.kernel.lower.progress import beside
from fireiron.kernel.lower.registers import each_register
from fireiron.kernel.lower.step_points import assign, over_points
from fireiron.kernel.lower.step_products import Product
from fireiron.kernel.lower.window import Storage
from fireiron.kernel.passes.pairs import FIRST_ARCH
from fireiron.language.lazy import MOST_SLACK, doubling
from fireiron.language.steps import Step

# Fewest registers of a thread: with 160, attention of 64 columns under a mask spills 4 to 8 B for the second vote.
LEAST_REGISTERS = 200
STEPS = (4, 16)  # steps in powers of 2 by which a value rises, without and with headroom


@attrs.frozen
class Rise:
    """Say how a fold's value may be raised.

    Args:
        unit: by how much the value rises for terms to fall to a half.
        headroom: how far the value lies above the largest folded term, in powers of 2.
        most: sums of a chunk may reach 2^most; beyond, terms may not be finite.
    """

    unit: float
    headroom: int
    most: int

    @property
    def step(self) -> int:
        """Return how many powers of 2 further than necessary the value may rise."""
        least, most = STEPS
        return most if self.headroom >= most else least


def rise_of(lead: Step, sums: Storage, products: Mapping[str, Product], state: State) -> Rise | None:
    """Return how a fold's value may be raised; None where it may not.

    Args:
        lead: the fold.
        sums: the sums of a chunk, which show whether a term exceeds the slack.
        products: the products that depend on the fold, by step. One factor of each is computed from the value.
        state: the lowering state (the place in the tree).
    """
    progress = state.progress
    assert progress is not None and progress.law is not None
    unit, (held, *_) = doubling(progress.law, lead), progress.open[lead.name].storages
    if unit is None or any(len(p.sides) != 1 for p in products.values()):
        return None
    kinds: list[DType] = [x.dtype for x in (sums, held)]
    kinds += [out.dtype for p in products.values() for side in p.sides for out in side.outs]
    if any(kind.kind != "float" for kind in kinds):
        return None
    headroom = max(0, min(kind.bias - 1 for kind in kinds) - DEEP)
    return Rise(unit, headroom, min(int(MOST_SLACK), *(floor(log2(kind.limits[1])) for kind in kinds)))


def with_headroom(lead: Step, rise: Rise, state: State, context: Context) -> Body:
    """Add the headroom to the value of a chunk that was folded."""
    (out,) = lead.outs
    chunk = state.windows[beside(out, "chunk").name].storage
    above = Binary("add", Arg(0, chunk.dtype), Constant(rise.unit * rise.headroom, chunk.dtype))
    if not rise.headroom:
        return ()

    def of_register(r: Expr) -> Body:
        view = View(buffer_of(chunk), r)
        return (Compute(view, above, (view,), link=state.link),)

    return each_register(chunk, context, of_register)


def raised(
    lead: Step,
    opened: Open,
    parts: tuple[Open, State],
    rise: Rise,
    state: State,
    context: Context,
) -> Body:
    """Set a chunk's value from the chunk's sums: the old value where the sums are at most 1, else a higher value.

    Args:
        lead: the fold.
        opened: the fold's state.
        parts: the chunk's sums, with the lowering state in which they can be read.
        rise: how far the value may rise.
        state: the place in the tree, where the chunk's value can be read.
        context: the kernel's facts.
    """
    sums, there = parts
    (out,), (total,) = lead.outs, sums.step.outs
    chunk, (role,), (summed,) = beside(out, "chunk"), opened.roles, sums.roles
    old, terms = Arg(0, out.dtype), Arg(1, total.dtype)

    def higher(powers: int) -> Scalar:
        return Constant(rise.unit * (max(0, rise.headroom - rise.step) + powers), out.dtype)

    tree = higher(rise.most)
    for powers in reversed(range(rise.step, rise.most, rise.step)):
        tree = Select(Binary("le", terms, Constant(2.0**powers, total.dtype)), higher(powers), tree)
    tree = Select(Binary("le", terms, Constant(1.0, total.dtype)), Constant(0.0, out.dtype), tree)
    tree = Binary("add", old, tree)
    step = Step(f"{lead.name}_raised", (chunk,), (out, total), tree)
    windows = {**state.windows, out.name: state.windows[role], total.name: there.windows[summed]}
    inside, window = evolve(state, windows=windows), state.windows[chunk.name]
    main = over_points(step, inside, context, lambda at: assign(step, chunk.name, at, context), window)
    lanes = Open(opened.step, {role: window}, opened.link, opened.loops, opened.places, opened.guards)
    lanes.apart = opened.apart
    return (*main, *close(lanes, state, context))


def fallen(
    later: Sequence[Step],
    products: Mapping[str, Product],
    parts: Mapping[str, tuple[Open, State]],
    state: State,
    context: Context,
) -> Body:
    """Correct a chunk's terms and sums by the factors of a value that has risen since they were computed.

    Args:
        later: the steps that depend on the value.
        products: the later steps that atoms compute; of each, the factor that was computed from the value is corrected.
        parts: the chunk's sums of the other steps, with the lowering state in which they can be read.
        state: the place in the tree, where the corrections can be read.
        context: the kernel's facts.
    """
    progress = state.progress
    assert progress is not None
    body: Body = ()
    for step in later:
        if step.name in parts:
            part, inside = parts[step.name]
            body += corrected(step, part, inside, context)
        if step.name not in products:
            continue
        (side,) = products[step.name].sides
        (out,) = side.outs
        by = correction(step, progress.open[step.name], state)
        kinds = [by.outs[0].dtype, *(ref.dtype for ref in by.reads)]
        wide, *factors = [Arg(i, kind) for i, kind in enumerate(kinds)]
        term = wide if out.dtype == wide.dtype else Cast(Arg(0, out.dtype), wide.dtype)
        fall = Step(f"{side.name}_fallen", (out,), (out, *by.reads), substituted(by.body, (term, *factors)))
        window = state.windows[out.name]
        made = over_points(fall, state, context, lambda at, s=fall, r=out.name: assign(s, r, at, context), window)
        body += converted_in_pairs(made, frozenset(), context) if context.arch >= FIRST_ARCH else made
    return body
