"""NVTX ranges without the package nvtx."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from fireiron.jit.ranges import VARIABLE, ranged


def wrong() -> Any:
    return ranged(lambda addresses, numbers, stream: None, "gemm")


def test_no_nvtx(refused: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setitem(sys.modules, "nvtx", None)
    refused(
        wrong,
        "no-nvtx",
        "",
        """\
CallError[no-nvtx]: FIREIRON_NVTX is set, and the package nvtx is not installed
fix: pip install nvtx, or unset FIREIRON_NVTX""",
    )
