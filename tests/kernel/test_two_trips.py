"""Loops of two trips for targets whose compiler ends its process on some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import RF, SH, Block, Thread, tensor
from fireiron.algebra.arch import arch
from fireiron.jit.apart import compile_apart
from fireiron.schedules import conv


def rolled(depth: int, target: str) -> Any:
    """Give a convolution whose channels are cut into chunks of 4; 8 of them once ended NVRTC for sm_100."""
    x, f = tensor(1, 5, 9, depth, dtype="f16", name="x"), tensor(16, 3, 3, depth, dtype="f16", name="f")
    chain = conv.conv2d(x, f, arch=target).tile(n=1, p=2, q=8, k=8).to(Block).epilog(memory=RF)
    chain = chain.split(c=4).load("x", SH).load("f", SH).tile(n=1, p=1, q=1, k=1).to(Thread)
    return chain.split(r=1).unroll().split(s=1).split(c=1).load("x", RF).load("f", RF).done()


@pytest.mark.parametrize(
    ("depth", "target", "pragma"),
    [(8, "sm_100", "#pragma unroll 2"), (8, "sm_90", "#pragma unroll 1"), (12, "sm_100", "#pragma unroll 1")],
)
def test_both_trips_stand_beside_each_other_where_the_compiler_needs_it(depth: int, target: str, pragma: str) -> None:
    lines = [line.strip() for line in rolled(depth, target).cuda().splitlines()]
    (at,) = [i for i, line in enumerate(lines) if line == f"for (int c = 0; c < {depth // 4}; ++c) {{"]
    assert lines[at - 1] == pragma


def test_it_compiles() -> None:
    schedule = rolled(8, "sm_100")
    assert compile_apart(schedule.cuda(), schedule.name, arch("sm_100")).cubin


def test_it_computes_the_same() -> None:
    rng = np.random.default_rng(0)
    x, f = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((1, 5, 9, 8), (16, 3, 3, 8)))
    one, other = (rolled(8, target).simulate(x, f).out for target in ("sm_100", "sm_90"))
    assert (one == other).all()
