"""Chains: immutable schedules; each method call appends one decomposition, or refines the last one.

A chain is (program, links). Each method checks its link against the links before it, and returns a new chain, whose
type has the methods that may come next. `Chain` has the methods for all specs, `FoldChain` also those for specs that
sum or fold. The type parameter names the spec; methods for a few specs restrict the type of `self`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, overload

import attrs

from fireiron.algebra.layout import Layout
from fireiron.base.later import Later
from fireiron.base.link import here
from fireiron.front.refinements import LoadRefinements, SplitRefinements, TileRefinements
from fireiron.front.roles import Role
from fireiron.front.verbs import Schedule
from fireiron.language.atom import Atom
from fireiron.language.decompositions import (
    Done,
    Each,
    EachStep,
    Microkernel,
    Own,
    Strided,
    Tile,
    Widest,
)
from fireiron.language.levels import RF, Level, Memory
from fireiron.language.ops import Beside
from fireiron.language.pointwise import Op, Value
from fireiron.language.programs import Layer, Layers, Products
from fireiron.language.specs import BATCH, Init, MatMul, Move, Pointwise
from fireiron.language.steps import Program, Step
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.check import links as rules
    from fireiron.check import programs as program_rules
    from fireiron.language.meaning import Meaning
else:
    rules, program_rules = Later("fireiron.check.links"), Later("fireiron.check.programs")

S = TypeVar("S")
P = TypeVar("P", bound=Products | Program)
B = TypeVar("B", bound=MatMul | Products)
L = TypeVar("L", bound=MatMul | Move | Products | Layers | Layer | Program | Step)  # specs that read operands
D = TypeVar("D", bound=MatMul | Move | Products | Layer | Step | Program | Init | Pointwise)  # not closed by each()


@cache
def _function(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module of `front`; the module is imported at its first use."""
    return getattr(import_module(f"fireiron.front.{module}"), name)


