"""Chains: immutable schedules that grow by one decomposition a call, and refine the last one.

A chain is (program, links). Each method checks what it can know, and returns a new chain whose type offers what may
come next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import Expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.contract import asked, checked_methods
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.base.link import here
from fireiron.base.records import evolve
from fireiron.check import arguments, limits
from fireiron.check import links as rules
from fireiron.check import parallel as parallel_rules
from fireiron.front.describe import describe
from fireiron.front.offers import REFINES, instead, offered
from fireiron.front.roles import Role, in_registers, role_name
from fireiron.language.atom import Atom
from fireiron.language.decompositions import (
    Chunks,
    Decomposition,
    Done,
    Extent,
    InOrder,
    Load,
    Microkernel,
    Prolog,
    Reduction,
    Specialised,
    Split,
    StreamK,
    Strided,
    Tile,
    Widest,
)
from fireiron.language.levels import Level, Memory
from fireiron.language.pointwise import cast_to
from fireiron.language.residual import Operand, Residual, apply, move_of
from fireiron.language.specs import BATCH, Task
from fireiron.language.tensor import Order, Tensor, TileOrder

if TYPE_CHECKING:
    from fireiron.front.moves import MoveChain
    from fireiron.jit.compile import Compiler
    from fireiron.language.steps import Program

Strategy = Callable[["MoveChain"], "MoveChain"]
C_ = TypeVar("C_", bound="Chain")
# Where `Self` would do, a variable stands: tab completion (jedi) follows it to the chain's own type, so that it also
# offers what may come after a refinement.
T_ = TypeVar("T_", bound="TileRefinements")
S_ = TypeVar("S_", bound="SplitRefinements")
L_ = TypeVar("L_", bound="LoadRefinements")


class RefinementError(DecompositionError, AttributeError):
    """Report a method that what was written last does not have."""


@attrs.frozen(eq=False, repr=False, slots=False)
class Chain:
    """Hold a program, the links so far, and what they leave to do.

    Args:
        program: what is computed.
        links: the decompositions, outermost first.
        origin: the residual spec before the first link.
        trail: the residual specs after each link.
        path: the links that led to `origin`, for nested chains.
        fallback: of a schedule that `best` chose: gives the next one where the compiler does not build this one well,
            and None where there is none. A chain that goes on has none.
    """

    program: Task
    links: tuple[Decomposition, ...]
    origin: Residual
    trail: tuple[Residual, ...] = ()
    path: str = ""
    fallback: Callable[[str, Compiler], Any] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checked_methods(cls, DecompositionError, _where, leave={"atom"})

    @property
    def residual(self) -> Residual:
        """Give the spec that remains."""
        return self.trail[-1] if self.trail else self.origin

    @property
    def steps(self) -> Program:
        """Give what the chain computes as a program of steps: prologs, an epilog's ops and conversions are part of it.

        Example:
            >>> from fireiron import Matrix, Move
            >>> print(Move(Matrix(64, 32), Matrix(64, 32, "f16")).steps)
            move(X[64, 32].f32.GL) over m 64, n 32
              Y[m, n] = f16(X[m, n])
        """
        from fireiron.language.as_steps import steps_of

        return self._check(steps_of, self.program.spec, self.links)

    @property
    def where(self) -> str:
        """Give the path in the tree, for errors."""
        words = [self.path] if self.path else [f"{self.origin.short} @ {self.origin.level}"]
        return " > ".join((*words, *(describe(link) for link in self.links)))

    def _check(self, rule: Callable[..., Any], *args: Any) -> Any:
        """Apply a rule, locating what it raises at the method that the user called."""
        try:
            return rule(*args)
        except FireironError as error:
            raise error.located(here(), self.where) from None

    def _as(self, cls: type[C_], link: Decomposition) -> C_:
        return cls(
            self.program, (*self.links, link), self.origin, (*self.trail, apply(link, self.residual)), self.path
        )._within_limits()

    def _within_limits(self) -> Self:
        """Apply the rules of blocks and of the spec's architecture to what the last link asks for."""
        link = self.links[-1]
        if self.program.arch is not None:
            self._check(limits.features_fit, link, self.program.arch)
        if isinstance(link, Tile):
            self._check(limits.threads_fit, link, self._before, self.residual)
        elif isinstance(link, Load | Split) and self.program.arch is not None and not self.path:
            self._check(limits.shared_fits, self.links, (self.origin, *self.trail[:-1]), self.program.arch)
        return self

    def _refine(self, **changes: Any) -> Self:
        """Replace the last link by one with these changes."""
        link = attrs.evolve(self.links[-1], **changes)
        before = self.trail[-2] if len(self.trail) > 1 else self.origin
        trail = (*self.trail[:-1], apply(link, before))
        return evolve(self, links=(*self.links[:-1], link), trail=trail)._within_limits()

    @property
    def _before(self) -> Residual:
        return self.trail[-2] if len(self.trail) > 1 else self.origin

    if not TYPE_CHECKING:  # a type checker that saw it would take every name for a method

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            methods = sorted(m for m in dir(type(self)) if not m.startswith("_"))
            last = describe(self.links[-1]) if self.links else self.residual.short
            owner = REFINES.get(name)
            why = f"{name} refines {owner}, and the last link is {last}" if owner else f"nothing here is called {name}"
            raise RefinementError(
                "no-such-link",
                f"{last} has no {name}: {why}",
                fix=instead(name, methods),
                link=here(),
                path=self.where,
            )

    def __dir__(self) -> list[str]:
        """Offer what can come next."""
        return offered(super().__dir__(), self.residual, self.links)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and (self.program, self.links, self.origin) == (
            other.program,
            other.links,
            other.origin,
        )

    def __hash__(self) -> int:
        return hash((self.program, self.links, self.origin))

    def __str__(self) -> str:
        if self.path or any(not isinstance(link, Prolog) for link in self.links):
            return self._words
        from fireiron.language.words import steps_in_words

        return "\n".join((self._words, *(f"  {line}" for line in steps_in_words(self.steps))))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._words}>"

    @property
    def _words(self) -> str:
        return " ".join((str(self.origin), *(f".{describe(link)}" for link in self.links)))

    # Decompositions that MatMuls and Moves share; the typed methods of their chains call these.

    def _tile_link(self, sizes: tuple[tuple[str, Extent], ...] | Widest) -> Tile:
        self._check(rules.still_open, self.residual, "tile")
        self._check(rules.tile_sizes, self.residual, sizes)
        return Tile(sizes, link=here())

    def _sizes(
        self, sizes: tuple[int | Strided, ...], batch: int | None, dims: tuple[str, str]
    ) -> tuple[tuple[str, Extent], ...]:
        named = _named(sizes, dims)
        if named is None:
            raise DecompositionError(
                "tile-arguments",
                f"tile({', '.join(map(str, sizes))}) is no tile of {self.residual.short}",
                fix="tile(rows, cols), or tile(Strided((chunk, stride), (chunk, stride)))",
                link=here(),
                path=self.where,
            )
        if batch is None:
            return named
        leading = [dim for dim, _ in self.residual.sizes if dim.startswith(BATCH)] or [BATCH]
        return (*((dim, batch) for dim in leading), *named)

    def _load_link(
        self, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None, dtype: object
    ) -> Load:
        from fireiron.front.moves import MoveChain, default_load

        self._check(rules.still_open, self.residual, "load")
        found = self._check(
            rules.operand, self.residual, role_name(operand), operand if isinstance(operand, Tensor) else None
        )
        self._check(rules.load, self.residual, found, memory)
        kind = found.dtype if dtype is None else self._check(find_dtype, dtype)
        move = MoveChain(self.program, (), move_of(self.residual, found.role, memory, kind), (), self.where)
        finished = self._finished(strategy or default_load(memory), move)
        ops = found.ops if in_registers(finished.links) else None
        if ops is not None:  # threads hold the elements on their way, and apply what was to be done with them
            ops = ops if dtype is None else cast_to(ops, kind)
            move = MoveChain(self.program, (), move_of(self.residual, found.role, memory, ops.dtype), (), self.where)
            finished = self._finished(strategy or default_load(memory), move)
            return Load(found.role, memory, finished.links, dtype=ops.dtype, ops=ops, link=here())
        return Load(found.role, memory, finished.links, dtype=None if dtype is None else kind, link=here())

    def _operand(self, operand: Role | Tensor | str) -> Operand:
        """Find the operand that a link names."""
        given = operand if isinstance(operand, Tensor) else None
        return self._check(rules.operand, self.residual, role_name(operand), given)

    def _finished(self, strategy: Strategy, move: MoveChain) -> MoveChain:
        """Run a strategy on a Move, and see that it closes it."""
        from fireiron.front.moves import MoveChain

        # A strategy is a user's function: nothing but this check holds it to its type.
        result = cast(object, asked(strategy, move, said="strategy"))
        if not isinstance(result, MoveChain) or not result.residual.closed:
            name = getattr(strategy, "__name__", str(strategy))
            left = result.residual if isinstance(result, Chain) else repr(result)
            uncalled = callable(result) and not isinstance(result, Chain)  # cp_async instead of cp_async()
            raise DecompositionError(
                "unfinished-move",
                f"{name} makes a strategy, and is none itself"
                if uncalled
                else f"strategy {name} leaves {left}: a Move must be decomposed to atoms",
                fix=f"call it: {name}()" if uncalled else "end the strategy's chain by .done()",
                link=here(),
                path=self.where,
            )
        return result

    def _done_link(self, atom: Atom | Microkernel | str | None) -> Done:
        self._check(rules.still_open, self.residual, "done")
        if atom is not None and not isinstance(cast(object, atom), Atom | Microkernel | str):
            from fireiron.atoms.table import chosen_from

            self._check(chosen_from, atom)
        return Done(atom, link=here())


