"""The starts of chains: functions that make a spec, and return a schedule without links."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import attrs

from fireiron.algebra.dtypes import b1, default_result, i32
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import Index
from fireiron.base.contract import asked, checked, checks
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.later import Later
from fireiron.base.link import here
from fireiron.front.chain import Chain, ElementwiseChain, FoldChain, MatMulChain, MoveChain
from fireiron.language import specs
from fireiron.language.atom import Product
from fireiron.language.pointwise import Value, read, simplified
from fireiron.language.specs import Coefficient, task_of
from fireiron.language.storage_order import FIX, letters
from fireiron.language.tensor import ColMajor, Matrix, RowMajor, Tensor, Vector

if TYPE_CHECKING:
    from fireiron.language import residual as residuals
else:
    residuals = Later("fireiron.language.residual")


def _named(tensor: Tensor, name: str) -> Tensor:
    return tensor if tensor.name else attrs.evolve(tensor, name=name)


def _coefficient(value: float | str) -> Coefficient:
    return Coefficient(name=value) if isinstance(value, str) else Coefficient(value=float(value))


@checked
def MatMul(
    A: Tensor,
    B: Tensor,
    C: Tensor,
    *,
    alpha: float | str = 1.0,
    beta: float | str = 0.0,
    acc: object = None,
    product: Product | None = None,
    groups: Tensor | None = None,
    arch: str | None = None,
) -> MatMulChain:
    """Start a schedule of C = alpha * A @ B + beta * C.

    Args:
        A, B, C: matrices, or batches of matrices; those without a name are called A, B and C.
        alpha, beta: numbers, which become constants of the kernel, or names of scalars, which the call takes.
        acc: the accumulator's element type; by default f32 for 16- and 8-bit floats and tf32, i32 for integers. Sums of
            i32 wrap (`simulate(overflow="error")` finds such sums); stores to fewer bits saturate.
        product: for bits (b1): "xor", the default, counts bits that differ, and "and" counts bits that are set in both.
        groups: for a batch B and concatenated rows in A and C: a vector of i32 with, for each matrix of B, the row of A
            and C before which its rows end. None for a product without groups.
        arch: the architecture (`"sm_80"`) whose rules links must obey at once.

    Raises:
        SpecError: `shape-mismatch`, `unknown-dtype`, `unknown-product`, `packed-result`, `group-ranks`, `group-dtype`,
            `group-count`.

    Example:
        >>> print(MatMul(Matrix(128, 64), Matrix(64, 256), Matrix(128, 256)))
        MatMul(128, 256, 64)(GL, GL, GL)(Kernel)
          C[m, n] = add over k of A[m, k] * B[k, n]
    """
    kind = None if acc is None else find_dtype(acc)
    summed = product if product is not None else "xor" if A.dtype == b1 else "mul"
    try:
        spec = specs.MatMul(
            _named(A, "A"), _named(B, "B"), _named(C, "C"), _coefficient(alpha), _coefficient(beta), kind, summed,
            groups=None if groups is None else _named(groups, "offsets"),
        )  # fmt: skip
        program = task_of(spec, arch)
    except FireironError as error:
        raise error.located(here()) from None
    return FoldChain(program, (), residuals.start(spec))


@checks("M", "N", "K", "batch", "groups")
def matmul(
    M: Index,
    N: Index,
    K: Index,
    dtype: object = "f32",
    *,
    acc: object = None,
    out: object = None,
    layout: str = "NN",
    batch: Index | None = None,
    groups: Index | None = None,
    alpha: float | str = 1.0,
    beta: float | str = 0.0,
    product: Product | None = None,
    arch: str | None = None,
) -> MatMulChain:
    """Start a schedule of an M x N x K product.

    Args:
        M, N, K: extents, ints or symbols.
        dtype: element type of A and B.
        acc: the accumulator's element type; by default f32 for 16- and 8-bit floats and tf32, i32 for integers. Sums of
            i32 wrap (`simulate(overflow="error")` finds such sums); stores to fewer bits saturate.
        out: element type of C; by default `dtype`, but i32 for integers, and f32 for fp8 and tf32.
        layout: how A and B are stored: "row,row", "row,col", "col,row" or "col,col" for A,B; or two letters, of which
            the second is A's (T for A[K, M]) and the first is B's (T for B[N, K]).
        batch: number of products.
        groups: number of products that divide the M rows of A and C among themselves, each with its own B[K, N]. A call
            takes A, B and `offsets`: int32, for each group the row before which it ends (`torch.cumsum(counts, 0)`).
        alpha, beta: numbers, which become constants of the kernel, or names of scalars, which the call takes.
        product: for bits (b1): "xor", the default, counts bits that differ, and "and" counts bits that are set in both.
        arch: the architecture whose rules links must obey at once.

    Raises:
        SpecError: `bad-layout`, `unknown-dtype`, `bad-extent`, `packed-extent`, `packed-result`, `unknown-product`,
            `batch-groups`.

    Example:
        >>> print(matmul(1024, 512, 256, "f16", layout="TN").load)  # doctest: +ELLIPSIS
        <bound method FoldChain.load of <FoldChain MatMul(1024, 512, 256)(GL, GL, GL)(Kernel)>>
        >>> grouped = matmul(4096, 512, 256, "f16", groups=8).matmul
        >>> print(grouped.A, grouped.B, grouped.groups, grouped.C)
        A[4096, 256].f16.GL B[8, 256, 512].f16.GL offsets[8].i32.GL C[4096, 512].f16.GL
        >>> matmul(64, 64, 32, layout="row,col") == matmul(64, 64, 32, layout="TN")
        True
    """
    try:
        if batch is not None and groups is not None:
            raise SpecError(
                "batch-groups",
                f"batch={batch} gives each product rows of A of its own, and groups={groups} divides one A among "
                "products",
                fix="give one of the two",
            )
        try:
            stored = letters(layout)
        except ValueError as error:
            raise SpecError("bad-layout", str(error), fix=FIX) from None
        kind = find_dtype(dtype)
        result = find_dtype(out) if out is not None else default_result(kind)
        a = Matrix(M, K, kind, ColMajor if stored[1] == "T" else RowMajor, name="A", batch=batch)
        b = Matrix(
            K, N, kind, ColMajor if stored[0] == "T" else RowMajor, name="B", batch=batch if groups is None else groups
        )
        c = Matrix(M, N, result, name="C", batch=batch)
        ends = None if groups is None else Vector(groups, i32, name="offsets")
    except FireironError as error:
        raise error.located(here()) from None
    return MatMul(a, b, c, alpha=alpha, beta=beta, acc=acc, product=product, groups=ends, arch=arch)


@checked
def Move(src: Tensor, dst: Tensor, *, arch: str | None = None) -> MoveChain:
    """Start a schedule of a copy in global memory; the element type is converted where it differs.

    Raises:
        SpecError: `shape-mismatch`.

    Example:
        >>> print(Move(Matrix(64, 32), Matrix(64, 32)))
        Move(64, 32)(GL, GL)(Kernel)
          Y[m, n] = X[m, n]
    """
    try:
        spec = specs.Move(_named(src, "X"), _named(dst, "Y"))
        program = task_of(spec, arch)
    except FireironError as error:
        raise error.located(here()) from None
    return Chain(program, (), residuals.start(spec))


@checked
def Init(dst: Tensor, value: float = 0.0, *, arch: str | None = None) -> ElementwiseChain:
    """Start a schedule that sets every element of a tensor to a value.

    Example:
        >>> print(Init(Matrix(64, 32), 1.0))
        Init(64, 32)(GL)(Kernel)
          Y[m, n] = f32(1)
    """
    spec = specs.Init(_named(dst, "Y"), value)
    return Chain(task_of(spec, arch), (), residuals.start(spec))


@checked
def Pointwise(op: Callable[..., Value], *tensors: Tensor, arch: str | None = None) -> ElementwiseChain:
    """Start a schedule that computes the last tensor from the others, element by element.

    Args:
        op: a function of the inputs' expressions.
        tensors: inputs, then the output; an input broadcasts over the output.

    Raises:
        SpecError: `shape-mismatch`, `bad-op`, `dtype-mismatch`.

    Example:
        >>> x, bias, y = Matrix(64, 32, name="x"), Matrix(1, 32, name="bias"), Matrix(64, 32, name="y")
        >>> print(Pointwise(lambda x, bias: x * 2 + bias, x, bias, y))
        Pointwise(64, 32)(GL)(Kernel)
          y[m, n] = x[m, n] * 2 + bias[0, n]
    """
    *ins, out = [_named(t, f"X{i}" if i < len(tensors) - 1 else "Y") for i, t in enumerate(tensors)]
    try:
        # The op is a user's function: nothing but this check holds it to its type.
        value = cast(object, asked(op, *(read(t) for t in ins), said="op"))
        if not isinstance(value, Value):
            raise SpecError("bad-op", f"the op returned {value!r}", fix="return an expression of the inputs")
        if value.dtype != out.dtype:
            raise SpecError(
                "dtype-mismatch", f"the op gives {value.dtype}, and {out} holds {out.dtype}", fix="cast the result"
            )
        value = simplified(value)
        spec = specs.Pointwise(value.tree, value.tensors, out)
        program = task_of(spec, arch)
    except FireironError as error:
        raise error.located(here()) from None
    return Chain(program, (), residuals.start(spec))
