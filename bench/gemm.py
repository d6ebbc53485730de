"""Time a preset against torch: checked against f64, L2 flushed, rounds interleaved.

The peer is torch.mm (of tf32 with `allow_tf32`), for int8 torch._int_mm, for 8-bit floats torch._scaled_mm with scales
of 1, which gets its operands in the one layout that it takes.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from fireiron import matmul
from fireiron.algebra.dtypes import DType, default_result, tf32
from fireiron.algebra.dtypes import dtype as find_dtype

FLUSH_NBYTES = 256 << 20  # several times the L2 of any GPU so far


def run(preset: str, shapes: Sequence[str], dtype: str, layout: str, rounds: int) -> int:
    """Print a table of one row a shape; returns the exit code."""
    try:
        import torch
    except ImportError:
        print("nothing was timed: this benchmark needs torch and a GPU")
        return 1
    if not torch.cuda.is_available():
        print("nothing was timed: torch sees no GPU")
        return 1
    kind = find_dtype(dtype)
    if kind.packed:
        print(f"nothing was timed: torch multiplies no {kind}")
        return 1
    torch.backends.cuda.matmul.allow_tf32 = kind == tf32
    module, name = preset.rsplit(".", 1)
    make = getattr(importlib.import_module(f"fireiron.schedules.{module}"), name)
    device = torch.cuda.get_device_name()
    versions = f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    table = Table(title=f"{preset} {dtype} {layout} on {device}, {versions}, {rounds} interleaved rounds, L2 flushed")
    for column in ("M x N x K", "fireiron us", "p20", "p80", "TFLOP/s", "torch us", "torch TFLOP/s", "ratio", "error"):
        table.add_column(column, justify="right")
    wrong = False
    for shape in shapes:
        m, n, k = (int(x) for x in shape.split("x"))
        row, right = _row(torch, make, (m, n, k), dtype, layout, rounds)
        table.add_row(shape, *row)
        wrong = wrong or not right
    Console(width=120).print(table)
    print("ratio: torch's median time over fireiron's; error: relative norm against f64")
    return int(wrong)


def _row(
    torch: Any, make: Callable[..., Any], shape: tuple[int, int, int], dtype: str, layout: str, rounds: int
) -> tuple[list[str], bool]:
    m, n, k = shape
    element = find_dtype(dtype)
    kind, result = (getattr(torch, d.numpy_name) for d in (element, default_result(element)))
    whole = element.kind == "int"

    def random(*extents: int) -> Any:
        if whole:
            return torch.randint(-8, 9, extents, device="cuda", dtype=kind)
        return torch.randn(extents, device="cuda").to(kind)

    stored_a = random(k, m) if layout[1] == "T" else random(m, k)
    stored_b = random(n, k) if layout[0] == "T" else random(k, n)
    a = stored_a.T if layout[1] == "T" else stored_a
    b = stored_b.T if layout[0] == "T" else stored_b
    ours = torch.full((m, n), -1 if whole else float("nan"), device="cuda", dtype=result)
    theirs = _peer(torch, element, a, b, torch.empty_like(ours))
    kernel = make(matmul(m, n, k, dtype, layout=layout)).compile()
    kernel(stored_a, stored_b, out=ours)
    exact = a.to(result).double() @ b.to(result).double()  # a wider type first: fp8 converts to few
    error = float((ours.double() - exact).norm() / exact.norm())
    flush = torch.empty(FLUSH_NBYTES, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    work = {"ours": lambda: kernel(stored_a, stored_b, out=ours), "theirs": theirs}
    for warm in range(3 + rounds):
        for who, once in work.items():
            flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            once()
            end.record()
            torch.cuda.synchronize()
            if warm >= 3:
                times[who].append(begin.elapsed_time(end) * 1e3)
    mine, peer = statistics.median(times["ours"]), statistics.median(times["theirs"])
    quantiles = statistics.quantiles(times["ours"], n=10)
    tflops = 2e-6 * m * n * k
    # 0 for integers, which must be exact. Products of 8-bit floats are exact in f32; tf32 is cut, not rounded.
    epsilon = default_result(element).epsilon if element.bits == 8 else element.epsilon * (2 if element == tf32 else 1)
    limit = 4 * (k**0.5 * epsilon + epsilon)
    cells = [mine, quantiles[1], quantiles[7], tflops / mine, peer, tflops / peer, peer / mine]
    return [*(f"{x:.3f}" if i == 6 else f"{x:.2f}" for i, x in enumerate(cells)), f"{error:.1e}"], error <= limit


def _peer(torch: Any, element: DType, a: Any, b: Any, out: Any) -> Callable[[], Any]:
    """Give torch's product of two operands."""
    if element.bits == 8 and element.kind == "float":
        one = torch.ones((), device="cuda")
        rows, columns = a.contiguous(), b.T.contiguous().T
        return lambda: torch._scaled_mm(
            rows, columns, scale_a=one, scale_b=one, out_dtype=out.dtype, use_fast_accum=True
        )
    product = torch._int_mm if element.kind == "int" else torch.mm
    return lambda: product(a, b, out=out)
