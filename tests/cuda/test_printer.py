"""Kernels written directly in the IR, printed, compared whole, and compiled."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import attrs
import pytest

from fireiron.algebra.dtypes import DTYPES, DType, bf16, e4m3, e5m2, f16, f32, f64, i8, i32, tf32, u8
from fireiron.algebra.expr import Expr, Var, and_, as_expr, ceil_div, lt, symbol
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import BINARY, OF_NUMBERS, Arg, Binary, Cast, Constant, Parameter, Scalar, Select, Unary
from fireiron.algebra.unary import FUNCTIONS
from fireiron.atoms.table import TABLE, find
from fireiron.base.errors import CheckError, SpecError
from fireiron.base.names import check_name
from fireiron.cuda.printer import source
from fireiron.cuda.types import C_TYPES, DECLARED
from fireiron.kernel.ir.statements import (
    BLOCK,
    THREAD,
    Binding,
    Buffer,
    Call,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Micro,
    Number,
    Pointer,
    Region,
    Size,
    Statement,
    Sync,
    View,
    walk,
)
from fireiron.language.atom import Atom
from fireiron.language.levels import GL, RF, SH, Block, Group, Memory, Thread, Warp, Warpgroup

Golden = Callable[[str, str], None]
Compiles = Callable[..., None]
SIZES = {"M": symbol("M"), "N": symbol("N", multiple_of=4), "K": symbol("K", multiple_of=8)}
VECTOR = Layout(4, 1)


def atom(name: str) -> Atom:
    found = find(name)
    assert found is not None
    return found


def matrix(name: str, dtype: DType, rows: Expr, columns: Expr, output: bool = False) -> Pointer:
    buffer = Buffer(name, GL, dtype, rows * columns, written=output, read=not output)
    return Pointer(buffer, (rows, columns), (columns, as_expr(1)), "output" if output else "input")


def registers(name: str, dtype: DType, size: int) -> Buffer:
    return Buffer(name, RF, dtype, as_expr(size), unit=Thread)


def kernel(name: str, parameters: tuple[object, ...], body: tuple[Statement, ...], **facts: object) -> Kernel:
    given = {"grid": as_expr(1), "threads": 128, "shared_nbytes": 0, "buffers": ()} | facts
    return Kernel(name=name, parameters=parameters, body=body, **given)  # type: ignore[arg-type]


def copy_kernel(threads: int = 256) -> Kernel:
    """Copy a matrix in vectors of 16 B, through registers, with zeros beyond the last row."""
    M, N = SIZES["M"], SIZES["N"]
    src, dst = matrix("src", f32, M, N), matrix("dst", f32, M + 8, N, output=True)
    part = registers("part", f32, 4)
    thread, block = Var(THREAD, threads), Var(BLOCK, ceil_div((M + 8) * N, 4 * threads))
    index = Var("index", (M + 8) * N)
    row = Var("row", M + 8 + threads)
    column = Var("column", N)
    offset = row * N + column
    body = (
        Let(index, (block * threads + thread) * 4),
        Let(row, index // N),
        Let(column, index % N),
        Region(
            "Move 1x4 GL -> RF (Thread): zeros past row M",
            (
                Call(
                    atom("copy.16B.GL.RF"),
                    (View(src.buffer, offset, VECTOR), View(part, as_expr(0), VECTOR)),
                    read=lt(row, M),
                ),
            ),
        ),
        Region(
            "Move 1x4 RF -> GL (Thread)",
            (
                Call(
                    atom("copy.16B.RF.GL"),
                    (View(part, as_expr(0), VECTOR), View(dst.buffer, offset, VECTOR)),
                    write=lt(row, M + 8),
                ),
            ),
        ),
    )
    parameters = (src, dst, Size(M), Size(N))
    return kernel(
        "copy_f32", parameters, body, grid=ceil_div((M + 8) * N, 4 * threads), threads=threads, buffers=(part,)
    )


def gemm_kernel() -> Kernel:
    """Multiply with tiles of 64x64x8 in shared memory, 4x4 elements a thread."""
    M, N, K = SIZES["M"], SIZES["N"], SIZES["K"]
    a, b, c = matrix("A", f32, M, K), matrix("B", f32, K, N), matrix("C", f32, M, N, output=True)
    a_sh = Buffer("a_sh", SH, f32, as_expr(64 * 8), unit=Block, offset=0, nbytes=2048)
    b_sh = Buffer("b_sh", SH, f32, as_expr(8 * 64), unit=Block, offset=2048, nbytes=2048)
    a_rf, b_rf, acc = registers("a_rf", f32, 4), registers("b_rf", f32, 4), registers("acc", f32, 16)
    blocks_n = ceil_div(N, 64)
    thread, block = Var(THREAD, 256), Var(BLOCK, ceil_div(M, 64) * blocks_n)
    block_m, block_n = Var("block_m", ceil_div(M, 64)), Var("block_n", blocks_n)
    k0, k, m, n = Var("k0", K // 8), Var("k", 8), Var("m", 4), Var("n", 4)
    row, column = thread // 16, thread % 16
    load_row, load_column = block_m * 64 + thread // 2, block_n * 64 + column * 4

    def scalar_copy(src: View, dst: View, memory: str) -> Call:
        return Call(atom(f"copy.4B.{memory}"), (src, dst))

    scaled_relu = Binary("max", Binary("mul", Parameter("alpha", f32), Arg(0, f32)), Constant(0, f32))
    multiply = Call(atom("fma.f32"), (View(a_rf, as_expr(m)), View(b_rf, as_expr(n)), View(acc, m * 4 + n)))
    body = (
        Let(block_m, block // blocks_n),
        Let(block_n, block % blocks_n),
        Region("Init acc 4x4 (Thread)", (
            For(m, as_expr(16), (Compute(View(acc, m), Constant(0.0, f32)),), unroll=True),
        )),
        Region("MatMul 64x64xK (Block)", (
            For(k0, K // 8, (
                Region("load A 64x8 GL -> SH, zeros past row M", (
                    If(lt(thread, 128), (
                        Call(atom("copy.16B.GL.SH"),
                             (View(a.buffer, load_row * K + k0 * 8 + thread % 2 * 4, VECTOR),
                              View(a_sh, thread * 4, VECTOR)),
                             read=lt(load_row, M)),
                    )),
                )),
                Region("load B 8x64 GL -> SH, zeros past column N", (
                    Call(atom("copy.16B.GL.SH"),
                         (View(b.buffer, (k0 * 8 + row) * N + load_column, VECTOR), View(b_sh, thread * 4, VECTOR)),
                         read=lt(load_column, N), write=lt(thread, 128)),
                )),
                Sync(Block, "a_sh and b_sh are written by other threads"),
                Region("MatMul 4x4x8 (Thread)", (
                    For(k, as_expr(8), (
                        For(m, as_expr(4), (
                            scalar_copy(View(a_sh, (row * 4 + m) * 8 + k), View(a_rf, as_expr(m)), "SH.RF"),
                        ), unroll=True),
                        Call(atom("copy.16B.SH.RF"),
                             (View(b_sh, k * 64 + column * 4, VECTOR), View(b_rf, as_expr(0), VECTOR))),
                        For(m, as_expr(4), (For(n, as_expr(4), (multiply,), unroll=True),), unroll=True),
                    ), unroll=True),
                )),
                Sync(Block, "the next chunk overwrites a_sh and b_sh"),
            )),
        )),
        Region("relu and store C 4x4 RF -> GL (Thread)", (
            For(m, as_expr(4), (
                For(n, as_expr(4), (
                    Compute(View(acc, m * 4 + n), scaled_relu, (View(acc, m * 4 + n),)),
                ), unroll=True),
                Call(atom("copy.16B.RF.GL"),
                     (View(acc, m * 4, VECTOR), View(c.buffer, (block_m * 64 + row * 4 + m) * N + load_column, VECTOR)),
                     write=and_(lt(block_m * 64 + row * 4 + m, M), lt(load_column, N))),
            ), unroll=True),
        )),
    )  # fmt: skip
    return kernel(
        "gemm_64x64x8_f32",
        (a, b, c, Size(M), Size(N), Size(K), Number("alpha", f32, 1.0)),
        body,
        grid=ceil_div(M, 64) * blocks_n,
        threads=256,
        shared_nbytes=4096,
        buffers=(a_sh, b_sh, a_rf, b_rf, acc),
        minimum_blocks=2,
    )


def scalar_kernel(name: str, kinds: tuple[DType, ...]) -> Kernel:
    """Store the result of every operation in every type, and of every cast."""
    x = {d: Buffer(f"x_{d}", GL, d, as_expr(2), written=False) for d in kinds}
    y = {d: Buffer(f"y_{d}", GL, d, as_expr(64), read=False) for d in kinds}
    p = {d: Number(f"p_{d}", d) for d in kinds}
    counts = dict.fromkeys(kinds, 0)

    def store(tree: Scalar, *inputs: DType) -> Compute:
        d = tree.dtype
        counts[d] += 1
        return Compute(
            View(y[d], as_expr(counts[d] - 1)), tree, tuple(View(x[i], as_expr(n)) for n, i in enumerate(inputs))
        )

    groups: list[Region] = []
    for d in kinds:
        a, b = Arg(0, d), Arg(1, d)
        unary = [store(Unary(op, a), d) for op in FUNCTIONS if d.kind == "float" or FUNCTIONS[op].integers]
        binary = [store(Binary(op, a, b), d, d) for op in (BINARY if d.kind == "float" else OF_NUMBERS)]
        casts = [store(Cast(a, to), d) for to in kinds if to != d]
        nested = [
            store(Binary("sub", a, Binary("sub", Binary("add", a, b), Parameter(f"p_{d}", d))), d, d),
            store(Binary("add", Binary("mul", a, b), Unary("neg", Unary("neg", a))), d, d),
            store(Binary("div", a, Binary("mul", a, Binary("eq", a, b))), d, d),
            store(Select(Binary("lt", a, b), a, Unary("abs", b)), d, d),
            store(
                Select(a, Constant(-2.5 if d.kind == "float" else 3, d), Constant(0.1 if d.kind == "float" else 7, d)),
                d,
            ),
        ]
        groups.append(Region(f"{d}", (*unary, *binary, *casts, *nested)))
    pointers = [Pointer(x[d], (as_expr(2),), (as_expr(1),), "input") for d in kinds]
    outputs = [Pointer(y[d], (as_expr(64),), (as_expr(1),), "output") for d in kinds]
    return kernel(name, (*pointers, *outputs, *p.values()), tuple(groups), threads=32)


def shuffle_kernel() -> Kernel:
    """Reverse the lanes of each warp, in elements of 2, 4 and 8 bytes, with both narrower barriers."""
    thread, lane = Var(THREAD, 256), Var("lane", 32)
    parameters: list[Pointer] = []
    buffers: list[Buffer] = []
    body: list[Statement] = [Let(lane, thread % 32)]
    for d in (f16, f32, f64):
        x, y = (Buffer(f"{n}_{d}", GL, d, as_expr(256), written=n == "y", read=n == "x") for n in "xy")
        own, other = registers(f"own_{d}", d, 1), registers(f"other_{d}", d, 1)
        parameters += [
            Pointer(x, (as_expr(256),), (as_expr(1),), "input"),
            Pointer(y, (as_expr(256),), (as_expr(1),), "output"),
        ]
        buffers += [own, other]
        here, there = View(own, as_expr(0)), View(other, as_expr(0))
        body.append(
            Region(
                f"reverse {d} (Warp)",
                (
                    Call(atom(f"copy.{d.nbytes}B.GL.RF"), (View(x, thread), here)),
                    Call(atom(f"shfl.idx.{d.nbytes}B"), (here, there), lane=31 - lane),
                    Call(atom(f"copy.{d.nbytes}B.RF.GL"), (there, View(y, thread))),
                ),
            )
        )
    body += [Sync(Warp, "the warp's lanes meet"), Sync(Warpgroup, "the warpgroup's threads meet")]
    return kernel("reverse", tuple(parameters), tuple(body), threads=256, buffers=tuple(buffers))


DOT = """
float sum = 0.0f;
for (int k = 0; k < K; ++k)
    sum = fmaf(A[k * A_col], B[k * B_row], sum);
