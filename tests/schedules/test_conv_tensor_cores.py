"""Convolutions on tensor cores: right on the simulator in every form, without races, bank conflicts or spills."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import Block, Cluster, FireironError, Vector, best, relu, tensor
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, Statement, Sync
from fireiron.language.decompositions import Split, Tile
from fireiron.schedules import conv, conv_gradients
from fireiron.schedules._pixel_clocks import lines
from fireiron.schedules._windows import places
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays
from fireiron.verify.verification import Data, verify


def right(schedule: Any) -> Any:
    """Simulate on whole numbers and on random ones, with races looked for, and hold the output to the reference."""
    simulated: list[Any] = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out, **data.numbers))

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)
    return simulated[-1]


def images(*shape: int, dtype: str = "f16") -> Any:
    return tensor(*shape, dtype=dtype)


def filters(*shape: int, dtype: str = "f16") -> Any:
    return tensor(*shape, dtype=dtype, name="f")


def flat(*arrays: Any, **options: Any) -> Any:
    """Give a convolution whose pixels are one dim."""
    return fi.fuse(conv.conv2d(*arrays, **options), m="n p q")


CASES: dict[str, Callable[[], Any]] = {
    "ragged, bias, relu": lambda: conv.conv2d(
        images(2, 9, 20, 64), filters(48, 3, 3, 64), tensor(48, name="bias"), pad=1, op=relu
    ),
    "stride 2, unequal padding, residual": lambda: conv.conv2d(
        images(3, 11, 9, 32), filters(40, 3, 2, 32), residual=tensor(3, 5, 5, 40, dtype="f16", name="residual"),
        stride=2, pad=((1, 0), (0, 1)),
    ),
    "stride 3 and 4": lambda: conv.conv2d(images(1, 20, 23, 16), filters(16, 3, 2, 16), stride=(3, 4), pad=2),
    "dilated, bf16": lambda: conv.conv2d(
        images(1, 12, 13, 16, dtype="bf16"), filters(64, 3, 3, 16, dtype="bf16"), pad=2, dilation=2
    ),
    "one pixel, wide": lambda: conv.conv2d(images(2, 6, 6, 96), filters(136, 1, 1, 96)),
    "channels that chunks cut": lambda: conv.conv2d(images(1, 6, 6, 40), filters(24, 3, 3, 40), pad=1),
    "groups": lambda: conv.conv2d_grouped(
        images(1, 8, 8, 2, 32), tensor(2, 16, 3, 3, 32, dtype="f16", name="f"), pad=1
    ),
    "groups of lines": lambda: conv.conv1d_grouped(
        images(2, 40, 3, 32), tensor(3, 16, 5, 32, dtype="f16", name="f"), tensor(3, 16, name="bias"), stride=2, pad=2,
        op=relu,
    ),
    "lines": lambda: conv.conv1d(images(2, 100, 32), filters(32, 5, 32), pad=2, stride=3),
    "volumes": lambda: conv.conv3d(images(1, 4, 5, 6, 16), filters(32, 3, 3, 3, 16), pad=1),
    "tf32, scaled": lambda: conv.conv2d(
        images(1, 7, 6, 24, dtype="tf32"), filters(24, 3, 2, 24, dtype="tf32"), tensor(24, name="bias"),
        scale=tensor(24, name="scale"), pad=1, stride=2, op=relu,
    ),
    "e4m3": lambda: conv.conv2d(
        images(1, 7, 6, 48, dtype="e4m3"), filters(24, 3, 2, 48, dtype="e4m3"), pad=1, arch="sm_90a"
    ),
    "i8": lambda: conv.conv2d(images(1, 6, 6, 32, dtype="i8"), filters(24, 3, 3, 32, dtype="i8"), pad=1, out="i32"),
    "f32 results": lambda: conv.conv2d(images(1, 6, 6, 16), filters(24, 3, 3, 16), pad=1, out="f32"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_right_in_every_form(case: str) -> None:
    schedule = conv.mma(CASES[case]())
    report = right(schedule).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0


def gains(channels: int) -> dict[str, Any]:
    return {"gain": tensor(channels, name="gain"), "shift": tensor(channels, name="shift")}


BEFORE: dict[str, Callable[[], Any]] = {
    "batch norm and relu": lambda: conv.conv2d(
        images(2, 7, 8, 40), filters(24, 3, 2, 40), tensor(24, name="bias"), stride=2, pad=((1, 0), (1, 1)),
        before=relu, **gains(40),
    ),
    "relu alone": lambda: conv.conv2d(images(1, 6, 7, 32), filters(24, 3, 3, 32), pad=1, before=relu),
    "lines, tf32": lambda: conv.conv1d(
        images(2, 20, 24, dtype="tf32"), filters(24, 3, 24, dtype="tf32"), pad=1, **gains(24)
    ),
    "volumes": lambda: conv.conv3d(
        images(1, 3, 5, 4, 24), filters(24, 2, 3, 2, 24), stride=(1, 2, 1), pad=1, before=relu, **gains(24)
    ),
}  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("case", BEFORE)
@pytest.mark.parametrize("preset", [conv.mma, conv.wgmma])
def test_what_is_computed_ahead_of_a_convolution(preset: Any, case: str) -> None:
    """Padding is 0 behind it: relu(x * gain + shift) of what lies outside would be relu(shift)."""
    report = right(preset(BEFORE[case]())).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0


def test_what_is_computed_ahead_is_torchs_order() -> None:
    rng = np.random.default_rng(8)
    x, f = (rng.integers(-2, 3, size=s).astype(np.float16) for s in ((1, 5, 6, 32), (16, 3, 3, 32)))
    gain, shift = (rng.integers(-2, 3, size=32).astype(np.float32) for _ in range(2))
    spec = conv.conv2d(images(*x.shape), filters(*f.shape), pad=1, before=relu, **gains(32))
    normed = np.maximum(x * gain + shift, 0).astype(np.float16)
    plain = conv.conv2d(images(*x.shape), filters(*f.shape), pad=1)
    wanted = conv.simt(plain).simulate(normed, f).out
    for preset in (conv.simt, conv.mma, conv.wgmma):
        np.testing.assert_array_equal(preset(spec).simulate(x, f, gain, shift).out, wanted)


def test_what_is_computed_ahead_compiles() -> None:
    spec = conv.conv2d(images(32, 28, 28, 128), filters(128, 3, 3, 128), pad=1, before=relu, **gains(128))
    for schedule, arch in ((conv.mma(spec), "sm_80"), (conv.wgmma(spec), "sm_90a")):
        resources = schedule.compile(arch).resources
        assert not resources.spills
        assert not resources.warnings


def test_depthwise_and_volumes_compute_ahead_too() -> None:
    x, f = images(1, 5, 6, 32), filters(32, 3, 3, 1)
    right(best(conv.conv2d(x, f, groups=32, pad=1, before=relu, **gains(32))))
    volumes = best(conv.conv3d(images(1, 2, 3, 4, 16), filters(8, 2, 2, 2, 16), **gains(16), arch="sm_90a"))
    assert volumes.name.startswith("wgmma")
    right(volumes)


def first(*shape: int, dtype: str = "f16", name: str = "x") -> Any:
    """Describe an array that lies channels first, by its dims with channels last."""
    _, *sides, channels = shape
    steps = [prod(sides[i + 1 :]) for i in range(len(sides))]
    return tensor(*shape, dtype=dtype, name=name, strides=(prod(sides) * channels, *steps, prod(sides)))


FIRST: dict[str, Callable[[], Any]] = {
    "strided, what follows": lambda: conv.conv2d(
        first(2, 9, 11, 40), first(24, 3, 3, 40, name="f"), tensor(24, name="bias"),
        tensor(2, 5, 4, 24, dtype="f16", name="residual", strides=(480, 4, 1, 20)), stride=(2, 3), pad=1, op=relu,
        channels_first=True,
    ),
    "images alone, dilated": lambda: conv.conv2d(
        first(2, 9, 11, 32), filters(72, 3, 2, 32), pad=((2, 1), (1, 0)), dilation=(2, 1), channels_first=True
    ),
    "result channels last": lambda: conv.conv2d(first(1, 9, 11, 32), first(24, 3, 3, 32, name="f"), pad=1),
    "flat": lambda: flat(first(3, 7, 9, 32), first(24, 3, 3, 32, name="f"), pad=1),
    "lines": lambda: conv.conv1d(first(2, 40, 32), first(24, 3, 32, name="f"), pad=1, channels_first=True),
    "volumes": lambda: conv.conv3d(first(1, 2, 3, 5, 16), first(24, 2, 2, 3, 16, name="f"), pad=1, channels_first=True),
    "tf32": lambda: conv.conv2d(
        first(1, 5, 7, 24, dtype="tf32"), first(24, 2, 3, 24, dtype="tf32", name="f"), pad=1, channels_first=True
    ),
    "i8": lambda: conv.conv2d(
        first(1, 5, 7, 32, dtype="i8"), first(24, 2, 3, 32, dtype="i8", name="f"), pad=1, channels_first=True, out="i32"
    ),
    "e4m3": lambda: conv.conv2d(
        first(1, 4, 6, 32, dtype="e4m3"), first(24, 2, 2, 32, dtype="e4m3", name="f"), channels_first=True,
        arch="sm_90a",
    ),
    "pointwise": lambda: conv.conv2d(first(2, 5, 5, 32), filters(24, 1, 1, 32), channels_first=True),
}  # fmt: skip


@pytest.mark.parametrize("case", FIRST)
def test_channels_first(case: str) -> None:
    """Arrays that lie N C H W are transposed on the way to shared memory, by vectors of channels."""
    schedule = conv.mma(FIRST[case]())
    report = right(schedule).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0
    assert "copy_16B(&x_sh" in schedule.cuda()


@pytest.mark.parametrize("case", FIRST)
def test_channels_first_on_hopper(case: str) -> None:
    """Threads of the role that loads transpose: wgmma takes lines of channels, whatever the width of images."""
    schedule = conv.wgmma(FIRST[case]())
    right(schedule)
    cuda = schedule.cuda("sm_90a")
    assert "wgmma_m64" in cuda
    assert "copy_16B(&x_sh" in cuda
    assert ("tma_load" in cuda) is (case in ("images alone, dilated", "pointwise"))  # filters, channels last


def test_filters_alone_channels_first_on_hopper() -> None:
    """What bulk copies take they load, beside threads that transpose."""
    schedule = conv.wgmma(conv.conv2d(images(2, 9, 11, 32), first(24, 3, 3, 32, name="f"), pad=1), runs=False)
    right(schedule)
    assert "tma_load_4d(&x_sh" in schedule.cuda("sm_90a")
    assert "copy_16B(&f_sh" in schedule.cuda("sm_90a")


WIDE = first(2, 9, 11, 64)
BEFORE_ODD = {"gain": tensor(33, name="gain"), "shift": tensor(33, name="shift"), "before": relu}
COPIED: dict[str, Callable[[], Any]] = {
    "a pair of blocks": lambda: conv.wgmma(
        conv.conv2d(WIDE, filters(72, 3, 3, 64), pad=1, channels_first=True), cluster=2
    ),
    "ways": lambda: conv.wgmma(
        conv.conv2d(first(1, 5, 8, 256), filters(40, 2, 1, 256), channels_first=True), ways=2, channels=64
    ),
    "what is computed ahead": lambda: conv.wgmma(
        conv.conv2d(images(2, 5, 7, 33), filters(40, 2, 3, 33), pad=1, **BEFORE_ODD)
    ),
    "groups of volumes": lambda: conv.wgmma(of_volumes()),
    "gaps between lines": lambda: conv.wgmma(
        conv.conv2d(tensor(1, 5, 7, 32, dtype="f16", strides=(1155, 231, 33, 1)), filters(24, 2, 2, 32))
    ),
}


@pytest.mark.parametrize("case", COPIED)
def test_what_threads_copy_on_hopper(case: str) -> None:
    schedule = COPIED[case]()
    right(schedule)
    assert not schedule.compile("sm_90a").resources.spills


@pytest.mark.product
@pytest.mark.parametrize(("dtype", "out"), [("f16", None), ("i8", "i32"), ("tf32", None)])
@pytest.mark.parametrize("preset", [conv.mma, conv.wgmma])
def test_odd_channels(preset: Any, dtype: str, out: str | None) -> None:
    """Lines that start at any element are copied through registers, and run on tensor cores."""
    more = {} if out is None else {"out": out}
    spec = conv.conv2d(images(2, 5, 7, 33, dtype=dtype), filters(35, 3, 2, 33, dtype=dtype), pad=1, stride=2, **more)
    schedule = preset(spec)
    right(schedule)
    assert not schedule.compile("sm_90a").resources.spills
    assert best(spec).cuda("sm_90a").count("mma_m16n8k") > 1


def test_gradients_of_odd_channels() -> None:
    y, x = tensor(2, 5, 7, 35, name="y", dtype="f16"), images(2, 5, 7, 33)
    spec = conv_gradients.conv2d_filter_gradient(y, x, (3, 3), pad=1, out="f32")
    right(conv_gradients.filters_mma(spec, ways=1))
    assert "mma_m16n8k16" in best(spec).cuda("sm_90a")


def test_channels_first_is_channels_last_of_views() -> None:
    rng = np.random.default_rng(7)
    x, f = (rng.integers(-2, 3, size=shape).astype(np.float16) for shape in ((2, 32, 7, 9), (24, 32, 3, 3)))
    ours = conv.mma(conv.conv2d(first(2, 7, 9, 32), first(24, 3, 3, 32, name="f"), pad=1, channels_first=True))
    made = ours.simulate(x.swapaxes(1, 2), f.swapaxes(1, 2)).out  # views: the last two dims as they lie
    plain = conv.mma(conv.conv2d(images(2, 7, 9, 32), filters(24, 3, 3, 32), pad=1))
    last = plain.simulate(*(np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, f))).out
    np.testing.assert_array_equal(made, last.transpose(0, 3, 1, 2))


def test_best_takes_tensor_cores_for_channels_first_and_groups() -> None:
    for case in (FIRST["strided, what follows"], of_volumes):
        assert "mma_m16n8k16" in best(case()).cuda("sm_90a")
    many = conv.conv2d(first(2, 9, 11, 40), filters(128, 3, 3, 40), pad=1, channels_first=True)
    assert "wgmma_m64" in best(many).cuda("sm_90a")  # threads copy for more filters


def test_short_sums_have_tiles_of_most_filters() -> None:
    """Results are most of the bytes: their rows are whole, 20.0 us on an H200 for 22.0 by half rows."""
    plan = conv.plans(conv.conv2d(images(32, 56, 56, 64), filters(256, 1, 1, 64)))[0]
    assert (plan.pixels, plan.channels) == (128, 256)
    residual = tensor(32, 56, 56, 256, dtype="f16", name="residual")
    beside = conv.plans(conv.conv2d(images(32, 56, 56, 64), filters(256, 1, 1, 64), residual=residual))[0]
    assert (beside.pixels, beside.channels) == (256, 128)  # 128x256 spills


def of_volumes() -> Any:
    """Groups of channels of volumes: arrays of six dims, which no tensor map has."""
    f = tensor(2, 24, 2, 2, 3, 16, dtype="f16", name="f")
    return conv.conv3d_grouped(images(1, 2, 3, 5, 2, 16), f, tensor(2, 24, name="bias"), pad=1, op=relu)


def test_groups_of_volumes() -> None:
    report = right(conv.mma(of_volumes())).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0


def test_channels_first_compiles(golden: Callable[[str, str], None]) -> None:
    x, f = first(32, 56, 56, 64), first(64, 3, 3, 64, name="f")
    schedule = conv.mma(conv.conv2d(x, f, pad=1, channels_first=True))
    for arch in ("sm_80", "sm_90a", "sm_120"):
        assert not schedule.compile(arch).resources.spills
    golden(schedule.cuda("sm_80"), "schedules/conv_channels_first.cu")
    newest = conv.wgmma(conv.conv2d(x, f, pad=1, channels_first=True))
    assert not newest.compile("sm_90a").resources.spills
    golden(newest.cuda("sm_90a"), "schedules/conv_channels_first_wgmma.cu")


FLAT: dict[str, Callable[[], Any]] = {
    "ragged, what follows": lambda: flat(
        images(3, 7, 9, 32), filters(24, 3, 3, 32), tensor(24, name="bias"),
        tensor(3, 7, 9, 24, dtype="f16", name="residual"), pad=1, op=relu, scale=tensor(24, name="scale"),
    ),
    "strided, dilated, unequal padding": lambda: flat(
        images(2, 11, 10, 40), filters(24, 3, 2, 40), pad=((1, 0), (2, 1)), stride=(2, 3), dilation=(1, 2)
    ),
    "one pixel": lambda: flat(images(2, 5, 5, 32), filters(24, 1, 1, 32)),
    "i8": lambda: flat(
        images(2, 7, 5, 32, dtype="i8"), filters(24, 3, 3, 32, dtype="i8"), pad=1, out="i32"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FLAT)
def test_runs_of_pixels_are_no_boxes(case: str) -> None:
    """A tile of 128 pixels goes across rows and images: each thread copies what its own pixels read."""
    schedule = conv.mma(FLAT[case]())
    report = right(schedule).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0
    assert "cp_async_or_zero_16B(&x_sh" in schedule.cuda("sm_80") or case == "one pixel"


WINDOWS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "ragged, what follows": (FLAT["ragged, what follows"], {}),
    "strided, dilated, unequal padding": (FLAT["strided, dilated, unequal padding"], {}),
    "pairs of blocks": (
        lambda: flat(images(7, 7, 9, 32), filters(136, 3, 3, 32), pad=1),
        {"pixels": 128, "channels": 64, "cluster": 2, "persistent": False},
    ),
    "tiles that begin in rows": (lambda: flat(images(3, 11, 11, 16), filters(16, 3, 3, 16)), {}),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_runs_of_pixels_by_tensor_maps(case: str) -> None:
    """One bulk copy in im2col mode brings what a tap reads of 128 pixels, across rows and images."""
    make, form = WINDOWS[case]
    schedule = conv.wgmma(make(), **form)
    report = right(schedule).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0
    assert "tma_load_4d_im2col" in schedule.cuda("sm_90a")


def test_lines_and_volumes_by_tensor_maps() -> None:
    """Index maps of one and of three sides are seen as runs of pixels too: a map of 3 and of 5 dimensions."""

    @fi.program(x="n w channel", f="k s c")
    def lines(x: Any, f: Any) -> Any:
        m = fi.dim("m", 5 * 11)
        return fi.einsum("m s c, k s c -> m k", x[m // 11, 2 * (m % 11) + fi.index("s") - 1, fi.index("c")], f)

    @fi.program(x="n d h w channel", f="k t r s c")
    def volumes(x: Any, f: Any) -> Any:
        m = fi.dim("m", 2 * 3 * 4 * 5)
        places = (m // 20 % 3 + fi.index("t") - 1, m // 5 % 4 + fi.index("r") - 1, m % 5 + fi.index("s") - 1)
        return fi.einsum("m t r s c, k t r s c -> m k", x[m // 60, places[0], places[1], places[2], fi.index("c")], f)

    for spec, taps in (
        (lines(images(5, 22, 16), filters(64, 3, 16)), {"s": 1}),
        (volumes(images(2, 3, 4, 5, 16), filters(64, 3, 3, 3, 16)), {"t": 1, "r": 1, "s": 1}),
    ):
        chain = spec.tile(m=64, k=64).to(Block).epilog(memory=fi.FR, store=fi.through_shared(pad=8))
        chain = chain.split(None, **taps, c=16).pipeline(3).specialize()
        chain = chain.load("x", fi.SH, fi.tma(32)).load("f", fi.SH, fi.tma(32)).tile(m=64).to(fi.Warpgroup)
        schedule = chain.each(product=lambda y: y.split(16).unroll().done("wgmma"))
        right(schedule)
        assert f"tma_load_{3 if len(taps) == 1 else 5}d_im2col" in schedule.cuda("sm_90a")


@pytest.mark.parametrize("what", ["corner", "offset"])
def test_planted_mistakes_of_windows_are_found(what: str) -> None:
    """A map whose box begins a pixel later, and a tap read one pixel further: the simulator is wrong with both."""
    schedule = conv.wgmma(FLAT["ragged, what follows"]())
    kernel = schedule.lowered("sm_90a")

    def changed(s: Statement) -> Statement:
        if not isinstance(s, Call) or s.map is None or not s.map.lower:
            return s
        if what == "corner":
            return attrs.evolve(s, map=attrs.evolve(s.map, lower=tuple(n + 1 for n in s.map.lower)))
        (first, *rest) = s.bindings
        return attrs.evolve(s, bindings=(attrs.evolve(first, value=first.value + 1), *rest))

    body = rewrite(kernel.body, changed)
    assert body != kernel.body
    broken = attrs.evolve(kernel, body=body)
    if what == "corner":
        with pytest.raises(SimulationError, match="a run starts at -1, where pixels lie from 0 on"):
            simulate(broken, random_arrays(Interface.of(kernel), {}))
        return
    arrays, others = (random_arrays(Interface.of(kernel), {}) for _ in range(2))
    simulate(kernel, arrays)
    simulate(broken, others)
    assert not np.array_equal(arrays["y"], others["y"])


def test_flat_pixels_are_those_of_conv2d() -> None:
    rng = np.random.default_rng(5)
    x, f = (rng.integers(-2, 3, size=shape).astype(np.float16) for shape in ((2, 7, 9, 16), (24, 3, 3, 16)))
    runs = flat(images(*x.shape), filters(*f.shape), stride=2, pad=1)
    boxes = conv.conv2d(images(*x.shape), filters(*f.shape), stride=2, pad=1)
    np.testing.assert_array_equal(conv.mma(runs).simulate(x, f).out, conv.mma(boxes).simulate(x, f).out)


@pytest.mark.parametrize(
    ("channels", "taps", "stride", "pad"), [(3, 7, 2, 3), (4, 3, 1, 1), (1, 5, 3, 0), (12, 2, 1, 1)]
)
def test_few_channels_are_packed(channels: int, taps: int, stride: int, pad: int) -> None:
    """Columns and channels of filters are one dim, of which an instruction takes 16: as conv2d computes."""
    sides = (11, 12)
    p, q = ((n + 2 * pad - taps) // stride + 1 for n in sides)
    x, f = images(2, sides[0], sides[1] * channels), filters(24, taps, taps * channels)
    spec = conv.conv2d_packed(x, f, tensor(24, name="bias"), stride=stride, pad=pad, op=relu, channels=channels)
    report = right(conv.packed(spec)).report
    assert max(site.conflict_degree for site in report.sites) <= 2.0  # pixels of odd strides share banks
    rng = np.random.default_rng(3)
    x, f = (rng.integers(-2, 3, size=t.shape).astype(np.float16) for t in (x, f))
    bias = np.zeros(24, np.float32)
    plain = conv.conv2d(images(2, *sides, channels), filters(24, taps, taps, channels), stride=stride, pad=pad, op=relu)
    wanted = conv.simt(plain).simulate(x.reshape(2, *sides, channels), f.reshape(24, taps, taps, channels)).out
    assert wanted.shape == (2, p, q, 24)
    np.testing.assert_array_equal(conv.packed(spec).simulate(x, f, bias).out, wanted)


def led(n: int, side: int, channels: int, k: int, taps: int, stride: int, pad: int) -> Any:
    """Give a convolution of few channels whose windows begin at even elements where they can."""
    return conv.conv2d_packed(
        images(n, side, side * channels), filters(k, taps, taps * channels), stride=stride, pad=pad, channels=channels,
        lead=conv.lead_of(64, 7, taps, stride, pad, channels),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "pairs", "conflicts"),
    [
        ((2, 30, 3, 64, 7, 2, 3), True, 1.0),
        ((2, 20, 3, 64, 3, 1, 1), False, 1.0),  # windows lie 3 elements apart
        ((2, 31, 3, 40, 3, 2, 1), True, 1.0),  # rows of 93 elements, which copies of 4 bytes do not take
        ((1, 40, 3, 64, 11, 4, 2), True, 1.5),
        ((1, 14, 2, 72, 3, 1, 1), True, 2.0),  # several tiles of filters
    ],
)
def test_windows_with_a_lead_are_gathered_by_pairs(shape: Any, pairs: bool, conflicts: float) -> None:
    """Filters come once for all tiles of a block; what lies around a window counts for nothing, even NaN."""
    spec = led(*shape)
    schedule = conv.packed(spec)
    assert max(site.conflict_degree for site in right(schedule).report.sites) <= conflicts
    source = schedule.cuda("sm_90a")
    assert ("4B(&x_a_fr" in source) == pairs
    if "int trip" in source:  # all filters fit beside the images
        assert source.index("f_sh[") < source.index("for (int trip") < source.rindex("x_sh[")
        assert "&f[" not in source.partition("for (int trip")[2]
    n, side, channels, k, taps, *_ = shape
    x = np.ones((n, side, side * channels), np.float16)
    x[:, :, 6 * channels :] = np.nan
    f = np.ones((k, taps, taps * channels), np.float16)
    plain = conv.packed(
        conv.conv2d_packed(
            images(n, side, side * channels), filters(k, taps, taps * channels), stride=shape[5], pad=shape[6],
            channels=channels,
        )
    )  # fmt: skip
    np.testing.assert_array_equal(schedule.simulate(x, f).out, plain.simulate(x, f).out)


BULK: dict[str, dict[str, Any]] = {
    "two groups": {},
    "pairs of blocks": {"cluster": 2, "persistent": False},
    "large boxes, pairs": {"pixels": 256, "cluster": 2},
    "pairs of filters": {"channels": 64},
    "three groups": {"pixels": 192, "groups": 3},
    "wide, by panels": {"pixels": 256, "channels": 128},
    "shared sums": {"ways": 2},
}


@pytest.mark.product
@pytest.mark.parametrize(
    ("case", "form"),
    [
        *(
            pytest.param(case, "two groups", marks=pytest.mark.exhaustive) if n % 2 else (case, "two groups")
            for n, case in enumerate(CASES)
        ),
        *(("ragged, bias, relu", form) for form in BULK if form != "two groups"),
        ("volumes", "pairs of blocks"),
    ],
)
def test_bulk_copies_and_wgmma(case: str, form: str) -> None:
    report = right(conv.wgmma(CASES[case](), **BULK[form])).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0


@pytest.mark.product
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("width", [72, 96, 160, 224])
def test_tiles_may_have_other_numbers_of_filters_than_the_model_lists(width: int, runs: bool) -> None:
    spec = conv.conv2d(images(2, 5, 9, 64), filters(232, 1, 1, 64), tensor(232, name="bias"), op=relu)
    report = right(conv.wgmma(spec, channels=width, pixels=64, groups=1, cluster=1, runs=runs)).report
    assert (
        max(site.conflict_degree for site in report.sites) <= 1.25
    )  # a warp's reads of staged rows go across their ends


@pytest.mark.parametrize("form", ["two groups", "three groups", "pairs of blocks", "of one tile"])
def test_bulk_copies_bring_what_is_added(form: str) -> None:
    spec = conv.conv2d(
        images(2, 9, 20, 32), filters(40, 1, 1, 32), tensor(40, dtype="f16", name="bias"),
        tensor(2, 9, 20, 40, dtype="f16", name="residual"), op=relu,
    )  # fmt: skip
    how = {"persistent": False, "pixels": 128, "channels": 64, "cluster": 1} if form == "of one tile" else BULK[form]
    schedule = conv.wgmma(spec, **how, copied="residual")
    assert max(site.conflict_degree for site in right(schedule).report.sites) <= 1.0
    load, math = schedule.cuda("sm_90a").partition("// load")[2].split("// math")
    assert "&residual_map" in load
    assert "copy_4B(&residual_rf" in math
    assert "&residual[" not in math


STORED: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "boxes": (CASES["ragged, bias, relu"], {"channels": 64, "runs": False}),
    "boxes of short rows": (CASES["stride 2, unequal padding, residual"], {"channels": 64, "runs": False}),
    "runs": (CASES["ragged, bias, relu"], {"channels": 64, "runs": True}),
    "bf16, strided results": (
        lambda: conv.conv2d(images(2, 8, 8, 32, dtype="bf16"), filters(40, 3, 3, 32, dtype="bf16"), pad=1), {}
    ),
    "groups": (CASES["groups"], {}),
    "volumes": (CASES["volumes"], {"runs": False}),
    "runs of volumes": (CASES["volumes"], {"runs": True}),
    "narrow spans": (CASES["one pixel, wide"], {"channels": 96, "runs": True}),
    "a residual of runs": (
        lambda: conv.conv2d(
            images(2, 9, 7, 32), filters(40, 1, 1, 32), residual=tensor(2, 9, 7, 40, dtype="f16", name="residual")
        ),
        {"runs": True, "channels": 64, "copied": "residual"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STORED)
def test_warpgroups_store_by_bulk(case: str) -> None:
    """Persistent blocks store so: each warpgroup stages its part, and waits for no other warpgroup."""
    make, form = STORED[case]
    schedule = conv.wgmma(make(), persistent=True, **{"pixels": 256, "groups": 2, **form})
    report = right(schedule).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0
    source = schedule.cuda("sm_90a")
    assert "tma_store_" in source
    assert "stmatrix_x" in source
    assert "&y[" not in source
    assert not schedule.compile("sm_90a").resources.spills


OTHERWISE: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "one tile of each block": (CASES["ragged, bias, relu"], {"persistent": False}),
    "rows of one instruction": (CASES["ragged, bias, relu"], {"pixels": 128, "groups": 2, "persistent": True}),
    "f32": (CASES["f32 results"], {"pixels": 256, "groups": 2}),
    "lines off 16 bytes": (
        lambda: conv.conv2d(images(2, 6, 6, 32), filters(36, 3, 3, 32)),
        {"pixels": 256, "groups": 2},
    ),
    "an unknown number of filters": (
        lambda: conv.conv2d(images(2, 6, 6, 32), filters(fi.symbol("K"), 3, 3, 32)),
        {"pixels": 256, "channels": 64, "groups": 2, "runs": False},
    ),
    "channels first": (FIRST["pointwise"], {"pixels": 256, "groups": 2}),
    "six dims": (lambda: of_volumes(), {"pixels": 256, "groups": 2}),
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_results_that_threads_store(case: str) -> None:
    make, form = OTHERWISE[case]
    schedule = conv.wgmma(make(), **form)
    assert "tma_store_" not in schedule.cuda("sm_90a")
    assert "&y[" in schedule.cuda("sm_90a")


def test_boxes_whose_rows_of_matrices_are_no_boxes() -> None:
    """Of 16x12 pixels, 16 after each other end inside a row: threads write their fragments to shared memory."""
    spec = conv.conv2d(images(1, 16, 12, 32), filters(64, 1, 1, 32))
    schedule = conv.wgmma(spec, pixels=384, channels=64, groups=2, runs=False, persistent=True)
    right(schedule)
    source = schedule.cuda("sm_90a")
    assert "tma_store_4d" in source
    assert "stmatrix" not in source


def test_a_planted_mistake_of_merged_axes_is_found() -> None:
    """A map whose axis is the last side alone ends after one row of pixels."""
    kernel = conv.wgmma(STORED["runs"][0](), persistent=True, pixels=256, groups=2, **STORED["runs"][1]).lowered(
        "sm_90a"
    )

    def changed(s: Statement) -> Statement:
        apart = isinstance(s, Call) and s.map is not None and s.map.merged
        return attrs.evolve(s, map=attrs.evolve(s.map, merged=())) if apart else s

    body = rewrite(kernel.body, changed)
    assert body != kernel.body
    arrays, others = (random_arrays(Interface.of(kernel), {}) for _ in range(2))
    simulate(kernel, arrays)
    with pytest.raises(SimulationError, match="uncovered-output"):
        simulate(attrs.evolve(kernel, body=body), others)


def test_residuals_of_few_channels_are_copied() -> None:
    """Others hide their reads under the products of many chunks, and for runs of pixels it was not measured."""

    def copies(channels: int, size: int, filters_: int = 256, **how: Any) -> bool:
        side = 29 - size
        spec = conv.conv2d(
            images(8, 28, 28, channels), filters(filters_, size, size, channels),
            residual=tensor(8, side, side, filters_, dtype="f16", name="residual"),
        )  # fmt: skip
        return "residual_sh" in conv.wgmma(spec, **how).cuda("sm_90a")

    assert [copies(64, 1), copies(512, 1), copies(1024, 1), copies(64, 3)] == [True, True, False, False]
    assert not copies(64, 1, filters_=252)
    assert not any(copies(64, 1, **how) for how in ({"runs": True}, {"ways": 1, "persistent": False}, {"early": ()}))


def test_copied_tiles_leave_room_for_chunks() -> None:
    """Two tiles of a residual take shared memory that the default's wide tiles have no room for."""
    spec = conv.conv2d(
        images(32, 56, 56, 64), filters(256, 1, 1, 64), residual=tensor(32, 56, 56, 256, dtype="f16", name="residual")
    )
    kernel = conv.wgmma(spec, copied="residual").lowered("sm_90a")
    slots = {b.name: b.slots for b in kernel.buffers}
    assert (slots["residual_sh"], slots["x_sh"] > 1) == (2, True)
    assert kernel.shared_nbytes <= 227 * 1024


