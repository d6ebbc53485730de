"""Pooling and transposed convolutions of NumPy's arrays, simulated, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import FireironError, nn, trace_graph


def whole(*shape: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(dtype)


def windows(x: Any, size: int, stride: int, pad: int, value: float) -> Any:
    """Give all windows of images, along new last dims."""
    rank = x.ndim - 2
    wide = np.pad(x.astype(float), ((0, 0), (0, 0), *((pad, pad),) * rank), constant_values=value)
    axes = tuple(range(2, x.ndim))
    every = np.lib.stride_tricks.sliding_window_view(wide, (size,) * rank, axes)
    return every[(slice(None), slice(None), *(slice(None, None, stride),) * rank)]


@pytest.mark.parametrize(("rank", "sides"), [(1, (19,)), (2, (7, 8)), (3, (4, 5, 4))])
def test_ranks(rank: int, sides: tuple[int, ...]) -> None:
    x = whole(2, 8, *sides)
    axes = tuple(range(-rank, 0))
    largest = getattr(fi, f"max_pool{rank}d")(x, 3, 2, 1)
    np.testing.assert_array_equal(largest, windows(x, 3, 2, 1, -np.inf).max(axes))
    mean = getattr(fi, f"avg_pool{rank}d")(x, 2)
    np.testing.assert_array_equal(mean, windows(x, 2, 2, 0, 0).mean(axes).astype(np.float16))
    counts = windows(np.ones_like(x), 3, 1, 1, 0).sum(axes)
    partial = getattr(fi, f"avg_pool{rank}d")(x, 3, 1, 1, count_include_pad=False)
    np.testing.assert_allclose(partial, windows(x, 3, 1, 1, 0).sum(axes) / counts, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["i1", "u1", "i4"])
def test_the_largest_of_integers_has_their_type_and_their_mean_is_a_float(kind: str) -> None:
    x = np.arange(64).reshape(1, 4, 4, 4).astype(kind)
    wanted = windows(x, 2, 2, 0, 0)
    graphs = (trace_graph(lambda x, f=f: f(x, 2), x) for f in (nn.max_pool2d, nn.avg_pool2d))
    largest, mean = (graph.plan("sm_90a") for graph in graphs)
    for made in (fi.max_pool2d(x, 2), largest(x)):
        assert made.dtype == x.dtype
        np.testing.assert_array_equal(made, wanted.max((-1, -2)))
    for made in (fi.avg_pool2d(x, 2), mean(x)):
        assert made.dtype == np.float32
        np.testing.assert_array_equal(made, wanted.mean((-1, -2)))


def test_windows_that_end_beyond_the_image() -> None:
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 7)
    assert fi.max_pool1d(x, 2, 2).tolist() == [[[1, 3, 5]]]
    assert fi.max_pool1d(x, 2, 2, ceil_mode=True).tolist() == [[[1, 3, 5, 6]]]
    assert fi.max_pool1d(x, 3, 2, dilation=2).tolist() == [[[4, 6]]]


@pytest.mark.parametrize("count_pad", [False, True])
def test_means_that_end_beyond_the_image(count_pad: bool) -> None:
    """By ceil_mode the last window of 8 pixels, padded by 1, begins at 7: it counts what is padded, and never more."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8)
    made = fi.avg_pool1d(x, 3, 2, 1, True, count_pad)[0, 0]
    sums = [1 + 2, 2 + 3 + 4, 4 + 5 + 6, 6 + 7 + 8, 8]
    counts = [3, 3, 3, 3, 2] if count_pad else [2, 3, 3, 3, 1]
    np.testing.assert_allclose(made, np.divide(sums, counts), rtol=1e-6)
    wide = np.broadcast_to(x[:, :, None], (1, 1, 4, 8)).copy()
    both = fi.avg_pool2d(wide, (2, 3), (2, 2), (0, 1), True, count_pad)
    np.testing.assert_allclose(both, np.broadcast_to(made, (1, 1, 2, 5)), rtol=1e-6)


def scattered(y: Any, f: Any, bias: Any, stride: int, pad: int, more: int, dilation: int) -> Any:
    """Compute a transposed convolution by adding each image's product with each tap where it lands."""
    (n, _, *sides), (_, c, *taps) = y.shape, f.shape
    outer = [(s - 1) * stride + (t - 1) * dilation + 1 + more for s, t in zip(sides, taps, strict=True)]
    made = np.zeros((n, c, *outer))
    for at in np.ndindex(*taps):
        reached = tuple(
            slice(t * dilation, t * dilation + (s - 1) * stride + 1, stride) for t, s in zip(at, sides, strict=True)
        )
        made[(slice(None), slice(None), *reached)] += np.einsum("nk...,kc->nc...", y.astype(float), f[(..., *at)])
    made = made[(slice(None), slice(None), *(slice(pad, side - pad) for side in outer))]
    return made + bias.reshape(1, -1, *(1,) * len(sides))


