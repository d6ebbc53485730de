"""Running results (scans): each point of a dim gets the fold of all points up to it, in the order of the dim.

A thread folds its runs of neighbouring points in sequence. The thread receives the folds of lower lanes by shuffles, of
lower warps through shared memory, of lower blocks as in `block_scans.py`, and of earlier chunks in registers that the
loop carries. A check on intervals of points proves that registers, lanes and warps follow the order of the dim; any
other order is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, cast

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Symbol, Var, as_expr, as_int, evaluate, free, ge, lt, proves
from fireiron.algebra.scalar import Arg, Scalar, Select, substituted
from fireiron.atoms.table import exchange
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import ABSENT, fit
from fireiron.kernel.ir.statements import RANK, THREAD, Buffer, Call, Compute, Region, View
from fireiron.kernel.lower.block_scans import over_cluster, over_grid
from fireiron.kernel.lower.context import Body, Context, Recur, State, buffer_of
from fireiron.kernel.lower.folds.places import LANES, seated, tabulated
from fireiron.kernel.lower.folds.shared import staging
from fireiron.kernel.lower.folds.state import Open, together
from fireiron.kernel.lower.own_points import own_points
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.progress import Carried
from fireiron.kernel.lower.registers import each_register, loop, temporary
from fireiron.kernel.lower.step_points import assign, over_points
from fireiron.kernel.lower.step_results import store_result
from fireiron.kernel.lower.step_values import held_at
from fireiron.kernel.lower.storage import register_storage
from fireiron.kernel.lower.window import POINTS, Axis, Window
from fireiron.language.folds import Fold, identity_of
from fireiron.language.levels import RF, Thread
from fireiron.language.steps import Step

Values = Sequence[View]


@attrs.frozen(eq=False)
class Order:
    """Hold the order of a thread's registers, of the lanes of its warp, and of the warps of its block.

    A thread holds rows, which are folded separately. A row has runs, and a run has neighbouring points.

    Args:
        first: the register of the first point of the first run of the first row.
        rows, runs, points: number of rows of a thread, of runs of a row, and of points of a run, each with the distance
            in registers from one to the next.
        lanes, stride: number of lanes that share a row, and the distance in lanes from one to the next.
        groups, ways: number of groups of warps (groups have different rows), and number of warps in a group.
        group, seat: the group of this thread's warp, and the index of the warp in the group.
    """

    first: int
    rows: tuple[int, int]
    runs: tuple[int, int]
    points: tuple[int, int]
    stride: int
    lanes: int
    groups: int
    ways: int
    group: Expr
    seat: Expr

    def register(self, row: Expr, run: Expr, point: Expr) -> Expr:
        """Return the register of a point."""
        return row * self.rows[1] + run * self.runs[1] + point * self.points[1] + self.first

    def of_run(self, row: int, run: int) -> list[int]:
        """List the registers of a run."""
        first = self.first + row * self.rows[1] + run * self.runs[1]
        return [first + point * self.points[1] for point in range(self.points[0])]


def carry(step: Step, state: State, context: Context, link: Link | None) -> Carried:
    """Make the state that a loop over chunks carries.

    Raises:
        DecompositionError: `scan-order` where units share the dim above the loop: each unit would have to wait for
            others.
    """
    (dim,) = (d.name for d in step.over)
    axis = state.windows[POINTS].axis(dim)
    assert axis is not None
    units = {v.name for v in free(context.expanded(axis.offset))}
    if THREAD in units or shared_by_blocks(axis, context):
        level = "warps" if THREAD in units else "blocks"
        fix = (
            "" if level == "warps" else f"give each block one part of {dim}: more blocks, or drop the loop over chunks"
        )
        raise _out_of_order(step, f"{level} share {dim} above a loop over chunks", link, fix)
    return Carried()


def started(step: Step, carried: Carried, context: Context, link: Link | None) -> Body:
    """Set the carried state of a loop to the fold's identity."""
    assert step.fold is not None
    body: Body = ()
    for buffer, nothing in zip(carried.buffers, identity_of(step.fold), strict=False):
        body += loop(context, "i", buffer.size, lambda i, b=buffer, v=nothing: (Compute(View(b, i), v, link=link),))
    return body


