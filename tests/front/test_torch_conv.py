"""Convolutions of torch's tensors on the simulator: values and gradients against torch's own, compiled and exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fireiron
from fireiron import (
    FireironError,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F: Any = torch.nn.functional
__import__("fireiron.torch")


def drawn(*shape: int, dtype: str = "float16", last: bool = True, learns: bool = True) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    made = torch.randn(*shape, generator=generator).to(getattr(torch, dtype))
    if last and made.dim() > 2:
        made = made.movedim(1, -1).contiguous().movedim(-1, 1)
    return made.detach().requires_grad_(learns)


def agree(ours: Callable[..., Any], torchs: Callable[..., Any], *inputs: Any, within: float = 4e-3) -> None:
    """Compare values and gradients with torch's in f32."""
    wide = [x.detach().float().requires_grad_(x.requires_grad) for x in inputs]
    made, wanted = ours(*inputs), torchs(*wide)
    assert made.dtype == inputs[0].dtype
    assert (made.float() - wanted).abs().max() <= within * wanted.abs().max()
    weight = torch.linspace(-1, 1, wanted.numel()).reshape(wanted.shape)
    learning = [i for i, x in enumerate(inputs) if x.requires_grad]
    found = torch.autograd.grad(made, [inputs[i] for i in learning], weight.to(made.dtype))
    expected = torch.autograd.grad(wanted, [wide[i] for i in learning], weight)
    for got, want, i in zip(found, expected, learning, strict=True):
        assert got.dtype == inputs[i].dtype
        assert got.shape == want.shape
        assert (got.float() - want).abs().max() <= within * want.abs().max()


WINDOWS: dict[str, dict[str, Any]] = {
    "same": {"padding": 1},
    "strided, dilated": {"stride": 2, "padding": (2, 1), "dilation": (1, 2)},
    "groups": {"padding": 1, "groups": 2},
    "depthwise": {"padding": 1, "groups": 16},
}


