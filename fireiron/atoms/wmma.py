"""wmma: a warp loads, multiplies and stores fragments whose layout the PTX ISA does not state.

Such a fragment is opaque: it matches only fragments of the same name. It may be filled with a value, and all its
elements may be changed by the same operation. The layouts in this file are stand-ins for the hardware's: they say how
many elements a thread holds, and let the simulator run; generated code must not depend on them.

A load or store takes the tile's first element and the distance of its rows or columns in memory.
"""

from __future__ import annotations

from itertools import product

import attrs

from fireiron.algebra.dtypes import DType, b1, bf16, f16, f32, i4, i8, i32, u4, u8
from fireiron.algebra.layout import Layout
from fireiron.atoms.mma import emulated
from fireiron.language.atom import Atom, Operand, Product
from fireiron.language.levels import FR, GL, SH, Memory, Warp

_SECTION = "PTX ISA 9.7.14.4, wmma"
_PTX = {f16: "f16", bf16: "bf16", f32: "f32", i8: "s8", u8: "u8", i32: "s32", i4: "s4", u4: "u4", b1: "b1"}
_SINCE = {f16: 70, i8: 72, u8: 72, bf16: 80, i4: 75, u4: 75, b1: 75}
_SUMS = {f16: (f32, f16), bf16: (f32,), i8: (i32,), u8: (i32,), i4: (i32,), u4: (i32,), b1: (i32,)}
_SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_ORDERS = ("row", "col")
_ALONG_K = {"A": ("row",), "B": ("col",)}  # of elements of fewer than 8 bits
WARP = 32
# A row in memory must start at a multiple of its fragment's bytes, at most 32, by the PTX ISA. For the distance of rows
# the CUDA programming guide (Warp matrix functions: ldm) asks for 16 bytes, and that is what its compiler keeps to.
_PITCH_NBYTES = 16


def _shapes(dtype: DType) -> tuple[tuple[int, int, int], ...]:
    """List (m, n, k) of the products of an element type."""
    return _SHAPES if dtype.pack == 1 else ((8, 8, 4 * dtype.count_in(4)),)


def _orders(role: str, dtype: DType) -> tuple[str, ...]:
    """List the orders in which an operand may lie in memory."""
    return _ORDERS if dtype.pack == 1 else _ALONG_K[role]


def _held(role: str, shape: tuple[int, int], dtype: DType) -> int:
    """Return the number of a fragment's elements in one thread; for fp16 factors several threads hold each element."""
    return 16 if dtype == f16 and role != "C" else shape[0] * shape[1] // WARP


