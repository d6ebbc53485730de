"""A compilation for Volta where NVRTC 12 is not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import matmul
from fireiron.jit import nvrtc12
from fireiron.schedules import volta


def wrong() -> Any:
    return volta.small(matmul(64, 64, 32, "f16")).compile("sm_70", cache=False)


def test_no_nvrtc_for_volta(refused: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc12, "find", lambda: None)
    refused(
        wrong,
        "no-nvrtc",
        "",
        """\
CompileError[no-nvrtc]: NVRTC 13 does not compile for sm_70, and NVRTC 12.9, which does, is not installed
fix: pip install 'fireiron[volta]', which installs nvidia-cuda-nvrtc-cu12 12.9""",
    )
