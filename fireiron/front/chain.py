"""Chains: immutable schedules that grow by one decomposition a call, and refine the last one.

A chain is (program, links). Each method checks its link against the links before it, and returns a new chain; the new
chain's type has the methods that may follow. `Chain` has the links of all specs, `FoldChain` also those of specs that
sum or fold. A type parameter names the spec; methods for few specs restrict the type of `self`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, overload

import attrs

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
    """Find a function of a module of `front`, which is loaded where it is needed first."""
    return getattr(import_module(f"fireiron.front.{module}"), name)


class Chain(Schedule, Generic[S]):
    """Decompose a spec by the links that all kinds of specs have."""

    def _own(self, link: str) -> Callable[..., Any]:
        """Find the function of this kind of chain that makes a link, or checks it.

        Raises:
            DecompositionError: `wrong-spec`.
        """
        self._only(link)
        return _function(self._kind.own.get(link, "links"), link)

    def tile(self, *sizes: int | Strided, batch: int | None = None, **named: int) -> Tiled[S]:
        """Cut what is written into tiles, and with it the operands; dims that a step folds stay whole.

        Args:
            sizes: rows and columns of a tile, or one `Strided((chunk, stride), (chunk, stride))`; rows alone of layers,
                whose columns stay together. Programs name their dims.
            batch: matrices of a tile, where there is a batch, or groups; of groups it is 1.
            named: extents by dim instead: `tile(m=128, n=64)`; the other dims stay whole.

        Shapes:
            (M, N, K) -> (m, n, K)

        Raises:
            DecompositionError: `tile-arguments`, `tile-extent`, `tile-too-large`, `tile-gaps`, `no-such-dimension`,
                `tile-folded` for a dim that a step folds, `chain-closed`.
        """
        return self._as(Tiled, self._tile_link(sizes, batch, named))

    def _tile_link(self, sizes: tuple[int | Strided, ...], batch: int | None, named: dict[str, int]) -> Tile:
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
            operand: `A` or `B` of a product, `SRC` of a Move, which then goes by way of the other memory; a tensor, or
                its name; in a program also the name of a step that threads compute below, whose result then lies in SH
                where it is read.
            memory: SH, FR or RF.
            strategy: how, a function from a Move to a finished Move; vector() or conform() by default.
            dtype: element type there, the source's by default; converting takes a register hop.

        Raises:
            DecompositionError: `unknown-operand`, `ambiguous-operand`, `already-there`, `load-memory`, `load-output`,
                `load-level`, `load-above-epilog`, `load-above-split`, `load-step`, `layers-too-wide`,
                `unfinished-move`, `map-box` where a tile's part of the operand has no fixed size.
        """
        return self._as(Loaded, self._own("load")(self, operand, memory, strategy, dtype))

    def vectors(self: MoveChain, nbytes: int | None = None) -> Tiled[Move]:
        """Cut both sides of a Move into vectors along the dimension that is contiguous on both.

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
        """Descend to the elements that each unit of `level` holds of the register side of a Move.

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
        """Schedule each layer, or steps that sum products, by a chain of its own, and close the schedule.

        A step that is not named is computed by the threads that hold its operands. Where one atom writes registers
        that another atom reads, both atoms must have the same layout of them.

        Args:
            layer: for layers, a function from a layer to its finished chain, called once for a stack of equal layers;
                then `store`, the strategy that stores the last result to Y (vector() or conform() by default), and
                `prefetch`, whether persistent blocks prefetch their next rows of X into the L2 cache before they store
                the rows of Y.
            chains: for a program, by a step's name, a function from the step's MatMul to its finished chain.

        Raises:
            FireironError: located at the link that is wrong; `layers-on-chip` where X was not loaded,
                `layers-prefetch` where blocks take one tile each, `unfinished-layer`; `each-step` for a step that is
                not there, `each-product`, `each-dims`, `unfinished-step`.

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
        """Close the chain: the first atom of the table that executes the residual spec, a chosen one, or a microkernel.

        The whole schedule is elaborated here: ownership, thread counts, vector widths, barriers. Programs and
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
        """Close the chain; what is nested is elaborated with the schedule that it belongs to."""
        closed = self._as(Schedule, link)
        if self._around is None:
            closed.lowered()
        return closed


