"""Refinements: methods that change the link written last, of a tile, a load or a split.

Each checks its refinement against the links before, and returns a chain of the same type, so that refinements follow
one another in any order and other links come behind them.
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
    """Refine the tile written last."""

    def to(self: T_, level: Level | Nested, units: int | None = None, resident: int = 0) -> T_:
        """Give the tiles to the units of a level.

        Args:
            level: inside the present one; the outermost level inside a block decides how many units the block has. Of
                `threads(Warp).tile(8).reshape(0, (2, 2))` each innermost tensor is a unit, and the unit at (i, j) takes
                the tile at (i, j).
            units: at most this many take part; they loop over the rest.
            resident: with Block, how many blocks an SM should hold at once: the compiler keeps registers below what
                that allows.

        Shapes:
            (m, n, k)(L) -> (m, n, k)(level)

        Raises:
            DecompositionError: `level-nests`, `level-units`.
        """
        given = level if isinstance(level, Level) else level.as_level()
        self._check(rules.level_nests, self._before, given)
        self._check(arguments.units, units, resident)
        order = {} if isinstance(level, Level) else {"order": level.order()}
        return self._refine(level=given, units=units, resident=resident, link=here(), **order)

    def unroll(self: T_) -> T_:
        """Unroll the loops over the tiles."""
        return self._refine(unrolled=True)

    def layout(self: T_, order: TileOrder) -> T_:
        """Choose the order in which unit ids count tiles.

        Args:
            order: along rows first (RowMajor), along columns first (ColMajor), in groups of rows (`Grouped(n)`), along
                Hilbert curves (`Hilbert(n)`), or by a layout of ids.
        """
        self._check(arguments.order, order, self.residual)
        return self._refine(order=order, link=here())

    def permute(self: T_, permutation: Callable[[Expr], Expr]) -> T_:
        """Permute unit ids before they count tiles (the paper's thread swizzle).

        Args:
            permutation: a function of an index expression, for example `lambda i: (i >> 1) | ((i & 1) << 3)`.
        """
        return self._refine(permute=permutation, link=here())

    def persistent(self: T_, order: TileOrder | None = None, share: StreamK | Drawn | None = None) -> T_:
        """Launch as many units as run at once, and let each loop over tiles.

        Args:
            order: of the tiles, as in `layout`; None keeps the present one.
            share: stream_k() gives each unit an equal share of the K chunks of all tiles; drawn() lets each block draw
                its next tile when it is done, by a counter; None lets units take whole tiles in turn.

        Raises:
            DecompositionError: `persistent-level` where the tiles do not go to the grid's blocks or clusters;
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
            DecompositionError: `dependent-level` where the tiles do not go to the grid's blocks or clusters; `arch`.
        """
        self._check(rules.dependent, self._before, self.residual.level)
        return self._refine(dependent=True, link=here())

    def staggered(self: T_, units: int) -> T_:
        """Let units take whole tiles of the persistent loop in turn (ping-pong).

        The main loop of one unit runs during the epilogue of another.

        Args:
            units: of the level that the tile goes to; each takes one trip in so many.

        Raises:
            DecompositionError: `staggered-units`, `staggered-store`.
        """
        (*_, link) = self.links
        assert isinstance(link, Tile)
        self._check(rules.staggered, self.links, self._before, self.residual, link.level, units)
        return self._refine(staggered=units, link=here())


class LoadRefinements(Schedule):
    """Refine the load written last."""

    def pad(self: L_, elements: int) -> L_:
        """Add elements to the buffer's leading stride, so that its rows start in other banks."""
        if elements < 0:
            raise DecompositionError(
                "pad", f"a pad of {elements} elements", fix="pad by 0 or more", link=here(), path=self.where
            )
        link = self._addressed("pad")
        if isinstance(link.storage, Layout):
            self._check(rules.storage, self._before, link.role, link.storage, elements)
        return self._refine(pad=elements)

    def swizzle(self: L_, swizzle: Swizzle) -> L_:
        """Permute the buffer's elements by XOR, so that columns spread over the banks.

        Raises:
            DecompositionError: `swizzle-row` where it is wider than a row.
        """
        link = self._addressed("swizzle")
        self._check(rules.swizzle, self._before, attrs.evolve(link, swizzle=swizzle))
        return self._refine(swizzle=swizzle)

    def storage_layout(self: L_, layout: Order | Layout) -> L_:
        """Store the buffer in this order, or by this layout, instead of in its source's order."""
        link = self._addressed("storage_layout")
        if isinstance(layout, Layout):
            self._check(rules.storage, self._before, link.role, layout, link.pad)
        self._check(rules.swizzle, self._before, attrs.evolve(link, storage=layout))
        return self._refine(storage=layout)

    def reuse_buffer(self: L_) -> L_:
        """Let the buffer overlay others that are dead by then."""
        self._addressed("reuse_buffer")
        return self._refine(reuse=True)

    def no_sync(self: L_) -> L_:
        """Claim that no barrier is needed for this load alone; lowering proves it, or refuses."""
        return self._refine(no_sync=True, claimed=here())

    def _addressed(self, method: str) -> Load:
        """Give the load that a refinement places, or refuse one to registers."""
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
    """Refine the split written last: the loop over chunks, or the units that take the chunks."""

    def unroll(self: S_, chunks: int | None = None) -> S_:
        """Unroll the loop over chunks.

        Args:
            chunks: number of chunks in one trip of the loop, None for all. With as many chunks as the pipeline has
                stages, ring slots are constants.

        Raises:
            DecompositionError: `unroll-chunks`; `parallel-pipeline` where units take the chunks, and no loop does.
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
        """Give the chunks to units of a level at once; what follows the fold is computed of the units' combined states.

        Args:
            level: Block: as many blocks share each tile (split-K); inside the block Warpgroup, Warp or
                `Group(Warp, n)`, whose units share the buffers of the loads above this split; Thread in a program.
            reduce: in_order() by default: the same bits in every run; by_atomics(), of blocks, in the order of arrival;
                by_tma(), of blocks, which add to C (beta=1), or to what a program's output replaces, by bulk stores;
                by_cluster(), of up to 8, through their SH.

        Shapes:
            (M, N, k)(L) -> (M, N, k)(level)

        Raises:
            DecompositionError: `parallel-level`, `parallel-accumulator`, `parallel-order`, `second-parallel`,
                `parallel-ways`, `parallel-units`, `parallel-reduce`, `parallel-promote`, `parallel-cluster`,
                `parallel-pipeline`, `too-many-threads`; `parallel-products` where several products differ in their
                chunks; of programs `grid-fold-read`, `parallel-loop`, `parallel-atomics` when the schedule is finished.
        """
        (*above, link) = self.links
        assert isinstance(link, Split)
        how = InOrder() if reduce is None else reduce
        self._check(self._shares, above, self._before, link, level, how)
        return self._refine(level=level, reduce=how, link=here())

    @property
    def _shares(self) -> Callable[..., None]:
        """Give the rules of chunks that units take at once."""
        if self._kind.spec is Program:
            return partial(program_rules.parallel, self.computed)
        return parallel_rules.of_products if self._kind.spec is Products else parallel_rules.parallel

    def _loops(self: S_, **changes: Any) -> S_:
        """Refine the loop over chunks, where there is one."""
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
        """Let the loads below run `stages - 1` chunks ahead, in as many ring slots.

        A pipeline of registers inside one of shared memory loads a chunk's first fragments during the chunk before.

        Args:
            stages: ring slots, 64 at most.
            inflight: 1 lets instructions (wgmma) still read a chunk's slot while the next chunk's begin; 0 waits.
            drain: whether it ends with each chunk of the pipeline around it instead.

        Raises:
            DecompositionError: `pipeline-stages`.
        """
        self._check(rules.pipeline, stages, inflight)
        return self._loops(stages=stages, inflight=inflight, drain=drain, link=here())

    def specialize(self: S_, producers: int = 1, registers: tuple[int, int] | None = None, prefetch: int = 0) -> S_:
        """Give the loads below to warps of their own, which run ahead as slots fall free.

        Args:
            producers: warpgroups that load.
            registers: budgets of a thread that loads, and of one that computes; multiples of 8 from 24 to 256.
            prefetch: number of a block's first chunks that the computing threads prefetch into the L2 cache on entry.

        Raises:
            DecompositionError: `role-registers`, `role-prefetch`.
        """
        self._check(rules.specialised, self.residual, producers, registers, prefetch)
        return self._loops(specialised=Specialised(producers, registers, prefetch), link=here())

    def promote(self: M_) -> M_:
        """Sum the products of each chunk in registers of their own, and add each sum to the accumulators.

        So 8-bit floats, whose sums tensor cores keep to fewer bits than f32 has, lose bits only within a chunk. What
        prologs above multiply A and B by is multiplied with the sums: nothing is computed with the operands, and any
        load takes them as they are. What both are multiplied by is multiplied first, in the accumulators' type. Threads
        hold two sets of accumulators, and wait for the products of each chunk.

        Raises:
            DecompositionError: `promote-accumulator` where C does not accumulate in registers; `promote-prolog` where a
                prolog does more than to multiply; `promote-scales` where it multiplies by what changes inside a chunk;
                `accumulator-dtype`; `parallel-promote` where units take the chunks.

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
        """Fold everything in one loop, also what needs the result of another fold over the dim.

        When the value of a fold moves, what later folds have summed is multiplied by a factor that is found on their
        expressions: of exp(x - m), exp(m - m'). What a sum is multiplied or divided by, and needs the finished fold,
        leaves the loop.

        With a slack, the value that others follow stays as it is until summands outgrow it: the results are the same,
        and sums are rescaled rarely. With `speculate`, chunks behind the first are computed with the old value at once,
        and not folded: their own sums tell whether a summand outgrew it, and by how many powers of 2 the value rises
        then. The warp computes a chunk again, with its value folded, only where summands may not be finite.

        Args:
            slack: powers of 2 by which summands may outgrow what they are scaled by, 0 to 64; types that summands are
                rounded to must hold 2**slack. 0 rescales whenever the value moves.
            speculate: whether to fold only chunks that outgrow the slack.

        Shapes:
            (i, j) -> (i, chunk of j)

        Raises:
            DecompositionError: `online-law` where an expression has no such factor; `online-parallel`; `online-above`;
                `online-slack`; `online-speculate`; when the schedule is finished `online-vote`.

        Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
        """
        self._only("online")
        (*_, link) = self.links
        assert isinstance(link, Split)
        self._check(program_rules.online, self.program.spec, link, slack, speculate, self.links[:-1])
        return self._refine(online=True, slack=slack, speculative=speculate, link=here())

    def skew(self: P_, step: str) -> P_:
        """Issue a step's product of chunk j + 1 ahead of the later products of chunk j.

        The pointwise steps of a chunk then run at the same time as products of its neighbours. Each array has its own
        mbarriers, so a slot of an array is refilled as soon as the product that reads this array has finished.

        Args:
            step: the first of the loop's products.

        Raises:
            DecompositionError: `each-step`, `skew-roles`, `split-together`; when the schedule is finished `skew-step`,
                `skew-ring`.
        """
        self._only("skew")
        (*_, link) = self.links
        assert isinstance(link, Split)
        self._check(program_rules.skew, self.program.spec, link, step)
        return self._refine(skewed=step, link=here())

    def order(self: P_, *steps: str) -> P_:
        """Let some steps stand first in a chunk, in this order; each stands behind the steps that it reads.

        A product that an asynchronous instruction computes then runs while threads compute the steps behind it.

        Args:
            steps: by name. Without this link, steps stand in the program's order.

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
