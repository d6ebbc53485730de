"""Convert values (expressions of a tensor's element and of tensors that broadcast over it) to steps.

The index of each read says how the tensor broadcasts: one element for all, one for each group of neighbours, or rows
and columns exchanged. Both the description of programs and lowering use these steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, Var, as_expr, as_int, const, simplest
from fireiron.algebra.scalar import Arg, Scalar, parts, renumbered
from fireiron.language.folds import Dim
from fireiron.language.levels import RF
from fireiron.language.pointwise import Value
from fireiron.language.steps import Ref, Step, dense
from fireiron.language.tensor import Tensor


def dims_of(shape: Sequence[Index]) -> tuple[Dim, ...]:
    """Make the dims of an array: m and n of a matrix, n of a vector, and b in front of them for a batch.

    Example:
        >>> [d.name for d in dims_of((2, 64, 32))]
        ['b', 'm', 'n']
    """
    leading = [f"b{i if i > 1 else ''}" for i in range(len(shape) - 2, 0, -1)]
    names = [*leading, "m", "n"] if len(shape) > 1 else ["n"]
    return tuple(Var(name, as_expr(size)) for name, size in zip(names, shape, strict=True))


def repeated(tensor: Tensor, dims: Sequence[Dim], outside: float = 0.0) -> Ref:
    """Read a tensor at dims that it broadcasts over; the tensor's dimensions belong to the last dims.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> print(repeated(Matrix(1, 4, name="scale"), dims_of((64, 32))))
        scale[0, n // 8]
    """
    index = tuple(_along(dim, size) for dim, size in zip(dims[-len(tensor.shape) :], tensor.shape, strict=True))
    return Ref.of(tensor, index, outside=outside)


def held(name: str, dtype: DType, dims: Sequence[Dim]) -> Ref:
    """Make a tensor in registers that has an element for each point of dims."""
    made = dense(name, tuple(simplest(as_expr(d.extent)) for d in dims if d.extent is not None), dtype, RF)
    return Ref(made.name, made.shape, made.dtype, made.strides, made.memory, tuple(dims))


def pointwise(name: str, out: Ref, reads: Sequence[Ref], body: Scalar) -> Step:
    """Make a step without a fold; reads that the body does not use are left out."""
    used = sorted({x.index for x in parts(body) if isinstance(x, Arg)})
    body = renumbered(body, {old: new for new, old in enumerate(used)})
    return Step(name, (out,), tuple(reads[i] for i in used), body)


def step_of(
    value: Value,
    element: Ref,
    out: Ref,
    dims: Sequence[Dim],
    sums: Mapping[str, Ref] = MappingProxyType({}),
) -> Step:
    """Express a value as a step.

    Args:
        value: the value; `Arg(0)` is the element, the other arguments are tensors.
        element: the element that `Arg(0)` reads.
        out: the element that the step writes.
        dims: the dims that the tensors broadcast over, rows and columns as the value's author wrote them (before
            swap()).
        sums: for values of several accumulators, the reads of these, by the accumulators' names.
    """
    reads = [element, *(sums[t.name] if t.memory.registers else repeated(t, dims) for t in value.tensors)]
    return pointwise(out.name, out, reads, value.tree)


def exchanged(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Exchange the last two dims, rows and columns."""
    return (*dims[:-2], *dims[:-3:-1])


def _along(dim: Dim, size: Index) -> Expr:
    """Index a dimension by a dim: 0 where one value serves all points, a quotient where it serves a group."""
    extent = as_int(as_expr(dim.extent)) if dim.extent is not None else None
    mine = as_int(as_expr(size))
    if mine is None or extent is None:
        return const(0) if mine == 1 else dim
    if mine == extent:
        return dim
    return const(0) if mine == 1 else dim // (extent // mine)
