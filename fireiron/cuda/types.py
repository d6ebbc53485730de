"""C types of elements, and numbers as C literals."""

from __future__ import annotations

import math
import struct
from typing import Final

from fireiron.algebra.dtypes import DType, bf16, f16, f32, f64, i8, i32, u8

C_TYPES: Final = {
    f64.name: "double",
    f32.name: "float",
    f16.name: "half",
    bf16.name: "bf16",
    i32.name: "int",
    i8.name: "signed char",
    u8.name: "unsigned char",
}
# 16-bit floats are declared by the printed source itself: it includes no header.
DECLARED: Final = {
    f16.name: "struct half { unsigned short bits; };",
    bf16.name: "struct bf16 { unsigned short bits; };",
}


def c_type(dtype: DType) -> str:
    """Name the C type of an element."""
    return C_TYPES[dtype.name]


def is_half(dtype: DType) -> bool:
    """Tell whether values of a type are computed in float, being 16-bit floats."""
    return dtype.name in DECLARED


def rounded(value: float, dtype: DType) -> float:
    """Round a number to a floating-point type, ties to even.

    Example:
        >>> rounded(0.1, f16), rounded(1e6, f16)
        (0.0999755859375, inf)
    """
    if value == 0 or not math.isfinite(value):
        return float(value)
    largest = 15 if dtype == f16 else 1023 if dtype == f64 else 127
    _, exponent = math.frexp(value)
    # The unit in the last place; among subnormal numbers that of the smallest normal one.
    place = max(exponent - 1, 1 - largest) - dtype.mantissa
    near = math.ldexp(round(math.ldexp(value, -place)), place)
    return math.copysign(math.inf, value) if abs(near) >= 2.0 ** (largest + 1) else near


def bits16(value: float, dtype: DType) -> int:
    """Give the bit pattern of a number rounded to a 16-bit float.

    Example:
        >>> hex(bits16(1.0, f16)), hex(bits16(1.0, bf16))
        ('0x3c00', '0x3f80')
    """
    near = rounded(value, dtype)
    if dtype == f16:
        return int.from_bytes(struct.pack("<e", near), "little")
    return int.from_bytes(struct.pack("<f", near), "little") >> 16


def literal(value: float, dtype: DType) -> str:
    """Write a number as C; one of a 16-bit float type as the float that has its value.

    Example:
        >>> literal(0.1, f32), literal(1, f64), literal(float("inf"), f32), literal(-3, i32)
        ('0.1f', '1.0', '__int_as_float(0x7f800000)', '-3')
    """
    if dtype.kind == "int":
        whole = int(value)
        return "(-2147483647 - 1)" if whole == -(2**31) else str(whole)
    near = value if dtype == f64 else rounded(value, dtype)
    if not math.isfinite(near):
        return _not_finite(float(near), dtype)
    if dtype == f64:
        return repr(float(near))
    return _shortest(float(near)) + "f"


def _not_finite(value: float, dtype: DType) -> str:
    if dtype == f64:
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        return f"__longlong_as_double({bits:#018x})"
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return f"__int_as_float({bits:#010x})"


def _shortest(value: float) -> str:
    """Write the fewest digits that read back as the same f32."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if rounded(float(text), f32) == value:
            break
    else:
        text = repr(value)
    return text if "." in text or "e" in text else text + ".0"
