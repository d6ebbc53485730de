"""A plan for Hopper: the degrees of freedom of a schedule, the resources of a block they take, and their limits."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from fireiron import ColMajor, DType, FireironError, MatMulChain, RowMajor, Rows, Save, Tensor, machine, preset

ROWS = 64  # of one wgmma
WIDEST = 256  # columns of one wgmma
SPAN = 128  # bytes of a swizzled row
LEAST_SPAN = 32
NARROW = 32  # columns of a panel below which its store's fixed time counts for more than its bytes
WIDE = 128  # columns of a panel above which it has one slot of staging, so that chunks have room
SHARED = 227 * 1024  # bytes of a block
RESERVED = 1024  # bytes kept for barriers
PAD = 16  # bytes behind each line of a padded panel
MACHINE = machine("sm_90a")
SMS = MACHINE.sms
MOST_STAGES = 16
EARLY = 208  # of sums and operands that come before the products
EARLY_CUT = 176  # the same where columns end within a tile: what says which exist is held too
EARLY_OF_THREE = 104  # the same of a thread whose budget is 160
MAP_UNIT = 16  # bytes by which tensor maps count strides
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8")  # that wgmma multiplies
EIGHT_BITS = ("e4m3", "e5m2")
Arrival: TypeAlias = Literal["bulk", "threads", "registers"]


@preset
@attrs.frozen
class Plan:
    """Choose the degrees of freedom of a schedule.

    Args:
        m, n: tile of a block; m is a multiple of 64, n of 8.
        consumers: warpgroups that compute.
        pingpong: each of two consumers owns a tile, and their main loops take turns; else they share one.
        swapped: compute the transpose of C, so that n, the finer width, runs along M.
        cluster: blocks along m and n that share their loads.
        panels: 128-byte panels of K in a chunk.
        stages: chunks in flight, 0 for as many as fit.
        group: tile rows that blocks at work together cover.
        ways: blocks that share each tile of C, each with a part of K.
        through: how their sums meet: in global memory, where the last block to end adds them; or in the shared memory
            of a cluster of at most 8 blocks, of which each finishes a part of the tile.
        dependent: begin while the launch before in the stream ends, and let the one behind begin early.
        stream: blocks take equal shares of all tiles' chunks of K.
        promote: sum each chunk of K in registers of its own, multiply by the prologs' factors, and add to the total.
        transposed: where an operand is transposed whose K is not contiguous. `registers`: one of tf32 comes from
            registers, as A; where both are such, B is transposed as by `shared`. `shared`: the threads that load
            transpose it on its way to shared memory, as they always do 8-bit elements. 16-bit ones need neither.
        early: load whole operands of ops before the products, where registers hold them.
        keep: the operand, "A" or "B" behind any swap(), whose loads have the L2 policy `evict_last`; the loads of the
            other one have `evict_first`. "" gives no hints.
        addends: begin the sums with what ops add to them first, loaded before the products.
        prefetch: number of a block's first chunks that the computing threads prefetch into the L2 cache. Of 0 to 3, one
            was fastest with cold operands; notebooks/numbers.md has the times.

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
    through: Literal["memory", "cluster"] = "memory"
    dependent: bool = False
    promote: bool = False
    keep: Literal["", "left", "right"] = attrs.field(default="")
    early: bool = False
    addends: bool = False
    prefetch: int = 1
    transposed: Literal["registers", "shared"] = "registers"

    @keep.validator
    def _is_operand(self, attribute: object, value: object) -> None:
        """Refuse a name that is no operand: it would otherwise have no effect."""
        if not isinstance(value, str) or value not in ("", "left", "right"):
            raise FireironError(
                "plan-keep",
                f"Plan(keep={value!r}): a product has a left and a right operand",
                fix='use keep="left" or keep="right", as they are behind swap(), or "" for no hints',
            )

    def __attrs_post_init__(self) -> None:
        """Refuse sizes that no preset can use; `fits` checks what a preset makes of a plan."""
        rows, cols = self.cluster
        wrong = {
            f"m={self.m} is no multiple of {ROWS}, the rows of one wgmma": self.m < 1 or self.m % ROWS,
            f"n={self.n} is no multiple of 8": self.n < 8 or self.n % 8,
            f"consumers={self.consumers} is not 1, 2 or 3": not 1 <= self.consumers <= 3,
            f"cluster={self.cluster} has not 1 to 8 blocks": min(rows, cols) < 1 or rows * cols > 8,
            f"stages={self.stages} is not 0, for as many as fit, to {MOST_STAGES}": not 0 <= self.stages <= MOST_STAGES,
            f"panels={self.panels} is less than 1": self.panels < 1,
            f"group={self.group} is less than 1": self.group < 1,
            f"ways={self.ways} is less than 1": self.ways < 1,
        }
        broken = [rule for rule, found in wrong.items() if found]
        if broken:
            raise FireironError("plan-sizes", f"no schedule has such a plan: {broken[0]}", fix="change that number")

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
        """Give the hint with which an operand is loaded."""
        return None if not self.keep else "evict_last" if self.keep == operand else "evict_first"

    def shares(self, nbytes: int) -> int:
        """Count the blocks that finish a part of each tile: columns for whole rows of 32 bytes, 8 of a transpose."""
        if self.ways == 1 or self.through == "memory":
            return 1
        unit = 8 if self.swapped else max(8, LEAST_SPAN // nbytes)
        return max(s for s in range(1, self.ways + 1) if s == 1 or self.n % (s * unit) == 0)

    def panel(self, nbytes: int) -> tuple[int, int]:
        """Size the staging panels: one bulk store each."""
        n = self.n // self.shares(nbytes)
        if self.swapped:
            fits = (n // i for i in range(1, n + 1) if n % i == 0)
            most = WIDE if nbytes == 2 else NARROW
            width = next(width for width in fits if width <= most and width % 8 == 0)
            return ROWS, width if width >= NARROW else n
        width = SPAN // nbytes
        if n % 32 == 0 or nbytes != 2:
            return ROWS, next(w for w in (width, width // 2, width // 4, n) if n % w == 0)
        # Plain rows. Two panels that meet within 32 bytes of a line write those twice: 3840 x 3840 x 256 took 18.9 us
        # in panels of 88, 16.9 of 176. Where a tile's own ends lie so, narrower panels leave room for chunks.
        if n % 16 == 0:
            return ROWS, n
        return ROWS, next((n // i for i in (1, 3, 5, 7) if n % i == 0 and NARROW <= n // i <= WIDE), n)

    def staging(self, nbytes: int, padded: bool = False) -> int:
        """Count the bytes through which the consumers store: swizzled panels, or padded ones for stores by vectors."""
        rows, width = self.panel(nbytes)
        if padded:
            lines, line = (width, rows) if self.swapped else (rows, width)
            return self.consumers * lines * (line * nbytes + PAD)
        return self.consumers * self.ring(nbytes) * rows * width * nbytes

    def ring(self, nbytes: int) -> int:
        """Count the staging slots of a consumer."""
        rows = self.m // ROWS // (1 if self.pingpong else self.consumers)
        width = self.panel(nbytes)[1]
        return 1 if width > WIDE else min(2, self.n // self.shares(nbytes) // width * rows)

    def depth(self, nbytes: int, out_nbytes: int, padded: bool = False, saved: int = 0, folded: int = 0) -> int:
        """Count the chunks that fit beside what the epilogue takes, or take the given number.

        Args:
            nbytes: of an element of A.
            out_nbytes: of one of C.
            padded: whether rows of what is staged are padded.
            saved: tensors that are stored beside C.
            folded: tensors of sums or maxima of rows, four threads' values of f32 for each.
        """
        chunk = (self.m + self.n) * SPAN * self.panels
        sums = 0 if self.ways == 1 or self.through == "memory" else self.m * self.n * 4 * (2 if self.pingpong else 1)
        taken = sums + (1 + saved) * self.staging(out_nbytes, padded) + folded * self.m * 16 * self.consumers
        return self.stages or min(MOST_STAGES, (SHARED - RESERVED - taken) // chunk)

    @property
    def held(self) -> int:
        """Count the registers of a thread that hold sums: those of a chunk too, or fragments of an A with a prolog."""
        rows = self.m // (1 if self.pingpong else self.consumers)
        return 2 * self.sums if self.promote else self.sums + rows * self.panels // 4

    @property
    def sums(self) -> int:
        """Count the registers of a thread that hold a tile's sums."""
        return self.m * self.n // 128 // (1 if self.pingpong else self.consumers)

    def registers(self, copying: bool = False) -> tuple[int, int] | None:
        """Give the budgets of a thread that loads, which may hold what it copies, and of one that computes."""
        if copying:
            return {1: None, 2: (104, 200), 3: (104, 136)}[self.consumers]
        return {1: None, 2: (24, 240), 3: (32, 160)}[self.consumers]


def is_grouped(spec: MatMulChain) -> bool:
    """Say whether products share the rows of A and C."""
    return spec.matmul.groups is not None


def beside(spec: MatMulChain) -> tuple[bool, int, int]:
    """Say whether staged rows are padded, and count the tensors that are stored beside C: whole ones, those of rows."""
    ops = spec.matmul.ops
    return is_grouped(spec), sum(isinstance(op, Save) for op in ops), sum(isinstance(op, Rows) for op in ops)


def early(plan: Plan, spec: MatMulChain) -> tuple[Tensor, ...]:
    """List the operands of ops that a thread has registers to load before the products: those that lie as its sums do.

    That is for a plan to ask: a residual took 2 % less so at 2048 x 2048 x 2048, and 3 % more at 4096 x 4096 x 4096,
    where 64 loads stand before a thread's first product. A prefetch to the L2 cache gained no more. Behind the products
    all loads together gained nothing either, 1.00 of the time on average, where ops have no branches.
    """
    if not plan.early or plan.stream or "registers" in arrivals(plan, spec) or plan.promote or plan.ways > 1:
        return ()
    order = ColMajor if plan.swapped else RowMajor
    found = tuple(t for t in spec.whole_operands if t.order is order and t.starts_lines_at(2 * t.dtype.nbytes))
    taken = plan.sums + sum(plan.sums * t.dtype.nbytes // 4 for t in found)
    return found if taken <= room(plan, spec) else ()


def room(plan: Plan, spec: MatMulChain) -> int:
    """Count the registers for sums and operands beside them: fewer where columns end within a tile."""
    cols = dict(spec.matmul.sizes)["M" if plan.swapped else "N"]
    whole = isinstance(cols, int) and cols % plan.n == 0 and not is_grouped(spec)
    return EARLY_OF_THREE if plan.consumers == 3 else EARLY if whole else EARLY_CUT


def is_scaled(spec: MatMulChain) -> bool:
    """Say whether prologs scale 8-bit floats by what holds for a chunk."""
    served = spec.served_along_k
    eight_bits = spec.matmul.A.dtype.name in EIGHT_BITS and spec.matmul.B.dtype.name in EIGHT_BITS
    return eight_bits and served is not None and served % SPAN == 0


def multiplied(spec: MatMulChain) -> DType:
    """Give the element type that products take: what a prolog leaves, unless sums are scaled in its place."""
    return spec.matmul.A.dtype if is_scaled(spec) else spec.left.dtype


def size_of(extent: Any) -> int:
    """Give an extent; of one that is known at run time alone the size that plans are chosen for."""
    return extent if isinstance(extent, int) else extent.planned


def takes(spec: MatMulChain) -> bool:
    """Say whether bulk copies and wgmma take a product as it is stored, and at most one operand with a prolog."""
    a, b, c = spec.matmul.A, spec.matmul.B, spec.matmul.C
    kind = multiplied(spec)
    if kind.name not in TYPES or any(t.dtype.packed for t in (a, b)):
        return False
    if is_grouped(spec) and a.order is ColMajor:
        return False  # groups start anywhere along M, and boxes at multiples of 16 bytes of a line
    # Tensor maps mind by themselves where a line ends.
    if not all(t.starts_lines_at(MAP_UNIT) for t in (a, b, c)):
        return False
    # An operand with a prolog comes from registers, as A; what has K not contiguous and 8 bits does not.
    scaled = is_scaled(spec)
    prologs = [operand.ops is not None and not scaled for operand in spec.residual.operands[:2]]
    return not all(prologs) and not (
        kind.nbytes == 1 and any(p and x for p, x in zip(prologs, across(spec), strict=True))
    )


def across(spec: MatMulChain) -> tuple[bool, bool]:
    """Say of both operands whether their K is not contiguous, in elements that wgmma's descriptors do not transpose."""
    others = multiplied(spec).nbytes != 2
    return others and spec.matmul.A.order is ColMajor, others and spec.matmul.B.order is RowMajor


def oriented(plan: Plan, spec: MatMulChain) -> Plan:
    """Swap the product where an operand must be A: one that products take from registers."""
    scaled = plan.promote or is_scaled(spec)
    a, b = (operand.ops is not None and not scaled for operand in spec.residual.operands[:2])
    if not a and not b and plan.transposed == "registers" and multiplied(spec).nbytes == 4:
        a, b = across(spec)
    return attrs.evolve(plan, swapped=b) if a != b else plan


def arrivals(plan: Plan, spec: MatMulChain) -> tuple[Arrival, Arrival]:
    """Say how both operands reach products, as swap() leaves them.

    `bulk`: by bulk copies. `threads`: the threads that load transpose it on its way. `registers`: by bulk copies, and
    then as fragments, with a prolog applied; for A alone.
    """
    scaled = plan.promote or is_scaled(spec)
    prologs = [operand.ops is not None and not scaled for operand in spec.residual.operands[:2]]
    sides = list(zip(prologs, across(spec), strict=True))
    (prolog, left), (_, right) = reversed(sides) if plan.swapped else sides
    held = prolog or (left and plan.transposed == "registers" and multiplied(spec).nbytes == 4)
    return "registers" if held else "threads" if left else "bulk", "threads" if right else "bulk"
