"""Compiling printed kernels without a GPU."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

ARCHS = ("sm_75", "sm_80", "sm_90a", "sm_120")


@pytest.fixture
def compiles() -> Callable[..., None]:
    """Compile a source for every architecture, and demand that nothing spills or lies on a stack."""
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")

    def check(text: str, archs: tuple[str, ...] = ARCHS) -> None:
        for arch in archs:
            log = io.StringIO()
            options = core.ProgramOptions(arch=arch, ptxas_options=["-v"], no_display_error_number=True)
            core.Program(text, "c++", options).compile("cubin", logs=log)
            resources = log.getvalue()
            assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in resources, (arch, resources)
            assert "warning" not in resources, (arch, resources)

    return check
