"""Arrays of a case, and the comparison of a result with f64, both on the device through torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType, f64, tf32
from fireiron.algebra.exact import whole_numbers
from fireiron.tune.verify import BYTE_SUMS, BYTE_TERMS, exact_product

from .cases import Case

BYTE_SLACK = 4.0  # a partial sum may be larger than the final one
CHUNK_NBYTES = 256 << 20  # bytes of f64 rows that are compared at a time
HOPELESS = 1e30  # share of a wrong integer; JSON has no infinity
POISON = 113  # poison of integer outputs; that of floats is NaN
SLOPE = 1.13  # largest slope of the functions below: that of gelu
STEPS: Mapping[str, Callable[[Any, Any], Any]] = {
    "relu": lambda torch, x: x.clamp(min=0),
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "silu": lambda torch, x: torch.nn.functional.silu(x),
}


@attrs.frozen(eq=False)
class Arrays:
    """Hold the operands of one case.

    Args:
        stored_a, stored_b: as the layout stores them.
        a, b: views of the same memory as M x K and K x N, after a batch dim if any; for packed elements, their values.
        out: the array that a subject writes.
        bias: the row that the case adds, or None.
        residual: the matrix that the case adds, or None.
    """

    stored_a: Any
    stored_b: Any
    a: Any
    b: Any
    out: Any
    bias: Any = None
    residual: Any = None

    def added(self, case: Case) -> tuple[Any, ...]:
        """List the arrays that the ops of the case add, in the ops' order."""
        named = {"bias": self.bias, "residual": self.residual}
        return tuple(named[step] for step in case.steps if step in named)

    def fresh_out(self) -> Arrays:
        """Return the same operands with another output, which is filled with poison."""
        return attrs.evolve(self, out=poisoned(self.out))


@attrs.frozen
class Errors:
    """Hold the differences of a result to f64.

    Args:
        largest: the largest difference.
        relative: norm of the differences divided by the norm of the result.
        share: the largest difference divided by the bound of rounding errors; at most 1 for a right result.
        nans: number of elements that are NaN or were not written.
    """

    largest: float
    relative: float
    share: float
    nans: int

    @property
    def right(self) -> bool:
        """Say whether every element lies within the bound of rounding errors."""
        return self.nans == 0 and self.share <= 1.0


def torch_module() -> Any:
    """Import torch."""
    return import_module("torch")


def make(case: Case, device: str = "cuda", seed: int = 0) -> Arrays:
    """Make random operands: normal numbers, or integers from -8 to 8. Zeros would draw less power and run faster."""
    torch = torch_module()
    inside, _, outside = case.types
    result = getattr(torch, outside.numpy_name)
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)

    def random(*extents: int) -> tuple[Any, Any]:
        extents = extents if case.batch is None else (case.batch, *extents)
        if inside.packed:
            low, high = inside.limits
            values = torch.randint(
                int(low), int(high) + 1, extents, device=device, dtype=torch.int8, generator=generator
            )
            return packed(values, inside), values
        kind = getattr(torch, inside.numpy_name)
        if inside.kind == "int":
            values = torch.randint(
                -8 if inside.signed else 0, 9, extents, device=device, dtype=kind, generator=generator
            )
            return values, values
        values = normal(extents, inside).to(kind)
        return values, values

    def normal(extents: tuple[int, ...], kind: DType) -> Any:
        wide = torch.float64 if kind == f64 else torch.float32
        values = torch.randn(extents, device=device, dtype=wide, generator=generator)
        # Numbers that tf32 represents, so that no way of rounding to tf32 counts as an error.
        return (values.view(torch.int32) & -(1 << 13)).view(torch.float32) if kind == tf32 else values

    stored_a, a = random(case.k, case.m) if case.layout[1] == "T" else random(case.m, case.k)
    stored_b, b = random(case.n, case.k) if case.layout[0] == "T" else random(case.k, case.n)
    a = a.transpose(-1, -2) if case.layout[1] == "T" else a
    b = b.transpose(-1, -2) if case.layout[0] == "T" else b
    extents = (case.m, case.n) if case.batch is None else (case.batch, case.m, case.n)
    bias = normal((case.n,), outside).to(result) if "bias" in case.steps else None
    residual = normal(extents, outside).to(result) if "residual" in case.steps else None
    out = poisoned(torch.empty(extents, device=device, dtype=result))
    return Arrays(stored_a, stored_b, a, b, out, bias, residual)


