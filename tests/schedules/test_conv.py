"""Convolutions and pooling on CUDA cores: right on the simulator in every form, and against NumPy's own sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, Thread, relu, symbol, tensor
from fireiron.kernel.ir.statements import For, walk
from fireiron.language.decompositions import Tile
from fireiron.schedules import conv
from fireiron.verify.verification import Data, verify


def right(schedule: Any) -> Any:
    """Simulate on whole numbers and on random ones, and hold the output against the reference."""
    simulated: list[Any] = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out, **data.numbers))

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)
    return simulated[-1]


def images(*shape: int, dtype: str = "f32") -> Any:
    return tensor(*shape, dtype=dtype)


def filters(*shape: int, dtype: str = "f32") -> Any:
    return tensor(*shape, dtype=dtype, name="f")


# x: 9x10 images of 8 channels where nothing else is said.
CASES: dict[str, Callable[[], Any]] = {
    "strided, ragged, relu": lambda: conv.conv2d(
        images(2, 9, 11, 8), filters(12, 3, 3, 8), tensor(12, name="bias"), stride=2, pad=1, op=relu
    ),
    "residual": lambda: conv.conv2d(
        images(1, 9, 10, 8), filters(12, 3, 3, 8), residual=tensor(1, 9, 10, 12, name="residual"), pad=1
    ),
    "stride 3 and 4": lambda: conv.conv2d(images(1, 13, 17, 4), filters(8, 3, 2, 4), stride=(3, 4)),
    "of one pixel": lambda: conv.conv2d(images(2, 5, 5, 8), filters(12, 1, 1, 8)),
    "few channels": lambda: conv.conv2d(images(1, 12, 13, 3), filters(8, 5, 5, 3), stride=2, pad=2),
    "dilated, unequal padding": lambda: conv.conv2d(
        images(1, 9, 10, 8), filters(12, 3, 3, 8), pad=((2, 1), (0, 3)), dilation=2
    ),
    "groups": lambda: conv.conv2d(images(1, 9, 10, 8), filters(12, 3, 3, 4), pad=1, groups=2),
    "depthwise": lambda: conv.conv2d(images(1, 9, 10, 8), filters(8, 3, 3, 1), pad=1, groups=8),
    "two filters a channel": lambda: conv.conv2d(images(1, 6, 7, 8), filters(16, 3, 3, 1), pad=1, groups=8),
    "lines": lambda: conv.conv1d(images(2, 30, 8), filters(12, 3, 8), pad=1, stride=2),
    "volumes": lambda: conv.conv3d(images(1, 4, 5, 6, 4), filters(8, 3, 2, 3, 4), pad=1),
    "channels first": lambda: conv.conv2d(
        tensor(1, 9, 10, 8, strides=(720, 10, 1, 90)), tensor(12, 3, 3, 8, strides=(72, 3, 1, 9), name="f"),
        pad=1, channels_first=True,
    ),
    "transposed": lambda: conv.conv2d_transposed(tensor(1, 5, 5, 8, name="y"), filters(8, 3, 3, 4), stride=2, pad=1),
    "largest": lambda: conv.max_pool2d(images(1, 9, 10, 8), 3, 2, 1),
    "mean": lambda: conv.average_pool2d(images(1, 9, 10, 8, dtype="f16"), 2),
    "mean of what is there": lambda: conv.average_pool2d(images(1, 9, 10, 8), 3, 2, 1, count_pad=False),
    "largest of lines, dilated": lambda: conv.max_pool1d(images(2, 17, 8), 3, 2, 1, 2),
    "mean of volumes": lambda: conv.average_pool3d(images(1, 4, 5, 4, 8), 2, 2, 1, count_pad=False),
    "f16": lambda: conv.conv2d(images(1, 9, 10, 8, dtype="f16"), filters(12, 3, 3, 8, dtype="f16"), pad=1),
    "i8": lambda: conv.conv2d(images(1, 6, 7, 16, dtype="i8"), filters(8, 3, 3, 16, dtype="i8"), pad=1, out="i32"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_right_in_every_form(case: str) -> None:
    right(conv.simt(CASES[case]()))


CHANNELWISE: dict[str, Callable[[], Any]] = {
    "ragged, what follows": lambda: conv.conv2d(
        images(2, 9, 13, 24, dtype="f16"), filters(24, 3, 3, 1, dtype="f16"), tensor(24, name="bias"),
        tensor(2, 5, 7, 24, dtype="f16", name="residual"), stride=2, pad=1, groups=24, op=relu,
        scale=tensor(24, name="scale"),
    ),
    "large, dilated, unequal padding": lambda: conv.conv2d(
        images(1, 14, 13, 20), filters(20, 5, 5, 1), pad=((2, 1), (4, 3)), dilation=(1, 2), stride=(3, 1), groups=20
    ),
    "odd channels": lambda: conv.conv2d(images(1, 5, 6, 13), filters(13, 3, 2, 1), groups=13),
    "two filters a channel": CASES["two filters a channel"],
    "i8": lambda: conv.conv2d(
        images(1, 6, 7, 24, dtype="i8"), filters(24, 3, 3, 1, dtype="i8"), pad=1, groups=24, out="i32"
    ),
    "e4m3": lambda: conv.conv2d(
        images(1, 5, 4, 16, dtype="e4m3"), filters(16, 2, 2, 1, dtype="e4m3"), groups=16, arch="sm_90a"
    ),
    "lines": lambda: conv.conv1d(images(2, 21, 24), filters(24, 4, 1), pad=((3, 0),), groups=24),
    "volumes": lambda: conv.conv3d(images(1, 4, 5, 6, 8), filters(8, 3, 3, 3, 1), pad=1, groups=8),
    "channels first": lambda: conv.conv2d(
        tensor(1, 5, 8, 8, strides=(320, 8, 1, 40), dtype="f16"), filters(8, 3, 3, 1, dtype="f16"), pad=1, groups=8,
        channels_first=True,
    ),
    "largest": CASES["largest"],
    "mean": CASES["mean"],
    "mean of what is there": CASES["mean of what is there"],
    "largest of lines, dilated": CASES["largest of lines, dilated"],
    "mean of volumes": CASES["mean of volumes"],
}  # fmt: skip


@pytest.mark.parametrize("case", CHANNELWISE)
def test_channels_in_lanes(case: str) -> None:
    """Each case is right; images are read by vectors, in registers once for all the points of a row of taps."""
    schedule = conv.channelwise(CHANNELWISE[case]())
    right(schedule)


def test_vectors_of_channels(golden: Callable[[str, str], None]) -> None:
    spec = conv.conv2d(
        images(32, 28, 28, 128, dtype="f16"), filters(128, 3, 3, 1, dtype="f16"), tensor(128, name="bias"), pad=1,
        groups=128, op=relu,
    )  # fmt: skip
    schedule = conv.channelwise(spec)
    assert not schedule.compile("sm_90a").resources.spills
    source = schedule.cuda("sm_90a")
    assert "copy_or_zero_8B(&x_rf" in source  # the pixels of a strip's windows, of 4 channels
    assert "copy_8B(&f_rf" in source  # the 9 taps of 4 channels lie together
    assert "copy_8B(&y" in source
    golden(source, "schedules/conv_channelwise.cu")


def test_rows_of_windows_are_read_ahead_where_registers_hold_them() -> None:
    """Four rows of 64 values of f16 take 128 registers: NVRTC 13.0 has none left for the sums."""

    def unrolled(spec: Any) -> set[bool]:
        loops = [s for s in walk(conv.channelwise(spec).lowered().body) if isinstance(s, For)]
        return {s.unroll for s in loops if s.var.name in ("t", "r")}

    assert unrolled(conv.max_pool3d(images(3, 9, 10, 11, 40, dtype="f16"), 2)) == {False}
    assert unrolled(conv.max_pool2d(images(3, 29, 30, 40, dtype="f16"), 3, 2, 1)) == {True}


@pytest.mark.parametrize(("stride", "pad", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4)])
def test_numpy_sums_the_same(stride: int, pad: int, dilation: int, groups: int) -> None:
    """Whole numbers: the simulated kernel, the reference and a plain sum agree bit by bit."""
    rng = np.random.default_rng(5)
    x = rng.integers(-3, 4, size=(2, 7, 8, 8)).astype(np.float32)
    f = rng.integers(-3, 4, size=(8, 3, 2, 8 // groups)).astype(np.float32)
    schedule = conv.simt(
        conv.conv2d(images(*x.shape), filters(*f.shape), stride=stride, pad=pad, dilation=dilation, groups=groups)
    )
    wide = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    sides = zip(wide.shape[1:3], f.shape[1:3], strict=True)
    p, q = ((n - dilation * (taps - 1) - 1) // stride + 1 for n, taps in sides)
    expected = np.zeros((2, p, q, 8), np.float32)
    for r in range(3):
        for s in range(2):
            taken = wide[:, r * dilation :: stride, s * dilation :: stride][:, :p, :q]
            for k in range(8):
                first = k // (8 // groups) * (8 // groups)
                expected[..., k] += taken[..., first : first + 8 // groups] @ f[k, r, s]
    np.testing.assert_array_equal(schedule.simulate(x, f).out, expected)


def test_transposed_is_the_gradient_of_the_data() -> None:
    """The sum of y * conv(x, f) is that of x * transposed(y, f)."""
    rng = np.random.default_rng(6)
    x, f = (rng.integers(-3, 4, size=s).astype(np.float32) for s in ((1, 8, 9, 4), (8, 3, 3, 4)))
    forward = conv.simt(conv.conv2d(images(*x.shape), filters(*f.shape), stride=2, pad=1)).simulate(x, f).out
    y = rng.integers(-3, 4, size=forward.shape).astype(np.float32)
    back = conv.conv2d_transposed(tensor(*y.shape, name="y"), filters(*f.shape), stride=2, pad=1, more=(1, 0))
    gradient = conv.simt(back).simulate(y, f).out
    assert gradient.shape == x.shape
    assert float((y * forward).sum()) == float((x * gradient).sum())


def test_compiles(golden: Callable[[str, str], None]) -> None:
    schedule = conv.simt(conv.conv2d(images(32, 28, 28, 64), filters(128, 3, 3, 64), pad=1))
    for arch in ("sm_70", "sm_90a"):
        assert not schedule.compile(arch).resources.spills
    golden(schedule.cuda("sm_70"), "schedules/conv_simt.cu")


def test_an_op_that_fails_is_refused_with_a_code() -> None:
    x, f = tensor(1, 6, 8, 16, name="x"), tensor(16, 3, 3, 16, name="f")
    with pytest.raises(FireironError) as caught:
        conv.conv2d(x, f, op=object)
    assert caught.value.code == "bad-op"
    assert "object() takes no arguments" in caught.value.message


def test_a_size_that_leaves_no_block_is_checked() -> None:
    """The size that stands for K + 1 may be wider than the image: then the grid is empty."""
    x, f = tensor(1, 6, 8, 16, dtype="f16", name="x"), tensor(16, 3, symbol("K") + 1, 16, dtype="f16", name="f")
    made = conv.mma(conv.conv2d(x, f), pixels=32, channels=32, depth=16, warp=(16, 32), stages=2)
    assert not [one for one in made.check() if one.severity == "error"]


STRIPS: dict[str, Callable[[], Any]] = {
    "ragged": lambda: conv.conv2d(
        images(2, 9, 11, 24, dtype="f16"), filters(24, 3, 3, 1, dtype="f16"), pad=1, groups=24
    ),
    "stride 2": lambda: conv.conv2d(
        images(1, 13, 14, 20, dtype="bf16"), filters(20, 3, 3, 1, dtype="bf16"), pad=1, stride=2, groups=20
    ),
    "strides, dilation, unequal padding": lambda: conv.conv2d(
        images(1, 14, 15, 12), filters(12, 3, 2, 1), pad=((2, 1), (0, 3)), dilation=(2, 3), stride=(1, 2), groups=12
    ),
    "5 x 5": lambda: conv.conv2d(
        images(1, 10, 9, 16, dtype="f16"), filters(16, 5, 5, 1, dtype="f16"), tensor(16, name="bias"),
        tensor(1, 10, 9, 16, dtype="f16", name="residual"), pad=2, groups=16, op=relu,
    ),
    "lines": lambda: conv.conv1d(images(2, 21, 24, dtype="f16"), filters(24, 4, 1, dtype="f16"), pad=1, groups=24),
    "odd channels": lambda: conv.conv2d(
        images(1, 5, 6, 13, dtype="f16"), filters(13, 3, 3, 1, dtype="f16"), pad=1, groups=13
    ),
    "computed before": lambda: conv.conv2d(
        images(1, 6, 7, 16, dtype="f16"), filters(16, 3, 3, 1, dtype="f16"), pad=1, groups=16,
        gain=tensor(16, name="gain"), shift=tensor(16, name="shift"), before=relu,
    ),
}  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("size", [(1, 1, None), (2, 4, 4), (4, 2, 2), (7, 1, 8), (4, 4, 4)])
@pytest.mark.parametrize("case", STRIPS)
def test_strips_of_results(case: str, size: tuple[int, int, int | None]) -> None:
    rows, pixels, channels = size
    right(conv.channelwise(STRIPS[case](), rows=rows, pixels=pixels, channels=channels))


@pytest.mark.parametrize("case", ["ragged", "5 x 5", "lines", "odd channels"])
def test_strips_of_filters_in_shared_memory(case: str) -> None:
    made = conv.channelwise(STRIPS[case](), rows=2, pixels=2, shared=True)
    assert "load f to SH" in str(made)
    right(made)


@pytest.mark.parametrize("stride", [1, 2])
def test_rows_of_results_share_the_rows_that_they_read(stride: int) -> None:
    x, f = tensor(2, 9, 11, 24, dtype="f16"), tensor(24, 3, 3, 1, dtype="f16", name="f")
    spec = conv.conv2d(x, f, stride=stride, pad=1, groups=24)
    right(conv.channelwise(spec, rows=2, pixels=2))


def depthwise(n: int, side: int, channels: int, taps: int = 3, stride: int = 1, dtype: str = "f16") -> Any:
    x, f = tensor(n, side, side, channels, dtype=dtype), tensor(channels, taps, taps, 1, dtype=dtype, name="f")
    return conv.conv2d(x, f, pad=taps // 2, stride=stride, groups=channels)


def strip(schedule: Any) -> tuple[int, int, int]:
    """Return the rows, pixels and channels of a thread's results."""
    tile = next(dict(x.sizes) for x in schedule.links if isinstance(x, Tile) and x.level == Thread)
    return tile["p"], tile["q"], tile["k"]


