"""The list that a warp keeps for a fold that ranks its points (topk): one point per lane, the first in rank first.

Lane i has the point of rank i. One point is inserted at a time: all lanes compare it with their own point, and those
whose point ranks behind it take the point of the lane before them, or the new one. So a point costs the warp about 25
instructions, and no states of lanes have to be combined at the end. A state of `count` points in each lane's registers,
which the other folds have, would cost about 10 instructions for each of these points, and again 25 for each of them at
each step of a fold over lanes.

The bound is a value and a place: points that do not rank before it change no result. It is the list's point of rank
`count`, or the value of that rank among the lanes' largest values of a chunk (`raised`), if that is higher.

The lists of the warps of a block, and of the blocks of a cluster, are merged by Batcher's bitonic network: a group of
`count` lanes has a list, and a step compares the points of two lanes.

Source: Batcher, Sorting networks and their applications, 1968.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Expr, Var, as_expr, eq, lt, ne, proves
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Coordinate, Scalar, Select, number, substituted
from fireiron.atoms.table import exchange
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import THREAD, Call, Compute, For, If, Leave, View, Vote
from fireiron.kernel.lower.context import Body, Context
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.registers import temporary
from fireiron.language.folds import Fold, Ranking, identity_of
from fireiron.language.levels import Warp

LANES = Warp.size or 32
LAST = i32.limits[1]  # the place of a missing point


@attrs.frozen(eq=False)
class Ranked:
    """Hold a warp's list and bound in registers.

    Args:
        fold: the fold; its ranking says how many points the list keeps, and their order.
        value, place: this lane's point.
        bound: the value and the place that a point must rank before.
        link: the author's link that opened the fold.
        context: the kernel's facts.
    """

    fold: Fold
    value: View
    place: View
    bound: tuple[View, View]
    link: Link | None
    context: Context

    @property
    def ranking(self) -> Ranking:
        """Return the order of points, and the number that the list keeps."""
        assert self.fold.ranking is not None
        return self.fold.ranking

    @property
    def lane(self) -> Expr:
        """Return the number of this thread's lane."""
        assert self.context.threads is not None
        return Var(THREAD, self.context.threads) % LANES

    @property
    def mine(self) -> tuple[View, View]:
        """Return this lane's point."""
        return self.value, self.place

    @property
    def lowest(self) -> Constant:
        """Return the value of a missing point."""
        (first, *_) = identity_of(self.fold)
        return number(first.value, first.dtype)

    def begin(self) -> Body:
        """Empty the list, and remove the bound."""
        return (*self.emptied(self.mine), *self.emptied(self.bound))

    def emptied(self, point: tuple[View, View]) -> Body:
        """Set a register pair to the point that ranks behind all others."""
        value, place = point
        return (Compute(value, self.lowest), Compute(place, Constant(LAST, i32)))

    def before(self, one: tuple[Scalar, Scalar], other: tuple[Scalar, Scalar]) -> Scalar:
        """Return an expression that is not 0 where one point ranks before another."""
        return substituted(self.ranking.before, (*one, *other))

    def flagged(self, to: View, asked: Scalar, views: tuple[View, ...]) -> Body:
        """Set a flag where a condition holds."""
        return compute(to, Select(asked, Constant(1, i32), Constant(0, i32)), views, None, self.context, self.link)

    def counts(self, to: View, point: tuple[View, View]) -> Body:
        """Set a flag where a point ranks before the bound."""
        return self.flagged(to, self.before(*_pairs(self.value.buffer.dtype)), (*point, *self.bound))

    def reaches(self, value: Scalar, place: Scalar) -> Scalar:
        """Return an expression that is 0 only for points that do not rank before the bound, in few instructions.

        It is of the value (and place) of a point, and of the bound's value and place, `Arg(1)` and `Arg(2)`. A NaN
        reaches every bound.
        """
        kind = self.value.buffer.dtype
        zero, bound, tie = Constant(0, kind), Arg(1, kind), Binary("lt", place, Arg(2, i32))
        tie = tie if kind == i32 else Cast(tie, kind)
        above, unequal = (Binary("eq", Binary(op, value, bound), zero) for op in ("lt", "eq"))
        return Select(above, Select(unequal, Constant(1, kind), tie), zero)

    def inserted(self, flag: View, value: View, place: View) -> Body:
        """Insert the points of the lanes whose flag is set, one in each trip, and raise the bound to the list's."""
        context, kind = self.context, self.value.buffer.dtype
        new, behind, ahead = self._point("came"), _register("behind", i32, context), self._point("ahead")
        passed = _register("passed", i32, context)
        first, trip = context.variable("first", LANES + 1), context.variable("trip", LANES)
        one, other = _pairs(kind)
        up = (self.lane + (LANES - 1)) % LANES
        moved = Select(Coordinate(lt(0, self.lane)), Arg(2, i32), Constant(0, i32))

        def taken(to: View, came: View, above: View) -> Body:
            mine = to.buffer.dtype
            # of: this lane's, whether it ranks behind, whether the lane's before does, the new one's, the other lane's
            tree = Select(Arg(1, i32), Select(moved, Arg(4, mine), Arg(3, mine)), Arg(0, mine))
            return (Compute(to, tree, (to, behind, passed, came, above), link=self.link),)

        insert: Body = (
            *self._shuffled(((value, new[0]), (place, new[1])), first),
            Compute(flag, Select(Coordinate(eq(self.lane, first)), Constant(0, i32), Arg(0, i32)), (flag,)),
            *self.flagged(behind, self.before(one, other), (*new, *self.mine)),
            *self._shuffled((*zip(self.mine, ahead, strict=True), (behind, passed)), up),
            *taken(self.value, new[0], ahead[0]),
            *taken(self.place, new[1], ahead[1]),
        )
        body: Body = (
            Vote(first, flag, as_expr(1), self.link, "first"),
            Leave(eq(first, LANES)),
            If(ne(first, LANES), insert),  # on the simulator, the warps of a block leave together
        )
        return (For(trip, as_expr(LANES), body), *self._bounded())

    def _bounded(self) -> Body:
        """Raise the bound to the list's last point that counts."""
        last = self._point("last")
        asked = self.before(*_pairs(self.value.buffer.dtype))
        return (
            *self._shuffled(tuple(zip(self.mine, last, strict=True)), as_expr(self.ranking.count - 1)),
            *self._chosen(asked, last, self.bound),
        )

    def _chosen(self, asked: Scalar, new: tuple[View, View], old: tuple[View, View]) -> Body:
        """Replace a point by another where a condition on the new and the old holds."""
        flag = _register("taken", i32, self.context)
        body = self.flagged(flag, asked, (*new, *old))
        for to, source in zip(old, new, strict=True):
            kind = to.buffer.dtype
            body += (Compute(to, Select(Arg(0, i32), Arg(1, kind), Arg(2, kind)), (flag, source, to), link=self.link),)
        return body

    def raised(self, best: View) -> Body:
        """Raise the bound to the value of rank `count` among the lanes' largest values, which this sorts.

        If any of these values is NaN, the sort makes all of them NaN, and the bound stays.
        """
        kind, lane = best.buffer.dtype, self.lane
        other = _register("other", kind, self.context)
        mine, theirs = Arg(0, kind), Arg(1, kind)
        body: Body = ()
        size = 2
        while size <= LANES:
            stride = size // 2
            while stride:
                falling = eq(lane // stride % 2, lane // size % 2) if size < LANES else eq(lane // stride % 2, 0)
                larger = Select(Coordinate(falling), Binary("max", mine, theirs), Binary("min", mine, theirs))
                body += (
                    *self._shuffled(((best, other),), lane ^ stride),
                    Compute(best, larger, (best, other), link=self.link),
                )
                stride //= 2
            size *= 2
        value, place = self.bound
        flag, asked = _register("higher", i32, self.context), Binary("lt", Arg(1, kind), Arg(0, kind))
        return (
            *body,
            *self._shuffled(((best, other),), as_expr(self.ranking.count - 1)),
            *self.flagged(flag, asked, (other, value)),
            Compute(value, Select(Arg(0, i32), Arg(1, kind), Arg(2, kind)), (flag, other, value), link=self.link),
            Compute(place, Select(Arg(0, i32), Constant(LAST, i32), Arg(1, i32)), (flag, place), link=self.link),
        )

    def merged(self, other: tuple[View, View]) -> Body:
        """Merge a second list of each group of `count` lanes into its list; `other` holds the points in reverse."""
        asked = self.before(*_pairs(self.value.buffer.dtype))
        body = self._chosen(asked, other, self.mine)
        stride = self.ranking.count // 2
        while stride:
            body += (
                *self._shuffled(tuple(zip(self.mine, other, strict=True)), self.lane ^ stride),
                *self._sorted(other, eq(self.lane // stride % 2, 0)),
            )
            stride //= 2
        return body

    def _sorted(self, other: tuple[View, View], first: Expr) -> Body:
        """Take the other lane's point where that ranks before this lane's, or behind it in a lane that is not first."""
        flag = _register("taken", i32, self.context)
        one, theirs = _pairs(self.value.buffer.dtype)
        ahead = Select(self.before(one, theirs), Constant(1, i32), Constant(0, i32))
        asked = Binary("eq", ahead, Select(Coordinate(first), Constant(1, i32), Constant(0, i32)))
        body = self.flagged(flag, asked, (*other, *self.mine))
        for to, source in zip(self.mine, other, strict=True):
            kind = to.buffer.dtype
            body += (Compute(to, Select(Arg(0, i32), Arg(1, kind), Arg(2, kind)), (flag, source, to), link=self.link),)
        return body

    def gathered(self, lists: int, read: Callable[[Expr], Sequence[View]]) -> Body:
        """Replace the list by the merged lists of several warps, whose points lie one list behind the other.

        Args:
            lists: the number of lists.
            read: returns the views of the value and the place of point i, counted through all lists.
        """
        count = self.ranking.count
        at_once, point = LANES // count, self._point("other")
        body: Body = ()
        for turn in range(-(-lists // at_once)):
            # Later lists are read in reverse: this lane compares its point with the one that mirrors it.
            lane = self.lane if turn == 0 else self.lane ^ (count - 1)
            place, to = lane + turn * LANES, self.mine if turn == 0 else point
            there = lt(place, lists * count)
            taken = tuple(
                Compute(register, Arg(0, register.buffer.dtype), (view,), link=self.link)
                for register, view in zip(to, read(place), strict=True)
            )
            body += taken if proves(there) else (*self.emptied(to), If(there, taken))
            body += self.merged(point) if turn else ()
        stride = count
        while stride < min(LANES, lists * count):
            views = tuple(zip(self.mine, point, strict=True))
            body += (*self._shuffled(views, self.lane ^ (stride + count - 1)), *self.merged(point))
            stride *= 2
        return body

    def repeated(self) -> Body:
        """Copy the first group's list to the other groups of `count` lanes."""
        point = self._point("other")
        kept = zip(self.mine, point, strict=True)
        return (
            *self._shuffled(tuple(zip(self.mine, point, strict=True)), self.lane % self.ranking.count),
            *(Compute(to, Arg(0, to.buffer.dtype), (source,), link=self.link) for to, source in kept),
        )

    def spread(self, held: Sequence[View]) -> Body:
        """Copy the list to the fold's state in the registers of every lane."""
        count = self.ranking.count
        body: Body = ()
        for i in range(count):
            body += self._shuffled(((self.value, held[i]), (self.place, held[count + i])), as_expr(i))
        return body

    def _shuffled(self, pairs: Sequence[tuple[View, View]], lane: Expr) -> Body:
        return tuple(
            Call(exchange(source.buffer.dtype.nbytes), (source, to), lane=lane, link=self.link) for source, to in pairs
        )

    def _point(self, name: str) -> tuple[View, View]:
        return _register(name, self.value.buffer.dtype, self.context), _register(f"{name}_at", i32, self.context)


def ranked_list(fold: Fold, link: Link | None, context: Context) -> Ranked:
    """Make the registers of a warp's list for a fold that ranks its points."""
    kind = fold.dtypes[0]
    names = (("kept", kind), ("kept_at", i32), ("bound", kind), ("bound_at", i32))
    value, place, *bound = (_register(name, dtype, context) for name, dtype in names)
    return Ranked(fold, value, place, (bound[0], bound[1]), link, context)


def _pairs(kind: DType) -> tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]:
    """Return two points, as the arguments of an expression."""
    return (Arg(0, kind), Arg(1, i32)), (Arg(2, kind), Arg(3, i32))


def _register(name: str, kind: DType, context: Context) -> View:
    return View(temporary(name, kind, 1, context), as_expr(0))
