"""Networks of random weights in plain torch, at any size: decoders, vision, recurrent, recommendation.

Their sizes are the public ones of Llama-3-8B, ViT-B/16, ResNet-50, and shapes of DLRM; tests take small ones.
"""
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .arrays import torch_module

torch: Any = torch_module()
nn: Any = torch.nn
functional: Any = torch.nn.functional


class RMSNorm(nn.Module):
    """Divide rows by the root of the mean of their squares, in f32.

    Args:
        width: of a row.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        """Norm rows."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.gain


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """Rotate pairs of a head's columns, half a head apart as in Llama, by the angles of their position."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def angles(length: int, depth: int, base: float = 500000.0) -> tuple[Any, Any]:
    """Return the cosines and sines of positions, each of shape (length, depth)."""
    steps = base ** (-torch.arange(0, depth, 2) / depth)
    found = torch.outer(torch.arange(length).float(), steps)
    found = torch.cat([found, found], -1)
    return found.cos(), found.sin()


class DecoderLayer(nn.Module):
    """A layer of Llama: norm, rotary positions, attention of groups of heads, norm, gate.

    Args:
        width: of a row.
        heads: of queries.
        pairs: heads of keys and values.
        inner: columns of the gate.
    """

    def __init__(self, width: int, heads: int, pairs: int, inner: int) -> None:
        super().__init__()
        self.heads, self.pairs, self.depth = heads, pairs, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, pairs * self.depth, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.before, self.behind = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        """Compute the rows for the next layer."""
        batch, length, _ = x.shape
        y = self.before(x)
        q = self.q(y).view(batch, length, self.heads, self.depth).transpose(1, 2)
        k, v = (f(y).view(batch, length, self.pairs, self.depth).transpose(1, 2) for f in (self.k, self.v))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.behind_attention(x, seen)

    def decode(self, x: Any, k: Any, v: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        """Compute a row of each sequence from a cache of keys and values; return its own keys and values too."""
        batch = len(x)
        y = self.before(x)
        q = turned(self.q(y).view(batch, 1, self.heads, self.depth).transpose(1, 2), cos, sin)
        mine = turned(self.k(y).view(batch, 1, self.pairs, self.depth), cos, sin).flatten(2), self.v(y)
        return self.behind_attention(x, functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)), mine

    def behind_attention(self, x: Any, seen: Any) -> Any:
        """Compute the part of the layer after attention."""
        x = x + self.o(seen.transpose(1, 2).reshape(x.shape))
        y = self.behind(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Layers of Llama, from rows to rows.

    Args:
        layers: number of layers.
        width, heads, pairs, inner: of each.
        length: of the sequence.
    """

    def __init__(
        self, layers: int = 4, width: int = 4096, heads: int = 32, pairs: int = 8, inner: int = 14336,
        length: int = 4096,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, pairs, inner) for _ in range(layers))
        cos, sin = angles(length, width // heads)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, x: Any) -> Any:
        """Compute the last layer's rows."""
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return x


class Decoding(Decoder):
    """Layers of Llama that compute one token after those of a cache.

    The token's own keys and values are results beside its rows: the caller stores them for the next token.
    """

    def forward(self, x: Any, cache: Any) -> Any:
        """Compute a row of each sequence; the cache holds keys and values, which all layers read here."""
        at, (k, v) = cache.shape[3] - 1, cache.unbind(1)
        cos, sin = self.cos[at], self.sin[at]
        made: list[Any] = []
        for layer in self.layers:
            x, mine = layer.decode(x, k, v, cos, sin)
            made += mine
        return x, made


class Encoder(nn.Module):
    """A layer of ViT, with norms before attention and before the perceptron.

    Args:
        width: of a row.
        heads: of attention.
        inner: columns of the perceptron.
    """

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.packed, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        """Compute the rows for the next layer."""
        batch, length, width = x.shape
        parts = self.packed(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.o(seen.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.behind(x))))


