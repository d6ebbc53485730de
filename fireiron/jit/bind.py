"""Check a call's arguments against a kernel's interface, and solve its sizes from shapes; no GPU is touched here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import attrs

from fireiron.algebra.dtypes import DType, e4m3, e5m2
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, SpecError
from fireiron.jit.arrays import ArrayFacts, share_elements, span
from fireiron.jit.expression import evaluate, names_in
from fireiron.jit.interface import Interface, NumberParameter, PointerParameter
from fireiron.jit.maps import recipes

SHARE = re.compile(r"\((\w+) // (\d+)\)")
MULTIPLE = re.compile(r"\((\d+) \* (\w+)\)")  # an extent that is a multiple of a size
MAX_GRID = 2**31 - 1


@attrs.frozen
class Binding:
    """Hold what a call's arguments decide, except addresses and scalars.

    Args:
        sizes: every symbol's value.
        grid: number of blocks.
        device: ordinal of the GPU, None where the arrays lie in host memory.
    """

    sizes: dict[str, int]
    grid: int
    device: int | None


def check_count(interface: Interface, inputs: int, outs: int) -> None:
    """Compare the numbers of arguments with the interface's.

    Raises:
        CallError: `wrong-count`.
    """
    wanted = [p.name for p in interface.inputs]
    if inputs != len(wanted):
        raise CallError(
            "wrong-count",
            f"{interface.entry} takes {len(wanted)} arrays ({', '.join(wanted)}), {inputs} were given",
            fix=f"call {interface.signature}",
        )
    if not wanted and not outs:
        raise CallError(
            "wrong-count",
            f"{interface.entry} takes no arrays, and nothing says where its result should lie",
            fix="pass the array to write as out=",
        )
    updated = [p.name for p in interface.outputs if p.role == "update"]
    if outs == 0 and updated:
        raise CallError(
            "wrong-count",
            f"{interface.entry} reads {', '.join(updated)} before writing, and no out was given",
            fix=f"pass the array that holds {', '.join(updated)} as out=",
        )
    if outs not in (0, len(interface.outputs)):
        names = ", ".join(p.name for p in interface.outputs)
        raise CallError(
            "wrong-count",
            f"{interface.entry} writes {len(interface.outputs)} arrays ({names}), {outs} were given as out",
            fix="pass one array for each, in this order",
        )


def solve(interface: Interface, arrays: Mapping[str, ArrayFacts], given: Mapping[str, int]) -> dict[str, int]:
    """Solve every size from the arrays' shapes and strides.

    Args:
        interface: the kernel's interface.
        arrays: the arrays by parameter name; outputs may be missing.
        given: sizes named in the call, for those that stand in no shape.

    Raises:
        CallError: `wrong-shape`, `size-mismatch`, `unknown-size`, `precondition`.
    """
    sizes = dict(given)
    witness = {name: "the call" for name in given}
    known = {s.name for s in interface.symbols}
    for pointer in interface.pointers:
        array = arrays.get(pointer.name)
        if array is None:
            continue
        if len(array.shape) != len(pointer.shape):
            raise CallError(
                "wrong-shape",
                f"{pointer.name} has {len(array.shape)} dimensions {array.shape}, the kernel takes {_shape(pointer)}",
                fix=f"reshape {pointer.name} to {_shape(pointer)}",
            )
        for axis, (text, value) in enumerate(zip(pointer.shape, array.shape, strict=True)):
            if text not in known:
                continue
            where = f"dimension {axis} of {pointer.name}"
            if sizes.setdefault(text, value) != value:
                raise CallError(
                    "size-mismatch",
                    f"{text} is {sizes[text]} in {witness[text]}, but {value} in {where}",
                    fix=f"pass arrays that agree on {text}",
                )
            witness.setdefault(text, where)
    # A leading dimension that is no extent of any array comes from the strides. The stride of a dimension of one
    # element says nothing.
    for pointer in interface.pointers:
        array = arrays.get(pointer.name)
        for axis, text in enumerate(pointer.strides):
            if array is not None and text in known and text not in sizes and array.shape[axis] > 1:
                sizes[text] = array.strides[axis]
                witness[text] = f"stride {axis} of {pointer.name}"
    # An array of packed elements has bytes for its extent, as many as the size, a multiple, divided by what they hold.
    for pointer in interface.pointers:
        array = arrays.get(pointer.name)
        for axis, text in enumerate(pointer.shape):
            share = SHARE.fullmatch(text)
            if array is not None and share is not None and share[1] in known and share[1] not in sizes:
                sizes[share[1]] = array.shape[axis] * int(share[2])
                witness[share[1]] = f"dimension {axis} of {pointer.name}, whose bytes hold {share[2]}"
    # An extent may be a multiple of a size; another extent is refused with the shape that it should have.
    for pointer in interface.pointers:
        array = arrays.get(pointer.name)
        for axis, text in enumerate(pointer.shape):
            times = MULTIPLE.fullmatch(text)
            if array is not None and times is not None and times[2] in known and times[2] not in sizes:
                sizes[times[2]] = array.shape[axis] // int(times[1])
                witness[times[2]] = f"dimension {axis} of {pointer.name}, {text}"
    missing = [s.name for s in interface.symbols if s.name not in sizes]
    if missing:
        raise CallError(
            "unknown-size",
            f"no array's shape determines {', '.join(missing)}",
            fix="pass " + ", ".join(f"{name}=..." for name in missing),
        )
    _check_sizes(interface, sizes, witness)
    return sizes


def told(interface: Interface) -> frozenset[str]:
    """List the sizes that follow from an array's shape: an extent is the size itself, or the size times a number."""
    texts = [text for pointer in interface.pointers for text in pointer.shape]
    return frozenset(texts) | {found[2] for found in map(MULTIPLE.fullmatch, texts) if found is not None}


