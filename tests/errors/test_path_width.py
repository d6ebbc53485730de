"""Layers of 40 columns on a path that takes multiples of 16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron.schedules import fused


def wrong() -> Any:
    return fused.mlp_block(64, 40, path="hopper")


def test_path_width(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "path-width",
        'mlp_block(64, 40, path="hopper")',
        """\
FireironError[path-width]: layers of 40 columns have no schedule for tensor cores, which take multiples of 16
  --> test_path_width.py:12:18
12 |     return fused.mlp_block(64, 40, path="hopper")
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use path="simt", or make each width a multiple of 16""",
    )