def _where(chain: Chain) -> str:
    return chain.where


def _named(sizes: tuple[int | Strided, ...], dims: tuple[str, str]) -> tuple[tuple[str, Extent], ...] | None:
    match sizes:
        case (Strided(rows, cols),):
            return ((dims[0], Chunks(*rows)), (dims[1], Chunks(*cols)))
        case (int(m), int(n)):
            return ((dims[0], m), (dims[1], n))
        case _:
            return None


class TileRefinements(Chain):
    """Refine the tile written last."""

    def to(self: T_, level: Level, units: int | None = None, resident: int = 0) -> T_:
        """Give the tiles to the units of a level.

        Args:
            level: inside the present one; the outermost level inside a block decides how many units the block has.
            units: at most this many take part; they loop over the rest.
            resident: with Block, how many blocks an SM should hold at once: the compiler keeps registers below what
                that allows.

        Shapes:
            (m, n, k)(L) -> (m, n, k)(level)

        Raises:
            DecompositionError: `level-nests`, `level-units`.
        """
        self._check(rules.level_nests, self._before, level)
        self._check(arguments.units, units, resident)
        return self._refine(level=level, units=units, resident=resident, link=here())

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

    def persistent(self: T_, order: TileOrder | None = None, share: StreamK | None = None) -> T_:
        """Launch as many units as run at once, and let each loop over tiles.

        Args:
            order: of the tiles, as in `layout`; None keeps the present one.
            share: stream_k() gives each unit an equal share of the K chunks of all tiles; None gives whole tiles.

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


class SplitRefinements(Chain):
    """Refine the split written last: the loop over its chunks, or the units that take them."""

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
        """Give the chunks to units of a level, which compute at the same time; epilog's ops follow their sum.

        Args:
            level: Block: as many blocks share each tile of C (split-K); inside the block Warpgroup, Warp or
                `Group(Warp, n)`, whose units share the buffers of the loads above this split.
            reduce: in_order() by default: the same bits in every run; by_atomics(), of blocks, in the order of arrival;
                by_tma(), of blocks, which add to C (beta=1) by bulk stores; by_cluster(), of up to 8, through their SH.

        Shapes:
            (M, N, k)(L) -> (M, N, k)(level)

        Raises:
            DecompositionError: `parallel-level`, `parallel-accumulator`, `parallel-order`, `second-parallel`,
                `parallel-ways`, `parallel-units`, `parallel-reduce`, `parallel-promote`, `parallel-cluster`,
                `parallel-pipeline`, `too-many-threads`.
        """
        (*above, link) = self.links
        assert isinstance(link, Split)
        how = InOrder() if reduce is None else reduce
        self._check(self._shares, above, self._before, link, level, how)
        return self._refine(level=level, reduce=how, link=here())

    @property
    def _shares(self) -> Callable[..., None]:
        """Give the rules of chunks that units take at once."""
        return parallel_rules.parallel

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


class LoadRefinements(Chain):
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
        return self._refine(no_sync=True, link=here())

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
