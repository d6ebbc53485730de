"""What `attention.wgmma` chooses by its model of times: warpgroups and keys of a chunk."""

from __future__ import annotations

from math import ceil
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import attention
from fireiron.schedules._attention_clocks import FIT, chunks_of_tiles, microseconds, work_of


def program(queries: int, keys: Any, depth: int = 64, heads: int = 256, **options: Any) -> Any:
    q, k, v = (fi.tensor(1, heads, n, depth, dtype="bf16") for n in (queries, keys, keys))
    return attention.attention(q, k, v, **options)


MASKS: dict[str, Any] = {
    "all": {},
    "causal": {"causal": True},
    "window": {"mask": lambda i, j: (i - j < 100) & (j - i < 70)},
    "prefix": {"mask": lambda i, j: (j < 130) | (j <= i)},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("queries", "keys", "rows", "chunk"), [(300, 300, 64, 80), (200, 450, 128, 96), (64, 64, 192, 128)]
)
def test_chunks_are_counted_that_a_mask_leaves(mask: str, queries: int, keys: int, rows: int, chunk: int) -> None:
    i, j = np.arange(queries)[:, None], np.arange(keys)
    seen = {
        "all": (i >= 0) & (j >= 0),
        "causal": j <= i + keys - queries,
        "window": (i - j < 100) & (j - i < 70),
        "prefix": (j < 130) | (j <= i),
    }[mask]
    tiles = [seen[start : start + rows] for start in range(0, queries, rows)]
    wanted = [sum(bool(t[:, start : start + chunk].any()) for start in range(0, keys, chunk)) for t in tiles]
    assert list(chunks_of_tiles(program(queries, keys, **MASKS[mask]), rows, chunk)) == wanted


def test_conditions_are_evaluated_where_indices_are_all_that_they_read() -> None:
    def held(spec: Any) -> Any:
        return next(s for s in spec.computed.steps if s.where is not None).holds({"i": 3, "j": np.arange(5)})

    assert list(held(program(64, 64, causal=True))) == [1, 1, 1, 1, 0]
    assert held(program(64, fi.symbol("N"), causal=True)) is None  # the last query sees all keys, whose number is open
    lengths = fi.tensor(1, dtype="i32", name="lengths")
    assert held(program(64, 64, mask=lambda b, j, lengths: j < lengths[b], lengths=lengths)) is None


def test_a_mask_of_elements_leaves_all_chunks() -> None:
    lengths = fi.tensor(1, dtype="i32", name="lengths")
    spec = program(256, 512, mask=lambda b, j, lengths: j < lengths[b], lengths=lengths)
    assert chunks_of_tiles(spec, 128, 128) == [4, 4]


@pytest.mark.parametrize(
    ("length", "depth", "causal", "name"),
    [
        (256, 64, False, "wgmma_1x1x128x128_bf16"),  # tiles of 192 queries would leave a third of the second empty
        (330, 64, False, "wgmma_1x1x192x96_bf16"),
        (800, 64, True, "wgmma_1x1x192x96_bf16"),
        (1024, 80, False, "wgmma_1x1x192x64_bf16"),
        (450, 128, True, "wgmma_1x1x128x64_bf16"),  # 64 keys leave least of the last chunks empty
        (4096, 128, False, "wgmma_1x1x128x128_bf16"),
    ],
)
def test_tiles_and_chunks_follow_lengths(length: int, depth: int, causal: bool, name: str) -> None:
    assert attention.wgmma(program(length, length, depth, causal=causal)).name == name


def test_the_model_counts_waves_and_empty_parts() -> None:
    """132 multiprocessors: a head more than a wave holds costs a wave, and keys that chunks do not fill cost time."""
    one, two = (microseconds(program(64, 512, heads=n), 1, 128) for n in (132, 133))
    assert two - FIT.launch == pytest.approx(2 * (one - FIT.launch))
    whole, ragged = (microseconds(program(512, n), 2, 128) for n in (512, 513))
    assert ragged > whole * (ceil(513 / 128) / 4 - 0.1)
    assert microseconds(program(512, 512, causal=True), 2, 64) < microseconds(program(512, 512), 2, 64)


def test_tiles_under_windows_are_drawn_and_rescaled_rarely() -> None:
    """Their comparisons leave no registers for two chunks' weights, but for a drawn tile's numbers."""
    windows: tuple[dict[str, Any], ...] = (
        {"mask": lambda i, j: (i - j < 512) & (j - i < 512)},
        {"causal": True, "mask": lambda i, j: i - j < 512},
    )
    for options in windows:
        kernel = attention.wgmma(program(2048, 2048, 128, **options))
        assert "x128_" in kernel.name
        text = kernel.cuda("sm_90a")
        assert text.count("__any_sync") == 1
        assert "draw" in text


def test_weights_that_are_dropped_are_speculated_on_in_short_chunks() -> None:
    for options in ({}, {"causal": True}):
        kernel = attention.wgmma(program(2048, 2048, 128, dropout=0.1, seed=fi.tensor(3, dtype="i32"), **options))
        assert "x64_" in kernel.name
        assert kernel.cuda("sm_90a").count("__any_sync") == 9


def test_functions_leave_registers_for_long_chunks() -> None:
    """One number for each head takes none; a number for each point and exponentials do."""
    scores: dict[str, dict[str, Any]] = {
        "x128": {"score": lambda s, h, i, j, slope: s - slope[h] * (i - j), "slope": fi.tensor(256)},
        "x112": {"score": lambda s, i, j, bias: s + bias[i, j], "bias": fi.tensor(4096, 4096, dtype="bf16")},
        "x96": {"causal": True, "score": lambda s: 20 * fi.tanh(s / 20)},
    }
    for keys, options in scores.items():
        assert f"{keys}_" in attention.wgmma(program(4096, 4096, **options)).name


def test_rings_of_two_chunks_cost_a_tile_time() -> None:
    """Of 128 keys of 128 columns shared memory holds two chunks, beside the arrays of two tiles."""
    deep, two = (work_of(program(1024, 1024, 128, heads=64), 2, keys) for keys in (80, 128))
    assert (deep.shallow, two.shallow) == (False, True)
    assert FIT.microseconds(two) - FIT.microseconds(attrs.evolve(two, shallow=False)) == pytest.approx(4 * FIT.shallow)
    assert not work_of(program(1024, 1024, 128, heads=8), 2, 128).shallow  # a tile of each block
