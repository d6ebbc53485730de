"""Plans for Hopper: those that fit a product, in the order of their modelled times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

from fireiron import MatMulChain, RowMajor, Rows, Tensor
from fireiron.schedules._clocks import group_of, modelled, tiles_by, work
from fireiron.schedules._plan import (
    MACHINE,
    ROWS,
    SMS,
    Plan,
    arrivals,
    copied,
    oriented,
    room,
)
from fireiron.schedules._product import Product, size_of

LIGHT = 80  # columns of 64 rows up to which chunks of two panels pay: 64x40 took 0.86 of its time at 384x768x3584
HELD = 192  # registers of sums and fragments beside which 240 leave room for a prolog
HELD_BESIDE = 168  # the same beside 200, where threads that load hold what they copy
COPIED = 256  # rows that they copy of a chunk: 64 of their registers
LARGE = 128 * 256  # elements of a tile whose copied operands took reads' time divided by 1.00 to 1.15
MOST_SHORT, SHORT_TILE = 16, 128 * 128  # chunks and elements of tiles in turn where it was by 1.09 and 1.13
STREAMED = range(16 << 20, 256 << 20)  # bytes of an operand that few tiles read; 470 MB lost 8 % by hints
FEW = 8  # tiles that read it, where all run at once: 384x3456x3840 took 20.7 us, 18.5 with hints

MOST_WAYS = 16
MOST_NEAR = 8  # blocks of a cluster
PAIRED = 120  # blocks in clusters of two that run at once: a cluster lies within one GPC
TOGETHER = 96  # of three and more
PAIRS = (((1, 1), 1), ((2, 1), 1), ((1, 1), 2))  # clusters, and panels of a chunk
# Each row of a line off 128 bytes is sent to a block in two pieces, and four blocks that share them ask for fewer rows:
# of 25 drawn products a cluster of four was the fastest for eight, by 2 % in the mean of all. (2, 2) gains no more.
FOURS = (*PAIRS, ((4, 1), 1))
# Columns of tiles where n runs along lines. Of 70 drawn products in NN, NT and TT 14 have another first plan than with
# whole swizzled rows of 64; these take 0.972 of the time (0.88 to 1.035). With 8 columns one more is slower.
ALONG_LINES = 16
LEAST_CHUNKS = 4  # of a way
# Products of a small C and a long K: blocks that add shares of their tile's sum were the fastest for each of 20 drawn
# ones, K from 4,072 on; clusters of 2 x 2 blocks were faster than others for 7 of 12.
DEEP = 60  # chunks of 128 bytes of K
SIDES = range(ROWS, 673)  # rows and columns
SQUARE = (2, 2)
MOST_AT_ONCE = 66  # ways whose blocks all run at once


def plans(spec: MatMulChain) -> tuple[Plan, ...]:
    """List the plans that fit a product by modelled time, the fastest first; none where wgmma cannot compute it."""
    product = Product(spec)
    if not product.taken:
        return ()
    found = tuple(_candidates(product))
    found = tuple(plan for plan in found if plan.through == "grid") or found
    fit = tuple(plan for plan in found if _folds(plan, product)) or found
    ranked = sorted((modelled(plan, product), i, plan) for i, plan in enumerate(fit))
    return tuple(plan for _, _, plan in ranked)


def _folds(plan: Plan, product: Product) -> bool:
    """Say whether tensors for folds of rows have one column for each tile along N."""
    cols = product.sizes[1]
    wanted = {size_of(op.tensor.shape[-1]) for op in product.spec.matmul.ops if isinstance(op, Rows)}
    return wanted <= {-(-cols // plan.n)}


def _candidates(product: Product) -> Iterator[Plan]:
    nbytes, out, promote = product.nbytes, product.out_nbytes, product.scaled
    prologs = [found and not promote for found in product.prologs]
    turned = product.across
    fours = nbytes == 2 and product.torn
    # What comes from registers is A, behind swap() if need be.
    # Rows are folded cheaply where a few threads hold each: those of C, not of its transpose.
    # Scales of A's rows are few registers where a thread has few rows: those of C too.
    # Whole operands of ops are read by pairs of neighbours along a row of the tile: with those of C's transpose, apart.
    along = product.sizes[0] >= 2 * ROWS and any(
        t.order is RowMajor and t.dtype.nbytes == 2 for t in product.whole_operands
    )
    either = out == 2 and not product.beside[2] and not promote and not along
    either = either or (nbytes == 4 and all(turned))
    orders = (prologs[1],) if any(prologs) else (False, True) if either else (False,)
    starts = [Plan(swapped=swapped, promote=promote) for swapped in orders]
    for start in dict.fromkeys(oriented(plan, product) for plan in starts):
        swapped, ways_in = start.swapped, arrivals(start, product)
        held, copying = "registers" in ways_in, "threads" in ways_in
        # Copies take any eight lines of the operand along n.
        along_lines = product.along_lines[0 if swapped else 1]
        step = 32 if nbytes != 2 else ALONG_LINES if along_lines else 8
        widths = set(range(step, 257, step))
        for m, consumers, turns in ((64, 1, False), (128, 2, False), (256, 2, False), (192, 3, False), (128, 2, True)):
            for n in sorted(widths):
                # Addresses take registers that else are accumulators', those of vectors of C more of them.
                turn = 192 if not (product.by_vectors and swapped) else 176 if product.grouped else 144
                tall = 192 if nbytes == 2 and not product.whole_operands and not (held or promote) else 128
                most = tall if m == 256 else 192 if m == 192 else turn if turns else 256
                if n > most or (not swapped and n % 32 and (out != 2 or product.by_vectors)):
                    continue
                if (held or copying) and m == 192:
                    continue  # three warpgroups and a prolog took nearly twice what is counted: 319 us for 175
                if sum(rows for rows, way in zip((m, n), ways_in, strict=True) if way == "threads") > COPIED:
                    continue
                for cluster, panels in FOURS if fours else PAIRS:
                    # Clusters of tiles that groups cut short wait for each other: 9 % slower in 64 ragged groups.
                    if cluster != (1, 1) and (n % 16 or product.grouped or copying):
                        continue
                    if cluster == (4, 1) and n % 32:
                        continue  # each of the blocks loads a quarter of B's columns
                    if panels > 1 and (m != ROWS or n > LIGHT or held or copying or promote):
                        continue
                    group, keep = _placed((m * cluster[0], n * cluster[1]), cluster[0] * cluster[1], swapped, product)
                    plan = _changed(
                        start,
                        m=m,
                        n=n,
                        consumers=consumers,
                        pingpong=turns,
                        cluster=cluster,
                        panels=panels,
                        group=group,
                        keep=keep,
                    )
                    yield from _copied(plan, product)
                    if along and plan.sums * 3 // 2 > room(plan, product):
                        continue
                    most_held = HELD_BESIDE if copying else HELD if consumers < 3 else HELD // 2
                    if (held or copying or promote) and plan.held > most_held:
                        continue
                    if plan.depth(product) >= 3:
                        yield from _shared_out(plan, product)


def _copied(plan: Plan, product: Product) -> Iterator[Plan]:
    """Yield a plan that copies ops' operands of C's shape to shared memory, where this was faster than reads.

    The copy was faster for tiles with the most sums, whose threads have no registers for many loads at once, and for
    short tiles that consumers take in turn. Other plans lose more, since shared memory holds fewer chunks. For C's
    transpose, threads would read single elements.
    """
    operands = product.whole_operands
    if not operands or plan.swapped or product.out_nbytes != 2:
        return
    whole = product.sizes[1] % plan.n == 0  # else NVRTC 13.0 spills 4 B of 128 x 96 with silu
    short = work(plan, product)[1] <= MOST_SHORT and plan.m * plan.n <= SHORT_TILE and whole
    slots = 2 if plan.pingpong and short else 1 if plan.m * plan.n >= LARGE and not plan.pingpong else 0
    copying = _changed(plan, copied=slots)
    if not slots or copied(copying, product) != operands:
        return
    nbytes = sum(t.dtype.nbytes for t in operands)
    if copying.depth(product, nbytes) >= 3:
        yield copying


def _placed(
    sides: tuple[int, int], blocks: int, swapped: bool, product: Product
) -> tuple[int, Literal["", "left", "right"]]:
    """Choose the order of a plan's tiles, and its L2 hints where few tiles read an operand.

    Args:
        sides: rows and columns of a cluster's tile.
        blocks: number of its blocks.
        swapped: whether the plan computes the transpose of C.
        product: the product.
    """
    high, wide = tiles = tiles_by(sides, swapped, product)
    group = group_of(tiles, sides, blocks, product.grouped)
    if product.grouped or product.batched:
        return group, ""
    left, right = (product.right, product.left) if swapped else (product.left, product.right)
    few = FEW if high * wide * blocks <= SMS else 2
    if wide <= few < high and _nbytes(left) in STREAMED:
        return group, "right"
    if high <= few < wide and _nbytes(right) in STREAMED:
        return group, "left"
    return group, ""


def _changed(plan: Plan, **changes: Any) -> Plan:
    """Copy a plan with some fields changed to values that fit: checks take ten times as long, for hundreds of plans."""
    made = object.__new__(Plan)
    made.__dict__.update(plan.__dict__, **changes)
    return made


def _nbytes(tensor: Tensor) -> int:
    return math.prod(map(size_of, tensor.shape)) * tensor.dtype.bits // 8


def _shared_out(plan: Plan, product: Product) -> Iterator[Plan]:
    """Yield a plan, and variants that divide K: by `ways` while all blocks run at once, by `stream` to fill waves."""
    yield plan
    if plan.cluster == (4, 1):
        return
    tiles, chunks = work(plan, product)
    if _is_deep(chunks * plan.panels, product) and not plan.pingpong:
        for cluster in (plan.cluster, SQUARE) if plan.cluster == (2, 1) else (plan.cluster,):
            each = _changed(plan, cluster=cluster, through="grid", keep="")
            at_once = MACHINE.sms_of_clusters(cluster[0] * cluster[1])
            ways = min(at_once // work(each, product)[0], chunks // LEAST_CHUNKS, MOST_AT_ONCE)
            if ways > 1:
                yield _changed(each, ways=ways)
        return
    at_once = SMS // (plan.cluster[0] * plan.cluster[1]) * plan.cluster[0] * plan.cluster[1]
    if tiles % at_once and tiles * chunks >= at_once * LEAST_CHUNKS and not plan.pingpong and not product.grouped:
        yield _changed(plan, stream=True)
    for ways in range(2, MOST_WAYS + 1):
        if tiles * ways <= SMS and chunks >= ways * LEAST_CHUNKS:
            yield _changed(plan, ways=ways)
            near = _changed(plan, ways=ways, through="cluster")
            if tiles * ways <= (PAIRED if ways == 2 else TOGETHER) and _meet_near(near, chunks, product):
                yield near


def _is_deep(chunks: int, product: Product) -> bool:
    """Say whether a product of known sizes has a small C and a long K, and no rows of C are folded."""
    sizes = product.extents
    small = all(isinstance(n := sizes[dim], int) and n in SIDES for dim in "MN") and isinstance(sizes["K"], int)
    return small and chunks >= DEEP and not product.batched and not product.grouped and not product.beside[2]


def _meet_near(plan: Plan, chunks: int, product: Product) -> bool:
    """Say whether the blocks can add their sums in a cluster: each has chunks of K, and shared memory has room."""
    ways, share = plan.ways, -(-chunks // plan.ways)
    if ways > MOST_NEAR or plan.cluster != (1, 1) or product.grouped or share * (ways - 1) >= chunks:
        return False
    return plan.depth(product) >= 3
