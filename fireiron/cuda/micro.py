"""Microkernels: a user's statements as a device function, so that their names collide with no others."""

from __future__ import annotations

import re
import textwrap
from itertools import pairwise

from fireiron.algebra.expr import Expr, as_expr
from fireiron.algebra.layout import Layout
from fireiron.base.errors import CheckError
from fireiron.cuda.memory import Element, Numbers, integer_type
from fireiron.cuda.types import c_type
from fireiron.kernel.ir.statements import Micro


def function(micro: Micro) -> str:
    """Print the function: a pointer and two strides for each role, an integer for each binding."""
    lines: list[str] = []
    for role, view in zip(micro.roles, micro.views, strict=True):
        const = "" if role in micro.written else "const "
        row, column = _strides(micro, role)
        strides = f"{integer_type(row)} {role}_row, {integer_type(column)} {role}_col"
        lines.append(f"{const}{c_type(view.buffer.dtype)}* {role}, {strides}")
    if micro.bindings:
        lines.append(", ".join(f"{integer_type(binding.value)} {binding.name}" for binding in micro.bindings))
    parameters = ",\n    ".join(lines)
    body = textwrap.indent(textwrap.dedent(micro.source).strip("\n"), "    ")
    head = f"__device__ __forceinline__ void {name(micro)}(\n    {parameters})"
    return f"// Microkernel {micro.name}\n{head} {{\n{body}\n}}\n"


def call(micro: Micro, number: Numbers) -> str:
    """Print the call."""
    operands: list[str] = []
    for role, view in zip(micro.roles, micro.views, strict=True):
        operands += [f"&{Element(view, number)}", *map(number, _strides(micro, role))]
    operands += [number(binding.value) for binding in micro.bindings]
    return f"{name(micro)}({', '.join(operands)});"


def name(micro: Micro) -> str:
    """Make a microkernel's name an identifier of C."""
    found = re.sub(r"\W+", "_", micro.name).strip("_") or "micro"
    return f"micro_{found}" if found[0].isdigit() else found


def _strides(micro: Micro, role: str) -> tuple[Expr, Expr]:
    """Return the strides from row to row and from column to column, in elements."""
    layout = micro.views[micro.roles.index(role)].layout
    rows, columns = (*layout.modes, Layout(1, 0))[:2]
    return _stride(micro, role, "rows", rows), _stride(micro, role, "columns", columns)


def _stride(micro: Micro, role: str, axis: str, mode: Layout) -> Expr:
    """Return the stride of a mode of the layout.

    Raises:
        CheckError: `microkernel-stride` where the mode has several strides.
    """
    leaves = [leaf for leaf in mode.leaves if leaf[0] != 1] or list(mode.leaves[:1])
    if any(after[1] != before[0] * before[1] for before, after in pairwise(leaves)):
        raise CheckError(
            "microkernel-stride",
            f"microkernel {micro.name} takes {role} with one stride a dimension, but its {axis} lie at {mode}",
            fix=f"give {role} a storage layout without swizzle or interleaving",
            link=micro.link,
        )
    return as_expr(leaves[0][1]) if leaves else as_expr(0)
