"""Folds of programs whose states all blocks of a tile combine, a share each: the same bits as by the last block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import tensor
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Kernel, Meet, Sync
from fireiron.schedules import conv_gradients
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

Golden = Callable[[str, str], None]


def gradient(filters: int, channels: int, out: str, **options: Any) -> Any:
    """Schedule the gradient of 2 x 2 filters of 6 images."""
    y, x = tensor(6, 4, 5, filters, dtype="f16"), tensor(6, 5, 6, channels, dtype="f16")
    spec = conv_gradients.conv2d_filter_gradient(y, x, (2, 2), out=out)
    return conv_gradients.filters_wgmma(spec, pixels=32, stages=2, **options)


def made(kernel: Kernel) -> Any:
    arrays = random_arrays(Interface.of(kernel), {}, seed=3)
    simulate(kernel, arrays)
    return arrays["out_y"]


@pytest.mark.parametrize(
    ("filters", "channels", "out", "ways"), [(72, 64, "f32", 3), (64, 40, "f16", 2), (64, 72, "f16", 3)]
)
def test_shares_have_the_bits_of_the_last_block(filters: int, channels: int, out: str, ways: int) -> None:
    last, shared = (gradient(filters, channels, out, ways=ways, shared=s).lowered("sm_90a") for s in (False, True))
    assert shared.cooperative
    np.testing.assert_array_equal(made(last), made(shared))


def test_no_part_of_the_meeting_is_needless() -> None:
    kernel = gradient(64, 64, "f16", ways=2, shared=True).lowered("sm_90a")
    without_meeting = rewrite(kernel.body, lambda s: () if isinstance(s, Meet) else s)
    without_barrier = rewrite(kernel.body, lambda s: () if isinstance(s, Sync) and "product_parts" in s.reason else s)
    for body, code in ((without_meeting, "uninitialised-read"), (without_barrier, "race")):
        with pytest.raises(SimulationError) as error:
            made(attrs.evolve(kernel, body=body))
        assert error.value.code == code


def test_shares_of_filters_print(golden: Golden) -> None:
    schedule = gradient(128, 64, "f16", ways=2, shared=True)
    golden(schedule.cuda("sm_90a"), "schedules/conv_filters_shares.cu")


def test_shared_sums_take_tiles_that_fit_at_once() -> None:
    y, x = tensor(32, 56, 56, 64, dtype="f16"), tensor(32, 56, 56, 64, dtype="f16")
    kernel = conv_gradients.filters_wgmma(conv_gradients.conv2d_filter_gradient(y, x, 3, pad=1), shared=True).lowered(
        "sm_90a"
    )
    assert kernel.cooperative
    assert int(str(kernel.grid)) <= 132
