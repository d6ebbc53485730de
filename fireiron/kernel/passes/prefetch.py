"""Prefetch: threads fetch cache lines into the L2 cache before they are loaded.

First lines are the lines of the first chunks of K: the computing threads prefetch them while mbarriers are initialised,
since the first bulk copies, and the products after them, would otherwise wait for DRAM. Blocks that run at the same
time read the same rows and columns of tiles; each prefetches a share of the lines if together they cover all lines.

Next lines are the next rows of X of layers: a persistent block prefetches them before it stores its current rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import attrs
import numpy as np
from numpy.typing import NDArray

from fireiron.algebra.arch import native
from fireiron.algebra.expr import Expr, Var, and_, as_expr, as_int, evaluate, free, ge, lt, proves, substitute
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.rewrite import mentions
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Advance,
    Ask,
    Call,
    Draw,
    Fetch,
    FindGroup,
    For,
    If,
    Let,
    Region,
    View,
    walk,
    within,
)
from fireiron.kernel.lower.context import Body, Context, buffer_of
from fireiron.kernel.lower.window import Axis
from fireiron.language.decompositions import Each, Split
from fireiron.language.tensor import Tensor

SHARES = (4, 2)  # most blocks that share the prefetch of the same lines
LINE = 128  # bytes
LEAST_COVERED = (
    0.9  # fraction of the running blocks that must share lines: blocks of the last tiles may have no neighbours
)


@attrs.frozen(eq=False)
class Launch:
    """Describe a kernel's launch.

    Args:
        arch: the architecture's number.
        blocks: number of blocks.
        cluster: number of blocks in a cluster.
        loaders: number of threads of the role `load`.
        threads: number of threads of the role `math`.
        tensors: the tensors in global memory, by the names of their buffers.
    """

    arch: int
    blocks: Expr
    cluster: int
    loaders: int
    threads: int
    tensors: Mapping[str, Tensor]


@attrs.frozen(eq=False)
class _Start:
    """Hold facts about a block's first chunk.

    Args:
        loop: the loop over the chunks.
        names: values of the variables around the loop: new names, or numbers.
        lets: definitions of these names.
        values: the same variables as expressions of the block's index only.
    """

    loop: For
    names: dict[Var, Expr]
    lets: tuple[Let, ...]
    values: dict[Var, Expr]


@attrs.frozen
class _Copy:
    """Hold one bulk copy of a chunk, with the loops around it.

    Args:
        call: the copy.
        loops: the loops inside the chunk, outermost first.
    """

    call: Call
    loops: tuple[For, ...]

    @property
    def far(self) -> View:
        """Return the view of global memory."""
        return self.call.views[0]

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the extents of a box without the contiguous one, innermost first."""
        assert self.call.map is not None
        return self.call.map.box[1:]


def first_lines(link: Split, load: Body, launch: Launch, names: Names) -> Body:
    """Prefetch the lines of a block's first chunks.

    Args:
        link: the split, whose `prefetch` is the number of chunks.
        load: the statements of the load role.
        launch: the kernel's launch.
        names: the maker of names of variables.

    Raises:
        DecompositionError: `role-prefetch` where blocks search for their group of rows first.
    """
    assert link.specialised is not None
    chunks = link.specialised.prefetch
    if not chunks:
        return ()
    if any(isinstance(s, FindGroup) for s in walk(load)):
        raise DecompositionError(
            "role-prefetch",
            f"prefetch={chunks}: the rows of a block's first chunk are not known before its group is found",
            fix="drop prefetch= for products in groups",
            link=link.link,
        )
    if any(isinstance(s, Fetch) for s in walk(load)):
        raise DecompositionError(
            "role-prefetch",
            f"prefetch={chunks}: where a block's first chunk lies is not known before an array of indices is read",
            fix="drop prefetch= where loads gather",
            link=link.link,
        )
    start = _start(load, names)
    out: Body = ()
    first = 0
    for copy in _copies(start.loop.body):
        share, number = _share(copy, start, launch)
        lines = chunks * prod(map(_trips, copy.loops)) * prod(copy.rows) // share
        first = 0 if first + lines > launch.threads else first
        out += _ask(copy, lines, first, share, number, start, launch, names)
        first = (first + lines) % launch.threads
    for let in reversed(start.lets):
        out = (let, *out) if mentions(out, let.var) else out
    # Before the roles begin, where the math role waits for registers that the load role releases.
    return (If(ge(_thread(launch), launch.loaders), out),)


def _thread(launch: Launch) -> Var:
    """Return the variable of a thread's index in the whole block."""
    return Var(THREAD, launch.loaders + launch.threads)


def _start(load: Body, fresh: Names) -> _Start:
    """Find the loop over chunks of K, and the values of variables around it in the surrounding loops' first trips."""
    path = _path(load)
    assert path is not None, "the role that loads has a loop over chunks"
    names: dict[Var, Expr] = {}
    values: dict[Var, Expr] = {}
    lets: list[Let] = []
    *around, loop = path
    for s in around:
        if isinstance(s, For):
            names[s.var] = values[s.var] = as_expr(0)
            continue
        values[s.var], value = substitute(s.value, values), substitute(s.value, names)
        names[s.var] = value
        if as_int(value) is None:
            first = Var(fresh.name(f"first_{s.var.name}"), s.var.extent)
            names[s.var] = first
            lets.append(Let(first, value))
    assert isinstance(loop, For)
    return _Start(loop, names, tuple(lets), values)


