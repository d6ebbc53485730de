"""Rules of `promote()`: a factor is applied to a chunk's sum only where all products of the chunk have that factor."""

from __future__ import annotations

import math

from fireiron.algebra.dtypes import DType
from fireiron.base.errors import DecompositionError
from fireiron.language.decompositions import Split
from fireiron.language.factors import factor
from fireiron.language.residual import Operand, Residual
from fireiron.language.tensor import Tensor


def promotable(before: Residual, split: Split, dtype: DType, swapped: bool) -> None:
    """Raise an error where the chunks' sums, each times its factor, do not add up to the sum of all products.

    Args:
        before: the residual spec above the split.
        split: the split.
        dtype: element type of a chunk's sums.
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
    if (dtype.kind, c.dtype.kind) == ("float", "int") or (dtype.kind == c.dtype.kind and not c.dtype.holds(dtype)):
        raise DecompositionError(
            "accumulator-dtype",
            f"sums of {dtype} are not added to accumulators of {c.dtype}, which hold less",
            fix=f'accumulate by epilog(dtype="{"f32" if dtype.kind == "int" else dtype}")',
        )
    for operand in before.operands:
        if operand.ops is None:
            continue
        if factor(operand.ops) is None:
            raise DecompositionError(
                "promote-prolog",
                f"the prolog of {operand.role} does more than multiply, and promote() applies only factors to sums",
                fix="give it scale(...) or dequantise(dtype, scales) alone, or leave promote() out and load through "
                "registers",
            )
        for tensor in operand.ops.tensors:
            _constant(tensor, operand, split, swapped)


def served_along_k(residual: Residual, swapped: bool) -> int | None:
    """Return how many neighbours along K prologs multiply by one value.

    0 means all of K; None means that there is no prolog, or that a prolog does anything else.

    Args:
        residual: the residual spec with pending prologs.
        swapped: whether the product's operands were exchanged.
    """
    found = [o for o in residual.operands if o.ops is not None]
    if not found or any(o.ops is not None and factor(o.ops) is None for o in found):
        return None
    return math.gcd(*(served(t, o, swapped) for o in found if o.ops is not None for t in o.ops.tensors))


def _constant(tensor: Tensor, operand: Operand, split: Split, swapped: bool) -> None:
    """Raise an error for scales that change inside a chunk."""
    number = served(tensor, operand, swapped)
    if number and (not isinstance(split.size, int) or number % split.size):
        raise DecompositionError(
            "promote-scales",
            f"{tensor} changes every {number} of K, and chunks of {split.size} are one sum",
            fix=f"split({number}), or by a divisor of it" if number > 1 else "scale A by rows, and B by columns",
        )


def served(tensor: Tensor, operand: Operand, swapped: bool) -> int:
    """Return how many neighbours along K share one of a tensor's values; 0 where all do.

    Args:
        tensor: a tensor of the prolog of `operand`, as the author wrote it (before swap()).
        operand: the operand before the prolog.
        swapped: whether the product's operands were exchanged.
    """
    whole = operand.tensor.transposed if swapped else operand.tensor
    dims = (*operand.dims[:-2], *operand.dims[:-3:-1]) if swapped else operand.dims
    at = dims.index("K") - len(dims) + len(tensor.shape)
    extent, full = (tensor.shape[at], whole.shape[dims.index("K")]) if at >= 0 else (1, 1)
    if extent == 1:
        return 0
    return full // extent if isinstance(extent, int) and isinstance(full, int) else 1
