"""Element types: their bits, their NumPy types, and their accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from fireiron.base.contract import checked_fields
from fireiron.base.errors import SpecError

if TYPE_CHECKING:
    import numpy as np

Kind: TypeAlias = Literal["float", "int"]


@attrs.frozen(repr=False, field_transformer=checked_fields)
class DType:
    """Describe one element type.

    Elements of fewer than 8 bits are packed: memory, registers and arrays hold bytes of several elements, the first
    element in the lowest bits.

    Args:
        name: the short name (`f16`, `i8`).
        bits: storage bits of one element.
        kind: floating point or integer.
        numpy_name: NumPy's (or ml_dtypes') name of the type that holds it exactly; for packed elements the type of a
            byte.
        mantissa: explicit mantissa bits of a float, 0 for integers.
        exponent: exponent bits of a float, 0 for integers.
        signed: whether an integer may be negative.
        infinite: whether a float has infinities; if not, values with the largest exponent are finite numbers too.
    """

    name: str
    bits: int
    kind: Kind
    numpy_name: str
    mantissa: int = 0
    exponent: int = 0
    signed: bool = True
    infinite: bool = True

    @property
    def nbytes(self) -> int:
        """Return the bytes of the smallest addressable part: an element, or a byte with several packed elements."""
        return max(1, self.bits // 8)

    @property
    def pack(self) -> int:
        """Return the number of elements of the smallest addressable part: 1, or the packed elements of a byte."""
        return max(1, 8 // self.bits)

    @property
    def packed(self) -> bool:
        """Tell whether several elements share a byte."""
        return self.bits < 8

    def nbytes_of(self, count: int) -> int:
        """Return the number of bytes of `count` elements, rounded up to whole bytes.

        Example:
            >>> i4.nbytes_of(32), f32.nbytes_of(4)
            (16, 16)
        """
        return -(-count * self.bits // 8)

    def count_in(self, nbytes: int) -> int:
        """Return the number of whole elements in `nbytes` bytes.

        Example:
            >>> b1.count_in(16), f64.count_in(4)
            (128, 0)
        """
        return nbytes * 8 // self.bits

    @property
    def limits(self) -> tuple[float, float]:
        """Give the smallest and the largest finite number.

        Example:
            >>> i4.limits, b1.limits, e4m3.limits
            ((-8, 7), (0, 1), (-448.0, 448.0))
        """
        if self.kind == "int":
            half = 1 << (self.bits - 1)
            return (-half, half - 1) if self.signed else (0, 2 * half - 1)
        # Without infinities, the largest exponent has numbers too, except for the mantissa of all ones, which is NaN.
        top, lost = (self.bias, 1) if self.infinite else (self.bias + 1, 2)
        largest = (2.0 - lost * 2.0**-self.mantissa) * 2.0**top
        return -largest, largest

    def holds(self, other: DType) -> bool:
        """Say whether the type holds every finite number of another.

        Example:
            >>> f16.holds(e4m3), bf16.holds(i8), f16.holds(i32), f16.holds(bf16)
            (True, True, False, False)
        """
        if self.kind == other.kind == "float":
            return other.mantissa <= self.mantissa and other.exponent <= self.exponent
        if self.kind == "float":
            return other.bits - other.signed <= self.mantissa + 1
        return other.kind == "int" and self.limits[0] <= other.limits[0] and other.limits[1] <= self.limits[1]

    @property
    def bias(self) -> int:
        """Give a float's exponent bias, which is the largest exponent of a type with infinities."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def epsilon(self) -> float:
        """Give half a unit in the last place at 1.0: the relative rounding error (0 for integers)."""
        return 2.0 ** -(self.mantissa + 1) if self.kind == "float" else 0.0

    @property
    def numpy(self) -> np.dtype[Any]:
        """Give the NumPy dtype (imports ml_dtypes for bf16 and the fp8 types)."""
        import numpy as np

        if self.numpy_name in _ML_DTYPES:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.numpy_name))
        return np.dtype(self.numpy_name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

f64 = DType("f64", 64, "float", "float64", 52, 11)
f32 = DType("f32", 32, "float", "float32", 23, 8)
f16 = DType("f16", 16, "float", "float16", 10, 5)
bf16 = DType("bf16", 16, "float", "bfloat16", 7, 8)
i64 = DType("i64", 64, "int", "int64")
i32 = DType("i32", 32, "int", "int32")
i8 = DType("i8", 8, "int", "int8")
u8 = DType("u8", 8, "int", "uint8", signed=False)
# Stored as f32, of which the low 13 bits are not read.
tf32 = DType("tf32", 32, "float", "float32", 10, 8)
e4m3 = DType("e4m3", 8, "float", "float8_e4m3fn", 3, 4, infinite=False)
e5m2 = DType("e5m2", 8, "float", "float8_e5m2", 2, 5)
i4 = DType("i4", 4, "int", "uint8")
u4 = DType("u4", 4, "int", "uint8", signed=False)
b1 = DType("b1", 1, "int", "uint8", signed=False)

DTYPES = (f64, f32, f16, bf16, i64, i32, i8, u8, tf32, e4m3, e5m2)
PACKED = (i4, u4, b1)
DEEP = 66  # terms below 2**-66 of the largest one do not change sums of f32

_ALIASES = {
    "float64": f64, "double": f64, "fp64": f64,
    "float32": f32, "float": f32, "fp32": f32,
    "float16": f16, "half": f16, "fp16": f16,
    "bfloat16": bf16,
    "tensorfloat32": tf32,
    "float8_e4m3fn": e4m3, "fp8": e4m3, "fp8_e4m3": e4m3, "float8_e5m2": e5m2, "fp8_e5m2": e5m2,
    "int64": i64, "s64": i64, "long": i64, "int32": i32, "s32": i32, "int8": i8, "s8": i8, "uint8": u8,
    "int4": i4, "s4": i4, "uint4": u4, "int1": b1, "uint1": b1, "bool": b1, "binary": b1,
}  # fmt: skip


def dtype(name: object) -> DType:
    """Find a dtype by its name, an alias, or a NumPy/torch dtype or scalar type.

    Raises:
        SpecError: `unknown-dtype`.

    Example:
        >>> import numpy as np
        >>> dtype("float16") is dtype(np.float16) is f16
        True
    """
    if isinstance(name, DType):
        return name
    called = name.__name__ if isinstance(name, type) else getattr(name, "name", name)
    text = str(called).removeprefix("torch.").lower()
    by_name = {d.name: d for d in (*DTYPES, *PACKED)} | _ALIASES
    if text in by_name:
        return by_name[text]
    raise SpecError(
        "unknown-dtype",
        f"unknown dtype {name!r}",
        fix="use one of " + ", ".join(d.name for d in (*DTYPES, *PACKED)),
    )


def default_accumulator(d: DType) -> DType:
    """Choose the accumulator of products of `d`: `d` itself for i64, f32 and f64, i32 for other integers, else f32."""
    if d.kind == "int":
        return i64 if d == i64 else i32
    return d if d in (f32, f64) else f32


def default_result(d: DType) -> DType:
    """Choose C's type for products of `d`: i32 for integers but i64, f32 for fp8 and tf32, else `d` itself."""
    return d if d.kind == "float" and d not in (tf32, e4m3, e5m2) else default_accumulator(d)
