"""Functions of torch on integers of 64 bits, for tests on the simulator and on the GPU."""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

LEAST, MOST = -(2**63), 2**63 - 1


def integers(kind: Any = None, rows: int = 12, columns: int = 40) -> Any:
    torch.manual_seed(3)
    x = torch.randint(LEAST, MOST, (rows, columns)) >> torch.randint(0, 64, (rows, columns))
    x[0, :5] = torch.tensor([LEAST, MOST, 2**31, -(2**31) - 1, 0])
    return x if kind is None else x.to(kind)


def divisors() -> Any:
    y = integers().flip(0).contiguous()
    return torch.where((y == 0) | (y == -1), 7, y)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sums and products": lambda x, y: x * 3 - y + (x + y) * y,
    "with numbers": lambda x, y: (x + 2**40, 2**62 - x, torch.rsub(x, y, alpha=3), torch.add(x, y, alpha=-2)),
    "comparisons": lambda x, y: (x < y, x <= 2**40, x == y, x != 5, x > -3, x >= y),
    "chosen": lambda x, y: torch.where(x < y, x, y * 2),
    "filled": lambda x, y: x.masked_fill(y > 0, -1),
    "bounds": lambda x, y: (x.clamp(-(2**40), 2**40), torch.maximum(x, y), torch.minimum(x, y), x.clamp(min=0)),
    "signs": lambda x, y: (-x, x.abs(), x.sign(), x.relu()),
    "powers": lambda x, y: (x**2, x**3),
    "rounded down": lambda x, y: (x // y, x // 8, x // -3, torch.div(x, 7, rounding_mode="floor")),
    "rounded towards zero": lambda x, y: (
        torch.div(x, y, rounding_mode="trunc"), torch.div(x, -5, rounding_mode="trunc")
    ),
    "remainders": lambda x, y: (x % y, x % 8, x % -3, torch.remainder(x, 1000003)),
    "whole numbers": lambda x, y: (x.floor(), x.ceil(), x.trunc()),
    "low words": lambda x, y: (x.to(torch.int32), y.to(torch.int32) + 1),
    "low bytes": lambda x, y: (x.to(torch.int8), x.to(torch.uint8)),
    "truths": lambda x, y: (x.to(torch.bool), (x > 3).long(), (x > 3).long() * 5 + y),
    "sums": lambda x, y: (x.sum(), x.sum(0), (x * 2).sum(-1, keepdim=True)),
    "largest": lambda x, y: (x.amax(1), y.amin(), x.max(), (x + 1).min()),
    "largest with places": lambda x, y: (*x.max(1), *(x * 1).min(0)),
    "places": lambda x, y: (x.argmax(1), x.argmin(), x.argmax(0) * 2 + 1),
    "any and all": lambda x, y: (x.any(1), (x < y).any(0), (x != y).all()),
    "counts": lambda x, y: ((x > y).sum(), (x > y).sum(1), (x > y).long().sum(0) + x[0]),
    "lines": lambda x, y: x[(y[:, 0] % 12)],
    "elements of lines": lambda x, y: x.gather(1, y % 40),
    "counts of numbers": lambda x, y: (
        torch.zeros_like(x[0]).scatter_add(0, y[:, 0] % 40, x[:, 1]),
        torch.zeros_like(x).index_add(0, y[0] % 12, x[0][:, None] * y[:1]),
        x.index_add(1, y[1] % 40, y),
    ),
    "joined": lambda x, y: torch.cat((x, y * 2, x - 1), 1),
    "columns": lambda x, y: x[:, 1:39] + y[:, 2:],
    "coordinates": lambda x, y: x + torch.arange(40) * 2**33,
    "turned": lambda x, y: (x + 1).t() * 2,
}  # fmt: skip
