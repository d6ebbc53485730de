"""The presets for tensor cores, in every element type and layout, on the simulator and through the compiler."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Matrix, Move, Thread, Warp, cp_async, ldmatrix, matmul, staged, symbol
from fireiron.algebra.arch import arch
from fireiron.algebra.elements import pack, read
from fireiron.atoms.ldmatrix import LDMATRIX
from fireiron.atoms.mma import MMA
from fireiron.jit.compile import compile_source
from fireiron.schedules import ada, ampere, turing
from fireiron.verify.comparison import compare
from fireiron.verify.reference import mathematical, reference

LAYOUTS = ("NN", "NT", "TN", "TT")
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
KINDS = {
    ampere: {"f16": 80, "bf16": 80, "tf32": 80, "i8": 80, "u8": 80, "f64": 80, "i4": 80, "u4": 80, "b1": 80},
    ada: {"e4m3": 89, "e5m2": 89},
    turing: {"f16": 75, "i8": 75, "u8": 75, "i4": 75, "u4": 75, "b1": 75},
}
PACKED = ("i4", "u4", "b1")


def layouts(dtype):
    return ("TN",) if dtype in PACKED else LAYOUTS


def held_to_the_reference(schedule, *inputs):
    found = schedule.simulate(*inputs)
    spec = schedule.matmul
    result = compare("C", mathematical(spec.C, found.out), reference(schedule, found.arrays, {}), spec.C.dtype)
    assert result.passed, str(result)
    return found


def named(case):
    return case if isinstance(case, str) else getattr(case, "__name__", str(case)).rpartition(".")[2]


# Those of f16, bf16, i8, u8 and f64 on Ampere are in tests/kernel/test_tensor_cores.py.
NEW = [
    *((ampere, dtype, x) for dtype in ("tf32", *PACKED) for x in layouts(dtype)),
    *((preset, dtype, x) for preset in (ada, turing) for dtype in KINDS[preset] for x in layouts(dtype)),
]


@pytest.mark.product
@pytest.mark.parametrize(("preset", "dtype", "layout"), NEW, ids=named)
def test_gemm(right, preset, dtype, layout):
    right(preset.gemm(matmul(61, 45, 40, dtype, layout=layout), m=64, n=64, warp=(32, 32)))


@pytest.mark.parametrize(
    ("preset", "dtype", "layout"),
    [
        *((ampere, "tf32", x) for x in LAYOUTS),
        *((ampere, d, "TN") for d in PACKED),
        (ada, "e4m3", "TN"),
        (turing, "i4", "TN"),
    ],
    ids=named,
)
def test_gemm_has_no_bank_conflicts(preset, dtype, layout):
    report = preset.gemm(matmul(128, 128, 512, dtype, layout=layout)).simulate().report
    assert {site.conflict_degree for site in report.sites if site.conflict_degree} == {1.0}


# The sizes of TVM's tutorial on tensor cores.
TUTORIAL = [(dtype, layout) for dtype in ("f16", "i8", "i4", "b1") for layout in layouts(dtype)]


@pytest.mark.product
@pytest.mark.parametrize(("dtype", "layout"), TUTORIAL)
@pytest.mark.parametrize("preset", [ampere, turing], ids=named)
def test_sizes_of_the_tutorial(preset, dtype, layout):
    held_to_the_reference(preset.gemm(matmul(512, 32, 512, dtype, layout=layout), n=32, warp=(32, 32)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", [(32, 512, 512), (512, 512, 32), (512, 512, 512)])
@pytest.mark.parametrize(("dtype", "layout"), TUTORIAL)
@pytest.mark.parametrize("preset", [ampere, turing], ids=named)
def test_sizes_like_those_of_the_tutorial(preset, dtype, layout, shape):
    m, n = min(shape[0], 128), min(shape[1], 128)
    held_to_the_reference(preset.gemm(matmul(*shape, dtype, layout=layout), m=m, n=n, warp=(32, 32)))


@pytest.mark.parametrize("product", ["xor", "and"])
def test_products_of_bits(right, product):
    schedule = ampere.gemm(matmul(64, 64, 512, "b1", layout="TN", product=product), m=64, n=64, warp=(32, 32))
    assert schedule.lowered().name.endswith(f"_b1_i32_{product}")
    a, b = np.random.default_rng(0).integers(0, 2, (2, 64, 512)).astype(bool)
    wanted = (a[:, None] ^ b if product == "xor" else a[:, None] & b).sum(-1)
    assert np.array_equal(schedule(a, b), wanted)  # arrays of bool are packed on the way
    right(schedule)


def test_arrays_of_packed_elements():
    schedule = ampere.gemm(matmul(64, 64, 128, "i4", layout="TN"), m=64, n=64, warp=(32, 32))
    a, b = np.random.default_rng(0).integers(-8, 8, (2, 64, 128))
    packed = [pack(x.astype(np.int8), schedule.matmul.A.dtype) for x in (a, b)]
    assert all(np.array_equal(read(p, schedule.matmul.A.dtype), x) for p, x in zip(packed, (a, b), strict=True))
    for given in (packed, [p.view(np.int8) for p in packed], [x.astype(ml_dtypes.int4) for x in (a, b)]):
        assert np.array_equal(schedule(*given), a @ b.T)
        assert np.array_equal(schedule.simulate(*given).out, a @ b.T)


def test_sizes_of_packed_arrays_are_solved_from_their_bytes():
    m, k = symbol("M"), symbol("K", multiple_of=32)
    schedule = ampere.gemm(matmul(m, 64, k, "u4", layout="TN"), m=64, n=64, warp=(32, 32))
    a = np.random.default_rng(0).integers(0, 16, (70, 96)).astype(ml_dtypes.uint4)
    b = np.random.default_rng(1).integers(0, 16, (64, 96)).astype(ml_dtypes.uint4)
    assert np.array_equal(schedule(a, b), a.astype(int) @ b.astype(int).T)


def test_tf32_is_cut_where_it_is_not_converted():
    cut = ampere.gemm(matmul(64, 64, 64, "tf32", layout="TN"), m=64, n=64, warp=(32, 32))
    chain = matmul(64, 64, 64, "f32", layout="TN").tile(64, 64).to(Block).epilog(memory=FR).split(16)
    chain = chain.load(A, SH, staged(), dtype="tf32").load(B, SH, staged(), dtype="tf32").tile(32, 32).to(Warp).split(8)
    rounded = chain.unroll().load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()
    x = np.full((64, 64), 1 + 2.0**-11 + 2.0**-12, np.float32)
    assert (cut(x, np.eye(64, dtype=np.float32)) == 1).all()
    assert (rounded(x, np.eye(64, dtype=np.float32)) == 1 + 2.0**-10).all()
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float32)
    held_to_the_reference(cut, a, b)
    held_to_the_reference(rounded, a, b)
    assert "cvt.rna.tf32.f32" in rounded.cuda("sm_80")


def test_fp8_operands_of_two_kinds(right):
    spec = matmul(64, 64, 128, "e4m3", layout="TN").matmul
    import attrs

    from fireiron import MatMul
    from fireiron.algebra.dtypes import e5m2

    mixed = MatMul(spec.A, attrs.evolve(spec.B, dtype=e5m2), spec.C)
    schedule = ada.gemm(mixed, m=64, n=64, warp=(32, 32))
    assert "f32.e4m3.e5m2.f32" in schedule.cuda("sm_89")
    right(schedule)


def test_a_move_to_fp8_saturates():
    schedule = Move(Matrix(64, 64), Matrix(64, 64, "e4m3")).tile(64, 64).to(Block).vectors().to(Thread).unroll().done()
    x = np.linspace(-1000, 1000, 64 * 64, dtype=np.float32).reshape(64, 64)
    found = schedule.simulate(x)
    assert found.out.dtype == ml_dtypes.float8_e4m3fn
    assert float(found.out.astype(np.float32).max()) == 448
    result = compare("Y", found.out, reference(schedule, found.arrays, {}), schedule.program.spec.dst.dtype)
    assert result.passed, str(result)


def test_an_unfinished_schedule_of_packed_elements_is_measured():
    chain = matmul(64, 64, 512, "b1", layout="TN").tile(64, 64).to(Block).epilog(memory=FR).split(512)
    found = chain.load(A, SH, cp_async()).facts("sm_80")
    assert found.shared_nbytes == 64 * 512 // 8
    assert {row.nbytes for row in found.rows if row.buffer == "a_sh"} == {64 * 512 // 8}


def no_spills(schedule, name):
    found = schedule.compile(name, cache=False).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0, (name, found)


@pytest.mark.parametrize(
    ("preset", "dtype"), [(ampere, "tf32"), (ampere, "b1"), (ada, "e4m3"), (turing, "i4")], ids=named
)
def test_gemm_compiles_without_spills(preset, dtype):
    no_spills(preset.gemm(matmul(512, 512, 512, dtype, layout="TN")), f"sm_{KINDS[preset][dtype]}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ARCHS)
@pytest.mark.parametrize(
    ("preset", "dtype", "layout"),
    [(preset, d, x) for preset, kinds in KINDS.items() for d in kinds for x in layouts(d)],
    ids=named,
)
def test_gemm_compiles_everywhere_without_spills(preset, dtype, layout, name):
    if arch(name).number >= KINDS[preset][dtype]:
        no_spills(preset.gemm(matmul(512, 512, 1024, dtype, layout=layout)), name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ARCHS)
@pytest.mark.parametrize("row", [*MMA, *LDMATRIX], ids=lambda row: row.name)
def test_rows_compile_everywhere(row, name):
    if arch(name).number < row.arch:
        return
    names = [o.role for o in row.operands]
    space = "__shared__ " if row.kind == "Move" else ""
    places = ", ".join(f"{operand}[256]" for operand in names)
    call = row.call.format_map({operand: f"{operand}[0]" for operand in names})
    body = f"{space}__align__(16) char {places};\n    {call}\n    out[0] = {names[-1]}[0];\n"
    compile_source(f'{row.cuda}extern "C" __global__ void k(char* out) {{\n    {body}}}\n', "k", arch(name))


@pytest.mark.parametrize("name", ["sm_80", "sm_100"])
def test_products_of_bits_compile_without_spills(name):
    """From sm_90 on instructions on words stand in for mma of bits: they take registers, and tiles are smaller."""
    no_spills(ampere.gemm(matmul(4096, 4096, 4096, "b1", layout="TN", product="xor")), name)
