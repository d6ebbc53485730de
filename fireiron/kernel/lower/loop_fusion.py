"""Fusion of consecutive loops over the same points: a value passed from one to the next then takes one register.

Two nests of unrolled loops with equal extents are fused where each point of the second needs only the same point of the
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import attrs

from fireiron.algebra.dtypes import DType, bf16, f16, f32
from fireiron.algebra.expr import Expr, Var, as_expr, as_int, free
from fireiron.algebra.scalar import Arg, Cast
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.rewrite import replaced, rewrite
from fireiron.kernel.ir.statements import Buffer, Call, Compute, For, Micro, Region, Statement, View, walk
from fireiron.kernel.lower.context import Body, Context
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.passes.pairs import converts, pair_of

MOST_LOOPS = 8


@attrs.frozen
class _Nest:
    """Hold nested unrolled loops around statements of single threads.

    Args:
        loops: the loops, outermost first.
        body: the statements inside the innermost loop.
        title: title of the surrounding region.
    """

    loops: tuple[For, ...]
    body: Body
    title: Region | None

    @property
    def extents(self) -> tuple[Expr, ...]:
        """Return the loops' extents."""
        return tuple(as_expr(loop.extent) for loop in self.loops)

    @property
    def statements(self) -> Body:
        """Return the body and the region with the loops around them."""
        body = self.body if self.title is None else (attrs.evolve(self.title, body=self.body),)
        for loop in reversed(self.loops):
            body = (attrs.evolve(loop, body=body),)
        return body


def fused(body: Body) -> Body:
    """Fuse consecutive nests of loops over the same points."""
    out: list[Statement | _Nest] = []
    for s in body:
        nest = _nest(s)
        last = out[-1] if out else None
        if nest is None:
            out.append(s)
        elif isinstance(last, _Nest) and (joined := _joined(last, nest)) is not None:
            out[-1] = joined
        else:
            out.append(nest)
    return tuple(x for s in out for x in (s.statements if isinstance(s, _Nest) else (s,)))


def in_one_register(body: Body, name: str) -> Body | None:
    """Shrink a register tensor to one register, where each element is read only in the trip that writes it.

    Args:
        body: all statements that use the tensor.
        name: name of the tensor's buffer.
    """
    inner = [s.body for s in walk(body) if isinstance(s, For) and not any(isinstance(x, For) for x in walk(s.body))]
    counts = [sum(v.buffer.name == name for v, _ in _views(x)) for x in inner]
    if sum(counts) != sum(v.buffer.name == name for v, _ in _views(body)):
        return None
    for trip in (x for x, count in zip(inner, counts, strict=True) if count):
        found = [(v.offset, way) for v, way in _views(trip) if v.buffer.name == name]
        if found[0][1] != "write" or len({offset for offset, _ in found}) != 1:
            return None

    def view(v: View) -> View:
        return attrs.evolve(v, offset=as_expr(0)) if v.buffer.name == name else v

    def statement(s: Statement) -> Statement:
        if not isinstance(s, Compute):
            return s
        return attrs.evolve(s, dst=view(s.dst), inputs=tuple(map(view, s.inputs)))

    return rewrite(body, statement)


def converted_in_pairs(body: Body, single: Set[str], context: Context) -> Body:
    """Compute two points per trip where an instruction converts two neighbouring elements.

    Args:
        body: fused nests.
        single: register tensors that were shrunk to one register; they then take two.
        context: the kernel's facts.
    """

    def statement(s: Statement) -> Statement:
        if not isinstance(s, For) or not s.unroll or any(isinstance(x, For) for x in walk(s.body)):
            return s
        count = as_int(s.extent)
        if count is None or count % 2 or not any(isinstance(x, Compute) and _narrows(x) for x in walk(s.body)):
            return s
        short = _short(s, single)
        if short is None or any(in_one_register(body, name) is None for name in short):
            return s
        wide = {name: temporary("two", kind, 2, context) for name, kind in sorted(short.items())}
        return _by_twos(s, count, single, wide, context) or s

    return rewrite(body, statement)


