"""Random schedules on random sizes: each is refused with a code and a fix, or computes the product without a race."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    RowMajor,
    Strided,
    Swizzle,
    Thread,
    Warp,
    conform,
    matmul,
    relu,
    staged,
    symbol,
    through_shared,
    vector,
)

# Some of the first, and those that once found a mistake: barriers of warps taken for barriers of blocks, ranges of
# idle threads taken for those of busy ones, permutations that are none, coordinates of equal strides. The exhaustive
# run has 2000.
SEEDS = (*range(15), 50, 70, 124, 185, 246, 253, 260, 261)


def random_schedule(seed: int) -> tuple[Any, dict[str, int]]:
    """Draw a schedule, and the values of its symbols."""
    rng = random.Random(seed)
    pick: Callable[..., Any] = rng.choice
    size = {d: pick([1, 7, 16, 33, 48, 64, 65]) for d in "MNK"}
    symbols = rng.random() < 0.2
    dims = [symbol(d) if symbols else n for d, n in size.items()]
    dtype = pick(["f32", "f32", "f16", "i8", "f64"])
    layout = pick(["NN", "NT", "TN", "TT"])
    chain: Any = matmul(*dims, dtype, layout=layout, out=pick([None, "f32"]) if dtype == "f16" else None)
    tm, tn = pick([8, 16, 24, 32, 48]), pick([8, 16, 20, 32, 64])
    chain = chain.tile(tm, tn).to(Block)
    if rng.random() < 0.3:
        chain = chain.layout(ColMajor)
    store = pick(
        [None, None, conform(), through_shared(), through_shared(panel=(8, 8)), through_shared(pad=1, reuse=True)]
    )
    chain = chain.epilog(*pick([(), (relu,)]), memory=pick([RF, FR]), store=store)
    loads = pick([(A, B), (A, B), (B, A), (A,), (B,), ()])
    deep = rng.random() < 0.25  # load below the tile to warps

    def shared(chain: Any) -> Any:
        for operand in loads:
            chain = chain.load(operand, SH, pick([None, vector(), staged()]))
            refine = pick([
                lambda c: c, lambda c: c.pad(1), lambda c: c.storage_layout(ColMajor),
                lambda c: c.storage_layout(RowMajor), lambda c: c.swizzle(Swizzle(2, 2, 3)), lambda c: c.reuse_buffer(),
            ])  # fmt: skip
            chain = refine(chain)
        return chain

    chain = chain.split(pick([4, 8, 12]))
    if rng.random() < 0.5 and loads and not deep:
        chain = chain.pipeline(pick([2, 3]))
    if not deep:
        chain = shared(chain)
    wm, wn = pick([m for m in (4, 8, 12, 16, 24, 32) if m <= tm]), pick([n for n in (4, 8, 10, 16, 32) if n <= tn])
    if rng.random() < 0.8:
        chain = chain.tile(wm, wn).to(Warp)
    else:
        wm, wn = tm, tn
    if deep:
        chain = shared(chain)
    if rng.random() < 0.3:
        chain = chain.split(pick([2, 3, 4]))
    m, n = pick([m for m in (1, 2, 3, 4, 8) if m <= wm]), pick([n for n in (1, 2, 4, 5) if n <= wn])
    if rng.random() < 0.25 and wm % (2 * m) == 0 and wn % (2 * n) == 0:
        chain = chain.tile(Strided((m, wm // 2), (n, wn // 2))).to(Thread)
    else:
        chain = chain.tile(m, n).to(Thread)
    chain = pick([lambda c: c, lambda c: c.layout(ColMajor), lambda c: c.permute(lambda i: i ^ 3)])(chain)
    chain = chain.split(1).unroll()
    if rng.random() < 0.3:
        chain = chain.pipeline(2)
    chain = chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    return chain, size if symbols else {}


def attempt(seed: int) -> tuple[Any, dict[str, int]] | FireironError:
    """Give a schedule with the values of its symbols, or the refusal."""
    try:
        return random_schedule(seed)
    except FireironError as error:
        return error


def outcome(seed: int, right: Callable[..., Any]) -> str:
    """Give `right`, or the code of the refusal."""
    made = attempt(seed)
    if isinstance(made, FireironError):
        assert made.fix, str(made)
        assert made.underlined, str(made)
        return made.code
    schedule, sizes = made
    product = (lambda p, x: p.clip(0)) if "max" in str(schedule.links[1]) else None
    right(schedule, product, **sizes)
    return "right"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_schedules(right: Callable[..., Any], seed: int) -> None:
    outcome(seed, right)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2000))
def test_many_random_schedules(right: Callable[..., Any], seed: int) -> None:
    outcome(seed, right)
