"""Alternating registers: unrolling a loop by two saves the copy of registers from each trip to the next.

A loop whose product reads registers while it is in flight computes the next trip's values in other registers, and ends

    trip(0): product(here) ... compute(there)    here = there

Two trips in sequence need no copy: the second reads the registers that the first wrote, and writes those that the first
read. For an odd number of trips, one single trip copies as before: the first trip, or, where the number is only known
at run time, the last one, under a condition.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, as_int, eq, simplest
from fireiron.algebra.scalar import Arg
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.rewrite import replaced, rewrite
from fireiron.kernel.ir.statements import Buffer, Compute, For, If, Let, Region, Statement, Vote, walk
from fireiron.kernel.passes.allocate import rebind, views_of

Body = tuple[Statement, ...]


def alternated(loop: For, names: Names) -> Body:
    """Unroll a loop by two trips that exchange registers.

    Args:
        loop: a loop over chunks.
        names: the maker of names for the variables of the second trip.

    Returns:
        The statements; the loop itself where its trips do not end with copies of registers.
    """
    place = next((i for i, s in enumerate(loop.body) if _handed(s) is not None), len(loop.body))
    trip, copies = loop.body[:place], loop.body[place:]
    pairs = [pair for s in copies if (pair := _handed(s)) is not None]
    trips = as_expr(loop.extent)
    if not pairs or len(pairs) < len(copies) or as_int(trips) == 1:
        return (loop,)
    changed = {a.name: b for here, there in pairs for a, b in ((here, there), (there, here))}
    odd = as_int(as_expr(simplest(trips % 2)))
    count = as_expr(simplest(trips // 2))
    k = names.variable(f"{loop.var.name}_pair", count)
    at = 2 * k + (odd or 0)
    second = _renamed(_changed(_at(trip, loop.var, at + 1), changed), names)
    pair = attrs.evolve(loop, var=k, extent=count, body=(*_at(trip, loop.var, at), *second))

    def alone(number: Expr) -> Body:
        return *_renamed(_at(trip, loop.var, as_expr(simplest(number))), names), *copies

    if odd is None:
        return pair, If(eq(trips % 2, 1), alone(trips - 1))
    return (*alone(as_expr(0)), pair) if odd else (pair,)


def _handed(s: Statement) -> tuple[Buffer, Buffer] | None:
    """Return the registers that a region copies into, and those that it copies from."""
    copies = [x for x in walk((s,)) if not isinstance(x, Region | For)] if isinstance(s, Region) else []
    match copies:
        case [Compute(dst=dst, expr=Arg(), inputs=(source,), write=None)] if (
            dst.buffer.memory.registers and source.buffer.memory.registers and dst.offset == source.offset
        ):
            return dst.buffer, source.buffer
        case _:
            return None


def _at(body: Body, var: Var, value: Expr) -> Body:
    return replaced(body, {var: value})


def _changed(body: Body, buffers: Mapping[str, Buffer]) -> Body:
    """Replace registers in statements."""
    all_ = {v.buffer.name: v.buffer for s in walk(body) for v in views_of(s)}
    all_ |= {s.flag.buffer.name: s.flag.buffer for s in walk(body) if isinstance(s, Vote)}
    return rebind(body, {**all_, **buffers})


def _renamed(body: Body, names: Names) -> Body:
    """Rename the variables that statements set."""
    made = {s.var: Var(names.name(s.var.name), s.var.extent) for s in walk(body) if isinstance(s, Let | Vote)}

    def statement(s: Statement) -> Statement:
        return attrs.evolve(s, var=made[s.var]) if isinstance(s, Let | Vote) else s

    return replaced(rewrite(body, statement), made)
