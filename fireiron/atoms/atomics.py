"""Atomic additions: registers are added to global memory, each element atomically, in no fixed order."""

from __future__ import annotations

from fireiron.algebra.dtypes import DType, bf16, f16, f32, f64, i32, i64
from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import GL, RF, Thread


def _cuda(dtype: DType, count: int) -> str:
    """Return CUDA of a function that adds neighbouring elements; a register has two of 16 bits, or one of 32."""
    kind, each = str(dtype), 1 if dtype == f32 else min(2, count)
    words = count // each
    wide, sign = f".v{words}" if words > 1 else "", "f" if dtype == f32 else "r" if each == 2 else "h"
    what = f"add{wide}.f32" if dtype == f32 else f"add.noftz{wide}.{kind}{'x2' if each == 2 else ''}"
    word = {"f": "float", "r": "unsigned", "h": "unsigned short"}[sign]
    places = ", ".join(f"%{i + 1}" for i in range(words))
    given = ", ".join(f'"{sign}"(words[{i}])' for i in range(words))
    return (
        f"__device__ __forceinline__ void add_{kind}x{count}(void* dst, const void* src) {{\n"
        f"    const {word}* words = static_cast<const {word}*>(src);\n"
        f'    asm volatile("red.global.{what} [%0], {"{" + places + "}" if words > 1 else places};"\n'
        f'        : : "l"(__cvta_generic_to_global(dst)), {given} : "memory");\n}}\n'
    )


_ADD_I64 = """\
__device__ __forceinline__ void add_i64(long long* dst, long long src) {
    atomicAdd(reinterpret_cast<unsigned long long*>(dst), static_cast<unsigned long long>(src));
}
"""


def _row(name: str, dtype: DType, count: int, call: str, cuda: str = "", arch: int = 70) -> Atom:
    layout = Layout((1, count), (0, 0 if count == 1 else 1))
    return Atom(
        name=name,
        kind="Add",
        shape=(count,),
        unit=Thread,
        operands=(
            Operand("src", RF, dtype, (1, count), layout, "read"),
            Operand("dst", GL, dtype, (1, count), layout, "update"),
        ),
        arch=arch,
        source="PTX ISA, Parallel Synchronization and Communication Instructions: red",
        cuda=cuda,
        call=call,
        # As a store of the same bytes; the L2 cache adds.
        clocks=4 * max(1, count * dtype.nbytes // 4),
    )


def _vector(dtype: DType, count: int, arch: int) -> Atom:
    call = f"add_{dtype}x{count}(&{{dst}}, &{{src}});"
    name = f"red.add.{dtype}" if count == 1 else f"red.add.{dtype}x{count}"
    return _row(name, dtype, count, call, _cuda(dtype, count), arch)


ATOMICS: tuple[Atom, ...] = (
    _vector(f32, 4, 90),
    _vector(f32, 2, 90),
    _row("red.add.f32", f32, 1, "atomicAdd(&{dst}, {src});"),
    _row("red.add.f64", f64, 1, "atomicAdd(&{dst}, {src});"),
    _row("red.add.i32", i32, 1, "atomicAdd(&{dst}, {src});"),
    # Of u64: a sum of two's complements has the same bits.
    _row("red.add.i64", i64, 1, "add_i64(&{dst}, {src});", _ADD_I64),
    *(_vector(kind, count, 90) for kind in (f16, bf16) for count in (8, 4)),
    *(_vector(f16, count, 70) for count in (2, 1)),
    *(_vector(bf16, count, 90) for count in (2, 1)),
)
