"""max_registers=16; ptxas takes 24 to 255."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import simt


def wrong() -> Any:
    return simt.listing1(matmul(64, 64, 32)).compile("sm_80", max_registers=16)


def test_register_cap(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "register-cap",
        "",
        """\
CompileError[register-cap]: max_registers=16 is no cap: ptxas gives a thread 24 to 255 registers
fix: choose a number between them, or leave it out for what launch bounds allow""",
    )
