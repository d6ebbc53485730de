"""Moves: a load copies an operand to another memory by a separate chain, directly or through registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TypeAlias

import attrs

from fireiron.algebra.expr import (
    Expr,
    Index,
    Var,
    affine,
    and_,
    as_expr,
    free,
    ge,
    lt,
    proves,
    substitute,
)
from fireiron.algebra.layout import Layout, of_leaves
from fireiron.atoms.flights import flying
from fireiron.atoms.table import chosen_from
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import Limit, RegisterLoop
from fireiron.kernel.ir.statements import THREAD, For, If, Region
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.maps import boxed, by_points, ended, is_mapped, loaded, part_of, refuse_overlap
from fireiron.kernel.lower.own_units import own_units
from fireiron.kernel.lower.storage import fresh_window, make_storage, order_of
from fireiron.kernel.lower.tree import Tree, tree
from fireiron.kernel.lower.window import POINTS, Axis, Bound, Storage, Window, narrowed
from fireiron.language.decompositions import Done, Extent, Load, Microkernel, Own, Widest
from fireiron.language.levels import GL, RF, SH, Block, Memory, Thread
from fireiron.language.residual import apply, brought_along, dims_loaded, move_of
from fireiron.language.tensor import ColMajor, RowMajor, TileOrder

MOST_ELEMENTS = 128  # bits of one access: 16 bytes


@attrs.frozen
class Copy:
    """Hold a load's code: the part that starts it, and the part that finishes it later."""

    start: Body
    finish: Body


def open_load(
    link: Load,
    state: State,
    context: Context,
    slots: int = 1,
    slot: Expr | None = None,
    done: Done | None = None,
) -> State:
    """Make a load's buffer, which the links below use as the operand; the Move's own chain may need a layout."""
    source = state.windows[link.role]
    read = box_of(link.role, state, link.memory)
    target = state.windows.get("dst") if link.role == "src" else None
    storage = make_storage(link, read, target, state, context, slots, done)
    if read is not source and link.memory.registers and not _defines_ownership(link):
        refuse_overlap(source, state.windows[POINTS], link.link)
    if read is source or read.storage.reading is not None:
        window = fresh_window(storage, read, slot)
    else:
        window = loaded(storage, source, read, slot)
    below = state.under(f"load {link.role} to {link.memory}", link.link)
    if link.ops is not None:
        below = evolve(below, whole={r: w for r, w in state.whole.items() if r != link.role})
    below = below.with_window(link.role, window)
    for role in brought_along(state.residual, link.role, link.memory):
        below = below.with_window(role, part_of(window, state.windows[role]))
    return evolve(below, residual=apply(link, state.residual))


def box_of(role: str, state: State, memory: Memory = SH) -> Window:
    """Return the part of an operand that a tile reads; for index maps the box.

    Where the elements form no box, the buffer in shared memory has one place for each reading point.
    """
    window, operand = state.windows[role], state.residual.operand(role)
    if not is_mapped(window):
        return window
    dims = () if operand is None else dims_loaded(state.residual, operand, memory)
    if operand is not None and dims != operand.dims:
        return by_points(window, state.windows[POINTS], dims)
    found = boxed(window, state.windows[POINTS], state.link)
    if state.progress is None or memory.registers or window.storage.memory != GL:
        return found
    folded = {d.name for step in state.progress.program.steps if step.is_product for d in step.over}
    return ended(found, window, state.windows[POINTS], folded)


