"""Loops of two trips are unrolled by two, since the compiler crashes on some loops of two trips.

NVRTC 12.9, 13.0 and 13.5 crash (SIGILL) on some rolled loops of two trips for sm_100 and later: under a condition on
the thread, a trip reads and writes at addresses whose strides, over three or more digits of the thread's number, are in
one ratio. The same text compiles with three trips, with both trips unrolled, or for sm_90.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import as_expr, as_int
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import For, Statement
from fireiron.kernel.lower.context import Body

TRIPS = 2


def without_two_trips(body: Body) -> Body:
    """Unroll each loop of two trips by two (`together`)."""

    def flat(s: Statement) -> Statement:
        match s:
            case For(extent=extent, unroll=False, together=1) if as_int(as_expr(extent)) == TRIPS:
                return attrs.evolve(s, together=TRIPS)
            case _:
                return s

    return rewrite(body, flat)
