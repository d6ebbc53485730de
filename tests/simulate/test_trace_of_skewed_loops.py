"""Timelines of skewed loops: a role that computes has a chunk less in its loop than the role that loads."""

from __future__ import annotations

import pytest

from fireiron import tensor
from fireiron.schedules import attention
from fireiron.simulate.trace import trace


@pytest.mark.parametrize("speculate", [False, True])
def test_roles_leave_out_the_same_chunks(speculate: bool) -> None:
    """Speculation takes two chunks in a trip. A role that left out others would wait for ever."""
    spec = attention.attention(*(tensor(1, 1, n, 64, dtype="bf16") for n in (64, 2048, 2048)))
    schedule = attention.wgmma(spec, groups=1, keys=64, stages=2, slack=24 * speculate, speculate=speculate)
    found = trace(schedule.lowered())
    gaps = {event.role: event.count for event in found.events if event.kind == "gap"}
    assert len(gaps) == 2
    assert max(gaps.values()) == min(gaps.values()) * (1 + speculate)
