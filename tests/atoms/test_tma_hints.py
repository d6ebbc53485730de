"""Rows of bulk copies with a hint to the L2 cache: what they print, and that the hint reaches the machine code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hopper_kernels import bulk_kernel

from fireiron.algebra.arch import arch
from fireiron.algebra.dtypes import f32
from fireiron.atoms.table import TABLE, chosen_from, every, find
from fireiron.atoms.tma import POLICIES, RANKS, SPANS, TMA, hinted
from fireiron.cuda.printer import source
from fireiron.jit.compile import compile_source
from fireiron.jit.disassemble import disassemble

HOPPER = arch("sm_90a")
# Bits 52 to 63 of a policy for all lines, as ptxas computes it.
ENCODED = {"evict_first": "0x120", "evict_last": "0x140", "evict_normal": "0x160", "evict_unchanged": "0x100"}
COPIES = r"(UTMALDG|UTMASTG|UTMAREDG)\S* (.*?) ;"


def boxes(rank: int, add: bool, policy: str | None, span: int = 0):
    shape, box, at = (3, 2, 4, 24, 64)[-rank:], (1, 2, 2, 8, 8)[-rank:], (1, 0, 1, 8, 16)[-rank:]
    return bulk_kernel(f32, shape, box, at, span, add, policy=policy)


def test_rows_are_made_on_demand():
    assert len(hinted()) == len(POLICIES) * len(TMA)
    assert len({row.name for row in every()}) == len(every())
    assert not set(hinted()) & set(TABLE)
    for rank in RANKS:
        for span in SPANS:
            plain, hint = chosen_from(f"tma.load.{rank}d.{span}B")[0], find(f"tma.load.{rank}d.{span}B.evict_last")
            assert plain in TABLE
            assert hint is not None
            assert (hint.operands, hint.completion, hint.arch) == (plain.operands, plain.completion, plain.arch)
            assert find(f"{hint.name}.multicast") in hinted()


@pytest.mark.product
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rank", RANKS)
def test_hints_of_every_rank_reach_the_ptx(rank, policy, add):
    kernel = boxes(rank, add, policy, span=128 if rank == 2 else 0)
    ptx = compile_source(source(kernel), kernel.name, HOPPER).ptx
    made = "|".join(re.findall(rf"createpolicy\.fractional\.L2::{policy}\.b64\s+(%rd\d+), ", ptx))
    assert made
    load = rf"\.tensor\.{rank}d\.shared::cluster\S*complete_tx::bytes\.L2::cache_hint \[.*\], ({made});"
    store = rf"cp\.{'reduce.' if add else ''}async\S*{rank}d\.global\S*bulk_group\.L2::cache_hint \[.*\], ({made});"
    assert re.search(load, ptx)
    assert re.search(store, ptx)


@pytest.mark.product
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_hints_reach_the_machine_code(policy, add):
    kernel = boxes(2, add, policy)
    sass = disassemble(compile_source(source(kernel), kernel.name, HOPPER).cubin)
    copies = dict(re.findall(COPIES, sass))
    assert list(copies) == ["UTMALDG", "UTMAREDG" if add else "UTMASTG"]
    assert all("desc[UR" in operands for operands in copies.values())
    assert [value for value in ENCODED.values() if re.search(rf"MOV U?R\d+, {value} ;", sass)] == [ENCODED[policy]]


def test_without_a_hint_there_is_none():
    text = source(boxes(2, False, None))
    assert "polic" not in text
    sass = disassemble(compile_source(text, "boxes", HOPPER).cubin)
    copies = re.findall(COPIES, sass)
    assert len(copies) == 2
    assert all("desc[UR" not in operands for _, operands in copies)