@pytest.mark.parametrize("windows", WINDOWS)
def test_images(windows: str) -> None:
    given = WINDOWS[windows]
    x, w, b = drawn(2, 16, 7, 8), drawn(32, 16 // given.get("groups", 1), 3, 3), drawn(32)
    agree(lambda x, w, b: conv2d(x, w, b, **given), lambda x, w, b: F.conv2d(x, w, b, **given), x, w, b)


def test_lines_and_volumes() -> None:
    agree(
        lambda x, w: conv1d(x, w, stride=2), lambda x, w: F.conv1d(x, w, stride=2), drawn(2, 16, 21), drawn(24, 16, 4)
    )
    x, w = drawn(2, 32, 21), drawn(32, 16, 3)
    agree(lambda x, w: conv1d(x, w, groups=2), lambda x, w: F.conv1d(x, w, groups=2), x, w)
    x, w = drawn(1, 16, 3, 4, 5), drawn(16, 8, 2, 2, 2)
    agree(lambda x, w: conv3d(x, w, groups=2), lambda x, w: F.conv3d(x, w, groups=2), x, w)
    x, w = drawn(1, 16, 3, 4, 5), drawn(16, 16, 2, 2, 2)
    agree(lambda x, w: conv3d(x, w, padding=1), lambda x, w: F.conv3d(x, w, padding=1), x, w)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_types_and_orders(dtype: str) -> None:
    """Images that lie channels first are copied, and so do their results lie."""
    x, w = drawn(2, 8, 6, 6, dtype=dtype, last=False), drawn(16, 8, 3, 3, dtype=dtype, last=False)
    agree(conv2d, F.conv2d, x, w, within=2e-2 if dtype == "bfloat16" else 1e-5)
    assert conv2d(x, w).is_contiguous()
    assert conv2d(drawn(2, 8, 6, 6), drawn(16, 8, 3, 3)).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize("learns", [False, True])
def test_what_follows(activation: str | None, learns: bool) -> None:
    """A batch norm's scale and shift, a residual and an activation, with the scale constant or trained."""
    x, w, b, r = drawn(1, 16, 6, 6), drawn(16, 16, 3, 3), drawn(16), drawn(1, 16, 6, 6)
    s = drawn(16, learns=learns)
    act: Any = {None: lambda y: y, "relu": F.relu, "silu": F.silu}[activation]

    def ours(x: Any, w: Any, b: Any, r: Any, s: Any) -> Any:
        return conv2d(x, w, b, padding="same", scale=s, residual=r, activation=activation)

    def torchs(x: Any, w: Any, b: Any, r: Any, s: Any) -> Any:
        return act(F.conv2d(x, w, padding=1) * s.reshape(-1, 1, 1) + b.reshape(-1, 1, 1) + r)

    agree(ours, torchs, x, w, b, r, s)


TRANSPOSED: dict[str, dict[str, Any]] = {
    "plain": {},
    "strided": {"stride": 2, "padding": 1, "output_padding": 1},
    "dilated": {"stride": (3, 2), "dilation": (1, 2), "padding": (0, 1)},
    "pixels that no tap reaches": {"stride": 4, "output_padding": 3},
    "pixels beyond a window": {"stride": 2, "output_padding": 4, "dilation": 5},
}


@pytest.mark.parametrize("windows", TRANSPOSED)
def test_transposed(windows: str) -> None:
    given = TRANSPOSED[windows]
    x, w, b = drawn(2, 16, 3, 4), drawn(16, 24, 3, 3), drawn(24)
    agree(lambda *t: conv_transpose2d(*t, **given), lambda *t: F.conv_transpose2d(*t, **given), x, w, b)


def test_groups_of_transposed() -> None:
    x, w, b = drawn(2, 16, 3, 4), drawn(16, 8, 3, 3), drawn(16)
    given: dict[str, Any] = {"stride": 2, "padding": 1, "groups": 2}
    agree(lambda *t: conv_transpose2d(*t, **given), lambda *t: F.conv_transpose2d(*t, **given), x, w, b)


def test_transposed_of_lines_and_volumes() -> None:
    x, w = drawn(2, 16, 9, dtype="float32"), drawn(16, 8, 4, dtype="float32")
    agree(lambda *t: conv_transpose1d(*t, stride=2), lambda *t: F.conv_transpose1d(*t, stride=2), x, w, within=1e-5)
    x, w = drawn(1, 16, 2, 2, 3, dtype="bfloat16"), drawn(16, 8, 2, 1, 2, dtype="bfloat16")
    agree(conv_transpose3d, F.conv_transpose3d, x, w, within=2e-2)


@pytest.mark.parametrize("compiled", [False, True])
def test_one_image_without_a_dim_of_images(compiled: bool) -> None:
    def calls(ops: Any) -> Any:
        def call(x: Any, w: Any, f: Any) -> Any:
            return ops.max_pool2d(ops.conv_transpose2d(ops.conv2d(x, w, padding=1), f, stride=2), 2)

        return torch.compile(call, fullgraph=True, backend="aot_eager") if compiled else call

    agree(calls(fireiron.torch), calls(F), drawn(8, 5, 6), drawn(16, 8, 3, 3), drawn(16, 8, 2, 2))


class Decoder(torch.nn.Module):
    """Halve images and double them again."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops, self.down, self.up = ops, torch.nn.Conv2d(8, 16, 3), torch.nn.ConvTranspose2d(16, 8, 2, 2)

    def forward(self, x: Any) -> Any:
        ops, down, up = self.ops, self.down, self.up
        y = ops.max_pool2d(F.relu(ops.conv2d(x, down.weight, down.bias, 1, 1)), 2)
        return ops.avg_pool2d(ops.conv_transpose2d(y, up.weight, up.bias, 2), 3, 1, 1)


def test_a_decoder_compiles_exports_and_learns() -> None:
    net, other = (Decoder(ops).half().to(memory_format=torch.channels_last) for ops in (fireiron.torch, F))
    other.load_state_dict(net.state_dict())
    x = drawn(2, 8, 6, 6, learns=False)
    torch.compile(net, fullgraph=True, backend="aot_eager")(x).float().square().sum().backward()
    other(x).float().square().sum().backward()
    for ours, wanted in zip(net.parameters(), other.parameters(), strict=True):
        assert (ours.grad.float() - wanted.grad.float()).abs().max() <= 1e-2 * wanted.grad.float().abs().max()
    exported = torch.export.export(net.eval(), (x,))
    assert all(f"fireiron.{name}" in exported.graph_module.code for name in ("conv_transpose", "pool"))
    assert torch.equal(exported.module()(x), net(x))


class Net(torch.nn.Module):
    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.conv, self.first, self.second = conv, torch.nn.Conv2d(8, 16, 3), torch.nn.Conv2d(16, 8, 3)

    def forward(self, x: Any) -> Any:
        first, second = self.first, self.second
        if self.conv is F.conv2d:
            return F.conv2d(F.relu(F.conv2d(x, first.weight, first.bias, 2, 1)), second.weight, second.bias, 1, 1)
        made = conv2d(x, first.weight, first.bias, 2, 1, activation="relu")
        return conv2d(made, second.weight, second.bias, padding="same")


def test_compile_and_export() -> None:
    net = Net(conv2d).half().to(memory_format=torch.channels_last)
    other = Net(F.conv2d).half().to(memory_format=torch.channels_last)
    other.load_state_dict(net.state_dict())
    x = drawn(2, 8, 9, 9, learns=False)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    compiled(x).float().sum().backward()
    other(x).float().sum().backward()
    for ours, wanted in zip(net.parameters(), other.parameters(), strict=True):
        assert (ours.grad.float() - wanted.grad.float()).abs().max() <= 1e-2 * wanted.grad.float().abs().max()
    exported = torch.export.export(net.eval(), (x,))
    assert "fireiron.conv" in exported.graph_module.code
    assert torch.equal(exported.module()(x), net(x))


def test_operators_are_well_formed() -> None:
    x, w, b = drawn(1, 8, 5, 5), drawn(8, 8, 3, 3), drawn(8)
    sizes = [2, 2], [1, 1, 1, 1], [1, 1]
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    op = torch.ops.fireiron.conv.default
    torch.library.opcheck(op, (x, w, b, None, None, *sizes, 1, "relu", "float16"), test_utils=checks)
    y = drawn(1, 8, 3, 3)
    op = torch.ops.fireiron.conv_filters_gradient.default
    torch.library.opcheck(op, (y.detach(), x.detach(), [8, 8, 3, 3], *sizes, 1, "float16"), test_utils=checks[:2])
    op = torch.ops.fireiron.conv_transpose.default
    torch.library.opcheck(op, (y, w, b, [1, 8, 5, 5], *sizes, 1, "float16"), test_utils=checks)


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """Keep the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_images_that_lie_channels_last_are_not_copied() -> None:
    """The convolution is the only operator that runs forward."""
    x, w = drawn(1, 8, 5, 5, learns=False), drawn(8, 8, 3, 3, learns=False)
    with Seen() as seen:
        conv2d(x, w)
    assert not [name for name in seen.names if "copy" in name or "clone" in name]


@pytest.mark.parametrize(
    ("channels", "groups", "by_torch"), [(16, 2, False), (4, 2, True), (16, 16, False), (8, 8, True)]
)
def test_gradients_of_groups_are_kernels_where_channels_fill_vectors(
    channels: int, groups: int, by_torch: bool
) -> None:
    """Those of depthwise layers are kernels too, if a channel has one filter."""
    x, w = drawn(1, channels, 5, 4), drawn(16, channels // groups, 3, 2)
    for made in (conv2d(x, w, groups=groups, padding=1), conv_transpose2d(drawn(1, 16, 3, 3), w, groups=groups)):
        with Seen() as seen:
            torch.autograd.grad(made.float().sum(), w)
        assert ("aten.convolution_backward.default" in seen.names) == by_torch


DEPTHWISE: dict[str, tuple[Any, ...]] = {
    "same": (conv2d, F.conv2d, (2, 16, 6, 7), (3, 3), {"padding": 1}),
    "strided, at once": (conv2d, F.conv2d, (2, 12, 8, 10), (3, 3), {"padding": 1, "stride": 2}),
    "strided, by residues": (conv2d, F.conv2d, (1, 12, 7, 9), (3, 2), {"padding": 1, "stride": (2, 3)}),
    "dilated": (conv2d, F.conv2d, (1, 9, 8, 7), (3, 3), {"padding": (2, 1), "dilation": (2, 1)}),
    "lines": (conv1d, F.conv1d, (2, 16, 17), (4,), {"stride": 2}),
    "volumes": (conv3d, F.conv3d, (1, 8, 4, 5, 4), (3, 3, 3), {"padding": 1, "stride": 2}),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("case", DEPTHWISE)
def test_gradients_of_depthwise_layers(case: str, dtype: str) -> None:
    ours, torchs, images, taps, given = DEPTHWISE[case]
    channels, last = images[1], dtype != "float32"
    x, w = drawn(*images, dtype=dtype, last=last), drawn(channels, 1, *taps, dtype=dtype, last=last)
    within = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 1e-5}[dtype]
    with Seen() as seen:
        agree(
            lambda x, w: ours(x, w, groups=channels, **given),
            lambda x, w: torchs(x, w, groups=channels, **given),
            x,
            w,
            within=within,
        )
    assert "fireiron.conv_filters_gradient.default" in seen.names


def test_depthwise_transposed() -> None:
    x, w, bias = drawn(1, 12, 4, 5), drawn(12, 1, 3, 3), drawn(12)
    for given in ({"stride": 2, "padding": 1}, {"stride": 2, "padding": 1, "output_padding": 1}):
        agree(
            lambda x, w, given=given: conv_transpose2d(x, w, groups=12, **given),
            lambda x, w, given=given: F.conv_transpose2d(x, w, groups=12, **given),
            x,
            w,
        )
    more = (2, 1, 1, 12)  # stride, padding, output padding, groups
    agree(
        lambda x, w, b: conv_transpose2d(x, w, b, *more), lambda x, w, b: F.conv_transpose2d(x, w, b, *more), x, w, bias
    )


def test_few_channels_and_their_gradients() -> None:
    x, w = drawn(1, 3, 9, 9), drawn(16, 3, 3, 3)
    agree(lambda x, w: conv2d(x, w, stride=2, padding=1), lambda x, w: F.conv2d(x, w, stride=2, padding=1), x, w)


def test_empty_batches() -> None:
    assert conv2d(drawn(0, 8, 5, 5, learns=False), drawn(16, 8, 3, 3, learns=False)).shape == (0, 16, 3, 3)


def test_misuse() -> None:
    for call in (
        lambda: conv2d(drawn(5, 5), drawn(8, 8, 3, 3)),
        lambda: conv2d(drawn(1, 8, 5, 5), drawn(8, 8, 3, 3), stride=0),
        lambda: conv2d(drawn(1, 8, 5, 5), drawn(8, 8, 3, 3), activation="softmax"),
    ):
        with pytest.raises(FireironError):
            call()


def test_a_bias_whose_elements_lie_apart() -> None:
    x, f, g = torch.randn(2, 3, 7, 5), torch.randn(8, 3, 3, 2), torch.randn(3, 8, 2, 2)
    bias = torch.randn(1).expand(8)
    assert torch.allclose(fireiron.conv2d(x, f, bias), F.conv2d(x, f, bias), atol=1e-4)
    assert torch.allclose(fireiron.conv_transpose2d(x, g, bias), F.conv_transpose2d(x, g, bias), atol=1e-4)


def test_gradients_without_images() -> None:
    x, f = torch.zeros(0, 3, 7, requires_grad=True), torch.randn(8, 3, 3, requires_grad=True)
    by_x, by_f = torch.autograd.grad(fireiron.conv1d(x, f).sum(), (x, f))
    assert by_x.shape == x.shape
    assert (by_f == 0).all()
    with pytest.raises(FireironError) as caught:
        fireiron.conv1d(torch.zeros(0, 3, 2), f)
    assert caught.value.code == "conv-window"


def test_gradients_in_f64() -> None:
    x, f = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 9), (4, 3, 3)))
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    turned = torch.randn(3, 4, 3, dtype=torch.float64, requires_grad=True)
    for ours, torchs, inputs in (
        (fireiron.conv1d, F.conv1d, (x, f, bias)),
        (fireiron.conv_transpose1d, F.conv_transpose1d, (x, turned, bias)),
        (lambda x: fireiron.max_pool1d(x, 2), lambda x: F.max_pool1d(x, 2), (x,)),
        (lambda x: fireiron.avg_pool1d(x, 3, 1), lambda x: F.avg_pool1d(x, 3, 1), (x,)),
    ):
        got, want = ours(*inputs), torchs(*inputs)
        by = torch.randn_like(want)
        pairs = zip(torch.autograd.grad(got, inputs, by), torch.autograd.grad(want, inputs, by), strict=True)
        assert all(torch.allclose(a, b, rtol=1e-11, atol=1e-11) for a, b in pairs)
