"""A program called with an unknown architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return softmax(tensor(64, 64, name="x"), arch="sm_99x")


def test_unknown_arch_of_program(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-arch",
        'softmax(tensor(64, 64, name="x"), arch="sm_99x")',
        """\
SpecError[unknown-arch]: unknown architecture 'sm_99x'
  --> test_unknown_arch_of_program.py:13:12
13 |     return softmax(tensor(64, 64, name="x"), arch="sm_99x")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use one of sm_70, sm_72, sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, sm_110, sm_110a, sm_120, sm_120a, sm_121, sm_121a""",  # noqa: E501
    )
