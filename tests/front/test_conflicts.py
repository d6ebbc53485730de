"""A bank conflict's fix names a pad or swizzle that was tried; where none helps, the general one stays."""

from __future__ import annotations

import re
from typing import Any

import pytest

import fireiron
from fireiron import FR, RF, SH, A, B, Block, Swizzle, Thread, Warp, ldmatrix, matmul
from fireiron.base.errors import Finding
from fireiron.schedules import simt


def conflicts(schedule: Any) -> list[Finding]:
    return [finding for finding in schedule.check("sm_90") if finding.code == "bank-conflicts"]


def cores(refine: Any) -> Any:
    """Write a product on tensor cores whose load of A is refined."""
    chunk = matmul(256, 256, 128, "f16", layout="TN").tile(128, 128).to(Block).epilog(memory=FR).split(64)
    chunk = refine(chunk.load(A, SH)).load(B, SH).swizzle(Swizzle(3, 3, 3)).tile(64, 64).to(Warp)
    chunk = chunk.split(16).unroll().load(A, FR, ldmatrix()).load(B, FR, ldmatrix())
    return chunk.tile(16, 8).unroll().done()


def listing(refine: Any) -> Any:
    """Write Listing 2 with a refined load of A."""
    chunk = refine(matmul(512, 512, 64).tile(128, 128).to(Block).epilog(memory=RF).split(8).load(A, SH)).load(B, SH)
    chunk = chunk.tile(64, 32).to(Warp).tile(8, 8).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chunk.tile(1, 1).unroll().done()


@pytest.mark.parametrize("make", [cores, listing])
def test_the_fix_that_is_printed_removes_the_conflict(make: Any) -> None:
    found = conflicts(make(lambda load: load))
    assert [finding for finding in found if "a_sh" in finding.message]
    for finding in found:
        (refinement,) = re.findall(
            r"^load A to SH with (\..*): tried, and no bank conflict of a_sh is left$", finding.fix
        )
        assert (
            conflicts(make(lambda load, text=refinement: eval(f"load{text}", {"load": load, **vars(fireiron)}))) == []
        )


def test_a_conflict_of_another_buffer_keeps_its_fix() -> None:
    from fireiron import through_shared

    chunk = matmul(64, 64, 32).tile(64, 64).to(Block).epilog(memory=RF, store=through_shared()).split(8)
    chunk = chunk.load(A, SH).load(B, SH).tile(8, 8).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    found = [x for x in conflicts(chunk.tile(1, 1).unroll().done()) if "acc_sh" in x.message]
    assert found
    assert all(x.fix.startswith("load acc_sh with .pad(n)") for x in found)


def test_nothing_is_tried_without_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fireiron.front.conflicts._clean", None)
    assert conflicts(simt.sgemm(matmul(256, 256, 64))) == []
