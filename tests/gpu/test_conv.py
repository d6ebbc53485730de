"""Convolutions and index maps on the GPU, against their references."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from verified import verified

from fireiron import fuse, relu, tensor
from fireiron.jit.driver import driver
from fireiron.schedules import akg, conv, conv_gradients, conv_packed_gradients, depthwise_gradients


def for_hopper(gpu: int) -> None:
    """Skip where wgmma is not."""
    if driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")


@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "groups"), [(1, 1, 1, 1), (2, 1, 1, 4), (3, 2, 2, 1), (1, 1, 1, 32)]
)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_conv2d(gpu: int, dtype: str, stride: int, pad: int, dilation: int, groups: int) -> None:
    x, f = tensor(3, 29, 31, 32, dtype=dtype), tensor(64, 3, 3, 32 // groups, dtype=dtype, name="f")
    verified(conv.simt(conv.conv2d(x, f, stride=stride, pad=pad, dilation=dilation, groups=groups)))


def test_channelwise(gpu: int) -> None:
    for stride, pad, dilation in ((1, 1, 1), (2, 1, 1), (3, 2, 2)):
        x, f = tensor(3, 29, 31, 72, dtype="f16"), tensor(72, 3, 3, 1, dtype="f16", name="f")
        bias = tensor(72, name="bias")
        spec = conv.conv2d(x, f, bias, stride=stride, pad=pad, dilation=dilation, groups=72, op=relu)
        verified(conv.channelwise(spec))
        for rows, pixels, channels in ((4, 4, 4), (7, 2, 4), (2, 4, 8)):
            verified(conv.channelwise(spec, rows=rows, pixels=pixels, channels=channels))
    for dtype, taps in (("bf16", 3), ("f16", 5), ("f32", 3)):
        x, f = tensor(2, 27, 26, 40, dtype=dtype), tensor(40, taps, taps, 1, dtype=dtype, name="f")
        verified(conv.channelwise(conv.conv2d(x, f, pad=((taps // 2, 1), (0, 2)), groups=40)))
    for dtype in ("f16", "f32", "i8"):
        verified(conv.channelwise(conv.max_pool2d(tensor(3, 29, 30, 24, dtype=dtype), 3, 2, 1)))
    verified(conv.channelwise(conv.average_pool2d(tensor(2, 29, 30, 24, dtype="f16"), 7, 1, 3, count_pad=False)))


@pytest.mark.parametrize(
    ("dtype", "sides", "taps", "stride", "pad", "dilation"),
    [("f16", (28, 30), 3, 1, 1, 1), ("bf16", (28, 30), 3, 2, 1, 1), ("f16", (27, 30), 3, 2, 1, 1),
     ("f32", (20, 21), 5, 3, 2, 2), ("f16", (14, 13), 5, 1, 2, 1)],
)  # fmt: skip
def test_gradients_of_depthwise(
    gpu: int, dtype: str, sides: tuple[int, int], taps: int, stride: int, pad: int, dilation: int
) -> None:
    made = tuple((n + 2 * pad - (taps - 1) * dilation - 1) // stride + 1 for n in sides)
    y, x = tensor(3, *made, 72, dtype=dtype, name="y"), tensor(3, *sides, 72, dtype=dtype)
    f = tensor(72, taps, taps, 1, dtype=dtype, name="f")
    for part in conv_gradients.data_gradients(y, f, x, stride, pad, dilation, depthwise=True):
        assert part.spec is not None
        verified(conv.channelwise(part.spec))
    if stride > 1 and dilation == 1 and not any(n % stride for n in sides):
        spec = depthwise_gradients.conv2d_data_gradient_depthwise(y, f, stride, pad)
        for form in ({}, {"rows": 1, "pixels": 1}, {"rows": 4, "pixels": 1, "channels": 2}):
            verified(depthwise_gradients.images(spec, **form))
    gradient = depthwise_gradients.conv2d_filter_gradient_depthwise
    for box in (None, (2, 4)):
        spec = gradient(y, x, taps, stride, pad, dilation, box, out="f32")
        verified(depthwise_gradients.filters(spec))
        channels = 2 if dtype != "f32" else 1  # of f32 and 5x5 taps, two would not fit into registers
        verified(depthwise_gradients.filters(spec, channels=channels, lanes=4, threads=64, ways=5))
        verified(depthwise_gradients.filters(spec, channels=1, lanes=32, threads=128, ways=3, shared=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("given", [{"padding": 1}, {"stride": 2, "padding": 1}, {"stride": (3, 1), "dilation": 2}])
def test_torch_gradients_of_depthwise(gpu: int, given: dict[str, Any], dtype: str) -> None:
    """Gradients of torch's tensors against torch's own in f64; the same bits in every run."""
    torch: Any = pytest.importorskip("torch")
    F, ours = torch.nn.functional, __import__("fireiron.torch").torch
    torch.manual_seed(1)
    x, w = torch.randn(4, 40, 30, 28), torch.randn(40, 1, 3, 3)
    inputs = [t.to(getattr(torch, dtype)).cuda().to(memory_format=torch.channels_last) for t in (x, w)]
    inputs, wide = ([t.to(kind).requires_grad_() for t in inputs] for kind in (inputs[0].dtype, torch.float64))
    made, wanted = ours.conv2d(*inputs, groups=40, **given), F.conv2d(*wide, groups=40, **given)
    weight = torch.randn_like(wanted).to(made.dtype)
    found = torch.autograd.grad(made, inputs, weight, retain_graph=True)
    again = torch.autograd.grad(made, inputs, weight)
    within = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5}[dtype]
    expected = torch.autograd.grad(wanted, wide, weight.double())
    for got, same, want in zip(found, again, expected, strict=True):
        assert (got.double() - want).abs().max() <= within * want.abs().max()
        assert torch.equal(got, same)


def test_other_ranks(gpu: int) -> None:
    verified(conv.simt(conv.conv1d(tensor(3, 1000, 16), tensor(24, 5, 16, name="f"), stride=2, pad=2)))
    verified(conv.simt(conv.conv3d(tensor(1, 9, 10, 11, 8), tensor(16, 3, 3, 3, 8, name="f"), pad=1)))


def test_transposed_and_pooling(gpu: int) -> None:
    verified(conv.simt(conv.conv2d_transposed(tensor(2, 13, 14, 16, name="y"), tensor(16, 3, 3, 8, name="f"), 2, 1)))
    verified(conv.simt(conv.max_pool2d(tensor(2, 29, 30, 24, dtype="f16"), 3, 2, 1)))
    verified(conv.simt(conv.average_pool2d(tensor(2, 29, 30, 24, dtype="f16"), 3, 2, 1, count_pad=False)))


def test_pooling_of_other_ranks(gpu: int) -> None:
    for dtype in ("f16", "f32"):
        verified(conv.channelwise(conv.max_pool1d(tensor(3, 301, 40, dtype=dtype), 3, 2, 1, 2)))
        verified(conv.channelwise(conv.max_pool3d(tensor(2, 9, 10, 11, 24, dtype=dtype), 3, 2, 1)))
        verified(conv.channelwise(conv.average_pool3d(tensor(2, 9, 10, 11, 24, dtype=dtype), 2, 1, 1, count_pad=False)))


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("given", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"stride": 3, "dilation": 2}])
def test_torch_transposed(gpu: int, given: dict[str, Any], last: bool) -> None:
    """Values and gradients of torch's tensors against torch's own in f64."""
    torch: Any = pytest.importorskip("torch")
    F, ours = torch.nn.functional, __import__("fireiron.torch").torch
    torch.manual_seed(1)
    x, w, b = torch.randn(3, 40, 14, 15), torch.randn(40, 24, 3, 3) / 20, torch.randn(24)
    form = torch.channels_last if last else torch.contiguous_format
    inputs = [t.half().cuda().to(memory_format=form) if t.dim() == 4 else t.half().cuda() for t in (x, w, b)]
    inputs, wide = ([t.to(kind).requires_grad_() for t in inputs] for kind in (torch.float16, torch.float64))
    made, wanted = ours.conv_transpose2d(*inputs, **given), F.conv_transpose2d(*wide, **given)
    weight = torch.randn_like(wanted)
    found = (made, *torch.autograd.grad(made, inputs, weight.half()))
    for got, want in zip(found, (wanted, *torch.autograd.grad(wanted, wide, weight.half().double())), strict=True):
        assert (got.double() - want).abs().max() <= 4e-3 * want.abs().max()


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "max_pool3d"])
def test_torch_pooling(gpu: int, name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    F, ours = torch.nn.functional, __import__("fireiron.torch").torch
    torch.manual_seed(1)
    x = torch.randn(3, 40, *((29, 30) if "2" in name else (9, 10, 11)), device="cuda", dtype=torch.float16)
    for given in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}):
        inputs, wide = ([x.to(kind).requires_grad_()] for kind in (torch.float16, torch.float64))
        made, wanted = getattr(ours, name)(*inputs, **given), getattr(F, name)(*wide, **given)
        torch.testing.assert_close(made.double(), wanted, rtol=2e-3, atol=2e-3)
        weight = torch.randn_like(wanted)
        (found,) = torch.autograd.grad(made, inputs, weight.half())
        (expected,) = torch.autograd.grad(wanted, wide, weight.half().double())
        torch.testing.assert_close(found.double(), expected, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 1, 1), (2, 1, 1), (3, 2, 2)])
def test_prolog(gpu: int, stride: int, pad: int, dilation: int) -> None:
    """A batch norm and relu of images ahead of the convolution, in the registers of its fragments."""
    x, f = tensor(3, 29, 31, 40, dtype="f16"), tensor(136, 3, 3, 40, dtype="f16", name="f")
    given: dict[str, Any] = {"gain": tensor(40, name="gain"), "shift": tensor(40, name="shift"), "before": relu}
    spec = conv.conv2d(x, f, stride=stride, pad=pad, dilation=dilation, **given)
    x, f = tensor(2, 9, 10, 11, 40, dtype="f16"), tensor(72, 2, 3, 3, 40, dtype="f16", name="f")
    volumes = conv.conv3d(x, f, stride=stride, pad=pad, dilation=dilation, **given)
    for each in (spec, volumes):
        verified(conv.mma(each))
    for_hopper(gpu)
    for each in (spec, volumes):
        verified(conv.wgmma(each))


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 1, 1), (2, 1, 1), (3, 2, 2)])
def test_mma(gpu: int, stride: int, pad: int, dilation: int) -> None:
    x, f = tensor(3, 29, 31, 40, dtype="f16"), tensor(72, 3, 3, 40, dtype="f16", name="f")
    verified(conv.mma(conv.conv2d(x, f, tensor(72, name="bias"), stride=stride, pad=pad, dilation=dilation, op=relu)))


def first(*shape: int, dtype: str = "f16", name: str = "x") -> Any:
    """Describe an array that lies channels first, by its dims with channels last."""
    _, *sides, channels = shape
    steps = [prod(sides[i + 1 :]) for i in range(len(sides))]
    return tensor(*shape, dtype=dtype, name=name, strides=(prod(sides) * channels, *steps, prod(sides)))


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 1, 1), (2, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("dtype", ["f16", "tf32", "i8"])
def test_channels_first(gpu: int, dtype: str, stride: int, pad: int, dilation: int) -> None:
    x, f = first(3, 29, 31, 40, dtype=dtype), first(72, 3, 3, 40, dtype=dtype, name="f")
    given: dict[str, Any] = {"stride": stride, "pad": pad, "dilation": dilation, "channels_first": True}
    spec = conv.conv2d(x, f, **given, **({"out": "i32"} if dtype == "i8" else {}))
    verified(conv.mma(spec))
    for_hopper(gpu)
    verified(conv.wgmma(spec))


@pytest.mark.parametrize(("channels", "columns"), [(33, 72), (40, 131), (131, 65)])
@pytest.mark.parametrize("dtype", ["f16", "i8"])
def test_odd_channels(gpu: int, dtype: str, channels: int, columns: int) -> None:
    x, f = tensor(3, 19, 21, channels, dtype=dtype), tensor(columns, 3, 3, channels, dtype=dtype, name="f")
    spec = conv.conv2d(x, f, pad=1, **({"out": "i32"} if dtype == "i8" else {}))
    verified(conv.mma(spec))
    for_hopper(gpu)
    verified(conv.wgmma(spec))


def test_groups_of_lines_and_volumes(gpu: int) -> None:
    x, f = tensor(3, 501, 4, 32, dtype="f16"), tensor(4, 24, 5, 32, dtype="f16", name="f")
    lines = conv.conv1d_grouped(x, f, stride=2, pad=2)
    verified(conv.mma(lines))
    x, f = tensor(2, 9, 10, 11, 2, 32, dtype="f16"), tensor(2, 40, 3, 3, 3, 32, dtype="f16", name="f")
    verified(conv.mma(conv.conv3d_grouped(x, f, pad=1)))
    for_hopper(gpu)
    verified(conv.wgmma(lines))
    verified(conv.wgmma(conv.conv3d_grouped(x, f, pad=1)))


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 1, 1), (2, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"cluster": 2},
        {"pixels": 256, "persistent": False},
        {"runs": False, "persistent": True},
        {"runs": False, "persistent": True, "pixels": 128, "channels": 256},  # two panels in shared memory
        {"runs": True, "persistent": True, "pixels": 128, "channels": 96},  # swizzled by 64 bytes
    ],
)
def test_wgmma(gpu: int, stride: int, pad: int, dilation: int, form: dict[str, Any]) -> None:
    x, f = tensor(3, 29, 31, 40, dtype="bf16"), tensor(136, 3, 3, 40, dtype="bf16", name="f")
    for_hopper(gpu)
    spec = conv.conv2d(x, f, tensor(136, name="bias"), stride=stride, pad=pad, dilation=dilation, op=relu)
    verified(conv.wgmma(spec, **form))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "form", [{}, {"cluster": 2}, {"pixels": 128, "channels": 64, "persistent": False}, {"runs": True, "pixels": 128}]
)
def test_residuals_by_bulk_copies(gpu: int, form: dict[str, Any], size: int) -> None:
    x, f = tensor(5, 29, 31, 64, dtype="f16"), tensor(136, size, size, 64, dtype="f16", name="f")
    bias, residual = tensor(136, name="bias"), tensor(5, 29, 31, 136, dtype="f16", name="residual")
    for_hopper(gpu)
    verified(conv.wgmma(conv.conv2d(x, f, bias, residual, pad=size // 2, op=relu), **form, copied="residual"))


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 1, 1), (2, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("form", [{}, {"pixels": 128, "channels": 64, "cluster": 2, "persistent": False}])
def test_runs_of_pixels(gpu: int, stride: int, pad: int, dilation: int, form: dict[str, Any]) -> None:
    """By tensor maps in im2col mode, and by asynchronous copies of threads."""
    x, f = tensor(5, 29, 31, 64, dtype="f16"), tensor(136, 3, 3, 64, dtype="f16", name="f")
    spec = conv.conv2d(x, f, tensor(136, name="bias"), stride=stride, pad=pad, dilation=dilation, op=relu)
    verified(conv.mma(fuse(spec, m="n p q")))
    for_hopper(gpu)
    verified(conv.wgmma(spec, runs=True, **form))


def test_wgmma_of_volumes_and_groups(gpu: int) -> None:
    for_hopper(gpu)
    x, f = tensor(2, 9, 10, 11, 64, dtype="f16"), tensor(64, 3, 3, 3, 64, dtype="f16", name="f")
    verified(conv.wgmma(conv.conv3d(x, f, pad=1)))
    x, f = tensor(2, 15, 16, 4, 64, dtype="f16"), tensor(4, 64, 3, 3, 64, dtype="f16", name="f")
    verified(conv.wgmma(conv.conv2d_grouped(x, f, stride=2, pad=1)))


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients(gpu: int, stride: int) -> None:
    x, f = tensor(3, 29, 31, 40, dtype="f16"), tensor(72, 3, 3, 40, dtype="f16", name="f")
    p, q = ((n - 1) // stride + 1 for n in (29, 31))
    y = tensor(3, p, q, 72, dtype="f16", name="y")
    hopper = driver().compute_capability(gpu) == 90
    for part in conv_gradients.data_gradients(y, f, x, stride, 1):
        assert part.spec is not None
        for preset in (conv.mma, conv.wgmma) if hopper and stride == 1 else (conv.mma,):
            verified(preset(part.spec))
    spec = conv_gradients.conv2d_filter_gradient(y, x, (3, 3), stride=stride, pad=1, out="f32")
    for preset in (
        (conv_gradients.filters_mma, conv_gradients.filters_wgmma) if hopper else (conv_gradients.filters_mma,)
    ):
        verified(preset(spec))
        verified(preset(spec, ways=3))
        verified(preset(grouped_filters(stride), ways=2))
    if hopper:
        verified(conv_gradients.filters_wgmma(spec, ways=3, shared=True))
        verified(conv_gradients.filters_wgmma(grouped_filters(stride), ways=2, shared=True))


@pytest.mark.parametrize(("side", "taps", "stride", "pad"), [(224, 7, 2, 3), (33, 3, 1, 1), (60, 5, 3, 2)])
def test_gradients_of_few_channels(gpu: int, side: int, taps: int, stride: int, pad: int) -> None:
    p = (side + 2 * pad - taps) // stride + 1
    y, f = tensor(3, p, p, 72, dtype="f16", name="y"), tensor(72, taps, taps * 3, dtype="f16", name="f")
    images = conv_packed_gradients.conv2d_packed_data_gradient(y, f, stride, pad)
    x = tensor(3, side, side * 3, dtype="f16")
    filters = conv_packed_gradients.conv2d_packed_filter_gradient(y, x, taps, stride, pad, out="f32")
    for halo in (True, False):
        verified(conv_packed_gradients.images_mma(images, halo=halo))
    for rows in (1, 2, 4):
        verified(conv_packed_gradients.filters_mma(filters, rows=rows))


def grouped_filters(stride: int) -> Any:
    p, q = ((n - 1) // stride + 1 for n in (29, 31))
    y, x = tensor(3, p, q, 2, 72, dtype="f16", name="y"), tensor(3, 29, 31, 2, 40, dtype="f16")
    return conv_gradients.conv2d_filter_gradient_grouped(y, x, (3, 3), stride=stride, pad=1, out="f32")


@pytest.mark.parametrize("pad", [0, 1])
def test_akg(gpu: int, pad: int) -> None:
    """Instructions of sm_70 run on every later architecture, if slower."""
    x, f = tensor(32, 12, 12, 64, dtype="f16"), tensor(128, 5, 5, 64, dtype="f16", name="f")
    verified(akg.conv(conv.conv2d(x, f, tensor(128, name="bias"), pad=pad, op=relu)))


@pytest.mark.parametrize(("channels", "taps", "stride", "pad"), [(3, 7, 2, 3), (4, 3, 1, 1), (1, 5, 3, 0)])
def test_packed(gpu: int, channels: int, taps: int, stride: int, pad: int) -> None:
    x = tensor(3, 29, 31 * channels, dtype="f16")
    f = tensor(72, taps, taps * channels, dtype="f16", name="f")
    verified(conv.packed(conv.conv2d_packed(x, f, tensor(72, name="bias"), stride=stride, pad=pad, channels=channels)))
