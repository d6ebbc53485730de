"""Loads with a hint to the L1 cache, and ranges of blocks of an SM, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest

import fireiron as fi
from fireiron.language.atom import LOAD_POLICIES
from fireiron.schedules import rows

torch = pytest.importorskip("torch")


@fi.program(x="m n")
def doubled(x: fi.Value) -> fi.Value:
    """Double each element."""
    return x + x


@pytest.mark.parametrize("policy", [*LOAD_POLICIES, None])
@pytest.mark.parametrize("nbytes", [16, 8, 4, 2, 1])
def test_loads_of_every_width(nbytes: int, policy: Any) -> None:
    chain = doubled(fi.tensor(1003, 512, dtype="i8", name="x")).tile(m=4).to(fi.Block).tile(m=1).to(fi.Warp)
    schedule = chain.load("x", fi.RF, fi.vector(nbytes, l1=policy)).epilog(memory=fi.RF).done()
    x = torch.randint(-60, 60, (1003, 512), dtype=torch.int8, device="cuda")
    out = torch.zeros_like(x)
    schedule.compile()(x, out=out)
    assert torch.equal(out, 2 * x)


@pytest.mark.parametrize("width", [40, 104, 208, 250, 936, 1000, 2544, 5000, 11_376])
@pytest.mark.parametrize("lines", [3, 61, 4003])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cross_entropy"])
def test_ragged_rows(name: str, lines: int, width: int) -> None:
    x = torch.randn(lines, width, dtype=torch.bfloat16, device="cuda")
    target = torch.randint(0, width, (lines,), dtype=torch.int32, device="cuda")
    given = fi.tensor(lines, width, dtype="bf16", name="x")
    exact = x.double()
    if name == "cross_entropy":
        spec = rows.cross_entropy(given, fi.tensor(lines, dtype="i32", name="target"), out="f32")
        wanted, arrays = torch.nn.functional.cross_entropy(exact, target.long(), reduction="none"), (x, target)
        out = torch.zeros(lines, device="cuda")
    else:
        spec, arrays, out = getattr(rows, name)(given), (x,), torch.zeros_like(x)
        wanted = getattr(torch, name)(exact, 1)
    rows.row(spec).compile()(*arrays, out=out)
    torch.testing.assert_close(out.double(), wanted, rtol=2.0**-7, atol=1e-4 if name == "softmax" else 1e-2)