def _short(loop: For, single: Set[str]) -> dict[str, DType] | None:
    """Give the registers by which a trip's statements hand values on, which two trips would share, with their types.

    None where a statement of a later trip needs more than that: statements then cannot run two trips each.
    """
    inner = [x for s in loop.body for x in ((s,) if isinstance(s, Compute) else walk((s,))) if isinstance(x, Compute)]
    users: dict[str, set[int]] = {}
    places: dict[str, set[Expr]] = {}
    written: dict[str, DType] = {}
    for i, s in enumerate(inner):
        for view, way in reads_and_writes(s):
            name = view.buffer.name
            if name in single:
                continue
            users.setdefault(name, set()).add(i)
            places.setdefault(name, set()).add(view.offset)
            if way == "write":
                written[name] = view.buffer.dtype
    found: dict[str, DType] = {}
    for name, kind in written.items():
        if len(users[name]) == 1:  # one statement alone, whose trips follow each other as before
            continue
        if len(places[name]) > 1:
            return None
        if not any(loop.var in free(place) for place in places[name]):
            found[name] = kind
    return found


def _narrows(s: Compute) -> bool:
    return isinstance(s.expr, Cast) and s.expr.dtype in (f16, bf16) and s.expr.x.dtype == f32 and s.write is None


def _by_twos(loop: For, count: int, single: Set[str], wide: Mapping[str, Buffer], context: Context) -> For | None:
    """Compute two points per trip; None where a conversion's results are not adjacent.

    Args:
        loop: an unrolled loop around statements of single threads.
        count: number of its trips.
        single: register tensors of one register, which then take two.
        wide: registers that take the place of others, which one trip's statements share.
        context: the kernel's facts.
    """
    half = Var(loop.var.name, count // 2)

    def of_view(v: View, at: Var) -> View:
        if v.buffer.name in wide:
            return attrs.evolve(v, buffer=wide[v.buffer.name], offset=as_expr(at))
        return attrs.evolve(v, offset=as_expr(at)) if v.buffer.name in single else v

    def twice(s: Compute) -> Body:
        at = context.variable("e", 2)
        both = replaced((s,), {loop.var: 2 * half + at})
        (one,) = both
        assert isinstance(one, Compute)
        one = attrs.evolve(one, dst=of_view(one.dst, at), inputs=tuple(of_view(v, at) for v in one.inputs))
        if not _narrows(s):
            return (For(at, as_expr(2), (one,), unroll=True),)
        assert isinstance(one.expr, Cast)
        ahead: Body = ()
        if not converts(one.expr):
            held = View(temporary("wide", f32, 2, context), as_expr(at))
            ahead = (For(at, as_expr(2), (Compute(held, one.expr.x, one.inputs, link=s.link),), unroll=True),)
            one = attrs.evolve(one, expr=Cast(Arg(0, f32), one.expr.dtype), inputs=(held,))
        pair = For(at, as_expr(2), (one,), unroll=True, pairs=True)
        return () if pair_of(pair) is None else (*ahead, pair)

    out: list[Statement] = []
    for s in loop.body:
        each = [_once(part, twice) for part in (s.body if isinstance(s, Region) else (s,))]
        if not all(each):
            return None
        parts = tuple(x for made in each for x in made)
        out += [attrs.evolve(s, body=parts)] if isinstance(s, Region) else parts
    return attrs.evolve(loop, var=half, extent=as_expr(count // 2), body=tuple(out))


def _once(s: Statement, twice: Callable[[Compute], Body]) -> Body:
    return twice(s) if isinstance(s, Compute) else ()


def _nest(s: Statement) -> _Nest | None:
    title = s if isinstance(s, Region) else None
    body: Body = s.body if isinstance(s, Region) else (s,)
    loops: list[For] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].unroll and len(loops) < MOST_LOOPS:
        loops.append(body[0])
        body = body[0].body
    if not loops or not all(isinstance(x, Compute) for x in walk(body)):
        return None
    return _Nest(tuple(loops), body, title)


def _joined(first: _Nest, then: _Nest) -> _Nest | None:
    """Fuse two nests; None where a point of the second uses another point of the first."""
    if first.extents != then.extents:
        return None
    values: dict[Var, Expr] = {b.var: a.var for a, b in zip(first.loops, then.loops, strict=True)}
    body = replaced(then.body, values)
    mine, others = list(_views(first.body)), list(_views(body))
    for v, way in others:
        for w, other in mine:
            apart = way == other == "read" or v.buffer.name != w.buffer.name
            if not apart and (way == "write" or v.offset != w.offset):
                return None
    heads = [x if n.title is None else attrs.evolve(n.title, body=x) for n, x in ((first, first.body), (then, body))]
    parts = tuple(p for h in heads for p in (h if isinstance(h, tuple) else (h,)))
    return _Nest(first.loops, parts, None)


def _views(body: Sequence[Statement]) -> Iterator[tuple[View, str]]:
    for s in walk(tuple(body)):
        if isinstance(s, Call | Compute | Micro):
            yield from reads_and_writes(s)