def _check_sizes(interface: Interface, sizes: Mapping[str, int], witness: Mapping[str, str]) -> None:
    empty = {text for pointer in interface.outputs for text in pointer.shape}
    for symbol in interface.symbols:
        value = sizes[symbol.name]
        told = f"{symbol.name} is {value} in {witness.get(symbol.name, 'the call')}"
        if value % symbol.multiple_of:
            rounded = -(-value // symbol.multiple_of) * symbol.multiple_of
            raise CallError(
                "precondition",
                f"{told}, and must be a multiple of {symbol.multiple_of}",
                fix=f"pad it to {rounded}, or schedule it without multiple_of={symbol.multiple_of}",
            )
        if value == 0 and symbol.name in empty:  # nothing is written, and nothing launched
            continue
        if not symbol.minimum <= value <= symbol.maximum:
            raise CallError(
                "precondition",
                f"{told}, and must lie between {symbol.minimum} and {symbol.maximum}",
                fix=f"pass arrays whose {symbol.name} lies there",
            )
    for demand in interface.preconditions:
        if not evaluate(demand.condition, sizes):
            values = ", ".join(f"{name} = {sizes[name]}" for name in names_in(demand.condition) if name in sizes)
            raise CallError("precondition", f"{demand.message}{f' ({values})' if values else ''}", fix=demand.fix)


def check_array(pointer: PointerParameter, array: ArrayFacts, sizes: Mapping[str, int]) -> None:
    """Compare one array with its parameter, where all sizes are known.

    Raises:
        CallError: `wrong-dtype`, `wrong-shape`, `wrong-stride`, `read-only`.
    """
    name = pointer.name
    if not _holds(array.dtype, find_dtype(pointer.dtype)):
        kind = find_dtype(pointer.dtype)
        fix = f"{name}.astype({pointer.dtype!r})"
        if kind.packed:
            fix = f"{name} as uint8{_packing(kind)}"
        elif array.library == "torch":
            fix = f"{name}.to(torch.{kind.numpy_name})"
        elif kind in (e4m3, e5m2):
            fix = f"{name}.astype(ml_dtypes.{kind.numpy_name})"
        elif pointer.dtype != "bf16":
            fix = f"{name}.astype({kind.numpy_name!r})"
        raise CallError("wrong-dtype", f"{name} is {array.dtype}, the kernel takes {pointer.dtype}", fix=f"pass {fix}")
    shape = concrete(pointer.shape, sizes)
    if array.shape != shape:
        solved = "" if _shape(pointer) == _numbers(shape) else f" = {_numbers(shape)}"
        raise CallError(
            "wrong-shape",
            f"{name} is {_numbers(array.shape)}, the kernel takes {_shape(pointer)}{solved}",
            fix=f"pass an array of shape {shape}" + _packing(find_dtype(pointer.dtype)),
        )
    strides = concrete(pointer.strides, sizes)
    wrong = [i for i in range(len(shape)) if shape[i] > 1 and array.strides[i] != strides[i]]
    if wrong and 0 not in shape:
        raise CallError(
            "wrong-stride",
            f"{name} has element strides {array.strides}, the kernel takes {strides}",
            fix=f"pass {name}.contiguous() in this layout"
            if array.library == "torch"
            else f"pass a copy of {name} in this layout",
        )
    if pointer.role != "input" and not array.writable:
        raise CallError(
            "read-only", f"{name} is written, and its array is read-only", fix=f"pass a writable array for {name}"
        )


def check_address(pointer: PointerParameter, array: ArrayFacts) -> None:
    """Check an address against the alignment that the kernel's vector accesses rely on.

    Raises:
        CallError: `misaligned`.
    """
    if array.address % pointer.align:
        raise CallError(
            "misaligned",
            f"{pointer.name} starts at address {array.address:#x}, {array.address % pointer.align}"
            f" bytes past a multiple of {pointer.align}",
            fix=f"pass a copy of {pointer.name}, or a view that starts at a multiple of {pointer.align} bytes",
        )


def check_overlap(interface: Interface, arrays: Mapping[str, ArrayFacts]) -> None:
    """Check that no array that is written shares an element with another.

    Raises:
        CallError: `overlap`.
    """
    for out in interface.outputs:
        for other in interface.pointers:
            if other.name == out.name or other.name not in arrays or out.name not in arrays:
                continue
            a, b = arrays[out.name], arrays[other.name]
            sizes = find_dtype(out.dtype).nbytes, find_dtype(other.dtype).nbytes
            if ranges_meet(a, b, sizes) and share_elements(a, b, sizes):
                raise CallError(
                    "overlap",
                    f"{out.name}, which is written, overlaps {other.name}: "
                    f"{_range(a, sizes[0])} and {_range(b, sizes[1])}",
                    fix=f"pass an out that shares no memory with {other.name}",
                )


def ranges_meet(a: ArrayFacts, b: ArrayFacts, nbytes: tuple[int, int]) -> bool:
    """Say whether the address ranges of two arrays overlap."""
    ends = a.address + span(a.shape, a.strides) * nbytes[0], b.address + span(b.shape, b.strides) * nbytes[1]
    return a.address < ends[1] and b.address < ends[0]


def check_device(interface: Interface, arrays: Mapping[str, ArrayFacts]) -> int | None:
    """Find the one device that all arrays lie on, None for host memory.

    Raises:
        CallError: `wrong-device`.
    """
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.device != arrays[first].device:
            raise CallError(
                "wrong-device",
                f"{first} lies {_place(arrays[first])}, but {name} lies {_place(array)}",
                fix=f"move {name} to where {first} is",
            )
    return arrays[first].device if arrays else None


def bind(interface: Interface, arrays: Mapping[str, ArrayFacts], given: Mapping[str, int]) -> Binding:
    """Check all arguments of a call except addresses and scalars.

    Args:
        interface: the kernel's interface.
        arrays: the arrays by parameter name; outputs may be missing.
        given: sizes named in the call.

    Raises:
        CallError: see the functions of this file.
    """
    device = check_device(interface, arrays)
    # A wrong dtype is told before shapes: it is the commoner slip, and needs no sizes.
    sizes = solve(interface, arrays, given)
    for pointer in interface.pointers:
        if pointer.name in arrays:
            check_array(pointer, arrays[pointer.name], sizes)
    grid = evaluate(interface.grid, sizes)
    if grid > MAX_GRID:
        raise CallError(
            "precondition",
            f"the grid has {grid} blocks, more than the {MAX_GRID} that a launch may have",
            fix="use larger tiles, or fewer rows at a time",
        )
    if grid % interface.cluster:
        raise CallError(
            "precondition",
            f"the grid has {grid} blocks, no multiple of the {interface.cluster} of a cluster",
            fix="round the grid up to whole clusters, and guard the blocks without work",
        )
    if grid:
        recipes(interface, sizes)
    return Binding(sizes, grid, device)


def split_scalars(interface: Interface, scalars: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, float | int]]:
    """Split a call's keywords into sizes and the numbers that the kernel takes, defaults filled in.

    Raises:
        CallError: `unknown-argument`, `wrong-dtype`, `missing-scalar`.
    """
    symbols = {s.name for s in interface.symbols}
    numbers: dict[str, NumberParameter] = {n.name: n for n in interface.numbers}
    given: dict[str, int] = {}
    values: dict[str, float | int] = {}
    for name, value in scalars.items():
        if name in numbers:
            values[name] = _number(numbers[name], value)
        elif name in symbols and isinstance(value, Integral):
            given[name] = int(value)
        else:
            known = ", ".join([*numbers, *sorted(symbols)]) or "none"
            raise CallError(
                "unknown-argument", f"{interface.entry} takes no {name}={value!r}", fix=f"its keywords are: {known}"
            )
    for number in numbers.values():
        if number.name not in values:
            if number.default is None:
                raise CallError(
                    "missing-scalar", f"{interface.entry} needs {number.name}", fix=f"pass {number.name}=..."
                )
            values[number.name] = number.default
    return given, {name: values[name] for name in numbers}


