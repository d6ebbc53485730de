"""specialize() without loads below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, A, B, Block, Warp, matmul


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16")
        .tile(128, 128)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .specialize()
        .tile(64, 64)
        .to(Warp)
        .split(16)
        .load(A, FR)
        .load(B, FR)
        .tile(16, 8)
        .unroll()
        .done()
    )


def test_role_loads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-loads",
        "specialize()",
        """\
DecompositionError[role-loads]: specialize() finds no loads to shared memory right below its split
  --> test_role_loads.py:18:10
18 |         .specialize()
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: load A and B to SH right below the split""",
    )
