"""Steps by atoms: a contraction of a program becomes a MatMul at its place, which a chain of its own lowers.

The atom at the end of the chain defines the ownership of the sum, and of factors in registers; the program's other
steps use this ownership.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import FALSE, as_expr
from fireiron.algebra.scalar import Arg, Scalar, parts, substituted
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Region
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.folds.state import Open
from fireiron.kernel.lower.maps import boxed, is_mapped
from fireiron.kernel.lower.matrices import as_matrix, unmerge
from fireiron.kernel.lower.registers import fill
from fireiron.kernel.lower.regroup import exchanged
from fireiron.kernel.lower.storage import register_storage
from fireiron.kernel.lower.tree import tree
from fireiron.kernel.lower.window import POINTS, Axis, Storage, Window
from fireiron.language.contractions import Contraction, Side, contraction
from fireiron.language.decompositions import Decomposition
from fireiron.language.folds import Dim
from fireiron.language.levels import RF
from fireiron.language.maps import is_plain
from fireiron.language.residual import named_reads
from fireiron.language.steps import Ref, Step, dense


@attrs.frozen
class Product:
    """Hold the result of lowering a step by its own chain.

    Args:
        opened: the product's sum.
        kept: whether a loop around this place carries the sum.
        sides: steps that compute factors in registers, directly before the atoms read them.
        begin: statements that set the sum to zero, where the atoms do not.
        exchange: statements that move computed factors to the registers that the atoms read.
        body: the statements of the atoms.
    """

    opened: Open
    kept: bool
    sides: tuple[Step, ...]
    begin: Body
    exchange: Body
    body: Body


def lower_product(
    step: Step,
    opened: Open,
    kept: bool,
    links: Sequence[Decomposition],
    steps: Sequence[Step],
    state: State,
    context: Context,
    recur: Recur,
) -> tuple[State, Product]:
    """Lower a step by its own chain; return the state with the windows of factors that other steps compute.

    Args:
        step: a contraction.
        opened: the step's sum in registers.
        kept: whether a loop around this place carries the sum.
        links: the step's chain.
        steps: the steps that are lowered at this place.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        recur: a function that lowers the links.

    Raises:
        DecompositionError: `each-product`, `each-dims`, `each-order`, `each-merge`, `each-factor`, and those of the
            chain.
    """
    found = contraction(step, state.residual.extents, _held_by_points(step, state))
    windows: dict[str, Window] = {}
    sides: list[Step] = []
    computed: dict[str, Storage] = {}
    for side in (found.left, found.right):
        if side.ref is None:
            made = _factor(step, side)
            (out,) = made.outs
            state = _held_as(out, side.dims, state, context)
            sides.append(made)
            computed[side.role] = held = state.windows[out.name].storage
            held.of_sums = any(ref.name in {x.outs[0].name for x in steps} for ref in made.reads)
            windows[side.role] = as_matrix(state.windows[out.name], side.axes, side.order, found.named, step)
            continue
        state, name = _placed(step, side, side.ref, steps, state, context)
        read = boxed(state.windows[name], state.windows[POINTS], state.link)
        windows[side.role] = as_matrix(read, side.axes, side.order, found.named, step)
    role = opened.roles[0]
    sums = state.windows[role]
    sums.storage.seeded = sums.storage.seeded or kept
    order = found.order_of("C")
    axes = tuple(a.dim for a in sums.axes)
    windows["C"] = as_matrix(sums, axes, order, found.named, step)
    residual = found.residual(
        state.level,
        state.residual.extents,
        {r: w.storage.memory for r, w in windows.items()},
        {r: w.storage.dtype for r, w in windows.items()},
    )
    inner = evolve(state, residual=residual, windows=windows, progress=None, begun=FALSE, output=None, whole={})
    inner = inner.under(step.name, state.link)
    body = recur(tree(links), inner, context)
    unmerge(windows["C"].storage, sums.storage, axes, order, found.named)
    for side in (found.left, found.right):
        if side.role in computed:
            unmerge(windows[side.role].storage, computed[side.role], side.axes, side.order, found.named)
    exchange: Body = ()
    for made, side in zip(sides, [x for x in (found.left, found.right) if x.role in computed], strict=True):
        state, moved = _regrouped(made.outs[0], windows[side.role].storage, side, found, state, context)
        exchange += moved
    begin: Body = ()
    if not kept and sums.storage.name not in context.zeroed:
        title = f"Init(0)({sums.storage.memory})({state.level})"
        begin = (Region(title, (fill(sums.storage, 0, context),), inner.path, state.link, "init", sums.storage.name),)
    return state, Product(opened, kept, tuple(sides), begin, exchange, body)


def _regrouped(
    out: Ref, matrix: Storage, side: Side, found: Contraction, state: State, context: Context
) -> tuple[State, Body]:
    """Give a factor's step the layout of sums, if its atom needs an exchange; return the state and the exchange."""
    window, made, atom = state.windows[out.name], matrix.regrouped, matrix.regrouping
    if made is None or atom is None:
        return state, ()
    storage = window.storage
    summed = made
    if matrix is not storage:
        summed = attrs.evolve(storage, name=made.name, ownership=None, of_sums=False, regrouped=None, partials=[])
        context.storages[made.name] = summed
        unmerge(made, summed, side.axes, side.order, found.named)
    body = exchanged(atom, summed, storage, state.path, state.link, context)
    return evolve(state, windows={**state.windows, out.name: evolve(window, storage=summed)}), body


