"""Blocks that read lines at numbers, add to them, join parts or compare classes, written before plans were seen."""
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from typing import Any

from .arrays import torch_module
from .models import RMSNorm

torch: Any = torch_module()
nn: Any = torch.nn
functional: Any = torch.nn.functional


class Recommender(nn.Module):
    """DLRM's step: a table for each feature, products of all pairs of lines, a perceptron, and clicks."""

    def __init__(self, rows: int, width: int, features: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(features))
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (features + 1) * features // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 1))
        a, b = torch.tril_indices(features + 1, features + 1, -1)
        self.register_buffer("pairs", a * (features + 1) + b)

    def forward(self, x: Any, ids: Any, clicks: Any) -> Any:
        """Compute the loss."""
        dense = self.dense(x)
        lines = torch.stack([dense, *(table(ids[:, n]) for n, table in enumerate(self.tables))], 1)
        pairs = torch.bmm(lines, lines.transpose(1, 2)).flatten(1)[:, self.pairs]
        found = self.top(torch.cat((dense, pairs), 1)).squeeze(1).float()
        return functional.binary_cross_entropy_with_logits(found, clicks.float())


class Factors(nn.Module):
    """A factorisation machine: sums of the lines of a table, and of their squares."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table, self.line = nn.Embedding(rows, width), nn.Embedding(rows, 1)

    def forward(self, ids: Any) -> Any:
        """Compute the mean."""
        lines = self.table(ids).float()
        pairs = (lines.sum(1).pow(2) - lines.pow(2).sum(1)).sum(1) * 0.5
        return (pairs + self.line(ids).float().sum((1, 2))).sigmoid().mean()


class Codes(nn.Module):
    """A quantised autoencoder's losses: the nearest line of a table for each vector."""

    def __init__(self, width: int, codes: int) -> None:
        super().__init__()
        self.table, self.given = nn.Embedding(codes, width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        """Compute the losses."""
        z, table = self.given(x), self.table.weight
        flat = z.flatten(0, 1)
        away = flat.float().square().sum(1, keepdim=True) - 2 * (flat @ table.t()).float()
        found = self.table((away + table.float().square().sum(1)).argmin(1)).view_as(z)
        straight = (z + (found - z).detach()).float().square().mean()
        one, other = (functional.mse_loss(a.float(), b.detach().float()) for a, b in ((found, z), (z, found)))
        return straight + one + 0.25 * other


class Mixed(nn.Module):
    """Mixed-up samples and classes: a batch and itself in the opposite order."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, x: Any, classes: Any) -> Any:
        """Compute the loss."""
        x = 0.3 * x + 0.7 * x.flip(0)
        scores = functional.log_softmax(self.out(functional.hardswish(self.inner(x))).float(), -1)
        one, other = (scores.gather(1, c[:, None]) for c in (classes, classes.flip(0)))
        return -(0.3 * one + 0.7 * other).mean()


class Joined(nn.Module):
    """UNet's way up: a transposed convolution, the image of the way down beside it, two convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.one, self.other = nn.Conv2d(2 * width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Any, beside: Any) -> Any:
        """Compute the block."""
        joined = torch.cat((self.up(x), beside), 1)
        return functional.relu(self.other(functional.relu(self.one(joined))))


class Segments(nn.Module):
    """Classes of pixels: scores that are interpolated, with cross entropy and the overlap of each class."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x: Any, classes: Any) -> Any:
        """Compute the loss."""
        scores = functional.interpolate(self.out(x).float(), scale_factor=4.0, mode="bilinear")
        found = scores.softmax(1)
        wanted = functional.one_hot(classes, scores.shape[1]).permute(0, 3, 1, 2).to(found.dtype)
        both, all_of = (found * wanted).sum((0, 2, 3)), (found + wanted).sum((0, 2, 3))
        return functional.cross_entropy(scores, classes) + 1 - (2 * both / (all_of + 1e-5)).mean()


class Routed(nn.Module):
    """Switch's experts: each token goes to one, as far as it has room."""

    def __init__(self, width: int, inner: int, experts: int) -> None:
        super().__init__()
        self.experts, self.route = experts, nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, inner) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, inner, width) * 0.02)

    def forward(self, x: Any) -> Any:
        """Compute the layer."""
        tokens, width = x.shape
        weights, chosen = self.route(x).float().softmax(-1).max(-1)
        mine = functional.one_hot(chosen, self.experts).float()
        place, room = ((mine.cumsum(0) - 1) * mine).sum(-1).long(), tokens // self.experts * 2
        slots = torch.where(place < room, chosen * room + place, tokens * 2)
        given = x.new_zeros(tokens * 2 + 1, width).index_copy(0, slots, x)[:-1].view(self.experts, room, width)
        made = torch.bmm(functional.gelu(torch.bmm(given, self.up)), self.down).flatten(0, 1)
        return x + torch.cat((made, made.new_zeros(1, width)))[slots] * weights.unsqueeze(-1).to(x.dtype)


class Neighbours(nn.Module):
    """Two layers of a graph: sums over the edges that end in each node."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def forward(self, x: Any, first: Any, last: Any) -> Any:
        """Compute the layers."""
        for layer in self.layers:
            x = functional.relu(torch.zeros_like(x).index_add(0, last, layer(x)[first]))
        return x


class Edges(nn.Module):
    """Attention along the edges of a graph."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.values = heads, nn.Linear(width, width)
        self.of_first, self.of_last = (nn.Parameter(torch.randn(heads, width // heads) * 0.1) for _ in range(2))

    def forward(self, x: Any, first: Any, last: Any) -> Any:
        """Compute the layer."""
        values = self.values(x).view(x.shape[0], self.heads, -1)
        one, other = (values * self.of_first).sum(-1)[first], (values * self.of_last).sum(-1)[last]
        weights = functional.leaky_relu(one + other, 0.2).float().exp()
        sums = weights.new_zeros(x.shape[0], self.heads).index_add(0, last, weights)
        shares = (weights / sums[last]).to(x.dtype).unsqueeze(-1)
        return torch.zeros_like(values).index_add(0, last, values[first] * shares).flatten(1)


class Latent(nn.Module):
    """DeepSeek's attention: keys and values of one narrow array, and columns that are turned beside them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, RMSNorm(512)
        self.q, self.kv = nn.Linear(width, heads * 192, bias=False), nn.Linear(width, 576, bias=False)
        self.up, self.out = nn.Linear(512, heads * 256, bias=False), nn.Linear(heads * 128, width, bias=False)

    def forward(self, x: Any, cosines: Any, sines: Any) -> Any:
        """Compute the layer."""

        def turned(x: Any) -> Any:
            a, b = x.chunk(2, -1)
            return x * cosines + torch.cat((-b, a), -1) * sines

        q, (narrow, place) = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2), self.kv(x).split((512, 64), -1)
        both = self.up(self.norm(narrow)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = both.split((128, 128), -1)
        q = torch.cat((q[..., :128], turned(q[..., 128:])), -1)
        k = torch.cat((k, turned(place.unsqueeze(1)).expand(-1, self.heads, -1, -1)), -1)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(seen.transpose(1, 2).flatten(2))


class Weighted(nn.Module):
    """Classes with weights, of which one is ignored."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, classes)
        self.register_buffer("weights", torch.rand(classes) + 0.5)

    def forward(self, x: Any, classes: Any) -> Any:
        """Compute the loss."""
        weights = self.weights.float()
        return functional.cross_entropy(self.out(x).float(), classes, weight=weights, ignore_index=3)
