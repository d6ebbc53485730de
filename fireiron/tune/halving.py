"""Successive halving: all candidates are sampled a few times, and after each round only the faster ones again."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

Samples: TypeAlias = dict[int, list[float]]
Measure: TypeAlias = Callable[[Sequence[int], int], Mapping[int, Sequence[float]]]
"""Sample candidates: measure(candidates, samples) returns microseconds by candidate, without candidates that failed."""


@attrs.frozen
class Rung:
    """Hold one round of the halving.

    Args:
        samples: number of samples of each candidate.
        keep: number of candidates, the fastest, that the next round samples.
    """

    samples: int
    keep: int


def halve(
    samples: Samples, rungs: Sequence[Rung], measure: Measure, late: Callable[[], bool] = lambda: False
) -> list[int]:
    """Find the fastest candidate.

    Args:
        samples: earlier samples by candidate, in microseconds; new samples are added.
        rungs: the rounds of the halving.
        measure: function that samples some candidates.
        late: function that returns whether time is up; no further round starts then.

    Returns:
        The candidates that the last round kept, fastest first.

    Example:
        >>> times = {0: 3.0, 1: 1.0, 2: 2.0}
        >>> samples = {i: [t] for i, t in times.items()}
        >>> halve(samples, [Rung(2, 2), Rung(4, 1)], lambda who, n: {i: [times[i]] * n for i in who})
        [1]
        >>> [len(samples[i]) for i in (0, 1, 2)]
        [3, 7, 7]
    """
    left = ranked(samples)
    for rung in rungs:
        if late() or not left:
            break
        found = measure(left, rung.samples)
        for candidate in left:
            if candidate in found:
                samples[candidate] += found[candidate]
            else:
                del samples[candidate]
        left = ranked({i: samples[i] for i in left if i in samples})[: rung.keep]
    return left


def ranked(samples: Mapping[int, Sequence[float]]) -> list[int]:
    """Sort candidates by the median of their samples."""
    return sorted((i for i in samples if samples[i]), key=lambda i: (statistics.median(samples[i]), i))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation; None for fewer than three pairs, or if all values of a side are equal.

    Example:
        >>> rank_correlation([1, 2, 3, 4], [10, 20, 40, 30])
        0.8
    """
    if len(first) < 3:
        return None
    x, y = _ranks(first), _ranks(second)
    mean = (len(x) - 1) / 2
    over = sum((a - mean) * (b - mean) for a, b in zip(x, y, strict=True))
    under = (sum((a - mean) ** 2 for a in x) * sum((b - mean) ** 2 for b in y)) ** 0.5
    return over / under if under else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for i in range(start, end + 1):
            ranks[order[i]] = (start + end) / 2
        start = end + 1
    return ranks
