"""Suites: named lists of cases, plain data."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import attrs

from fireiron.base.errors import UsageError

from .cases import LAYOUTS, Case


@attrs.frozen
class Suite:
    """Name a list of cases.

    Args:
        about: one line of help.
        cases: the problems; drawn problems are those of seed 0.
        draw: function from a seed to the problems; None for fixed problems.
    """

    about: str
    cases: tuple[Case, ...]
    draw: Callable[[int], tuple[Case, ...]] | None = None


def _drawn(about: str, draw: Callable[[int], tuple[Case, ...]]) -> Suite:
    return Suite(about, draw(0), draw)


def _square(*sizes: int) -> tuple[Case, ...]:
    return tuple(Case(n, n, n, "f16", "TN") for n in sizes)


def random100(seed: int = 0, count: int = 100, ops: str = "") -> tuple[Case, ...]:
    """Draw products of random sizes: M, N and K are multiples of 128 up to 4096, each equally likely.

    Args:
        seed: seed of the draw; the suite `gemm-random100` has seed 0.
        count: number of products.
        ops: the operations after each product.

    Source: the random-size experiment of the Volta tensor-core paper, in fp16.
    """
    drawn = random.Random(seed)
    sizes = lambda: 128 * drawn.randint(1, 32)  # noqa: E731
    return tuple(Case(sizes(), sizes(), sizes(), "f16", "TN", ops=ops) for _ in range(count))


def _sizes(rng: random.Random, step: int, least: int, most: int) -> tuple[int, int, int]:
    """Draw M, N and K: multiples of a step, from `least` to `most` of them."""
    m, n, k = (step * rng.randint(least, most) for _ in range(3))
    return m, n, k


def ragged(seed: int) -> tuple[Case, ...]:
    """Draw 200 products of sizes that are multiples of 8 from 64 to 4096, in all layouts and 16-bit floats."""
    rng = random.Random(f"ragged {seed}")
    return tuple(Case(*_sizes(rng, 8, 8, 512), rng.choice(("f16", "bf16")), rng.choice(LAYOUTS)) for _ in range(200))


def odd(seed: int) -> tuple[Case, ...]:
    """Draw 50 products of any sizes from 64 to 4096, in all layouts; many lines start off multiples of 16 bytes."""
    rng = random.Random(f"odd {seed}")
    return tuple(Case(*_sizes(rng, 1, 64, 4096), "f16", rng.choice(LAYOUTS)) for _ in range(50))


def layouts(seed: int) -> tuple[Case, ...]:
    """Draw 100 products of multiples of 128 up to 4096 in the layouts other than TN, which gemm-random100 has."""
    rng = random.Random(f"layouts {seed}")
    others = tuple(x for x in LAYOUTS if x != "TN")
    return tuple(Case(*_sizes(rng, 128, 1, 32), "f16", rng.choice(others)) for _ in range(100))


# By element types of 30 products each, the layouts that cuBLAS has for them.
_TYPES = {"tf32": LAYOUTS, "e4m3:f32:bf16": ("TN",), "i8": ("TN",), "f32": LAYOUTS, "f64": LAYOUTS}


def dtypes(seed: int) -> tuple[Case, ...]:
    """Draw 30 products of each other element type: multiples of 16 up to 4096, up to 2048 where CUDA cores compute."""
    rng = random.Random(f"dtypes {seed}")
    return tuple(
        Case(*_sizes(rng, 16, 4, 128 if name in ("f32", "f64") else 256), name, rng.choice(known))
        for name, known in _TYPES.items()
        for _ in range(30)
    )


def deep(seed: int) -> tuple[Case, ...]:
    """Draw 20 products of few tiles and a long K: M and N up to 512, K from 4096 to 65536."""
    rng = random.Random(f"deep {seed}")
    return tuple(
        Case(8 * rng.randint(8, 64), 8 * rng.randint(8, 64), 64 * rng.randint(64, 1024), "f16", "TN") for _ in range(20)
    )


def fused(seed: int) -> tuple[Case, ...]:
    """Draw 50 layers with a bias, an activation and a residual: M a multiple of 8, N and K of 64, up to 4096."""
    rng = random.Random(f"fused {seed}")
    return tuple(
        Case(
            8 * rng.randint(8, 512),
            64 * rng.randint(1, 64),
            64 * rng.randint(1, 64),
            rng.choice(("f16", "bf16")),
            "TN",
            ops=f"bias+{rng.choice(('relu', 'gelu', 'silu'))}+residual",
        )
        for _ in range(50)
    )


# Linear layers as (outputs, inputs): query, key and value together, projection, gate and up together, down, head.
_LLM = {
    "8B": ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)),
    "70B": ((10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)),
}


def _llm(tokens: tuple[int, ...]) -> tuple[Case, ...]:
    layers = dict.fromkeys(layer for model in _LLM.values() for layer in model)
    return tuple(Case(m, n, k, "bf16", "TN") for m in tokens for n, k in layers)


SUITES = {
    "gemm": Suite("one square product; --shape names others", (Case(4096, 4096, 4096),)),
    "headline": Suite(
        "a square product, one with a row added and relu, and 16 tokens through a large layer",
        (
            Case(4096, 4096, 4096, "bf16", "TN"),
            Case(4096, 4096, 4096, "bf16", "TN", ops="bias+relu"),
            Case(16, 28672, 8192, "bf16", "TN"),
        ),
    ),
    "gemm-square": Suite("squares from 512 to 16384", _square(512, 1024, 2048, 4096, 8192, 16384)),
    "gemm-random100": _drawn("100 random sizes up to 4096, as in the Volta paper; --seed draws others", random100),
    "gemm-llm": Suite("linear layers of Llama 3 8B and 70B, 512 and 4096 tokens", _llm((512, 4096))),
    "skinny": Suite(
        "few rows against large weights: bound by memory",
        tuple(
            Case(m, n, k, "bf16", "TN")
            for m in (1, 16, 64, 128)
            for n, k in ((4096, 4096), (8192, 8192), (28672, 8192))
        ),
    ),
    "deep": Suite(
        "few tiles and a long K, and many tiles with a short one",
        tuple(
            Case(m, n, k, "f16", "TN")
            for m, n, k in ((128, 128, 65536), (256, 256, 16384), (512, 512, 8192), (16384, 128, 128), (8192, 8192, 64))
        ),
    ),
    "ragged-random": _drawn(
        "200 sizes that are multiples of 8, all layouts, f16 and bf16; --seed draws others", ragged
    ),
    "odd-random": _drawn("50 sizes that are multiples of nothing, all layouts; --seed draws others", odd),
    "layouts-random": _drawn("100 multiples of 128 in NN, NT and TT; --seed draws others", layouts),
    "dtypes-random": _drawn("30 sizes each of tf32, e4m3, i8, f32 and f64; --seed draws others", dtypes),
    "fused-random": _drawn("50 layers with a bias, an activation and a residual; --seed draws others", fused),
    "deep-random": _drawn("20 sizes of few tiles and a long K; --seed draws others", deep),
    "ragged": Suite(
        "sizes that no tile divides",
        tuple(Case(m, n, k, "f16", "TN") for m, n, k in ((1000, 1000, 1000), (4104, 4088, 4112), (2047, 2049, 2040))),
    ),
    "layouts": Suite("4096 in all layouts", tuple(Case(4096, 4096, 4096, "f16", x) for x in ("NN", "NT", "TN", "TT"))),
    "dtypes": Suite(
        "4096 in every element type",
        (
            *(Case(4096, 4096, 4096, name, "TN") for name in ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8")),
            *(Case(4096, 4096, 4096, name, "TN") for name in ("i4", "u4", "b1")),
            Case(4096, 4096, 4096, "b1", "TN", product="and"),
            *(Case(4096, 4096, 4096, name, "NN") for name in ("f32", "tf32", "f64")),
        ),
    ),
    "fused": Suite(
        "products with what follows them: a row added, relu",
        tuple(
            Case(m, n, k, "f16", "TN", ops=ops)
            for m, n, k in ((4096, 4096, 4096), (8192, 1024, 4096), (512, 512, 512))
            for ops in ("bias", "relu", "bias+relu")
        ),
    ),
    "fused-random100": _drawn("gemm-random100 with a row added and relu", partial(random100, ops="bias+relu")),
    "batched": Suite(
        "many products at once",
        tuple(
            Case(m, n, k, "f16", "TN", b)
            for b, m, n, k in ((32, 512, 512, 512), (128, 256, 256, 64), (16, 2048, 2048, 128))
        ),
    ),
    "sgemm": Suite("squares on CUDA cores", tuple(Case(n, n, n) for n in (1024, 2048, 4096, 8192))),
}


def drawn(name: str, seed: int = 0, count: int | None = None) -> tuple[Case, ...]:
    """List the first cases of a suite; those of random sizes are drawn by a seed.

    Raises:
        UsageError: `unknown-suite`.
    """
    found = suite(name)
    return (found.cases if found.draw is None else found.draw(seed))[:count]


def suite(name: str) -> Suite:
    """Find a suite.

    Raises:
        UsageError: `unknown-suite`.
    """
    found = SUITES.get(name)
    if found is None:
        raise UsageError("unknown-suite", f"there is no suite {name}", fix="use one of " + ", ".join(SUITES))
    return found
