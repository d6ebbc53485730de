"""What explains a survivor holds for it alone: the same change elsewhere has no explanation."""

from __future__ import annotations

import pytest

from fireiron.kernel.ir.statements import Kernel
from tests.mutate.cases import CASES
from tests.mutate.flow import named
from tests.mutate.harmless import why
from tests.mutate.plant import Mutant, mutants


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """Lower attention that speculates: a first chunk, one more, then pairs of chunks in a loop."""
    return CASES["attention, speculating"]().lowered()


@pytest.fixture(scope="module")
def planted(kernel: Kernel) -> list[Mutant]:
    return list(mutants(kernel))


@pytest.mark.parametrize(
    ("change", "explained"),
    [
        # Sums are 0 in the first chunk, so nothing is wrong with their factor there; later it counts.
        (
            "expr: mul left out @ o",
            ["sums that are still 0 are scaled: whatever the factor, and however often, they stay 0"],
        ),
        (
            "expr: sub left out @ top_factor_rf",
            ["sums that are still 0 are scaled by it: whatever the factor, they stay 0"],
        ),
        # The fence ahead of the scores holds for the values' product behind it, for no other.
        ("place: dropped", ["since the fence before, products began, and nothing else touched registers"]),
        ("slot: without k_ring_slot @ k_full", ["the cursor has not moved yet: its slot is 0"]),
        # An old maximum may rise by any number, or stay; one that was looked for may not.
        ("place: dropped @ top", ["how far an old maximum rises changes time alone: sums count under any"]),
        ("place: dropped @ top_chunk2", ["how far an old maximum rises changes time alone: sums count under any"]),
        ("dst: top_finite_rf at without i9 @ top_finite_rf", ["nobody reads it before it is written again"]),
        ("slot: + 1 @ v_empty", ["all loads have begun: nobody waits for this arrival"]),
    ],
)
def test_a_reason_holds_for_few(kernel: Kernel, planted: list[Mutant], change: str, explained: list[str]) -> None:
    alike = [m for m in planted if named(m).partition(".")[2] == change and (m.kind == "Fence" or " @ " in change)]
    words = [why("another case", m, kernel) for m in alike]
    assert len(alike) > sum(map(bool, words)) > 0
    assert {w for w in words if w} == set(explained)
