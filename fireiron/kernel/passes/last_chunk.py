"""The last chunk of a loop, where it is partial: steps of products beyond the extent multiply zeros, and are left out.

Bulk copies write zeros where a chunk's box lies outside its tensor, so that all chunks have as many steps. A product
of a few registers costs as much with zeros as with data. The last trip is taken out of the loop, with the steps that
have data; the loop's other trips keep their form, without a condition.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.expr import Var, as_expr, as_int
from fireiron.atoms.flights import flying
from fireiron.kernel.ir.rewrite import replaced, rewrite
from fireiron.kernel.ir.statements import Call, For, If, Region, Statement, walk
from fireiron.kernel.lower.context import Body

Cuts = Mapping[Var, tuple[int, int]]  # by a loop's variable: the extent of the dim that it cuts, and that of a chunk


def without_empty_steps(body: Body, cuts: Cuts) -> Body:
    """Take the last trip out of each loop over chunks whose last chunk has fewer steps of products.

    Args:
        body: the kernel's statements, with all waits and arrivals.
        cuts: the loops of splits.
    """

    def peeled(s: Statement) -> Statement | Body:
        if not isinstance(s, For) or s.unroll or s.var not in cuts:
            return s
        whole, size = cuts[s.var]
        trips, rest = -(-whole // size), whole % size
        if not rest or as_int(s.extent) != trips:
            return s
        short = _short(s.body, rest, cuts)
        if short is s.body:
            return s
        last = Region(f"the last chunk: {rest} of {size}", replaced(short, {s.var: as_expr(trips - 1)}))
        return (attrs.evolve(s, extent=as_expr(trips - 1)), last) if trips > 1 else last

    return rewrite(body, peeled)


def _short(body: Body, rest: int, cuts: Cuts) -> Body:
    """Keep the steps of a chunk's products that have data; `body` itself where all have."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, For) and s.unroll and s.var in cuts and _multiplies(s.body):
            out += _steps(s, rest, cuts)
        elif isinstance(s, If | Region):
            inner = _short(s.body, rest, cuts)
            out.append(s if inner is s.body else attrs.evolve(s, body=inner))
        else:
            out.append(s)
    same = len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True))
    return body if same else tuple(out)


def _steps(loop: For, rest: int, cuts: Cuts) -> Body:
    """Keep the steps of a loop that begin before `rest`; the last of them may itself be partial."""
    whole, size = cuts[loop.var]
    if rest >= whole or as_int(loop.extent) != -(-whole // size):
        return (loop,)
    full, part = divmod(rest, size)
    inner = _short(loop.body, part, cuts) if part else loop.body
    if part and inner is loop.body:
        full += 1
    kept = (attrs.evolve(loop, extent=as_expr(full)),) if full else ()
    if full == as_int(loop.extent):
        return (loop,)
    return kept if inner is loop.body else (*kept, *replaced(inner, {loop.var: as_expr(full)}))


def _multiplies(body: Body) -> bool:
    """Say whether statements are products of shared memory alone, and loops around them."""
    return all(
        isinstance(s, For | Region)
        or (
            isinstance(s, Call)
            and flying(s.atom.completion) == "products"
            and all(v.buffer.memory.name == "SH" for v in s.views[:2])
        )
        for s in walk(body)
    )