C[0] += sum;
"""


def micro_kernel(columns: Layout = Layout(8, 1)) -> Kernel:
    """Run a user's dot product, with roles named as the parameters are."""
    N = SIZES["N"]
    thread = Var(THREAD, 128)
    a, b, c = (
        matrix("A", f32, as_expr(128), as_expr(8)),
        matrix("B", f32, as_expr(8), N),
        matrix("C", f32, as_expr(128), N, True),
    )
    c = attrs.evolve(c, role="update", buffer=attrs.evolve(c.buffer, read=True))
    run = Micro(
        name="dot",
        source=DOT,
        numpy=None,
        roles=("A", "B", "C"),
        views=(
            View(a.buffer, thread * 8, Layout((1, columns.shape), (8, columns.stride))),
            View(b.buffer, as_expr(3), Layout((8, 1), (N, 1))),
            View(c.buffer, thread * N + 3, Layout((1, 1), (N, 1))),
        ),
        bindings=(Binding("M", as_expr(1)), Binding("N", as_expr(1)), Binding("K", as_expr(8))),
        written=("C",),
        level=Thread,
        write=lt(as_expr(4), N),
    )
    return kernel("dot_128", (a, b, c, Size(N)), (Region("MatMul 1x1x8 (Thread): microkernel dot", (run,)),))


