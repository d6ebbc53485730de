"""Convolutions of NumPy's arrays, simulated: every rank, orders in memory, what follows, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, conv1d, conv2d, conv3d, conv_transpose2d
from fireiron.base.errors import CompileError
from fireiron.front import convolutions, transposed


def whole(*shape: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(dtype)


def summed(x: Any, f: Any, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Any:
    """Convolve by plain sums."""
    rank = x.ndim - 2
    wide = np.pad(x.astype(float), ((0, 0), (0, 0), *((pad, pad),) * rank))
    taps = f.shape[2:]
    outer = [(n - (t - 1) * dilation - 1) // stride + 1 for n, t in zip(wide.shape[2:], taps, strict=True)]
    found = np.zeros((x.shape[0], f.shape[0], *outer))
    part, each = f.shape[1], f.shape[0] // groups
    for at in np.ndindex(*taps):
        window = tuple(slice(t * dilation, t * dilation + stride * q, stride) for t, q in zip(at, outer, strict=True))
        for group in range(groups):
            read = wide[:, group * part : (group + 1) * part][(slice(None), slice(None), *window)]
            weights = f[group * each : (group + 1) * each][(slice(None), slice(None), *at)].astype(float)
            found[:, group * each : (group + 1) * each] += np.einsum("nc...,kc->nk...", read, weights)
    return found


@pytest.mark.parametrize(
    ("conv", "sides", "taps"), [(conv1d, (30,), (4,)), (conv2d, (7, 9), (3, 2)), (conv3d, (4, 5, 4), (2, 2, 3))]
)
def test_ranks(conv: Any, sides: tuple[int, ...], taps: tuple[int, ...]) -> None:
    x, f = whole(2, 16, *sides), whole(8, 16, *taps)
    np.testing.assert_array_equal(conv(x, f, stride=2, padding=1), summed(x, f, 2, 1))


def test_groups_and_types() -> None:
    x, f = whole(1, 16, 6, 6), whole(16, 8, 3, 3)
    np.testing.assert_array_equal(conv2d(x, f, groups=2, dilation=2), summed(x, f, dilation=2, groups=2))
    x, f = whole(1, 32, 9), whole(32, 16, 3)
    np.testing.assert_array_equal(conv1d(x, f, groups=2, stride=2), summed(x, f, 2, groups=2))
    x, f = whole(1, 16, 3, 3, 4), whole(16, 8, 2, 2, 2)
    np.testing.assert_array_equal(conv3d(x, f, groups=2), summed(x, f, groups=2))
    x, f = whole(1, 8, 5, 5, dtype=np.float32), whole(8, 1, 3, 3, dtype=np.float32)
    np.testing.assert_array_equal(conv2d(x, f, groups=8, padding="same"), summed(x, f, pad=1, groups=8))
    x, f = whole(1, 8, 5, 5, dtype=np.float32), whole(8, 8, 3, 3, dtype=np.float32)
    np.testing.assert_array_equal(conv2d(x, f, dtype="tf32"), summed(x, f))


@pytest.mark.parametrize("channels", [1, 3, 12])
def test_few_channels(channels: int) -> None:
    x, f = whole(2, channels, 9, 8), whole(16, channels, 3, 3)
    np.testing.assert_array_equal(conv2d(x, f, stride=2, padding=1), summed(x, f, 2, 1))
    np.testing.assert_array_equal(conv2d(x, f, dilation=2), summed(x, f, dilation=2))
    apart = np.zeros((16, channels, 5, 3), np.float16)
    apart[:, :, ::2] = f
    np.testing.assert_array_equal(conv2d(x, f, dilation=(2, 1)), summed(x, apart))


def test_results_lie_as_images_do() -> None:
    x, f = whole(1, 16, 6, 6), whole(8, 16, 3, 3)
    assert conv2d(x, f).flags.c_contiguous
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    made = conv2d(last, f)
    assert made.transpose(0, 2, 3, 1).flags.c_contiguous
    np.testing.assert_array_equal(made, conv2d(x, f))


def test_what_follows_and_unequal_padding() -> None:
    x, f, residual = whole(1, 8, 5, 5), whole(16, 8, 3, 3), whole(1, 16, 5, 6)
    bias, scale = whole(16), whole(16, dtype=np.float32)
    made = conv2d(x, f, bias, padding=((2, 0), (1, 2)), scale=scale, residual=residual, activation="relu")
    wide = np.pad(x, ((0, 0), (0, 0), (2, 0), (1, 2)))
    wanted = summed(wide, f) * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1) + residual
    np.testing.assert_array_equal(made, np.maximum(wanted, 0))


def test_one_image_without_a_dim_of_images() -> None:
    """As torch's functions take it."""
    x, f, residual = whole(8, 5, 6), whole(16, 8, 3, 3), whole(16, 5, 6)
    made = conv2d(x, f, padding=1, residual=residual, activation="relu")
    np.testing.assert_array_equal(made, np.maximum(summed(x[None], f, 1, 1)[0] + residual, 0))


