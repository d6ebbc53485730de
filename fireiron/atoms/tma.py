"""TMA: one thread starts the copy of a whole box between global and shared memory; a tensor map describes the tensor.

Elements outside the tensor are loaded as zero, and not stored. An mbarrier counts a load's bytes as they land, in every
block of the cluster that the load writes to. A store belongs to the thread's bulk group.

Each instruction may have a hint: how long the L2 cache should keep the accessed lines. The copied data are the same.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from fireiron.algebra.dtypes import bf16, f16, f32, i32
from fireiron.algebra.layout import Layout
from fireiron.language.atom import POLICIES, SPANS, Atom, Flight, Operand, Policy
from fireiron.language.levels import GL, SH, Memory, Thread

_HELPERS = (
    (
        "bulk_commit",
        """\
__device__ __forceinline__ void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}
""",
    ),
    (
        "bulk_wait",
        """\
template <int pending>
__device__ __forceinline__ void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" : : "n"(pending) : "memory");
}
""",
    ),
    (
        "bulk_wait_read",
        """\
template <int pending>
__device__ __forceinline__ void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(pending) : "memory");
}
""",
    ),
)
STORES = Flight("bulk", "stores", _HELPERS)
LOADS = Flight("mbarrier", "loads")
ADDED = (f16, bf16, f32, i32)  # element types that stores may add
FAMILY = "tma."
RANKS = (2, 3, 4, 5)
WINDOW_RANKS = (3, 4, 5)  # of images with channels: lines, images, volumes
_SECTION = "PTX ISA 9.7.9.27.1, cp.async.bulk.tensor"
_HINT_SECTION = f"{_SECTION}: .level::cache_hint; createpolicy.fractional"
_SHARED = "static_cast<unsigned>(__cvta_generic_to_shared({}))"


def _coordinates(rank: int) -> tuple[str, str]:
    """Return the coordinate parameters of a wrapper, and their asm constraints."""
    return ", ".join(f"int c{i}" for i in range(rank)), ", ".join(f'"r"(c{i})' for i in range(rank))


def _places(rank: int, first: int) -> str:
    return ", ".join(f"%{first + i}" for i in range(rank))


def _policy(word: Policy) -> str:
    """Write the function that makes an L2 policy for all accessed lines; ptxas folds it into a constant."""
    return f"""\
