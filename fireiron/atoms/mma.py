"""Tensor-core instructions of sm_75 to sm_90: a warp multiplies fragments that its threads hold together."""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import DType, b1, bf16, e4m3, e5m2, f16, f32, f64, i4, i8, i32, tf32, u4, u8
from fireiron.atoms.fragments import fragment_a, fragment_b, fragment_c, together
from fireiron.language.atom import Atom, Operand, Product
from fireiron.language.levels import FR, Warp

_SECTION = "PTX ISA 9.7.14.5, mma"
_PTX = {d: d.name.replace("i", "s") for d in (f16, bf16, f32, f64, tf32, e4m3, e5m2, i8, u8, i4, u4, b1, i32)}
_CONSTRAINTS = {f32: "f", f64: "d", i32: "r"}


def _wrapper(name: str, instruction: str, nbytes: tuple[int, int, int], inputs: DType, acc: DType) -> str:
    """Write the inline function; elements narrower than 32 bits are packed in 32-bit registers."""
    width = 8 if inputs == f64 else 4
    a, b, c = (size // width for size in nbytes)
    order = iter(range(c + a + b))
    d_text, a_text, b_text = (", ".join(f"%{next(order)}" for _ in range(x)) for x in (c, a, b))
    c_type = "unsigned" if acc == f16 else {"f32": "float", "f64": "double", "i32": "int"}[acc.name]
    in_type = "double" if inputs == f64 else "unsigned"
    in_letter, c_letter = ("d" if inputs == f64 else "r"), _CONSTRAINTS.get(acc, "r")
    outs = ", ".join(f'"+{c_letter}"(d[{i}])' for i in range(c))
    ins = ", ".join([*(f'"{in_letter}"(a[{i}])' for i in range(a)), *(f'"{in_letter}"(b[{i}])' for i in range(b))])
    return f"""\
__device__ __forceinline__ void {name}(void* c_registers, const void* a_registers, const void* b_registers) {{
    {c_type}* d = static_cast<{c_type}*>(c_registers);
    const {in_type}* a = static_cast<const {in_type}*>(a_registers);
    const {in_type}* b = static_cast<const {in_type}*>(b_registers);
    asm("{instruction} {{{d_text}}}, {{{a_text}}}, {{{b_text}}}, {{{d_text}}};"
        : {outs}
        : {ins});
}}
"""


def _wide(shape: tuple[int, int, int]) -> Atom:
    """Describe an f64 mma of sixteen rows: one instruction on sm_90; on earlier architectures several of eight rows.

    An instruction of eight rows takes one of A's registers, one of B's and two of C's, so the fragments agree. An SM of
    an H200 adds 128 products a clock.
    """
    atom = _row(shape, f64, f64, 80, 4 * shape[2])
    small = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
    head, whole = atom.cuda.split("    asm(", 1)
    calls = "".join(
        f"""\
    asm("{small}"
        : "+d"(d[{2 * i}]), "+d"(d[{2 * i + 1}])
        : "d"(a[{2 * j + i}]), "d"(b[{j}]));
"""
        for j in range(shape[2] // 4)
        for i in range(2)
    )
    whole = whole.removesuffix("}\n")
    return attrs.evolve(atom, cuda=f"{head}#if __CUDA_ARCH__ >= 900\n    asm({whole}#else\n{calls}#endif\n}}\n")


def _row(
    shape: tuple[int, int, int],
    inputs: DType | tuple[DType, DType],
    acc: DType,
    arch: int,
    clocks: float | None = None,
    product: Product = "mul",
    of_sums: bool = False,
) -> Atom:
    """Describe one mma.sync.

    Args:
        shape: (m, n, k).
        inputs: element types of A and B: one for both, or one each.
        acc: element type of C and D.
        arch: smallest architecture.
        clocks: issue clocks; None: half a clock for eight rows and 16 bits of K.
        product: the term that is summed, for bits `xor` or `and`.
        of_sums: whether a thread's columns of A are the columns that it holds of C (see `fragment_a`).
    """
    m, n, k = shape
    kinds = inputs if isinstance(inputs, tuple) else (inputs, inputs)
    bits = kinds[0].bits
    own = k * bits * m / 256 if clocks is None else clocks
    layouts = fragment_a(m, k, bits, of_sums), fragment_b(k, n, bits, of_sums), fragment_c(m)
    size = f"m{m}n{n}k{k}"
    sums = _PTX[acc]
    counted = "" if product == "mul" else f".{product}.popc"
    instruction = f"mma.sync.aligned.{size}.row.col.{sums}.{_PTX[kinds[0]]}.{_PTX[kinds[1]]}.{sums}{counted}"
    names = [size, acc.name, kinds[0].name, *([kinds[1].name] if kinds[0] != kinds[1] else [])]
    names += [product] if product != "mul" else []
    function = "_".join(["mma", *names])
    nbytes = [kind.nbytes_of(layout[1].size) for kind, layout in zip((*kinds, acc), layouts, strict=True)]
    return Atom(
        name=".".join(["mma", *names, *(["of_sums"] if of_sums else [])]),
        kind="MatMul",
        shape=shape,
        unit=Warp,
        operands=(
            Operand("A", FR, kinds[0], (m, k), layouts[0]),
            Operand("B", FR, kinds[1], (k, n), layouts[1]),
            Operand("C", FR, acc, (m, n), layouts[2], "update"),
        ),
        arch=arch,
        source=_SECTION,
        cuda=_wrapper(function, instruction, (nbytes[0], nbytes[1], nbytes[2]), kinds[0], acc),
        call=f"{function}(&{{C}}, &{{A}}, &{{B}});",
        rounding="once",
        clocks=own,
        emulated=emulated(kinds[0], kinds[1], product, own),
        product=product,
    )


# Hopper and later compute these by other instructions. The factors are of an H200, from the suite `dtypes` of
# bench/results: 42.6 TOP/s of i4, 144 of u4, 993 of bits under xor (and 3643 under and, which is native).
EMULATES = 90
_EMULATED: dict[tuple[DType, DType, Product], float] = {(i4, i4, "mul"): 25, (u4, u4, "mul"): 7.4, (b1, b1, "xor"): 4.3}


def emulated(a: DType, b: DType, product: Product, clocks: float) -> tuple[int, float] | None:
    """Return the architecture that computes a product by other instructions, and its clocks there; None without one."""
    slower = _EMULATED.get((a, b, product))
    return None if slower is None else (EMULATES, slower * clocks)


_MIXED = ((i8, u8), (u8, i8), (i4, u4), (u4, i4))
_FP8 = ((e4m3, e4m3), (e5m2, e5m2), (e4m3, e5m2), (e5m2, e4m3))


def _words(bits: int, count: int) -> int:
    """Return the extent of K for a number of registers that each thread holds of a row of A."""
    return 4 * together(bits) * count


MMA: tuple[Atom, ...] = (
    *(_row((16, 8, k), f16, acc, 80 if k == 16 else 75) for k in (16, 8) for acc in (f32, f16)),
    *(_row((16, 8, k), bf16, f32, 80) for k in (16, 8)),
    *(_row((16, 8, k), tf32, f32, 80) for k in (8, 4)),
    *(_row((16, 8, k), kinds, acc, 89) for k in (32, 16) for acc in (f32, f16) for kinds in _FP8),
    *(_row((16, 8, _words(kind.bits, r)), kind, i32, 80) for r in (2, 1) for kind in (i8, u8, i4, u4)),
    *(_row((8, 8, _words(kind.bits, 1)), kind, i32, 75) for kind in (i8, u8, i4, u4)),
    *(_row((16, 8, _words(a.bits, r)), (a, b), i32, 80) for r in (2, 1) for a, b in _MIXED),
    *(_row((8, 8, _words(a.bits, 1)), (a, b), i32, 75) for a, b in _MIXED),
    *(_row((16, 8, k), b1, i32, 80, product=product) for product in ("xor", "and") for k in (256, 128)),
    _row((8, 8, 128), b1, i32, 75, product="xor"),
    _row((8, 8, 128), b1, i32, 80, product="and"),
    *(_wide((16, 8, k)) for k in (16, 8, 4)),
    _row((8, 8, 4), f64, f64, 80, 16),
)

# Rows that a schedule must name: `done("mma.m16n8k32.f32.e4m3.of_sums")`.
OF_SUMS: tuple[Atom, ...] = tuple(_row((16, 8, k), kinds, f32, 89, of_sums=True) for k in (32, 16) for kinds in _FP8)
