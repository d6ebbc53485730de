"""cp.async: one thread starts a copy from global to shared memory and continues; it waits later for a group of copies.

The copy may land at any time until its group is waited for. After the wait, only the issuing thread sees it: other
threads need a barrier after the wait.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Flight, Operand
from fireiron.language.levels import GL, SH, Thread

_HELPERS = (
    (
        "cp_async_commit",
        """\
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}
""",
    ),
    (
        "cp_async_wait",
        """\
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}
""",
    ),
)

FLIGHT = Flight("cp.async", "copies", _HELPERS)


def _row(nbytes: int) -> Atom:
    # Only copies of 16 bytes can bypass the L1 cache, which is useless here, since no line is read twice.
    cache = "cg" if nbytes == 16 else "ca"
    address = "static_cast<unsigned>(__cvta_generic_to_shared(dst))"
    wrapper = f"""\
__device__ __forceinline__ void cp_async_{nbytes}B(void* dst, const void* src) {{
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {nbytes};" : : "r"({address}), "l"(src) : "memory");
}}
"""
    guarded = f"""\
__device__ __forceinline__ void cp_async_or_zero_{nbytes}B(void* dst, const void* src, bool read) {{
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {nbytes}, %2;"
        : : "r"({address}), "l"(src), "r"(read ? {nbytes} : 0) : "memory");
}}
"""
    masked = f"""\
__device__ __forceinline__ void cp_async_if_{nbytes}B(void* dst, const void* src, bool write) {{
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.{cache}.shared.global [%0], [%1], {nbytes}; }}"
        : : "r"({address}), "l"(src), "r"((int)write) : "memory");
}}
"""
    places = Layout((1, nbytes), (0, 1))
    return Atom(
        name=f"cp.async.{nbytes}B",
        kind="Move",
        shape=(0,),
        unit=Thread,
        operands=(
            Operand("src", GL, None, (1, nbytes), places),
            Operand("dst", SH, None, (1, nbytes), places, "write"),
        ),
        arch=80,
        source="PTX ISA 9.7.9.25.3.1, cp.async",
        cuda=wrapper,
        call=f"cp_async_{nbytes}B(&{{dst}}, &{{src}});",
        guarded_cuda=guarded,
        guarded_call=f"cp_async_or_zero_{nbytes}B(&{{dst}}, &{{src}}, {{read}});",
        masked_cuda=masked,
        masked_call=f"cp_async_if_{nbytes}B(&{{dst}}, &{{src}}, {{write}});",
        nbytes=nbytes,
        completion=FLIGHT.name,
        clocks=nbytes,
    )


CP_ASYNC: tuple[Atom, ...] = tuple(_row(n) for n in (16, 8, 4))