def _stand_in(shape: tuple[int, int], order: str, held: int) -> Layout:
    """Make a stand-in layout: each thread holds `held` neighbours, and threads cover the tile line by line."""
    rows, cols = shape
    inner, step, outer = (cols, rows, 1) if order == "row" else (rows, 1, rows)
    threads = rows * cols // held
    copies = (WARP // threads, 0)
    if held <= inner:
        lines = (threads * held // inner, outer), (inner // held, step * held)
        return _layout((*lines, copies), ((held, step),))
    return _layout(((threads, outer * (held // inner)), copies), ((inner, step), (held // inner, outer)))


def _layout(threads: tuple[tuple[int, int], ...], registers: tuple[tuple[int, int], ...]) -> Layout:
    modes = [tuple(zip(*digits, strict=True)) for digits in (threads, registers)]
    return Layout((modes[0][0], modes[1][0]), (modes[0][1], modes[1][1]))


def _fragment(role: str, size: tuple[int, int, int], order: str, dtype: DType, access: str = "read") -> Operand:
    """Describe an opaque fragment; accumulators have no row or column order."""
    m, n, k = size
    shape = {"A": (m, k), "B": (k, n), "C": (m, n)}[role]
    name = f"wmma.{role}.{_size(size)}{'' if role == 'C' else '.' + order}.{dtype}"
    layout = _stand_in(shape, "row" if role == "C" else order, _held(role, shape, dtype))
    return Operand(role, FR, dtype, shape, layout, access, opaque=name)  # pyright: ignore[reportArgumentType]


def _size(size: tuple[int, int, int]) -> str:
    return "m{}n{}k{}".format(*size)


def _word(dtype: DType) -> tuple[str, str, int]:
    """Return the C type of a register, its asm constraint, and the number of elements in it."""
    if dtype == f32:
        return "float", "f", 1
    return ("int", "r", 1) if dtype == i32 else ("unsigned", "r", dtype.count_in(4))


def _list(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{i}" for i in range(first, first + count)) + "}"


def _move(role: str, size: tuple[int, int, int], order: str, dtype: DType, memory: Memory) -> Atom:
    """Describe a load of A or B, or a store of C."""
    fragment = _fragment(role, size, order, dtype)
    rows, cols = fragment.shape
    word, letter, packed = _word(dtype)
    count = fragment.registers // packed
    each = rows * cols // WARP
    kind, way = ("store", "d") if role == "C" else ("load", role.lower())
    instruction = f"wmma.{kind}.{way}.sync.aligned.{order}.{_size(size)}.{_PTX[dtype]}"
    function = f"wmma_{kind}_{way}_{_size(size)}_{order}_{dtype}"
    held = _list(0, count)
    operands = ", ".join(f'"{"" if role == "C" else "="}{letter}"(r[{i}])' for i in range(count))
    address, pitch = f"%{count}", f"%{count + 1}"
    place = '"l"(tile), "r"(pitch)'
    if role == "C":
        head = f"void {function}(void* tile, const void* registers, int pitch)"
        text = f"[{address}], {held}, {pitch}"
        lists = f': : {operands}, {place} : "memory"'
        start = f"const {word}* r = static_cast<const {word}*>(registers);"
    else:
        head = f"void {function}(void* registers, const void* tile, int pitch)"
        text = f"{held}, [{address}], {pitch}"
        lists = f": {operands} : {place}"
        start = f"{word}* r = static_cast<{word}*>(registers);"
    wrapper = f"""\
__device__ __forceinline__ {head} {{
    {start}
    asm volatile("{instruction} {text};"
        {lists});
}}
"""
    tile = Operand(
        "tile", memory, dtype, fragment.shape, _stand_in(fragment.shape, order, each),
        "write" if role == "C" else "read",
        align=min(32, dtype.nbytes_of(fragment.registers)), pitch=_PITCH_NBYTES,
    )  # fmt: skip
    src, dst = (fragment, tile) if role == "C" else (tile, fragment)
    names = "{dst.name} + {tile}, &{src}" if role == "C" else "&{dst}, {src.name} + {tile}"
    return Atom(
        name=f"wmma.{kind}.{role}.{_size(size)}.{order}.{dtype}.{memory}",
        kind="Move",
        shape=(rows * cols,),
        unit=Warp,
        operands=(_as(src, "src", "read"), _as(dst, "dst", "write")),
        arch=max(_SINCE.get(dtype, 70), 72 if dtype == i32 else 70),
        source=_SECTION + ".load" if kind == "load" else _SECTION + ".store",
        cuda=wrapper,
        call=f"{function}({names}, {{pitch}});",
        nbytes=dtype.nbytes_of(each),
        clocks=dtype.nbytes_of(rows * cols) / 16,
    )


def _as(operand: Operand, role: str, access: str) -> Operand:
    return attrs.evolve(operand, role=role, access=access)


def _product(
    size: tuple[int, int, int], a_order: str, b_order: str, inputs: DType, acc: DType, product: Product = "mul"
) -> Atom:
    """Describe a multiplication; `product` is the term that is summed, for bits `xor` or `and`."""
    a, b = _fragment("A", size, a_order, inputs), _fragment("B", size, b_order, inputs)
    c = _fragment("C", size, "", acc, "update")
    kinds = {f16: f"{acc}.{acc}", bf16: "f32.bf16.bf16.f32"}.get(inputs)
    if kinds is None:
        kinds = f"s32.{_PTX[inputs]}.{_PTX[inputs]}.s32"
    word, letter, packed = _word(acc)
    sums = c.registers // packed
    factors = [inputs.nbytes_of(o.registers) // 4 for o in (a, b)]
    d, left, right = _list(0, sums), _list(sums, factors[0]), _list(sums + factors[0], factors[1])
    counted, named = ("", "") if product == "mul" else (f"{product}.popc.", product)
    instruction = f"wmma.mma.{counted}sync.aligned.{a_order}.{b_order}.{_size(size)}.{kinds}"
    function = "_".join(["wmma", _size(size), a_order, b_order, str(acc), str(inputs), *filter(None, [named])])
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(sums))
    ins = ", ".join(f'"r"({x}[{i}])' for x, n in zip("ab", factors, strict=True) for i in range(n))
    # Of 16 and 8 bits those of two mma of half the width, which the compiler makes of it; sm_70 takes twice as long.
    clocks = 32 if inputs in (f16, bf16) else 16 if inputs.pack == 1 else 4
    return Atom(
        name=".".join(["wmma", _size(size), a_order, b_order, str(acc), str(inputs), *filter(None, [named])]),
        kind="MatMul",
        shape=size,
        unit=Warp,
        operands=(a, b, c),
        arch=80 if product == "and" else _SINCE[inputs],
        source=_SECTION + ".mma",
        cuda=f"""\
__device__ __forceinline__ void {function}(void* c_registers, const void* a_registers, const void* b_registers) {{
    {word}* d = static_cast<{word}*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("{instruction} {d}, {left}, {right}, {d};"
        : {outs}
        : {ins});
}}
""",
        call=f"{function}(&{{C}}, &{{A}}, &{{B}});",
        rounding="once",
        clocks=clocks,
        emulated=emulated(inputs, inputs, product, clocks),
        product=product,
    )


WMMA: tuple[Atom, ...] = tuple(
    _product(size, a, b, inputs, acc, term)
    for inputs, sums in _SUMS.items()
    for acc in sums
    for size in _shapes(inputs)
    for a, b in product(_orders("A", inputs), tuple(reversed(_orders("B", inputs))))
    for term in (("xor", "and") if inputs == b1 else ("mul",))
)
WMMA_MOVES: tuple[Atom, ...] = tuple(
    _move(role, size, order, dtype, memory)
    for role in ("A", "B")
    for dtype in _SINCE
    for size in _shapes(dtype)
    for order in _orders(role, dtype)
    for memory in (SH, GL)
) + tuple(
    _move("C", size, order, dtype, memory)
    for dtype in (f32, f16, i32)
    for size in (*_SHAPES, *((_shapes(i4) + _shapes(b1)) if dtype == i32 else ()))
    for order in _ORDERS
    for memory in (SH, GL)
)
