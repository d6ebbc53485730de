"""A model of the clocks that a product takes on Hopper by a plan."""

from __future__ import annotations

import math
from functools import cache

from fireiron import MatMulChain
from fireiron.schedules._plan import ROWS, SMS, SPAN, Plan, beside, is_grouped, multiplied, size_of

# What `clocks` was fitted to.
LATENCY = 2510.0  # clocks from asking for a chunk to having it
EMPTYING = 1.16  # of the chunks in a ring, those that are not yet asked for again
STORE_RATE = 13.3  # bytes of C a clock
PARTS = 1.68  # what stores cost of rows that end between the multiples of 32 bytes
VECTORS_RATE = 2.2  # where rows of groups are stored by vectors, each under a predicate
SMALL_TILE = 0.117  # of its products that a tile half as large as 128x256 loses, in the long run
SMALLER = 1.44  # with which power of the missing part that loss grows
MOST_MISSING = 9.0  # as of a tenth of 128x256
LONG_RUN = 9  # waves after which all of it is lost: the chip's power is
ROWS_COST = {64: 1.04, 192: 1.06, 256: 1.114}  # what products of so many rows are taken to cost
TURNS = 120.0  # clocks of staggered warpgroups' turns
CLUSTER = 2700.0  # clocks
DRAM_RATE = 6580.0  # bytes of A and B a clock, all SMs together
GPC_RATE = 1295.0  # bytes a clock that the SMs of a GPC are sent, what several of them ask for counted once
REPEATED_RATE = 11900.0  # bytes a clock that blocks are sent again, from the L2 cache, beside them
TORN = 2.8  # what bytes cost in lines that start between the multiples of 128 bytes; scaled with the rate above
MEETING = 1600.0  # clocks in which blocks count in at a tile; set by hand, as NEAR is: few of the timings have sums
HANDING = 1000.0  # clocks in which a block learns that another has left its sum; not fitted
SUMS_RATE = 21.7  # bytes of partial sums a clock
NEAR = 2400.0  # clocks in which the blocks of a cluster wait for each other's sums, before and behind
NEAR_RATE = 8.5  # bytes of sums a clock that a block reads of the others
HANDLING = 130.0  # clocks of a chunk beside those of its panels, whatever they hold
PANEL = 130.0  # of a panel at least
OUTSIDE = 0.02  # clocks of a row of 128 bytes outside a tensor, where tiles are small and all edges are in one wave
FRAGMENTS = 260.0  # clocks in which a unit takes 64 rows of a chunk through a prolog, and as many before: 8 timings
PROMOTION = 200.0  # clocks from a chunk's last product to the first of its sums' additions; a guess, not fitted

STREAM = 1.2  # what shares of K are taken to cost beside what is counted: a caution, not fitted

GPC = 16  # SMs, on which neighbours in the order of tiles run
GROUPS = (4, 2, 8, 12, 16)  # rows of tiles that are taken together
MOST_WAVES = 4  # of tiles whose order is looked at
FEW_WAVES = 3  # in which the order of tiles that share bytes within a GPC shows