class Chain(Schedule, Generic[S]):
    """Hold the methods that all kinds of specs have."""

    def _own(self, link: str) -> Callable[..., Any]:
        """Return the function with which this kind of chain makes a link, or checks it.

        Raises:
            DecompositionError: `wrong-spec`.
        """
        self._only(link)
        return _function(self._kind.own.get(link, "links"), link)

    def tile(self, *sizes: int | Strided | Layout, batch: int | None = None, **named: int | Layout) -> Tiled[S]:
        """Cut the results, and with them the operands, into tiles; dims that a step folds stay whole.

        Args:
            sizes: rows and columns of a tile, or one `Strided((chunk, stride), (chunk, stride))`. A `Layout` instead of
                a number lists the positions of the rows or columns of the first tile: `Layout((4, 2), (1, 16))` are 0
                to 3 and 16 to 19. For layers rows only: all columns stay together. Programs take `named` instead.
            batch: number of matrices in a tile, for a batch; 1 for groups.
            named: extents by dim instead: `tile(m=128, n=64)`; the other dims stay whole.

        Shapes:
            (M, N, K) -> (m, n, K)

        Raises:
            DecompositionError: `tile-arguments`, `tile-extent`, `tile-too-large`, `tile-gaps`, `no-such-dimension`,
                `tile-folded` for a dim that a step folds, `chain-closed`.
        """
        return self._as(Tiled, self._tile_link(sizes, batch, named))

    def _tile_link(
        self, sizes: tuple[int | Strided | Layout, ...], batch: int | None, named: Mapping[str, int | Layout]
    ) -> Tile:
        given = named if batch is None else {**named, "batch": batch}
        made = self._own("tile")(self, *sizes, **given)
        self._check(rules.tile_sizes, self.residual, made)
        return Tile(made, link=here())

    def load(
        self: Chain[L],
        operand: Role | Tensor | str,
        memory: Memory,
        strategy: Strategy | None = None,
        dtype: object = None,
    ) -> Loaded[L]:
        """Move an operand to another memory by a chain of its own.

        Args:
            operand: `A` or `B` of a product; `SRC` of a Move, which then passes through `memory`; a tensor or its name.
                In a program also the name of a step that threads compute below: its result then lies in SH, where other
                steps read it.
            memory: SH, FR or RF.
            strategy: a function from a Move to a finished Move, which says how data moves; vector() or conform() by
                default.
            dtype: element type in `memory`, the source's by default. A conversion moves data through registers.

        Raises:
            DecompositionError: `unknown-operand`, `ambiguous-operand`, `already-there`, `load-memory`, `load-output`,
                `load-level`, `load-above-epilog`, `load-above-split`, `load-step`, `layers-too-wide`,
                `unfinished-move`, `map-box` where a tile's part of the operand has no fixed size.
        """
        return self._as(Loaded, self._own("load")(self, operand, memory, strategy, dtype))

    def vectors(self: MoveChain, nbytes: int | None = None) -> Tiled[Move]:
        """Cut both sides of a Move into vectors, along the dimension that is contiguous on both sides.

        Args:
            nbytes: bytes of a vector; None takes the widest that both sides' layouts, bounds and alignments allow, up
                to 16.

        Raises:
            DecompositionError: `vector-bytes`; `vector-alignment` when the chain is finished.
        """
        self._only("vectors")
        if nbytes not in (None, 1, 2, 4, 8, 16):
            raise self._wrong("vector-bytes", f"no instruction moves {nbytes} bytes", "use 1, 2, 4, 8 or 16")
        return self._as(Tiled, Tile(Widest(nbytes or 16, exact=nbytes is not None), link=here()))

    def own(self: MoveChain, level: Level) -> MoveChain:
        """Divide a Move among the units of `level`: each moves the elements that it holds on the register side.

        Raises:
            DecompositionError: `ownership-unknown` when the chain is finished.
        """
        self._only("own")
        return self._as(Chain, Own(level, link=here()))

    @overload
    def each(
        self: LayersChain, layer: LayerStrategy, store: Strategy | None = None, prefetch: bool = False
    ) -> Schedule: ...
    @overload
    def each(self: ProgramChain, **chains: StepStrategy) -> Schedule: ...
    def each(self, *layer: Any, **chains: Any) -> Schedule:
        """Schedule each layer, or each step that sums products, by a chain of its own, and close the schedule.

        A step that is not named is computed by the threads that hold its operands. Where one atom writes registers and
        another atom reads them, both must lay them out alike.

        Args:
            layer: for layers, up to three arguments: a function from a layer to its finished chain, called once for a
                stack of equal layers; `store`, the strategy that stores the last result to Y (vector() or conform() by
                default); and `prefetch`, whether persistent blocks prefetch their next rows of X into the L2 cache
                before they store rows of Y.
            chains: for a program, by names of steps: functions from a step's MatMul to its finished chain.

        Raises:
            FireironError: located at the wrong link; `layers-on-chip` where X was not loaded, `layers-prefetch` where
                blocks take one tile each, `unfinished-layer`; `each-step` for an unknown step, `each-product`,
                `each-dims`, `unfinished-step`.

        Example:
            >>> import fireiron as fi
            >>> from fireiron import FR, Block, Warp
            >>> @fi.program(x="m k", w="k n")
            ... def product(x, w):
            ...     return fi.relu(fi.einsum("mk,kn->mn", x, w, name="s"))
            >>> x, w = fi.Matrix(64, 32, "f16"), fi.Matrix(32, 64, "f16")
            >>> s = product(x, w).tile(m=32, n=32).to(Block).tile(m=16, n=32).to(Warp).each(
            ...     s=lambda s: s.split(k=16).unroll().load("x", FR).load("w", FR).tile(16, 8).unroll().done())
            >>> "mma_m16n8k16" in s.cuda(arch="sm_80")
            True
        """
        return self._closed_by(self._own("each")(self, *layer, **chains))

    def done(self: Chain[D], atom: Atom | Microkernel | str | None = None) -> Schedule:
        """Close the chain with an atom: the first of the table that executes the rest, a chosen one, or a microkernel.

        The method checks the whole schedule: ownership, thread counts, vector widths, barriers. Programs and
        elementwise specs take no atom: threads compute the points that they own, step by step.

        Raises:
            FireironError: located at the link that is wrong; `no-atom` where no instruction executes the residual spec;
                `no-epilog`, `scale-without-epilog`; of programs `ownership-unknown`, `affine-read`, `fold-lanes`,
                `fold-warps`, `fold-registers`, `symbolic-tiles`, `symbolic-buffer`.
        """
        self._only("done")
        if "done" in self._kind.own:
            self._own("done")(self, atom)
        if atom is not None and not isinstance(cast(object, atom), Atom | Microkernel | str):
            from fireiron.atoms.table import chosen_from

            self._check(chosen_from, atom)
        return self._closed_by(Done(atom, link=here()))

    def _closed_by(self, link: Done | Each | EachStep) -> Schedule:
        """Close the chain with a link. A nested chain is checked as a part of the schedule that it belongs to."""
        closed = self._as(Schedule, link)
        if self._around is None:
            closed.lowered()
        return closed


