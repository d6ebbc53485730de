"""Swizzles: exclusive-or permutations of offsets that spread shared-memory accesses over the banks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from fireiron.base.contract import checked_fields, refused
from fireiron.base.errors import LayoutError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fireiron.algebra.index.nodes import Expr

Offset = TypeVar("Offset", int, "Expr", "npt.NDArray[np.integer[Any]]")


MOST_BITS = 31  # bits of an offset


@attrs.frozen(field_transformer=checked_fields)
class Swizzle:
    """Exclusive-or `bits` bits of an offset, from bit `base + shift` on, into the bits from `base` on.

    Offsets have the caller's unit: TMA's 128-byte mode is `Swizzle(3, 4, 3)` on bytes. Applied twice, it returns the
    original offset. A multiple of `period` may be added before or after.

    Args:
        bits: number of bits that are changed; 0 changes nothing.
        base: number of low bits that are kept, so that `2**base` offsets stay together.
        shift: distance from the changed bits up to the bits that are combined with them; at least `bits`.

    Raises:
        LayoutError: `bad-swizzle` for negative, huge or overlapping parameters.

    Source:
        PTX ISA, tensor swizzling modes; CuTe: `Swizzle<B, M, S>`.

    Example:
        >>> [Swizzle(2, 0, 2)(offset) for offset in (0, 4, 5, 14)]
        [0, 5, 4, 13]
    """

    bits: int
    base: int
    shift: int

    def __attrs_post_init__(self) -> None:
        if max(self.bits, self.base, self.shift) > MOST_BITS:
            raise LayoutError(
                "bad-swizzle",
                f"{self} moves bits beyond {MOST_BITS}",
                fix="give bits, base and shift of a few bits each",
            )
        if min(self.bits, self.base, self.shift) < 0:
            raise LayoutError(
                "bad-swizzle", f"{self} has a negative parameter", fix="give bits, base and shift of at least 0"
            )
        if self.shift < self.bits:
            raise LayoutError(
                "bad-swizzle",
                f"{self} mixes overlapping bits: {self.bits} bits do not fit below a shift of {self.shift}",
                fix=f"give a shift of at least {self.bits}",
            )

    def __call__(self, offset: Offset) -> Offset:
        """Permute an int, an expression or an array of ints."""
        if not self.bits:
            return offset
        try:
            mixed: Any = (offset >> self.shift) & (((1 << self.bits) - 1) << self.base)
            return cast("Offset", offset ^ mixed)
        except TypeError:
            raise refused(str(self), ("an offset", "a whole number, an expression, or an array"), offset) from None

    def __str__(self) -> str:
        return f"Swizzle({self.bits}, {self.base}, {self.shift})"

    @property
    def period(self) -> int:
        """Return the number of offsets after which the pattern repeats."""
        return 1 << (self.base + self.shift + self.bits) if self.bits else 1

    @property
    def contiguous(self) -> int:
        """Return the number of neighbouring offsets that stay together."""
        return 1 << self.base
