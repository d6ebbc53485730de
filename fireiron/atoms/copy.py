"""Moves of one thread: 1 to 16 aligned bytes at once, between any two memories that a thread can access.

Loads from global memory to registers also have rows with a hint to the L1 cache.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import attrs

from fireiron.algebra.layout import Layout
from fireiron.language.atom import LOAD_POLICIES, Atom, LoadPolicy, Operand
from fireiron.language.levels import GL, RF, SH, Memory, Thread

_VECTORS = {16: "uint4", 8: "uint2", 4: "unsigned", 2: "unsigned short", 1: "unsigned char"}
_MEMORIES = (GL, SH, RF)
FAMILY = "ld.global"  # names of loads with a hint start so
# The registers of a load: type, list of operands, constraints of their variables, and the type that holds a byte.
_REGISTERS = {
    16: ("v4.b32", "{{%0, %1, %2, %3}}", tuple(f'"+r"(value.{x})' for x in "xyzw"), "uint4"),
    8: ("v2.b32", "{{%0, %1}}", tuple(f'"+r"(value.{x})' for x in "xy"), "uint2"),
    4: ("b32", "%0", ('"+r"(value)',), "unsigned"),
    2: ("b16", "%0", ('"+h"(value)',), "unsigned short"),
    1: ("b8", "%0", ('"+h"(value)',), "unsigned short"),
}

_COPY = """\
__device__ __forceinline__ void copy_{n}B(void* dst, const void* src) {{
    *static_cast<{vector}*>(dst) = *static_cast<const {vector}*>(src);
}}
"""

_COPY_OR_ZERO = """\
__device__ __forceinline__ void copy_or_zero_{n}B(void* dst, const void* src, bool read) {{
    {vector} value = {{}};
    if (read) value = *static_cast<const {vector}*>(src);
    *static_cast<{vector}*>(dst) = value;
}}
"""

_LOAD = """\
__device__ __forceinline__ void ld_{policy}_{n}B(void* dst, const void* src) {{
    {register} value = {{}};
    asm volatile("ld.global.L1::{policy}.{kind} {list}, [%{address}];"
        : {outs} : "l"(__cvta_generic_to_global(src)) : "memory");
    *static_cast<{vector}*>(dst) = value;
}}
"""

_LOAD_OR_ZERO = """\
__device__ __forceinline__ void ld_{policy}_or_zero_{n}B(void* dst, const void* src, bool read) {{
    {register} value = {{}};
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{read}, 0; @p ld.global.L1::{policy}.{kind} {list}, [%{address}]; }}"
        : {outs} : "l"(__cvta_generic_to_global(src)), "r"((int)read) : "memory");
    *static_cast<{vector}*>(dst) = value;
}}
"""


def _operand(role: str, memory: Memory, nbytes: int, access: Literal["read", "write"]) -> Operand:
    """Describe one side; its elements are bytes, since the instruction copies any element type."""
    return Operand(
        role=role,
        memory=memory,
        dtype=None,
        shape=(1, nbytes),
        layout=Layout((1, nbytes), (0, 0 if nbytes == 1 else 1)),
        access=access,
    )


def _row(nbytes: int, src: Memory, dst: Memory) -> Atom:
    vector = _VECTORS[nbytes]
    words = max(1, nbytes // 4)
    return Atom(
        name=f"copy.{nbytes}B.{src}.{dst}",
        kind="Move",
        shape=(0,),
        unit=Thread,
        operands=(_operand("src", src, nbytes, "read"), _operand("dst", dst, nbytes, "write")),
        arch=70,
        source="PTX ISA, Data Movement and Conversion Instructions: ld, st, mov",
        cuda=_COPY.format(n=nbytes, vector=vector),
        call=f"copy_{nbytes}B(&{{dst}}, &{{src}});",
        guarded_cuda=_COPY_OR_ZERO.format(n=nbytes, vector=vector),
        guarded_call=f"copy_or_zero_{nbytes}B(&{{dst}}, &{{src}}, {{read}});",
        nbytes=nbytes,
        # A sub-partition moves 8 lanes a clock to and from memory, a word each; between registers it moves 32.
        clocks=words * (1 if src.registers and dst.registers else 4 * ((not src.registers) + (not dst.registers))),
    )


COPIES: tuple[Atom, ...] = tuple(_row(n, src, dst) for n in _VECTORS for src in _MEMORIES for dst in _MEMORIES)


def _load(nbytes: int, policy: LoadPolicy) -> Atom:
    """Describe a load with a hint to the L1 cache; the predicate of its guarded form leaves no branch."""
    kind, registers, outs, register = _REGISTERS[nbytes]
    fields = {
        "n": nbytes, "policy": policy, "kind": kind, "list": registers.format(), "outs": ", ".join(outs),
        "register": register, "vector": _VECTORS[nbytes], "address": len(outs), "read": len(outs) + 1,
    }  # fmt: skip
    return attrs.evolve(
        _row(nbytes, GL, RF),
        name=f"{FAMILY}.{policy}.{nbytes}B",
        source="PTX ISA, Data Movement and Conversion Instructions: ld, .level1::eviction_priority",
        cuda=_LOAD.format(**fields),
        call=f"ld_{policy}_{nbytes}B(&{{dst}}, &{{src}});",
        guarded_cuda=_LOAD_OR_ZERO.format(**fields),
        guarded_call=f"ld_{policy}_or_zero_{nbytes}B(&{{dst}}, &{{src}}, {{read}});",
    )


@cache
def loads() -> tuple[Atom, ...]:
    """List the loads with a hint to the L1 cache, which are made when they are needed."""
    return tuple(_load(nbytes, policy) for policy in LOAD_POLICIES for nbytes in _VECTORS)
