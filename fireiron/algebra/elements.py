"""Elements in NumPy arrays: packing and unpacking of bytes, and conversions to tf32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from fireiron.algebra.dtypes import DType, tf32

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

TF32_READ = 0xFFFF_E000
_HALF_A_UNIT = 0x1000


def unpack(array: Array, dtype: DType) -> Array:
    """Unpack elements from bytes, along the last axis; elements of whole bytes stay as they are.

    Example:
        >>> import numpy as np
        >>> from fireiron.algebra.dtypes import i4
        >>> unpack(np.array([0x1F, 0x80], np.uint8), i4).tolist()
        [-1, 1, 0, -8]
    """
    import numpy as np

    if not dtype.packed:
        return array
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    parts = (array.view(np.uint8)[..., None] >> shifts) & np.uint8((1 << dtype.bits) - 1)
    values = parts.reshape(*array.shape[:-1], -1).astype(np.int8)
    half = np.int8(1 << (dtype.bits - 1))
    return (values ^ half) - half if dtype.signed else values


def pack(values: Array, dtype: DType) -> Array:
    """Pack elements into bytes, along the last axis, whose extent must fill whole bytes; other types stay as they are.

    Example:
        >>> import numpy as np
        >>> from fireiron.algebra.dtypes import i4
        >>> [hex(byte) for byte in pack(np.array([-1, 1, 0, -8]), i4)]
        ['0x1f', '0x80']
    """
    import numpy as np

    if not dtype.packed:
        return values
    parts = values.astype(np.int8).view(np.uint8) & np.uint8((1 << dtype.bits) - 1)
    parts = parts.reshape(*values.shape[:-1], -1, dtype.pack) << np.arange(0, 8, dtype.bits, dtype=np.uint8)
    return np.bitwise_or.reduce(parts, axis=-1).astype(np.uint8)


def read(array: Array, dtype: DType) -> Array:
    """Return the values of an array of a dtype: packed elements are unpacked, tf32 elements truncated.

    Example:
        >>> import numpy as np
        >>> read(np.array([1 + 2**-10, 1 + 2**-11], np.float32), tf32).tolist()
        [1.0009765625, 1.0]
    """
    return tf32_read(array) if dtype == tf32 else unpack(array, dtype)


def tf32_read(array: Array) -> Array:
    """Truncate f32 numbers to the bits that the hardware reads of a tf32 operand."""
    import numpy as np

    return (np.ascontiguousarray(array).view(np.uint32) & np.uint32(TF32_READ)).view(np.float32).reshape(array.shape)


def tf32_rounded(array: Array) -> Array:
    """Round f32 numbers to tf32, ties away from zero, as the conversion instruction does; NaNs are truncated.

    Example:
        >>> import numpy as np
        >>> payloads = np.array([0x7FC00000, 0x7F800001], np.uint32).view(np.float32)
        >>> tf32_rounded(payloads).tolist()
        [nan, inf]
    """
    import numpy as np

    bits = np.ascontiguousarray(array).view(np.uint32)
    near = ((bits + np.uint32(_HALF_A_UNIT)) & np.uint32(TF32_READ)).view(np.float32).reshape(array.shape)
    return np.where(np.isnan(array), tf32_read(array), near)


def strided(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """View an array's memory from its first element on, with strides that count elements.

    Example:
        >>> import numpy as np
        >>> strided(np.arange(6), (2, 2), (3, 1)).tolist()
        [[0, 1], [3, 4]]
    """
    import numpy as np

    # As unsigned integers, because NumPy does not describe every type of ml_dtypes to itself.
    size = array.itemsize
    plain = array.view(f"u{size}") if array.dtype.kind in "fV" and size < 4 else array
    return np.lib.stride_tricks.as_strided(plain, shape, [s * size for s in strides]).view(array.dtype)
