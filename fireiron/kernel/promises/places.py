"""Places: verify that no write overwrites a buffer that is read later, and that packed accesses count bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import attrs

from fireiron.algebra.expr import as_expr
from fireiron.algebra.scalar import Arg, Coordinate, Custom, Scalar, children, parts
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Arrive,
    Await,
    Barrier,
    Buffer,
    Call,
    Compute,
    For,
    If,
    InitBarriers,
    Kernel,
    Micro,
    Region,
    Statement,
    View,
)
from fireiron.kernel.passes.allocate import ALIGN, rebind
from fireiron.kernel.promises.accesses import Access, Trace, bodies_of, buffers_of
from fireiron.kernel.promises.values import Values
from fireiron.language.levels import SH

Body = tuple[Statement, ...]
BARRIER_NBYTES = 8


def unplaced(body: Body) -> Body:
    """Return statements without the offsets of buffers and mbarriers, and without the statements' numbers."""
    stubs = {name: Buffer(name, b.memory, b.dtype, as_expr(1)) for name, b in buffers_of(body).items()}

    def one(s: Statement) -> Statement:
        match s:
            case InitBarriers(barriers=barriers):
                return InitBarriers(tuple(map(_unplaced, barriers)))
            case Await(barrier=barrier) | Arrive(barrier=barrier):
                return attrs.evolve(s, barrier=_unplaced(barrier))
            case Call(signal=(barrier, slot)):
                return attrs.evolve(s, signal=(_unplaced(barrier), slot))
            case _:
                return s

    return rewrite(rebind(body, stubs), one)


def _unplaced(barrier: Barrier) -> Barrier:
    return attrs.evolve(barrier, offset=0)


def outside(kernel: Kernel) -> Iterator[str]:
    """List the buffers and mbarriers that lie outside a block's shared memory, or are misaligned."""
    end = 0
    for b in kernel.buffers:
        if b.memory == SH:
            end = max(end, b.offset + b.nbytes)
            if b.offset % ALIGN or b.offset + b.nbytes > kernel.shared_nbytes:
                yield f"{b.name} lies at bytes {b.offset} to {b.offset + b.nbytes} of {kernel.shared_nbytes}"
    for barrier in kernel.barriers:
        if barrier.offset < end or barrier.offset % BARRIER_NBYTES:
            yield f"{barrier.name} lies at byte {barrier.offset}, and buffers end at {end}"
        end = barrier.offset + BARRIER_NBYTES * barrier.slots
    if end > kernel.shared_nbytes:
        yield f"mbarriers end at byte {end} of {kernel.shared_nbytes}"


def overwritten(body: Body, buffers: Sequence[Buffer]) -> Iterator[str]:
    """List the buffers that are read after a write to another buffer in the same bytes.

    Args:
        body: the kernel's statements.
        buffers: the kernel's buffers.
    """
    shared = [b for b in buffers if b.memory == SH]
    over: dict[str, set[str]] = {b.name: set() for b in shared}
    for a, b in combinations(shared, 2):
        if a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes:
            over[a.name].add(b.name)
            over[b.name].add(a.name)
    if not any(over.values()):
        return
    runs = [list(_in_order(part)) for part in bodies_of(body)]
    for one, other in combinations([{name for name, _ in run} for run in runs], 2):
        for name in sorted(one):
            if common := over.get(name, set()) & other:
                yield f"{name} of one role lies where {', '.join(sorted(common))} of another lies"
    for run in runs:
        lost: dict[str, str] = {}  # for each buffer, the buffer that overwrote it
        for name, way in run:
            if way == "read" and name in lost:
                yield f"{name} is read after {lost[name]} was written in its bytes"
                return
            if way == "write":
                lost.pop(name, None)
                lost.update(dict.fromkeys(over.get(name, ()), name))


def _in_order(body: Body) -> Iterator[tuple[str, str]]:
    """List the buffers that statements read and write, in order, with two trips of each loop, ignoring conditions."""
    for s in body:
        match s:
            case For(body=inner):
                yield from (*_in_order(inner), *_in_order(inner))
            case If(body=inner) | Region(body=inner):
                yield from _in_order(inner)
            case Call() | Compute() | Micro():
                yield from ((view.buffer.name, way) for view, way in reads_and_writes(s))
            case _:
                pass


@attrs.define
class _Bytes(Trace):
    """Record the bytes of each access to packed elements.

    Args:
        counted: whether views count bytes instead of elements.
        single: for the current statement, the element of its byte that each input extracts, by the input's number.
    """

    counted: bool = False
    single: dict[int, int] = attrs.field(factory=dict[int, int])

    def compute(self, s: Compute) -> None:
        """Record a statement, with the elements that it extracts from bytes."""
        self.single = dict(self._taken(s.expr)) if self.counted else {}
        super().compute(s)

    def _taken(self, tree: Scalar) -> Iterator[tuple[int, int]]:
        for part in parts(tree):
            match part:
                case Custom() if isinstance((inner := children(part))[0], Arg) and isinstance(inner[-1], Coordinate):
                    yield inner[0].index, self.of(inner[-1].value)
                case _:
                    pass

    def touched(self, view: View, way: str, number: int = 0) -> tuple[str, str, int | None, tuple[object, ...]]:
        """Return the bytes that a view of packed elements accesses, and a single element's index in its byte."""
        dtype = view.buffer.dtype
        if not dtype.packed:
            return super().touched(view, way, number)
        first, count = self.of(view.offset), int(view.layout.size)  # pyright: ignore[reportArgumentType]
        if not self.counted:
            first, last, of_byte = first // dtype.pack, (first + count - 1) // dtype.pack, first % dtype.pack
            return way, view.buffer.name, None, (first, last, of_byte if count == 1 else None)
        return way, view.buffer.name, None, (first, first + count - 1, self.single.get(number))


def in_bytes(body: Body, env: Mapping[str, int], counted: bool) -> list[Access]:
    """List the accesses of one thread, for packed elements in bytes.

    Args:
        body: the statements, without roles.
        env: values of the thread's and block's index, and of sizes.
        counted: whether views already count bytes.

    Raises:
        TooLong: where the thread executes too many statements.
    """
    run = _Bytes(Values(env), {}, counted=counted)
    run.begin(body)
    return run.found