def atoms_kernel(rows: tuple[Atom, ...]) -> Kernel:
    """Call each row once, on registers loaded from and stored to global memory in bulk."""
    parameters: list[Pointer] = []
    buffers: list[Buffer] = []
    body: list[Statement] = []
    for row in rows:
        call: list[View] = []
        name = row.name.replace(".", "_")
        loads: list[Statement] = []
        stores: list[Statement] = []
        for operand in row.operands:
            d = operand.dtype
            assert d is not None
            count = operand.registers
            role = operand.role.lower()
            own = registers(f"{name}_{role}", d, count)
            outside = Buffer(f"{name}_{role}_gl", GL, d, as_expr(count), written=role == "c", read=True)
            parameters.append(Pointer(outside, (as_expr(count),), (as_expr(1),), "update" if role == "c" else "input"))
            buffers.append(own)
            views = (View(outside, as_expr(0), Layout(count, 1)), View(own, as_expr(0), Layout(count, 1)))
            loads.append(Call(atom(f"copy.{count * d.nbytes}B.GL.RF"), views))
            if role == "c":
                stores.append(Call(atom(f"copy.{count * d.nbytes}B.RF.GL"), views[::-1]))
            call.append(views[1])
        body.append(Region(f"{row.name} (Thread)", (*loads, Call(row, tuple(call)), *stores)))
    return kernel("every_simt_atom", tuple(parameters), tuple(body), threads=1, buffers=tuple(buffers))


