"""Reductions inside a warp on the hardware, against their NumPy meanings."""

from __future__ import annotations

import numpy as np
import pytest
from warp_rows import LANES, reduction

from fireiron.algebra.arch import native
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.redux import REDUX
from fireiron.jit.build import build
from fireiron.jit.driver import driver

WARPS = 8


@pytest.mark.parametrize("row", REDUX, ids=lambda row: row.name)
def test_a_row_means_what_the_hardware_does(row):
    capability = driver().compute_capability(0)
    if capability < row.arch:
        pytest.skip(f"{row.name} needs sm_{row.arch}")
    kernel = reduction(row, threads=WARPS * LANES)
    x = np.random.default_rng(0).integers(-(2**31), 2**31, WARPS * LANES).astype(np.int32)
    got = build("row", lambda: kernel, native(capability), cache=False)(x)
    assert np.asarray(got).tolist() == meaning_of(row)(x.reshape(WARPS, LANES, 1)).ravel().tolist()
