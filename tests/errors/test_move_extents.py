"""stmatrix() where the extents of a warp's tile are not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Warp, matmul, stmatrix, through_shared


def wrong() -> Any:
    chain = matmul(64, 64, 64, "f16").tile(64, 64).to(Block)
    return chain.epilog(store=through_shared(stmatrix(), at=Warp))


def test_move_extents(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "move-extents",
        "epilog(store=through_shared(stmatrix(), at=Warp))",
        """\
DecompositionError[move-extents]: stmatrix() cuts Move ?x? by its extents, and that along M is not known here
  --> test_move_extents.py:13:18
13 |     return chain.epilog(store=through_shared(stmatrix(), at=Warp))
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > store > own Warp
fix: tile or split above it; where units stage what they hold, by through_shared(..., panel=(m, n))""",
    )
