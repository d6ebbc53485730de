"""What `debug` prints on a GPU is what it prints on the simulator, line by line, in another order."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import debug, matmul
from fireiron.jit.driver import driver
from fireiron.schedules import ampere, simt


@pytest.mark.parametrize("preset", [simt.sgemm, ampere.gemm], ids=["simt", "ampere"])
def test_lines_are_those_of_the_simulator(preset: object, capfd: pytest.CaptureFixture[str]) -> None:
    dtype = "f32" if preset is simt.sgemm else "f16"
    schedule = preset(matmul(130, 24, 64, dtype), ops=(debug("sum"),))  # pyright: ignore[reportCallIssue]
    rng = np.random.default_rng(0)
    kind = schedule.program.spec.A.dtype.numpy
    a, b = (rng.integers(-3, 4, shape).astype(kind) for shape in ((130, 64), (64, 24)))
    wanted = schedule.simulate(a, b).out
    simulated = sorted(line for line in capfd.readouterr().out.splitlines() if line.startswith("sum: "))
    out = schedule.compile()(a, b)
    driver().push(driver().context(0))  # what kernels print comes when the device is waited for
    driver().call(driver().cu.cuCtxSynchronize())
    driver().pop()
    printed = sorted(line for line in capfd.readouterr().out.splitlines() if line.startswith("sum: "))
    assert (out == wanted).all()
    assert printed == simulated
    assert len(printed) == 130 * 24
