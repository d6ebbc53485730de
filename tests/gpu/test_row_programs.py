"""Row programs on the GPU, against their references: every carrier of a fold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import Matrix, Vector
from fireiron.front.reference import compare, references
from fireiron.front.simulation import random_arrays
from fireiron.jit.interface import Interface
from fireiron.schedules import rows


def right(schedule: Any) -> None:
    interface = Interface.of(schedule.lowered())
    arrays = random_arrays(interface, {})
    names = [p.name for p in interface.inputs]
    found = schedule.compile()(*(arrays[n] for n in names))
    outs = found if isinstance(found, tuple) else (found,)
    expected = references(schedule, arrays, {})
    for tensor, out in zip(schedule.computed.outputs, outs, strict=True):
        compared = compare(tensor.name, np.asarray(out), expected[tensor.name], tensor.dtype)
        assert compared.right, str(compared)


@pytest.mark.parametrize("width", [8, 48, 384, 1000, 3000, 8192, 16384])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_layernorm(gpu: int, width: int, dtype: str) -> None:
    gain, bias = Vector(width, dtype, name="gain"), Vector(width, dtype, name="bias")
    right(rows.row(rows.layernorm(Matrix(37, width, dtype), gain, bias)))


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_a_cluster_shares_a_row(gpu: int, blocks: int) -> None:
    right(rows.row(rows.softmax(Matrix(37, 8000, "f16")), blocks=blocks, warps=4))


def test_a_wide_row(gpu: int) -> None:
    right(rows.row(rows.softmax(Matrix(5, 100000, "f16"))))