def lower_scan(step: Step, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Compute running results in the threads that hold a step's points; return the state in which they can be read.

    Raises:
        DecompositionError: `scan-order` where threads do not hold the points in the order of the dim.
    """
    progress, fold, link = state.progress, step.fold, state.link
    assert progress is not None and fold is not None
    if state.level.name == Thread.name or context.threads is None:
        raise _out_of_order(step, "threads hold no registers of its points", link)
    windows, body = _lifted(step, fold, state, context)
    storages = [w.storage for w in windows]
    order = _ordered(step, windows[0], state, context)
    held = [buffer_of(s) for s in storages]
    carried = progress.carried.get(step.name)
    rows, _ = order.rows
    if carried is not None and not carried.buffers:
        name = f"{step.name.lower()}_before"
        carried.buffers = tuple(temporary(name, dtype, rows, context) for dtype in fold.dtypes)
    scan = Scan(step, fold, order, held, context, state.path, link)
    axis = state.windows[POINTS].axis(step.over[0].name)
    assert axis is not None
    blocks = shared_by_blocks(axis, context)
    name = f"{step.name.lower()}_total"
    whole = [temporary(name, dtype, rows, context) for dtype in fold.dtypes] if blocks else None
    before = whole if carried is None else carried.buffers
    region = loop(context, "row", rows, lambda q: scan.of_row(q, before))
    title = f"{step.name}: running {fold.name} over {step.over[0].name}"
    if whole is not None:
        region = (*loop(context, "row", rows, lambda q: scan.nothing([View(b, q) for b in whole])), *region)
    body += (Region(title, region, state.path, link),)
    if whole is not None:
        body += over_cluster(scan, whole, context.joined) if blocks == "cluster" else over_grid(scan, whole, state)
    results: list[Window] = windows
    if fold.finish != tuple(Arg(i, dtype) for i, dtype in enumerate(fold.dtypes)):
        results = list[Window]()
        for out, tree in zip(step.outs, fold.finish, strict=True):
            storage = register_storage(out.name.lower(), windows[0], RF, tree.dtype, state, context, link)
            storage.ownership, storage.size = storages[0].ownership, storages[0].size
            results.append(Window(storage, windows[0].axes))
        for made, tree in zip(results, fold.finish, strict=True):
            to = buffer_of(made.storage)

            def finished(r: Expr, to: Buffer = to, tree: Scalar = tree) -> Body:
                return compute(View(to, r), tree, tuple(View(b, r) for b in held), None, context, link)

            body += each_register(made.storage, context, finished)
    named = {out.name: w for out, w in zip(step.outs, results, strict=True)}
    after = evolve(state, windows={**state.windows, **named})
    outputs = {t.name for t in progress.program.outputs}
    for out in step.outs:
        if out.name in outputs:
            body += store_result(step, out, named[out.name], {}, state, context, recur)
    return body, after


def shared_by_blocks(axis: Axis, context: Context) -> Literal["", "cluster", "grid"]:
    """Return which blocks have parts of a dim: those of a cluster, those of the grid, or none."""
    at = free(context.expanded(axis.offset))
    if context.joined > 1 and any(v.name == RANK for v in at):
        return "cluster"
    way = free(context.expanded(as_expr(context.way)))
    return "grid" if as_int(as_expr(context.ways)) != 1 and way and way <= at else ""


def _lifted(step: Step, fold: Fold, state: State, context: Context) -> tuple[list[Window], Body]:
    """Put the state of each single point into registers; missing points get the fold's identity."""
    windows: list[Window] = []
    body: Body = ()
    for i, (lift, nothing) in enumerate(zip(fold.lift, identity_of(fold), strict=True)):
        tree = substituted(lift, (step.body,))
        tree = tree if step.where is None else Select(step.where, tree, nothing)
        name = step.outs[0].name if len(fold.lift) == 1 else f"{step.outs[0].name}_{i}"
        out = evolve(step.outs[0], name=name, dtype=nothing.dtype)
        one = Step(step.name, (out,), step.reads, tree)
        window = held_at(one, state, context)
        role = f"{name} in registers"
        inside = evolve(state, windows={**state.windows, role: window})
        made = over_points(one, inside, context, lambda at, s=one, r=role: assign(s, r, at, context, masked=True))
        to, value = window.storage, nothing
        empty = each_register(to, context, lambda r, b=to, v=value: (Compute(View(buffer_of(b), r), v),))
        body += (*empty, Region(f"{step.name}: {nothing.dtype} in {to.name}", made, state.path, state.link))
        windows.append(window)
    return windows, body


@attrs.frozen(eq=False)
class Scan:
    """Fold registers in order.

    Args:
        step: the step with running results.
        fold: the step's fold.
        order: the order of registers, lanes and warps.
        held: for each scalar of the state, registers with a value for each point.
        context: the kernel's facts.
        path: the place in the tree, for errors.
        link: the link of the chain.
    """

    step: Step
    fold: Fold
    order: Order
    held: Sequence[Buffer]
    context: Context
    path: str
    link: Link | None

    def of_row(self, row: Expr, carried: Sequence[Buffer] | None) -> Body:
        """Fold one row of each thread: its runs, then the warps that share the row."""
        alone = carried is not None and self.order.ways == 1
        before = [View(b, row) for b in carried or ()]
        total = before if alone else self._fresh("total")
        body = () if alone else self.nothing(total)
        body += loop(self.context, "run", self.order.runs[0], lambda j: self._of_run(row, j, total))
        if self.order.ways == 1:
            return body
        return (*body, *self._over_warps(row, total, before))

    def _of_run(self, row: Expr, run: Expr, total: Values) -> Body:
        points, _ = self.order.points

        def at(point: Expr) -> Values:
            return [View(b, self.order.register(row, run, point)) for b in self.held]

        body = (
            loop(self.context, "e", points - 1, lambda e: self.join(at(e + 1), at(e), at(e + 1))) if points > 1 else ()
        )
        last = at(as_expr(points - 1))
        lanes, stride = self.order.lanes, self.order.stride
        if lanes == 1:
            front = self._fresh("front")
            body += self._copy(front, total)
            body += self.join(total, front, last)
        else:
            lane = Var(THREAD, self.context.threads) % LANES
            mine = lane // stride % lanes
            sum_, other, front = self._fresh("sum"), self._fresh("other"), self._fresh("front")
            body += self._copy(sum_, last)
            step = 1
            while step < lanes:
                body += self._exchange(sum_, other, (lane + (LANES - step * stride)) % LANES)
                body += self.join(sum_, other, sum_, ge(mine, step))
                step *= 2
            body += self._exchange(sum_, other, (lane + (LANES - stride)) % LANES)
            body += self._copy(front, total)
            body += self.join(front, front, other, ge(mine, 1))
            body += self._exchange(sum_, other, lane + (lanes - 1 - mine) * stride)
            body += self.join(total, total, other)
        body += loop(self.context, "e", points, lambda e: self.join(at(e), front, at(e)))
        return body

    def _over_warps(self, row: Expr, total: Values, before: Values) -> Body:
        """Combine the folds of all earlier warps of a row with this warp's fold, in order."""
        context, order, ways = self.context, self.order, self.order.ways
        lane = Var(THREAD, context.threads) % LANES
        rows = order.rows[0]
        size = as_expr(order.groups * ways * rows * LANES)
        shared = [staging(f"{v.buffer.name}_sh", v.buffer.dtype, size, context, self.link) for v in total]

        def place(warp: Expr) -> Expr:
            return ((order.group * ways + warp) * rows + row) * LANES + lane

        body: Body = tuple(
            Compute(View(to, place(order.seat)), Arg(0, to.dtype), (v,), link=self.link)
            for to, v in zip(shared, total, strict=True)
        )
        front, other = self._fresh("front"), self._fresh("other")
        body += self.nothing(front) if not before else self._copy(front, before)

        def of_warp(w: Expr) -> Body:
            taken = tuple(
                Compute(o, Arg(0, source.dtype), (View(source, place(w)),), link=self.link)
                for o, source in zip(other, shared, strict=True)
            )
            ahead = self.join(front, front, other, lt(w, order.seat))
            return (*taken, *ahead, *(self.join(before, before, other) if before else ()))

        body += loop(context, "w", ways, of_warp)

        def at(run: Expr, point: Expr) -> Values:
            return [View(b, order.register(row, run, point)) for b in self.held]

        def of_run(j: Expr) -> Body:
            return loop(context, "e", order.points[0], lambda e: self.join(at(j, e), front, at(j, e)))

        body += loop(context, "run", order.runs[0], of_run)
        return (Region(f"{self.step.name} over {ways} warps", body, self.path, self.link),)

    def behind(self, front: Sequence[Buffer]) -> Body:
        """Combine each row's points with the fold of earlier points, one register for each row."""
        order, (runs, points) = self.order, (self.order.runs[0], self.order.points[0])

        def at(row: Expr, run: Expr, point: Expr) -> Body:
            held = [View(b, order.register(row, run, point)) for b in self.held]
            return self.join(held, [View(b, row) for b in front], held)

        def of_run(row: Expr, run: Expr) -> Body:
            return loop(self.context, "e", points, lambda e: at(row, run, e))

        def of_row(row: Expr) -> Body:
            return loop(self.context, "run", runs, lambda j: of_run(row, j))

        return loop(self.context, "row", order.rows[0], of_row)

    def _fresh(self, name: str) -> Values:
        return [View(temporary(name, dtype, 1, self.context), as_expr(0)) for dtype in self.fold.dtypes]

    def nothing(self, to: Values) -> Body:
        """Set a state to the fold's identity."""
        return tuple(Compute(v, c, link=self.link) for v, c in zip(to, identity_of(self.fold), strict=True))

    def _copy(self, to: Values, source: Values) -> Body:
        return tuple(Compute(t, Arg(0, t.buffer.dtype), (s,), link=self.link) for t, s in zip(to, source, strict=True))

    def _exchange(self, mine: Values, other: Values, lane: Expr) -> Body:
        return tuple(
            Call(exchange(m.buffer.dtype.nbytes), (m, o), lane=lane, link=self.link)
            for m, o in zip(mine, other, strict=True)
        )

    def join(self, to: Values, first: Values, second: Values, mask: Expr | None = None) -> Body:
        """Combine two states; the points of the first one precede those of the second."""
        mask = None if mask is None or proves(mask) else mask
        body = together(to, self.fold.combine, (*first, *second), mask, self.context, self.link)
        for stage in self.fold.settle:
            body += together(to, stage, tuple(to), mask, self.context, self.link)
        return body


def _ordered(step: Step, window: Window, state: State, context: Context) -> Order:
    """Find the order of all threads' points from their coordinates, and prove it."""
    assert context.threads is not None
    link, threads, (dim,) = state.link, context.threads, (d.name for d in step.over)
    ownership = window.storage.ownership
    assert ownership is not None
    access = ownership.access
    keys = np.broadcast_to(access.keys(threads), (threads, access.keys(threads).shape[1]))
    exists, keys = keys < ABSENT // 2, keys & (ABSENT - 1)
    coordinates: dict[str, Any] = {}
    for axis in reversed(window.axes):
        coordinates[axis.dim], keys = keys % access.span, keys // access.span
    owned = own_points(window, [a.dim for a in window.axes], state, context)
    opened = Open(_without(step, dim), {}, link)
    for axis in window.axes:
        opened.places[axis.dim] = owned.first(axis.dim, POINTS)
    opened.guards = owned.guards
    table = tabulated(opened, threads, context)

    def placed(name: str) -> Any:
        e = context.expanded(opened.places[name])
        env: dict[str, Any] = {v.name: v.range[1] if isinstance(v, Symbol) else 0 for v in free(e)}
        env[THREAD] = np.arange(threads)
        first = np.broadcast_to(np.asarray(evaluate(e, env)), (threads,))
        return first[:, None] + coordinates[name] - coordinates[name][:, :1]

    place = placed(dim)
    others = [placed(a.dim) for a in window.axes if a.dim != dim]
    flat = np.stack(others).reshape(len(others), -1) if others else np.zeros((1, place.size), np.int64)
    kept = np.unique(flat, axis=1, return_inverse=True)[1].reshape(place.shape)
    rows, runs, points, first = _registers(step, place[0], kept[0], link)
    exists = exists & table.busy[:, None]
    lanes, stride = _lanes(place[:, first], kept[:, first], exists[:, first])
    groups, ways, group, seat = seated(opened, table)
    order = Order(first, rows, runs, points, stride, lanes, groups, ways, group, seat)
    _prove(step, order, place, kept, exists, link)
    return order


def _without(step: Step, dim: str) -> Step:
    """Return the step that folds the whole dim; the same threads hold parts of its values."""
    outs = tuple(evolve(out, index=tuple(e for e in out.index if str(e) != dim)) for out in step.outs)
    return evolve(step, outs=outs, running=False)


def _registers(step: Step, place: Any, kept: Any, link: Link | None) -> tuple[Any, Any, Any, int]:
    """Divide a thread's registers into rows, runs of neighbours and points, at constant distances."""
    names = list(dict.fromkeys(kept.tolist()))
    table: list[list[int]] = []
    for name in names:
        mine = np.flatnonzero(kept == name)
        table.append(mine[np.argsort(place[mine], kind="stable")].tolist())
    if any(len(row) != len(table[0]) for row in table):
        raise _out_of_order(step, "a thread holds rows of different lengths", link)
    registers = np.array(table)
    along = place[registers[0]]
    breaks = np.flatnonzero(np.diff(along) != 1)
    length = len(along) if not len(breaks) else int(breaks[0]) + 1
    if registers.shape[1] % length:
        raise _out_of_order(step, "a thread holds runs of different lengths", link)
    cube = registers.reshape(len(names), -1, length)
    first = int(cube[0, 0, 0])
    steps = [fit(line - line[0]) for line in (cube[:, 0, 0], cube[0, :, 0], cube[0, 0, :])]
    if any(s is None or not isinstance(s.stride, int) for s in steps):
        raise _out_of_order(step, "a thread's registers lie irregularly", link)
    rows, runs, points = ((int(n), int(s.stride)) for n, s in zip(cube.shape, steps, strict=True) if s is not None)  # type: ignore[arg-type]
    grid = np.ogrid[: rows[0], : runs[0], : points[0]]
    if not np.array_equal(cube, grid[0] * rows[1] + grid[1] * runs[1] + grid[2] * points[1] + first):
        raise _out_of_order(step, "a thread's registers lie irregularly", link)
    return rows, runs, points, first


def _lanes(place: Any, kept: Any, exists: Any) -> tuple[int, int]:
    """Return how many lanes share the first lane's row (a power of two), and the distance in lanes between them."""
    warp = min(LANES, len(place))
    mine = [t for t in range(warp) if exists[t] and kept[t] == kept[0] and (t == 0 or place[t] != place[0])]
    return (1 << (len(mine) - 1).bit_length(), mine[1] - mine[0]) if len(mine) > 1 else (1, 1)


def _prove(step: Step, order: Order, place: Any, kept: Any, exists: Any, link: Link | None) -> None:
    """Fold intervals of points in the kernel's order: combined intervals must be adjacent, and end at their own point.

    Raises:
        DecompositionError: `scan-order`.
    """
    threads = len(place)
    every = np.arange(threads)
    lane = every % LANES
    mine = lane // order.stride % order.lanes

    def fold(a: Any, b: Any) -> Any:
        """Join intervals (begin, end); begin = end is empty, and end < begin marks two that were not adjacent."""
        empty_a, empty_b = a[0] == a[1], b[0] == b[1]
        bad = ~empty_a & ~empty_b & (a[1] != b[0])
        begin = cast(Any, np.where(empty_a, b[0], a[0]))
        end = cast(Any, np.where(empty_b & ~empty_a, a[1], b[1]))
        return np.stack([np.where(bad, 1, begin), np.where(bad, -1, end)])

    def from_(x: Any, lanes: Any) -> Any:
        return x[:, every - lane + lanes % LANES]

    spans = np.stack([place, place + exists])
    right = bool((((order.lanes & (order.lanes - 1)) == 0) and threads % LANES == 0) or order.lanes == 1)
    totals: list[Any] = []
    for q in range(order.rows[0]):
        total = np.zeros((2, threads), np.int64)
        for j in range(order.runs[0]):
            at = order.of_run(q, j)
            for one, two in pairwise(at):
                spans[:, :, two] = fold(spans[:, :, one], spans[:, :, two])
            own, front = spans[:, :, at[-1]], total
            if order.lanes == 1:
                total = fold(total, own)
            elif right:
                step_ = 1
                while step_ < order.lanes:
                    own = np.where(mine >= step_, fold(from_(own, lane + LANES - step_ * order.stride), own), own)
                    step_ *= 2
                before = from_(own, lane + LANES - order.stride)
                front = np.where(mine >= 1, fold(total, before), total)
                total = fold(total, from_(own, lane + (order.lanes - 1 - mine) * order.stride))
            for r in at:
                spans[:, :, r] = fold(front, spans[:, :, r])
        totals.append(total)
    group, seat = (
        np.broadcast_to(np.asarray(evaluate(e, {THREAD: every})), (threads,)) for e in (order.group, order.seat)
    )
    for q, total in enumerate(totals if order.ways > 1 else ()):
        front = np.zeros((2, threads), np.int64)
        for w in range(order.ways):
            left = np.zeros((2, threads), np.int64)
            for t in every[seat == w]:
                left[:, (group == group[t]) & (lane == lane[t])] = total[:, [t]]
            front = np.where(seat > w, fold(front, left), front)
        for r in (r for j in range(order.runs[0]) for r in order.of_run(q, j)):
            spans[:, :, r] = fold(front, spans[:, :, r])
    begins = {int(k): int(place[exists & (kept == k)].min()) for k in np.unique(kept[exists])}
    starts = np.array([begins.get(k, 0) for k in range(int(kept.max()) + 1)])[kept]
    right &= bool((spans[0] == starts)[exists].all() and (spans[1] == place + 1)[exists].all())
    if not right:
        raise _out_of_order(step, "registers, lanes and warps do not follow each other as its points do", link)


def _out_of_order(step: Step, why: str, link: Link | None, fix: str = "") -> DecompositionError:
    (dim,) = (d.name for d in step.over)
    return DecompositionError(
        "scan-order",
        f"step {step.name} keeps running results along {dim}, and {why}",
        fix=fix
        or f'write split({dim}=...) above split("{dim}", ways=n).parallel(Warp), and load what it reads by vector()',
        link=link,
    )
