"""A simulation with a pad that takes 59.6 GiB of shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import RF, SH, A, B, Block, Thread, matmul


def wrong() -> Any:
    chain = matmul(16, 16, 16).tile(16, 16).to(Block).epilog(memory=RF).split(8).load(A, SH).pad(10**9)
    schedule = chain.tile(1, 1).to(Thread).split(1).load(A, RF).load(B, RF).done()
    return schedule.simulate(np.ones((16, 16), np.float32), np.ones((16, 16), np.float32))


def test_shared_simulated(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "",
        """\
SimulationError[shared-memory]: a block takes 59.6 GiB of shared memory, and no machine has as much
fix: use smaller tiles and pads, shorter chunks or fewer stages""",
    )
