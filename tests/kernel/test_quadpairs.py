"""Quad-pairs through ordinary chains: forms, macro tiles, swizzles, and tiles that leave part of a warp idle."""

from __future__ import annotations

import re

import attrs
import pytest

from fireiron import (  # fmt: skip
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    QuadPair,
    RowMajor,
    Strided,
    Swizzle,
    Warp,
    conform,
    matmul,
    staged,
)
from fireiron.jit.interface import Interface
from fireiron.kernel.analysis.access import accesses
from fireiron.kernel.ir.statements import Call, For, If, Region
from fireiron.schedules import volta
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

FORMS = {"TN": "row_col", "NN": "row_row", "NT": "col_row", "TT": "col_col"}


def gemm(spec, tile=None, warp=(32, 32), atom=None, orders=(None, None)):
    chain = spec.tile(64, 64).to(Block).epilog(memory=FR).split(32)
    for role, order in zip((A, B), orders, strict=True):
        chain = chain.load(role, SH, staged()).swizzle(Swizzle(2, 3, 3))
        chain = chain.storage_layout(order) if order else chain
    chain = chain.tile(*warp).to(Warp).split(8).unroll().load(A, FR, conform()).load(B, FR, conform())
    chain = chain.tile(16, 16).unroll().tile(*(tile or (Strided((4, 8), (4, 8)),))).to(QuadPair).layout(ColMajor)
    return chain.split(4).unroll().done(atom)


@pytest.mark.parametrize("acc", ["f32", "f16"])
@pytest.mark.parametrize("layout", FORMS)
def test_the_form_follows_what_loads_read(right, layout, acc):
    schedule = gemm(matmul(72, 80, 64, "f16", layout=layout, acc=acc))
    assert set(re.findall(r"mma_m8n8k4_(\w+?)_f", schedule.cuda())) == {FORMS[layout]}
    right(schedule)


@pytest.mark.parametrize("orders", [(RowMajor, RowMajor), (ColMajor, ColMajor), (ColMajor, RowMajor)])
def test_the_form_follows_the_buffers_order(right, orders):
    schedule = gemm(matmul(64, 64, 64, "f16", layout="TN"), orders=orders)
    form = "_".join("row" if order is RowMajor else "col" for order in orders)
    assert set(re.findall(r"mma_m8n8k4_(\w+?)_f", schedule.cuda())) == {form}
    right(schedule)


@pytest.mark.parametrize("form", FORMS.values())
def test_any_form_can_be_chosen(right, form):
    right(gemm(matmul(64, 64, 32, "f16", layout="TN"), atom="mma.m8n8k4." + form.replace("_", ".")))


@pytest.mark.parametrize("layout", FORMS)
def test_plain_tiles(right, layout):
    right(gemm(matmul(64, 64, 64, "f16", layout=layout), tile=(8, 8)))


def conflicts(schedule):
    return {(r.buffer, r.direction): r.conflicts for r in accesses(schedule.lowered()) if r.buffer in ("a_sh", "b_sh")}


@pytest.mark.parametrize("layout", FORMS)
@pytest.mark.parametrize("macro", [16, 32])
def test_strided_tiles_meet_no_bank_conflicts(layout, macro):
    schedule = volta.gemm(matmul(128, 128, 64, "f16", layout=layout), macro=macro)
    assert set(conflicts(schedule).values()) == {1.0}
    report = schedule.simulate().report
    loads = [s for s in report.sites if "a_fr" in s.title or "b_fr" in s.title]
    assert {s.conflict_degree for s in loads} == {1.0}


def test_plain_tiles_conflict():
    assert max(conflicts(gemm(matmul(64, 64, 64, "f16", layout="TN"), tile=(8, 8))).values()) == 2.0
    assert max(conflicts(gemm(matmul(64, 64, 64, "f16", layout="TN"))).values()) == 1.0


def test_vectors_join_what_the_steps_along_k_continue():
    assert "copy_16B(&a_fr" in gemm(matmul(64, 64, 64, "f16", layout="TN")).cuda()


def test_ragged_rounds_of_quad_pairs():
    with pytest.raises(FireironError) as caught:
        (
            matmul(64, 64, 64, "f16").tile(48, 64).to(Block).epilog(memory=FR).split(8).tile(48, 8).to(Warp)
            .load(A, FR).load(B, FR).tile(8, 8).to(QuadPair).split(4).unroll().done()
        )  # fmt: skip
    assert caught.value.code == "divergent-atom"
    assert "only 16 of them have a tile here" in caught.value.message


def test_a_block_that_is_no_whole_warp():
    with pytest.raises(FireironError) as caught:
        (
            matmul(64, 64, 64, "f16").tile(8, 16).to(Block).epilog(memory=FR).split(8)
            .load(A, FR).load(B, FR).tile(8, 8).to(QuadPair).split(4).unroll().done()
        )  # fmt: skip
    assert caught.value.code == "level-nests"
    assert "16 threads of this Block hold no whole QuadPair" in caught.value.message


def narrowed(body, mask):
    """Let only some threads execute the products."""
    out = []
    for statement in body:
        if isinstance(statement, For | If | Region):
            statement = attrs.evolve(statement, body=narrowed(statement.body, mask))
        elif isinstance(statement, Call) and statement.atom.kind == "MatMul":
            statement = If(mask, (statement,))
        out.append(statement)
    return tuple(out)


def test_the_simulator_wants_whole_warps():
    from fireiron.algebra.expr import Var, lt
    from fireiron.kernel.ir.statements import THREAD

    kernel = gemm(matmul(64, 64, 32, "f16")).lowered()
    thread = Var(THREAD, kernel.threads)
    broken = attrs.evolve(kernel, body=narrowed(kernel.body, lt(thread % 16, 4)))  # whole quad-pairs 0 alone
    with pytest.raises(FireironError) as caught:
        simulate(broken, random_arrays(Interface.of(broken), {}))
    assert caught.value.code == "divergent-call"
    assert "a Warp of 32 threads executes it together" in caught.value.message


def test_atoms_of_turing_and_later_are_refused():
    with pytest.raises(FireironError) as caught:
        (
            matmul(64, 64, 64, "f16", arch="sm_70").tile(64, 64).to(Block).epilog(memory=FR).split(16).tile(32, 32)
            .to(Warp).load(A, FR).load(B, FR).tile(16, 8).unroll().done()
        )  # fmt: skip
    assert caught.value.code == "no-atom"
    assert "mma.m16n8k16.f32.f16 (it needs sm_80, not sm_70)" in caught.value.message