def _path(body: Body) -> tuple[Let | For, ...] | None:
    """List the definitions and loops from a body to the loop over a ring's slots, with that loop last."""
    lets: list[Let] = []
    for s in body:
        match s:
            case Let():
                lets.append(s)
            case Draw(var=var):  # a block's first item is its own
                lets.append(Let(var, s.expected))
            case For(body=inner) if any(isinstance(x, Advance) for x in inner):
                return (*lets, s)
            case For(body=inner) | If(body=inner) | Region(body=inner):
                found = _path(inner)
                if found is not None:
                    return (*lets, *((s,) if isinstance(s, For) else ()), *found)
            case _:
                pass
    return None


def _copies(body: Body) -> Iterator[_Copy]:
    for s, around in within(body):
        if isinstance(s, Call) and s.map is not None and not s.map.lower:  # lines of boxes
            yield _Copy(s, tuple(loop for loop in around if isinstance(loop, For)))


def _trips(loop: For) -> int:
    found = as_int(loop.extent)
    assert found is not None, "what a chunk is made of is counted"
    return found


def _share(copy: _Copy, start: _Start, launch: Launch) -> tuple[int, Expr]:
    """Return how many blocks share the lines of a copy, and this block's number among them.

    Only speed depends on the two numbers. Where sizes are not known, each block prefetches all its lines.
    """
    alone = 1, as_expr(0)
    gpu = native(launch.arch).gpu
    count = as_int(launch.blocks)
    if count is None:
        return alone
    count = min(count, gpu.sms_of_clusters(launch.cluster))
    zeros = {**start.values, **{loop.var: as_expr(0) for loop in (start.loop, *copy.loops)}}
    block = np.arange(count)
    env = {BLOCK: block, BLOCKS: count, RANK: block % launch.cluster}

    def each(e: Expr) -> NDArray[np.int64] | None:
        known = all(isinstance(leaf, Var) and leaf.name in env for leaf in free(e))
        return np.broadcast_to(np.asarray(evaluate(e, env), np.int64), count) if known else None

    origin = [each(substitute(o, zeros)) for o in copy.far.origin]
    if any(o is None for o in origin):
        return alone
    _, asked = np.unique(np.stack([o for o in origin if o is not None]), axis=1, return_inverse=True)
    numbers = [(each(start.values[var]), name) for var, name in start.names.items()]
    for share in SHARES:
        for number, name in numbers:
            if number is not None and _covered(asked, number % share, share) >= LEAST_COVERED:
                return share, name
    return alone


def _covered(asked: NDArray[np.int64], part: NDArray[np.int64], share: int) -> float:
    """Return the fraction of blocks all of whose lines are prefetched by some block."""
    parts = np.zeros((asked.max() + 1, share), bool)
    parts[asked, part] = True
    whole = np.flatnonzero(parts.sum(axis=1) == share)
    return np.isin(asked, whole).sum() / len(asked)


def _ask(
    copy: _Copy,
    lines: int,
    first: int,
    share: int,
    number: Expr,
    start: _Start,
    launch: Launch,
    names: Names,
) -> Body:
    """Make consecutive threads prefetch one line each, in a loop where there are more lines than threads."""
    place = _thread(launch) - (launch.loaders + first)
    again = -(-lines // launch.threads)
    turn = names.variable("r", again)
    place = place + turn * launch.threads if again > 1 else place
    line = names.variable("line", lines * share)
    known = dict(start.names)
    rest: Expr = line
    rows: list[Expr] = []
    for extent in copy.rows:
        rows.append(rest % extent)
        rest = rest // extent
    for loop in reversed(copy.loops):
        known[loop.var] = rest % _trips(loop)
        rest = rest // _trips(loop)
    known[start.loop.var] = rest
    far = copy.far
    tensor = launch.tensors[far.buffer.name]
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
    body: Body = (Ask(view, link=copy.call.link),)
    body = (If(and_(*inside), body),) if inside else body
    body = (Let(line, place * share + number % share), *body)
    here = [ge(place, 0)] if first else []
    here += [] if lines == again * launch.threads - first else [lt(place, lines)]
    body = (If(and_(*here), body),) if here else body
    return (For(turn, as_expr(again), body, unroll=True),) if again > 1 else body


def next_lines(link: Each, rows: Axis, context: Context) -> Body:
    """Prefetch the lines of X in this unit's next tile.

    Args:
        link: the link with `prefetch`.
        rows: the window of this tile's rows.
        context: the kernel's facts; `following` has the next tile's values of the variables.
    """
    if not link.prefetch:
        return ()
    spec = context.spec
    assert context.threads is not None and context.following is not None
    x, (more, names) = spec.inputs[0], context.following
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