__device__ __forceinline__ unsigned long long l2_{word}() {{
    unsigned long long policy;
    asm("createpolicy.fractional.L2::{word}.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}}
"""


def _hint(hinted: bool, place: int) -> tuple[str, str, str, str, str]:
    """Return a hint's additions to a wrapper's name, parameters, instruction, asm operands and constraints."""
    if not hinted:
        return "", "", "", "", ""
    return "_hinted", ", unsigned long long policy", ".L2::cache_hint", f", %{place}", ', "l"(policy)'


def _load(rank: int, peers: bool, hinted: bool) -> str:
    parameters, values = _coordinates(rank)
    multicast = ".multicast::cluster" if peers else ""
    mask, mask_place, mask_value = ", unsigned short peers", f", %{3 + rank}", ', "h"(peers)'
    if not peers:
        mask = mask_place = mask_value = ""
    name, policy, hint, policy_place, policy_value = _hint(hinted, 3 + rank + peers)
    return f"""\
__device__ __forceinline__ void tma_load_{rank}d{"_multicast" if peers else ""}{name}(
    void* dst, const TensorMap* map, unsigned long long* barrier{mask}{policy}, {parameters}) {{
    asm volatile(
        "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{multicast}{hint} "
        "[%0], [%1, {{{_places(rank, 3)}}}], [%2]{mask_place}{policy_place};"
        : : "r"({_SHARED.format("dst")}), "l"(map), "r"({_SHARED.format("barrier")}),
            {values}{mask_value}{policy_value} : "memory");
}}
"""


def _load_windows(rank: int, peers: bool, hinted: bool) -> str:
    """Write the wrapper of the load of a run of pixels; its last parameters are the offsets of a tap."""
    offsets = rank - 2
    parameters, values = _coordinates(rank)
    parameters += "".join(f", unsigned short o{i}" for i in range(offsets))
    taps = "".join(f', "h"(o{i})' for i in range(offsets))
    behind = 3 + rank + offsets
    mask, multicast, mask_place, mask_value = "", "", "", ""
    if peers:
        mask, multicast = ", unsigned short peers", ".multicast::cluster"
        mask_place, mask_value = f", %{behind}", ', "h"(peers)'
    name, policy, hint, policy_place, policy_value = _hint(hinted, behind + peers)
    return f"""\
__device__ __forceinline__ void tma_load_{rank}d_im2col{"_multicast" if peers else ""}{name}(
    void* dst, const TensorMap* map, unsigned long long* barrier{mask}{policy}, {parameters}) {{
    asm volatile(
        "cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes{multicast}{hint} "
        "[%0], [%1, {{{_places(rank, 3)}}}], [%2], {{{_places(offsets, 3 + rank)}}}{mask_place}{policy_place};"
        : : "r"({_SHARED.format("dst")}), "l"(map), "r"({_SHARED.format("barrier")}),
            {values}{taps}{mask_value}{policy_value} : "memory");
}}
"""


def _store(rank: int, add: bool, hinted: bool) -> str:
    parameters, values = _coordinates(rank)
    form, operation = ("cp.reduce.async.bulk.tensor", ".add") if add else ("cp.async.bulk.tensor", "")
    name, policy, hint, place, value = _hint(hinted, 2 + rank)
    group = f"{operation}.bulk_group{hint}"
    return f"""\
__device__ __forceinline__ void tma_{"add" if add else "store"}_{rank}d{name}(
    const TensorMap* map, const void* src{policy}, {parameters}) {{
    asm volatile(
        "{form}.{rank}d.global.shared::cta{group} [%0, {{{_places(rank, 2)}}}], [%1]{place};"
        : : "l"(map), "r"({_SHARED.format("src")}), {values}{value} : "memory");
}}
"""


def _row(
    what: Literal["load", "store", "add"], rank: int, span: int, peers: bool = False, policy: Policy | None = None,
    windows: bool = False,
) -> Atom:  # fmt: skip
    whole = Layout((1, 1), (0, 0))
    memories: tuple[Memory, Memory] = (GL, SH) if what == "load" else (SH, GL)
    src, dst = memories
    access: Literal["write", "update"] = "update" if what == "add" else "write"
    hinted = policy is not None
    form = "_im2col" if windows else ""
    call = f"tma_{what}_{rank}d{form}{'_multicast' if peers else ''}{'_hinted' if hinted else ''}"
    mask = ", {peers}" if peers else ""
    hint = f", l2_{policy}()" if hinted else ""
    arguments = f"&{{dst}}, &{{map}}, &{{signal}}{mask}" if what == "load" else "&{map}, &{src}"
    offsets = "".join(f", {{offset{i}}}" for i in range(rank - 2)) if windows else ""
    load = _load_windows if windows else _load
    wrapper = load(rank, peers, hinted) if what == "load" else _store(rank, what == "add", hinted)
    return Atom(
        name=f"tma.{what}.{rank}d{form.replace('_', '.')}.{span}B{f'.{policy}' if hinted else ''}"
        f"{'.multicast' if peers else ''}",
        kind="Move",
        shape=(0,),
        unit=Thread,
        operands=(
            Operand("src", src, None, (1, 1), whole, span=span if src == SH else 0),
            Operand("dst", dst, None, (1, 1), whole, access, span=span if dst == SH else 0),
        ),
        arch=90,
        source=_HINT_SECTION if hinted else _SECTION,
        cuda=wrapper if policy is None else _policy(policy) + wrapper,
        call=f"{call}({arguments}{hint}, {{coordinates}}{offsets});",
        completion=(LOADS if what == "load" else STORES).name,
        rank=rank,
        hint=policy or "",
        multicast=peers,
        windows=windows,
        adding=ADDED if what == "add" else (),
        clocks=1.0,
    )


def _rows(policy: Policy | None) -> tuple[Atom, ...]:
    """List the rows of one L2 policy; each load to one block stands before its multicast variant."""
    return (
        *(_row("load", rank, span, peers, policy) for rank in RANKS for span in SPANS for peers in (False, True)),
        *(
            _row("load", rank, span, peers, policy, windows=True)
            for rank in WINDOW_RANKS
            for span in SPANS
            for peers in (False, True)
        ),
        *(_row(what, rank, span, policy=policy) for what in ("store", "add") for rank in RANKS for span in SPANS),
    )


TMA: tuple[Atom, ...] = _rows(None)


@cache
def hinted() -> tuple[Atom, ...]:
    """List the rows with an L2 hint, which are made when they are needed; names end with the policy."""
    return tuple(row for policy in POLICIES for row in _rows(policy))
