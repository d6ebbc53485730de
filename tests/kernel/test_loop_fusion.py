"""Loops over a chunk's points are one loop, in which a value takes a register or two."""

from __future__ import annotations

from typing import Any

import pytest

import fireiron as fi
from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import Expr, Var, as_expr
from fireiron.algebra.scalar import Arg, Unary
from fireiron.kernel.ir.statements import Buffer, Compute, For, View, walk
from fireiron.kernel.lower.loop_fusion import fused, in_one_register
from fireiron.language.levels import RF, Thread
from fireiron.schedules import attention


def heads(dtype: str) -> Any:
    q, k, v = (fi.tensor(1, 1, n, 64, dtype=dtype) for n in (64, 96, 96))
    spec = attention.attention(q, k, v)
    return attention.wgmma(spec, groups=1, keys=32, persistent=False, slack=10.0, speculate=True)


@pytest.mark.parametrize(("dtype", "pair"), [("f16", "floats_to_half_pair"), ("bf16", "floats_to_bf16_pair")])
def test_an_exponential_takes_two_registers(dtype: str, pair: str) -> None:
    kernel = heads(dtype).lowered()
    assert next(b for b in kernel.buffers if b.name == "part_rf").size == as_expr(2)
    text = heads(dtype).cuda("sm_90a")
    assert f"{pair}(part_rf[" in text or f"{pair}(wide[" in text
    assert "exp2_approx(fmaf(s[" in text


def array(name: str) -> Buffer:
    return Buffer(name, RF, f32, as_expr(8), unit=Thread)


def loop(var: str, to: str, source: str, moved: int = 0) -> For:
    i = Var(var, 4)
    out: Expr = as_expr(i)
    one = Compute(View(array(to), out), Unary("exp", Arg(0, f32)), (View(array(source), i + moved),))
    return For(i, as_expr(4), (one,), unroll=True)


def test_loops_over_the_same_points_are_one() -> None:
    (one,) = body = fused((loop("i", "b", "a"), loop("j", "c", "b")))
    assert isinstance(one, For)
    assert [s.dst.buffer.name for s in walk(body) if isinstance(s, Compute)] == ["b", "c"]
    kept = in_one_register(body, "b")
    assert kept is not None
    assert {
        str(v.offset) for s in walk(kept) if isinstance(s, Compute) for v in (s.dst, *s.inputs) if v.buffer.name == "b"
    } == {"0"}


def test_loops_that_touch_each_others_points_stay_apart() -> None:
    two = (loop("i", "b", "a"), loop("j", "c", "b", moved=1))
    assert fused(two) == two
    assert in_one_register(two, "b") is None
    overwritten = (loop("i", "b", "a"), loop("j", "a", "c"))
    assert fused(overwritten) == overwritten


def test_what_is_written_elsewhere_keeps_its_registers() -> None:
    two = (loop("i", "b", "a"), loop("j", "c", "b"))
    assert in_one_register(two, "b") is None
