"""A model of a product's time on Hopper, in clocks, for a plan."""

from __future__ import annotations

import math
import operator
from functools import lru_cache

from fireiron import MatMulChain, ProductClocks
from fireiron.schedules._plan import (
    MACHINE,
    ROWS,
    SMS,
    SPAN,
    Plan,
    arrivals,
)
from fireiron.schedules._product import Product

FIT = MACHINE.products
assert FIT is not None, "the model of products is for Hopper"

GPC = MACHINE.gpc_sms
GROUPS = (4, 2, 8, 12, 16)  # numbers of rows of tiles that blocks visit together, to choose from
MOST_WAVES = 4  # waves of tiles whose order the model simulates
MOST_KEPT = 1 << 14  # numbers of rows and columns
# By bytes of an element: a chunk that a warpgroup copies through registers takes COPYING clocks, COPIED_ROW clocks for
# each row of 128 bytes, and COPIED_BESIDE clocks for each clock of the products that run meanwhile; UNEVEN times as
# many if a tile's rows are no multiple of EVEN.
# Fitted to 93 timings of 45 products; notebooks/numbers.md has them.
COPYING = {1: 320.0, 4: 115.0}
COPIED_ROW = {1: 8.4, 4: 5.7}
COPIED_BESIDE = {1: 0.92, 4: 0.77}
EVEN = {1: 64, 4: 128}
UNEVEN = {1: 1.3, 4: 1.16}
DRIFT = 56  # chunks of 128 bytes after which blocks that share tiles are no longer at the same rows
# For a deep product whose blocks all run at once and add shares of their tile's sum: clocks in which a block receives
# 128 bytes; bytes of operands that all blocks receive in a clock; bytes of partial sums that a block reads in a clock.
# Fitted to 78 timings of 8 products on an H200, with a constant and an error of 7 % (root mean square).
TOGETHER_ROW = 2.41
TOGETHER_RATE = 2363.0
TOGETHER_SUMS = 25.6
FEW_WAVES = 3  # number of waves up to which the order of tiles that share loads within a GPC counts


def clocks(plan: Plan, spec: MatMulChain, fit: ProductClocks = FIT) -> float:
    """Estimate the time of a product, in clocks.

    The time of a chunk is the largest of three times: products (m * n / 32 clocks for 128 bytes of K) plus loads for
    the SMs of a GPC; the latency of loads divided by the chunks in flight; and the handover between roles. A tile adds
    the time of its store, unless products of another tile run at the same time. Rows of a tile outside the tensors load
    slowly, and delay its block. The machine's constants were fitted to timings by `python -m fireiron.bench fit`.
    """
    return modelled(plan, Product(spec), fit)