def clocks(plan: Plan, spec: MatMulChain) -> float:
    """Estimate the clocks of a product.

    A chunk takes what its products take (m * n / 32 clocks for 128 bytes of K) and what its bytes for the SMs of a GPC
    take, or, where too few chunks are in flight, its share of the latency, or what handing it over takes; a tile adds
    its store, unless another tile's products hide it. Rows of tiles outside the tensors come slowly, and delay their
    blocks.
    The constants were fitted to 36504 timings of 747 sizes on an H200; those of panels, edges, sums and orders of tiles
    were set by 15695 timings of 571 others.
    """
    sizes = dict(spec.matmul.sizes)
    rows, cols, depth, count = (size_of(sizes.get(dim, 1)) for dim in ("M", "N", "K", "batch"))
    nbytes, out = multiplied(spec).nbytes, spec.matmul.C.dtype.nbytes
    tiles, chunks = work(plan, spec)
    blocks = plan.cluster[0] * plan.cluster[1]
    items, chunks = tiles * plan.ways, -(-chunks // plan.ways)
    at_once = SMS // blocks * blocks
    waves = items / at_once if plan.stream else -(-items // at_once)
    products = plan.m * max(plan.n / 32, (16 + plan.n / 4) / 16) * plan.panels
    missing = min(max(0.0, 128 * 256 / (plan.m * plan.n) - 1), MOST_MISSING)
    products *= 1 + SMALL_TILE * min(1, waves / LONG_RUN) * missing**SMALLER
    products *= ROWS_COST.get(plan.m, 1.0)
    alone = 1 if plan.pingpong else plan.consumers
    if plan.promote:  # a unit adds its sums behind its products, while the others' are running
        products = max(products, products / alone + plan.held / 2 + PROMOTION)
    elif any(operand.ops is not None for operand in spec.residual.operands[:2]):  # and applies prologs before them
        products = max(products, products / alone + FRAGMENTS * (1 + plan.m / alone / ROWS))
    asked = least = min(together(plan, spec, group) for group in GROUPS)
    if waves <= FEW_WAVES:  # what a band asks for beside that is half hidden, in longer runs wholly
        asked = (least + together(plan, spec, plan.group)) / 2
    asked *= SPAN * plan.panels / GPC_RATE
    waiting = LATENCY / (plan.depth(nbytes, out, *beside(spec)) - EMPTYING)
    chunk = max(products + asked, waiting, HANDLING + PANEL * plan.panels)
    rate = VECTORS_RATE if is_grouped(spec) else STORE_RATE
    parts = PARTS if plan.n * out % 32 and not plan.swapped else 1.0
    store, sums = plan.m * plan.n * out / rate * parts, plan.m * plan.n * 4 / SUMS_RATE
    if plan.through == "cluster":
        store += NEAR + plan.m * plan.n * 4 / NEAR_RATE
    elif plan.ways > 1:
        store += MEETING + (1 + plan.ways) * sums
    meeting = CLUSTER if blocks > 1 else 0.0
    if plan.stream:  # one sum is left, those of one tile are taken
        meeting += sums + -(-at_once // items) * (sums + HANDING) + (-(-items // at_once) - waves) * store
    torn = TORN if _torn(spec) else 1.0
    once = (rows * (1 if is_grouped(spec) else count) + cols * count) * depth * nbytes * torn
    sent = items * chunks * (plan.m / plan.cluster[1] + plan.n / plan.cluster[0]) * SPAN * plan.panels * torn
    arriving = once / DRAM_RATE + max(0, sent - once) / REPEATED_RATE
    meeting += OUTSIDE * _outside(plan, spec) * chunks * plan.ways * plan.panels / waves * min(1.0, missing)
    if plan.pingpong:
        main = waves * max(chunks * chunk, (chunks * chunk + store) / 2)
        return max(main, arriving) + store + meeting + TURNS
    return (max(waves * chunks * chunk, arriving) + waves * store + meeting) * (STREAM if plan.stream else 1)


def _outside(plan: Plan, spec: MatMulChain) -> int:
    """Count the rows and columns that tiles have outside of A and B, all tiles together."""
    if is_grouped(spec):
        return 0
    sizes = dict(spec.matmul.sizes)
    rows, cols = (size_of(sizes[dim]) for dim in ("MN" if not plan.swapped else "NM"))
    high, wide = tiles_of(plan, spec)
    below, beyond = high * plan.m * plan.cluster[0] - rows, wide * plan.n * plan.cluster[1] - cols
    return (below * wide + beyond * high) * size_of(sizes.get("batch", 1))


def _torn(spec: MatMulChain) -> bool:
    """Say whether lines of an operand start between the multiples of 128 bytes: a row of a box is then two pieces."""
    return any(
        isinstance(stride, int) and stride != 1 and stride * tensor.dtype.nbytes % SPAN
        for tensor in (spec.left, spec.right)
        for stride in tensor.strides
    )


def work(plan: Plan, spec: MatMulChain) -> tuple[int, int]:
    """Count the tiles of blocks and the chunks of K."""
    sizes = dict(spec.matmul.sizes)
    rows, cols, depth, count = (size_of(sizes.get(dim, 1)) for dim in ("M", "N", "K", "batch"))
    chunks = -(-depth * multiplied(spec).nbytes // (SPAN * plan.panels))
    high, wide = plan.m * plan.cluster[0], plan.n * plan.cluster[1]
    blocks = plan.cluster[0] * plan.cluster[1]
    if not is_grouped(spec):
        return math.prod(tiles_of(plan, spec)) * count * blocks, chunks
    if plan.swapped:
        return -(-cols // high) * math.ceil(_ragged(rows, wide, count)) * blocks, chunks
    return math.ceil(_ragged(rows, high, count)) * -(-cols // wide) * blocks, chunks


def _ragged(rows: int, tile: int, groups: int) -> float:
    """Count the tiles that groups of so many rows in all take on average: the last one of each is half full."""
    return groups * max(1.0, rows / (groups * tile) + 0.5)


def tiles_of(plan: Plan, spec: MatMulChain) -> tuple[int, int]:
    """Count tiles of clusters along the rows and the columns of the product as it is scheduled."""
    sizes = dict(spec.matmul.sizes)
    rows, cols = (size_of(sizes[dim]) for dim in ("MN" if not plan.swapped else "NM"))
    return -(-rows // (plan.m * plan.cluster[0])), -(-cols // (plan.n * plan.cluster[1]))


def together(plan: Plan, spec: MatMulChain, group: int) -> float:
    """Count the rows and columns of A and B that the SMs of a GPC ask for with each chunk, each once."""
    blocks = plan.cluster[0] * plan.cluster[1] * plan.ways
    each = min(plan.ways, GPC // (plan.cluster[0] * plan.cluster[1]))
    return _distinct(plan, spec, group, max(1, round(GPC / blocks)), max(1, SMS // blocks)) * each


def unshared(plan: Plan, spec: MatMulChain, group: int) -> float:
    """Weigh those against the ones that all SMs ask for at once, which each wave reads anew."""
    at_once = max(1, SMS // (plan.cluster[0] * plan.cluster[1] * plan.ways))
    return together(plan, spec, group) / 2 + _distinct(plan, spec, group, at_once, MOST_WAVES * at_once)


def _distinct(plan: Plan, spec: MatMulChain, group: int, window: int, count: int) -> float:
    high, wide = _spread(*tiles_of(plan, spec), group, window, count)
    return high * plan.m * plan.cluster[0] + wide * plan.n * plan.cluster[1]


@cache
def _spread(high: int, wide: int, group: int, window: int, count: int) -> tuple[float, float]:
    """Count the rows and the columns of tiles among neighbours in the order of tiles, on average.

    Args:
        high, wide: tiles.
        group: rows of them that are taken together.
        window: neighbours.
        count: tiles at work at once.
    """
    count = min(count, high * wide)
    seen = [0, 0]
    for first in range(0, count, window):
        rows: set[int] = set()
        cols: set[int] = set()
        for item in range(first, min(count, first + window)):
            band, place = divmod(item, group * wide)
            here = min(group, high - band * group)
            rows.add(band * group + place % here)
            cols.add(place // here)
        seen[0] += len(rows)
        seen[1] += len(cols)
    return seen[0] * window / count, seen[1] * window / count