def exact(case: Case, device: str = "cuda", seed: int = 0) -> tuple[Arrays, Any] | None:
    """Make operands of whole numbers, and the exact result, which every right kernel computes bit by bit.

    Returns:
        The arrays; None for integers (which `compare` compares exactly), where K is too short, and with ops that round.
    """
    if not {"bias", "relu"}.issuperset(case.steps):
        return None
    torch = torch_module()
    spec = case.spec().matmul
    inside, _, outside = case.types
    made = exact_product(spec, whole_numbers(spec.accumulator), seed) if inside.kind == "float" else None
    if made is None:
        return None
    a, b = (tensor(made[name], kind, device) for name, kind in (("A", inside), ("B", inside)))
    bias = None
    result = made["C"].astype(np.float64)
    if "bias" in case.steps:
        row = np.random.default_rng(seed).choice([1.0, 2.0, 4.0], case.n)
        result, bias = result + row, tensor(row.astype(outside.numpy), outside, device)
    if "relu" in case.steps:
        result = np.maximum(result, 0)
    left = a.transpose(-1, -2) if case.layout[1] == "T" else a
    right = b.transpose(-1, -2) if case.layout[0] == "T" else b
    wanted = tensor(result.astype(outside.numpy), outside, device)
    return Arrays(a, b, left, right, poisoned(torch.empty_like(wanted)), bias), wanted


def tensor(array: Any, kind: DType, device: str) -> Any:
    """Copy an array to torch, also of types that torch does not take from NumPy."""
    torch = torch_module()
    bits = torch.from_numpy(np.ascontiguousarray(array).view(f"i{array.itemsize}"))
    return bits.to(device).view(getattr(torch, kind.numpy_name))


def differing(wanted: Any, outs: dict[str, Any]) -> dict[str, int]:
    """Count the elements that differ from the exact result; a NaN differs."""
    return {name: int((_wide(out) != _wide(wanted)).sum()) for name, out in outs.items()}


def packed(values: Any, kind: DType) -> Any:
    """Put elements into bytes along the last axis, the first into the lowest bits."""
    torch = torch_module()
    parts = values.view(torch.uint8) & ((1 << kind.bits) - 1)
    parts = parts.reshape(*values.shape[:-1], -1, kind.pack)
    whole = torch.zeros_like(parts[..., 0])
    for i in range(kind.pack):
        whole |= parts[..., i] << (i * kind.bits)
    return whole


def _wide(values: Any) -> Any:
    """Convert to f64; 8-bit floats convert to few types."""
    return values.float().double() if values.dtype.itemsize == 1 and values.dtype.is_floating_point else values.double()


def poisoned(out: Any) -> Any:
    """Make an array like `out` filled with poison, so that elements that no thread writes show."""
    torch = torch_module()
    return torch.full_like(out, float("nan") if out.dtype.is_floating_point else POISON)


def compare(case: Case, arrays: Arrays, outs: dict[str, Any]) -> dict[str, Errors]:
    """Compare results with the product in f64, some rows at a time.

    An element may be wrong by (K + 2) u |a||b|, u being the accumulator's unit roundoff, plus one rounding to the
    result's type: a product of K terms is wrong by at most K u |a||b| in any order of summation. Sums of 8-bit floats
    may lose more, since some tensor cores keep 13 bits of them. The slope of each op is at most SLOPE. Each op other
    than bias and relu may round its input, since peers run a separate kernel for such an op.

    Args:
        case: the problem.
        arrays: its operands.
        outs: results by name.

    Source: Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013.
    """
    torch = torch_module()
    inside, acc, outside = case.types
    batched = case.batch is not None
    a, b = (x if batched else x.unsqueeze(0) for x in (arrays.a, arrays.b))
    if case.spec().matmul.product == "xor":  # a xor b is a (1 - b) + (1 - a) b
        a, b = torch.cat([a, 1 - a], -1), torch.cat([1 - b, b], -2)
    results = {name: out if batched else out.unsqueeze(0) for name, out in outs.items()}
    totals = {name: [0.0, 0.0, 0.0, 0] for name in outs}  # largest, squares, share, nans
    norm = 0.0
    rows = max(1, min(case.m, CHUNK_NBYTES // (8 * max(case.n, case.k))))
    # Where the inputs have fewer bits than the accumulator keeps, products are exact; sums are not.
    each = (case.k + 2) * acc.epsilon
    short = inside.kind == "float" and inside.bits == 8
    steps = BYTE_SLACK * BYTE_SUMS * (case.k / BYTE_TERMS + 2)
    for i in range(a.shape[0]):
        wide_b = _wide(b[i])
        size_b = wide_b.abs()
        for start in range(0, case.m, rows):
            wide_a = _wide(a[i, start : start + rows])
            exact = wide_a @ wide_b
            allowed = each * (wide_a.abs() @ size_b) if each else None
            if allowed is not None and short:
                allowed += steps * ((wide_a * wide_a) @ (wide_b * wide_b)).sqrt()
            read = exact.abs()
            for step in case.steps:
                if step in STEPS:
                    exact = STEPS[step](torch, exact)
                    continue
                other = _wide(arrays.bias if step == "bias" else arrays.residual[start : start + rows])
                exact, read = exact + other, read + other.abs()
            if allowed is not None:
                if not {"bias", "relu"}.issuperset(case.steps):
                    allowed = SLOPE * allowed + len(case.steps) * SLOPE * outside.epsilon * read
                allowed += (outside.epsilon + (2 * acc.epsilon if case.steps else 0.0)) * exact.abs()
            norm += float((exact * exact).sum())
            for name, out in results.items():
                difference = (_wide(out[i, start : start + rows]) - exact).abs()
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
