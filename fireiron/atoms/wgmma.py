"""wgmma: a warpgroup multiplies two tiles in shared memory asynchronously, with sums in registers (sm_90a).

Operands in shared memory are given by descriptors: the tile's first address, and the swizzle of its rows. K-major
operands lie in rows of `span` bytes of K; 16-bit ones may also be MN-major, in panels of `span` bytes of M or N.
"""

from __future__ import annotations

from functools import cache

from fireiron.algebra.dtypes import DType, bf16, e4m3, e5m2, f16, f32, i8, i32, tf32, u8
from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Flight, Operand
from fireiron.language.levels import FR, SH, Warpgroup

FAMILY = "wgmma"
_HELPERS = (
    (
        "wgmma_fence",
        """\
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
""",
    ),
    (
        "wgmma_commit",
        """\
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}
""",
    ),
    (
        "wgmma_wait",
        """\
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}
""",
    ),
)
FLIGHT = Flight("wgmma", "products", _HELPERS)
FENCE = ("registers", "wgmma_fence")  # kind of the fence before it, and the function
ROWS = 64
KEPT_OF_FP8 = 13  # measured on an H200: sums of 8-bit floats are cut below so many bits of the largest addend
ARCH = 90  # alone: its `a` target, and no later one (PTX ISA, target notes of wgmma)
_SECTION = "PTX ISA 9.7.15.5, wgmma.mma_async"
_PTX = {
    f16: "f16", bf16: "bf16", f32: "f32", tf32: "tf32", e4m3: "e4m3", e5m2: "e5m2", i8: "s8", u8: "u8", i32: "s32",
}  # fmt: skip

# Source: PTX ISA 9.7.15.5.1.2.2, matrix descriptor. A panel's place is the part of an address that changes at run
# time, `shift` bytes the part that does not: it is added to the field itself.
DESCRIPTOR = """\
template <int mode, int lead, int stride>
__device__ __forceinline__ unsigned long long wgmma_operand(const void* panel, unsigned shift) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(panel));
    const unsigned low = (((address & 0x3ffff) >> 4) + (shift >> 4)) | (lead >> 4) << 16;
    const unsigned high = (stride >> 4) | mode << 30;
    unsigned long long operand;
    asm("mov.b64 %0, {%1, %2};" : "=l"(operand) : "r"(low), "r"(high));
    return operand;
}
"""


def _wrapper(name: str, n: int, inputs: DType, acc: DType, held: bool) -> str:
    """Write the inline function of one width; `held` says that A is in registers."""
    k = 32 // inputs.nbytes
    registers = n // 4 if acc == f16 else n // 2
    letter, c_type = ("f", "float") if acc == f32 else ("r", "unsigned")
    places = ", ".join(f"%{i}" for i in range(registers))
    at = registers
    a = "{" + ", ".join(f"%{at + i}" for i in range(4)) + "}" if held else f"%{at}"
    at += 4 if held else 1
    majors = ([] if held else ["a_major"]) + ["b_major"]
    transposes = inputs.nbytes == 2
    tail = "p"
    if inputs not in (i8, u8):
        tail += ", 1, 1"
    if transposes:
        tail += "".join(f", %{at + 2 + i}" for i in range(len(majors)))
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(registers))
    a_in = ", ".join(f'"r"(a[{i}])' for i in range(4)) if held else '"l"(a)'
    immediates = "".join(f', "n"({m})' for m in majors) if transposes else ""
    a_parameter = "const void* a_registers" if held else "unsigned long long a"
    template = f"template <{', '.join('int ' + m for m in majors)}>\n" if transposes else ""
    a_cast = "    const unsigned* a = static_cast<const unsigned*>(a_registers);\n" if held else ""
    sums, kind = _PTX[acc], _PTX[inputs]
    return f"""\
{template}__device__ __forceinline__ void {name}(
    void* c_registers, {a_parameter}, unsigned long long b, int accumulate) {{
    {c_type}* d = static_cast<{c_type}*>(c_registers);
{a_cast}    asm volatile(
        "{{ .reg .pred p; setp.ne.b32 p, %{at + 1}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{sums}.{kind}.{kind} "
        "{{{places}}}, {a}, %{at}, {tail}; }}"
        : {outs}
        : {a_in}, "l"(b), "r"(accumulate){immediates});
}}
"""


