"""The meaning of Call, Compute and Micro on whole arrays (iterations, elements, threads)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, cast

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, as_expr, evaluate
from fireiron.algebra.scalar import Binary, Custom, Debug, Scalar, Unary, debug_line, parts, prints
from fireiron.atoms.meaning import meaning_of
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import Compute, Micro
from fireiron.language.atom import Atom
from fireiron.language.levels import Level
from fireiron.simulate.access import Env, Value
from fireiron.simulate.arithmetic import Told, evaluate_scalar
from fireiron.simulate.leaves import Leaf, Plan
from fireiron.simulate.order import Array, every, some, spread
from fireiron.simulate.state import ITERATIONS, Place, Team
from fireiron.simulate.units import unit_threads, whole_units

WARP = 32
Values = list[Array | None]


class Meaning:
    """Hold the computation of a statement, and the checks of its executions."""

    def __init__(self, team: Team, place: Place) -> None:
        self.team = team
        self.place = place

    def compute(self, plan: Plan, values: Values) -> tuple[Array, ...]:
        """Give the targets' new values."""
        raise NotImplementedError

    def finish(self, plan: Plan, env: Env) -> None:
        """Complete a plan, or raise an error."""

    def error(self, code: str, message: str, fix: str) -> SimulationError:
        """Make an error at the statement's site."""
        return self.team.error(self.place, code, f"{self.place}: {message}", fix)

    def converged(self, plan: Plan, level: Level) -> Array:
        """Return the threads of each executing unit, (units, threads); raise an error for a unit executing in part."""
        return converged(self.team, self.place, None if plan.mask is None else plan.mask[0], level)


class MoveMeaning(Meaning):
    """Copy elements; zeros where the read condition is false."""

    def compute(self, plan: Plan, values: Values) -> tuple[Array, ...]:
        """Give the copied elements."""
        (value,) = values
        storage = plan.writes[0].storage
        if value is None:
            return (np.zeros((1, 1, 1), storage.data.dtype),)
        if plan.zero is not None:
            value = np.where(plan.zero, np.zeros((), value.dtype), value)
        return (value,)

    def finish(self, plan: Plan, env: Env) -> None:
        """Raise an error for a Move whose sides differ in element type or size."""
        (read,), (write,) = plan.reads, plan.writes
        if read is None:
            return
        if read.storage.data.dtype != write.storage.data.dtype:
            raise self.error(
                "move-dtype",
                f"a Move from {read.storage.buffer.dtype} to {write.storage.buffer.dtype} would convert",
                "convert in a Compute",
            )
        here, there = (a.rows.shape[1] if a.rows is not None else _elements(a.index) for a in (read, write))
        if here != there:
            raise self.error("move-size", f"{here} elements move into {there}", "give both views the same extent")


