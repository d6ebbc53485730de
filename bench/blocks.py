"""Blocks of networks with their inputs as parameters, so that a step of training has the gradients of both.

Sizes are those of the networks that the blocks come from. Blocks named `-last` have images with channels last.
"""
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arrays import torch_module
from .line_blocks import (
    Codes,
    Edges,
    Factors,
    Joined,
    Latent,
    Mixed,
    Neighbours,
    Recommender,
    Routed,
    Segments,
    Weighted,
)
from .models import RMSNorm
from .more_blocks import (
    Decoder,
    Distilled,
    Experts,
    Gates,
    Linear,
    Mirrored,
    Modulated,
    Points,
    Shifted,
    Vision,
    Wider,
)

torch: Any = torch_module()
nn: Any = torch.nn
functional: Any = torch.nn.functional


class Step(nn.Module):
    """A block, called with floats that are parameters and with the integers of a call.

    Args:
        block: the block.
        given: its floats.
        last: whether images, and filters, have channels last.
    """

    def __init__(self, block: Any, *given: Any, last: bool = False) -> None:
        super().__init__()
        form = torch.channels_last if last else torch.contiguous_format
        self.block = block.to(memory_format=form)
        self.names = [f"given{place}" for place in range(len(given))]
        for name, x in zip(self.names, given, strict=True):
            self.register_parameter(name, nn.Parameter(x.to(memory_format=form) if x.dim() == 4 else x))

    def forward(self, *numbers: Any) -> Any:
        """Compute the block."""
        return self.block(*[getattr(self, name) for name in self.names], *numbers)


