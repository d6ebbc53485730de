"""Next lines: a persistent block asks the L2 cache for its next rows of layers, before it stores these."""

from __future__ import annotations

from fireiron.algebra.expr import and_, as_expr, as_int, lt, proves, substitute
from fireiron.algebra.layout import Layout
from fireiron.kernel.context import Body, Context, buffer_of
from fireiron.kernel.ir import Ask, For, If, Let, View
from fireiron.kernel.window import Axis
from fireiron.language.decompositions import Each
from fireiron.language.programs import Layers

LINE = 128  # bytes


def next_lines(link: Each, rows: Axis, context: Context) -> Body:
    """Ask for the lines of X that this unit's next tile has.

    Args:
        link: says whether to.
        rows: those of this tile.
        context: what a tile's names are in the next trip.
    """
    if not link.prefetch:
        return ()
    spec = context.spec
    assert isinstance(spec, Layers) and context.threads is not None and context.following is not None
    x, (more, names) = spec.X, context.following
    height, columns = as_int(as_expr(rows.size)), as_int(as_expr(x.shape[1]))
    assert height is not None and columns is not None, "what is held on chip has sizes that are known"
    along = x.storage[-1]  # the dimension whose elements are neighbours
    nbytes = x.dtype.nbytes
    run, count = (height, columns) if along == 0 else (columns, height)
    lines = -(-run * nbytes // LINE)
    first = context.variable("next_row", x.shape[0])
    again = -(-lines * count // context.threads)
    turn = context.variable("r", again)
    line = context.thread + turn * context.threads if again > 1 else context.thread
    place = [line // lines, line // lines]
    place[along] = line % lines * (LINE // nbytes)
    row, column = first + place[0], place[1]
    offset = row * x.strides[0] + column * x.strides[1]
    ask: Body = (Ask(View(buffer_of(context.storages[x.name]), offset, Layout(1, 0), origin=(row, column)), link.link),)
    whole = as_int(as_expr(x.shape[0]) % height) == 0
    inside = [c for c in (lt(line, lines * count), *(() if whole else (lt(row, x.shape[0]),))) if not proves(c)]
    ask = (If(and_(*inside), ask),) if inside else ask
    ask = (For(turn, as_expr(again), ask, unroll=True),) if again > 1 else ask
    return (If(more, (Let(first, substitute(rows.offset, names)), *ask)),)
