"""A plan for Hopper: the degrees of freedom of a schedule, with their limits and the resources that a block needs."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, TypeAlias

import attrs

from fireiron import ColMajor, FireironError, RowMajor, Tensor, machine, preset
from fireiron.schedules._product import LINE, MAP_UNIT, Product

ROWS = 64  # of one wgmma
WIDEST = 256  # columns of one wgmma
SPAN = LINE  # bytes of a swizzled row
LEAST_SPAN = 32
NARROW = 32  # columns of a panel below which its store's fixed time counts for more than its bytes
WIDE = 128  # columns of a panel above which it has one slot of staging, so that chunks have room
SHARED = 227 * 1024  # bytes of a block
RESERVED = 1024  # bytes kept for barriers
PAD = 16  # bytes behind each line of a padded panel
MACHINE = machine("sm_90a")
SMS = MACHINE.sms
MOST_STAGES = 16
COPIED_TILE = 40 * 1024  # bytes of a tile of C beside which copied ones leave room for two panels of a warpgroup
EARLY = 208  # of sums and operands that come before the products
EARLY_CUT = 176  # the same where columns end within a tile: what says which exist is held too
EARLY_OF_THREE = 104  # the same of a thread whose budget is 160
RULES = {
    "m": f"is no multiple of {ROWS}, the rows of one wgmma",
    "n": "is no multiple of 8",
    "consumers": "is not 1, 2 or 3",
    "cluster": "has not 1 to 8 blocks",
    "stages": f"is not 0, for as many as fit, to {MOST_STAGES}",
    "copied": "is less than 0",
}
Arrival: TypeAlias = Literal["bulk", "threads", "registers"]


@lru_cache(1 << 10)
def _panel(n: int, swapped: bool, nbytes: int) -> int:
    """Return the columns of a staging panel of the `n` columns that a block finishes."""
    if swapped:
        fits = (n // i for i in range(1, n + 1) if n % i == 0)
        most = WIDE if nbytes == 2 else NARROW
        width = next(width for width in fits if width <= most and width % 8 == 0)
        return width if width >= NARROW else n
    width = SPAN // nbytes
    if n % 32 == 0 or nbytes != 2:
        return next(w for w in (width, width // 2, width // 4, n) if n % w == 0)
    # Plain rows. Two panels that meet within 32 bytes of a line write those twice: 3840 x 3840 x 256 took 18.9 us
    # in panels of 88, 16.9 of 176. Where a tile's own ends lie so, narrower panels leave room for chunks.
    if n % 16 == 0:
        return n
    return next((n // i for i in (1, 3, 5, 7) if n % i == 0 and NARROW <= n // i <= WIDE), n)


@preset
@attrs.frozen(slots=False)
class Plan:
    """Hold the degrees of freedom of a schedule.

    Args:
        m, n: rows and columns of a block's tile; m is a multiple of 64, n of 8, and at least 16 if n runs along a
            contiguous dimension of an operand of 16-bit elements: n is then cut into swizzled rows of 128, 64 or 32
            bytes, and the last of them may have columns of the next tile too.
        consumers: number of warpgroups that compute.
        pingpong: whether each of two consumers has a tile of its own, and their loops take turns; else consumers share
            a tile.
        swapped: whether to compute the transpose of C, so that n, which has finer steps than m, runs along M.
        cluster: numbers of blocks along m and n that share their loads.
        panels: number of 128-byte panels of K in a chunk.
        stages: number of chunks in shared memory, 0 for as many as fit.
        group: number of tile rows that blocks visit together.
        ways: number of blocks that share each tile of C, each with a part of K.
        through: where the sums of `ways` blocks are added: in global memory, by the last block of the tile; or in the
            shared memory of a cluster of at most 8 blocks, each of which finishes a part of the tile; or, by "grid", in
            global memory, where all blocks of the launch run at once, and the blocks of a tile wait for each other and
            finish a part each.
        dependent: whether the kernel begins while the launch before it in the stream ends, and lets the next one begin
            early.
        stream: whether blocks take equal shares of the chunks of K of all tiles (stream-K).
        promote: whether to sum each chunk of K in separate registers, multiply the sum by the prologs' factors, and add
            it to the total.
        transposed: how to transpose an operand whose K is not contiguous. `shared`: the loading threads transpose it
            while they write it to shared memory, as 8-bit elements always are. `registers`: a tf32 operand is read from
            registers, as A; if both operands must be transposed, `shared` is used for B. 16-bit elements need no
            transpose.
        early: whether to load operands of ops with C's shape before the products, if registers hold them.
        keep: the operand ("A" or "B", after a swap) whose loads have the L2 policy `evict_last`; loads of the other
            operand have `evict_first`. "" for no hints.
        addends: whether the tensor that ops add first is loaded before the products, as the first value of the sums.
        copied: number of tiles, in shared memory, of each operand of ops with C's shape, which bulk copies load during
            the products: 1 for a long K, 2 for a short one; 0 lets threads read the operand from global memory.
        prefetch: number of a block's first chunks that the computing threads prefetch into the L2 cache. With cold
            operands 1 was the fastest of 0 to 3; notebooks/numbers.md has the times.

    Raises:
        FireironError: `plan-keep`, `plan-sizes`.
    """

    m: int = 128
    n: int = 256
    consumers: int = 2
    pingpong: bool = False
    swapped: bool = False
    cluster: tuple[int, int] = (1, 1)
    panels: int = 1
    stages: int = 0
    group: int = 8
    ways: int = 1
    stream: bool = False
    through: Literal["memory", "cluster", "grid"] = "memory"
    dependent: bool = False
    promote: bool = False
    keep: Literal["", "left", "right"] = attrs.field(default="")
    early: bool = False
    addends: bool = False
    copied: int = 0
    prefetch: int = 1
    transposed: Literal["registers", "shared"] = "registers"

    @keep.validator
    def _is_operand(self, attribute: object, value: object) -> None:
        """Refuse a value of `keep` that is no operand."""
        if not isinstance(value, str) or value not in ("", "left", "right"):
            raise FireironError(
                "plan-keep",
                f"Plan(keep={value!r}): a product has a left and a right operand",
                fix='use keep="left" or keep="right", as they are behind swap(), or "" for no hints',
            )

    def __attrs_post_init__(self) -> None:
        """Refuse sizes that no preset can use; `fits` checks the sizes in a preset."""
        rows, cols = self.cluster
        wrong = {
            "m": self.m < 1 or self.m % ROWS,
            "n": self.n < 8 or self.n % 8,
            "consumers": not 1 <= self.consumers <= 3,
            "cluster": min(rows, cols) < 1 or rows * cols > 8,
            "stages": not 0 <= self.stages <= MOST_STAGES,
            "panels": self.panels < 1,
            "group": self.group < 1,
            "ways": self.ways < 1,
            "copied": self.copied < 0,
        }
        if any(wrong.values()):
            name = next(name for name, broken in wrong.items() if broken)
            said = f"no schedule has such a plan: {name}={getattr(self, name)} {RULES.get(name, 'is less than 1')}"
            raise FireironError("plan-sizes", said, fix="change that number")

    def fits(self) -> Plan:
        """Return the plan unchanged if its consumers can share its tile.

        Raises:
            FireironError: `plan-sizes`.
        """
        own = ROWS * (1 if self.pingpong else self.consumers)
        wrong = {
            f"m={self.m} is no multiple of {own}, {ROWS} rows for each warpgroup": self.m % own,
            f"n={self.n} is more than {WIDEST}, the columns of one wgmma": self.n > WIDEST,
        }
        broken = [rule for rule, found in wrong.items() if found]
        if broken:
            raise FireironError("plan-sizes", f"no schedule has such a plan: {broken[0]}", fix="change that number")
        return self

    def hint(self, operand: Literal["left", "right"]) -> Literal["evict_first", "evict_last"] | None:
        """Return the L2 hint for an operand's loads."""
        return None if not self.keep else "evict_last" if self.keep == operand else "evict_first"

    def shares(self, nbytes: int) -> int:
        """Return the number of blocks that finish a part of each tile: columns of 32 bytes, or 8 of a transpose."""
        if self.ways == 1 or self.through == "memory":
            return 1
        unit = 8 if self.swapped or self.through == "grid" else max(8, LEAST_SPAN // nbytes)
        return max(s for s in range(1, self.ways + 1) if s == 1 or self.n % (s * unit) == 0)

    def panel(self, nbytes: int) -> tuple[int, int]:
        """Return rows and columns of a staging panel, which one bulk store writes."""
        return ROWS, _panel(self.n // self.shares(nbytes), self.swapped, nbytes)

    def staging(self, nbytes: int, padded: bool = False) -> int:
        """Return the bytes of the consumers' staging panels: swizzled ones, or padded ones for stores by vectors."""
        rows, width = self.panel(nbytes)
        if padded:
            lines, line = (width, rows) if self.swapped else (rows, width)
            return self.consumers * lines * (line * nbytes + PAD)
        return self.consumers * self.ring(nbytes) * rows * width * nbytes

    def ring(self, nbytes: int) -> int:
        """Return the number of staging slots of a consumer."""
        rows = self.m // ROWS // (1 if self.pingpong else self.consumers)
        width = self.panel(nbytes)[1]
        roomy = not self.copied or self.m * self.n * nbytes <= COPIED_TILE
        return 1 if width > WIDE or not roomy else min(2, self.n // self.shares(nbytes) // width * rows)

    def depth(self, product: Product, copied: int = 0) -> int:
        """Return the number of chunks in shared memory: `stages`, or as many as fit beside the epilogue's buffers.

        Args:
            product: the product.
            copied: bytes, per element of C, of all copied operands.
        """
        padded, saved, folded = product.beside
        chunk = (self.m + self.loaded(product)) * SPAN * self.panels
        near = self.ways > 1 and self.through == "cluster"
        sums = self.m * self.n * 4 * (2 if self.pingpong else 1) if near else 0
        taken = sums + (1 + saved) * self.staging(product.out_nbytes, padded) + folded * self.m * 16 * self.consumers
        taken += self.copied * self.m * self.n * copied
        return self.stages or min(MOST_STAGES, (SHARED - RESERVED - taken) // chunk)

    def loaded(self, product: Product) -> int:
        """Return the columns that copies load for a tile: whole swizzled rows where n runs along an operand's lines."""
        if not product.along_lines[0 if self.swapped else 1]:
            return self.n
        width = span_within(self.n * product.nbytes) // product.nbytes
        return -(-self.n // width) * width

    def in_pieces(self, product: Product) -> tuple[float, float]:
        """Return the fractions of the loaded rows along m, and along n, that two lines of the L2 cache hold.

        Tiles of 224 columns of 16 bits, for example, start at multiples of 64 bytes where n runs along lines.
        """
        m, n = product.starts[:: -1 if self.swapped else 1]
        if product.along_lines[0 if self.swapped else 1]:
            n = math.gcd(n, self.n * product.nbytes)
        return 1 - m / SPAN, 1 - n / SPAN

    @property
    def held(self) -> int:
        """Return a thread's registers for sums, also those of a promoted chunk or of fragments of A with a prolog."""
        rows = self.m // (1 if self.pingpong else self.consumers)
        return 2 * self.sums if self.promote else self.sums + rows * self.panels // 4

    @property
    def sums(self) -> int:
        """Return the registers of a thread for a tile's sums."""
        return self.m * self.n // 128 // (1 if self.pingpong else self.consumers)

    def registers(self, copying: bool = False) -> tuple[int, int] | None:
        """Return the register limits of a loading thread, which may hold copied data, and of a computing thread."""
        if copying:
            return {1: None, 2: (104, 200), 3: (104, 136)}[self.consumers]
        return {1: None, 2: (24, 240), 3: (32, 160)}[self.consumers]


def early(plan: Plan, product: Product) -> tuple[Tensor, ...]:
    """List the operands of ops that threads can load to registers before the products: those with the sums' layout.

    Plans choose this by `early`: with a residual, the time was 2 % less at 2048 x 2048 x 2048, and 3 % more at 4096 x
    4096 x 4096, where a thread has 64 loads before its first product. A prefetch to the L2 cache gained no more, and
    issuing all loads together after the products gained nothing.
    """
    if (
        not plan.early
        or plan.copied
        or plan.stream
        or "registers" in arrivals(plan, product)
        or plan.promote
        or plan.ways > 1
    ):
        return ()
    order = ColMajor if plan.swapped else RowMajor
    found = tuple(t for t in product.whole_operands if t.order is order and t.starts_lines_at(2 * t.dtype.nbytes))
    taken = plan.sums + sum(plan.sums * t.dtype.nbytes // 4 for t in found)
    return found if taken <= room(plan, product) else ()


def copied(plan: Plan, product: Product) -> tuple[Tensor, ...]:
    """List the operands of ops whose tiles bulk copies load to shared memory: those that tensor maps can describe."""
    if not plan.copied or plan.stream or plan.ways > 1 or product.grouped:
        return ()
    return tuple(t for t in product.whole_operands if t.starts_lines_at(MAP_UNIT))


def span_beside(plan: Plan, tensor: Tensor) -> int:
    """Choose the bytes of a copied tile's swizzled rows: they divide its contiguous dimension."""
    along = plan.n if (tensor.order is ColMajor) == plan.swapped else plan.m
    return span_of(along * tensor.dtype.nbytes)


def span_of(nbytes: int) -> int:
    """Choose the bytes of swizzled rows, as many as divide a tile's contiguous dimension; 0 where none do."""
    return next((span for span in (SPAN, SPAN // 2, LEAST_SPAN) if nbytes % span == 0), 0)


def span_within(nbytes: int) -> int:
    """Choose the bytes of swizzled rows, the widest that are within a tile's contiguous dimension."""
    return next((span for span in (SPAN, SPAN // 2) if span <= nbytes), LEAST_SPAN)


def room(plan: Plan, product: Product) -> int:
    """Return the registers for sums and for operands beside them; fewer where columns end inside a tile."""
    cols = product.extents["M" if plan.swapped else "N"]
    whole = isinstance(cols, int) and cols % plan.n == 0 and not product.by_vectors
    return EARLY_OF_THREE if plan.consumers == 3 else EARLY if whole else EARLY_CUT


def oriented(plan: Plan, product: Product) -> Plan:
    """Swap the product where B must be read from registers, because only A can be."""
    scaled = plan.promote or product.scaled
    a, b = (found and not scaled for found in product.prologs)
    if not a and not b and plan.transposed == "registers" and product.nbytes == 4:
        a, b = product.across
    return attrs.evolve(plan, swapped=b) if a != b else plan


def arrivals(plan: Plan, product: Product) -> tuple[Arrival, Arrival]:
    """Return how each operand is loaded for the products, after a swap.

    `bulk`: by bulk copies. `threads`: the loading threads transpose it. `registers`: by bulk copies, then as fragments
    in registers, with a prolog applied; for A only.
    """
    return _arrivals(product, plan.swapped, plan.promote, plan.transposed == "registers")


@lru_cache(64)
def _arrivals(product: Product, swapped: bool, promote: bool, held_across: bool) -> tuple[Arrival, Arrival]:
    scaled = promote or product.scaled
    prologs = [found and not scaled for found in product.prologs]
    sides = list(zip(prologs, product.across, strict=True))
    (prolog, left), (_, right) = reversed(sides) if swapped else sides
    held = prolog or (left and held_across and product.nbytes == 4)
    return "registers" if held else "threads" if left else "bulk", "threads" if right else "bulk"