class Residual(nn.Module):
    """UNet's residual block: group norms, convolutions, and a vector of the time step between them."""

    def __init__(self, width: int, time: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(32, width) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(time, width)

    def forward(self, x: Any, time: Any) -> Any:
        """Compute the block."""
        y = self.convolutions[0](functional.silu(self.norms[0](x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return x + self.convolutions[1](functional.silu(self.norms[1](y)))


class NeXt(nn.Module):
    """ConvNeXt's block: a depthwise convolution, a norm over channels, a perceptron, a gain of each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.gain = nn.LayerNorm(width), nn.Parameter(torch.full((width,), 0.1))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.gain * self.down(functional.gelu(self.up(y)))).permute(0, 3, 1, 2)


class Normed(nn.Module):
    """Two convolutions with batch norm, beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(width, width, size, padding=size // 2, bias=False) for size in (3, 1)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        y = functional.relu(self.norms[0](self.convolutions[0](x)))
        return functional.relu(x + self.norms[1](self.convolutions[1](y)))


class Squeezed(nn.Module):
    """EfficientNet's depthwise convolution, and gates of channels from their means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        y = functional.silu(self.depthwise(x))
        gates = self.up(functional.silu(self.down(y.mean((2, 3), keepdim=True))))
        return y * torch.sigmoid(gates)


class Mixer(nn.Module):
    """MLP-Mixer's block: a perceptron of patches, and one of channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.of_patches = nn.Sequential(nn.Linear(patches, width // 2), nn.GELU(), nn.Linear(width // 2, patches))
        self.of_channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        x = x + self.of_patches(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.of_channels(self.norms[1](x))


class T5Layer(nn.Module):
    """T5's layer: attention with a bias of relative positions, written as products and a softmax, and a gate."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(RMSNorm(width) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any, bias: Any) -> Any:
        """Compute the layer."""
        batch, length, _ = x.shape
        y = self.norms[0](x)
        q, k, v = (f(y).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        seen = torch.softmax((q @ k.transpose(2, 3) + bias).float(), -1).to(x.dtype) @ v
        x = x + self.o(seen.transpose(1, 2).reshape(x.shape))
        y = self.norms[1](x)
        return x + self.down(functional.gelu(self.gate(y), approximate="tanh") * self.up(y))


class Contrastive(nn.Module):
    """CLIP's loss of pairs of images and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images: Any, texts: Any) -> Any:
        """Compute the loss."""
        a, b = (functional.normalize(x, dim=-1) for x in (images, texts))
        scores, pairs = self.scale.exp() * a @ b.T, torch.arange(len(a), device=a.device)
        return (functional.cross_entropy(scores.float(), pairs) + functional.cross_entropy(scores.T.float(), pairs)) / 2


class Head(nn.Module):
    """The last product of a language model, and the loss of its scores."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.scores = nn.Linear(width, words, bias=False)

    def forward(self, x: Any, word: Any) -> Any:
        """Compute the loss."""
        return functional.cross_entropy(self.scores(x).float(), word)


class Variational(nn.Module):
    """A variational autoencoder of perceptrons, with its loss."""

    def __init__(self, width: int, inner: int, code: int) -> None:
        super().__init__()
        self.inner, self.middle, self.spread = nn.Linear(width, inner), nn.Linear(inner, code), nn.Linear(inner, code)
        self.out = nn.Linear(code, width)

    def forward(self, x: Any, noise: Any) -> Any:
        """Compute the loss."""
        y = functional.relu(self.inner(x))
        middle, spread = self.middle(y), self.spread(y)
        made = self.out(middle + noise * torch.exp(0.5 * spread))
        away = 1 + spread.float() - middle.float() ** 2 - spread.float().exp()
        pixels = torch.sigmoid(x.detach().float())
        return functional.binary_cross_entropy_with_logits(made.float(), pixels) - 0.5 * away.mean()


class Gated(nn.Module):
    """Conformer's convolution: a gate, a depthwise convolution of lines, batch norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.lines = nn.LayerNorm(width), nn.BatchNorm1d(width)
        self.gate, self.out = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, 15, padding=7, groups=width)

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        y = functional.glu(self.gate(self.norm(x).transpose(1, 2)), 1)
        return x + self.out(functional.silu(self.lines(self.depthwise(y)))).transpose(1, 2)


def drawn(*shape: int) -> Any:
    """Draw an array."""
    return torch.randn(shape)


BLOCKS: dict[str, Callable[[], Any]] = {
    "unet": lambda: Step(Residual(320, 1280), drawn(8, 320, 64, 64), drawn(8, 1280)),
    "unet-last": lambda: Step(Residual(320, 1280), drawn(8, 320, 64, 64), drawn(8, 1280), last=True),
    "convnext-last": lambda: Step(NeXt(192), drawn(32, 192, 28, 28), last=True),
    "batch-norm": lambda: Step(Normed(128), drawn(32, 128, 28, 28)),
    "batch-norm-last": lambda: Step(Normed(64), drawn(32, 64, 56, 56), last=True),
    "squeeze-last": lambda: Step(Squeezed(64), drawn(64, 64, 56, 56), last=True),
    "mixer": lambda: Step(Mixer(196, 256), drawn(64, 196, 256)),
    "t5": lambda: Step(T5Layer(256, 4), drawn(8, 512, 256), drawn(1, 4, 512, 512)),
    "contrastive": lambda: Step(Contrastive(), drawn(4096, 512), drawn(4096, 512)),
    "head-32000": lambda: Step(Head(2048, 32000), drawn(4096, 2048)),
    "head-50257": lambda: Step(Head(768, 50257), drawn(4096, 768)),
    "variational": lambda: Step(Variational(784, 256, 64), drawn(4096, 784), drawn(4096, 64)),
    "conformer": lambda: Step(Gated(256), drawn(32, 500, 256)),
    "llama-layer": lambda: Step(Decoder(2048, 32, 8, 5632), drawn(4, 1024, 2048), *drawn(2, 1024, 64).unbind(0)),
    "vit-layer": lambda: Step(Vision(768, 12), drawn(64, 197, 768)),
    "swin": lambda: Step(Shifted(192, 6, 7), drawn(32, 28, 28, 192)),
    "dit": lambda: Step(Modulated(1152), drawn(32, 256, 1152), drawn(32, 1152)),
    "experts": lambda: Step(Experts(512, 1024, 8), drawn(4096, 512)),
    "points": lambda: Step(Points(256), drawn(32, 2048, 3)),
    "linear-attention": lambda: Step(Linear(512, 8), drawn(8, 2048, 512)),
    "wider": lambda: Step(Wider(64), drawn(16, 64, 32, 32)),
    "mirrored": lambda: Step(Mirrored(64), drawn(16, 64, 64, 64)),
    "distilled": lambda: Step(Distilled(1024, 10000), drawn(4096, 1024)),
    "gates": lambda: Step(Gates(512), drawn(2048, 4, 512), drawn(2048, 512)),
    "recommender": lambda: Step(Recommender(10000, 64, 26), drawn(8192, 13)),
    "factors": lambda: Step(Factors(100000, 64)),
    "codes": lambda: Step(Codes(256, 1024), drawn(32, 256, 256)),
    "mixed": lambda: Step(Mixed(1024, 1000), drawn(8192, 1024)),
    "joined-last": lambda: Step(Joined(64), drawn(16, 128, 32, 32), drawn(16, 64, 64, 64), last=True),
    "segments-last": lambda: Step(Segments(256, 21), drawn(8, 256, 64, 64), last=True),
    "routed": lambda: Step(Routed(512, 1024, 8), drawn(4096, 512)),
    "neighbours": lambda: Step(Neighbours(256), drawn(20000, 256)),
    "edges": lambda: Step(Edges(256, 8), drawn(20000, 256)),
    "latent": lambda: Step(Latent(2048, 16), drawn(2, 2048, 2048), *drawn(2, 2048, 64).unbind(0)),
    "weighted": lambda: Step(Weighted(768, 1000), drawn(8192, 768)),
}
# The integers of a block's call: the number that they are below, and their shape.
NUMBERS: dict[str, tuple[tuple[int, tuple[int, ...]], ...]] = {
    "head-32000": ((32000, (4096,)),),
    "head-50257": ((50257, (4096,)),),
    "recommender": ((10000, (8192, 26)), (2, (8192,))),
    "factors": ((100000, (16384, 24)),),
    "mixed": ((1000, (8192,)),),
    "segments-last": ((21, (8, 256, 256)),),
    "neighbours": ((20000, (200000,)), (20000, (200000,))),
    "edges": ((20000, (200000,)), (20000, (200000,))),
    "weighted": ((1000, (8192,)),),
}


def numbers(name: str) -> tuple[Any, ...]:
    """Draw the integers of a block's call, such as the next words of a head's rows."""
    return tuple(torch.randint(below, shape) for below, shape in NUMBERS.get(name, ()))
