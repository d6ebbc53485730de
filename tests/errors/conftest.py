"""What every mistake's test asserts: code, the text above the carets, the whole message, and a fix."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fireiron import RF, SH, A, B, Block, FireironError, Thread, Warp, matmul

Refused = Callable[..., FireironError]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Refused:
    """Call what is wrong, and compare the error; files print as seen from this folder."""
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))

    def check(wrong: Callable[[], Any], code: str, underlined: str, text: str) -> FireironError:
        with pytest.raises(FireironError) as caught:
            wrong()
        error = caught.value
        assert re.sub(r"0x[0-9a-f]+", "0x...", str(error)) == text  # addresses differ from run to run
        assert (error.code, error.underlined) == (code, underlined)
        assert error.fix
        return error

    return check


@pytest.fixture
def product() -> Callable[..., Any]:
    """Give a finished product of 64x64x16 or of other sizes: 128 threads of 4x2 elements for each 32x32."""

    def make(*size: Any, **spec: Any) -> Any:
        return (
            matmul(*(size or (64, 64, 16)), **spec)
            .tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
            .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
            .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip

    return make
