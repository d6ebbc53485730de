"""Loads from the shared memory of a block of the cluster, and sends to it, at the offset of this block's buffer.

A send is asynchronous: the receiving block's mbarrier counts its bytes as they land, and a thread that waits for the
mbarrier sees them. Neither side needs a fence, which would wait for all accesses of global memory in flight.

These rows are not in the table, since no Move needs them: elsewhere, memory SH is the block's own.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Flight, Operand
from fireiron.language.levels import RF, SH, Memory, Thread

SENDS_FLIGHT = Flight("mbarrier.sends", "sends")
_WORDS = {16: ("v4.u32", 4), 8: ("v2.u32", 2), 4: ("u32", 1)}

_LOAD = """\
__device__ __forceinline__ void load_peer_{n}B(void* dst, const void* src, int rank) {{
    unsigned* words = static_cast<unsigned*>(dst);
    asm volatile("{{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %{address}, %{rank}; "
        "ld.shared::cluster.{kind} {registers}, [remote]; }}"
        : {results} : "r"(shared_address(src)), "r"(rank) : "memory");
}}
"""

_SEND = """\
__device__ __forceinline__ void send_{n}B(void* dst, const void* src, unsigned long long* barrier, int rank) {{
    const unsigned* words = static_cast<const unsigned*>(src);
    asm volatile("{{ .reg .b32 place, counter; mapa.shared::cluster.u32 place, %0, %2; "
        "mapa.shared::cluster.u32 counter, %1, %2; "
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.{kind} [place], {registers}, [counter]; }}"
        : : "r"(shared_address(dst)), "r"(shared_address(barrier)), "r"(rank), {values} : "memory");
}}
"""


def _operand(role: str, memory: Memory, nbytes: int) -> Operand:
    """Describe one side; its elements are bytes, since the instruction copies any element type."""
    layout = Layout((1, nbytes), (0, 1))
    return Operand(role, memory, None, (1, nbytes), layout, "read" if role == "src" else "write")


def _load(nbytes: int) -> Atom:
    kind, words = _WORDS[nbytes]
    places = ", ".join(f"%{i}" for i in range(words))
    return Atom(
        name=f"ld.peer.{nbytes}B",
        kind="Move",
        shape=(0,),
        unit=Thread,
        operands=(_operand("src", SH, nbytes), _operand("dst", RF, nbytes)),
        arch=90,
        source="PTX ISA, Data Movement and Conversion Instructions: mapa, ld.shared::cluster",
        cuda=_LOAD.format(
            n=nbytes,
            kind=kind,
            address=words,
            rank=words + 1,
            registers=f"{{{places}}}" if words > 1 else places,
            results=", ".join(f'"=r"(words[{i}])' for i in range(words)),
        ),
        call=f"load_peer_{nbytes}B(&{{dst}}, &{{src}}, {{peer}});",
        nbytes=nbytes,
        peer=True,
        # As from the block's own shared memory: the longer latency is hidden by early loads.
        clocks=4 * words,
    )


def _send(nbytes: int) -> Atom:
    kind, words = _WORDS[nbytes]
    places = ", ".join(f"%{i + 3}" for i in range(words))
    return Atom(
        name=f"st.async.{nbytes}B",
        kind="Move",
        shape=(0,),
        unit=Thread,
        operands=(_operand("src", RF, nbytes), _operand("dst", SH, nbytes)),
        arch=90,
        source="PTX ISA, Data Movement and Conversion Instructions: mapa, st.async",
        cuda=_SEND.format(
            n=nbytes,
            kind=kind,
            registers=f"{{{places}}}" if words > 1 else places,
            values=", ".join(f'"r"(words[{i}])' for i in range(words)),
        ),
        call=f"send_{nbytes}B(&{{dst}}, &{{src}}, &{{signal}}, {{peer}});",
        nbytes=nbytes,
        peer=True,
        completion=SENDS_FLIGHT.name,
        clocks=4 * words,
    )


LOADS: tuple[Atom, ...] = tuple(map(_load, _WORDS))
SENDS: tuple[Atom, ...] = tuple(map(_send, _WORDS))
