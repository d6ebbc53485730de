"""The facts of a product that plans are modelled with; each fact is computed once for hundreds of plans."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import attrs

from fireiron import ColMajor, DType, MatMulChain, RowMajor, Rows, Save, Tensor

LINE = 128  # bytes of a line of the L2 cache, and of a swizzled row
MAP_UNIT = 16  # bytes of which strides of a tensor map are multiples
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8")  # element types that wgmma multiplies
EIGHT_BITS = ("e4m3", "e5m2")


def size_of(extent: Any) -> int:
    """Return an extent as a number; for a symbol, the size for which plans are chosen."""
    return extent if isinstance(extent, int) else extent.planned


@attrs.frozen(eq=False)
class Product:
    """Hold a product, and facts that follow from its spec.

    Args:
        spec: the result of `matmul(...)`.
    """

    spec: MatMulChain

    @cached_property
    def extents(self) -> dict[str, Any]:
        """Return the extents by dimension, symbols among them."""
        return dict(self.spec.matmul.sizes)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return M, N, K and the number of products as numbers."""
        m, n, k, count = (size_of(self.extents.get(dim, 1)) for dim in ("M", "N", "K", "batch"))
        return m, n, k, count

    @cached_property
    def left(self) -> Tensor:
        """Describe A as atoms read it."""
        return self.spec.left

    @cached_property
    def right(self) -> Tensor:
        """Describe B as atoms read it."""
        return self.spec.right

    @cached_property
    def grouped(self) -> bool:
        """Say whether the products are groups, which share the rows of A and C."""
        return self.spec.matmul.groups is not None

    @cached_property
    def batched(self) -> bool:
        """Say whether there are many products, one for each index of a batch."""
        return self.spec.batch is not None

    @cached_property
    def by_vectors(self) -> bool:
        """Say whether threads store results by predicated vectors: lines, or a group's rows, have no tensor map."""
        saved = (op.tensor for op in self.spec.matmul.ops if isinstance(op, Save))
        return self.grouped or not all(t.starts_lines_at(MAP_UNIT) for t in (self.spec.matmul.C, *saved))

    @cached_property
    def scaled(self) -> bool:
        """Say whether prologs scale 8-bit floats by factors that are constant within a chunk."""
        served = self.spec.served_along_k
        eight_bits = self.spec.matmul.A.dtype.name in EIGHT_BITS and self.spec.matmul.B.dtype.name in EIGHT_BITS
        return eight_bits and served is not None and served % LINE == 0

    @cached_property
    def multiplied(self) -> DType:
        """Return the element type of the products' operands: that after a prolog, unless sums are scaled instead."""
        return self.spec.matmul.A.dtype if self.scaled else self.left.dtype

    @cached_property
    def nbytes(self) -> int:
        """Return the bytes of an operand's element."""
        return self.multiplied.nbytes

    @cached_property
    def out_nbytes(self) -> int:
        """Return the bytes of an element of C."""
        return self.spec.matmul.C.dtype.nbytes

    @cached_property
    def prologs(self) -> tuple[bool, bool]:
        """Say, for both operands, whether ops are applied to them on their way to the products."""
        a, b = (operand.ops is not None for operand in self.spec.residual.operands[:2])
        return a, b

    @cached_property
    def across(self) -> tuple[bool, bool]:
        """Say, for both operands, whether K is not contiguous and wgmma cannot transpose the elements."""
        others = self.nbytes != 2
        return others and self.spec.matmul.A.order is ColMajor, others and self.spec.matmul.B.order is RowMajor

    @cached_property
    def along_lines(self) -> tuple[bool, bool]:
        """Say whether M of A, and N of B, is contiguous, and wgmma reads it so: elements have 16 bits."""
        wide = self.nbytes == 2
        return wide and self.spec.matmul.A.order is ColMajor, wide and self.spec.matmul.B.order is RowMajor

    @cached_property
    def beside(self) -> tuple[bool, int, int]:
        """Return whether staged rows are padded, and the numbers of tensors beside C: of C's shape, and of rows."""
        ops = self.spec.matmul.ops
        return self.by_vectors, sum(isinstance(op, Save) for op in ops), sum(isinstance(op, Rows) for op in ops)

    @cached_property
    def whole_operands(self) -> tuple[Tensor, ...]:
        """List the tensors of C's shape that ops read."""
        return self.spec.whole_operands

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Return the number of bytes, at most 128, at whose multiples lines of A, and of B, start."""
        steps = (
            [stride * tensor.dtype.nbytes for stride in tensor.strides if isinstance(stride, int) and stride != 1]
            for tensor in (self.left, self.right)
        )
        return tuple(math.gcd(LINE, *found) for found in steps)

    @cached_property
    def torn(self) -> bool:
        """Say whether a box's row is loaded in two pieces: lines start between multiples of 128 bytes."""
        return any(start != LINE for start in self.starts)

    @cached_property
    def taken(self) -> bool:
        """Say whether bulk copies and wgmma can compute the product; at most one operand may have a prolog."""
        a, b = self.spec.matmul.A, self.spec.matmul.B
        if self.multiplied.name not in TYPES or any(t.dtype.packed for t in (a, b)):
            return False
        if self.grouped and a.order is ColMajor:
            return False  # groups start anywhere along M, and boxes at multiples of 16 bytes of a line
        # Tensor maps handle the ends of lines; threads store C where its lines start elsewhere.
        if not all(t.starts_lines_at(MAP_UNIT) for t in (a, b)):
            return False
        # An operand with a prolog is read from registers, as A, unless it has 8 bits and K is not contiguous.
        prologs = [found and not self.scaled for found in self.prologs]
        return not all(prologs) and not (
            self.nbytes == 1 and any(p and x for p, x in zip(prologs, self.across, strict=True))
        )