@lru_cache(1 << 10)
def _exchange(atom: Atom) -> tuple[Array, Array, Array]:
    """Return, for each register and thread, whose element arrives, and which; and the threads whose addresses count."""
    src, dst = atom.operands
    threads = int(src.layout[0].size)
    # Of packed elements the view's steps are bytes: one element stands for those that share its byte.
    pack = max(1, src.registers // atom.nbytes)
    lanes = [int(src.layout[0](t)) for t in range(threads)]
    rows = [int(dst.layout[0](t)) for t in range(threads)]
    gives, takes = ([int(side.layout[1](i)) for i in range(side.registers)] for side in (src, dst))
    found = {lane + step: (t, e) for t, lane in enumerate(lanes) for e, step in enumerate(gives)}
    origin = [[found[row + step] for row in rows] for step in takes[::pack]]
    thread, element = (np.array([[pair[i] for pair in row] for row in origin]) for i in (0, 1))
    # Lanes whose addresses an instruction ignores are given those of others.
    return thread, element // pack, np.array([row not in rows[:t] for t, row in enumerate(rows)])


class CollectiveMeaning(MoveMeaning):
    """Move a tile by all threads of a unit: two layouts say which elements each thread addresses and receives."""

    def __init__(self, team: Team, place: Place, atom: Atom) -> None:
        super().__init__(team, place)
        self.atom = atom
        self.threads = int(atom.operands[0].layout[0].size)
        self.thread, self.element, self.speaks = _exchange(atom)

    def compute(self, plan: Plan, values: Values) -> tuple[Array, ...]:
        """Return the value that each thread receives."""
        (value,) = values
        assert value is not None
        units = plan.extra
        out = np.zeros((len(value), len(self.thread), value.shape[2]), value.dtype)
        for unit in units:
            out[:, :, unit] = value[:, self.element, unit[self.thread]]
        return (out,)

    def finish(self, plan: Plan, env: Env) -> None:
        """Find the executing units; all their threads must be active."""
        plan.together &= plan.mask is None or len(plan.mask) == 1
        plan.extra = self.converged(plan, self.atom.unit)
        (access,) = plan.writes
        if access.index is None or access.rows is not None or every(self.speaks):
            return
        here: Array = np.zeros(access.index.shape, bool)
        here[:, :, plan.extra] = self.speaks
        who = spread(np.arange(here.shape[2], dtype=access.who.dtype) + 1, here.shape)
        plan.writes[0] = attrs.evolve(access, touched=access.index[here], who=who[here], granules=None, active=here)


class MatMulMeaning(Meaning):
    """Compute an atom's product, for all units and iterations at once."""

    def __init__(self, team: Team, place: Place, atom: Atom) -> None:
        super().__init__(team, place)
        self.atom = atom
        self.meaning = meaning_of(atom)
        self.alone = atom.unit.size == 1
        self.flops = 2 * prod(atom.shape)

    def compute(self, plan: Plan, values: Values) -> tuple[Array, ...]:
        """Give the new C."""
        assert self.meaning is not None
        threads: Array = plan.extra
        shaped = [self._units(value, threads) for value in values if value is not None]
        result = self.meaning(*shaped)
        if self.team.machine.exact and result.dtype == np.int32:
            self._fits(shaped, result, plan)
        count, _, lanes = values[-1].shape if values[-1] is not None else (1, 1, 1)
        self.team.machine.flops += self.flops * (plan.count // max(self.atom.unit.size or 1, 1))
        if self.alone:
            if result.shape[-1] == 1:
                return (result.reshape(count, 1, lanes),)
            return (result.reshape(count, lanes, -1).transpose(0, 2, 1),)
        out = np.array(values[-1])
        units, each = threads.shape
        out[:, :, threads] = result.reshape(count, units, each, -1).transpose(0, 3, 1, 2)
        return (out,)

    def _fits(self, shaped: Sequence[Array], result: Array, plan: Plan) -> None:
        """Raise an error for sums that wrap. One call adds less than 32 bits hold, unless its factors have 32 bits."""
        wide = [x.astype(np.int64) for x in shaped]
        if len(shaped) == 1 or shaped[0].dtype == np.int32:
            assert self.meaning is not None
            total = self.meaning(*wide) if len(shaped) == 1 else wide[0] * wide[1] + wide[2]
        else:
            total = wide[-1] + (result - shaped[-1].reshape(result.shape))
        mask = None
        if self.alone and plan.mask is not None:
            lanes = spread(plan.mask, (len(result) // plan.mask.shape[-1], plan.mask.shape[-1]))
            mask = lanes.reshape(-1, *(1,) * (result.ndim - 1))
        self.team.machine.refuse_wrapped(self.place, total.reshape(result.shape), result, mask)

    def finish(self, plan: Plan, env: Env) -> None:
        """Find the executing units."""
        if self.meaning is None:
            fix = "give its row a `rounding`, or a `numpy`"
            raise self.error("atom-numpy", f"the atom {self.atom.name} has no NumPy meaning", fix)
        if not self.alone:
            # Masks may differ between iterations: then they run one by one.
            plan.together &= plan.mask is None or len(plan.mask) == 1
            if self.atom.converge is not None:
                self.converged(plan, self.atom.converge)
            plan.extra = self.converged(plan, self.atom.unit)

    def _units(self, value: Array, threads: Array) -> Array:
        count, registers, lanes = value.shape
        if self.alone:
            if registers == 1:
                return value.reshape(count * lanes, 1, 1)
            return value.transpose(0, 2, 1).reshape(count * lanes, 1, registers)
        units, each = threads.shape
        return value[:, :, threads].transpose(0, 2, 3, 1).reshape(count * units, each, registers)


class ShuffleMeaning(Meaning):
    """Read a register of another lane of the warp."""

    def __init__(self, team: Team, place: Place, lane: Value) -> None:
        super().__init__(team, place)
        self.lane = lane
        self.leaf: Leaf | None = None

    def compute(self, plan: Plan, values: Values) -> tuple[Array, ...]:
        """Return the values of the source lanes, which must have been written."""
        access = plan.reads[0]
        assert access is not None
        assert self.leaf is not None
        storage, threads = access.storage, self.team.threads
        assert storage.initialised is not None
        index = access.index
        if index is None:
            assert access.rows is not None
            index = access.rows[:, :, None] * threads + np.arange(threads)
        source = spread(plan.extra[:, None, :], index.shape)
        index = np.take_along_axis(index, source, axis=2)
        missing = ~storage.initialised.reshape(-1)[index]
        if plan.mask is not None:
            missing &= plan.mask[:, None, :]
        if some(missing):
            register, thread = divmod(int(index[missing][0]), threads)
            raise self.leaf.uninitialised(storage, register, thread)
        return (storage.data.reshape(-1)[index],)

    def finish(self, plan: Plan, env: Env) -> None:
        """Find the source threads, which must be lanes of the warp that take part."""
        threads = self.team.threads
        lanes = (int(env[ITERATIONS]), threads)
        lane = spread(np.asarray(self.lane(env), np.int64), lanes)
        thread = np.arange(threads)
        source = thread // WARP * WARP + lane
        active = np.ones(lanes, bool) if plan.mask is None else plan.mask
        bad = active & ((lane < 0) | (lane >= WARP))
        if some(bad):
            at, who = (int(x) for x in np.argwhere(bad)[0])
            raise self.error(
                "out-of-bounds",
                f"{self.team.who(who)} reads lane {int(lane[at, who])} of its warp",
                "lanes are 0 to 31",
            )
        # Inactive lanes read their own registers; these values are not used.
        source = np.where(active, source, thread)
        idle = (source >= threads) | ~np.take_along_axis(active, np.minimum(source, threads - 1), axis=1)
        idle &= active
        if some(idle):
            at, who = (int(x) for x in np.argwhere(idle)[0])
            raise self.error(
                "inactive-lane",
                f"{self.team.who(who)} reads lane {int(lane[at, who])}, which does not take part",
                "let the whole warp execute the shuffle",
            )
        plan.extra = source


class ComputeMeaning(Meaning):
    """Evaluate a scalar expression."""

    def __init__(self, team: Team, place: Place, expr: Scalar, statement: Compute, places: Sequence[Value]) -> None:
        super().__init__(team, place)
        self.expr = expr
        self.places = places
        self.dtype = statement.dst.buffer.dtype
        self.operations = operations(statement.expr)
        self.prints = prints(expr)
        if self.expr.dtype != self.dtype:
            raise self.error("compute-dtype", f"a value of {self.expr.dtype} goes to {self.dtype}", "add a Cast")

    def compute(self, plan: Plan, values: Values) -> tuple[Array, ...]:
        """Give the values."""
        inputs = [value for value in values if value is not None]
        inputs += plan.extra or ()
        self.team.machine.flops += self.operations * plan.count
        machine = self.team.machine
        check: Callable[[Array, Array], None] | None = None
        if machine.exact:
            mask = None if plan.mask is None else plan.mask[:, None, :]
            check = lambda wide, held: machine.refuse_wrapped(self.place, wide, held, mask)  # noqa: E731
        try:
            told = self._printer(plan) if self.prints else None
            return (evaluate_scalar(self.expr, inputs, machine.numbers, check, told),)
        except SimulationError as error:
            raise error.located(self.place.link, self.place.path or self.place.title) from None

    def _printer(self, plan: Plan) -> Told:
        """Print the values of a `Debug`, thread by thread, as the CUDA does."""
        team, threads = self.team, self.team.threads

        def told(tree: Debug, value: Array, places: Sequence[Array]) -> None:
            shape = np.broadcast_shapes(value.shape, *(x.shape for x in places), (1, 1, threads))
            shown = np.ones(shape, bool) if plan.mask is None else spread(plan.mask[:, None, :], shape)
            at = [spread(x, shape) for x in places]
            for place, wanted in zip(at, tree.only or (), strict=False):
                shown = shown & (place == wanted)
            values = spread(value, shape)
            for where in np.argwhere(shown):
                found, thread = tuple(where), team.first + int(where[-1])
                text = debug_line(tree, team.member.block, thread, [int(x[found]) for x in at], values[found])
                print(text, flush=True)

        return told

    def finish(self, plan: Plan, env: Env) -> None:
        """Evaluate the index expressions that the expression reads."""
        lanes = (int(env[ITERATIONS]), self.team.threads)
        found = (spread(np.asarray(place(env), np.int64), lanes) for place in self.places)
        plan.extra = [value[:, None, :].astype(np.int32) for value in found]


def _widened(array: Array) -> Array:
    """Convert integers to 64 bits."""
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


class MicroMeaning(Meaning):
    """Call a microkernel's NumPy function once for each unit, on matrices."""

    def __init__(self, team: Team, place: Place, statement: Micro) -> None:
        super().__init__(team, place)
        self.statement = statement
        self.extents: list[tuple[Value, Value]] = []
        self.targets = [statement.roles.index(role) for role in statement.written]
        if statement.numpy is None:
            raise self.error(
                "microkernel-numpy",
                f"the microkernel {statement.name} has CUDA C++ and no NumPy function, which the simulator needs",
                "give it a meaning: microkernel(source, numpy=lambda A, B, C: ...)",
            )

    def compute(self, plan: Plan, values: Values) -> tuple[Array, ...]:
        """Call the function for each executing unit."""
        assert self.statement.numpy is not None
        arrays = [value for value in values if value is not None]
        results = [np.array(arrays[at]) for at in self.targets]
        threads, whole, present = plan.extra
        self._reads_unwritten(plan, arrays)
        for thread in threads:
            shapes = [(int(rows[thread]), int(columns[thread])) for rows, columns in present]
            outputs = self._called(arrays, thread, whole, shapes)
            wide = outputs
            if self.team.machine.exact and any(result.dtype == np.int32 for result in results):
                wide = self._called([_widened(x) for x in arrays], thread, whole, shapes)
            for result, output, exact, at in zip(results, outputs, wide, self.targets, strict=True):
                new = np.asarray(output)
                if new.shape != shapes[at]:
                    raise self.error(
                        "microkernel-numpy",
                        f"numpy of {self.statement.name} gave {self.statement.roles[at]} the shape {new.shape} instead "
                        f"of {shapes[at]}",
                        "return the whole new matrix",
                    )
                if exact is not output and result.dtype == np.int32:
                    self.team.machine.refuse_wrapped(self.place, np.asarray(exact), new.astype(np.int32))
                rows, columns = whole[at]
                result[0, :, thread].reshape(columns, rows).T[: shapes[at][0], : shapes[at][1]] = new
        return tuple(results)

    def _called(
        self, arrays: list[Array], thread: int, whole: list[tuple[int, int]], shapes: list[tuple[int, int]]
    ) -> tuple[Any, ...]:
        """Call the function on one unit's matrices."""
        assert self.statement.numpy is not None
        matrices = [
            array[0, :, thread].reshape(columns, rows).T[: shape[0], : shape[1]]
            for array, (rows, columns), shape in zip(arrays, whole, shapes, strict=True)
        ]
        given: Any = self.statement.numpy(*matrices)
        return cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)

    def _reads_unwritten(self, plan: Plan, arrays: list[Array]) -> None:
        """Raise an error for a result that depends on unwritten elements of an output: two fillings must agree.

        Raises:
            SimulationError: `uninitialised-read`.
        """
        threads, whole, present = plan.extra
        for at in self.targets:
            access = plan.reads[at]
            if access is None or access.index is None or access.storage.kind != "GL" or not access.storage.must_write:
                continue
            assert access.storage.tracker is not None
            missing = ~access.storage.tracker.written(access.index)[0]
            if access.active is not None:
                missing &= access.active[0]
            thread = next((t for t in threads if some(missing[:, t])), None)
            if thread is None:
                continue
            shapes = [(int(rows[thread]), int(columns[thread])) for rows, columns in present]
            found: list[Array] = []
            for filling in (0, 1):
                filled = [np.array(array) if i == at else array for i, array in enumerate(arrays)]
                filled[at][0, missing[:, thread], thread] = filling
                found.append(np.asarray(self._called(filled, thread, whole, shapes)[self.targets.index(at)]))
            if found[0].tobytes() != found[1].tobytes():
                element = access.storage.name(int(access.index[0, int(np.argmax(missing[:, thread])), thread]))
                raise self.error(
                    "uninitialised-read",
                    f"{self.team.who(thread)} reads {element}, which no thread wrote",
                    "accumulate by .epilog(memory=RF) above the microkernel, or let it write C without reading it",
                )

    def _not_empty(self, plan: Plan) -> None:
        """Raise an error for units without elements to write, since the microkernel's source might write some.

        Raises:
            SimulationError: `out-of-bounds`.
        """
        threads, _, present = plan.extra
        for at in self.targets:
            empty = next((t for t in threads if min(present[at][0][t], present[at][1][t]) < 1), None)
            if empty is not None:
                rows, columns = (int(extent[empty]) for extent in present[at])
                raise self.error(
                    "out-of-bounds",
                    f"{self.team.who(empty)} runs the microkernel {self.statement.name} on {rows}x{columns} elements "
                    f"of {self.statement.roles[at]}",
                    "let units without elements skip it",
                )

    def finish(self, plan: Plan, env: Env) -> None:
        """Complete the plan with the first thread of each unit, which stands for the unit.

        Raises:
            SimulationError: `out-of-bounds`, `microkernel-numpy`.
        """
        lanes = self.team.threads
        whole = [_matrix(view.layout, env) for view in self.statement.views]
        present = [tuple(spread(np.asarray(e(env)), (1, lanes))[0] for e in each) for each in self.extents]
        if self.statement.level.size == 1:
            active = np.ones(self.team.threads, bool) if plan.mask is None else plan.mask[0]
            plan.extra = np.flatnonzero(active).tolist(), whole, present
            self._not_empty(plan)
            return
        if any(access.storage.kind == "RF" for access in (*plan.reads, *plan.writes) if access is not None):
            raise self.error(
                "microkernel-numpy",
                f"the microkernel {self.statement.name} has operands in the registers of a {self.statement.level}: "
                "only its CUDA C++ says which thread holds which element",
                "simulate it with operands in SH or GL",
            )
        leaders = self.converged(plan, self.statement.level)[:, 0]
        plan.extra = leaders.tolist(), whole, present
        self._not_empty(plan)
        plan.mask = np.zeros((1, self.team.threads), bool)
        plan.mask[0, leaders] = True
        for access in plan.writes:
            assert access.index is not None
            active = spread(plan.mask[:, None, :], access.index.shape)
            active = active if access.active is None else active & access.active
            access.active = active if access.active is not None else None
            access.touched = access.index[active]
            access.who = spread(np.arange(1, self.team.threads + 1, dtype=np.int32), active.shape)[active]


def converged(team: Team, place: Place, mask: Array | None, level: Level) -> Array:
    """Return the threads of each executing unit (units, threads); raise an error for a unit that executes in part.

    Raises:
        SimulationError: `divergent-call`.
    """
    size = level.size or team.threads
    if mask is None and (whole := whole_units(level, team.threads)) is not None:
        return whole
    runs: list[Array] = []
    for unit in unit_threads(level, team.threads):
        active = np.ones(len(unit), bool) if mask is None else mask[unit]
        if some(active):
            if not every(active) or len(unit) < size:
                idle = int(unit[np.argmin(active)]) if not every(active) else int(unit[-1]) + 1
                raise team.error(
                    place,
                    "divergent-call",
                    f"{place}: a {level} of {size} threads executes it together, but {team.who(idle)} does not take "
                    "part",
                    f"make the condition uniform in each {level}",
                )
            runs.append(unit)
    return np.array(runs)


def operations(expr: Scalar) -> int:
    """Count the arithmetic operations of an expression."""
    return sum(isinstance(part, Unary | Binary | Custom) for part in set(parts(expr)))


def matrix_extents(statement: Micro) -> list[tuple[Expr, Expr]]:
    """Return the existing rows and columns of each view: the bindings of its dimensions, or the view's own extents."""
    known = {binding.name: binding.value for binding in statement.bindings}
    found: list[tuple[Expr, Expr]] = []
    for role, view in zip(statement.roles, statement.views, strict=True):
        rows, columns = {"A": ("M", "K"), "B": ("K", "N")}.get(role, ("M", "N"))
        sizes = (view.layout[0].size, view.layout[1].size) if view.layout.rank == 2 else (view.layout.size, 1)
        found.append((known.get(rows, as_expr(sizes[0])), known.get(columns, as_expr(sizes[1]))))
    return found


def _matrix(layout: Any, env: Env) -> tuple[int, int]:
    sizes = (layout[0].size, layout[1].size) if layout.rank == 2 else (layout.size, 1)
    rows, columns = (int(evaluate(as_expr(size), env)) for size in sizes)
    return rows, columns


def _elements(index: Array | None) -> int:
    return 1 if index is None else index.shape[1]
