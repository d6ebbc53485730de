"""Tensor maps, which describe arrays to bulk copies: checked at the call, and encoded once for each address."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.base.errors import CallError
from fireiron.base.text import by
from fireiron.jit.expression import evaluate

if TYPE_CHECKING:
    from fireiron.jit.driver import Driver
    from fireiron.jit.interface import Interface, MapParameter, PointerParameter

NBYTES = 128  # of an encoded map
ALIGN = 64  # of the place where the driver encodes one
MOST_ADDRESSES = 256  # encoded maps that a plan keeps of one parameter

MAX_RANK = 5
MAX_BOX = 256  # elements along one dimension
MAX_PIXELS = 1024  # of a run in im2col mode
MAX_STEP = 8  # elements of which one is taken
MAX_EXTENT = 2**32
MAX_STRIDE = 2**40  # bytes
UNIT = 16  # bytes by which strides and the rows of a box are counted

# CUtensorMapDataType and the bytes of an element. Bytes of any meaning travel as UINT8; tf32 as FLOAT32, because
# TFLOAT32 would round what every other way into shared memory leaves to the instruction, which cuts.
# Source: CUDA driver API, cuTensorMapEncodeTiled.
TYPES = {
    "u8": (0, 1), "i8": (0, 1), "e4m3": (0, 1), "e5m2": (0, 1),
    "i32": (3, 4), "i64": (5, 8), "f16": (6, 2), "f32": (7, 4), "f64": (8, 8), "bf16": (9, 2), "tf32": (7, 4),
}  # fmt: skip
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
# CUtensorMapL2promotion: neighbouring boxes are read soon after, mostly by other blocks. Lines between the multiples of
# 128 bytes are in two lines of the cache, and with 256 bytes of each products took up to 1.25 times as long.
_L2_128B, _L2_256B = 2, 3
LINE = 128  # bytes of a line of the L2 cache


@attrs.frozen
class Recipe:
    """Hold all that encodes one tensor map, except the address.

    Args:
        name: name of the map.
        array: name of the array parameter.
        type: CUtensorMapDataType.
        extents: elements along each dimension, innermost first.
        strides: bytes from one index to the next, of every dimension but the innermost.
        box: elements of a box along each dimension.
        swizzle: CUtensorMapSwizzle.
        steps: along each dimension, the distance between the elements that a box takes.
        lower, upper: in im2col mode, corners of the pixels that copies visit, along the sides; () for boxes.
    """

    name: str
    array: str
    type: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    steps: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @property
    def promotion(self) -> int:
        """Return the CUtensorMapL2promotion: 128 bytes for long rows off the lines of the L2 cache, else 256 bytes.

        Short rows are read whole with their neighbours, for which 256 bytes are better.
        """
        long = not self.lower and bool(self.strides) and self.strides[0] >= 2 * LINE
        return _L2_128B if long and any(step % LINE for step in self.strides) else _L2_256B


def recipes(interface: Interface, sizes: Mapping[str, int]) -> tuple[Recipe, ...]:
    """Compute all tensor maps of a kernel, in launch order, and check the hardware's demands on the arrays.

    Raises:
        CallError: `map-type`, `map-rank`, `map-box`, `map-extent`, `map-stride`.
    """
    return tuple(_recipe(interface, p, sizes) for p in interface.maps)


def _recipe(interface: Interface, parameter: MapParameter, sizes: Mapping[str, int]) -> Recipe:
    pointer = next(p for p in interface.pointers if p.name == parameter.pointer)
    array, axes = pointer.name, parameter.axes
    if parameter.dtype not in TYPES or parameter.swizzle not in SWIZZLES:
        raise CallError(
            "map-type",
            f"a tensor map of {array} cannot have {parameter.dtype} with a swizzle of {parameter.swizzle} bytes",
            fix=f"use one of {', '.join(TYPES)} and a swizzle of 0, 32, 64 or 128 bytes",
        )
    kind, nbytes = TYPES[parameter.dtype]
    if not 1 <= len(axes) <= MAX_RANK:
        raise CallError(
            "map-rank",
            f"a tensor map has 1 to {MAX_RANK} dimensions, that of {array} {len(axes)}",
            fix=f"load {array} without bulk copies, or by fewer dimensions",
        )
    _check_box(parameter, array, nbytes)
    _check_merged(parameter, pointer, sizes)
    extents = tuple(evaluate(extent, sizes) for extent in parameter.extents(pointer.shape))
    strides = [evaluate(pointer.strides[axis], sizes) for axis in axes]
    for axis, extent in zip(axes, extents, strict=True):
        if not 1 <= extent <= MAX_EXTENT:
            raise CallError(
                "map-extent",
                f"dimension {axis} of {array} has {extent} elements, a bulk copy takes 1 to {MAX_EXTENT}",
                fix=f"pass an array whose dimension {axis} lies between these",
            )
    # The stride of one element is never stepped, so that any legal one will do.
    if strides[0] != 1 and extents[0] > 1:
        raise CallError(
            "map-stride",
            f"dimension {axes[0]} of {array} has an element stride of {strides[0]}, and bulk copies take rows of it",
            fix=f"pass {array} with dimension {axes[0]} contiguous",
        )
    steps: list[int] = []
    for axis, extent, stride in zip(axes[1:], extents[1:], strides[1:], strict=True):
        step = stride * nbytes if extent > 1 else UNIT
        if step % UNIT or not 0 < step < MAX_STRIDE:
            raise CallError(
                "map-stride",
                f"dimension {axis} of {array} has a stride of {stride} {parameter.dtype}, {step} bytes: "
                f"bulk copies need more than 0 and less than 2^40, and a multiple of {UNIT}",
                fix=f"pad {array} so that this stride is a multiple of {UNIT // nbytes} elements, "
                "or load it without bulk copies",
            )
        steps.append(step)
    swizzle = SWIZZLES[parameter.swizzle]
    corners = parameter.lower, parameter.upper
    return Recipe(parameter.name, array, kind, extents, tuple(steps), parameter.box, swizzle, parameter.steps, *corners)


def _check_merged(parameter: MapParameter, pointer: PointerParameter, sizes: Mapping[str, int]) -> None:
    """Refuse merged axes between which memory has gaps."""
    for run in parameter.runs:
        extents, strides = ([evaluate(texts[a], sizes) for a in run] for texts in (pointer.shape, pointer.strides))
        for i in range(len(run) - 1):
            if extents[i] > 1 and strides[i] != strides[i + 1] * extents[i + 1]:
                raise CallError(
                    "map-stride",
                    f"dimensions {run[i]} and {run[i + 1]} of {pointer.name} have strides of {strides[i]} and "
                    f"{strides[i + 1]} elements, and bulk copies take {extents[i + 1]} elements of the second to be "
                    "one of the first",
                    fix=f"pass {pointer.name} without gaps between these dimensions",
                )


def _check_box(parameter: MapParameter, array: str, nbytes: int) -> None:
    box, row = parameter.box, parameter.box[0] * nbytes
    problem = ""
    if len(box) != len(parameter.axes):
        problem = f"has {len(box)} dimensions, its map {len(parameter.axes)}"
    elif parameter.lower and not (1 <= box[0] <= MAX_BOX and 1 <= box[1] <= MAX_PIXELS):
        problem = f"must have 1 to {MAX_BOX} channels and 1 to {MAX_PIXELS} pixels"
    elif not parameter.lower and not all(1 <= extent <= MAX_BOX for extent in box):
        problem = f"must have 1 to {MAX_BOX} elements along each dimension"
    elif not all(1 <= step <= MAX_STEP for step in parameter.steps) or len(parameter.steps) not in (0, len(box)):
        problem = f"takes one of {parameter.steps} elements, which must be 1 to {MAX_STEP} along each dimension"
    elif row % UNIT:
        problem = f"has rows of {row} bytes, which must be a multiple of {UNIT}"
    elif parameter.swizzle and row > parameter.swizzle:
        problem = f"has rows of {row} bytes, more than its swizzle of {parameter.swizzle}"
    if problem:
        shown = by(box)
        raise CallError("map-box", f"the box {shown} of {array} {problem}", fix="load it by other tiles or swizzle")


class EncodedMaps(dict[int, bytes]):
    """Encode a tensor map for each address once: `maps[address]`."""

    def __init__(self, recipe: Recipe, driver: Driver) -> None:
        super().__init__()
        self.recipe = recipe
        self.encode = driver.encode_windows if recipe.lower else driver.encode_map
        rank = len(recipe.extents)
        extents = (ctypes.c_uint64 * rank)(*recipe.extents)
        strides = (ctypes.c_uint64 * rank)(*recipe.strides)  # the driver reads rank - 1 of them
        box = (ctypes.c_uint32 * rank)(*recipe.box)
        steps = (ctypes.c_uint32 * rank)(*(recipe.steps or (1,) * rank))
        shape: tuple[Any, ...] = (box,)
        if recipe.lower:
            sides = rank - 2
            corners = ((ctypes.c_int * sides)(*corner) for corner in (recipe.lower, recipe.upper))
            shape = (*corners, ctypes.c_uint32(recipe.box[0]), ctypes.c_uint32(recipe.box[1]))
        # No interleaving; elements outside the array read as zero.
        self.facts: tuple[Any, ...] = (extents, strides, *shape, steps, 0, recipe.swizzle, recipe.promotion, 0)

    def __missing__(self, address: int) -> bytes:
        room = (ctypes.c_char * (NBYTES + ALIGN))()
        skipped = -ctypes.addressof(room) % ALIGN
        place = ctypes.c_void_p(ctypes.addressof(room) + skipped)
        recipe = self.recipe
        code = self.encode(place, recipe.type, len(recipe.extents), ctypes.c_void_p(address), *self.facts)
        if code:
            raise CallError(
                "map-refused",
                f"the CUDA driver refuses the tensor map {recipe.name} of {recipe.array} with error {code}: address "
                f"{address:#x}, extents {recipe.extents}, strides {recipe.strides} bytes, box {recipe.box}",
                fix=f"pass a copy of {recipe.array}, or load it without bulk copies",
            )
        if len(self) >= MOST_ADDRESSES:
            self.clear()
        made = self[address] = room.raw[skipped : skipped + NBYTES]
        return made
