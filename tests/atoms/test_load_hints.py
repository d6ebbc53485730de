"""Loads with a hint to the L1 cache: their rows, what reaches PTX and machine code, and what they load."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.algebra.dtypes import i8
from fireiron.atoms.copy import COPIES, loads
from fireiron.atoms.table import TABLE, chosen_from, every, find
from fireiron.language.atom import LOAD_POLICIES

NBYTES = (16, 8, 4, 2, 1)


@fi.program(x="m n")
def doubled(x: fi.Value) -> fi.Value:
    """Double each element."""
    return x + x


def schedule(lines: int, width: int, nbytes: int, policy: Any, dtype: Any = i8) -> Any:
    chain = doubled(fi.tensor(lines, width, dtype=dtype, name="x"), arch="sm_90a").tile(m=4).to(fi.Block)
    chain = chain.tile(m=1).to(fi.Warp).load("x", fi.RF, fi.vector(nbytes, l1=policy))
    return chain.epilog(memory=fi.RF).done()


def test_rows_are_made_on_demand() -> None:
    assert len(loads()) == len(LOAD_POLICIES) * len(NBYTES)
    assert not set(loads()) & set(TABLE)
    assert set(loads()) <= set(every())
    assert [row.nbytes for row in chosen_from("ld.global.no_allocate")] == [*NBYTES]
    plain = next(row for row in COPIES if row.name == "copy.8B.GL.RF")
    hint = find("ld.global.evict_last.8B")
    assert hint is not None
    assert (hint.operands, hint.nbytes, hint.clocks) == (plain.operands, plain.nbytes, plain.clocks)


@pytest.mark.parametrize("policy", LOAD_POLICIES)
@pytest.mark.parametrize("nbytes", NBYTES)
def test_hints_of_every_width_reach_the_ptx(nbytes: int, policy: Any) -> None:
    kernel = schedule(6, 512, nbytes, policy).compile()
    kind = {16: "v4.b32", 8: "v2.b32", 4: "b32", 2: "b16", 1: "b8"}[nbytes]
    assert re.search(rf"@%?p\d* ld\.global\.L1::{policy}\.{kind}|@p ld\.global\.L1::{policy}\.{kind}", kernel.ptx)
    assert "ld.global.nc" not in kernel.ptx


@pytest.mark.parametrize("nbytes", NBYTES)
def test_lines_that_are_missing_are_zeros(nbytes: int) -> None:
    x = np.random.default_rng(nbytes).integers(-60, 60, (6, 512)).astype(np.int8)
    made = schedule(6, 512, nbytes, "no_allocate")
    np.testing.assert_array_equal(made.simulate(x).out, 2 * x)
    assert "_or_zero_" in made.cuda()


def test_a_hint_reaches_the_machine_code() -> None:
    hinted = schedule(8, 512, 16, "no_allocate").compile("sm_90a").sass
    plain = schedule(8, 512, 16, None).compile("sm_90a").sass
    assert re.search(r"LDG\.E\.NA", hinted)
    assert not re.search(r"LDG\.E\.NA", plain)


def test_loads_from_shared_memory_have_no_such_hint() -> None:
    chain = doubled(fi.tensor(8, 512, dtype="f16", name="x"), arch="sm_90a").tile(m=4).to(fi.Block)
    chain = chain.load("x", fi.SH, fi.cp_async()).tile(m=1).to(fi.Warp)
    with pytest.raises(fi.FireironError) as caught:
        chain.load("x", fi.RF, fi.vector(16, l1="no_allocate")).epilog(memory=fi.RF).done()
    assert caught.value.code == "no-atom"
    assert "GL" in str(caught.value)


def test_every_target_has_them() -> None:
    for name in ("sm_70", "sm_75", "sm_80", "sm_120"):
        made = doubled(fi.tensor(8, 512, dtype="f16", name="x"), arch=name).tile(m=4).to(fi.Block).tile(m=1)
        made = made.to(fi.Warp).load("x", fi.RF, fi.vector(16, l1="evict_first")).epilog(memory=fi.RF).done()
        assert not made.compile(name).resources.spills
