"""Loops over neighbours of 16-bit floats are printed for two at once, where that gives the same bits."""

from __future__ import annotations

import attrs
import pytest

from fireiron.algebra.dtypes import DType, bf16, e4m3, f16, f32
from fireiron.algebra.expr import Expr, Var, as_expr, lt
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, Unary
from fireiron.cuda.memory import Numbers
from fireiron.cuda.pairs import pair_text
from fireiron.kernel.ir.statements import Buffer, Compute, For, View
from fireiron.kernel.passes.pairs import pair_of, with_pairs
from fireiron.language.levels import GL, RF, Memory, Thread

E, COUNT = Var("e", 8), as_expr(8)


def view(name: str, dtype: DType, offset: Expr, memory: Memory = RF) -> View:
    return View(Buffer(name, memory, dtype, as_expr(16), unit=Thread), offset)


def relu(dtype: DType) -> Scalar:
    return Binary("max", Arg(0, dtype), Constant(0, dtype))


def loop(tree: Scalar, dst: View, *inputs: View) -> For:
    return For(E, COUNT, (Compute(dst, tree, inputs),), unroll=True)


def printed(made: For) -> str | None:
    found = pair_of(made)
    return None if found is None else pair_text(found, Numbers())


def test_one_instruction_takes_two_neighbours() -> None:
    here = view("x", f16, E + 4)
    found = pair_of(loop(relu(f16), here, here))
    assert found is not None
    assert (found.var, found.count) == (Var("e", 4), 4)
    assert pair_text(found, Numbers()) == "put_pair(&x[e * 2 + 4], max_half_pair(pair_at(&x[e * 2 + 4]), 0x00000000));"


def test_what_is_not_packed_is_computed_for_each_of_the_two() -> None:
    tree = Binary("min", Cast(Arg(0, f32), bf16), Constant(1.5, bf16))
    text = printed(loop(tree, view("y", bf16, E + 0), view("acc", f32, 3 * E)))
    each = "floats_to_bf16_pair(acc[e * 6], acc[e * 6 + 3])"
    assert text == f"put_pair(&y[e * 2], min_bf16_pair({each}, 0x3fc03fc0));"


@pytest.mark.parametrize(("arch", "marked"), [(80, False), (89, True)])
def test_two_conversions_to_8_bits_are_one_instruction(arch: int, marked: bool) -> None:
    made = loop(Cast(Arg(0, f32), e4m3), view("p", e4m3, E + 0), view("acc", f32, 3 * E))
    assert printed(made) == "put_bytes(&p[e * 2], floats_to_e4m3_pair(acc[e * 6], acc[e * 6 + 3]));"
    (found,) = with_pairs((made,), arch)
    assert isinstance(found, For)
    assert found.pairs is marked


def test_values_of_a_whole_line_are_doubled() -> None:
    tree = Binary("mul", Arg(0, f16), Arg(1, f16))
    here = view("x", f16, E + 0)
    text = printed(loop(tree, here, here, view("scale", f16, as_expr(5), GL)))
    assert text == "put_pair(&x[e * 2], mul_half_pair(pair_at(&x[e * 2]), pack_pair(scale[5], scale[5])));"


@pytest.mark.parametrize("tree", [Unary("neg", Arg(0, bf16)), Unary("abs", Arg(0, bf16))])
def test_signs_are_bits(tree: Unary) -> None:
    here = view("x", bf16, E + 0)
    assert printed(loop(tree, here, here)) == f"put_pair(&x[e * 2], {tree.op}_pair(pair_at(&x[e * 2])));"


here16, here32 = view("x", f16, E + 0), view("x", f32, E + 0)
REFUSED = {
    "f32": loop(relu(f32), here32, here32),
    "sums of bf16": loop(Binary("add", Arg(0, bf16), Arg(0, bf16)), *[view("x", bf16, E + 0)] * 2),
    "exp": loop(Unary("exp", Arg(0, f16)), here16, here16),
    "odd places": loop(relu(f16), view("x", f16, E + 1), view("x", f16, E + 1)),
    "apart": loop(relu(f16), view("x", f16, E * 2), view("x", f16, E * 2)),
    "memory": loop(relu(f16), view("x", f16, E + 0, GL), view("x", f16, E + 0, GL)),
    "overwritten": loop(relu(f16), here16, view("x", f16, E + 2)),
    "odd counts": For(Var("e", 7), as_expr(7), loop(relu(f16), here16, here16).body, unroll=True),
    "rolled": attrs.evolve(loop(relu(f16), here16, here16), unroll=False),
    "masked": For(E, COUNT, (Compute(here16, relu(f16), (here16,), lt(E, 5)),), unroll=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_stay_as_they_are(name: str) -> None:
    assert printed(REFUSED[name]) is None
