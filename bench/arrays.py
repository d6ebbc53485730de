"""Arrays of a case, and the comparison of a result with f64, both on the device through torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import attrs

from .cases import Case

CHUNK_NBYTES = 256 << 20  # of f64 rows that are compared at a time
HOPELESS = 1e30  # share of an integer that is wrong: a number, for JSON has no infinity
POISON = 113  # of integers; floats hold NaN


@attrs.frozen(eq=False)
class Arrays:
    """Hold the operands of one case.

    Args:
        stored_a, stored_b: as the layout stores them.
        a, b: the same memory as M x K and K x N (with the batch before).
        out: what a subject writes.
    """

    stored_a: Any
    stored_b: Any
    a: Any
    b: Any
    out: Any

    def fresh_out(self) -> Arrays:
        """Give the same operands with another, poisoned output."""
        return attrs.evolve(self, out=poisoned(self.out))


@attrs.frozen
class Errors:
    """Hold how a result differs from f64.

    Args:
        largest: the largest difference.
        relative: norm of the differences over the norm of the result.
        share: largest difference over what rounding allows it; right results have at most 1.
        nans: elements that are NaN, or were not written.
    """

    largest: float
    relative: float
    share: float
    nans: int

    @property
    def right(self) -> bool:
        """Say whether every element lies within what rounding allows."""
        return self.nans == 0 and self.share <= 1.0


def torch_module() -> Any:
    """Import torch."""
    return import_module("torch")


def make(case: Case, device: str = "cuda", seed: int = 0) -> Arrays:
    """Make random operands: normal numbers, or integers from -8 to 8. Zeros would draw less power, and run too fast."""
    torch = torch_module()
    inside, _, outside = case.types
    kind, result = (getattr(torch, t.numpy_name) for t in (inside, outside))
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)

    def random(*extents: int) -> Any:
        extents = extents if case.batch is None else (case.batch, *extents)
        if inside.kind == "int":
            low = 0 if inside.name == "u8" else -8
            return torch.randint(low, 9, extents, device=device, dtype=kind, generator=generator)
        wide = torch.float64 if inside.name == "f64" else torch.float32
        return torch.randn(extents, device=device, dtype=wide, generator=generator).to(kind)

    stored_a = random(case.k, case.m) if case.layout[1] == "T" else random(case.m, case.k)
    stored_b = random(case.n, case.k) if case.layout[0] == "T" else random(case.k, case.n)
    a = stored_a.transpose(-1, -2) if case.layout[1] == "T" else stored_a
    b = stored_b.transpose(-1, -2) if case.layout[0] == "T" else stored_b
    extents = (case.m, case.n) if case.batch is None else (case.batch, case.m, case.n)
    return Arrays(stored_a, stored_b, a, b, poisoned(torch.empty(extents, device=device, dtype=result)))


def poisoned(out: Any) -> Any:
    """Make an array like `out` in which what nobody writes shows."""
    torch = torch_module()
    return torch.full_like(out, float("nan") if out.dtype.is_floating_point else POISON)


def compare(case: Case, arrays: Arrays, outs: dict[str, Any]) -> dict[str, Errors]:
    """Compare results with the product in f64, some rows at a time.

    An element may be wrong by (K + 2) u |a||b|, u being the accumulator's unit roundoff, plus one rounding to the
    result's type: a product of K terms is wrong by at most K u |a||b| in any order of summation.

    Args:
        case: the problem.
        arrays: its operands.
        outs: results by name.

    Source: Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013.
    """
    torch = torch_module()
    _, acc, outside = case.types
    batched = case.batch is not None
    a, b = (x if batched else x.unsqueeze(0) for x in (arrays.a, arrays.b))
    results = {name: out if batched else out.unsqueeze(0) for name, out in outs.items()}
    totals = {name: [0.0, 0.0, 0.0, 0] for name in outs}  # largest, squares, share, nans
    norm = 0.0
    rows = max(1, min(case.m, CHUNK_NBYTES // (8 * max(case.n, case.k))))
    # Where the inputs have fewer bits than the accumulator keeps, products are exact; sums are not.
    each = (case.k + 2) * acc.epsilon
    for i in range(a.shape[0]):
        wide_b = b[i].double()
        size_b = wide_b.abs()
        for start in range(0, case.m, rows):
            wide_a = a[i, start : start + rows].double()
            exact = wide_a @ wide_b
            allowed = each * (wide_a.abs() @ size_b) + outside.epsilon * exact.abs() if each else None
            norm += float((exact * exact).sum())
            for name, out in results.items():
                difference = (out[i, start : start + rows].double() - exact).abs()
                missing = torch.isnan(difference)
                total = totals[name]
                total[3] += int(missing.sum())
                difference = difference.masked_fill(missing, 0.0)
                total[0] = max(total[0], float(difference.max()))
                total[1] += float((difference * difference).sum())
                if allowed is None:
                    total[2] = max(total[2], HOPELESS if total[0] else 0.0)
                else:
                    share = torch.where(difference == 0, 0.0, difference / (allowed + outside.epsilon * 1e-30))
                    total[2] = max(total[2], float(share.max()))
    scale = norm**0.5 or 1.0
    return {name: Errors(t[0], t[1] ** 0.5 / scale, t[2], int(t[3])) for name, t in totals.items()}