def lower_copy(link: Load, state: State, storage: Storage, slot: Expr | None, context: Context, recur: Recur) -> Copy:
    """Lower the Move that fills a load's buffer. A Move by way of registers has two parts, start and finish."""
    source = box_of(link.role, state, link.memory)
    move = move_of(state.residual, link.role, link.memory, storage.dtype)
    inner = evolve(
        state,
        residual=move,
        windows={"src": source, "dst": fresh_window(storage, source, slot)},
        ops=link.ops,
        progress=None,
        whole={} if link.ops is None else {"src": state.whole[link.role]},
    ).under(f"load {link.role} to {link.memory}", link.link)
    title = f"load {source.storage.name} to {storage.name}: {move}"
    moved = tree(link.move)
    first = moved.link
    if not isinstance(first, Load):
        return Copy((Region(title, recur(moved, inner, context), inner.path, link.link, "load", storage.name),), ())
    assert moved.below is not None
    opened = open_load(first, inner, context)
    staging = opened.windows["src"].storage
    known = context.storages.get(f"staging {storage.name}")
    if known is not None:  # the prologue and the loop stage through the same registers
        del context.storages[staging.name]
        context.names.discard(staging.name)
        staging = known
        opened = opened.with_window("src", evolve(opened.windows["src"], storage=known))
    elif staging.memory.registers:
        context.storages[f"staging {storage.name}"] = staging
    # The part whose schedule decides which thread holds the staged elements is lowered first.
    if staging.memory.registers and not _defines_ownership(first):
        finish = recur(moved.below, opened, context)
        start = lower_copy(first, evolve(inner, ops=None), staging, None, context, recur)
    else:
        start = lower_copy(first, evolve(inner, ops=None), staging, None, context, recur)
        finish = recur(moved.below, opened, context)
    return Copy((*start.start, *start.finish), (Region(title, finish, inner.path, link.link, "load", storage.name),))


def _defines_ownership(link: Load) -> bool:
    """Say whether a load's own chain determines the ownership of registers."""
    return link.memory.registers and not any(isinstance(x, Own) for x in link.move)


