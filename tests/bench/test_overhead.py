"""The host's part of a call: measured without a GPU, and short."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

from bench import overhead
from bench.main import main
from fireiron.front import best as choosing

LIMITS_US = {  # on a quiet machine
    "fireiron call": 5.0,
    "fireiron.gemm, fresh addresses": 8.0,
    "the same, with an epilog": 12.0,
    "the same, with an epilog and leading dimensions": 12.0,
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    monkeypatch.setattr(overhead, "CALLS", 200)


def test_the_hosts_part_is_short(slowness: Callable[[float], float]) -> None:
    medians: dict[str, float] = {}
    for _ in range(25):  # a busy machine is slow for a while
        found = [(overhead.host_part(rounds=3), slowness(20.0)) for _ in range(5)]
        medians = {name: statistics.median(us[name] / slow for us, slow in found) for name in LIMITS_US}
        if all(medians[name] < limit for name, limit in LIMITS_US.items()):
            return
    pytest.fail(f"us a call, as if the machine were quiet: {medians}, limits: {LIMITS_US}")


def test_what_was_not_timed_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "host_part", lambda: {"fireiron call": 3.0})
    assert overhead._without_gpu("torch is not installed") == 0
    said = "fireiron call, host part only: 3.00 us\nno launch was timed: torch is not installed\n"
    assert capsys.readouterr().out == said
    monkeypatch.setattr(overhead, "run", lambda: 0)
    assert main(["overhead"]) == 0
