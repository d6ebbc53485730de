"""Further blocks of networks, written when their plans had not been looked at."""
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arrays import torch_module
from .models import RMSNorm

torch: Any = torch_module()
nn: Any = torch.nn
functional: Any = torch.nn.functional


class Perceptron(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, inner: int, activation: Callable[[Any], Any]) -> None:
        super().__init__()
        self.up, self.down, self.activation = nn.Linear(width, inner), nn.Linear(inner, width), activation

    def forward(self, x: Any) -> Any:
        """Compute the layers."""
        return self.down(self.activation(self.up(x)))


class Decoder(nn.Module):
    """Llama's layer: RMS norms, rotary positions, heads that share keys, a gated perceptron."""

    def __init__(self, width: int, heads: int, shared: int, inner: int) -> None:
        super().__init__()
        self.heads, self.shared, self.columns = heads, shared, width // heads
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(2))
        of_keys = self.columns * shared
        self.q, self.k, self.v, self.o = (nn.Linear(width, n, bias=False) for n in (width, of_keys, of_keys, width))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def turned(self, x: Any, cosines: Any, sines: Any) -> Any:
        """Turn pairs of columns by angles of their positions."""
        a, b = x.chunk(2, -1)
        return x * cosines + torch.cat((-b, a), -1) * sines

    def forward(self, x: Any, cosines: Any, sines: Any) -> Any:
        """Compute the layer."""
        y = self.norms[0](x)
        q, k, v = (f(y).unflatten(-1, (-1, self.columns)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.turned(q, cosines, sines), self.turned(k, cosines, sines)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Vision(nn.Module):
    """A vision transformer's layer: one product for queries, keys and values, and a gain of each column."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = Perceptron(width, 4 * width, functional.gelu)
        self.gains = nn.Parameter(torch.full((2, width), 0.1))

    def forward(self, x: Any) -> Any:
        """Compute the layer."""
        q, k, v = self.all(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.gains[0] * self.out(seen)
        return x + self.gains[1] * self.inner(self.norms[1](x))


class Shifted(nn.Module):
    """Swin's layer: attention in windows of a shifted image, by products and a softmax with a bias."""

    def __init__(self, width: int, heads: int, side: int) -> None:
        super().__init__()
        self.heads, self.side = heads, side
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = Perceptron(width, 4 * width, functional.gelu)
        self.bias = nn.Parameter(0.1 * torch.randn(heads, side * side, side * side))

    def forward(self, x: Any) -> Any:
        """Compute the layer."""
        (_, high, wide, width), side = x.shape, self.side
        y = torch.roll(self.norms[0](x), (-side // 2, -side // 2), (1, 2))
        y = y.unflatten(2, (-1, side)).unflatten(1, (-1, side)).transpose(2, 3).reshape(-1, side * side, width)
        q, k, v = self.all(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) + self.bias).softmax(-1)
        y = self.out((weights @ v).transpose(1, 2).flatten(2))
        y = y.reshape(-1, high // side, wide // side, side, side, width).transpose(2, 3).reshape(x.shape)
        x = x + torch.roll(y, (side // 2, side // 2), (1, 2))
        return x + self.inner(self.norms[1](x))


class Modulated(nn.Module):
    """A diffusion transformer's perceptron, whose norm and result vectors of the time step modulate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.inner = Perceptron(width, 4 * width, lambda x: functional.gelu(x, approximate="tanh"))

    def forward(self, x: Any, time: Any) -> Any:
        """Compute the block."""
        shift, scale, gain = self.vectors(functional.silu(time)).unsqueeze(1).chunk(3, -1)
        return x + gain * self.inner(self.norm(x) * (1 + scale) + shift)


class Experts(nn.Module):
    """A mixture in which all experts compute all rows, of which two for each row count."""

    def __init__(self, width: int, inner: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(0.05 * torch.randn(experts, width, inner))
        self.down = nn.Parameter(0.05 * torch.randn(experts, inner, width))

    def forward(self, x: Any) -> Any:
        """Compute the mixture."""
        weights = self.router(x).float().softmax(-1)
        largest, which = weights.topk(2, -1)
        gates = torch.zeros_like(weights).scatter(1, which, largest / largest.sum(-1, keepdim=True)).to(x.dtype)
        y = functional.gelu(torch.einsum("nd,edf->enf", x, self.up))
        return (torch.einsum("enf,efd->end", y, self.down) * gates.t().unsqueeze(-1)).sum(0)


class Points(nn.Module):
    """PointNet: a perceptron of points with batch norm, and the largest of each set."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last, self.norm = nn.Linear(3, 64), nn.Linear(64, width), nn.BatchNorm1d(64)

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        y = functional.relu(self.norm(self.first(x).flatten(0, 1)))
        return self.last(y.unflatten(0, x.shape[:2])).amax(1)


class Linear(nn.Module):
    """Attention without a softmax: functions of keys are summed with values before queries read them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.all, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.all(x).chunk(3, -1))
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        scale = 1 / ((q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True) + 1e-6)
        return self.out(((q @ (k.transpose(-1, -2) @ v)) * scale).transpose(1, 2).flatten(2))


class Wider(nn.Module):
    """An image made larger by repeated pixels, and smaller by means, beside a strided convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.large, self.small = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, 2, 1)
        self.norm = nn.GroupNorm(16, width)

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        y = functional.avg_pool2d(self.large(functional.interpolate(x, scale_factor=2.0)), 4)
        return self.norm(functional.relu(self.small(x) + y))


class Mirrored(nn.Module):
    """CycleGAN's block: a convolution of an image with mirrored edges, and a norm of each image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1, padding_mode="reflect")
        self.norm = nn.InstanceNorm2d(width, affine=True)

    def forward(self, x: Any) -> Any:
        """Compute the block."""
        return x + functional.leaky_relu(self.norm(self.convolution(x)), 0.2)


class Distilled(nn.Module):
    """A loss between the scores of two heads, of which one learns."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.pupil, self.teacher = nn.Linear(width, words), nn.Linear(width, words)

    def forward(self, x: Any) -> Any:
        """Compute the loss."""
        wanted = functional.softmax(self.teacher(x).float().detach() / 2, -1)
        found = functional.log_softmax(self.pupil(x).float() / 2, -1)
        return functional.kl_div(found, wanted, reduction="batchmean")


class Gates(nn.Module):
    """Four steps of a gated recurrent unit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.given, self.kept = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, x: Any, state: Any) -> Any:
        """Compute the steps."""
        for step in range(4):
            (a, b, c), (p, q, r) = self.given(x[:, step]).chunk(3, -1), self.kept(state).chunk(3, -1)
            z = torch.sigmoid(a + p)
            state = (1 - z) * torch.tanh(c + torch.sigmoid(b + q) * r) + z * state
        return state