def _number(parameter: NumberParameter, value: Any) -> float | int:
    wanted = find_dtype(parameter.dtype)
    if wanted.kind == "int":
        low, high = wanted.limits
        if isinstance(value, Integral) and low <= int(value) <= high:
            return int(value)
    elif isinstance(value, Real):
        return float(value)
    raise CallError(
        "wrong-dtype",
        f"{parameter.name} is {value!r}, the kernel takes a number of {wanted}",
        fix="pass a Python number",
    )


def concrete(texts: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Evaluate a shape or strides."""
    return tuple(evaluate(text, sizes) for text in texts)


def _holds(name: str, wanted: DType) -> bool:
    """Say whether an array's element type, by its library's name, can hold a dtype: tf32 lies in f32, i4 in bytes."""
    found = _dtype(name)
    if found is None:
        return False
    names = (wanted.numpy_name, "int8") if wanted.packed else (wanted.numpy_name,)
    return found == wanted or (found.numpy_name in names and not found.packed)


def _dtype(name: str) -> DType | None:
    try:
        return find_dtype(name)
    except SpecError:
        return None


def _packing(dtype: DType) -> str:
    return f", whose bytes hold {dtype.pack} elements of {dtype} each" if dtype.packed else ""


def _shape(pointer: PointerParameter) -> str:
    return "x".join(pointer.shape) if pointer.shape else "a scalar"


def _numbers(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) if shape else "a scalar"


def _place(array: ArrayFacts) -> str:
    return "in host memory" if array.device is None else f"on GPU {array.device}"


def _range(array: ArrayFacts, nbytes: int) -> str:
    return f"[{array.address:#x}, {array.address + span(array.shape, array.strides) * nbytes:#x})"