def _whole(rows: int, columns: int) -> Layout:
    """Return the layout of a whole tile in shared memory, the row fastest."""
    return Layout((1, rows * columns), (0, 1))


def _row(n: int, inputs: DType, acc: DType, held: bool) -> Atom:
    k = 32 // inputs.nbytes
    d = Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))
    fragment = {
        2: Layout(((4, 8, 4), (2, 2, 2)), ((128, 1, 16), (64, 8, 512))),
        1: Layout(((4, 8, 4), (4, 2, 2)), ((256, 1, 16), (64, 8, 1024))),
        4: Layout(((4, 8, 4), (2, 2)), ((64, 1, 16), (8, 256))),
    }[inputs.nbytes]
    function = f"wgmma_m64n{n}k{k}_{acc.name}_{inputs.name}{'_ra' if held else ''}"
    majors = "<{B.major}>" if held else "<{A.major}, {B.major}>"
    a_text = "&{A}" if held else "{A.descriptor}"
    a = (
        Operand("A", FR, inputs, (ROWS, k), fragment)
        if held
        else Operand("A", SH, inputs, (ROWS, k), _whole(ROWS, k), span=128, descriptor="wgmma_operand")
    )
    return Atom(
        name=f"wgmma.m64n{n}k{k}.{acc.name}.{inputs.name}{'.ra' if held else ''}",
        kind="MatMul",
        shape=(ROWS, n, k),
        unit=Warpgroup,
        operands=(
            a,
            Operand("B", SH, inputs, (k, n), _whole(k, n), span=128, descriptor="wgmma_operand"),
            Operand("C", FR, acc, (ROWS, n), d, "update"),
        ),
        arch=ARCH,
        last=ARCH,
        source=_SECTION,
        cuda=DESCRIPTOR + _wrapper(function, n, inputs, acc, held),
        call=f"{function}{majors if inputs.nbytes == 2 else ''}(&{{C}}, {a_text}, {{B.descriptor}}, {{accumulate}});",
        completion=FLIGHT.name,
        before="registers",
        zeroes=True,
        kept=KEPT_OF_FP8 if inputs in (e4m3, e5m2) else 0,
        rounding="once",
        clocks=max(n / 2, 16 + n / 4),
    )


def _widths(inputs: DType) -> tuple[int, ...]:
    if inputs in (i8, u8):
        return (8, 16, 24, 32, *range(48, 257, 16))
    return tuple(range(8, 257, 8))


_KINDS = ((f16, f32), (f16, f16), (bf16, f32), (tf32, f32), (e4m3, f32), (e5m2, f32), (i8, i32), (u8, i32))


@cache
def wgmma(n: int) -> tuple[Atom, ...]:
    """Make the rows of one width, when they are needed: all widths of all types would be hundreds of rows.

    Example:
        >>> [atom.name for atom in wgmma(256)][:2]
        ['wgmma.m64n256k16.f32.f16', 'wgmma.m64n256k16.f32.f16.ra']
    """
    return tuple(_row(n, inputs, acc, held) for inputs, acc in _KINDS if n in _widths(inputs) for held in (False, True))


WIDTHS = tuple(range(8, 257, 8))


@cache
def wgmma_near(n: int) -> tuple[Atom, ...]:
    """List, for each element type, the row with the width nearest to a given one.

    Example:
        >>> [atom.name for atom in wgmma_near(40) if atom.name.endswith((".f16", "i8"))]
        ['wgmma.m64n40k16.f32.f16', 'wgmma.m64n40k16.f16.f16', 'wgmma.m64n32k32.i32.i8']
    """
    nearest = {inputs: min(_widths(inputs), key=lambda legal: abs(legal - n)) for inputs, _ in _KINDS}
    return tuple(
        row
        for width in dict.fromkeys(nearest.values())
        for row in wgmma(width)
        if row.operands[0].dtype is not None and nearest[row.operands[0].dtype] == width
    )