def modelled(plan: Plan, product: Product, fit: ProductClocks = FIT) -> float:
    """Estimate the time of a product whose facts are known, in clocks; see `clocks`."""
    rows, cols, depth, count = product.sizes
    nbytes, out = product.nbytes, product.out_nbytes
    tiles, chunks = work(plan, product)
    blocks = plan.cluster[0] * plan.cluster[1]
    items, chunks = tiles * plan.ways, -(-chunks // plan.ways)
    at_once = MACHINE.sms_of_clusters(blocks)
    waves = items / at_once if plan.stream else -(-items // at_once)
    products = plan.m * max(plan.n / 32, (16 + plan.n / 4) / 16) * plan.panels
    missing = min(max(0.0, 128 * 256 / (plan.m * plan.n) - 1), fit.most_missing)
    products *= 1 + fit.small_tile * min(1, waves / fit.long_run) * missing**fit.smaller
    products *= next((cost for m, cost in fit.rows_cost if m == plan.m), 1.0)
    alone = 1 if plan.pingpong else plan.consumers
    ways_in = arrivals(plan, product)
    if plan.promote:  # a unit adds its sums after its products, while the products of other units run
        products = max(products, products / alone + plan.held / 2 + fit.promotion)
    elif "registers" in ways_in:  # and loads its fragments before them, with prologs applied
        products = max(products, products / alone + fit.fragments * (1 + plan.m / alone / ROWS))
    places = tiles_of(plan, product)
    asked = least = _least_together(*places, *sides_of(plan), blocks, plan.ways)
    if waves <= FEW_WAVES:  # half of a band's further loads are hidden; in longer runs all of them
        asked = (least + together(plan, places, plan.group)) / 2
    wide, pieces = plan.loaded(product), plan.in_pieces(product)
    split = any(pieces)
    asked *= SPAN * plan.panels / fit.gpc_rate
    waiting = fit.latency / (plan.depth(product) - fit.emptying)
    if plan.ways > 1 and plan.through == "grid":
        sent = (plan.m / plan.cluster[1] + wide / plan.cluster[0]) * plan.panels
        chunk = max(
            products, waiting, sent * (fit.torn_row if split else TOGETHER_ROW), _copying(plan, product, products)
        )
        once = (rows + cols) * depth * nbytes * (fit.torn if split else 1.0)
        sums = (1 + plan.ways / plan.shares(out)) * plan.m * plan.n * 4
        return chunks * chunk + once / TOGETHER_RATE + sums / TOGETHER_SUMS
    chunk = max(products + asked, waiting, fit.handling + fit.panel * plan.panels)
    # Rows of two lines of the L2 cache are sent to each block by itself, and so are those of blocks that share tiles:
    # in long loops they drift apart.
    trips = items * chunks / SMS if plan.stream else chunks
    drifting = (plan.ways > 1 or (plan.stream and items < SMS)) and trips * plan.panels >= DRIFT
    if split or drifting:
        sides = plan.m / plan.cluster[1], wide / plan.cluster[0]
        at_work = 1.0 if plan.stream else min(1.0, items / SMS)  # fraction of the blocks that have a tile
        rates = (fit.drifting_row, fit.drifting_row)
        if split:  # few blocks are hardly faster
            at_work = max(at_work, fit.least_at_work)
            rates = [fit.whole_row + (fit.torn_row - fit.whole_row) * part for part in pieces]
        chunk = max(chunk, sum(map(operator.mul, sides, rates)) * plan.panels * at_work)
    copied = _copying(plan, product, products)
    chunk = max(chunk, copied)
    rate = fit.vectors_rate if product.by_vectors else fit.store_rate
    parts = fit.parts if plan.n * out % 32 and not plan.swapped else 1.0
    store, sums = plan.m * plan.n * out / rate * parts, plan.m * plan.n * 4 / fit.sums_rate
    if plan.through == "cluster":
        store += fit.near + plan.m * plan.n * 4 / fit.near_rate
    elif plan.ways > 1:
        store += fit.meeting + (1 + plan.ways) * sums
    meeting = fit.cluster if blocks > 1 else 0.0
    if plan.stream:  # one sum is left, those of one tile are taken
        meeting += sums + -(-at_once // items) * (sums + fit.handing) + (-(-items // at_once) - waves) * store
    once = (rows * (1 if product.grouped else count) + cols * count) * depth * nbytes * (fit.torn if split else 1.0)
    sent = items * chunks * (plan.m / plan.cluster[1] + wide / plan.cluster[0]) * SPAN * plan.panels
    sent *= fit.torn if split else 1.0
    arriving = once / fit.dram_rate + max(0, sent - once) / fit.repeated_rate
    meeting += fit.outside * _outside(plan, product) * chunks * plan.ways * plan.panels / waves * min(1.0, missing)
    if plan.pingpong:
        main = waves * max(chunks * chunk, (chunks * chunk + store) / 2)
        return max(main, arriving) + store + meeting + fit.turns
    # Copies of 8-bit elements hide what a stream costs, and so do lines that two lines of the L2 cache hold.
    slower = fit.stream if plan.stream and not split and not (copied and nbytes == 1) else 1.0
    return (max(waves * chunks * chunk, arriving) + waves * store + meeting) * slower


def _copying(plan: Plan, product: Product, products: float) -> float:
    """Estimate the clocks in which threads transpose a chunk's operands; 0 where they transpose none."""
    turned = [rows for rows, way in zip((plan.m, plan.n), arrivals(plan, product), strict=True) if way == "threads"]
    if not turned:
        return 0.0
    nbytes = product.nbytes
    taken = COPYING[nbytes] + sum(turned) * COPIED_ROW[nbytes] + products * COPIED_BESIDE[nbytes]
    return taken * (UNEVEN[nbytes] if any(rows % EVEN[nbytes] for rows in turned) else 1.0)


def _outside(plan: Plan, product: Product) -> int:
    """Count the rows and columns of all tiles that lie outside A and B."""
    if product.grouped:
        return 0
    rows, cols = product.sizes[1::-1] if plan.swapped else product.sizes[:2]
    high, wide = tiles_of(plan, product)
    below, beyond = high * plan.m * plan.cluster[0] - rows, wide * plan.n * plan.cluster[1] - cols
    return (below * wide + beyond * high) * product.sizes[3]


def work(plan: Plan, product: Product) -> tuple[int, int]:
    """Return the number of tiles of blocks, and the number of chunks of K."""
    rows, cols, depth, count = product.sizes
    chunks = -(-depth * product.nbytes // (SPAN * plan.panels))
    high, wide = plan.m * plan.cluster[0], plan.n * plan.cluster[1]
    blocks = plan.cluster[0] * plan.cluster[1]
    if not product.grouped:
        return math.prod(tiles_of(plan, product)) * count * blocks, chunks
    if plan.swapped:
        return -(-cols // high) * math.ceil(_ragged(rows, wide, count)) * blocks, chunks
    return math.ceil(_ragged(rows, high, count)) * -(-cols // wide) * blocks, chunks


def _ragged(rows: int, tile: int, groups: int) -> float:
    """Return the average number of tiles of groups with `rows` rows in all; the last tile of each is half full."""
    return groups * max(1.0, rows / (groups * tile) + 0.5)


def tiles_of(plan: Plan, product: Product) -> tuple[int, int]:
    """Return the numbers of cluster tiles along the rows and columns of the product as scheduled (after `swapped`)."""
    return tiles_by(sides_of(plan), plan.swapped, product)


def tiles_by(sides: tuple[int, int], swapped: bool, product: Product) -> tuple[int, int]:
    """Return the result of `tiles_of` for cluster tiles of some rows and columns."""
    rows, cols = product.sizes[1::-1] if swapped else product.sizes[:2]
    return -(-rows // sides[0]), -(-cols // sides[1])


def together(plan: Plan, tiles: tuple[int, int], group: int) -> float:
    """Count the distinct rows and columns of A and B that the SMs of a GPC load for a chunk.

    Args:
        plan: the plan of the blocks that load.
        tiles: numbers of cluster tiles along the rows and columns, as `tiles_of` returns them.
        group: number of rows of tiles that blocks at work together cover.
    """
    return _together(*tiles, *sides_of(plan), plan.cluster[0] * plan.cluster[1], plan.ways, group)


def sides_of(plan: Plan) -> tuple[int, int]:
    """Return the rows and columns of a cluster's tile."""
    return plan.m * plan.cluster[0], plan.n * plan.cluster[1]


# Plans that differ in what is not asked here share the numbers.
@lru_cache(MOST_KEPT)
def _together(high: int, wide: int, rows: int, cols: int, cluster: int, ways: int, group: int) -> float:
    blocks, each = cluster * ways, min(ways, GPC // cluster)
    return _distinct((high, wide), (rows, cols), group, max(1, round(GPC / blocks)), max(1, SMS // blocks)) * each


@lru_cache(MOST_KEPT)
def _least_together(high: int, wide: int, rows: int, cols: int, cluster: int, ways: int) -> float:
    return min(_together(high, wide, rows, cols, cluster, ways, group) for group in _groups(high))


@lru_cache(MOST_KEPT)
def group_of(tiles: tuple[int, int], sides: tuple[int, int], cluster: int, grouped: bool) -> int:
    """Choose the rows of tiles that blocks visit together: a GPC's blocks, and a wave's, are to load few lines.

    Args:
        tiles: numbers of cluster tiles along the rows and columns, as `tiles_of` returns them.
        sides: rows and columns of a cluster's tile.
        cluster: number of its blocks.
        grouped: whether products are groups: bands of many rows would reach into others.
    """
    at_once = max(1, SMS // cluster)

    def asked(group: int) -> float:
        near = _together(*tiles, *sides, cluster, 1, group)
        return near if grouped else near / 2 + _distinct(tiles, sides, group, at_once, MOST_WAVES * at_once)

    return min(_groups(tiles[0]), key=asked)


@lru_cache(MOST_KEPT)
def _groups(high: int) -> tuple[int, ...]:
    """List the groups to choose from; the first that covers all rows of tiles stands for all such, of one order."""
    whole = next((group for group in GROUPS if group >= high), 0)
    return tuple(group for group in GROUPS if group < high or group == whole)


def _distinct(tiles: tuple[int, int], sides: tuple[int, int], group: int, window: int, count: int) -> float:
    high, wide = _spread(*tiles, group, window, count)
    return high * sides[0] + wide * sides[1]


@lru_cache(MOST_KEPT)
def _spread(high: int, wide: int, group: int, window: int, count: int) -> tuple[float, float]:
    """Return the average numbers of rows and of columns of tiles among consecutive tiles.

    Args:
        high, wide: numbers of tiles along rows and along columns.
        group: rows of tiles that are visited together.
        window: number of consecutive tiles.
        count: number of tiles that run at once.
    """
    count, band = min(count, high * wide), group * wide
    rows = cols = 0
    for first in range(0, count, window):
        last = min(count, first + window) - 1
        top, bottom = first // band, last // band
        start, end = first - top * band, last - bottom * band
        # Neighbours of one band are in as many rows as they are, and in columns side by side; bands share no row.
        here = high - bottom * group
        here = group if group < here else here
        if top == bottom:
            rows += here if here <= end - start else end - start + 1
            cols += end // here - start // here + 1
            continue
        left = band - start  # of the first band, which has all its rows: bands follow it
        rows += min(group, left) + (bottom - top - 1) * group + min(here, end + 1)
        apart = start // group - end // here - 1  # columns between those of the last band and those of the first
        cols += wide - (max(0, apart) if bottom - top == 1 else 0)
    return rows * window / count, cols * window / count