def _held_by_points(step: Step, state: State) -> dict[Ref, tuple[str, ...]]:
    """Return the dims of buffers with one place for each reading point, by the read; the dims are the points' dims."""
    assert state.progress is not None
    found: dict[Ref, tuple[str, ...]] = {}
    for ref, name in zip(step.reads, named_reads(state.progress.program, step), strict=True):
        window = state.windows.get(name)
        if window is not None and not is_mapped(window) and not all(is_plain(ref, i) for i in range(len(ref.index))):
            found[ref] = tuple(axis.dim for axis in window.axes)
    return found


def _factor(step: Step, side: Side) -> Step:
    """Make a step for a factor that is an expression: its value in registers, with the atom's ownership."""
    reads: list[Ref] = []
    for x in parts(side.tree):
        if isinstance(x, Arg) and step.reads[x.index] not in reads:
            reads.append(step.reads[x.index])
    arguments: list[Scalar] = [Arg(reads.index(ref) if ref in reads else 0, ref.dtype) for ref in step.reads]
    name = f"{reads[0].name if len(reads) == 1 else step.name}_{side.role.lower()}"
    return Step(name, (_temporary(name, side),), tuple(reads), substituted(side.tree, arguments))


def _temporary(name: str, side: Side) -> Ref:
    extents = tuple(d.extent for d in side.dims)
    t = dense(name, tuple(as_expr(0) if e is None else e for e in extents), side.dtype, RF)
    return Ref(t.name, t.shape, t.dtype, t.strides, RF, tuple(side.dims))


def _placed(
    step: Step, side: Side, ref: Ref, steps: Sequence[Step], state: State, context: Context
) -> tuple[State, str]:
    """Find the window of a factor that is a single read; results of pointwise steps get the atom's ownership."""
    progress = state.progress
    assert progress is not None
    name = named_reads(progress.program, step)[step.reads.index(ref)]
    if name in state.windows:
        return state, name
    maker = next((s for s in steps if s.fold is None and s.outs[0].name == name), None)
    if maker is None:
        raise DecompositionError(
            "each-factor",
            f"step {step.name} takes {ref} by an atom, and no step at this place leaves it in registers",
            fix="give the step that folds it a chain in each(...) too, or remove this step's chain",
        )
    return _held_as(maker.outs[0], side.dims, state, context), name


def _held_as(out: Ref, dims: Sequence[Dim], state: State, context: Context) -> State:
    """Make the registers of a factor; the atom defines their ownership."""
    extents = state.residual.extents
    axes = tuple(Axis(d.name, extents[d.name] or 0, as_expr(0)) for d in dims)
    name = f"{out.name.lower()}_fr"
    storage = register_storage(name, Window(state.windows[""].storage, axes), RF, out.dtype, state, context, state.link)
    return evolve(state, windows={**state.windows, out.name: Window(storage, axes)})
