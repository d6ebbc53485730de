"""Workspaces: global memory of a launch to which blocks write parts of a value; the last block combines them.

Each block counts itself in after it has written its part. The block that counts last finds all parts written. No block
waits for another.
"""

from __future__ import annotations

from collections.abc import Callable

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Expr, Index, as_expr
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import Buffer, CountIn, If, View, Workspace
from fireiron.kernel.lower.context import Body, Context
from fireiron.language.levels import GL, Block, Kernel, Level


def workspace(name: str, dtype: DType, size: Index, context: Context, zero: bool = False) -> Buffer:
    """Make a buffer of the launch.

    Args:
        name: wanted for it.
        dtype: of its elements.
        size: elements.
        context: the kernel's.
        zero: whether it holds zeros when a launch begins, and must when it ends.
    """
    buffer = Buffer(context.name(name), GL, dtype, as_expr(size), unit=Kernel)
    context.workspaces.append(Workspace(buffer, zero=zero))
    return buffer


def last_of(
    ways: Index,
    seat: Expr,
    seats: Index,
    behind: Callable[[], Body],
    context: Context,
    link: Link | None,
    level: Level = Block,
) -> Body:
    """Count a unit in, and let the last one run what makes the value of all parts.

    Args:
        ways: units that leave parts of a value.
        seat: which value, of `seats`.
        behind: lowers what the last of them runs.
        context: the kernel's.
        link: that shared out the parts.
        level: of the units.
    """
    counter = View(workspace("arrived", i32, seats, context, zero=True), seat)
    last = context.variable("last", 2)
    return (CountIn(last, counter, as_expr(ways), level=level, link=link), If(last, behind()))