SIMT = tuple(row for row in TABLE if row.kind == "MatMul" and row.unit == Thread)


def test_copy(golden: Golden, compiles: Compiles) -> None:
    text = source(copy_kernel())
    golden(text, "cuda/copy.cu")
    compiles(text)


def test_gemm(golden: Golden, compiles: Compiles) -> None:
    text = source(gemm_kernel())
    golden(text, "cuda/gemm.cu")
    compiles(text)


THROUGH_F32 = (tf32, e4m3, e5m2)


def test_scalars_that_convert_by_instructions(golden: Golden, compiles: Compiles) -> None:
    text = source(scalar_kernel("scalars_through_f32", (f64, f32, f16, i32, i8, *THROUGH_F32)))
    golden(text, "cuda/scalars_through_f32.cu")
    compiles(text, ("sm_89", "sm_90a", "sm_120"))


def test_every_scalar(golden: Golden, compiles: Compiles) -> None:
    text = source(scalar_kernel("every_scalar", tuple(d for d in DTYPES if d not in THROUGH_F32)))
    golden(text, "cuda/scalars.cu")
    compiles(text)


def test_shuffle(golden: Golden, compiles: Compiles) -> None:
    text = source(shuffle_kernel())
    golden(text, "cuda/shuffle.cu")
    compiles(text)


def test_micro(golden: Golden, compiles: Compiles) -> None:
    text = source(micro_kernel())
    golden(text, "cuda/micro.cu")
    compiles(text)


def test_every_simt_atom(golden: Golden, compiles: Compiles) -> None:
    text = source(atoms_kernel(SIMT))
    golden(text, "cuda/simt.cu")
    compiles(text, ("sm_80", "sm_90a", "sm_120"))
    compiles(source(atoms_kernel(tuple(row for row in SIMT if row.arch <= 75))), ("sm_75",))


