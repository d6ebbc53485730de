"""A range of blocks of an SM: the largest number with which registers do not spill."""

from __future__ import annotations

import re
from typing import Any

import pytest

import fireiron as fi
from fireiron.base.errors import CompileError
from fireiron.jit import build
from fireiron.schedules import rows
from fireiron.show.words import refinements

COLUMNS = 1024  # 32 of each lane


def schedule(resident: Any, columns: int = COLUMNS) -> Any:
    chain = rows.softmax(fi.Matrix(4000, columns, "bf16"), arch="sm_90a").tile(m=4).to(fi.Block, resident=resident)
    chain = chain.tile(m=1).to(fi.Warp).load("x", fi.RF, fi.vector(16))
    return chain.epilog(memory=fi.RF).done()


def blocks(source: str) -> int:
    found = re.search(r"__launch_bounds__\(128, (\d+)\)", source)
    return int(found.group(1)) if found else 0


def test_more_blocks_than_registers_permit_become_fewer() -> None:
    with pytest.raises(CompileError) as caught:
        schedule(12).compile("sm_90a", cache=False)
    assert caught.value.code == "spills"
    wanted = schedule((1, 16))
    kernel = wanted.compile("sm_90a", cache=False)
    assert not kernel.resources.spills
    assert blocks(wanted.cuda("sm_90a")) == 16
    fewer = schedule(10).compile("sm_90a", cache=False)
    assert kernel.resources.registers == fewer.resources.registers == 48


def test_no_fewer_blocks_than_the_least_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    real = build.compile_source

    def spy(source: str, *args: Any, **options: Any) -> Any:
        tried.append(blocks(source))
        return real(source, *args, **options)

    monkeypatch.setattr(build, "compile_source", spy)
    with pytest.raises(CompileError):
        schedule((12, 16)).compile("sm_90a", cache=False)
    assert tried[0] == 16
    assert tried[-1] == min(tried) == 12
    tried.clear()
    schedule((1, 8)).compile("sm_90a", cache=False)
    assert tried == [8]


def test_a_range_is_said_and_kept() -> None:
    (tile, *_) = schedule((2, 12)).links
    assert (tile.resident, tile.wanted) == (2, 12)
    assert "at most 12 resident" in refinements(tile).values()