@pytest.mark.parametrize("form", ["two groups", "three groups", "pairs of blocks"])
def test_what_is_added_is_loaded_before_the_products(form: str) -> None:
    spec = conv.conv2d(
        images(2, 9, 20, 64), filters(48, 3, 3, 64), tensor(48, dtype="f16", name="bias"),
        tensor(2, 9, 20, 48, dtype="f16", name="residual"), pad=1, op=relu,
    )  # fmt: skip
    schedule = conv.wgmma(spec, **BULK[form], early=("bias", "residual"))
    right(schedule)
    body = schedule.cuda("sm_90a").partition("// math")[2]
    assert body.index("load bias to") < body.index("load residual to") < body.index("wgmma_fence")
    assert schedule.cuda("sm_90a") == conv.wgmma(spec, **BULK[form]).cuda("sm_90a")
    behind = conv.wgmma(spec, **BULK[form], early=()).cuda("sm_90a").partition("// math")[2]
    assert behind.index("wgmma_fence") < behind.index("load bias to")


@pytest.mark.parametrize("form", BULK)
def test_wgmma_compiles(form: str) -> None:
    spec = conv.conv2d(images(32, 56, 56, 128), filters(256, 3, 3, 128), stride=2, pad=1)
    resources = conv.wgmma(spec, **BULK[form]).compile("sm_90a").resources
    assert not resources.spills
    assert not resources.warnings


