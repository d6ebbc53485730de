"""Exported kernels on a GPU: loaded in Python without the compiler, and launched by the example in C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fireiron import matmul
from fireiron.jit import compile as compiling
from fireiron.jit.driver import driver
from fireiron.jit.export import load
from fireiron.schedules import hopper, simt

INCLUDE = Path("/usr/local/cuda/include")


def exported(place: Path):
    capability = driver().compute_capability(0)
    if capability >= 90:
        return hopper.gemm(matmul(512, 512, 256, "f16", layout="TN")).export(str(place), ("sm_90a",))
    return simt.sgemm(matmul(512, 512, 256, layout="TN")).export(str(place), (f"sm_{capability}",))


def test_the_loader(tmp_path, monkeypatch):
    exported(tmp_path)
    monkeypatch.setattr(compiling, "_nvrtc", lambda: pytest.fail("compiled"))
    kernel = load(tmp_path)
    kind = np.float16 if "f16" in kernel.name else np.float32
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (512, 256)).astype(kind) for _ in range(2))
    assert np.array_equal(kernel(a, b), (a.astype(np.float32) @ b.astype(np.float32).T).astype(kind))


@pytest.mark.skipif(
    shutil.which("cc") is None or not (INCLUDE / "cuda.h").exists(), reason="no C compiler, or no cuda.h"
)
def test_the_example_in_c(tmp_path):
    made = exported(tmp_path)
    command = ["cc", "main.c", f"-I{INCLUDE}", "-l:libcuda.so.1", "-o", "example"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ran = subprocess.run(["./example"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{made.name} ran\n"
