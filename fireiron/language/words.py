"""Steps and scalar expressions as text, as `print(program)` shows them: einsum's letters, NumPy's function names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from fireiron.algebra.expr import Symbol, Var
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
)
from fireiron.language.folds import Dim
from fireiron.language.steps import Program, Ragged, Step

_SIGNS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2), "lt": ("<", 0), "le": ("<=", 0),
          "eq": ("==", 0)}  # fmt: skip


def scalar_in_words(tree: Scalar, names: Sequence[str], strength: int = 0) -> str:
    """Print an expression.

    Args:
        tree: the expression to print.
        names: the name of each argument.
        strength: how tightly the surrounding operation binds; a weaker expression is put in brackets.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> x, y = Arg(0, f32), Arg(1, f32)
        >>> scalar_in_words(Binary("mul", Binary("add", x, y), Unary("exp", x)), ["a", "b"])
        '(a + b) * exp(a)'
    """
    match tree:
        case Arg(index):
            return names[index] if index < len(names) else f"arg{index}"
        case Constant(value):
            return f"{value:g}" if isinstance(value, float) else str(value)
        case Coordinate(value):
            return str(value) if strength == 0 or isinstance(value, Var | Symbol) else f"({value})"
        case Parameter(name):
            return name
        case Unary("neg", x):
            return f"-{scalar_in_words(x, names, 3)}"
        case Unary(op, x):
            return f"{op}({scalar_in_words(x, names)})"
        case Binary(op, x, y) if op in _SIGNS:
            sign, mine = _SIGNS[op]
            text = f"{scalar_in_words(x, names, mine)} {sign} {scalar_in_words(y, names, mine + 1)}"
            return f"({text})" if mine < strength else text
        case Binary(op, x, y):
            return f"{op}({scalar_in_words(x, names)}, {scalar_in_words(y, names)})"
        case MultiplyAdd(x, y, z):
            return scalar_in_words(Binary("add", Binary("mul", x, y), z), names, strength)
        case Select(condition, x, y):
            return f"where({', '.join(scalar_in_words(z, names) for z in (condition, x, y))})"
        case Cast(x, dtype):
            # A read is converted where it is used; only a conversion to a narrower type rounds.
            if isinstance(x, Arg | Cast) and dtype.holds(x.dtype):
                return scalar_in_words(x, names, strength)
            return f"{'wrap_' if tree.wraps else ''}{dtype}({scalar_in_words(x, names)})"
        case Debug(name, x=x):
            return f"debug({name}: {scalar_in_words(x, names)})"
        case Custom(name, args=args):
            return f"{name}({', '.join(scalar_in_words(x, names) for x in args)})"
        case _ as never:
            assert_never(never)


def step_in_words(step: Step) -> str:
    """Print a step: `m[i] = max over j of x[i, j]`."""
    outs = ", ".join(map(str, step.outs))
    body = scalar_in_words(step.body, [str(r) for r in step.reads])
    groups = {d for ref in step.reads for d in ref.dims}
    ragged = [d for d in step.kept if isinstance(d, Ragged) and d.of in groups]
    tail = "".join(f", {d} in {d.of} up to {d.ends.name}[{d.of}]" for d in ragged)
    if step.fold is None:
        return f"{outs} {'+=' if step.adds else '='} {body}{tail}"
    kept = "" if step.where is None else f" where {scalar_in_words(step.where, [str(r) for r in step.reads])}"
    running = "running " if step.running else ""
    return f"{outs} = {running}{step.fold.name} over {', '.join(d.name for d in step.over)}{kept} of {body}{tail}"


def steps_in_words(program: Program) -> tuple[str, ...]:
    """Print the steps of a program, a line each, results aligned; repeated steps stand indented below their loop."""
    parted = {step.name: re.split(r" (\+?=) ", step_in_words(step), maxsplit=1) for step in program.steps}
    width = max((len(left) for left, _, _ in parted.values()), default=0)
    lines: list[str] = []
    for step in program.steps:
        loop = next((x for x in program.loops if step.name in x.steps), None)
        if loop is not None and step.name == loop.steps[0]:
            carried = ", ".join(f"{name} = {first} at first" for name, first in loop.carried)
            lines.append(f"for {loop.dim} of {loop.dim.extent}, {carried}:")
        left, sign, right = parted[step.name]
        lines.append(f"{'  ' if loop else ''}{left:<{width}} {sign} {right}")
    return tuple(lines)


def program_in_words(program: Program) -> str:
    """Print a program: a head with its inputs and outputs, then its steps."""
    dims = ", ".join(map(_dim, program.dims))
    replaced = "".join(f", {out} in place of {name}" for out, name in program.inplace)
    head = f"{program.name}({', '.join(map(str, program.inputs))}) over {dims}{replaced}"
    return "\n".join((head, *(f"  {line}" for line in steps_in_words(program))))


def _dim(dim: Dim) -> str:
    if isinstance(dim, Ragged):
        return f"{dim} {dim.extent} (of {dim.of.name} up to {dim.ends.name}[{dim.of.name}])"
    return f"{dim} {dim.extent}"
