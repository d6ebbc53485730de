"""Persistent blocks that draw their tiles: each tile is computed once, whoever draws it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fireiron import RF, SH, A, B, Block, Thread, Warpgroup, drawn, matmul, tensor, tma, vector
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Draw, For, Leave, Roles, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import attention, hopper, rows
from fireiron.schedules.hopper import Plan
from fireiron.show import pictures
from tests.mutate.cases import drawing


def of_cores() -> Any:
    chain = matmul(100, 90, 40).tile(32, 32).to(Block).persistent(share=drawn()).epilog(memory=RF).split(8)
    chain = chain.load(A, SH).load(B, SH).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def of_attention(draw: bool = True) -> Any:
    q, k, v = (tensor(1, 3, n, 64, dtype="bf16", name=name) for name, n in (("q", 300), ("k", 300), ("v", 300)))
    return attention.wgmma(attention.attention(q, k, v, causal=True), keys=64, persistent=True, draw=draw)


def of_copies() -> Any:
    """Multiply by wgmma where all threads of the role that loads copy."""
    return drawing(hopper.gemm(matmul(256, 192, 64, "tf32", layout="NN"), Plan(64, 64, 1, transposed="shared")))


@pytest.mark.parametrize("launched", [1, 2, 5, 12])
def test_each_tile_is_computed_once(launched: int) -> None:
    rng = np.random.default_rng(launched)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((100, 40), (40, 90)))
    out = of_cores().simulate(a, b, launched=launched).out
    assert np.array_equal(out, a @ b)


@pytest.mark.parametrize("launched", [1, 2, 4])
def test_roles_hand_on_what_one_of_them_draws(launched: int) -> None:
    rng = np.random.default_rng(launched)
    arrays = [rng.standard_normal((1, 3, 300, 64)).astype(ml_dtypes.bfloat16) for _ in range(3)]
    out, wanted = (of_attention(d).simulate(*arrays, launched=launched).out for d in (True, False))
    assert np.array_equal(out.view(np.uint16), wanted.view(np.uint16))


def test_threads_that_copy_read_what_the_first_one_draws() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((256, 64), (64, 192)))
    schedule = of_copies()
    (roles,) = (s for s in walk(schedule.lowered().body) if isinstance(s, Roles))
    draws = [[s.reads for s in walk(r.body) if isinstance(s, Draw)] for r in roles.roles]
    assert draws == [[False, True], [True]]
    assert np.array_equal(schedule.simulate(a, b, launched=3).out, a @ b)


@pytest.mark.parametrize("make", [of_cores, of_attention, of_copies])
def test_the_loop_ends_where_no_item_is_left(make: Any) -> None:
    kernel = make().lowered()
    loops = [s for s in walk(kernel.body) if isinstance(s, For) and s.drawn]
    assert loops
    assert all(sum(isinstance(s, Leave) for s in loop.body) == 1 for loop in loops)
    assert unordered(kernel) == ()
    text = make().cuda("sm_90a")
    assert "for (int trip = 0;; ++trip)" in text
    assert ") break;" in text


def test_timelines_show_the_tiles_that_a_block_has_in_turn() -> None:
    assert pictures.timeline(of_cores(), tiles=2).svg()


def test_kernels_compile_without_spills() -> None:
    for make in (of_cores, of_attention, of_copies):
        assert make().compile("sm_90a").resources.spills == 0


def of_turns() -> Any:
    chain = matmul(512, 512, 512, "f16", layout="TN", arch="sm_90a").tile(128, 128).to(Block)
    chain = chain.persistent(share=drawn()).epilog().split(64).pipeline(3).specialize().load(A, SH, tma())
    chain = chain.load(B, SH, tma()).tile(128, 128).to(Warpgroup).staggered(2).tile(64, 128).unroll().split(16)
    return chain.unroll().done()


def of_the_next_tile() -> Any:
    chain = rows.softmax(tensor(64, 256)).tile(m=1).to(Block).persistent(share=drawn()).pipeline(2)
    return chain.load("x", SH, vector()).split("n", ways=256).parallel(Thread).done()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (of_turns, "staggered units take tiles in turn"),
        (of_the_next_tile, "pipeline() loads the next tile, which is not drawn yet"),
    ],
)
def test_what_must_know_the_next_tile_takes_tiles_in_turn(make: Any, why: str) -> None:
    with pytest.raises(DecompositionError) as caught:
        make()
    assert caught.value.code == "drawn-units"
    assert why in caught.value.message
    assert caught.value.fix.endswith("or drop share=drawn()")
