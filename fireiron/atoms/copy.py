"""Moves of one thread: 1 to 16 aligned bytes at once, between any two memories that a thread can access."""

from __future__ import annotations

from typing import Literal

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import GL, RF, SH, Memory, Thread

_VECTORS = {16: "uint4", 8: "uint2", 4: "unsigned", 2: "unsigned short", 1: "unsigned char"}
_MEMORIES = (GL, SH, RF)

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
