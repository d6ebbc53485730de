"""Ownership: which thread holds which element of a register tensor, and in which of its registers.

A register tensor has one map (thread, register) -> coordinate. The atom that computes with it, or the schedule that
produces it, defines the map. Every other access is compared with the map for all threads; an access of an element that
its thread does not hold is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Term, Var, as_expr, evaluate, free, terms_of
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


# Coordinates are flattened with this span a dimension at most; no tile of registers is wider.
SPAN = 1 << 16
# Added to the keys of registers that hold no element, so that they match no other key.
ABSENT = 1 << 62
KEY_BITS = 60  # bits of the key of an existing element


@attrs.frozen
class RegisterLoop:
    """Describe a loop around an access: its variable, its trips, whether it is unrolled, and the link that made it."""

    var: Var
    trips: Expr
    unrolled: bool
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Limit:
    """Hold the condition that an element with local index x lies inside the tile: `offset + steps(x) < limit`.

    Args:
        axis: the dimension's number.
        offset: an expression of `thread` and the loops' variables.
        steps: local index -> steps along the dimension.
        limit: the tile's extent.
    """

    axis: int
    offset: Expr
    steps: Layout
    limit: Expr


@attrs.frozen
class Access:
    """Describe the elements of a register tensor that one place in the program touches.

    Args:
        coordinates: coordinates of the first element: for each dimension an expression of `thread` and the loops'
            variables.
        elements: for each dimension a layout, local index -> steps. Local indices count elements colexicographically.
        loops: the enclosing loops that the coordinates depend on, outermost first.
        limits: conditions for an element to exist, where tiles do not divide the tensor.
        guards: conditions on threads and trips for any element to exist, where there are more units than tiles.
    """

    coordinates: tuple[Expr, ...]
    elements: tuple[Layout, ...]
    loops: tuple[RegisterLoop, ...]
    limits: tuple[Limit, ...] = ()
    guards: tuple[Expr, ...] = ()

    @property
    def count(self) -> int:
        """Return the number of elements in one trip of the loops."""
        return prod([layout.size for layout in self.elements])

    @property
    def extents(self) -> tuple[int, ...]:
        """List the trips of the loops."""
        out: list[int] = []
        for loop in self.loops:
            low, high = loop.trips.range
            assert low is not None and low == high
            out.append(low)
        return tuple(out)

    @property
    def span(self) -> int:
        """Return the factor by which coordinates are flattened to one key: key * span + the next coordinate."""
        return min(SPAN, 1 << KEY_BITS // max(1, len(self.coordinates)))

    def keys(self, threads: int) -> Ints:
        """Tabulate the flattened coordinate of every element.

        Rows are threads (one row where coordinates do not depend on the thread). Columns are trips of the loops and
        elements, innermost fastest.
        """
        count, extents = self.count, self.extents
        total = prod(extents) * count
        column = np.arange(total, dtype=np.int64)
        env: dict[str, Any] = {"thread": np.arange(threads, dtype=np.int64)[:, None]}
        weight = count
        for loop, extent in reversed(list(zip(self.loops, extents, strict=True))):
            env[loop.var.name] = ((column // weight) % extent)[None, :]
            weight *= extent
        element = column % count
        key: Ints = np.zeros((1, total), dtype=np.int64)
        span = self.span
        for coordinate, layout in zip(self.coordinates, self.elements, strict=True):
            value = evaluate(coordinate, env)
            if layout.size > 1:
                value = value + layout(element % layout.size)
                element = element // layout.size
            key = key * span + value
        if not self.limits and not self.guards:
            return key
        there: NDArray[np.bool_] = self._there(env, total)
        return np.where(there, key, key + ABSENT)

    def _there(self, env: dict[str, Any], total: int) -> Any:
        """Tabulate which elements exist."""
        there: Any = np.ones((1, total), dtype=bool)
        for guard in self.guards:
            there = there & (evaluate(guard, env) != 0)
        element = np.arange(total, dtype=np.int64) % self.count
        index: list[Any] = []
        for layout in self.elements:
            index.append(element % layout.size)
            element = element // layout.size
        for limit in self.limits:
            steps = limit.steps(index[limit.axis]) if limit.steps.size > 1 else 0
            there = there & (evaluate(limit.offset, env) + np.asarray(steps) < evaluate(limit.limit, env))
        return there


def access(
    coordinates: tuple[Expr, ...],
    elements: tuple[Layout, ...],
    loops: tuple[RegisterLoop, ...],
    name: str,
    limits: tuple[Limit, ...] = (),
    guards: tuple[Expr, ...] = (),
) -> Access:
    """Describe an access by its coordinates, the loops that change them, and the conditions on these loops.

    Raises:
        DecompositionError: `register-loop` where one of the loops is not unrolled: registers have no run-time index.
    """
    used = frozenset[Any]().union(*(free(c) for c in coordinates)) if coordinates else frozenset[Any]()
    kept = tuple(loop for loop in loops if loop.var in used)
    for loop in kept:
        low, high = loop.trips.range
        if not loop.unrolled or low != high:
            raise DecompositionError(
                "register-loop",
                f"the loop over {loop.var.name} indexes the registers of {name}, but is not unrolled",
                fix="refine this link by .unroll()",
                link=loop.link,
            )
    # An element that only some trips of another loop touch still exists.
    others = frozenset[Any](loop.var for loop in loops) - frozenset[Any](loop.var for loop in kept)
    limits = tuple(x for x in limits if others.isdisjoint(free(x.offset) | free(x.limit)))
    return Access(coordinates, elements, kept, limits, tuple(g for g in guards if others.isdisjoint(free(g))))


@attrs.frozen
class Ownership:
    """Hold the map (thread, register) -> coordinate of one register tensor, as its defining access.

    Args:
        access: the defining access. Registers are numbered by the trips of its loops (outermost slowest), then by
            elements.
        written: the same access in terms of the kernel's named index expressions.
        threads: number of threads of the block.
        owner: name of the atom or link that defined the map, for messages.
        opaque: name of the fragment if its layout is not documented; the map is then only a placeholder. Else "".
        link: the link that defined the map.
    """

    access: Access
    written: Access
    threads: int
    owner: str
    opaque: str = ""
    link: Link | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def size(self) -> int:
        """Count the registers of one thread."""
        return prod(self.access.extents) * self.access.count

    def agree(self, opaque: str, name: str, user: str) -> None:
        """Raise an error for an access of single elements of an opaque fragment, whose registers hold unknown elements.

        Args:
            opaque: the fragment that the accessing instruction takes; "" where it accesses elements.
            name: name of the tensor.
            user: the accessing instruction, for messages.

        Raises:
            DecompositionError: `opaque-fragment`.
        """
        if opaque == self.opaque:
            return
        if self.opaque:
            wanted = f"as {opaque}" if opaque else "element by element"
            message = f"{user} takes {name} {wanted}, but it is {self.opaque}, whose layout is the hardware's own"
            fix = "move it by wmma(), and through shared memory where its elements matter"
        else:
            message = f"{user} takes {name} as {opaque}, but {self.owner} takes it by a layout of its own"
            fix = "load it by conform() or ldmatrix()"
        raise DecompositionError("opaque-fragment", message, fix=fix, other=self.link)

    def repeats(self, axes: Sequence[int]) -> bool:
        """Say whether some thread's registers go through the same point twice, along some axes of the tensor."""
        held = self.access
        coordinates = tuple(held.coordinates[i] for i in axes)
        used = frozenset[Any]().union(*map(free, coordinates))
        loops = tuple(loop for loop in held.loops if loop.var in used)
        others = frozenset(loop.var for loop in held.loops) - used
        limits = tuple(
            attrs.evolve(x, axis=axes.index(x.axis))
            for x in held.limits
            if x.axis in axes and others.isdisjoint(free(x.offset))
        )
        guards = tuple(g for g in held.guards if others.isdisjoint(free(g)))
        elements = tuple(held.elements[i] for i in axes)
        return _repeats(Access(coordinates, elements, loops, limits, guards), self.threads)

    def register(self) -> Expr:
        """Return the number of the register that holds the defining access's first element."""
        total, weight = as_expr(0), self.access.count
        for loop, extent in reversed(list(zip(self.access.loops, self.access.extents, strict=True))):
            total = loop.var * weight + total
            weight *= extent
        return total

    def resolve(self, other: Access, name: str, user: str) -> tuple[Expr, Layout]:
        """Find the registers that another access touches: the first one, and the steps to the others.

        Raises:
            DecompositionError: `ownership-conflict` where a thread touches an element that it does not hold, or where
                threads hold it in different registers.
        """
        same = other.coordinates == self.access.coordinates and other.elements == self.access.elements
        repeats = _repeats(self.access, self.threads)
        if same and not repeats:
            return self.register(), Layout(self.access.count, 1)
        if repeats and self._resolved(self.access, self.access, self.threads) is None:
            # Threads differ in which registers hold an element twice, so that each copy is read where it was written.
            if not _alike(self.access, other, self.threads):
                raise self._irregular(name, user)
            return attrs.evolve(self, access=other).register(), Layout(other.count, 1)
        known = self._resolved(self.access, other, self.threads)
        if known is not None:
            return known
        return self._computed(other, self._lookup(other, name, user), name, user)

    @staticmethod
    @lru_cache(maxsize=4096)
    def _resolved(held: Access, other: Access, threads: int) -> tuple[Expr, Layout] | None:
        """Resolve an access, cached for all kernels; None where it is an error."""
        ownership = Ownership(held, held, threads, "")
        try:
            return ownership._computed(other, ownership._lookup(other, "", ""), "", "")
        except DecompositionError:
            return None

    def _computed(self, other: Access, found: Ints, name: str, user: str) -> tuple[Expr, Layout]:
        """Write a table of registers as an expression of the first register and a layout of steps to the others."""
        count, extents = other.count, other.extents
        table = found[0].reshape((*extents, count))
        total = as_expr(int(table[(0,) * table.ndim]))
        check = np.full(table.shape, table[(0,) * table.ndim], dtype=np.int64)
        for i, loop in enumerate(other.loops):
            column = table[tuple(slice(None) if j == i else 0 for j in range(table.ndim))] - table[(0,) * table.ndim]
            leaves = _leaves(column)
            if leaves is None:
                raise self._irregular(name, user)
            run = 1
            for extent, step in leaves:  # steps may be negative, where pairs are read crosswise
                total = (
                    total + loop.var // run % extent * step
                    if run * extent < len(column)
                    else total + loop.var // run * step
                )
                run *= extent
            check += column.reshape([-1 if j == i else 1 for j in range(table.ndim)])
        column = table[(0,) * len(extents)] - table[(0,) * table.ndim]
        steps = fit(column)
        check += column
        if steps is None or not np.array_equal(check, table):
            raise self._irregular(name, user)
        return total, steps

    def _lookup(self, other: Access, name: str, user: str) -> Ints:
        if _moved_alike(self.access, other):
            return self._looked_up_once(other, name, user)
        held, wanted = self.access.keys(self.threads), other.keys(self.threads)
        rows = max(len(held), len(wanted))
        held, wanted = (np.broadcast_to(t, (rows, t.shape[1])) for t in (held, wanted))
        if _shifted_alike(held, wanted):
            held, wanted, rows = held[:1], wanted[:1], 1
        # Keys are numbered in order, so that a key and its thread can be combined into one number.
        numbers = np.unique(np.concatenate((held.ravel(), wanted.ravel())))
        row = np.arange(rows, dtype=np.int64)[:, None] * len(numbers)
        flat, sought = ((np.searchsorted(numbers, t) + row).ravel() for t in (held, wanted))
        order = np.argsort(flat, kind="stable")
        place = np.searchsorted(flat, sought, sorter=order)
        place = order[np.minimum(place, len(order) - 1)]
        missing = (flat[place] != sought) & (wanted.ravel() < ABSENT // 2)
        if missing.any():
            thread, column = divmod(int(np.flatnonzero(missing)[0]), wanted.shape[1])
            raise self._elsewhere(thread, int(wanted[thread, column]), name, user)
        found: Ints = (place % held.shape[1]).reshape(wanted.shape)
        # A thread without an element may use any register: the one that the other threads use.
        certain = (wanted < ABSENT // 2) | ~(wanted < ABSENT // 2).any(axis=0)
        found = np.where(certain, found, found[certain.argmax(axis=0), np.arange(found.shape[1])])
        if not (found == found[0]).all():
            raise self._irregular(name, user)
        return found

    def _looked_up_once(self, other: Access, name: str, user: str) -> Ints:
        """Look up the registers of the first thread; other threads have the same ones."""
        held: list[int] = self.access.keys(1)[0].tolist()
        wanted: list[int] = other.keys(1)[0].tolist()
        registers = {key: register for register, key in reversed([*enumerate(held)])}
        for key in wanted:
            if key not in registers:
                raise self._elsewhere(0, key, name, user)
        return np.array([[registers[key] for key in wanted]], dtype=np.int64)

    def _elsewhere(self, thread: int, key: int, name: str, user: str) -> DecompositionError:
        return DecompositionError(
            "ownership-conflict",
            f"{user} lets thread {thread} touch element {self._coordinate(key)} of {name}, "
            f"which {self.owner} gives to another thread",
            fix="move it by conform() or own(Thread), or convert by a Move through shared memory",
            other=self.link,
        )

    def _coordinate(self, key: int) -> tuple[int, ...]:
        out: list[int] = []
        for _ in self.access.coordinates:
            out.append(key % self.access.span)
            key //= self.access.span
        return tuple(reversed(out))

    def _irregular(self, name: str, user: str) -> DecompositionError:
        return DecompositionError(
            "ownership-conflict",
            f"{user} visits the registers of {name} in an order that {self.owner} does not give to all threads alike",
            fix="move it by conform() or own(Thread)",
            other=self.link,
        )


@lru_cache(maxsize=4096)
def _repeats(held: Access, threads: int) -> bool:
    """Say whether some thread's registers hold an element twice; all accesses then use the first of them."""
    keys = np.sort(held.keys(1 if _moved_alike(held, held) else threads), axis=1)
    return bool(((keys[:, 1:] == keys[:, :-1]) & (keys[:, 1:] < ABSENT // 2)).any())


def _alike(a: Access, b: Access, threads: int) -> bool:
    """Say whether two accesses go through the same elements in the same order."""
    return a.extents == b.extents and a.count == b.count and np.array_equal(a.keys(threads), b.keys(threads))


def _moved_alike(a: Access, b: Access) -> bool:
    """Say whether both accesses have the same additive term of the thread; checking one thread is then enough."""
    if a.limits or a.guards or b.limits or b.guards:
        return False
    return all(
        (moved := _moved(x)) is not None and moved == _moved(y)
        for x, y in zip(a.coordinates, b.coordinates, strict=True)
    )


def _moved(coordinate: Expr) -> frozenset[Term] | None:
    """List a coordinate's terms that read only the thread; None where a term also reads other variables."""
    found: list[Term] = []
    for term in terms_of(coordinate)[0]:
        names = {leaf.name for leaf in free(term[0])}
        if names == {"thread"}:
            found.append(term)
        elif "thread" in names:
            return None
    return frozenset(found)


def _shifted_alike(held: Ints, wanted: Ints) -> bool:
    """Say whether each thread's keys are the first thread's plus a constant; checking one thread is then enough."""
    origin = held[:, :1]
    return all(bool((t - origin == t[:1] - origin[:1]).all()) for t in (held, wanted))


def fit(values: Ints) -> Layout | None:
    """Find a layout whose table is `values` (which start at 0); None where there is none.

    Example:
        >>> str(fit(np.array([0, 1, 2, 3, 64, 65, 66, 67])))
        '(4,2):(1,64)'
    """
    leaves = _leaves(values)
    if leaves is None or any(step < 0 for _, step in leaves):
        return None
    if len(leaves) == 1:
        return Layout(*leaves[0])
    return Layout(tuple(e for e, _ in leaves), tuple(s for _, s in leaves))


def _leaves(values: Ints) -> tuple[tuple[int, int], ...] | None:
    """Find extents and steps, innermost first, of a layout whose table is `values`; steps may be negative."""
    n = len(values)
    if n == 1:
        return ((1, 0),)
    step = int(values[1])
    breaks = np.flatnonzero(np.diff(values) != step)
    run = n if not len(breaks) else int(breaks[0]) + 1
    if run == n:
        return ((n, step),)
    if n % run:
        return None
    blocks = values.reshape(-1, run)
    outer = _leaves(blocks[:, 0])
    if outer is None or not (blocks - blocks[:, :1] == blocks[:1]).all():
        return None
    return ((run, step), *outer)
