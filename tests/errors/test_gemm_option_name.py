"""An epilog whose parameter has the name of an option of gemm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import gemm


def wrong() -> Any:
    return gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc, stream: acc + stream, stream=np.ones(16))


def test_gemm_option_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-epilog",
        "gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc, stream: acc + stream, stream=np.ones(16))",
        """\
CallError[bad-epilog]: the epilog's parameter stream has the name of an option of gemm
  --> test_gemm_option_name.py:14:12
14 |     return gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc, stream: acc + stream, stream=np.ones(16))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: call it stream_, and pass stream_=...""",
    )
