"""Sums over rows whose columns do not fit into the registers of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, Vector
from fireiron.schedules import rows


def wrong() -> Any:
    wide = Matrix(64, 65536, "bf16"), Matrix(64, 65536, "bf16", name="dy"), Vector(65536, "bf16", name="gain")
    return rows.row(rows.layernorm_gradients(*wide))


def test_row_sums(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "row-columns",
        "row(rows.layernorm_gradients(*wide))",
        """\
FireironError[row-columns]: rows.row keeps layernorm_gradients's sums over m beside a row, and 65536 columns are more \
than a block's registers hold
  --> test_row_sums.py:14:17
14 |     return rows.row(rows.layernorm_gradients(*wide))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: compute the sums by a kernel of their own: reductions.reduction""",
    )
