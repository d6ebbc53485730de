"""Fragments: opaque ones that agree with themselves alone, loads that do not fit their use, and what converts."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    Group,
    RowMajor,
    Vector,
    Warp,
    add,
    conform,
    ldmatrix,
    matmul,
    microkernel,
    movmatrix,
    relu,
    scale,
    staged,
    symbol,
    through_shared,
    wmma,
)
from fireiron.atoms.table import find
from fireiron.front.moves import vector
from fireiron.schedules import volta

SHAPES = ((16, 16), (32, 8), (8, 32))


def warp_store(move):
    return move.tile(16, 16).to(Warp).done("wmma")


def gemm(spec, *ops, load=wmma, store=warp_store, pad=8, tile=(16, 16), atom=None, orders=(None, None), **epilog):
    chain = spec.tile(32, 32).to(Block).epilog(*ops, memory=FR, store=store, **epilog).split(32)
    for role, order in zip((A, B), orders, strict=True):
        chain = chain.load(role, SH).pad(pad)
        chain = chain.storage_layout(order) if order else chain
    chain = chain.tile(16, 16).to(Warp).split(16).unroll()
    return chain.load(A, FR, load()).load(B, FR, load()).tile(*tile).unroll().done(atom)


@pytest.mark.parametrize("orders", [(a, b) for a in (RowMajor, ColMajor) for b in (RowMajor, ColMajor)])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u8"])
def test_wmma(right, dtype, orders):
    out = "i32" if dtype in ("i8", "u8") else "f32"
    schedule = gemm(matmul(64, 64, 64, dtype, out=out), pad=16, orders=orders)
    form = ".".join("row" if order is RowMajor else "col" for order in orders)
    assert f"wmma.mma.sync.aligned.{form}." in schedule.cuda()
    right(schedule)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u8"])
def test_every_shape(right, dtype, shape):
    out = "i32" if dtype in ("i8", "u8") else "f32"
    right(volta.listing3(matmul(64, 64, 32, dtype, layout="TN", out=out), *shape))
    if dtype == "f16":
        right(volta.listing3(matmul(64, 64, 32, dtype, layout="TN", acc="f16"), *shape))


def test_ops_alike_for_all_elements(right):
    m = symbol("M", multiple_of=32)
    schedule = gemm(matmul(64, 64, 64, "f16", out="f32"), scale(0.5), relu)
    right(schedule, expect=lambda product, _: np.maximum(product * 0.5, 0))
    right(gemm(matmul(m, 64, 64, "f16", out="f32"), scale(0.5), init=0.0), expect=lambda p, _: p * 0.5, M=96)


def test_a_store_by_way_of_shared_memory_converts(right):
    right(
        gemm(matmul(64, 64, 64, "f16"), store=through_shared(warp_store, vector(), pad=4, order=RowMajor, dtype="f32"))
    )


def refused(make):
    with pytest.raises(FireironError) as caught:
        make()
    return caught.value


def test_ops_that_read_by_coordinate():
    error = refused(lambda: gemm(matmul(64, 64, 64, "f16", out="f32"), add(Vector(64, name="bias"))))
    assert error.code == "opaque-fragment"
    assert error.message == (
        "an op that reads bias takes acc element by element, but it is wmma.C.m16n16k16.f32, "
        "whose layout is the hardware's own"
    )
    assert error.underlined.startswith("epilog(")
    assert "done(atom)" in error.other.underlined


def test_stores_element_by_element():
    for store in (
        conform(),
        lambda move: move.tile(16, 16).to(Warp).tile(1, 8).to(RF.scope).tile(1, 1).unroll().done(),
    ):
        error = refused(lambda store=store: gemm(matmul(64, 64, 64, "f16", out="f32"), store=store))
        assert error.code == "opaque-fragment"
        assert "whose layout is the hardware's own" in error.message


def test_other_loads():
    error = refused(lambda: gemm(matmul(64, 64, 64, "f16", layout="TN", out="f32"), load=ldmatrix))
    assert error.code == "opaque-fragment"
    assert error.message.startswith("ldmatrix.x4.A.b16 takes b_fr element by element, but it is wmma.B.m16n16k16.col")
    assert error.fix == "move it by wmma(), and through shared memory where its elements matter"
    error = refused(lambda: gemm(matmul(64, 64, 64, "f16", out="f32"), load=conform))
    assert error.code == "opaque-fragment"


def test_wmma_loads_for_another_instruction():
    error = refused(lambda: gemm(matmul(64, 64, 64, "f16", layout="TN", out="f32"), tile=(16, 8), store=conform()))
    assert error.code == "opaque-fragment"
    assert "mma.m16n8k16.f32.f16 (done) takes it by a layout of its own" in error.message


def test_a_fragment_of_another_form():
    error = refused(
        lambda: gemm(matmul(64, 64, 64, "f16", layout="TN", out="f32"), atom="wmma.m16n16k16.row.row.f32.f16")
    )
    assert error.code == "no-atom"
    assert "its rows run along N, along which b_sh is not contiguous" in error.message


def split(level):
    chain = matmul(64, 64, 128, "f16", out="f32").tile(32, 32).to(Block).epilog(memory=FR, store=warp_store)
    chain = chain.split(ways=2).parallel(Block) if level is Block else chain
    chain = chain.split(32).load(A, SH).pad(8).load(B, SH).pad(8)
    chain = chain if level is Block else chain.split(16).parallel(level)
    chain = chain.tile(16, 16).to(Warp).split(16).unroll()
    return chain.load(A, FR, wmma()).load(B, FR, wmma()).tile(16, 16).unroll().done()


def test_sums_of_groups_of_warps():
    error = refused(lambda: split(Group(Warp, 4)))
    assert error.code == "opaque-fragment"
    assert error.message.startswith("the sum of 2 Warpgroups takes acc element by element, but it is wmma.C.m16n16k16")
    assert error.underlined == "parallel(level)"


def test_sums_over_blocks_are_register_by_register(right):
    right(split(Block))


def test_microkernels():
    kernel = microkernel("C[0] = 0;", numpy=lambda src: src, name="dump")
    error = refused(
        lambda: gemm(matmul(64, 64, 64, "f16", out="f32"), store=lambda m: m.tile(16, 16).to(Warp).done(kernel))
    )
    assert error.code == "opaque-fragment"


@pytest.mark.parametrize(("pad", "words"), [(4, "multiples of 16 bytes"), (1, "multiples of 16 bytes")])
def test_rows_at_no_multiple_of_16_bytes(pad, words):
    error = refused(lambda: gemm(matmul(64, 64, 64, "f16", out="f32"), pad=pad))
    assert error.code == "no-atom"
    assert words in error.message


def test_a_tile_that_starts_between():
    error = refused(lambda: volta.listing3(matmul(64, 64, 32, "f16", layout="NN", out="f32"), 32, 8))
    assert "rows of B do not start at multiples of 32 bytes" in error.message


def test_swizzled_rows():
    def swizzled(spec):
        from fireiron import Swizzle

        chain = spec.tile(32, 32).to(Block).epilog(memory=FR, store=warp_store).split(32)
        chain = chain.load(A, SH).swizzle(Swizzle(2, 3, 3)).load(B, SH).tile(16, 16).to(Warp).split(16).unroll()
        return chain.load(A, FR, wmma()).load(B, FR, wmma()).tile(16, 16).unroll().done()

    error = refused(lambda: swizzled(matmul(64, 64, 64, "f16", out="f32")))
    assert "Swizzle(2, 3, 3) breaks up the tile's rows in a_sh" in error.message


def test_partial_tiles_of_global_memory():
    error = refused(lambda: volta.listing3(matmul(100, 64, 64, "f16", out="f32")))
    assert "a bound cuts its rows along M" in error.message


def test_wmma_of_a_later_architecture():
    with pytest.raises(FireironError) as caught:
        gemm(matmul(64, 64, 64, "bf16", out="f32")).compile("sm_75")
    assert "wmma.m16n16k16.row.col.f32.bf16 (it needs sm_80, not sm_75)" in caught.value.message


# Agreement of fragments that are known.


def known(load_a, load_b, layout="TN", k=16, tile=(16, 8), dtype="f16", chunk=64):
    chain = matmul(64, 64, 64, dtype, layout=layout).tile(32, 32).to(Block).epilog(memory=FR).split(chunk)
    chain = chain.load(A, SH).pad(16).load(B, SH).pad(16).tile(16, 16).to(Warp).split(k).unroll()
    return chain.load(A, FR, load_a()).load(B, FR, load_b()).tile(*tile).unroll().done()


def form(name, *sizes):
    return lambda: lambda move: move.tile(*sizes).unroll().done(name)


def test_ldmatrix_without_trans_for_a_transposed_operand():
    error = refused(lambda: known(ldmatrix, form("ldmatrix.x4.A", 16, 16), layout="TT"))
    assert error.code == "no-atom"  # rows of B run along K, those of A's form along its columns
    error = refused(lambda: known(form("ldmatrix.x4.B.b16", 16, 16), ldmatrix, layout="NT"))
    assert error.code == "fragment-agreement"
    assert error.message.startswith(
        "ldmatrix.x4.B.b16 and mma.m16n8k16.f32.f16 (done) do not agree about a_fr: "
        "ldmatrix.x4.B.b16 lets thread 0 touch element (1, 0) of a_fr, which mma.m16n8k16.f32.f16 (done) gives to"
    )
    assert error.underlined == "done(name)"
    assert error.other.underlined == "done()"
    assert ".trans" in error.fix


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("load", [conform, ldmatrix])
def test_conform_and_ldmatrix_agree(right, load, layout):
    right(known(load, load, layout))
    right(known(load, load, layout, k=8))
    right(known(conform, load, layout))


@pytest.mark.parametrize(("k", "tile"), [(16, (8, 8)), (16, (16, 8)), (32, (16, 8))])
def test_ldmatrix_of_bytes(right, k, tile):
    schedule = known(ldmatrix, ldmatrix, "TN", k, tile, "i8")
    assert f"ldmatrix_x{4 if k == 32 else 2}" in schedule.cuda()
    right(schedule)


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_of_one_matrix(right, trans):
    one = lambda: lambda move: move.tile(8, 8).unroll().done("ldmatrix.x1")  # noqa: E731
    schedule = known(one, one, "NT" if trans else "TN")
    assert ("ldmatrix_x1_trans" in schedule.cuda()) == trans
    right(schedule)


def direct(layout, load):
    chain = matmul(64, 64, 64, "f16", layout=layout).tile(32, 32).to(Block).epilog(memory=FR).split(16)
    return chain.tile(16, 16).to(Warp).load(A, FR, load()).load(B, FR, load()).tile(16, 8).unroll().done()


def test_movmatrix_lets_loads_run_across(right):
    schedule = direct("NT", movmatrix)
    assert set(re.findall(r"(copy_\w+|movmatrix)\(&[ab]_fr", schedule.cuda())) == {"copy_4B", "movmatrix"}
    assert set(re.findall(r"(copy_\w+)\(&[ab]_fr", direct("NT", conform).cuda())) == {"copy_2B"}
    right(schedule)
    right(direct("TN", movmatrix))


def test_movmatrix_after_ldmatrix(right):
    # ldmatrix lays pairs along the other dimension than the use wants; movmatrix turns them.
    def load(other):
        return lambda: movmatrix(form(f"ldmatrix.x1.{other}.b16", 8, 8)())

    schedule = known(load("B"), load("A"), "NT")
    assert "ldmatrix_x1(" in schedule.cuda()
    right(schedule)
    error = refused(lambda: known(load("A"), load("B"), "TN"))
    assert error.code == "fragment-agreement"
    assert error.message.startswith("movmatrix.A.b16 and mma.m16n8k16.f32.f16 (done) do not agree about b_fr")


def test_movmatrix_of_bytes():
    error = refused(lambda: known(lambda: movmatrix(), ldmatrix, dtype="i8", k=32))
    assert error.code == "no-atom"
    assert "movmatrix moves elements of 16 bits, and those of a_fr2 have 8" in error.message


def test_instructions_know_their_architectures():
    first = {"ldmatrix.x4.A.b16": 75, "wmma.load.A.m16n16k16.row.f16.SH": 70, "wmma.load.A.m16n16k16.row.i8.SH": 72}
    assert {name: found.arch for name in first if (found := find(name)) is not None} == first


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_fragments_in_pipelines(right, stages):
    def chain(spec, load, tile, store):
        outer = spec.tile(32, 32).to(Block).epilog(memory=FR, store=store).split(64).pipeline(2)
        outer = outer.load(A, SH, staged()).pad(8).load(B, SH, staged()).pad(8).tile(16, 16).to(Warp)
        inner = outer.split(16).unroll().pipeline(stages).load(A, FR, load()).load(B, FR, load())
        return inner.tile(*tile).unroll().done()

    right(chain(matmul(64, 64, 160, "f16", layout="TN", out="f32"), wmma, (16, 16), warp_store))
    right(chain(matmul(64, 48, 160, "f16", layout="NT"), movmatrix, (16, 8), conform()))
