"""Specs: what is computed, without any decision about how."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import DType, b1, default_accumulator, i32
from fireiron.algebra.expr import Index
from fireiron.algebra.scalar import Scalar, exactly
from fireiron.base.contract import checked_fields
from fireiron.base.errors import SpecError
from fireiron.base.link import here
from fireiron.base.names import named
from fireiron.language.atom import Product
from fireiron.language.programs import (
    BATCH,
    Layers,
    Products,
    broadcasts,
    check_layers,
    check_products,
    different_names,
)
from fireiron.language.steps import Program, Stated, check_program, refs_dims
from fireiron.language.tensor import Tensor


@attrs.frozen(field_transformer=checked_fields)
class Coefficient:
    """Scale by a constant of the kernel, or by a kernel parameter of this name, which each call gives."""

    name: str = attrs.field(default="", validator=named("a scalar", keyword=True, empty=True))
    value: float = attrs.field(default=1.0, eq=exactly)

    @property
    def is_one(self) -> bool:
        """Say whether scaling changes nothing."""
        return not self.name and self.value == 1.0

    @property
    def is_zero(self) -> bool:
        """Say whether the factor is the constant 0, so that the scaled operand need not be read."""
        return not self.name and self.value == 0.0


@attrs.frozen
class MatMul(Stated):
    """Compute C = alpha * A @ B + beta * C, accumulating in `acc` (None: the default of A's element type).

    `swapped`: A and B are the caller's second and first operand, transposed, and C is the transpose of the caller's C.
    `product`: for bits (b1), the term that is summed over K: `a ^ b` or `a & b`. `ops`: pointwise ops that the epilog
    applies first.

    `groups`: B is a batch of matrices, and rows groups[g-1] to groups[g] - 1 of A and C belong to B[g] (groups[-1] is 0
    here). A group whose end is not above its start has no rows; ends beyond the last row count as the number of rows.
    Rows after the last group's end are not written.
    """

    A: Tensor
    B: Tensor
    C: Tensor
    alpha: Coefficient = Coefficient()
    beta: Coefficient = Coefficient(value=0.0)
    acc: DType | None = None
    product: Product = "mul"
    swapped: bool = False
    groups: Tensor | None = None
    ops: tuple[Any, ...] = attrs.field(default=(), repr=False)

    @property
    def accumulator(self) -> DType:
        """Return the accumulator's element type."""
        return self.acc or default_accumulator(self.A.dtype)

    @cached_property
    def sizes(self) -> tuple[tuple[str, Index], ...]:
        """List the names and extents of the problem's dimensions. For groups, M counts the rows of all groups."""
        batch = next((((BATCH, t.shape[0]),) for t in (self.A, self.B) if len(t.shape) == 3), ())
        return (*batch, ("M", self.C.shape[-2]), ("N", self.C.shape[-1]), ("K", self.A.shape[-1]))

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are read, in the order in which a call takes them."""
        first = (self.B, self.A) if self.swapped else (self.A, self.B)
        return first if self.groups is None else (*first, self.groups)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are written."""
        return (self.C,)


@attrs.frozen
class Move(Stated):
    """Copy `src` to `dst`, converting the element type where they differ."""

    src: Tensor
    dst: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are read, in the order in which a call takes them."""
        return (self.src,)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are written."""
        return (self.dst,)


@attrs.frozen
class Init(Stated):
    """Set every element of `dst`."""

    dst: Tensor
    value: float = attrs.field(default=0.0, eq=exactly)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are read, in the order in which a call takes them."""
        return ()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are written."""
        return (self.dst,)


@attrs.frozen
class Pointwise(Stated):
    """Compute `out` element by element: `Arg(i)` of `op` reads `ins[i]`, which may broadcast."""

    op: Scalar
    ins: tuple[Tensor, ...]
    out: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are read, in the order in which a call takes them."""
        return self.ins

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are written."""
        return (self.out,)


Spec: TypeAlias = MatMul | Move | Init | Pointwise | Products | Layers | Program


@attrs.frozen
class Task:
    """Say what a schedule computes, and for which architecture.

    Args:
        spec: the spec.
        arch: the architecture whose limits each link is checked against; None: only `check(arch)` checks them.
    """

    spec: Spec
    arch: str | None = None


def task_of(spec: Spec, arch: str | None = None) -> Task:
    """Check a spec, and make it the task of a schedule.

    Raises:
        SpecError: `shape-mismatch` where the operands' extents disagree; `unknown-product` where the element types have
            no such product; `packed-result` where elements that share a byte would be written; `unknown-arch`.
    """
    if arch is not None:
        from fireiron.algebra.arch import arch as known_arch

        try:
            found = known_arch(arch)
            arch = arch if isinstance(cast(object, arch), str) else found.name
        except SpecError as error:
            raise error.located(here()) from None
    _whole_bytes(spec)
    match spec:
        case MatMul():
            _check_matmul(spec)
            _check_product(spec)
        case Move():
            _same_shape(spec.src, spec.dst)
        case Init():
            pass
        case Pointwise():
            for tensor in spec.ins:
                broadcasts(tensor, spec.out)
        case Products():
            check_products(spec)
        case Layers():
            check_layers(spec)
        case Program():
            check_program(spec)
    return Task(spec, arch)


def _check_matmul(spec: MatMul) -> None:
    a, b, c = spec.A, spec.B, spec.C
    if spec.groups is not None:
        _check_groups(spec, spec.groups)
    elif not len(a.shape) == len(b.shape) == len(c.shape):
        raise SpecError("shape-mismatch", f"{a}, {b} and {c} differ in rank", fix="give all three a batch, or none")
    different_names(a, b, c)
    pairs = (("rows of A and C", a.shape[-2], c.shape[-2]), ("columns of B and C", b.shape[-1], c.shape[-1]))
    pairs += (("columns of A and rows of B", a.shape[-1], b.shape[-2]),)
    if len(a.shape) == 3 and spec.groups is None:
        pairs += (("batches of A and B", a.shape[0], b.shape[0]), ("batches of A and C", a.shape[0], c.shape[0]))
    for what, x, y in pairs:
        if x != y:
            raise SpecError(
                "shape-mismatch", f"{what} differ: {x} and {y} in {a}, {b}, {c}", fix="give both the same extent"
            )


def _check_groups(spec: MatMul, groups: Tensor) -> None:
    a, b, c = spec.A, spec.B, spec.C
    if (len(a.shape), len(b.shape), len(c.shape)) != (2, 3, 2):
        raise SpecError(
            "group-ranks",
            f"{a}, {b} and {c} are no groups: groups follow one another in the rows of A and C, and each has a matrix "
            "of B",
            fix="give A and C no batch, and B one matrix a group: Matrix(K, N, batch=groups)",
        )
    if groups.dtype != i32:
        raise SpecError(
            "group-dtype",
            f"{groups} holds where groups end as {groups.dtype}, and kernels read it as i32",
            fix=f'give Vector({groups.shape[0]}, "i32", name={groups.name!r})',
        )
    if groups.shape != (b.shape[0],):
        raise SpecError(
            "group-count",
            f"{groups} and {b} differ in the number of groups",
            fix=f'give one end for each matrix of B: Vector({b.shape[0]}, "i32", name={groups.name!r})',
        )
    different_names(a, b, c, groups)


def _check_product(spec: MatMul) -> None:
    known = ("xor", "and") if spec.A.dtype == b1 else ("mul",)
    if spec.product not in known:
        raise SpecError(
            "unknown-product",
            f"no product {spec.product!r} of {spec.A.dtype}",
            fix=f"use product={' or '.join(map(repr, known))}",
        )


def _whole_bytes(spec: Spec) -> None:
    """Raise an error for an output of elements below 8 bits: two threads would write to one byte."""
    written = next((t for t in spec.outputs if t.dtype.packed), None)
    if written is not None:
        raise SpecError(
            "packed-result",
            f"{written} is written, and {written.dtype.pack} elements of {written.dtype} share a byte",
            fix=f"write i8 or i32, and let the reader of {written.name} pack it",
        )


def _same_shape(src: Tensor, dst: Tensor) -> None:
    different_names(src, dst)
    if src.shape != dst.shape:
        raise SpecError(
            "shape-mismatch", f"a Move keeps the shape, but {src} and {dst} differ", fix="give both the same shape"
        )


def tensors_of(spec: Spec) -> tuple[Tensor, ...]:
    """List a spec's tensors in the order in which a call takes them."""
    return (*spec.inputs, *spec.outputs)


def dims_of(spec: Spec, role: str) -> tuple[str, ...]:
    """Return the dimensions of one operand (`A` of a MatMul: M, K)."""
    match spec:
        case MatMul():
            tensor, *names = {"A": (spec.A, "M", "K"), "B": (spec.B, "K", "N"), "C": (spec.C, "M", "N")}[role]
            return (BATCH, *names) if len(tensor.shape) == 3 else tuple(names)
        case Products():
            names = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}[role[0]]
            return (BATCH, *names) if len(spec.outs[0].shape) == 3 else names
        case Layers():
            return {"A": ("M", "K"), "C": ("M", "N")}[role]
        case Move():
            return _dims(spec.dst)
        case Init():
            return _dims(spec.dst)
        case Pointwise():
            return _dims(spec.out)
        case Program():
            return tuple(d.name for d in refs_dims(spec, role))


def _dims(tensor: Tensor) -> tuple[str, ...]:
    leading = (f"{BATCH}{i if i > 1 else ''}" for i in range(len(tensor.shape) - 2, 0, -1))
    return (*leading, "M", "N") if len(tensor.shape) > 1 else ("N",)
