"""The state of tracing a function: its dims, the steps that it names, and expressions of its arrays.

Operators and the functions of the pointwise language build expressions of reads. A fold, or `named(...)`, makes a step
of an expression.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import (
    Expr,
    Index,
    Var,
    as_expr,
    simplest,
)
from fireiron.algebra.scalar import Arg, Cast, Scalar, parts, renumbered
from fireiron.algebra.simplify import peeled, simplify
from fireiron.base.contract import checks
from fireiron.base.errors import SpecError
from fireiron.base.link import Link, here
from fireiron.language.folds import Dim, Fold
from fireiron.language.levels import RF
from fireiron.language.pointwise import (
    Operand,
    Value,
    lifted,
    simplified,
)
from fireiron.language.steps import Ref, Step, dense, dims_in


@attrs.define
class Trace:
    """Collect the dims, subscripts and named steps of a function while it is traced.

    Args:
        dims: the dims by name.
        indices: names of the arrays whose elements are used as subscripts.
        named: for each step that the function names, by the step's `id`: the step, and the place in the author's
            source.
    """

    dims: dict[str, Dim] = attrs.field(factory=dict[str, Dim])
    indices: set[str] = attrs.field(factory=set[str])
    named: dict[int, tuple[Step, Link | None]] = attrs.field(factory=dict[int, tuple[Step, Link | None]])

    def given(self, order: Sequence[Step]) -> dict[str, Step]:
        """Map names that the function gives with `named(...)` to their steps.

        Raises:
            SpecError: `same-step` where it gives one name to two steps.
        """
        found: dict[str, Step] = {}
        for step, place in (self.named[id(s)] for s in order if id(s) in self.named):
            if step.name in found:
                raise SpecError(
                    "same-step",
                    f"two steps are named {step.name}",
                    fix="give each a name of its own: chains find steps by name",
                    link=place,
                )
            found[step.name] = step
        return found


current: ContextVar[Trace | None] = ContextVar("fireiron_trace", default=None)


def active_trace() -> Trace:
    """Return the trace of the function that is being traced.

    Raises:
        SpecError: `outside-program`.
    """
    found = current.get()
    if found is None:
        raise SpecError(
            "outside-program",
            "dims have names only inside a program",
            fix="call this in a function under @fireiron.program(...)",
        )
    return found


@contextmanager
def tracing() -> Generator[Trace]:
    """Make a trace the active one inside a `with` block."""
    trace = Trace()
    token = current.set(trace)
    try:
        yield trace
    finally:
        current.reset(token)


def declared(name: str, extent: Index, trace: Trace) -> Dim:
    """Return the dim of a name; create it where the trace has none.

    Raises:
        SpecError: `dim-name`, `dim-extents`.
    """
    if not name.isidentifier():
        raise SpecError("dim-name", f"{name!r} is no name of a dim", fix="use letters, digits and underscores")
    known = trace.dims.get(name)
    if known is None:
        trace.dims[name] = known = Var(name, extent)
    elif known.extent != as_expr(extent):
        raise SpecError(
            "dim-extents",
            f"dim {name} has the extents {known.extent} and {extent}",
            fix="give both arrays the same extent, or name the dims differently",
        )
    return known


def known_dim(name: str) -> Dim:
    """Find a dim by its name.

    Raises:
        SpecError: `unknown-dim`, `outside-program`.
    """
    trace = active_trace()
    if name not in trace.dims:
        raise SpecError(
            "unknown-dim", f"no dim is called {name}", fix="dims: " + (", ".join(trace.dims) or "none is there")
        )
    return trace.dims[name]


def refs_of(value: Value) -> tuple[Ref, ...]:
    """List what an expression of a traced function reads."""
    return tuple(t for t in value.tensors if isinstance(t, Ref))


def dims_of_value(value: Value) -> tuple[Dim, ...]:
    """List the dims of an expression: in the order of a read that has all of them, else in the trace's order.

    Raises:
        SpecError: `bad-operand` where it reads a tensor that is no array of the traced function.
    """
    refs = refs_of(value)
    if len(refs) < len(value.tensors):
        other = next(t for t in value.tensors if not isinstance(t, Ref))
        raise SpecError(
            "bad-operand",
            f"{other} is no array of the program's function",
            fix="make it a parameter of the function, and name its dims in program(...)",
        )
    found = dict.fromkeys((*(d for ref in refs for d in ref.dims), *dims_in(of_reads(value.tree), refs)))
    whole = next((ref.dims for ref in refs if len(ref.dims) == len(found)), None)
    if whole is not None:
        return whole
    trace = current.get()
    known = list(trace.dims.values()) if trace is not None else []
    return tuple(sorted(found, key=lambda d: known.index(d) if d in known else len(known)))


def bare(value: Value) -> Ref | None:
    """Return the read of an expression that is a single read, perhaps converted to a wider type; None for others."""
    tree = value.tree
    while (
        isinstance(tree, Cast) and tree.dtype.mantissa >= tree.x.dtype.mantissa and tree.dtype.kind == tree.x.dtype.kind
    ):
        tree = tree.x
    if not isinstance(tree, Arg) or tree.index == 0:
        return None
    ref = value.tensors[tree.index - 1]
    return ref if isinstance(ref, Ref) else None


def of_reads(tree: Scalar) -> Scalar:
    """Renumber an expression's reads from 0, as steps number them; values number them from 1."""
    numbers = {x.index: x.index - 1 for x in parts(tree) if isinstance(x, Arg)}
    return renumbered(tree, numbers)


