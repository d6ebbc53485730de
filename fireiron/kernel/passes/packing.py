"""Elements of fewer than 8 bits: in the finished kernel their buffers, views and arrays count bytes.

Schedules count elements. A byte holds several elements, and no instruction addresses a part of a byte, so each access
must take whole bytes. This pass divides every extent, stride and offset along the packed dimension by the elements of a
byte; later passes then count bytes.
"""

from __future__ import annotations

from typing import assert_never

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, as_expr, as_int, ceil_div
from fireiron.algebra.layout import Layout
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
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Kernel,
    Let,
    Lower,
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


def in_bytes(kernel: Kernel) -> Kernel:
    """Count what holds packed elements in bytes.

    Raises:
        DecompositionError: `packed-access` where an access takes part of a byte, or a scalar operation one element.
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
        case Compute(dst=dst, inputs=inputs, link=link):
            for view in (dst, *inputs):
                if view.buffer.dtype.packed and (view is dst or view.layout.size != view.buffer.dtype.pack):
                    raise _refused(view.buffer, "a scalar operation takes one element", link)
            return attrs.evolve(statement, inputs=tuple(_view(view, link) for view in inputs))  # whole bytes
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
            | Sync()
            | CountIn()
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