def test_few_threads_idle() -> None:
    """144 channels are 36 vectors: two blocks of 18 lanes, where 32 lanes would idle for 28 of 64; rows are shared."""
    tile = dict(conv.channelwise(depthwise(256, 56, 144)).links[0].sizes)
    assert (tile["n"], tile["k"], 56 % tile["p"], 56 % tile["q"]) == (1, 72, 0, 0)
    tile = dict(conv.channelwise(depthwise(32, 7, 1024, 7)).links[0].sizes)
    assert (tile["p"], tile["q"], 1024 % tile["k"]) == (7, 7, 0)


def test_windows_that_are_apart_are_computed_in_runs() -> None:
    assert [strip(conv.channelwise(depthwise(64, 56, 96, stride=n))) for n in (1, 2)] == [(7, 2, 4), (1, 4, 4)]


def test_strips_fit_the_sides() -> None:
    """Many results a thread share reads, where there are many images; with few, more threads have fewer results."""
    assert [strip(conv.channelwise(depthwise(64, side, 256))) for side in (14, 24, 56)] == [
        (7, 2, 4),
        (4, 4, 4),
        (7, 2, 4),
    ]
    assert strip(conv.channelwise(depthwise(1, 28, 64))) < (2, 3, 9)


def test_of_strips_that_hold_as_much_the_one_with_fewer_rows_takes_fewer_registers() -> None:
    chosen = conv.channelwise(depthwise(128, 20, 528, 5))
    other = conv.channelwise(depthwise(128, 20, 528, 5), rows=4, pixels=2)
    assert strip(chosen) == (2, 4, 4)
    few, more = (made.compile("sm_90a").resources.registers for made in (chosen, other))
    assert few < more  # with NVRTC 13.0 four blocks of 128 threads fit an SM, or three