def test_every_copy_compiles(compiles: Compiles) -> None:
    outside = {n: Buffer(n, GL, u8, as_expr(64)) for n in ("x", "y")}
    inside = Buffer("s", SH, u8, as_expr(64), unit=Block, nbytes=64)
    own = registers("r", u8, 64)
    place: dict[Memory, dict[str, Buffer]] = {
        GL: {"src": outside["x"], "dst": outside["y"]},
        SH: {"src": inside, "dst": inside},
        RF: {"src": own, "dst": own},
    }
    body: list[Statement] = []
    for row in (row for row in TABLE if row.kind == "Move" and row.unit == Thread and not row.completion):
        src, dst = (
            View(place[o.memory][o.role], as_expr(32 * n), Layout(row.nbytes, 1)) for n, o in enumerate(row.operands)
        )
        body += [Call(row, (src, dst)), Call(row, (src, dst), read=lt(Var(THREAD, 128), SIZES["M"]))]
    pointers = tuple(Pointer(b, (as_expr(64),), (as_expr(1),), "update") for b in outside.values())
    k = kernel("copies", (*pointers, Size(SIZES["M"])), tuple(body), buffers=(inside, own), shared_nbytes=64)
    compiles(source(k))


def test_units_of_different_sizes_have_barriers_of_their_own() -> None:
    """A warpgroup may wait while a pair of warps does: they never count on one barrier."""
    pair = Group(Warp, 2)
    text = source(kernel("k", (), (Sync(Warpgroup, "a"), Sync(pair, "b"), Sync(Warpgroup, "c")), threads=256))
    assert text.count("sync_threads(1 + thread / 128, 128);") == 2
    assert text.count("sync_threads(3 + thread / 64, 64);") == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda: kernel("k", (), (Sync(Warpgroup, "r"),), threads=2048), "no-barrier"),
        (lambda: kernel("k", (), (Sync(Group(Warp, 2), "r"), Sync(Warpgroup, "r")), threads=768), "no-barrier"),
        (lambda: micro_kernel(Layout((2, 4), (1, 4))), "microkernel-stride"),
        (
            lambda: kernel("k", (), (), buffers=(attrs.evolve(registers("r", f32, 1), size=SIZES["M"]),)),
            "register-size",
        ),
        (
            lambda: kernel("k", (), (Compute(View(registers("r", i8, 1), as_expr(0)), Unary("exp", Constant(1, i8))),)),
            "float-operation",
        ),
        (
            lambda: kernel("k", (), (Call(atom("shfl.idx.4B"), (View(registers("r", i32, 1), as_expr(0)),) * 2),)),
            "masked-atom",
        ),
        (
            lambda: kernel(
                "k",
                (),
                (
                    Call(
                        atom("fma.f32"),
                        (View(registers("r", f32, 1), as_expr(0)),) * 3,
                        read=lt(Var(THREAD, 128), as_expr(1)),
                    ),
                ),
            ),
            "masked-atom",
        ),
    ],
)
def test_what_cannot_be_printed_is_refused(change: Callable[[], Kernel], code: str) -> None:
    with pytest.raises(CheckError) as caught:
        source(change())
    assert caught.value.code == code


def test_types_that_kernels_declare_are_no_names() -> None:
    words = {
        word for texts in (C_TYPES.values(), DECLARED.values()) for t in texts for word in re.findall(r"[a-z]\w+", t)
    }
    for word in {*words - {"bits"}, "TensorMap"}:
        with pytest.raises(SpecError, match="bad-name"):
            check_name("a tensor", word)


def test_helpers_are_printed_only_where_called() -> None:
    text = source(gemm_kernel())
    assert "half" not in text
    assert "bf16" not in text
    assert "shuffle" not in text
    own = registers("r", bf16, 1)
    assert source(kernel("k", (), (), buffers=(own,))).startswith("struct bf16 {")


def test_printing_is_quick(slowness: Callable[[float], float]) -> None:
    one = gemm_kernel()
    many = attrs.evolve(one, body=one.body[:2] + one.body[2:] * 12)
    assert sum(1 for _ in walk(many.body)) > 300
    fastest = 1.0  # second of the processor: other work on the machine does not count
    for _ in range(20):  # a busy machine is slow for a while
        start = time.process_time()
        source(many)
        fastest = min(fastest, (time.process_time() - start) / slowness(10.0))
    assert fastest < 0.010, "as if the machine were quiet"
