"""First lines: while barriers are made, the threads that compute ask the L2 cache for the first chunks of K.

The first bulk copies would wait for DRAM, and the products for them. Blocks at work together read the same rows and
columns of tiles: each asks for its share of the lines, where the blocks that need them ask for all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import attrs
import numpy as np
from numpy.typing import NDArray

from fireiron.algebra.arch import native
from fireiron.algebra.expr import Expr, Var, and_, as_expr, as_int, evaluate, free, ge, lt, proves, substitute
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.kernel.context import Body, Context
from fireiron.kernel.ir import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Ask,
    Await,
    Call,
    FindGroup,
    For,
    If,
    Let,
    Region,
    Statement,
    View,
)
from fireiron.kernel.rewrite import mentions
from fireiron.language.decompositions import Split

SHARES = (4, 2)  # blocks that ask for a part of the same lines each, as many as can
LEAST_COVERED = 0.9  # of the blocks at work: those of a last few tiles may lack neighbours who ask for the rest


@attrs.define(eq=False)
class _Start:
    """Hold what is known of a block's first chunk.

    Args:
        loop: over the chunks.
        names: what the variables around it are there: names of their own, or numbers.
        lets: what these names are.
        values: the variables by block alone.
    """

    loop: For
    names: dict[Var, Expr]
    lets: list[Let]
    values: dict[Var, Expr]


@attrs.frozen
class _Boxes:
    """Hold one bulk copy of a chunk, with the loops around it.

    Args:
        call: the copy.
        loops: the loops inside the chunk, outermost first.
    """

    call: Call
    loops: tuple[For, ...]

    @property
    def far(self) -> View:
        """Give the view of global memory."""
        return self.call.views[0]

    @property
    def rows(self) -> tuple[int, ...]:
        """Give the extents of a box but for the contiguous one, innermost first."""
        assert self.call.map is not None
        return self.call.map.box[1:]


def first_lines(link: Split, load: Body, context: Context) -> Body:
    """Ask for the lines of a block's first chunks.

    Args:
        link: the split, which says how many chunks.
        load: what the role that loads runs.
        context: after both roles were lowered.

    Raises:
        DecompositionError: `role-prefetch` where groups are searched for first.
    """
    assert link.specialised is not None and context.threads is not None
    chunks = link.specialised.prefetch
    if not chunks:
        return ()
    start = _first_chunk(load, {}, [], {}, context)
    if start is None:
        raise DecompositionError(
            "role-prefetch",
            f"prefetch={chunks}: which rows a block's first chunk has is known once its group is found",
            fix="drop prefetch= for products in groups",
            link=link.link,
        )
    out: Body = ()
    first = 0
    for boxes in _boxes(start.loop.body, ()):
        share, number = _share(boxes, start, context)
        lines = chunks * prod(map(_trips, boxes.loops)) * prod(boxes.rows) // share
        first = 0 if first + lines > context.threads else first
        out += _ask(boxes, lines, first, share, number, start, context)
        first = (first + lines) % context.threads
    for let in reversed(start.lets):
        out = (let, *out) if mentions(out, let.var) else out
    # Before the roles part: those who compute wait there for registers that the others give back.
    return (If(ge(_thread(context), context.loaders), out),)


def _thread(context: Context) -> Var:
    """Give the variable of a thread's index in the whole block."""
    assert context.threads is not None
    return Var(THREAD, context.loaders + context.threads)


def _first_chunk(
    body: Body, names: dict[Var, Expr], lets: list[Let], values: dict[Var, Expr], context: Context
) -> _Start | None:
    """Find the loop over chunks of K, and what the variables around it are in the first trips of the loops there."""
    for s in body:
        match s:
            case Let(var, value):
                values[var], value = substitute(value, values), substitute(value, names)
                names[var] = value
                if as_int(value) is None:
                    first = Var(context.name(f"first_{var.name}"), var.extent)
                    names[var] = first
                    lets.append(Let(first, value))
            case For(body=inner) if any(isinstance(x, Await) for x in inner):
                return _Start(s, names, lets, values)
            case For(var=var, body=inner):
                names[var] = values[var] = as_expr(0)
                return _first_chunk(inner, names, lets, values, context)
            case If(body=inner) | Region(body=inner):
                return _first_chunk(inner, names, lets, values, context)
            case FindGroup():
                return None
            case _:
                pass
    return None