@checks(locate=True)
def named(value: Operand, name: str) -> Value:
    """Give a value a name for chains: the result of a fold names its step, any other expression becomes a step.

    Args:
        value: an expression of arrays.
        name: the step's name in chains.

    Raises:
        SpecError: `bad-operand`, `dim-name`; `same-step` where the function gives another step the same name.
    """
    return noted(step_named(value, name))


def noted(value: Value) -> Value:
    """Record that the traced function names the step of a value."""
    trace, ref = current.get(), bare(value)
    if trace is not None and ref is not None and ref.made is not None:
        trace.named[id(ref.made)] = ref.made, here()
    return value


def step_named(value: Operand, name: str) -> Value:
    """Name the step of a value like `named`, for functions of the language itself; a name that the user gives wins."""
    (value,) = lifted(value)
    if not name.isidentifier():
        raise SpecError("dim-name", f"{name!r} is no name of a step", fix="use letters, digits and underscores")
    ref = bare(value)
    if ref is not None and ref.made is not None and len(ref.made.outs) == 1:
        (out,) = ref.made.outs
        step = attrs.evolve(ref.made, name=name, outs=(attrs.evolve(out, name=name),))
        return Value(Arg(1, ref.dtype), (attrs.evolve(ref, name=name, made=step),))
    value = simplified(value)
    refs, tree = refs_of(value), peeled(value.tree)  # a value rounded to 16 bits is stored in 16 bits
    return step_of(name, refs, of_reads(tree), None, (), dims_of_value(value), (tree.dtype,))[0]


def step_of(
    name: str,
    reads: Sequence[Ref],
    body: Scalar,
    fold: Fold | None,
    over: Sequence[Dim],
    kept: Sequence[Dim],
    dtypes: Sequence[DType],
    where: Scalar | None = None,
    running: bool = False,
) -> tuple[Value, ...]:
    """Make a step, and return the expressions that read its results."""
    kept = kept or (Var("all", 1),)  # a fold over all dims has one result, at a new dim of extent 1
    shape = tuple(simplest(cast(Expr, d.extent)) for d in kept)
    names = [name] if len(dtypes) == 1 else [f"{name}{i}" for i in range(len(dtypes))]
    outs = tuple(
        Ref.of(t, tuple(kept)) for t in (dense(n, shape, dtype, RF) for n, dtype in zip(names, dtypes, strict=True))
    )
    step = Step(name, outs, tuple(reads), simplify(body), fold, tuple(over), where, running)
    return tuple(Value(Arg(1, out.dtype), (attrs.evolve(out, made=step),)) for out in outs)