def test_golden_of_wgmma(golden: Callable[[str, str], None]) -> None:
    schedule = conv.wgmma(
        conv.conv2d(images(32, 56, 56, 128), filters(128, 3, 3, 128), stride=2, pad=1), cluster=2, runs=False
    )
    golden(schedule.cuda("sm_90a"), "schedules/conv_wgmma.cu")


def convolved_back(y: Any, f: Any, size: tuple[int, ...], stride: int, pad: int, dilation: int) -> Any:
    """Give the gradient of images by plain sums."""
    n, *outer, _ = y.shape
    _, *taps, c = f.shape
    wide = np.zeros((n, *(side + 2 * pad + stride + dilation * tap for side, tap in zip(size, taps, strict=True)), c))
    for at in np.ndindex(*taps):
        reached = [slice(t * dilation, t * dilation + stride * q, stride) for t, q in zip(at, outer, strict=True)]
        wide[:, *reached] += y @ f[:, *at].astype(float)
    return wide[:, *(slice(pad, pad + side) for side in size)]


@pytest.mark.product
@pytest.mark.parametrize(
    ("preset", "size", "taps", "stride", "pad", "dilation"),
    [
        (conv.mma, (9, 12), (3, 3), 1, 1, 1),
        (conv.wgmma, (9, 12), (3, 3), 1, 1, 1),
        (conv.mma, (8, 11), (5, 2), 3, 2, 1),
        (conv.wgmma, (8, 11), (5, 2), 3, 2, 1),
        (conv.mma, (7, 7), (1, 1), 2, 0, 1),
        (conv.wgmma, (7, 7), (1, 1), 2, 0, 1),
        (conv.mma, (9, 8), (3, 3), 2, 2, 2),
        (conv.wgmma, (9, 10), (2, 3), 2, 1, 3),
        (conv.simt, (23,), (4,), 2, 1, 1),
        (conv.wgmma, (23,), (4,), 2, 1, 1),
        (conv.mma, (4, 5, 6), (3, 2, 3), 2, 1, 1),
    ],
)
def test_gradient_of_images(
    preset: Any, size: tuple[int, ...], taps: tuple[int, ...], stride: int, pad: int, dilation: int
) -> None:
    """A program for each residue writes its rows and columns; together they are the gradient."""
    outer = ((n + 2 * pad - (t - 1) * dilation - 1) // stride + 1 for n, t in zip(size, taps, strict=True))
    rng = np.random.default_rng(1)
    y = rng.integers(-2, 3, size=(2, *outer, 32)).astype(np.float16)
    f = rng.integers(-2, 3, size=(32, *taps, 16)).astype(np.float16)
    dx = np.full((2, *size, 16), 9, np.float16)
    described = tensor(*y.shape, name="y", dtype="f16"), filters(*f.shape), images(*dx.shape)
    for part in conv_gradients.data_gradients(*described, stride, pad, dilation):
        view = dx[:, *part.pixels]
        if part.spec is None:
            view[...] = 0
            continue
        preset(part.spec).simulate(y, f[:, *part.taps], out=view)
    np.testing.assert_array_equal(dx, convolved_back(y, f, size, stride, pad, dilation))


def test_gradients_of_other_sizes_are_refused() -> None:
    y, f, x = tensor(1, 4, 4, 8, name="y"), tensor(8, 3, 3, 8, name="f"), tensor(1, 9, 6, 8)
    with pytest.raises(FireironError) as caught:
        conv_gradients.data_gradients(y, f, x)
    assert caught.value.code == "conv-sizes"
    assert caught.value.message == "y has 4 pixels along side 0, and windows of 3 over 9 pixels give 7"


def test_gradient_of_images_with_a_bias() -> None:
    """A transposed convolution: the bias is added in the same kernels."""
    rng = np.random.default_rng(2)
    y, f, bias = (rng.integers(-2, 3, size=s).astype(np.float16) for s in ((2, 4, 5, 32), (32, 3, 3, 16), (16,)))
    dx = np.empty((2, 8, 10, 16), np.float16)
    described = tensor(*y.shape, name="y", dtype="f16"), filters(*f.shape), images(*dx.shape)
    for part in conv_gradients.data_gradients(*described, 2, 1, bias=tensor(16, dtype="f16", name="bias")):
        assert part.spec is not None
        conv.mma(part.spec).simulate(y, f[:, *part.taps], bias, out=dx[:, *part.pixels])
    np.testing.assert_array_equal(dx, convolved_back(y, f, (8, 10), 2, 1, 1) + bias)


@pytest.mark.product
@pytest.mark.parametrize(("stride", "pad", "taps", "c", "ways"), [(1, 1, (2, 2), 40, 1), (2, (1, 0), (1, 2), 136, 3)])
@pytest.mark.parametrize("preset", [conv_gradients.filters_mma, conv_gradients.filters_wgmma])
def test_gradient_of_filters(preset: Any, stride: int, pad: Any, taps: Any, c: int, ways: int) -> None:
    pads = (pad, pad) if isinstance(pad, int) else pad
    p, q = ((n + 2 * b - t) // stride + 1 for n, b, t in zip((7, 9), pads, taps, strict=True))
    y, x = tensor(3, p, q, 72, name="y", dtype="f16"), images(3, 7, 9, c)
    spec = conv_gradients.conv2d_filter_gradient(y, x, taps, stride=stride, pad=pad, out="f32")
    # All blocks at once would be more than the simulator runs.
    apart = {"shared": False} if preset is conv_gradients.filters_wgmma else {}
    report = right(preset(spec, ways=ways, **apart)).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0


@pytest.mark.parametrize("preset", [conv_gradients.filters_simt, conv_gradients.filters_mma])
def test_gradient_of_filters_of_other_ranks(preset: Any) -> None:
    y, x = tensor(2, 13, 24, name="y", dtype="f16"), images(2, 25, 16)
    right(preset(conv_gradients.conv1d_filter_gradient(y, x, 3, stride=2, pad=1, out="f32")))
    y, x = tensor(2, 3, 4, 5, 16, name="y", dtype="f16"), images(2, 4, 5, 6, 16)
    right(preset(conv_gradients.conv3d_filter_gradient(y, x, 2, out="f32")))


@pytest.mark.parametrize("form", [{}, {"channels": 64, "cluster": 2, "groups": 2, "pixels": 128, "runs": False}])
def test_a_convolution_begins_before_the_launch_ahead_has_ended(form: dict[str, Any]) -> None:
    spec = conv.conv2d(images(2, 6, 7, 64), filters(128, 3, 3, 64), pad=1, arch="sm_90a")
    schedule = conv.wgmma(spec, dependent=True, **form)
    assert "griddepcontrol" in schedule.cuda()
    right(schedule)


@pytest.mark.parametrize(("channels", "span"), [(40, 32), (40, 64), (136, 64)])
def test_spans_that_channels_fill_better(channels: int, span: int) -> None:
    spec = conv.conv2d(images(2, 6, 7, channels), filters(24, 3, 3, channels), pad=1, arch="sm_90a")
    for runs in (False, True):
        schedule = conv.wgmma(spec, span=span, runs=runs)
        assert f"c {span // 2}" in str(schedule)
        right(schedule)


@fi.program(x="n h w m", f="g k r s c")
def folded_groups(x: Any, f: Any, part: int, pad: int = 0) -> Any:
    read = places("hw", "rs", "pq", 1, pad, 1)
    channel = fi.index("g") * part + fi.index("c")
    return fi.einsum("n p q r s g c, g k r s c -> n p q g k", x[(slice(None), *read, channel)], f)


@pytest.mark.parametrize(("part", "preset"), [(40, conv.mma), (32, conv.mma), (32, conv.wgmma), (40, best)])
def test_groups_that_are_read_by_number_do_not_see_each_others_channels(part: int, preset: Any) -> None:
    """A chunk that ends behind a group's channels holds zeros there: 0 times NaN would be NaN."""
    x, f = np.ones((1, 4, 5, 2 * part), np.float16), np.ones((2, 16, 3, 3, part), np.float16)
    x[..., part:] = np.nan
    spec = folded_groups(images(*x.shape), filters(*f.shape), part=part, pad=1, arch="sm_90a")
    out = preset(spec).simulate(x, f).out
    assert not np.isnan(out[..., 0, :]).any()
    assert np.isnan(out[..., 1, :]).all()


@pytest.mark.parametrize("preset", ["filters_simt", "filters_mma", "filters_wgmma"])
def test_gradient_of_grouped_filters(preset: str) -> None:
    y, x = tensor(3, 4, 5, 2, 24, name="y", dtype="f16"), images(3, 7, 9, 2, 40)
    spec = conv_gradients.conv2d_filter_gradient_grouped(y, x, (3, 2), stride=2, pad=((1, 1), (1, 0)), out="f32")
    right(getattr(conv_gradients, preset)(spec, ways=2))
    if preset == "filters_mma":
        y, x = tensor(2, 13, 3, 16, name="y", dtype="f16"), images(2, 25, 3, 16)
        right(conv_gradients.filters_mma(conv_gradients.conv1d_filter_gradient_grouped(y, x, 3, stride=2, pad=1)))


def test_gradient_of_grouped_filters_of_volumes_takes_mma() -> None:
    """Six dims are one more than a tensor map has."""
    y, x = tensor(2, 3, 3, 2, 2, 16, name="y", dtype="f16"), images(2, 4, 4, 4, 2, 16)
    schedule = best(conv_gradients.conv3d_filter_gradient_grouped(y, x, (2, 2, 3), arch="sm_90a"))
    assert "cp_async" in schedule.cuda("sm_90a")
    right(schedule)


def test_gradient_of_filters_on_cuda_cores() -> None:
    y, x = tensor(3, 7, 5, 12, name="y"), tensor(3, 7, 9, 5)
    spec = conv_gradients.conv2d_filter_gradient(y, x, (3, 2), stride=(1, 2), pad=((1, 1), (1, 0)))
    right(conv_gradients.filters_simt(spec))
    right(conv_gradients.filters_simt(spec, ways=3))


def test_goldens_of_gradients(golden: Callable[[str, str], None]) -> None:
    y, x = tensor(32, 28, 28, 128, name="y", dtype="f16"), images(32, 28, 28, 128)
    filters_gradient = conv_gradients.filters_wgmma(conv_gradients.conv2d_filter_gradient(y, x, (3, 3), pad=1))
    assert not filters_gradient.compile("sm_90a").resources.spills
    golden(filters_gradient.cuda("sm_90a"), "schedules/conv_filter_gradient.cu")


def tiles_of(n: int, side: int, c: int, k: int) -> tuple[str, int, int, int]:
    """Give the form, pixels and channels of a tile of a 3x3 convolution, and how many blocks share its loads."""
    chain = conv.wgmma(conv.conv2d(images(n, side, side, c), filters(k, 3, 3, c), pad=1))
    *clusters, tile = [dict(x.sizes) for x in chain.links if isinstance(x, Tile) and x.level in (Cluster, Block)]
    pixels = prod(tile[d] for d in ("m" if "m" in tile else "npq"))
    shared = prod(clusters[0].values()) // prod(tile.values()) if clusters else 1
    return "run" if "m" in tile else "box", pixels, tile["k"], shared


def test_the_model_chooses_tiles() -> None:
    """Tiles that fill the SMs: on an H200 each of these took 0.77 to 0.95 of the time of the fastest box."""
    assert tiles_of(32, 28, 128, 128) == ("run", 192, 128, 1)  # 131 tiles of 132 SMs; no box of 192 fills 28 x 28
    assert tiles_of(32, 14, 256, 256) == ("run", 192, 64, 2)  # 132 tiles
    assert tiles_of(32, 7, 512, 512) == ("run", 64, 128, 1)  # 100 tiles of one warpgroup; a box wastes an eighth
    assert tiles_of(256, 7, 512, 512) == ("run", 192, 128, 1)
    assert tiles_of(4, 16, 256, 256)[0] == "box"  # runs of whole rows are boxes


def test_pixels_that_begin_within_sectors_are_shared_by_pairs() -> None:
    """Bulk copies load rows off 32 bytes slowly: on an H200 pairs took 0.72 to 0.77 of the time of single blocks."""
    assert tiles_of(2, 52, 616, 688)[3] == 2
    assert tiles_of(3, 46, 472, 664) == ("run", 192, 128, 2)
    assert tiles_of(3, 46, 480, 664)[3] == 1  # pixels of 960 bytes


def test_lines_of_the_cache_are_counted() -> None:
    """A pixel of 280 channels begins between lines: its five chunks touch 8.75 of them, and not 5."""
    assert lines(256, 128) == 2
    assert lines(560, 128) == 8.75
    assert lines(64, 64) == 1
    assert lines(16, 32) == 1


def test_windows_that_no_map_holds_are_boxes() -> None:
    """A step above 8, sides whose offsets exceed a byte, results with gaps: boxes alone."""
    for spec in (
        conv.conv2d(images(2, 40, 40, 32), filters(64, 3, 3, 32), stride=9),
        conv.conv2d(images(1, 300, 300, 32), filters(64, 2, 2, 32), dilation=256),
        conv.conv2d(images(2, 9, 9, 32), filters(64, 3, 3, 32), out=tensor(2, 7, 7, 64, strides=(5000, 500, 64, 1))),
    ):
        assert not any(tiles.runs for tiles in conv.plans(spec))
    assert any(tiles.runs for tiles in conv.plans(conv.conv2d(images(2, 9, 9, 32), filters(64, 3, 3, 32))))


def test_what_is_given_is_kept() -> None:
    spec = conv.conv2d(images(32, 28, 28, 128), filters(128, 3, 3, 128), pad=1)
    tile = dict(conv.wgmma(spec, pixels=128, channels=64, cluster=2).links[0].sizes)
    assert tile == {"n": 8, "p": 4, "q": 4, "k": 128}
    assert conv.wgmma(spec, channels=128, ways=2, persistent=True).links[0].persistent is False


@pytest.mark.parametrize(("n", "sides"), [(32, (14, 14)), (7, (9, 5)), (1, (56, 56)), (32, (7, 7)), (3, (1, 1))])
def test_gradients_of_filters_share_images_whole(n: int, sides: tuple[int, int]) -> None:
    """No chunk's box reaches from one block's images into another's."""
    y, x = tensor(n, *sides, 64, name="y", dtype="f16"), images(n, *sides, 64)
    schedule = conv_gradients.filters_wgmma(conv_gradients.conv2d_filter_gradient(y, x, 3, pad=1))
    part, box = n, 1
    for link in schedule.links:
        if isinstance(link, Split) and link.level is not None:
            part = int(str(link.size))
        elif isinstance(link, Split):
            box = int(str(link.size))
    assert part % box == 0
    tile = dict(schedule.links[0].sizes)
    assert tile["k"] <= 128
    assert tile["c"] <= 128  # wider sums are serialised by some compilers
    schedule.lowered("sm_90a")


def test_blocks_read_boxes_with_few_wasted_pixels() -> None:
    """Of 28 x 28 images 32 together take whole tiles; 56 x 56 divides by 8 x 8."""

    def tile(n: int, side: int) -> dict[str, int]:
        chain = conv.mma(conv.conv2d(images(n, side, side, 64), filters(64, 3, 3, 64), pad=1))
        (first, *_) = chain.links
        return dict(first.sizes)

    assert tile(32, 56) == {"n": 2, "p": 8, "q": 8, "k": 64}
    assert tile(32, 28) == {"n": 8, "p": 4, "q": 4, "k": 64}
    assert tile(1, 28) == {"n": 1, "p": 4, "q": 32, "k": 64}


@pytest.mark.parametrize("what", ["edges", "order"])
def test_planted_mistakes_are_found(what: str) -> None:
    """Zeros outside the image and barriers of the ring are needed: without them an access is wrong."""
    kernel = conv.mma(CASES["dilated, bf16"]()).lowered("sm_80")

    def planted(s: Statement) -> Statement | tuple[Statement, ...]:
        if what == "edges":
            return attrs.evolve(s, read=None) if isinstance(s, Call) and s.read is not None else s
        return () if isinstance(s, Sync) else s

    broken = attrs.evolve(kernel, body=rewrite(kernel.body, planted))
    assert broken != kernel
    with pytest.raises(SimulationError) as caught:
        simulate(broken, random_arrays(Interface.of(kernel), {}))
    assert caught.value.code == {"edges": "out-of-bounds", "order": "race"}[what]


def test_the_stem_compiles(golden: Callable[[str, str], None]) -> None:
    spec = conv.conv2d_packed(images(32, 224, 672), filters(64, 7, 21), stride=2, pad=3, channels=3)
    schedule = conv.packed(spec)
    for arch in ("sm_80", "sm_90a", "sm_120"):
        assert not schedule.compile(arch).resources.spills
    golden(schedule.cuda("sm_80"), "schedules/conv_packed.cu")
    ahead = conv.packed(led(32, 224, 3, 64, 7, 2, 3))
    for arch in ("sm_80", "sm_90a", "sm_120"):
        assert not ahead.compile(arch).resources.spills
    golden(ahead.cuda("sm_90a"), "schedules/conv_packed_lead.cu")


def test_compiles(golden: Callable[[str, str], None]) -> None:
    schedule = conv.mma(conv.conv2d(images(32, 28, 28, 128), filters(128, 3, 3, 128), pad=1))
    for arch in ("sm_80", "sm_90a", "sm_120"):
        assert not schedule.compile(arch).resources.spills
    golden(schedule.cuda("sm_80"), "schedules/conv_mma.cu")


def test_a_residual_leaves_registers_for_fewer_sums() -> None:
    """Tiles of 192x192 have 96 sums a thread: with a residual and a bias, 168 registers of 160."""
    residual = tensor(16, 56, 56, 160, dtype="f16", name="residual")
    spec = conv.conv2d(images(16, 56, 56, 64), filters(160, 3, 3, 64), tensor(160, name="bias"), residual, pad=1)
    assert conv.plans(spec)[0].groups != 3
    assert not conv.wgmma(spec).compile("sm_90a").resources.spills


def test_registers_hold_what_is_read_after_the_products() -> None:
    beside = {"scale": Vector(256, "f32", name="scale"), "bias": Vector(256, "f32", name="bias")}
    images, filters = tensor(32, 56, 56, 64, dtype="f16"), tensor(256, 1, 1, 64, dtype="f16", name="f")
    spec = conv.conv2d(images, filters, **beside, arch="sm_90a")
    with pytest.raises(FireironError) as caught:  # the fastest tiles by the model
        conv.wgmma(spec, plan=conv.plans(spec)[0]).check()
    assert caught.value.code == "registers"
    conv.wgmma(spec).check()
