"""A call without a GPU whose simulation would take too long, and a limit that is no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import matmul
from fireiron.front import host
from fireiron.schedules import simt


def wrong() -> Any:
    a = np.zeros((4096, 4096), np.float32)
    return simt.listing2(matmul(4096, 4096, 4096))(a, a)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "without_gpu", lambda: True)
    monkeypatch.delenv(host.LIMIT, raising=False)


def test_simulation_limit(refused: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fireiron.simulate.cost", lambda kernel, sizes: 5400.0)
    refused(
        wrong,
        "long-simulation",
        "simt.listing2(matmul(4096, 4096, 4096))(a, a)",
        """\
UsageError[long-simulation]: there is no GPU, and simulating listing2_128x128x8_f32 takes about 90 min: the limit is 30 s
  --> test_simulation_limit.py:18:12
18 |     return simt.listing2(matmul(4096, 4096, 4096))(a, a)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use smaller arrays or a GPU, or set FIREIRON_SIMULATION_S=10000 in the environment""",  # noqa: E501
    )


def test_simulation_limit_of_no_seconds(refused: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(host.LIMIT, "soon")
    refused(
        wrong,
        "bad-limit",
        "simt.listing2(matmul(4096, 4096, 4096))(a, a)",
        """\
UsageError[bad-limit]: FIREIRON_SIMULATION_S=soon is no number of seconds
  --> test_simulation_limit.py:18:12
18 |     return simt.listing2(matmul(4096, 4096, 4096))(a, a)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: set FIREIRON_SIMULATION_S=300, or unset it""",
    )
