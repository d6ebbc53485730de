"""Packed elements in a finished kernel: bytes everywhere, and refusals of what would take part of one."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from fireiron import FireironError, matmul
from fireiron.algebra.dtypes import f32, i4
from fireiron.algebra.expr import Var, as_expr, symbol
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Cast
from fireiron.atoms.table import find
from fireiron.kernel.ir.statements import THREAD, Ask, Buffer, Call, Compute, Kernel, Micro, Pointer, View, walk
from fireiron.kernel.passes.packing import in_bytes
from fireiron.language.levels import GL, RF, Thread
from fireiron.schedules import ampere

THREADS = 32
A_GL = Buffer("A", GL, i4, as_expr(1024), written=False)
A_RF = Buffer("a", RF, i4, as_expr(32), unit=Thread)
C_RF = Buffer("c", RF, f32, as_expr(1), unit=Thread)
LANE = Var(THREAD, THREADS)


def kernel(*body):
    k = symbol("K", multiple_of=32)
    pointer = Pointer(attrs.evolve(A_GL, size=32 * k), (as_expr(32), k), (k, as_expr(1)), "input")
    return Kernel("k", (pointer,), as_expr(1), THREADS, 0, (A_RF, C_RF), body)


def copy(offset, layout=Layout(32, 1)):
    return Call(find("copy.16B.GL.RF"), (View(A_GL, offset, layout), View(A_RF, as_expr(0), layout)))


def test_lines_that_are_asked_for_are_found_by_bytes():
    (asked,) = in_bytes(kernel(Ask(View(A_GL, LANE * 32, Layout(2, 1))))).body
    assert asked.view.offset == LANE * 16
    assert asked.view.layout == Layout(1, 0)


def test_sizes_strides_and_offsets_count_bytes():
    found = in_bytes(kernel(copy(LANE * 32)))
    (pointer,) = found.parameters
    k = symbol("K", multiple_of=32)
    assert pointer.shape == (as_expr(32), k // 2)
    assert pointer.strides == (k // 2, as_expr(1))
    assert [buffer.size for buffer in found.buffers] == [as_expr(16), as_expr(1)]
    ((read, written),) = (call.views for call in found.body)
    assert (read.offset, read.layout) == (LANE * 16, Layout(16, 1))
    assert (written.offset, written.layout) == (as_expr(0), Layout(16, 1))


def test_kernels_of_whole_elements_stay_as_they_are():
    made = ampere.gemm(matmul(64, 64, 64, "i8", layout="TN")).lowered()
    assert in_bytes(made) is made


@pytest.mark.parametrize(
    "statement",
    [
        copy(LANE),
        copy(LANE * 32, Layout(32, 2)),
        copy(LANE * 32, Layout(1, 0)),
        Compute(View(A_RF, as_expr(0)), Arg(0, i4), (View(A_RF, as_expr(1)),)),
        Micro("m", "", None, ("A",), (View(A_RF, as_expr(0)),), (), (), Thread),
    ],
    ids=["an odd offset", "every other element", "half a byte", "a result", "a microkernel"],
)
def test_parts_of_bytes_are_refused(statement):
    with pytest.raises(FireironError) as caught:
        in_bytes(kernel(statement))
    assert caught.value.code == "packed-access"
    assert "2 elements of" in caught.value.message


def test_emitted_and_declared_as_bytes():
    source = ampere.gemm(matmul(128, 128, 256, "b1", layout="TN")).cuda()
    assert "const unsigned char* __restrict__ A" in source
    assert "alignas(16) unsigned char a_fr[128]" in source  # two slots of 64 rows of 256 bits over 32 lanes
    views = [
        view
        for statement in walk(ampere.gemm(matmul(128, 128, 256, "b1", layout="TN")).lowered().body)
        if isinstance(statement, Call) and statement.atom.name == "cp.async.16B"
        for view in statement.views
    ]
    assert views
    assert {view.layout for view in views} == {Layout(16, 1)}


def test_an_expression_takes_an_element_out_of_its_byte():
    (found,) = in_bytes(kernel(Compute(View(C_RF, as_expr(0)), Cast(Arg(0, i4), f32), (View(A_RF, LANE),)))).body
    (byte,) = found.inputs
    taken = found.expr.x
    assert (byte.offset, byte.buffer.size) == (LANE // 2, as_expr(16))
    assert taken.args[1].value == LANE % 2
    both = np.array([0x7F, 0x80], np.uint8)
    assert taken.numpy(both, np.array([0, 0])).tolist() == [-1, 0]
    assert taken.numpy(both, np.array([1, 1])).tolist() == [7, -8]
