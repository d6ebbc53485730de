"""Swizzles: the exclusive-or that shared memory and TMA use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fireiron.algebra.index.nodes import Var
from fireiron.algebra.swizzle import Swizzle

SMALL = [Swizzle(bits, base, shift) for bits in range(4) for base in range(4) for shift in range(bits, 5)]


@pytest.mark.parametrize("swizzle", SMALL, ids=str)
def test_laws_at_every_offset(swizzle: Swizzle) -> None:
    offsets = np.arange(4 * swizzle.period)
    moved = swizzle(offsets)
    assert [swizzle(int(offset)) for offset in offsets] == moved.tolist()
    assert swizzle(moved).tolist() == offsets.tolist()
    # The definition with the mask above: CuTe's form.
    mask = ((1 << swizzle.bits) - 1) << (swizzle.base + swizzle.shift)
    assert moved.tolist() == (offsets ^ ((offsets & mask) >> swizzle.shift)).tolist()
    repeated = moved[: swizzle.period].tolist() * 4
    assert (moved - offsets // swizzle.period * swizzle.period).tolist() == repeated
    if swizzle.bits:
        half = swizzle.period // 2
        assert (moved[half : 2 * half] - half).tolist() != moved[:half].tolist()
    groups = moved.reshape(-1, min(swizzle.contiguous, len(moved)))
    assert (np.diff(groups, axis=1) == 1).all()


@pytest.mark.parametrize(("bits", "mode"), [(3, 128), (2, 64), (1, 32)])
def test_tma_modes_on_bytes(bits: int, mode: int) -> None:
    offsets = np.arange(4096)
    assert (Swizzle(bits, 4, 3)(offsets) == offsets ^ ((offsets >> 7 & (1 << bits) - 1) << 4)).all()
    assert Swizzle(bits, 4, 3).period == 8 * mode
    assert Swizzle(bits, 4, 3).contiguous == 16


def test_eight_rows_of_a_128_byte_panel_meet_eight_different_banks() -> None:
    swizzle = Swizzle(3, 4, 3)
    for column in range(8):
        assert len({swizzle(128 * row + 16 * column) % 128 for row in range(8)}) == 8


@given(st.integers(0, 2**40), st.sampled_from(SMALL))
def test_large_offsets(offset: int, swizzle: Swizzle) -> None:
    assert swizzle(swizzle(offset)) == offset


def test_expressions() -> None:
    offset = Var("offset", 1024)
    assert Swizzle(3, 4, 3)(offset) == offset ^ (offset >> 3 & 0x70)
    assert Swizzle(0, 4, 3)(offset) is offset


def test_text_and_identity() -> None:
    assert str(Swizzle(3, 4, 3)) == "Swizzle(3, 4, 3)"
    assert (Swizzle(0, 2, 0).period, Swizzle(0, 2, 0).contiguous) == (1, 4)
    assert len({Swizzle(3, 4, 3), Swizzle(3, 4, 3)}) == 1