def test_a_missing_result_is_computed_like_the_others() -> None:
    """Results outside the images are not stored; to choose sums point by point took 2.3 times the instructions."""
    source = conv.channelwise(depthwise(8, 30, 64), rows=4, pixels=4).cuda("sm_90a")
    assert " ? " not in source
    assert "if (" in source


def test_windows_that_registers_do_not_hold_are_read_row_by_row() -> None:
    """Windows of 7 x 7 take more registers than a thread has, whatever the strip that is asked for."""
    for made in (conv.channelwise(depthwise(8, 14, 64, 7)), conv.channelwise(depthwise(8, 30, 64, 5), most_taps=9)):
        assert "load f to SH" in str(made)
    asked = conv.channelwise(depthwise(8, 30, 64, 5, dtype="f32"), rows=4, pixels=8, channels=8)
    assert "load f to SH" in str(asked)
    assert strip(asked)[0] == 1


@pytest.mark.product
@pytest.mark.parametrize(
    "arch", [*(pytest.param(a, marks=pytest.mark.exhaustive) for a in ("sm_80", "sm_120")), "sm_90a"]
)
@pytest.mark.parametrize(
    ("size", "taps", "stride", "dtype"),
    [
        ((4, 4, 4), 3, 1, "f16"),
        ((7, 2, 4), 3, 1, "bf16"),
        ((2, 4, 8), 3, 1, "f16"),
        ((4, 2, 4), 3, 2, "f16"),
        ((2, 4, 4), 5, 1, "f16"),
        ((4, 4, 2), 3, 1, "f32"),
    ],
)
def test_strips_spill_no_registers(size: tuple[int, int, int], taps: int, stride: int, dtype: str, arch: str) -> None:
    rows, pixels, channels = size
    made = conv.channelwise(depthwise(8, 28, 64, taps, stride, dtype), rows=rows, pixels=pixels, channels=channels)
    assert strip(made) == size
    assert not made.compile(arch).resources.spills


def test_runs_fit_the_side() -> None:
    """A side of 14 is two runs of 7 and no whole number of runs of 4."""

    def run(side: int, stride: int = 1) -> int:
        made = conv.channelwise(conv.max_pool2d(tensor(2, side, side, 64, dtype="f16"), 3, stride, 1))
        return next(dict(link.sizes)["q"] for link in made.links if isinstance(link, Tile) and link.level == Thread)

    assert [run(14), run(28), run(56), run(28, stride=2)] == [7, 4, 4, 4]
