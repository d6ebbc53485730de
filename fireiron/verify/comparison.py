"""Compare a result with its reference: how many elements are wrong, and how many the bounds cannot judge."""

from __future__ import annotations

from typing import Literal

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.verify.bounded import Array, Bounded, largest

Word = Literal["right", "within bounds", "not verified", "wrong"]


@attrs.frozen
class Comparison:
    """Hold how a result differs from its reference.

    Args:
        name: name of the output.
        compared: number of elements that were compared.
        total: number of elements of the output.
        wrong: number of elements outside their bound, NaNs included where the reference is known.
        nans: number of elements that are NaN.
        max_error: largest absolute difference of an element that is a number.
        ratio: largest quotient of difference and bound; at most 1 for right results.
        worst: index of the element with the largest quotient.
        got: the result at `worst`.
        expected: the reference at `worst`.
        bound: the bound at `worst`.
        exact: number of elements whose bound is 0, so that every bit was compared.
        unverified: number of elements whose bound is as large as the reference, so that 0 would pass.
    """

    name: str
    compared: int
    total: int
    wrong: int
    nans: int
    max_error: float
    ratio: float
    worst: tuple[int, ...]
    got: float
    expected: float
    bound: float
    exact: int = 0
    unverified: int = 0

    @property
    def passed(self) -> bool:
        """Say whether some element was compared, and none is wrong."""
        return self.wrong == 0 and self.compared > 0

    @property
    def word(self) -> Word:
        """Name what is proved: `right` where every bit was compared, `not verified` where most bounds judge nothing."""
        if not self.passed:
            return "wrong"
        if self.exact == self.compared:
            return "right"
        return "not verified" if 2 * self.unverified > self.compared else "within bounds"

    def __str__(self) -> str:
        part = "all" if self.compared == self.total else f"{self.compared} of"
        if not self.compared:
            return f"{self.name}: none of {self.total} elements were written"
        if self.wrong:
            nans = f", {self.nans} of them NaN" if self.nans else ""
            at = ", ".join(map(str, self.worst))
            return (
                f"{self.name}: {self.wrong} of {self.compared} elements wrong{nans}; "
                f"{self.name}[{at}] is {self.got:.9g}, expected {self.expected:.9g} ± {self.bound:.2g}"
            )
        if self.exact == self.compared:
            return f"{self.name}: {part} {self.total} elements right, each bit"
        if self.unverified:
            part = f"{self.compared - self.unverified} of"
        words = [f"{self.name}: {part} {self.total} elements within bounds"]
        if self.max_error > 0:
            words.append(f"largest error {self.max_error:.3g}, at most {self.ratio:.2g} of its bound")
        if self.exact:
            words.append(f"{self.exact} of them compared bit by bit")
        if self.unverified:
            words.append(f"{self.unverified} not verified, since their error bound is not below their value")
        return ", ".join(words)


def compare(name: str, result: Array, expected: Bounded, dtype: DType, written: Array | None = None) -> Comparison:
    """Compare a result with its reference.

    A NaN is wrong, unless the reference is NaN with an infinite error, as after an operation on two infinities. An
    infinity is right where the reference may be beyond the dtype's largest number.

    Args:
        name: name of the output.
        result: the array in the order (batch, rows, columns).
        expected: the reference.
        dtype: element type of the result.
        written: mask of the elements to compare; None for all.
    """
    got = result.astype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(got - expected.value)
        unknown = np.isnan(expected.value) & np.isinf(expected.error)
        right = (difference <= expected.error) | unknown
        if dtype.kind == "float":
            overflows = np.isinf(got) & (expected.size >= largest(dtype)) & (np.sign(got) == np.sign(expected.value))
            right |= overflows
            difference = np.where(overflows, 0.0, difference)
        # 0 / 0 is an exact element that is exact; NaN counts as the worst of all.
        ratio = np.where((difference == 0) | unknown, 0.0, difference / expected.error)
    ratio = np.where(np.isnan(ratio) | (~right & (ratio <= 1)), np.inf, ratio)
    chosen = np.ones(got.shape, bool) if written is None else np.broadcast_to(written, got.shape)
    count = int(chosen.sum())
    finite = chosen & np.isfinite(difference)
    worst = np.unravel_index(int(np.argmax(np.where(chosen, ratio, -1.0))), got.shape)
    blind = (expected.error > 0) & ~(expected.error < np.abs(expected.value))
    return Comparison(
        name,
        compared=count,
        total=got.size,
        wrong=int((chosen & ~right).sum()),
        nans=int((chosen & np.isnan(got)).sum()),
        max_error=float(difference[finite].max()) if finite.any() else 0.0,
        ratio=float(ratio[worst]) if count else 0.0,
        worst=tuple(int(i) for i in worst),
        got=float(got[worst]),
        expected=float(expected.value[worst]),
        bound=float(expected.error[worst]),
        exact=int((chosen & (expected.error == 0)).sum()),
        unverified=int((chosen & right & blind).sum()),
    )
