"""Values as steps: an expression of a tensor's element, and of tensors that repeat over it, at the dims of that tensor.

The index of each read says which element belongs to which: one for all, one for each group of neighbours, or rows and
columns exchanged. Descriptions of programs and lowering both read these steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, Var, as_expr, as_int, const, simplest
from fireiron.algebra.scalar import Arg, Scalar, parts, renumbered
from fireiron.language.levels import RF
from fireiron.language.pointwise import Value
from fireiron.language.steps import Dim, Ref, Step, dense
from fireiron.language.tensor import Tensor


def dims_of(shape: Sequence[Index]) -> tuple[Dim, ...]:
    """Name the dims of an array: m and n of a matrix, n of a vector, and b in front of them.

    Example:
        >>> [d.name for d in dims_of((2, 64, 32))]
        ['b', 'm', 'n']
    """
    leading = [f"b{i if i > 1 else ''}" for i in range(len(shape) - 2, 0, -1)]
    names = [*leading, "m", "n"] if len(shape) > 1 else ["n"]
    return tuple(Var(name, as_expr(size)) for name, size in zip(names, shape, strict=True))


def repeated(tensor: Tensor, dims: Sequence[Dim], outside: float = 0.0) -> Ref:
    """Read a tensor at dims that it repeats over, its dimensions being the last ones.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> print(repeated(Matrix(1, 4, name="scale"), dims_of((64, 32))))
        scale[0, n // 8]
    """
    index = tuple(_along(dim, size) for dim, size in zip(dims[-len(tensor.shape) :], tensor.shape, strict=True))
    return Ref(tensor.name, tensor.shape, tensor.dtype, tensor.strides, tensor.memory, index, outside=outside)


def held(name: str, dtype: DType, dims: Sequence[Dim]) -> Ref:
    """Name a tensor in registers that has an element for each point of dims."""
    made = dense(name, tuple(simplest(as_expr(d.extent)) for d in dims if d.extent is not None), dtype, RF)
    return Ref(made.name, made.shape, made.dtype, made.strides, made.memory, tuple(dims))


def pointwise(name: str, out: Ref, reads: Sequence[Ref], body: Scalar) -> Step:
    """Make a step without a fold; reads that the body does not have are left out."""
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
        value: `Arg(0)` is the element, the others are its tensors.
        element: what the value is made of.
        out: what the step computes.
        dims: those that the tensors repeat over, rows and columns as the value's author knows them.
        sums: further elements, by the names that the value has for them: tensors in registers.
    """
    reads = [element, *(sums[t.name] if t.memory.registers else repeated(t, dims) for t in value.tensors)]
    return pointwise(out.name, out, reads, value.tree)


def exchanged(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Exchange rows and columns."""
    return (*dims[:-2], *dims[:-3:-1])


def _along(dim: Dim, size: Index) -> Expr:
    """Index a dimension by a dim: 0 where there is one value for all, a quotient where one serves several."""
    extent = as_int(as_expr(dim.extent)) if dim.extent is not None else None
    mine = as_int(as_expr(size))
    if mine is None or extent is None:
        return const(0) if mine == 1 else dim
    if mine == extent:
        return dim
    return const(0) if mine == 1 else dim // (extent // mine)