def _boxes(body: Sequence[Statement], loops: tuple[For, ...]) -> Iterator[_Boxes]:
    for s in body:
        match s:
            case Call(map=described) if described is not None:
                yield _Boxes(s, loops)
            case For(body=inner):
                yield from _boxes(inner, (*loops, s))
            case If(body=inner) | Region(body=inner):
                yield from _boxes(inner, loops)
            case _:
                pass


def _trips(loop: For) -> int:
    found = as_int(loop.extent)
    assert found is not None, "what a chunk is made of is counted"
    return found


def _share(boxes: _Boxes, start: _Start, context: Context) -> tuple[int, Expr]:
    """Say how many blocks share the lines, and by which number of this one: those that ask for the same are told apart.

    That is a matter of speed alone: of sizes that are not known each block asks for all it needs.
    """
    alone = 1, as_expr(0)
    gpu = native(context.arch).gpu
    count = as_int(context.grid)
    if count is None:
        return alone
    count = min(count, gpu.sms_of_clusters(context.cluster))
    zeros = {**start.values, **{loop.var: as_expr(0) for loop in (start.loop, *boxes.loops)}}
    block = np.arange(count)
    env = {BLOCK: block, BLOCKS: count, RANK: block % context.cluster}

    def each(e: Expr) -> NDArray[np.int64] | None:
        known = all(isinstance(leaf, Var) and leaf.name in env for leaf in free(e))
        return np.broadcast_to(np.asarray(evaluate(e, env), np.int64), count) if known else None

    origin = [each(substitute(o, zeros)) for o in boxes.far.origin]
    if any(o is None for o in origin):
        return alone
    _, asked = np.unique(np.stack([o for o in origin if o is not None]), axis=1, return_inverse=True)
    for share in SHARES:
        for var, name in start.names.items():
            number = each(start.values[var])
            if number is not None and _covered(asked, number % share, share) >= LEAST_COVERED:
                return share, name
    return alone


def _covered(asked: NDArray[np.int64], part: NDArray[np.int64], share: int) -> float:
    """Say what share of the blocks have neighbours, or themselves, ask for every part of what they need."""
    parts = np.zeros((asked.max() + 1, share), bool)
    parts[asked, part] = True
    whole = np.flatnonzero(parts.sum(axis=1) == share)
    return np.isin(asked, whole).sum() / len(asked)


def _ask(
    boxes: _Boxes,
    lines: int,
    first: int,
    share: int,
    number: Expr,
    start: _Start,
    context: Context,
) -> Body:
    """Let threads from a first one on ask for a line each, and again where lines are more than threads."""
    assert context.threads is not None
    place = _thread(context) - (context.loaders + first)
    again = -(-lines // context.threads)
    turn = context.variable("r", again)
    place = place + turn * context.threads if again > 1 else place
    line = context.variable("line", lines * share)
    known = dict(start.names)
    rest: Expr = line
    rows: list[Expr] = []
    for extent in boxes.rows:
        rows.append(rest % extent)
        rest = rest // extent
    for loop in reversed(boxes.loops):
        known[loop.var] = rest % _trips(loop)
        rest = rest // _trips(loop)
    known[start.loop.var] = rest
    far = boxes.far
    assert boxes.call.map is not None
    tensor = next(s.tensor for s in context.storages.values() if s.name == far.buffer.name)
    assert tensor is not None
    order = tuple(reversed(tensor.storage))  # of the box, the contiguous dimension first
    offset = substitute(far.offset, known)
    origin = [substitute(o, known) for o in far.origin]
    inside: list[Expr] = []
    for i, d in enumerate(order):
        at = tensor.storage.index(d)
        if i:
            offset, origin[at] = offset + rows[i - 1] * tensor.strides[d], origin[at] + rows[i - 1]
        there = lt(origin[at], tensor.shape[d])
        inside += () if proves(there) else (there,)
    pack = far.buffer.dtype.pack
    view = View(far.buffer, offset, Layout(pack, 1) if pack > 1 else Layout(1, 0), origin=tuple(origin))
    body: Body = (Ask(view, link=boxes.call.link),)
    body = (If(and_(*inside), body),) if inside else body
    body = (Let(line, place * share + number % share), *body)
    here = [ge(place, 0)] if first else []
    here += [] if lines == again * context.threads - first else [lt(place, lines)]
    body = (If(and_(*here), body),) if here else body
    return (For(turn, as_expr(again), body, unroll=True),) if again > 1 else body