class FoldChain(Chain[S]):
    """Decompose a spec that sums or folds: products, layers, programs and their steps."""

    @overload
    def tile(self: ProgramChain, **named: int) -> TiledProgram: ...
    @overload
    def tile(self, *sizes: int | Strided, batch: int | None = None, **named: int) -> TiledFold[S]: ...
    def tile(self, *sizes: Any, batch: int | None = None, **named: int) -> Any:
        """Cut what is written into tiles, as `Chain.tile` does."""
        cls = TiledProgram if self._kind.spec is Program else TiledFold
        return self._as(cls, self._tile_link(sizes, batch, named))

    def split(
        self, dim: int | str | None = None, /, *, ways: int | None = None, multiple_of: int = 1, **size: int
    ) -> SplitFold[S]:
        """Cut a dim that is folded into chunks: one loop visits them, or units take them by `parallel`.

        Products that share an operand go through one loop, the others' loops follow each other. Steps of a program that
        need a finished fold over the dim run in a further loop behind the first. Several dims of a program have one
        loop, in which the chunks of the last dim follow each other first: a convolution's `split(r=1, s=1, c=64)`.

        Args:
            dim: extent of a chunk of K: `split(16)`; or the dim's name, with `ways`: `split("j", ways=8)`.
            ways: the number of chunks instead, for an extent that is not known or that they need not divide.
            multiple_of: with ways, what a chunk's extent is a multiple of: the chunk of the split below, or the
                elements of a vector.
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
        """Give a temporary of a program, the result of a step between others, memory of its own.

        Without it a result that one step reads is computed where it is read, and others stay in registers.

        Args:
            temporary: name of the step: `p = (...).named("p")`.
            memory: RF keeps the result in the registers of the threads that compute it; SH also stores it to shared
                memory, where atoms read it.
            strategy: how it gets to SH, as for `load`.

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
        """Compute pointwise with the elements of an operand where a load moves them through registers.

        The next load that does so applies the ops: vector(), conform() and staged() do, ldmatrix() where they keep the
        element type; cp_async() and tma() hand the elements on as they are. Ops that change the element type stand
        before epilog.

        Args:
            operand: `A` or `B`, a tensor, or a name.
            ops: functions of an element's expression, first to last (`relu`, `scale(s)`, `dequantise("f16", s)`). Their
                tensors repeat over the operand; one value may serve a group of neighbours, along K or across.

        Raises:
            DecompositionError: `unknown-operand`, `load-output`, `prolog-shape`, `accumulator-dtype`. SpecError: `bad-
                op`, `same-name`, `dtype-mismatch`.
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
        """Accumulate in registers; behind the sums, apply pointwise ops to them and store the results.

        Args:
            ops: for a MatMul: functions from the accumulator's expression to a new one, first to last (`relu`,
                `add(bias)`), and `save(tensor)` where the value so far is stored too.
            memory: FR or RF.
            dtype: for a MatMul: the accumulator's element type; f32 for 16-bit floats, i32 for integers by default.
            init: for a MatMul: the accumulator's first value.
            store: the strategy that stores each result, conform() by default; a layer's result goes where A lies. For a
                program also strategies by the outputs' names.
            early: for a MatMul: tensors of C's shape, read by ops, that each thread loads to registers before the
                products, so that the loads run while the products do; `whole_operands` lists such tensors. For a
                program: names of inputs that only steps behind the folds read.
            addends: for a MatMul: whether the sums begin with what the ops add to them first (`add(bias)`), which is
                loaded before the products then and takes no registers beside the sums.

        Raises:
            DecompositionError: `second-epilog`, `epilog-memory`, `epilog-store`, `accumulator-dtype`, `load-level`,
                `accumulator-init`, `epilog-early`. SpecError: `bad-op`, `shape-mismatch`, `same-name`,
                `epilog-overlap`, `dtype-mismatch`.
        """
        return self._as(FoldChain, self._own("epilog")(self, *ops, **options))

    def then(self: MatMulChain, *ops: Op | Beside) -> MatMulChain:
        """Let the product be followed by pointwise ops: every schedule's epilog applies them, before its own.

        So any preset becomes one of the fused product: `ampere.gemm(spec.then(add(bias), relu))`.

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
        """Compute the transpose of C as the product of the transposes of B and A: nothing moves, roles change names.

        Widths of tiles that one dimension takes in finer steps than the other then run along M.

        Shapes:
            (M, N, K) -> (N, M, K)

        Raises:
            DecompositionError: `swap-first` behind another link.
        """
        return self._own("swap")(self)

    # What those who write chains ask of their specs.

    @property
    def left(self: MatMulChain) -> Tensor:
        """Describe A as the atoms meet it: of the element type that its prolog leaves."""
        return self._met("A")

    @property
    def right(self: MatMulChain) -> Tensor:
        """Describe B as the atoms meet it."""
        return self._met("B")

    def _met(self, role: str) -> Tensor:
        found = self.residual.operand(role)
        assert found is not None
        same = found.computed == found.tensor.dtype
        return found.tensor if same else attrs.evolve(found.tensor, dtype=found.computed)

    @property
    def whole_operands(self: MatMulChain) -> tuple[Tensor, ...]:
        """List the tensors of C's shape that `then`'s ops read, and C where it is accumulated: `epilog(early=...)`.

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
        """Count the neighbours along K that prologs multiply by one value: `split` by a divisor takes `promote`.

        0 where values hold for all of K, None where there is no prolog, or one does more than to multiply.

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
        """Give what the chain computes: its ops are called, since functions may do something else each time.

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
        """List chains to send to another process instead: one whose ops are what they make, and the bare product."""
        from fireiron.front.matmul import portable

        return portable(self)

    @property
    def batch(self: FoldChain[B]) -> int | None:
        """Size a tile of one matrix, for `tile(m, n, batch=spec.batch)`: 1 with a batch or groups, None without."""
        return 1 if BATCH in self.residual.extents else None

    @property
    def function(self: LayerChain) -> Value:
        """Give a layer's function of its accumulator."""
        return next(layer.value for layer in self.layers.layers if layer.weights == self.weights)

    @property
    def weights(self: LayerChain) -> Tensor:
        """Give a layer's weights: K x N, or a batch of them."""
        b = self._origin.operand("B")
        assert b is not None
        return b.tensor

    @property
    def sizes(self: LayerChain) -> tuple[int, int, int]:
        """Give rows of a block, width of the result, and width of A."""
        found = tuple(size for dim, size in self._origin.sizes if dim != BATCH)
        return cast("tuple[int, int, int]", found)


class Loaded(LoadRefinements, Chain[S]):
    """A chain whose last link is a load: its refinements, or another link, come next."""


class SplitFold(SplitRefinements[S], FoldChain[S]):
    """A chain whose last link is a split: refinements of the loop over chunks, or of the units that take them."""


class Tiled(TileRefinements, Chain[S]):
    """A chain whose last link is a tile."""

    def pipeline(self: Tiled[Move], stages: int) -> Tiled[Move]:
        """Give the buffers right below a ring of slots, which the tiles of a Move take in turn.

        A slot that a bulk store reads is waited for when its turn comes again.

        Args:
            stages: slots.

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
        """Load the inputs that go to SH below `stages - 1` tiles ahead, in as many ring slots.

        The tile is a loop: persistent, or a tile without a level. What does not move with the tiles is loaded once.

        Args:
            stages: slots, 2 or more.

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
        self._check(rules.pipeline, stages, 0, 2)
        (*_, link) = self.links
        assert isinstance(link, Tile)
        self._check(program_rules.pipeline, link, stages)
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
