"""Drawn kernels on the GPU: the same bits as the simulator, on integer data."""

from __future__ import annotations

from drawn import drawn_kernels, on_gpu

KERNELS = 500


def test_the_gpu_gives_the_simulators_bits():
    from fireiron.jit.driver import driver

    found = drawn_kernels("gpu", KERNELS, f"sm_{driver().compute_capability(0)}")
    assert len(found) == KERNELS
    wrong, texts = on_gpu(found), dict(found)
    assert not wrong, "\n\n".join(f"{name}: {text}\n{texts[name]}" for name, text in wrong.items())
