"""Points that some threads lack: they are computed from zeros, and their results dropped, so that no branch is needed.

Where the vectors of a tile do not divide evenly among lanes, some lanes lack the last one. A branch around its load and
around each of the steps that follow lets NVRTC join these branches: the load then waits until the other vectors are
folded. Without branches all loads start at once. Where a program reads several arrays of its points, their loads run
side by side in any case, and branches leave registers to more warps.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from fireiron.algebra.expr import Expr, and_, as_expr
from fireiron.algebra.scalar import Arg, Binary, Coordinate, Custom, Scalar, Select, coordinates, parts, prints
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, Compute, For, Region, Statement, View, walk
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.own_points import Points
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.lower.step_points import gathers
from fireiron.language.steps import Program


def loaded_or_zero(body: Body, present: Expr, context: Context) -> Body | None:
    """Load registers where a condition holds, and zeros elsewhere; None where a statement is no such load."""

    def loads(s: Statement) -> bool:
        match s:
            case Call(atom=atom, views=(src, dst)):
                copies = atom.kind == "Move" and bool(atom.guarded_call) and s.write is None
                return copies and dst.buffer.memory.registers and not src.buffer.memory.registers
            case _:
                return isinstance(s, For | Region)

    def guarded(s: Statement) -> Statement:
        if not isinstance(s, Call):
            return s
        return attrs.evolve(s, read=present if s.read is None else and_(present, s.read))

    if not _reads_one_array(context) or not all(map(loads, walk(body))):
        return None
    context.filled.update(s.views[1].buffer.name for s in walk(body) if isinstance(s, Call))
    return rewrite(body, guarded)


def around(owned: Points, body: Body, states: Collection[str], state: State, context: Context) -> Body:
    """Put loops around the code of a thread's points, and guards or choices for the points that it lacks.

    Args:
        owned: the points.
        body: the code.
        states: names of the registers of a fold's state, which points that are lacking must not change.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
    """
    online = state.progress is not None and state.progress.law is not None
    if not owned.guards or online:
        return owned.around(body)
    known, made = set(states) | context.filled, set[str]()
    guard = and_(*owned.guards)

    def plain(s: Statement) -> bool:
        match s:
            case Compute(dst=dst, write=None):
                made.add(dst.buffer.name)
                read = all(v.buffer.memory.registers and v.buffer.name in known | made for v in s.inputs)
                return read and dst.buffer.memory.registers and not _of_points(s.expr)
            case _:
                return isinstance(s, For | Region)

    if not all(map(plain, walk(body))):
        return owned.around(body)
    context.filled.update(made)
    return attrs.evolve(owned, guards=()).around(_chosen(body, guard, states, context))


def _reads_one_array(context: Context) -> bool:
    """Say whether a program reads the elements of one array, each at a point of its own, and others with fewer dims."""
    if not isinstance(context.spec, Program):
        return False
    given = {t.name for t in context.spec.inputs}
    read = {ref for s in context.spec.steps for ref in s.reads if ref.name in given}
    most = max((len(ref.dims) for ref in read), default=0)
    (first, *more) = [ref for ref in read if len(ref.dims) == most] or [None]
    return first is not None and not more and first.index == first.dims


def _chosen(body: Body, guard: Expr, states: Collection[str], context: Context) -> Body:
    """Keep a fold's state where a condition does not hold."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, For | Region):
            out.append(attrs.evolve(s, body=_chosen(s.body, guard, states, context)))
        elif isinstance(s, Compute) and s.dst.buffer.name in states:
            out += _kept(s, guard, context)
        else:
            out.append(s)
    return tuple(out)


def _kept(s: Compute, guard: Expr, context: Context) -> Body:
    match s.expr:
        case Select(Coordinate(condition), Arg() as new, Arg() as old) if s.inputs[old.index] == s.dst:
            return (attrs.evolve(s, expr=Select(Coordinate(and_(guard, condition)), new, old)),)
        case _:
            kind = s.dst.buffer.dtype
            after = View(temporary("next", kind, 1, context), as_expr(0))
            choice = Select(Coordinate(guard), Arg(1, kind), Arg(0, kind))
            return (attrs.evolve(s, dst=after), Compute(s.dst, choice, (s.dst, after), link=s.link))


def _of_points(tree: Scalar) -> bool:
    """Say whether an expression must not be computed at points that are lacking.

    It prints, divides integers, reads an array of indices, or calls a function of the user.
    """
    divides = any(isinstance(x, Binary) and x.op == "div" and x.dtype.kind == "int" for x in parts(tree))
    called = any(isinstance(x, Custom) for x in parts(tree))
    return divides or called or prints(tree) or any(map(gathers, coordinates(tree)))