@pytest.mark.parametrize(
    ("sides", "taps", "stride", "pad", "more", "dilation"),
    [
        ((9,), (4,), 2, 1, 1, 1),
        ((4, 5), (3, 2), 1, 0, 0, 2),
        ((3, 4), (2, 3), 4, 0, 2, 1),
        ((2, 3, 2), (2, 2, 3), 2, 1, 0, 1),
        ((4, 3), (3, 2), 1, 1, 2, 3),
        ((5,), (3,), 2, 0, 4, 5),
    ],
)
def test_transposed(sides: Any, taps: Any, stride: int, pad: int, more: int, dilation: int) -> None:
    y, f, bias = whole(2, 16, *sides), whole(16, 8, *taps), whole(8)
    by = getattr(fi, f"conv_transpose{len(sides)}d")
    made = by(y, f, bias, stride=stride, padding=pad, output_padding=more, dilation=dilation)
    np.testing.assert_array_equal(made, scattered(y, f, bias, stride, pad, more, dilation))
    last = np.ascontiguousarray(np.moveaxis(y, 1, -1))
    assert not by(np.moveaxis(last, -1, 1), f).flags.c_contiguous


def test_one_image_without_a_dim_of_images() -> None:
    """As torch's functions take it."""
    x, f, line = whole(8, 5, 6), whole(8, 16, 3, 3), whole(8, 7)
    for made, wanted in (
        (fi.max_pool2d(x, 2, padding=1), fi.max_pool2d(x[None], 2, padding=1)),
        (fi.avg_pool1d(line, 3), fi.avg_pool1d(line[None], 3)),
        (fi.conv_transpose2d(x, f, whole(16), stride=2), fi.conv_transpose2d(x[None], f, whole(16), stride=2)),
    ):
        np.testing.assert_array_equal(made, wanted[0])


@pytest.mark.parametrize(("groups", "dtype"), [(4, "f4"), (2, "f2"), (16, "f4")])
def test_groups_of_transposed(groups: int, dtype: str) -> None:
    """Of 16 bits and 8 channels a group tensor cores multiply; a group a channel is depthwise."""
    y, f, bias = whole(2, 16, 4, 5).astype(dtype), whole(16, 8, 3, 2).astype(dtype), whole(8 * groups)
    made = fi.conv_transpose2d(y, f, bias, stride=2, padding=1, output_padding=1, groups=groups)
    part = 16 // groups
    each = [
        scattered(y[:, part * g : part * (g + 1)], f[part * g : part * (g + 1)], bias[8 * g : 8 * (g + 1)], 2, 1, 1, 1)
        for g in range(groups)
    ]
    np.testing.assert_array_equal(made, np.concatenate(each, axis=1))


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "rank": (lambda x, f: fi.max_pool1d(x, 2), "wrong-shape", "max_pool1d takes images of 3 dims, not [1, 8, 5, 5]"),
    "window": (lambda x, f: fi.max_pool2d(x, 0), "conv-sizes", "kernel_size=0 for 2 sides"),
    "large window": (lambda x, f: fi.max_pool2d(x, 7), "conv-window", "windows of 7 pixels are larger"),
    "stride": (lambda x, f: fi.avg_pool2d(x, 2, -1), "conv-sizes", "stride=-1 for 2 sides"),
    "dilation": (lambda x, f: fi.max_pool2d(x, 2, dilation=0), "conv-sizes", "dilation=0 for 2 sides"),
    "padding": (lambda x, f: fi.max_pool2d(x, 2, padding=2), "conv-window", "padding=2 of windows of 2 pixels"),
    "filters": (lambda x, f: fi.conv_transpose2d(x, f[:4]), "conv-groups", "images of 8 channels, and 4 filters"),
    "groups": (lambda x, f: fi.conv_transpose2d(x, f, groups=3), "conv-groups", "3 groups of 8 channels"),
    "more": (
        lambda x, f: fi.conv_transpose2d(x, f, stride=2, output_padding=2),
        "conv-sizes",
        "output_padding=2 with a stride of (2, 2) and a dilation of (1, 1)",
    ),
    "cut off": (lambda x, f: fi.conv_transpose2d(x, f, padding=4), "conv-window", "padding=4 leaves -1x-1 pixels"),
    "negative": (lambda x, f: fi.conv_transpose2d(x, f, padding=-1), "conv-sizes", "padding=-1 for 2 sides"),
    "array": (lambda x, f: fi.conv_transpose2d("x", f), "wrong-shape", "conv_transpose2d takes images of 4 dims"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_misuse(case: str) -> None:
    call, code, message = REFUSED[case]
    with pytest.raises(FireironError) as caught:
        call(whole(1, 8, 5, 5), whole(8, 16, 3, 3))
    assert caught.value.code == code
    assert caught.value.message.startswith(message)
    assert caught.value.fix
    assert caught.value.link is not None
