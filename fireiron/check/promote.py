"""Rules of `promote()`: sums of chunks stand for their products only where these are all multiplied alike."""

from __future__ import annotations

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Index
from fireiron.base.errors import DecompositionError
from fireiron.language.decompositions import Split
from fireiron.language.factors import factor, holds
from fireiron.language.residual import Operand, Residual
from fireiron.language.tensor import Tensor


def promotable(before: Residual, split: Split, dtype: DType, swapped: bool) -> None:
    """Refuse to add up the sums of chunks where that is not the sum of all products.

    Args:
        before: above the split.
        split: whose chunks they are.
        dtype: of a chunk's sums.
        swapped: whether the product's operands were exchanged.

    Raises:
        DecompositionError: `promote-accumulator`, `promote-prolog`, `promote-scales`, `accumulator-dtype`.
    """
    c = before.operand("C")
    assert c is not None
    if not c.memory.registers:
        raise DecompositionError(
            "promote-accumulator",
            f"promote() adds to accumulators in registers, and C lies in {c.memory}",
            fix="write epilog(...) above the split",
        )
    if (dtype.kind, c.dtype.kind) == ("float", "int") or (dtype.kind == c.dtype.kind and not holds(c.dtype, dtype)):
        raise DecompositionError(
            "accumulator-dtype",
            f"sums of {dtype} are not added to accumulators of {c.dtype}, which hold less",
            fix=f"accumulate by epilog(dtype=\"{'f32' if dtype.kind == 'int' else dtype}\")",
        )
    for operand in before.operands:
        scaling(operand, split.size, swapped)


def scaling(operand: Operand, size: Index, swapped: bool) -> None:
    """Refuse a prolog that is more than a multiplication by values that hold for whole chunks of K.

    Raises:
        DecompositionError: `promote-prolog`, `promote-scales`.
    """
    if operand.ops is not None:
        if factor(operand.ops) is None:
            raise DecompositionError(
                "promote-prolog",
                f"the prolog of {operand.role} does more than to multiply each element: "
                "made of a sum, it is not the sum of what it makes",
                fix="leave promote() out, and load through registers; or give the prolog scale(...) or "
                "dequantise(dtype, scales) alone",
            )
        for tensor in operand.ops.tensors:
            _constant(tensor, operand, size, swapped)


def _constant(tensor: Tensor, operand: Operand, size: Index, swapped: bool) -> None:
    """Refuse scales that change inside a chunk."""
    whole = operand.tensor.transposed if swapped else operand.tensor
    dims = (*operand.dims[:-2], *operand.dims[:-3:-1]) if swapped else operand.dims
    at = dims.index("K") - len(dims) + len(tensor.shape)
    extent, full = (tensor.shape[at], whole.shape[dims.index("K")]) if at >= 0 else (1, 1)
    if extent == 1:
        return
    served = full // extent if isinstance(extent, int) and isinstance(full, int) else 1
    if not isinstance(size, int) or served % size:
        raise DecompositionError(
            "promote-scales",
            f"{tensor} has a value for every {served} of K, and chunks of {size} are summed as one",
            fix=f"split({served}), or by a divisor of it" if served > 1 else "scale A by rows, and B by columns",
        )