class ViT(nn.Module):
    """A vision transformer.

    Args:
        layers, width, heads, inner: of the encoder.
        image: pixels of a side.
        patch: pixels of a patch's side.
        classes: of the result.
    """

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, inner: int = 3072, image: int = 224,
        patch: int = 16, classes: int = 1000,
    ) -> None:  # fmt: skip
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*(Encoder(width, heads, inner) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        """Classify images."""
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.first.expand(len(x), -1, -1), rows], 1) + self.places
        return self.head(self.norm(self.layers(rows))[:, 0])


class Bottleneck(nn.Module):
    """A block of ResNet-50: 1x1, 3x3 and 1x1 convolutions beside a shortcut.

    Args:
        given: number of input channels.
        width: channels of the 3x3 convolution; the output has four times as many.
        stride: of the 3x3 convolution.
    """

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()

        def conv(i: int, o: int, size: int, step: int = 1) -> Any:
            return nn.Sequential(nn.Conv2d(i, o, size, step, size // 2, bias=False), nn.BatchNorm2d(o))

        self.body = nn.Sequential(
            conv(given, width, 1), nn.ReLU(), conv(width, width, 3, stride), nn.ReLU(), conv(width, 4 * width, 1)
        )
        same = stride == 1 and given == 4 * width
        self.shortcut = nn.Identity() if same else conv(given, 4 * width, 1, stride)

    def forward(self, x: Any) -> Any:
        """Compute the next block's image."""
        return functional.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet of bottlenecks.

    Args:
        blocks: in each of the stages.
        width: channels of the first stage's 3x3 convolutions.
        classes: of the result.
    """

    def __init__(self, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        made: list[Any] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        ]  # fmt: skip
        given = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                made.append(Bottleneck(given, width << stage, 2 if stage and not block else 1))
                given = 4 * (width << stage)
        self.body, self.head = nn.Sequential(*made), nn.Linear(given, classes)

    def forward(self, x: Any) -> Any:
        """Classify images."""
        return self.head(self.body(x).mean((2, 3)))


class LSTM(nn.Module):
    """An LSTM of one layer: each step's gates are a product with the input plus a product with the state.

    Args:
        width: of inputs and states.
    """

    def __init__(self, width: int = 1024) -> None:
        super().__init__()
        self.given, self.state = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width, bias=False)

    def forward(self, x: Any) -> Any:
        """Give the states of all steps."""
        h = c = x.new_zeros(x.shape[0], x.shape[2])
        made: list[Any] = []
        for step in range(x.shape[1]):
            i, f, g, o = (self.given(x[:, step]) + self.state(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            made.append(h)
        return torch.stack(made, 1)


class DLRM(nn.Module):
    """The perceptrons of DLRM, and the products of features between them.

    Args:
        dense: numbers of a sample.
        tables: of embeddings.
        lines: of each table.
        width: of a feature.
        bottom, top: widths of the perceptrons' layers.
    """

    def __init__(
        self, dense: int = 16, tables: int = 26, lines: int = 10000, width: int = 128,
        bottom: Sequence[int] = (512, 256), top: Sequence[int] = (1024, 1024, 512, 256),
    ) -> None:  # fmt: skip
        super().__init__()
        self.tables, self.lines = tables, lines
        self.embeddings = nn.Embedding(tables * lines, width)
        self.bottom = perceptron(dense, *bottom, width)
        pairs = (tables + 1) * tables // 2
        self.top = perceptron(width + pairs, *top, 1)
        rows, columns = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", rows * (tables + 1) + columns)

    def forward(self, numbers: Any, ids: Any) -> Any:
        """Rate samples."""
        x = self.bottom(numbers)
        looked = self.embeddings(ids + self.lines * torch.arange(self.tables, device=ids.device))
        features = torch.cat([x[:, None], looked], 1)
        products = (features @ features.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([x, products[:, self.pairs]], 1))


def perceptron(*widths: int) -> Any:
    """Make linear layers with relu between them."""
    made: list[Any] = []
    for given, wanted in pairwise(widths):
        made += [nn.Linear(given, wanted), nn.ReLU()]
    return nn.Sequential(*made[:-1])