class FoldChain(Chain[S]):
    """Hold the methods for specs that sum or fold: products, layers, programs and their steps."""

    @overload
    def tile(self: ProgramChain, **named: int) -> TiledProgram: ...
    @overload
    def tile(self, *sizes: int | Strided | Layout, batch: int | None = None, **named: int | Layout) -> TiledFold[S]: ...
    def tile(self, *sizes: Any, batch: int | None = None, **named: int | Layout) -> Any:
        """Cut the results into tiles, as `Chain.tile` does."""
        cls = TiledProgram if self._kind.spec is Program else TiledFold
        return self._as(cls, self._tile_link(sizes, batch, named))

    def split(
        self, dim: int | str | None = None, /, *, ways: int | None = None, multiple_of: int = 1, **size: int
    ) -> SplitFold[S]:
        """Cut a folded dim into chunks, which one loop visits, or which units share after `parallel`.

        Products that share an operand share a loop; loops of other products come one after another. Steps of a program
        that need a finished fold over the dim run in a second loop behind the first. Several dims, as in a
        convolution's `split(r=1, s=1, c=64)`, become one loop, in which the last dim varies fastest.

        Args:
            dim: extent of a chunk of K: `split(16)`; or the dim's name, with `ways`: `split("j", ways=8)`.
            ways: the number of chunks instead of their extent; it need not divide K, which may be a symbol.
            multiple_of: with `ways`, a divisor of each chunk's extent: the chunk of the split below, or the elements of
                a vector.
            size: dims and the extents of their chunks instead: `split(j=128)`.

        Shapes:
            (M, N, K) -> (M, N, k)

        Raises:
            DecompositionError: `split-extent`, `split-arguments`, `no-such-dimension`, `split-above-epilog`,
                `split-together` where a step does not fold all of several dims, `chain-closed`.
        """
        if dim is not None:
            made = self._own("split")(self, dim, ways=ways, multiple_of=multiple_of, **size)
        else:
            made = self._own("split")(self, ways=ways, multiple_of=multiple_of, **size)
        return self._as(SplitFold, made)

    def load(
        self: FoldChain[L],
        operand: Role | Tensor | str,
        memory: Memory,
        strategy: Strategy | None = None,
        dtype: object = None,
    ) -> LoadedFold[L]:
        """Move an operand to another memory by a chain of its own, as `Chain.load` does."""
        return self._as(LoadedFold, self._own("load")(self, operand, memory, strategy, dtype))

    def allocate(self: FoldChain[P], temporary: str, memory: Memory, strategy: Strategy | None = None) -> LoadedFold[P]:
        """Give a program's temporary (a step's result that other steps read) memory of its own.

        Without this link, a temporary that one step reads is computed inside that step, and others stay in registers.

        Args:
            temporary: name of the step: `p = (...).named("p")`.
            memory: RF keeps the result in the registers of the threads that compute it; SH also stores it to shared
                memory, where atoms read it.
            strategy: how the result moves to SH, as for `load`.

        Raises:
            DecompositionError: `allocate-step`, `already-there`, `load-memory`, `load-step`, `load-level`.

        Example:
            >>> import fireiron as fi
            >>> @fi.program(x="m n")
            ... def distances(x):
            ...     square = (x * x).named("square")
            ...     return fi.sum(square, over="n")
            >>> chain = distances(fi.Matrix(64, 512)).tile(m=4).to(fi.Block).tile(m=1).to(fi.Warp)
            >>> chain = chain.load("x", fi.RF, fi.vector())
            >>> "square_rf" in chain.done().cuda(), "square_rf" in chain.allocate("square", fi.RF).done().cuda()
            (False, True)
        """
        return self._as(LoadedFold, self._own("allocate")(self, temporary, memory, strategy))

    def prolog(self: MatMulChain, operand: Role | Tensor | str, *ops: Op) -> MatMulChain:
        """Apply pointwise ops to the elements of an operand when a load moves them through registers.

        The next load that passes through registers applies the ops: by vector(), conform() or staged(), and by
        ldmatrix() if the ops keep the element type. cp_async() and tma() leave the ops to a later load. Ops that change
        the element type must come before `epilog`.

        Args:
            operand: `A` or `B`, a tensor, or a name.
            ops: functions of an element's expression, applied in order (`relu`, `scale(s)`, `dequantise("f16", s)`).
                Tensors that the ops read are broadcast over the operand; one value may also serve a group of
                neighbours, along K or across.

        Raises:
            DecompositionError: `unknown-operand`, `load-output`, `prolog-shape`, `accumulator-dtype`. SpecError:
                `bad-op`, `same-name`, `dtype-mismatch`.
        """
        return self._as(FoldChain, self._own("prolog")(self, operand, *ops))

    @overload
    def epilog(
        self: MatMulChain,
        *ops: Op | Beside,
        memory: Memory = RF,
        dtype: object = None,
        init: float = 0.0,
        store: Strategy | None = None,
        early: Tensor | Sequence[Tensor] = (),
        addends: bool = False,
        load: Mapping[Tensor, Strategy] = ...,
        slots: int = 1,
        behind: bool = False,
    ) -> MatMulChain: ...
    @overload
    def epilog(
        self: FoldChain[P],
        *,
        memory: Memory = RF,
        store: Strategy | Mapping[str, Strategy] | None = None,
        early: str | Sequence[str] = (),
    ) -> FoldChain[P]: ...
    @overload
    def epilog(self: LayerChain, *, store: Strategy | None = None) -> LayerChain: ...
    def epilog(self, *ops: Any, **options: Any) -> Any:
        """Accumulate in registers; after the sums are complete, apply pointwise ops to them and store the results.

        Args:
            ops: for a MatMul: functions from the accumulator's expression to a new one, applied in order (`relu`,
                `add(bias)`). `save(tensor)` between them stores the value so far to another tensor.
            memory: FR or RF.
            dtype: for a MatMul: the accumulator's element type; f32 for 16-bit floats, i32 for integers by default.
            init: for a MatMul: the accumulator's first value.
            store: the strategy that stores results, conform() by default; for a program also a mapping from outputs'
                names to strategies. A layer's result is stored where A lies.
            early: tensors that threads begin to load to registers before the products, so that loads and products
                overlap. For a MatMul: tensors of C's shape that ops read (`whole_operands` lists them). For a program:
                names of inputs that only steps after the folds read.
            addends: for a MatMul: whether the tensor that the first op adds (`add(bias)`) becomes the first value of
                the sums. The tensor is then loaded before the products, and takes no registers beside the sums.
            load: for a MatMul: tensors of C's shape, read by ops, with strategies of bulk copies, `{residual: tma()}`:
                the role that loads (`specialize`) brings a tile of each to shared memory while the products run, and
                ops read it there.
            slots: for a MatMul: tiles of each such tensor in shared memory, where a block loops over tiles. With one
                slot, the role copies a tile after the last chunk of the tile's products; with more slots, tiles after
                short loops are copied earlier.
            behind: for a MatMul: whether ops run behind the exchange of `through_shared`, where a thread holds
                neighbours of a line and reads further tensors by vectors of up to 16 bytes. The buffer must hold the
                accumulator's type, `through_shared(dtype=...)`: f32 takes twice the shared memory of 16 bits.

        Raises:
            DecompositionError: `second-epilog`, `epilog-memory`, `epilog-store`, `accumulator-dtype`, `load-level`,
                `accumulator-init`, `epilog-early`, `epilog-load`, `epilog-behind`. SpecError: `bad-op`,
                `shape-mismatch`, `same-name`, `epilog-overlap`, `dtype-mismatch`.
        """
        return self._as(FoldChain, self._own("epilog")(self, *ops, **options))

    def then(self: MatMulChain, *ops: Op | Beside) -> MatMulChain:
        """Append pointwise ops to the product: the epilog of every schedule applies them, before its own ops.

        So each preset of a product schedules the product with the ops too: `ampere.gemm(spec.then(add(bias), relu))`.

        Args:
            ops: as `epilog` takes them.

        Raises:
            DecompositionError: `then-first` behind an epilog. SpecError: as `epilog` does.

        Example:
            >>> from fireiron import matmul, relu
            >>> from fireiron.schedules import simt
            >>> "fmaxf_nan" in simt.listing2(matmul(128, 128, 64).then(relu)).cuda()
            True
        """
        return self._own("then")(self, *ops)

    def swap(self: MatMulChain) -> MatMulChain:
        """Compute the transpose of C as the product of the transposes of B and A; no data moves.

        Use: an instruction whose N has finer steps than its M then tiles the original M in fine steps.

        Shapes:
            (M, N, K) -> (N, M, K)

        Raises:
            DecompositionError: `swap-first` behind another link.
        """
        return self._own("swap")(self)

    # Facts of a spec for authors of chains.

    @property
    def left(self: MatMulChain) -> Tensor:
        """Describe A as atoms read it: with the element type after its prolog."""
        return self._met("A")

    @property
    def right(self: MatMulChain) -> Tensor:
        """Describe B as atoms read it: with the element type after its prolog."""
        return self._met("B")

    def _met(self, role: str) -> Tensor:
        found = self.residual.operand(role)
        assert found is not None
        same = found.computed == found.tensor.dtype
        return found.tensor if same else attrs.evolve(found.tensor, dtype=found.computed)

    @property
    def whole_operands(self: MatMulChain) -> tuple[Tensor, ...]:
        """List tensors for `epilog(early=...)`: those of C's shape that ops of `then` read, and C if beta is not 0.

        Example:
            >>> from fireiron import Matrix, Vector, add, matmul
            >>> spec = matmul(64, 32, 16).then(add(Vector(32, name="bias")), add(Matrix(64, 32, name="residual")))
            >>> [tensor.name for tensor in spec.whole_operands]
            ['residual']
        """
        from fireiron.front.matmul import whole_operands

        return whole_operands(self)

    @property
    def served_along_k(self: MatMulChain) -> int | None:
        """Return the number of neighbours along K that a prolog multiplies by one value.

        `promote` needs a `split` by a divisor of this number.

        The number is 0 where one value serves all of K. The result is None without a prolog, or for a prolog that does
        more than multiply.

        Example:
            >>> from fireiron import A, Matrix, dequantise, matmul
            >>> scales = Matrix(64, 4, name="scales")
            >>> matmul(64, 64, 512, "e4m3", layout="TN").prolog(A, dequantise("f32", scales)).served_along_k
            128
        """
        from fireiron.check.promote import served_along_k

        return served_along_k(self.residual, self.matmul.swapped)

    @property
    def meaning(self: MatMulChain) -> Meaning:
        """Return what the chain computes; this calls its ops, since a function may do something else each time.

        Example:
            >>> from fireiron import A, matmul, relu
            >>> spec = matmul(64, 64, 32)
            >>> spec.meaning == matmul(64, 64, 32).meaning, spec.meaning == spec.prolog(A, relu).meaning
            (True, False)
        """
        from fireiron.front.matmul import meaning

        return meaning(self)

    @property
    def portable(self: MatMulChain) -> tuple[MatMulChain, ...]:
        """List chains that can be sent to another process in place of this one.

        The first has expressions instead of functions as ops; the second is the product without ops.
        """
        from fireiron.front.matmul import portable

        return portable(self)

    @property
    def batch(self: FoldChain[B]) -> int | None:
        """Return the `batch` of a tile of one matrix: 1 with a batch or groups, else None.

        Example: `spec.tile(m, n, batch=spec.batch)`.
        """
        return 1 if BATCH in self.residual.extents else None

    @property
    def function(self: LayerChain) -> Value:
        """Return a layer's op, from the accumulator to the result."""
        return next(layer.value for layer in self.layers.layers if layer.weights == self.weights)

    @property
    def weights(self: LayerChain) -> Tensor:
        """Return a layer's weights: K x N, or a batch of such matrices."""
        b = self._origin.operand("B")
        assert b is not None
        return b.tensor

    @property
    def sizes(self: LayerChain) -> tuple[int, int, int]:
        """Return a layer's M, N and K: rows of a block, columns of the result, columns of A."""
        found = tuple(size for dim, size in self._origin.sizes if dim != BATCH)
        return cast("tuple[int, int, int]", found)


