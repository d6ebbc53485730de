"""Keys of points: integers whose order is that of values and indices, for folds that find the largest of few points.

A comparison of floats with their indices takes many instructions: for values that are equal, for zeros of both signs,
and for NaN. A key takes them once for each point. Of a 16-bit float, the key's upper half has the bits of the value and
the lower half the index, counted down, so that one instruction gives the larger of two points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType, bf16, f16, f32, i32
from fireiron.algebra.expr import as_expr, as_int
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Scalar,
    Select,
    renumbered,
    substituted,
)
from fireiron.language.folds import Dim, Fold, Several, larger, top_of

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[Any, Any]

FEW_POINTS: Final = 1024  # of more points, a fold passes by most without a look at each
HALF: Final = 1 << 16  # the lower half of a key has room for the indices of few points
LEAST: Final = i32.limits[0]  # the key of a missing point
LAST: Final = HALF - 1
HIGHEST: Final = HALF // 2 - 1  # of a signed integer of 16 bits

# A sum with 0 makes zeros equal, and all NaN the largest positive one: PTX ISA, floating point, canonical NaN.
_KEY_OF_F32 = """\
int bits = __float_as_int(x + 0.0f);
return bits ^ ((bits >> 31) & 0x7fffffff);"""
_KEY_OF_BF16 = """\
int bits = __float_as_int(x + 0.0f);
bits ^= (bits >> 31) & 0x7fffffff;
return (bits & 0xffff0000) | (65535 - place);"""
_KEY_OF_F16 = """\
int bits;
#if __CUDA_ARCH__ >= 800  // this conversion has the higher rate
asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(x + 0.0f), "f"(0.0f));
#else
unsigned short half;
asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x + 0.0f));
bits = half << 16;
#endif
bits ^= (bits >> 31) & 0x7fffffff;
return (bits & 0xffff0000) | (65535 - place);"""
_F32_OF_KEY = "return __int_as_float(key ^ ((key >> 31) & 0x7fffffff));"
_BF16_OF_KEY = "return __int_as_float((key & 0xffff0000) ^ ((key >> 31) & 0x7fff0000));"
_F16_OF_KEY = """\
short half = (key >> 16) ^ ((key >> 31) & 0x7fff);
float x;
asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
return x;"""


def _halves(x: Array, bits: Array, place: Array) -> Array:
    """Join the bits of 16-bit floats, as signed integers, with indices."""
    ordered = np.where(np.isnan(x), HIGHEST, bits ^ np.where(bits < 0, HIGHEST, 0))
    return (ordered * HALF + (LAST - np.asarray(place, np.int64))).astype(np.int32)


def _bits(key: Array) -> Array:
    upper = np.asarray(key, np.int64) // HALF
    return (upper ^ np.where(upper < 0, HIGHEST, 0)) & LAST


def _key_of_bf16(x: Array, place: Array) -> Array:
    bits = (np.asarray(x, np.float32) + np.float32(0)).view(np.int32).astype(np.int64) >> 16
    return _halves(x, bits, place)


def _key_of_f16(x: Array, place: Array) -> Array:
    with np.errstate(over="ignore"):
        bits = (np.asarray(x, np.float16) + np.float16(0)).view(np.int16).astype(np.int64)
    return _halves(x, bits, place)


def _bf16_of_key(key: Array) -> Array:
    return (_bits(key) << 16).astype(np.uint32).view(np.float32)


def _f16_of_key(key: Array) -> Array:
    return _bits(key).astype(np.uint16).view(np.float16).astype(np.float32)


def _key_of_f32(x: Array) -> Array:
    bits = (np.asarray(x, np.float32) + np.float32(0)).view(np.int32)
    return np.where(np.isnan(x), i32.limits[1], bits ^ np.where(bits < 0, i32.limits[1], 0)).astype(np.int32)


def _f32_of_key(key: Array) -> Array:
    key = np.asarray(key).astype(np.int32)
    return (key ^ np.where(key < 0, i32.limits[1], 0).astype(np.int32)).view(np.float32)


_KINDS: Final = {
    bf16: (_KEY_OF_BF16, _key_of_bf16, _BF16_OF_KEY, _bf16_of_key),
    f16: (_KEY_OF_F16, _key_of_f16, _F16_OF_KEY, _f16_of_key),
    f32: (_KEY_OF_F32, _key_of_f32, _F32_OF_KEY, _f32_of_key),
}


def few(dim: Dim) -> bool:
    """Say whether a dim has so few points that a fold for the largest looks at each of them."""
    points = as_int(as_expr(dim.extent or 0))
    return points is not None and points <= FEW_POINTS


def top_of_few(tree: Scalar, dim: Dim, k: int) -> Fold:
    """Return the fold that finds the k largest of few values along a dim and their indices, as `top_of` does.

    Args:
        tree: the expression of the values. Of 16-bit floats, as f32, a key has the index too.
        dim: the dim to search along.
        k: a power of two.
    """
    if isinstance(tree, Cast) and tree.dtype == f32 and tree.x.dtype in _KINDS:
        return _of_keys(tree.x.dtype, dim, k)
    if tree.dtype not in (f32, i32):
        return top_of(tree.dtype, dim, k)
    pairs, kept = top_of(i32, dim, k), [Arg(i, i32) for i in range(2 * k)]
    several = Several(k, tuple(_exchanged(pairs_of, k, kept) for pairs_of in _network(k)))
    pairs = attrs.evolve(pairs, ranking=None, several=several)
    if tree.dtype == i32:
        return pairs
    key = Custom("key_of_f32", _KEY_OF_F32, ("x",), (Arg(0, f32),), i32, _key_of_f32)
    return attrs.evolve(
        pairs,
        lift=(key, *pairs.lift[1:]),
        finish=(*(_value(x, f32) for x in kept[:k]), *kept[k:]),
        insert=tuple(substituted(x, (*kept, renumbered(key, {0: 2 * k}))) for x in pairs.insert),
    )


def _of_keys(kind: DType, dim: Dim, k: int) -> Fold:
    """Return the fold of 16-bit floats, whose state is one key for each of the k largest."""
    source, key_of = _KINDS[kind][:2]
    key, point = (
        Custom(f"key_of_{kind}", source, ("x", "place"), (Arg(i, f32), Coordinate(dim)), i32, key_of) for i in (0, k)
    )
    kept, other = ([Arg(i + first, i32) for i in range(k)] for first in (0, k))
    stages: list[tuple[Scalar, ...]] = []
    step = k // 2
    while step:
        stages.append(_exchanged([(i, i + step) for i in range(k) if not i & step], k, kept))
        step //= 2
    behind = (Binary("max", x, Binary("min", ahead, point)) for ahead, x in pairwise(kept))
    return Fold(
        "top",
        (i32,) * k,
        (float(LEAST),) * k,
        (key, *(Constant(LEAST, i32),) * (k - 1)),
        tuple(Binary("max", x, y) for x, y in zip(kept, reversed(other), strict=True)),
        (*(_value(x, kind) for x in kept), *map(_place, kept)),
        (Binary("max", kept[0], point), *behind),
        tuple(stages),
        several=Several(k, tuple(_exchanged(pairs, k, kept) for pairs in _network(k))),
    )


def _network(count: int) -> Iterator[list[tuple[int, int]]]:
    """Give the exchanges that sort so many points, stage by stage.

    Source: Batcher, Sorting networks and their applications, 1968: merges of odd and even places.
    """
    half = 1
    while half < count:
        apart = half
        while apart:
            yield [
                (i + j, i + j + apart)
                for j in range(apart % half, count - apart, 2 * apart)
                for i in range(min(apart, count - j - apart))
                if (i + j) // (2 * half) == (i + j + apart) // (2 * half)
            ]
            apart //= 2
        half *= 2


def _exchanged(pairs: Iterable[tuple[int, int]], count: int, kept: Sequence[Arg]) -> tuple[Scalar, ...]:
    """Exchange points whose second ranks before the first; the state is of keys, or of keys and places."""
    made: list[Scalar] = list(kept)
    for i, j in pairs:
        if len(kept) == count:
            made[i], made[j] = (Binary(op, kept[i], kept[j]) for op in ("max", "min"))
            continue
        one, other = (kept[i], kept[count + i]), (kept[j], kept[count + j])
        made[i], made[count + i] = larger(one, other)
        made[j], made[count + j] = larger(one, other, smaller=True)
    return tuple(made)


def _value(key: Arg, kind: DType) -> Scalar:
    source, value_of = _KINDS[kind][2:]
    value = Custom(f"{kind}_of_key", source, ("key",), (key,), f32, value_of)
    return Select(_missing(key), Constant(-np.inf, f32), value)


def _place(key: Arg) -> Scalar:
    lower = Custom("place_of_key", "65535 - (key & 65535)", ("key",), (key,), i32, _place_of_key)
    return Select(_missing(key), Constant(i32.limits[1], i32), lower)


def _place_of_key(key: Array) -> Array:
    return (LAST - (np.asarray(key, np.int64) & LAST)).astype(np.int32)


def _missing(key: Arg) -> Scalar:
    return Binary("eq", key, Constant(LEAST, i32))