def test_negative_padding_behind_leaves_pixels_out() -> None:
    for channels in (8, 3):
        x, f = whole(1, channels, 9, 7), whole(16, channels, 3, 3)
        made = conv2d(x, f, padding=((1, -2), (0, -1)), stride=(2, 1))
        np.testing.assert_array_equal(made, conv2d(x[:, :, :-2, :-1], f, padding=((1, 0), (0, 0)), stride=(2, 1)))


REFUSED: dict[str, tuple[Any, str, str]] = {
    "rank": (lambda x, f: conv2d(x[0, 0], f), "wrong-shape", "conv2d takes images of 4 dims and filters of 4, not"),
    "stride": (lambda x, f: conv2d(x, f, stride=0), "conv-sizes", "stride=0 for 2 sides"),
    "sides": (lambda x, f: conv2d(x, f, dilation=(1, 1, 1)), "conv-sizes", "dilation=(1, 1, 1) for 2 sides"),
    "pairs": (lambda x, f: conv2d(x, f, padding=((1, 1),)), "conv-sizes", "padding=((1, 1),) for 2 sides"),
    "same": (
        lambda x, f: conv2d(x, f, stride=2, padding="same"),
        "conv-sizes",
        'padding="same" with a stride of (2, 2)',
    ),
    "negative": (lambda x, f: conv2d(x, f, padding=((-1, 0), (0, 0))), "conv-sizes", "a padding of -1"),
    "word": (lambda x, f: conv2d(x, f, padding="full"), "conv-sizes", "no padding is called 'full'"),
    "window": (lambda x, f: conv2d(x[:, :, :2], f), "conv-window", "windows of 3 along r are larger than h: 2"),
    "channels": (
        lambda x, f: conv2d(x, f[:, :4]),
        "conv-groups",
        "1 groups do not fit 8 channels and 16 filters of 4 channels",
    ),
    "groups": (
        lambda x, f: conv2d(x, f, groups=3),
        "conv-groups",
        "3 groups do not fit 8 channels and 16 filters of 8 channels",
    ),
    "no groups": (lambda x, f: conv2d(x, f, groups=0), "conv-groups", "0 groups do not fit 8 channels"),
    "array": (lambda x, f: conv2d("x", f), "wrong-shape", "conv2d takes images of 4 dims"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_misuse(case: str) -> None:
    call, code, message = REFUSED[case]
    with pytest.raises(FireironError) as caught:
        call(whole(1, 8, 5, 5), whole(16, 8, 3, 3))
    assert caught.value.code == code
    assert caught.value.message.startswith(message)
    assert caught.value.fix


def test_a_kernel_that_spills_runs_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spilling:
        """Stand for a schedule that spills, or fails otherwise."""

        def __init__(self, code: str) -> None:
            self.code = code

        def compile(self, allow_spills: bool = False) -> str:
            if allow_spills and self.code == "spills":
                return "kernel"
            raise CompileError(self.code, "registers run out")

    monkeypatch.setattr(convolutions, "best_program", lambda code, dependent: Spilling(code))
    with pytest.warns(UserWarning, match="slower than it could be"):
        assert convolutions.kernel_of("spills", False) == "kernel"
    with pytest.raises(CompileError, match="nvrtc"):
        convolutions.kernel_of("nvrtc", False)


@pytest.mark.parametrize("arch", ["sm_70", "sm_80"])
def test_transposed_convolutions_of_few_channels(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with columns and channels as one dim need mma.sync: before sm_80 others compute gradients of images."""
    monkeypatch.setattr("fireiron.front.host.SIMULATED", arch)
    x, f = whole(1, 8, 4, 5), whole(8, 3, 2, 2)
    transposed.all_images_of.cache_clear()
    transposed.images_of.cache_clear()
    found = conv_transpose2d(x, f, stride=2)
    wanted = np.zeros((1, 3, 8, 10))
    for i, j in np.ndindex(4, 5):
        wanted[0, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] += np.einsum("c,cfab->fab", x[0, :, i, j].astype(float), f)
    assert np.array_equal(found, wanted)
