"""Elements of fewer than 8 bits: in the finished kernel their buffers, views and arrays count bytes.

Schedules count elements. A byte holds several elements, and no instruction addresses a part of a byte, so each copy
must move whole bytes; an expression reads the byte, and extracts its element. This pass divides every extent, stride
and offset along the packed dimension by the number of elements in a byte; later passes count bytes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, assert_never

import attrs

from fireiron.algebra.dtypes import DType, i8, u8
from fireiron.algebra.expr import Expr, as_expr, as_int, ceil_div
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Coordinate, Custom, Scalar, children, with_children
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Ask,
    Await,
    Buffer,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Kernel,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Parameter,
    Pointer,
    Prefetch,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    View,
    Vote,
    Wait,
)

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def in_bytes(kernel: Kernel) -> Kernel:
    """Convert buffers, views and arrays of packed elements to bytes.

    Raises:
        DecompositionError: `packed-access` where a copy moves a part of a byte, or a scalar operation writes one
            element.
    """
    parameters = tuple(_parameter(p) for p in kernel.parameters)
    pointers = (p.buffer for p in kernel.parameters if isinstance(p, Pointer))
    if not any(buffer.dtype.packed for buffer in (*kernel.buffers, *pointers)):
        return kernel
    buffers = tuple(map(_buffer, kernel.buffers))
    return attrs.evolve(kernel, parameters=parameters, buffers=buffers, body=rewrite(kernel.body, _statement))


def _parameter(parameter: Parameter) -> Parameter:
    if not isinstance(parameter, Pointer) or not parameter.buffer.dtype.packed:
        return parameter
    pack = parameter.buffer.dtype.pack
    *outer, inner = parameter.shape
    *steps, one = parameter.strides
    return attrs.evolve(
        parameter,
        buffer=_buffer(parameter.buffer),
        shape=(*outer, inner // pack),
        strides=(*(step // pack for step in steps), one),
    )


def _buffer(buffer: Buffer) -> Buffer:
    if not buffer.dtype.packed:
        return buffer
    size = as_int(buffer.size)
    pack = buffer.dtype.pack
    return attrs.evolve(buffer, size=as_expr(-(-size // pack)) if size is not None else _ceil(buffer.size, pack))


def _ceil(size: Expr, pack: int) -> Expr:
    return as_expr(ceil_div(size, pack))


def _statement(statement: Statement) -> Statement:
    match statement:
        case Call(views=views, link=link):
            return attrs.evolve(statement, views=tuple(_view(v, link) for v in views))
        case Compute(dst=dst, expr=expr, inputs=inputs, link=link):
            if dst.buffer.dtype.packed:
                raise _refused(dst.buffer, "a scalar operation writes one element", link)
            single = {i for i, view in enumerate(inputs) if view.buffer.dtype.packed and view.layout.size == 1}
            if not single:
                return attrs.evolve(statement, inputs=tuple(_view(view, link) for view in inputs))  # whole bytes
            views = tuple(_byte(view) if i in single else _view(view, link) for i, view in enumerate(inputs))
            return attrs.evolve(statement, expr=_unpacked(expr, inputs, single), inputs=views)
        case Micro(name=name, views=views, link=link):
            for view in views:
                if view.buffer.dtype.packed:
                    raise _refused(view.buffer, f"microkernel {name} takes single elements", link)
            return statement
        case (
            For()
            | If()
            | Region()
            | Roles()
            | Let()
            | FindGroup()
            | Fetch()
            | Vote()
            | Draw()
            | Leave()
            | Sync()
            | CountIn()
            | Meet()
            | Raise()
            | Lower()
            | Commit()
            | Wait()
            | InitBarriers()
            | Await()
            | Arrive()
            | Advance()
        ):
            return statement
        case Fence() | Prefetch() | Turn():
            return statement
        case Ask(view=view, link=link):
            return attrs.evolve(statement, view=_view(view, link))
        case _ as never:
            assert_never(never)


def _view(view: View, link: Link | None) -> View:
    dtype = view.buffer.dtype
    if not dtype.packed:
        return view
    count = as_int(as_expr(view.layout.size))
    if count is None or view.layout != Layout(count, 1) or count % dtype.pack or view.offset.divisor % dtype.pack:
        raise _refused(view.buffer, f"an access takes {view.layout} at {view.offset}", link)
    nbytes = count // dtype.pack
    return attrs.evolve(
        view,
        buffer=_buffer(view.buffer),
        offset=view.offset // dtype.pack,
        layout=Layout(nbytes, 1) if nbytes > 1 else Layout(1, 0),
        origin=(),  # coordinates count elements
    )


def _byte(view: View) -> View:
    """Return the view of the byte that holds one element."""
    buffer = view.buffer
    return attrs.evolve(view, buffer=_buffer(buffer), offset=view.offset // buffer.dtype.pack, origin=())


def _unpacked(tree: Scalar, inputs: Sequence[View], single: Container[int]) -> Scalar:
    """Extract one element from its byte wherever an expression reads the element."""
    if not isinstance(tree, Arg):
        return with_children(tree, tuple(_unpacked(x, inputs, single) for x in children(tree)))
    if tree.index not in single:
        return tree
    view = inputs[tree.index]
    return element_of_byte(tree.index, view.buffer.dtype, view.offset % view.buffer.dtype.pack)


def element_of_byte(argument: int, dtype: DType, at: Expr) -> Scalar:
    """Extract an element from the byte that an argument reads, as an i8, or as a u8 for types without a sign.

    Args:
        argument: the argument's number.
        dtype: a packed type.
        at: the element's index in the byte; index 0 has the lowest bits.
    """
    kind = i8 if dtype.signed else u8
    source = _SIGNED if dtype.signed else f"(x >> {dtype.bits} * k) & {(1 << dtype.bits) - 1}"
    return Custom(
        f"{dtype}_of_byte",
        source,
        ("x", "k"),
        (Arg(argument, u8), Coordinate(at)),
        kind,
        _TAKEN[dtype.bits, dtype.signed],
    )


_SIGNED = "(signed char)(x << (4 - 4 * k)) >> 4"


def _signed_nibble(x: Array, k: Array) -> Array:
    return (((x.astype("int32") >> 4 * k & 15) ^ 8) - 8).astype("int8")


def _nibble(x: Array, k: Array) -> Array:
    return (x.astype("int32") >> 4 * k & 15).astype("uint8")


def _bit(x: Array, k: Array) -> Array:
    return (x.astype("int32") >> k & 1).astype("uint8")


_TAKEN = {(4, True): _signed_nibble, (4, False): _nibble, (1, False): _bit}


def _refused(buffer: Buffer, what: str, link: Link | None) -> DecompositionError:
    return packed_access(buffer.name, buffer.dtype, what, link)


def packed_access(name: str, dtype: DType, what: str, link: Link | None = None) -> DecompositionError:
    """Make the error of an access that takes part of a byte."""
    return DecompositionError(
        "packed-access",
        f"{what}, and {dtype.pack} elements of {name} ({dtype}) share a byte",
        fix="move whole bytes, in memory's order on both sides: of products that is layout='TN', K last in both arrays",
        link=link,
    )
