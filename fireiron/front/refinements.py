"""Refinements: methods that change the last link of a chain: a tile, a load or a split.

Each method checks its refinement against the links before, and returns a chain of the same type, so refinements of a
link come in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import attrs

from fireiron.algebra.expr import Expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.errors import DecompositionError
from fireiron.base.later import Later
from fireiron.base.link import here
from fireiron.front.verbs import Schedule
from fireiron.language.decompositions import Drawn, InOrder, Load, Reduction, Specialised, Split, StreamK, Tile
from fireiron.language.levels import Level
from fireiron.language.programs import Products
from fireiron.language.specs import MatMul
from fireiron.language.steps import Program
from fireiron.language.tensor import Order, TileOrder

if TYPE_CHECKING:
    from fireiron.check import arguments
    from fireiron.check import links as rules
    from fireiron.check import parallel as parallel_rules
    from fireiron.check import programs as program_rules
    from fireiron.front.chain import SplitFold
    from fireiron.language.nested import Nested
else:
    arguments, rules = Later("fireiron.check.arguments"), Later("fireiron.check.links")
    parallel_rules, program_rules = Later("fireiron.check.parallel"), Later("fireiron.check.programs")
    Nested = Later("fireiron.language.nested", "Nested")

S = TypeVar("S")
# Where `Self` would do, a variable stands: tab completion (jedi) follows it to the chain's own type, so that it also
# offers what may come after a refinement.
T_ = TypeVar("T_", bound="TileRefinements")
L_ = TypeVar("L_", bound="LoadRefinements")
S_ = TypeVar("S_", bound="SplitRefinements[Any]")
M_ = TypeVar("M_", bound="SplitRefinements[MatMul]")
P_ = TypeVar("P_", bound="SplitRefinements[Program]")


class TileRefinements(Schedule):
    """Refine the last link, a tile."""

    def to(self: T_, level: Level | Nested, units: int | None = None, resident: int | tuple[int, int] = 0) -> T_:
        """Distribute the tiles among the units of a level.

        Args:
            level: a level inside the current one. The outermost level inside a block decides the number of units in the
                block. For a tensor of threads, such as `threads(Warp).tile(8).reshape(0, (2, 2))`, each innermost
                tensor is a unit, and the unit at (i, j) takes the tile at (i, j).
            units: the largest number of units that take tiles; each unit loops over several tiles where there are more.
            resident: for Block, the number of blocks that an SM should hold at once; the compiler limits registers
                accordingly. A pair is the least and the largest number: the largest with which registers do not spill
                is taken.

        Shapes:
            (m, n, k)(L) -> (m, n, k)(level)

        Raises:
            DecompositionError: `level-nests`, `level-units`.
        """
        given = level if isinstance(level, Level) else level.as_level()
        self._check(rules.level_nests, self._before, given)
        least, most = self._check(arguments.units, units, resident)
        order = {} if isinstance(level, Level) else {"order": level.order()}
        return self._refine(level=given, units=units, resident=least, wanted=most, link=here(), **order)

    def unroll(self: T_) -> T_:
        """Unroll the loops over the tiles."""
        return self._refine(unrolled=True)

    def layout(self: T_, order: TileOrder) -> T_:
        """Choose the order in which units, by their number, take tiles, or in which a loop visits them.

        Args:
            order: along rows first (RowMajor), along columns first (ColMajor), along rows there and back
                (`Serpentine()`); for units also in groups of rows (`Grouped(n)`), along Hilbert curves (`Hilbert(n)`),
                or by a layout of units' numbers.

        Raises:
            DecompositionError: `tile-order`, for loops when the schedule is finished.
        """
        self._check(arguments.order, order, self.residual)
        return self._refine(order=order, link=here())

    def permute(self: T_, permutation: Callable[[Expr], Expr]) -> T_:
        """Permute the numbers of units before they choose tiles (the paper's thread swizzle).

        Args:
            permutation: a function from a unit's number to another. Example: `lambda i: (i >> 1) | ((i & 1) << 3)`.
        """
        return self._refine(permute=permutation, link=here())

    def persistent(self: T_, order: TileOrder | None = None, share: StreamK | Drawn | None = None) -> T_:
        """Launch only as many units as run at once, and let each loop over tiles.

        Args:
            order: order of the tiles, as in `layout`; None keeps the current order.
            share: None lets unit i of n take tiles i, i + n, ...; drawn() lets a block that has finished a tile draw
                the next number from a counter in global memory; stream_k() gives each unit an equal share of the K
                chunks of all tiles.

        Raises:
            DecompositionError: `persistent-level` for tiles of other units than the grid's blocks or clusters;
                `tile-order`; `stream-units`; `stream-split` when the schedule is finished.
        """
        (*_, link) = self.links
        assert isinstance(link, Tile)
        if order is not None:
            self._check(arguments.order, order, self.residual)
        self._check(rules.persistent, self._before, link.level, share)
        return self._refine(persistent=True, order=link.order if order is None else order, share=share, link=here())

    def dependent(self: T_) -> T_:
        """Let the kernel begin before the previous launch in the stream has ended (programmatic dependent launch).

        Raises:
            DecompositionError: `dependent-level` for tiles of other units than the grid's blocks or clusters; `arch`.
        """
        self._check(rules.dependent, self._before, self.residual.level)
        return self._refine(dependent=True, link=here())

    def staggered(self: T_, units: int) -> T_:
        """Let the units of a block take whole tiles of the persistent loop in turn (ping-pong).

        One unit's loop over K then runs during the epilogue of another unit.

        Args:
            units: number of units of the tile's level; each takes every `units`-th trip of the loop.

        Raises:
            DecompositionError: `staggered-units`, `staggered-store`.
        """
        (*_, link) = self.links
        assert isinstance(link, Tile)
        self._check(rules.staggered, self.links, self._before, self.residual, link.level, units)
        return self._refine(staggered=units, link=here())


class LoadRefinements(Schedule):
    """Refine the last link, a load."""

    def pad(self: L_, elements: int) -> L_:
        """Add elements to the buffer's leading stride, so that rows start in different banks."""
        if elements < 0:
            raise DecompositionError(
                "pad", f"a pad of {elements} elements", fix="pad by 0 or more", link=here(), path=self.where
            )
        link = self._addressed("pad")
        if isinstance(link.storage, Layout):
            self._check(rules.storage, self._before, link.role, link.storage, elements)
        return self._refine(pad=elements)

    def swizzle(self: L_, swizzle: Swizzle) -> L_:
        """Permute the buffer's elements by XOR, so that the elements of a column lie in different banks.

        Raises:
            DecompositionError: `swizzle-row` where the swizzle is wider than a row.
        """
        link = self._addressed("swizzle")
        self._check(rules.swizzle, self._before, attrs.evolve(link, swizzle=swizzle))
        return self._refine(swizzle=swizzle)

    def storage_layout(self: L_, layout: Order | Layout) -> L_:
        """Store the buffer in an order (RowMajor, ColMajor) or by a layout, instead of in its source's order.

        A layout has a mode for each dimension, or for the last ones, of which there are two at least.
        """
        link = self._addressed("storage_layout")
        if isinstance(layout, Layout):
            self._check(rules.storage, self._before, link.role, layout, link.pad)
        self._check(rules.swizzle, self._before, attrs.evolve(link, storage=layout))
        return self._refine(storage=layout)

    def reuse_buffer(self: L_) -> L_:
        """Let the buffer use memory of other buffers that are no longer read."""
        self._addressed("reuse_buffer")
        return self._refine(reuse=True)

    def no_sync(self: L_) -> L_:
        """Claim that this load needs no barrier; lowering proves the claim, or refuses."""
        return self._refine(no_sync=True, claimed=here())

    def _addressed(self, method: str) -> Load:
        """Return the last link for a refinement of its buffer's addresses; refuse a load to registers."""
        (*_, link) = self.links
        assert isinstance(link, Load)
        if link.memory.registers:
            raise DecompositionError(
                "register-storage",
                f"{method} places a buffer in memory, and {link.memory} has no addresses",
                fix="drop it",
                link=here(),
                path=self.where,
            )
        return link


class SplitRefinements(Schedule, Generic[S]):
    """Refine the last link, a split: its loop over chunks, or the units that share the chunks."""

    def unroll(self: S_, chunks: int | None = None) -> S_:
        """Unroll the loop over chunks.

        Args:
            chunks: number of chunks in one trip of the loop, None for all. If the number is that of the pipeline's
                stages, ring slots are constants.

        Raises:
            DecompositionError: `unroll-chunks`; `parallel-pipeline` where units share the chunks, so that there is no
                loop.
        """
        if chunks is None:
            return self._loops(unrolled=True)
        if chunks < 1:
            raise DecompositionError(
                "unroll-chunks",
                f"{chunks} chunks cannot stand together in a trip of a loop",
                fix="use 1 or more, or unroll() for no loop at all",
                link=here(),
                path=self.where,
            )
        return self._loops(together=chunks)

    def parallel(self: S_, level: Level, reduce: Reduction | None = None) -> S_:
        """Share the chunks among units of a level, which fold them at the same time; then their states are combined.

        Args:
            level: Block lets several blocks share each tile (split-K). Inside a block, units of Warpgroup, Warp, Thread
                or a `Group` of them share the buffers of the loads above this split.
            reduce: how states are combined. in_order(), the default, gives the same bits in every run. For blocks there
                are by_atomics(), in the order of arrival; by_tma(), by bulk stores that add to C (beta=1), or to the
                array that a program's output replaces; and by_cluster(), through the SH of a cluster of up to 8 blocks
                (of programs 16 on some GPUs).

        Shapes:
            (M, N, k)(L) -> (M, N, k)(level)

        Raises:
            DecompositionError: `parallel-level`, `parallel-accumulator`, `parallel-order`, `second-parallel`,
                `parallel-ways`, `parallel-units`, `parallel-reduce`, `parallel-promote`, `parallel-cluster`,
                `parallel-pipeline`, `too-many-threads`; `parallel-products` where other units than blocks share K
                of several products; for programs `grid-fold-read`, `parallel-loop`, `parallel-atomics` when the
                schedule is finished.
        """
        (*above, link) = self.links
        assert isinstance(link, Split)
        how = InOrder() if reduce is None else reduce
        self._check(self._shares, above, self._before, link, level, how)
        return self._refine(level=level, reduce=how, link=here())

    @property
    def _shares(self) -> Callable[..., None]:
        """Return the check of a kind of chain for chunks that units share."""
        if self._kind.spec is Program:
            return partial(program_rules.parallel, self.computed)
        return parallel_rules.of_products if self._kind.spec is Products else parallel_rules.parallel

    def _loops(self: S_, **changes: Any) -> S_:
        """Refine the loop over chunks; refuse where units share the chunks."""
        (*above, link) = self.links
        assert isinstance(link, Split)
        if link.level is not None:
            self._check(
                self._shares,
                above,
                self._before,
                attrs.evolve(link, **changes, level=None),
                link.level,
                link.reduce,
            )
        return self._refine(**changes)

    def pipeline(self: S_, stages: int, inflight: int = 0, drain: bool = False) -> S_:
        """Let the loads below run up to `stages - 1` chunks ahead of their use, into a ring of `stages` slots.

        A pipeline of registers inside a pipeline of shared memory loads a chunk's first fragments during the chunk
        before.

        Args:
            stages: number of ring slots, at most 64.
            inflight: 1 lets the next chunk's wgmma instructions begin while those of this chunk still run; 0 waits for
                them.
            drain: whether this pipeline ends with each chunk of the outer pipeline, instead of loading ahead for the
                next.

        Raises:
            DecompositionError: `pipeline-stages`.
        """
        self._check(rules.pipeline, stages, inflight)
        return self._loops(stages=stages, inflight=inflight, drain=drain, link=here())

    def specialize(self: S_, producers: int = 1, registers: tuple[int, int] | None = None, prefetch: int = 0) -> S_:
        """Give the loads below to separate warps (producers), which load ahead into free slots.

        Args:
            producers: number of warpgroups that load.
            registers: registers of a loading thread and of a computing thread; multiples of 8 from 24 to 256.
            prefetch: number of a block's first chunks that the computing threads prefetch into the L2 cache on entry.

        Raises:
            DecompositionError: `role-registers`, `role-prefetch`; `role-warps` where parts of warps would compute.
        """
        self._check(rules.specialised, self.residual, producers, registers, prefetch)
        return self._loops(specialised=Specialised(producers, registers, prefetch), link=here())

    def promote(self: M_) -> M_:
        """Sum the products of each chunk in registers of their own, and add each sum to the accumulators.

        Tensor cores keep sums of 8-bit floats to fewer bits than f32 has; with this refinement, bits are lost only
        within a chunk. Factors of prologs above are multiplied with the chunks' sums instead of with A and B, so that
        every kind of load can bring the operands. Factors of A and of B are multiplied with each other first, in the
        accumulators' type. Threads hold two sets of accumulators, and wait for the products of each chunk.

        Raises:
            DecompositionError: `promote-accumulator` where C does not accumulate in registers; `promote-prolog` for a
                prolog that does not only multiply; `promote-scales` for a factor that changes inside a chunk;
                `accumulator-dtype`; `parallel-promote` where units share the chunks.

        Example:
            >>> from fireiron import A, ColMajor, Matrix, dequantise, matmul
            >>> from fireiron.schedules import hopper
            >>> scales = Matrix(128, 2, "f32", name="scales")  # of each row, and of each 128 of K
            >>> spec = matmul(128, 128, 256, "e4m3", layout="TN", out="bf16").prolog(A, dequantise("f32", scales))
            >>> "scales" in hopper.scaled_gemm(spec).cuda()
            True
        """
        from fireiron.front.matmul import promoted

        self._only("promote")
        (*_, link) = self.links
        assert isinstance(link, Split)
        return self._loops(promoted=promoted(cast("SplitFold[MatMul]", self), link), link=here())

    def online(self: P_, slack: float = 0.0, speculate: bool = False) -> P_:
        """Compute all folds over the dim in one loop, also a fold that reads the result of another (online softmax).

        When the first fold's value m becomes m', sums so far are multiplied by a factor, which is derived from the
        summands: exp(m - m') for summands exp(x - m). Factors and divisors of summands that need the finished fold are
        applied to the sums after the loop.

        With a slack, m changes only when a summand becomes larger than 2**slack: results are the same, and sums are
        rescaled rarely. With `speculate`, chunks after the first are summed with the old m, without folding the chunk's
        own m. The chunk's sums then show whether a summand exceeded the slack, and by how many powers of 2 m must rise.
        Only where summands may not be finite, the warp folds m and computes the chunk again.

        Args:
            slack: 0 to 64: summands may grow to 2**slack before sums are rescaled; types that summands are rounded to
                must hold this number. 0 rescales whenever m changes.
            speculate: whether to fold m only for chunks whose summands exceed the slack.

        Shapes:
            (i, j) -> (i, chunk of j)

        Raises:
            DecompositionError: `online-law` where summands give no such factor; `online-parallel`; `online-above`;
                `online-slack`; `online-speculate`; when the schedule is finished `online-vote`.

        Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
        """
        self._only("online")
        (*_, link) = self.links
        assert isinstance(link, Split)
        self._check(program_rules.online, self.program.spec, link, slack, speculate, self.links[:-1])
        return self._refine(online=True, slack=slack, speculative=speculate, link=here())

    def skew(self: P_, step: str, before: str = "") -> P_:
        """Issue a step's product for chunk j + 1 before the later products of chunk j.

        A chunk's pointwise steps then overlap with products of other chunks. Arrays that the step reads and others have
        mbarriers of their own, so that a slot is refilled as soon as the products that read it have finished. An array
        that both the step and later ones read has one slot more than `pipeline` says.

        Args:
            step: name of one of the loop's products.
            before: name of the product of chunk j that follows it; by default the first one behind `step`.

        Raises:
            DecompositionError: `each-step`, `skew-roles`, `split-together`; when the schedule is finished `skew-step`.

        Example:
            `split(i=64).pipeline(2).specialize().skew("s", before="dv")` computes chunk j's `dp`, which stands between
            `s` and `dv`, before chunk j + 1's `s`.
        """
        self._only("skew")
        (*_, link) = self.links
        assert isinstance(link, Split)
        self._check(program_rules.skew, self.program.spec, link, step, before)
        return self._refine(skewed=step, skewed_before=before, link=here())

    def order(self: P_, *steps: str) -> P_:
        """Compute some steps first in each chunk, in this order; a step still follows the steps whose results it reads.

        Use: an asynchronous product that starts early runs while threads compute the next steps.

        Args:
            steps: names of steps. Other steps follow in the program's order.

        Raises:
            DecompositionError: `each-step`, `order-steps`.

        Example:
            `split(i=64).pipeline(2).specialize().order("s", "dp")` issues both products before what reads the first.
        """
        self._only("order")
        (*_, link) = self.links
        assert isinstance(link, Split)
        self._check(program_rules.order, self.program.spec, link, steps)
        return self._refine(order=steps, link=here())
