"""An unknown architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrong(product: Callable[..., Any]) -> Any:
    return product().compile("sm_1")


def test_unknown_arch(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "unknown-arch",
        'compile("sm_1")',
        """\
SpecError[unknown-arch]: unknown architecture 'sm_1'
  --> test_unknown_arch.py:10:22
10 |     return product().compile("sm_1")
   |                      ^^^^^^^^^^^^^^^
fix: use one of sm_70, sm_72, sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, sm_110, sm_110a, sm_120, sm_120a, sm_121, sm_121a""",  # noqa: E501
    )
