"""TMA: one thread starts the copy of a whole box between global and shared memory, as a tensor map describes it.

What lies outside the tensor reads as zero, and is not written. A load's bytes are counted by an mbarrier as they land,
in every block of the cluster that it is sent to; a store belongs to the thread's bulk group.
"""

from __future__ import annotations

from typing import Literal

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import GL, SH, Memory, Thread

GROUP = "bulk"
SPANS = (128, 64, 32, 0)
_SECTION = "PTX ISA 9.7.9.27.1, cp.async.bulk.tensor"
_SHARED = "static_cast<unsigned>(__cvta_generic_to_shared({}))"


def _coordinates(rank: int) -> tuple[str, str]:
    """Give the parameters of a wrapper, and their constraints."""
    return ", ".join(f"int c{i}" for i in range(rank)), ", ".join(f'"r"(c{i})' for i in range(rank))


def _places(rank: int, first: int) -> str:
    return ", ".join(f"%{first + i}" for i in range(rank))


def _load(rank: int, peers: bool) -> str:
    parameters, values = _coordinates(rank)
    multicast = ".multicast::cluster" if peers else ""
    mask, mask_place, mask_value = ", unsigned short peers", f", %{3 + rank}", ', "h"(peers)'
    if not peers:
        mask = mask_place = mask_value = ""
    return f"""\
__device__ __forceinline__ void tma_load_{rank}d{"_multicast" if peers else ""}(
    void* dst, const TensorMap* map, unsigned long long* barrier{mask}, {parameters}) {{
    asm volatile(
        "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{multicast} "
        "[%0], [%1, {{{_places(rank, 3)}}}], [%2]{mask_place};"
        : : "r"({_SHARED.format("dst")}), "l"(map), "r"({_SHARED.format("barrier")}),
            {values}{mask_value} : "memory");
}}
"""


def _store(rank: int, add: bool) -> str:
    parameters, values = _coordinates(rank)
    form = "cp.reduce.async.bulk.tensor" if add else "cp.async.bulk.tensor"
    return f"""\
__device__ __forceinline__ void tma_{"add" if add else "store"}_{rank}d(
    const TensorMap* map, const void* src, {parameters}) {{
    asm volatile(
        "{form}.{rank}d.global.shared::cta{".add" if add else ""}.bulk_group [%0, {{{_places(rank, 2)}}}], [%1];"
        : : "l"(map), "r"({_SHARED.format("src")}), {values} : "memory");
}}
"""


def _row(what: Literal["load", "store", "add"], rank: int, span: int, peers: bool = False) -> Atom:
    whole = Layout((1, 1), (0, 0))
    memories: tuple[Memory, Memory] = (GL, SH) if what == "load" else (SH, GL)
    src, dst = memories
    access: Literal["write", "update"] = "update" if what == "add" else "write"
    call = f"tma_{what}_{rank}d{'_multicast' if peers else ''}"
    mask = ", {peers}" if peers else ""
    arguments = f"&{{dst}}, &{{map}}, &{{signal}}{mask}" if what == "load" else "&{map}, &{src}"
    return Atom(
        name=f"tma.{what}.{rank}d.{span}B{'.multicast' if peers else ''}",
        kind="Move",
        shape=(0,),
        unit=Thread,
        operands=(
            Operand("src", src, None, (1, 1), whole, span=span if src == SH else 0),
            Operand("dst", dst, None, (1, 1), whole, access, span=span if dst == SH else 0),
        ),
        arch=90,
        source=_SECTION,
        cuda=_load(rank, peers) if what == "load" else _store(rank, what == "add"),
        call=f"{call}({arguments}, {{coordinates}});",
        completion="mbarrier" if what == "load" else GROUP,
        clocks=1.0,
    )


TMA: tuple[Atom, ...] = (
    *(_row("load", rank, span, peers) for rank in (2, 3, 4, 5) for span in SPANS for peers in (False, True)),
    *(_row(what, rank, span) for what in ("store", "add") for rank in (2, 3, 4, 5) for span in SPANS),
)
