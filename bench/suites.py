"""Suites: named lists of cases, plain data."""

from __future__ import annotations

import random

import attrs

from fireiron.base.errors import UsageError

from .cases import Case


@attrs.frozen
class Suite:
    """Name a list of cases.

    Args:
        about: one line of help.
        cases: the problems.
    """

    about: str
    cases: tuple[Case, ...]


def _square(*sizes: int) -> tuple[Case, ...]:
    return tuple(Case(n, n, n, "f16", "TN") for n in sizes)


def random100(seed: int = 0, count: int = 100, ops: str = "") -> tuple[Case, ...]:
    """Draw products of random sizes: M, N and K are multiples of 128 up to 4096, each equally likely.

    Args:
        seed: of the draw; the suite `gemm-random100` has seed 0.
        count: number of products.
        ops: the operations after each product.

    Source: the random-size experiment of the Volta tensor-core paper, in fp16.
    """
    drawn = random.Random(seed)
    sizes = lambda: 128 * drawn.randint(1, 32)  # noqa: E731
    return tuple(Case(sizes(), sizes(), sizes(), "f16", "TN", ops=ops) for _ in range(count))


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
    "gemm-random100": Suite("100 random sizes up to 4096, as in the Volta paper; --seed draws others", random100()),
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
    "fused-random100": Suite("gemm-random100 with a row added and relu", random100(ops="bias+relu")),
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
    cases = suite(name).cases
    return (random100(seed, ops=cases[0].ops) if name.endswith("-random100") else cases)[:count]


def suite(name: str) -> Suite:
    """Find a suite.

    Raises:
        UsageError: `unknown-suite`.
    """
    found = SUITES.get(name)
    if found is None:
        raise UsageError("unknown-suite", f"there is no suite {name}", fix="use one of " + ", ".join(SUITES))
    return found
