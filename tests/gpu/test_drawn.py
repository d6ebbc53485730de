"""Drawn kernels on the GPU: the same bits as the simulator, on integer data."""

from __future__ import annotations

import pytest
from drawn import differs, in_processes

BATCHES = 20
KERNELS = 25  # of a batch: 500 in all
SEEDS = [f"gpu {i}" for i in range(BATCHES)]


@pytest.fixture(scope="module")
def kernels():
    """Draw and compile all kernels in several processes, before the first test runs one."""
    from fireiron.jit.driver import driver

    return in_processes(SEEDS, KERNELS, f"sm_{driver().compute_capability(0)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gpu_gives_the_simulators_bits(kernels, seed):
    assert len(kernels[seed]) == KERNELS
    wrong = {name: (text, source) for name, source in kernels[seed] if (text := differs(source))}
    assert not wrong, "\n\n".join(f"{name}: {text}\n{source}" for name, (text, source) in wrong.items())
