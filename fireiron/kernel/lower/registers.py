"""Statements on a thread's registers, one by one or by vectors: fill, add, copy and move."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, as_expr, as_int
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Binary, number
from fireiron.atoms.table import matching
from fireiron.kernel.ir.statements import Buffer, Compute, For, LoopKind, Statement, View
from fireiron.kernel.lower.context import Body, Context, buffer_of
from fireiron.kernel.lower.window import Storage
from fireiron.language.atom import Atom
from fireiron.language.levels import RF, Memory, Thread

VECTOR_NBYTES = 16
REGISTER_NBYTES = 4


def fill(storage: Storage, value: float, context: Context) -> Statement:
    """Set every register of a tensor."""
    r = context.variable("i", storage.size)
    return For(r, storage.size, (Compute(View(buffer_of(storage), r), number(value, storage.dtype)),), unroll=True)


def add_constant(storage: Storage, value: float, context: Context) -> Statement:
    """Add a number to every register of a tensor."""
    r = context.variable("i", storage.size)
    register = View(buffer_of(storage), r)
    total = Binary("add", Arg(0, storage.dtype), number(value, storage.dtype))
    return For(r, storage.size, (Compute(register, total, (register,)),), unroll=True)


def loop(
    context: Context,
    name: str,
    extent: Index,
    body: Callable[[Expr], Body],
    unroll: bool = True,
    kind: LoopKind = "elements",
) -> Body:
    """Repeat statements in a loop; without a loop for one trip."""
    if as_int(as_expr(extent)) == 1:
        return body(as_expr(0))
    var = context.variable(name, extent)
    return (For(var, as_expr(extent), body(var), unroll, kind=kind),)


def each_register(storage: Storage, context: Context, body: Callable[[Expr], Body]) -> Body:
    """Make a loop over the registers of a tensor."""
    return loop(context, "i", storage.size, body)


def move(src: Memory, dst: Memory, dtype: DType, count: int) -> Atom:
    """Find the instruction that moves a vector; the table holds one for every width."""
    return matching("Move", (count,), (dtype, dtype), (src, dst), Thread)[0]


def vector(buffer: Buffer, offset: Expr, count: int) -> View:
    """Return the view of contiguous elements."""
    return View(buffer, offset, Layout(count, 1) if count > 1 else Layout(1, 0))


def temporary(name: str, dtype: DType, count: int, context: Context) -> Buffer:
    """Make registers for a few elements between a load and a store."""
    buffer = Buffer(context.name(name), RF, dtype, as_expr(count), unit=Thread)
    context.temporaries.append(buffer)
    return buffer


def widest(size: int, dtype: DType) -> int:
    """Return the number of elements of the widest vector that a number of registers divides into."""
    return gcd(size, VECTOR_NBYTES // dtype.nbytes)


def handed_over(storage: Storage, size: int) -> int:
    """Return how many of a product's sums one access moves from a block to another.

    Vectors would tie the sums of a thread's multiply-adds to aligned groups of four registers. The compiler then finds
    no registers for them in other banks than the operands': by a count of the machine code, a multiply-add then takes
    up to half as many clocks again.

    Args:
        storage: the sums of a unit.
        size: a number of registers that the result divides.
    """
    if storage.memory == RF:
        return gcd(size, max(1, REGISTER_NBYTES // storage.dtype.nbytes))
    return widest(size, storage.dtype)


def add(into: Buffer, first: Expr, vec: Buffer, count: int, context: Context) -> Body:
    """Add a vector to registers, one after the other."""
    total = Binary("add", Arg(0, into.dtype), Arg(1, into.dtype))

    def one(e: Expr) -> Body:
        register = View(into, first + e)
        return (Compute(register, total, (register, View(vec, e))),)

    return loop(context, "e", count, one)