def lower_load(link: Load, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower a load and what follows it.

    The links below may determine ownership and thread counts, so they are lowered first; their code still runs second.
    """
    if state.progress is not None and not state.progress.reads(link.role):
        return recur(rest, evolve(state, residual=apply(link, state.residual)), context)
    if state.progress is not None and state.residual.operand(link.role) is None:
        return recur(rest, place_result(link, state, context), context)
    group = _stores_later(rest.asked.done) if link.memory == SH else ""
    if group:
        return _through_ring(link, rest, state, context, recur)
    inner = open_load(link, state, context, done=rest.asked.done if state.residual.kind == "Move" else None)
    storage = inner.windows[link.role].storage
    if state.residual.kind in ("Move", "Program") and _defines_ownership(link):
        copy = lower_copy(link, state, storage, None, context, recur)
        body = recur(rest, inner, context)
    else:
        body = recur(rest, inner, context)
        copy = lower_copy(link, state, storage, None, context, recur)
    return (*copy.start, *copy.finish, *body)


def place_result(link: Load, state: State, context: Context, slots: int = 1, slot: Expr | None = None) -> State:
    """Make the shared buffer of a step's result, which the step writes; for registers nothing is needed.

    Args:
        link: the load that names the step.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        slots: number of slots of the buffer.
        slot: the slot of this chunk.
    """
    assert state.progress is not None
    if link.memory == RF:
        kept = state.progress.kept | {link.role}
        return evolve(state.under(link.words, link.link), progress=evolve(state.progress, kept=kept))
    (out,) = (out for step in state.progress.program.steps for out in step.outs if out.name == link.role)
    extents = state.residual.extents
    axes = tuple(Axis(d.name, extents[d.name] or 0, as_expr(0)) for d in out.dims)
    held = Storage(out.name, RF, out.dtype, out.shape, (), as_expr(0), state.level)
    below = state.under(f"load {link.role} to {link.memory}", link.link)
    storage = make_storage(link, Window(held, axes), None, below, context, slots)
    progress = evolve(state.progress, placed={**state.progress.placed, out.name: link})
    window = Window(storage, axes) if slots == 1 else fresh_window(storage, Window(held, axes), slot)
    return evolve(below.with_window(out.name, window), progress=progress)


def _stores_later(done: Done | None) -> str:
    """Return the name of the group (`Flight`) of the bulk store that ends a chain; "" for other chains."""
    if done is None or done.atom is None or isinstance(done.atom, Microkernel):
        return ""
    group = chosen_from(done.atom)[0].completion
    return group if flying(group) == "stores" else ""


def _through_ring(link: Load, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower one tile of a staging ring: threads fill a slot, and a bulk store reads it."""
    slots, trip = state.ring or (1, as_expr(0))
    inner = open_load(link, evolve(state, ring=None), context, slots, trip, rest.asked.done)
    storage = inner.windows[link.role].storage
    copy = lower_copy(link, evolve(state, ring=None), storage, trip, context, recur)
    body = recur(rest, inner, context)
    return (*copy.start, *copy.finish, *body)


def lower_own(link: Own, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Narrow a Move from or to registers to each thread's own elements.

    Raises:
        DecompositionError: `own-level`, `own-panel`, `ownership-unknown`, `opaque-fragment`.
    """
    if link.level.name in (state.level.name, Block.name):
        return recur(rest, state, context)
    role = next((r for r in ("src", "dst") if state.windows[r].storage.memory.registers), None)
    storage = state.windows[role].storage if role else None
    if role is None or storage is None or storage.ownership is None:
        raise DecompositionError(
            "ownership-unknown",
            f"no side of {state.residual} is a register tensor whose owner is known",
            fix="give the Move a schedule of its own, for example vector()",
        )
    storage.ownership.agree("", storage.name, f"own({link.level}) of {state.residual.short}")
    if link.level.name != Thread.name:
        return recur(rest, own_units(link, state, context, storage), context)
    held, written = storage.ownership.access, storage.ownership.written
    fresh = {
        loop.var: context.variable(loop.var.name, extent) for loop, extent in zip(held.loops, held.extents, strict=True)
    }
    coordinates = tuple(substitute(c, fresh) for c in written.coordinates)
    limits = tuple(evolve(x, offset=substitute(x.offset, fresh)) for x in written.limits)
    guards = tuple(g for g in (substitute(g, fresh) for g in written.guards) if g not in state.guards)
    loops_of = [(fresh[x.var], n) for x, n in zip(held.loops, held.extents, strict=True)]
    coordinates, limits, regular, irregular = sort_loops(coordinates, limits, guards, loops_of)
    window, other_role = state.windows[role], "dst" if role == "src" else "src"
    axes: dict[str, list[Axis]] = {role: [], other_role: []}
    whole = {r: list(w.axes) for r, w in state.whole.items()}
    sizes: list[tuple[str, Index | None]] = []
    for i, (mine, other) in enumerate(zip(window.axes, state.windows[other_role].axes, strict=True)):
        along = [(var, extent, steps[i]) for var, extent, steps in regular if steps[i]]
        offset = substitute(coordinates[i], {var: as_expr(0) for var, _, _ in along})
        layout, inside = owned_steps(held.elements[i], along, [x for x in limits if x.axis == i])
        at = offset - mine.offset
        if any(isinstance(v, Var) and v.name == THREAD for v in free(mine.offset)):
            meant = context.expanded(at)  # a unit's number, and what it means, cancel
            at = meant if len(str(meant)) < len(str(at)) else at
        if mine.size != storage.shape[i]:  # a panel: some threads' elements lie before it, some after it
            assert isinstance(mine.size, int)
            if mine.steps is not None:
                raise DecompositionError(
                    "own-panel",
                    f"{mine.size} of {storage.shape[i]} elements of {storage.name} along {mine.dim}, in chunks, "
                    "are no panel that a thread's own elements can be cut to",
                    fix="tile(rows, cols) above own(Thread), no Strided(...)",
                )
            # A unit's own rows, written by its number: only what the number means proves that they lie in its panel.
            cut = Bound(at, layout, as_expr(mine.size)), Bound(at, layout, as_expr(0), lower=True)
            inside += [b for b in cut if not _holds(evolve(b, offset=context.expanded(b.offset)))]
        axes[role].append(Axis(mine.dim, layout.size, offset, layout, tuple(inside)))
        moved = narrowed(other, at, layout)
        moved = evolve(moved, bounds=(*moved.bounds, *(b for b in inside if not _holds(b))))
        axes[other_role].append(moved)
        for found in whole.values():
            found[i] = narrowed(found[i], at, layout)
        sizes.append((mine.dim, layout.size))
    residual = evolve(state.residual, level=Thread, sizes=tuple(sizes))
    windows = {r: evolve(state.windows[r], axes=tuple(a)) for r, a in axes.items()}
    loops = tuple(RegisterLoop(v, as_expr(n), unrolled=True) for v, n in irregular)
    inner = evolve(
        state.under("own Thread", link.link), residual=residual, windows=windows, loops=(*state.loops, *loops),
        whole={r: evolve(state.whole[r], axes=tuple(a)) for r, a in whole.items()},
        guards=(*state.guards, *guards),
        position=as_expr(0), width=1,
    )  # fmt: skip
    body = recur(rest, inner, context)
    if guards:
        body = (If(and_(*guards), body),)
    for loop in reversed(loops):
        body = (For(loop.var, loop.trips, body, unroll=True),)
    return body


def _holds(bound: Bound) -> bool:
    """Say whether a bound holds for every element that a thread owns."""
    assert bound.steps is not None
    return (
        proves(ge(bound.offset, 0))
        if bound.lower
        else proves(lt(bound.offset + int(bound.steps.cosize) - 1, bound.limit))
    )


def owned_steps(
    elements: Layout, along: Sequence[tuple[Var, int, int]], ends: Sequence[Limit]
) -> tuple[Layout, list[Bound]]:
    """Return the steps of a thread's elements along a dimension, and the ends of tiles that the elements may cross.

    Args:
        elements: the elements of one trip of the loops over registers.
        along: variable, extent and step of each loop over registers that steps along the dimension.
        ends: the ownership's limits along the dimension.
    """
    first = {var: as_expr(0) for var, _, _ in along}
    leaves = _element_leaves(elements, [x.steps for x in ends])
    leaves += [(step, extent, [step_along(end.offset, var) or 0 for end in ends]) for var, extent, step in along]
    leaves = joined(sorted(leaves))
    bounds = [
        Bound(substitute(end.offset, first), of_leaves((n, s[j]) for _, n, s in leaves), end.limit)
        for j, end in enumerate(ends)
    ]
    return of_leaves((n, s) for s, n, _ in leaves), bounds


def joined(leaves: list[tuple[int, int, list[int]]]) -> list[tuple[int, int, list[int]]]:
    """Merge neighbouring leaves where one continues the other, so that contiguous elements may be one vector.

    Args:
        leaves: (stride, extent, strides of the limits) of each leaf, fastest first.

    Example:
        >>> joined([(1, 4, []), (4, 2, []), (64, 2, [])])
        [(1, 8, []), (64, 2, [])]
    """
    out: list[tuple[int, int, list[int]]] = []
    for stride, extent, ends in leaves:
        if out:
            first, count, before = out[-1]
            if (stride, ends) == (first * count, [end * count for end in before]):
                out[-1] = (first, count * extent, before)
                continue
        out.append((stride, extent, ends))
    return out


def _element_leaves(elements: Layout, ends: list[Layout]) -> list[tuple[int, int, list[int]]]:
    """List (stride, extent, strides of the limits) of the elements that one visit touches along a dimension."""
    found: list[tuple[int, int, list[int]]] = []
    place = 1
    for extent, stride in elements.leaves:
        n, s = int(extent), int(stride)  # pyright: ignore[reportArgumentType]
        if n != 1:
            found.append((s, n, [int(end(place)) for end in ends]))  # pyright: ignore[reportArgumentType]
        place *= n
    return found


Digit: TypeAlias = tuple[Var, int, list[int]]


def sort_loops(
    coordinates: tuple[Expr, ...], limits: tuple[Limit, ...], guards: tuple[Expr, ...], loops: list[tuple[Var, int]]
) -> tuple[tuple[Expr, ...], tuple[Limit, ...], list[Digit], list[tuple[Var, int]]]:
    """Split register loops into digits that each step along one dimension by a constant distance, and other loops.

    A loop over a strided tile steps inside a chunk and from chunk to chunk, so it has two digits; a loop over vectors
    of three dimensions has three. The returned coordinates and limits are expressions of the digits.
    """
    regular: list[Digit] = []
    irregular: list[tuple[Var, int]] = []
    for var, extent in loops:
        found = None if any(var in free(g) for g in guards) else _digits(coordinates, limits, var, extent)
        if found is None:
            irregular.append((var, extent))
            continue
        coordinates, limits, digits = found
        regular += digits
    return coordinates, limits, regular, irregular


def _digits(
    coordinates: tuple[Expr, ...], limits: tuple[Limit, ...], var: Var, extent: int
) -> tuple[tuple[Expr, ...], tuple[Limit, ...], list[Digit]] | None:
    """Split a loop's variable into digits, so that coordinates and limits have a fixed stride along each digit.

    Returns:
        The coordinates and limits as expressions of the digits, and the digits, the lowest of which has the largest
        possible extent; None where no split has fixed strides.
    """
    whole = _steps(coordinates, limits, var)
    if whole is not None:
        return coordinates, limits, [(var, extent, whole)]
    for chunk in (n for n in range(extent // 2, 1, -1) if extent % n == 0):
        low, high = Var(f"{var.name}_low", chunk), Var(f"{var.name}_high", extent // chunk)
        digits = {var: low + high * chunk}
        written = tuple(substitute(c, digits) for c in coordinates)
        ends = tuple(evolve(x, offset=substitute(x.offset, digits)) for x in limits)
        lowest = _steps(written, ends, low)
        rest = None if lowest is None else _digits(written, ends, high, extent // chunk)
        if lowest is not None and rest is not None:
            return rest[0], rest[1], [(low, chunk, lowest), *rest[2]]
    return None


def _steps(coordinates: tuple[Expr, ...], limits: tuple[Limit, ...], var: Var) -> list[int] | None:
    """Return the constant step of each coordinate along a variable; None unless exactly one steps, and forward."""
    steps: list[int] = []
    for coordinate in coordinates:
        step = step_along(coordinate, var)
        if step is None:
            return None
        steps.append(step)
    if sum(1 for s in steps if s) != 1:
        return None
    ends = [(x.axis, step_along(x.offset, var)) for x in limits]
    return None if any(s is None or (s and not steps[axis]) for axis, s in ends) else steps


def step_along(e: Expr, var: Var) -> int | None:
    """Return the step of an expression along a variable; None where it is not constant, or negative."""
    split = affine(e, [var])
    step = split[0].get(var, 0) if split is not None else None
    return step if isinstance(step, int) and step >= 0 else None


def widest_sizes(size: Widest, state: State, order: TileOrder) -> tuple[tuple[tuple[str, Extent], ...], TileOrder]:
    """Choose the widest vector that both sides of a Move allow; neighbouring units take neighbouring vectors.

    Raises:
        DecompositionError: `vector-alignment` where the given width is impossible.
    """
    sides = [w for w in state.windows.values() if not w.storage.memory.registers]
    dims = [dim for dim, _ in state.residual.sizes]
    limits = [_widths(w, size.nbytes) for w in sides]
    candidates = (
        [(min(found[i][0] for found in limits), i) for i in range(len(dims))] if limits else [(1, len(dims) - 1)]
    )
    best, index = max(candidates, key=lambda c: (c[0], c[1]))
    widest = min((w.storage.dtype.nbytes_of(best) for w in sides), default=best * size.nbytes)
    if size.exact and widest < size.nbytes:
        _, words, about = min((found[index] for found in limits), key=_elements)
        raise DecompositionError(
            "vector-alignment",
            f"a vector of {size.nbytes} bytes is wider than {widest} bytes, the most that {words.format(*about)}",
            fix=f"use {widest} bytes, or vector() for the widest that fits; "
            "declare symbols by symbol(name, multiple_of=n)",
        )
    sizes = tuple((dim, best if i == index else 1) for i, dim in enumerate(dims))
    if order is RowMajor and best == 1 and sides:
        order = order_of(sides[0]) or RowMajor
    elif order is RowMajor and len(dims) > 1 and index == len(dims) - 2:
        order = ColMajor
    return sizes, order


def _widths(window: Window, nbytes: int) -> list[tuple[int, str, tuple[object, ...]]]:
    """Return for each dimension how many elements one aligned access may take along it, and the reason for this limit.

    The reason is a format with arguments, since most reasons are never printed.
    """
    storage = window.storage
    most = max(1, storage.dtype.count_in(nbytes))
    base, slots = _power(window.linear().divisor), _power(window.base().divisor)
    along = [window.steps_along(i) for i in range(len(window.axes))]
    computed = _computed_steps(window)
    out: list[tuple[int, str, tuple[object, ...]]] = []
    name = storage.name
    for i, axis in enumerate(window.axes):
        steps = along[i]
        limits: list[tuple[int, str, tuple[object, ...]]] = [(most, "{} bytes hold", (nbytes,))]
        run = _run(steps) if steps is not None else _run_in_panels(window, i)
        limits.append((run, "lie together along {} of {}", (axis.dim, name)))
        limits.append((base, "the offset of {}'s tile is aligned to", (name,)))
        limits.append((slots, "the slots of {} are aligned to", (name,)))
        if storage.start:
            limits.append((_power(storage.start), "the start of {} is aligned to", (name,)))
        for stride in (*_other_steps(along, i), *computed):
            limits.append((_power(stride), "the other strides of {} are aligned to", (name,)))
        if storage.swizzle is not None:
            limits.append((storage.swizzle.contiguous, "{} keeps together", (storage.swizzle,)))
        for bound in axis.bounds:
            divisor = (
                _power(bound.offset.divisor)
                if bound.lower
                else min(_power(bound.offset.divisor), _power(bound.limit.divisor))
            )
            limits.append((divisor, "the extent {} of {} divides by", (bound.limit, axis.dim)))
        if axis.steps is None and isinstance(axis.size, int):
            limits.append((_power(axis.size), "the tile's {} elements along {} divide by", (axis.size, axis.dim)))
        out.append(min(limits, key=_elements))
    return out


def _elements(limit: tuple[int, str, tuple[object, ...]]) -> int:
    return limit[0]


def _other_steps(along: Sequence[Layout | None], index: int) -> list[int]:
    """List the divisors of all strides of a window except the stride of the contiguous run along one axis."""
    out: list[int] = []
    for i, steps in enumerate(along):
        if steps is None:
            continue
        leaves = [(n, s) for n, s in steps.leaves if n != 1]
        out += [as_expr(s).divisor for _, s in (leaves[1:] if i == index else leaves)]
    return out


def _computed_steps(window: Window) -> list[int]:
    """List the strides of dimensions whose coordinates are computed from points."""
    reading, strides = window.storage.reading, window.storage.strides
    if reading is None:
        return []
    assert not isinstance(strides, Layout)
    moved = {i for i, e in enumerate(reading.index) if e not in reading.dims}
    return [as_expr(strides[i]).divisor for i in moved]


def _run(steps: Layout) -> int:
    """Count the leading contiguous elements."""
    extent, stride = steps.leaves[0]
    if stride != 1 or not isinstance(extent, int):
        return 1
    return extent & -extent


def _run_in_panels(window: Window, index: int) -> int:
    """Return how many elements are contiguous along an axis in panels, from the first element's place on."""
    axis, strides = window.axes[index], window.storage.strides
    if window.storage.reading is not None or not isinstance(strides, Layout):
        return 1
    run, inside = _run(strides[index]), _run(axis.layout)
    return gcd(run, inside, axis.offset.divisor)


def _power(divisor: int) -> int:
    """Return the largest power of two that divides a number, at most the bits of a vector."""
    return MOST_ELEMENTS if divisor == 0 else min(MOST_ELEMENTS, divisor & -divisor)
