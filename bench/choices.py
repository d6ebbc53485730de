"""Check that the installed compiler builds the schedules of `best` for randomly drawn products; needs no GPU.

`python -m bench choices [--count N] [--seed N] [--arch ARCH...] [--verbose]`. A product is drawn by its sizes (any,
multiples of 8 and of 128), layout, element types and its epilog. The command prints a line for each product that
does not compile, and the number of products that a later candidate than the first builds.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from fireiron import MatMulChain, Matrix, Vector, best, matmul
from fireiron.algebra.arch import arch as find_arch
from fireiron.base.errors import FireironError
from fireiron.language.functions import gelu, relu, silu

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
TYPES = ("f16", "bf16", "f16 -> f32", "f32", "f64", "tf32", "i8")
SMALL_TYPES = ("e4m3 -> bf16", "e5m2")  # from sm_89 on
LAYOUTS = ("NN", "NT", "TN", "TT")
STEPS = (1, 8, 128)  # sizes are multiples of one of these
LARGEST = 4096
EPILOGS = ("", "bias", "relu", "bias + gelu", "bias + silu + residual", "scaled")


def product(rng: random.Random, arch: str) -> tuple[str, MatMulChain]:
    """Draw a product for an architecture; return also its description in words."""
    types = (*TYPES, *SMALL_TYPES) if find_arch(arch).number >= 89 else TYPES
    step = rng.choice(STEPS)
    m, n, k = (step * rng.randint(1, LARGEST // step) for _ in range(3))
    kind, layout, epilog = rng.choice(types), rng.choice(LAYOUTS), rng.choice(EPILOGS)
    inside, _, out = kind.partition(" -> ")
    spec = matmul(m, n, k, inside, out=out or None, layout=layout)
    if spec.matmul.accumulator.kind != "float":
        epilog = ""
    return f"{m}x{n}x{k} {kind} {layout} {epilog}".rstrip(), spec.then(function(epilog, spec)) if epilog else spec


def function(epilog: str, spec: MatMulChain) -> Callable[[Any], Any]:
    """Return the epilog that some words stand for."""
    rows, columns = spec.matmul.C.shape
    kind = spec.matmul.C.dtype
    bias, residual = Vector(columns, kind, name="bias"), Matrix(rows, columns, kind, name="residual")
    functions: dict[str, Callable[[Any], Any]] = {
        "bias": lambda acc: acc + bias,
        "relu": relu,
        "bias + gelu": lambda acc: gelu(acc + bias),
        "bias + silu + residual": lambda acc: silu(acc + bias) + residual,
        "scaled": lambda acc: acc * 0.5,
    }
    return functions[epilog]


def run(words: Sequence[str]) -> int:
    """Draw, choose and compile.

    Returns:
        0, or 1 where a choice did not compile.
    """
    parser = argparse.ArgumentParser("bench choices", allow_abbrev=False)
    parser.add_argument("--count", type=int, default=100, help="number of products for each architecture (100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arch", nargs="+", default=list(ARCHITECTURES))
    parser.add_argument("--verbose", action="store_true", help="print a line for each product")
    asked = parser.parse_args(list(words))
    failures = 0
    for arch in asked.arch:
        rng = random.Random(f"{asked.seed} {arch}")
        refused, later, slowest = 0, 0, 0.0
        for _ in range(asked.count):
            said, spec = product(rng, arch)
            begin = time.perf_counter()
            try:
                first = best(spec, arch)
                slowest = max(slowest, time.perf_counter() - begin)
                first.compile(arch)
                moved = best(spec, arch) is not first
                later += moved
                if asked.verbose:
                    print(f"{arch}: {said}: {'a later candidate' if moved else 'the first'}", flush=True)
            except FireironError as error:
                refused += 1
                print(f"{arch}: {said}: {error.code}: {error.message}", flush=True)
        failures += refused
        print(
            f"{arch}: {asked.count} products, {refused} not built, {later} built by a later candidate, "
            f"slowest choice {slowest * 1e3:.0f} ms"
        )
    return int(failures > 0)
