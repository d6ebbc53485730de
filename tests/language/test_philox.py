"""Random bits: the generator's published answers, and the same bits in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import pointwise

FULL = 2**32 - 1


@pytest.mark.parametrize(
    ("counter", "key", "words"),  # Random123's known answers
    [
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((FULL,) * 4, (FULL,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]) -> None:
    assert tuple(map(int, fi.philox(counter, key))) == words


@fi.program(x="m n", seed="c")
def noise(x: fi.Value, seed: fi.Value) -> fi.Value:
    m, n = fi.index("m"), fi.index("n")
    return x + fi.random_bits((n // 4, m, 0, seed[2]), (seed[0], seed[1]), n % 4).cast("f32")


def test_bits_of_a_kernel() -> None:
    spec = noise(fi.Matrix(5, 12, "f32"), fi.Vector(3, "i32", name="seed"))
    seed = np.array([-1, 2**31 - 1, 9], np.int32)
    made = pointwise.pointwise(spec).simulate(np.zeros((5, 12), np.float32), seed).arrays["y"]
    m, n = np.ix_(range(5), range(3))
    words = np.stack(fi.philox((n, m, 0, 9), (FULL, 2**31 - 1)), -1).reshape(5, 12)
    np.testing.assert_array_equal(made, words >> 8)
    assert pointwise.pointwise(spec).compile("sm_80").resources.spills == 0