class Loaded(LoadRefinements, Chain[S]):
    """A chain whose last link is a load: a refinement of the load or another link comes next."""


class SplitFold(SplitRefinements[S], FoldChain[S]):
    """A chain whose last link is a split: a refinement of the loop or of its units, or another link comes next."""


class Tiled(TileRefinements, Chain[S]):
    """A chain whose last link is a tile."""

    def pipeline(self: Tiled[Move], stages: int) -> Tiled[Move]:
        """Give the buffers of the loads below the tile a ring of slots, which the tiles of a Move use in turn.

        Before a slot is written again, threads wait for the bulk store that reads the slot.

        Args:
            stages: number of slots.

        Raises:
            DecompositionError: `pipeline-stages`.
        """
        self._only("pipeline")
        self._check(rules.pipeline, stages, 0, 1)
        return self._refine(stages=stages, link=here())


class TiledFold(TileRefinements, FoldChain[S]):
    """A chain of sums or folds whose last link is a tile."""


class TiledProgram(TiledFold[Program]):
    """A program whose last link is a tile."""

    def pipeline(self, stages: int) -> TiledProgram:
        """Load inputs to SH for the next `stages - 1` tiles ahead of their use, into a ring of `stages` slots.

        With one slot, the loads for the next tile start after the last read of this tile's slot. The tile must be a
        loop: persistent, or without a level. Inputs that are the same for all tiles are loaded once.

        Args:
            stages: number of slots.

        Raises:
            DecompositionError: `pipeline-stages`, `pipeline-loop`; `pipeline-empty` when the schedule is finished.

        Example:
            >>> from fireiron import RF, SH, Block, Matrix, Warp, cp_async, vector
            >>> from fireiron.schedules.rows import softmax
            >>> rows = softmax(Matrix(4096, 4096, "f16")).tile(m=1).to(Block).persistent().pipeline(2)
            >>> rows = rows.split("n", ways=8).parallel(Warp).load("x", SH, cp_async()).load("x", RF, vector())
            >>> print(rows.epilog(memory=RF).done().lowered().shared_nbytes)
            16576
        """
        self._check(rules.pipeline, stages, 0, 1)
        (*_, link) = self.links
        assert isinstance(link, Tile)
        self._check(program_rules.pipeline, link)
        return self._refine(stages=stages, link=here())


class LoadedFold(Loaded[S], FoldChain[S]):
    """A chain of sums or folds whose last link is a load."""


MatMulChain: TypeAlias = FoldChain[MatMul]
MoveChain: TypeAlias = Chain[Move]
ElementwiseChain: TypeAlias = Chain[Init | Pointwise]
ProductsChain: TypeAlias = FoldChain[Products]
LayersChain: TypeAlias = Chain[Layers]
LayerChain: TypeAlias = FoldChain[Layer]
ProgramChain: TypeAlias = FoldChain[Program]
StepChain: TypeAlias = FoldChain[Step]
Strategy: TypeAlias = Callable[[MoveChain], Schedule]
LayerStrategy: TypeAlias = Callable[[LayerChain], Schedule]
StepStrategy: TypeAlias = Callable[[StepChain], Schedule]
