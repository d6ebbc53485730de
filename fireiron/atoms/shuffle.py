"""Exchanges inside a warp: each lane reads a register of the lane that it names."""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import RF, Warp

_WORDS = {8: "unsigned long long", 4: "unsigned", 2: "unsigned short"}

_SHUFFLE = """\
__device__ __forceinline__ void shuffle_{n}B(void* dst, const void* src, int lane) {{
    *static_cast<{word}*>(dst) = __shfl_sync(0xffffffff, *static_cast<const {word}*>(src), lane);
}}
"""


def _row(nbytes: int) -> Atom:
    # (lane, byte) -> lane + 32 * byte: every lane owns one row of bytes.
    layout = Layout((32, nbytes), (1, 32))
    return Atom(
        name=f"shfl.idx.{nbytes}B",
        kind="Shuffle",
        shape=(0,),
        unit=Warp,
        operands=(
            Operand("src", RF, None, (32, nbytes), layout, "read"),
            Operand("dst", RF, None, (32, nbytes), layout, "write"),
        ),
        arch=70,
        source="PTX ISA, Data Movement and Conversion Instructions: shfl.sync",
        cuda=_SHUFFLE.format(n=nbytes, word=_WORDS[nbytes]),
        call=f"shuffle_{nbytes}B(&{{dst}}, &{{src}}, {{lane}});",
        nbytes=nbytes,
        clocks=8 if nbytes == 8 else 4,
    )


SHUFFLES: tuple[Atom, ...] = tuple(_row(n) for n in _WORDS)
