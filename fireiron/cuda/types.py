"""C types of elements, and numbers as C literals."""

from __future__ import annotations

import math
import struct
from typing import Final

from fireiron.algebra.dtypes import DType, b1, bf16, e4m3, e5m2, f16, f32, f64, i4, i8, i32, i64, tf32, u4, u8

C_TYPES: Final = {
    f64.name: "double",
    f32.name: "float",
    f16.name: "half",
    bf16.name: "bf16",
    i64.name: "long long",
    i32.name: "int",
    i8.name: "signed char",
    u8.name: "unsigned char",
    tf32.name: "tf32",
    e4m3.name: "e4m3",
    e5m2.name: "e5m2",
    # Packed elements: a byte of them.
    i4.name: "unsigned char",
    u4.name: "unsigned char",
    b1.name: "unsigned char",
}
# Floats that C lacks are declared by the printed source itself: it includes no header.
DECLARED: Final = {
    f16.name: "struct half { unsigned short bits; };",
    bf16.name: "struct bf16 { unsigned short bits; };",
    tf32.name: "struct tf32 { unsigned bits; };",
    e4m3.name: "struct e4m3 { unsigned char bits; };",
    e5m2.name: "struct e5m2 { unsigned char bits; };",
}


def c_type(dtype: DType) -> str:
    """Name the C type of an element."""
    return C_TYPES[dtype.name]


def is_narrow(dtype: DType) -> bool:
    """Say whether a type is a float that C lacks, whose values are computed in float."""
    return dtype.name in DECLARED


def rounded(value: float, dtype: DType) -> float:
    """Round a number to a floating-point type as its conversion instruction does.

    Ties go to even, in tf32 away from zero. A number beyond an 8-bit float's largest becomes the largest.

    Example:
        >>> rounded(0.1, f16), rounded(1e6, f16), rounded(1e6, e4m3), rounded(1 + 2**-11, tf32)
        (0.0999755859375, inf, 448.0, 1.0009765625)
    """
    low, high = dtype.limits
    beyond = high if dtype.bits == 8 else math.inf
    if value == 0 or math.isnan(value):
        return float(value)
    if math.isinf(value):
        return math.copysign(beyond, value)
    _, exponent = math.frexp(value)
    # The unit in the last place; among subnormal numbers that of the smallest normal one.
    place = max(exponent - 1, 1 - dtype.bias) - dtype.mantissa
    units = math.ldexp(value, -place)
    whole = math.copysign(math.floor(abs(units) + 0.5), units) if dtype == tf32 else round(units)
    near = math.ldexp(whole, place)
    return near if low <= near <= high else math.copysign(beyond, value)


def bits_of(value: float, dtype: DType) -> int:
    """Give the bit pattern of a number rounded to a float that C lacks.

    Example:
        >>> hex(bits_of(1.0, f16)), hex(bits_of(1.0, bf16)), hex(bits_of(-1.5, e4m3)), hex(bits_of(1.0, tf32))
        ('0x3c00', '0x3f80', '0xbc', '0x3f800000')
    """
    near = rounded(value, dtype)
    if dtype in (bf16, tf32):
        return int.from_bytes(struct.pack("<f", near), "little") >> (32 - dtype.bits)
    if dtype == e4m3:
        return _bits_without_infinities(near, dtype)
    # e5m2 is the upper half of an f16.
    return int.from_bytes(struct.pack("<e", near), "little") >> (16 - dtype.bits)


def _bits_without_infinities(value: float, dtype: DType) -> int:
    sign = (math.copysign(1.0, value) < 0) << (dtype.bits - 1)
    if math.isnan(value):
        return sign | ((1 << (dtype.bits - 1)) - 1)
    _, exponent = math.frexp(value)
    place = max(exponent - 1, 1 - dtype.bias) if value else 1 - dtype.bias
    units = int(math.ldexp(abs(value), dtype.mantissa - place))
    # Adding to the exponent field: a subnormal's units lack the leading one, a normal's have it.
    return sign | (((place + dtype.bias - 1) << dtype.mantissa) + units)


def literal(value: float, dtype: DType) -> str:
    """Write a number as a literal of C; for a type that C lacks, the float of the same value.

    Example:
        >>> literal(0.1, f32), literal(1, f64), literal(float("inf"), f32), literal(-3, i32), literal(-3, i64)
        ('0.1f', '1.0', '__int_as_float(0x7f800000)', '-3', '-3LL')
    """
    if dtype.kind == "int":
        whole, suffix = int(value), "LL" if dtype == i64 else ""
        # C has no literal of the lowest number: -2147483648 is the negative of a literal beyond int.
        least = whole == dtype.limits[0] and dtype.bits >= 32
        return f"({whole + 1}{suffix} - 1)" if least else f"{whole}{suffix}"
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
