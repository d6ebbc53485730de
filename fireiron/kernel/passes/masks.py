"""Unmasked chunks: in trips where every point exists, threads compute without masks.

The masks of a loop compare its variable with coordinates of the block, of threads and of inner loops. The intervals of
these coordinates give the trips at which a mask holds for every thread and inner trip: from some trip on, or up to one.
In trips at which all masks hold, a copy of the threads' code without masks is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import attrs

from fireiron.algebra.expr import (
    TRUE,
    Compare,
    Element,
    Expr,
    Index,
    Logic,
    Var,
    affine,
    and_,
    as_expr,
    as_int,
    free,
    ge,
    lt,
    maximum,
    minimum,
    not_,
    simplest,
    terms_of,
)
from fireiron.algebra.scalar import Constant, Coordinate, Scalar, Select, Unary, children, parts, with_children
from fireiron.algebra.simplify import simplify
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import THREAD, Compute, For, If, Let, Region, Statement, walk
from fireiron.kernel.passes.chunk_loops import Loops, of_loops
from fireiron.language.decompositions import Split
from fireiron.language.maps import gathers

Body = tuple[Statement, ...]


def without_masks(body: Body, loops: Loops, meaning: Callable[[Expr], Expr], taken: Collection[str]) -> Body:
    """Make trips in which all masks hold compute without them.

    Args:
        body: the statements.
        loops: the loops over chunks, by their variables.
        meaning: a function that replaces names that the kernel defines at its start by their definitions.
        taken: names of the kernel.
    """
    names = Names(taken, body) if loops else None

    def change(loop: For, _: Split) -> Body:
        assert names is not None
        return _without(loop, meaning, names)

    return _without_implied(of_loops(body, loops, change))


def _without_implied(body: Body) -> Body:
    """Remove conditions that the conditions which they are combined with imply."""

    def put(tree: Scalar) -> Scalar:
        match tree:
            case Select(Unary("implied"), x, Constant(value=0)) | Select(x, Unary("implied"), Constant(value=0)):
                return put(x)
            case Select(Unary("implied"), Constant(value=1), y):
                return put(y)
            case _:
                return with_children(tree, tuple(map(put, children(tree))))

    def statement(s: Statement) -> Statement:
        return attrs.evolve(s, expr=put(s.expr)) if isinstance(s, Compute) and _implies(s.expr) else s

    return rewrite(body, statement)


def _implies(tree: Scalar) -> bool:
    return any(isinstance(x, Unary) and x.op == "implied" for x in parts(tree))


def _without(loop: For, meaning: Callable[[Expr], Expr], names: Names) -> tuple[Let | For, ...]:
    """Duplicate the masked statements of a loop that single threads execute; instructions of whole warps stay single.

    Returns:
        Definitions for before the loop, and the loop.
    """
    inner = {s.var for s in walk(loop.body) if isinstance(s, For | Let)}

    def varies(e: Expr) -> bool:
        if isinstance(e, Element):  # one element for all threads of a unit, whose trips are its own
            return any(v in inner or v.name == THREAD for v in free(e) if isinstance(v, Var))
        found = free(meaning(e))
        return any(v in inner or (isinstance(v, Var) and v.name == THREAD) for v in (*found, *free(e)))

    first, last, trips = as_expr(0), as_expr(loop.extent), as_expr(loop.extent)
    held: set[Expr] = set()
    for condition in dict.fromkeys(c for s in walk(loop.body) for c in _masks(s)):
        found = _trips(condition, loop.var, varies)
        if found is None:
            continue
        low, high = found
        first, last = maximum(first, low), last if high is None else minimum(last, high)
        held.add(condition)
    last = as_expr(simplest(last))
    if not held or as_int(last) == 0:
        return (loop,)
    lets: list[Let] = []
    most = loop.var.extent if gathers(trips) else trips  # array elements cannot bound a variable
    to_end = as_int(simplest(trips - last)) == 0
    whole = TRUE if to_end else lt(loop.var, _named("whole", last, most, lets, names))
    if as_int(first := as_expr(simplest(first))) != 0:
        whole = and_(ge(loop.var, _named("masked", first, first.range[1], lets, names)), whole)
    if whole == TRUE:
        return (attrs.evolve(loop, body=_unmasked(loop.body, held)),)
    return (*lets, attrs.evolve(loop, body=_parted(loop.body, whole, held)))


def _named(name: str, value: Expr, most: Index | None, lets: list[Let], names: Names) -> Expr:
    if as_int(value) is not None or most is None:
        return value
    var = names.variable(name, as_expr(most) + 1)
    lets.append(Let(var, value))
    return var


def _parted(body: Body, whole: Expr, held: set[Expr]) -> Body:
    """Duplicate runs of masked statements: one copy with masks, one without."""
    out: list[Statement] = []
    run: list[Statement] = []  # from the first masked statement on

    def close() -> None:
        end = max((i + 1 for i, s in enumerate(run) if _touched(s, held)), default=0)
        alone, rest = tuple(run[:end]), run[end:]
        if alone:
            out.extend((If(whole, _unmasked(alone, held)), If(not_(whole), alone)))
        out.extend(rest)
        run.clear()

    for s in body:
        if not isinstance(s, Region) and _own(s) and (run or _touched(s, held)):
            run.append(s)
            continue
        close()
        if isinstance(s, If):
            s = attrs.evolve(s, body=_branch(s.body, whole, held))
        out.append(attrs.evolve(s, body=_parted(s.body, whole, held)) if isinstance(s, Region) else s)
    close()
    return tuple(out)


def _branch(body: Body, whole: Expr, held: set[Expr]) -> Body:
    """Duplicate sequences of a branch's statements that single threads execute, around a masked statement.

    The sequences are as long as possible, so that no intermediate value stays in registers between two branches.
    """
    out: list[Statement] = []
    run: list[Statement] = []

    def close() -> None:
        alone = tuple(run)
        touched = any(_touched(s, held) for s in alone)
        out.extend((If(whole, _unmasked(alone, held)), If(not_(whole), alone)) if touched else alone)
        run.clear()

    for s in body:
        if all(isinstance(x, Compute | For | If | Region) for x in walk((s,))):
            run.append(s)
            continue
        close()
        out.append(attrs.evolve(s, body=_parted(s.body, whole, held)) if isinstance(s, Region) else s)
    close()
    return tuple(out)


def _own(s: Statement) -> bool:
    """Say whether single threads execute a statement, on whole registers (no half of a register is written alone)."""
    return all(
        x.dst.buffer.dtype.bits >= 32 if isinstance(x, Compute) else isinstance(x, For | If | Region)
        for x in walk((s,))
    )


def _touched(s: Statement, held: set[Expr]) -> bool:
    return any(c in held for x in walk((s,)) for c in _masks(x))


def _masks(s: Statement) -> Iterator[Expr]:
    """List the comparisons that guard a statement of a trip."""
    if isinstance(s, Compute):
        if s.write is not None:
            yield from _conjuncts(s.write)
        for x in parts(s.expr):
            if isinstance(x, Coordinate):
                yield from _conjuncts(x.value)
    elif isinstance(s, If) and all(isinstance(x, Compute | For | If | Region) for x in walk(s.body)):
        yield from _conjuncts(s.condition)  # not those of copies, which later trips need


def _conjuncts(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Logic) and e.op == "&&":
        for operand in e.operands:
            yield from _conjuncts(operand)
    elif isinstance(e, Compare) and e.op == "<":
        yield e


def _trips(condition: Expr, var: Var, varies: Callable[[Expr], bool]) -> tuple[Expr, Expr | None] | None:
    """Return the range of trips at which a comparison holds for all threads and inner trips: the first, and the end."""
    assert isinstance(condition, Compare)
    split = affine(condition.right - condition.left - 1, (var,))
    slope = None if split is None else split[0].get(var)
    if split is None or not isinstance(slope, int) or slope == 0:
        return None
    least = _least(split[1], varies)
    if least is None:
        return None
    if slope < 0:
        return as_expr(0), maximum(least - slope, 0) // -slope
    return maximum(slope - 1 - least, 0) // slope, None


def _least(e: Expr, varies: Callable[[Expr], bool]) -> Expr | None:
    """Return the smallest value of an expression over threads and inner loops, term by term."""
    terms, constant = terms_of(as_expr(simplest(e)))
    total = as_expr(constant)
    for term, weight in terms:
        if not varies(term):
            total = total + term * weight
            continue
        end = term.range[0 if weight > 0 else 1]
        if end is None:
            return None
        total = total + end * weight
    return total


def _unmasked(body: Body, held: set[Expr]) -> Body:
    """Remove comparisons that always hold."""

    def rest(condition: Expr) -> Expr:
        if condition in held:
            return TRUE
        if isinstance(condition, Logic) and condition.op == "&&":
            return and_(*map(rest, condition.operands))
        return condition

    def put(tree: Scalar) -> Scalar:
        if isinstance(tree, Coordinate):
            left = rest(tree.value)
            return Constant(1, tree.dtype) if left == TRUE else Coordinate(left)
        return with_children(tree, tuple(map(put, children(tree))))

    def statement(s: Statement) -> Statement | Body:
        match s:
            case If(condition, inner):
                left = rest(condition)
                return inner if left == TRUE else If(left, inner)
            case Compute(write=write):
                left = None if write is None else rest(write)
                tree = put(s.expr) if any(isinstance(x, Coordinate) for x in parts(s.expr)) else s.expr
                tree = tree if tree is s.expr else simplify(tree)
                return attrs.evolve(s, expr=tree, write=None if left == TRUE else left)
            case _:
                return s

    return rewrite(body, statement)
